"""Derivatives of the accelerations of a stage, by the implicit function theorem at the solution (`soft_steps`).

    a_q = - J^-1 r_q,    a_v = - J^-1 r_v,    a_u = J^-1 B

The Hessian of y'a is that of `implicit_function` for w'r along (q', v', a, u), with J'w = - y, where

    Z = H_za,   S = H_aa  of  R(q, v, a, u) = w'r(q + cq a, v + cv a, a, u),  z = (q, v, u):
    Z: q: Hqa + cq Hqq + cv Hqv,    v: cq Hvq + cv Hvv,    u: cq Huq            S = cq (Haq + Zq) + cv Zv

With closed chains w is (w, mu), w'r is that of `closure_kernel`, and H_q,lambda minus the rate of A along w.
"""

from typing import NamedTuple

import numpy as np

from dynamics.derivatives.implicit_function import add_along, store_hessian
from dynamics.rods.algorithms.equation_of_motion import linearly_implicit_kernel, nu, residual_kernel
from dynamics.rods.model.arrays import FIRST, MASS_MATRIX, SECOND, n
from dynamics.rods.stepping.soft_steps import (
    EXTRAPOLATED_EULER,
    GAMMA,
    IMPLICIT_MIDPOINT,
    NEWMARK,
    SEMI_IMPLICIT_EULER,
    N,
    advance,
    chain_rate,
    enter,
    semi_implicit_step,
    solve_midpoint,
    solve_newmark,
    solve_sdirk,
    store_jacobian,
    unknown,
    unknown_count,
)
from dynamics.simd import align_stack, fma, kernel, load, shared_kernel, splat, store
from dynamics.simd.lane_algebra import (
    add_entry,
    add_product,
    factorize_lanes,
    scale_into,
    solve_lanes,
    solve_transposed,
)
from dynamics.simd.lane_blocks import lanes


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
    for g in range(N - n):
        for j in range(n):
            x, k = load(s.c.closed.A, g * n + j), (n + g) * nz + j
            store(az, k, fma(chain_rate(n, N, s), x, load(s.c.closed.A_rate, g * n + j)))
            store(az, k + n, x)
        for j in range(2 * n, nz):
            store(az, (n + g) * nz + j, splat(az, 0.0))


@kernel
def _store_mixed(n, N, nu, cq, cv, s, Z, S):
    """Z and S of the stage, from the Hessian of w'r."""
    align_stack(Z)
    b = s.b
    for i in range(n):
        for j in range(n):
            k, t, o = i * n + j, j * n + i, i * N + j
            zq = fma(cq, load(b.Hqq, k), fma(cv, load(b.Hqv, k), load(b.Hqa, k)))
            zv = fma(cq, load(b.Hqv, t), cv * load(b.Hvv, k))
            store(Z, o, zq)
            store(Z, n * N + o, zv)
            store(S, o, fma(cq, load(b.Hqa, t) + zq, cv * zv))
        for j in range(nu):
            store(Z, (2 * n + j) * N + i, cq * load(s.c.Hqu, i * nu + j))


@kernel
def _store_mixed_chains(n, N, nu, rates, cq, Z, S):
    """The columns of multipliers, and rows of S, from rates of A along w."""
    align_stack(Z)
    zero = splat(Z, 0.0)
    for g in range(n, N):
        for i in range(n):
            x = -load(rates, (g - n) * n + i)
            store(Z, i * N + g, x)
            store(Z, (n + i) * N + g, zero)
            store(S, i * N + g, cq * x)
            store(S, g * N + i, cq * x)
        for i in range(nu):
            store(Z, (2 * n + i) * N + g, zero)
        for j in range(n, N):
            store(S, g * N + j, zero)


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
def differentiate_stage(m, e, cq, cv, level, y, s, az, Z, S, H):
    """After `solve_stage`, az (N nz) = d(a, lambda)/d(q, v, u) and, of SECOND, H (nz nz), the Hessian of y'a."""
    align_stack(az)
    n, nu, N, first = m.counts[0], e.counts[0], unknown_count(m, e), np.int64(FIRST)
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
        store_hessian(None, n, nu, 2 * n + nu, s.b, s.c.Hqu, H)
        _store_mixed(n, N, nu, cq, cv, s, Z, S)
        if N > n:
            _store_mixed_chains(n, N, nu, s.c.closed.virtual, cq, Z, S)
        add_along(N, nz, az, Z, S, H)


