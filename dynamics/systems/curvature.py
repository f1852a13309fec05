"""Exact second-order expansions of one step, contracted with a multiplier, one knot per lane.

For a covector lam = (lam_q, lam_v) in the tangent at the step's output, H is the symmetric matrix with

    lam' (output's tangent displacement) = lam' F z + 1/2 z' H z + O(z^3),      z = (dq, dv, du)

Euler:  H = Hessian of y'a  +  geometry,    y = h lam_v  (+ h^2 Jr'lam_q for the semi-implicit step)

F is known on the way, so the first-order expansion can be had from the same call.
"""

from dynamics.contacts.contact_set import ContactSet
from dynamics.implicit_function import store_control_blocks, store_hessian, store_state_blocks
from dynamics.kernel_model import kernel_model
from dynamics.lane_algebra import add_scaled, scale_into
from dynamics.model import RigidBodyModel
from dynamics.simd import LANES, align_stack, carve, driver, gather, kernel, scatter_blocks, shared_kernel
from dynamics.simd.chunks import scatter_rows
from dynamics.systems.controlled_acceleration import acceleration_hessian, hessian_at_acceleration
from dynamics.systems.linearization import store_euler_blocks, store_euler_rows, store_velocity_rows
from dynamics.systems.runge_kutta import runge_kutta_numbers, runge_kutta_second_order
from dynamics.systems.steps import acceleration
from dynamics.systems.workspace import (
    carve_curvature,
    carve_derivatives,
    carve_dynamics,
    curvature_numbers,
    derivative_numbers,
    dynamics_numbers,
)
from dynamics.tangent import JACOBIAN, apply_map_transposed, tangent_maps
from dynamics.tangent_geometry import add_geometry, add_velocity_geometry


@shared_kernel
def _euler_blocks(m, contacts, B, skip, semi, h, q, v, u, lam, d, e, s, Hxx, Hux):
    """Hxx (2 nv 2 nv) and Hux (nu 2 nv) of either Euler step of ordinary joints; Huu = 0."""
    align_stack(Hxx)
    n, nu = B.shape
    scale_into(n, s.y, h, lam[n:])
    if semi:
        add_scaled(n, s.y, h * h, lam)
    acceleration_hessian(m, contacts, B, skip, q, v, u, d, e, s)
    store_state_blocks(None, n, 2 * n, s, Hxx)
    store_control_blocks(None, n, nu, 2 * n, s.Hqu, Hux)


@shared_kernel
def _euler_second_order(m, contacts, B, skip, semi, h, q, v, u, lam, d, e, s, work, F, H):
    """H of either Euler step of joints of any kind, and F if it has rows; work (nv + nv nz)."""
    n, nu = B.shape
    nz = 2 * n + nu
    xi, V = work[:n], work[n : n + n * nz]
    scale_into(n, s.y, h, lam[n:])
    scale_into(n, xi, h, v)
    acceleration(m, contacts, B, skip, q, v, u, d, d.a)
    if semi:
        add_scaled(n, xi, h * h, d.a)
    tangent_maps(m, xi, e.maps)
    if semi:
        apply_map_transposed(m, e.maps, JACOBIAN, lam[:n], s.w)
        add_scaled(n, s.y, h * h, s.w)
    hessian_at_acceleration(m, contacts, B, skip, q, v, d, e, s)
    store_hessian(None, n, nu, s, s.Hqu, H)
    if semi:
        store_velocity_rows(n, nu, h, e, V)
        add_geometry(m, e.maps, xi, lam, h, V, 0, nz, nz, H, 0, nz)
    else:
        add_velocity_geometry(m, e.maps, xi, lam, h, n, H, 0, nz)
    if F.shape[0] > 0:
        store_euler_rows(m, nu, semi, h, e, F)


