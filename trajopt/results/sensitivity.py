"""Derivatives of a solution by what its problem is made of: the implicit function theorem at the optimality conditions.

The problem is told as in `solve_many`, by a function of its parameters.  All that is differenced is the analytic first
order at the fixed trajectory and fixed multipliers (`trajopt.optimality.first_order`): no problem is solved again, and
nothing has to be declared.  The derivatives solve the KKT system with the exact Hessian of the Lagrangian
(`trajopt.optimality.kkt_system`), one step of refinement included.

A vector-Jacobian product is one solution with the covectors in place of the gradients: with phi_x, phi_u for gx, gu,
the rest zero, it gives x^, u^, l^, n^, and

    dphi/dp = sum x^'gx. + u^'gu. + l^'F. + n^'c. + e'limit.     e = phi_u + lux x^ + luu u^ + fu'l^' + Cu'n^  (clamped)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trajopt.optimality.first_order import FirstOrder, change_with, default_steps
from trajopt.optimality.kkt_point import Held, KKTPoint
from trajopt.optimality.kkt_system import KKTStep, KKTSystem, RightHandSide
from trajopt.optimality.parameters import Parameters, parameters_of
from trajopt.problem.parameters import BOUNDS
from trajopt.problem.problem import Problem, check_problem
from trajopt.results.prediction import change_of_multipliers
from trajopt.results.records import WarmStart
from trajopt.results.stationary import factored, polished, stationary_point
from trajopt.validation import float_array

if TYPE_CHECKING:
    from trajopt.results.solution import Solution

SWITCHES = 50
"""Of weak limits, in a derivative along a direction."""


class WeakLimit(NamedTuple):
    """A limit that presses without a multiplier: the constraint's name, the knot, the component, -1 the lower or 1 the
    upper limit."""

    name: str
    knot: int
    component: int
    side: int


class Directional(NamedTuple):
    """Derivatives along one direction of the parameters: xs (N+1, ndx), us (N, nu), multipliers as in the reports."""

    xs: np.ndarray
    us: np.ndarray
    multipliers: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class Sensitivity:
    """Derivatives of a solution by parameters p, P numbers; see `trajopt.sensitivity`.

    Attributes
    ----------
    xs : (N+1, ndx, P), tangent vectors at the states
    us : (N, nu, P)
    cost : (P,), of the optimal cost
    multipliers : of each constraint, (K, nr, P)
    costate : (N+1, ndx, P)
    labels : (P,) names of the numbers
    residual : what is left of the KKT equations after refinement, relative to their right-hand side
    multipliers_unique : False where active constraints depend on each other; the multipliers are then the shortest
    weak : limits on which the solution lies without pressing; the derivatives are those without them
    valid : (P, 2), how far down and up each number may change, to first order, before another limit presses or one lets
        go: an estimate, no bound
    """

    parameters: Parameters
    point: KKTPoint = field(repr=False)
    solution: Solution = field(repr=False)
    make_problem: Callable[[Any], Problem] = field(repr=False)
    steps: np.ndarray = field(repr=False)
    system: KKTSystem = field(repr=False)

    # -------------------------------------------------------------------------------------------- forward
    @cached_property
    def change(self) -> FirstOrder:
        """d/dp of the optimality conditions at the fixed point."""
        return change_with(self.make_problem, self.parameters, self.point, self.steps)

    @cached_property
    def _step(self) -> KKTStep:
        return self.system.solve(self.change.right_hand_side(self.system.held))

    @property
    def labels(self) -> tuple[str, ...]:
        """A name for each number."""
        return self.parameters.labels()

    @property
    def xs(self) -> np.ndarray:
        """d xs / dp."""
        return self._step.dx

    @property
    def us(self) -> np.ndarray:
        """d us / dp."""
        return self._step.du

    @property
    def costate(self) -> np.ndarray:
        """d lam / dp."""
        return self._step.dlam

    @property
    def residual(self) -> float:
        """Of the KKT equations."""
        return self._step.residual

    @property
    def multipliers_unique(self) -> bool:
        """Whether the active constraints are independent."""
        return self.system.independent

    @cached_property
    def cost(self) -> np.ndarray:
        """d J / dp, by the envelope theorem: of the Lagrangian at the fixed point."""
        change, point = self.change, self.point
        rhs = change.right_hand_side(point.held)
        held = np.flatnonzero(point.held.rows)
        total = change.cost + np.einsum("ti,tip->p", point.costate, rhs.F) + point.nu[held] @ rhs.c
        return total + np.einsum("ti,tip->p", point.gradient, rhs.held)

    @cached_property
    def multipliers(self) -> tuple[np.ndarray, ...]:
        """Those of each constraint by p."""
        return change_of_multipliers(self.system, self._step, self.change.gu)

    # -------------------------------------------------------------------------------------------- prediction
    def predict(self, dp: Any) -> WarmStart:
        """Where a solve at p + dp can begin: states, controls within their limits, multipliers, to first order in dp,
        which has the form of p, or of the part of it that counts."""
        d, point, s = self._direction(dp), self.point, self.solution
        us = point.us + self.us @ d
        if point.problem.control_limits is not None:
            us = np.clip(us, *point.problem.control_limits)
        xs = point.problem.system.integrate(point.xs, self.xs @ d)
        reports = s.constraints
        lam = tuple(report.multipliers + dnu @ d for report, dnu in zip(reports, self.multipliers, strict=True))
        penalties, factors = tuple(r.penalty for r in reports), tuple(r.factors for r in reports)
        return WarmStart(us, xs, lam, penalties, factors, 0.0, point.costate + self.costate @ d)

    def _direction(self, dp: Any) -> np.ndarray:
        flat = dp if isinstance(dp, np.ndarray) and dp.ndim == 1 else self.parameters.flat(dp)
        return float_array("dp", flat, (len(self.parameters.vector),))

    # -------------------------------------------------------------------------------------------- reverse
    def vjp(
        self,
        xs_bar: ArrayLike | None = None,
        us_bar: ArrayLike | None = None,
        cost_bar: float = 0.0,
    ) -> Any:
        """d phi / dp of a function phi of the solution, in the form of p.

        Parameters
        ----------
        xs_bar : (N+1, ndx), d phi / d xs along tangents
        us_bar : (N, nu), d phi / d us
        cost_bar : d phi / d J

        Raises: ValueError for a wrong shape or numbers that are not finite.
        """
        total = np.zeros(len(self.parameters.vector))
        if xs_bar is not None or us_bar is not None:
            rhs, back = self._back(xs_bar, us_bar)
            d = self.change.right_hand_side(self.system.held)
            total += np.einsum("tiz,tip->p", back.dx, d.gx) + np.einsum("tiz,tip->p", back.du, d.gu)
            total += np.einsum("tiz,tip->p", back.dlam, d.F) + np.einsum("rz,rp->p", back.dnu, d.c)
            total += np.einsum("tiz,tip->p", self.system.gradient(rhs.gu, back), d.held)
        if cost_bar:
            total += cost_bar * self.cost
        return self.parameters.like(total)

    def _back(self, xs_bar: ArrayLike | None, us_bar: ArrayLike | None) -> tuple[RightHandSide, KKTStep]:
        """Covectors as a right-hand side, and its solution x^, u^, l^, n^; l^_0 is d phi / d x0."""
        rhs, system = self.system.zeros(1), self.point.problem.system
        N, n, m = len(self.point.us), system.ndx, system.nu
        if xs_bar is not None:
            rhs.gx[..., 0] = float_array("xs_bar", xs_bar, (N + 1, n))
        if us_bar is not None:
            rhs.gu[..., 0] = float_array("us_bar", us_bar, (N, m))
        return rhs, self.system.solve(rhs)

    # -------------------------------------------------------------------------------------------- where limits change
    @cached_property
    def weak(self) -> tuple[WeakLimit, ...]:
        """Weak limits, by name."""
        point, found = self.point, []
        sides = point.weak.controls
        for t, i in np.argwhere(sides != 0):
            found.append(WeakLimit(BOUNDS, int(t), int(i), int(sides[t, i])))
        if point.rows is not None:
            rows, parts = point.rows, point.rows.unpacked(point.weak.rows.astype(float))
            for constraint, knots, part in zip(rows.constraints, rows.knots, parts, strict=True):
                for k, i in np.argwhere(part != 0.0):
                    found.append(WeakLimit(constraint.name, int(knots[k]), int(i), int(part[k, i])))
        return tuple(found)

    def directional(self, dp: Any) -> Directional:
        """The derivative along dp, from this side: weak limits hold where the solution would cross them, and let go
        where they would pull (the quadratic problem on the critical cone).

        Raises: RuntimeError where no set of them is found.
        """
        d, point = self._direction(dp), self.point
        change = FirstOrder(*((part @ d)[..., None] for part in self.change))
        held, system = point.held, self.system
        for _ in range(SWITCHES):
            step = system.solve(change.right_hand_side(held))
            rows, controls = self._switched(system, step, change)
            if (rows == held.rows).all() and (controls == held.controls).all():
                parts = change_of_multipliers(system, step, change.gu)
                return Directional(step.dx[..., 0], step.du[..., 0], tuple(part[..., 0] for part in parts))
            held = Held(rows, controls)
            system = KKTSystem(point, held)
        raise RuntimeError(f"directional: no set of weak limits was found in {SWITCHES} changes")

    def _switched(self, system: KKTSystem, step: KKTStep, change: FirstOrder) -> tuple[np.ndarray, np.ndarray]:
        """Weak limits held where they are crossed, freed where they pull: the worst of either kind."""
        (rows, controls), (weak_rows, weak_controls) = system.held, self.point.weak
        moving, pulls = (part[:, 0] for part in (system.along_all_rows(step) + change.c, system.of_all_rows(step.dnu)))
        moving = moving - np.where(weak_rows > 0, change.upper[:, 0], change.lower[:, 0])
        limit = np.where(weak_controls > 0, change.largest[..., 0], change.least[..., 0])
        crossing = weak_controls * (step.du[..., 0] - limit)
        gradient = system.gradient(change.gu, step)[..., 0]
        out_rows = weak_rows * np.where(rows == 0, moving, -pulls)
        out_controls = np.where(controls == 0, crossing, weak_controls * gradient)
        scale = 1e-9 * max(float(np.abs(step.du).max(initial=0.0)), 1e-300)
        worst = max(float(out_rows.max(initial=0.0)), float(out_controls.max(initial=0.0)))
        if worst > scale:
            rows = np.where(out_rows == worst, np.where(rows == 0, weak_rows, 0), rows)
            controls = np.where(out_controls == worst, np.where(controls == 0, weak_controls, 0), controls)
        return rows.astype(np.int8), controls.astype(np.int8)

    @cached_property
    def valid(self) -> np.ndarray:
        """Changes (P, 2) of each number up to which the same limits press, to first order."""
        point, step, change = self.point, self._step, self.change
        margins, rates = [], []

        def add(margin: np.ndarray, rate: np.ndarray, where: np.ndarray) -> None:
            margins.append(margin[where])
            rates.append(rate[where])

        if point.rows is not None:
            rate = self.system.along_all_rows(step) + change.c
            free, equal = point.held.rows == 0, point.rows.lower == point.rows.upper
            free &= point.weak.rows == 0
            add(point.rows.upper - point.c, rate - change.upper, free & np.isfinite(point.rows.upper))
            add(point.c - point.rows.lower, change.lower - rate, free & np.isfinite(point.rows.lower))
            dnu, pressed = self.system.of_all_rows(step.dnu), (point.held.rows != 0) & ~equal
            add(np.abs(point.nu), -np.sign(point.nu)[:, None] * dnu, pressed)
        if point.problem.control_limits is not None:
            lower, upper = point.problem.control_limits
            free = (point.held.controls == 0) & (point.weak.controls == 0)
            add(upper - point.us, step.du - change.largest, free & np.isfinite(upper))
            add(point.us - lower, change.least - step.du, free & np.isfinite(lower))
            gradient, side = self.system.gradient(change.gu, step), point.held.controls
            add(np.abs(point.gradient), side[..., None] * gradient, side != 0)
        P = step.dx.shape[2]
        margin = np.concatenate([np.zeros(0), *margins])[:, None]
        rate = np.concatenate([np.zeros((0, P)), *rates])
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.maximum(margin, 0.0) / rate
        up = np.where(rate > 0.0, reach, np.inf).min(axis=0, initial=np.inf)
        down = np.where(rate < 0.0, reach, -np.inf).max(axis=0, initial=-np.inf)
        return np.stack([down, up], axis=1)


# ------------------------------------------------------------------------------------------------ what users call
def sensitivity(
    make_problem: Callable[[Any], Problem],
    p: Any,
    solution: Solution,
    *,
    wrt: Sequence[str] | None = None,
    steps: float | ArrayLike | None = None,
    polish: bool = False,
) -> Sensitivity:
    """How a solution depends on the parameters of its problem: exact derivatives, whatever the parameters are.

    Parameters
    ----------
    make_problem : function of p that returns a Problem, as for `solve_many`; horizon, sizes and knots of constraints
        stay the same, dt, models, costs, limits, initial states may depend on p
    p : a number, an array, or a mapping or dataclass of numbers and arrays, whose other entries are constants
    solution : of make_problem(p)
    wrt : names of the entries of p that count; by default all floats
    steps : of differences of the analytic first order, number or (P,); by default 1e-3 of each
        number, 1e-5 below 0.01, and 1e-3 at zero
    polish : take a Newton step of the optimality conditions first, for solutions that are not converged to rounding

    Returns
    -------
    Sensitivity, whose `xs`, `us`, `cost`, `multipliers` are derivatives, `predict(dp)` a warm start, and `vjp` their
    products with covectors, for gradients of losses.  Nothing is evaluated before it is asked for but the factor.

    Raises
    ------
    TypeError, ValueError : naming the argument; for a solution that has not converged, has gaps, or is of another
        problem; at a solution that is no strict minimum of second order (see `Solution.certificate`).
    """
    if not callable(make_problem):
        raise TypeError(f"make_problem: got {type(make_problem).__name__}, wanted a function of p")
    parameters = parameters_of(p, wrt)
    problem = make_problem(p)
    check_problem(problem)
    point = stationary_point(problem, solution)
    if polish:
        point = polished(point, factored(point), solution.constraints)
    given = default_steps(parameters) if steps is None else np.broadcast_to(steps, parameters.vector.shape)
    steps = float_array("steps", given, parameters.vector.shape)
    if not (steps > 0.0).all():
        raise ValueError(f"steps: got {steps}, wanted positive numbers")
    return Sensitivity(parameters, point, solution, make_problem, steps, factored(point))
