"""State of a solve between its iterations, and the direction that an iteration finds from it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from trajopt.backward.backward_pass import SweepResult
from trajopt.backward.expansions import blended, convexified
from trajopt.backward.regularization import Regularization
from trajopt.results.records import IterationRecord, Status
from trajopt.solvers.augmented_lagrangian import Multipliers, measures
from trajopt.solvers.formulation import (
    CONVEXIFIED,
    EXACT,
    GAUSS_NEWTON,
    Direction,
    Formulation,
    Iterate,
    LocalModel,
    Stopwatch,
    with_gauss_newton,
)
from trajopt.solvers.line_search import Rejected, TrialStep, merit_weight
from trajopt.solvers.options import LoopOptions

Log = tuple[IterationRecord, ...]


IDLE = 3
"""Number of steps in a row without a gain after which an iterate counts as a minimum."""


class Checked(NamedTuple):
    """The last check of feasibility: the number of steps tried by then, and the largest violation of scaled rows."""

    tried: int = 0
    violation: float = np.inf


class State(NamedTuple):
    """State of a solve between its iterations.

    model : of the last iterate
    regularization : for the next sweep
    predicted : predicted decrease of the merit for a full step along the last direction
    log : a record of every step tried, of searches for feasibility too; where a solve has ended, also the final iterate
    multipliers : of the constraints; None if there are none
    gap_weight : weight of the gaps in the merit
    direction : the last one found, of the loop that goes on from an iterate; None before its first
    without_curvature : True if the iterate's curvature is not finite, and the direction has none
    rejected : candidates that line searches rejected since the last step
    idle : number of steps in a row whose gain is below the rounding of the cost
    again : number of times that mu began again at zero, no step being found with a large one
    trusted : True if the last step was a full one and gained its predicted decrease
    violation : sum of the violations of scaled rows where that step began
    checked : the last check of feasibility
    first : the first iterate, where there are constraints
    certificate : weights (R,) of rows which show that these contradict each other; None if nothing does
    stopping : True if the callback asks to stop
    status : the reason why the solve has ended; None if it has not
    saddle : message about a saddle at which the solve has ended
    """

    model: LocalModel
    regularization: Regularization
    predicted: float
    log: Log
    multipliers: Multipliers | None = None
    gap_weight: float = 0.0
    direction: Direction | None = None
    without_curvature: bool = False
    rejected: Rejected = Rejected()
    idle: int = 0
    again: int = 0
    trusted: bool = False
    violation: float = np.inf
    checked: Checked = Checked()
    first: Iterate | None = None
    certificate: np.ndarray | None = None
    stopping: bool = False
    status: Status | None = None
    saddle: str = ""

    @property
    def tried(self) -> int:
        """Number of steps tried so far; each has its record."""
        return len(self.log) - (self.status is not None)


class FoundDirection(NamedTuple):
    """The direction of an iteration, or None with a status; the model, the multipliers and the regularization it was
    found with; the search along it, if that was already made."""

    direction: Direction | None
    model: LocalModel
    regularization: Regularization
    without_curvature: bool = False
    status: Status | None = None
    multipliers: Multipliers | None = None
    trial: TrialStep | None = None


def expected_decrease(iterate: Iterate, direction: Direction, gap_weight: float) -> tuple[float, float]:
    """The weight of the gaps, and the decrease of the merit that the model predicts for a full step."""
    gap = iterate.total_gap
    weight = merit_weight(gap_weight, direction.change, gap, iterate.cost)
    return weight, max(0.0, weight * gap - direction.change)


# --------------------------------------------------------------------------------------------
# The best iterate of a solve that a time limit ends: without gaps, then within constraints, then of the least cost.
#
# An iterate later on need not be better: gaps are closed, and constraints met, at the expense of the cost.


class Ranked(NamedTuple):
    """A state and its rank, smaller is better: sum of gaps; largest violation beyond the tolerance, else 0; cost."""

    rank: tuple[float, float, float]
    state: State

    def at_end(self, last: State) -> State:
        """This state as the end of a solve whose last state is another one."""
        return self.state._replace(status=last.status, log=last.log)


def ranked(formulation: Formulation, state: State, options: LoopOptions) -> Ranked:
    """A state with its rank; soft constraints count as cost."""
    rows, (iterate, at) = formulation.rows, (state.model.iterate, state.model.rows)
    if rows is None or at is None or options.soft_penalty > 0.0:
        return Ranked((iterate.total_gap, 0.0, iterate.cost), state)
    violation = measures(rows, at.c, at.dual).excess
    beyond = violation if violation > options.feasibility_tolerance else 0.0
    return Ranked((iterate.total_gap, beyond, iterate.own_cost), state)


def better(known: Ranked | None, new: Ranked) -> Ranked:
    """The better one of two, the new one where neither is."""
    return new if known is None or new.rank <= known.rank else known


# --------------------------------------------------------------------------------------------
# The direction of an iteration: an exact sweep where that is asked for and positive definite, else Gauss-Newton.


class Directions(NamedTuple):
    """Computes directions from models; `clock` counts the time."""

    formulation: Formulation
    clock: Stopwatch

    def find(
        self, model: LocalModel, regularization: Regularization, exact: bool, near: bool = False
    ) -> FoundDirection:
        """The direction of a model, exact if asked for and possible, mu raised until Quu is positive definite.  Where
        exact curvature is indefinite, its positive part is used under constraints near the optimum (`near`), otherwise
        none.  The model returned is that of the sweep, the exact one where there are constraints."""
        formulation, clock = self.formulation, self.clock
        knot, without_curvature = -1, False
        if not math.isfinite(model.gradient_norm):
            return FoundDirection(None, model, regularization, status=Status.INVALID_DERIVATIVES)
        if exact and model.exact is None:
            model = formulation.with_curvature(model, None, clock)
        if exact and model.exact is not None:
            newton = formulation.sweep(model, regularization.shift, clock, EXACT)
            if newton.ok:
                return FoundDirection(Direction(EXACT, newton, None, -1), model, regularization)
            found = self._convexified(model, regularization, newton, None) if near else None
            if found is not None:
                return found
            exact, knot, without_curvature = False, newton.failed_knot, not newton.finite
        model = with_gauss_newton(formulation, model, clock)
        gauss_newton = formulation.sweep(model, regularization.shift, clock)
        while not gauss_newton.ok:
            if not gauss_newton.finite:
                return FoundDirection(None, model, regularization, without_curvature, Status.INVALID_DERIVATIVES)
            knot, regularization = gauss_newton.failed_knot, regularization.increased()
            if regularization.exhausted:
                return FoundDirection(None, model, regularization, without_curvature, Status.NOT_POSITIVE_DEFINITE)
            gauss_newton = formulation.sweep(model, regularization.shift, clock)
        if exact:
            whole = formulation.with_curvature(model, gauss_newton.Vx, clock)
            newton = formulation.sweep(whole, regularization.shift, clock, EXACT)
            if newton.ok:
                kept = model if model.rows is None else whole
                return FoundDirection(
                    Direction(EXACT, newton, gauss_newton, knot), kept, regularization, without_curvature
                )
            found = self._convexified(whole, regularization, newton, gauss_newton) if near else None
            if found is not None:
                return found
            knot, without_curvature = newton.failed_knot, not newton.finite
        return FoundDirection(
            Direction(GAUSS_NEWTON, gauss_newton, None, knot), model, regularization, without_curvature
        )

    def _convexified(
        self, model: LocalModel, regularization: Regularization, rejected: SweepResult, fallback: SweepResult | None
    ) -> FoundDirection | None:
        """The direction with the positive part of the curvature, where an exact sweep is rejected under constraints."""
        exact = model.exact
        if model.rows is None or exact is None or exact.of_knot is not None or not rejected.finite:
            return None
        convex = convexified(exact.expansion)
        while True:
            some = blended(exact.expansion, convex, regularization.share)
            model = model._replace(exact=exact._replace(convex=some))
            sweep = self.formulation.sweep(model, regularization.shift, self.clock, CONVEXIFIED)
            if sweep.ok:
                return FoundDirection(
                    Direction(CONVEXIFIED, sweep, fallback, rejected.failed_knot), model, regularization
                )
            if regularization.share == 1.0:
                return None
            regularization = regularization.with_larger_share()
