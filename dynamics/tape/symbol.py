"""Symbols: scalars that record the operations on them, passed to a user's function."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from dynamics.tape.graph import Graph, Untraceable

LARGEST_POWER = 32
"""Largest exponent of powers that are expanded as products."""


COMPARISONS = {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}
"""NumPy functions whose results are conditions."""


class Symbol:
    """A node of a graph with the operators and methods of a number."""

    __slots__ = ("graph", "index")

    def __init__(self, graph: Graph, index: int) -> None:
        self.graph, self.index = graph, index

    def apply(self, operation: str, *others: Any) -> Symbol:
        """operation(self, *others)."""
        return Symbol(self.graph, self.graph.node(operation, self.index, *(self.like(x).index for x in others)))

    def like(self, x: Any) -> Symbol:
        """A number as a symbol of this graph."""
        if isinstance(x, Symbol):
            return x
        if isinstance(x, np.ndarray) and x.ndim == 0:
            return self.like(x.item())
        if not isinstance(x, (int, float, np.integer, np.floating, np.bool_)):
            raise Untraceable(f"it mixes numbers with {type(x).__name__}")
        return Symbol(self.graph, self.graph.constant(float(x)))

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if method != "__call__":
            raise Untraceable(f"it calls {ufunc.__name__}.{method}")
        return arrays_of_symbols(ufunc, method, map(_boxed, inputs), options)

    def __add__(self, other):
        return _binary(self, other, "add")

    __radd__ = __add__

    def __sub__(self, other):
        return _binary(self, other, "sub")

    def __rsub__(self, other):
        return -self + other

    def __mul__(self, other):
        return _binary(self, other, "mul")

    __rmul__ = __mul__

    def __truediv__(self, other):
        if isinstance(other, np.ndarray) and other.ndim:
            return NotImplemented
        return self * self.like(other).apply("inverse")

    def __rtruediv__(self, other):
        return self.apply("inverse") * other

    def __neg__(self):
        return self.apply("neg")

    def __pos__(self):
        return self

    def __abs__(self):
        return self.apply("absolute")

    def __pow__(self, other):
        if isinstance(other, np.ndarray) and other.ndim:
            return NotImplemented
        other = self.like(other)
        exponent = self.graph.values.get(other.index)
        if exponent is None:
            return self.apply("power", other)
        if exponent == int(exponent) and abs(exponent) <= LARGEST_POWER:
            return _whole_power(self, int(exponent))
        if abs(exponent) == 0.5:
            return self.sqrt() if exponent > 0 else self.sqrt().apply("inverse")
        return self.apply("power", other)

    def __rpow__(self, other):
        return self.like(other) ** self

    @property
    def real(self) -> Symbol:
        """The symbol itself."""
        return self

    @property
    def imag(self) -> Symbol:
        """Zero."""
        return self.like(0.0)

    def hypot(self, other: Any) -> Symbol:
        """sqrt(self^2 + other^2)."""
        return (self * self + self.like(other) * other).sqrt()

    # ------------------------------------------------------------------------------------------ whole numbers
    def __mod__(self, other):
        return _binary(self, other, "mod")

    def __rmod__(self, other):
        return self.like(other) % self

    def __floordiv__(self, other):
        if isinstance(other, np.ndarray) and other.ndim:
            return NotImplemented
        other = self.like(other)
        return ((self - self % other) / other + 0.5).__floor__()  # an integer up to rounding

    def __rfloordiv__(self, other):
        return self.like(other) // self

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return divmod(self.like(other), self)

    def __floor__(self):
        return self - self % 1.0

    def __ceil__(self):
        return -(-self).__floor__()

    def __trunc__(self):
        return (self < 0.0).select(self.__ceil__(), self.__floor__())

    def __round__(self, digits=None):
        if digits:
            raise Untraceable("it rounds to decimals")
        return self.rint()

    def round(self, decimals: int = 0, out: None = None) -> Symbol:
        """The nearest whole number, for `numpy.round`."""
        return self.__round__(decimals)

    def rint(self) -> Symbol:
        """The nearest whole number, ties to even."""
        below, part = self.__floor__(), self % 1.0
        return below + (part > 0.5).select(1.0, (part == 0.5).select(below % 2.0, 0.0))

    def fmod(self, other: Any) -> Symbol:
        """The remainder with the sign of the first argument."""
        size = abs(self.like(other))
        return (self < 0.0).select(-((-self) % size), self % size)

    # ------------------------------------------------------------------------------------------ conditions
    def __lt__(self, other):
        return _compared(self, other, lambda a, b: a.less(b))

    def __gt__(self, other):
        return _compared(self, other, lambda a, b: b.less(a))

    def __le__(self, other):
        return _compared(self, other, lambda a, b: 1.0 - b.less(a))

    def __ge__(self, other):
        return _compared(self, other, lambda a, b: 1.0 - a.less(b))

    def __eq__(self, other):
        return _compared(self, other, lambda a, b: 1.0 - a.less(b) - b.less(a))

    def __ne__(self, other):
        return _compared(self, other, lambda a, b: a.less(b) + b.less(a))

    def __bool__(self) -> bool:
        condition = condition_of(self)
        known = self.graph.values.get(condition.index)
        if known is not None:
            return known > 0.0
        if self.graph.decide is None:
            raise Untraceable("it branches on its arguments")
        return self.graph.decide(condition.index)

    def clip(self, lower: Any, upper: Any, out: None = None) -> Symbol:
        """The symbol clipped to limits, for `numpy.clip`."""
        x = self if lower is None else self.maximum(lower)
        return x if upper is None else x.minimum(upper)

    def select(self, one: Any, other: Any) -> Symbol:
        """The first value where this condition holds, else the second; the unselected one need not be defined."""
        return condition_of(self).apply("select", one, other)

    def heaviside(self, at_zero: Any) -> Symbol:
        """Zero for negative values, `at_zero` at zero, one for positive values."""
        return (self < 0.0).select(0.0, (self > 0.0).select(1.0, at_zero))

    def _ask(self, *_):
        raise Untraceable("it wants the values of its arguments")

    __float__ = __int__ = __complex__ = __index__ = _ask
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise Untraceable(f"it uses {name}")


class SymbolArray(np.ndarray):
    """An array of symbols, whose comparisons give arrays of conditions; conditions used as an index are branches."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return arrays_of_symbols(ufunc, method, inputs, options)

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_index(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        super().__setitem__(_index(index), value)


def arrays_of_symbols(ufunc: np.ufunc, method: str, inputs: Iterable[Any], options: dict[str, Any]) -> Any:
    """Result of a NumPy function for arrays of objects."""
    if ufunc.__name__ in COMPARISONS and method == "__call__":
        options["dtype"] = object  # else numpy converts to booleans at once
    if "out" in options:
        options["out"] = tuple(map(_plain, options["out"]))
    value = getattr(ufunc, method)(*map(_plain, inputs), **options)
    return value.view(SymbolArray) if isinstance(value, np.ndarray) and value.dtype == object else value


def _plain(x):
    return x.view(np.ndarray) if isinstance(x, SymbolArray) else x


def _index(index):
    """The index with arrays of conditions converted to arrays of booleans."""
    if isinstance(index, tuple):
        return tuple(map(_index, index))
    return index.astype(bool) if isinstance(index, SymbolArray) else index


class Condition(Symbol):
    """A symbol that is one where a condition holds, else zero; in a Python branch each value is traced in turn."""

    __slots__ = ()

    def __and__(self, other):
        return _joined(self, other, lambda a, b: a * b)

    def __or__(self, other):
        return _joined(self, other, lambda a, b: a + b - a * b)

    def __xor__(self, other):
        return _joined(self, other, lambda a, b: a + b - 2.0 * a * b)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self):
        return Condition(self.graph, (1.0 - self).index)


