"""Arguments that have a row for every knot, or one for all of them."""

from typing import Any

import numpy as np

from trajopt.interfaces.system import System, state_array
from trajopt.validation import float_array, scalar_or_vector, weights_array


def dimensions(value: Any) -> int:
    """Dimensions of an array-like; 0 for what is no array, which the checks that follow will say."""
    try:
        return np.ndim(value)
    except ValueError:
        return 0


def scalars_or_rows(name: str, value: Any, length: int | None) -> np.ndarray:
    """A finite array of shape (), (length,) or (K, length), K > 1; any length if it is None."""
    count = dimensions(value)
    if count < 2:
        return scalar_or_vector(name, value, length)
    if count > 2 or len(value) == 0:
        raise ValueError(f"{name}: got shape {np.shape(value)}, wanted a number, a vector, or a row for each knot")
    K, width = np.shape(value)
    rows = float_array(name, value, (K, width if length is None else length))
    return rows if K > 1 else rows.ravel()


def weight_rows(value: Any, length: int | None) -> np.ndarray:
    """Non-negative finite weights of shape (), (length,) or (K, length)."""
    weights = scalars_or_rows("weights", value, length)
    weights_array(weights.ravel(), None)
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


def common_knots(cost: str, **arrays: np.ndarray) -> int | None:
    """Rows of the arrays that have one for every knot, None if none has."""
    knots = {name: len(array) for name, array in arrays.items() if array.ndim == 2}
    if len(set(knots.values())) > 1:
        given = ", ".join(f"{count} rows of {name}" for name, count in knots.items())
        raise ValueError(f"{cost}: got {given}, wanted as many of each")
    return next(iter(knots.values()), None)


def check_knots(cost: str, knots: int | None, points: np.ndarray) -> None:
    """Raise ValueError if a cost made for this many knots is evaluated at others."""
    if knots is not None and len(points) != knots:
        raise ValueError(f"{cost}: made for {knots} knots, got {len(points)}")
