"""The exact Hessian of y'z, z = (v+, f) the velocities after impulses at contacts and the impulses.

As `hessian` at rest and without gravity, but the two parts of g see different accelerations: ID that of v+ - v, a_c
that of v+ + e v, e the restitution.  With A the part of Gqa from ID and B that from a_c,

    Hqq = -(Gqq + T_q + T_q')      Hqv = -(Gqv + T_v)      Gqv = -A + e B      Hvv = 0      T_x = [A + B, Gqf] dz/dx
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import empty_matrices, points, square_matrices
from dynamics.algorithms.kinematics import DERIVATIVES, forward_pass
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
from dynamics.contacts.dynamics import Workspace
from dynamics.contacts.impulses import (
    as_restitution,
    contact_impulse_kernel,
    place_virtual_accelerations,
    velocity_derivatives,
)
from dynamics.contacts.turning import add_turning_curvature, add_turning_loads, add_turning_rows
from dynamics.derivatives.hessian import ExpansionLanes, inverse_dynamics_hessian_kernel
from dynamics.knot_driver import knot_driver, nv
from dynamics.lane_algebra import add_scaled
from dynamics.mimic import of_tree
from dynamics.model import RigidBodyModel
from dynamics.simd import shared_kernel


class ContactImpulseHessian(NamedTuple):
    """Second derivatives of w_v'v+ + w_f'f + w_m'm; each (nv, nv) or (K, nv, nv).  Those in v twice are zero."""

    Hqq: np.ndarray
    Hqv: np.ndarray


@shared_kernel
def contact_impulse_hessian_kernel(m, contacts, q, v, restitution, w, d, h, jump, mean):
    """First derivatives as `contact_impulse_first_order` leaves them, and Hqq, Hqv, Hvv of y'z in h.

    h.y holds the multipliers of v+ and of the impulses given; the latter are turned to world axes."""
    n = m.dof_body.size
    w.Y[:], d.Gq[:], d.Gv[:] = 0.0, 0.0, 0.0
    h.Hqq[:], h.Hqv[:], h.Hvv[:], h.Hqa[:] = 0.0, 0.0, 0.0, 0.0
    contact_impulse_kernel(m, contacts, q, v, restitution, w)
    invert_contact_kkt(m, contacts, w, d)
    solve_adjoint(n, contacts, w.points, d.Z, h.y, h.nu)
    place_virtual_accelerations(m, v, restitution, w, jump, mean)
    loads = contact_loads(contacts, w.points, w.f, d.dead)
    Gq, Gv = d.Gq[: n * n], d.Gv[: n * n]
    e = ExpansionLanes(h.virtual, h.zeta, d.torque, Gq, Gv, w.M, h.Hqq, h.Hqv, h.Hvv, h.Hqa)
    inverse_dynamics_hessian_kernel(m, q, w.zeros, jump, h.nu[:n], loads, w.body, w.dof, e)
    h.Hqv[:] = 0.0
    add_scaled(n * n, h.Hqv, -1.0 - restitution, h.Hqa)
    forward_pass(m, q, w.zeros, mean, w.body, w.dof, DERIVATIVES)
    contact_points(m, contacts, w.body, w.points)
    contact_terms(m, contacts, w.f, w, d, h)
    add_turning_rows(m, contacts, w.dof, w.points, d.Gq[n * n :])
    add_turning_loads(m, contacts, w.dof, w.points, w.f, d.Gq)
    add_turning_curvature(m, contacts, w.f, w, h)
    add_contact_curvature(m, w.dof, h)
    add_scaled(n * n, h.Hqv, restitution, h.Hqa)
    velocity_derivatives(m, contacts, restitution, w.M, w.dof, w.points, d.Gv)
    minus_products(m, contacts, d.Z, d.Gq, d.Gv, d.panel, n + 3 * contacts.blocks)
    hessian_of_solution(m, contacts, d, h)
    h.Hvv[:] = 0.0


_drive = knot_driver(
    contact_impulse_hessian_kernel,
    inputs="q v y=h.y",
    scratch={"w": Workspace, "d": FirstOrder, "h": SecondOrder, "jump": nv, "mean": nv},
    outputs={"Hqq": "h.Hqq", "Hqv": "h.Hqv"},
)


@of_tree("v", "ff ff", covectors="w_v", rows="w_f w_m", contacts=of_full_robot)
def contact_impulse_hessian(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    contacts: Contacts,
    w_v: ArrayLike,
    w_f: ArrayLike,
    restitution: float = 0.0,
    damping: float = 0.0,
    w_m: ArrayLike | None = None,
) -> ContactImpulseHessian:
    """Hessian of w_v'v+ + w_f'f + w_m'm, of the velocities after, impulses and their moments of `contact_impulse`.

    Parameters
    ----------
    model, q, v, contacts, restitution, damping : as `contact_impulse`
    w_v : (nv,) or (K, nv), multiplier of the velocities after
    w_f : (C, 3) or (K, C, 3), multiplier of the impulses' components that each contact asks for
    w_m : (C, 3) or (K, C, 3), multiplier of the components of their moments; None (zero) where there is none

    Returns
    -------
    ContactImpulseHessian(Hqq, Hqv), each (nv, nv) or (K, nv, nv).  Hqq[j, k] = d/dq_k (d/dq_j), not symmetric inside a
    joint of several degrees of freedom; in Hqv the row is q.  The velocities after are linear in those before: Hvv = 0.

    Raises
    ------
    ValueError, TypeError : as `contact_impulse`.
    """
    contacts = as_contact_set(model, contacts)
    single, (q, v, w_v) = points(model, q, v=v, w_v=w_v)
    K, n = len(q), model.nv
    y = np.hstack([w_v, contacts.multiplier_rows(w_f, w_m, K)])
    H = empty_matrices(2, K, n)
    plant = contacts.impulsive(damping)
    _drive(*plant, q, v, as_restitution(restitution), y, *H)
    return ContactImpulseHessian(*square_matrices(single, H))
