"""First- and second-order expansions of one step in the tangent, one knot per lane.

With z = (dq, dv, du), and dh where the duration is free, and a covector lam = (lam_q, lam_v) at the step's output,

    output's tangent displacement = F z + O(z^2)          lam' of it = lam'F z + 1/2 z'H z + O(z^3)

Of Euler steps of fixed duration F and H are known blocks, with A and Jr those of the increment xi, q+ = q (+) xi:

    velocity rows            L = [h a_q, 1 + h a_v, h a_u]
    configuration rows       [A, h Jr, 0], or [A, 0, 0] + h Jr L of the semi-implicit step
    H = Hessian of y'a + geometry,    y = h lam_v, + h^2 Jr'lam_q of the semi-implicit step

A and Jr are the identity on Euclidean joints: there fx and fu are written apart from the start, as whole blocks leave
the lanes faster than parts of rows.  All other steps go through the rows of their table (`runge_kutta`).  F is known on
the way to H, so that both come from one evaluation.
"""

from typing import NamedTuple

import numpy as np

from dynamics.contacts.contact_set import ContactSet
from dynamics.derivatives.implicit_function import store_control_blocks, store_hessian, store_state_blocks
from dynamics.model.kernel_model import kernel_model
from dynamics.model.model import RigidBodyModel
from dynamics.simd import (
    LANES,
    align_stack,
    driver,
    gather,
    helper,
    kernel,
    load,
    scatter,
    scatter_blocks,
    shared_kernel,
    splat,
    split,
    store,
)
from dynamics.simd.by_type import by_type
from dynamics.simd.lane_algebra import add_scaled, scale_into
from dynamics.simd.references import by_reference
from dynamics.spatial.tangent import (
    ADJOINT,
    JACOBIAN,
    add_geometry,
    add_map,
    add_mapped_rows,
    add_velocity_geometry,
    apply_map_transposed,
    tangent_maps,
)
from dynamics.systems.controlled_acceleration import (
    acceleration_derivatives,
    acceleration_hessian,
    hessian_at_acceleration,
)
from dynamics.systems.runge_kutta import runge_kutta_first_order, runge_kutta_second_order, runge_kutta_size
from dynamics.systems.steps import (
    EuclideanEuler,
    LieEuler,
    Plant,
    Tableau,
    acceleration,
    coefficients,
    free_durations,
    increment,
)
from dynamics.systems.workspace import (
    curvature_size,
    derivative_size,
    dynamics_size,
    slice_curvature,
    slice_derivatives,
    slice_dynamics,
)


@helper
def _is_semi_implicit(method):
    """True if an Euler step moves the configuration along the new velocity."""
    return coefficients(method, 1, 0)[1] != 0.0


# ------------------------------------------------------------------------------------------------ Euclidean Euler steps
@kernel
def _store_euler_blocks(n, nu, semi, h, e, fx, fu):
    """fx (2 nv 2 nv) and fu (2 nv nu), from the derivatives in e."""
    align_stack(fx)
    fx_v, fu_v = fx[2 * n * n :], fu[n * nu :]  # the rows of velocities
    for i in range(n):
        o = i * 2 * n
        for j in range(n):
            store(fx_v, o + j, h * load(e.aq, i * n + j))
            store(fx_v, o + n + j, h * load(e.av, i * n + j))
        store(fx_v, o + n + i, load(fx_v, o + n + i) + 1.0)
    scale_into(n * nu, fu_v, h, e.au)
    upper = 2 * n * n
    if semi:
        scale_into(upper, fx, h, fx_v)
        scale_into(n * nu, fu, h, fu_v)
    else:
        fx[:upper], fu[: n * nu] = 0.0, 0.0
    for i in range(n):
        o = i * 2 * n
        store(fx, o + i, load(fx, o + i) + 1.0)
        if not semi:
            store(fx, o + n + i, splat(fx, h))


@kernel
def _linearize_euler(m, p, method, q, v, u, d, e, w, t, fx, fu):
    n, nu = p.B.shape
    fx_, w = split(w, 4 * n * n)
    fu_, w = split(w, 2 * n * nu)
    acceleration_derivatives(m, p, q, v, u, d, e)
    _store_euler_blocks(n, nu, _is_semi_implicit(method), p.duration.h, e, fx_, fu_)
    scatter(fx_, t, fx)
    scatter(fu_, t, fu)


@shared_kernel
def _euler_second_order(m, p, q, v, u, lam, d, e, s, Hxx, Hux):
    """Hxx (2 nv 2 nv) and Hux (nu 2 nv); Huu = 0."""
    (n, nu), h = p.B.shape, p.duration.h
    scale_into(n, s.y, h, lam[n:])
    if _is_semi_implicit(p.method):
        add_scaled(n, s.y, h * h, lam)
    acceleration_hessian(m, p, q, v, u, d, e, s)
    store_state_blocks(None, n, 2 * n, s, Hxx)
    store_control_blocks(None, n, nu, 2 * n, s.Hqu, Hux)


