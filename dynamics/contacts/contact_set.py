"""Contacts that hold at the same time, as kernels take them.

Kernels know contacts as blocks of three rows of forces and constraints.  A point has one: its force and its
acceleration.  A rigid foot has a second one: its moment and its angular acceleration.  First come the first blocks of
all contacts, in their order, then the second ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import FRAME, frame_numbers
from dynamics.contacts.frame_contact import AXES
from dynamics.contacts.point_contact import PointContact
from dynamics.contacts.rigid_contact import RigidContact
from dynamics.model import RigidBodyModel
from dynamics.simd.sizes import Size
from dynamics.validation import as_array, as_items, as_kind

Contact = PointContact | RigidContact

_ZERO = np.zeros(1)
_ZERO.flags.writeable = False


class ContactArrays(NamedTuple):
    """A set of contacts as kernels take it: B blocks, b with the rows 3 b ... 3 b + 2 of forces and constraints."""

    body: np.ndarray  # (B,)
    frame: np.ndarray  # (B, FRAME) placements in the bodies
    point: np.ndarray  # (B, 3) origins in the bodies
    angular: np.ndarray  # (B,) 1 where the block is that of a moment
    gains: np.ndarray  # (B, 2)
    reference: np.ndarray  # (B, 3) positions to be kept
    turn: np.ndarray  # (B, 9) rotations to be kept
    local: np.ndarray  # (B,) 1 where the force is given in the frame's axes
    damping: float  # how much the contacts yield to force, 1/kg
    pair_start: np.ndarray  # (ceil(nv / 2) + 1,) where the rows of each pair of dofs begin in pair_row
    pair_row: np.ndarray  # rows of [tau; constraints] on which dofs 2 p, 2 p + 1 act


blocks = Size("blocks", "contacts.body.size")
"""Number of blocks of three rows, where `contacts` are ContactArrays."""


class ContactSet:
    """Contacts that hold at the same time, checked and ready for kernels; saves time where the same set serves often.

    Parameters
    ----------
    model : RigidBodyModel
    contacts : sequence of `PointContact` and `RigidContact` on frames of the model, each frame at most once; may be
        empty

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
                raise TypeError(f"contacts[{i}]: got {type(contact).__name__}, expected a PointContact or RigidContact")
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
        self.arrays = _arrays(model, contacts, self.rigid)

    @property
    def rows(self) -> int:
        """Number of constraints: three of every contact, and three more of every rigid one."""
        return 3 * (len(self.contacts) + len(self.rigid))

    def damped(self, damping: float, name: str = "damping") -> ContactArrays:
        """The arrays of contacts that yield; ValueError, with the argument's name, for other than a number >= 0."""
        value = as_damping(damping, name)
        return self.arrays if value == 0.0 else self.arrays._replace(damping=value)

    @cached_property
    def at_rest(self) -> tuple[RigidBodyModel, ContactArrays]:
        """The model without gravity and the set without gains: what impulses know of both."""
        weightless = replace(self.model, arrays=self.model.arrays._replace(gravity=np.zeros(3)))
        return weightless, self.arrays._replace(gains=np.zeros_like(self.arrays.gains))

    def impulsive(self, damping: float, name: str = "damping") -> tuple[RigidBodyModel, ContactArrays]:
        """`at_rest` for contacts that yield; errors as `damped`."""
        weightless, arrays = self.at_rest
        value = as_damping(damping, name)
        return weightless, arrays if value == 0.0 else arrays._replace(damping=value)

    @cached_property
    def world_aligned(self) -> ContactSet:
        """The same contacts, all forces and moments in world axes."""
        return ContactSet(self.model, [replace(contact, axes=AXES[0]) for contact in self.contacts])

    def forces_and_moments(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows (K, self.rows, ...) as the forces and the moments of all contacts, each (K, C, 3, ...); without feet the
        moments are a read-only zero, which costs no memory."""
        K, C, rest = len(rows), len(self), rows.shape[2:]
        forces = rows[:, : 3 * C].reshape(K, C, 3, *rest)
        if not self.rigid:
            return forces, np.ndarray(forces.shape, np.float64, _ZERO, 0, (0,) * forces.ndim)
        moments = np.zeros(forces.shape)
        moments[:, self.rigid] = rows[:, 3 * C :].reshape(K, len(self.rigid), 3, *rest)
        return forces, moments

    def multiplier_rows(self, w_f: ArrayLike, w_m: ArrayLike | None, K: int) -> np.ndarray:
        """Multipliers of forces and moments, (C, 3) or (K, C, 3), as (K, self.rows); w_m may be None, zero.

        Raises ValueError for another shape or a non-finite entry."""
        C = len(self)
        forces = self._multipliers("w_f", w_f, K).reshape(K, 3 * C)
        moments = np.zeros((K, C, 3)) if w_m is None else self._multipliers("w_m", w_m, K)
        return np.hstack([forces, moments[:, self.rigid].reshape(K, 3 * len(self.rigid))]) if self.rigid else forces

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


def as_damping(damping: float, name: str = "damping") -> float:
    """A number of at least zero; ValueError otherwise."""
    value = float(as_array(name, damping, ()))
    if value < 0.0:
        raise ValueError(f"{name}: got {value}, expected a number of at least zero")
    return value


def _arrays(model, contacts, rigid) -> ContactArrays:
    held = [*contacts, *(contacts[i] for i in rigid)]
    B = len(held)
    frames = [frame_numbers(model, contact.frame) for contact in held]
    body = np.array([body for body, _ in frames], dtype=np.int64)
    frame = np.array([frame for _, frame in frames]).reshape(B, FRAME)
    poses = [contact.pose for contact in held]
    return ContactArrays(
        body,
        frame,
        np.ascontiguousarray(frame[:, 9:]),
        np.repeat([0, 1], [len(contacts), len(rigid)]),
        np.array([contact.gains for contact in held]).reshape(B, 2),
        np.array([p for _, p in poses]).reshape(B, 3),
        np.array([R for R, _ in poses]).reshape(B, 9),
        np.array([contact.local for contact in held], dtype=np.int64),
        0.0,
        *_pair_rows(model.arrays, body),
    )


def _pair_rows(arrays, bodies) -> tuple[np.ndarray, np.ndarray]:
    """For each pair of dofs 2 p, 2 p + 1, the torques and constraints that depend on their positions or velocities:
    torques of dofs on one path with them, contacts below them."""
    n = len(arrays.dof_body)
    above = np.eye(n, dtype=bool)  # [k, j]: j on the path from k to the root
    for k, before in enumerate(arrays.dof_parent):
        if before >= 0:
            above[k] |= above[before]
    last = arrays.v_index[bodies] + arrays.dof_count[bodies] - 1
    acts = np.vstack([above | above.T, np.repeat(above[last], 3, axis=0)])  # [row, dof]
    rows = [np.flatnonzero(acts[:, j : j + 2].any(axis=1)) for j in range(0, n, 2)]
    start = np.concatenate([[0], np.cumsum([len(r) for r in rows])])
    return start.astype(np.int64), np.concatenate(rows).astype(np.int64)
