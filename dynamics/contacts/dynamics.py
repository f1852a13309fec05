"""Accelerations and forces of a robot in rigid contact with its surroundings.

    M a + bias = tau + J'f          a_c + kd v_c + kp (p - reference) = 0   for every contact point

where f stands for the moments of rigid feet as well, and the constraints for those of `RigidContact`.

With b = tau - bias, M = L'D L, Y = L^-T J' and y = L^-T b, the free acceleration M^-1 b = (D L)^-1 y moves the points
by Y'D^-1 y, and

    (Y'D^-1 Y + damping 1) f = -(Y'D^-1 y + drift)          a = (D L)^-1 (y + Y f)

where the drift is what the constraint is at a = 0.                                     [Featherstone 2008, section 8.3]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import points, unbatch
from dynamics.algorithms.branch_factor import factorize, sweep_down, sweep_up
from dynamics.algorithms.frames import last_dof
from dynamics.algorithms.inverse_dynamics import torques_of_forces
from dynamics.algorithms.kinematics import BODY, DOF, FORCES, forward_pass
from dynamics.algorithms.mass_matrix import composite_mass_matrix
from dynamics.contacts.contact_arrays import ContactArrays, blocks, halves
from dynamics.contacts.contact_motion import (
    CONTACT,
    constraint,
    contact_jacobian_transposed,
    contact_points,
    force_components,
)
from dynamics.contacts.contact_set import Contacts, ContactSet, as_contact_set, of_full_robot
from dynamics.contacts.delassus import delassus_matrix, factorize_delassus, half_solve, solve_delassus
from dynamics.contacts.loop_arrays import LoopArrays
from dynamics.contacts.row_blocks import put_across, subtract_couplings
from dynamics.knot_driver import knot_driver, nb, nv
from dynamics.mimic import of_tree
from dynamics.model import RigidBodyModel
from dynamics.simd import align_stack, fma, fnma, kernel, load, shared_kernel, store
from dynamics.simd.by_type import by_type
from dynamics.simd.lane_blocks import carving, lanes
from dynamics.spatial import add_scaled3, load3, scale3, store3

ONE = (0, 0, 0, 0)


class ContactDynamics(NamedTuple):
    """Accelerations, contact forces, and how independent the contacts are."""

    a: np.ndarray  # (nv,) or (K, nv)
    f: np.ndarray  # (C, 3) or (K, C, 3), N, on the robot
    moment: np.ndarray  # (C, 3) or (K, C, 3), N m, on rigid feet, about their frames' origins; zero for points
    smallest_pivot: np.ndarray  # () or (K,), relative pivot of J M^-1 J', 1 at best, about 0 for redundant contacts
    redundant: np.ndarray  # () or (K,) int, rows of J left out because they depend on others


ROWS = 3 * blocks
"""Of forces, moments and constraints."""


class Workspace(NamedTuple):
    """Lanes that the kernels of contact dynamics share."""

    body: np.ndarray = lanes(nb * BODY)
    dof: np.ndarray = lanes(nv * DOF)
    points: np.ndarray = lanes(halves * CONTACT)
    zeros: np.ndarray = lanes(nv, zero=True)
    M: np.ndarray = lanes(nv * nv)
    Y: np.ndarray = lanes(nv * ROWS)
    S: np.ndarray = lanes(ROWS * ROWS)
    diagonal: np.ndarray = lanes(ROWS)
    report: np.ndarray = lanes(2)  # smallest pivot, rows left out
    a: np.ndarray = lanes(nv)
    f: np.ndarray = lanes(ROWS)


carve_workspace, workspace_numbers = carving(Workspace)


@shared_kernel
def factorize_contacts(m, contacts, w):
    """The factors of M in w.M and of J M^-1 J' in w.S, L^-T J' in w.Y, and the report, after `contact_points`."""
    composite_mass_matrix(m, w.body, w.dof, w.M)
    factorize(m, w.M)
    contact_jacobian_transposed(m, contacts, w.dof, w.points, w.Y)
    half_solve(m, contacts, w.M, w.Y)
    delassus_matrix(m, contacts, w.M, w.Y, w.S)
    factorize_delassus(3 * contacts.blocks, w.S, w.diagonal, w.report)


@kernel
def _right_sides_on_paths(m, contacts, q, v, w):
    align_stack(w.a)
    n, size = m.dof_body.size, 3 * contacts.blocks
    for c in range(contacts.blocks):
        x = constraint(m, contacts, c, w.points)
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            x = add_scaled3(x, load(w.a, k) * load(w.M, k * n + k), load3(w.Y, k * size + 3 * c))
            k = m.dof_parent[k]
        store3(w.f, 3 * c, scale3(x, -1.0))


@kernel
def _right_sides_of_loops(m, contacts, q, v, w):
    align_stack(w.a)
    n, size = m.dof_body.size, 3 * contacts.blocks
    w.f[:] = 0.0
    subtract_couplings(m, contacts, q, v, w.f)
    for c in range(contacts.body.size):
        put_across(contacts, c, w.points, w.f, 0, scale3(constraint(m, contacts, c, w.points), -1.0))
    for k in range(n):
        x = load(w.a, k) * load(w.M, k * n + k)
        for r in range(size):
            store(w.f, r, fnma(x, load(w.Y, k * size + r), load(w.f, r)))


_store_right_sides = by_type("contacts", {ContactArrays: _right_sides_on_paths, LoopArrays: _right_sides_of_loops})
"""-(Y'D^-1 y + drift) in w.f, y (nv) being in w.a: (m, contacts, q, v, w)."""


@kernel
def _add_forces_on_paths(m, contacts, w):
    align_stack(w.a)
    size = 3 * contacts.blocks
    for c in range(contacts.blocks):
        f = load3(w.f, 3 * c)
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            y = load3(w.Y, k * size + 3 * c)
            store(w.a, k, fma(y[2], f[2], fma(y[1], f[1], fma(y[0], f[0], load(w.a, k)))))
            k = m.dof_parent[k]


@kernel
def _add_forces_of_loops(m, contacts, w):
    align_stack(w.a)
    size = 3 * contacts.blocks
    for k in range(m.dof_body.size):
        x = load(w.a, k)
        for r in range(size):
            x = fma(load(w.Y, k * size + r), load(w.f, r), x)
        store(w.a, k, x)


add_half_solved_forces = by_type("contacts", {ContactArrays: _add_forces_on_paths, LoopArrays: _add_forces_of_loops})
"""w.a += Y f: (m, contacts, w)."""


@shared_kernel
def contact_dynamics_kernel(m, contacts, q, v, tau, w):
    """a and f, in world axes, for one knot per lane, and what `factorize_contacts` leaves."""
    align_stack(w.a)
    n = m.dof_body.size
    forward_pass(m, q, v, w.zeros, w.body, w.dof, FORCES)
    contact_points(m, contacts, w.body, w.points)
    torques_of_forces(m, w.zeros, w.body, w.dof, w.a)
    for k in range(n):
        store(w.a, k, load(tau, k) - load(w.a, k))
    factorize_contacts(m, contacts, w)
    sweep_up(m, w.M, 0, n, w.a, w.a, 1, ONE)
    _store_right_sides(m, contacts, q, v, w)
    solve_delassus(3 * contacts.blocks, w.S, w.f)
    add_half_solved_forces(m, contacts, w)
    sweep_down(m, w.M, 1.0, w.a, w.a, 1, ONE)


@kernel
def _given_axes_kernel(m, contacts, q, v, tau, w):
    """Contact dynamics with forces of the components that each contact asks for."""
    contact_dynamics_kernel(m, contacts, q, v, tau, w)
    force_components(contacts, w.points, w.f)


_drive = knot_driver(
    _given_axes_kernel,
    inputs="q v tau",
    scratch={"w": Workspace},
    outputs={"a": "w.a", "f": "w.f", "report": "w.report"},
)


@of_tree("v", "k c- c- - -", covectors="tau", contacts=of_full_robot)
def contact_dynamics(
    model: RigidBodyModel, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: Contacts, damping: float = 0.0
) -> ContactDynamics:
    """Joint accelerations and contact forces of a robot whose contact points or feet are held.

    M a + bias = tau + J'f,        a_c + kd v_c + kp (p - reference) + damping f = 0

    with the classical accelerations a_c of the points; for rigid feet see `RigidContact`.
                                                                                 [Featherstone 2008, section 8.3]

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v, tau : (nv,) or (K, nv), velocity and joint torques
    contacts : sequence of `PointContact`, `RigidContact`, `LoopConstraint` and `JointCoupling`, or a `ContactSet`
    damping : at least zero, 1/kg (1/(kg m^2) for moments): how much the contacts yield to force, which makes
        J M^-1 J' + damping 1 regular

    Returns
    -------
    ContactDynamics(a, f, moment, smallest_pivot, redundant) : f (C, 3) or (K, C, 3) in N, on the robot, in the axes
        that each contact asks for; moment likewise, in N m, about the frames' origins, zero for points.  Those of loops
        are on the body of their first frame, those of coupled joints are the force along their sum, and zeros.  Where
        contacts are redundant and damping is zero, rows that depend on those before them carry no force and are counted
        in `redundant`; a is still the right one if all rows can be satisfied.

    Raises
    ------
    ValueError : wrong shape, non-finite entry, a quaternion that is not of unit length, a frame in contact twice, or a
        contact of another model; names the argument.
    TypeError : an entry of `contacts` that is no contact.
    """
    return dynamics_of_set(model, q, v, tau, as_contact_set(model, contacts), damping)


def dynamics_of_set(
    model: RigidBodyModel, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: ContactSet, damping: float
) -> ContactDynamics:
    """`contact_dynamics` with a set that may have been made for a robot with other joint friction."""
    single, (q, v, tau) = points(model, q, v=v, tau=tau)
    K = len(q)
    a, f, report = np.empty_like(v), np.empty((K, contacts.rows)), np.empty((K, 2))
    _drive(model, contacts.damped(damping), q, v, tau, a, f, report)
    redundant = report[:, 1].astype(np.int64)
    return ContactDynamics(*unbatch(single, a, *contacts.forces_and_moments(f), report[:, 0].copy(), redundant))
