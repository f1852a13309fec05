"""A shape placed on a body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.content import ByContent
from dynamics.geometry.shapes import Shape
from dynamics.validation import as_array, as_choice, as_kind, as_name, as_placement

PURPOSES = ("collision", "visual")

ROUNDING = 1e-14
"""Change by orthonormalization below which a rotation is kept as given."""


@dataclass(frozen=True, eq=False)
class Geometry(ByContent):
    """A shape fixed to a moving body or to the world; immutable, compared by content.

    Parameters
    ----------
    name : str, unique among the geometries of a model
    link : the link of the file or of the builder that it belongs to: a moving body, a link fixed to one, or "world"
    body : index of the moving body, -1 for the world, as in `Frame`
    shape : Sphere, Capsule, Box, Cylinder, Ellipsoid, HalfSpace or Mesh
    placement : (R, p), the shape's axes in the frame of the moving body, x_body = R x + p; by default the identity
    purpose : "collision" or "visual"
    color : (4,) red, green, blue and opacity between 0 and 1, or None

    Raises
    ------
    ValueError, TypeError
        For other values; the message names the argument.
    """

    name: str
    link: str
    body: int
    shape: Shape
    placement: tuple[np.ndarray, np.ndarray] | None = None
    purpose: str = "collision"
    color: tuple[float, float, float, float] | None = None

    def __post_init__(self) -> None:
        label = f"geometry {as_name('name', self.name)!r}: "
        as_name(label + "link", self.link)
        if isinstance(self.body, bool) or not isinstance(self.body, (int, np.integer)) or self.body < -1:
            raise ValueError(f"{label}body: got {self.body!r}, expected the index of a moving body, or -1")
        as_kind(label + "shape", self.shape, Shape, "a shape such as Sphere(0.1)")
        R, p = as_placement(label + "placement", self.placement)
        if self.placement is not None and np.abs(R - self.placement[0]).max() < ROUNDING:
            R = np.array(self.placement[0], dtype=float)  # to the last bit, so that copies are equal
        R.flags.writeable = p.flags.writeable = False
        as_choice(label + "purpose", self.purpose, PURPOSES)
        object.__setattr__(self, "placement", (R, p))
        object.__setattr__(self, "color", None if self.color is None else as_color(label + "color", self.color))

    @property
    def R(self) -> np.ndarray:
        """Rotation (3, 3) of the placement."""
        return self.placement[0]  # pyright: ignore[reportOptionalSubscript]

    @property
    def p(self) -> np.ndarray:
        """Translation (3,) of the placement, m."""
        return self.placement[1]  # pyright: ignore[reportOptionalSubscript]

    def _parts(self) -> Mapping[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __reduce__(self) -> tuple[Any, ...]:
        return Geometry, tuple(self._parts().values())


def shape_in_place(label: str, item: Any) -> tuple[Shape, Any]:
    """A shape and its placement (R, p) from (shape, position (3,)) or (shape, (R, p)).

    Raises TypeError for values that are no such pair, ValueError for an invalid position; a rotation is not checked.
    """
    if not isinstance(item, tuple) or len(item) != 2:
        expected = "a tuple (shape, position) or (shape, (R, p))"
        raise TypeError(f"{label}: got {type(item).__name__}, expected {expected}")
    shape, place = item
    as_kind(f"{label}: shape", shape, Shape, "a shape such as Sphere(0.1)")
    if not isinstance(place, tuple) or len(place) != 2 or not isinstance(place[0], (np.ndarray, list, tuple)):
        place = np.eye(3), as_array(f"{label}: position", place, (3,))
    return shape, place


def as_color(name: str, value: ArrayLike) -> tuple[float, float, float, float]:
    """Red, green, blue and opacity, each between 0 and 1, opaque if only three are given; ValueError otherwise."""
    rgba = as_array(name, value, (None,))
    if len(rgba) not in (3, 4) or rgba.min() < 0.0 or rgba.max() > 1.0:
        raise ValueError(f"{name}: got {rgba.tolist()}, expected red, green, blue and opacity between 0 and 1")
    r, g, b, a = (*rgba.tolist(), 1.0)[:4]
    return r, g, b, a
