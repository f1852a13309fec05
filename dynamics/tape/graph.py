"""Graph that stores each expression once, with constants folded and zeros and ones simplified.

A node is an operation and the numbers of its arguments' nodes, which are smaller than its own: the order of numbers is
an order of evaluation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

FOLDED = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "neg": np.negative, "inverse": np.reciprocal,
    "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "exp": np.exp, "log": np.log, "power": np.power,
    "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan, "arctan2": np.arctan2, "sinh": np.sinh,
    "cosh": np.cosh, "tanh": np.tanh, "arcsinh": np.arcsinh, "arccosh": np.arccosh, "arctanh": np.arctanh,
    "expm1": np.expm1, "log1p": np.log1p, "absolute": np.absolute, "sign": np.sign, "maximum": np.maximum,
    "minimum": np.minimum, "less": np.less, "inverse_or_zero": lambda a: 1.0 / a if a else 0.0, "mod": np.mod,
    "select": lambda a, b, c: b if a > 0.0 else c,
}  # fmt: skip
"""All operations, with their values for constants; `less` is one where a < b, else zero, and `inverse_or_zero` of zero
is zero; `mod` has the sign of its second argument; `select` is its second argument where the first is one, else the
third, independent of the other."""

COMMUTING = {"add", "mul"}
LARGEST = 1_000_000
"""Most nodes of a graph: with more, generating programs would take a minute."""


class Untraceable(Exception):
    """A function needs the value of a symbol, uses an unsupported operation, or takes too many operations."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)


class Graph:
    """Nodes by number: `operations[i]`, its `arguments[i]`, and the `value[i]` of a constant."""

    def __init__(self) -> None:
        self.operations: list[str] = []
        self.arguments: list[tuple[int, ...]] = []
        self.values: dict[int, float] = {}
        self._known: dict[tuple, int] = {}
        self._most = LARGEST
        self.decide: Callable[[int], bool] | None = None
        """Function that is True if a condition holds on the traced path (`dynamics.tape.trace`)."""

    @contextmanager
    def growing_by(self, count: int) -> Iterator[None]:
        """Limit of `count` new nodes inside the block; `Untraceable` if it is exceeded."""
        self._most = min(len(self.operations) + count, LARGEST)
        try:
            yield
        finally:
            self._most = LARGEST

    def _new(self, operation, arguments):
        if len(self.operations) >= self._most:
            raise Untraceable(f"it takes more than {self._most} operations")
        self.operations.append(operation)
        self.arguments.append(arguments)
        return len(self.operations) - 1

    def leaf(self) -> int:
        """Node of a new argument."""
        return self._new("leaf", ())

    def constant(self, value: float) -> int:
        """The node of a number."""
        key = ("constant", float(value))
        if key not in self._known:
            self._known[key] = self._new("constant", ())
            self.values[self._known[key]] = float(value)
        return self._known[key]

    def node(self, operation: str, *arguments: int) -> int:
        """The node of an operation, simplified where possible."""
        numbers = [self.values.get(i) for i in arguments]
        if None not in numbers:
            with np.errstate(all="ignore"):
                return self.constant(FOLDED[operation](*(float(x) for x in numbers if x is not None)))
        simpler = _SIMPLER.get(operation)
        found = None if simpler is None else simpler(self, *arguments, *numbers)
        if found is not None:
            return found
        if operation in COMMUTING:
            arguments = tuple(sorted(arguments))
        key = (operation, *arguments)
        if key not in self._known:
            self._known[key] = self._new(operation, arguments)
        return self._known[key]

    def negated(self, i: int) -> int | None:
        """Argument of node i if it is a negation, else None."""
        return self.arguments[i][0] if self.operations[i] == "neg" else None

    def opposite(self, i: int) -> int | None:
        """The condition c if node i is 1 - c, else None."""
        one, *other = self.arguments[i] or (i,)
        return other[0] if self.operations[i] == "sub" and self.values.get(one) == 1.0 else None

    def needed(self, roots: Iterable[int]) -> list[int]:
        """The nodes that the roots depend on, roots included, in the order of their numbers."""
        found, todo = set(), list(roots)
        while todo:
            i = todo.pop()
            if i not in found:
                found.add(i)
                todo += self.arguments[i]
        return sorted(found)

    def substitute(self, roots: Sequence[int], leaves: dict[int, int], into: Graph) -> list[int]:
        """Copies of the roots in a graph, this one or another, with the leaves they depend on replaced by its nodes."""
        new = dict(leaves)
        for i in self.needed(roots):
            if i in self.values:
                new[i] = into.constant(self.values[i])
            elif i not in new:
                new[i] = into.node(self.operations[i], *(new[j] for j in self.arguments[i]))
        return [new[i] for i in roots]

    def content(self, roots: Sequence[int]) -> bytes:
        """A digest of the graph and its roots: equal digests mean equal graphs and roots."""
        text = repr((self.operations, self.arguments, list(self.values.items()), list(roots)))
        return hashlib.sha256(text.encode()).digest()


def _add(graph, a, b, x, y):
    if x == 0.0 or y == 0.0:
        return b if x == 0.0 else a
    if a == b:
        return graph.node("mul", graph.constant(2.0), a)
    if graph.negated(b) is not None:
        return graph.node("sub", a, graph.negated(b))
    return None if graph.negated(a) is None else graph.node("sub", b, graph.negated(a))


def _subtract(graph, a, b, x, y):
    if x == 0.0 or y == 0.0:
        return graph.node("neg", b) if x == 0.0 else a
    if a == b:
        return graph.constant(0.0)
    return None if graph.negated(b) is None else graph.node("add", a, graph.negated(b))


def _multiply(graph, a, b, x, y):
    if x is None and y is not None:
        a, b, x, y = b, a, y, x
    if x == 0.0 or x == 1.0:
        return a if x == 0.0 else b
    if x == -1.0:
        return graph.node("neg", b)
    if x is not None and graph.negated(b) is not None:
        return graph.node("mul", graph.constant(-x), graph.negated(b))
    for one, other in ((a, b), (b, a)):
        if graph.negated(one) is not None:
            return graph.node("neg", graph.node("mul", graph.negated(one), other))
    return None


def _negate(graph, a, x):
    if graph.operations[a] == "sub":
        return graph.node("sub", *reversed(graph.arguments[a]))
    return graph.negated(a)


def _select(graph, a, b, c, x, *_):
    if x is not None:
        return b if x > 0.0 else c
    if b == c:
        return b
    opposite = graph.opposite(a)
    less, if_less, if_not = (a, b, c) if opposite is None else (opposite, c, b)
    if graph.operations[less] == "less":
        x, y = graph.arguments[less]
        if _is_within(graph, if_less, x, y) and _is_within(graph, if_not, y, x):
            return graph.node("minimum", b, c)
        if _is_within(graph, if_less, y, x) and _is_within(graph, if_not, x, y):
            return graph.node("maximum", b, c)
    return None


def _is_within(graph, i, x, y):
    """True if a node is x, or x within a limit that the number y satisfies."""
    if i == x:
        return True
    number, operation, arguments = graph.values.get(y), graph.operations[i], graph.arguments[i]
    if number is None or operation not in ("maximum", "minimum") or x not in arguments:
        return False
    limits = [graph.values[j] for j in arguments if j in graph.values]
    return bool(limits) and FOLDED[operation](number, limits[0]) == number


_SIMPLER = {"add": _add, "sub": _subtract, "mul": _multiply, "neg": _negate, "select": _select}
