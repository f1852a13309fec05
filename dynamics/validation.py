"""Checks of user input for all public functions: errors name the argument, the value got and the one expected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

PLACEMENT_TOLERANCE = 1e-6  # on R'R - I: rotations printed with seven digits pass
SYMMETRY_TOLERANCE = 1e-6  # relative to the largest entry
QUATERNION_TOLERANCE = 1e-6  # on |norm - 1|

T = TypeVar("T")


def as_floats(name: str, value: ArrayLike) -> np.ndarray:
    """C-contiguous float64 array of real numbers, of any shape and possibly not finite; booleans are no numbers.

    The caller's own array where that already fits; ValueError names the argument.
    """
    if type(value) is np.ndarray and value.dtype == np.float64 and value.flags.c_contiguous:
        return value
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name}: expected an array of real numbers, got {_shorten(value)} ({error})") from None
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name}: expected an array of real numbers, got {_shorten(value)} (dtype {array.dtype})")
    return np.ascontiguousarray(array, dtype=np.float64).reshape(array.shape)


def _shorten(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _require_finite(name: str, array: np.ndarray, allow_infinite: bool = False) -> None:
    good = ~np.isnan(array) if allow_infinite else np.isfinite(array)
    if not good.all():
        first = tuple(int(index) for index in np.argwhere(~good)[0])
        entry = f"{name}[{', '.join(map(str, first))}]" if first else name
        wanted = "no NaN" if allow_infinite else "finite numbers"
        raise ValueError(f"{entry} is {array[first]}, expected {wanted}")


def as_array(
    name: str,
    value: ArrayLike,
    shape: tuple[int | None, ...] | None = None,
    *,
    allow_infinite: bool = False,
    finite: bool = True,
) -> np.ndarray:
    """float64 array of this shape, C-contiguous; the caller's own array where that already fits.

    None among the sizes admits any length there; no shape at all admits any.

    Raises ValueError naming the argument if `value` is not made of real numbers, has another shape, or holds a NaN
    (or an infinity, unless `allow_infinite`), with the index of the first bad entry.  `finite=False` leaves the last
    check to the caller.
    """
    array = as_floats(name, value)
    fits = shape is None or (
        array.ndim == len(shape) and all(n is None or n == got for n, got in zip(shape, array.shape, strict=True))
    )
    if not fits:
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape or ()) + ")"
        raise ValueError(f"{name}: got shape {array.shape}, expected {wanted if None in (shape or ()) else shape}")
    if finite:
        _require_finite(name, array, allow_infinite)
    return array


def as_positive(name: str, value: float) -> float:
    """A positive finite number; ValueError otherwise."""
    number = float(as_array(name, value, ()))
    if number <= 0.0:
        raise ValueError(f"{name}: got {number}, expected a positive number")
    return number


def as_not_negative(name: str, value: float) -> float:
    """A finite number of at least zero; ValueError otherwise."""
    number = float(as_array(name, value, ()))
    if number < 0.0:
        raise ValueError(f"{name}: got {number}, expected a number >= 0")
    return number


def as_whole_number(name: str, value: int, least: int) -> int:
    """A whole number of at least `least`; ValueError otherwise, also for a float or a boolean."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name}: got {_shorten(value)}, expected a whole number of at least {least}")
    return int(value)


def as_batch(name: str, value: ArrayLike, n: int) -> tuple[np.ndarray, bool]:
    """One point (n,) or a batch (K, n) as an array (K, n), and True if it was one point.

    Raises ValueError as `as_array` does.
    """
    array = as_floats(name, value)
    single = array.ndim == 1
    if array.ndim not in (1, 2) or array.shape[-1] != n:
        raise ValueError(f"{name}: got shape {array.shape}, expected ({n},) or (K, {n})")
    _require_finite(name, array)
    return (array[np.newaxis] if single else array), single


def check_time_step(dt: object) -> None:
    """ValueError unless dt is a positive number of seconds."""
    if isinstance(dt, bool) or not isinstance(dt, (int, float, np.number)) or not np.isfinite(dt) or dt <= 0:
        raise ValueError(f"dt is {dt!r}; expected a positive number of seconds")


def check_choice(name: str, value: str, choices: Iterable[str]) -> None:
    """ValueError unless the value is among the choices."""
    if value not in choices:
        raise ValueError(f'{name} is "{value}"; expected one of {", ".join(choices)}')


def as_flag(name: str, value: bool) -> bool:
    """The boolean value; TypeError for values that are only truthy or falsy."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name}: got {_shorten(value)}, expected True or False")
    return bool(value)


def as_kind(name: str, value: object, kind: type[T], wanted: str | None = None) -> T:
    """The value; TypeError, with its class and the one expected, unless it is of this kind."""
    if not isinstance(value, kind):
        wanted = wanted or f"a{'n' * (kind.__name__[0] in 'AEIOU')} {kind.__name__}"
        raise TypeError(f"{name}: got {type(value).__name__}, expected {wanted}")
    return value


def as_items(name: str, value: Iterable[Any], what: str) -> tuple[Any, ...]:
    """The items of a sequence; TypeError for values that are not iterable, and for text and mappings."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"{name}: got {type(value).__name__}, expected a sequence of {what}")
    return tuple(value)


def as_name(argument: str, value: object) -> str:
    """A nonempty string; ValueError otherwise."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{argument}: got {_shorten(value)}, expected a nonempty string")
    return value


def unknown_name(kind: str, name: object, known: Iterable[str]) -> ValueError:
    """The error for a name that is not among the known ones, with the nearest matches."""
    known = list(known)
    near = difflib.get_close_matches(str(name), known, n=3, cutoff=0.5)
    if near:
        hint = "did you mean " + " or ".join(map(repr, near)) + "?"
    elif known:
        hint = "known: " + ", ".join(map(repr, known[:8])) + (", ..." if len(known) > 8 else "")
    else:
        hint = "there are none yet"
    return ValueError(f"unknown {kind} {name!r}; {hint}")


def look_up(kind: str, name: object, known: Mapping[str, T]) -> T:
    """The value known by a name; ValueError as `unknown_name`, also for values that cannot be names."""
    if not isinstance(name, str) or name not in known:
        raise unknown_name(kind, name, known)
    return known[name]


def as_placement(name: str, value: tuple[ArrayLike, ArrayLike] | None) -> tuple[np.ndarray, np.ndarray]:
    """Placement (R, p) with x_parent = R x + p; None is the identity.

    R may be rounded in its seventh digit; it is then moved to the nearest rotation (two Newton steps of the polar
    decomposition). Raises ValueError if `value` is no pair, on wrong shapes, and if R is not a rotation.
    """
    if value is None:
        return np.eye(3), np.zeros(3)
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"{name}: got {_shorten(value)}, expected a pair (R, p) of shapes (3, 3) and (3,)")
    R = as_array(f"{name} rotation", value[0], (3, 3))
    p = as_array(f"{name} translation", value[1], (3,)).copy()
    with np.errstate(over="ignore", invalid="ignore"):
        defect = np.abs(R.T @ R - np.eye(3)).max()
    if not defect <= PLACEMENT_TOLERANCE:
        raise ValueError(
            f"{name}: the rotation matrix is not orthonormal, |R'R - I| = {defect:.3g}, "
            f"expected at most {PLACEMENT_TOLERANCE:g}"
        )
    if np.linalg.det(R) < 0.0:
        raise ValueError(f"{name}: the rotation matrix has determinant -1 (a reflection), expected +1")
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