def condition_of(x: Symbol) -> Condition:
    """The condition itself, or for another symbol the condition that it is not zero."""
    return x if isinstance(x, Condition) else _compared(x, 0.0, lambda a, b: a.less(b) + b.less(a))


def _compared(a, b, compare):
    if isinstance(b, np.ndarray) and b.ndim:
        return NotImplemented
    return Condition(a.graph, compare(a, a.like(b)).index)


def _joined(a, b, join):
    if isinstance(b, np.ndarray) and b.ndim:
        return NotImplemented
    b = condition_of(b) if isinstance(b, Symbol) else a.like(bool(b))
    return Condition(a.graph, join(a, b).index)


def _boxed(x):
    """An array of objects; NumPy scalars become Python numbers, which leave the operation to the symbol."""
    if isinstance(x, (np.ndarray, list, tuple)):
        return np.asarray(x, dtype=object)
    box = np.empty((), dtype=object)
    box[()] = x.item() if isinstance(x, np.generic) else x
    return box


def _method(function):
    def method(self: Symbol) -> Symbol:
        return function(self)

    return method


def _method_of_two(operation):
    def method(self: Symbol, other: Any) -> Symbol:
        return self.apply(operation, other)

    return method


_SAME = (
    "sqrt", "sin", "cos", "exp", "log", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh",
    "arctanh", "expm1", "log1p", "sign",
)  # fmt: skip
_OTHERS = {
    "fabs": abs,
    "square": lambda x: x * x,
    "reciprocal": lambda x: x.apply("inverse"),
    "tan": lambda x: x.sin() / x.cos(),
    "log2": lambda x: x.log() * (1.0 / math.log(2.0)),
    "log10": lambda x: x.log() * (1.0 / math.log(10.0)),
    "exp2": lambda x: (x * math.log(2.0)).exp(),
    "deg2rad": lambda x: x * (math.pi / 180.0),
    "radians": lambda x: x * (math.pi / 180.0),
    "rad2deg": lambda x: x * (180.0 / math.pi),
    "degrees": lambda x: x * (180.0 / math.pi),
    "conjugate": lambda x: x,
}
for _name in _SAME:
    setattr(Symbol, _name, _method(partial(Symbol.apply, operation=_name)))
