"""Our side of a statement: a `trajopt.Problem` through the library's public names.

Dynamics are a `CallableSystem` of a function, rows are a `trajopt.residual` of one each; both are traced, so that their
derivatives are exact and nothing is compiled for them but the functions themselves, which traces are compared with.

What that costs, measured on cart-pole, crane, car and arm of 50 to 60 knots: Hessians of the dynamics take 0.04 to
0.13 ms an iteration, Jacobians 0.03 to 0.09 ms, rollouts of all step lengths about 0.1 ms, rows 0.04 ms.  By complex
steps in compiled loops Hessians took 1.2 to 4.5 ms and Jacobians 0.3 to 0.8 ms, and solves by DDP 1.5 to 2.9 times as
long.
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numba
import numpy as np

import trajopt
from experiments.constraints.statement import Constraint, Integrand, Limits, Price, Rows, Squares, Statement

COMPILED = 256


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


def residual_of(rows: Rows, system: Any, fast: bool = True) -> Any:
    """Rows as a residual of the library."""
    function = compiled(rows.function) if fast else rows.function
    return trajopt.residual(function, len(rows.lower), system, name=rows.name)


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
    constraints: list[Any] = [_constraint(each, system, statement.scale, fast) for each in statement.constraints]
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


def _cost(term: Squares | Price | Integrand, system: Any) -> Any:
    """A cost of the library."""
    if isinstance(term, Integrand):
        raise TypeError("running: got an Integrand, which is for peers alone")
    if isinstance(term, Squares):
        weights = np.broadcast_to(np.asarray(term.weights, dtype=float), system.nx if term.of == "state" else system.nu)
        reference = np.broadcast_to(np.asarray(term.reference, dtype=float), weights.shape)
        if term.of == "state":
            return trajopt.StateCost(system, reference, weights)
        return trajopt.ControlCost(weights, reference)
    coefficients = np.zeros(system.nx if term.of == "state" else system.nu)
    coefficients[term.component] = term.slope
    return trajopt.LinearCost(**{"states" if term.of == "state" else "controls": coefficients})


def _constraint(each: Constraint, system: Any, scale: float, fast: bool) -> Any:
    """A constraint of the library, its rows multiplied by a number."""
    lower, upper = scale * np.array(each.lower), scale * np.array(each.upper)
    if isinstance(each, Limits) and scale == 1.0:
        low, high = np.full(system.nx, -np.inf), np.full(system.nx, np.inf)
        low[list(each.components)], high[list(each.components)] = lower, upper
        return trajopt.StateBounds(system, low, high, np.zeros(system.nx), each.at, each.name)
    if isinstance(each, Limits):
        residual: Any = trajopt.StateResidual(system, np.zeros(system.nx), each.components)
    else:
        residual = residual_of(each, system, fast)
    residual = residual if scale == 1.0 else Multiplied(residual, scale)
    return trajopt.ResidualConstraint(residual, lower, upper, each.at, each.name)
