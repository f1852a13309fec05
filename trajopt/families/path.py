"""A path of parameters: straight from one given p to the next, one p per unit of the position."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from trajopt.optimality.first_order import STEP, default_steps
from trajopt.optimality.parameters import Parameters, parameters_of
from trajopt.problem.problem import Problem


class Path(NamedTuple):
    """Corners of the path, as parameters of the same form; position i is that of corner i."""

    corners: tuple[Parameters, ...]

    @property
    def length(self) -> float:
        """Position of its end."""
        return len(self.corners) - 1.0

    def leg(self, position: float) -> int:
        """Index of the straight part (leg) that begins at or before a position; the last one includes its end."""
        return min(int(position), len(self.corners) - 2)

    def at(self, position: float, leg: int | None = None) -> Any:
        """p at a position, in its form, on the line of a leg if one is given."""
        i = self.leg(position) if leg is None else leg
        a, b, s = self.corners[i].vector, self.corners[i + 1].vector, position - i
        return self.corners[i].at(a + s * (b - a) if s < 1.0 or leg is not None else b)

    def moving(self) -> list[int]:
        """Indices of the numbers of p that change along the path."""
        vectors = np.array([corner.vector for corner in self.corners])
        return np.flatnonzero(np.ptp(vectors, axis=0)).tolist()

    def numbers(self, position: float) -> np.ndarray:
        """The numbers of p at a position."""
        i = self.leg(position)
        a, b = self.corners[i].vector, self.corners[i + 1].vector
        return a + (position - i) * (b - a)

    def problems_along(self, leg: int, make_problem: Callable[[Any], Problem]) -> Callable[[float], Problem]:
        """The problem as a function of the position on the line of a leg."""
        return lambda position: make_problem(self.at(position, leg))

    def difference_step(self, position: float, leg: int) -> float:
        """Step of the position for differences: no number of p moves by more than its step in `sensitivity`."""
        moved = np.abs(self.corners[leg + 1].vector - self.corners[leg].vector)
        steps = default_steps(self.corners[leg]._replace(vector=self.numbers(position)))
        return min(STEP, float(np.min(steps[moved > 0.0] / moved[moved > 0.0])))


def path_of(path: Any) -> Path:
    """The path through a sequence of at least two p, each different from the one before.

    Raises: TypeError, ValueError naming the item.
    """
    if isinstance(path, str | bytes | Mapping) or not isinstance(path, Iterable):
        raise TypeError(f"path: got {type(path).__name__}, expected a sequence of two or more p, from start to end")
    given = [float(p) if isinstance(p, int | np.number) and not isinstance(p, bool) else p for p in path]
    if len(given) < 2:
        raise ValueError(f"path: got {len(given)} p, expected two or more, from start to end")
    corners = []
    for number, p in enumerate(given):
        try:
            corner = parameters_of(p)
        except (TypeError, ValueError) as error:
            raise type(error)(f"path[{number}]: {error}") from None
        first = corners[0] if corners else corner
        if (corner.names, corner.shapes) != (first.names, first.shapes) or type(p) is not type(given[0]):
            raise ValueError(f"path[{number}]: got {p!r}, expected numbers of the form that path[0] has: {given[0]!r}")
        if corners and np.array_equal(corner.vector, corners[-1].vector):
            raise ValueError(f"path[{number}]: got {p!r}, which is path[{number - 1}], expected another")
        corners.append(corner)
    return Path(tuple(corners))