@kernel
def _step_second_order(m, contacts, B, skip, rk, semi, h, q, v, u, lam, d, e, s, work, F, H):
    """H (nz nz) of any integrator, and F (2 nv nz) if it has rows; work: nv + nv nz for Euler, `runge_kutta_numbers`
    for RK4."""
    if rk is None:
        _euler_second_order(m, contacts, B, skip, semi, h, q, v, u, lam, d, e, s, work, F, H)
    else:
        H[:] = 0.0
        runge_kutta_second_order(m, contacts, B, skip, h, q, v, u, lam, d, e, s, work, F, H)


@driver
def drive_expansion(first, last, work, block, contacts, B, skip, curved, rk, semi, h, x, u, lam, fx, fu, Hxx, Hux, Huu):
    """Hxx[t], Hux[t], Huu[t]: Hessian of lam[t]' f at (x[t], u[t]), knots in lanes; fx[t] and fu[t] too, unless these
    are arrays of no knots."""
    m = kernel_model(block)
    knots, nu = u.shape
    n, nx = m.dof_body.size, x.shape[1]
    nq, nz, first_order = nx - n, 2 * n + nu, fx.shape[0] > 0
    for c in range(first, last):
        d, w = carve_dynamics(m, contacts, work)
        e, w = carve_derivatives(m, contacts, nu, w)
        s, w = carve_curvature(m, contacts, nu, w)
        x_, w = carve(w, nx)
        u_, w = carve(w, nu)
        lam_, w = carve(w, 2 * n)
        gather(x[:knots], c * LANES, x_)
        gather(u, c * LANES, u_)
        gather(lam, c * LANES, lam_)
        if curved is None and rk is None:
            Hxx_, w = carve(w, 4 * n * n)
            Hux_, w = carve(w, 2 * n * nu)
            _euler_blocks(m, contacts, B, skip, semi, h, x_[:nq], x_[nq:], u_, lam_, d, e, s, Hxx_, Hux_)
            scatter_rows(Hxx_, 0, 4 * n * n, Hxx, 0, c * LANES, knots, 4 * n * n)
            scatter_rows(Hux_, 0, 2 * n * nu, Hux, 0, c * LANES, knots, 2 * n * nu)
            Huu[c * LANES : (c + 1) * LANES] = 0.0
            if first_order:
                store_euler_blocks(n, nu, semi, h, e, Hxx_, Hux_)
                scatter_rows(Hxx_, 0, 4 * n * n, fx, 0, c * LANES, knots, 4 * n * n)
                scatter_rows(Hux_, 0, 2 * n * nu, fu, 0, c * LANES, knots, 2 * n * nu)
        else:
            H, w = carve(w, nz * nz)
            F, w = carve(w, 2 * n * nz if first_order else 0)
            _step_second_order(m, contacts, B, skip, rk, semi, h, x_[:nq], x_[nq:], u_, lam_, d, e, s, w, F, H)
            scatter_blocks(H, c * LANES, 2 * n, nz, 0, Hxx)
            scatter_blocks(H[2 * n * nz :], c * LANES, nu, nz, 0, Hux)
            scatter_blocks(H[2 * n * nz :], c * LANES, nu, nz, 2 * n, Huu)
            if first_order:
                scatter_blocks(F, c * LANES, 2 * n, nz, 0, fx)
                scatter_blocks(F, c * LANES, 2 * n, nz, 2 * n, fu)


def expansion_numbers(model: RigidBodyModel, contacts: ContactSet, nu: int, rk4: bool) -> int:
    """Scratch numbers per lane of `drive_expansion`."""
    n, nq = model.nv, model.nq
    nz = 2 * n + nu
    work = runge_kutta_numbers(model, nu) if rk4 else n + n * nz
    blocks = dynamics_numbers(model, contacts) + derivative_numbers(model, contacts, nu)
    blocks += curvature_numbers(model, contacts, nu)
    return blocks + nq + n + nu + 2 * n + nz * nz + 2 * n * nz + work
