"""Checks of arguments, for all public functions: errors read "argument: got X, expected Y".

A value of a wrong type raises TypeError, a wrong number, name or shape ValueError.  Where numbers or names are expected
the first is a `WrongTypeError`, which is both.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

PLACEMENT_TOLERANCE = 1e-6  # on R'R - I: rotations printed with seven digits pass
SYMMETRY_TOLERANCE = 1e-6  # relative to the largest entry
QUATERNION_TOLERANCE = 1e-6  # on |norm - 1|

T = TypeVar("T")
_repr = reprlib.Repr()
_repr.maxstring = _repr.maxother = 60


class WrongTypeError(TypeError, ValueError):
    """A value of another type where numbers or names are expected."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


def _shown(value: object) -> str:
    return " ".join(_repr.repr(value).split())


def _shape_text(shape: tuple[int | None, ...]) -> str:
    sizes = ["any" if n is None else str(n) for n in shape]
    return f"({', '.join(sizes)}{',' * (len(sizes) == 1)})"


# -------------------------------------------------------------------------------------------------------------- arrays


def as_floats(name: str, value: Any, expected: str = "an array of real numbers") -> np.ndarray:
    """C-contiguous float64 array of real numbers, of any shape and possibly not finite; booleans are no numbers, and
    what masked arrays hide is none.

    The caller's own array where that already fits; WrongTypeError names the argument.
    """
    if type(value) is np.ndarray and value.dtype == np.float64 and value.flags.c_contiguous:
        return value
    try:
        array = None if has_mask(value) else np.asarray(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise WrongTypeError(f"{name}: got {_shown(value)}, expected {expected}") from error
    if array is None:
        raise WrongTypeError(f"{name}: got a masked array, expected {expected} without a mask, as of array.filled(...)")
    if array.dtype.kind not in "fiu":
        raise WrongTypeError(f"{name}: got {_shown(value)}, expected {expected}")
    return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)


def has_mask(value: object) -> bool:
    """True for a masked array, whose mask numpy drops in silence, and for a list with one in it."""
    try:
        return _has_mask(value)
    except RecursionError:
        return False


def _has_mask(value: object) -> bool:
    if not isinstance(value, (list, tuple)):
        return isinstance(value, np.ma.MaskedArray)
    kinds = set(map(type, value))  # a few, of many numbers
    return any(issubclass(kind, (list, tuple, np.ma.MaskedArray)) for kind in kinds) and any(map(_has_mask, value))


def check_shape(name: str, array: np.ndarray, shape: tuple[int | None, ...]) -> np.ndarray:
    """The array unchanged, strided or not; ValueError if it has another shape, where None admits any length."""
    got = array.shape if type(array) is np.ndarray else np.shape(array)
    if got != shape and (len(got) != len(shape) or any(n not in (None, m) for n, m in zip(shape, got, strict=True))):
        raise ValueError(f"{name}: got shape {got}, expected {_shape_text(shape)}")
    return array


def check_rows(name: str, array: np.ndarray, rows: int, row: tuple[int, ...]) -> None:
    """ValueError unless the array is (K, *row) with K at least `rows`, which kernels read and write."""
    if array.shape[1:] != row or array.shape[0] < rows:
        sizes = ", ".join(map(str, (f"at least {rows}", *row)))
        raise ValueError(f"{name}: got shape {array.shape}, expected ({sizes})")


def check_blocks(blocks: Sequence[Any], stop: int, n: int, m: int) -> None:
    """ValueError unless blocks of an expansion over knots, lx, lu, lxx, lux and luu, reach this one, and are those of n
    tangent components, and of m controls if there are any."""
    lx, lu, lxx, lux, luu = blocks
    shapes = [("lx", lx, (n,)), ("lxx", lxx, (n, n))]
    if m:
        shapes += [("lu", lu, (m,)), ("lux", lux, (m, n)), ("luu", luu, (m, m))]
    for name, block, row in shapes:
        check_rows(name, block, stop, row)


def check_finite(name: str, array: np.ndarray, allow_infinite: bool = False) -> None:
    """ValueError, with the index of the first bad entry, for a NaN, and for an infinity unless `allow_infinite`."""
    good = ~np.isnan(array) if allow_infinite else np.isfinite(array)
    if good.size and not good.flat[good.argmin()]:  # faster than `all` for what is small
        first = tuple(int(index) for index in np.argwhere(~good)[0])
        entry = f"{name}[{', '.join(map(str, first))}]" if first else name
        expected = "numbers or infinities" if allow_infinite else "finite numbers"
        raise ValueError(f"{entry}: got {array[first]}, expected {expected}")