# --------------------------------------------------------------------------------------------
# The expansion of a time step of a soft robot, one knot per lane; methods and symbols of `soft_steps`.
#
# With z = (q, v, u) and lam = (lam_q, lam_v) at the step's output, F = dx+/dz, and H is the Hessian of lam'x+.  The
# first two have one acceleration: H is the Hessian of y'a, y = h lam_v + (h^2 or h^2/2) lam_q.  The next two, and the
# half steps of the last, chain two: with q~ = q + h v + dq a0, v~ = v + dv a0, q+ = q~ + cq a1, v+ = v~ + cv a1, y1 =
# cv lam_v + cq lam_q and G = dq da1/dq~ + dv da1/dv~,
#
#     da1/dz = da1/dz~ [1 h; 0 1] + G a0_z,  H = d(z~)' H1 d(z~) + Hessian of y0'a0,  y0 = dv lam_v + dq lam_q + G'y1


nz = 2 * n + nu


class SoftExpansion(NamedTuple):
    """Scratch of a step's derivatives: its end, y and y0, derivatives az and bz of the first and second unknowns, G; Z
    and S of a stage, H of the first acceleration, Z and S of the chain."""

    end: np.ndarray = lanes(2 * n)
    y: np.ndarray = lanes(n)
    y0: np.ndarray = lanes(n)
    az: np.ndarray = lanes(N * nz)
    bz: np.ndarray = lanes(N * nz)
    G: np.ndarray = lanes(n * n)
    Z: np.ndarray = lanes(nz * N)
    S: np.ndarray = lanes(N * N)
    H0: np.ndarray = lanes(nz * nz)
    Z0: np.ndarray = lanes(nz * n)
    S0: np.ndarray = lanes(n * n)


@kernel
def _shift_columns(rows, n, nz, t, X):
    """X (rows nz) <- X [1 t 0; 0 1 0; 0 0 1]: what derivatives along (q + t v, v, u) are along (q, v, u)."""
    align_stack(X)
    for i in range(rows):
        for j in range(n):
            k = i * nz + n + j
            store(X, k, fma(t, load(X, i * nz + j), load(X, k)))


@kernel
def _shift_rows(n, columns, t, X):
    """The same from the left, for X (nz columns)."""
    align_stack(X)
    for k in range(n * columns):
        store(X, n * columns + k, fma(t, load(X, k), load(X, n * columns + k)))


@kernel
def _combine_columns(rows, n, nz, cq, cv, X, Y):
    """Y (rows n) = cq X_q + cv X_v for X (rows nz)."""
    align_stack(X)
    for i in range(rows):
        for j in range(n):
            store(Y, i * n + j, fma(cq, load(X, i * nz + j), cv * load(X, i * nz + n + j)))


@kernel
def _store_step_rows(n, nz, t, cq, cv, az, F):
    """F (2 n nz) of the step (q + t v + cq a, v + cv a)."""
    align_stack(F)
    for i in range(n):
        for j in range(nz):
            x = load(az, i * nz + j)
            store(F, i * nz + j, cq * x)
            store(F, (n + i) * nz + j, cv * x)
        for k in (i * nz + i, (n + i) * nz + n + i):
            add_entry(F, k, 1.0)
        add_entry(F, i * nz + n + i, t)


@kernel
def _weigh(n, cq, cv, lam, y):
    """y = cq lam_q + cv lam_v"""
    for i in range(n):
        store(y, i, fma(cq, load(lam, i), cv * load(lam, n + i)))


@kernel
def _differentiate_euler(m, e, h, level, y, s, az, add, H):
    """az (n nz) = da/d(q, v, u) of the semi-implicit step, for h = 0 of the motion itself, and, of SECOND, the Hessian
    of y'a, which H becomes, or gains unless `add` is None."""
    n, nu = m.counts[0], e.counts[0]
    if level >= SECOND:
        scale_into(n, s.state[3 * n :], 1.0, y)
    linearly_implicit_kernel(m, e, h, level, s.state, s.J, s.work, s.r, s.A)
    store_acceleration_rows(n, nu, 1.0, s, az)
    if level >= SECOND:
        store_hessian(add, n, nu, 2 * n + nu, s.b, s.c.Hqu, H)


