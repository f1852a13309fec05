"""How a problem is formulated for the sweep: what its controls are, and how trajectories follow from them.

First the data that the parts of an iteration exchange: iterates, local models, directions, candidates; then rollouts,
what a quadratic model predicts for a step, and the formulation by forward dynamics, where the sweep's controls are the
problem's, and a trajectory is a rollout.  That by inverse dynamics is in `trajopt.solvers.inverse`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics.simd import decision, helper, lean_routine
from dynamics.validation import as_array, check_shape
from trajopt.backward.backward_pass import Box, SweepResult, sweep
from trajopt.backward.expansions import (
    Expansion,
    Tensors,
    finite,
    hessian_products,
    largest_gradient,
    tensors_of,
    with_hessians,
)
from trajopt.backward.regularization import FIRST
from trajopt.backward.slots import Limits, Slots, give_back, take_slots
from trajopt.capabilities import Steps, capability
from trajopt.interfaces.stepwise import closed_loop_by_steps, rollouts_take
from trajopt.problem.objective import all_finite, zero_blocks
from trajopt.problem.problem import Problem
from trajopt.rows import Rows, Weights, add_gradients, add_terms

PARTS = ("derivatives", "backward_pass", "rollouts")


class Stopwatch:
    """Seconds since construction, and the seconds spent in each part; `limit`: time limit in seconds, None for none."""

    def __init__(self, limit: float | None = None) -> None:
        self._start, self.limit = time.perf_counter(), limit
        self._seconds: dict[str, float] = dict.fromkeys(PARTS, 0.0)
        self._part, self._begin = "", 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    @property
    def over(self) -> bool:
        """True if the time limit has passed."""
        return self.limit is not None and self.elapsed >= self.limit

    def measure(self, part: str) -> Stopwatch:
        """Context that adds the time inside the with-block to this part; such blocks may not be nested."""
        self._part = part
        return self

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        self._seconds[self._part] += time.perf_counter() - self._begin

    def split(self) -> dict[str, float]:
        """Seconds of total, derivatives, backward_pass, rollouts and other; the last four add up to the first."""
        total = self.elapsed
        return {"total": total, **self._seconds, "other": total - sum(self._seconds.values())}


# --------------------------------------------------------------------------------------------
# Data that the parts of an iteration exchange.

GAUSS_NEWTON, EXACT, CONVEXIFIED = "gauss_newton", "exact", "convexified"
"""Kinds of sweeps: without second derivatives of dynamics and residuals, with all of them, with their positive part."""
EPSILON = float(np.finfo(np.float64).eps)


@lean_routine
def _absolute_sum(rows):
    total = 0.0
    for t in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            total += abs(rows[t, i])
    return total


class Iterate(NamedTuple):
    """A trajectory xs (N+1, nx), us (N, nu) and its cost; `time`: seconds from the start until it was reached.

    `controls` (N, nu) are what the sweep changes: the controls themselves, or accelerations (`InverseFormulation`).
    `cost` contains the augmented-Lagrangian terms of constraints, `own_cost` is the problem's alone.
    `gaps` (N+1, ndx) lie between the states and the dynamics (see `trajopt.System`); None if there are none.
    """

    xs: np.ndarray
    us: np.ndarray
    controls: np.ndarray
    cost: float
    gaps: np.ndarray | None
    time: float
    own_cost: float

    @property
    def total_gap(self) -> float:
        """Sum of the gaps' absolute entries."""
        return 0.0 if self.gaps is None else _absolute_sum(self.gaps)


class RowModel(NamedTuple):
    """Constraints at an iterate: values c (R,), Jacobians C = (Cx, Cu) with respect to states and the sweep's controls,
    the multipliers (R,) of exact models and of the costate, and the weights of the augmented-Lagrangian terms; None
    before these are known."""

    c: np.ndarray
    C: tuple[np.ndarray, np.ndarray]
    dual: np.ndarray
    weights: Weights | None = None


