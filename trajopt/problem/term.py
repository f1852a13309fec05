"""A cost and the knots where it counts."""

from typing import Any, NamedTuple

import numpy as np

from trajopt.costs import Cost


def runs(knots: np.ndarray, gap: int = 0) -> list[tuple[int, int]]:
    """Runs start <= t < stop of growing knots, across at most `gap` missing ones."""
    pieces = np.split(knots, np.flatnonzero(np.diff(knots) > gap + 1) + 1)
    return [(int(piece[0]), int(piece[-1]) + 1) for piece in pieces if len(piece)]


class Term(NamedTuple):
    """A cost, the knots it is evaluated at (None: all N running ones; the last one if terminal), and its factor, or one
    for each of the knots, which are then given."""

    cost: Cost
    knots: np.ndarray | None
    scale: float | np.ndarray
    terminal: bool

    def points(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """States and controls where it is evaluated."""
        if self.terminal:
            return xs[-1:], None
        return (xs[:-1], us) if self.knots is None else (xs[self.knots], us[self.knots])

    def knot(self, row: int) -> int:
        """The knot of a row of `points`, -1 for the last one."""
        return -1 if self.terminal else int(row if self.knots is None else self.knots[row])

    @property
    def name(self) -> str:
        """What messages call it."""
        cost: Any = self.cost
        return getattr(cost, "name", "") or getattr(getattr(cost, "residual", None), "name", "") or type(cost).__name__
