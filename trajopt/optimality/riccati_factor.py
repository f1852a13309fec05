"""The Hessian of a linear-quadratic problem, factored by one sweep, and its solutions by two vector sweeps.

    minimize over (dx, du)   sum 1/2 z'H z + g'z,   z = (dx, du),      dx_0 = F_0,   dx' = fx dx + fu du + F'

    s_N = gx_N;   w = s' + Vxx'F';   q = gu + fu'w;   k = - Quu^-1 q;   s = gx + fx'w + Qux'k
    dx_0 = F_0;   du = k + K dx;   dx' = fx dx + fu du + F';   dlam = s + Vxx dx

Right-hand sides are matrices, with a column for each; clamped controls have du = 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.simd import routine
from trajopt.backward.expansions import Expansion
from trajopt.backward.sweep import sweep


class Factor(NamedTuple):
    """fx (N, n, n), fu (N, n, m), gains K (N, m, n), Vxx (N+1, n, n), Qux (N, m, n), L (N, m, m) with L L' = Quu."""

    fx: np.ndarray
    fu: np.ndarray
    K: np.ndarray
    Vxx: np.ndarray
    Qux: np.ndarray
    L: np.ndarray

    @property
    def log_determinant(self) -> float:
        """log det of the reduced Hessian: the sum of those of Quu; clamped controls have pivots of 1."""
        return 2.0 * float(np.log(np.diagonal(self.L, axis1=1, axis2=2)).sum())


def without_clamped(e: Expansion, clamped: np.ndarray) -> Expansion:
    """The expansion in which clamped controls (N, nu) have no effect and curvature 1."""
    held = clamped != 0
    if not held.any():
        return e
    fu, lux, luu = e.fu.copy(), e.lux.copy(), e.luu.copy()
    fu[np.broadcast_to(held[:, None], fu.shape)] = 0.0
    lux[held] = 0.0
    luu[held] = 0.0
    luu.swapaxes(1, 2)[held] = 0.0
    knots, which = np.nonzero(held)
    luu[knots, which, which] = 1.0
    return e._replace(fu=fu, lux=lux, luu=luu)


def factorized(e: Expansion) -> Factor | int:
    """The factor of a linear-quadratic problem (`without_clamped`), or the knot where Quu is not positive definite."""
    zero = e._replace(lx=np.zeros_like(e.lx), lu=np.zeros_like(e.lu))
    result = sweep(*zero, 0.0)
    if not result.ok:
        return result.failed_knot
    V = result.Vxx[1:]
    Quu = e.luu + e.fu.swapaxes(1, 2) @ V @ e.fu
    Quu = 0.5 * (Quu + Quu.swapaxes(1, 2))
    try:
        L = np.linalg.cholesky(Quu)
    except np.linalg.LinAlgError:
        bad = [t for t in range(len(Quu)) if np.linalg.eigvalsh(Quu[t])[0] <= 0.0]
        return bad[-1] if bad else 0
    return Factor(e.fx, e.fu, result.K, result.Vxx, -Quu @ result.K, L)


@routine
def _add_product(A, x, y):
    """y += A x,  A (a, b), x (b, P), y (a, P); for one column, four rows at a time, with independent sums."""
    four = A.shape[0] - A.shape[0] % 4 if x.shape[1] == 1 else 0
    for i in range(0, four, 4):
        y0, y1, y2, y3 = y[i, 0], y[i + 1, 0], y[i + 2, 0], y[i + 3, 0]
        for j in range(A.shape[1]):
            c = x[j, 0]
            y0 += A[i, j] * c
            y1 += A[i + 1, j] * c
            y2 += A[i + 2, j] * c
            y3 += A[i + 3, j] * c
        y[i, 0], y[i + 1, 0], y[i + 2, 0], y[i + 3, 0] = y0, y1, y2, y3
    for i in range(four, A.shape[0]):
        for j in range(A.shape[1]):
            c = A[i, j]
            if c != 0.0:
                for p in range(x.shape[1]):
                    y[i, p] += c * x[j, p]


@routine
def _solve_negative(L, q):
    """Solve in place: q <- - (L L')^-1 q."""
    m = L.shape[0]
    for i in range(m):
        for j in range(i):
            for p in range(q.shape[1]):
                q[i, p] -= L[i, j] * q[j, p]
        for p in range(q.shape[1]):
            q[i, p] /= L[i, i]
    for i in range(m - 1, -1, -1):
        for j in range(i + 1, m):
            for p in range(q.shape[1]):
                q[i, p] -= L[j, i] * q[j, p]
        for p in range(q.shape[1]):
            q[i, p] /= L[i, i]
    for i in range(m):
        for p in range(q.shape[1]):
            q[i, p] = -q[i, p]


@routine
def _vector_sweeps(fx, fu, K, Vxx, Qux, L, gx, gu, F, w, dx, du, dlam):
    N = fu.shape[0]
    dlam[:] = gx
    du[:] = gu
    for t in range(N - 1, -1, -1):
        w[:] = dlam[t + 1]
        _add_product(Vxx[t + 1], F[t + 1], w)
        _add_product(fu[t].T, w, du[t])
        _solve_negative(L[t], du[t])
        _add_product(fx[t].T, w, dlam[t])
        _add_product(Qux[t].T, du[t], dlam[t])
    dx[:] = F
    for t in range(N):
        _add_product(Vxx[t], dx[t], dlam[t])
        _add_product(K[t], dx[t], du[t])
        _add_product(fx[t], dx[t], dx[t + 1])
        _add_product(fu[t], du[t], dx[t + 1])
    _add_product(Vxx[N], dx[N], dlam[N])


class RiccatiStep(NamedTuple):
    """Solutions, a column each: dx (N+1, n, P), du (N, m, P), dlam (N+1, n, P)."""

    dx: np.ndarray
    du: np.ndarray
    dlam: np.ndarray


def solved(f: Factor, gx: np.ndarray, gu: np.ndarray, F: np.ndarray) -> RiccatiStep:
    """dx, du, dlam for gx (N+1, n, P), gu (N, m, P), zero for clamped controls, and F (N+1, n, P)."""
    dx, du, dlam, w = np.empty_like(F), np.empty_like(gu), np.empty_like(gx), np.empty(gx.shape[1:])
    _vector_sweeps(*f, gx, gu, F, w, dx, du, dlam)
    return RiccatiStep(dx, du, dlam)
