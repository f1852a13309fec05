"""An iteration's parts: the state of a solve between iterations, the direction that is found from it, and what is asked
of constraints, with the answers of problems that have none but limits of controls.

A direction is an exact sweep where that is asked for and positive definite, else a Gauss-Newton one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import decision
from trajopt.backward.backward_pass import SweepResult
from trajopt.backward.expansions import blended, convexified
from trajopt.backward.regularization import KEPT, LONGEST, Regularization, small
from trajopt.results.records import IterationRecord, Status
from trajopt.solvers.augmented_lagrangian import Multipliers
from trajopt.solvers.formulation import (
    CONVEXIFIED,
    EXACT,
    GAUSS_NEWTON,
    Before,
    Direction,
    Formulation,
    Iterate,
    LocalModel,
    predicted_gradient,
    with_gauss_newton,
)
from trajopt.solvers.line_search import (
    INVISIBLE,
    Bound,
    Merit,
    Rejected,
    Step,
    TrialStep,
    TrialSteps,
    merit_weight,
    own_merit,
)
from trajopt.solvers.options import LoopOptions

Log = tuple[IterationRecord, ...]


IDLE = 3
"""Number of steps in a row without a gain after which an iterate counts as a minimum."""
TRIES = 3
"""Largest number of times that what one iteration or one solve rarely does is repeated."""


@decision
def idle_after_step(idle, closing, gain, cost):
    """Number of steps in a row without a gain that is more than rounding, after a step to this cost."""
    return 0 if closing or gain > INVISIBLE * abs(cost) else idle + 1


class Stall(NamedTuple):
    """What does not go on: the number of steps in a row whose gain is below the rounding of the cost, and the
    candidates that line searches rejected since the last step."""

    idle: int = 0
    rejected: Rejected = Rejected()

    def after_step(self, closing: bool, gain: float, cost: float) -> Stall:
        """What does not go on after a step with this gain to this cost; closing: True if it closes gaps."""
        return Stall(idle_after_step(self.idle, closing, gain, cost))


class Feasibility(NamedTuple):
    """What searches for feasibility know: the first iterate of the solve; of the last check the number of steps tried
    by then, and the largest violation of scaled rows; weights (R,) of rows which show that these contradict each other,
    None if nothing does."""

    first: Iterate
    tried: int
    violation: float
    certificate: np.ndarray | None = None


class State(NamedTuple):
    """State of a solve between its iterations.

    model : of the last iterate
    regularization : for the next sweep
    predicted : predicted decrease of the merit for a full step along the last direction
    log : a record of every step tried, of searches for feasibility too; where a solve has ended, also the final iterate
    stall : steps in a row without a gain, and rejected candidates
    multipliers, feasibility : of the constraints; None if there are none
    gap_weight : weight of the gaps in the merit
    direction : the last one found, of the loop that goes on from an iterate; None before its first
    status : the reason why the solve has ended; None if it has not
    """

    model: LocalModel
    regularization: Regularization
    predicted: float
    log: Log
    stall: Stall
    multipliers: Multipliers | None = None
    feasibility: Feasibility | None = None
    gap_weight: float = 0.0
    direction: Direction | None = None
    status: Status | None = None

    @property
    def tried(self) -> int:
        """Number of steps tried so far; each has its record."""
        return len(self.log) - (self.status is not None)

    def end(self, converged: bool, most: int, invisible: bool) -> Status | None:
        """See `end_before_step`; None to go on."""
        return ENDS[end_before_step(converged, self.tried, most, self.stall.idle, self.regularization.mu, invisible)]


ENDS = None, Status.CONVERGED, Status.MAX_ITERATIONS, Status.LINE_SEARCH_FAILED
"""Ends of a solve before a step; None to go on."""
GO_ON, CONVERGED, MAX_ITERATIONS, LINE_SEARCH_FAILED = range(len(ENDS))
"""Codes of ends, their places."""


@decision
def end_before_step(converged, tried, most, idle, mu, invisible):
    """Code of the end of a solve that has a direction: that has converged, or tried as many steps as it may; or whose
    steps gain nothing for long, with a large mu and a predicted decrease below the rounding of the cost."""
    if converged:
        return CONVERGED
    if tried >= most:
        return MAX_ITERATIONS
    return LINE_SEARCH_FAILED if idle >= LONGEST and not small(mu) and invisible else GO_ON


def record_of(state: State, violation: float, direction: Direction | None, step: Step | None) -> IterationRecord:
    """The record of an iterate with this violation, of the direction found from it, None if none was, and of the step
    along it, None if there is none."""
    iterate = state.model.iterate
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


# --------------------------------------------------------------------------------------------
# The direction.


class FoundDirection(NamedTuple):
    """The direction of an iteration, or None with a status; the model, the regularization and the multipliers it was
    found with; the search along it, if that was already made; settled: False where it is not known to lead to the
    minimum of the model, so that a small predicted decrease says nothing of an optimum."""

    direction: Direction | None
    model: LocalModel
    regularization: Regularization
    status: Status | None = None
    multipliers: Any = None
    trial: TrialStep | None = None
    settled: bool = True

    def of(self, state: State) -> State:
        """The state with this direction, which was found from it, and with what that predicts."""
        weight, predicted = state.gap_weight, 0.0
        if self.direction is not None:
            weight, predicted = expected_decrease(self.model.iterate, self.direction, weight)
        return State(
            model=self.model, regularization=self.regularization, predicted=predicted, log=state.log,
            multipliers=self.multipliers, feasibility=state.feasibility, gap_weight=weight,
            direction=self.direction or state.direction, stall=state.stall,
        )  # fmt: skip


def expected_decrease(iterate: Iterate, direction: Direction, gap_weight: float) -> tuple[float, float]:
    """The weight of the gaps, and the decrease of the merit that the model predicts for a full step."""
    gap = iterate.total_gap
    weight = merit_weight(gap_weight, direction.change, gap, iterate.cost)
    return weight, max(0.0, weight * gap - direction.change)


@decision
def kept(promise, gain):
    """True if the gain of a full step agrees with its predicted decrease."""
    return abs(gain - promise) <= KEPT * promise


def find_direction(
    formulation: Formulation, model: LocalModel, regularization: Regularization, exact: bool, near: bool = False
) -> FoundDirection:
    """The direction of a model, exact if asked for and possible, mu raised until Quu is positive definite.

    Where exact curvature is indefinite, its positive part is used near an optimum under constraints (`near`), otherwise
    none.  The model returned is that of the sweep, the exact one where there are constraints."""
    knot, without_curvature = -1, False
    if not math.isfinite(model.gradient_norm):
        return FoundDirection(None, model, regularization, Status.INVALID_DERIVATIVES)
    if exact and EXACT not in model.expansions:
        model = formulation.with_curvature(model, None)
    if exact and EXACT in model.expansions:
        newton = formulation.sweep(model, regularization.shift, EXACT)
        if newton.ok:
            return FoundDirection(Direction(EXACT, newton, None, -1), model, regularization)
        found = _convexified(formulation, model, regularization, newton, None) if near else None
        if found is not None:
            return found
        exact, knot, without_curvature = False, newton.failed_knot, not newton.finite
    model = with_gauss_newton(formulation, model)
    gauss_newton = formulation.sweep(model, regularization.shift)
    while not gauss_newton.ok:
        if not gauss_newton.finite:
            return FoundDirection(None, model, regularization, Status.INVALID_DERIVATIVES)
        knot, regularization = gauss_newton.failed_knot, regularization.increased()
        if regularization.exhausted:
            return FoundDirection(None, model, regularization, Status.NOT_POSITIVE_DEFINITE)
        gauss_newton = formulation.sweep(model, regularization.shift)
    if exact:
        whole = formulation.with_curvature(model, gauss_newton.Vx)
        newton = formulation.sweep(whole, regularization.shift, EXACT)
        if newton.ok:
            used = model if model.rows is None else whole
            return FoundDirection(Direction(EXACT, newton, gauss_newton, knot), used, regularization)
        found = _convexified(formulation, whole, regularization, newton, gauss_newton) if near else None
        if found is not None:
            return found
        knot, without_curvature = newton.failed_knot, not newton.finite
    direction = Direction(GAUSS_NEWTON, gauss_newton, None, knot, without_curvature)
    return FoundDirection(direction, model, regularization)


def _convexified(
    formulation: Formulation,
    model: LocalModel,
    regularization: Regularization,
    rejected: SweepResult,
    fallback: SweepResult | None,
) -> FoundDirection | None:
    """The direction with the positive part of the curvature, where an exact sweep is rejected."""
    exact = model.expansions.get(EXACT)
    if exact is None or model.tensors is not None or not rejected.finite:
        return None
    convex = convexified(exact)
    while True:
        model = model.with_expansion(CONVEXIFIED, blended(exact, convex, regularization.share))
        sweep = formulation.sweep(model, regularization.shift, CONVEXIFIED)
        if sweep.ok:
            direction = Direction(CONVEXIFIED, sweep, fallback, rejected.failed_knot)
            return FoundDirection(direction, model, regularization)
        if regularization.share == 1.0:
            return None
        regularization = regularization.with_larger_share()


def left_of(formulation: Formulation, iterate: Iterate, direction: Direction, step: Step) -> Direction:
    """The direction, expressed about the iterate that a step along it led to:

        u = us + alpha k + K (xs_new - xs) + (1 - alpha) k + K (x - xs_new)

    so that (1 - alpha) k remains of k; the value function is moved to the new states, V_x + V_xx dx."""
    sweep, (alpha, xs, *_) = direction.sweep, step.candidate
    k = np.zeros_like(sweep.k) if alpha == 1.0 else (1.0 - alpha) * sweep.k
    Vx = predicted_gradient(formulation.problem, iterate, sweep, xs)
    return direction._replace(sweep=sweep._replace(k=k, Vx=Vx))


# --------------------------------------------------------------------------------------------
# What an iteration asks of constraints, and the answers where there are none; `trajopt.solvers.constrained` has others.


SolveAnother = Callable[["Unconstrained", Iterate, Log, int], State]
"""A solve under other constraints from an iterate, until its log, that goes on with another, has so many records."""


@dataclass(frozen=True)
class Unconstrained:
    """Constraints of a problem that has none, or only limits of controls that sweeps and rollouts keep."""

    formulation: Formulation
    options: LoopOptions

    def begin(self, start: Iterate, exact: bool, log: Log) -> State:
        """The state of a solve at its first iterate, without its regularization; exact: True for all curvature."""
        model = self.formulation.expand(start, exact)
        return State(model, Regularization(), np.inf, log, Stall())

    def before_iteration(self, state: State, solve_another: SolveAnother) -> State:
        """The state from which an iteration begins."""
        return state

    def find_direction(self, state: State, exact: bool, enough: float) -> FoundDirection:
        """The direction of an iteration; enough: a predicted decrease that counts as zero."""
        return find_direction(self.formulation, state.model, state.regularization, exact)

    def find_single_direction(self, state: State, exact: bool) -> FoundDirection:
        """The direction of a real-time iteration."""
        return find_direction(self.formulation, state.model, state.regularization, exact)

    def merit(self, multipliers: Any) -> Merit:
        """The merit of trajectories without gaps."""
        return own_merit(self.formulation.cost)

    def bound(self, model: LocalModel) -> Bound | None:
        """The bound of rows for steps from an iterate; None where there is none."""
        return None

    def trials(self, found: FoundDirection, gap_weight: float, noise: float) -> TrialSteps:
        """The searches from an iterate, `noise` being that of its cost."""
        model, mu = found.model, found.regularization.shift
        merit, bound = self.merit(found.multipliers), self.bound(model)
        return TrialSteps(self.formulation, model, merit, mu, gap_weight, noise, bound)

    def search(self, found: FoundDirection, gap_weight: float, noise: float) -> TrialStep:
        """The step along a direction and, where that is short, along others."""
        assert found.direction is not None
        return self.trials(found, gap_weight, noise).best(found.direction)

    def search_single(self, found: FoundDirection, gap_weight: float, noise: float) -> TrialStep:
        """The step of a real-time iteration along a direction."""
        return self.search(found, gap_weight, noise)

    def search_elsewhere(self, found: FoundDirection, trial: TrialStep, gap_weight: float, noise: float) -> TrialStep:
        """The better one of a trial that does not do what its model predicts, and of one along another direction."""
        return self.trials(found, gap_weight, noise).without_curvature(trial)

    def after_step(self, state: State, used: Direction, step: Step) -> Any:
        """The multipliers after a step along a direction."""
        return None

    def after_single_step(self, state: State, used: Direction, step: Step) -> Any:
        """The multipliers after the step of a real-time iteration."""
        return self.after_step(state, used, step)

    def moved(self, model: LocalModel, multipliers: Any, c: np.ndarray | None) -> LocalModel:
        """A model moved to another iterate, with the values c (R,) of rows there."""
        return model

    def expand(self, iterate: Iterate, exact: bool, before: Before, multipliers: Any) -> LocalModel:
        """The model of the next iterate."""
        return self.formulation.expand(iterate, exact, before)

    def relaxed(self, model: LocalModel, multipliers: Any) -> tuple[LocalModel, Any]:
        """The model and its multipliers with a smaller penalty, where a step was short; the same ones where none
        helps."""
        return model, multipliers

    def satisfied(self, model: LocalModel, multipliers: np.ndarray | None = None) -> bool:
        """True if all constraints hold, and with these multipliers (R,) complementarity, within their tolerances; None:
        those of the next step."""
        return True

    def violation(self, model: LocalModel) -> float:
        """The largest violation, in the user's units."""
        return 0.0

    def rank(self, model: LocalModel) -> tuple[float, float]:
        """The largest violation, in excess of rounding, if that is beyond the tolerance, else 0; and the cost."""
        return 0.0, model.iterate.cost
