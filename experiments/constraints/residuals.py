"""Our side of a statement: a `trajopt.Problem` through the library's public names.

Dynamics are a `CallableSystem` of a compiled function, whose derivatives are the default, complex steps.  Rows are
residuals of a user's; a user would write their derivatives by hand, here they come by the same complex steps (first
order exact to rounding, second order to about 1e-12), in compiled loops.

What the default costs, measured on cart-pole, crane, car and arm: derivatives take about 80 % of a solve by DDP, nearly
all of it the Hessians of the dynamics, 1.0 to 2.6 ms an iteration; Jacobians take 0.3 to 0.5 ms, all rows 0.1 ms.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numba
import numpy as np

import trajopt
from experiments.constraints.statement import Constraint, Limits, Price, Rows, Squares, Statement
from trajopt.callable_system.compiled_functions import displaced_loop
from trajopt.callable_system.derivatives import COMPLEX_CURVATURE_STEP, COMPLEX_STEP

COMPILED = 256


class Linear:
    """The activation A(r) = sum_i s r_i, for costs that are linear, as time or mass are."""

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def check(self, n: int) -> None:
        """Any number of residuals will do."""

    def value(self, r: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A (K,)."""
        return self.slope * r.sum(axis=1)

    def derivatives(self, r: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A_r (K, n) and the diagonal of A_rr, zeros (K, n)."""
        return np.full_like(r, self.slope), np.zeros_like(r)


class FunctionResidual:
    """A residual from a function r(x) or r(x, u) of scalars, derivatives by complex steps."""

    def __init__(self, rows: Rows, nx: int, nu: int) -> None:
        self.name, self.nr, self._state_only = rows.name, len(rows.lower), rows.of == "state"
        self._shape = nx, nu
        self._loop: Any = displaced_loop(compiled_row(rows.function, self._state_only), False)
        n = nx if self._state_only else nx + nu
        axes = np.eye(n, nx + nu)
        self._pairs = np.triu_indices(n, 1)
        directions = np.concatenate([axes, axes[self._pairs[0]] + axes[self._pairs[1]]])
        self._axes = 1j * COMPLEX_STEP * axes
        shift = COMPLEX_CURVATURE_STEP * np.exp(0.25j * np.pi) * directions
        self._shifts = np.concatenate([shift, -shift])
        self._none = np.zeros((1, nx + nu))

    def _displaced(self, xs, us, D):
        """r (K, m, nr) at all displaced points."""
        us = np.zeros((len(xs), self._shape[1])) if us is None else us
        Y = np.empty((len(xs), len(D), self.nr), D.dtype)
        self._loop(0, len(xs), np.ascontiguousarray(xs), np.ascontiguousarray(us), D, Y)
        return Y

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr)."""
        return self._displaced(xs, us, self._none)[:, 0]

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """rx (K, nr, nx), and ru (K, nr, nu) or None."""
        J = np.imag(self._displaced(xs, us, self._axes)).swapaxes(1, 2) / COMPLEX_STEP
        nx = self._shape[0]
        return np.ascontiguousarray(J[:, :, :nx]), None if self._state_only else np.ascontiguousarray(J[:, :, nx:])

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Hessians of mu'r."""
        Y = np.einsum("kmi,ki->km", np.imag(self._displaced(xs, us, self._shifts)), mu)
        m, n, (j, k) = Y.shape[1] // 2, len(self._axes), self._pairs
        c = (Y[:, :m] + Y[:, m:]) / COMPLEX_CURVATURE_STEP**2
        H = np.empty((len(xs), n, n))
        H[:, range(n), range(n)] = c[:, :n]
        H[:, j, k] = H[:, k, j] = 0.5 * (c[:, n:] - c[:, j] - c[:, k])
        nx = self._shape[0]
        if self._state_only:
            return H, None, None
        Hxx, Hux, Huu = (np.ascontiguousarray(block) for block in (H[:, :nx, :nx], H[:, nx:, :nx], H[:, nx:, nx:]))
        return Hxx, Hux, Huu


class Multiplied:
    """A residual times a number."""

    def __init__(self, residual: Any, factor: float) -> None:
        self.residual, self.factor, self.nr = residual, factor, residual.nr

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr)."""
        return self.factor * self.residual.evaluate(xs, us)

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """rx, and ru or None."""
        rx, ru = self.residual.jacobians(xs, us)
        return self.factor * rx, None if ru is None else self.factor * ru

    def hessian_products(self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray) -> tuple:
        """Hessians of mu'r."""
        return self.residual.hessian_products(xs, us, self.factor * mu)


