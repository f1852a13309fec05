"""Contacts that hold at the same time: points, feet, closed loops, joints that are coupled.

Kernels know contacts as blocks of three rows of forces and constraints.  A point has one: its force and its
acceleration.  A rigid foot has a second one: its moment and its angular acceleration; a loop one for each pair of its
points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from dynamics.contacts.contact_arrays import ContactArrays
from dynamics.contacts.frame_contact import AXES
from dynamics.contacts.loop_arrays import LoopArrays, without_feedback
from dynamics.contacts.loop_constraint import JointCoupling, LoopConstraint
from dynamics.contacts.point_contact import PointContact
from dynamics.contacts.rigid_contact import RigidContact
from dynamics.contacts.set_arrays import loop_blocks, set_arrays
from dynamics.model import RigidBodyModel
from dynamics.validation import as_array, as_items, as_kind

Contact = PointContact | RigidContact | LoopConstraint | JointCoupling

_ZERO = np.zeros(1)
_ZERO.flags.writeable = False


class ContactSet:
    """Contacts that hold at the same time, checked and ready for kernels; saves time where the same set serves often.

    Parameters
    ----------
    model : RigidBodyModel
    contacts : sequence of `PointContact` and `RigidContact` on frames of the model, each frame at most once, and of
        `LoopConstraint` and `JointCoupling`; may be empty

    Raises
    ------
    TypeError : an entry that is no contact.
    ValueError : a contact of another model, or the same frame twice.
    """

    def __init__(self, model: RigidBodyModel, contacts: Sequence[Contact]) -> None:
        as_kind("model", model, RigidBodyModel)
        contacts = as_items("contacts", contacts, "PointContacts and RigidContacts")
        for i, contact in enumerate(contacts):
            if not isinstance(contact, Contact):
                wanted = "a PointContact, RigidContact, LoopConstraint or JointCoupling"
                raise TypeError(f"contacts[{i}]: got {type(contact).__name__}, expected {wanted}")
            if contact.model != model:
                raise ValueError(f"contacts[{i}]: the contact of {contact.frame!r} belongs to another model")
        frames = tuple(contact.frame for contact in contacts)
        for i, frame in enumerate(frames):
            if frame in frames[:i]:
                raise ValueError(
                    f"contacts[{i}]: frame {frame!r} is already in contact, by contacts[{frames.index(frame)}]"
                )
        self.model, self.contacts, self.frames = model, contacts, frames
        self.rigid = [i for i, contact in enumerate(contacts) if not contact.turns]
        self.loops = [i for i, contact in enumerate(contacts) if isinstance(contact, LoopConstraint)]

    @cached_property
    def arrays(self) -> ContactArrays | LoopArrays:
        """As kernels read them."""
        return set_arrays(self.model, self.contacts)

    @property
    def rows(self) -> int:
        """Number of rows of constraints: three of every contact, three more of every rigid one and of every further
        pair of points of a loop."""
        return 3 * self.arrays.blocks

    @property
    def places(self) -> dict[str, str]:
        """Of every contact, by the name of its frame, a frame where pictures show it."""
        return {contact.frame: contact.place for contact in self.contacts}

    def damped(self, damping: float, name: str = "damping") -> ContactArrays | LoopArrays:
        """The arrays of contacts that yield; ValueError, with the argument's name, for other than a number >= 0."""
        value = as_damping(damping, name)
        return self.arrays if value == 0.0 else self.arrays._replace(damping=value)

    @cached_property
    def at_rest(self) -> tuple[RigidBodyModel, ContactArrays | LoopArrays]:
        """The model without gravity and the set without gains: what impulses know of both."""
        weightless = replace(self.model, arrays=self.model.arrays._replace(gravity=np.zeros(3)))
        return weightless, without_feedback(self.arrays)

    def impulsive(self, damping: float, name: str = "damping") -> tuple[RigidBodyModel, ContactArrays | LoopArrays]:
        """`at_rest` for contacts that yield; errors as `damped`."""
        weightless, arrays = self.at_rest
        value = as_damping(damping, name)
        return weightless, arrays if value == 0.0 else arrays._replace(damping=value)

    @cached_property
    def world_aligned(self) -> ContactSet:
        """The same contacts, all forces and moments in world axes."""
        turned: list[Contact] = [
            replace(held, axes=AXES[0]) if isinstance(held, (PointContact, RigidContact)) else held
            for held in self.contacts
        ]
        return ContactSet(self.model, turned)

    def forces_and_moments(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows (K, self.rows, ...) as the forces and the moments of all contacts, each (K, C, 3, ...); without feet the
        moments are a read-only zero, which costs no memory."""
        K, C, rest = len(rows), len(self), rows.shape[2:]
        forces = rows[:, : 3 * C].reshape(K, C, 3, *rest)
        if not (self.rigid or self.loops):
            return forces, np.ndarray(forces.shape, np.float64, _ZERO, 0, (0,) * forces.ndim)
        moments = np.zeros(forces.shape)
        moments[:, self.rigid] = rows[:, 3 * C : 3 * (C + len(self.rigid))].reshape(K, len(self.rigid), 3, *rest)
        if self.loops:
            forces = forces.copy()
        for i, held, W in self._wrench_maps:
            wrench = np.einsum("ij,kj...->ki...", W, rows[:, held])
            forces[:, i], moments[:, i] = wrench[:, :3], wrench[:, 3:]
        return forces, moments

    @cached_property
    def _wrench_maps(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """Of every loop its place, its rows, and the map from these to its force and moment."""
        found = []
        for i in self.loops:
            blocks = np.array(loop_blocks(self.contacts)[i])
            found.append((i, (3 * blocks[:, None] + np.arange(3)).ravel(), self.contacts[i].wrench_map()))
        return found

    def multiplier_rows(self, w_f: ArrayLike, w_m: ArrayLike | None, K: int) -> np.ndarray:
        """Multipliers of forces and moments, (C, 3) or (K, C, 3), as (K, self.rows); w_m may be None, zero.

        Raises ValueError for another shape or a non-finite entry."""
        C = len(self)
        forces = self._multipliers("w_f", w_f, K).reshape(K, 3 * C)
        moments = np.zeros((K, C, 3)) if w_m is None else self._multipliers("w_m", w_m, K)
        if not (self.rigid or self.loops):
            return forces
        rows = np.zeros((K, self.rows))
        rows[:, : 3 * C] = forces
        rows[:, 3 * C : 3 * (C + len(self.rigid))] = moments[:, self.rigid].reshape(K, 3 * len(self.rigid))
        for i, held, W in self._wrench_maps:
            rows[:, held] = np.hstack([forces[:, 3 * i : 3 * i + 3], moments[:, i]]) @ W
        return rows

    def _multipliers(self, name, value, K):
        array, C = as_array(name, value), len(self)
        if array.shape not in ((C, 3), (K, C, 3)):
            raise ValueError(f"{name}: got shape {array.shape}, expected ({C}, 3) or ({K}, {C}, 3)")
        return np.broadcast_to(array, (K, C, 3))

    def __len__(self) -> int:
        return len(self.contacts)

    def __repr__(self) -> str:
        return f"ContactSet({', '.join(repr(contact.frame) for contact in self.contacts)})"


Contacts = ContactSet | Sequence[Contact]


def as_contact_set(model: RigidBodyModel, contacts: Contacts) -> ContactSet:
    """The set itself, or one made of the contacts; errors as `ContactSet`."""
    if isinstance(contacts, ContactSet):
        if contacts.model != model:
            raise ValueError("contacts: the set belongs to another model")
        return contacts
    return ContactSet(model, contacts)


def of_system(model: RigidBodyModel, contacts: Contacts) -> ContactSet:
    """The set with the loops and couplings that the model has and it has not; errors as `ContactSet`."""
    given = as_contact_set(model, contacts)
    own: list[Contact] = [
        LoopConstraint(model, loop.frame1, loop.frame2, loop.kind, axis=loop.axis) for loop in model.loops
    ]
    own += [JointCoupling(model, dict(coupling.joints), coupling.offset) for coupling in model.couplings]
    added = [closure for closure in own if closure.frame not in given.frames]
    return ContactSet(model, [*given.contacts, *added]) if added else given


def of_full_robot(
    model: RigidBodyModel, contacts: Contacts, damping: float = 0.0, name: str = "damping"
) -> ContactSet:
    """The contacts of a robot whose joints follow others on its tree, and last what ties these together, which does not
    yield: ValueError for damping, with the argument's name."""
    if damping != 0.0:
        raise ValueError(f"{name}: got {damping}, expected zero where joints follow others")
    given = as_contact_set(model, contacts).contacts
    if any(isinstance(held, JointCoupling) for held in given):
        raise ValueError("contacts: got a JointCoupling, expected none where joints follow others; see add_mimic")
    ties = [
        JointCoupling(model.full, {mimic.joint: 1.0, mimic.source: -mimic.multiplier}, mimic.offset, (0.0, 0.0))
        for mimic in model.mimics
    ]
    return ContactSet(model.full, [*(replace(held, model=model.full) for held in given), *ties])


def as_damping(damping: float, name: str = "damping") -> float:
    """A number of at least zero; ValueError otherwise."""
    value = float(as_array(name, damping, ()))
    if value < 0.0:
        raise ValueError(f"{name}: got {value}, expected a number of at least zero")
    return value
