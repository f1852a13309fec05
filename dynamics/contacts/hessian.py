"""Exact Hessians of weighted accelerations and contact forces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import empty_matrices, points, square_matrices
from dynamics.algorithms.frames import last_dof
from dynamics.algorithms.kinematics import COLUMN, DOF, PSI, PSI2, RATE, VIRTUAL, VIRTUAL_BODY
from dynamics.contacts.contact_motion import (
    CONTACT,
    POINT,
    POINT_AXES,
    add_rotating_frame_curvature,
    add_rotating_frame_loads,
    add_rotating_frame_rows,
    block_of,
    column,
    contact_columns,
    contact_points,
    cross_columns,
    on_body,
    put_down,
    start_derivatives,
    sum_of_crosses,
)
from dynamics.contacts.contact_set import Contacts, on_full_model
from dynamics.contacts.derivatives import WIDTH, ContactFirstOrder, contact_loads, invert_contact_kkt, minus_products
from dynamics.contacts.dynamics import ContactWorkspace, contact_dynamics_kernel
from dynamics.derivatives.hessian import ExpansionLanes, inverse_dynamics_hessian_kernel
from dynamics.derivatives.implicit_function import implicit_hessian, subtract_product
from dynamics.model.joint_forces import add_friction_curvature, add_friction_derivative, add_spring_responses
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.simd import align_stack, helper, kernel, load, shared_kernel, splat, store
from dynamics.simd.lane_algebra import add_entry, four_columns, load_columns, store_columns, subtract_scaled
from dynamics.simd.lane_blocks import lanes
from dynamics.spatial.spatial import add3, add_cross, add_scaled3, cross, dot3, load3, load6, load9, rotate, store3

# --------------------------------------------------------------------------------------------
# Terms of contacts in Hessians: those of n'g2, those of the forces in g1, and the congruence with dz/dx.
#
# In the notation of `hessian`, n'g2 adds, for every degree of freedom x, sums over the contacts below it,
#
#     B = sum J x n        C = sum (2 dv_c/dq + kd J) x n        D = sum dg2/dq x n        D_v = sum dg2/dv x n
#
# and for x at or below y on one path, with w the angular parts of a column s, its psi, psi2 and rate,
#
#     Gqq[x, y] += C_x.w(psi_y) + B_x.w(psi2_y) + D_x.w_y            Gvv[x, y] += 2 B_x.w_y
#     G[q_x, v_y] += C_x.w_y + B_x.w(rate_y)                         G[q_y, v_x] += 2 B_x.w(psi_y) + D_v,x.w_y
#     G[q_x, a_y] += B_x.w_y                                         G[q_y, a_x] += B_x.w_y
#
# where inside one joint only the forms with q_y upper apply, as in `derivatives.hessian`, and
# Gvv[x, y] += B_x.w_y + B_y.w_x.  Forces enter by G[q_k, f] = -d(J mu)/dq_k = -(L(zeta_k) + w_k x L(V)).
#
# The angular acceleration of a rigid foot has no B and another C,
#
#     C = sum domega/dq x n        D = sum dg2/dq x n + kp/2 sum_i r_i x (n x (w x R_i))        E = sum w x n
#
# the second part of D because the r_i are constant; E adds to 2 B above, for different joints, and to B in
# G[q_y, a_x].  A moment enters by G[q_k, m] = -(w(zeta_k) + w_k x w(V)).
#
# A multiplier e of a force, or moment, given in the frame's axes rotates with them: D -= (w x e) x f and
# G[q_k, f] -= w_k x e.

# per degree of freedom: the sums B, C, D, D_v, E
SUM_B, SUM_C, SUM_D, SUM_DV, SUM_E, SUMS = 0, 3, 6, 9, 12, 15


class ContactSecondOrder(NamedTuple):
    """Lanes of the Hessian."""

    y: np.ndarray = lanes(WIDTH)  # multiplier
    nu: np.ndarray = lanes(WIDTH)
    virtual: np.ndarray = lanes(nb * VIRTUAL_BODY)
    zeta: np.ndarray = lanes(nv * 6)
    sums: np.ndarray = lanes(nv * SUMS)
    Hqq: np.ndarray = lanes(nv * nv)
    Hqv: np.ndarray = lanes(nv * nv)
    Hvv: np.ndarray = lanes(nv * nv)
    Hqa: np.ndarray = lanes(nv * nv)
    Hqtau: np.ndarray = lanes(nv * nv)
    Gzq: np.ndarray = lanes(WIDTH * nv)  # rows a and f, columns q


# ------------------------------------------------------------------------------------------------ terms of the contacts
@kernel
def solve_adjoint(n, contacts, points, Z, y, nu):
    """nu = Z'y, after the force multipliers in y have been rotated to world axes."""
    align_stack(Z)
    width = n + 3 * contacts.blocks
    for c in range(contacts.body.size):
        if contacts.local[c] != 0:
            o = n + 3 * block_of(contacts, c)
            store3(y, o, rotate(load9(points, c * CONTACT + POINT_AXES), load3(y, o)))
    for j in range(0, width, 4):
        c = four_columns(j, width)
        x = (splat(Z, 0.0), splat(Z, 0.0), splat(Z, 0.0), splat(Z, 0.0))
        for k in range(width):
            x = subtract_scaled(x, -load(y, k), load_columns(Z, Z, k * width, c))
        store_columns(nu, nu, 0, c, x)