@lru_cache(COMPILED)
def compiled(function: Any) -> Any:
    """numba's version of a function."""
    return numba.njit(function)


@lru_cache(COMPILED)
def compiled_row(function: Any, state_only: bool) -> Any:
    """r(x, u), compiled."""
    r = compiled(function)
    if not state_only:
        return r

    @numba.njit
    def of_state(x, u):
        return r(x)

    return of_state


def system_of(statement: Statement, fast: bool = True) -> trajopt.CallableSystem:
    """The dynamics; plain Python instead of compiled ones where speed does not matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", trajopt.SlowDynamicsWarning)
        return trajopt.CallableSystem(
            xdot=compiled(statement.xdot) if fast else statement.xdot,
            nx=statement.nx,
            nu=statement.nu,
            dt=statement.dt,
            integrator=statement.integrator,
            x_example=statement.x0,
            u_example=statement.us_init[0],
            name=statement.name,
        )


def problem_of(statement: Statement, fast: bool = True) -> trajopt.Problem:
    """The problem for this library."""
    system = system_of(statement, fast)
    constraints: list[Any] = [_constraint(each, system, statement.scale) for each in statement.constraints]
    if np.isfinite([statement.lower, statement.upper]).any():
        constraints.insert(0, trajopt.ControlBounds(statement.lower, statement.upper))
    return trajopt.Problem(
        system,
        np.array(statement.x0),
        statement.horizon,
        [_cost(term, system) for term in statement.running],
        [_cost(term, system) for term in statement.terminal],
        constraints,
        us_init=statement.us_init,
        name=statement.name,
    )


def _cost(term: Squares | Price, system: Any) -> Any:
    """A cost of the library."""
    if isinstance(term, Squares):
        weights = np.broadcast_to(np.asarray(term.weights, dtype=float), system.nx if term.of == "state" else system.nu)
        reference = np.broadcast_to(np.asarray(term.reference, dtype=float), weights.shape)
        if term.of == "state":
            return trajopt.StateCost(system, reference, weights)
        return trajopt.ControlCost(weights, reference)
    if term.of == "state":
        chosen: Any = trajopt.StateResidual(system, np.zeros(system.nx), [term.component])
    else:
        name = f"u[{term.component}]"
        chosen = FunctionResidual(_component(term.component, name), system.nx, system.nu)
    return trajopt.ResidualCost(chosen, 1.0, activation=Linear(term.slope))


@lru_cache(COMPILED)
def _component(i: int, name: str) -> Rows:
    """u_i as rows."""

    def control(x, u):
        return (u[i],)

    return Rows(control, (-np.inf,), (np.inf,), of="both", name=name)


def _constraint(each: Constraint, system: Any, scale: float) -> Any:
    """A constraint of the library, its rows multiplied by a number."""
    lower, upper = scale * np.array(each.lower), scale * np.array(each.upper)
    if isinstance(each, Limits) and scale == 1.0:
        low, high = np.full(system.nx, -np.inf), np.full(system.nx, np.inf)
        low[list(each.components)], high[list(each.components)] = lower, upper
        return trajopt.StateBounds(system, low, high, np.zeros(system.nx), each.at, each.name)
    if isinstance(each, Limits):
        residual: Any = trajopt.StateResidual(system, np.zeros(system.nx), each.components)
    else:
        residual = FunctionResidual(each, system.nx, system.nu)
    residual = residual if scale == 1.0 else Multiplied(residual, scale)
    return trajopt.ResidualConstraint(residual, lower, upper, each.at, each.name)
