"""A function y(x, u) and its derivatives as expressions, and as programs that evaluate them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dynamics.simd.prepared_calls import PreparedLaunch
from dynamics.tape import interpreter
from dynamics.tape.calculus import hessian, jacobian, may_have_kinks
from dynamics.tape.graph import Graph, Untraceable
from dynamics.tape.program import LONGEST, Program, assemble
from dynamics.tape.symbol import indices_of, numbered, symbols

_lock = threading.RLock()
"""Lock of program generation: programs are generated when first needed, by one thread at a time."""

KEPT = 64
"""Most functions whose programs are cached in this process."""

NODES = 3 * LONGEST
"""Most nodes that an expression may add to the graph: with more, its program has always been longer than `LONGEST`."""


@lru_cache(KEPT)
def programs_of(key: Hashable) -> dict[int, tuple[Program, tuple[int, ...]] | Untraceable]:
    """Programs generated for a key so far, or the exception of those that failed; `Tapes` adds to them."""
    return {}


class Expressions:
    """y (m,) of the leaves x (n,) and u (nu,), with multipliers mu (m,); z = [x; u].

    It is a source of derivatives for integrators like others, but for one point of symbols, (1, n) and (1, nu), of
    this graph or of another.
    """

    def __init__(self, nx: int, nu: int, function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        self.graph = Graph()
        self.x, self.u = symbols(self.graph, nx), symbols(self.graph, nu)
        self.y = function(self.x, self.u)
        self.mu = symbols(self.graph, len(self.y))
        self._leaves = indices_of(self.graph, np.concatenate([self.x, self.u, self.mu]))
        self.content = nx, nu, self.graph.content(indices_of(self.graph, self.y))

    @cached_property
    def may_have_kinks(self) -> bool:
        """False if y is smooth wherever it is finite."""
        return may_have_kinks(self.y)

    @cached_property
    def J(self) -> np.ndarray:
        """dy/dz (m, nz)."""
        return jacobian(self.y, np.concatenate([self.x, self.u]))

    @cached_property
    def H(self) -> np.ndarray:
        """Hessian (nz, nz) of mu'y."""
        _ = self.J  # always made before: the numbering of nodes affects the last bits
        return hessian(self.y, self.mu, np.concatenate([self.x, self.u]))

    def _at(self, expression, *arguments):
        """The expression with other symbols in place of the leaves, with a leading axis of length one."""
        into = arguments[0][0, 0].graph
        values = indices_of(into, np.concatenate([a[0] for a in arguments]))
        roots = indices_of(self.graph, expression)
        found = self.graph.substitute(roots, dict(zip(self._leaves, values, strict=False)), into)
        return numbered(into, found).reshape(1, *expression.shape)

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """y (1, m)."""
        return self._at(self.y, X, U)

    def jacobians(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """dy/dz (1, m, nz)."""
        return self._at(self.J, X, U)

    def hessian_products(self, X: np.ndarray, U: np.ndarray, mu: np.ndarray) -> np.ndarray:
        """Hessian (1, nz, nz) of mu'y."""
        return self._at(self.H, X, U, mu)

    def program(self, expression: np.ndarray, fuse: bool = True) -> Program:
        """Program that computes an expression from x, u and mu."""
        return assemble(self.graph, indices_of(self.graph, expression), self._leaves, fuse)


class Tapes:
    """Numerical values of expressions: y, its Jacobian and the Hessian of mu'y at K points, in compiled loops.

    Parameters
    ----------
    expressions : source of the expressions
    y, J, H : () -> expressions of shape (1, m), (1, m, nz), (1, nz, nz), called when first needed
    key : value that determines all of these, as the content of the traced function: programs of one key are generated
        once in a process; None for programs of these tapes alone
    fuse : True to fuse products with sums
    nodes : most nodes that each of the expressions may add to the graph; expressions with more have no program
    """

    def __init__(
        self,
        expressions: Expressions,
        y: Callable[[], np.ndarray],
        J: Callable[[], np.ndarray],
        H: Callable[[], np.ndarray],
        key: Hashable = None,
        fuse: bool = True,
        nodes: int = NODES,
    ) -> None:
        self._expressions, self._make, self._fuse, self._nodes = expressions, (y, J, H), fuse, nodes
        self._made: dict[int, np.ndarray | Untraceable] = {}
        self._programs = {} if key is None else programs_of(key)

    def program(self, which: int) -> tuple[Program, tuple[int, ...]]:
        """Program of y, J or H, and the shape of its result; `Untraceable` if it is too long."""
        self._write(which)
        program = self._programs[which]
        if isinstance(program, Untraceable):
            raise Untraceable(str(program))
        return program

    def _write(self, last):
        """Generate the programs up to `last`.  Expressions are always made in the same order, also those with cached
        programs, because the numbering of nodes affects the last bits."""
        if last in self._programs:
            return
        with _lock:
            for which in range(last + 1):
                if which not in self._made:
                    self._made[which] = self._expression(which)
                if which not in self._programs:
                    self._programs[which] = self._written(self._made[which])

    def _expression(self, which):
        before = self._made.get(which - 1)
        if isinstance(before, Untraceable):  # longer still
            return before
        try:
            with self._expressions.graph.growing_by(self._nodes):
                return self._make[which]()[0]
        except Untraceable as error:
            return Untraceable(str(error))

    def _written(self, expression):
        if isinstance(expression, Untraceable):
            return expression
        try:
            return self._expressions.program(expression, self._fuse), expression.shape
        except Untraceable as error:
            return Untraceable(str(error))

    def _run(self, which, X, U, mu):
        program, shape = self.program(which)
        return interpreter.evaluate(program, X, U, mu).reshape(len(X), *shape)

    def prepared(
        self,
        which: int,
        X: np.ndarray,
        U: np.ndarray,
        mu: np.ndarray | None = None,
        into: np.ndarray | None = None,
    ) -> tuple[PreparedLaunch, np.ndarray]:
        """A call that evaluates y, J or H at the numbers which X (K, nx), U (K, nu) and mu (K, m), C-ordered, hold
        then, and the array of its results: that given, or a new one."""
        program, shape = self.program(which)
        Y = np.empty((len(X), *shape)) if into is None else into
        rows = Y.reshape(len(X), len(program.outputs))
        return interpreter.write(program, X, U, X[:, :0] if mu is None else mu, rows, PreparedLaunch), Y

    @cached_property
    def _at(self) -> threading.local:
        """The calls of `at`, of each thread."""
        return threading.local()

    def at(self, x: np.ndarray, u: np.ndarray) -> np.ndarray:
        """y (m,) at one point x (nx,), u (nu,), in an array that the next call in this thread overwrites."""
        prepared = getattr(self._at, "prepared", None)
        if prepared is None:
            X, U = np.zeros((1, len(x))), np.zeros((1, len(u)))
            prepared = self._at.prepared = X, U, *self.prepared(0, X, U)
        X, U, call, Y = prepared
        X[0], U[0] = x, u
        call()
        return Y[0]

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """y (K, m) at C-ordered X (K, nx), U (K, nu)."""
        return self._run(0, X, U, X[:, :0])

    def jacobians(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """dy/dz (K, m, nz)."""
        return self._run(1, X, U, X[:, :0])

    def hessian_products(self, X: np.ndarray, U: np.ndarray, mu: np.ndarray) -> np.ndarray:
        """Hessian (K, nz, nz) of mu'y, symmetric."""
        return self._run(2, X, U, mu)

    def __getstate__(self) -> dict[str, Any]:
        """State of the programs alone, all of them generated, because their sources may not be copyable."""
        self._write(2)
        return {"_programs": self._programs}
