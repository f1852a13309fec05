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
from dynamics.rods.model.rod_model import RodModel

Placed = tuple[Shape, np.ndarray, np.ndarray]
"""A shape, the direction (3,) of its z axis, its origin (3,)."""
UP, ORIGIN = np.array([0.0, 0.0, 1.0]), np.zeros(3)


def contact_shapes(model: RodModel) -> tuple[WorldShape, ...]:
    """All that links may touch, each once, what has no end as large as the robot is at q = 0."""
    _, p = link_and_section_placements(model, np.zeros(model.nq), 2)
    around = p[0]
    shapes, seen = [], []
    for contact in (each.contact for each in model.contacts):
        kind = KINDS.get(type(contact).__name__)
        if kind is None or any(contact is other for other in seen):
            continue
        seen.append(contact)
        shape, z, origin = kind(contact, around)
        hollow = getattr(contact, "inside", type(contact).__name__ == "CylinderContact")
        shapes.append(world_shape(shape, axes_along(z).T, origin, around, hollow))
    return tuple(shapes)


def _cylinder(contact: Any, around: np.ndarray) -> Placed:
    """As long as points (P, 3) along its axis."""
    axis, point = np.array(unit_axis(contact.axis)), np.asarray(contact.point, float)
    along = (around - point) @ axis
    length = max(REACH * float(np.ptp(along)), contact.radius)
    return Cylinder(contact.radius, length), axis, point + 0.5 * (along.min() + along.max()) * axis


KINDS: dict[str, Callable[[Any, np.ndarray], Placed]] = {
    "CylinderContact": _cylinder,
    "PlaneContact": lambda contact, _: (HalfSpace(), np.array(unit_axis(contact.normal)), np.asarray(contact.point)),
    "SphereContact": lambda contact, _: (Sphere(contact.radius), UP, np.asarray(contact.point, float)),
    "CapsuleContact": lambda contact, _: (Capsule(contact.radius, contact.start, contact.end), UP, ORIGIN),
}
"""Shape and place of a contact, by the name of its class, with points (P, 3) of the robot."""
