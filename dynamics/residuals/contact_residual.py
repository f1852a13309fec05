"""What residuals of contact forces share: the contacts they are about, and the methods of a residual r(x, u)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from dynamics.contacts.contact_set import ContactArrays
from dynamics.residuals.force_lanes import PRODUCTS, TOGETHER, drive_force_squares, drive_forces, force_numbers
from dynamics.residuals.force_map import ForceMap
from dynamics.residuals.robot_residual import (
    HESSIAN,
    JACOBIAN,
    NO_BLOCKS,
    NO_ROWS,
    NO_TARGET,
    VALUE,
    RobotResidual,
    knots,
)
from dynamics.simd import chunk_count, launch
from dynamics.subject import Subject
from dynamics.validation import as_items

if TYPE_CHECKING:
    from dynamics.systems.rigid_body import RigidBodySystem

Frames = str | Sequence[str] | None


def contacts_of(system: RigidBodySystem, frames: Frames) -> np.ndarray:
    """Places (S,) of the frames in the system's set of contacts; None for all of them.

    Raises: TypeError for a system that can have no contacts; ValueError if it has none, or for a frame that the model
    does not know, that is not in contact, or that comes twice, and for no frames.
    """
    if getattr(system, "contact_arrays", None) is None:
        raise TypeError(f"system: got {type(system).__name__}, expected a RigidBodySystem with contacts")
    contacts = system.contacts
    if len(contacts) == 0:
        raise ValueError("system: has no contacts, expected a RigidBodySystem with at least one")
    held = [contact.frame for contact in contacts.contacts]
    names = held if frames is None else [frames] if isinstance(frames, str) else as_items("frames", frames, "names")
    for i, name in enumerate(names):
        system.model.frame(name)
        if name not in held:
            raise ValueError(f"frames: {name!r} is not in contact, expected frames among {', '.join(held)}")
        if name in names[:i]:
            raise ValueError(f"frames: got {name!r} twice")
    if not names:
        raise ValueError("frames: got none, expected the names of frames in contact, or None for all of them")
    return np.array([held.index(name) for name in names], dtype=np.int64)


class ContactResidual(RobotResidual):
    """Base of the residuals r(x, u) made of the contact forces of one system, that is of one set of contacts.

    Arrays hold K knots, nx = nq + nv, ndx = 2 nv.  States and controls are checked for their shape only.  Each
    evaluation solves contact dynamics once.
    """

    nu: int
    frames: tuple[str, ...]
    _forces: ForceMap
    _contacts: ContactArrays
    _block: np.ndarray
    _B: np.ndarray
    _skip: int
    _numbers: int
    _subject: Subject

    def _prepare(self, system: RigidBodySystem, contacts: ContactArrays, forces: ForceMap) -> None:
        """Keep what the drivers need: the contacts, whose `local` says in which axes forces count, and r of them."""
        B, skip = system.actuation
        held = system.contacts.contacts
        nr = forces.b.size
        numbers = force_numbers(system.model, system.contacts, system.nu, len(forces.contact), nr)
        self._set(nr=nr, nu=system.nu, frames=tuple(held[c].frame for c in forces.contact))
        self._set(_block=system.plant_model.block, _B=B, _skip=skip)
        self._set(_forces=forces, _contacts=contacts, _numbers=numbers, _subject=system.serves[-1])

    @property
    def made_for(self) -> Subject:
        """The robot with its actuation and its contacts."""
        return self._subject

    @property
    def _plant(self):
        return self._block, self._contacts, self._forces, self._B, self._skip

    def _points(self, xs: ArrayLike, us: ArrayLike | None) -> tuple[np.ndarray, np.ndarray]:
        xs = knots("xs", xs, self.nx)
        if us is None:
            raise ValueError(f"us: got None, expected ({len(xs)}, {self.nu}): {self.name} depend on the controls")
        return xs, knots("us", us, self.nu, len(xs))

    def evaluate(self, xs: ArrayLike, us: ArrayLike | None = None) -> np.ndarray:
        """Residuals.

        Parameters: xs (K, nx), us (K, nu).  Returns: r (K, nr).
        Raises: ValueError for a wrong shape or without controls, as at a terminal knot; the methods below too.
        """
        xs, us = self._points(xs, us)
        r = np.empty((len(xs), self.nr))
        launch(drive_forces, len(xs), self._numbers, *self._plant, VALUE, xs, us, r, NO_BLOCKS, NO_BLOCKS)
        return r

    def jacobians(self, xs: ArrayLike, us: ArrayLike | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Jacobians along the tangent [dq; dv] and the controls.

        Parameters: xs (K, nx), us (K, nu).  Returns: rx (K, nr, ndx), ru (K, nr, nu).
        """
        return self._linearize(xs, us, NO_ROWS)

    def evaluate_with_jacobians(
        self, xs: ArrayLike, us: ArrayLike | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Residuals and Jacobians in one pass: r (K, nr), rx (K, nr, ndx), ru (K, nr, nu)."""
        r = np.empty((len(np.atleast_1d(xs)), self.nr))
        return r, *self._linearize(xs, us, r)

    def _linearize(self, xs, us, r):
        xs, us = self._points(xs, us)
        rx, ru = np.empty((len(xs), self.nr, self.ndx)), np.empty((len(xs), self.nr, self.nu))
        launch(drive_forces, len(xs), self._numbers, *self._plant, JACOBIAN, xs, us, r, rx, ru)
        return rx, ru

    def hessian_products(
        self, xs: ArrayLike, us: ArrayLike | None, mu: ArrayLike
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Hessians of mu'r in exponential coordinates, symmetric.

        Parameters: xs (K, nx), us (K, nu), mu (K, nr).
        Returns: Hxx (K, ndx, ndx), Hux (K, nu, ndx), Huu (K, nu, nu), the last one zero but for second-order cones.
        """
        xs, us = self._points(xs, us)
        K, ndx, nu = len(xs), self.ndx, self.nu
        mu = knots("mu", mu, self.nr, K)
        H = np.zeros((K, ndx, ndx)), np.zeros((K, nu, ndx)), np.zeros((K, nu, nu))
        self._expand(mu, 0, K, HESSIAN | PRODUCTS, xs, us, NO_TARGET, H)
        return H

    def _squares(self, weights, start, stop, order, xs, us, target, curvature) -> float:
        us = knots("us", us, self.nu)
        if stop > len(us):
            raise ValueError(f"us: got {len(us)} rows, expected {stop}: {self.name} depend on the controls")
        if order == JACOBIAN | HESSIAN and target is curvature:
            order |= TOGETHER
        return self._expand(weights, start, stop, order, xs, us, target, curvature[2:])

    def _expand(self, weights, start, stop, order, xs, us, target, hessians) -> float:
        values = np.zeros(chunk_count(stop - start))
        points = weights, start, stop, order, xs, us, values
        launch(drive_force_squares, stop - start, self._numbers, *self._plant, *points, *target, *hessians)
        return float(values.sum())
