"""Checks of users' arguments: each error names the argument, the value it got and the one expected."""

import difflib
from collections.abc import Iterable
from typing import Any

import numpy as np


def number_array(name: str, value: Any, wanted: str = "numbers") -> np.ndarray:
    """An array of real numbers, of any shape, which may not be finite; TypeError for text, truth values and other
    types."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{name}: got {type(value).__name__}, expected {wanted}") from error
    if array.dtype.kind not in "fiu":
        of = f" of {array.dtype.name}" if array.dtype.kind in "bcSU" and array.ndim else ""
        raise TypeError(f"{name}: got {type(value).__name__}{of}, expected {wanted}")
    return array


def float_array(name: str, value: Any, shape: tuple[int, ...] | None) -> np.ndarray:
    """A fresh C-ordered float64 copy of value, which must be finite and have exactly this shape; None admits any.

    Raises TypeError if value is not numeric, ValueError if the shape or a number is wrong.
    """
    wanted = "an array of numbers" if shape is None else f"an array of numbers of shape {shape}"
    array = np.array(number_array(name, value, wanted), dtype=np.float64, order="C")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name}: got shape {array.shape}, expected {shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: got NaN or Inf, expected finite numbers")
    return array


def scalar_or_vector(name: str, value: Any, length: int | None) -> np.ndarray:
    """A finite float64 array of shape () or (length,); of any length if that is None."""
    array = float_array(name, value, None)
    if array.ndim > 1 or (not array.size and length is None):
        raise ValueError(f"{name}: got shape {array.shape}, expected a number or a vector")
    if array.ndim == 1 and length is not None and array.shape != (length,):
        raise ValueError(f"{name}: got {array.shape[0]} numbers, expected one or {length}")
    return array


def weights_array(value: Any, length: int | None, name: str = "weights") -> np.ndarray:
    """Non-negative finite weights, a number or a vector of this length."""
    weights = scalar_or_vector(name, value, length)
    if (weights < 0).any():
        raise ValueError(f"{name}: got {float(weights.min())}, expected no negative weight")
    return weights


def positive_sizes(name: str, value: Any, length: int) -> np.ndarray:
    """An array (length,) of positive numbers, from such an array or from one number."""
    sizes = np.full(length, 1.0) * scalar_or_vector(name, value, length)
    if (sizes <= 0).any():
        raise ValueError(f"{name}: got {float(sizes.min())}, expected positive sizes")
    return sizes


def whole_number(name: str, value: Any, least: int) -> int:
    """An integer of at least `least`; bool and float are rejected."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name}: got {value!r}, expected an integer >= {least}")
    if value < least:
        raise ValueError(f"{name}: got {value}, expected an integer >= {least}")
    return int(value)


def positive_number(name: str, value: Any) -> float:
    """A finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name}: got {value!r}, expected a positive number")
    if not 0.0 < value < np.inf:
        raise ValueError(f"{name}: got {value}, expected a positive number")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """True or False; TypeError for any other value, even one with a truth value."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: got {value!r}, expected True or False")
    return bool(value)


def text(name: str, value: Any) -> str:
    """A string; TypeError for anything else."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: got {value!r}, expected text")
    return value


def list_of_names(name: str, value: Any, count: int) -> tuple[str, ...]:
    """A tuple of `count` names."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise TypeError(f"{name}: got {value!r}, expected a list of {count} names")
    if len(value) != count:
        raise ValueError(f"{name}: got {len(value)} names, expected {count}")
    return tuple(value)


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """The value if it is among the choices, else an error that names the nearest one."""
    choices = tuple(choices)
    if value not in choices:
        raise ValueError(
            f"{name}: got {value!r}, expected one of {', '.join(map(repr, choices))}{did_you_mean(value, choices)}"
        )
    return value


def did_you_mean(value: Any, choices: Iterable[str]) -> str:
    """Text '; did you mean X?' where a choice resembles the value, else empty."""
    near = difflib.get_close_matches(str(value), tuple(choices), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def same_shape(what: str, array: Any, shape: tuple[int, ...]) -> np.ndarray:
    """A C-ordered float64 view or copy of an array that a user's object returned, of the expected shape; kernels rely
    on it."""
    if getattr(array, "dtype", None) != np.float64:
        array = number_array(what, array)
    array = np.ascontiguousarray(array, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{what}: returned shape {array.shape}, expected {shape}")
    return array


def check_shape(what: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array unchanged, strided or not; ValueError if it has another shape."""
    if np.shape(array) != shape:
        raise ValueError(f"{what}: returned shape {np.shape(array)}, expected {shape}")
    return array


def check_rows(what: str, array: np.ndarray, rows: int, row: tuple[int, ...]) -> None:
    """Raise ValueError unless the array is (K, *row) with K at least `rows`, which kernels read and write."""
    if array.shape[1:] != row or array.shape[0] < rows:
        wanted = ", ".join(map(str, (f"at least {rows}", *row)))
        raise ValueError(f"{what}: got shape {array.shape}, expected ({wanted})")