def as_array(
    name: str,
    value: Any,
    shape: tuple[int | None, ...] | None = None,
    *,
    allow_infinite: bool = False,
    finite: bool = True,
    copy: bool = False,
) -> np.ndarray:
    """float64 array of this shape, C-contiguous; the caller's own array where that already fits, unless `copy`.

    None among the sizes admits any length there; no shape at all admits any.

    Raises WrongTypeError if `value` is not made of real numbers, and ValueError if it has another shape or holds a NaN
    (or an infinity, unless `allow_infinite`), with the index of the first bad entry.  `finite=False` leaves the last
    check to the caller.
    """
    array = as_floats(name, value, "an array of real numbers" if shape != () else "a number")
    if shape is not None and array.shape != shape:
        check_shape(name, array, shape)
    if finite:
        check_finite(name, array, allow_infinite)
    return array.copy() if copy else array


def as_batch(name: str, value: Any, n: int) -> tuple[np.ndarray, bool]:
    """One point (n,) or a batch (K, n) as an array (K, n), and True if it was one point.

    Raises the errors of `as_array`.
    """
    array = as_floats(name, value)
    single = array.ndim == 1
    if array.ndim not in (1, 2) or array.shape[-1] != n:
        raise ValueError(f"{name}: got shape {array.shape}, expected ({n},) or (K, {n})")
    check_finite(name, array)
    return (array[np.newaxis] if single else array), single


def as_number_or_vector(name: str, value: Any, length: int | None) -> np.ndarray:
    """A finite float64 array of shape () or (length,), a copy; of any length but zero if that is None."""
    array = as_array(name, value, copy=True)
    if array.ndim > 1 or (not array.size and length is None):
        raise ValueError(f"{name}: got shape {array.shape}, expected a number or a vector")
    if array.ndim == 1 and length is not None and array.shape != (length,):
        raise ValueError(f"{name}: got {array.shape[0]} numbers, expected one or {length}")
    return array


def as_weights(name: str, value: Any, length: int | None) -> np.ndarray:
    """Non-negative finite weights, a number or a vector of this length."""
    weights = as_number_or_vector(name, value, length)
    if (weights < 0).any():
        raise ValueError(f"{name}: got {float(weights.min())}, expected no negative weight")
    return weights


def as_sizes(name: str, value: Any, length: int) -> np.ndarray:
    """Positive numbers (length,), from such an array or from one number."""
    sizes = np.full(length, 1.0) * as_number_or_vector(name, value, length)
    if (sizes <= 0).any():
        raise ValueError(f"{name}: got {float(sizes.min())}, expected positive sizes")
    return sizes


# ------------------------------------------------------------------------------------------------------------- numbers


def as_number(name: str, value: Any) -> float:
    """A finite number."""
    return float(as_array(name, value, ()))


def as_positive(name: str, value: Any, unit: str = "") -> float:
    """A positive finite number; errors name its unit, in the plural."""
    number = float(as_array(name, value, (), finite=False))
    if not 0.0 < number < np.inf:
        raise ValueError(f"{name}: got {value}, expected a positive number{f' of {unit}' if unit else ''}")
    return number


def as_not_negative(name: str, value: Any) -> float:
    """A finite number of at least zero."""
    number = float(as_array(name, value, (), finite=False))
    if not 0.0 <= number < np.inf:
        raise ValueError(f"{name}: got {value}, expected a number >= 0")
    return number


def as_whole_number(name: str, value: Any, least: int) -> int:
    """An integer of at least `least`; WrongTypeError for a float or a boolean."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise WrongTypeError(f"{name}: got {_shown(value)}, expected an integer >= {least}")
    if value < least:
        raise ValueError(f"{name}: got {value}, expected an integer >= {least}")
    return int(value)


# ------------------------------------------------------------------------------------------------ objects and sequences


def as_flag(name: str, value: bool) -> bool:
    """The boolean value; TypeError for values that are only truthy or falsy."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: got {_shown(value)}, expected True or False")
    return bool(value)


def as_kind(name: str, value: object, kind: type[T], expected: str | None = None) -> T:
    """The value; TypeError, with its class and the one expected, unless it is of this kind."""
    if not isinstance(value, kind):
        expected = expected or f"a{'n' * (kind.__name__[0] in 'AEIOU')} {kind.__name__}"
        raise TypeError(f"{name}: got {type(value).__name__}, expected {expected}")
    return value


