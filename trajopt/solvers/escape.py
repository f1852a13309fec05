"""Leaving saddles: where a solve ends without a definite exact sweep, the curvature at its end is examined.

Gauss-Newton steps stop at any stationary point.  A definite exact sweep without regularization proves a minimum, and
most solves end with one; otherwise the reduced Hessian is factored, at the cost of a sweep.  At a saddle the trajectory
moves along the eigenvector of its smallest eigenvalue, in both directions, and the solve goes on from there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajopt.backward.expansions import finite
from trajopt.optimality.certificate import Certificate, certificate
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.optimality.kkt_system import Indefinite, KKTSystem
from trajopt.optimality.points import point_of
from trajopt.results.records import Status
from trajopt.solvers.iterate import EXACT, Direction, Formulation, Iterate, Stopwatch, closed_loop
from trajopt.solvers.predicted_change import linear_step
from trajopt.solvers.state import State
from trajopt.solvers.trial_steps import TrialSteps

ESCAPES = 3
"""Largest number of saddles that one solve leaves."""
FAR = 10.0
"""Longest step along the eigenvector, in units of the largest control, or of 1 if that is smaller."""
SHORTER = 2.0**-8
VISIBLE = 1e-10
"""Fraction of the cost that an escape must gain."""
ESCAPE = "escape"
"""Kind of such a step in the log."""


class Saddle(NamedTuple):
    """A converged point that is no strict minimum: its certificate, the better trajectory that its curvature leads to
    (None if none was found), and the decrease of the cost there."""

    certificate: Certificate
    escape: Iterate | None
    gain: float


def saddle(formulation: Formulation, state: State, clock: Stopwatch) -> Saddle | None:
    """The saddle at which a solve has converged; None at a minimum, or where the certificate is undecided."""
    if state.status is not Status.CONVERGED or _known_minimum(state):
        return None
    with clock.measure("derivatives"), np.errstate(all="ignore"):
        point = _point(formulation, state)
        if not finite(*point.e):
            return None
        try:
            KKTSystem(point)
            return None
        except Indefinite:
            found = certificate(point)
    if found.minimum is not False:
        return None
    return Saddle(found, *_escape(formulation, state, point, found, clock))


def _known_minimum(state: State) -> bool:
    """True if the last sweep was exact, without regularization, and about this iterate."""
    return _last(state).kind == EXACT and state.regularization.mu == 0.0


def _last(state: State) -> Direction:
    """The last direction of a converged solve."""
    assert state.direction is not None
    return state.direction


def _point(formulation: Formulation, state: State) -> KKTPoint:
    model, rows, m = state.model, formulation.rows, state.multipliers
    nu = np.zeros(0) if model.rows is None else model.rows.dual
    (xs, us, *_), penalty = model.iterate, 0.0 if m is None else m.penalty
    K = formulation.policy(model, _last(state).sweep)[1]
    return point_of(formulation.problem, xs, us, rows, nu, penalty, formulation.limits, K)


def _escape(
    formulation: Formulation, state: State, point: KKTPoint, found: Certificate, clock: Stopwatch
) -> tuple[Iterate | None, float]:
    """The best trajectory along the certificate's direction, tried with both signs and several lengths under the last
    gains, and its decrease of the cost; (None, 0) if none gains enough."""
    model, problem, direction, sweep = state.model, formulation.problem, found.direction, _last(state).sweep
    assert direction is not None
    xs, us, K = point.xs, point.us, formulation.policy(model, sweep)[1]
    dx, _ = linear_step(point.e, None, sweep._replace(k=direction, K=np.zeros_like(K)))
    k = direction - np.einsum("tij,tj->ti", K, dx[:-1])
    merit = TrialSteps(formulation, model, state.multipliers, 0.0, 0.0, clock).merit
    length = FAR * max(1.0, float(np.abs(us).max())) / float(np.abs(direction).max())
    best, least = None, model.iterate.cost - VISIBLE * abs(model.iterate.cost)
    with clock.measure("rollouts"):
        for scale in (length, -length, SHORTER * length, -SHORTER * length):
            states, controls = closed_loop(problem, xs, us, scale * k, K, None, problem.control_limits)
            for xs_new, us_new in zip(states, controls, strict=True):
                cost = merit(xs_new, us_new)[0]
                if cost < least:
                    best, least = (np.array(xs_new, order="C"), np.array(us_new, order="C")), cost
    if best is None:
        return None, 0.0
    return formulation.start(best[1], best[0], clock)._replace(gaps=None), model.iterate.cost - least
