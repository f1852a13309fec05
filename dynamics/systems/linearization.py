"""First-order expansions of one step in the tangent, one knot per lane.

With z = (dq, dv, du), the step's differential is F z, F (2 nv, 2 nv + nu):

    velocity rows            V = [h a_q, I + h a_v, h a_u]               (Euler)
    configuration rows       A(xi) P_q + Jr(xi) d(xi)                     q+ = q (+) xi

where A = Ad_exp(-xi) and Jr act joint by joint and are the identity on ordinary joints.  There, with an Euler step,
fx and fu are written apart from the start: rows of whole blocks leave the lanes faster than parts of rows.
"""

from dynamics.contacts.contact_set import ContactSet
from dynamics.model.kernel_model import kernel_model
from dynamics.model.model import RigidBodyModel
from dynamics.simd import (
    LANES,
    align_stack,
    carve,
    driver,
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
from dynamics.simd.lane_algebra import add_scaled, scale_into
from dynamics.simd.references import by_reference
from dynamics.spatial.tangent import ADJOINT, JACOBIAN, add_map, add_mapped_rows, tangent_maps
from dynamics.systems.controlled_acceleration import acceleration_derivatives
from dynamics.systems.frame_forces import FrameActuators
from dynamics.systems.runge_kutta import runge_kutta_first_order, runge_kutta_numbers
from dynamics.systems.steps import Euler, LieEuler, RungeKutta, TimedEuler, TimedRungeKutta, duration, durations_behind
from dynamics.systems.workspace import carve_derivatives, carve_dynamics, derivative_numbers, dynamics_numbers


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
def _lie_euler_first_order(m, p, q, v, u, d, e, xi, F):
    """F of either Euler step of joints of any kind; xi (nv) becomes the increment."""
    n, nu = p.B.shape
    h, semi = duration(p.integrator, nu, u), p.integrator.semi
    acceleration_derivatives(m, p, q, v, u, d, e)
    scale_into(n, xi, h, v)
    if semi:
        add_scaled(n, xi, h * h, d.a)
    tangent_maps(m, xi, e.maps)
    store_euler_rows(m, nu, semi, h, e, F)


# ------------------------------------------------------------------------------------------------ by integrator
@helper
def scatter_step(n, nu, t, F, fx, fu):
    """F (2 nv nz) to the knots from t on."""
    nz = 2 * n + nu
    scatter_blocks(F, t, 2 * n, nz, 0, fx)
    scatter_blocks(F, t, 2 * n, nz, 2 * n, fu)


@kernel
def _linearize_euler(m, p, integrator, q, v, u, d, e, w, t, fx, fu):
    n, nu = p.B.shape
    fx_, w = carve(w, 4 * n * n)
    fu_, w = carve(w, 2 * n * nu)
    acceleration_derivatives(m, p, q, v, u, d, e)
    store_euler_blocks(n, nu, integrator.semi, integrator.h, e, fx_, fu_)
    scatter(fx_, t, fx)
    scatter(fu_, t, fu)


@kernel
def _linearize_lie_euler(m, p, integrator, q, v, u, d, e, w, t, fx, fu):
    n, nu = p.B.shape
    F, w = carve(w, 2 * n * (2 * n + nu))
    _lie_euler_first_order(m, p, q, v, u, d, e, w[:n], F)
    scatter_step(n, nu, t, F, fx, fu)


@kernel
def increment_rate(n, semi, h, v, a, rate):
    """The derivative of an Euler step's increment by its duration: v, or v + 2 h a."""
    scale_into(n, rate, 1.0, v)
    if semi:
        add_scaled(n, rate, 2.0 * h, a)


@kernel
def store_with_duration(m, nz, F, rate, a, maps, W):
    """W (2 nv, nz + 1): F (2 nv, nz), and last the column of an Euler step's duration, (Jr rate, a)."""
    n = m.dof_body.size
    for i in range(2 * n):
        for j in range(nz):
            store(W, i * (nz + 1) + j, load(F, i * nz + j))
        store(W, i * (nz + 1) + nz, splat(W, 0.0) if i < n else load(a, i - n))
    add_mapped_rows(m, maps, JACOBIAN, 1.0, rate, 0, 1, W, nz, nz + 1, 1)


@kernel
def _linearize_timed_euler(m, p, integrator, q, v, u, d, e, w, t, fx, fu):
    n, nu = p.B.shape
    nz = 2 * n + nu
    F, w = carve(w, 2 * n * nz)
    W, w = carve(w, 2 * n * (nz + 1))
    _lie_euler_first_order(m, p, q, v, u, d, e, w[:n], F)
    increment_rate(n, integrator.semi, duration(integrator, nu, u), v, d.a, w[:n])
    store_with_duration(m, nz, F, w[:n], d.a, e.maps, W)
    scatter_step(n, nu + 1, t, W, fx, fu)


@kernel
def _linearize_runge_kutta(m, p, integrator, q, v, u, d, e, w, t, fx, fu):
    n, nu = p.B.shape[0], p.B.shape[1] + durations_behind(integrator)
    F, w = carve(w, 2 * n * (2 * n + nu))
    runge_kutta_first_order(m, p, q, v, u, d, e, w, F)
    scatter_step(n, nu, t, F, fx, fu)


_linearize = by_type(
    "integrator",
    {
        Euler: _linearize_euler, LieEuler: _linearize_lie_euler, RungeKutta: _linearize_runge_kutta,
        TimedEuler: _linearize_timed_euler, TimedRungeKutta: _linearize_runge_kutta,
    },
)  # fmt: skip


@driver
def drive_linearization(first, last, work, block, p, x, u, fx, fu):
    """fx[t], fu[t] of the `Plant` p at (x[t], u[t]), knots in lanes."""
    m = kernel_model(block)
    p = by_reference(p)
    nu, nx = u.shape[1], x.shape[1]
    nq = nx - m.dof_body.size
    for c in range(first, last):
        d, w = carve_dynamics(m, p.contacts, work)
        e, w = carve_derivatives(m, p, nu, w)
        x_, w = carve(w, nx)
        u_, w = carve(w, nu)
        gather(x[: u.shape[0]], c * LANES, x_)
        gather(u, c * LANES, u_)
        _linearize(m, p, p.integrator, x_[:nq], x_[nq:], u_, d, e, w, c * LANES, fx, fu)


def linearization_numbers(
    model: RigidBodyModel,
    contacts: ContactSet,
    nu: int,
    rk4: bool,
    actuators: FrameActuators | None = None,
    timed: bool = False,
) -> int:
    """Scratch numbers per lane of `drive_linearization`; nu with the duration where that is free."""
    n, nq = model.nv, model.nq
    blocks = dynamics_numbers(model, contacts) + derivative_numbers(model, contacts, nu, actuators)
    stages = runge_kutta_numbers(model, nu) if rk4 else n
    rows = 2 * n * (2 * n + nu) + (2 * n * (2 * n + nu - 1) if timed and not rk4 else 0)
    return blocks + nq + n + nu + rows + stages
