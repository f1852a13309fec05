"""Pictures of a robot: the lines of its skeleton, and the solids of its bodies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import frame_placement
from dynamics.geometry.capsules import outermost
from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import Mesh
from dynamics.geometry.triangles import MeshError, Triangles, surface
from dynamics.model.joints import FREE_FLYER, PLANAR, TRANSLATION
from dynamics.model.model import RigidBodyModel
from dynamics.simd.caller import first_few, warn
from dynamics.validation import as_batch

# --------------------------------------------------------------------------------------------
# Line segments that represent a robot in a picture.

LOOSE = (FREE_FLYER, PLANAR, TRANSLATION)
"""Joint types that leave a body without a fixed point in the world to be drawn from."""


def skeleton(model: RigidBodyModel, q: ArrayLike) -> np.ndarray:
    """Segments (K, segments, 2, 3), m, in the world at configurations q (K, nq), for `trajopt.animate`.

    There is one from every body's origin to each child's origin and, on a body without children, to the frames fixed to
    it, or to its centre of mass if it has none elsewhere.  Bodies on the world start at the world's origin, except
    those behind a free-flyer, planar or translation joint, which start there only if nothing else is left to draw.
    Segments that have no length at any configuration are left out.  For q (nq,), K = 1.
    """
    m, joints = model.full.arrays, model.full.joints
    q, _ = as_batch("q", q, model.nq)
    K, nb = len(q), len(m.parent)
    poses = [frame_placement(model, q, name) for name in model.body_names]
    origin = [p for _, p in poses]
    segments = [(np.zeros((K, 3)) if m.parent[i] < 0 else origin[m.parent[i]], origin[i]) for i in range(nb)]
    loose = [m.parent[i] < 0 and joints[i].code in LOOSE for i in range(nb)]
    for i in set(range(nb)) - set(m.parent.tolist()):
        offsets = [model.frame(name).p for name in model.frame_names if model.frame(name).body == i]
        offsets = [p for p in offsets if np.any(p)] or [m.first_moment[i] / max(m.mass[i], 1e-300)]
        R, p = poses[i]
        segments += [(p, p + R @ offset) for offset in offsets]
        loose += [False] * len(offsets)
    lines = np.stack([np.stack(pair, axis=1) for pair in segments], axis=1)
    lengths = np.linalg.norm(lines[:, :, 1] - lines[:, :, 0], axis=-1).max(axis=0)
    seen = lengths > 1e-9
    tied = seen & ~np.array(loose)
    return lines[:, tied if tied.any() else seen]


# --------------------------------------------------------------------------------------------
# Surfaces of a robot's bodies, in full or with few triangles.

CORNERS = 80
"""Number of directions along which a mesh keeps its outermost corner in the form with few triangles."""
FEW_TURN, FEW_ROWS = 12, 6
"""Corners of a circle and rows of a ball in the form with few triangles."""
COLORS = 12
"""Number of colours above which a mesh is drawn in their mean."""


class Solid(NamedTuple):
    """A closed surface of one colour on a moving body, or one that deforms with several bodies."""

    body: int | np.ndarray  # -1 for what never moves; of a deforming surface (V,), that of each vertex
    vertices: np.ndarray  # (V, 3), m, axes of the body
    faces: np.ndarray  # (F, 3) indices of corners, in the order that faces outwards
    color: tuple[float, float, float, float] | None  # red, green, blue and opacity, 0 to 1
    label: str = ""  # name in legends; empty for none


def solids(model: RigidBodyModel, fine: bool = True) -> tuple[Solid, ...]:
    """Surfaces of the visual shapes of each link, or of its collision shapes if it has none that can be read.

    With `fine`, meshes are those of their files, else the hulls of their outermost corners, for pictures that are drawn
    triangle by triangle.  Meshes that cannot be read are named in one warning.
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
    from scipy.spatial import ConvexHull, QhullError  # which is slow to import

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
    """Faces and their colour: the given one, else that of the file."""
    if color is not None or mesh.colors is None:
        yield mesh.faces, color
        return
    kinds, kind = np.unique(mesh.colors, axis=0, return_inverse=True)
    if len(kinds) > COLORS:
        kinds, kind = _mean(mesh.colors)[None], np.zeros(len(mesh.faces), dtype=int)
    for i, rgba in enumerate(kinds / 255.0):
        r, g, b, a = rgba.tolist()
        yield mesh.faces[kind.ravel() == i], (r, g, b, a)
