"""Exact second-order expansions of one step, contracted with a multiplier, one knot per lane.

For a covector lam = (lam_q, lam_v) in the tangent at the step's output, H is the symmetric matrix with

    lam' (output's tangent displacement) = lam' F z + 1/2 z' H z + O(z^3),      z = (dq, dv, du)

Euler:  H = Hessian of y'a  +  geometry,    y = h lam_v  (+ h^2 Jr'lam_q for the semi-implicit step)

F is known on the way, so the first-order expansion can be had from the same call.
"""

from typing import NamedTuple

import numpy as np

from dynamics.contacts.contact_set import ContactSet
from dynamics.derivatives.implicit_function import store_control_blocks, store_hessian, store_state_blocks
from dynamics.model.kernel_model import kernel_model
from dynamics.model.model import RigidBodyModel
from dynamics.simd import (
    LANES,
    carve,
    driver,
    fma,
    gather,
    helper,
    kernel,
    load,
    scatter,
    scatter_blocks,
    shared_kernel,
    splat,
    store,
)
from dynamics.simd.by_type import by_type
from dynamics.simd.lane_algebra import add_scaled, scale_into, store_pair
from dynamics.simd.references import by_reference
from dynamics.spatial.tangent import JACOBIAN, add_geometry, add_velocity_geometry, apply_map_transposed, tangent_maps
from dynamics.systems.controlled_acceleration import acceleration_hessian, hessian_at_acceleration
from dynamics.systems.frame_forces import FrameActuators
from dynamics.systems.linearization import (
    increment_rate,
    scatter_step,
    store_euler_blocks,
    store_euler_rows,
    store_velocity_rows,
    store_with_duration,
)
from dynamics.systems.runge_kutta import runge_kutta_numbers, runge_kutta_second_order
from dynamics.systems.steps import (
    Euler,
    LieEuler,
    RungeKutta,
    TimedEuler,
    TimedRungeKutta,
    acceleration,
    duration,
    durations_behind,
)
from dynamics.systems.workspace import (
    carve_curvature,
    carve_derivatives,
    carve_dynamics,
    curvature_numbers,
    derivative_numbers,
    dynamics_numbers,
)


# ------------------------------------------------------------------------------------------------ kernels
@shared_kernel
def _euler_second_order(m, p, q, v, u, lam, d, e, s, Hxx, Hux):
    """Hxx (2 nv 2 nv) and Hux (nu 2 nv) of either Euler step of ordinary joints; Huu = 0."""
    n, nu = p.B.shape
    h = p.integrator.h
    scale_into(n, s.y, h, lam[n:])
    if p.integrator.semi:
        add_scaled(n, s.y, h * h, lam)
    acceleration_hessian(m, p, q, v, u, d, e, s)
    store_state_blocks(None, n, 2 * n, s, Hxx)
    store_control_blocks(None, n, nu, 2 * n, s.Hqu, Hux)


@shared_kernel
def _lie_euler_second_order(m, p, q, v, u, lam, d, e, s, work, F, H):
    """H of either Euler step of joints of any kind, and F if it has rows; work (nv + nv nz)."""
    n, nu = p.B.shape
    nz, h, semi = 2 * n + nu, p.integrator.h, p.integrator.semi
    xi, V = work[:n], work[n : n + n * nz]
    scale_into(n, s.y, h, lam[n:])
    scale_into(n, xi, h, v)
    acceleration(m, p, q, v, u, d, d.a)
    if semi:
        add_scaled(n, xi, h * h, d.a)
    tangent_maps(m, xi, e.maps)
    if semi:
        apply_map_transposed(m, e.maps, JACOBIAN, lam[:n], s.w)
        add_scaled(n, s.y, h * h, s.w)
    hessian_at_acceleration(m, p, q, v, u, d, e, s)
    store_hessian(None, n, nu, s, s.Hqu, H)
    if semi:
        store_velocity_rows(n, nu, h, e, V)
        add_geometry(m, e.maps, xi, lam, h, V, 0, nz, nz, H, 0, nz)
    else:
        add_velocity_geometry(m, e.maps, xi, lam, h, n, H, 0, nz)
    if F.shape[0] > 0:
        store_euler_rows(m, nu, semi, h, e, F)


