"""The change of the objective that a quadratic model predicts for a step along a sweep's direction."""

import numpy as np

from dynamics.simd import routine
from trajopt.backward.expansions import Expansion, finite
from trajopt.backward.sweep import SweepResult


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


def with_gradient_of(expansion: Expansion, gaps: np.ndarray | None, result: SweepResult) -> SweepResult:
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
