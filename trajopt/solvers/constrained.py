"""An iteration under constraints: minimum of the quadratic model, update of the penalty, update of the multipliers.

    the centre of the multipliers moves to the dual iterate where that reduces the error of the optimality conditions
    direction: to the minimum of the piecewise quadratic model; where the sweep's step leads nowhere in that, mu is
    raised until a Gauss-Newton step does
    the penalty is raised if that direction would increase the violation; or leave more than 0.9 of it, near a minimum
    of the augmented Lagrangian; or more than 0.1, after a step that gained its predicted decrease, if then a full
    step does so too and lowers the violation
    at a minimum of the augmented Lagrangian that violates constraints, multipliers and penalty are updated, and the
    direction is computed again
    where rows are nearly met and the model is indefinite, the penalty is raised if that makes it definite; where the
    model had to be convexified, it is limited so that p stays no larger than the multipliers
    where several steps in a row lead nowhere, a barrier smooths inequalities
    no step may make the violation much worse, whatever it gains: a cost that falls without bound beyond a constraint,
    as 1/v does where v changes its sign, is never left again

Soft constraints have none of these: their terms are a part of the cost.  The terms themselves, and the rules by which
multipliers and penalty change, are in `trajopt.solvers.augmented_lagrangian`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics.simd import decision
from trajopt.backward.regularization import ATTEMPTS, FACTOR, LONG_STEP, Regularization
from trajopt.capabilities import Steps, capability
from trajopt.results.records import IterationRecord
from trajopt.rows import Rows, change_of_rows
from trajopt.solvers.active_set import KNOWN, OF_MULTIPLIERS, OF_TERMS, ModelMinimum, model_minimum
from trajopt.solvers.augmented_lagrangian import (
    FIRM,
    LARGE_COST,
    LARGEST,
    NEARLY_MET,
    PROGRESS,
    TINY,
    Multipliers,
    advanced,
    at_minimum,
    bearable,
    first_multipliers,
    measures,
    raised,
    relaxed,
    smoothed,
    stepped,
    total_violation,
    units,
    weighted,
    with_active_set,
    with_met_barrier,
    worth,
)
from trajopt.solvers.formulation import (
    CONVEXIFIED,
    EXACT,
    GAUSS_NEWTON,
    Before,
    Direction,
    Formulation,
    Iterate,
    LocalModel,
    linear_step,
    rounding,
    sweep_of_kind,
)
from trajopt.solvers.iteration import (
    IDLE,
    TRIES,
    Feasibility,
    FoundDirection,
    Log,
    SolveAnother,
    Stall,
    State,
    Unconstrained,
    expected_decrease,
    find_direction,
    kept,
)
from trajopt.solvers.line_search import WORSE, Merit, Step, TrialStep, visible
from trajopt.solvers.restoration import Run, checked

NEAR = 1e-2
"""An iterate is near a minimum of the augmented Lagrangian if the predicted decrease is at most this fraction of the
cost.  For the choice of curvature the cost includes the terms of the rows, for the penalty, which makes these large, it
does not."""


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
    Bound(1.0, FACTOR, 8, FIRM, NEARLY_MET), Bound(1.0, FACTOR, 2, FIRM, NEARLY_MET),
    Bound(0.9, FACTOR, 2, LARGEST, NEARLY_MET), Bound(0.1, 1e3, 2, LARGEST, 1e-7),
)  # fmt: skip
"""Limits at the first iterate; away from minima of the augmented Lagrangian; near them; and after a full step that
gained its predicted decrease."""


@decision
def penalty_factor(after, removed, left, leap):
    """Factor of the penalty with which a step may leave the fraction `left` of a violation, if with the present one it
    leaves `after` and removes `removed`."""
    if removed > 0.0 and left < 1.0:
        return min(max((1.0 / left - 1.0) * after / removed, FACTOR), leap)
    return leap


@decision
def helps(left, after, before):
    """True if a step that leaves the violation `left` of `before` removes enough more than one that leaves `after`."""
    return left <= PROGRESS * after or before - left >= WORSE * (before - after)


def gained_as_predicted(record: IterationRecord) -> bool:
    """True for a full step of a sweep, without gaps to close, that gained its predicted decrease."""
    full = record.alpha == 1.0 and record.gap == 0.0 and record.step in (GAUSS_NEWTON, EXACT, CONVEXIFIED)
    return full and kept(record.predicted_decrease, record.actual_decrease)


KINKED = 8
"""Number of steps in a row that lead nowhere after which a barrier smooths the inequalities of a solve."""


class ViolationBound(NamedTuple):
    """The largest sum of the violations of scaled rows that a step may lead to."""

    rows: Rows
    largest: float

    def __call__(self, c: np.ndarray) -> bool:
        """True for rows with values c (R,) within the bound."""
        return total_violation(self.rows, c) <= self.largest


@dataclass(frozen=True)
class SoftConstraints(Unconstrained):
    """Constraints whose violation costs a fixed penalty: terms of the cost, with zero multipliers."""

    @property
    def rows(self) -> Rows:
        """The rows of all constraints."""
        assert self.formulation.rows is not None
        return self.formulation.rows

    def weighted(self, model: LocalModel, multipliers: Multipliers) -> LocalModel:
        """The model, and the cost of its iterate, with these multipliers and this penalty."""
        return weighted(self.rows, model, multipliers)

    def begin(self, start: Iterate, exact: bool, log: Log) -> State:
        """The state of a solve at its first iterate, without its regularization."""
        model = self.formulation.expand(start, exact, dual=self._first_dual())
        multipliers = self._first_multipliers(model)
        assert model.rows is not None
        violation = measures(self.rows, model.rows.c, model.rows.dual).scaled
        known = Feasibility(start, len(log), violation)
        return State(
            self.weighted(model, multipliers), Regularization(), np.inf, log, Stall(), multipliers, feasibility=known
        )

    def _first_dual(self) -> np.ndarray:
        return np.zeros(len(self.rows))

    def _first_multipliers(self, model: LocalModel) -> Multipliers:
        nothing = np.zeros(len(self.rows))
        return Multipliers(nothing, nothing, self.options.soft_penalty, *units(model, self.rows))

    def find_direction(self, state: State, exact: bool, enough: float) -> FoundDirection:
        """The direction to the minimum of the piecewise quadratic model."""
        found = super().find_direction(state, exact, enough)._replace(multipliers=state.multipliers)
        return found if found.direction is None else self._towards_minimum(state, found, enough)[0]

    def find_single_direction(self, state: State, exact: bool) -> FoundDirection:
        """The direction of a real-time iteration: to the minimum of the piecewise quadratic model, from a sweep with
        the first active set; where no set settles, as with an exact model that is indefinite, from a Gauss-Newton
        sweep, if that leads lower.  Multipliers and penalty are not updated."""
        m, most = state.multipliers, self.options.most_sweeps
        assert m is not None
        start, begins = self._first_active_set(state.model, m)
        found = find_direction(self.formulation, start, state.regularization, exact)
        model, direction = self.weighted(found.model, m), found.direction
        found = found._replace(model=model, multipliers=m)
        if direction is None:
            return found
        minimum = self._minimum(model, m, direction, found.regularization, begins, most)
        found = found._replace(direction=minimum.direction, settled=minimum.settled)
        if minimum.settled or minimum.sweeps >= most or (minimum.promise > 0.0 and model.iterate.gaps is None):
            return found
        plain = find_direction(self.formulation, model, found.regularization, False)
        if plain.direction is None:
            return found
        left = most - minimum.sweeps - 1
        other = self._minimum(plain.model, m, plain.direction, plain.regularization, OF_TERMS, left)
        if not other.promise > minimum.promise:
            return found
        return plain._replace(direction=other.direction, multipliers=m, settled=other.settled)

    def _first_active_set(self, model: LocalModel, m: Multipliers) -> tuple[LocalModel, int]:
        """The model with the active set of its first sweep, and what that is: that of the terms."""
        return self.weighted(model, m), OF_TERMS

    def merit(self, multipliers: Multipliers) -> Merit:
        """The cost with the augmented-Lagrangian terms of constraints, and without; and the rows."""
        formulation, rows = self.formulation, self.rows

        def merit(xs: np.ndarray, us: np.ndarray) -> tuple[float, float, np.ndarray | None]:
            own = formulation.cost(xs, us)
            if not own < np.inf:
                return own, own, None
            c = rows.values(xs, us)
            cost = own + multipliers.value(rows, c)
            return (cost if cost < np.inf else np.inf), own, c  # nor NaN

        return merit

    def _towards_minimum(
        self, state: State, found: FoundDirection, enough: float
    ) -> tuple[FoundDirection, ModelMinimum]:
        """The direction to the minimum of the piecewise quadratic model, mu raised where that leads nowhere."""
        model, m, regularization, direction = found.model, found.multipliers, found.regularization, found.direction
        assert m is not None and direction is not None
        if state.stall.idle >= IDLE:  # mu would be raised for what is rounding
            enough = max(enough, visible(model))
        minimum = self._minimum(model, m, direction, regularization)
        for _ in range(ATTEMPTS):
            if model.iterate.gaps is not None or minimum.promise > enough or -direction.change <= enough:
                break
            if direction.kind == GAUSS_NEWTON:
                regularization = regularization.increased()
            plain = find_direction(self.formulation, model, regularization, False)
            if plain.direction is None:
                break
            model, regularization = plain.model, plain.regularization
            knot = max(direction.indefinite_knot, plain.direction.indefinite_knot)
            direction = plain.direction._replace(indefinite_knot=knot)
            minimum = self._minimum(model, m, direction, regularization)
        found = found._replace(model=model, regularization=regularization, direction=minimum.direction)
        return found, minimum

    def _minimum(
        self,
        model: LocalModel,
        m: Multipliers,
        direction: Direction,
        regularization: Regularization,
        begins: int = KNOWN,
        most: float = np.inf,
    ) -> ModelMinimum:
        return model_minimum(self.formulation, model, m, direction, regularization.shift, begins, most)

    def moved(self, model: LocalModel, multipliers: Multipliers, c: np.ndarray | None) -> LocalModel:
        """A model moved to another iterate, with the values c (R,) of rows there."""
        if c is None or model.rows is None:
            return model
        return model._replace(rows=model.rows._replace(c=c, dual=self._dual(multipliers, c), weights=None))

    def _dual(self, multipliers: Multipliers, c: np.ndarray) -> np.ndarray:
        return multipliers.weights(self.rows, c)[1].p

    def search_single(self, found: FoundDirection, gap_weight: float, noise: float) -> TrialStep:
        """The step along a direction to the model's minimum, which knows limits better than others do."""
        assert found.direction is not None
        return self.trials(found, gap_weight, noise).along(found.direction)

    def after_step(self, state: State, used: Direction, step: Step) -> Multipliers:
        """The multipliers, which stay."""
        assert state.multipliers is not None
        return state.multipliers

    def expand(self, iterate: Iterate, exact: bool, before: Before, multipliers: Multipliers) -> LocalModel:
        """The model of the next iterate with the terms of its constraints."""
        model = self.formulation.expand(iterate, exact, before, multipliers.dual)
        return self.weighted(model, multipliers)

    def violation(self, model: LocalModel) -> float:
        """The largest violation, in the user's units."""
        at = model.rows
        return 0.0 if at is None else measures(self.rows, at.c, at.dual).violation


