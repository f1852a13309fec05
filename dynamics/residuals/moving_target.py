"""Targets of residuals: one for all knots of a problem, one for each of them, or a function of time.

    kind         one target     one per knot                  numbers of a target
    VECTOR       (n,)           (N+1, n)                      n
    ROTATION     (3, 3)         (N+1, 3, 3)                   9, row-major
    PLACEMENT    (R, p)         (R, p), one or both of them   12, those of R and then those of p

Knots are 0 ... N, whichever of them a residual is evaluated at.  A function takes the time of a knot (s) and returns
one target; `trajopt.Problem` evaluates it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.residuals.target_gradient import PLACEMENT, VECTOR
from dynamics.validation import as_array, as_floats, as_placement

Targets = tuple[Any, np.ndarray | None]
"""A target as residuals keep it, and its numbers (1 or N+1, n), None of a function of time."""


def as_targets(kind: str, value: Any, size: int) -> Targets:
    """The argument `target` of a residual, its arrays copied and read-only.

    Raises ValueError naming the argument, and the knot of several, for another shape, entries that are not finite, and
    what is no rotation.
    """
    if callable(value):
        return value, None
    if kind == VECTOR:
        array = as_floats("target", value)
        if array.ndim not in (1, 2) or array.shape[-1] != size or not len(array):
            raise ValueError(f"target: got shape {array.shape}, expected ({size},), or (N+1, {size}) with one per knot")
        array = as_array("target", array)
        return _kept(array[0] if len(array) == 1 and array.ndim == 2 else array, array.reshape(-1, size))
    if kind == PLACEMENT:
        return _placements("target", value)
    rotation = as_floats("target", value)
    if rotation.ndim != 3 or not len(rotation):
        rotation, _ = as_placement("target", (value, np.zeros(3)))
    else:
        found = [as_placement(f"target[{t}]", (R, np.zeros(3)))[0] for t, R in enumerate(rotation)]
        rotation = np.stack(found) if len(found) > 1 else found[0]
    return _kept(rotation, rotation.reshape(-1, 9))


def targets_at(kind: str, function: Callable[[float], Any], size: int, times: np.ndarray) -> Targets:
    """The same for what a function returns at times (K,), s, K > 1; ValueError also names the time."""
    found = [function(float(t)) for t in times]
    names = [f"target({t:g} s)" for t in times]
    if kind == VECTOR:
        rows = np.stack([as_array(name, one, (size,)) for name, one in zip(names, found, strict=True)])
        return _kept(rows, rows)
    if kind == PLACEMENT:
        pairs = [as_placement(name, _not_none(name, one)) for name, one in zip(names, found, strict=True)]
        return _kept_pair(np.stack([R for R, _ in pairs]), np.stack([p for _, p in pairs]))
    R = np.stack([as_placement(name, (one, np.zeros(3)))[0] for name, one in zip(names, found, strict=True)])
    return _kept(R, R.reshape(-1, 9))


def as_places(name: str, value: Any) -> Targets:
    """The places of an obstacle: as of a target that is a pose, or positions alone, (3,) or (N+1, 3).

    Raises ValueError naming the argument.
    """
    if callable(value):
        return value, None
    if isinstance(value, tuple):
        return _placements(name, value)
    p = as_floats(name, value)
    if p.ndim not in (1, 2) or p.shape[-1] != 3 or not len(p):
        wanted = "(3,), or (N+1, 3) with one for each knot, a pair (R, p), or a function of time"
        raise ValueError(f"{name}: got shape {p.shape}, expected {wanted}")
    p = as_array(name, p)
    return _placements(name, (np.eye(3), p[0] if len(p) == 1 and p.ndim == 2 else p))


def places_at(name: str, function: Callable[[float], Any], times: np.ndarray) -> Targets:
    """The same for what a function returns at times (K,), s, K > 1; ValueError also names the time."""
    found = [as_places(f"{name}({t:g} s)", function(float(t))) for t in times]
    for t, (_, rows) in zip(times, found, strict=True):
        if rows is None or len(rows) != 1:
            raise ValueError(f"{name}({t:g} s): got more than one place, expected (3,) or a pair (R, p)")
    return _kept_pair(*(np.stack(parts) for parts in zip(*(place for place, _ in found), strict=True)))


def _placements(name: str, value: Any) -> Targets:
    stacked = isinstance(value, (tuple, list)) and len(value) == 2 and None not in map(_dimensions, value)
    R_dimensions, p_dimensions = map(_dimensions, value) if stacked else (2, 1)
    if (R_dimensions, p_dimensions) not in ((3, 2), (3, 1), (2, 2)):
        return _kept_pair(*as_placement(name, _not_none(name, value)))
    R, p = as_floats(f"{name} rotation", value[0]), as_floats(f"{name} translation", value[1])
    counts = [len(part) for part, of_one in ((R, 2), (p, 1)) if part.ndim > of_one]
    if len(set(counts)) > 1 or 0 in counts:
        raise ValueError(f"{name}: got {len(R)} rotations and {len(p)} translations, expected as many of each, or one")
    R, p = (R if R.ndim == 3 else [R] * counts[0]), (p if p.ndim == 2 else [p] * counts[0])
    pairs = [as_placement(f"{name}[{t}]", pair) for t, pair in enumerate(zip(R, p, strict=True))]
    if len(pairs) == 1:
        return _kept_pair(*pairs[0])
    return _kept_pair(np.stack([R for R, _ in pairs]), np.stack([p for _, p in pairs]))


def _dimensions(value: Any) -> int | None:
    """Dimensions of an array-like, None of what is no array."""
    try:
        return np.ndim(value)
    except ValueError:
        return None


def _not_none(name: str, value: Any) -> Any:
    if value is None:
        raise ValueError(f"{name}: got None, expected a pair (R, p) of shapes (3, 3) and (3,)")
    return value


def _kept(target: np.ndarray, rows: np.ndarray) -> Targets:
    """A read-only copy, and numbers that kernels may have, which are not read-only."""
    target = target.copy()
    target.flags.writeable = False
    return target, rows.copy()


def _kept_pair(R: np.ndarray, p: np.ndarray) -> Targets:
    rows = np.hstack([R.reshape(-1, 9), p.reshape(-1, 3)])
    R, p = R.copy(), p.copy()
    R.flags.writeable = p.flags.writeable = False
    return (R, p), rows
