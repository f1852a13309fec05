"""What passes between the parts of an iteration: the iterate, its expansion, the direction found there."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from dynamics.simd import routine
from trajopt.backward.box_qp import Box
from trajopt.backward.expansions import Expansion, finite
from trajopt.backward.sweep import SweepResult
from trajopt.solvers.line_search import Candidate
from trajopt.solvers.timing import Stopwatch

GAUSS_NEWTON, EXACT = "gauss_newton", "exact"
EPSILON = float(np.finfo(np.float64).eps)


class Iterate(NamedTuple):
    """A trajectory xs (N+1, nx), us (N, nu) and its objective; `time`: seconds from the start until it was reached.

    `controls` (N, nu) is what the sweep changes: the controls themselves, or accelerations (`InverseFormulation`).
    `gaps` (N+1, ndx) lie between the states and the dynamics (see `trajopt.System`); None if there are none.
    """

    xs: np.ndarray
    us: np.ndarray
    controls: np.ndarray
    cost: float
    gaps: np.ndarray | None
    time: float

    @property
    def total_gap(self) -> float:
        """Sum of the gaps' absolute entries."""
        return 0.0 if self.gaps is None else float(np.abs(self.gaps).sum())


class LocalModel(NamedTuple):
    """An iterate and its expansion, costate (N+1, ndx), and largest gradient entry.

    Where a control lies on a limit and its gradient pushes it outwards, that entry does not count; inf if the gradient
    is not finite.  `exact`: the expansion has all curvature, that of the dynamics too.  `curvature`: blocks with what
    the costs' Gauss-Newton Hessians leave out; None if they were not asked for.
    """

    iterate: Iterate
    expansion: Expansion
    costate: np.ndarray
    gradient_norm: float
    box: Box | None
    exact: bool = False
    curvature: Sequence[np.ndarray] | None = None


class Direction(NamedTuple):
    """A sweep and its kind; `fallback` is the Gauss-Newton sweep behind an exact one.

    `indefinite_knot`: the last knot at which a sweep of this iteration met a Quu that is not positive definite; -1.
    """

    kind: str
    sweep: SweepResult
    fallback: SweepResult | None
    indefinite_knot: int

    @property
    def change(self) -> float:
        """Change of the objective that the model predicts for a full step."""
        return self.sweep.d1 + 0.5 * self.sweep.d2


class Formulation(Protocol):
    """How a problem is posed to the loop: what the sweep's controls are, and how a trajectory follows from them."""

    def start(self, us: np.ndarray, xs: np.ndarray | None, clock: Stopwatch) -> Iterate:
        """The first iterate: a rollout, or the states xs with their gaps."""
        ...

    def expand(
        self, iterate: Iterate, clock: Stopwatch, exact: bool = False, multiplier: np.ndarray | None = None
    ) -> LocalModel:
        """The iterate with its Gauss-Newton expansion; if `exact`, an exact sweep will follow, for which the expansion
        may have all curvature already, that of the dynamics contracted with the multiplier (N, ndx)."""
        ...

    def predicted(self, model: LocalModel, sweep: SweepResult, moved: Iterate, clock: Stopwatch) -> np.ndarray | None:
        """The multiplier (N, ndx) that a sweep of the model predicts for the iterate it led to; None where exact sweeps
        take another."""
        ...

    def needs_gauss_newton(self, model: LocalModel) -> bool:
        """Whether an exact sweep takes its multiplier from the Gauss-Newton sweep of the same iteration."""
        ...

    def sweep(self, model: LocalModel, mu: float, clock: Stopwatch) -> SweepResult:
        """Backward pass without curvature."""
        ...

    def exact_sweep(
        self, model: LocalModel, gauss_newton: SweepResult | None, mu: float, clock: Stopwatch
    ) -> SweepResult:
        """Backward pass with the curvature of dynamics and costs, with the same mu."""
        ...

    def candidates(self, model: LocalModel, sweep: SweepResult) -> Iterable[Candidate]:
        """Trajectories along a direction, longest step first."""
        ...

    def foresee(
        self, model: LocalModel, trial: Candidate, kind: str, mu: float, clock: Stopwatch
    ) -> tuple[SweepResult, bytes] | None:
        """Backward pass of this kind with the limits that press at the trial in place of those that press now, and
        what tells these limits from others; None if they are the same."""
        ...

    def hold_clipped(self, model: LocalModel, sweep: SweepResult) -> LocalModel | None:
        """The model with controls held that limits would clip; None if there are none (anymore)."""
        ...

    def policy(self, model: LocalModel, sweep: SweepResult) -> tuple[np.ndarray, np.ndarray]:
        """k (N, nu) and K (N, nu, ndx) of the controls us."""
        ...

    def gradient_norm(self, model: LocalModel) -> float:
        """Largest entry of the gradient in the controls us (see `LocalModel`)."""
        ...


