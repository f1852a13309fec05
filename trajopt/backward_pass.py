"""One sweep from the last knot to the first: gains and value function of the linear-quadratic problem at each knot.

    Qx  = lx + fx'Vx'            Qu  = lu + fu'Vx'                                          [Tassa 2012, eq. 5]
    Qxx = lxx + fx'Vxx'fx        Qux = lux + fu'Vxx'fx       Quu = luu + fu'Vxx'fu
    k = -(Quu + mu I)^-1 Qu      K = -(Quu + mu I)^-1 Qux                                   [eq. 10]
    Vx  = Qx + K'Quu k + K'Qu + Qux'k                                                       [eq. 11b]
    Vxx = Qxx + K'Quu K + K'Qux + Qux'K                                                     [eq. 11c]

with ' on V the next knot's.  Curvature of the dynamics, where wanted, has been added to lxx, lux and luu beforehand.
The expected change of the cost for a step alpha is alpha d1 + alpha^2/2 d2, d1 = sum k'Qu, d2 = sum k'Quu k.  The
update of V is exact for any gains, so a regularized sweep still returns the value of the policy it returns.

These are plain loops for any size, the reference for faster sweeps with the same signature.
"""

from typing import NamedTuple

import numpy as np

from dynamics.simd import kernel

PIVOT = 1e-14
"""Smallest pivot of Quu + mu I, relative to its largest diagonal entry, that counts as positive."""


class SweepResult(NamedTuple):
    """Gains k (N, nu), K (N, nu, ndx); value function Vx (N+1, ndx), Vxx (N+1, ndx, ndx); expected change d1, d2.

    If not ok, Quu + mu I was not positive definite at some knot and the arrays are incomplete.
    """

    k: np.ndarray
    K: np.ndarray
    Vx: np.ndarray
    Vxx: np.ndarray
    d1: float
    d2: float
    ok: bool


@kernel
def action_value(fx, fu, lx, lu, lxx, lux, luu, Vx, Vxx, Vf, Qx, Qu, Qxx, Qux, Quu):
    """Expansion of Q at one knot from that of V at the next; Vf (ndx, ndx + nu) is scratch for Vxx' [fx fu]."""
    n, m = fu.shape
    for i in range(n):
        for j in range(n + m):
            Vf[i, j] = 0.0
        for l in range(n):
            a = Vxx[i, l]
            for j in range(n):
                Vf[i, j] += a * fx[l, j]
            for j in range(m):
                Vf[i, n + j] += a * fu[l, j]
    Qx[:] = lx
    Qu[:] = lu
    Qxx[:] = lxx
    Qux[:] = lux
    Quu[:] = luu
    for l in range(n):
        slope = Vx[l]
        for i in range(n):
            a = fx[l, i]
            if a != 0.0:
                Qx[i] += a * slope
                for j in range(n):
                    Qxx[i, j] += a * Vf[l, j]
        for i in range(m):
            a = fu[l, i]
            if a != 0.0:
                Qu[i] += a * slope
                for j in range(n):
                    Qux[i, j] += a * Vf[l, j]
                for j in range(m):
                    Quu[i, j] += a * Vf[l, n + j]


@kernel
def gains(Qu, Qux, Quu, mu, L, k, K):
    """k = -(Quu + mu I)^-1 Qu, K = -(Quu + mu I)^-1 Qux by LDL' in L (nu, nu); False if a pivot is not positive."""
    m, n = K.shape
    largest = 0.0
    for i in range(m):
        largest = max(largest, abs(Quu[i, i] + mu))
        k[i] = -Qu[i]
        for j in range(m):
            L[i, j] = 0.5 * (Quu[i, j] + Quu[j, i])
        L[i, i] += mu
        for j in range(n):
            K[i, j] = -Qux[i, j]
    for c in range(m):  # eliminate column c below the diagonal, right-hand sides along
        if not L[c, c] > PIVOT * largest:
            return False
        for i in range(c + 1, m):
            f = L[i, c] / L[c, c]
            for j in range(c + 1, m):
                L[i, j] -= f * L[c, j]
            k[i] -= f * k[c]
            for j in range(n):
                K[i, j] -= f * K[c, j]
    for c in range(m - 1, -1, -1):
        for i in range(c + 1, m):
            k[c] -= L[c, i] * k[i]
            for j in range(n):
                K[c, j] -= L[c, i] * K[i, j]
        k[c] /= L[c, c]
        for j in range(n):
            K[c, j] /= L[c, c]
    return True