@helper
def _add_moment(sums, o, x, n):
    """Add the cross product x x n to the sum at offset o."""
    store3(sums, o, add_cross(load3(sums, o), x, n))


@helper
def _add_sums(contacts, c, points, w, sums, o, J, velocity, of_q, of_v, n):
    """Add the terms of block c to the sums at offset o, w the angular part of the dof's column."""
    _add_moment(sums, o + SUM_D, of_q, n)
    _add_moment(sums, o + SUM_DV, of_v, n)
    if contacts.angular[c] != 0:
        _add_moment(sums, o + SUM_C, velocity, n)
        _add_moment(sums, o + SUM_E, w, n)
        if contacts.gains[c, 0] != 0.0:
            turned = cross_columns(n, cross_columns(w, load9(points, c * CONTACT + POINT_AXES)))
            lag = sum_of_crosses(contacts.turn[c], turned)
            store3(sums, o + SUM_D, add_scaled3(load3(sums, o + SUM_D), splat(sums, contacts.gains[c, 0]), lag))
    else:
        kd = splat(sums, contacts.gains[c, 1])
        _add_moment(sums, o + SUM_B, J, n)
        _add_moment(sums, o + SUM_C, add_scaled3(add3(velocity, velocity), kd, J), n)


@kernel
def contact_terms(m, contacts, f, w, d, h):
    """Store dg2/dq and dg2/dv in d, the sums in h, and G[q, f] in the last rows of h.Gzq."""
    align_stack(w.dof)
    n = m.dof_body.size
    h.sums[:], h.Gzq[:] = 0.0, 0.0
    start_derivatives(contacts, n, d.Gq[n * n :], d.Gv[n * n :])
    for c in range(contacts.body.size):
        b = 3 * block_of(contacts, c)
        p = load3(w.points, c * CONTACT + POINT)
        virtual = column(contacts, c, load6(h.virtual, contacts.body[c] * VIRTUAL_BODY + VIRTUAL), p)
        nu = on_body(contacts, c, w.points, load3(h.nu, n + b))
        e, force = load3(h.y, n + b), load3(f, b)
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            J, velocity, of_q, of_v = contact_columns(contacts, c, k, w.dof, w.points)
            put_down(contacts, c, w.points, d.Gq, n * n + k, n, of_q)
            put_down(contacts, c, w.points, d.Gv, n * n + k, n, of_v)
            o, turn = k * SUMS, load3(w.dof, k * DOF + COLUMN)
            _add_sums(contacts, c, w.points, turn, h.sums, o, J, velocity, of_q, of_v, nu)
            of_f = add_cross(column(contacts, c, load6(h.zeta, k * 6), p), turn, virtual)
            if contacts.local[c] != 0:
                lag = cross(turn, e)
                of_f = add3(of_f, lag)
                store3(h.sums, o + SUM_D, add_cross(load3(h.sums, o + SUM_D), force, lag))
            put_down(contacts, c, w.points, h.Gzq, n * n + k, n, (-of_f[0], -of_f[1], -of_f[2]))
            k = m.dof_parent[k]


