"""The one loop of iLQR and DDP: expand, find a direction, search along it, adapt mu.

    repeat
        expand to first order; where the last predicted decrease was a small part of the cost, with all curvature, if
        the multiplier of the dynamics is known: exact sweep, kept if positive definite
        else Gauss-Newton sweep, mu raised until Quu + mu I is positive definite; exact sweep with its multiplier
        stop if the predicted decrease -(d1 + d2/2) is within the tolerance and mu is small
        first acceptable step length; where it is short, along other directions (`trajopt.solvers.attempts`)
    mu down after a long step, up after a short one (without gaps) or none

Exact curvature is thus switched on late, when the trajectory is nearly right: exact Quu is almost always indefinite far
from an optimum, and no regularization of it was found to be as good as a Gauss-Newton step there.

An iteration makes a new `State` of the one before, which stays as it is.  What the sweep's controls are, and how
trajectories follow from them, is the business of a `Formulation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trajopt.backward.regularization import Regularization
from trajopt.results.records import IterationRecord, Progress
from trajopt.results.status import Status
from trajopt.solvers.attempts import Attempts
from trajopt.solvers.iterate import (
    EXACT,
    GAUSS_NEWTON,
    Direction,
    Formulation,
    Iterate,
    LocalModel,
    remaining_gaps,
    with_gauss_newton,
)
from trajopt.solvers.line_search import INVISIBLE, Refused, Step, merit_weight
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.timing import Stopwatch

Callback = Callable[[Progress], bool | None]
Measures = Callable[[Iterate], tuple[float, float]]
"""The problem's own cost of an iterate and its largest constraint violation, for the log."""
Log = tuple[IterationRecord, ...]


class State(NamedTuple):
    """Where a solve has come to.

    model : of the last iterate
    regularization : for the next sweep
    predicted : decrease of the merit that the last direction promised for a full step
    gap_weight : of the gaps in the merit
    tried : steps so far
    direction : the last one found
    without_curvature : whether the iterate has curvature that is not finite, and the direction does without
    refused : what line searches met since the last step
    stopping : whether the callback wants an end
    status : why the solve has ended; None if it has not
    log : a record an iteration; the last one of a solve that has ended is the final iterate
    """

    model: LocalModel
    regularization: Regularization
    predicted: float
    log: Log
    gap_weight: float = 0.0
    tried: int = 0
    direction: Direction | None = None
    without_curvature: bool = False
    refused: Refused = Refused()
    stopping: bool = False
    status: Status | None = None


class Found(NamedTuple):
    """The direction of an iteration with the model and the regularization it was found with; None and why if none."""

    direction: Direction | None
    model: LocalModel
    regularization: Regularization
    without_curvature: bool = False
    status: Status | None = None


def expected_decrease(iterate: Iterate, direction: Direction, gap_weight: float) -> tuple[float, float]:
    """The weight of the gaps, and the decrease of the merit that the model predicts for a full step."""
    gap = iterate.total_gap
    weight = merit_weight(gap_weight, direction.change, gap, iterate.cost)
    return weight, max(0.0, weight * gap - direction.change)


