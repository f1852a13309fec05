"""A function y(x, u) and its derivatives as expressions, and as programs for numbers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from dynamics.tape import interpreter
from dynamics.tape.calculus import hessian, jacobian
from dynamics.tape.graph import Graph, Untraceable
from dynamics.tape.program import Program, assemble
from dynamics.tape.symbol import indices_of, symbols, wrapped

_lock = threading.RLock()
"""Programs are written when they are first needed, by one thread at a time."""


class Expressions:
    """y (m,) of the leaves x (n,) and u (nu,), with multipliers mu (m,); z = [x; u].

    It is a source of derivatives to integrators as others are, but for one point of symbols, (1, n) and (1, nu).
    """

    def __init__(self, nx: int, nu: int, function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        self.graph = Graph()
        self.x, self.u = symbols(self.graph, nx), symbols(self.graph, nu)
        self.y = function(self.x, self.u)
        self.mu = symbols(self.graph, len(self.y))
        self._leaves = indices_of(self.graph, np.concatenate([self.x, self.u, self.mu]))

    @cached_property
    def J(self) -> np.ndarray:
        """dy/dz (m, nz)."""
        return jacobian(self.y, np.concatenate([self.x, self.u]))

    @cached_property
    def H(self) -> np.ndarray:
        """Hessian (nz, nz) of mu'y."""
        return hessian(self.y, self.mu, np.concatenate([self.x, self.u]))

    def _at(self, expression, *arguments):
        """The expression with other symbols in place of the leaves; first axis of one."""
        values = indices_of(self.graph, np.concatenate([a[0] for a in arguments]))
        found = self.graph.substitute(
            indices_of(self.graph, expression), dict(zip(self._leaves, values, strict=False))
        )
        return wrapped(self.graph, found).reshape(1, *expression.shape)

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
        """What computes it from x, u and mu."""
        return assemble(self.graph, indices_of(self.graph, expression), self._leaves, fuse)


class Tapes:
    """Numbers for expressions: y, its Jacobian and the Hessian of mu'y at K points, in compiled loops.

    Parameters
    ----------
    expressions : what the others are made of
    y, J, H : () -> expressions of shape (1, m), (1, m, nz), (1, nz, nz), called when first needed
    fuse : whether products may be fused with sums
    """

    def __init__(
        self,
        expressions: Expressions,
        y: Callable[[], np.ndarray],
        J: Callable[[], np.ndarray],
        H: Callable[[], np.ndarray],
        fuse: bool = True,
    ) -> None:
        self._expressions, self._make, self._fuse = expressions, (y, J, H), fuse
        self._programs: dict[int, tuple[Program, tuple[int, ...]] | Untraceable] = {}

    def program(self, which: int) -> tuple[Program, tuple[int, ...]]:
        """That of y, J or H, and the shape of what it computes; `Untraceable` if it is too long."""
        self._write(which)
        program = self._programs[which]
        if isinstance(program, Untraceable):
            raise program
        return program

    def _write(self, last):
        """Programs up to that one, always in the same order: how nodes are numbered shows in the last bits."""
        if last in self._programs:
            return
        with _lock:
            for which in range(last + 1):
                if which not in self._programs:
                    self._programs[which] = self._written(which)

    def _written(self, which):
        try:
            expression = self._make[which]()[0]
            return self._expressions.program(expression, self._fuse), expression.shape
        except Untraceable as error:
            return error

    def _run(self, which, X, U, mu):
        program, shape = self.program(which)
        return interpreter.evaluate(program, X, U, mu).reshape(len(X), *shape)

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
        """Programs alone: all of them are made, for what makes them may not be copied."""
        self._write(2)
        return {"_programs": self._programs}
