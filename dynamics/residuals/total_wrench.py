"""Zero-moment points: where on the ground the wrench of all contacts has no horizontal moment.

With F and M the total force and moment about the point (0, 0, h) of the ground, f_c and m_c those of contact c, which
is held at p_c, world axes,

    F = sum_c f_c        M = sum_c m_c + (p_c - (0, 0, h)) x f_c        z = (-M_y, M_x)/F_z

Residuals do without the division: F_z p - (-M_y, M_x) is F_z times the way from the point to p, and so has a value in
flight too.                                                                                 [Vukobratovic, Borovac 2004]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.contacts.frame_contact import FrameContact, RigidContact
from dynamics.residuals.contact_residual import (
    FORCES,
    ContactResidual,
    ForceMap,
    Frames,
    contacts_of,
    in_axes_of_frames,
    moment_blocks,
)
from dynamics.validation import as_array, as_number

if TYPE_CHECKING:
    from dynamics.residuals.contact_residual import InContact

_OF_MOMENT = np.array([[0.0, 0.0, 0.0], [0.0, -1.0, 0.0], [1.0, 0.0, 0.0]])


class _TotalWrench(ContactResidual):
    """Rows of (F_z, -M_y, M_x), N and N m, of contacts where they are to be kept."""

    height: float

    def _sum(self, system: InContact, frames: Frames, rows: np.ndarray, height: float, name: str) -> None:
        """rows (nr, 3)"""
        contact, height = contacts_of(system, frames), as_number("height", height)
        held = [system.contacts.contacts[c] for c in contact]
        feet = np.array([c for c, each in zip(contact, held, strict=True) if isinstance(each, RigidContact)], dtype=int)
        A = np.hstack([_of_force(_place(each) - [0.0, 0.0, height]) for each in held] + [_OF_MOMENT] * len(feet))
        blocks = np.concatenate([contact, moment_blocks(system.contacts, feet)])[None]
        super().__init__(system.model, name)
        self._set(height=height, system=system)
        forces = ForceMap(blocks, np.ascontiguousarray((rows @ A)[None]), np.zeros((1, len(rows))), np.zeros(3), 0.0)
        self._prepare(system, contact, in_axes_of_frames(system, False), forces)


class ZeroMomentPoint(_TotalWrench):
    """F_z p - (-M_y, M_x): the way from the zero-moment point to p = `target` times the normal force, N m.

    Contacts count where they are to be kept, at the origins of their references, not where they drifted.

    Parameters
    ----------
    system : RigidBodySystem or Impact, with contacts that have references
    target : (2,), m, p in the ground's plane
    height : of the ground's plane z = h, m
    frames : None (all contacts, in the system's order), the name of a frame in contact, or a list of them

    Raises
    ------
    ValueError : a system without contacts, a frame unknown (with the nearest matches), not in contact, named twice or
        without a reference, or an array of a wrong shape or with non-finite entries.
    TypeError : a system of another kind.

    Notes
    -----
    nr = 2.  Of forces it depends on the controls, so it has no value at the terminal knot.  A cost of weight w
    on it is that of w F_z^2 on the point itself.
    """

    kernels = FORCES
    target: np.ndarray

    def __init__(self, system: InContact, target: ArrayLike, height: float = 0.0, frames: Frames = None) -> None:
        x, y = target = as_array("target", target, (2,), copy=True)
        rows = np.array([[x, -1.0, 0.0], [y, 0.0, -1.0]])
        self._sum(system, frames, rows, height, "zero-moment point")
        self._set(target=target)


class SupportPolygon(_TotalWrench):
    """Rows that are not negative while the zero-moment point is within a convex polygon: d F_z - n.(-M_y, M_x), N m.

    One for each edge, counterclockwise, with its unit normal n out of the polygon and the distance d = n.p of its
    points p from the origin: F_z times how far the point is inside.  They stay inside as
    ``trajopt.ResidualConstraint(polygon, polygon.lower, polygon.upper)``.  Contacts count where they are to be kept,
    at the origins of their references, not where they drifted.

    Parameters
    ----------
    system : RigidBodySystem or Impact, with contacts that have references
    points : (V, 2), m, points of the ground's plane around which the polygon lies, in any order
    height : of the ground's plane z = h, m
    frames : None (all contacts, in the system's order), the name of a frame in contact, or a list of them

    Attributes
    ----------
    lower, upper : (nr,), limits of the rows, zero and infinity
    corners : (nr, 2), m, of the polygon, counterclockwise

    Raises
    ------
    ValueError : as `ZeroMomentPoint`, and for points that lie on a line.
    TypeError : a system of another kind.

    Notes
    -----
    nr is the number of edges.  Of forces it depends on the controls, so it has no value at the terminal knot.
    """

    kernels = FORCES
    corners: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def __init__(self, system: InContact, points: ArrayLike, height: float = 0.0, frames: Frames = None) -> None:
        corners = _corners(as_array("points", points, (None, 2)))
        along = np.roll(corners, -1, axis=0) - corners
        normals = np.stack([along[:, 1], -along[:, 0]], axis=1) / np.linalg.norm(along, axis=1, keepdims=True)
        rows = np.column_stack([(normals * corners).sum(axis=1), -normals])
        self._sum(system, frames, rows, height, "support polygon")
        self._set(corners=corners, lower=np.zeros(len(rows)), upper=np.full(len(rows), np.inf))


def zero_moment_point(system: Any, xs: ArrayLike, us: ArrayLike, height: float = 0.0) -> np.ndarray:
    """The point of the ground's plane about which the contacts' wrenches have no horizontal moment, for pictures.

    Contacts count where they are, closed loops do not.

    Parameters
    ----------
    system : RigidBodySystem or HybridSystem, with contacts
    xs : (N, nx) or (N+1, nx);  us : (N, nu)
    height : of the ground's plane z = h, m

    Returns
    -------
    z : (N, 2), m; NaN, a gap in a picture, where nothing presses on the ground: F_z <= 0, as in flight and at impacts

    Raises
    ------
    TypeError : a system that has no contact forces.
    ValueError : arrays of a wrong shape or with non-finite entries.
    """
    if not hasattr(system, "contact_forces"):
        raise TypeError(f"system: got {type(system).__name__}, expected a RigidBodySystem or HybridSystem")
    xs, us = as_array("xs", xs, (None, system.nx)), as_array("us", us, (None, system.nu))
    height, forces = as_number("height", height), system.contact_forces(xs, us)
    frames = system.model.frame_names
    held = [i for i, frame in enumerate(system.contact_frames) if frame in frames]
    arms = system.contact_points(xs[: len(forces)])[:, held] - [0.0, 0.0, height]
    f, m = forces[:, held], system.contact_moments(xs, us)[:, held]
    F, M = f.sum(axis=1), (m + np.cross(arms, f)).sum(axis=1)
    z = np.full((len(F), 2), np.nan)
    return np.divide(np.stack([-M[:, 1], M[:, 0]], axis=1), F[:, 2:], out=z, where=F[:, 2:] > 0.0)


def _place(contact: FrameContact) -> np.ndarray:
    """Where the frame's origin is to be kept (3,)."""
    if contact.reference is None:
        raise ValueError(f"frames: the contact of {contact.frame!r} has no reference, expected where it is held")
    return contact.pose[1]


def _of_force(arm: np.ndarray) -> np.ndarray:
    """(F_z, -M_y, M_x) of a force, (3, 3)."""
    x, y, z = arm
    return np.array([[0.0, 0.0, 1.0], [-z, 0.0, x], [0.0, -z, y]])


def _corners(points: np.ndarray) -> np.ndarray:
    """Those of the convex hull, counterclockwise; ValueError for points on a line."""
    from scipy.spatial import ConvexHull, QhullError  # which is slow to import

    try:
        return points[ConvexHull(points).vertices]
    except (QhullError, ValueError):
        raise ValueError(f"points: got {points.tolist()}, expected at least three that are not on a line") from None
