"""A user's function called with symbols.

Functions of numpy work on arrays of symbols, those of `math` do not, and arrays of floats do not take symbols.  So it
is a copy of the function that is called, with other globals: names of `math` stand for their namesakes in numpy,
`np.zeros(3)` makes an array that symbols can be written to, and compiled functions stand for their Python source.
Functions that it calls are copied likewise.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
import types
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from dynamics.tape import array_functions
from dynamics.tape.graph import Untraceable
from dynamics.tape.symbol import Symbol

MATH_NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "pow": "power", "fabs": "absolute",
}  # fmt: skip
"""Of functions that numpy calls otherwise."""

BUILTINS = {"max": array_functions.largest, "min": array_functions.smallest, "float": array_functions.as_float}


class _Module:
    """A module whose functions take symbols."""

    def __init__(self, module: types.ModuleType, instead: Callable[[str, Any], Any]) -> None:
        self._module, self._instead = module, instead

    def __getattr__(self, name: str) -> Any:
        return self._instead(name, getattr(self._module, name))


def traceable(function: Any, copies: dict[int, Any] | None = None) -> Any:
    """What to call with symbols in place of a function, or of anything else that a function may use.

    copies : those made already, by the identity of functions, which may call each other
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
    """What a name of the function's stands for."""
    if value is np:
        return _Module(np, lambda name, own: array_functions.NUMPY.get(name, own))
    if value is math:
        return _Module(math, lambda _, own: _of_math(own))
    if value is np.linalg:
        return array_functions.LINALG
    if isinstance(value, types.ModuleType):
        return _Module(value, lambda _, own: traceable(own, copies))
    if isinstance(value, types.BuiltinFunctionType):
        return _of_math(value)
    name = getattr(value, "__name__", None)
    if isinstance(name, str) and name in array_functions.NUMPY and value is getattr(np, name, None):
        return array_functions.NUMPY[name]
    return value


def _of_math(value: Any) -> Any:
    """numpy's function for one of the module `math`."""
    name = getattr(value, "__name__", "")
    if getattr(value, "__module__", None) != "math" or value is not getattr(math, name, None):
        return value
    ufunc = getattr(np, MATH_NAMES.get(name, name), None)
    return functools.partial(_apply, ufunc, value) if isinstance(ufunc, np.ufunc) else value


def _apply(ufunc, own, *args):
    return ufunc(*args) if any(isinstance(x, Symbol) for x in args) else own(*args)


def _names(code: types.CodeType) -> set[str]:
    """Names of globals that a function uses, and functions inside it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _copy(function: types.FunctionType, copies: dict[int, Any]) -> Any:
    """The function with other globals and cells, which are filled when it can be found among the copies."""
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
        with suppress(ValueError):  # an empty one
            new.cell_contents = traceable(old.cell_contents, copies)
    return copy


def traced(function: Callable[..., Any], *arguments: np.ndarray) -> np.ndarray:
    """What a function returns for arrays of symbols, as an array of symbols and numbers.

    `Untraceable` if it is not possible, whatever the reason: the function was not written for this.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            value = np.asarray(function(*arguments), dtype=object)
    except Untraceable:
        raise
    except RecursionError as error:
        raise Untraceable("it recurs") from error
    except Exception as error:
        raise Untraceable(f"it does not work on symbols ({type(error).__name__}: {error})") from error
    if not all(isinstance(x, Symbol) or _is_number(x) for x in value.flat):
        raise Untraceable("it returns something else than numbers")
    return value


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float, np.integer, np.floating)) and operator.eq(x, x)
