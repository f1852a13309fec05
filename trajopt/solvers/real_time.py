"""A single iteration, as in predictive control [real-time iteration, Diehl et al. 2002]: a solve of max_iterations 1.

    expand to first order; exactly, where the predicted decrease of the warm start was a small part of the cost
    one sweep, mu raised until Quu + mu I is positive definite
    first acceptable step length; compared with a Gauss-Newton step unless the exact one gained what it predicted
    where it is short, the step to the minimum of the piecewise quadratic model of the constraints
    multipliers moved

Nothing is expanded where the step leads, so gains, multipliers and the value function are those of the step's sweep,
expressed about its end; the gradient is that of the start.  Values of constraints are new.

The multiplier of an exact sweep is the costate of the warm start: that along its trajectory is not near the optimum's
where the state or a target has jumped.  The penalty that comes with the multipliers of a warm start is not updated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trajopt.backward.regularization import Regularization
from trajopt.results.records import Status
from trajopt.solvers.active_set import PiecewiseModel
from trajopt.solvers.formulation import Direction, Iterate, remaining_gaps
from trajopt.solvers.line_search import Step, TrialStep, TrialSteps, violation_bound
from trajopt.solvers.loop import Constrained, Loop, kept, left_of
from trajopt.solvers.state import Directions, FoundDirection, Log, State, expected_decrease


@dataclass(frozen=True)
class RealTimeIteration(Loop):
    """The loop's first iteration alone.

    Parameters: those of `Loop`, and costate (N+1, ndx) or None, that of the warm start.
    """

    costate: np.ndarray | None = None

    def begin(self, start: Iterate, predicted: float = np.inf, log: Log = ()) -> State:
        """The state before the step."""
        model, m = self._first_model(start, predicted, self.warm is not None)
        regularization = Regularization(self.options.initial_regularization, self.options.max_regularization)
        return State(model, regularization, predicted, log, m, first=start)

    def step(self, state: State) -> State:
        """The iteration; asked again, its end."""
        if state.tried > 0:
            status = Status.STOPPED_BY_CALLBACK if state.stopping else Status.MAX_ITERATIONS
            return state._replace(status=status, log=(*state.log, self._last_record(state)))
        if self.clock.over:
            return state._replace(status=Status.TIME_LIMIT)
        direction, model, regularization, without_curvature, lost, m, _ = self._find_direction(state)
        weight, predicted = 0.0, 0.0
        if direction is not None:
            weight, predicted = expected_decrease(model.iterate, direction, weight)
        state = state._replace(
            model=model, regularization=regularization, predicted=predicted, multipliers=m, gap_weight=weight,
            direction=direction, without_curvature=without_curvature,
        )  # fmt: skip
        status = self._end(state, lost)
        if status is not None or direction is None:
            return state._replace(status=status, log=(*state.log, self._record(state, direction, None)))
        used, step, rejected = self._search(state, direction)
        if used is not direction:
            weight, predicted = expected_decrease(model.iterate, used, weight)
            state = state._replace(predicted=predicted, gap_weight=weight)
        log = (*state.log, self._record(state, used, step))
        if step is not None:
            return self._arrived(state, used, step, log)
        state = state._replace(rejected=rejected, log=log)
        status = self._end_without_step(state)
        return state if status is None else state._replace(status=status, log=(*log, self._record(state, used, None)))

    def _find_direction(self, state: State) -> FoundDirection:
        """The direction of one sweep; without multipliers to start from, that of any first iteration."""
        m, model, exact = state.multipliers, state.model, self._exact_wanted(state.predicted, state.model.iterate)
        if m is not None and self.warm is None and self.options.soft_penalty == 0.0:
            constrained = Constrained(self.formulation, self.options, self.clock)
            return constrained.find_direction(state, exact, self._enough(model))
        if exact and model.exact is None:
            costate = model.costate if self.costate is None else self.costate
            model = self.formulation.with_curvature(model, costate, self.clock)
        return Directions(self.formulation, self.clock).find(model, state.regularization, exact)._replace(multipliers=m)

    def _search(self, state: State, direction: Direction) -> TrialStep:
        """The step along the direction, or along another one where it is short or gains less than it predicted."""
        model, m, mu = state.model, state.multipliers, state.regularization.shift
        bound = violation_bound(self.formulation, model, self.options)
        trials = TrialSteps(self.formulation, model, m, mu, state.gap_weight, self.clock, self._noise(model), bound)
        found = trials.best(direction)
        if not self._as_predicted(model.iterate, found):
            found = trials.without_curvature(found)
        if found.long or m is None or self.warm is None or not found.direction.sweep.ok:
            return found
        expansion, _ = model.of_kind(found.direction.kind)
        minimum = PiecewiseModel(self.formulation, model, m, expansion, mu, self.clock).minimum(found.direction)
        return found.or_better(trials.along(minimum.direction)) if minimum.promise > 0.0 else found

    def _as_predicted(self, iterate: Iterate, found: TrialStep) -> bool:
        """True if a full step was found that gains its predicted decrease."""
        step = found.step
        return step is not None and step.alpha == 1.0 and kept(-found.direction.change, iterate.cost - step.cost)

    def _arrived(self, state: State, used: Direction, step: Step, log: Log) -> State:
        """The state after the step: the model of the start, moved to where it leads."""
        rows, model, m, soft = self.formulation.rows, state.model, state.multipliers, self.options.soft_penalty > 0.0
        if m is not None and not soft:
            m = Constrained(self.formulation, self.options, self.clock).moved(model, used, m, step.alpha)
        alpha, xs, us, controls = step.candidate
        left = remaining_gaps(model.iterate.gaps, alpha, xs)
        end = model._replace(iterate=Iterate(xs, us, controls, step.cost, left, self.clock.elapsed, step.own_cost))
        if m is not None and rows is not None and step.c is not None and model.rows is not None:
            dual = m.weights(rows, step.c)[1].p if soft else m.dual
            end = end._replace(rows=model.rows._replace(c=step.c, dual=dual, weights=None))
        last = left_of(self.formulation, model.iterate, used, step)
        return state._replace(model=end, multipliers=m, direction=last, log=log)
