"""Functions of numpy that do something else with symbols than with floats: new arrays, limits, selections, small
matrices."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.tape.graph import Untraceable
from dynamics.tape.symbol import Symbol, SymbolArray, condition_of

LARGEST_MATRIX = 3
"""That is inverted; larger ones would need pivots, which depend on numbers."""


def _holding_symbols(make: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """A function that makes arrays of floats, as one that makes arrays of objects; those of integers stay."""

    def made(*args: Any, dtype: Any = None, **options: Any) -> Any:
        if dtype is as_float or (dtype is not None and np.issubdtype(dtype, np.inexact)):
            dtype = None
        if dtype is not None:
            return make(*args, dtype=dtype, **options)
        array = make(*args, **options)
        if np.issubdtype(array.dtype, np.inexact):
            array = array.astype(object)
        return array.view(SymbolArray) if array.dtype == object else array

    return made


def _elementwise(name: str) -> Callable[..., Any]:
    plain = getattr(np, name)

    def one(a, b):
        if isinstance(a, Symbol):
            return getattr(a, name)(b)
        return getattr(b, name)(a) if isinstance(b, Symbol) else plain(a, b)

    return np.frompyfunc(one, 2, 1)


_MAXIMUM, _MINIMUM = _elementwise("maximum"), _elementwise("minimum")
_SIGN = np.frompyfunc(lambda a: a.sign() if isinstance(a, Symbol) else np.sign(a), 1, 1)


_HEAVISIDE = np.frompyfunc(lambda a, b: a.heaviside(b) if isinstance(a, Symbol) else np.heaviside(a, b), 2, 1)
_SELECT = np.frompyfunc(lambda c, a, b: c.select(a, b) if isinstance(c, Symbol) else (a if c else b), 3, 1)


def _holds(*values: Any) -> bool:
    """Whether there are symbols, or arrays that may hold some, among the values."""
    return any(isinstance(x, Symbol) or np.asarray(x).dtype == object for x in values)


def _where(condition, *sides):
    return _SELECT(condition, *sides) if _holds(condition, *sides) and sides else np.where(condition, *sides)


def _select(conditions, choices, default=0.0):
    result = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = _where(condition, choice, result)
    return result


def _logical(name: str, join: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function of truth values, which of symbols are conditions."""
    plain = getattr(np, name)

    def one(*args):
        return join(*(condition_of(x) if isinstance(x, Symbol) else bool(x) for x in args))

    each = np.frompyfunc(one, count, 1)
    return lambda *args: each(*args) if _holds(*args) else plain(*args)


def ieee_remainder(x: Any, y: Any) -> Any:
    """`math.remainder`: x less the nearest multiple of y."""
    n = x / y
    return x - y * (n.rint() if isinstance(n, Symbol) else round(n)) if _holds(x, y) else math.remainder(x, y)


def _clip(x, lower, upper):
    return _MINIMUM(_MAXIMUM(x, lower), upper)


def largest(*args: Any) -> Any:
    """`max`."""
    return _fold(max, _MAXIMUM, args)


def smallest(*args: Any) -> Any:
    """`min`."""
    return _fold(min, _MINIMUM, args)


def _fold(plain, pair, args):
    items = list(args[0]) if len(args) == 1 else list(args)
    if not any(isinstance(x, Symbol) for x in items):
        return plain(items)
    result = items[0]
    for x in items[1:]:
        result = pair(result, x)
    return result


def as_float(x: Any = 0.0) -> Any:
    """`float`."""
    return x if isinstance(x, Symbol) else float(x)


def _det(A):
    """Of a matrix of up to three rows, by its minors."""
    n = _size(A)
    if n == 1:
        return A[0, 0]
    if n == 2:
        return A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0]
    return sum(A[0, j] * _cofactor(A, 0, j) for j in range(3))


def _cofactor(A, i, j):
    rows, columns = ([k % 3 for k in (start + 1, start + 2)] for start in (i, j))
    return _det(A[np.ix_(rows, columns)])


def _inv(A):
    A = np.asarray(A, dtype=object)
    n = _size(A)
    if n == 1:
        return 1.0 / A
    if n == 2:
        adjugate = np.array([[A[1, 1], -A[0, 1]], [-A[1, 0], A[0, 0]]], dtype=object)
    else:
        adjugate = np.array([[_cofactor(A, j, i) for j in range(3)] for i in range(3)], dtype=object)
    return adjugate * (1.0 / _det(A))


def _solve(A, b):
    return _inv(A) @ np.asarray(b, dtype=object)


def _size(A):
    if np.ndim(A) != 2 or A.shape[0] != A.shape[1] or len(A) > LARGEST_MATRIX:
        raise Untraceable(f"it inverts a matrix of shape {np.shape(A)}")
    return len(A)


NUMPY = {
    name: _holding_symbols(getattr(np, name))
    for name in (
        "zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like", "array", "asarray",
        "ascontiguousarray", "eye", "identity",
    )
} | {
    "where": _where, "select": _select,
    "logical_and": _logical("logical_and", lambda a, b: a & b, 2),
    "logical_or": _logical("logical_or", lambda a, b: a | b, 2),
    "logical_xor": _logical("logical_xor", lambda a, b: a ^ b, 2),
    "logical_not": _logical("logical_not", lambda a: ~a if isinstance(a, Symbol) else not a, 1),
    "maximum": _MAXIMUM, "minimum": _MINIMUM, "sign": _SIGN, "heaviside": _HEAVISIDE, "clip": _clip,
    "float64": as_float,
}  # fmt: skip
LINALG: Any = types.SimpleNamespace(
    norm=np.linalg.norm, det=lambda A: _det(np.asarray(A, dtype=object)), inv=_inv, solve=_solve
)
NUMPY["linalg"] = LINALG