class LocalModel(NamedTuple):
    """An iterate and its quadratic models, of which not all kinds may be known (yet).

    costate (N+1, ndx); `gradient_norm`: largest gradient entry, inf if the gradient is not finite; an entry whose
    control lies on a limit that the gradient pushes it against does not count.  `box`: the limits that a sweep keeps.
    `rows`: the constraints; None if there are none.  Their augmented-Lagrangian terms are in no model: sweeps add them.
    `tensors`: second derivatives of the dynamics for exact sweeps to contract, if their curvature is not in the exact
    model.
    """

    iterate: Iterate
    expansions: dict[str, Expansion]
    costate: np.ndarray
    gradient_norm: float
    box: Box | None = None
    rows: RowModel | None = None
    tensors: Tensors | None = None

    @property
    def expansion(self) -> Expansion:
        """The expansion that was known first: first derivatives are the same in all."""
        return next(iter(self.expansions.values()))

    def with_expansion(self, kind: str, e: Expansion) -> LocalModel:
        """The model with an expansion of this kind."""
        return self._replace(expansions={**self.expansions, kind: e})


Before = tuple[LocalModel, SweepResult] | None
"""The model and the sweep whose full step led to an iterate; None if there was no such step."""


class Direction(NamedTuple):
    """A sweep and its kind; `fallback` is the Gauss-Newton sweep behind an exact one.

    `indefinite_knot`: the last knot at which a sweep of this iteration met a Quu that is not positive definite; -1 if
    there was none.  `without_curvature`: True if the curvature that it was to have is not finite.
    """

    kind: str
    sweep: SweepResult
    fallback: SweepResult | None
    indefinite_knot: int
    without_curvature: bool = False

    @property
    def change(self) -> float:
        """Predicted change d1 + d2/2 of the objective for a full step."""
        return self.sweep.d1 + 0.5 * self.sweep.d2


class Candidate(NamedTuple):
    """A trajectory along a direction: step length, states, controls, and the sweep's controls there."""

    alpha: float
    xs: np.ndarray
    us: np.ndarray
    controls: np.ndarray


def remaining_gaps(gaps: np.ndarray | None, alpha: float, xs: np.ndarray) -> np.ndarray | None:
    """Gaps that remain after a step of length alpha to the states xs; None if they are below the states' rounding."""
    if gaps is None:
        return None
    left = (1.0 - alpha) * gaps
    return left if np.abs(left).max() > EPSILON * np.abs(xs).max() else None


@lean_routine
def rounding_of_states(xs, costate):
    """`rounding`, for compiled code."""
    total = 0.0
    for t in range(xs.shape[0]):
        largest = 0.0
        for i in range(xs.shape[1]):
            largest = max(largest, abs(xs[t, i]))
        for i in range(costate.shape[1]):
            x = costate[t, i] * (abs(xs[t, i]) if xs.shape[1] == costate.shape[1] else largest)
            total += x * x
    return EPSILON * math.sqrt(total)


def rounding(model: LocalModel) -> float:
    """Rounding error of the cost that the last bits of the states cause: each step in time rounds them, and the costate
    carries that into the cost."""
    return rounding_of_states(model.iterate.xs, model.costate)


def noise(problem: Problem, model: LocalModel) -> float:
    """Standard deviation of the cost where steps in time are less accurate than double precision, else 0."""
    step_noise = capability(problem.system, Steps).step_noise
    if step_noise is None:
        return 0.0
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(model.costate[1:] * step_noise(model.iterate.xs)))


def with_gauss_newton(formulation: Formulation, model: LocalModel) -> LocalModel:
    """The model with a Gauss-Newton expansion, expanded again if it has the exact one alone."""
    if GAUSS_NEWTON in model.expansions:
        return model
    dual = None if model.rows is None else model.rows.dual
    return formulation.expand(model.iterate, dual=dual)._replace(box=model.box, rows=model.rows)