@shared_kernel
def add_contact_curvature(m, dof, h):
    """Add the terms of n'g2 to Gqq, Gqv, Gvv, Gqa."""
    align_stack(dof)
    n = m.dof_body.size
    for x in range(n):
        o, first = x * SUMS, m.v_index[m.dof_body[x]]
        B, C, D, Dv, E = (
            load3(h.sums, o + SUM_B), load3(h.sums, o + SUM_C), load3(h.sums, o + SUM_D), load3(h.sums, o + SUM_DV),
            load3(h.sums, o + SUM_E),
        )  # fmt: skip
        twice = add3(add3(B, B), E)
        y = first + m.dof_count[m.dof_body[x]] - 1
        while y >= 0:
            e = y * DOF
            s, psi, psi2 = load3(dof, e + COLUMN), load3(dof, e + PSI), load3(dof, e + PSI2)
            lower, upper = x * n + y, y * n + x
            turned, both = dot3(B, s), dot3(twice, s)
            curvature = dot3(C, psi) + dot3(B, psi2) + dot3(D, s)
            add_entry(h.Hqq, lower, curvature)
            add_entry(h.Hqv, upper, dot3(twice, psi) + dot3(Dv, s))
            add_entry(h.Hqa, upper, both - turned)
            if y < first:
                add_entry(h.Hqq, upper, curvature)
                add_entry(h.Hqv, lower, dot3(C, s) + dot3(B, load3(dof, e + RATE)))
                add_entry(h.Hqa, lower, turned)
                add_entry(h.Hvv, lower, both)
                add_entry(h.Hvv, upper, both)
            else:
                add_entry(h.Hvv, lower, turned + dot3(load3(h.sums, y * SUMS + SUM_B), load3(dof, x * DOF + COLUMN)))
            y = m.dof_parent[y]


# ------------------------------------------------------------------------------------------------ terms of dz
@kernel
def hessian_of_solution(m, contacts, d, h):
    """Replace G by h.Hqq, h.Hqv, h.Hvv of y'z; h.Hqa is overwritten, and its transpose is in h.Gzq."""
    align_stack(h.Hqa)
    n = m.dof_body.size
    for i in range(n):
        for j in range(n):
            store(h.Gzq, j * n + i, load(h.Hqa, i * n + j))
    implicit_hessian(contacts, n, h.Gzq, d.Gq, d.Gv, h, h.Hqa)


# --------------------------------------------------------------------------------------------
# The exact Hessian of y'z, z = (a, f) the accelerations and forces of contact dynamics, without forming a tensor.
#
# With g(z; q, v, tau) = 0 of `derivatives` and nu = Z'y = (mu, n), it is that of `implicit_function`, G being the
# Hessian of nu'g at constant nu.  That of mu'g1 is from `inverse_dynamics_hessian_kernel`, with the contact forces as
# dead loads; the terms of n'g2 and of the forces are above.


class ContactDynamicsHessian(NamedTuple):
    """Second derivatives of w_a'a + w_f'f + w_m'm; each (nv, nv) or (K, nv, nv)."""

    Hqq: np.ndarray
    Hqv: np.ndarray
    Hvv: np.ndarray
    Hqtau: np.ndarray


