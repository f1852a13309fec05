"""Derivatives of the accelerations of a stage, by the implicit function theorem at the solution (`implicit_stage`).

    a_q = - J^-1 r_q,    a_v = - J^-1 r_v,    a_u = J^-1 B

The Hessian of y'a is that of `implicit_function` for w'r along (q', v', a, u), with J'w = - y, where

    Z = H_za,   S = H_aa  of  R(q, v, a, u) = w'r(q + cq a, v + cv a, a, u),  z = (q, v, u):
    Z: q: Hqa + cq Hqq + cv Hqv,    v: cq Hvq + cv Hvv,    u: cq Huq            S = cq (Haq + Zq) + cv Zv

With closed chains w is (w, mu), w'r is that of `closure_hessian`, and H_q,lambda minus the rate of A along w.
"""

from typing import NamedTuple

import numpy as np

from dynamics.implicit_function import add_along, store_hessian
from dynamics.lane_algebra import scale_into
from dynamics.rods.model.arrays import FIRST, SECOND
from dynamics.rods.model.closure_arrays import virtual_rows
from dynamics.rods.recursion.residual_kernel import residual_kernel
from dynamics.rods.stepping.implicit_stage import chain_rate, store_jacobian, unknown_count
from dynamics.rods.stepping.lane_factor import factorize_lanes, solve_lanes, solve_transposed
from dynamics.simd import align_stack, fma, kernel, load, shared_kernel, splat, store


class Curvature(NamedTuple):
    """Places for Z (nz N) and S (N N)."""

    Z: np.ndarray
    S: np.ndarray


@kernel
def store_acceleration_rows(n, nu, sign, s, az):
    """az (n nz) = [q, v, sign u] of the results in s."""
    align_stack(az)
    nz = 2 * n + nu
    for i in range(n):
        for j in range(n):
            store(az, i * nz + j, load(s.b.dq, i * n + j))
            store(az, i * nz + n + j, load(s.b.dv, i * n + j))
        for j in range(nu):
            store(az, i * nz + 2 * n + j, sign * load(s.c.B, i * nu + j))


@kernel
def _store_chain_rows(n, N, nz, s, az):
    """Rows of A v' + e / T behind them."""
    align_stack(az)
    G = N - n
    rows = s.c.closed[3 * G :]
    for g in range(G):
        for j in range(n):
            x, k = load(rows, g * n + j), (n + g) * nz + j
            store(az, k, fma(chain_rate(n, N, s), x, load(rows, (G + g) * n + j)))
            store(az, k + n, x)
        for j in range(2 * n, nz):
            store(az, (n + g) * nz + j, splat(az, 0.0))


@kernel
def _store_mixed(n, N, nu, cq, cv, s, c):
    """Z and S of the stage, from the Hessian of w'r."""
    align_stack(c.Z)
    b = s.b
    for i in range(n):
        for j in range(n):
            k, t, o = i * n + j, j * n + i, i * N + j
            zq = fma(cq, load(b.Hqq, k), fma(cv, load(b.Hqv, k), load(b.Hqa, k)))
            zv = fma(cq, load(b.Hqv, t), cv * load(b.Hvv, k))
            store(c.Z, o, zq)
            store(c.Z, n * N + o, zv)
            store(c.S, o, fma(cq, load(b.Hqa, t) + zq, cv * zv))
        for j in range(nu):
            store(c.Z, (2 * n + j) * N + i, cq * load(s.c.Hqu, i * nu + j))


@kernel
def _store_mixed_chains(n, N, nu, rates, cq, c):
    """The columns of multipliers, and rows of S, from rates of A along w."""
    align_stack(c.Z)
    zero = splat(c.Z, 0.0)
    for g in range(n, N):
        for i in range(n):
            x = -load(rates, (g - n) * n + i)
            store(c.Z, i * N + g, x)
            store(c.Z, (n + i) * N + g, zero)
            store(c.S, i * N + g, cq * x)
            store(c.S, g * N + i, cq * x)
        for i in range(nu):
            store(c.Z, (2 * n + i) * N + g, zero)
        for j in range(n, N):
            store(c.S, g * N + j, zero)


@kernel
def _store_adjoint(n, N, y, s):
    """w and mu with J'(w, mu) = - (y, 0) into the state."""
    w, step = s.state[3 * n : 4 * n], s.step
    step[:] = 0.0
    scale_into(n, step, -1.0, y)
    solve_transposed(N, s.J, step)
    scale_into(n, w, 1.0, step)
    scale_into(N - n, s.state[s.state.shape[0] - 2 * (N - n) :], 1.0, step[n:])


@shared_kernel
def differentiate_stage(m, e, cq, cv, level, y, s, az, c, H):
    """After `solve_stage`, az (N nz) = d(a, lambda)/d(q, v, u) and, of SECOND, H (nz nz), the Hessian of y'a."""
    align_stack(az)
    n, nu, N, first = m.numbers[0], e.numbers[0], unknown_count(m, e), np.int64(FIRST)
    nz = 2 * n + nu
    residual_kernel(m, e, first, s.state, s.work, s.r, s.A)
    store_jacobian(n, N, cq, cv, s, s.J)
    factorize_lanes(N, s.J)
    store_acceleration_rows(n, nu, -1.0, s, az)
    _store_chain_rows(n, N, nz, s, az)
    solve_lanes(N, s.J, az, nz)
    scale_into(N * nz, az, -1.0, az)
    if level >= SECOND:
        _store_adjoint(n, N, y, s)
        residual_kernel(m, e, level, s.state, s.work, s.r, s.A)
        store_hessian(None, n, nu, s.b, s.c.Hqu, H)
        _store_mixed(n, N, nu, cq, cv, s, c)
        if N > n:
            _store_mixed_chains(n, N, nu, s.c.closed[virtual_rows(e.closures, n) :], cq, c)
        add_along(N, nz, az, c.Z, c.S, H)