def sweep_of_kind(formulation: Formulation, model: LocalModel, kind: str, mu: float) -> SweepResult:
    """Backward pass of this kind, with the Gauss-Newton one before it where it needs that."""
    if kind != GAUSS_NEWTON and EXACT in model.expansions:
        return formulation.sweep(model, mu, kind)
    model = with_gauss_newton(formulation, model)
    sweep = formulation.sweep(model, mu)
    if kind == GAUSS_NEWTON or not sweep.ok:
        return sweep
    return formulation.sweep(formulation.with_curvature(model, sweep.Vx), mu, EXACT)


ALPHAS = 0.5 ** np.arange(8)
"""Step lengths 1, 1/2, ..., 2^-7."""


def closed_loop(
    problem: Problem,
    xs: np.ndarray,
    us: np.ndarray,
    k: np.ndarray,
    K: np.ndarray,
    gaps: np.ndarray | None = None,
    limits: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Candidates xs_new (8, N+1, nx) and us_new (8, N, nu) for u_new = u + alpha k + K (x_new - x).

    Control limits are kept: (lower, upper), (N, nu) each, and the part 1 - alpha of the gaps.
    """
    system, policy = problem.system, (xs, us, k, K, ALPHAS)
    with np.errstate(all="ignore"):
        if gaps is None and limits is None:
            found = system.closed_loop_rollout(problem.x0, *policy)
        elif rollouts_take(type(system), "gaps", "lower", "upper"):
            found = system.closed_loop_rollout(problem.x0, *policy, gaps, *(limits or (None, None)))
        else:
            found = closed_loop_by_steps(system, problem.x0, *policy, gaps, *(limits or (None, None)))
    xs_new = check_shape("closed_loop_rollout, xs_new", found[0], (len(ALPHAS), *xs.shape))
    return xs_new, check_shape("closed_loop_rollout, us_new", found[1], (len(ALPHAS), *us.shape))


# --------------------------------------------------------------------------------------------
# Predictions of a quadratic model for a step along a sweep's direction: the step itself and the change of the cost.


NOTHING = np.empty((0, 0))


@helper
def dot(A, t, i, z, s):
    """A[t, i] . z[s], in four partial sums, which vectorizes."""
    n = z.shape[1]
    a, b, c, d, j = 0.0, 0.0, 0.0, 0.0, 0
    while j + 4 <= n:
        a += A[t, i, j] * z[s, j]
        b += A[t, i, j + 1] * z[s, j + 1]
        c += A[t, i, j + 2] * z[s, j + 2]
        d += A[t, i, j + 3] * z[s, j + 3]
        j += 4
    while j < n:
        a += A[t, i, j] * z[s, j]
        j += 1
    return (a + b) + (c + d)


@lean_routine
def follow(fx, fu, gaps, k, K, lower, upper, dx0, du0, length, dx, du):
    """`linear_step`, for compiled code: a step of this length, from a start (dx0, du0) or from the iterate."""
    N, ndx, nu = fu.shape
    for t in range(N + 1):
        if t == 0:
            for i in range(ndx):
                dx[0, i] = gaps[0, i] if gaps.shape[0] > 0 else 0.0
        else:
            for i in range(ndx):
                dx[t, i] = gaps[t, i] if gaps.shape[0] > 0 else 0.0
                dx[t, i] += dot(fx, t - 1, i, dx, t - 1) + dot(fu, t - 1, i, du, t - 1)
        if t == N:
            break
        for i in range(nu):
            du[t, i] = length * k[t, i]
            if du0.shape[0] > 0:
                du[t, i] += du0[t, i]
                for j in range(ndx):
                    du[t, i] += K[t, i, j] * (dx[t, j] - dx0[t, j])
            else:
                du[t, i] += dot(K, t, i, dx, t)
            if lower.shape[0] > 0:
                du[t, i] = min(max(du[t, i], lower[t, i]), upper[t, i])


def linear_step(
    e: Expansion, gaps: np.ndarray | None, result: SweepResult, box: Box | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The full step of the linearized trajectory, dx (N+1, ndx) and du (N, nu), kept within the box if there is one:

    dx_0 = gaps_0, du = k + K dx, dx' = fx dx + fu du + gaps'."""
    dx, du = np.empty_like(e.lx), np.empty_like(e.lu)
    lower, upper = (NOTHING, NOTHING) if box is None else (box.lower, box.upper)
    gaps = NOTHING if gaps is None else gaps
    follow(e.fx, e.fu, gaps, result.k, result.K, lower, upper, NOTHING, NOTHING, 1.0, dx, du)
    return dx, du


@lean_routine
def change(lx, lu, lxx, lux, luu, dx, du):
    """Linear part, and twice the quadratic part, of the cost's change along dx (N+1, ndx), du (N, nu)."""
    N, ndx, nu = lux.shape[0], dx.shape[1], du.shape[1]
    d1, d2 = 0.0, 0.0
    for t in range(N + 1):
        for i in range(ndx):
            d1 += lx[t, i] * dx[t, i]
            d2 += dx[t, i] * dot(lxx, t, i, dx, t)
        if t == N:
            break
        for i in range(nu):
            d1 += lu[t, i] * du[t, i]
            d2 += du[t, i] * (2.0 * dot(lux, t, i, dx, t) + dot(luu, t, i, du, t))
    return d1, d2


@lean_routine
def write_gradient_at(Vx, Vxx, dx, gradient):
    """Write Vx + Vxx dx at all knots into gradient (N+1, ndx)."""
    for t in range(gradient.shape[0]):
        for i in range(gradient.shape[1]):
            gradient[t, i] = Vx[t, i]
        for j in range(gradient.shape[1]):
            for i in range(gradient.shape[1]):  # along the rows of the symmetric Vxx, which vectorizes
                gradient[t, i] += Vxx[t, j, i] * dx[t, j]


def completed(result: SweepResult, expansion: Expansion, gaps: np.ndarray | None) -> SweepResult:
    """The sweep's result with d1 = sum lx'dx + lu'du and d2, twice the quadratic part, of the step of the linearized
    trajectory that also closes the gaps; or, if the sweep failed, with `finite` false if the expansion is not
    finite."""
    if not result.ok:
        return result._replace(finite=result.finite and finite(*expansion))
    if gaps is None:
        return result
    d1, d2 = change(*expansion[2:], *linear_step(expansion, gaps, result))
    return result._replace(d1=d1, d2=d2)


@decision
def exact_wanted(threshold, predicted, cost):
    """True if a predicted decrease is so small a part of the cost that the next step is to be exact."""
    return predicted < threshold * abs(cost)


@dataclass(frozen=True)
class Curvature:
    """Curvature in exact sweeps.

    Attributes
    ----------
    hessian : "parallel" or "tensor"
        Which multiplier contracts the curvature of the dynamics, and how (see `trajopt.DDP`).
    cost_hessian : "exact" or "gauss_newton"
    threshold : exact sweeps once the predicted decrease is below this fraction of the cost; 0: never
    escape : True if the solve leaves saddles (`trajopt.solvers.solve`)
    """

    hessian: str = "parallel"
    cost_hessian: str = "exact"
    threshold: float = 0.0
    escape: bool = False

    def wanted(self, predicted: float, iterate: Iterate) -> bool:
        """True if the last predicted decrease was small enough for an exact step from this iterate."""
        return exact_wanted(self.threshold, predicted, iterate.cost)


def shares_of(mu: float, gaps: np.ndarray | None) -> tuple[float, float]:
    """How much of mu is added to the Hessians in the states, and how much to Quu.

    Without gaps all of it is added to Quu.  With gaps the states have it, and Quu no more than makes a singular one
    definite: with mu on Quu alone the feedback vanishes as mu grows, and nothing keeps the trajectory together while
    its gaps close.
    """
    return (0.0, mu) if gaps is None else (mu, min(mu, FIRST))


def predicted_gradient(problem: Problem, iterate: Iterate, sweep: SweepResult, xs: np.ndarray) -> np.ndarray:
    """Predicted gradient Vx + Vxx dx (N+1, ndx) of the value function at states xs, by a sweep at an iterate, exact up
    to the square of the step: from the first knot on it is the multiplier of the dynamics."""
    found, gaps = problem.system.difference(iterate.xs, xs), iterate.gaps
    dx = as_array("difference", found, (len(xs), problem.system.ndx), finite=False)
    gradient = np.empty_like(sweep.Vx)
    write_gradient_at(sweep.Vx, sweep.Vxx, dx if gaps is None else dx - gaps, gradient)
    return gradient


class Formulation:
    """Transcription of a problem: it defines the sweep's controls, and how a trajectory follows from them.

    Parameters
    ----------
    problem : Problem
    limits : (lower, upper), (N, nu) each, or None
        Control limits that sweeps and rollouts keep.
    curvature : Curvature
    clock : Stopwatch, optional
        That of the solve.
    slots : Slots, optional
        Those of the caller, that serve the problem.

    Attributes
    ----------
    rows : Rows or None
        Constraints other than these limits; none at first.
    slots : Slots
        What is prepared for it; cost and prepared_sweep are methods of these.
    kept : dict
        What others prepare for it, and for all problems that differ in numbers alone.
    """

    rows: Rows | None = None

    def __init__(
        self,
        problem: Problem,
        limits: Limits | None,
        curvature: Curvature,
        clock: Stopwatch | None = None,
        slots: Slots | None = None,
    ) -> None:
        self.problem, self.limits, self.curvature = problem, limits, curvature
        self.clock = clock or Stopwatch()
        self.slots = slots = slots or take_slots(problem, limits)
        self.cost, self.prepared_sweep, self.kept = slots.cost, slots.prepared_sweep, slots.kept

    def close(self) -> None:
        """End its use; what it has prepared is left to the next solves."""
        give_back(self.slots)

    def start(self, us: np.ndarray, xs: np.ndarray | None) -> Iterate:
        """The rollout of us, or the states xs with their gaps."""
        system, x0, gaps, known = self.problem.system, self.problem.x0, None, True
        with self.clock.measure("rollouts"), np.errstate(all="ignore"):
            us = us if self.limits is None else us.clip(*self.limits)
            if xs is None:
                xs = system.rollout(x0.copy(), us)  # from a writable array, as of prepared calls: one kernel for both
                xs = as_array("rollout", xs, (len(us) + 1, system.nx), finite=False)
            else:
                gaps = self.slots.gaps(xs, us)
                known = all_finite(gaps)
                gaps = remaining_gaps(gaps, 0.0, xs) if known else gaps
            xs, us = np.array(xs, order="C"), np.array(us, order="C")
            cost = self.cost(xs, us) if known else np.inf
            return Iterate(xs, us, us, cost, gaps, self.clock.elapsed, cost)

    def expand(
        self, iterate: Iterate, exact: bool = False, before: Before = None, dual: np.ndarray | None = None
    ) -> LocalModel:
        """The Gauss-Newton model of an iterate; if `exact`, the exact one instead, provided that all it needs is known,
        perhaps from the model and the sweep whose full step led here.  dual (R,): multipliers of the rows."""
        (xs, us, *_), rows, kind = iterate, None, GAUSS_NEWTON
        with self.clock.measure("derivatives"):
            all_of_costs = exact and self.curvature.cost_hessian == "exact"
            at = self.slots.expanded()
            if exact and before is not None and self.curvature.hessian == "parallel":
                multiplier = predicted_gradient(self.problem, before[0].iterate, before[1], xs)[1:]
                expansion, kind = at.expand(xs, us, multiplier, all_of_costs), EXACT
            else:
                expansion = at.expand(xs, us)
            if self.rows is not None and dual is not None:
                c, Cx, Cu = self.rows.linearized(xs, us)
                rows = RowModel(c, (Cx, Cu), dual)
                add_gradients(self.rows.first, Cx, Cu, dual, *at.gradients)
                if all_of_costs and kind == EXACT:
                    self.rows.add_curvature(xs, us, dual, expansion[2:])
            costate, gradient = at.adjoint()
            norm = largest_gradient(gradient, us, self.limits)
            return LocalModel(iterate, {kind: expansion}, costate, norm, at.box_around_controls(), rows)

    def with_curvature(self, model: LocalModel, Vx: np.ndarray | None) -> LocalModel:
        """The model with the exact one added; Vx (N+1, ndx) is that of its Gauss-Newton sweep.  Unchanged where Vx is
        needed, in the mode "parallel", and None."""
        (xs, us, *_), system, costs, products, tensors = model.iterate, self.problem.system, None, None, None
        if self.curvature.hessian == "parallel" and Vx is None:
            return model
        with self.clock.measure("derivatives"):
            if self.curvature.cost_hessian == "exact":
                costs = zero_blocks(self.problem.horizon, system.ndx, system.nu)
                self.problem.objective.accumulate(xs, us, None, costs)
                if self.rows is not None and model.rows is not None:
                    self.rows.add_curvature(xs, us, model.rows.dual, costs)
            if self.curvature.hessian == "parallel" and Vx is not None:
                products = hessian_products(system, xs, us, np.ascontiguousarray(Vx[1:]))
            else:
                tensors = tensors_of(system, xs, us)
            exact = with_hessians(model.expansions[GAUSS_NEWTON], costs, products)
            return model.with_expansion(EXACT, exact)._replace(tensors=tensors)

    def sweep(self, model: LocalModel, mu: float, kind: str = GAUSS_NEWTON) -> SweepResult:
        """Backward pass of the model of this kind, whose expansion it must have."""
        expansion, tensors = model.expansions[kind], model.tensors if kind == EXACT else None
        with self.clock.measure("backward_pass"):
            gaps, box, slots, e = model.iterate.gaps, model.box, self.slots, expansion
            on_states, mu = shares_of(mu, gaps)
            terms = None if self.rows is None or model.rows is None else model.rows.weights
            swept = slots.swept_over(expansion, box) if terms is None and gaps is None else None
            if swept is None:
                swept = slots.swept()
                e = swept.hold(expansion, gaps, box)
                if terms is not None and self.rows is not None and model.rows is not None:
                    add_terms(self.rows.first, *model.rows.C, *terms, *e[2:])
                if on_states > 0.0:
                    np.einsum("tii->ti", e.lxx)[...] += on_states
            if tensors is None:
                return completed(swept.sweep(mu), e, gaps)
            return completed(sweep(e, mu, slots.dt, gaps, box, leading=slots.leading, tensors=tensors), e, gaps)

    def candidates(self, model: LocalModel, sweep: SweepResult) -> Iterator[Candidate]:
        """Trajectories along a direction, longest step first: closed-loop rollouts, all in one call."""
        xs, us, gaps = model.iterate.xs, model.iterate.us, model.iterate.gaps
        found = self.slots.rollouts(xs, us, sweep.k, sweep.K, ALPHAS, gaps)
        if found is None:
            found = closed_loop(self.problem, xs, us, sweep.k, sweep.K, gaps, self.limits)
        for alpha, xs_new, us_new in zip(ALPHAS, *found, strict=True):
            xs_new, us_new = np.array(xs_new, order="C"), np.array(us_new, order="C")
            yield Candidate(float(alpha), xs_new, us_new, us_new)

    def policy(self, model: LocalModel, sweep: SweepResult) -> tuple[np.ndarray, np.ndarray]:
        """k (N, nu) and K (N, nu, ndx) for the controls us: the sweep's own gains."""
        return sweep.k, sweep.K
