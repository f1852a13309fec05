"""A user's function called with symbols.

Functions of numpy work on arrays of symbols, those of `math` do not, and arrays of floats do not take symbols.  So it
is a copy of the function that is called, with other globals: names of `math` stand for their namesakes in numpy,
`np.zeros(3)` makes an array that symbols can be written to, and compiled functions stand for their Python source.
Functions that it calls are copied likewise.

Where it branches on a condition it is called once for each way that it can take, and what it returns on one way or the
other is selected by the condition.
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

from dynamics.tape import array_functions
from dynamics.tape.graph import Graph, Untraceable
from dynamics.tape.symbol import Condition, Symbol, SymbolArray

MATH_NAMES = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh", "acosh": "arccosh",
    "atanh": "arctanh", "pow": "power", "fabs": "absolute",
}  # fmt: skip
"""Of functions that numpy calls otherwise."""

MOST_PATHS = 16
"""Ways through a function that are traced, and conditions asked on one of them; loops that end by a condition have no
end of them."""

ARITHMETIC = (ArithmeticError, np.linalg.LinAlgError)
"""What a function may raise where it is not defined."""

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
    if value is math.remainder:
        return array_functions.ieee_remainder
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
    """What a function returns for arrays of symbols, as an array of symbols and numbers; NaN on ways on which it raises
    as arithmetic does.

    `Untraceable` if it is not possible, whatever the reason: the function was not written for this.
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
    """The ways through a function, by what it is told of the conditions on which it branches."""

    def __init__(self, graph: Graph, function: Callable[..., Any], arguments: Sequence[np.ndarray]) -> None:
        self.graph, self.function, self.arguments, self.count = graph, function, arguments, 0

    def value(self, told: list[tuple[int, bool]]) -> np.ndarray | None:
        """What the function returns on all ways that begin with these answers (condition, whether it holds), selected
        by the conditions behind them; None if it is defined on none."""
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
        return np.asarray(array_functions.NUMPY["where"](Condition(self.graph, i), one, other), dtype=object)


def _called(function: Callable[..., Any], arguments: Sequence[np.ndarray], branched: Callable[[], bool]) -> Any:
    """What a function returns, checked; None where it raises as arithmetic does after it has branched."""
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
