"""The loop of iLQR and DDP; first, real-time iterations: the model after a single step from a warm start.

Nothing is expanded after that step.  The gains are those of the step's sweep,

    u = us + alpha k + K (xs_new - xs) + (1 - alpha) k + K (x - xs_new)

so that (1 - alpha) k remains of k; its value function is moved to the new states, V_x + V_xx dx.  Multipliers are those
after the step; the gradient is that of the iterate before.  Values of constraints are new.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile

import numpy as np

from dynamics.validation import as_array
from trajopt.backward.regularization import Regularization, curvature_scale
from trajopt.backward.sweep import SweepResult
from trajopt.results.records import IterationRecord, Progress, Status
from trajopt.solvers.active_set import PiecewiseModel
from trajopt.solvers.constrained import Constrained, kept
from trajopt.solvers.directions import Directions
from trajopt.solvers.feasibility import checked, restrained
from trajopt.solvers.iterate import (
    CONVEXIFIED,
    GAUSS_NEWTON,
    Direction,
    Formulation,
    Iterate,
    LocalModel,
    Stopwatch,
    noise,
    remaining_gaps,
    rounding,
)
from trajopt.solvers.line_search import INVISIBLE, Rejected, Step
from trajopt.solvers.multipliers import Multipliers, measures
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.penalty_update import first_multipliers, relaxed, satisfied, total_violation, weighted
from trajopt.solvers.predicted_change import gradient_at
from trajopt.solvers.state import IDLE, Checked, FoundDirection, Log, Ranked, State, better, expected_decrease, ranked
from trajopt.solvers.trial_steps import LONG_STEP, TrialStep, TrialSteps


def arrived(
    formulation: Formulation,
    model: LocalModel,
    iterate: Iterate,
    c: np.ndarray | None,
    m: Multipliers | None,
    soft: bool,
) -> LocalModel:
    """The model of the iterate before, moved to the iterate that a step led to, where rows have the values c (R,);
    soft: True if constraints are soft."""
    if m is None or c is None or model.rows is None or formulation.rows is None:
        return model._replace(iterate=iterate)
    dual = m.weights(formulation.rows, c)[1].p if soft else m.dual
    return model._replace(iterate=iterate, rows=model.rows._replace(c=c, dual=dual, weights=None))


def left_of(formulation: Formulation, iterate: Iterate, direction: Direction, step: Step) -> Direction:
    """The direction, expressed about the iterate that a step along it led to."""
    system, sweep, (alpha, xs, *_) = formulation.problem.system, direction.sweep, step.candidate
    dx = as_array("difference", system.difference(iterate.xs, xs), (len(xs), system.ndx), finite=False)
    dx = dx if iterate.gaps is None else dx - iterate.gaps
    k = np.zeros_like(sweep.k) if alpha == 1.0 else (1.0 - alpha) * sweep.k
    moved = SweepResult(k, sweep.K, gradient_at(sweep.Vx, sweep.Vxx, dx), sweep.Vxx, sweep.d1, sweep.d2, sweep.ok)
    return direction._replace(sweep=moved)


# --------------------------------------------------------------------------------------------
# The one loop of iLQR and DDP: expand, find a direction, search along it, adapt mu.
#
#     repeat
#         expand to first order; where the last predicted decrease was a small part of the cost, with all curvature, if
#         the multiplier of the dynamics is known: exact sweep, kept if positive definite
#         else Gauss-Newton sweep, mu raised until Quu + mu I is positive definite; exact sweep with its multiplier
#         under constraints, near the optimum: where the exact sweep is not positive definite, a convexified one
#         under constraints: the penalty updated by what the sweep predicts (`trajopt.solvers.penalty_update`)
#         stop if the predicted decrease -(d1 + d2/2) is within the tolerance and mu is small, and constraints are met
#         first acceptable step length; where it is short, along other directions (`trajopt.solvers.trial_steps`)
#     mu down after a long step, up after a short one (without gaps) or none; multipliers moved
#
# Exact curvature is thus switched on late, when the trajectory is nearly right: exact Quu is almost always indefinite
# far from an optimum, and no regularization of it was found to be as good as a Gauss-Newton step there.
#
# Where max_iterations is 1, no sweep follows the step.  From a warm start its own sweep is then the only one: an exact
# one has the costate of the warm start as its multiplier, since that along the old trajectory is not near the optimum's
# where the state or a target has jumped, and is compared with a Gauss-Newton step unless it gains what it predicted;
# the penalty is not updated, and changes of the active set are followed only where the step would be short.
#
# An iteration makes a new `State` of the one before, which stays as it is.  A `Formulation` defines what the sweep's
# controls are, and how trajectories follow from them.

Callback = Callable[[Progress], bool | None]
SAME = 2.0
"""Largest ratio of the gradient of a returned optimum to the gradient it was found with: rounding may differ."""
AGAIN = 3
"""Largest number of times in a solve that mu starts again from zero where no step was found with a large one."""
STALLED = 50
"""Number of steps in a row without a gain after which a large mu is given up; mu falls to zero in fewer."""


@dataclass(frozen=True)
class Loop:
    """Improves an iterate until it has a status.

    Parameters
    ----------
    formulation : Formulation
        Transcription of the problem, with the objective.
    options : LoopOptions
    threshold : float or None
        Exact steps once the predicted decrease is below this fraction of the cost; None: never.
    clock : Stopwatch
    warm : (multipliers (R,), penalty) or None
        Multipliers of the formulation's rows in a warm start, and its penalty.
    real_time_iteration : bool
        True if only one step from a warm start is asked for, without an expansion where it leads.
    costate : (N+1, ndx) array or None
        Costate of the warm start.
    optimum : (float, float) or None
        Largest gradient entry and predicted decrease at the end of the solve that is the warm start.
    """

    formulation: Formulation
    options: LoopOptions
    threshold: float | None
    clock: Stopwatch
    warm: tuple[np.ndarray, float] | None = None
    real_time_iteration: bool = False
    costate: np.ndarray | None = None
    optimum: tuple[float, float] | None = None

    def run(
        self,
        start: Iterate,
        callback: Callback | None,
        predicted: float = np.inf,
        log: Log = (),
        best: Ranked | None = None,
    ) -> State:
        """Iterate until there is a status, from an iterate of finite cost; `predicted` 0 lets exact steps begin at
        once; best: the best state that is already known, for a solve that its time limit ends."""
        state = None
        try:
            state = self.begin(start, predicted, log)
            while True:
                if self.clock.limit is not None:
                    best = better(best, ranked(self.formulation, state, self.options))
                state = self.step(state)
                if state.status is Status.TIME_LIMIT and best is not None:
                    state = best.at_end(state)
                    return state._replace(log=(*state.log, self._last_record(state)))
                if state.status is not None:
                    return state
                if callback is not None:
                    iterate = state.model.iterate
                    stopping = bool(callback(Progress(state.log[-1], iterate.xs, iterate.us)))
                    state = state._replace(stopping=stopping)
        except KeyboardInterrupt:
            state = state or self.begin(start, np.inf, log)
            return state._replace(status=Status.INTERRUPTED, log=(*state.log, self._last_record(state)))

    def begin(self, start: Iterate, predicted: float = np.inf, log: Log = ()) -> State:
        """The state before the first step."""
        options, rows, multipliers = self.options, self.formulation.rows, None
        dual = None if rows is None else np.zeros(len(rows)) if self.warm is None else self.warm[0]
        model = self.formulation.expand(start, self.clock, self._exact_wanted(predicted, start), dual=dual)
        if rows is not None:
            multipliers = first_multipliers(model, options, self.warm, rows, self._fixed_penalty)
            model = weighted(self.formulation, model, multipliers)
        scale = 1.0 if self.real_time_iteration else curvature_scale(model.expansion)
        regularization = Regularization(options.initial_regularization, options.max_regularization, scale=scale)
        state = State(model, regularization, predicted, log, multipliers)
        if rows is None:
            return state
        assert model.rows is not None
        violation = measures(rows, model.rows.c, model.rows.dual).scaled
        return state._replace(first=start, checked=Checked(len(log), violation))

    def step(self, state: State) -> State:
        """One iteration; the status of its result is the reason to stop, None to go on."""
        if self._single and state.tried > 0:
            return self._closed(state)
        if not self.clock.over:
            state = checked(self.formulation, state, self.options, self.clock)
        if self.clock.over:
            return state._replace(status=Status.TIME_LIMIT)
        if state.status is not None:
            return state._replace(log=(*state.log, self._record(state, None, None)))
        if state.idle >= STALLED and not state.regularization.small and state.again < AGAIN:
            state = self._anew(state)
        chosen, weight, predicted = self._find_direction(state), state.gap_weight, 0.0
        model, multipliers, direction = chosen.model, chosen.multipliers, chosen.direction
        if direction is not None:
            weight, predicted = expected_decrease(model.iterate, direction, weight)
        state = State(  # all of it: `_replace` takes microseconds
            model, chosen.regularization, predicted, state.log, multipliers, weight, direction or state.direction,
            chosen.without_curvature, state.rejected, state.idle, state.again, state.trusted, state.violation,
            state.checked, state.first, stopping=state.stopping,
        )  # fmt: skip
        status = self._end(state, chosen.status)
        if status is not None or direction is None:
            return state._replace(status=status, log=(*state.log, self._record(state, direction, None)))
        uncertain = noise(self.formulation.problem, model)
        trials = TrialSteps(
            self.formulation, model, multipliers, chosen.regularization.shift, weight, self.clock, uncertain
        )  # fmt: skip
        found = chosen.trial or trials.best(direction)
        if self.real_time_iteration and not self._as_promised(model.iterate, found):
            found = trials.without_curvature(found)
        used, step, rejected = (
            found if found.long or not self._fixed_penalty else self._past_active_set_changes(trials, found)
        )
        if used is not direction:
            weight, predicted = expected_decrease(model.iterate, used, weight)
            state = state._replace(predicted=predicted, gap_weight=weight)
        state = state._replace(log=(*state.log, self._record(state, used, step)))
        if step is None:
            state = self._stuck(state, rejected)
            return state if state.status is None else state._replace(log=(*state.log, self._record(state, used, None)))
        return restrained(self.formulation, self._stepped(state, used, step), self.options, self.clock)

    def _stuck(self, state: State, rejected: Rejected) -> State:
        """The state after a search without an acceptable step."""
        state = state._replace(rejected=state.rejected.then(rejected))
        if state.multipliers is not None and not self._single:
            model, m = self._relaxed(state.model, state.multipliers)
            if m is not state.multipliers:
                return state._replace(model=model, multipliers=m)
        status, idle = self._end_without_step(state), state.idle + IDLE * self._invisible(state)
        if status not in (None, Status.CONVERGED) and state.again < AGAIN and not self._tried_with_small(state):
            return self._anew(state)
        return state._replace(status=status, regularization=state.regularization.increased(), idle=idle)

    def _anew(self, state: State) -> State:
        """The state with mu = 0."""
        regularization = replace(state.regularization, mu=0.0)
        return state._replace(regularization=regularization, again=state.again + 1, rejected=Rejected(), idle=0)

    def _tried_with_small(self, state: State) -> bool:
        """True if the search from this iterate began with a mu so small that the predicted decrease is reliable; an
        iterate reached by a step with a large mu, perhaps by rounding alone, is searched again."""
        since = list(takewhile(lambda record: record.alpha == 0.0, reversed(state.log)))
        return replace(state.regularization, mu=since[-1].mu).small

    def _stepped(self, state: State, used: Direction, step: Step) -> State:
        """The state after a step along a direction."""
        model, m, closing = state.model, state.multipliers, state.model.iterate.gaps is not None
        gain, violation = model.iterate.cost - step.cost, 0.0
        if m is not None:
            assert self.formulation.rows is not None and model.rows is not None
            violation = total_violation(self.formulation.rows, model.rows.c)
            if self.options.soft_penalty == 0.0:
                m = Constrained(self.formulation, self.options, self.clock).moved(model, used, m, step.alpha)
        moved = self._moved(state, used, step, m)
        short = step.alpha < LONG_STEP and not closing
        if m is not None and short and not self._single:
            moved, m = self._relaxed(moved, m)
        shows = closing or gain > INVISIBLE * abs(step.cost)
        trusted = step.alpha == 1.0 and not closing and kept(state.predicted, gain)
        regularization = state.regularization.after_step(step.alpha, closing)
        if used.kind == CONVEXIFIED:
            regularization = regularization.after_convexified(step.alpha, gain, state.predicted)
        last = state.direction
        if self._single or self.clock.limit is not None:
            last = left_of(self.formulation, model.iterate, used, step)
        return State(
            moved, regularization, state.predicted, state.log, m,
            state.gap_weight, last, state.without_curvature,
            idle=0 if shows else state.idle + 1, again=state.again, trusted=trusted, violation=violation,
            checked=state.checked, first=state.first,
        )  # fmt: skip

    def _moved(self, state: State, used: Direction, step: Step, m: Multipliers | None) -> LocalModel:
        """The model at the next iterate; after the full step of a sweep it may be exact at once."""
        alpha, xs, us, controls = step.candidate
        left = remaining_gaps(state.model.iterate.gaps, alpha, xs)
        iterate = Iterate(xs, us, controls, step.cost, left, self.clock.elapsed, step.own_cost)
        if self.real_time_iteration:
            return arrived(self.formulation, state.model, iterate, step.c, m, self.options.soft_penalty > 0.0)
        before = (state.model, used.sweep) if alpha == 1.0 else None
        dual, exact = None if m is None else m.dual, not self._single and self._exact_wanted(state.predicted, iterate)
        model = self.formulation.expand(iterate, self.clock, exact, before, dual)
        return model if m is None else weighted(self.formulation, model, m)

    def _relaxed(self, model: LocalModel, m: Multipliers) -> tuple[LocalModel, Multipliers]:
        """The model with a smaller penalty, where rows allow one."""
        assert self.formulation.rows is not None and model.rows is not None
        less = m if self.options.soft_penalty > 0.0 else relaxed(self.formulation.rows, model.rows.c, m)
        return (model, m) if less is m else (weighted(self.formulation, model, less), less)

    # ------------------------------------------------------------------------------------------------ a single step
    @property
    def _single(self) -> bool:
        """True if a single step is asked for, as in predictive control."""
        return self.options.max_iterations == 1

    @property
    def _fixed_penalty(self) -> bool:
        """True if that single step comes from one sweep, with the penalty of a warm start."""
        return self._single and self.warm is not None

    def _as_promised(self, iterate: Iterate, found: TrialStep) -> bool:
        """True if a full step was found that gains its predicted decrease."""
        step = found.step
        return step is not None and step.alpha == 1.0 and kept(-found.direction.change, iterate.cost - step.cost)

    def _past_active_set_changes(self, trials: TrialSteps, found: TrialStep) -> TrialStep:
        """The better one of a short step, or none, and the step to the minimum of the piecewise quadratic model."""
        model, m, direction = trials.model, trials.multipliers, found.direction
        if m is None or not found.direction.sweep.ok:
            return found
        expansion, _ = model.of_kind(direction.kind)
        minimum = PiecewiseModel(self.formulation, model, m, expansion, trials.mu, self.clock).minimum(direction)
        return found.or_better(trials.along(minimum.direction)) if minimum.promise > 0.0 else found

    def _closed(self, state: State) -> State:
        """The end of a solve of a single step, without another sweep: its predicted decrease is that of the step."""
        status = Status.STOPPED_BY_CALLBACK if state.stopping else Status.MAX_ITERATIONS
        if not (state.stopping or np.isfinite(state.model.gradient_norm)):
            status = Status.INVALID_DERIVATIVES
        return state._replace(status=status, log=(*state.log, self._last_record(state)))

    # ------------------------------------------------------------------------------------------------ direction
    def _exact_wanted(self, predicted: float, iterate: Iterate) -> bool:
        """True if the last predicted decrease was small enough for an exact step from this iterate."""
        return self.threshold is not None and predicted < self.threshold * abs(iterate.cost)

    def _find_direction(self, state: State) -> FoundDirection:
        """The direction of this iteration."""
        exact = self._exact_wanted(state.predicted, state.model.iterate)
        if state.multipliers is not None and self.options.soft_penalty == 0.0 and not self._fixed_penalty:
            enough = self._enough(state.model)
            return Constrained(self.formulation, self.options, self.clock).find_direction(state, exact, enough)
        model = state.model
        if exact and self._single and model.exact is None:  # near the optimum: a costate, instead of another sweep
            costate = model.costate if self.costate is None else self.costate
            model = self.formulation.with_curvature(model, costate, self.clock)
        found = Directions(self.formulation, self.clock).find(model, state.regularization, exact)
        return found._replace(multipliers=state.multipliers)

    # ------------------------------------------------------------------------------------------------ ends
    def _end(self, state: State, lost: Status | None) -> Status | None:
        """The status with which to stop before a step, None to go on; `lost`: the status if there is no direction."""
        if state.stopping:
            return Status.STOPPED_BY_CALLBACK
        if lost is not None:
            return lost
        iterate = state.model.iterate
        enough = self._enough(state.model)
        if state.tried == 0 and self._given_back(state, enough):
            return Status.CONVERGED
        if state.multipliers is not None and state.idle >= IDLE:  # terms for constraints round off more than the cost
            enough = max(enough, self._visible(state.model))
        if state.regularization.small and iterate.gaps is None and state.predicted <= enough:
            if satisfied(self.formulation, state.model, self.options):
                return Status.CONVERGED
        if state.tried >= self.options.max_iterations:
            return Status.MAX_ITERATIONS
        stalled = state.idle >= STALLED and not state.regularization.small and self._invisible(state)
        return Status.LINE_SEARCH_FAILED if stalled and state.again >= AGAIN else None

    def _given_back(self, state: State, enough: float) -> bool:
        """True if the start is an optimum at which a solve of this problem has ended."""
        if self.optimum is None or state.model.iterate.gaps is not None or self.options.soft_penalty > 0.0:
            return False
        gradient, promise = self.optimum
        little = promise <= max(enough, self._visible(state.model))
        stationary = little and state.model.gradient_norm <= SAME * gradient
        return stationary and satisfied(self.formulation, state.model, self.options)

    def _enough(self, model: LocalModel) -> float:
        """The predicted decrease that counts as zero."""
        within = max(self.options.tolerance * abs(model.iterate.own_cost), self.options.absolute_tolerance)
        return max(within, noise(self.formulation.problem, model))

    def _visible(self, model: LocalModel) -> float:
        """The least change that is more than rounding of the cost."""
        return max(INVISIBLE * abs(model.iterate.cost), rounding(model))

    def _invisible(self, state: State) -> bool:
        """True if the predicted decrease is below the rounding of the cost."""
        return state.model.iterate.gaps is None and state.predicted <= self._visible(state.model)

    def _end_without_step(self, state: State) -> Status | None:
        """The status with which to stop after a line search without an acceptable step, None to try again with a larger
        mu."""
        if state.regularization.small and self._invisible(state):
            if satisfied(self.formulation, state.model, self.options):
                return Status.CONVERGED
        if not state.regularization.increased().exhausted:
            return None
        return Status.LINE_SEARCH_FAILED if state.rejected.blocked is None else Status.NOT_FINITE

    # ------------------------------------------------------------------------------------------------ the log
    def _last_record(self, state: State) -> IterationRecord:
        """Record of an iterate from which no direction was computed: its predicted decrease is that of the step to
        it."""
        return self._record(state, None, None)._replace(predicted_decrease=state.predicted)

    def _record(self, state: State, direction: Direction | None, step: Step | None) -> IterationRecord:
        iterate = state.model.iterate
        rows, at, violation = self.formulation.rows, state.model.rows, 0.0
        if rows is not None and at is not None:
            violation = measures(rows, at.c, at.dual).violation
        return IterationRecord(
            iteration=len(state.log),
            cost=iterate.own_cost,
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