# ------------------------------------------------------------------------------------------------ by integrator
@helper
def _scatter(n, nu, t, F, H, out):
    """H (nz nz), and F if it has rows, to the knots from t on."""
    nz = 2 * n + nu
    scatter_blocks(H, t, 2 * n, nz, 0, out.Hxx)
    scatter_blocks(H[2 * n * nz :], t, nu, nz, 0, out.Hux)
    scatter_blocks(H[2 * n * nz :], t, nu, nz, 2 * n, out.Huu)
    if F.shape[0] > 0:
        scatter_step(n, nu, t, F, out.fx, out.fu)


@kernel
def _expand_euler(m, p, integrator, q, v, u, lam, d, e, s, w, t, out):
    n, nu = p.B.shape
    X, w = carve(w, 4 * n * n)
    U, w = carve(w, 2 * n * nu)
    _euler_second_order(m, p, q, v, u, lam, d, e, s, X, U)
    scatter(X, t, out.Hxx)
    scatter(U, t, out.Hux)
    out.Huu[t : t + LANES] = 0.0
    if out.fx.shape[0] > 0:
        store_euler_blocks(n, nu, integrator.semi, integrator.h, e, X, U)
        scatter(X, t, out.fx)
        scatter(U, t, out.fu)


@kernel
def _expand_lie_euler(m, p, integrator, q, v, u, lam, d, e, s, w, t, out):
    n, nu = p.B.shape
    H, w = carve(w, (2 * n + nu) ** 2)
    F, w = carve(w, 2 * n * (2 * n + nu) if out.fx.shape[0] > 0 else 0)
    _lie_euler_second_order(m, p, q, v, u, lam, d, e, s, w, F, H)
    _scatter(n, nu, t, F, H, out)


@kernel
def _widened(nz, H, W):
    """W (nz + 1, nz + 1) is H (nz, nz), and zero in the last row and column."""
    W[:] = 0.0
    for i in range(nz):
        for j in range(nz):
            store(W, i * (nz + 1) + j, load(H, i * nz + j))


@kernel
def _add_duration(n, nu, semi, h, lam_v, o, a, e, W):
    """The last row and column of W, those of the duration, but for geometry: y''a + o'O_h with y' = lam_v + 2 h o and
    O_h = v + 2 h a of the semi-implicit step, y' = lam_v and O_h = v of the explicit one."""
    nz = 2 * n + nu
    for j in range(nz):
        x = splat(W, 0.0)
        for i in range(n):
            y = fma(2.0 * h, load(o, i), load(lam_v, i)) if semi else load(lam_v, i)
            if j < n:
                slope = load(e.aq, i * n + j)
            elif j < 2 * n:
                slope = load(e.av, i * n + j - n)
            else:
                slope = load(e.au, i * nu + j - 2 * n)
            x = fma(y, slope, x)
        if n <= j and j < 2 * n:
            x = x + load(o, j - n)
        store_pair(W, nz + 1, nz, j, x)
    if semi:
        x = splat(W, 0.0)
        for i in range(n):
            x = fma(2.0 * load(o, i), load(a, i), x)
        store(W, (nz + 1) * (nz + 1) - 1, x)


@shared_kernel
def _timed_euler_second_order(m, p, q, v, u, lam, d, e, s, work, F, W):
    """W (nz + 1, nz + 1) of either Euler step, its duration last, and F (2 nv, nz + 1) if it has rows."""
    n, nu = p.B.shape
    nz, h, semi = 2 * n + nu, duration(p.integrator, nu, u), p.integrator.semi
    xi, o, rate, rest = work[:n], work[n : 2 * n], work[2 * n : 3 * n], work[3 * n :]
    H, rest = carve(rest, nz * nz)
    rows, rest = carve(rest, 2 * n * nz)
    eta, _ = carve(rest, 2 * n * (nz + 1))
    scale_into(n, s.y, h, lam[n:])
    scale_into(n, xi, h, v)
    acceleration(m, p, q, v, u, d, d.a)
    if semi:
        add_scaled(n, xi, h * h, d.a)
    tangent_maps(m, xi, e.maps)
    apply_map_transposed(m, e.maps, JACOBIAN, lam[:n], o)
    if semi:
        add_scaled(n, s.y, h * h, o)
    increment_rate(n, semi, h, v, d.a, rate)
    hessian_at_acceleration(m, p, q, v, u, d, e, s)
    store_hessian(None, n, nu, s, s.Hqu, H)
    _widened(nz, H, W)
    _add_duration(n, nu, semi, h, lam[n:], o, d.a, e, W)
    rows[:] = 0.0
    store_velocity_rows(n, nu, h, e, rows[n * nz :])
    store_with_duration(m, nz, rows, rate, d.a, e.maps, eta)
    for i in range(n):  # eta of the increment, in the rows of the configuration
        for j in range(nz):
            x = h * load(rows, (n + i) * nz + j) if semi else splat(eta, 0.0)
            store(eta, i * (nz + 1) + j, x)
        if not semi:
            store(eta, i * (nz + 1) + n + i, splat(eta, h))
        store(eta, i * (nz + 1) + nz, load(rate, i))
    add_geometry(m, e.maps, xi, lam, 1.0, eta, 0, nz + 1, nz + 1, W, 0, nz + 1)
    if F.shape[0] > 0:
        store_euler_rows(m, nu, semi, h, e, rows)
        store_with_duration(m, nz, rows, rate, d.a, e.maps, F)


