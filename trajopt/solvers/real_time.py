"""A single iteration, as in predictive control [real-time iteration, Diehl et al. 2002]: a solve of max_iterations 1.

    expand to first order; exactly, where the predicted decrease of the warm start was a small part of the cost
    one sweep, mu raised until Quu + mu I is positive definite; under constraints with the active set of the
    multipliers, and more of them where its step changes that set, until none does (`trajopt.solvers.active_set`)
    first acceptable step length; under constraints that of an ordinary iteration where there is none
    where there is none and states have gaps, all of this once more from the rollout of the start with its gains, for a
    plan whose gaps stay is soon none
    without constraints: compared with a Gauss-Newton step unless the exact one gained what it predicted
    multipliers moved

Nothing is expanded where the step leads, so gains, multipliers and the value function are those of the step's sweep,
expressed about its end; the gradient is that of the start.  Values of constraints are new.

The multiplier of an exact sweep is the costate of the warm start: that along its trajectory is not near the optimum's
where the state or a target has jumped.  The active set is that of its multipliers, and of rows that are far from being
met: which of the others exceed their limits along its trajectory is decided by the curvature of rows and by rounding.
The penalty that comes with these multipliers is not updated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trajopt.backward.regularization import Regularization
from trajopt.results.records import Status
from trajopt.solvers.ddp import Loop
from trajopt.solvers.formulation import EXACT, Direction, LocalModel, noise
from trajopt.solvers.iteration import FoundDirection, Stall, State, kept, left_of
from trajopt.solvers.line_search import Rejected, Step, TrialStep
from trajopt.solvers.start import rolled_out


@dataclass(frozen=True)
class RealTimeIteration(Loop):
    """The loop's first iteration alone.

    Parameters: those of `Loop`; costate (N+1, ndx) or None, that of the warm start; warm, True with the multipliers of
    a warm start; and its gains K (N, nu, ndx) or None.
    """

    costate: np.ndarray | None = None
    warm: bool = False
    K: np.ndarray | None = None
    compiled: ClassVar[bool] = False

    def _regularization(self, model: LocalModel) -> Regularization:
        """The first regularization, in the units of Quu: that of the curvature takes longer than a step may."""
        return Regularization(self.options.initial_regularization, self.options.max_regularization)

    def step(self, state: State, stopping: bool = False) -> State:
        """The iteration; asked again, its end."""
        if state.tried > 0:
            return self.ended(state, Status.STOPPED_BY_CALLBACK if stopping else Status.MAX_ITERATIONS)
        if self.formulation.clock.over:
            return state._replace(status=Status.TIME_LIMIT)
        end, start = self._iteration(state), state.model.iterate
        if self.K is None or start.gaps is None or end.direction is None or end.log[0].alpha > 0.0:
            return end
        rollout = rolled_out(self.formulation, start, self.K)
        return end if rollout is None else self._iteration(self.begin(rollout))

    def _iteration(self, state: State) -> State:
        """The state after an iteration."""
        uncertain = noise(self.formulation.problem, state.model)
        enough = self._enough(state.model, uncertain)
        before, found = state, self._find_direction(state, enough)
        state = found.of(state)
        status = found.status or self._end(state, enough)
        if status is Status.CONVERGED and not found.settled:
            status = None
        if status is not None or found.direction is None:
            return state._replace(status=status, log=(*state.log, self._record(state, found.direction, None)))
        trial = self._search(state, found, uncertain)
        if trial.step is None and self.warm and self.options.max_sweeps is None:
            instead = self._iteration_instead(before, enough, uncertain)
            if instead is not None:
                return instead
        end = self._after(state, found.direction, trial)
        if end.status is Status.CONVERGED and not found.settled:
            return end._replace(status=Status.LINE_SEARCH_FAILED)
        return end

    def _iteration_instead(self, state: State, enough: float, uncertain: float) -> State | None:
        """The state after an ordinary iteration under constraints, without curvature; None if that has no step."""
        found = self.constraints.find_direction(state, False, enough)
        if found.direction is None:
            return None
        state = found.of(state)
        trial = found.trial or self._search(state, found, uncertain)
        return None if trial.step is None else self._after(state, found.direction, trial)

    def _find_direction(self, state: State, enough: float) -> FoundDirection:
        """The direction of a real-time iteration; without multipliers to start from, that of any first iteration."""
        model, exact = state.model, self.formulation.curvature.wanted(state.predicted, state.model.iterate)
        if state.multipliers is not None and not self.warm:
            return self.constraints.find_direction(state, exact, enough)
        if exact and EXACT not in model.expansions:
            costate = model.costate if self.costate is None else self.costate
            model = self.formulation.with_curvature(model, costate)
        return self.constraints.find_single_direction(state._replace(model=model), exact)

    def _search(self, state: State, found: FoundDirection, uncertain: float) -> TrialStep:
        """The step along the direction; without constraints, along another one where it is short or gains less than it
        predicted."""
        trial = self.constraints.search_single(found, state.gap_weight, uncertain)
        if state.multipliers is not None or (trial.long and self._as_predicted(state, trial)):
            return trial
        return self.constraints.search_elsewhere(found, trial, state.gap_weight, uncertain)

    def _as_predicted(self, state: State, trial: TrialStep) -> bool:
        """True if a full step was found that gains its predicted decrease."""
        step, promise = trial.step, -trial.direction.change
        return step is not None and step.alpha == 1.0 and kept(promise, state.model.iterate.cost - step.cost)

    def _stuck(self, state: State, rejected: Rejected) -> State:
        """The state after a search without an acceptable step."""
        state = state._replace(stall=Stall(0, rejected))
        converged = self._end_without_step(state) is Status.CONVERGED
        return state._replace(status=Status.CONVERGED if converged else Status.LINE_SEARCH_FAILED)

    def _stepped(self, state: State, used: Direction, step: Step) -> State:
        """The state after the step: the model of the start, moved to where it leads."""
        model, m = state.model, self.constraints.after_single_step(state, used, step)
        iterate = step.end(model.iterate.gaps, self.formulation.clock.elapsed)
        end = self.constraints.moved(model._replace(iterate=iterate), m, step.c)
        last = left_of(self.formulation, model.iterate, used, step)
        return state._replace(model=end, multipliers=m, direction=last)
