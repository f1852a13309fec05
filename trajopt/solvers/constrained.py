"""The outer loop of the augmented Lagrangian [Nocedal and Wright 2006, algorithm 17.4].

    minimize with small penalties, very loosely; set the penalties by what that costs
    repeat
        minimize the augmented objective, loosely at first
        stop if violation, complementarity and the minimization are within their tolerances
        lam <- rho s;  rho <- growth rho where |s - lam/rho| did not fall fourfold, unless no step was wanted yet

Each round starts from the trajectory of the last one, with exact steps at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trajopt.problem.objective import Objective
from trajopt.results.status import Status
from trajopt.solvers.augmented_lagrangian import AugmentedLagrangian, Measures, Part
from trajopt.solvers.iterate import Formulation, Iterate
from trajopt.solvers.loop import Callback, Loop, State
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.timing import Stopwatch

PROBE_TOLERANCE, FIRST_TOLERANCE = 1e-2, 1e-4
"""Predicted decrease, relative to the cost, that ends the round with small penalties and the one after it."""
PROBE_SHARE = 3e-5
TIGHTENING = 1e-2
PROGRESS = 0.25
MAX_PENALTY, MAX_ROUNDS = 1e14, 60
LARGE_COST = 1e-3
"""Where this part of the cost exceeds 1, complementarity counts relative to it."""
FIRST_PENALTIES = 1e-6, 1e6
RANGE_SHARE, SLACK_SHARE, LEAST_SHARE = 0.1, 0.3, 0.03
FINAL = (
    Status.STOPPED_BY_CALLBACK, Status.INTERRUPTED, Status.INVALID_DERIVATIVES, Status.NOT_POSITIVE_DEFINITE,
    Status.MAX_ITERATIONS,
)  # fmt: skip


class Rounds(NamedTuple):
    """How the rounds ended: the last formulation and its solve, the status, the terms with their multipliers, and steps
    tried in all."""

    formulation: Formulation | None
    state: State | None
    status: Status
    terms: AugmentedLagrangian
    tried: int


def first_penalties(terms: AugmentedLagrangian, iterate: Iterate, share: float) -> AugmentedLagrangian:
    """Penalties for which a violation of typical size costs this share of the objective, within FIRST_PENALTIES.

    Typical is a tenth of the way between the limits, at one knot; where there is no such way, the iterate's violation,
    all knots together, but no less than a small part of its mean distance from limits that it keeps: what is violated a
    little by chance says nothing of a scale; where there is no violation, a third of that distance.
    """
    return terms.with_penalties(lambda part: _first_penalty(part, iterate, share))


def _first_penalty(part: Part, iterate: Iterate, share: float) -> float:
    r = part.values(*part.points(iterate.xs, iterate.us))
    violation = r - np.clip(r, part.lower, part.upper)
    width = part.upper - part.lower
    finite = np.isfinite(width) & (width > 0.0)
    if finite.any():
        size = RANGE_SHARE * float(width[finite].mean())
    else:
        slack = np.minimum(np.abs(r - part.lower), np.abs(r - part.upper))
        slack = slack[np.isfinite(slack) & (violation == 0.0)]
        distance = float(slack.mean()) if slack.size else 0.0
        if violation.any():
            size = max(float(np.sqrt(0.5 * (violation**2).sum())), LEAST_SHARE * distance)
        else:
            size = SLACK_SHARE * distance if slack.size else 1.0
    penalty = share * abs(iterate.cost) / size**2 if size > 0.0 and np.isfinite(size) else 1.0
    return float(np.clip(penalty, *FIRST_PENALTIES))


def minimize_in_rounds(
    formulation_of: Callable[[Objective], Formulation],
    objective: Objective,
    terms: AugmentedLagrangian,
    start: Iterate,
    options: LoopOptions,
    threshold: float | None,
    clock: Stopwatch,
    callback: Callback | None,
    warm: bool,
) -> Rounds:
    """Minimize the objective under the constraints behind the terms.

    Parameters: as of `Loop`; formulation_of(objective) is that of the problem with another objective,
    start an iterate of finite cost; `warm`: the terms' multipliers and penalties are those of an earlier solve.
    """
    probing = options.initial_penalty == 0.0 and not warm
    if probing:
        terms = first_penalties(terms, start, PROBE_SHARE)
    rounds = Rounds(None, None, Status.MAX_ITERATIONS, terms, 0)
    before, tolerance = np.full(len(terms.parts), np.inf), PROBE_TOLERANCE if probing else FIRST_TOLERANCE
    try:
        for number in range(MAX_ROUNDS):
            inner = replace(options, tolerance=max(options.tolerance, tolerance))
            rounds = _round(formulation_of, objective, rounds, start, inner, threshold, clock, callback)
            state, status, terms = rounds.state, rounds.status, rounds.terms
            assert state is not None
            iterate = state.model.iterate
            reached, cost = terms.measures(iterate.xs, iterate.us), objective.value(iterate.xs, iterate.us)
            done = tolerance <= options.tolerance and _satisfied(reached, cost, options) and iterate.gaps is None
            if done or status in FINAL or number == MAX_ROUNDS - 1:
                break
            if probing:
                terms = first_penalties(terms, iterate._replace(cost=cost), 1.0)
                probing, tolerance = False, FIRST_TOLERANCE
            else:
                idle = state.tried == 0 and tolerance > options.tolerance
                slow = (reached.residuals > PROGRESS * before) & (not idle)
                growth = np.where(slow, options.penalty_growth, 1.0)
                terms, before = terms.updated(iterate.xs, iterate.us, growth), reached.residuals
                tolerance = max(options.tolerance, TIGHTENING * tolerance)
                if max((part.penalty for part in terms.parts), default=0.0) > MAX_PENALTY:
                    return rounds._replace(status=_end(status, reached, options), terms=terms)
            rounds = rounds._replace(terms=terms)
        if not (done or status in FINAL):
            status = _end(status, reached, options)
        return rounds._replace(status=status, terms=terms.updated(iterate.xs, iterate.us))
    except KeyboardInterrupt:
        if rounds.state is None:
            raise
        return rounds._replace(status=Status.INTERRUPTED)


def _round(formulation_of, objective, rounds, start, options, threshold, clock, callback) -> Rounds:
    """Minimize with the multipliers and penalties of the rounds so far, from where the last one ended."""
    terms, tried = rounds.terms, rounds.tried
    augmented = Objective((*objective.terms, *terms.terms()))
    iterate, log = (start, ()) if rounds.state is None else (rounds.state.model.iterate, rounds.state.log)
    if len(log) > tried:
        log = log[:-1]  # this round records the same iterate
    iterate = iterate._replace(cost=augmented.value(iterate.xs, iterate.us), time=clock.elapsed)

    def measures(iterate: Iterate) -> tuple[float, float]:
        return objective.value(iterate.xs, iterate.us), terms.violation(iterate.xs, iterate.us)

    formulation, left = formulation_of(augmented), replace(options, max_iterations=options.max_iterations - tried)
    loop = Loop(formulation, left, threshold, clock, measures)
    state = loop.run(iterate, callback, 0.0 if tried > 0 else np.inf, log)
    assert state.status is not None
    return Rounds(formulation, state, state.status, terms, tried + state.tried)


def _end(last: Status, reached: Measures, options: LoopOptions) -> Status:
    """What to call an end without an optimum after the last round."""
    if last is Status.NOT_FINITE:
        return last
    return Status.MAX_ITERATIONS if reached.violation <= options.feasibility_tolerance else Status.INFEASIBLE


def _satisfied(reached: Measures, cost: float, options: LoopOptions) -> bool:
    """Whether violation and complementarity are within their tolerances."""
    slack = options.complementarity_tolerance * max(1.0, LARGE_COST * abs(cost))
    return reached.violation <= options.feasibility_tolerance and reached.complementarity <= slack