for _name, _function in _OTHERS.items():
    setattr(Symbol, _name, _method(_function))
for _name in ("arctan2", "maximum", "minimum", "less"):
    setattr(Symbol, _name, _method_of_two(_name))


def _binary(a, b, operation):
    if isinstance(b, np.ndarray) and b.ndim:
        return NotImplemented
    return a.apply(operation, b)


def _whole_power(x, n):
    if n < 0:
        return _whole_power(x, -n).apply("inverse")
    result, square = x.like(1.0), x
    while n:
        if n & 1:
            result = result * square
        n >>= 1
        square = square * square if n else square
    return result


def symbols(graph: Graph, count: int) -> np.ndarray:
    """Array (count,) of symbols of new arguments."""
    return wrapped(graph, [graph.leaf() for _ in range(count)])


def wrapped(graph: Graph, indices: list[int]) -> np.ndarray:
    """Nodes as symbols, an array of objects (n,)."""
    array = np.empty(len(indices), dtype=object)
    for k, i in enumerate(indices):
        array[k] = Symbol(graph, i)
    return array


def numbered(graph: Graph, indices: list[int]) -> np.ndarray:
    """Nodes as symbols (n,), constants as numbers: operations on these alone make no symbols."""
    array = np.empty(len(indices), dtype=object)
    for k, i in enumerate(indices):
        array[k] = graph.values[i] if i in graph.values else Symbol(graph, i)
    return array


def indices_of(graph: Graph, array: Any) -> list[int]:
    """The nodes of an array of symbols and numbers of any shape, flattened."""
    return [x.index if isinstance(x, Symbol) else graph.constant(x) for x in np.asarray(array, dtype=object).flat]


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A @ B (K, n, p) of batches of matrices.  For symbols K is one, and only nonzero entries are multiplied, so that
    the work grows with the operations in the product."""
    if object not in (A.dtype, B.dtype):
        return A @ B
    C = np.zeros((1, A.shape[1], B.shape[2]), dtype=object)
    columns = [_nonzero(row) for row in B[0]]
    for i, row in enumerate(A[0]):
        used = _nonzero(row)
        for j in sorted({j for k in used for j in columns[k]}):
            terms = [row[k] * B[0, k, j] for k in used if j in columns[k]]
            C[0, i, j] = sum(terms[1:], terms[0])
    return C


def _nonzero(row: np.ndarray) -> dict[int, None]:
    """Indices of entries that are not the number zero."""
    return {j: None for j, x in enumerate(row) if isinstance(x, Symbol) or x != 0.0}
