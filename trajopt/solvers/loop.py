"""The one loop of iLQR and DDP: expand, find a direction, search along it, adapt mu.

    repeat
        expand to first order; where the last predicted decrease was a small part of the cost, with all curvature, if
        the multiplier of the dynamics is known: exact sweep, kept if positive definite
        else Gauss-Newton sweep, mu raised until Quu + mu I is positive definite; exact sweep with its multiplier
        under constraints, near the optimum: where the exact sweep is not positive definite, a convexified one
        under constraints: the penalty updated by what the sweep predicts (`trajopt.solvers.augmented_lagrangian`)
        stop if the predicted decrease -(d1 + d2/2) is within the tolerance and mu is small, and constraints are met
        first acceptable step length; where it is short, along other directions (`trajopt.solvers.line_search`)
    mu down after a long step, up after a short one (without gaps) or none; multipliers moved

Exact curvature is thus switched on late, when the trajectory is nearly right: exact Quu is almost always indefinite
far from an optimum, and no regularization of it was found to be as good as a Gauss-Newton step there.

A single iteration, as in predictive control, is another algorithm: `trajopt.solvers.real_time`.

An iteration makes a new `State` of the one before, which stays as it is.  A `Formulation` defines what the sweep's
controls are, and how trajectories follow from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from dynamics.validation import as_array
from trajopt.backward.backward_pass import SweepResult
from trajopt.backward.regularization import Regularization, curvature_scale
from trajopt.capabilities import Steps, capability
from trajopt.results.records import IterationRecord, Progress, Status
from trajopt.rows import change_of_rows
from trajopt.solvers.active_set import ModelMinimum, PiecewiseModel
from trajopt.solvers.augmented_lagrangian import (
    GROWTH,
    LARGEST,
    TINY,
    Multipliers,
    advanced,
    at_minimum,
    bearable,
    first_multipliers,
    measures,
    raised,
    relaxed,
    satisfied,
    smoothed,
    stepped,
    total_violation,
    weighted,
    with_met_barrier,
    worth,
)
from trajopt.solvers.formulation import (
    CONVEXIFIED,
    GAUSS_NEWTON,
    Direction,
    Formulation,
    Iterate,
    LocalModel,
    Stopwatch,
    gradient_at,
    linear_step,
    noise,
    remaining_gaps,
    rounding,
    sweep_of_kind,
    with_gauss_newton,
)
from trajopt.solvers.line_search import INVISIBLE, LONG_STEP, Rejected, Step, TrialSteps, violation_bound
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.restoration import checked, restrained
from trajopt.solvers.state import (
    IDLE,
    Checked,
    Directions,
    FoundDirection,
    Log,
    Ranked,
    State,
    better,
    expected_decrease,
    ranked,
)

# --------------------------------------------------------------------------------------------
# An iteration under constraints: minimum of the quadratic model, update of the penalty, update of the multipliers.
#
#     the centre of the multipliers moves to the dual iterate where that reduces the error of the optimality conditions
#     direction: to the minimum of the piecewise quadratic model
#     the penalty is raised if that direction would increase the violation; or leave more than 0.9 of it, near a minimum
#     of the augmented Lagrangian; or more than 0.1, after a step that gained its predicted decrease, if then a full
#     step does so too and lowers the violation
#     at a minimum of the augmented Lagrangian that violates constraints, multipliers and penalty are updated, and the
#     direction is computed again
#     where the model had to be convexified, the penalty is limited so that p stays no larger than the multipliers


MINIMA, HARDER = 4, 10
"""Largest numbers, in one iteration, of updates of the multipliers at a minimum of the augmented Lagrangian, and of
increases of mu."""
NEAR = 1e-2
"""An iterate is near a minimum of the augmented Lagrangian if the predicted decrease is at most this fraction of the
cost.  For the choice of curvature the cost includes the terms of the rows, for the penalty, which makes these large, it
does not."""
HALF = 0.5
"""After an update of the multipliers the model's step is taken if it leaves at most this fraction of the violation;
another update from the same point would be as far off on the other side."""
KEPT = 0.1
"""A step gained its predicted decrease if the actual one differs from it by less than this fraction."""
NOTICEABLY = 1.5
"""Factor of the penalty below which a change is not worth a sweep."""
LOWER = 0.5
"""A step with a boldly raised penalty must lower the violation to at most this fraction."""


class Bound(NamedTuple):
    """Limits of a penalty update: fraction of the violation that the model's step may leave, largest factor of one
    increase, number of increases, largest penalty (in units of the cost's largest derivative), and the violation of
    scaled rows that needs no update."""

    left: float
    leap: float
    raises: int
    largest: float
    small: float


AT_START, AWAY, CLOSE, BOLD = (
    Bound(1.0, GROWTH, 8, 1e2, 1e-3), Bound(1.0, GROWTH, 2, 1e2, 1e-3), Bound(0.9, GROWTH, 2, LARGEST, 1e-3),
    Bound(0.1, 1e3, 2, LARGEST, 1e-7),
)  # fmt: skip
HELP, HELP_AWAY = 2.0, 0.8
"""A larger penalty helps if it removes at least HELP times the violation that the smaller one removes, or leaves at
most the fraction HELP_AWAY of it."""


def kept(promise: float, gain: float) -> bool:
    """True if the gain of a full step agrees with its predicted decrease."""
    return abs(gain - promise) <= KEPT * promise


class Constrained(NamedTuple):
    """Computes directions and updates multipliers under constraints."""

    formulation: Formulation
    options: LoopOptions
    clock: Stopwatch

    def find_direction(self, state: State, exact: bool, enough: float) -> FoundDirection:
        """The direction of this iteration; enough: a predicted decrease that counts as zero."""
        formulation, model, m, regularization = self.formulation, state.model, state.multipliers, state.regularization
        rows, idle = formulation.rows, state.idle >= IDLE
        assert rows is not None and m is not None
        tolerance = self.options.feasibility_tolerance
        tolerance = float((np.maximum(tolerance, rows.rounding) * rows.D).min(initial=tolerance))
        if m.barrier > 0.0:
            m = with_met_barrier(rows, model, m)
            model = weighted(formulation, model, m)
        if state.direction is not None:
            m = advanced(rows, model, m, tolerance)
            model = weighted(formulation, model, m)
        for times in range(MINIMA):
            near = state.predicted <= NEAR * abs(state.model.iterate.cost)
            found = Directions(formulation, self.clock).find(model, regularization, exact, near)
            if found.direction is None:
                return found._replace(multipliers=m)
            found = self._towards_minimum(state, found._replace(multipliers=m), enough)
            model, m, regularization = found.model, found.multipliers, found.regularization
            assert found.direction is not None and m is not None
            _, predicted = expected_decrease(model.iterate, found.direction, state.gap_weight)
            careful, close = found.direction.kind == CONVEXIFIED, m.stationary * abs(model.iterate.own_cost)
            little = predicted <= max(min(close, worth(model, m)) if careful else close, enough)
            little = little and regularization.small and model.iterate.gaps is None
            if not (idle or little) or satisfied(formulation, model, self.options):
                return found
            if times > 0 and state.idle >= IDLE and self._left(model, found.direction) <= HALF:
                return found
            m, idle = at_minimum(model, m, tolerance, careful), False
            model = weighted(formulation, model, m)
        return found

    def _left(self, model: LocalModel, direction: Direction) -> float:
        """Fraction of the violation that the model's full step leaves."""
        rows, at = self.formulation.rows, model.rows
        assert rows is not None and at is not None
        dx, du = linear_step(model.expansion, model.iterate.gaps, direction.sweep, model.box)
        after = total_violation(rows, at.c + change_of_rows(rows.first, at.C, dx, du))
        return after / max(total_violation(rows, at.c), TINY)

    def _towards_minimum(self, state: State, found: FoundDirection, enough: float) -> FoundDirection:
        """The direction to the minimum of the piecewise quadratic model, the penalty updated."""
        model, m, regularization, direction = found.model, found.multipliers, found.regularization, found.direction
        assert m is not None and direction is not None
        minimum = self._piecewise(model, m, direction.kind, regularization).minimum(direction)
        for _ in range(HARDER):
            if model.iterate.gaps is not None or minimum.promise > enough or -direction.change <= enough:
                break
            if direction.kind == GAUSS_NEWTON:
                regularization = regularization.increased()
            plain = with_gauss_newton(self.formulation, model, self.clock)
            sweep = direction.fallback
            sweep = sweep or sweep_of_kind(self.formulation, plain, GAUSS_NEWTON, regularization.shift, self.clock)
            if not sweep.ok:
                break
            model = plain
            direction = Direction(GAUSS_NEWTON, sweep, None, direction.indefinite_knot)
            minimum = self._piecewise(model, m, GAUSS_NEWTON, regularization).minimum(direction)
        found = found._replace(model=model, regularization=regularization, direction=minimum.direction)
        return self._with_updated_penalty(state, found, minimum)

    def _piecewise(
        self, model: LocalModel, m: Multipliers, kind: str, regularization: Regularization
    ) -> PiecewiseModel:
        return PiecewiseModel(self.formulation, model, m, model.of_kind(kind)[0], regularization.shift, self.clock)

    # ------------------------------------------------------------------------------------------------ the penalty
    def _with_updated_penalty(self, state: State, found: FoundDirection, minimum: ModelMinimum) -> FoundDirection:
        """The direction with a penalty that lets the step lower the violation."""
        rows, model = self.formulation.rows, found.model
        assert rows is not None and model.rows is not None and found.direction is not None
        if not found.regularization.small:
            return found
        _, predicted = expected_decrease(model.iterate, found.direction, state.gap_weight)
        near = predicted <= NEAR * abs(model.iterate.own_cost)
        if near and state.trusted:
            bold = self._raised(found, minimum, BOLD)
            if bold is not found:
                bold = self._searched(bold, state.gap_weight)
                if bold is not None:
                    return bold
        stalled = total_violation(rows, model.rows.c) > CLOSE.left * state.violation
        bound = AT_START if state.direction is None else CLOSE if near and stalled else AWAY
        return self._raised(found, minimum, bound)

    def _searched(self, bold: FoundDirection, gap_weight: float) -> FoundDirection | None:
        """The direction with its trial step, if that is a full step that gains its predicted decrease and lowers the
        violation; None otherwise."""
        rows, at = self.formulation.rows, bold.model.rows
        assert bold.direction is not None and bold.multipliers is not None and rows is not None and at is not None
        weight, _ = expected_decrease(bold.model.iterate, bold.direction, gap_weight)
        mu, direction = bold.regularization.shift, bold.direction
        bound = violation_bound(self.formulation, bold.model, self.options)
        trials = TrialSteps(self.formulation, bold.model, bold.multipliers, mu, weight, self.clock, bound=bound)
        trial = trials.along(direction)
        if trial.step is None or trial.step.alpha < 1.0:
            return None
        xs, us = trial.step.candidate.xs, trial.step.candidate.us
        lower = total_violation(rows, self.formulation.row_values(xs, us)) <= LOWER * total_violation(rows, at.c)
        good = lower and kept(-direction.change, bold.model.iterate.cost - trial.step.cost)
        return bold._replace(trial=trial) if good else None

    def _raised(self, found: FoundDirection, minimum: ModelMinimum, bound: Bound) -> FoundDirection:
        """The direction with a larger penalty if its step leaves more of the violation than the bound allows.

        Of a row with S = C H^-1 C' a step leaves 1 / (1 + rho S), which tells how much larger rho has to be."""
        rows, at = self.formulation.rows, found.model.rows
        assert rows is not None and at is not None
        before = total_violation(rows, at.c)
        after = total_violation(rows, at.c + minimum.point.rows)
        for _ in range(bound.raises):
            m, direction = found.multipliers, found.direction
            assert m is not None and direction is not None
            enough = after <= bound.left * before or before <= bound.small
            if enough or m.penalty >= min(bound.largest * m.scale, m.ceiling):
                break
            removed, factor = before - after, bound.leap
            if removed > 0.0 and bound.left < 1.0:
                factor = min(max((1.0 / bound.left - 1.0) * after / removed, GROWTH), bound.leap)
            penalty = raised(m, factor)
            if direction.kind == CONVEXIFIED:
                penalty = min(penalty, bearable(m.dual, m.scale, measures(rows, at.c, m.dual).scaled))
                if penalty < NOTICEABLY * m.penalty:
                    break
            m = m._replace(penalty=penalty)
            model = weighted(self.formulation, found.model, m)
            sweep = sweep_of_kind(self.formulation, model, direction.kind, found.regularization.shift, self.clock)
            if not sweep.ok:
                break
            direction = direction._replace(sweep=sweep, fallback=None)
            minimum = self._piecewise(model, m, direction.kind, found.regularization).minimum(direction)
            left = total_violation(rows, at.c + minimum.point.rows)
            if left > HELP_AWAY * after and before - left < HELP * removed:
                break
            found, after = found._replace(model=model, multipliers=m, direction=minimum.direction), left
        return found

    def moved(self, model: LocalModel, direction: Direction, m: Multipliers, alpha: float) -> Multipliers:
        """The multipliers after a step of length alpha along a direction; unchanged by a short one, whose model says
        little of where it leads."""
        if alpha < LONG_STEP:
            return m
        rows, at, e = self.formulation.rows, model.rows, model.expansion
        assert rows is not None and at is not None
        dx, du = linear_step(e, model.iterate.gaps, direction.sweep, model.box)
        return stepped(rows, at, dx, du, m, alpha)


def left_of(formulation: Formulation, iterate: Iterate, direction: Direction, step: Step) -> Direction:
    """The direction, expressed about the iterate that a step along it led to:

        u = us + alpha k + K (xs_new - xs) + (1 - alpha) k + K (x - xs_new)

    so that (1 - alpha) k remains of k; the value function is moved to the new states, V_x + V_xx dx."""
    system, sweep, (alpha, xs, *_) = formulation.problem.system, direction.sweep, step.candidate
    dx = as_array("difference", system.difference(iterate.xs, xs), (len(xs), system.ndx), finite=False)
    dx = dx if iterate.gaps is None else dx - iterate.gaps
    k = np.zeros_like(sweep.k) if alpha == 1.0 else (1.0 - alpha) * sweep.k
    moved = SweepResult(k, sweep.K, gradient_at(sweep.Vx, sweep.Vxx, dx), sweep.Vxx, sweep.d1, sweep.d2, sweep.ok)
    return direction._replace(sweep=moved)


# --------------------------------------------------------------------------------------------
# The loop.


Callback = Callable[[Progress], bool | None]
SAME = 2.0
"""Largest ratio of the gradient of a returned optimum to the gradient it was found with: rounding may differ."""
AGAIN = 3
"""Largest number of times in a solve that mu starts again from zero where no step was found with a large one."""
KINKED = 10
"""Number of steps in the robust way (`Loop`) before a barrier smooths inequalities."""
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
    optimum : (float, float) or None
        Largest gradient entry and predicted decrease at the end of the solve that is the warm start.
    robust_from : int or None
        Number of records in the log where a solve begins that is slower for most problems and fails less often: its
        first penalty is large, and after some steps a barrier smooths its inequalities.  None for any other.
    restores : bool
        True if trajectories with less violation are searched for where constraints are met too slowly.
    """

    formulation: Formulation
    options: LoopOptions
    threshold: float | None
    clock: Stopwatch
    warm: tuple[np.ndarray, float] | None = None
    optimum: tuple[float, float] | None = None
    robust_from: int | None = None
    restores: bool = True

    def run(
        self,
        start: Iterate,
        callback: Callback | None,
        predicted: float = np.inf,
        log: Log = (),
        best: Ranked | None = None,
        until: int | None = None,
    ) -> State:
        """Iterate until there is a status, from an iterate of finite cost; `predicted` 0 lets exact steps begin at
        once; best: the best state that is already known, for a solve that its time limit ends; until: the number of
        records after which to stop without a status."""
        try:
            state = self.begin(start, predicted, log)
        except KeyboardInterrupt:
            state = self.begin(start, np.inf, log)
            return state._replace(status=Status.INTERRUPTED, log=(*state.log, self._last_record(state)))
        return self.go_on(state, callback, best, until)

    def go_on(
        self, state: State, callback: Callback | None, best: Ranked | None = None, until: int | None = None
    ) -> State:
        """Iterate from a state; see `run`."""
        try:
            while until is None or state.tried < until:
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
            return state
        except KeyboardInterrupt:
            return state._replace(status=Status.INTERRUPTED, log=(*state.log, self._last_record(state)))

    def begin(self, start: Iterate, predicted: float = np.inf, log: Log = ()) -> State:
        """The state before the first step."""
        options, rows = self.options, self.formulation.rows
        model, multipliers = self._first_model(start, predicted, self.robust_from is not None)
        scale = curvature_scale(model.expansion)
        regularization = Regularization(options.initial_regularization, options.max_regularization, scale=scale)
        state = State(model, regularization, predicted, log, multipliers)
        if rows is None:
            return state
        assert model.rows is not None
        violation = measures(rows, model.rows.c, model.rows.dual).scaled
        return state._replace(first=start, checked=Checked(len(log), violation))

    def _first_model(self, start: Iterate, predicted: float, firm: bool) -> tuple[LocalModel, Multipliers | None]:
        """The model of the first iterate and its multipliers; firm: True for a large penalty (`first_multipliers`)."""
        rows = self.formulation.rows
        dual = None if rows is None else np.zeros(len(rows)) if self.warm is None else self.warm[0]
        model = self.formulation.expand(start, self.clock, self._exact_wanted(predicted, start), dual=dual)
        if rows is None:
            return model, None
        multipliers = first_multipliers(model, self.options, self.warm, rows, firm)
        return weighted(self.formulation, model, multipliers), multipliers

    def step(self, state: State) -> State:
        """One iteration; the status of its result is the reason to stop, None to go on."""
        if self.restores and not self.clock.over:
            state = checked(self.formulation, state, self.options, self.clock, self._run_another)
        if self.clock.over:
            return state._replace(status=Status.TIME_LIMIT)
        if state.status is not None:
            return state._replace(log=(*state.log, self._record(state, None, None)))
        if state.idle >= STALLED and not state.regularization.small and state.again < AGAIN:
            state = self._anew(state)
        if self.robust_from is not None and state.tried >= self.robust_from + KINKED:
            state = self._smoothed(state)
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
        uncertain, bound = self._noise(model), violation_bound(self.formulation, model, self.options)
        trials = TrialSteps(
            self.formulation, model, multipliers, chosen.regularization.shift, weight, self.clock, uncertain, bound
        )
        used, step, rejected = chosen.trial or trials.best(direction)
        if used is not direction:
            weight, predicted = expected_decrease(model.iterate, used, weight)
            state = state._replace(predicted=predicted, gap_weight=weight)
        state = state._replace(log=(*state.log, self._record(state, used, step)))
        if step is None:
            state = self._stuck(state, rejected)
            return state if state.status is None else state._replace(log=(*state.log, self._record(state, used, None)))
        return restrained(self.formulation, self._stepped(state, used, step), self.options, self.clock)

    def _smoothed(self, state: State) -> State:
        """The state with a barrier that smooths inequalities, once gaps are closed."""
        rows, model, m = self.formulation.rows, state.model, state.multipliers
        if rows is None or m is None or m.barrier > 0.0 or model.iterate.gaps is not None:
            return state
        m = smoothed(rows, model, m)
        return state._replace(multipliers=m, model=weighted(self.formulation, model, m))

    def _run_another(self, formulation: Formulation, start: Iterate, log: Log, until: int) -> State:
        """The state after a solve of another formulation, without searches for feasibility."""
        other = Loop(formulation, self.options, self.threshold, self.clock, robust_from=len(log), restores=False)
        state = other.run(start, None, np.inf, log, until=until)
        if state.status is Status.INTERRUPTED:  # not of that solve alone
            raise KeyboardInterrupt
        return state

    def _stuck(self, state: State, rejected: Rejected) -> State:
        """The state after a search without an acceptable step."""
        state = state._replace(rejected=state.rejected.then(rejected))
        if state.multipliers is not None:
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
        if m is not None and short:
            moved, m = self._relaxed(moved, m)
        shows = closing or gain > INVISIBLE * abs(step.cost)
        trusted = step.alpha == 1.0 and not closing and kept(state.predicted, gain)
        regularization = state.regularization.after_step(step.alpha, closing)
        if used.kind == CONVEXIFIED:
            regularization = regularization.after_convexified(step.alpha, gain, state.predicted)
        last = state.direction
        if self.clock.limit is not None:
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
        before = (state.model, used.sweep) if alpha == 1.0 else None
        dual, exact = None if m is None else m.dual, self._exact_wanted(state.predicted, iterate)
        model = self.formulation.expand(iterate, self.clock, exact, before, dual)
        return model if m is None else weighted(self.formulation, model, m)

    def _relaxed(self, model: LocalModel, m: Multipliers) -> tuple[LocalModel, Multipliers]:
        """The model with a smaller penalty, where rows allow one."""
        assert self.formulation.rows is not None and model.rows is not None
        less = m if self.options.soft_penalty > 0.0 else relaxed(self.formulation.rows, model.rows.c, m)
        return (model, m) if less is m else (weighted(self.formulation, model, less), less)

    # ------------------------------------------------------------------------------------------------ direction
    def _exact_wanted(self, predicted: float, iterate: Iterate) -> bool:
        """True if the last predicted decrease was small enough for an exact step from this iterate."""
        return self.threshold is not None and predicted < self.threshold * abs(iterate.cost)

    def _find_direction(self, state: State) -> FoundDirection:
        """The direction of this iteration."""
        exact = self._exact_wanted(state.predicted, state.model.iterate)
        if state.multipliers is not None and self.options.soft_penalty == 0.0:
            enough = self._enough(state.model)
            return Constrained(self.formulation, self.options, self.clock).find_direction(state, exact, enough)
        found = Directions(self.formulation, self.clock).find(state.model, state.regularization, exact)
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
        return max(within, self._noise(model))

    def _noise(self, model: LocalModel) -> float:
        """Standard deviation of the cost."""
        return noise(self.formulation.problem, model) if self._noisy else 0.0

    @cached_property
    def _noisy(self) -> bool:
        """True where steps in time are less accurate than double precision."""
        return capability(self.formulation.problem.system, Steps).step_noise is not None

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
    def ended(self, state: State, other: State) -> State:
        """A state as the end of two solves, whose steps are all in the log of one of them."""
        steps, status = max(state.log[: state.tried], other.log[: other.tried], key=len), state.status or other.status
        if len(steps) == state.tried and state.status is not None:
            return state
        state = state._replace(log=steps)
        return state._replace(status=status, log=(*steps, self._last_record(state)))

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