@dataclass(frozen=True)
class AugmentedLagrangian(SoftConstraints):
    """Constraints that hold at a solution.

    Parameters
    ----------
    warm : (multipliers (R,), penalty) or None
        Multipliers of the formulation's rows in a warm start, and its penalty.
    firm : bool
        True for a large first penalty (`first_multipliers`).
    restores : bool
        True if trajectories with less violation are searched for where constraints are met too slowly.
    """

    warm: tuple[np.ndarray, float] | None = None
    firm: bool = False
    restores: bool = True

    def _first_dual(self) -> np.ndarray:
        return super()._first_dual() if self.warm is None else self.warm[0]

    def _dual(self, multipliers: Multipliers, c: np.ndarray) -> np.ndarray:
        return multipliers.dual

    def _first_multipliers(self, model: LocalModel) -> Multipliers:
        return first_multipliers(model, self.warm, self.rows, self.firm)

    def before_iteration(self, state: State, solve_another: SolveAnother) -> State:
        """The state after a search for less violation, where constraints are met too slowly; with a barrier, where
        steps lead nowhere and gaps are closed."""
        if self.restores:
            state = checked(self.formulation, state, self.options, self._with_firm_penalty(solve_another))
        m, model = state.multipliers, state.model
        goes_on = state.status is None and model.iterate.gaps is None
        if not goes_on or m is None or m.waits < KINKED or m.barrier > 0.0:
            return state
        m = smoothed(self.rows, model, m)
        return state._replace(multipliers=m, model=self.weighted(model, m))

    def _with_firm_penalty(self, solve_another: SolveAnother) -> Run:
        """A solve of another formulation, in which rows count more than the cost from the start, without searches for
        feasibility."""

        def run(formulation: Formulation, start: Iterate, log: Log, until: int) -> State:
            constraints = AugmentedLagrangian(formulation, self.options, firm=True, restores=False)
            return solve_another(constraints, start, log, until)

        return run

    # ------------------------------------------------------------------------------------------------ the direction
    def find_direction(self, state: State, exact: bool, enough: float) -> FoundDirection:
        """The direction of this iteration; enough: a predicted decrease that counts as zero."""
        model, m, regularization, rows = state.model, state.multipliers, state.regularization, self.rows
        idle = state.stall.idle >= IDLE
        assert m is not None
        tolerance = self.options.feasibility_tolerance
        tolerance = float((np.maximum(tolerance, rows.rounding) * rows.D).min(initial=tolerance))
        if m.barrier > 0.0:
            m = with_met_barrier(rows, model, m)
            model = self.weighted(model, m)
        if state.direction is not None:
            m = self._advanced(state, model, m)
            model = self.weighted(model, m)
        for times in range(TRIES):
            near = state.predicted <= NEAR * abs(state.model.iterate.cost)
            found = find_direction(self.formulation, model, regularization, exact, near)
            if found.direction is None:
                return found._replace(multipliers=m)
            repaired = exact and found.direction.kind != EXACT
            found = found._replace(multipliers=m)
            if repaired:
                found = self._with_positive_curvature(found, regularization)
            found = self._with_updated_penalty(state, *self._towards_minimum(state, found, enough))
            model, m, regularization = found.model, found.multipliers, found.regularization
            assert found.direction is not None and m is not None
            _, predicted = expected_decrease(model.iterate, found.direction, state.gap_weight)
            careful, close = found.direction.kind == CONVEXIFIED, m.stationary * abs(model.iterate.own_cost)
            little = predicted <= max(min(close, worth(model, m)) if careful else close, enough)
            little = little and regularization.small and model.iterate.gaps is None
            if not (idle or little) or self.satisfied(model):
                return found
            if times > 0 and state.stall.idle >= IDLE and self._left(model, found.direction) <= PROGRESS:
                return found
            m, idle = at_minimum(model, m, tolerance, careful), False
            model = self.weighted(model, m)
        return found

    def _first_active_set(self, model: LocalModel, m: Multipliers) -> tuple[LocalModel, int]:
        """The model with the active set of its first sweep, and what that is: that of the multipliers."""
        return with_active_set(self.rows, model, m), OF_MULTIPLIERS

    def _with_positive_curvature(self, found: FoundDirection, regularization: Regularization) -> FoundDirection:
        """The exact direction with a larger penalty where rows are nearly met and that makes the curvature positive, as
        a penalty does that is large enough at a strict minimum [Bertsekas 1982]; else the direction as it is."""
        model, m, at = found.model, found.multipliers, found.model.rows
        assert found.direction is not None and m is not None and at is not None
        nearly = measures(self.rows, at.c, m.dual).scaled < NEARLY_MET
        if not nearly or m.barrier > 0.0 or EXACT not in model.expansions:
            return found
        while m.penalty < min(LARGEST * m.scale, m.ceiling):
            m = m._replace(penalty=raised(m, FACTOR))
            model = self.weighted(model, m)
            sweep = self.formulation.sweep(model, regularization.shift, EXACT)
            if sweep.ok:
                direction = Direction(EXACT, sweep, None, found.direction.indefinite_knot)
                return FoundDirection(direction, model, regularization, multipliers=m)
        return found

    def _advanced(self, state: State, model: LocalModel, m: Multipliers) -> Multipliers:
        """The multipliers, their centre moved if that is due, and the steps counted that lead nowhere."""
        assert model.rows is not None
        moved, violation = advanced(self.rows, model, m), total_violation(self.rows, model.rows.c)
        leads = moved is not m or 0.0 < violation <= PROGRESS * m.violation
        leads = leads or (bool(state.log) and gained_as_predicted(state.log[-1]))
        return moved._replace(waits=0 if leads else m.waits + 1)

    def _left(self, model: LocalModel, direction: Direction) -> float:
        """Fraction of the violation that the model's full step leaves."""
        rows, at = self.rows, model.rows
        assert at is not None
        dx, du = linear_step(model.expansion, model.iterate.gaps, direction.sweep, model.box)
        after = total_violation(rows, at.c + change_of_rows(rows.first, at.C, dx, du))
        return after / max(total_violation(rows, at.c), TINY)

    # ------------------------------------------------------------------------------------------------ the penalty
    def _with_updated_penalty(self, state: State, found: FoundDirection, minimum: ModelMinimum) -> FoundDirection:
        """The direction with a penalty that lets the step lower the violation."""
        model, m = found.model, found.multipliers
        assert model.rows is not None and found.direction is not None and m is not None
        if not found.regularization.small:
            return found
        _, predicted = expected_decrease(model.iterate, found.direction, state.gap_weight)
        near = predicted <= NEAR * abs(model.iterate.own_cost)
        if near and state.log and gained_as_predicted(state.log[-1]):
            bold = self._raised(found, minimum, BOLD)
            if bold is not found:
                bold = self._searched(bold, state.gap_weight)
                if bold is not None:
                    return bold
        stalled = total_violation(self.rows, model.rows.c) > CLOSE.left * m.violation
        bound = AT_START if state.direction is None else CLOSE if near and stalled else AWAY
        return self._raised(found, minimum, bound)

    def _searched(self, bold: FoundDirection, gap_weight: float) -> FoundDirection | None:
        """The direction with its trial step, if that is a full step that gains its predicted decrease and lowers the
        violation; None otherwise."""
        rows, at, direction = self.rows, bold.model.rows, bold.direction
        assert direction is not None and at is not None
        weight, _ = expected_decrease(bold.model.iterate, direction, gap_weight)
        trial = self.search(bold, weight, 0.0)
        if trial.step is None or trial.step.alpha < 1.0 or trial.step.c is None:
            return None
        lower = total_violation(rows, trial.step.c) <= PROGRESS * total_violation(rows, at.c)
        good = lower and kept(-direction.change, bold.model.iterate.cost - trial.step.cost)
        return bold._replace(trial=trial) if good else None

    def _raised(self, found: FoundDirection, minimum: ModelMinimum, bound: Bound) -> FoundDirection:
        """The direction with a larger penalty if its step leaves more of the violation than the bound allows.

        Of a row with S = C H^-1 C' a step leaves 1 / (1 + rho S), which tells how much larger rho has to be."""
        rows, at = self.rows, found.model.rows
        assert at is not None
        before = total_violation(rows, at.c)
        after = total_violation(rows, at.c + minimum.rows)
        for _ in range(bound.raises):
            m, direction = found.multipliers, found.direction
            assert direction is not None
            enough = after <= bound.left * before or before <= bound.small
            if enough or m.penalty >= min(bound.largest * m.scale, m.ceiling):
                break
            removed = before - after
            penalty = raised(m, penalty_factor(after, removed, bound.left, bound.leap))
            if direction.kind == CONVEXIFIED:
                penalty = min(penalty, bearable(m.dual, m.scale, measures(rows, at.c, m.dual).scaled))
                if penalty <= m.penalty:
                    break
            m = m._replace(penalty=penalty)
            model = self.weighted(found.model, m)
            sweep = sweep_of_kind(self.formulation, model, direction.kind, found.regularization.shift)
            if not sweep.ok:
                break
            direction = direction._replace(sweep=sweep, fallback=None)
            minimum = self._minimum(model, m, direction, found.regularization)
            left = total_violation(rows, at.c + minimum.rows)
            if not helps(left, after, before):
                break
            found, after = found._replace(model=model, multipliers=m, direction=minimum.direction), left
        return found

    # ------------------------------------------------------------------------------------------------ the step
    def search(self, found: FoundDirection, gap_weight: float, noise: float) -> TrialStep:
        """The step along a direction, and along no other one."""
        return self.search_single(found, gap_weight, noise)

    def search_single(self, found: FoundDirection, gap_weight: float, noise: float) -> TrialStep:
        """The step along a direction.  Where it promises less than the merit's rounding, it may raise the merit by as
        much: where states are large numbers, the last steps towards the constraints are refused or accepted by chance
        otherwise."""
        assert found.direction is not None
        if -found.direction.change <= visible(found.model):
            noise = max(noise, rounding(found.model))
        return super().search_single(found, gap_weight, noise)

    def bound(self, model: LocalModel) -> ViolationBound | None:
        """The bound for steps from an iterate; None where constraints are nearly met, or gaps are closed."""
        if model.rows is None or model.iterate.gaps is not None:
            return None
        if measures(self.rows, model.rows.c, model.rows.dual).scaled < NEARLY_MET:
            return None
        return ViolationBound(self.rows, WORSE * total_violation(self.rows, model.rows.c))

    def after_step(self, state: State, used: Direction, step: Step) -> Multipliers:
        """The multipliers after a step along a direction; unchanged by a short one, whose model says little of where it
        leads."""
        model, m = state.model, state.multipliers
        assert m is not None and model.rows is not None
        m = m._replace(violation=total_violation(self.rows, model.rows.c))
        if step.alpha < LONG_STEP:
            return m
        dx, du = linear_step(model.expansion, model.iterate.gaps, used.sweep, model.box)
        return stepped(self.rows, model.rows, dx, du, m, step.alpha)

    def after_single_step(self, state: State, used: Direction, step: Step) -> Multipliers:
        """The multipliers after the step of a real-time iteration; half of those before where that leaves most of the
        violation, as where limits of controls keep rows from being met: from sample to sample they would grow without
        bound, and be in the way long after."""
        m, before = self.after_step(state, used, step), state.multipliers
        assert before is not None and step.c is not None
        left = total_violation(self.rows, step.c)
        return m._replace(dual=PROGRESS * before.dual) if left > max(NEARLY_MET, PROGRESS * m.violation) else m

    def relaxed(self, model: LocalModel, multipliers: Multipliers) -> tuple[LocalModel, Multipliers]:
        """The model with a smaller penalty, where rows allow one."""
        assert model.rows is not None
        less = relaxed(self.rows, model.rows.c, multipliers)
        return (model, multipliers) if less is multipliers else (self.weighted(model, less), less)

    # ------------------------------------------------------------------------------------------------ the end
    def satisfied(self, model: LocalModel, multipliers: np.ndarray | None = None) -> bool:
        """True if violation and complementarity are within their tolerances, with these multipliers (R,), or p."""
        assert model.rows is not None and model.rows.weights is not None
        lam = model.rows.weights.p if multipliers is None else multipliers
        reached = measures(self.rows, model.rows.c, lam)
        slack = self.options.complementarity_tolerance * max(1.0, LARGE_COST * abs(model.iterate.own_cost))
        step_noise = capability(self.formulation.problem.system, Steps).step_noise
        met = reached.excess <= self.options.feasibility_tolerance
        if step_noise is not None:
            met |= reached.scaled <= float(step_noise(model.iterate.xs).max(initial=0.0))
        return met and reached.product <= slack

    def rank(self, model: LocalModel) -> tuple[float, float]:
        """The largest violation, in excess of rounding, if that is beyond the tolerance, else 0; and the problem's own
        cost."""
        if model.rows is None:
            return 0.0, model.iterate.cost
        violation = measures(self.rows, model.rows.c, model.rows.dual).excess
        return (violation if violation > self.options.feasibility_tolerance else 0.0), model.iterate.own_cost
