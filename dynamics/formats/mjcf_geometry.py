"""The shapes of a compiled model of MuJoCo: what collides, and what is only looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from dynamics.builder import ModelBuilder
from dynamics.geometry.shapes import Box, Capsule, Cylinder, Ellipsoid, HalfSpace, Mesh, Shape, Sphere
from dynamics.links import Pose

Reader = Callable[[np.ndarray, np.ndarray], Pose]
"""From a position and a quaternion."""


def add_geoms(
    m: Any, mujoco: ModuleType, builder: ModelBuilder, bodies: list[str], names: Sequence[str], pose: Reader
) -> list[str]:
    """Add all geoms to bodies of these names; returns the names of those of kinds that are not known.

    Geoms that collide with nothing are for pictures.
    """
    lost, taken = [], set()
    for g, own in enumerate(names):
        name = own if own not in taken else f"{own}_{g}"
        taken.add(name)
        shape = _shape(m, g, mujoco.mjtGeom(m.geom_type[g]).name.removeprefix("mjGEOM_").lower())
        if shape is None:
            lost.append(own)
            continue
        material = m.geom_matid[g]
        color = np.clip(m.geom_rgba[g] if material < 0 else m.mat_rgba[material], 0.0, 1.0)
        purpose = "collision" if m.geom_contype[g] or m.geom_conaffinity[g] else "visual"
        place = pose(m.geom_pos[g], m.geom_quat[g])
        builder.add_geometry(bodies[m.geom_bodyid[g]], shape, place, purpose, name, color)
    return lost


def _shape(m: Any, g: int, kind: str) -> Shape | None:
    a, b, _ = size = m.geom_size[g]
    if kind == "mesh":
        return _mesh(m, m.geom_dataid[g])
    made: dict[str, Callable[[], Shape]] = {
        "plane": HalfSpace, "sphere": lambda: Sphere(a), "capsule": lambda: Capsule(a, (0, 0, -b), (0, 0, b)),
        "ellipsoid": lambda: Ellipsoid(size), "cylinder": lambda: Cylinder(a, 2.0 * b), "box": lambda: Box(size),
    }  # fmt: skip
    return made[kind]() if kind in made else None


def _mesh(m: Any, mesh: int) -> Mesh:
    """As compiled: scaled, its origin and axes where the geom has them."""
    vertices = m.mesh_vert[m.mesh_vertadr[mesh] :][: m.mesh_vertnum[mesh]]
    faces = m.mesh_face[m.mesh_faceadr[mesh] :][: m.mesh_facenum[mesh]]
    return Mesh(vertices=vertices.astype(float), faces=faces)
