"""The one loop of iLQR and DDP: expand, find a direction, search along it, adapt mu.

    repeat
        expand to first order; where the last predicted decrease was a small part of the cost, with all curvature, if
        the multiplier of the dynamics is known: exact sweep, kept if positive definite
        else Gauss-Newton sweep, mu raised until Quu + mu I is positive definite; exact sweep with its multiplier
        (`trajopt.solvers.iteration`; under constraints `trajopt.solvers.constrained`)
        stop if the predicted decrease -(d1 + d2/2) is within the tolerance and mu is small, and constraints are met
        first acceptable step length; where it is short, along other directions (`trajopt.solvers.line_search`)
    mu down after a long step, up after a short one (without gaps) or none; multipliers moved

iLQR never has curvature.  DDP switches it on late, when the trajectory is nearly right: exact Quu is almost always
indefinite far from an optimum, and no regularization of it was found to be as good as a Gauss-Newton step there.

An iteration makes a new `State` of the one before, which stays as it is.  A `Formulation` defines what the sweep's
controls are, and how trajectories follow from them.  A single iteration, as in predictive control, is another
algorithm: `trajopt.solvers.real_time`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from trajopt.backward.regularization import LONG_STEP, LONGEST, Regularization, curvature_scale
from trajopt.results.records import IterationRecord, Progress, Status
from trajopt.solvers.formulation import CONVEXIFIED, Direction, Formulation, Iterate, LocalModel, noise
from trajopt.solvers.iteration import IDLE, Log, State, Unconstrained, expected_decrease, left_of, record_of
from trajopt.solvers.line_search import WORSE, Rejected, Step, TrialStep, visible
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.program import steps_without_python

Callback = Callable[[Progress], bool | None]


@dataclass(frozen=True)
class Loop:
    """Improves an iterate until it has a status.

    Parameters
    ----------
    formulation : Formulation
        Transcription of the problem, with the objective.
    options : LoopOptions
    constraints : Unconstrained
        What an iteration does for constraints.
    optimum : (float, float) or None
        Largest gradient entry and predicted decrease at the end of the solve that is the warm start.
    """

    formulation: Formulation
    options: LoopOptions
    constraints: Unconstrained
    optimum: tuple[float, float] | None = None
    compiled: ClassVar[bool] = True
    """True if compiled code may make its iterations (`trajopt.solvers.compiled`)."""

    def run(
        self,
        start: Iterate,
        callback: Callback | None,
        predicted: float = np.inf,
        log: Log = (),
        best: State | None = None,
        until: int | None = None,
    ) -> State:
        """Iterate until there is a status, from an iterate of finite cost; `predicted` 0 lets exact steps begin at
        once; best: the best state that is already known, for a solve that its time limit ends; until: the number of
        records after which to stop without a status."""
        try:
            state = self.begin(start, predicted, log)
        except KeyboardInterrupt:
            return self.ended(self.begin(start, np.inf, log), Status.INTERRUPTED)
        return self.go_on(state, callback, best, until)

    def go_on(
        self, state: State, callback: Callback | None, best: State | None = None, until: int | None = None
    ) -> State:
        """Iterate from a state; see `run`."""
        stopping = False

        def keep(state: State) -> None:
            nonlocal best
            if best is None or self.rank(state) <= self.rank(best):
                best = state

        try:
            while until is None or state.tried < until:
                if self.formulation.clock.limit is not None:
                    keep(state)
                if self.compiled and not stopping and (self.optimum is None or state.tried > 0):
                    state, stopping = steps_without_python(self.constraints, state, callback, until, keep)
                    if state.status is Status.INTERRUPTED:
                        raise KeyboardInterrupt
                    if state.status is not None or (until is not None and state.tried >= until):
                        return state
                state = self.step(state, stopping)
                if state.status is Status.TIME_LIMIT and best is not None:
                    return self.ended(best._replace(log=state.log), Status.TIME_LIMIT)
                if state.status is not None:
                    return state
                if callback is not None:
                    iterate = state.model.iterate
                    stopping = bool(callback(Progress.of(state.log[-1], iterate.xs, iterate.us)))
            return state
        except KeyboardInterrupt:
            return self.ended(state, Status.INTERRUPTED)

    def begin(self, start: Iterate, predicted: float = np.inf, log: Log = ()) -> State:
        """The state before the first step."""
        state = self.constraints.begin(start, self.formulation.curvature.wanted(predicted, start), log)
        return state._replace(regularization=self._regularization(state.model), predicted=predicted)

    def _regularization(self, model: LocalModel) -> Regularization:
        """The first regularization, in the unit of the model's curvature."""
        first, limit = self.options.initial_regularization, self.options.max_regularization
        return Regularization(first, limit, scale=curvature_scale(model.expansion))

    def step(self, state: State, stopping: bool = False) -> State:
        """One iteration; the status of its result is the reason to stop, None to go on; stopping: True if the callback
        asks to stop."""
        if not self.formulation.clock.over:
            state = self.constraints.before_iteration(state, self._solve_another)
        if self.formulation.clock.over:
            return state._replace(status=Status.TIME_LIMIT)
        if state.status is not None:
            return state._replace(log=(*state.log, self._record(state, None, None)))
        exact = self.formulation.curvature.wanted(state.predicted, state.model.iterate)
        uncertain = noise(self.formulation.problem, state.model)
        enough = self._enough(state.model, uncertain)
        found = self.constraints.find_direction(state, exact, enough)
        state = found.of(state)
        status = Status.STOPPED_BY_CALLBACK if stopping else found.status or self._end(state, enough)
        if status is not None or found.direction is None:
            return state._replace(status=status, log=(*state.log, self._record(state, found.direction, None)))
        trial = found.trial or self.constraints.search(found, state.gap_weight, uncertain)
        return self._after(state, found.direction, trial)

    def _after(self, state: State, direction: Direction, trial: TrialStep) -> State:
        """The state after a search from it along a direction, which has used that one or another."""
        used, step, rejected = trial
        if used is not direction:
            weight, predicted = expected_decrease(state.model.iterate, used, state.gap_weight)
            state = state._replace(predicted=predicted, gap_weight=weight)
        state = state._replace(log=(*state.log, self._record(state, used, step)))
        if step is not None:
            return self._stepped(state, used, step)
        state = self._stuck(state, rejected)
        return state if state.status is None else state._replace(log=(*state.log, self._record(state, used, None)))

    def _stepped(self, state: State, used: Direction, step: Step) -> State:
        """The state after a step along a direction."""
        closing = state.model.iterate.gaps is not None
        m, gain = self.constraints.after_step(state, used, step), state.model.iterate.cost - step.cost
        iterate, before = step.end(state.model.iterate.gaps, self.formulation.clock.elapsed), (state.model, used.sweep)
        exact = self.formulation.curvature.wanted(state.predicted, iterate)
        model = self.constraints.expand(iterate, exact, before if step.alpha == 1.0 else None, m)
        if step.alpha < LONG_STEP and not closing:
            model, m = self.constraints.relaxed(model, m)
        excused = closing or (step.alpha < LONG_STEP and self._invisible(state))
        regularization = state.regularization.after_step(step.alpha, excused)
        if used.kind == CONVEXIFIED:
            regularization = regularization.after_convexified(step.alpha, gain, state.predicted)
        last = state.direction
        if self.formulation.clock.limit is not None:
            last = left_of(self.formulation, state.model.iterate, used, step)
        return State(
            model=model, regularization=regularization, predicted=state.predicted, log=state.log, multipliers=m,
            feasibility=state.feasibility, gap_weight=state.gap_weight, direction=last,
            stall=state.stall.after_step(closing, gain, step.cost),
        )  # fmt: skip

    def _stuck(self, state: State, rejected: Rejected) -> State:
        """The state after a search without an acceptable step."""
        idle, before = state.stall
        state = state._replace(stall=state.stall._replace(rejected=before.then(rejected)))
        model, m = self.constraints.relaxed(state.model, state.multipliers)
        if m is not state.multipliers:
            return state._replace(model=model, multipliers=m)
        status, harder = self._end_without_step(state), state.regularization.increased()
        stall = state.stall._replace(idle=idle + IDLE * self._invisible(state))
        return state._replace(status=status, regularization=harder, stall=stall)

    def _solve_another(self, constraints: Unconstrained, start: Iterate, log: Log, until: int) -> State:
        """The state after a solve under other constraints."""
        other = replace(self, formulation=constraints.formulation, constraints=constraints, optimum=None)
        state = other.run(start, None, np.inf, log, until=until)
        if state.status is Status.INTERRUPTED:  # not of that solve alone
            raise KeyboardInterrupt
        return state

    # ------------------------------------------------------------------------------------------------ ends
    def _end(self, state: State, enough: float) -> Status | None:
        """The status with which to stop before a step, None to go on; enough: a decrease that counts as zero."""
        iterate = state.model.iterate
        if state.tried == 0 and self._given_back(state, enough):
            return Status.CONVERGED
        if state.multipliers is not None and state.stall.idle >= IDLE:  # their terms round off more than the cost
            enough = max(enough, visible(state.model))
        reached = state.regularization.small and iterate.gaps is None and state.predicted <= enough
        converged = reached and self.constraints.satisfied(state.model)
        invisible = state.stall.idle >= LONGEST and self._invisible(state)
        return state.end(converged, self.options.max_iterations, invisible)

    def _given_back(self, state: State, enough: float) -> bool:
        """True if the start is an optimum at which a solve of this problem has ended, with its multipliers."""
        model = state.model
        if self.optimum is None or model.iterate.gaps is not None:
            return False
        gradient, promise = self.optimum
        little = promise <= max(enough, visible(model))
        stationary = little and model.gradient_norm <= WORSE * gradient
        return stationary and self.constraints.satisfied(model, None if model.rows is None else model.rows.dual)

    def _end_without_step(self, state: State) -> Status | None:
        """The status with which to stop after a line search without an acceptable step, None to try again with a larger
        mu."""
        if state.regularization.small and self._invisible(state):
            if self.constraints.satisfied(state.model):
                return Status.CONVERGED
        if not state.regularization.increased().exhausted:
            return None
        return Status.LINE_SEARCH_FAILED if state.stall.rejected.blocked is None else Status.NOT_FINITE

    def _enough(self, model: LocalModel, uncertain: float) -> float:
        """The predicted decrease that counts as zero, `uncertain` being the standard deviation of the cost."""
        return max(self.options.tolerance * abs(model.iterate.own_cost), self.options.absolute_tolerance, uncertain)

    def _invisible(self, state: State) -> bool:
        """True if the predicted decrease is below the rounding of the cost."""
        return state.model.iterate.gaps is None and state.predicted <= visible(state.model)

    def rank(self, state: State) -> tuple[float, float, float]:
        """Rank of a state, smaller is better: sum of gaps; largest violation beyond the tolerance, else 0; cost.

        An iterate later on need not be better: gaps are closed, and constraints met, at the expense of the cost."""
        return state.model.iterate.total_gap, *self.constraints.rank(state.model)

    # ------------------------------------------------------------------------------------------------ the log
    def ended(self, state: State, status: Status) -> State:
        """The state with this status and a record of its iterate, from which no direction was computed: the predicted
        decrease in it is that of the step to it."""
        last = self._record(state, None, None)._replace(predicted_decrease=state.predicted)
        return state._replace(status=status, log=(*state.log, last))

    def _record(self, state: State, direction: Direction | None, step: Step | None) -> IterationRecord:
        return record_of(state, self.constraints.violation(state.model), direction, step)