@kernel
def _expand_euler(m, e, h, level, x, u, lam, s, p, F, H):
    n, nu = m.counts[0], e.counts[0]
    enter(n, x, u, s)
    if level >= SECOND:
        _weigh(n, h * h, h, lam, p.y)
    _differentiate_euler(m, e, h, level, p.y, s, p.az, None, H)
    advance(n, h, h * h, h, x, s.state[2 * n : 3 * n], p.end)
    _store_step_rows(n, 2 * n + nu, h, h * h, h, p.az, F)


@kernel
def _expand_midpoint(m, e, h, level, x, u, lam, s, p, F, H):
    n, nz = m.counts[0], 2 * m.counts[0] + e.counts[0]
    cq, cv = 0.25 * h * h, 0.5 * h
    enter(n, x, u, s)
    solve_midpoint(m, e, h, x, s)
    advance(n, h, 2.0 * cq, h, x, s.state[2 * n : 3 * n], p.end)
    if level >= SECOND:
        _weigh(n, 2.0 * cq, h, lam, p.y)
    differentiate_stage(m, e, cq, cv, level, p.y, s, p.az, p.Z, p.S, H)
    _shift_columns(n, n, nz, cv, p.az)
    _store_step_rows(n, nz, h, 2.0 * cq, h, p.az, F)
    if level >= SECOND:
        _shift_columns(nz, n, nz, cv, H)
        _shift_rows(n, nz, cv, H)


@kernel
def _expand_last(m, e, h, cq, cv, dq, dv, level, lam, s, p, H):
    """After the last of two stages is solved: p.bz along (q~, v~, u), G, H, Z0, S0 and y0."""
    n, nz = m.counts[0], 2 * m.counts[0] + e.counts[0]
    scale_into(2 * n, p.end, 1.0, s.state)
    if level >= SECOND:
        _weigh(n, cq, cv, lam, p.y)
    differentiate_stage(m, e, cq, cv, level, p.y, s, p.bz, p.Z, p.S, H)
    _pass_on(n, nz, h, dq, dv, level, lam, p, H)


@kernel
def _pass_on(n, nz, h, dq, dv, level, lam, p, H):
    """What the second acceleration passes on to the first: G, Z0, S0 and y0, and H along (q, v, u)."""
    align_stack(H)
    _combine_columns(n, n, nz, dq, dv, p.bz, p.G)
    if level >= SECOND:
        _weigh(n, dq, dv, lam, p.y0)
        add_product(False, n, n, 1, 1.0, 1.0, p.G, 1, n, p.y, p.y0)
        _combine_columns(nz, n, nz, dq, dv, H, p.Z0)
        for k in range(n * n):
            store(p.S0, k, fma(dq, load(p.Z0, k), dv * load(p.Z0, n * n + k)))
        _shift_rows(n, n, h, p.Z0)
        _shift_columns(nz, n, nz, h, H)
        _shift_rows(n, nz, h, H)


@kernel
def _chain(n, nz, h, cq, cv, dq, dv, p, F):
    """F (2 n nz) of the step from p.az, along z, and p.bz, along (q~, v~, u)."""
    align_stack(F)
    _shift_columns(n, n, nz, h, p.bz)
    add_product(False, n, n, nz, 1.0, 1.0, p.G, n, 1, p.az, p.bz)
    _store_step_rows(n, nz, h, cq, cv, p.bz, F)
    for k in range(n * nz):
        x = load(p.az, k)
        store(F, k, fma(dq, x, load(F, k)))
        store(F, n * nz + k, fma(dv, x, load(F, n * nz + k)))


@kernel
def _expand_newmark(m, e, h, level, x, u, lam, s, p, F, H):
    n, nu = m.counts[0], e.counts[0]
    nz, cq, cv = 2 * n + nu, 0.25 * h * h, 0.5 * h
    enter(n, x, u, s)
    solve_newmark(m, e, h, x, s)
    _expand_last(m, e, h, cq, cv, cq, cv, level, lam, s, p, H)
    enter(n, x, u, s)
    _differentiate_euler(m, e, 0.0, level, p.y0, s, p.az, True, H)
    if level >= SECOND:
        add_along(n, nz, p.az, p.Z0, p.S0, H)
    _chain(n, nz, h, cq, cv, cq, cv, p, F)


