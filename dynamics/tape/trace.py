"""Tracing of users' functions, with replacements of NumPy functions that treat symbols differently from floats: new
arrays, limits, selections, small matrices.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
import types
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from dynamics.tape.graph import Graph, Untraceable
from dynamics.tape.symbol import Condition, Symbol, SymbolArray, condition_of

LARGEST_MATRIX = 3
"""Largest size of a matrix that is inverted; larger ones would need pivots, which depend on values."""


def _holding_symbols(make: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Variant of a function that makes arrays of floats, which makes arrays of objects; integer arrays are kept."""

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
    """True if there are symbols, or arrays that may hold some, among the values."""
    return any(isinstance(x, Symbol) or np.asarray(x).dtype == object for x in values)


def _where(condition, *sides):
    return _SELECT(condition, *sides) if _holds(condition, *sides) and sides else np.where(condition, *sides)


def _select(conditions, choices, default=0.0):
    result = default
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = _where(condition, choice, result)
    return result


def _logical(name: str, join: Callable[..., Any], count: int) -> Callable[..., Any]:
    """Variant of a logical function, which for symbols returns conditions."""
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
    """`max` for symbols and numbers."""
    return _fold(max, _MAXIMUM, args)


def smallest(*args: Any) -> Any:
    """`min` for symbols and numbers."""
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
    """`float` for symbols and numbers."""
    return x if isinstance(x, Symbol) else float(x)


def _det(A):
    """Determinant of a matrix of up to three rows, by its minors."""
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


# --------------------------------------------------------------------------------------------
# Tracing of a user's function by a call with symbols.
#
# NumPy functions work on arrays of symbols, those of `math` do not, and arrays of floats cannot store symbols.  So a
# copy of the function is called, with other globals: names of `math` are replaced by those of numpy, `np.zeros(3)`
# makes an array that can store symbols, and compiled functions are replaced by their Python source.  Functions that
# it calls are copied likewise.
#
# Where it branches on a condition it is called once for each path, and the results of the paths are selected by the
# condition.

MATH_NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "pow": "power", "fabs": "absolute",
}  # fmt: skip
"""Names in `math` of functions that have another name in numpy."""

MOST_PATHS = 16
"""Most traced paths through a function, and most conditions on one of them; loops that end by a condition exceed any
number."""

ARITHMETIC = (ArithmeticError, np.linalg.LinAlgError)
"""Exceptions of a function where it is not defined."""

BUILTINS = {"max": largest, "min": smallest, "float": as_float}


class _Module:
    """A module whose functions accept symbols."""

    def __init__(self, module: types.ModuleType, instead: Callable[[str, Any], Any]) -> None:
        self._module, self._instead = module, instead

    def __getattr__(self, name: str) -> Any:
        return self._instead(name, getattr(self._module, name))


def traceable(function: Any, copies: dict[int, Any] | None = None) -> Any:
    """Replacement, for calls with symbols, of a function or of any other value that a function may use.

    copies : copies made so far, by the identity of functions, which may call each other
    """
    copies = {} if copies is None else copies
    function = getattr(function, "py_func", function)
    if isinstance(function, functools.partial):
        return functools.partial(*(traceable(x, copies) for x in (function.func, *function.args)), **function.keywords)
    if isinstance(function, types.MethodType):
        return types.MethodType(traceable(function.__func__, copies), function.__self__)
    if isinstance(function, types.FunctionType):
        return copies[id(function)] if id(function) in copies else _copy(function, copies)
    return _instead(function, copies)


def _instead(value: Any, copies: dict[int, Any]) -> Any:
    """Replacement of the value of a global name of the function."""
    if value is np:
        return _Module(np, lambda name, own: NUMPY.get(name, own))
    if value is math:
        return _Module(math, lambda _, own: _of_math(own))
    if value is np.linalg:
        return LINALG
    if isinstance(value, types.ModuleType):
        return _Module(value, lambda _, own: traceable(own, copies))
    if isinstance(value, types.BuiltinFunctionType):
        return _of_math(value)
    name = getattr(value, "__name__", None)
    if isinstance(name, str) and name in NUMPY and value is getattr(np, name, None):
        return NUMPY[name]
    return value


def _of_math(value: Any) -> Any:
    """NumPy function that replaces one of the module `math`."""
    name = getattr(value, "__name__", "")
    if value is math.remainder:
        return ieee_remainder
    if getattr(value, "__module__", None) != "math" or value is not getattr(math, name, None):
        return value
    ufunc = getattr(np, MATH_NAMES.get(name, name), None)
    return functools.partial(_apply, ufunc, value) if isinstance(ufunc, np.ufunc) else value


