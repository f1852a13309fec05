"""The policy of a solution under constraints: its gains are to be executed, so they are those of a moderate penalty.

At a solution the penalty changes the model alone.  A large one makes K the feedback that keeps the rows exactly, about
1/h^2 just before a hard terminal equality, and noise comes back with it.  Hence one more sweep at the same trajectory,

    rho = min(rho, 1e4 unit)        lam_e = lam, the dual iterate

whose k is as small as before, and whose K leaves a part of a disturbance of the rows.  A large penalty also made up for
what is indefinite of the Lagrangian's Hessian; without it, what is positive of that is used, as in any iteration.  The
rows that press are those of the model's minimum, for some may be within rounding of their limits.
"""

from __future__ import annotations

from trajopt.backward.sweep import SweepResult
from trajopt.results.status import Status
from trajopt.solvers.directions import Directions
from trajopt.solvers.iterate import GAUSS_NEWTON, Formulation
from trajopt.solvers.kinks import Kinks
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.state import State
from trajopt.solvers.steering import weighted
from trajopt.solvers.timing import Stopwatch

LARGEST = 1e4
"""Penalty of gains to be executed, in units of the cost's largest derivative at the start."""


def executed(formulation: Formulation, state: State, options: LoopOptions, clock: Stopwatch) -> SweepResult | None:
    """The sweep that a solution has its policy of: the last one, None without any; after convergence under constraints
    one with a moderate penalty."""
    last, m = state.direction, state.multipliers
    if last is None:
        return None
    if m is None or options.soft_penalty > 0.0 or state.status is not Status.CONVERGED:
        return last.sweep
    if m.penalty <= LARGEST * m.unit:
        return last.sweep
    m = m._replace(centre=m.dual, penalty=LARGEST * m.unit)
    model, exact = weighted(formulation, state.model, m), last.kind != GAUSS_NEWTON
    found = Directions(formulation, clock).find(model, state.regularization, exact, near=True)
    if found.direction is None:
        return last.sweep
    (expansion, _), mu = found.model.of_kind(found.direction.kind), found.regularization.mu
    return Kinks(formulation, found.model, m, expansion, mu, clock).minimum(found.direction).direction.sweep
