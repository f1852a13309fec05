"""Distances between spheres, capsules and half-spaces, many at once: a value each, no derivatives.

A sphere is a capsule whose segment is a point.  The closest points a0 + s e1 and b0 + t e2 of two segments minimise a
convex quadratic over the unit square: s where t is free, t for that s, s for that t, each clipped, is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dynamics.algorithms.body_placements import body_placements
from dynamics.collisions.collision_geometry import simplified
from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import Capsule, HalfSpace, Sphere
from dynamics.model import RigidBodyModel

PARALLEL = 1e-14
"""Below this share of its largest value the determinant says that segments are parallel."""


class Cores(NamedTuple):
    """Of all shapes in the world, at K configurations."""

    start: np.ndarray  # (K, G, 3)
    end: np.ndarray  # (K, G, 3)
    radius: np.ndarray  # (G,)
    normal: np.ndarray  # (K, G, 3) of half-spaces, whose start is a point of their plane; zero for others


def cores(model: RigidBodyModel, q: np.ndarray, geometries: Sequence[Geometry]) -> Cores:
    """Segments and radii of shapes at configurations q (K, nq); those of other kinds are taken by their capsules."""
    R, p = body_placements(model, q)
    K, G = len(q), len(geometries)
    start, end, normal = (np.zeros((K, G, 3)) for _ in range(3))
    radius = np.zeros(G)
    for g, geometry in enumerate(geometries):
        shape = simplified(geometry.shape, "capsule")
        body = geometry.body
        turn, shift = (np.eye(3)[None], np.zeros((1, 3))) if body < 0 else (R[:, body], p[:, body])
        place = lambda x, g=geometry, turn=turn, shift=shift: turn @ (g.R @ x + g.p) + shift  # noqa: E731
        if isinstance(shape, Capsule):
            start[:, g], end[:, g], radius[g] = place(shape.start), place(shape.end), shape.radius
        else:
            start[:, g] = end[:, g] = place(np.zeros(3))
            if isinstance(shape, Sphere):
                radius[g] = shape.radius
            elif isinstance(shape, HalfSpace):
                normal[:, g] = turn @ geometry.R[:, 2]
    return Cores(start, end, radius, normal)


def distances(found: Cores, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Distances (K, P), m, of shapes first (P,) from shapes second (P,), negative where they overlap.

    Of two half-spaces, which have none, minus infinity.
    """
    a = segment_distances(found.start[:, first], found.end[:, first], found.start[:, second], found.end[:, second])
    out = a - found.radius[first] - found.radius[second]
    plane = found.normal.any(axis=(0, 2))
    for solid, flat in ((first, second), (second, first)):
        rows = np.flatnonzero(plane[flat])
        solids, flats = solid[rows], flat[rows]
        n, at = found.normal[:, flats], found.start[:, flats]
        heights = [((ends[:, solids] - at) * n).sum(axis=-1) for ends in (found.start, found.end)]
        out[:, rows] = np.minimum(*heights) - found.radius[solids]
    out[:, plane[first] & plane[second]] = -np.inf
    return out


def segment_distances(a0: np.ndarray, a1: np.ndarray, b0: np.ndarray, b1: np.ndarray) -> np.ndarray:
    """Distances (...) of segments from a0 to a1 and from b0 to b1, (..., 3) each; points where two ends are equal."""
    e1, e2, r = a1 - a0, b1 - b0, a0 - b0
    a, e, b = _dot(e1, e1), _dot(e2, e2), _dot(e1, e2)
    c, f, det = -_dot(e1, r), _dot(e2, r), a * e - b * b
    some_a, some_e = np.where(a > 0.0, a, 1.0), np.where(e > 0.0, e, 1.0)
    apart = det > PARALLEL * a * e
    s = np.where(apart, np.clip((c * e + b * f) / np.where(apart, det, 1.0), 0.0, 1.0), 0.5)
    t = np.clip((b * s + f) / some_e, 0.0, 1.0)
    s = np.clip((b * t + c) / some_a, 0.0, 1.0)
    delta = r + s[..., None] * e1 - t[..., None] * e2
    return np.sqrt(_dot(delta, delta))


def _dot(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.einsum("...i,...i->...", x, y)