@dataclass(frozen=True)
class Loop:
    """Improves an iterate until an end with a name.

    Parameters
    ----------
    formulation : Formulation
        How the problem is posed, and what is minimized.
    options : LoopOptions
    threshold : float or None
        Exact steps once the predicted decrease is below this fraction of the cost; None: never.
    clock : Stopwatch
    measures : Measures
    """

    formulation: Formulation
    options: LoopOptions
    threshold: float | None
    clock: Stopwatch
    measures: Measures

    def run(self, start: Iterate, callback: Callback | None, predicted: float = np.inf, log: Log = ()) -> State:
        """Iterate until an end, from an iterate of finite cost; `predicted` 0 lets exact steps begin at once."""
        state = None
        try:
            state = self.begin(start, predicted, log)
            while True:
                state = self.step(state)
                if state.status is not None:
                    return state
                if callback is not None:
                    iterate = state.model.iterate
                    stopping = bool(callback(Progress(state.log[-1], iterate.xs, iterate.us)))
                    state = state._replace(stopping=stopping)
        except KeyboardInterrupt:
            state = state or self.begin(start, np.inf, log)
            return state._replace(status=Status.INTERRUPTED, log=(*state.log, self._record(state, None, None)))

    def begin(self, start: Iterate, predicted: float = np.inf, log: Log = ()) -> State:
        """The state before the first step."""
        model = self.formulation.expand(start, self.clock, self._exact_wanted(predicted, start))
        options = self.options
        return State(model, Regularization(options.initial_regularization, options.max_regularization), predicted, log)

    def step(self, state: State) -> State:
        """One iteration; its status says why to stop before a step or after it, None to go on."""
        direction, model, regularization, without_curvature, lost = self._directed(state)
        weight, predicted = state.gap_weight, 0.0
        if direction is not None:
            weight, predicted = expected_decrease(model.iterate, direction, weight)
        state = State(  # all of it: `_replace` takes microseconds
            model, regularization, predicted, state.log, weight, state.tried, direction or state.direction,
            without_curvature, state.refused, state.stopping,
        )  # fmt: skip
        status = self._end(state, lost)
        if status is not None or direction is None:
            return state._replace(status=status, log=(*state.log, self._record(state, direction, None)))
        attempts = Attempts(self.formulation, model, regularization.mu, weight, self.clock)
        used, step, _, refused = attempts.best(direction)
        if used is not direction:
            weight, predicted = expected_decrease(model.iterate, used, weight)
            state = state._replace(predicted=predicted, gap_weight=weight)
        tried, log = state.tried + 1, state.log + (self._record(state, used, step),)
        if step is None:
            state = state._replace(tried=tried, log=log, refused=state.refused.then(refused))
            return state._replace(status=self._end_without_step(state), regularization=regularization.increased())
        regularization = regularization.after_step(step.alpha, model.iterate.gaps is not None)
        model = self._moved(state, used, step)
        return State(model, regularization, predicted, log, weight, tried, direction, without_curvature)

    def _moved(self, state: State, used: Direction, step: Step) -> LocalModel:
        """The next model; where the full step of a sweep led there, that may know the multiplier of an exact one."""
        alpha, xs, us, controls = step.candidate
        left = remaining_gaps(state.model.iterate.gaps, alpha, xs)
        iterate = Iterate(xs, us, controls, step.cost, left, self.clock.elapsed)
        before = (state.model, used.sweep) if alpha == 1.0 else None
        return self.formulation.expand(iterate, self.clock, self._exact_wanted(state.predicted, iterate), before)

    # ------------------------------------------------------------------------------------------------ direction
    def _exact_wanted(self, predicted: float, iterate: Iterate) -> bool:
        """Whether the last predicted decrease was small enough for an exact step from this iterate."""
        return self.threshold is not None and predicted < self.threshold * abs(iterate.cost)

    def _directed(self, state: State) -> Found:
        """The direction of this iteration, mu raised as it needs."""
        formulation, clock = self.formulation, self.clock
        model, regularization, knot, without_curvature = state.model, state.regularization, -1, False
        if not math.isfinite(model.gradient_norm):
            return Found(None, model, regularization, status=Status.INVALID_DERIVATIVES)
        exact = self._exact_wanted(state.predicted, model.iterate)
        if exact and model.exact is None:
            model = formulation.with_curvature(model, None, clock)
        if exact and model.exact is not None:
            newton = formulation.sweep(model, regularization.mu, clock, EXACT)
            if newton.ok:
                return Found(Direction(EXACT, newton, None, -1), model, regularization)
            exact, knot, without_curvature = False, newton.failed_knot, not newton.finite
        model = with_gauss_newton(formulation, model, clock)
        gauss_newton = formulation.sweep(model, regularization.mu, clock)
        while not gauss_newton.ok:
            if not gauss_newton.finite:
                return Found(None, model, regularization, without_curvature, Status.INVALID_DERIVATIVES)
            knot, regularization = gauss_newton.failed_knot, regularization.increased()
            if regularization.exhausted:
                return Found(None, model, regularization, without_curvature, Status.NOT_POSITIVE_DEFINITE)
            gauss_newton = formulation.sweep(model, regularization.mu, clock)
        if exact:
            whole = formulation.with_curvature(model, gauss_newton.Vx, clock)
            newton = formulation.sweep(whole, regularization.mu, clock, EXACT)
            if newton.ok:
                return Found(Direction(EXACT, newton, gauss_newton, knot), model, regularization, without_curvature)
            knot, without_curvature = newton.failed_knot, not newton.finite
        return Found(Direction(GAUSS_NEWTON, gauss_newton, None, knot), model, regularization, without_curvature)

    # ------------------------------------------------------------------------------------------------ ends
    def _end(self, state: State, lost: Status | None) -> Status | None:
        """Why to stop before a step, None to go on; `lost`: why there is no direction."""
        if state.stopping:
            return Status.STOPPED_BY_CALLBACK
        if lost is not None:
            return lost
        iterate = state.model.iterate
        enough = max(self.options.tolerance * abs(iterate.cost), self.options.absolute_tolerance)
        if state.regularization.small and iterate.gaps is None and state.predicted <= enough:
            return Status.CONVERGED
        return Status.MAX_ITERATIONS if state.tried >= self.options.max_iterations else None

    def _end_without_step(self, state: State) -> Status | None:
        """Why to stop after a line search without an acceptable step, None to try again with a larger mu."""
        iterate = state.model.iterate
        invisible = state.predicted <= INVISIBLE * abs(iterate.cost)
        if state.regularization.small and iterate.gaps is None and invisible:
            return Status.CONVERGED  # what is left to gain is below the rounding of the cost
        if not state.regularization.increased().exhausted:
            return None
        return Status.LINE_SEARCH_FAILED if state.refused.blocked is None else Status.NOT_FINITE

    # ------------------------------------------------------------------------------------------------ the log
    def _record(self, state: State, direction: Direction | None, step: Step | None) -> IterationRecord:
        iterate = state.model.iterate
        cost, violation = self.measures(iterate)
        return IterationRecord(
            iteration=len(state.log),
            cost=cost,
            predicted_decrease=0.0 if direction is None else state.predicted,
            actual_decrease=0.0 if step is None else iterate.cost - step.cost,
            gradient_norm=state.model.gradient_norm,
            alpha=0.0 if step is None else step.alpha,
            mu=state.regularization.mu,
            step=GAUSS_NEWTON if direction is None else direction.kind,
            time=iterate.time,
            gap=0.0 if iterate.gaps is None else float(np.abs(iterate.gaps).max()),
            violation=violation,
            indefinite_knot=-1 if direction is None else direction.indefinite_knot,
        )
