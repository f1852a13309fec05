"""Fixed shapes around a system in pictures: obstacles, targets, and others.

A problem lists them, `Problem(..., scenery=[Sphere((0.4, 0.0, 0.3), 0.1), Target((0.5, 0.2, 0.1))])`.  They serve
pictures only: costs and constraints ignore them.  Figures and animations draw the lines of a shape, the page in the
browser its surface where it has one.  A shape is any object with the members of `Shape`; those of `dynamics`, such as
boxes, capsules and meshes, are listed with their places like the obstacles of `dynamics.Collisions`, (shape, position),
(shape, (R, p)) or a `dynamics.Geometry` of the world.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dynamics.geometry import shapes
from dynamics.geometry.geometry import Geometry, shape_in_place
from dynamics.geometry.triangles import axes_along
from dynamics.geometry.world_shape import WorldShape, world_shape
from dynamics.validation import as_array, as_not_negative, as_placement, as_positive

MEMBERS = ("target", "lines", "surface")


class Shape(Protocol):
    """A shape to draw, in world axes, metres."""

    @property
    def target(self) -> bool:
        """True if it is a target, not an obstacle: it has another colour."""
        ...

    def lines(self) -> np.ndarray:
        """Line segments (S, 2, 3) of the shape."""
        ...

    def surface(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Vertices (V, 3) and triangles (F, 3) of indices into them, counterclockwise seen from outside; None without a
        surface."""
        ...


class _Solid:
    """A shape of `dynamics` at its place."""

    @property
    def _placed(self) -> WorldShape:
        raise NotImplementedError

    def lines(self) -> np.ndarray:
        """Line segments (S, 2, 3) on its surface: circles, and lines across these."""
        return self._placed.segments

    def surface(self) -> tuple[np.ndarray, np.ndarray]:
        """Triangles as in `Shape.surface`; vertices at edges are doubled, so that edges stay sharp under smooth
        shading."""
        triangles = self._placed.triangles
        assert triangles is not None
        return triangles


@dataclass(frozen=True, eq=False)
class Sphere(_Solid):
    """A ball with a centre (3,) and a radius, m."""

    center: ArrayLike
    radius: float
    target: bool = False

    def __post_init__(self):
        _put(self, center=as_array("center", self.center, (3,), copy=True), radius=as_positive("radius", self.radius))

    @property
    def _placed(self) -> WorldShape:
        return _in_place(shapes.Sphere(self.radius), np.eye(3), np.asarray(self.center))


@dataclass(frozen=True, eq=False)
class Cylinder(_Solid):
    """A cylinder with a centre (3,), a radius and a height, m, along an axis (3,); a disc if the height is zero."""

    center: ArrayLike
    radius: float
    height: float = 0.0
    axis: ArrayLike = (0.0, 0.0, 1.0)
    target: bool = False

    def __post_init__(self):
        axis = as_array("axis", self.axis, (3,), copy=True)
        if not axis.any():
            raise ValueError("axis: got zeros, expected a direction")
        as_not_negative("height", self.height)
        center = as_array("center", self.center, (3,), copy=True)
        _put(self, center=center, radius=as_positive("radius", self.radius), axis=axis)

    @property
    def _placed(self) -> WorldShape:
        axes = axes_along(np.asarray(self.axis)).T
        return _in_place(shapes.Cylinder(self.radius, self.height), axes, np.asarray(self.center))


@dataclass(frozen=True, eq=False)
class Lines:
    """Line segments (S, 2, 3), m: a wall, the outline of a parking place, a path to follow."""

    segments: ArrayLike
    target: bool = False

    def __post_init__(self):
        _put(self, segments=as_array("segments", self.segments, (*np.shape(self.segments)[:1], 2, 3), copy=True))

    def lines(self) -> np.ndarray:
        """The segments."""
        return np.asarray(self.segments)

    def surface(self) -> None:
        """None: lines have no surface."""


@dataclass(frozen=True, eq=False)
class Target:
    """A point (3,) to reach: a cross with arms of this length, m, along the world's axes or the columns of R (3, 3)."""

    position: ArrayLike
    size: float = 0.05
    R: ArrayLike | None = None
    target = True

    def __post_init__(self):
        R = np.eye(3) if self.R is None else as_array("R", self.R, (3, 3), copy=True)
        position = as_array("position", self.position, (3,), copy=True)
        _put(self, position=position, size=as_positive("size", self.size), R=R)

    def lines(self) -> np.ndarray:
        """Line segments (3, 2, 3) of the cross."""
        arms = self.size * np.transpose(np.asarray(self.R))
        return self.position + np.stack([-arms, arms], axis=1)

    def surface(self) -> None:
        """None: a target has no surface."""


def check_scenery(value: Any) -> tuple[Shape, ...]:
    """The shapes as a tuple, those of `dynamics` at their places; TypeError or ValueError for anything else."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"scenery: got {type(value).__name__}, expected a list of shapes, as trajopt.Sphere")
    return tuple(_checked_shape(f"scenery[{i}]", shape) for i, shape in enumerate(value))


def _checked_shape(label: str, item: Any) -> Shape:
    if all(hasattr(item, member) for member in MEMBERS):
        return item
    if isinstance(item, Geometry):
        if item.body != -1:
            raise ValueError(f"{label}: got {item.name!r} on the body {item.link!r}, expected a shape of the world")
        return _in_place(item.shape, item.R, item.p)
    if not isinstance(item, tuple):
        expected = "a shape, as trajopt.Sphere, or (shape, position) with one of dynamics"
        raise TypeError(f"{label}: got {type(item).__name__}, expected {expected}")
    shape, place = shape_in_place(label, item)
    return _in_place(shape, *as_placement(f"{label}: placement", place))


def _in_place(shape: shapes.Shape, R: np.ndarray, p: np.ndarray) -> WorldShape:
    """Shape drawn for one of `dynamics`: for a half-space a square about p."""
    return world_shape(shape, R, p, p[None])


# ------------------------------------------------------------------------------------------------ checks
def _put(shape: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(shape, name, value)  # the class is frozen; its fields are normalised once
