"""Symbols: scalars that write down what is done with them, for a user's function to be called with."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from dynamics.tape.graph import Graph, Untraceable

LARGEST_POWER = 32
"""Of exponents that are written as products."""


class Symbol:
    """A node of a graph, with the operators and methods of a number."""

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
        return ufunc(*map(_boxed, inputs), **options)

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
        """Itself."""
        return self

    @property
    def imag(self) -> Symbol:
        """Zero."""
        return self.like(0.0)

    def hypot(self, other: Any) -> Symbol:
        """The root of the sum of squares."""
        return (self * self + self.like(other) * other).sqrt()

    def _ask(self, *_):
        raise Untraceable("it branches on its arguments, or wants their values")

    __bool__ = __float__ = __int__ = __complex__ = __index__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = _ask
    __ne__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __round__ = __floor__ = __ceil__ = __trunc__ = _ask
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise Untraceable(f"it uses {name}")


def _boxed(x):
    """An array of objects; numpy's scalars become Python's, which leave the operation to the symbol."""
    if isinstance(x, np.ndarray):
        return x.astype(object)
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
    """New arguments (count,)."""
    return wrapped(graph, [graph.leaf() for _ in range(count)])


def wrapped(graph: Graph, indices: list[int]) -> np.ndarray:
    """Nodes as symbols, an array of objects (n,)."""
    array = np.empty(len(indices), dtype=object)
    for k, i in enumerate(indices):
        array[k] = Symbol(graph, i)
    return array


def numbered(graph: Graph, indices: list[int]) -> np.ndarray:
    """The same, but constants as numbers: operations with these alone make no symbols."""
    array = np.empty(len(indices), dtype=object)
    for k, i in enumerate(indices):
        array[k] = graph.values[i] if i in graph.values else Symbol(graph, i)
    return array


def indices_of(graph: Graph, array: Any) -> list[int]:
    """The nodes of symbols and numbers of any shape, flattened."""
    return [x.index if isinstance(x, Symbol) else graph.constant(x) for x in np.asarray(array, dtype=object).flat]


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A @ B (K, n, p) of batches of matrices.  Of symbols, K is one, and only what is not zero is multiplied, so that
    the work goes with the operations that the product has."""
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
    """Where it is not the number zero."""
    return {j: None for j, x in enumerate(row) if isinstance(x, Symbol) or x != 0.0}
