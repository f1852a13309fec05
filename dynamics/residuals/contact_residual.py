"""What residuals of contact forces share: the contacts they are about, and the methods of a residual r(x, u).

At an `Impact` they are about the impulses, which depend on the state alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from dynamics.contacts.contact_arrays import ContactArrays
from dynamics.contacts.contact_set import ContactSet
from dynamics.contacts.frame_contact import FrameContact
from dynamics.contacts.loop_arrays import LoopArrays
from dynamics.residuals.force_lanes import TOGETHER, ForceKernels
from dynamics.residuals.force_map import ForceMap
from dynamics.residuals.robot_residual import HESSIAN, JACOBIAN, RobotResidual
from dynamics.simd import chunk_count, launch
from dynamics.subject import Subject
from dynamics.validation import as_array, as_items

if TYPE_CHECKING:
    from dynamics.systems.impact import Impact
    from dynamics.systems.rigid_body import RigidBodySystem

    InContact = RigidBodySystem | Impact

Frames = str | Sequence[str] | None
"""Names of frames in contact, or None for all."""


def contacts_of(system: InContact, frames: Frames) -> np.ndarray:
    """Places (S,) of the frames in the system's set of contacts; None for all of them.

    Raises: TypeError for a system that can have no contacts; ValueError if it has none, or for a frame that the model
    does not know, that is not in contact, or that comes twice, and for no frames.
    """
    if getattr(system, "contact_arrays", None) is None:
        raise TypeError(f"system: got {type(system).__name__}, expected a RigidBodySystem with contacts or an Impact")
    if system.pushing is not None:
        raise ValueError("system: has actuators on frames, which residuals of contact forces do not take")
    contacts = system.contacts
    if len(contacts) == 0:
        raise ValueError("system: has no contacts, expected a RigidBodySystem with at least one")
    held = [contact.frame for contact in contacts.contacts]
    touching = [contact.frame for contact in contacts.contacts if isinstance(contact, FrameContact)]
    names = touching if frames is None else [frames] if isinstance(frames, str) else as_items("frames", frames, "names")
    for i, name in enumerate(names):
        system.model.frame(name)
        if name not in touching:
            raise ValueError(f"frames: {name!r} is not in contact, expected frames among {', '.join(touching)}")
        if name in names[:i]:
            raise ValueError(f"frames: got {name!r} twice")
    if not names:
        raise ValueError("frames: got none, expected the names of frames in contact, or None for all of them")
    return np.array([held.index(name) for name in names], dtype=np.int64)


def feet_of(system: InContact, frames: Frames) -> np.ndarray:
    """Places (S,) of frames held as `RigidContact`s; None for all that are.

    Raises: as `contacts_of`, and ValueError for a frame of which a point is held, or if no contact is rigid.
    """
    contact = contacts_of(system, frames)
    held, rigid = system.contacts.frames, system.contacts.rigid
    points = [held[c] for c in contact if c not in rigid]
    if frames is None and len(points) < len(contact):
        return np.array([c for c in contact if c in rigid], dtype=np.int64)
    if points:
        raise ValueError(f"frames: {points[0]!r} is held at a point, expected RigidContacts, which carry moments")
    return contact


def moment_blocks(contacts: ContactSet, contact: np.ndarray) -> np.ndarray:
    """The blocks (S,) of rows that are the moments of these contacts, all of them rigid."""
    return np.array([len(contacts) + contacts.rigid.index(c) for c in contact], dtype=np.int64)


def in_axes_of_frames(system: InContact, own: bool) -> ContactArrays | LoopArrays:
    """The system's arrays, all forces and moments of its contacts along the axes of their frames, or of the world."""
    contacts, local = system.contacts, np.zeros_like(system.contact_arrays.local)
    local[: sum(isinstance(held, FrameContact) for held in contacts.contacts) + len(contacts.rigid)] = own
    return system.contact_arrays._replace(local=local)


def normal_limits(least: float | None, most: float | None) -> tuple[float, float]:
    """Limits of a normal force: 0 and infinity where they are None; ValueError unless numbers in this order."""
    lower = 0.0 if least is None else float(as_array("min_normal_force", least, ()))
    upper = np.inf if most is None else float(as_array("max_normal_force", most, ()))
    if upper <= lower:
        raise ValueError(f"max_normal_force: got {upper}, expected more than the least, {lower}")
    return lower, upper


class ContactResidual(RobotResidual):
    """Base of the residuals r(x, u) made of the contact forces of one system, that is of one set of contacts.

    They have no value without controls, as at a terminal knot.  Each evaluation solves contact dynamics once.  Those of
    an impact are residuals r(x) of the impulses, N s and N m s in place of N and N m.
    """

    kernels: ClassVar[ForceKernels]
    reads_dynamics = True
    nu: int | None
    curved_in_controls: bool
    frames: tuple[str, ...]
    _forces: ForceMap
    _contacts: ContactArrays | LoopArrays
    _block: np.ndarray
    _B: np.ndarray
    _skip: int
    _restitution: float | None
    _numbers: int
    _subject: Subject

    def _prepare(
        self, system: InContact, contact: np.ndarray, contacts: ContactArrays | LoopArrays, forces: ForceMap
    ) -> None:
        """Keep what the drivers need: the contacts, whose `local` says in which axes forces count, and r of them."""
        (B, skip, _), nu, restitution = system.actuation, system.nu, system.restitution
        if restitution is not None:
            B, skip, nu = np.empty((len(B), 0)), -1, None
        held = system.contacts.contacts
        nr = forces.b.size
        numbers = self.kernels.numbers(system.model, system.contacts, B.shape[1], forces.blocks, nr)
        self._set(nr=nr, nu=nu, frames=tuple(held[c].frame for c in contact), curved_in_controls=nu is not None)
        self._set(_block=system.plant_model.block, _B=B, _skip=skip, _restitution=restitution)
        self._set(_forces=forces, _contacts=contacts, _numbers=numbers, _subject=system.serves[-1])

    @property
    def made_for(self) -> Subject:
        """The robot with its actuation and its contacts."""
        return self._subject

    def _points(self, xs: ArrayLike, us: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
        if us is None and self.nu is not None:
            given = len(np.atleast_1d(xs))
            raise ValueError(f"us: got None, expected ({given}, {self.nu}): {self.name} depend on the controls")
        return super()._points(xs, us)

    def _expand(self, weights, start, stop, order, xs, us, rows, target, curvature):
        if self.nu is not None and stop > len(us):
            raise ValueError(f"us: got {len(us)} rows, expected {stop}: {self.name} depend on the controls")
        if order == JACOBIAN | HESSIAN and target is curvature:
            order |= TOGETHER
        plant = self._block, self._contacts, self._forces, self._B, self._skip, self._restitution
        values = np.zeros(chunk_count(stop))
        where = values, rows, tuple(target), tuple(curvature[2:])
        launch(self.kernels.drive, stop - start, self._numbers, *plant, weights, start, stop, order, xs, us, *where)
        return float(values.sum())
