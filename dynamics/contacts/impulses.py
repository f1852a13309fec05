"""Impulses of touch-downs, with first derivatives and exact Hessians."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import empty_matrices, points, square_matrices, unbatch
from dynamics.algorithms.branch_factor import sweep_down
from dynamics.algorithms.frames import last_dof
from dynamics.algorithms.kinematics import COLUMN, DERIVATIVES, DOF, FORCES, forward_pass
from dynamics.contacts.contact_motion import (
    CONTACT,
    POINT,
    POINT_VELOCITY,
    add_coupled_velocities,
    add_rotating_frame_curvature,
    add_rotating_frame_loads,
    add_rotating_frame_rows,
    column,
    constraint_derivatives,
    contact_points,
    coupled_velocity_derivatives,
    force_components,
    force_derivative_components,
    put_across,
    put_down,
)
from dynamics.contacts.contact_set import Contacts, on_full_model
from dynamics.contacts.derivatives import ContactFirstOrder, contact_loads, invert_contact_kkt, minus_products
from dynamics.contacts.dynamics import ONE, ContactWorkspace, add_half_solved_forces, factorize_contacts, solve_delassus
from dynamics.contacts.hessian import (
    ContactSecondOrder,
    add_contact_curvature,
    contact_terms,
    hessian_of_solution,
    solve_adjoint,
)
from dynamics.derivatives.hessian import ExpansionLanes, inverse_dynamics_hessian_kernel
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_first_order
from dynamics.model.knot_driver import knot_driver, nv
from dynamics.model.model import RigidBodyModel
from dynamics.simd import align_stack, fma, kernel, load, shared_kernel, splat, store
from dynamics.simd.lane_algebra import add_scaled
from dynamics.spatial.spatial import load3, load6, scale3
from dynamics.validation import as_number

# --------------------------------------------------------------------------------------------
# Impulses that stop or reflect the velocities of contacts instantaneously.
#
#     M (v+ - v) = J'f          J (v+ + restitution v) + damping f = 0
#
# z = (v+, f) is the contact dynamics of a robot at rest without gravity: with M w = ID(q, 0, w) and J w = a_c(q, 0, w),
#
#     g1 = ID(q, 0, v+ - v) - J'f          g2 = a_c(q, 0, v+ + restitution v) + damping f
#
#     dz/dq = -Z [dg1/dq; dg2/dq]          dz/dv = -Z [-M; restitution J]
#
# with Z as in `derivatives`.  Gains and references of the contacts do not enter.


class ContactImpulse(NamedTuple):
    """Velocities after the impulses, the impulses, and measures of the contacts' independence."""

    v: np.ndarray  # (nv,) or (K, nv)
    f: np.ndarray  # (C, 3) or (K, C, 3), N s, on the robot
    moment: np.ndarray  # (C, 3) or (K, C, 3), N m s, on rigid feet, about their frames' origins; zero for points
    smallest_pivot: np.ndarray  # as in `ContactDynamics`
    redundant: np.ndarray


class ContactImpulseDerivatives(NamedTuple):
    """Partial derivatives of the velocities after the impulses, each (nv, nv) or (K, nv, nv), and of the impulses and
    their moments, each (C, 3, nv) or (K, C, 3, nv)."""

    dv_dq: np.ndarray
    dv_dv: np.ndarray
    df_dq: np.ndarray
    df_dv: np.ndarray
    dmoment_dq: np.ndarray
    dmoment_dv: np.ndarray


