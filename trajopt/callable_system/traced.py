"""Derivatives of a user's function from its trace (`dynamics.tape`), and of whole steps from that of the integrator.

A trace is compared with the function: at the sample points when it is made, and at one point of every call.  Where the
function says something else by then, because what it closes over has changed, it is traced anew.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from operator import sub
from typing import Any

import numpy as np

from dynamics.tape.expressions import Expressions, Tapes
from dynamics.tape.graph import Untraceable
from dynamics.tape.interpreter import closed_loops
from dynamics.tape.trace import traceable, traced
from trajopt.callable_system.derivatives import DerivativeSource, Differentiated
from trajopt.callable_system.functions import Function, plain, returning
from trajopt.callable_system.integrators import Discrete, Integrator, SemiImplicitEuler

STEP_NODES = 60_000
"""Of the graph, which a step or a derivative of it may take, and as many more as its stages multiply numbers in
matrices without zeros, a quarter of them: longer programs take as long as these, and half a second to write."""

AGREEMENT = 1e-12
"""Between trace and function, relative to the value, and to what rounding of the arguments would change in it."""
BESIDE = 1e-9
"""Distance, relative to the arguments, of the points that are tried where trace and function differ."""


def expressions_of(function: Function, vectorized: bool) -> Expressions:
    """The function as expressions; `Untraceable` says why not."""
    call = returning(traceable(function.function), function.ny)

    def y(x, u):
        value = traced(call, x[None], u[None])[0] if vectorized else traced(call, x, u)
        if value.shape != (function.ny,):
            raise Untraceable(f"it returns shape {value.shape}")
        return value

    return Expressions(function.nx, function.nu, y)


class TracedDerivatives:
    """Of a function that can be traced; `Untraceable` where it cannot, or differs from its trace at X (K, nx), U."""

    name = "traced"

    def __init__(
        self, function: Function, vectorized: bool, otherwise: Callable[[], DerivativeSource], X: Any, U: Any
    ) -> None:
        self.function, self.otherwise, self._vectorized = function, otherwise, vectorized
        e = self.expressions = expressions_of(function, vectorized)
        self.tapes = Tapes(e, lambda: e.y[None], lambda: e.J[None], lambda: e.H[None], e.content)
        for which in range(3):  # what steps fall back on is there
            self.tapes.program(which)
        if not self.agrees(X, U):
            raise Untraceable("its trace gives other values, as those of hidden branches")

    def agrees(self, X: np.ndarray, U: np.ndarray, got: np.ndarray | None = None) -> bool:
        """Whether the function still does what it did when it was traced, where it is finite; got, its trace there."""
        X, U = plain(X), plain(U)
        values = self.tapes.evaluate(X, U) if got is None else got
        return all(self._agrees(X[t], U[t], values[t]) or self._agrees_beside(X[t], U[t]) for t in range(len(X)))

    def _agrees_beside(self, x, u):
        """Whether both agree on either side of a point, where they differ as rounding decides on which side of a jump
        they see it."""
        for side in (BESIDE, -BESIDE):
            near = [z + side * (1.0 + np.abs(z)) * np.linspace(1.0, 1.5, len(z)) for z in (x, u)]
            if not self._agrees(*near, self.tapes.evaluate(near[0][None], near[1][None])[0]):
                return False
        return True

    def _agrees(self, x, u, got):
        if not (np.isfinite(x).all() and np.isfinite(u).all()):
            return True
        y = self.function.at(x, u)
        if y is None:
            return True
        wanted, values = y.tolist(), got.tolist()  # lists are faster than arrays of a few numbers
        size, off = max(map(abs, wanted)), max(map(abs, map(sub, wanted, values)))
        if off <= AGREEMENT * size:
            return True
        if not np.isfinite(y).all():
            return True
        slopes = np.abs(self.tapes.jacobians(x[None], u[None])[0]) @ np.abs(np.concatenate([x, u]))
        return bool((np.abs(y - got) <= AGREEMENT * (size + slopes.max())).all())

    def again(self, X: np.ndarray, U: np.ndarray) -> DerivativeSource:
        """The function traced anew, or other derivatives if it does not agree at these points."""
        try:
            return TracedDerivatives(self.function, self._vectorized, self.otherwise, X, U)
        except Untraceable:
            return self.otherwise()

    @cached_property
    def linear(self) -> bool:
        """Whether the Hessian is zero for all multipliers and points."""
        program, _ = self.tapes.program(2)
        return bool((program.outputs < len(program.constants)).all()) and not program.constants.any()

    @property
    def compiled_jacobians(self) -> Any:
        """Those of the other derivatives."""
        return self.otherwise().compiled_jacobians

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, ny)."""
        return self.tapes.evaluate(plain(X), plain(U))

    def jacobians(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[g_x g_u] (K, nx, nz)."""
        return self.tapes.jacobians(plain(X), plain(U))

    def hessian_products(self, X: np.ndarray, U: np.ndarray, mu: np.ndarray) -> np.ndarray:
        """Hessian (K, nz, nz) of mu'g."""
        return self.tapes.hessian_products(plain(X), plain(U), plain(mu))


def up_to_date(
    source: DerivativeSource, X: np.ndarray, U: np.ndarray, Y: np.ndarray | None = None
) -> DerivativeSource:
    """The source, or what takes the place of a trace that is not the function's at a knot in the middle; Y (K, ny) are
    values of the trace."""
    knot = slice(len(X) // 2, len(X) // 2 + 1)
    if not isinstance(source, TracedDerivatives) or not len(X):
        return source
    if source.agrees(X[knot], U[knot], None if Y is None else Y[knot]):
        return source
    return source.again(X[knot], U[knot])


class TracedStep:
    """A whole step of an integrator that can take symbols, and its derivatives, each in one program.

    Attributes
    ----------
    rolls : whether the step itself is, which may be too long for that
    """

    def __init__(self, integrator: Integrator, source: TracedDerivatives) -> None:
        self.integrator = integrator
        self.tapes = source.tapes if isinstance(integrator, Discrete) else tapes_of_step(integrator, source.expressions)
        try:
            self.tapes.program(0)
            self.rolls = True
        except Untraceable:
            self.rolls = False

    def step(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """x+ (K, nx)."""
        return self.tapes.evaluate(plain(X), plain(U)) if self.rolls else self.integrator.step(g, X, U)

    def roll_out(self, loop: tuple[np.ndarray, ...]) -> tuple[np.ndarray, np.ndarray]:
        """See `dynamics.tape.interpreter`."""
        return closed_loops(self.tapes.program(0)[0], loop)

    def jacobians(self, g: Differentiated, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[fx fu] (K, nx, nz)."""
        try:
            return self.tapes.jacobians(plain(X), plain(U))
        except Untraceable:
            return self.integrator.jacobians(g, X, U)

    def hessian_products(self, g: Differentiated, X: np.ndarray, U: np.ndarray, lam: np.ndarray) -> np.ndarray:
        """Hessian (K, nz, nz) of lam'f."""
        try:
            return self.tapes.hessian_products(plain(X), plain(U), plain(lam))
        except Untraceable:
            return self.integrator.hessian_products(g, X, U, lam)


def tapes_of_step(integrator: Integrator, f: Expressions) -> Tapes:
    """Programs of the step and its derivatives, from expressions f of what is integrated."""
    e = Expressions(len(f.x), len(f.u), lambda x, u: integrator.step(f, x[None], u[None])[0])
    x, u, mu = e.x[None], e.u[None], e.mu[None]
    nx, nz = x.shape[1], x.shape[1] + u.shape[1]
    return Tapes(
        e,
        lambda: e.y[None],
        lambda: integrator.jacobians(f, x, u),
        lambda: mirrored(integrator.hessian_products(f, x, u, mu)),
        (f.content, type(integrator), *vars(integrator).values()),
        fuse=not isinstance(integrator, SemiImplicitEuler),  # whose blocks are equal to the last bit
        nodes=STEP_NODES + nx * nx * nz,
    )


def mirrored(H: np.ndarray) -> np.ndarray:
    """The upper triangles of (K, n, n) in place of the lower ones."""
    below = np.tril_indices(H.shape[-1], -1)
    H[:, below[0], below[1]] = H[:, below[1], below[0]]
    return H
