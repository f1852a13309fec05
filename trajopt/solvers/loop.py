"""The one loop of iLQR and DDP: expand, find a direction, search along it, adapt mu.

    repeat
        expand to first order; where the last predicted decrease was a small part of the cost, with all curvature, if
        the multiplier of the dynamics is known: exact sweep, kept if positive definite
        else Gauss-Newton sweep, mu raised until Quu + mu I is positive definite; exact sweep with its multiplier
        stop if the predicted decrease -(d1 + d2/2) is within the tolerance and mu is small
        first acceptable step length; where it is short, other directions: with the limits of constraints that the full
        step runs into taken to press (a primal-dual active set step), with clipped controls held, Gauss-Newton
    mu down after a long step, up after a short one (without gaps) or none

Exact curvature is thus switched on late, when the trajectory is nearly right: exact Quu is almost always indefinite far
from an optimum, and no regularization of it was found to be as good as a Gauss-Newton step there.

What the sweep's controls are, and how trajectories follow from them, is the business of a `Formulation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain

import numpy as np

from trajopt.backward.regularization import Regularization
from trajopt.backward.sweep import SweepResult
from trajopt.problem.objective import Objective, all_finite
from trajopt.results.records import IterationRecord, Progress
from trajopt.results.status import Status
from trajopt.solvers.iterate import (
    EXACT,
    GAUSS_NEWTON,
    Direction,
    Formulation,
    Iterate,
    LocalModel,
    remaining_gaps,
    sweep_of_kind,
)
from trajopt.solvers.line_search import INVISIBLE, Candidate, Refused, Step, merit_weight, search
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.timing import Stopwatch

LONG_STEP = 0.25
"""A step that must be shorter than this is compared with others: controls held at limits, no curvature."""
HOLDS = 8
FORESIGHTS = 3
"""Directions tried with other limits of constraints taken to press, held controls aside."""

Callback = Callable[[Progress], bool | None]
Measures = Callable[[Iterate], tuple[float, float]]
"""The problem's own cost of an iterate and its largest constraint violation, for the log."""


def _long(step: Step | None) -> bool:
    return step is not None and step.alpha >= LONG_STEP


def _better(one: tuple[Direction, Step | None], other: tuple[Direction, Step | None]) -> tuple[Direction, Step | None]:
    """The one whose step leads to the lower cost."""
    if other[1] is None or (one[1] is not None and one[1].cost <= other[1].cost):
        return one
    return other


