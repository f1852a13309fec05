"""What stands around a system in pictures: obstacles, targets, anything that never moves.

A problem lists it, `Problem(..., scenery=[Sphere((0.4, 0.0, 0.3), 0.1), Target((0.5, 0.2, 0.1))])`.  It is for pictures
alone: costs and constraints know nothing of it.  Figures and moving pictures draw the lines of a shape, the page in the
browser its surface where it has one.  A shape is any object with the members of `Shape`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from trajopt.validation import float_array

MEMBERS = ("target", "lines", "surface")
TURN = 48
"""Corners of a circle."""


class Shape(Protocol):
    """Something to draw, in world axes, metres."""

    @property
    def target(self) -> bool:
        """Whether it is where something is to arrive, not an obstacle: it has another colour."""
        ...

    def lines(self) -> np.ndarray:
        """Segments (S, 2, 3)."""
        ...

    def surface(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Corners (V, 3) and the triangles (F, 3) of them, indices in the order that faces outwards; None for none."""
        ...


@dataclass(frozen=True, eq=False)
class Sphere:
    """A ball with its centre (3,) and radius, m."""

    center: ArrayLike
    radius: float
    target: bool = False

    def __post_init__(self):
        _put(self, center=float_array("center", self.center, (3,)), radius=_positive("radius", self.radius))

    def lines(self) -> np.ndarray:
        """Parallels and meridians every 45 degrees."""
        grid = self._grid(8, 24)
        return np.concatenate([_around(grid[2:-1:2]), _along(grid[:, ::3])])

    def surface(self) -> tuple[np.ndarray, np.ndarray]:
        """Triangles, as `Shape.surface`."""
        return _triangles(self._grid(24, TURN))

    def _grid(self, rows: int, corners: int) -> np.ndarray:
        angles = np.linspace(0.0, np.pi, rows + 1)
        return _revolved(self.center, np.eye(3), self.radius * np.sin(angles), -self.radius * np.cos(angles), corners)


@dataclass(frozen=True, eq=False)
class Cylinder:
    """A pillar about its centre (3,), with a radius and a height, m, along an axis (3,); a disc if it has no height."""

    center: ArrayLike
    radius: float
    height: float = 0.0
    axis: ArrayLike = (0.0, 0.0, 1.0)
    target: bool = False

    def __post_init__(self):
        axis = float_array("axis", self.axis, (3,))
        if not axis.any():
            raise ValueError("axis: got zeros, wanted a direction")
        if not 0.0 <= self.height < np.inf:
            raise ValueError(f"height: got {self.height!r}, wanted a number >= 0")
        _put(self, center=float_array("center", self.center, (3,)), radius=_positive("radius", self.radius), axis=axis)

    def lines(self) -> np.ndarray:
        """The circles at the ends, and four lines from one to the other."""
        rims = self._grid([self.radius] * 2, [-0.5 * self.height, 0.5 * self.height])
        return np.concatenate([_around(rims), _along(rims[:, :: TURN // 4])]) if self.height else _around(rims[:1])

    def surface(self) -> tuple[np.ndarray, np.ndarray]:
        """Triangles, as `Shape.surface`; the rims are there twice, so that they stay sharp where light is smoothed."""
        if not self.height:
            return _triangles(self._grid([self.radius, 0.0], [0.0, 0.0]))
        radii, ends = self.radius * np.array([0, 1, 1, 1, 1, 0]), 0.5 * self.height * np.array([-1, -1, -1, 1, 1, 1])
        return _triangles(self._grid(radii, ends))

    def _grid(self, radii: Any, heights: Any) -> np.ndarray:
        z = np.asarray(self.axis) / np.linalg.norm(self.axis)
        x = np.cross(np.eye(3)[np.abs(z).argmin()], z)
        x /= np.linalg.norm(x)
        return _revolved(self.center, np.stack([x, np.cross(z, x), z]), np.array(radii), np.array(heights), TURN)


@dataclass(frozen=True, eq=False)
class Lines:
    """Any line segments (S, 2, 3), m: a wall, the outline of a parking place, a path to follow."""

    segments: ArrayLike
    target: bool = False

    def __post_init__(self):
        _put(self, segments=float_array("segments", self.segments, (*np.shape(self.segments)[:1], 2, 3)))

    def lines(self) -> np.ndarray:
        """The segments."""
        return np.asarray(self.segments)

    def surface(self) -> None:
        """None."""


@dataclass(frozen=True, eq=False)
class Target:
    """A point (3,) to reach: a cross of arms of this length, m, along the world's axes or the columns of R (3, 3)."""

    position: ArrayLike
    size: float = 0.05
    R: ArrayLike | None = None
    target = True

    def __post_init__(self):
        R = np.eye(3) if self.R is None else float_array("R", self.R, (3, 3))
        _put(self, position=float_array("position", self.position, (3,)), size=_positive("size", self.size), R=R)

    def lines(self) -> np.ndarray:
        """Three segments."""
        arms = self.size * np.transpose(np.asarray(self.R))
        return self.position + np.stack([-arms, arms], axis=1)

    def surface(self) -> None:
        """None."""


def check_scenery(value: Any) -> tuple[Shape, ...]:
    """The shapes as a tuple; TypeError for anything else."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"scenery: got {type(value).__name__}, wanted a list of shapes, as trajopt.Sphere")
    for i, shape in enumerate(value):
        if not all(hasattr(shape, member) for member in MEMBERS):
            raise TypeError(f"scenery[{i}]: got {type(shape).__name__}, wanted a shape, as trajopt.Sphere")
    return tuple(value)


# ------------------------------------------------------------------------------------------------ checks and grids
def _put(shape: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(shape, name, value)  # the class is frozen; its fields are normalised once


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0.0 < value < np.inf:
        raise ValueError(f"{name}: got {value!r}, wanted a positive number")
    return float(value)


def _revolved(center: Any, axes: np.ndarray, radii: np.ndarray, heights: np.ndarray, corners: int) -> np.ndarray:
    """Points (P, corners, 3) of circles about the last of the axes (3, 3), its rows."""
    angles = np.linspace(0.0, 2.0 * np.pi, corners, endpoint=False)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1) @ axes[:2]
    return center + radii[:, None, None] * circle + heights[:, None, None] * axes[2]


def _around(grid: np.ndarray) -> np.ndarray:
    """Segments along the closed rows of points (P, C, 3)."""
    return np.stack([grid, np.roll(grid, -1, axis=1)], axis=2).reshape(-1, 2, 3)


def _along(grid: np.ndarray) -> np.ndarray:
    """Segments along the columns."""
    return np.stack([grid[:-1], grid[1:]], axis=2).reshape(-1, 2, 3)


def _triangles(grid: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners (P C, 3), and two triangles for each square of the grid; rows grow along the axis."""
    rows, corners = grid.shape[:2]
    here = np.arange(rows * corners).reshape(rows, corners)
    ahead = np.roll(here, -1, axis=1)
    squares = np.stack([here[:-1], ahead[:-1], ahead[1:], here[1:]], axis=-1).reshape(-1, 4)
    return grid.reshape(-1, 3), np.concatenate([squares[:, [0, 1, 2]], squares[:, [0, 2, 3]]])