@kernel
def _expand_timed_euler(m, p, integrator, q, v, u, lam, d, e, s, w, t, out):
    n, nu = p.B.shape
    W, w = carve(w, (2 * n + nu + 1) ** 2)
    F, w = carve(w, 2 * n * (2 * n + nu + 1) if out.fx.shape[0] > 0 else 0)
    _timed_euler_second_order(m, p, q, v, u, lam, d, e, s, w, F, W)
    _scatter(n, nu + 1, t, F, W, out)


@kernel
def _expand_runge_kutta(m, p, integrator, q, v, u, lam, d, e, s, w, t, out):
    n, nu = p.B.shape[0], p.B.shape[1] + durations_behind(integrator)
    H, w = carve(w, (2 * n + nu) ** 2)
    F, w = carve(w, 2 * n * (2 * n + nu) if out.fx.shape[0] > 0 else 0)
    H[:] = 0.0
    runge_kutta_second_order(m, p, q, v, u, lam, d, e, s, w, F, H)
    _scatter(n, nu, t, F, H, out)


_expand = by_type(
    "integrator",
    {
        Euler: _expand_euler, LieEuler: _expand_lie_euler, RungeKutta: _expand_runge_kutta,
        TimedEuler: _expand_timed_euler, TimedRungeKutta: _expand_runge_kutta,
    },
)  # fmt: skip


class Expansion(NamedTuple):
    """Arrays that an expansion is written to; fx and fu may be of no knots."""

    fx: np.ndarray
    fu: np.ndarray
    Hxx: np.ndarray
    Hux: np.ndarray
    Huu: np.ndarray


@driver
def drive_expansion(first, last, work, block, p, x, u, lam, out):
    """Hxx[t], Hux[t], Huu[t]: Hessian of lam[t]'f of the `Plant` p at (x[t], u[t]), knots in lanes; fx[t] and fu[t]
    too, unless these are arrays of no knots.  out: an `Expansion`."""
    m = kernel_model(block)
    p = by_reference(p)
    knots, nu = u.shape
    n, nx = m.dof_body.size, x.shape[1]
    for c in range(first, last):
        d, w = carve_dynamics(m, p.contacts, work)
        e, w = carve_derivatives(m, p, nu, w)
        s, w = carve_curvature(m, p.contacts, nu, w)
        x_, w = carve(w, nx)
        u_, w = carve(w, nu)
        lam_, w = carve(w, 2 * n)
        gather(x[:knots], c * LANES, x_)
        gather(u, c * LANES, u_)
        gather(lam, c * LANES, lam_)
        _expand(m, p, p.integrator, x_[: nx - n], x_[nx - n :], u_, lam_, d, e, s, w, c * LANES, out)


def expansion_numbers(
    model: RigidBodyModel,
    contacts: ContactSet,
    nu: int,
    rk4: bool,
    actuators: FrameActuators | None = None,
    timed: bool = False,
) -> int:
    """Scratch numbers per lane of `drive_expansion`; nu with the duration where that is free."""
    n, nq = model.nv, model.nq
    nz = 2 * n + nu
    work = runge_kutta_numbers(model, nu) if rk4 else n + n * nz
    if timed and not rk4:
        work = 3 * n + (nz - 1) ** 2 + 2 * n * (nz - 1) + 2 * n * nz
    blocks = dynamics_numbers(model, contacts) + derivative_numbers(model, contacts, nu, actuators)
    blocks += curvature_numbers(model, contacts, nu)
    return blocks + nq + n + nu + 2 * n + nz * nz + 2 * n * nz + work