def remaining_gaps(gaps: np.ndarray | None, alpha: float, xs: np.ndarray) -> np.ndarray | None:
    """What a step of length alpha to the states xs leaves of the gaps; None if that is below the states' rounding."""
    if gaps is None:
        return None
    left = (1.0 - alpha) * gaps
    return left if np.abs(left).max() > EPSILON * np.abs(xs).max() else None


@routine
def _model_change(fx, fu, lx, lu, lxx, lux, luu, gaps, k, K):
    N, ndx, nu = fu.shape
    dx, dx_next, du = gaps[0].copy(), np.empty(ndx), np.empty(nu)
    d1, d2 = 0.0, 0.0
    for t in range(N + 1):
        for i in range(ndx):
            d1 += lx[t, i] * dx[i]
            for j in range(ndx):
                d2 += dx[i] * lxx[t, i, j] * dx[j]
        if t == N:
            break
        for i in range(nu):
            du[i] = k[t, i]
            for j in range(ndx):
                du[i] += K[t, i, j] * dx[j]
        for i in range(nu):
            d1 += lu[t, i] * du[i]
            for j in range(ndx):
                d2 += 2.0 * du[i] * lux[t, i, j] * dx[j]
            for j in range(nu):
                d2 += du[i] * luu[t, i, j] * du[j]
        for i in range(ndx):
            dx_next[i] = gaps[t + 1, i]
            for j in range(ndx):
                dx_next[i] += fx[t, i, j] * dx[j]
            for j in range(nu):
                dx_next[i] += fu[t, i, j] * du[j]
        dx[:] = dx_next
    return d1, d2


def with_slope(result: SweepResult, expansion: Expansion, gaps: np.ndarray | None) -> SweepResult:
    """The result of another expansion's sweep with d1 of this one, and d2 = -d1: a full step ends at a minimum."""
    if not result.ok:
        return result
    d1, _ = _model_change(*expansion, np.zeros_like(expansion.lx) if gaps is None else gaps, result.k, result.K)
    return result._replace(d1=d1, d2=-d1)


def completed(result: SweepResult, expansion: Expansion, gaps: np.ndarray | None) -> SweepResult:
    """The sweep's result with d1, d2 of the step that also closes the gaps, those of the linearized trajectory; or, if
    it failed, with what it has to know of that.

    dx_0 = gaps_0, du = k + K dx, dx' = fx dx + fu du + gaps';  d1 = sum lx'dx + lu'du, d2 the quadratic part.
    """
    if not result.ok:
        return result._replace(finite=result.finite and finite(*expansion))
    if gaps is None:
        return result
    d1, d2 = _model_change(*expansion, gaps, result.k, result.K)
    return result._replace(d1=d1, d2=d2)


def sweep_of_kind(
    formulation: Formulation, model: LocalModel, kind: str, mu: float, clock: Stopwatch
) -> SweepResult:
    """Backward pass with curvature or without, and the Gauss-Newton one before it where it is needed."""
    if kind == EXACT and not formulation.needs_gauss_newton(model):
        return formulation.exact_sweep(model, None, mu, clock)
    sweep = formulation.sweep(model, mu, clock)
    return formulation.exact_sweep(model, sweep, mu, clock) if kind == EXACT and sweep.ok else sweep
