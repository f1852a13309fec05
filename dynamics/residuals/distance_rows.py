"""Pairs of shapes for distances: checked, and as kernels take them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import Box, Capsule, HalfSpace, Sphere
from dynamics.model import RigidBodyModel
from dynamics.residuals.distance_parts import BOXED, FLAT, ROUND
from dynamics.residuals.robot_residual import path_dofs
from dynamics.validation import as_kind


class Pairs(NamedTuple):
    """P pairs of a segment with a radius and another, a box, or a half-space; each on a body, -1 the world."""

    first: np.ndarray  # (P,) the bodies in whose axes they are, those of obstacles that move after the robot's
    second: np.ndarray  # (P,)
    kind: np.ndarray  # (P,) ROUND, FLAT or BOXED
    ends: np.ndarray  # (P, 12) start and end of the first, and of the second or its origin, in their bodies
    axes: np.ndarray  # (P, 9) the three axes of a box or half-space, one after the other
    half: np.ndarray  # (P, 3) half extents of a box
    radius: np.ndarray  # (P,) the sum of both, and the margin
    scale: np.ndarray  # (P,) 1/R, 1 for boxes and half-spaces
    offset: np.ndarray  # (P,) R^2 + m eps/4
    common: np.ndarray  # (P,) last degree of freedom that moves both, -1 for none
    smoothing: float  # eps
    movers: np.ndarray  # (P, 2) the robot's bodies that carry both, -1 for none
    moving: np.ndarray  # (M,) obstacles that move, as bodies


Row = tuple[Geometry, Geometry, tuple[np.ndarray, ...]]
"""Two shapes, a box or a half-space second, and the ends of the first that count."""


def checked_rows(p: int, pair: tuple[Geometry, ...], margin: float) -> list[Row]:
    """The rows of a pair, checked."""
    if len(pair) != 2:
        raise ValueError(f"pairs[{p}]: got {len(pair)} of them, expected two")
    for geometry in pair:
        kind = type(as_kind(f"pairs[{p}]", geometry, Geometry).shape)
        if not issubclass(kind, (Sphere, Capsule, Box, HalfSpace)):
            wanted = "Sphere, Capsule, Box or HalfSpace; see collision_geometry"
            raise ValueError(f"pairs[{p}]: {geometry.name!r} is a {kind.__name__}, expected {wanted}")
    a, b = sorted(pair, key=lambda geometry: isinstance(geometry.shape, (Box, HalfSpace)))
    if isinstance(a.shape, HalfSpace):
        a, b = b, a
    both = f"pairs[{p}]: {a.name!r} and {b.name!r}"
    if a.body == b.body:
        raise ValueError(f"{both} are on one body, expected two")
    if isinstance(a.shape, HalfSpace):
        raise ValueError(f"{both} are two half-spaces, expected one at most")
    if isinstance(b.shape, HalfSpace):  # of a box the corners
        return [(a, b, (np.array(end),)) for end in dict.fromkeys(tuple(end.tolist()) for end in ends_of(a))]
    if isinstance(a.shape, Box):
        raise ValueError(f'{both} are two boxes, expected one at most; collision_geometry(model, "capsule") has none')
    if not isinstance(b.shape, Box) and _radius(a) + _radius(b) + margin == 0.0:
        raise ValueError(f"{both} have no radius, expected a positive one, or a margin")
    return [(a, b, ends_of(a))]


def ends_of(geometry: Geometry) -> tuple[np.ndarray, ...]:
    """Ends of a segment, or corners of a box, in the axes of its body; a ball's are one point."""
    shape = geometry.shape
    if isinstance(shape, Capsule):
        ends = shape.start, shape.end
    elif isinstance(shape, Box):
        ends = [np.array(signs) * shape.half_extents for signs in product((-1.0, 1.0), repeat=3)]
    else:
        ends = np.zeros(3), np.zeros(3)
    return tuple(geometry.R @ np.asarray(end) + geometry.p for end in ends)


def _radius(geometry: Geometry) -> float:
    return float(getattr(geometry.shape, "radius", 0.0))


def pair_arrays(
    model: RigidBodyModel, rows: list[Row], eps: float, margin: float, moving: Sequence[str] = (), count: int = 0
) -> Pairs:
    """Pairs of shapes, with the ends of the first of each, as arrays for kernels; moving: names of obstacles that
    move, whose shapes are in axes of their own, and which are bodies behind so many others."""
    P = len(rows)
    movers = np.array([[a.body, b.body] for a, b, _ in rows])
    bodies = movers.copy()
    for p, pair in enumerate(rows):
        for side, geometry in enumerate(pair[:2]):
            if geometry.body < 0 and geometry.name in moving:
                bodies[p, side] = count + moving.index(geometry.name)
    kinds = [{HalfSpace: FLAT, Box: BOXED}.get(type(b.shape), ROUND) for _, b, _ in rows]
    arrays = Pairs(
        bodies[:, 0].copy(), bodies[:, 1].copy(), np.array(kinds),
        np.zeros((P, 12)), np.zeros((P, 9)), np.zeros((P, 3)),
        np.array([_radius(a) + _radius(b) + margin for a, b, _ in rows]), np.ones(P), np.zeros(P),
        np.full(P, -1, np.int64), eps, movers, count + np.arange(len(moving)),
    )  # fmt: skip
    for p, (a, b, ends) in enumerate(rows):
        arrays.ends[p, :6] = np.concatenate([ends[0], ends[-1]])
        if kinds[p] == ROUND:
            arrays.ends[p, 6:] = np.concatenate(ends_of(b))
            starts, stops = arrays.ends[p].reshape(2, 2, 3).swapaxes(0, 1)
            lengths = np.count_nonzero((starts != stops).any(axis=1))
            arrays.scale[p] = 1.0 / arrays.radius[p]
            arrays.offset[p] = arrays.radius[p] ** 2 + 0.25 * eps * lengths
        else:
            arrays.ends[p, 6:9], arrays.axes[p] = b.p, b.R.T.ravel()
            arrays.half[p] = getattr(b.shape, "half_extents", 0.0)
        both = set(path_dofs(model, a.body).tolist()) & set(path_dofs(model, b.body).tolist())
        arrays.common[p] = max(both, default=-1)
    return arrays
