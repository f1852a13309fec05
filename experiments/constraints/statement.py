"""A constrained problem, stated once: what both sides are made of, and what judges both.

A statement holds plain functions of scalars written with numpy, ``xdot(x, u)`` and ``r(x)`` or ``r(x, u)``, that return
tuples.  The same function is compiled by numba for `trajopt.Problem`, fed with CasADi's symbols for the nonlinear
programme, and with whole trajectories (x[i] an array over knots) for the independent check of costs and violations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

INFINITE = np.inf
TABLEAUS = {
    "rk4": ((0.5, 0.5, 1.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)),
    "rk2": ((0.5,), (0.0, 1.0)),
    "explicit_euler": ((), (1.0,)),
}
"""Shifts of the stages after the first, and weights; each stage depends on the one before it alone."""


@dataclass(frozen=True)
class Squares:
    """1/2 sum_i w_i (z_i - z_ref,i)^2 of the state or the control.

    Parameters: of, "state" or "control"; weights and reference, numbers or one for each component.
    """

    of: str
    weights: Any
    reference: Any = 0.0

    def value(self, z: Any) -> Any:
        """Of symbols, or of arrays over knots."""
        n = len(z) if isinstance(z, np.ndarray) else z.shape[0]
        w, c = (np.broadcast_to(np.asarray(a, dtype=float), n) for a in (self.weights, self.reference))
        return sum(0.5 * float(w[i]) * (z[i] - float(c[i])) ** 2 for i in range(n) if w[i])


@dataclass(frozen=True)
class Price:
    """s z_i, linear in one component of the state or the control: minimum time, fuel, largest height."""

    of: str
    component: int
    slope: float = 1.0

    def value(self, z: Any) -> Any:
        """Of symbols, or of arrays over knots."""
        return self.slope * z[self.component]


@dataclass(frozen=True)
class Integrand:
    """l(x, u), any function of both, of running costs; for peers alone, ours are made otherwise."""

    function: Callable[[Any, Any], Any]
    of = "both"

    def value(self, x: Any, u: Any) -> Any:
        """Of symbols, or of arrays over knots."""
        return self.function(x, u)


Cost = Squares | Price


def arguments(of: str, x: Any, u: Any) -> tuple[Any, ...]:
    """What a running cost of "state", "control" or "both" is a function of."""
    return {"state": (x,), "control": (u,), "both": (x, u)}[of]


@dataclass(frozen=True)
class Limits:
    """lower <= x_i <= upper of some components of the state; equal limits make an equality.

    Parameters: components, their indices; lower, upper, one for each; at, "path", "terminal" or "all"; unit, that in
    which a violation is told.  Knot 0 is always left out.
    """

    components: tuple[int, ...]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    at: str = "all"
    unit: float = 1.0
    name: str = "limits"
    of = "state"

    def values(self, x: Any, u: Any = None) -> tuple[Any, ...]:
        """The components."""
        return tuple(x[i] for i in self.components)


@dataclass(frozen=True)
class Rows:
    """lower <= r <= upper of a function r(x), or r(x, u) where `of` is "both", that returns a tuple."""

    function: Callable[..., tuple]
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    at: str = "path"
    of: str = "state"
    unit: float = 1.0
    name: str = "rows"

    def values(self, x: Any, u: Any = None) -> tuple[Any, ...]:
        """r."""
        return tuple(self.function(x) if self.of == "state" else self.function(x, u))


Constraint = Limits | Rows


def goal(state: Sequence[float], components: Sequence[int] | None = None, unit: float = 1.0) -> Limits:
    """The equality of a last state, or of some components of it."""
    indices = tuple(range(len(state))) if components is None else tuple(components)
    values = tuple(float(x) for x in state)
    return Limits(indices, values, values, "terminal", unit, "goal")


@dataclass(frozen=True)
class Statement:
    """minimize sum_t dt l(x_t, u_t) + l_N(x_N), dynamics by an explicit Runge-Kutta rule with controls held.

    Parameters
    ----------
    name : of the problem; source : where it is from
    xdot : dx/dt of scalars, a tuple
    x0 : (nx,), NaN where it is free, for peers alone
    horizon : N
    dt : s, or 1/N where a control is the length of a step, which multiplies xdot
    lower, upper : (nu,) limits of controls, which may be infinite
    running, terminal : costs
    constraints : besides the limits of controls
    guess : (nu,) or (N, nu), controls to start from; spread : (nu,) standard deviations of the perturbed starts
    feasible : False for a problem that has no feasible trajectory
    scale : what all rows of our side are multiplied by, for the study of scaling
    """

    name: str
    source: str
    xdot: Callable[..., tuple]
    x0: tuple[float, ...]
    horizon: int
    dt: float
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    running: tuple[Cost | Integrand, ...] = ()
    terminal: tuple[Cost, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    guess: Any = 0.0
    spread: Any = 1.0
    integrator: str = "rk4"
    feasible: bool = True
    scale: float = 1.0
    nx: int = field(init=False)
    nu: int = field(init=False)

    def __post_init__(self):
        object.__setattr__(self, "nx", len(self.x0))
        object.__setattr__(self, "nu", len(self.lower))

    def scaled(self, factor: float) -> Statement:
        """The same problem with all rows of our side multiplied by this factor."""
        return replace(self, scale=factor)

    @property
    def us_init(self) -> np.ndarray:
        """Controls (N, nu) of the problem's own first guess."""
        return np.array(np.broadcast_to(np.asarray(self.guess, dtype=float), (self.horizon, self.nu)))

    def step(self, x: Any, u: Any) -> list[Any]:
        """Next state, of symbols or of arrays over knots."""
        shifts, weights = TABLEAUS[self.integrator]
        k = self.xdot(x, u)
        total = [weights[0] * ki for ki in k]
        for shift, weight in zip(shifts, weights[1:], strict=True):
            k = self.xdot([x[i] + (self.dt * shift) * k[i] for i in range(self.nx)], u)
            total = [a + weight * ki for a, ki in zip(total, k, strict=True)]
        return [x[i] + self.dt * total[i] for i in range(self.nx)]

    def rollout(self, us: np.ndarray) -> np.ndarray:
        """States (N+1, nx) by plain numpy; NaN from where they diverge."""
        xs = np.empty((self.horizon + 1, self.nx))
        xs[0] = self.x0
        with np.errstate(all="ignore"):
            for t in range(self.horizon):
                xs[t + 1] = self.step(xs[t], us[t])
        return xs

    def knots(self, constraint: Constraint) -> range:
        """The knots at which a constraint holds."""
        N = self.horizon
        first = 1 if constraint.of == "state" else 0
        return {"path": range(first, N), "terminal": range(N, N + 1), "all": range(first, N + 1)}[constraint.at]

    def cost(self, xs: np.ndarray, us: np.ndarray) -> float:
        """The objective of any states (N+1, nx) and controls (N, nu)."""
        total = sum(self.dt * np.sum(term.value(*arguments(term.of, xs[:-1].T, us.T))) for term in self.running)
        return float(total + sum(term.value(xs[-1]) for term in self.terminal))

    def violation(self, xs: np.ndarray, us: np.ndarray) -> float:
        """Largest violation of anything: x0, dynamics, limits of controls, rows in their units.  NaN if not finite."""
        given = np.isfinite(self.x0)
        off = [np.abs(xs[0] - self.x0)[given], np.ravel(us - self.upper), np.ravel(self.lower - us)]
        ends = np.array(np.broadcast_arrays(*self.step(xs[:-1].T, us.T))).T
        off.append(np.ravel(np.abs(ends - xs[1:])))
        for each in self.constraints:
            knots = np.array(self.knots(each))
            u = None if each.of == "state" else us[knots].T
            r = np.array([np.broadcast_to(ri, len(knots)) for ri in each.values(xs[knots].T, u)]).T
            off += [np.ravel(r - each.upper) / each.unit, np.ravel(each.lower - r) / each.unit]
        return float(max(0.0, np.max(np.concatenate(off))))