@kernel
def _expand_euler(m, p, method, q, v, u, lam, d, e, s, w, t, out):
    n, nu = p.B.shape
    X, w = split(w, 4 * n * n)
    U, w = split(w, 2 * n * nu)
    _euler_second_order(m, p, q, v, u, lam, d, e, s, X, U)
    scatter(X, t, out.Hxx)
    scatter(U, t, out.Hux)
    out.Huu[t : t + LANES] = 0.0
    if out.fx.shape[0] > 0:
        _store_euler_blocks(n, nu, _is_semi_implicit(method), p.duration.h, e, X, U)
        scatter(X, t, out.fx)
        scatter(U, t, out.fu)


# ------------------------------------------------------------------------------------------------ steps of whole rows
@helper
def _scatter_step(n, nu, t, F, fx, fu):
    """F (2 nv nz) to the knots from t on."""
    nz = 2 * n + nu
    scatter_blocks(F, t, 2 * n, nz, 0, fx)
    scatter_blocks(F, t, 2 * n, nz, 2 * n, fu)


@helper
def _scatter_expansion(n, nu, t, F, H, out):
    """H (nz nz), and F (2 nv nz) where it is asked for, to the knots from t on."""
    nz = 2 * n + nu
    scatter_blocks(H, t, 2 * n, nz, 0, out.Hxx)
    scatter_blocks(H[2 * n * nz :], t, nu, nz, 0, out.Hux)
    scatter_blocks(H[2 * n * nz :], t, nu, nz, 2 * n, out.Huu)
    if out.fx.shape[0] > 0:
        _scatter_step(n, nu, t, F, out.fx, out.fu)


# ------------------------------------------------------------------------------------------------ Euler steps on groups
@kernel
def _store_velocity_rows(n, nu, h, e, F):
    """The rows L of F (2 nv nz)."""
    align_stack(F)
    nz = 2 * n + nu
    L = F[n * nz :]
    for i in range(n):
        for j in range(n):
            store(L, i * nz + j, h * load(e.aq, i * n + j))
            store(L, i * nz + n + j, h * load(e.av, i * n + j))
        store(L, i * nz + n + i, load(L, i * nz + n + i) + 1.0)
        for j in range(nu):
            store(L, i * nz + 2 * n + j, h * load(e.au, i * nu + j))


@kernel
def _store_configuration_rows(m, nu, semi, h, e, F):
    """The rows above L, with A and Jr in e.maps."""
    n = m.dof_body.size
    nz = 2 * n + nu
    F[: n * nz] = 0.0
    add_map(m, e.maps, ADJOINT, 1.0, F, 0, nz)
    if semi:
        add_mapped_rows(m, e.maps, JACOBIAN, h, F, n * nz, nz, F, 0, nz, nz)
    else:
        add_map(m, e.maps, JACOBIAN, h, F, n, nz)


@shared_kernel
def _lie_euler_first_order(m, p, q, v, u, d, e, xi, F):
    """F; xi (nv) becomes the increment."""
    (n, nu), h, semi = p.B.shape, p.duration.h, _is_semi_implicit(p.method)
    acceleration_derivatives(m, p, q, v, u, d, e)
    increment(m, None, p.method, 1, h, v, d.a, xi)
    tangent_maps(m, xi, e.maps)
    _store_velocity_rows(n, nu, h, e, F)
    _store_configuration_rows(m, nu, semi, h, e, F)


@shared_kernel
def _lie_euler_second_order(m, p, q, v, u, lam, d, e, s, xi, both, F, H):
    """H, and F if `both` are asked for; xi (nv) becomes the increment."""
    (n, nu), h, semi = p.B.shape, p.duration.h, _is_semi_implicit(p.method)
    nz = 2 * n + nu
    acceleration(m, p, q, v, u, d, d.a)
    increment(m, None, p.method, 1, h, v, d.a, xi)
    tangent_maps(m, xi, e.maps)
    scale_into(n, s.y, h, lam[n:])
    if semi:
        apply_map_transposed(m, e.maps, JACOBIAN, lam[:n], s.w)
        add_scaled(n, s.y, h * h, s.w)
    hessian_at_acceleration(m, p, q, v, u, d, e, s)
    store_hessian(None, n, nu, nz, s, s.Hqu, H)
    if semi or both:
        _store_velocity_rows(n, nu, h, e, F)
    if semi:
        add_geometry(m, e.maps, xi, lam, h, F, n * nz, nz, nz, H, 0, nz)
    else:
        add_velocity_geometry(m, e.maps, xi, lam, h, n, H, 0, nz)
    if both:
        _store_configuration_rows(m, nu, semi, h, e, F)


