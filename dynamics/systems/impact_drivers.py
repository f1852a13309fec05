"""Steps, closed loops and expansions of impacts, q+ = q and v+ that of `contact_impulse`, knots or candidates in lanes.

With z = (dq, dv) the step's differential is [[1, 0], [dv+/dq, dv+/dv]], and the Hessian of lam'(dq+, dv+) that of
lam_v'v+, whose block qq is symmetrised for exponential coordinates.  Controls have no effect.
"""

from dynamics.contacts.contact_set import ContactSet
from dynamics.contacts.curvature import carve_second_order, second_order_numbers
from dynamics.contacts.derivatives import carve_first_order, first_order_numbers
from dynamics.contacts.dynamics import carve_workspace, workspace_numbers
from dynamics.contacts.impulse_hessian import contact_impulse_hessian_kernel
from dynamics.contacts.impulses import contact_impulse_first_order, contact_impulse_kernel
from dynamics.implicit_function import store_state_blocks
from dynamics.kernel_model import kernel_model
from dynamics.lane_algebra import add_transpose, scale_into
from dynamics.model import RigidBodyModel
from dynamics.simd import (
    LANES,
    align_stack,
    carve,
    driver,
    gather,
    kernel,
    load,
    scatter,
    scatter_blocks,
    span,
    splat,
    store,
)
from dynamics.simd.references import by_reference
from dynamics.systems.rollouts import close_gap, feedback, start_lanes


@kernel
def impact_step(m, contacts, restitution, x, w, x_next):
    """x_next = (q, v+) from x = (q, v)."""
    align_stack(x)
    n = m.dof_body.size
    nq = x.shape[0] - n
    w.Y[:] = 0.0
    contact_impulse_kernel(m, contacts, x[:nq], x[nq:], restitution, w)
    scale_into(nq, x_next, 1.0, x)
    scale_into(n, x_next[nq:], 1.0, w.a)


@driver
def drive_impacts(first, last, work, block, contacts, restitution, x, x_next):
    """x_next[t] = f(x[t]), knots in lanes."""
    m = kernel_model(block)
    contacts = by_reference(contacts)
    nx = x.shape[1]
    w, rest = carve_workspace(m, contacts, work)
    x_, rest = carve(rest, nx)
    y_, rest = carve(rest, nx)
    for c in range(first, last):
        gather(x, c * LANES, x_)
        impact_step(m, contacts, restitution, x_, w, y_)
        scatter(y_, c * LANES, x_next)


@driver
def drive_impact_loops(first, last, work, block, contacts, restitution, manifold, loops, start, stop, X, U):
    """The impacts of closed loops, as `drive_closed_loops`; the controls follow the same law."""
    m, contacts, loops = kernel_model(block), by_reference(contacts), by_reference(loops)
    w, rest = carve_workspace(m, contacts, work)
    for c in range(first, last):
        alpha = load(loops.alphas, c)
        if start == 0:
            start_lanes(m, manifold, loops, alpha, rest, span(X[c, 0]))
        for t in range(start, stop):
            x, u, x_next = span(X[c, t]), span(U[c, t]), span(X[c, t + 1])
            feedback(m, manifold, loops, t, c, rest, x, u)
            impact_step(m, contacts, restitution, x, w, x_next)
            close_gap(m, manifold, loops.gaps, t + 1, alpha, x_next, rest)


@driver
def drive_impact_linearization(first, last, work, block, contacts, restitution, x, fx):
    """fx[t] at x[t], knots in lanes."""
    m = kernel_model(block)
    contacts = by_reference(contacts)
    n, nx = m.dof_body.size, x.shape[1]
    nq = nx - n
    w, rest = carve_workspace(m, contacts, work)
    d, rest = carve_first_order(m, contacts, rest)
    x_, rest = carve(rest, nx)
    jump, rest = carve(rest, n)
    mean, rest = carve(rest, n)
    F, rest = carve(rest, 4 * n * n)
    for c in range(first, last):
        gather(x[: fx.shape[0]], c * LANES, x_)
        contact_impulse_first_order(m, contacts, x_[:nq], x_[nq:], restitution, w, d, jump, mean)
        F[:] = 0.0
        for i in range(n):
            store(F, i * 2 * n + i, splat(F, 1.0))
            scale_into(n, F[(n + i) * 2 * n :], 1.0, d.Gq[i * n :])
            scale_into(n, F[(n + i) * 2 * n + n :], 1.0, d.Gv[i * n :])
        scatter_blocks(F, c * LANES, 2 * n, 2 * n, 0, fx)


@driver
def drive_impact_curvature(first, last, work, block, contacts, restitution, x, lam, Hxx):
    """Hxx[t]: Hessian of lam[t]'f at x[t], knots in lanes."""
    m = kernel_model(block)
    contacts = by_reference(contacts)
    n, nx = m.dof_body.size, x.shape[1]
    nq = nx - n
    w, rest = carve_workspace(m, contacts, work)
    d, rest = carve_first_order(m, contacts, rest)
    h, rest = carve_second_order(m, contacts, rest)
    x_, rest = carve(rest, nx)
    jump, rest = carve(rest, n)
    mean, rest = carve(rest, n)
    lam_, rest = carve(rest, 2 * n)
    H, rest = carve(rest, 4 * n * n)
    for c in range(first, last):
        gather(x[: Hxx.shape[0]], c * LANES, x_)
        gather(lam, c * LANES, lam_)
        h.y[:] = 0.0
        scale_into(n, h.y, 1.0, lam_[n:])
        contact_impulse_hessian_kernel(m, contacts, x_[:nq], x_[nq:], restitution, w, d, h, jump, mean)
        add_transpose(n, 0.5, h.Hqq)
        store_state_blocks(None, n, 2 * n, h, H)
        scatter_blocks(H, c * LANES, 2 * n, 2 * n, 0, Hxx)


def impact_numbers(model: RigidBodyModel, contacts: ContactSet) -> int:
    """Scratch numbers per lane of `drive_impacts` and `drive_impact_loops`."""
    states = 2 * model.nq + 2 * model.nv  # two of them, or feedback: nq + 3 nv
    return workspace_numbers(model.arrays, contacts.arrays) + states


def impact_expansion_numbers(model: RigidBodyModel, contacts: ContactSet) -> int:
    """Scratch numbers per lane of `drive_impact_linearization` and `drive_impact_curvature`."""
    n = model.nv
    blocks = workspace_numbers(model.arrays, contacts.arrays) + first_order_numbers(model.arrays, contacts.arrays)
    return blocks + second_order_numbers(model.arrays, contacts.arrays) + model.nq + 5 * n + 4 * n * n
