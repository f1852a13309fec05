"""Shapes of bodies, for pictures or for collisions.

Each has axes of its own, which a `Geometry` places on a body.  They are immutable and compared by their numbers.
A name that other packages use too, `Sphere` or `Cylinder`, means the shape of a body here and scenery in `trajopt`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.content import ByContent
from dynamics.validation import as_array, as_not_negative, has_mask


class Shape(ByContent):
    """Base of all shapes: immutable, compared and hashed by their numbers."""

    def _parts(self) -> Mapping[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # pyright: ignore[reportArgumentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self._parts().values())

    def _put(self, **values: Any) -> None:
        """Set fields of a frozen instance; arrays become read-only copies."""
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value = value.copy()
                value.flags.writeable = False
            object.__setattr__(self, name, value)


@dataclass(frozen=True, eq=False)
class Sphere(Shape):
    """A ball about the origin.

    Parameters
    ----------
    radius : m, not negative
    """

    radius: float

    def __post_init__(self) -> None:
        self._put(radius=as_not_negative("radius", self.radius))


@dataclass(frozen=True, eq=False)
class Capsule(Shape):
    """All points within a radius of a segment.

    Parameters
    ----------
    radius : m, not negative
    start, end : (3,) the ends of the segment, m; they may coincide
    """

    radius: float
    start: ArrayLike
    end: ArrayLike

    def __post_init__(self) -> None:
        start, end = as_array("start", self.start, (3,)), as_array("end", self.end, (3,))
        self._put(radius=as_not_negative("radius", self.radius), start=start, end=end)


@dataclass(frozen=True, eq=False)
class Box(Shape):
    """A box about the origin, along the axes.

    Parameters
    ----------
    half_extents : (3,) half of its sides, m, not negative
    """

    half_extents: ArrayLike

    def __post_init__(self) -> None:
        self._put(half_extents=_lengths("half_extents", self.half_extents))


@dataclass(frozen=True, eq=False)
class Cylinder(Shape):
    """A cylinder along z, about the origin.

    Parameters
    ----------
    radius, length : m, not negative
    """

    radius: float
    length: float

    def __post_init__(self) -> None:
        self._put(radius=as_not_negative("radius", self.radius), length=as_not_negative("length", self.length))


@dataclass(frozen=True, eq=False)
class Ellipsoid(Shape):
    """An ellipsoid about the origin, along the axes.

    Parameters
    ----------
    semi_axes : (3,) m, not negative
    """

    semi_axes: ArrayLike

    def __post_init__(self) -> None:
        self._put(semi_axes=_lengths("semi_axes", self.semi_axes))


@dataclass(frozen=True, eq=False)
class HalfSpace(Shape):
    """All points with z <= 0."""


@dataclass(frozen=True, eq=False)
class Mesh(Shape):
    """Triangles, from a file that is read when they are needed, or given as arrays.

    Parameters
    ----------
    path : name of a file, whose existence is not checked here; None for a mesh that is given as arrays
    scale : (3,) or one number, factors from coordinates to metres; not zero, negative for a mirrored mesh
    vertices : (V, 3) corners, in units of `scale`
    faces : (F, 3) indices of the corners of each triangle, counterclockwise seen from outside

    Raises
    ------
    ValueError
        For neither or both of a path and arrays, and for indices out of range.
    """

    path: str | None = None
    scale: ArrayLike = 1.0
    vertices: ArrayLike | None = None
    faces: ArrayLike | None = None

    def __post_init__(self) -> None:
        scale = as_array("scale", self.scale)
        if scale.shape not in ((), (3,)) or not scale.all():
            raise ValueError(f"scale: got {self.scale!r}, expected a nonzero number, or three")
        self._put(scale=np.full(3, scale))
        if self.path is not None:
            if self.vertices is not None or self.faces is not None:
                raise ValueError("vertices: got both a path and arrays, expected one of them")
            if not str(self.path):
                raise ValueError("path: got an empty name, expected that of a file")
            self._put(path=str(self.path))
        elif self.vertices is None or self.faces is None:
            raise ValueError("path: got neither a path nor vertices and faces, expected one of them")
        else:
            vertices = as_array("vertices", self.vertices, (None, 3))
            self._put(vertices=vertices, faces=_triangles(self.faces, len(vertices)))


def _triangles(faces: ArrayLike, count: int) -> np.ndarray:
    array = np.asarray(faces)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != 3 or has_mask(faces):
        raise ValueError(f"faces: got shape {array.shape} of {array.dtype}, expected whole numbers (any, 3)")
    if array.size and not (array.min() >= 0 and array.max() < count):
        raise ValueError(f"faces: got indices {array.min()} to {array.max()}, expected those of {count} vertices")
    return array.astype(np.int64)


def _lengths(name: str, value: ArrayLike) -> np.ndarray:
    array = as_array(name, value, (3,))
    if (array < 0.0).any():
        raise ValueError(f"{name}: got {array.tolist()}, expected numbers >= 0")
    return array
