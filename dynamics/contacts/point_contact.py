"""Point contacts, and a set of them as kernels take it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import FRAME, LOCAL, frame_numbers, reference_code
from dynamics.kernel_model import model_block
from dynamics.model import RigidBodyModel
from dynamics.validation import as_array

AXES = ("local_world_aligned", "local")


@dataclass(frozen=True, eq=False, repr=False)
class PointContact:
    """A frame's origin that neither slides nor lifts off:  a_c + kd v_c + kp (p - reference) = 0.

    p, v_c and a_c are position, velocity and classical acceleration of the frame's origin, world axes.

    Parameters
    ----------
    model : RigidBodyModel
    frame : one of `model.frame_names`, on a moving body
    gains : (kp, kd), 1/s^2 and 1/s, neither negative: Baumgarte's feedback, which takes drift back.  [Baumgarte 1972]
    reference : (3,), m, where the point is to stay; needed if kp is not zero
    axes : "local_world_aligned" or "local"
        In which the contact force is given: those of the world or those of the frame.

    Raises
    ------
    ValueError : unknown frame (with the nearest matches) or one fixed in the world, gains that are no such pair, kp
        without a reference, a reference of wrong shape or with non-finite entries, or unknown axes.
    """

    model: RigidBodyModel
    frame: str
    gains: tuple[float, float] = (0.0, 0.0)
    reference: ArrayLike | None = None
    axes: str = "local_world_aligned"

    def __post_init__(self) -> None:
        body, _ = frame_numbers(self.model, self.frame)
        if body < 0:
            raise ValueError(f"frame: {self.frame!r} is fixed in the world, expected one on a moving body")
        gains = as_array("gains", self.gains, (2,))
        if (gains < 0.0).any():
            raise ValueError(f"gains: got (kp, kd) = {tuple(gains.tolist())}, expected two numbers of at least zero")
        reference = None if self.reference is None else as_array("reference", self.reference, (3,)).copy()
        if reference is None and gains[0] != 0.0:
            raise ValueError(f"reference: needed where kp is not zero, got kp = {gains[0]} and no reference")
        if reference is not None:
            reference.flags.writeable = False
        if self.axes not in AXES:
            raise ValueError(f"axes: got {self.axes!r}, expected one of {', '.join(map(repr, AXES))}")
        object.__setattr__(self, "gains", tuple(gains.tolist()))
        object.__setattr__(self, "reference", reference)

    def __repr__(self) -> str:
        return f"PointContact({self.frame!r}, gains={self.gains}, reference={self.reference}, axes={self.axes!r})"


class ContactArrays(NamedTuple):
    """A set of C contacts as kernels take it; contact c has the rows 3 c ... 3 c + 2 of forces and constraints."""

    body: np.ndarray  # (C,)
    frame: np.ndarray  # (C, FRAME) placements in the bodies
    point: np.ndarray  # (C, 3) origins in the bodies
    gains: np.ndarray  # (C, 2)
    reference: np.ndarray  # (C, 3)
    local: np.ndarray  # (C,) 1 where the force is given in the frame's axes
    pair_start: np.ndarray  # (ceil(nv / 2) + 1,) where the rows of each pair of dofs begin in pair_row
    pair_row: np.ndarray  # rows of [tau; constraints] on which dofs 2 p, 2 p + 1 act


class ContactSet:
    """Contacts that hold at the same time, checked and ready for kernels; saves time where the same set serves often.

    Parameters
    ----------
    model : RigidBodyModel
    contacts : sequence of `PointContact` on frames of the model, each frame at most once; may be empty

    Raises
    ------
    TypeError : an entry that is no contact.
    ValueError : a contact of another model, or the same frame twice.
    """

    def __init__(self, model: RigidBodyModel, contacts: Sequence[PointContact]):
        contacts = tuple(contacts)
        for i, contact in enumerate(contacts):
            if not isinstance(contact, PointContact):
                raise TypeError(f"contacts[{i}]: got {type(contact).__name__}, expected a PointContact")
            if contact.model is not model:
                raise ValueError(f"contacts[{i}]: the contact of {contact.frame!r} belongs to another model")
        frames = tuple(contact.frame for contact in contacts)
        for i, frame in enumerate(frames):
            if frame in frames[:i]:
                raise ValueError(
                    f"contacts[{i}]: frame {frame!r} is already in contact, by contacts[{frames.index(frame)}]"
                )
        self.model, self.contacts, self.frames = model, contacts, frames
        self.arrays = _arrays(model, contacts)

    @cached_property
    def at_rest(self) -> tuple[np.ndarray, ContactArrays]:
        """The model's block without gravity and the set without gains: what impulses know of both."""
        weightless = self.model.arrays._replace(gravity=np.zeros(3))
        return model_block(weightless), self.arrays._replace(gains=np.zeros((len(self), 2)))

    @cached_property
    def world_aligned(self) -> "ContactSet":
        """The same contacts, all forces in world axes."""
        return ContactSet(self.model, [replace(contact, axes=AXES[0]) for contact in self.contacts])

    def __len__(self) -> int:
        return len(self.contacts)

    def __repr__(self) -> str:
        return f"ContactSet({', '.join(repr(contact.frame) for contact in self.contacts)})"


def as_contact_set(model: RigidBodyModel, contacts: "ContactSet | Sequence[PointContact]") -> ContactSet:
    """The set itself, or one made of the contacts; errors as `ContactSet`."""
    if isinstance(contacts, ContactSet):
        if contacts.model is not model:
            raise ValueError("contacts: the set belongs to another model")
        return contacts
    return ContactSet(model, contacts)


def _arrays(model, contacts) -> ContactArrays:
    C = len(contacts)
    frames = [frame_numbers(model, contact.frame) for contact in contacts]
    body = np.array([body for body, _ in frames], dtype=np.int64)
    frame = np.array([frame for _, frame in frames]).reshape(C, FRAME)
    references = [np.zeros(3) if contact.reference is None else contact.reference for contact in contacts]
    return ContactArrays(
        body,
        frame,
        np.ascontiguousarray(frame[:, 9:]),
        np.array([contact.gains for contact in contacts]).reshape(C, 2),
        np.array(references).reshape(C, 3),
        np.array([reference_code(contact.axes) == LOCAL for contact in contacts], dtype=np.int64),
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