def _apply(ufunc, own, *args):
    return ufunc(*args) if any(isinstance(x, Symbol) for x in args) else own(*args)


def _names(code: types.CodeType) -> set[str]:
    """Names of globals that a function and its inner functions use."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _copy(function: types.FunctionType, copies: dict[int, Any]) -> Any:
    """Copy of the function with other globals and cells, which are filled after it is stored among the copies."""
    names = {"__builtins__": builtins, "__name__": "traced"}
    cells = tuple(types.CellType() for _ in function.__closure__ or ())
    copy = types.FunctionType(function.__code__, names, function.__name__, function.__defaults__, cells)
    copy.__kwdefaults__ = function.__kwdefaults__
    copies[id(function)] = copy
    for name in _names(function.__code__):
        if name in function.__globals__:
            names[name] = traceable(function.__globals__[name], copies)
        elif name in BUILTINS:
            names[name] = BUILTINS[name]
    for new, old in zip(cells, function.__closure__ or (), strict=True):
        with suppress(ValueError):  # an empty cell
            new.cell_contents = traceable(old.cell_contents, copies)
    return copy


def traced(function: Callable[..., Any], *arguments: np.ndarray) -> np.ndarray:
    """Result of a function for arrays of symbols, as an array of symbols and numbers; NaN on paths on which it raises
    an arithmetic error.

    Raises `Untraceable` if tracing fails for any reason, as the function was not written for it.
    """
    graph = next(x.graph for a in arguments for x in a.flat)
    try:
        value = _Paths(graph, function, [a.view(SymbolArray) for a in arguments]).value([])
    finally:
        graph.decide = None
    if value is None:
        raise Untraceable("it is defined nowhere")
    return value


class _Paths:
    """The paths through a function, by the values of the conditions on which it branches."""

    def __init__(self, graph: Graph, function: Callable[..., Any], arguments: Sequence[np.ndarray]) -> None:
        self.graph, self.function, self.arguments, self.count = graph, function, arguments, 0

    def value(self, told: list[tuple[int, bool]]) -> np.ndarray | None:
        """Result on all paths that begin with these decisions (condition, its value), selected by the conditions that
        follow; None if the function is defined on no path."""
        self.count += 1
        if self.count > MOST_PATHS:
            raise Untraceable(f"it branches on its arguments in more than {MOST_PATHS} ways (np.where does not)")
        answers = list(told)
        known = dict(told)

        def decide(i: int) -> bool:
            opposite = self.graph.opposite(i)
            if opposite is not None:
                return not decide(opposite)
            if i not in known:
                if len(answers) >= MOST_PATHS:
                    raise Untraceable(f"it asks for more than {MOST_PATHS} conditions on its arguments, as a loop does")
                known[i] = True
                answers.append((i, True))
            return known[i]

        self.graph.decide = decide
        result = _called(self.function, self.arguments, lambda: bool(answers))
        for k in range(len(answers) - 1, len(told) - 1, -1):
            i = answers[k][0]
            result = self._selected(i, result, self.value([*answers[:k], (i, False)]))
        return result

    def _selected(self, i, one, other):
        if one is None or other is None:
            given = one if other is None else other
            missing = None if given is None else np.full(given.shape, np.nan, dtype=object)
            one, other = missing if one is None else one, missing if other is None else other
        if one is None:
            return None
        if one.shape != other.shape:
            raise Untraceable(f"it returns shapes {one.shape} and {other.shape}")
        return np.asarray(NUMPY["where"](Condition(self.graph, i), one, other), dtype=object)


def _called(function: Callable[..., Any], arguments: Sequence[np.ndarray], branched: Callable[[], bool]) -> Any:
    """Checked result of a function; None where it raises an arithmetic error after it has branched."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            value = np.array(function(*arguments), dtype=object)
    except Untraceable:
        raise
    except ARITHMETIC as error:
        if branched():
            return None
        raise Untraceable(f"it does not work on symbols ({type(error).__name__}: {error})") from error
    except RecursionError as error:
        raise Untraceable("it recurs") from error
    except Exception as error:
        raise Untraceable(f"it does not work on symbols ({type(error).__name__}: {error})") from error
    if not all(isinstance(x, Symbol) or _is_number(x) for x in value.flat):
        raise Untraceable("it returns something else than numbers")
    return value


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, np.integer, np.floating)) and operator.eq(x, x)
