"""The acceleration a(q, v, u) of a controlled robot and its derivatives, one knot per lane.

The Hessian of y'a is that of `implicit_function`; columns of tau times the actuation are those of the controls u.  For
robots in contact see `dynamics.contacts.derivatives` and `dynamics.contacts.hessian`.
"""

from dynamics.algorithms.inverse_mass import AUTOMATIC
from dynamics.contacts.contact_set import ContactArrays, LoopArrays
from dynamics.contacts.derivatives import contact_first_order
from dynamics.contacts.hessian import contact_hessian_at_solution
from dynamics.derivatives.forward_dynamics import forward_dynamics_first_order, forward_dynamics_hessian_at_solution
from dynamics.derivatives.implicit_function import subtract_product
from dynamics.model.actuation import joint_torques, times_actuation
from dynamics.simd import kernel, shared_kernel
from dynamics.simd.by_type import by_type
from dynamics.simd.lane_algebra import add_transpose
from dynamics.systems.frame_forces import add_force_curvature, add_force_derivatives, add_frame_forces
from dynamics.systems.steps import acceleration


# ------------------------------------------------------------------------------------------------ free, held
@kernel
def _free_first_order(m, contacts, B, skip, q, v, d, e):
    forward_dynamics_first_order(m, q, v, d.tau, AUTOMATIC, None, d.space, e.first)
    times_actuation(B, skip, e.first.Minv, m.dof_body.size, e.au)


@kernel
def _held_first_order(m, contacts, B, skip, q, v, d, e):
    contact_first_order(m, contacts, q, v, d.tau, d.space, e.first, False)
    times_actuation(B, skip, e.first.Z, m.dof_body.size + 3 * contacts.blocks, e.au)


@kernel
def _free_hessian(m, contacts, B, skip, q, v, d, e, s):
    n, nu = B.shape
    forward_dynamics_hessian_at_solution(m, q, v, s.y, None, d.space, e.first, s.second)
    times_actuation(B, skip, e.first.Minv, n, e.au)
    s.Hqu[:] = 0.0
    subtract_product(None, n, nu, s.second.Hqa, e.au, nu, s.Hqu)


@kernel
def _held_hessian(m, contacts, B, skip, q, v, d, e, s):
    n = m.dof_body.size
    s.second.y[n:] = 0.0
    contact_hessian_at_solution(m, contacts, q, v, d.space, e.first, s.second)
    times_actuation(B, skip, e.first.Z, n + 3 * contacts.blocks, e.au)
    times_actuation(B, skip, s.second.Hqtau, n, s.Hqu)


_first_order = by_type(
    "contacts", {None: _free_first_order, ContactArrays: _held_first_order, LoopArrays: _held_first_order}
)
_hessian = by_type("contacts", {None: _free_hessian, ContactArrays: _held_hessian, LoopArrays: _held_hessian})


# ------------------------------------------------------------------------------------------------ either
@shared_kernel
def acceleration_derivatives(m, p, q, v, u, d, e):
    """d.a = a(q, v, u) and its derivatives, into e.aq, e.av, e.au; d, e are scratch (`slice_dynamics`,
    `slice_derivatives`)."""
    joint_torques(m, p.B, p.skip, q, v, u, d.tau)
    add_frame_forces(m, p.actuators, q, u, d)
    _first_order(m, p.contacts, p.B, p.skip, q, v, d, e)
    add_force_derivatives(m, p.actuators, p.contacts, u.shape[0], q, u, d, e)


@shared_kernel
def hessian_at_acceleration(m, p, q, v, u, d, e, s):
    """Hessian of s.y'a(q, v, u): s.Hqq (symmetric part of the Lie Hessian), s.Hqv, s.Hvv, s.Hqu; also the first order
    into e.aq, e.av, e.au.  d as `acceleration` left it, with d.a; d, e, s are scratch (`slice_dynamics`,
    `slice_derivatives`, `slice_curvature`)."""
    _hessian(m, p.contacts, p.B, p.skip, q, v, d, e, s)
    add_force_curvature(m, p.actuators, p.contacts, u.shape[0], q, u, d, e, s)
    add_transpose(m.dof_body.size, 0.5, s.Hqq)


@kernel
def acceleration_hessian(m, p, q, v, u, d, e, s):
    """d.a = a(q, v, u), and what `hessian_at_acceleration` gives there."""
    acceleration(m, p, q, v, u, d, d.a)
    hessian_at_acceleration(m, p, q, v, u, d, e, s)