@kernel
def _linearize_lie_euler(m, p, method, q, v, u, d, e, w, t, fx, fu):
    n, nu = p.B.shape
    F, w = split(w, 2 * n * (2 * n + nu))
    xi, w = split(w, n)
    _lie_euler_first_order(m, p, q, v, u, d, e, xi, F)
    _scatter_step(n, nu, t, F, fx, fu)


@kernel
def _expand_lie_euler(m, p, method, q, v, u, lam, d, e, s, w, t, out):
    n, nu = p.B.shape
    H, w = split(w, (2 * n + nu) ** 2)
    F, w = split(w, 2 * n * (2 * n + nu))
    xi, w = split(w, n)
    _lie_euler_second_order(m, p, q, v, u, lam, d, e, s, xi, out.fx.shape[0] > 0, F, H)
    _scatter_expansion(n, nu, t, F, H, out)


# ------------------------------------------------------------------------------------------------ all other steps
@kernel
def _linearize_rows(m, p, method, q, v, u, d, e, w, t, fx, fu):
    n, nu = p.B.shape[0], p.B.shape[1] + free_durations(p.duration)
    F, w = split(w, 2 * n * (2 * n + nu))
    runge_kutta_first_order(m, p, q, v, u, d, e, w, F)
    _scatter_step(n, nu, t, F, fx, fu)


@kernel
def _expand_rows(m, p, method, q, v, u, lam, d, e, s, w, t, out):
    n, nu = p.B.shape[0], p.B.shape[1] + free_durations(p.duration)
    nz = 2 * n + nu
    H, w = split(w, nz * nz)
    F, w = split(w, 2 * n * nz if out.fx.shape[0] > 0 else 0)
    runge_kutta_second_order(m, p, q, v, u, lam, d, e, s, w, F, H)
    _scatter_expansion(n, nu, t, F, H, out)


# ------------------------------------------------------------------------------------------------ drivers
_linearize = by_type(
    "method", {EuclideanEuler: _linearize_euler, LieEuler: _linearize_lie_euler, Tableau: _linearize_rows}
)
_expand = by_type("method", {EuclideanEuler: _expand_euler, LieEuler: _expand_lie_euler, Tableau: _expand_rows})


@driver
def drive_linearization(first, last, work, block, p, x, u, fx, fu):
    """fx[t], fu[t] of the `Plant` p at (x[t], u[t]), knots in lanes."""
    m = kernel_model(block)
    p = by_reference(p)
    nu, nx = u.shape[1], x.shape[1]
    nq = nx - m.dof_body.size
    for c in range(first, last):
        d, w = slice_dynamics(m, p.contacts, work)
        e, w = slice_derivatives(m, p, nu, w)
        x_, w = split(w, nx)
        u_, w = split(w, nu)
        gather(x[: u.shape[0]], c * LANES, x_)
        gather(u, c * LANES, u_)
        _linearize(m, p, p.method, x_[:nq], x_[nq:], u_, d, e, w, c * LANES, fx, fu)


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
        d, w = slice_dynamics(m, p.contacts, work)
        e, w = slice_derivatives(m, p, nu, w)
        s, w = slice_curvature(m, p.contacts, nu, w)
        x_, w = split(w, nx)
        u_, w = split(w, nu)
        lam_, w = split(w, 2 * n)
        gather(x[:knots], c * LANES, x_)
        gather(u, c * LANES, u_)
        gather(lam, c * LANES, lam_)
        _expand(m, p, p.method, x_[: nx - n], x_[nx - n :], u_, lam_, d, e, s, w, c * LANES, out)


def linearization_size(model: RigidBodyModel, contacts: ContactSet, nu: int, plant: Plant) -> int:
    """Workspace size per lane of `drive_linearization`; nu with the duration where that is free."""
    n = model.nv
    blocks = dynamics_size(model, contacts) + derivative_size(model, contacts, nu, plant.actuators)
    rows = runge_kutta_size(model, nu, plant) if isinstance(plant.method, Tableau) else n
    return blocks + model.nq + n + nu + 2 * n * (2 * n + nu) + rows


def expansion_size(model: RigidBodyModel, contacts: ContactSet, nu: int, plant: Plant) -> int:
    """Workspace size per lane of `drive_expansion`; nu with the duration where that is free."""
    n, nz = model.nv, 2 * model.nv + nu
    own = linearization_size(model, contacts, nu, plant) + curvature_size(model, contacts, nu)
    return own + 2 * n + nz * nz