@kernel
def value_function(Qx, Qu, Qxx, Qux, Quu, k, K, W, Vx, Vxx):
    """Vx, Vxx of the policy (k, K) at one knot, and its k'Qu and k'Quu k; W (nu, ndx) is scratch."""
    m, n = K.shape
    d1, d2 = 0.0, 0.0
    Vx[:] = Qx
    Vxx[:] = Qxx
    for i in range(m):
        Quu_k = 0.0
        for j in range(m):
            Quu_k += Quu[i, j] * k[j]
        d1 += k[i] * Qu[i]
        d2 += k[i] * Quu_k
        for j in range(n):  # W = Quu K / 2 + Qux, so that K'W + W'K = K'Quu K + K'Qux + Qux'K
            W[i, j] = Qux[i, j]
            Vx[j] += K[i, j] * (Quu_k + Qu[i]) + Qux[i, j] * k[i]
        for l in range(m):
            a = 0.5 * Quu[i, l]
            for j in range(n):
                W[i, j] += a * K[l, j]
    for l in range(m):
        for i in range(n):
            a, b = K[l, i], W[l, i]
            for j in range(n):
                Vxx[i, j] += a * W[l, j] + b * K[l, j]
    for i in range(n):
        for j in range(i):
            mean = 0.5 * (Vxx[i, j] + Vxx[j, i])
            Vxx[i, j] = mean
            Vxx[j, i] = mean
    return d1, d2


@kernel
def backward_step(fx, fu, lx, lu, lxx, lux, luu, Vx_next, Vxx_next, mu, k, K, Vx, Vxx):
    """One knot of the sweep: reads V at the next knot, writes gains and V at this one; returns d1, d2, ok."""
    n, m = fu.shape
    Qx, Qu, L = np.empty(n), np.empty(m), np.empty((m, m))
    Qxx, Qux, Quu = np.empty((n, n)), np.empty((m, n)), np.empty((m, m))
    action_value(fx, fu, lx, lu, lxx, lux, luu, Vx_next, Vxx_next, np.empty((n, n + m)), Qx, Qu, Qxx, Qux, Quu)
    if not gains(Qu, Qux, Quu, mu, L, k, K):
        return 0.0, 0.0, False
    d1, d2 = value_function(Qx, Qu, Qxx, Qux, Quu, k, K, np.empty((m, n)), Vx, Vxx)
    return d1, d2, True


@kernel
def _sweep(fx, fu, lx, lu, lxx, lux, luu, mu, k, K, Vx, Vxx):
    N = fx.shape[0]
    Vx[N] = lx[N]
    Vxx[N] = lxx[N]
    d1, d2 = 0.0, 0.0
    for t in range(N - 1, -1, -1):
        a, b, ok = backward_step(
            fx[t], fu[t], lx[t], lu[t], lxx[t], lux[t], luu[t], Vx[t + 1], Vxx[t + 1], mu, k[t], K[t], Vx[t], Vxx[t]
        )
        if not ok:
            return d1, d2, False
        d1 += a
        d2 += b
    return d1, d2, np.isfinite(d1 + d2)


def empty_gains(N: int, ndx: int, nu: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Zeroed k, K, Vx, Vxx for a sweep to fill."""
    return np.zeros((N, nu)), np.zeros((N, nu, ndx)), np.zeros((N + 1, ndx)), np.zeros((N + 1, ndx, ndx))


def sweep_loops(
    fx: np.ndarray,
    fu: np.ndarray,
    lx: np.ndarray,
    lu: np.ndarray,
    lxx: np.ndarray,
    lux: np.ndarray,
    luu: np.ndarray,
    mu: float,
    semi_implicit_dt: float = 0.0,
) -> SweepResult:
    """The whole sweep, from the arrays of an `Expansion` and the regularization mu >= 0.

    ``semi_implicit_dt`` tells a structured sweep that fx and fu have semi-implicit form with this time step (0: they
    have not); these loops make no use of it.
    """
    N, ndx, nu = fu.shape
    arrays = empty_gains(N, ndx, nu)
    d1, d2, ok = _sweep(fx, fu, lx, lu, lxx, lux, luu, float(mu), *arrays)
    return SweepResult(*arrays, d1, d2, bool(ok))