@shared_kernel
def contact_hessian_at_solution(m, contacts, q, v, w, d, h):
    """Compute first derivatives as `contact_first_order` does, and the Hessian of y'z, for one knot per lane.

    w as `contact_dynamics_kernel` left it, w.Y being zero before.  h.y holds the multipliers of a and of the forces
    and moments in each contact's axes; the latter are rotated to world axes."""
    n = m.dof_body.size
    width = n + 3 * contacts.blocks
    d.Gq[:], d.Gv[:] = 0.0, 0.0
    h.Hqq[:], h.Hqv[:], h.Hvv[:], h.Hqa[:] = 0.0, 0.0, 0.0, 0.0
    invert_contact_kkt(m, contacts, w, d)
    solve_adjoint(n, contacts, w.points, d.Z, h.y, h.nu)
    loads = contact_loads(contacts, w.points, w.f, d.dead)
    Gq, Gv = d.Gq[: n * n], d.Gv[: n * n]
    e = ExpansionLanes(h.virtual, h.zeta, d.torque, Gq, Gv, w.M, h.Hqq, h.Hqv, h.Hvv, h.Hqa)
    inverse_dynamics_hessian_kernel(m, q, v, w.a, h.nu[:n], loads, w.body, w.dof, e)
    add_friction_derivative(m, v, d.Gv)
    add_friction_curvature(m, v, h.nu, h.Hvv)
    contact_points(m, contacts, w.body, w.points)
    contact_terms(m, contacts, w.f, w, d, h)
    add_rotating_frame_rows(m, contacts, w.dof, w.points, d.Gq[n * n :])
    add_rotating_frame_loads(m, contacts, w.dof, w.points, w.f, d.Gq)
    add_rotating_frame_curvature(m, contacts, w.f, w, h)
    add_contact_curvature(m, w.dof, h)
    minus_products(m, contacts, d.Z, d.Gq, d.Gv, d.panel, width)
    add_spring_responses(m, width, width, d.Z, d.Gq, d.Gv)
    hessian_of_solution(m, contacts, d, h)
    h.Hqtau[:] = 0.0
    subtract_product(contacts, n, n, h.Gzq, d.Z, width, h.Hqtau)


@kernel
def _solve_and_differentiate(m, contacts, q, v, tau, w, d, h):
    w.Y[:] = 0.0
    contact_dynamics_kernel(m, contacts, q, v, tau, w)
    contact_hessian_at_solution(m, contacts, q, v, w, d, h)


_drive = knot_driver(
    _solve_and_differentiate,
    inputs="q v tau y=h.y",
    scratch={"w": ContactWorkspace, "d": ContactFirstOrder, "h": ContactSecondOrder},
    outputs={"Hqq": "h.Hqq", "Hqv": "h.Hqv", "Hvv": "h.Hvv", "Hqtau": "h.Hqtau"},
)


# ------------------------------------------------------------------------------------------------ public
def contact_dynamics_hessian(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    contacts: Contacts,
    w_a: ArrayLike,
    w_f: ArrayLike,
    damping: float = 0.0,
    w_m: ArrayLike | None = None,
) -> ContactDynamicsHessian:
    """Hessian of w_a'a + w_f'f + w_m'm, with the accelerations, forces and moments of contact dynamics.

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq);  v, tau : (nv,) or (K, nv)
    contacts : sequence of C `PointContact` and `RigidContact`, or a `ContactSet`
    w_a : (nv,) or (K, nv), multiplier of the accelerations
    w_f : (C, 3) or (K, C, 3), multiplier of the forces, in the axes of each contact
    damping : as in `contact_dynamics`
    w_m : (C, 3) or (K, C, 3), multiplier of the moments' components; None (zero) where there is none

    Returns
    -------
    ContactDynamicsHessian(Hqq, Hqv, Hvv, Hqtau), each (nv, nv) or (K, nv, nv).  Hqq[j, k] = d/dq_k (d/dq_j), not
    symmetric inside a joint of several degrees of freedom; in Hqv and Hqtau the row is q.

    Raises
    ------
    ValueError, TypeError : as `contact_dynamics`.
    """
    contacts, enter = on_full_model(model, contacts, damping), model.mimic_map
    single, (q, v, tau, w_a) = points(model, q, v=v, tau=tau, w_a=w_a)
    y = np.hstack([enter.full_torques(w_a), contacts.multiplier_rows(w_f, w_m, len(q))])
    H = empty_matrices(4, len(q), model.full.nv)
    point = enter.full_q(q), enter.full_v(v), enter.full_torques(tau)
    _drive(model.full, contacts.damped(damping), *point, y, *H)
    left = zip(("pp", "pp", "pp", "pk"), square_matrices(single, H), strict=True)
    return ContactDynamicsHessian(*(enter.leave(axes, x) for axes, x in left))
