"""Surroundings of a robot for pictures of `trajopt`: lines and surfaces of shapes, and targets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.geometry.shapes import Box, Cylinder, HalfSpace, Mesh, Shape
from dynamics.geometry.triangles import Triangles, surface

TURN, ROWS, MERIDIANS = 24, 6, 8
"""Number of corners of a circle, of rows of a sphere and of its meridians, in line drawings."""
CELLS = 8
"""Number of cells, per side, of the grid that represents a plane."""
REACH = 1.2
"""Size of this grid relative to the robot's."""
EDGES, BENT = 1000, 0.02
"""Most edges drawn of a mesh, those with the largest dihedral angles, and the least such angle, rad."""


class WorldShape(NamedTuple):
    """A shape that never moves, with the members of `trajopt.problem.scenery.Shape`."""

    segments: np.ndarray  # (S, 2, 3), m, world axes
    triangles: tuple[np.ndarray, np.ndarray] | None = None  # corners (V, 3), and indices (F, 3) of these
    target: bool = False

    def lines(self) -> np.ndarray:
        """The segments (S, 2, 3), m."""
        return self.segments

    def surface(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The triangles: corners (V, 3), m, and faces (F, 3)."""
        return self.triangles


def world_shape(shape: Shape, R: np.ndarray, p: np.ndarray, around: np.ndarray, hollow: bool = False) -> WorldShape:
    """A shape whose axes are at (R, p) in the world; a half-space becomes a square near the points `around` (P, 3), of
    about their extent.  A hollow shape, with the robot inside, has lines alone.

    Raises `MeshError` for a mesh that cannot be read.
    """
    if isinstance(shape, HalfSpace):
        middle = 0.5 * (around.min(axis=0) + around.max(axis=0))
        p = middle - ((middle - p) @ R[:, 2]) * R[:, 2]
        ends = np.linspace(-1.0, 1.0, CELLS + 1) * REACH * (np.linalg.norm(around - middle, axis=1).max() or 1.0)
        across = np.array([[[x, ends[0], 0.0], [x, ends[-1], 0.0]] for x in ends])
        lines = np.concatenate([across, across[:, :, [1, 0, 2]]])
        corners = np.array([[x, y, 0.0] for x in ends[[0, -1]] for y in ends[[0, -1]]])
        faces = np.array([[0, 2, 3], [0, 3, 1]])
    elif isinstance(shape, Box):
        signs = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
        edges = [(a, b) for a in range(8) for b in range(a) if np.abs(signs[a] - signs[b]).sum() == 2.0]
        lines = (signs * shape.half_extents)[np.array(edges)]
        corners, faces, _ = _surface(shape)
    elif isinstance(shape, Mesh):
        corners, faces, _ = _surface(shape)
        lines = corners[_edges(corners, faces)]
    else:
        rings = _surface(shape, TURN, ROWS).vertices.reshape(-1, TURN, 3)  # and the poles
        if isinstance(shape, Cylinder):
            circles = rings = rings[2:4]  # the rims, which are there twice
        else:
            circles = rings[1:-1]
        along = rings[:, :: TURN // MERIDIANS]
        around = np.stack([circles, np.roll(circles, -1, axis=1)], axis=2).reshape(-1, 2, 3)
        lines = np.concatenate([around, np.stack([along[:-1], along[1:]], axis=2).reshape(-1, 2, 3)])
        corners, faces, _ = _surface(shape)
    return WorldShape(lines @ R.T + p, None if hollow else (corners @ R.T + p, faces))


def _edges(corners: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Feature edges (E, 2) of a mesh: those at its border, and those where faces meet at an angle."""
    _, merged = np.unique(corners, axis=0, return_inverse=True)  # files may repeat corners for each of their faces
    a, b, c = (corners[faces[:, k]] for k in range(3))
    normals = np.cross(b - a, c - a)
    normals /= np.maximum(np.linalg.norm(normals, axis=1), np.finfo(float).tiny)[:, None]
    sides = np.concatenate([faces[:, [k, (k + 1) % 3]] for k in range(3)])
    owners = np.tile(np.arange(len(faces)), 3)
    _, edge = np.unique(np.sort(merged.reshape(-1)[sides], axis=1), axis=0, return_inverse=True)
    order = np.argsort(edge, kind="stable")
    starts = np.flatnonzero(np.diff(edge[order], prepend=-1))
    counts = np.diff(starts, append=len(order))
    first, second = owners[order[starts]], owners[order[starts + counts - 1]]
    angles = np.arccos(np.clip(np.einsum("ei,ei->e", normals[first], normals[second]), -1.0, 1.0))
    angles[counts != 2] = np.pi  # a border, or more than two faces
    sharpest = np.argsort(-angles, kind="stable")[:EDGES]
    return sides[order[starts]][sharpest[angles[sharpest] > BENT]]


def _surface(shape: Shape, *corners: int) -> Triangles:
    found = surface(shape, *corners)
    if found is None:
        raise TypeError(f"shape: got {type(shape).__name__}, expected one with a surface")
    return found


def target_cross(R: np.ndarray, p: np.ndarray, size: float) -> WorldShape:
    """A cross at p with arms of this length, m, along the columns of R, which marks a target."""
    return WorldShape(p + size * np.stack([-R.T, R.T], axis=1), None, True)
