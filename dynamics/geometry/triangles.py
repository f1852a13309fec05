"""Triangles of shapes, for pictures and for capsules fitted around meshes; mesh files are read by trimesh."""

from __future__ import annotations

import os
import warnings
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from dynamics.distribution import how_to_install
from dynamics.geometry.shapes import Box, Capsule, Cylinder, Ellipsoid, Mesh, Shape, Sphere

MESH_FORMATS = (".stl", ".obj", ".dae", ".ply", ".off", ".glb", ".gltf")
"""File name extensions that are read as meshes; archives, which may unpack to any size, are not."""
LARGEST_FILE = 2**28
"""Largest size of a mesh file in bytes, 256 MiB; the largest mesh of example-robot-data 5.0 has 27 MiB."""
TURN, ROWS = 32, 16
"""Number of corners of a circle, and of rows of a sphere from pole to pole."""


class Triangles(NamedTuple):
    """A surface in the axes of a shape, in metres."""

    vertices: np.ndarray  # (V, 3)
    faces: np.ndarray  # (F, 3) indices of corners, in the order that faces outwards
    colors: np.ndarray | None  # (F, 4) uint8, red, green, blue and opacity, where a file gives them


class MeshError(Exception):
    """A mesh that cannot be read; the message names the file and the reason."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


def surface(shape: Shape, turn: int = TURN, rows: int = ROWS) -> Triangles | None:
    """The surface of a shape; None for a half-space, which is unbounded.  Round shapes have `turn` corners per circle
    and `rows` rows per sphere, an even number.

    Raises `MeshError` for a mesh whose file is missing or cannot be read.
    """
    if isinstance(shape, Mesh):
        return mesh_triangles(shape)
    if isinstance(shape, Box):
        signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        faces = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
        corners = (signs * shape.half_extents)[np.array(faces)].reshape(-1, 3)  # not shared: edges stay sharp
        first = 4 * np.arange(6)[:, None]
        return Triangles(corners, np.concatenate([first + [0, 1, 2], first + [0, 2, 3]]), None)
    angles = np.linspace(-0.5 * np.pi, 0.5 * np.pi, rows + 1)
    radii, heights = np.cos(angles), np.sin(angles)
    if isinstance(shape, Sphere):
        return _revolved(shape.radius * radii, shape.radius * heights, turn)
    if isinstance(shape, Ellipsoid):
        ball = _revolved(radii, heights, turn)
        return ball._replace(vertices=ball.vertices * shape.semi_axes)
    if isinstance(shape, Cylinder):
        radii, ends = shape.radius * np.array([0, 1, 1, 1, 1, 0]), 0.5 * shape.length * np.array([-1, -1, -1, 1, 1, 1])
        return _revolved(radii, ends, turn)
    if isinstance(shape, Capsule):
        start, along = np.asarray(shape.start), np.asarray(shape.end) - shape.start
        both = np.r_[0 : rows // 2 + 1, rows // 2 : rows + 1]
        lift = np.linalg.norm(along) * (np.arange(len(both)) > rows // 2)
        tube = _revolved(shape.radius * radii[both], shape.radius * heights[both] + lift, turn)
        return tube._replace(vertices=tube.vertices @ axes_along(along) + start)
    return None


def axes_along(z: np.ndarray) -> np.ndarray:
    """Orthonormal axes (3, 3), as rows, the last along z (3,); arbitrary if z is zero."""
    length = np.linalg.norm(z)
    z = z / length if length > 0.0 else np.array([0.0, 0.0, 1.0])
    x = np.cross(np.eye(3)[np.abs(z).argmin()], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z])


def _revolved(radii: np.ndarray, heights: np.ndarray, turn: int) -> Triangles:
    """Surface of circles about z with these radii and heights, in rising order, each joined to the next."""
    angles = np.linspace(0.0, 2.0 * np.pi, turn, endpoint=False)
    circles = radii[:, None, None] * np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=1)
    circles[..., 2] += heights[:, None]
    low = np.arange(len(radii) * turn).reshape(-1, turn)[:-1]
    after = np.roll(low, -1, axis=1)
    faces = [np.stack([low, after, after + turn], -1), np.stack([low, after + turn, low + turn], -1)]
    return Triangles(circles.reshape(-1, 3), np.concatenate(faces).reshape(-1, 3), None)


def mesh_triangles(mesh: Mesh) -> Triangles:
    """The triangles of a mesh, scaled; those of a file are cached as long as it does not change.

    Raises `MeshError` if the file is missing, larger than 256 MiB, of no known format or cannot be read, or without
    trimesh.
    """
    if mesh.path is None:
        found = Triangles(np.asarray(mesh.vertices), np.asarray(mesh.faces), None)
    else:
        state = mesh_file(mesh.path)
        found = _read(mesh.path, state.st_mtime_ns, state.st_size)
    scale = np.asarray(mesh.scale)
    faces = found.faces[:, ::-1] if scale.prod() < 0.0 else found.faces
    return found._replace(vertices=found.vertices * scale, faces=faces)


def mesh_file(path: str) -> os.stat_result:
    """File status of a mesh's file; MeshError if it is missing, too large, or of an unsupported format."""
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        raise MeshError(f"mesh {path[:300]!r}: there is no such file") from None
    if not path.lower().endswith(MESH_FORMATS):
        raise MeshError(f"mesh {path!r}: expected a file that ends in one of {', '.join(MESH_FORMATS)}")
    if state.st_size > LARGEST_FILE:
        size, most = (f"{number / 2**20:.0f} MiB" for number in (state.st_size, LARGEST_FILE))
        raise MeshError(f"mesh {path!r}: got a file of {size}, expected at most {most}")
    return state