@kernel
def _expand_sdirk(m, e, h, level, x, u, lam, s, p, F, H):
    n, N, g = m.counts[0], unknown_count(m, e), GAMMA * h
    nz, cq, cv, dq, dv = 2 * n + e.counts[0], g * g, g, 2.0 * g * (h - g), h - g
    enter(n, x, u, s)
    solve_sdirk(m, e, h, x, s)
    _expand_last(m, e, h, cq, cv, dq, dv, level, lam, s, p, H)
    for i in range(N):
        store(s.state, unknown(n, N, s, i), load(s.first, i))
    advance(n, g, cq, cv, x, s.state[2 * n : 3 * n], s.state)
    differentiate_stage(m, e, cq, cv, level, p.y0, s, p.az, p.Z, p.S, p.H0)
    _shift_columns(n, n, nz, g, p.az)
    if level >= SECOND:
        _shift_columns(nz, n, nz, g, p.H0)
        _shift_rows(n, nz, g, p.H0)
        add_along(n, nz, p.az, p.Z0, p.S0, H)
        for k in range(nz * nz):
            add_entry(H, k, load(p.H0, k))
    _chain(n, nz, h, cq, cv, dq, dv, p, F)


@kernel
def _expand_extrapolated(m, e, h, level, x, u, lam, s, p, F, H):
    """The half steps have q~ = q + h v + h^2/2 a0 and v~ = v + h/2 a0, a1 is that of (q~ - h/2 v~, v~)."""
    align_stack(F)
    n, t, least = m.counts[0], 0.5 * h, np.int64(MASS_MATRIX)
    nz, twice = 2 * n + e.counts[0], s.base
    enter(n, x, u, s)
    semi_implicit_step(m, e, t, least, s, s.state)
    if level >= SECOND:
        scale_into(2 * n, twice, 2.0, lam)
        _weigh(n, t * t, t, twice, p.y)
    _differentiate_euler(m, e, t, level, p.y, s, p.bz, None, H)
    advance(n, t, t * t, t, s.state, s.state[2 * n : 3 * n], p.end)
    _shift_columns(n, n, nz, -t, p.bz)
    if level >= SECOND:
        _shift_columns(nz, n, nz, -t, H)
        _shift_rows(n, nz, -t, H)
    _pass_on(n, nz, h, 2.0 * t * t, t, level, twice, p, H)
    enter(n, x, u, s)
    _differentiate_euler(m, e, t, level, p.y0, s, p.az, True, H)
    if level >= SECOND:
        add_along(n, nz, p.az, p.Z0, p.S0, H)
    _chain(n, nz, h, 2.0 * t * t, 2.0 * t, 4.0 * t * t, 2.0 * t, p, F)
    enter(n, x, u, s)
    if level >= SECOND:
        _weigh(n, -h * h, -h, lam, p.y)
    _differentiate_euler(m, e, h, level, p.y, s, p.az, True, H)
    advance(n, h, h * h, h, x, s.state[2 * n : 3 * n], twice)
    for i in range(2 * n):
        store(p.end, i, fma(2.0, load(p.end, i), -load(twice, i)))
    for k in range(n * nz):
        a = h * load(p.az, k)
        store(F, k, fma(-h, a, load(F, k)))
        store(F, n * nz + k, load(F, n * nz + k) - a)


@shared_kernel
def expand_kernel(m, e, integrator, h, level, x, u, lam, s, p, F, H):
    """F (2 n nz) and, of the level SECOND, H (nz nz); s: `slice_stage`, p: `SoftExpansion`."""
    if integrator == SEMI_IMPLICIT_EULER:
        _expand_euler(m, e, h, level, x, u, lam, s, p, F, H)
    elif integrator == IMPLICIT_MIDPOINT:
        _expand_midpoint(m, e, h, level, x, u, lam, s, p, F, H)
    elif integrator == EXTRAPOLATED_EULER:
        _expand_extrapolated(m, e, h, level, x, u, lam, s, p, F, H)
    elif integrator == NEWMARK:
        _expand_newmark(m, e, h, level, x, u, lam, s, p, F, H)
    else:
        _expand_sdirk(m, e, h, level, x, u, lam, s, p, F, H)
