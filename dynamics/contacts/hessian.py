"""The exact Hessian of y'z, z = (a, f) the accelerations and forces of contact dynamics, without forming a tensor.

With g(z; q, v, tau) = 0 of `derivatives` and nu = Z'y = (mu, n), it is that of `implicit_function`, G being the Hessian
of nu'g at constant nu.  mu'g1 is what `inverse_dynamics_hessian_kernel` takes, with the contact forces as dead loads;
what n'g2 and the forces add is in `curvature`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import empty_matrices, points, square_matrices
from dynamics.contacts.contact_motion import contact_points
from dynamics.contacts.contact_set import Contacts, as_contact_set, of_full_robot
from dynamics.contacts.curvature import (
    SecondOrder,
    add_contact_curvature,
    contact_terms,
    hessian_of_solution,
    solve_adjoint,
)
from dynamics.contacts.derivatives import FirstOrder, contact_loads, invert_contact_kkt, minus_products
from dynamics.contacts.dynamics import Workspace, contact_dynamics_kernel
from dynamics.contacts.turning import add_turning_curvature, add_turning_loads, add_turning_rows
from dynamics.derivatives.hessian import ExpansionLanes, inverse_dynamics_hessian_kernel
from dynamics.implicit_function import subtract_product
from dynamics.joint_friction import add_friction_curvature, add_friction_derivative
from dynamics.joint_springs import add_spring_responses
from dynamics.knot_driver import knot_driver
from dynamics.mimic import of_tree
from dynamics.model import RigidBodyModel
from dynamics.simd import kernel, shared_kernel


class ContactDynamicsHessian(NamedTuple):
    """Second derivatives of w_a'a + w_f'f + w_m'm; each (nv, nv) or (K, nv, nv)."""

    Hqq: np.ndarray
    Hqv: np.ndarray
    Hvv: np.ndarray
    Hqtau: np.ndarray


@shared_kernel
def contact_hessian_at_solution(m, contacts, q, v, w, d, h):
    """First derivatives as `contact_first_order` leaves them, and the Hessian of y'z, for one knot per lane.

    w as `contact_dynamics_kernel` left it, w.Y being zero before.  h.y holds the multipliers of a and of the forces
    and moments given; the latter are turned to world axes."""
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
    add_turning_rows(m, contacts, w.dof, w.points, d.Gq[n * n :])
    add_turning_loads(m, contacts, w.dof, w.points, w.f, d.Gq)
    add_turning_curvature(m, contacts, w.f, w, h)
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
    scratch={"w": Workspace, "d": FirstOrder, "h": SecondOrder},
    outputs={"Hqq": "h.Hqq", "Hqv": "h.Hqv", "Hvv": "h.Hvv", "Hqtau": "h.Hqtau"},
)


# ------------------------------------------------------------------------------------------------ public
@of_tree("v", "ff ff ff fk", covectors="tau w_a", rows="w_f w_m", contacts=of_full_robot)
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
    w_f : (C, 3) or (K, C, 3), multiplier of the forces' components that each contact asks for
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
    contacts = as_contact_set(model, contacts)
    single, (q, v, tau, w_a) = points(model, q, v=v, tau=tau, w_a=w_a)
    K, n = len(q), model.nv
    y = np.hstack([w_a, contacts.multiplier_rows(w_f, w_m, K)])
    H = empty_matrices(4, K, n)
    _drive(model, contacts.damped(damping), q, v, tau, y, *H)
    return ContactDynamicsHessian(*square_matrices(single, H))
