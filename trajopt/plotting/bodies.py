"""Surfaces of a system in pictures, and their places; a surface that bends has vertices on several bodies."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trajopt.capabilities import Pictures, capability

SOLID = (0.62, 0.66, 0.72, 1.0)
"""Colour of surfaces without one of their own."""
LIGHT = np.array([0.35, -0.45, 0.82])
"""Direction towards the light."""
LARGEST_FACE = 0.3
"""Longest edge of triangles in pictures that are sorted by depth, as a fraction of the largest body."""


class Surface(NamedTuple):
    """One surface from `trajopt.capabilities.Pictures`."""

    body: Any  # index, or (V,) indices
    vertices: np.ndarray  # (V, 3)
    faces: np.ndarray  # (F, 3)
    color: tuple[float, float, float, float]
    label: str

    @classmethod
    def of(cls, solid: Any) -> Surface:
        """The surface of a solid."""
        color = SOLID if solid.color is None else tuple(solid.color)
        return cls(solid.body, solid.vertices, solid.faces, color, getattr(solid, "label", ""))

    @property
    def bends(self) -> bool:
        """True if its vertices are on several bodies."""
        return np.ndim(self.body) > 0


class Bodies(NamedTuple):
    """Surfaces on bodies that move; none for a system without shapes."""

    solids: tuple[Surface, ...]
    turns: np.ndarray  # (K, B + 1, 3, 3), the identity last, for fixed surfaces
    origins: np.ndarray  # (K, B + 1, 3)

    @property
    def bend(self) -> bool:
        """True if some surfaces bend."""
        return any(solid.bends for solid in self.solids)

    @property
    def bare(self) -> bool:
        """True if most bodies have no surface, so that lines from joint to joint are needed to see the system."""
        covered = {int(body) for solid in self.solids for body in np.unique(solid.body)} - {-1}
        return (not self.bend and 2 * len(covered) < self.turns.shape[1] - 1) or not self.solids

    def corners(self) -> np.ndarray:
        """Corners (K, P, 3) of boxes about all surfaces of each body."""
        K, parts = len(self.turns), []
        vertices = np.concatenate([np.empty((0, 3)), *(solid.vertices for solid in self.solids)])
        bodies = np.concatenate([np.empty(0, int), *(np.broadcast_to(x.body, len(x.vertices)) for x in self.solids)])
        order = np.argsort(bodies, kind="stable")
        numbers, counts = np.unique(bodies[order], return_counts=True)
        for body, stop, count in zip(numbers, np.cumsum(counts), counts, strict=True):
            points = vertices[order[stop - count : stop]]
            ends = np.stack([points.min(axis=0), points.max(axis=0)])
            box = np.stack(np.meshgrid(*ends.T), axis=-1).reshape(-1, 3)
            parts.append(box @ self.turns[:, body].swapaxes(1, 2) + self.origins[:, body, None])
        return np.concatenate([np.empty((K, 0, 3)), *parts], axis=1)

    def vertices(self, solid: Surface, frame: int) -> np.ndarray:
        """Vertices (V, 3) of a surface in the world at one time."""
        R, p = self.turns[frame, solid.body], self.origins[frame, solid.body]
        return (R @ solid.vertices[:, :, None])[:, :, 0] + p if solid.bends else solid.vertices @ R.T + p

    def triangles(self, frame: int, color: Any = None, end: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Corners (F, 3, 3) of all faces in the world at one time, and their colours (F, 4), darker away from the
        light.  A given colour replaces all but that of labelled surfaces, which are left out unless `end`."""
        corners, colors = [np.empty((0, 3, 3))], [np.empty((0, 4))]
        for solid in self.solids:
            if solid.label and not end:
                continue
            corners.append(self.vertices(solid, frame)[solid.faces])
            colors.append(np.tile(solid.color if color is None or solid.label else color, (len(solid.faces), 1)))
        faces, rgba = np.concatenate(corners), np.concatenate(colors)
        normals = np.cross(faces[:, 1] - faces[:, 0], faces[:, 2] - faces[:, 0])
        towards = normals @ LIGHT / np.maximum(np.linalg.norm(normals, axis=1), 1e-300)
        rgba[:, :3] *= (0.66 + 0.34 * towards)[:, None]
        return faces, rgba


def bodies_at(system: Any, xs: np.ndarray, fine: bool) -> Bodies:
    """Surfaces of a system, and the places of its bodies at states xs (K, nx)."""
    K = len(xs)
    seen = tuple(Surface.of(solid) for solid in capability(system, Pictures).solids(fine))
    if not seen:
        return Bodies((), np.empty((K, 0, 3, 3)), np.empty((K, 0, 3)))
    R, p = system.body_placements(xs)
    if not fine:
        seen = tuple(_from_both_sides(solid) for solid in seen)
        extent = max((float(np.ptp(x.vertices, axis=0).max()) for x in seen if not x.bends), default=0.0)
        seen = tuple(with_small_faces(solid, LARGEST_FACE * extent) for solid in seen)
    still = np.broadcast_to(np.eye(3), (K, 1, 3, 3)), np.zeros((K, 1, 3))
    return Bodies(seen, np.concatenate([R, still[0]], axis=1), np.concatenate([p, still[1]], axis=1))


def _from_both_sides(solid: Surface) -> Surface:
    """The surface, with the back of its faces added if it encloses no volume; one that bends is unchanged."""
    corners = solid.vertices[solid.faces] - solid.vertices.mean(axis=0)
    extent = np.ptp(solid.vertices, axis=0).max()
    if solid.bends or np.linalg.det(corners).sum() > 1e-9 * extent**3:
        return solid
    return solid._replace(faces=np.concatenate([solid.faces, solid.faces[:, ::-1]]))


def with_small_faces(solid: Surface, longest: float) -> Surface:
    """The surface with triangles divided in four until no edge is longer than `longest`, so that sorting by their
    middles shows which is in front; one that bends is unchanged."""
    while not solid.bends:
        corners = solid.vertices[solid.faces]
        large = np.linalg.norm(corners - np.roll(corners, -1, axis=1), axis=-1).max(axis=1) > longest
        if not large.any():
            break
        middles = 0.5 * (corners[large] + np.roll(corners[large], -1, axis=1))  # of edges 01, 12, 20
        n, count = len(solid.vertices), 3 * int(large.sum())
        (a, b, c), (p, q, r) = solid.faces[large].T, (n + np.arange(count)).reshape(-1, 3).T
        quarters = np.concatenate([np.stack(part, axis=1) for part in ((a, p, r), (p, b, q), (r, q, c), (p, q, r))])
        faces = np.concatenate([solid.faces[~large], quarters])
        solid = solid._replace(vertices=np.concatenate([solid.vertices, middles.reshape(-1, 3)]), faces=faces)
    return solid
