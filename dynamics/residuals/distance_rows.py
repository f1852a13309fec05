"""Pairs of shapes for distances: checked, and as kernels take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import Capsule, HalfSpace, Sphere
from dynamics.model import RigidBodyModel
from dynamics.residuals.robot_residual import path_dofs
from dynamics.validation import as_kind


class Segments(NamedTuple):
    """P pairs of segments with radii, each on a body, -1 the world."""

    first: np.ndarray  # (P,)
    second: np.ndarray  # (P,)
    ends: np.ndarray  # (P, 12) start and end of both, in their bodies
    flat: np.ndarray  # (P,) 1 for a point and a half-space: `ends` has the point twice, then origin and normal
    radius: np.ndarray  # (P,) the sum of both
    scale: np.ndarray  # (P,) 1/R, 1 for half-spaces
    offset: np.ndarray  # (P,) R^2 + m eps/4
    common: np.ndarray  # (P,) last degree of freedom that moves both, -1 for none
    smoothing: float  # eps


Row = tuple[Geometry, Geometry, tuple[np.ndarray, ...]]
"""Two shapes, a half-space second, and the ends of the first that count."""


def checked_rows(p: int, pair: tuple[Geometry, ...]) -> list[Row]:
    """The rows of a pair, checked."""
    if len(pair) != 2:
        raise ValueError(f"pairs[{p}]: got {len(pair)} of them, expected two")
    for geometry in pair:
        kind = type(as_kind(f"pairs[{p}]", geometry, Geometry).shape)
        if not issubclass(kind, (Sphere, Capsule, HalfSpace)):
            wanted = "Sphere, Capsule or HalfSpace; see collision_geometry"
            raise ValueError(f"pairs[{p}]: {geometry.name!r} is a {kind.__name__}, expected {wanted}")
    a, b = pair if not isinstance(pair[0].shape, HalfSpace) else pair[::-1]
    if a.body == b.body:
        raise ValueError(f"pairs[{p}]: {a.name!r} and {b.name!r} are on one body, expected two")
    if isinstance(a.shape, HalfSpace):
        raise ValueError(f"pairs[{p}]: {a.name!r} and {b.name!r} are two half-spaces, expected one at most")
    if isinstance(b.shape, HalfSpace):
        return [(a, b, (np.array(end),)) for end in dict.fromkeys(tuple(end.tolist()) for end in _ends(a))]
    if _radius(a) + _radius(b) == 0.0:
        raise ValueError(f"pairs[{p}]: {a.name!r} and {b.name!r} have no radius, expected a positive one")
    return [(a, b, _ends(a))]


def _ends(geometry: Geometry) -> tuple[np.ndarray, ...]:
    """Ends of a segment in the axes of its body; a ball's are one point."""
    shape = geometry.shape
    ends = (shape.start, shape.end) if isinstance(shape, Capsule) else (np.zeros(3), np.zeros(3))
    return tuple(geometry.R @ np.asarray(end) + geometry.p for end in ends)


def _radius(geometry: Geometry) -> float:
    return float(getattr(geometry.shape, "radius", 0.0))


def segments(model: RigidBodyModel, rows: list[Row], eps: float) -> Segments:
    P = len(rows)
    arrays = Segments(
        np.zeros(P, np.int64), np.zeros(P, np.int64), np.zeros((P, 12)), np.zeros(P, np.int64), np.zeros(P), np.ones(P),
        np.zeros(P), np.full(P, -1, np.int64), eps,
    )  # fmt: skip
    for p, (a, b, ends) in enumerate(rows):
        arrays.first[p], arrays.second[p], arrays.radius[p] = a.body, b.body, _radius(a) + _radius(b)
        arrays.ends[p, :6] = np.concatenate([ends[0], ends[-1]])
        if isinstance(b.shape, HalfSpace):
            arrays.flat[p], arrays.ends[p, 6:] = 1, np.concatenate([b.p, b.R[:, 2]])
        else:
            arrays.ends[p, 6:] = np.concatenate(_ends(b))
            starts, stops = arrays.ends[p].reshape(2, 2, 3).swapaxes(0, 1)
            lengths = np.count_nonzero((starts != stops).any(axis=1))
            arrays.scale[p] = 1.0 / arrays.radius[p]
            arrays.offset[p] = arrays.radius[p] ** 2 + 0.25 * eps * lengths
        both = set(path_dofs(model, a.body).tolist()) & set(path_dofs(model, b.body).tolist())
        arrays.common[p] = max(both, default=-1)
    return arrays
