"""An iteration under constraints: minimum of the quadratic model, update of the penalty, update of the multipliers.

the centre of the multipliers moves to the dual iterate where that reduces the error of the optimality conditions
direction: to the minimum of the piecewise quadratic model
the penalty is raised if that direction would increase the violation; or leave more than 0.9 of it, near a minimum
of the augmented Lagrangian; or more than 0.1, after a step that gained its predicted decrease, if then a full step does
so too and lowers the violation
at a minimum of the augmented Lagrangian that violates constraints, multipliers and penalty are updated, and the
direction is computed again
where the model had to be convexified, the penalty is limited so that p stays no larger than the multipliers
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajopt.backward.regularization import Regularization
from trajopt.rows.augmented_terms import change_of_rows
from trajopt.solvers.active_set import ModelMinimum, PiecewiseModel
from trajopt.solvers.directions import Directions
from trajopt.solvers.iterate import (
    CONVEXIFIED,
    GAUSS_NEWTON,
    Direction,
    Formulation,
    LocalModel,
    Stopwatch,
    sweep_of_kind,
    with_gauss_newton,
)
from trajopt.solvers.multipliers import Multipliers, measures
from trajopt.solvers.options import LoopOptions
from trajopt.solvers.penalty_update import (
    GROWTH,
    LARGEST,
    TINY,
    advanced,
    at_minimum,
    bearable,
    raised,
    satisfied,
    stepped,
    total_violation,
    weighted,
    worth,
)
from trajopt.solvers.predicted_change import linear_step
from trajopt.solvers.state import IDLE, FoundDirection, State, expected_decrease
from trajopt.solvers.trial_steps import TrialSteps

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
            model = with_gauss_newton(self.formulation, model, self.clock)
            sweep = direction.fallback
            sweep = sweep or sweep_of_kind(self.formulation, model, GAUSS_NEWTON, regularization.shift, self.clock)
            if not sweep.ok:
                break
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
        trials = TrialSteps(self.formulation, bold.model, bold.multipliers, mu, weight, self.clock)
        trial = trials.along(direction)
        if trial.step is None or trial.step.alpha < 1.0:
            return None
        xs, us = trial.step.candidate.xs, trial.step.candidate.us
        lower = total_violation(rows, rows.values(xs, us)) <= LOWER * total_violation(rows, at.c)
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
        """The multipliers after a step of length alpha along a direction."""
        rows, at, e = self.formulation.rows, model.rows, model.expansion
        assert rows is not None and at is not None
        dx, du = linear_step(e, model.iterate.gaps, direction.sweep, model.box)
        return stepped(rows, at, dx, du, m, alpha)
