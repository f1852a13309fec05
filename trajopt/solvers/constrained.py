"""The outer loop of the augmented Lagrangian [Nocedal and Wright 2006, algorithm 17.4].

    repeat
        minimize the augmented objective, loosely at first
        stop if violation, complementarity and the minimization are within their tolerances
        lam <- rho s;  rho <- growth rho where |s - lam/rho| did not fall fourfold

Each round starts from the trajectory of the last one, with exact steps at once.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trajopt.augmented_lagrangian import AugmentedLagrangian
from trajopt.objective import Objective
from trajopt.solution import IterationRecord
from trajopt.solvers.iterate import Formulation, Iterate
from trajopt.solvers.loop import Callback, Loop
from trajopt.solvers.options import LoopOptions
from trajopt.status import Status
from trajopt.timing import Stopwatch

FIRST_TOLERANCE = 1e-4
"""Predicted decrease, relative to the cost, that ends the first round."""
TIGHTENING = 1e-2
PROGRESS = 0.25
MAX_PENALTY = 1e14
FIRST_PENALTIES = 1e-2, 1e4
FINAL = (Status.STOPPED_BY_CALLBACK, Status.INTERRUPTED, Status.INVALID_DERIVATIVES, Status.MAX_ITERATIONS)


class Rounds(NamedTuple):
    """How the rounds ended: the last loop, its status, the terms with their multipliers, and steps tried in all."""

    loop: Loop
    status: Status
    terms: AugmentedLagrangian
    tried: int


def first_penalty(terms: AugmentedLagrangian, cost: float, xs: np.ndarray, us: np.ndarray) -> float:
    """A penalty for which the first violation costs as much as the objective, within FIRST_PENALTIES."""
    squares = 0.0
    for part in terms.parts:
        r = part.values(*part.points(xs, us))
        squares += 0.5 * float(((r - np.clip(r, part.lower, part.upper)) ** 2).sum())
    ratio = abs(cost) / squares if squares > 0.0 and np.isfinite(squares) else FIRST_PENALTIES[1]
    return float(np.clip(ratio, *FIRST_PENALTIES))


def minimize_in_rounds(
    pose: Callable[[Objective], Formulation],
    objective: Objective,
    terms: AugmentedLagrangian,
    start: Iterate,
    options: LoopOptions,
    threshold: float | None,
    clock: Stopwatch,
    log: list[IterationRecord],
    callback: Callback | None,
) -> Rounds:
    """Minimize the objective under the constraints behind the terms.

    Parameters: as of `Loop`; pose(objective) is the formulation of the problem with another objective, start an iterate
    of finite cost.
    """

    def measures(iterate: Iterate) -> tuple[float, float]:
        return objective.value(iterate.xs, iterate.us), terms.measures(iterate.xs, iterate.us).violation

    iterate, tried, before, tolerance = start, 0, np.inf, max(options.tolerance, FIRST_TOLERANCE)
    late = False
    while True:
        augmented = Objective((*objective.terms, *terms.terms()))
        iterate = iterate._replace(cost=augmented.value(iterate.xs, iterate.us), time=clock.elapsed)
        inner = replace(options, tolerance=tolerance)
        loop = Loop(pose(augmented), augmented, iterate, inner, threshold, clock, log, measures, late)
        status = loop.run(options.max_iterations - tried, callback)
        iterate, tried, late = loop.model.iterate, tried + loop.tried, True

        reached = terms.measures(iterate.xs, iterate.us)
        tight = tolerance <= options.tolerance
        if status in FINAL or (tight and _satisfied(reached, options) and iterate.gaps is None):
            return Rounds(loop, status, terms.updated(iterate.xs, iterate.us, 1.0), tried)
        growth = options.penalty_growth if reached.residual > PROGRESS * before else 1.0
        terms, before = terms.updated(iterate.xs, iterate.us, growth), reached.residual
        if max(part.penalty for part in terms.parts) > MAX_PENALTY:
            return Rounds(loop, Status.INFEASIBLE, terms, tried)
        tolerance = max(options.tolerance, TIGHTENING * tolerance)


def _satisfied(reached, options: LoopOptions) -> bool:
    return (
        reached.violation <= options.feasibility_tolerance
        and reached.complementarity <= options.complementarity_tolerance
    )