# ------------------------------------------------------------------------------------------------ kernels
@shared_kernel
def contact_impulse_kernel(m, contacts, q, v, restitution, w):
    """Compute v+ in w.a and f in w.f, world axes, for one knot per lane, after `factorize_contacts`."""
    align_stack(w.a)
    forward_pass(m, q, v, w.zeros, w.body, w.dof, FORCES)
    contact_points(m, contacts, w.body, w.points)
    factorize_contacts(m, contacts, w)
    w.f[:] = 0.0
    add_coupled_velocities(contacts, -1.0 - restitution, v, w.f)
    for c in range(contacts.body.size):
        velocity = load3(w.points, c * CONTACT + POINT_VELOCITY)
        put_across(contacts, c, w.points, w.f, 0, scale3(velocity, -1.0 - restitution))
    solve_delassus(3 * contacts.blocks, w.S, w.f)
    w.a[:] = 0.0
    add_half_solved_forces(m, contacts, w)
    sweep_down(m, w.M, 1.0, w.a, w.a, 1, ONE)
    for k in range(m.dof_body.size):
        store(w.a, k, load(v, k) + load(w.a, k))


@kernel
def place_virtual_accelerations(m, v, restitution, w, jump, mean):
    """jump = v+ - v and mean = v+ + restitution v."""
    r = splat(v, restitution)
    for k in range(m.dof_body.size):
        after, before = load(w.a, k), load(v, k)
        store(jump, k, after - before)
        store(mean, k, fma(r, before, after))


@kernel
def velocity_derivatives(m, contacts, restitution, M, dof, points, Gv):
    """[dg1/dv; dg2/dv] = [-M; restitution J]."""
    align_stack(M)
    n = m.dof_body.size
    for k in range(n):
        j = k
        while j >= 0:
            store(Gv, k * n + j, -load(M, k * n + j))
            store(Gv, j * n + k, -load(M, k * n + j))
            j = m.dof_parent[j]
    for c in range(contacts.body.size):
        p = load3(points, c * CONTACT + POINT)
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            J = column(contacts, c, load6(dof, k * DOF + COLUMN), p)
            put_down(contacts, c, points, Gv, n * n + k, n, scale3(J, restitution))
            k = m.dof_parent[k]
    coupled_velocity_derivatives(contacts, restitution, n, Gv[n * n :])


@shared_kernel
def contact_impulse_first_order(m, contacts, q, v, restitution, w, d, jump, mean):
    """Compute v+, f, and dz/dq, dz/dv in d.Gq, d.Gv, for one knot per lane, world axes; scratch jump, mean (nv)."""
    n = m.dof_body.size
    w.Y[:], d.Gq[:], d.Gv[:] = 0.0, 0.0, 0.0
    contact_impulse_kernel(m, contacts, q, v, restitution, w)
    invert_contact_kkt(m, contacts, w, d)
    place_virtual_accelerations(m, v, restitution, w, jump, mean)
    loads = contact_loads(contacts, w.points, w.f, d.dead)
    inverse_dynamics_first_order(m, q, w.zeros, jump, loads, w.body, w.dof, d.torque, d.Gq[: n * n], d.Gv[: n * n], w.M)
    forward_pass(m, q, w.zeros, mean, w.body, w.dof, DERIVATIVES)
    contact_points(m, contacts, w.body, w.points)
    constraint_derivatives(m, contacts, w.dof, w.points, d.Gq[n * n :], d.Gv[n * n :])
    add_rotating_frame_rows(m, contacts, w.dof, w.points, d.Gq[n * n :])
    add_rotating_frame_loads(m, contacts, w.dof, w.points, w.f, d.Gq)
    velocity_derivatives(m, contacts, restitution, w.M, w.dof, w.points, d.Gv)
    minus_products(m, contacts, d.Z, d.Gq, d.Gv, d.panel, n + 3 * contacts.blocks)


@kernel
def _given_axes_kernel(m, contacts, q, v, restitution, w):
    """Impulses in the axes of each contact."""
    contact_impulse_kernel(m, contacts, q, v, restitution, w)
    force_components(contacts, w.points, w.f)


