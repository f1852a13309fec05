"""Predictions of a quadratic model for a step along a sweep's direction: the step itself and the change of the cost."""

import numpy as np

from dynamics.simd import helper, routine
from trajopt.backward.box_qp import Box
from trajopt.backward.expansions import Expansion, finite
from trajopt.backward.sweep import SweepResult

_NONE = np.empty((0, 0))


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


@routine
def _linear_step(fx, fu, gaps, k, K, lower, upper, dx0, du0, length, dx, du):
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
    e: Expansion,
    gaps: np.ndarray | None,
    result: SweepResult,
    box: Box | None = None,
    start: tuple[np.ndarray, np.ndarray] = (_NONE, _NONE),
    length: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """The full step of the linearized trajectory, dx (N+1, ndx) and du (N, nu), kept within the box if there is one:

    dx_0 = gaps_0, du = k + K dx, dx' = fx dx + fu du + gaps';  or a step of another length from a start (dx, du)."""
    dx, du = np.empty_like(e.lx), np.empty_like(e.lu)
    lower, upper = (_NONE, _NONE) if box is None else (box.lower, box.upper)
    gaps = _NONE if gaps is None else gaps
    _linear_step(e.fx, e.fu, gaps, result.k, result.K, lower, upper, *start, length, dx, du)
    return dx, du


@routine
def _change(lx, lu, lxx, lux, luu, dx, du):
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


@routine
def gradient_at(Vx, Vxx, dx):
    """Vx + Vxx dx at all knots, (N+1, ndx)."""
    gradient = Vx.copy()
    for t in range(gradient.shape[0]):
        for j in range(gradient.shape[1]):
            for i in range(gradient.shape[1]):  # along the rows of the symmetric Vxx, which vectorizes
                gradient[t, i] += Vxx[t, j, i] * dx[t, j]
    return gradient


def change_along(e: Expansion, dx: np.ndarray, du: np.ndarray) -> tuple[float, float]:
    """Linear part, and twice the quadratic part, of the cost's change along dx (N+1, ndx), du (N, nu)."""
    return _change(*e[2:], dx, du)


def completed(result: SweepResult, expansion: Expansion, gaps: np.ndarray | None) -> SweepResult:
    """The sweep's result with d1 = sum lx'dx + lu'du and d2, twice the quadratic part, of the step of the linearized
    trajectory that also closes the gaps; or, if the sweep failed, with `finite` false if the expansion is not
    finite."""
    if not result.ok:
        return result._replace(finite=result.finite and finite(*expansion))
    if gaps is None:
        return result
    d1, d2 = _change(*expansion[2:], *linear_step(expansion, gaps, result))
    return result._replace(d1=d1, d2=d2)
