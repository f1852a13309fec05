"""Stopwatch, iterates, local models and directions: the data that the parts of an iteration exchange."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple, Protocol

import numpy as np

from dynamics.simd import routine
from dynamics.validation import as_array, check_shape
from trajopt.backward.box_qp import Box
from trajopt.backward.curvature import CurvatureOfKnot
from trajopt.backward.expansions import Expansion
from trajopt.backward.sweep import SweepResult
from trajopt.capabilities import Steps, capability
from trajopt.interfaces.stepwise import closed_loop_by_steps, rollouts_take
from trajopt.problem.objective import Blocks
from trajopt.problem.problem import Problem
from trajopt.rows.augmented_terms import Weights, with_terms
from trajopt.rows.rows import Rows
from trajopt.solvers.line_search import Candidate

PARTS = ("derivatives", "backward_pass", "rollouts")


class _TimedPart:
    """Seconds spent in with-blocks, which may not be nested."""

    __slots__ = ("_begin", "seconds")

    def __init__(self):
        self.seconds = self._begin = 0.0

    def __enter__(self) -> None:
        self._begin = time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        self.seconds += time.perf_counter() - self._begin


class Stopwatch:
    """Seconds since construction, and the seconds spent in each part; `limit`: time limit in seconds, None for none."""

    def __init__(self, limit: float | None = None) -> None:
        self._start, self.limit = time.perf_counter(), limit
        self._parts = {part: _TimedPart() for part in PARTS}

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._start

    @property
    def over(self) -> bool:
        """True if the time limit has passed."""
        return self.limit is not None and self.elapsed >= self.limit

    def measure(self, part: str) -> _TimedPart:
        """Context that adds the time inside the with-block to this part."""
        return self._parts[part]

    def split(self) -> dict[str, float]:
        """Seconds of total, derivatives, backward_pass, rollouts and other; the last four add up to the first."""
        total = self.elapsed
        seconds = {name: part.seconds for name, part in self._parts.items()}
        return {"total": total, **seconds, "other": total - sum(seconds.values())}


# --------------------------------------------------------------------------------------------
# Data that the parts of an iteration exchange: the iterate, its model, the direction found there.

GAUSS_NEWTON, EXACT, CONVEXIFIED = "gauss_newton", "exact", "convexified"
"""Kinds of sweeps: without second derivatives of dynamics and residuals, with all of them, with their positive part."""
EPSILON = float(np.finfo(np.float64).eps)
Limits = tuple[np.ndarray, np.ndarray]
"""Lower and upper limits (N, nu) of the controls."""


@routine
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


class Exact(NamedTuple):
    """An expansion with all curvature; the curvature of the dynamics may be computed during the sweep, knot by knot.
    `convex`: the positive part of the curvature; None where it is not known (yet)."""

    expansion: Expansion
    of_knot: CurvatureOfKnot | None = None
    convex: Expansion | None = None


class RowModel(NamedTuple):
    """Constraints at an iterate: values c (R,), Jacobians C = (Cx, Cu) with respect to states and the sweep's controls,
    the multipliers (R,) of exact models and of the costate, and the weights of the augmented-Lagrangian terms; None
    before these are known."""

    c: np.ndarray
    C: tuple[np.ndarray, np.ndarray]
    dual: np.ndarray
    weights: Weights | None = None


class LocalModel(NamedTuple):
    """An iterate and its quadratic models, Gauss-Newton and exact, of which one may not be known (yet).

    costate (N+1, ndx); `gradient_norm`: largest gradient entry, inf if the gradient is not finite; an entry whose
    control lies on a limit that the gradient pushes it against does not count.  `box`: the limits that a sweep keeps.
    `cost_curvature`: the terms that the costs' Gauss-Newton Hessians leave out, and the curvature of constraints; None
    if they were not asked for.  `rows`: the constraints; None if there are none.  Their augmented-Lagrangian terms are
    in neither model: sweeps add them.
    """

    iterate: Iterate
    gauss_newton: Expansion | None
    exact: Exact | None
    costate: np.ndarray
    gradient_norm: float
    box: Box | None = None
    cost_curvature: Blocks | None = None
    rows: RowModel | None = None

    @property
    def expansion(self) -> Expansion:
        """An expansion that is known: first derivatives are the same in both."""
        if self.gauss_newton is not None:
            return self.gauss_newton
        assert self.exact is not None
        return self.exact.expansion

    def of_kind(self, kind: str) -> tuple[Expansion, CurvatureOfKnot | None]:
        """The model of this kind, which must be known."""
        if kind == EXACT:
            assert self.exact is not None
            return self.exact.expansion, self.exact.of_knot
        if kind == CONVEXIFIED:
            assert self.exact is not None and self.exact.convex is not None
            return self.exact.convex, None
        assert self.gauss_newton is not None
        return self.gauss_newton, None


Before = tuple[LocalModel, SweepResult] | None
"""The model and the sweep whose full step led to an iterate; None if there was no such step."""


class Direction(NamedTuple):
    """A sweep and its kind; `fallback` is the Gauss-Newton sweep behind an exact one.

    `indefinite_knot`: the last knot at which a sweep of this iteration met a Quu that is not positive definite; -1 if
    there was none.
    """

    kind: str
    sweep: SweepResult
    fallback: SweepResult | None
    indefinite_knot: int

    @property
    def change(self) -> float:
        """Predicted change d1 + d2/2 of the objective for a full step."""
        return self.sweep.d1 + 0.5 * self.sweep.d2


class Formulation(Protocol):
    """Transcription of a problem: it defines the sweep's controls, and how a trajectory follows from them."""

    problem: Problem
    limits: Limits | None
    rows: Rows | None

    def start(self, us: np.ndarray, xs: np.ndarray | None, clock: Stopwatch) -> Iterate:
        """The first iterate: a rollout, or the states xs with their gaps."""
        ...

    def expand(
        self,
        iterate: Iterate,
        clock: Stopwatch,
        exact: bool = False,
        before: Before = None,
        dual: np.ndarray | None = None,
    ) -> LocalModel:
        """The Gauss-Newton model of an iterate; if `exact`, the exact one instead, provided that all it needs is known,
        perhaps from the model and the sweep whose full step led here.  dual (R,): multipliers of the rows."""
        ...

    def with_curvature(self, model: LocalModel, Vx: np.ndarray | None, clock: Stopwatch) -> LocalModel:
        """The model with the exact one added; Vx (N+1, ndx) is that of its Gauss-Newton sweep.  Unchanged where Vx is
        needed and None."""
        ...

    def sweep(self, model: LocalModel, mu: float, clock: Stopwatch, kind: str = GAUSS_NEWTON) -> SweepResult:
        """Backward pass of this kind, whose expansion the model must have."""
        ...

    def candidates(self, model: LocalModel, sweep: SweepResult) -> Iterable[Candidate]:
        """Trajectories along a direction, longest step first."""
        ...

    def policy(self, model: LocalModel, sweep: SweepResult) -> tuple[np.ndarray, np.ndarray]:
        """k (N, nu) and K (N, nu, ndx) for the controls us."""
        ...


