"""What is seen of a robot: surfaces of its bodies, as they are or with few triangles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.spatial import ConvexHull, QhullError

from dynamics.geometry.capsules import outermost
from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import Mesh
from dynamics.geometry.triangles import MeshError, Triangles, surface
from dynamics.model import RigidBodyModel
from dynamics.simd.caller import first_few, warn

CORNERS = 80
"""Directions along which a mesh keeps its outermost corner, where few triangles are wanted."""
FEW_TURN, FEW_ROWS = 12, 6
"""Corners of a circle and rows of a ball there."""
COLORS = 12
"""A mesh of more colours is shown in their mean."""


class Solid(NamedTuple):
    """A closed surface of one colour on a moving body, or one that bends with several."""

    body: int | np.ndarray  # -1 for what never moves; of what bends (V,), that of each vertex
    vertices: np.ndarray  # (V, 3), m, axes of the body
    faces: np.ndarray  # (F, 3) indices of corners, in the order that faces outwards
    color: tuple[float, float, float, float] | None  # red, green, blue and opacity, 0 to 1
    label: str = ""  # what legends call it; nothing of what needs no name


def solids(model: RigidBodyModel, fine: bool = True) -> tuple[Solid, ...]:
    """Surfaces of the visual shapes of each link; of its collision shapes where it has none that can be read.

    With `fine`, meshes are as their files have them, else the hulls of their outermost corners, for pictures that are
    drawn triangle by triangle.  Meshes that cannot be read are named in one warning.
    """
    by_link: dict[str, dict[str, list[Geometry]]] = {}
    for geometry in model.geometries:
        by_link.setdefault(geometry.link, {}).setdefault(geometry.purpose, []).append(geometry)
    found: list[Solid] = []
    unread: list[str] = []
    for shapes in by_link.values():
        for purpose in ("visual", "collision"):
            seen = list(_seen(shapes.get(purpose, ()), fine, unread))
            found += seen
            if seen:
                break
    if unread:
        warn(f"shapes that cannot be shown: {first_few(unread)}")
    return tuple(found)


def _seen(geometries: Iterable[Geometry], fine: bool, unread: list[str]) -> Iterator[Solid]:
    for geometry in geometries:
        try:
            found = surface(geometry.shape) if fine else surface(geometry.shape, FEW_TURN, FEW_ROWS)
        except MeshError as error:
            unread.append(str(error))
            continue
        if found is None or (geometry.color is not None and geometry.color[3] == 0.0):
            continue
        if not fine and isinstance(geometry.shape, Mesh):
            found = _hull(found)
        for faces, color in _by_color(found, geometry.color):
            yield Solid(geometry.body, found.vertices @ geometry.R.T + geometry.p, faces, color)


def _hull(mesh: Triangles) -> Triangles:
    """The convex hull of a mesh's outermost corners, in its mean colour; the mesh itself if it is flat."""
    points = outermost(mesh.vertices, CORNERS)
    try:
        hull = ConvexHull(points)
    except QhullError:
        return mesh
    corners = points[hull.simplices]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inwards = np.einsum("ij,ij->i", normals, hull.equations[:, :3]) < 0.0
    faces = np.where(inwards[:, None], hull.simplices[:, ::-1], hull.simplices)
    colors = None if mesh.colors is None else np.tile(_mean(mesh.colors), (len(faces), 1))
    return Triangles(points, faces, colors)


def _mean(colors: np.ndarray) -> np.ndarray:
    return colors.astype(float).mean(axis=0).round().astype(np.uint8)


def _by_color(
    mesh: Triangles, color: tuple[float, float, float, float] | None
) -> Iterator[tuple[np.ndarray, tuple[float, float, float, float] | None]]:
    """Faces and what colour they have: the one that is given, else that of the file."""
    if color is not None or mesh.colors is None:
        yield mesh.faces, color
        return
    kinds, kind = np.unique(mesh.colors, axis=0, return_inverse=True)
    if len(kinds) > COLORS:
        kinds, kind = _mean(mesh.colors)[None], np.zeros(len(mesh.faces), dtype=int)
    for i, rgba in enumerate(kinds / 255.0):
        r, g, b, a = rgba.tolist()
        yield mesh.faces[kind.ravel() == i], (r, g, b, a)