@kernel
def _given_axes_first_order(m, contacts, q, v, restitution, w, d, jump, mean):
    n = m.dof_body.size
    contact_impulse_first_order(m, contacts, q, v, restitution, w, d, jump, mean)
    force_derivative_components(m, contacts, w.dof, w.points, w.f, n, n, n * n, d.Gq)
    force_derivative_components(m, contacts, w.dof, w.points, None, n, n, n * n, d.Gv)


_drive = knot_driver(
    _given_axes_kernel,
    inputs="q v",
    scratch={"w": ContactWorkspace},
    outputs={"after": "w.a", "f": "w.f", "report": "w.report"},
)
_drive_first_order = knot_driver(
    _given_axes_first_order,
    inputs="q v",
    scratch={"w": ContactWorkspace, "d": ContactFirstOrder, "jump": nv, "mean": nv},
    outputs={"zq": "d.Gq", "zv": "d.Gv"},
)


# ------------------------------------------------------------------------------------------------ public
def as_restitution(restitution: float) -> float:
    """A number from 0 to 1; ValueError otherwise."""
    value = as_number("restitution", restitution)
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"restitution: got {value}, expected a number from 0 to 1")
    return value


def contact_impulse(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    contacts: Contacts,
    restitution: float = 0.0,
    damping: float = 0.0,
) -> ContactImpulse:
    """Velocities after impulses at contacts, which stop or reflect the velocities of the contact points.

    M (v+ - v) = J'f,        J (v+ + restitution v) + damping f = 0                [Featherstone 2008, section 11.7]

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v : (nv,) or (K, nv), velocity before
    contacts : sequence of `PointContact` and `RigidContact`, or a `ContactSet`; gains and references do not enter
    restitution : 0 (the contacts stop) to 1
    damping : at least zero, 1/kg, as in `contact_dynamics`

    Returns
    -------
    ContactImpulse(v, f, moment, smallest_pivot, redundant) : the velocity after, the impulses in N s and their moments
        on rigid feet in N m s, each (C, 3) or (K, C, 3), on the robot, and the rest as `contact_dynamics`.

    Raises
    ------
    ValueError, TypeError : a restitution outside of [0, 1]; otherwise as `contact_dynamics`.
    """
    contacts, enter = on_full_model(model, contacts, damping), model.mimic_map
    single, (q, v) = points(model, q, v=v)
    q, v = enter.full_q(q), enter.full_v(v)
    K, plant = len(q), contacts.impulsive(damping)
    after, f, report = np.empty_like(v), np.empty((K, contacts.rows)), np.empty((K, 2))
    _drive(*plant, q, v, as_restitution(restitution), after, f, report)
    redundant = report[:, 1].astype(np.int64)
    after, impulses = enter.leave("k", after), contacts.forces_and_moments(f)
    return ContactImpulse(*unbatch(single, after, *impulses, report[:, 0].copy(), redundant))


def contact_impulse_derivatives(
    model: RigidBodyModel,
    q: ArrayLike,
    v: ArrayLike,
    contacts: Contacts,
    restitution: float = 0.0,
    damping: float = 0.0,
) -> ContactImpulseDerivatives:
    """Derivatives of `contact_impulse` with respect to configuration (along the tangent) and velocity before.

    Parameters and errors as `contact_impulse`.

    Returns
    -------
    ContactImpulseDerivatives(dv_dq, dv_dv, df_dq, df_dv, dmoment_dq, dmoment_dv), those of the velocity after (nv, nv)
    or (K, nv, nv), those of the impulses and their moments (C, 3, nv) or (K, C, 3, nv), in the axes of each contact.
    """
    contacts, enter = on_full_model(model, contacts, damping), model.mimic_map
    single, (q, v) = points(model, q, v=v)
    q, v = enter.full_q(q), enter.full_v(v)
    K, n, plant = len(q), model.full.nv, contacts.impulsive(damping)
    z = [np.empty((K, n + contacts.rows, n)) for _ in range(2)]
    flat = [x.reshape(K, (n + contacts.rows) * n) for x in z]
    _drive_first_order(*plant, q, v, as_restitution(restitution), *flat)
    z = [enter.leave("p", x) for x in z]
    forces, moments = zip(*(contacts.forces_and_moments(x[:, n:]) for x in z), strict=True)
    velocities = (enter.leave("k-", x[:, :n]) for x in z)
    return ContactImpulseDerivatives(*unbatch(single, *velocities, *forces, *moments))