@lru_cache(maxsize=256)
def _read(path: str, *_: int) -> Triangles:
    try:
        trimesh: Any = import_module("trimesh")
    except ImportError as error:
        raise MeshError(f"mesh {path!r}: reading it needs trimesh: {how_to_install('robots')}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the file is read despite the warnings
            parts = trimesh.load_scene(path, process=False).dump()
    except Exception as error:  # readers of damaged files raise anything
        raise MeshError(f"mesh {path!r}: cannot be read, {type(error).__name__}: {error}"[:500]) from error
    parts = [part for part in parts if hasattr(part, "faces") and len(part.faces)]
    vertices = [np.asarray(part.vertices, dtype=float) for part in parts]
    if not parts or not all(np.isfinite(v).all() for v in vertices):
        got = "no triangle" if not parts else "coordinates that are not finite"
        raise MeshError(f"mesh {path!r}: got {got}, expected triangles")
    first = np.cumsum([0, *map(len, vertices[:-1])])
    faces = np.concatenate([np.asarray(part.faces) + start for part, start in zip(parts, first, strict=True)])
    colors = [_colors(part) for part in parts]
    grey = [np.tile(np.array([160, 160, 160, 255], np.uint8), (len(part.faces), 1)) for part in parts]
    known = any(color is not None for color in colors)
    joined = np.concatenate([g if c is None else c for c, g in zip(colors, grey, strict=True)]) if known else None
    return Triangles(np.concatenate(vertices), faces, joined)


def _colors(part: Any) -> np.ndarray | None:
    """Colours (F, 4) of a part of a scene: from its material, its texture, its own colours, or None."""
    material = getattr(part.visual, "material", None)
    if material is None:
        return np.asarray(part.visual.face_colors) if part.visual.defined else None
    image = getattr(material, "image", None) or getattr(material, "baseColorTexture", None)
    if image is not None and part.visual.uv is not None:
        corners = np.asarray(part.visual.to_color().vertex_colors, dtype=float)
        return corners[np.asarray(part.faces)].mean(axis=1).astype(np.uint8)
    return np.tile(np.asarray(material.main_color, dtype=np.uint8), (len(part.faces), 1))
