"""Gains of a solution under constraints: they are to be deployed on a system, so they are computed with a moderate
penalty.

At a solution the penalty changes the model alone.  A large one makes K the feedback that keeps the rows exactly, about
1/h^2 just before a hard terminal equality, which amplifies noise.  Hence one more sweep at the same trajectory,

    rho = min(rho, 1e4 scale)        lam_e = lam, the dual iterate

whose k is as small as before, and whose K leaves a part of a disturbance of the rows.  A large penalty also compensates
for indefinite parts of the Lagrangian's Hessian; without it, the positive part of that is used, as in any iteration.
The active rows are those that are active where a step ends, for some may be within rounding of their limits.
"""

from __future__ import annotations

import numpy as np

from trajopt.backward.sweep import SweepResult
from trajopt.results.records import Status
from trajopt.rows.augmented_terms import change_of_rows
from trajopt.solvers.directions import Directions
from trajopt.solvers.iterate import GAUSS_NEWTON, Formulation, LocalModel, Stopwatch
from trajopt.solvers.multipliers import Multipliers
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.predicted_change import linear_step
from trajopt.solvers.state import State

LARGEST = 1e4
"""Largest penalty for deployed gains, in units of the cost's largest derivative at the start (`Multipliers.scale`)."""
SWEEPS, CROSSED = 3, 1e-6
"""Largest number of such sweeps; violation of scaled rows after the step of one sweep above which a row counts as
active in the next."""


def deployed_gains(
    formulation: Formulation, state: State, options: LoopOptions, clock: Stopwatch
) -> SweepResult | None:
    """The sweep that gives a solution its policy: the last one, None if there was none; after convergence under
    constraints with a large penalty, a sweep with a moderate one."""
    last, m = state.direction, state.multipliers
    if last is None:
        return None
    converged = state.status is Status.CONVERGED
    if m is None or options.soft_penalty > 0.0 or not converged or m.penalty <= LARGEST * m.scale:
        return last.sweep
    rows, softer = formulation.rows, m._replace(centre=m.dual, penalty=LARGEST * m.scale)
    assert rows is not None
    active, sweep = m.sides(rows, _end(formulation, state.model, last.sweep)), None
    for _ in range(SWEEPS):
        sweep = _sweep(formulation, state, softer, active, clock)
        if sweep is None:
            return last.sweep
        end = _end(formulation, state.model, sweep)
        crossed = (active == 0) & (np.abs(end - np.clip(end, rows.lower, rows.upper)) > CROSSED)
        if not crossed.any():
            break
        active = np.where(crossed, softer.sides(rows, end), active)
    return sweep


def _end(formulation: Formulation, model: LocalModel, sweep: SweepResult) -> np.ndarray:
    """Values (R,) of the linearized rows where the full step of a sweep ends."""
    rows, at = formulation.rows, model.rows
    assert rows is not None and at is not None
    return at.c + change_of_rows(rows.first, at.C, *linear_step(model.expansion, None, sweep, model.box))


def _sweep(
    formulation: Formulation, state: State, m: Multipliers, active: np.ndarray, clock: Stopwatch
) -> SweepResult | None:
    """Backward pass with these multipliers and these rows active; None if it failed."""
    rows, at = formulation.rows, state.model.rows
    assert rows is not None and at is not None and state.direction is not None
    model = state.model._replace(rows=at._replace(weights=m.weights(rows, at.c, active)[1]))
    exact = state.direction.kind != GAUSS_NEWTON
    found = Directions(formulation, clock).find(model, state.regularization, exact, near=True).direction
    return None if found is None else found.sweep
