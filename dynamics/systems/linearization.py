"""First-order expansions of one step in the tangent, one knot per lane.

With z = (dq, dv, du), the step's differential is F z, F (2 nv, 2 nv + nu):

    velocity rows            V = [h a_q, I + h a_v, h a_u]               (Euler)
    configuration rows       A(xi) P_q + Jr(xi) d(xi)                     q+ = q (+) xi

where A = Ad_exp(-xi) and Jr act joint by joint and are the identity on ordinary joints.  There, with an Euler step,
fx and fu are written apart from the start: rows of whole blocks leave the lanes faster than parts of rows.
"""

from dynamics.contacts.contact_set import ContactSet
from dynamics.kernel_model import kernel_model
from dynamics.lane_algebra import add_scaled, scale_into
from dynamics.model import RigidBodyModel
from dynamics.simd import (
    LANES,
    align_stack,
    carve,
    driver,
    gather,
    kernel,
    load,
    scatter_blocks,
    shared_kernel,
    splat,
    store,
)
from dynamics.simd.chunks import scatter_rows
from dynamics.systems.controlled_acceleration import acceleration_derivatives
from dynamics.systems.runge_kutta import runge_kutta_first_order, runge_kutta_numbers
from dynamics.systems.workspace import carve_derivatives, carve_dynamics, derivative_numbers, dynamics_numbers
from dynamics.tangent import ADJOINT, JACOBIAN, add_map, add_mapped_rows, tangent_maps


@kernel
def store_velocity_rows(n, nu, h, e, F):
    """Rows [h a_q, I + h a_v, h a_u] of F (n, 2 n + nu)."""
    align_stack(F)
    nz = 2 * n + nu
    for i in range(n):
        for j in range(n):
            store(F, i * nz + j, h * load(e.aq, i * n + j))
            store(F, i * nz + n + j, h * load(e.av, i * n + j))
        store(F, i * nz + n + i, load(F, i * nz + n + i) + 1.0)
        for j in range(nu):
            store(F, i * nz + 2 * n + j, h * load(e.au, i * nu + j))


@kernel
def store_euler_blocks(n, nu, semi, h, e, fx, fu):
    """fx (2 nv 2 nv) and fu (2 nv nu) of either Euler step of ordinary joints, from the derivatives in e."""
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
def store_euler_rows(m, nu, semi, h, e, F):
    """F of either Euler step of joints of any kind, from e: the derivatives, and the maps of the increment."""
    n = m.dof_body.size
    nz = 2 * n + nu
    rows = n * nz
    F[:rows] = 0.0
    store_velocity_rows(n, nu, h, e, F[rows:])
    add_map(m, e.maps, ADJOINT, 1.0, F, 0, nz)
    if semi:
        add_mapped_rows(m, e.maps, JACOBIAN, h, F, rows, nz, F, 0, nz, nz)
    else:
        add_map(m, e.maps, JACOBIAN, h, F, n, nz)


@shared_kernel
def _euler_first_order(m, contacts, B, skip, semi, h, q, v, u, d, e, xi, F):
    """F of either Euler step of joints of any kind; xi (nv) becomes the increment."""
    n, nu = B.shape
    acceleration_derivatives(m, contacts, B, skip, q, v, u, d, e)
    scale_into(n, xi, h, v)
    if semi:
        add_scaled(n, xi, h * h, d.a)
    tangent_maps(m, xi, e.maps)
    store_euler_rows(m, nu, semi, h, e, F)


@kernel
def _step_first_order(m, contacts, B, skip, rk, semi, h, q, v, u, d, e, work, F):
    """F of any integrator.  work: nv numbers for Euler, `runge_kutta_numbers` for RK4."""
    if rk is None:
        _euler_first_order(m, contacts, B, skip, semi, h, q, v, u, d, e, work, F)
    else:
        runge_kutta_first_order(m, contacts, B, skip, h, q, v, u, d, e, work, F)


@driver
def drive_linearization(first, last, work, block, contacts, B, skip, curved, rk, semi, h, x, u, fx, fu):
    """fx[t], fu[t] at (x[t], u[t]), knots in lanes."""
    m = kernel_model(block)
    n, nu, nx = m.dof_body.size, u.shape[1], x.shape[1]
    nq, nz = nx - n, 2 * n + nu
    for c in range(first, last):
        d, w = carve_dynamics(m, contacts, work)
        e, w = carve_derivatives(m, contacts, nu, w)
        x_, w = carve(w, nx)
        u_, w = carve(w, nu)
        gather(x[: u.shape[0]], c * LANES, x_)
        gather(u, c * LANES, u_)
        if curved is None and rk is None:
            fx_, w = carve(w, 4 * n * n)
            fu_, w = carve(w, 2 * n * nu)
            acceleration_derivatives(m, contacts, B, skip, x_[:nq], x_[nq:], u_, d, e)
            store_euler_blocks(n, nu, semi, h, e, fx_, fu_)
            scatter_rows(fx_, 0, 4 * n * n, fx, 0, c * LANES, u.shape[0], 4 * n * n)
            scatter_rows(fu_, 0, 2 * n * nu, fu, 0, c * LANES, u.shape[0], 2 * n * nu)
        else:
            F, w = carve(w, 2 * n * nz)
            _step_first_order(m, contacts, B, skip, rk, semi, h, x_[:nq], x_[nq:], u_, d, e, w, F)
            scatter_blocks(F, c * LANES, 2 * n, nz, 0, fx)
            scatter_blocks(F, c * LANES, 2 * n, nz, 2 * n, fu)


def linearization_numbers(model: RigidBodyModel, contacts: ContactSet, nu: int, rk4: bool) -> int:
    """Scratch numbers per lane of `drive_linearization`."""
    n, nq = model.nv, model.nq
    blocks = dynamics_numbers(model, contacts) + derivative_numbers(model, contacts, nu)
    stages = runge_kutta_numbers(model, nu) if rk4 else n
    return blocks + nq + n + nu + 2 * n * (2 * n + nu) + stages
