"""The acceleration a(q, v, u) of a controlled robot and its derivatives, one knot per lane.

With w = M^-1 y and H the Hessian of w'ID at (q, v, a), joint friction included, the Hessian of y'a is

    qq   -[H_qq + H_qa a_q + (H_qa a_q)']        qv   -[H_qv + H_qa a_v]        vv   -H_vv        qu   -H_qa a_u

For robots in contact see `dynamics.contacts.derivatives` and `dynamics.contacts.hessian`.
"""

from dynamics.actuation import joint_torques, times_actuation
from dynamics.algorithms.articulated_body import solve_articulated
from dynamics.algorithms.inverse_mass import AUTOMATIC, minus_inverse_products
from dynamics.contacts.derivatives import contact_first_order
from dynamics.contacts.hessian import contact_hessian_at_solution
from dynamics.derivatives.forward_dynamics import forward_dynamics_first_order
from dynamics.derivatives.hessian import inverse_dynamics_hessian_kernel
from dynamics.joint_friction import add_friction_curvature, add_friction_slope
from dynamics.lane_algebra import add_product, scale_into
from dynamics.simd import align_stack, kernel, load, shared_kernel, store
from dynamics.systems.steps import acceleration


@shared_kernel
def acceleration_derivatives(m, contacts, B, skip, q, v, u, d, e, a):
    """a(q, v, u), which may be d.a, and its derivatives, into e.aq, e.av, e.au; d, e are scratch (`carve_dynamics`,
    `carve_derivatives`)."""
    n = m.dof_body.size
    joint_torques(m, B, skip, u, v, d.tau)
    if len(contacts) == 0:
        forward_dynamics_first_order(
            m, q, v, d.tau, AUTOMATIC, d.zeros, None, d.body, d.dof, d.art, d.elim, e.torque, a, e.aq, e.av, e.M, e.Minv
        )
        times_actuation(B, skip, e.Minv, n, e.au)
    else:
        contact_first_order(m, contacts, q, v, d.tau, d.space, e.first, False)
        scale_into(n, a, 1.0, d.a)
        times_actuation(B, skip, e.first.Z, n + 3 * contacts.body.size, e.au)


@kernel
def _substitute_acceleration(n, nu, e, s):
    """The formulas of the module, in place of H; of qq the symmetric part of the Lie Hessian."""
    align_stack(s.Hqq)
    add_product(False, n, n, n, 0.5, 1.0, s.Hqa, n, 1, e.aq, s.Hqq)
    add_product(False, n, n, n, -1.0, -1.0, s.Hqa, n, 1, e.av, s.Hqv)
    s.Hqu[:] = 0.0
    add_product(False, n, n, nu, 1.0, -1.0, s.Hqa, n, 1, e.au, s.Hqu)
    for i in range(n):
        for j in range(i + 1):
            x = -(load(s.Hqq, i * n + j) + load(s.Hqq, j * n + i))
            store(s.Hqq, i * n + j, x)
            store(s.Hqq, j * n + i, x)
        for j in range(n):
            store(s.Hvv, i * n + j, -load(s.Hvv, i * n + j))


@kernel
def _contact_hessian(m, contacts, B, skip, q, v, d, e, s):
    """`hessian_at_acceleration` of a robot in contact."""
    align_stack(s.Hqq)
    n = m.dof_body.size
    s.second.y[n:] = 0.0
    contact_hessian_at_solution(m, contacts, q, v, d.space, e.first, s.second)
    times_actuation(B, skip, e.first.Z, n + 3 * contacts.body.size, e.au)
    times_actuation(B, skip, s.second.Hqtau, n, s.Hqu)
    for i in range(n):
        for j in range(i):
            x = 0.5 * (load(s.Hqq, i * n + j) + load(s.Hqq, j * n + i))
            store(s.Hqq, i * n + j, x)
            store(s.Hqq, j * n + i, x)


@kernel
def _free_hessian(m, B, skip, q, v, d, e, s):
    """`hessian_at_acceleration` of a robot that touches nothing."""
    n, nu = B.shape
    solve_articulated(m, s.w, s.y, None, d.dof, d.elim, d.art)
    e.aq[:], e.av[:] = 0.0, 0.0
    s.Hqq[:], s.Hqv[:], s.Hvv[:], s.Hqa[:] = 0.0, 0.0, 0.0, 0.0
    inverse_dynamics_hessian_kernel(
        m, q, v, d.a, s.w, None, d.body, d.dof, s.virtual, s.zeta, e.torque, e.aq, e.av, e.M, s.Hqq, s.Hqv, s.Hvv,
        s.Hqa,
    )  # fmt: skip
    add_friction_slope(m, v, e.av)
    add_friction_curvature(m, v, s.w, s.Hvv)
    minus_inverse_products(m, AUTOMATIC, d.dof, d.elim, d.art, e.M, e.aq, e.av, e.Minv)
    times_actuation(B, skip, e.Minv, n, e.au)
    _substitute_acceleration(n, nu, e, s)


@shared_kernel
def hessian_at_acceleration(m, contacts, B, skip, q, v, d, e, s):
    """Hessian of s.y'a(q, v, u): s.Hqq (symmetric part of the Lie Hessian), s.Hqv, s.Hvv, s.Hqu; also the first order
    into e.aq, e.av, e.au.  d as `acceleration` left it, with d.a; d, e, s are scratch (`carve_dynamics`,
    `carve_derivatives`, `carve_curvature`)."""
    if len(contacts) == 0:
        _free_hessian(m, B, skip, q, v, d, e, s)
    else:
        _contact_hessian(m, contacts, B, skip, q, v, d, e, s)


@kernel
def acceleration_hessian(m, contacts, B, skip, q, v, u, d, e, s):
    """d.a = a(q, v, u), and what `hessian_at_acceleration` gives there."""
    acceleration(m, contacts, B, skip, q, v, u, d, d.a)
    hessian_at_acceleration(m, contacts, B, skip, q, v, d, e, s)
