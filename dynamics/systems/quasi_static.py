"""A robot at rest: controls that hold it there, and checks that its contacts are at their references."""

import numpy as np

from dynamics.algorithms.frames import frame_jacobian, frame_placement
from dynamics.algorithms.inverse_dynamics import gravity_forces
from dynamics.contacts.contact_set import Contact, ContactSet
from dynamics.contacts.frame_contact import FrameContact
from dynamics.contacts.loop_constraint import JointCoupling, LoopConstraint, loop_gap, loop_rows
from dynamics.model.actuation import spring_matrices
from dynamics.model.model import RigidBodyModel

AWAY = 1e-3
"""Largest distance of a contact's frame from its reference at the start of a motion, m and rad; for a coupling, of the
joint with the largest ratio from the position given by the others."""


def undriven_basis(B: np.ndarray) -> np.ndarray:
    """Orthonormal basis N (nv, k) of the null space of B': the directions that no control drives."""
    U, singular, _ = np.linalg.svd(B)
    rank = int((singular > singular.max() * max(B.shape) * np.finfo(float).eps).sum())
    return U[:, rank:]


def holding_controls(model: RigidBodyModel, q: np.ndarray, B: np.ndarray, contacts: ContactSet) -> np.ndarray:
    """u (K, nu) with B u = g - J'f, g of gravity and springs, f the contact forces and moments of least norm (N and
    N m) with N'J'f = N'g, N'B = 0; q (K, nq).

    Least squares where that has no solution."""
    K, _, c = spring_matrices(model)
    load = gravity_forces(model, q)
    if model.springs:
        load += q[:, np.repeat(model.q_index, model.joint_nv)] @ K - c
    if len(contacts) > 0:
        J = np.concatenate([_rows(model, q, held) for held in contacts.contacts], axis=1)
        N = undriven_basis(B)
        carried = np.linalg.pinv(N.T @ J.swapaxes(1, 2)) @ (load @ N)[..., None]
        load = load - (J.swapaxes(1, 2) @ carried)[..., 0]
    return load @ np.linalg.pinv(B).T


def _rows(model: RigidBodyModel, q: np.ndarray, held: Contact) -> np.ndarray:
    """Jacobian (K, rows, nv) of a contact's constraints."""
    if isinstance(held, LoopConstraint):
        return loop_rows(model, q, held).J
    if isinstance(held, JointCoupling):
        return np.broadcast_to(held.row, (len(q), 1, model.nv))
    return frame_jacobian(model, q, held.frame)[:, : 3 if held.turns else 6]


def check_references(model: RigidBodyModel, q: np.ndarray, contacts: ContactSet) -> None:
    """Raise ValueError if at q (nq,) the frame of a contact is farther than `AWAY` from the contact's reference, or
    that of a rigid foot rotated by more, a loop is open, or joints do not satisfy their coupling."""
    for held in contacts.contacts:
        if isinstance(held, LoopConstraint):
            distance, angle = loop_gap(model, q, held)
            for gap, state, unit in ((distance, "open", "m"), (angle, "turned", "rad")):
                if gap > AWAY:
                    raise ValueError(
                        f"x0: the loop of {held.frame1!r} and {held.frame2!r} is {state} by {gap:.3g} {unit}, expected "
                        f"at most {AWAY:g} {unit}; see dynamics.close_loops"
                    )
        if isinstance(held, JointCoupling):
            gap, largest = float(held.gap(q)), max(map(abs, held.joints.values()))
            if abs(gap) > AWAY * largest:
                raise ValueError(
                    f"x0: the coupling of {', '.join(map(repr, held.joints))} is off by {gap:.3g}: its sum is "
                    f"{held.offset + gap:.6g}, expected {held.offset:.6g} to within {AWAY * largest:g}; "
                    "see dynamics.close_loops"
                )
        if not isinstance(held, FrameContact) or held.reference is None:
            continue
        R, p = held.pose
        placement = frame_placement(model, q, held.frame)
        distance = float(np.linalg.norm(placement.p - p))
        if distance > AWAY:
            raise ValueError(
                f"x0: frame {held.frame!r} is {distance:.3g} m away from the reference of its contact, expected at "
                f"most {AWAY:g} m"
            )
        angle = 0.0 if held.turns else 2.0 * np.arcsin(min(np.linalg.norm(placement.R - R) / np.sqrt(8.0), 1.0))
        if angle > AWAY:
            raise ValueError(
                f"x0: frame {held.frame!r} is turned by {angle:.3g} rad from the reference of its contact, expected at "
                f"most {AWAY:g} rad"
            )
