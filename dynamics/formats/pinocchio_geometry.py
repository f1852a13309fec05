"""The shapes of a geometry model of Pinocchio, as wrappers of robots carry them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dynamics.builder import ModelBuilder
from dynamics.geometry.shapes import Box, Capsule, Cylinder, Ellipsoid, HalfSpace, Mesh, Shape, Sphere
from dynamics.links import Pose, compose
from dynamics.simd.caller import warn


def add_geometry_objects(wrapper: Any, builder: ModelBuilder, held: Mapping[int, str]) -> None:
    """Add what a wrapper has in `collision_model` and `visual_model` to the bodies held by joints of these numbers."""
    taken, lost = set(), []
    for purpose in ("collision", "visual"):
        model = getattr(wrapper, f"{purpose}_model", None)
        for item in () if model is None else model.geometryObjects:
            found = _shape(item)
            if found is None:
                lost.append(item.name)
                continue
            shape, inner = found
            name = item.name if item.name not in taken else f"{item.name}_{purpose}"
            taken.add(name)
            place = compose((np.array(item.placement.rotation), np.array(item.placement.translation)), inner)
            color = np.clip(np.array(item.meshColor, dtype=float), 0.0, 1.0) if purpose == "visual" else None
            builder.add_geometry(held[item.parentJoint], shape, place, purpose, name, color)
    if lost:
        warn(f"Pinocchio geometry: shapes of kinds that are not known here are left out: {', '.join(lost)}")


def _shape(item: Any) -> tuple[Shape, Pose] | None:
    """A shape and where it lies in the object's axes."""
    shape, R, p = item.geometry, np.eye(3), np.zeros(3)
    kind = type(shape).__name__
    if item.meshPath and (kind.startswith("BVHModel") or kind in ("Convex", "ConvexBase", "CollisionGeometry")):
        return Mesh(item.meshPath, np.array(item.meshScale, dtype=float)), (R, p)
    if kind == "Halfspace":
        normal = np.array(shape.n)
        across = np.linalg.svd(normal[None])[2][1:]
        across[0] *= np.sign(np.linalg.det(np.vstack([across, normal])))
        return HalfSpace(), (np.vstack([across, normal]).T, float(shape.d) * normal)
    made = {
        "Sphere": lambda: Sphere(shape.radius), "Box": lambda: Box(np.array(shape.halfSide)),
        "Cylinder": lambda: Cylinder(shape.radius, 2.0 * shape.halfLength),
        "Capsule": lambda: Capsule(shape.radius, (0, 0, -shape.halfLength), (0, 0, shape.halfLength)),
        "Ellipsoid": lambda: Ellipsoid(np.array(shape.radii)),
    }  # fmt: skip
    return (made[kind](), (R, p)) if kind in made else None