def as_items(name: str, value: Iterable[Any], what: str) -> tuple[Any, ...]:
    """The items of a sequence; TypeError for values that are not iterable, and for text and mappings."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name}: got {type(value).__name__}, expected a sequence of {what}")
    return tuple(value)


# --------------------------------------------------------------------------------------------------------------- names


def as_text(name: str, value: object) -> str:
    """A string, which may be empty."""
    if not isinstance(value, str):
        raise WrongTypeError(f"{name}: got {_shown(value)}, expected text")
    return value


def as_name(argument: str, value: object) -> str:
    """A nonempty string."""
    if not isinstance(value, str):
        raise WrongTypeError(f"{argument}: got {_shown(value)}, expected a nonempty string")
    if not value:
        raise ValueError(f"{argument}: got {value!r}, expected a nonempty string")
    return value


def as_names(name: str, value: Iterable[str], count: int) -> tuple[str, ...]:
    """A tuple of `count` names, from a list or a tuple."""
    if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
        raise TypeError(f"{name}: got {_shown(value)}, expected a list of {count} names")
    if len(value) != count:
        raise ValueError(f"{name}: got {len(value)} names, expected {count}")
    return tuple(value)


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Text "; did you mean 'x'?" where a name resembles the given one, else empty."""
    near = difflib.get_close_matches(str(name), tuple(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""


def unknown_name(argument: str, name: object, known: Iterable[str], most: int = 8) -> ValueError:
    """The error for a name that is not among the known ones, with the first of those, at `most`, and the nearest."""
    known = tuple(known)
    listed = ", ".join(map(repr, known[:most])) + ", ..." * (len(known) > most)
    expected = f"one of {listed}{did_you_mean(name, known)}" if known else "none, for there are none yet"
    return ValueError(f"{argument}: got {_shown(name)}, expected {expected}")


def as_choice(argument: str, value: str, choices: Iterable[str]) -> str:
    """The value; the error of `unknown_name`, with all choices, unless it is among them."""
    choices = tuple(choices)
    if value not in choices:
        raise unknown_name(argument, value, choices, len(choices))
    return value


def look_up(argument: str, name: object, known: Mapping[str, T]) -> T:
    """The value known by a name; the error of `unknown_name`, also for values that cannot be names."""
    if not isinstance(name, str) or name not in known:
        raise unknown_name(argument, name, known)
    return known[name]


# ----------------------------------------------------------------------------------------------- placements and inertia


def as_placement(name: str, value: tuple[ArrayLike, ArrayLike] | None) -> tuple[np.ndarray, np.ndarray]:
    """Placement (R, p) with x_parent = R x + p; None is the identity.

    R may be rounded in its seventh digit; it is then moved to the nearest rotation (two Newton steps of the polar
    decomposition). Raises ValueError if `value` is no pair, on wrong shapes, and if R is not a rotation.
    """
    if value is None:
        return np.eye(3), np.zeros(3)
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"{name}: got {_shown(value)}, expected a pair (R, p) of shapes (3, 3) and (3,)")
    R = as_array(f"{name} rotation", value[0], (3, 3))
    p = as_array(f"{name} translation", value[1], (3,), copy=True)
    with np.errstate(over="ignore", invalid="ignore"):
        defect = np.abs(R.T @ R - np.eye(3)).max()
    if not defect <= PLACEMENT_TOLERANCE:
        raise ValueError(
            f"{name}: got a rotation matrix that is not orthonormal, |R'R - I| = {defect:.3g}, "
            f"expected at most {PLACEMENT_TOLERANCE:g}"
        )
    if np.linalg.det(R) < 0.0:
        raise ValueError(f"{name}: got a rotation matrix of determinant -1 (a reflection), expected +1")
    for _ in range(2):
        R = R @ (1.5 * np.eye(3) - 0.5 * (R.T @ R))
    return R, p


def as_inertia(name: str, value: ArrayLike | None) -> np.ndarray:
    """Symmetric rotational inertia (3, 3), rounding removed; None is that of a point mass, zero.

    Raises ValueError on a wrong shape, a non-finite entry, or asymmetry beyond a relative 1e-6.
    """
    if value is None:
        return np.zeros((3, 3))
    inertia = as_array(name, value, (3, 3))
    symmetric = 0.5 * inertia + 0.5 * inertia.T
    skew = np.abs(inertia - symmetric).max()
    if skew > SYMMETRY_TOLERANCE * np.abs(inertia).max():
        raise ValueError(
            f"{name}: got an asymmetric matrix, |I - I'| = {2 * skew:.3g}, expected a symmetric (3, 3) inertia"
        )
    return symmetric
