"""The backward pass in numpy, by Tassa's formulas to the letter, and random problems for it.

The one reference for sweeps: gains by a dense solve with Quu + mu I, limits by scipy, gaps as in Mastalli 2020.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import lsq_linear

from trajopt.backward.expansions import Expansion
from trajopt.interfaces.system import window

STEP = 0.02
"""Seconds of a knot of `expansion` with semi-implicit form."""


class Riccati(NamedTuple):
    """As `trajopt.backward.backward_pass.SweepResult`, and which controls a limit holds."""

    k: np.ndarray
    K: np.ndarray
    Vx: np.ndarray
    Vxx: np.ndarray
    d1: float
    d2: float
    clamped: np.ndarray


def expansion(ndx: int, nu: int, N: int, h: float = 0.0, leading: int = 0, seed: int = 0) -> Expansion:
    """Random numbers with a positive definite cost; if h > 0, of semi-implicit form but for the leading rows."""
    rng = np.random.default_rng([seed, ndx, nu, N])
    n = ndx // 2
    fx, fu = rng.normal(size=(N, ndx, ndx)) / np.sqrt(ndx), rng.normal(size=(N, ndx, nu))
    if h > 0.0:
        fx[:, n:] = h * fx[:, n:] + np.eye(n, ndx, n)
        fx[:, leading:n] = np.eye(n, ndx)[leading:] + h * fx[:, n + leading :]
        fu[:, leading:n] = h * fu[:, n + leading :]
    half = rng.normal(size=(N + 1, ndx + nu, ndx + nu))
    cost = half @ half.transpose(0, 2, 1) / (ndx + nu) + 0.1 * np.eye(ndx + nu)
    lxx, lux, luu = cost[:, :ndx, :ndx].copy(), cost[:N, ndx:, :ndx].copy(), cost[:N, ndx:, ndx:].copy()
    return Expansion(fx, fu, rng.normal(size=(N + 1, ndx)), rng.normal(size=(N, nu)), lxx, lux, luu)


def random_limits(rng: np.random.Generator, N: int, nu: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Controls us (N, nu), and lower and upper limits around them: narrow, wide and infinite ones."""
    us = rng.standard_normal((N, nu))
    lower, upper = us - rng.exponential(0.3, us.shape), us + rng.exponential(0.3, us.shape)
    lower[rng.random(us.shape) < 0.2], upper[rng.random(us.shape) < 0.2] = -np.inf, np.inf
    return us, lower, upper


def box_minimum(H, g, lower, upper):
    """x and what is clamped, by bounded least squares whose free numbers are then solved for exactly."""
    L = np.linalg.cholesky(H)
    found = lsq_linear(L.T, -np.linalg.solve(L, g), (lower, upper), method="bvls", tol=1e-14, max_iter=500)
    assert found.success
    clamped = found.active_mask != 0
    x, free = np.where(found.active_mask < 0, lower, upper), ~clamped
    if free.any():
        x[free] = -np.linalg.solve(H[np.ix_(free, free)], g[free] + H[np.ix_(free, clamped)] @ x[clamped])
    return x, clamped


def riccati(fx, fu, lx, lu, lxx, lux, luu, mu, gaps=None, limits=None, curvature=None) -> Riccati:
    """The sweep [Tassa 2012, eq. 5, 10, 11; Tassa 2014]; Vx shifted by Vxx gap at every knot.

    limits: (lower, upper) of k, (N, nu) each; curvature(t, Vx') of the dynamics, contracted: Hxx, Hux, Huu of a knot.
    """
    N, nu = lu.shape
    k, K, Vx, Vxx, clamped = np.empty_like(lu), np.zeros_like(lux), lx.copy(), lxx.copy(), np.zeros((N, nu), bool)
    d1 = d2 = 0.0
    if gaps is not None:
        Vx[N] += Vxx[N] @ gaps[N]
    for t in range(N - 1, -1, -1):
        A, B, v, V = fx[t], fu[t], Vx[t + 1], Vxx[t + 1]
        Qx, Qu = lx[t] + A.T @ v, lu[t] + B.T @ v
        Qxx, Qux, Quu = lxx[t] + A.T @ V @ A, lux[t] + B.T @ V @ A, luu[t] + B.T @ V @ B
        if curvature is not None:
            Qxx, Qux, Quu = (Q + H for Q, H in zip((Qxx, Qux, Quu), curvature(t, v), strict=True))
        H = Quu + mu * np.eye(nu)
        if limits is None:
            k[t] = -np.linalg.solve(H, Qu)
        else:
            k[t], clamped[t] = box_minimum(H, Qu, limits[0][t], limits[1][t])
        free = ~clamped[t]
        if free.any():
            K[t, free] = -np.linalg.solve(H[np.ix_(free, free)], Qux[free])
        Vx[t] = Qx + K[t].T @ Quu @ k[t] + K[t].T @ Qu + Qux.T @ k[t]
        value = Qxx + K[t].T @ Quu @ K[t] + K[t].T @ Qux + Qux.T @ K[t]
        Vxx[t] = 0.5 * (value + value.T)
        d1, d2 = d1 + k[t] @ Qu, d2 + k[t] @ Quu @ k[t]
        if gaps is not None:
            Vx[t] += Vxx[t] @ gaps[t]
    return Riccati(k, K, Vx, Vxx, d1, d2, clamped)


def by_products(system, xs, us):
    """Curvature for `riccati` by `System.hessian_products`, one knot per call."""

    def curvature(t, Vx):
        return [H[0] for H in window(system, t, t + 1).hessian_products(xs[t : t + 2], us[t : t + 1], Vx[None])]

    return curvature


def by_tensors(fxx, fux, fuu):
    """Curvature for `riccati` by all second derivatives of the dynamics."""
    return lambda t, Vx: [np.tensordot(Vx, f[t], 1) for f in (fxx, fux, fuu)]


def assert_agree(result, expected, tolerance=1e-11):
    """Block by block and knot by knot, relative to the largest entry of the block."""
    for got, want in zip(result[:4], expected[:4], strict=True):
        for a, b in zip(got, want, strict=True):
            assert np.abs(a - b).max() <= tolerance * np.abs(b).max()
    np.testing.assert_allclose(result[4:6], expected[4:6], rtol=tolerance)


def assert_agree_or_zero(result, expected):
    """Relative to the largest entry over all knots: a knot whose controls are all clamped has K = 0."""
    for got, want in zip(result[:4], expected[:4], strict=True):
        assert np.abs(got - want).max() <= 1e-10 * np.abs(want).max()
    np.testing.assert_allclose(result[4:6], expected[4:6], rtol=1e-10)
