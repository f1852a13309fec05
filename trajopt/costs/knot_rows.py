"""Arguments that have a row for every knot, or one for all of them, or are functions of time."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dynamics.validation import as_array, as_number_or_vector, as_weights
from trajopt.interfaces.knots import Where
from trajopt.interfaces.system import System, state_array

OfTime = Callable[[float], ArrayLike]
"""A value for each time, s."""
UNPLACED = -1
"""The number of knots of a cost with functions, of time or for residuals, until a problem is made of it."""


def dimensions(value: Any) -> int:
    """Dimensions of an array-like; 0 for what is no array, which the checks that follow will say."""
    try:
        return np.ndim(value)
    except (TypeError, ValueError, RecursionError):
        return 0


def scalars_or_rows(name: str, value: Any, length: int | None) -> np.ndarray:
    """A finite array of shape (), (length,) or (K, length), K > 1; any length if it is None."""
    count = dimensions(value)
    if count < 2:
        return as_number_or_vector(name, value, length)
    if count > 2 or len(value) == 0:
        raise ValueError(f"{name}: got shape {np.shape(value)}, expected a number, a vector, or a row for each knot")
    K, width = np.shape(value)
    rows = as_array(name, value, (K, width if length is None else length), copy=True)
    return rows if K > 1 else rows.ravel()


def weight_rows(value: Any, length: int | None) -> np.ndarray:
    """Non-negative finite weights of shape (), (length,) or (K, length)."""
    weights = scalars_or_rows("weights", value, length)
    as_weights("weights", weights.ravel(), None)
    return weights


def state_rows(system: System, name: str, value: Any) -> np.ndarray:
    """States (nx,) or (K, nx), K > 1, that the system accepts."""
    if dimensions(value) < 2:
        return state_array(system, name, value)
    rows = scalars_or_rows(name, value, system.nx)
    if rows.ndim == 1:
        return state_array(system, name, rows)
    return np.stack([state_array(system, f"{name}[{t}]", row) for t, row in enumerate(rows)])


def as_rows(array: np.ndarray, n: int) -> np.ndarray:
    """The array as (1, n) or (K, n)."""
    return array if array.ndim == 2 else np.full((1, n), array)


def common_knots(cost: str, **arrays: Any) -> int | None:
    """Rows of the arrays that have one for every knot, None if none has; UNPLACED if one is a function of time."""
    if any(callable(array) for array in arrays.values()):
        return UNPLACED
    knots = {name: len(array) for name, array in arrays.items() if array.ndim == 2}
    if len(set(knots.values())) > 1:
        given = ", ".join(f"{count} rows of {name}" for name, count in knots.items())
        raise ValueError(f"{cost}: got {given}, expected as many of each")
    return next(iter(knots.values()), None)


def check_knots(cost: str, knots: int | None, points: np.ndarray) -> None:
    """Raise ValueError if a cost made for this many knots is evaluated at others."""
    if knots == UNPLACED:
        raise ValueError(
            f"{cost}: it has functions of time, which a trajopt.Problem evaluates, or of states, of which it makes "
            "residuals, expected the cost that it makes of it"
        )
    if knots is not None and len(points) != knots:
        raise ValueError(f"{cost}: made for {knots} knots, got {len(points)}")


def rows_of_times(name: str, function: OfTime, times: np.ndarray, width: int) -> np.ndarray:
    """Rows (K, width) of a function at times (K,), s.  Raises ValueError, naming argument and time, for others."""
    rows = [as_number_or_vector(f"{name}, at {t:g} s", function(float(t)), width) for t in times]
    return np.stack([np.broadcast_to(row, (width,)) for row in rows])


class PlacedCost:
    """Base of costs that count where their ``at`` says, with weights and references for every knot."""

    at: Where | None
    by_knot: tuple[str, ...] = ("weights", "reference")
    """Attributes that may have a row for every knot, or be a function of time."""

    def _width(self, name: str, system: System) -> int:
        """Numbers in a row."""
        raise NotImplementedError

    def _set(self, **values: Any) -> None:
        """Take these attributes as in the constructor."""
        raise NotImplementedError

    def placed(self, system: System, knots: np.ndarray, rows: np.ndarray, times: np.ndarray) -> Self:
        """See `trajopt.costs.Cost`."""
        count, times = len(knots), times[knots[rows]]
        found: dict[str, Any] = {name: getattr(self, name) for name in self.by_knot}
        differ = False
        for name, value in found.items():
            if not isinstance(value, np.ndarray):
                found[name] = rows_of_times(name, value, times, self._width(name, system))
            elif value.ndim == 2 and len(rows) < count:
                check_knots(type(self).__name__, len(value), np.empty(count))
                found[name] = value[rows]
            differ |= found[name] is not value
        if not differ:
            return self
        new = copy.copy(self)
        new._set(**found)
        return new