# --------------------------------------------------------------------------------------------
# The exact Hessian of y'z, z = (v+, f) the velocities after impulses at contacts and the impulses.
#
# As `hessian` at rest and without gravity, but the two parts of g have different accelerations: ID has v+ - v, a_c has
# v+ + e v, e the restitution.  With A the part of Gqa from ID and B that from a_c,
#
#     Hqq = -(Gqq + T_q + T_q')      Hqv = -(Gqv + T_v)      Gqv = -A + e B      Hvv = 0      T_x = [A + B, Gqf] dz/dx


class ContactImpulseHessian(NamedTuple):
    """Second derivatives of w_v'v+ + w_f'f + w_m'm; each (nv, nv) or (K, nv, nv).  Those in v twice are zero."""

    Hqq: np.ndarray
    Hqv: np.ndarray


@shared_kernel
def contact_impulse_hessian_kernel(m, contacts, q, v, restitution, w, d, h, jump, mean):
    """Compute first derivatives as `contact_impulse_first_order` does, and Hqq, Hqv, Hvv of y'z in h.

    h.y holds the multipliers of v+ and of the impulses in each contact's axes; the latter are rotated to world axes."""
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
    add_rotating_frame_rows(m, contacts, w.dof, w.points, d.Gq[n * n :])
    add_rotating_frame_loads(m, contacts, w.dof, w.points, w.f, d.Gq)
    add_rotating_frame_curvature(m, contacts, w.f, w, h)
    add_contact_curvature(m, w.dof, h)
    add_scaled(n * n, h.Hqv, restitution, h.Hqa)
    velocity_derivatives(m, contacts, restitution, w.M, w.dof, w.points, d.Gv)
    minus_products(m, contacts, d.Z, d.Gq, d.Gv, d.panel, n + 3 * contacts.blocks)
    hessian_of_solution(m, contacts, d, h)
    h.Hvv[:] = 0.0


_drive_hessian = knot_driver(
    contact_impulse_hessian_kernel,
    inputs="q v y=h.y",
    scratch={"w": ContactWorkspace, "d": ContactFirstOrder, "h": ContactSecondOrder, "jump": nv, "mean": nv},
    outputs={"Hqq": "h.Hqq", "Hqv": "h.Hqv"},
)


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
    w_f : (C, 3) or (K, C, 3), multiplier of the impulses, in the axes of each contact
    w_m : (C, 3) or (K, C, 3), multiplier of the components of their moments; None (zero) where there is none

    Returns
    -------
    ContactImpulseHessian(Hqq, Hqv), each (nv, nv) or (K, nv, nv).  Hqq[j, k] = d/dq_k (d/dq_j), not symmetric inside a
    joint of several degrees of freedom; in Hqv the row is q.  The velocities after are linear in those before: Hvv = 0.

    Raises
    ------
    ValueError, TypeError : as `contact_impulse`.
    """
    contacts, enter = on_full_model(model, contacts, damping), model.mimic_map
    single, (q, v, w_v) = points(model, q, v=v, w_v=w_v)
    y = np.hstack([enter.full_torques(w_v), contacts.multiplier_rows(w_f, w_m, len(q))])
    H = empty_matrices(2, len(q), model.full.nv)
    plant = contacts.impulsive(damping)
    _drive_hessian(*plant, enter.full_q(q), enter.full_v(v), as_restitution(restitution), y, *H)
    return ContactImpulseHessian(*(enter.leave("pp", x) for x in square_matrices(single, H)))