def remaining_gaps(gaps: np.ndarray | None, alpha: float, xs: np.ndarray) -> np.ndarray | None:
    """Gaps that remain after a step of length alpha to the states xs; None if they are below the states' rounding."""
    if gaps is None:
        return None
    left = (1.0 - alpha) * gaps
    return left if np.abs(left).max() > EPSILON * np.abs(xs).max() else None


def rounding(model: LocalModel) -> float:
    """Rounding error of the cost that the last bits of the states cause: each step in time rounds them, and the costate
    carries that into the cost."""
    xs, costate = model.iterate.xs, model.costate
    size = np.abs(xs) if xs.shape == costate.shape else np.abs(xs).max(axis=1, keepdims=True)
    with np.errstate(all="ignore"):
        return EPSILON * float(np.linalg.norm(costate * size))


def noise(problem: Problem, model: LocalModel) -> float:
    """Standard deviation of the cost where steps in time are less accurate than double precision, else 0."""
    step_noise = capability(problem.system, Steps).step_noise
    if step_noise is None:
        return 0.0
    with np.errstate(all="ignore"):
        return float(np.linalg.norm(model.costate[1:] * step_noise(model.iterate.xs)))


def with_gauss_newton(formulation: Formulation, model: LocalModel, clock: Stopwatch) -> LocalModel:
    """The model with a Gauss-Newton expansion, expanded again if it has the exact one alone."""
    if model.gauss_newton is not None:
        return model
    dual = None if model.rows is None else model.rows.dual
    return formulation.expand(model.iterate, clock, dual=dual)._replace(box=model.box, rows=model.rows)


def with_terms_of(expansion: Expansion, rows: Rows | None, model: LocalModel) -> Expansion:
    """The expansion with the augmented-Lagrangian terms of the model's constraints."""
    if rows is None or model.rows is None or model.rows.weights is None:
        return expansion
    return with_terms(expansion, rows.first, model.rows.C, model.rows.weights)


def sweep_of_kind(formulation: Formulation, model: LocalModel, kind: str, mu: float, clock: Stopwatch) -> SweepResult:
    """Backward pass of this kind, with the Gauss-Newton one before it where it needs that."""
    if kind != GAUSS_NEWTON and model.exact is not None:
        return formulation.sweep(model, mu, clock, kind)
    model = with_gauss_newton(formulation, model, clock)
    sweep = formulation.sweep(model, mu, clock)
    if kind == GAUSS_NEWTON or not sweep.ok:
        return sweep
    return formulation.sweep(formulation.with_curvature(model, sweep.Vx, clock), mu, clock, EXACT)


# --------------------------------------------------------------------------------------------
# Trajectories from controls: one open-loop rollout, or all step lengths of a line search at once.

ALPHAS = 0.5 ** np.arange(8)
"""Step lengths 1, 1/2, ..., 2^-7."""


def open_loop(problem: Problem, us: np.ndarray) -> np.ndarray:
    """States (N+1, nx) under the controls us (N, nu); not finite where they diverge."""
    with np.errstate(all="ignore"):
        xs = problem.system.rollout(problem.x0, us)
        return as_array("rollout", xs, (len(us) + 1, problem.system.nx), finite=False)


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
