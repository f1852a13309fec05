"""What a soft robot may touch, as pictures show it; a kind of contact is a line of KINDS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.geometry.shapes import Capsule, Cylinder, HalfSpace, Shape, Sphere
from dynamics.geometry.triangles import axes_along
from dynamics.geometry.world_shape import REACH, WorldShape, world_shape
from dynamics.joints import unit_axis
from dynamics.rods.kinematics.center_lines import link_and_section_placements
from dynamics.rods.loads.contacts import CapsuleContact, Contact, CylinderContact, PlaneContact, SphereContact
from dynamics.rods.model.rod_model import RodModel

Placed = tuple[Shape, np.ndarray, np.ndarray]
"""A shape, and R (3, 3) and p (3,) of its axes."""


def contact_shapes(model: RodModel) -> tuple[WorldShape, ...]:
    """All that links may touch and that stands still, each once, what has no end as large as the robot is at q = 0."""
    _, p = link_and_section_placements(model, np.zeros(model.nq), 2)
    around = p[0]
    shapes, seen = [], []
    for contact in (each.contact for each in model.contacts):
        kind = KINDS.get(type(contact))
        if kind is None or getattr(contact, "link", None) is not None or any(contact is other for other in seen):
            continue
        seen.append(contact)
        shape, R, p = kind(contact, around)
        shapes.append(world_shape(shape, R, p, around, getattr(contact, "inside", False)))
    return tuple(shapes)


def _cylinder(contact: Any, around: np.ndarray) -> Placed:
    """As long as points (P, 3) along its axis."""
    axis, point = np.array(unit_axis(contact.axis)), np.asarray(contact.point, float)
    along = (around - point) @ axis
    length = max(REACH * float(np.ptp(along)), contact.radius)
    return Cylinder(contact.radius, length), axes_along(axis).T, point + 0.5 * (along.min() + along.max()) * axis


KINDS: dict[type[Contact], Callable[[Any, np.ndarray], Placed]] = {
    CylinderContact: _cylinder,
    PlaneContact: lambda c, _: (HalfSpace(), axes_along(np.array(unit_axis(c.normal))).T, np.asarray(c.point)),
    SphereContact: lambda c, _: (Sphere(c.radius), np.eye(3), np.asarray(c.point)),
    CapsuleContact: lambda c, _: (Capsule(c.radius, c.start, c.end), np.eye(3), np.zeros(3)),
}
"""Shape and place of a contact, with points (P, 3) of the robot."""