class Loop:
    """Improves an iterate until an end with a name.

    Parameters
    ----------
    formulation, objective
        How the problem is posed, and what is minimized.
    start : Iterate
        Its cost must be finite.
    options : LoopOptions
    threshold : float or None
        Exact steps once the predicted decrease is below this fraction of the cost; None: never.
    clock : Stopwatch
    log : list of IterationRecord
        Grows by a record an iteration; the last record is the final iterate.
    measures : Measures
    late : bool
        Whether exact steps may begin at once.

    Attributes
    ----------
    model : LocalModel
        Of the last iterate.
    refused : Refused
        What a line search met there.
    without_curvature : bool
        Whether it has curvature that is not finite, and the last direction does without.
    """

    def __init__(
        self,
        formulation: Formulation,
        objective: Objective,
        start: Iterate,
        options: LoopOptions,
        threshold: float | None,
        clock: Stopwatch,
        log: list[IterationRecord],
        measures: Measures,
        late: bool = False,
    ) -> None:
        self.formulation, self.objective, self.options, self.threshold = formulation, objective, options, threshold
        self.clock, self.log, self.measures = clock, log, measures
        self.regularization = Regularization(options.initial_regularization, options.max_regularization)
        self.model: LocalModel
        self.trial: Candidate
        self.direction: Direction | None
        self.weight, self.predicted, self.tried = 0.0, 0.0 if late else np.inf, 0
        self.start, self.direction, self.refused = start, None, Refused()
        self.invalid, self.without_curvature = False, False

    def run(self, max_iterations: int, callback: Callback | None) -> Status:
        """Iterate until an end; at most so many steps are tried."""
        stopping = False
        try:
            self.model = self.formulation.expand(self.start, self.clock, self._late(self.start.cost))
            while True:
                status = self._iterate(self.tried >= max_iterations, stopping)
                if status is not None:
                    return status
                iterate = self.model.iterate
                stopping = callback is not None and bool(callback(Progress(self.log[-1], iterate.xs, iterate.us)))
        except KeyboardInterrupt:
            if not hasattr(self, "model"):
                self.model = self.formulation.expand(self.start, self.clock)
            self._record(None, None)
            return Status.INTERRUPTED

    def _iterate(self, enough: bool, stopping: bool) -> Status | None:
        """One step; why to stop, None to go on."""
        found = self._direction()
        self.direction = found or self.direction
        self.predicted = 0.0 if found is None else self._predicted(found)
        status = self._end(found, enough, stopping)
        if status is not None or found is None:
            self._record(found, None)
            return status
        used, step = self._step(found)
        self.tried += 1
        self.predicted = self._predicted(used)
        self._record(used, step)
        if step is None:
            status = self._end_without_step()
            self.regularization = self.regularization.increased()
            return status
        self.refused = Refused()
        closing = self.model.iterate.gaps is not None
        self.regularization = self.regularization.after_step(step.alpha, closing)
        self.model = self._expanded(self._moved(step), used.sweep if step.alpha == 1.0 else None)
        return None

    def _expanded(self, iterate: Iterate, sweep: SweepResult | None) -> LocalModel:
        """The next model; where the full step of a sweep led there, that may know the multiplier of an exact one."""
        late, multiplier = self._late(iterate.cost), None
        if late and sweep is not None:
            multiplier = self.formulation.predicted(self.model, sweep, iterate, self.clock)
        return self.formulation.expand(iterate, self.clock, late, multiplier)

    def _moved(self, step: Step) -> Iterate:
        alpha, xs, us, controls = step.candidate
        left = remaining_gaps(self.model.iterate.gaps, alpha, xs)
        return Iterate(xs, us, controls, step.cost, left, self.clock.elapsed)

    def _predicted(self, direction: Direction) -> float:
        """Decrease of the merit that the model predicts for a full step."""
        gap = self.model.iterate.total_gap
        self.weight = merit_weight(self.weight, direction.change, gap, self.model.iterate.cost)
        return max(0.0, self.weight * gap - direction.change)

    # ------------------------------------------------------------------------------------------------ direction
    def _direction(self) -> Direction | None:
        """The direction of this iteration, mu raised as it needs; None if no sweep is positive definite."""
        self.invalid, self.without_curvature = not math.isfinite(self.model.gradient_norm), False
        if self.invalid:
            return None
        late, knot = self._late(self.model.iterate.cost), -1
        if late and not self.formulation.needs_gauss_newton(self.model):
            newton = self.formulation.exact_sweep(self.model, None, self.regularization.mu, self.clock)
            if newton.ok:
                return Direction(EXACT, newton, None, knot)
            late, knot, self.without_curvature = False, newton.failed_knot, not newton.finite
            if self.model.exact:
                self.model = self.formulation.expand(self.model.iterate, self.clock)
        gauss_newton = self.formulation.sweep(self.model, self.regularization.mu, self.clock)
        while not gauss_newton.ok:
            self.invalid = not gauss_newton.finite
            if self.invalid:
                return None
            knot = gauss_newton.failed_knot
            self.regularization = self.regularization.increased()
            if self.regularization.exhausted:
                return None
            gauss_newton = self.formulation.sweep(self.model, self.regularization.mu, self.clock)
        if late:
            newton = self.formulation.exact_sweep(self.model, gauss_newton, self.regularization.mu, self.clock)
            if newton.ok:
                return Direction(EXACT, newton, gauss_newton, knot)
            knot, self.without_curvature = newton.failed_knot, not newton.finite
        return Direction(GAUSS_NEWTON, gauss_newton, None, knot)

    def _late(self, cost: float) -> bool:
        """Whether the last predicted decrease was small enough for an exact step from a trajectory of this cost."""
        return self.threshold is not None and self.predicted < self.threshold * abs(cost)

    # ------------------------------------------------------------------------------------------------ ends
    def _end(self, found: Direction | None, tried_enough: bool, stopping: bool) -> Status | None:
        """Why to stop before a step, None to go on."""
        if stopping:
            return Status.STOPPED_BY_CALLBACK
        if found is None:
            return Status.INVALID_DERIVATIVES if self.invalid else Status.NOT_POSITIVE_DEFINITE
        enough = max(self.options.tolerance * abs(self.model.iterate.cost), self.options.absolute_tolerance)
        if self.regularization.small and self.model.iterate.gaps is None and self.predicted <= enough:
            return Status.CONVERGED
        return Status.MAX_ITERATIONS if tried_enough else None

    def _end_without_step(self) -> Status | None:
        """Why to stop after a line search without an acceptable step, None to try again with a larger mu."""
        invisible = self.predicted <= INVISIBLE * abs(self.model.iterate.cost)
        if self.regularization.small and self.model.iterate.gaps is None and invisible:
            return Status.CONVERGED  # what is left to gain is below the rounding of the cost
        if not self.regularization.increased().exhausted:
            return None
        return Status.LINE_SEARCH_FAILED if self.refused.blocked is None else Status.NOT_FINITE

    # ------------------------------------------------------------------------------------------------ step
    def _step(self, direction: Direction) -> tuple[Direction, Step | None]:
        """Search along the direction; where it is good for a short step at best, along others too."""
        step = self._search(direction)
        if _long(step):
            return direction, step
        direction, step = self._with_limits_foreseen(direction, step)
        if _long(step):
            return direction, step
        direction, step = self._with_clipped_controls_held(direction, step)
        if direction.kind == GAUSS_NEWTON or _long(step):
            return direction, step
        sweep = direction.fallback or self.formulation.sweep(self.model, self.regularization.mu, self.clock)
        if not sweep.ok:
            return direction, step
        fallback = Direction(GAUSS_NEWTON, sweep, None, direction.indefinite_knot)
        return _better((direction, step), (fallback, self._search(fallback)))

    def _with_limits_foreseen(self, direction: Direction, step: Step | None) -> tuple[Direction, Step | None]:
        """The best of directions that take those limits of constraints to press that the last full step ran into.

        The model of the iterate knows only of limits that press there [primal-dual active sets: Hintermueller, Ito
        and Kunisch 2002].
        """
        best, mu, seen = (direction, step), self.regularization.mu, set[bytes]()
        for _ in range(FORESIGHTS):
            if not (all_finite(self.trial.xs) and all_finite(self.trial.us)):
                break
            found = self.formulation.foresee(self.model, self.trial, direction.kind, mu, self.clock)
            if found is None:
                break
            sweep, limits = found
            if limits in seen or not sweep.ok or sweep.d1 >= 0.0:
                break
            seen.add(limits)
            other = direction._replace(sweep=sweep)
            best = _better(best, (other, self._search(other)))
            if _long(best[1]):
                break
        return best

    def _with_clipped_controls_held(self, direction: Direction, step: Step | None) -> tuple[Direction, Step | None]:
        """The best of directions that hold ever more of the controls that limits clip."""
        best, model, sweep, mu = (direction, step), self.model, direction.sweep, self.regularization.mu
        for _ in range(HOLDS):
            held = self.formulation.hold_clipped(model, sweep)
            if held is None:
                break
            model = held
            sweep = sweep_of_kind(self.formulation, model, direction.kind, mu, self.clock)
            if not sweep.ok:
                break
            other = direction._replace(sweep=sweep)
            best = _better(best, (other, self._search(other)))
            if _long(best[1]):
                break
        return best

    def _search(self, direction: Direction) -> Step | None:
        iterate, sweep = self.model.iterate, direction.sweep
        weighted = self.weight * iterate.total_gap
        with self.clock.measure("rollouts"):
            candidates = iter(self.formulation.candidates(self.model, sweep))
            self.trial = next(candidates)
            tried = chain([self.trial], candidates)
            return search(self.objective, iterate.cost, (sweep.d1, sweep.d2), tried, weighted, self.refused)

    # ------------------------------------------------------------------------------------------------ the log
    def _record(self, direction: Direction | None, step: Step | None) -> None:
        iterate = self.model.iterate
        cost, violation = self.measures(iterate)
        self.log.append(
            IterationRecord(
                iteration=len(self.log),
                cost=cost,
                predicted_decrease=0.0 if direction is None else self.predicted,
                actual_decrease=0.0 if step is None else iterate.cost - step.cost,
                gradient_norm=self.model.gradient_norm,
                alpha=0.0 if step is None else step.alpha,
                mu=self.regularization.mu,
                step=GAUSS_NEWTON if direction is None else direction.kind,
                time=iterate.time,
                gap=0.0 if iterate.gaps is None else float(np.abs(iterate.gaps).max()),
                violation=violation,
                indefinite_knot=-1 if direction is None else direction.indefinite_knot,
            )
        )
