"""Derivatives of solutions with respect to parameters: the linear system at the optimum, and predictions from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.printed import in_brief
from dynamics.validation import as_array, as_flag, as_number, check_shape
from trajopt.capabilities import capability
from trajopt.interfaces.system import along_tangents
from trajopt.optimality.first_order import (
    FirstOrder,
    Parameters,
    WeakLimit,
    change_with,
    default_steps,
    one_sided,
    parameters_of,
    weak_limits,
)
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.optimality.kkt_system import KKTStep, KKTSystem
from trajopt.problem.constraints import ControlBounds, ResidualConstraint
from trajopt.problem.parametric import INITIAL, DeclaredParameters
from trajopt.problem.problem import Problem, check_problem
from trajopt.problem.transcription import Transcribed, counts_besides, transcribed, transcribed_by, transcription_of
from trajopt.results.records import SolutionData, WarmStart
from trajopt.results.reverse import covector_step, problem_vjp
from trajopt.results.stationary import (
    factored,
    multipliers_outside,
    polished,
    solution_inside,
    stationary_point,
    warm_start_outside,
)

# --------------------------------------------------------------------------------------------
# Changes of parameters up to which, to first order, the same limits are active: a ratio test.


def reach(system: KKTSystem, step: KKTStep, change: FirstOrder) -> np.ndarray:
    """Changes (P, 2), down and up, of each parameter up to which the same limits are active, from these derivatives."""
    point = system.point
    margins, rates = [], []

    def add(margin: np.ndarray, rate: np.ndarray, where: np.ndarray) -> None:
        margins.append(margin[where])
        rates.append(rate[where])

    if point.rows is not None:
        rate = system.along_all_rows(step) + change.c
        free, equal = point.held.rows == 0, point.rows.lower == point.rows.upper
        free &= point.weak.rows == 0
        add(point.rows.upper - point.c, rate - change.upper, free & np.isfinite(point.rows.upper))
        add(point.c - point.rows.lower, change.lower - rate, free & np.isfinite(point.rows.lower))
        dnu, side = system.of_all_rows(step.dnu), point.held.rows
        add(side * point.nu, -side[:, None] * dnu, (side != 0) & ~equal)
    if point.problem.control_limits is not None:
        lower, upper = point.problem.control_limits
        free = (point.held.controls == 0) & (point.weak.controls == 0)
        add(upper - point.us, step.du - change.largest, free & np.isfinite(upper))
        add(point.us - lower, change.least - step.du, free & np.isfinite(lower))
        gradient, side = system.gradient(change.gu, step), point.held.controls
        add(np.abs(point.gradient), side[..., None] * gradient, (side != 0) & (lower < upper))
    margin = np.concatenate([np.zeros(0), *margins])[:, None]
    rate = np.concatenate([np.zeros((0, step.dx.shape[2])), *rates])
    with np.errstate(divide="ignore", invalid="ignore"):
        change_to = np.maximum(margin, 0.0) / rate
    up = np.where(rate > 0.0, change_to, np.inf).min(axis=0, initial=np.inf)
    down = np.where(rate < 0.0, change_to, -np.inf).max(axis=0, initial=-np.inf)
    return np.stack([down, up], axis=1)


# --------------------------------------------------------------------------------------------
# Changes of the multipliers of constraints along solutions of the KKT system.


def change_of_multipliers(system: KKTSystem, step: KKTStep, gu: np.ndarray) -> tuple[np.ndarray, ...]:
    """Change (K, nr, P) of each constraint's multipliers, for a step with gu (N, m, P) on its right-hand side: of rows,
    and for limits of controls minus the change of the gradient that they balance."""
    point, dnu, parts = system.point, system.of_all_rows(step.dnu), iter(())
    if point.rows is not None:
        columns = [point.rows.unpacked(dnu[:, p] * point.rows.D) for p in range(dnu.shape[1])]
        parts = iter([np.stack(part, axis=-1) for part in zip(*columns, strict=True)])
    gradient = system.gradient(gu, step)
    return tuple(
        next(parts) if isinstance(one, ResidualConstraint) else np.where(_holds(one, point)[..., None], -gradient, 0.0)
        for one in point.problem.constraints
    )


def _holds(bounds: ControlBounds, point: KKTPoint) -> np.ndarray:
    """True for controls (N, m) on a limit which is one of these bounds, and not a tighter one of others."""
    common, own = point.problem.control_limits, bounds.limits(*point.us.shape)
    assert common is not None
    return np.where(point.held.controls > 0, own[1] == common[1], own[0] == common[0])


# --------------------------------------------------------------------------------------------
# Derivatives of a solution with respect to parameters of its problem: the implicit function theorem at the optimality
# conditions.
#
# The problem is given, as in `solve_many`, by a function of its parameters.  Differences are taken only of the analytic
# first order at the fixed trajectory and fixed multipliers (`trajopt.optimality.first_order`): no problem is solved
# again, and nothing has to be declared.  The derivatives solve the KKT system with the exact Hessian of the Lagrangian
# (`trajopt.optimality.kkt_system`), one step of refinement included.
#
# A vector-Jacobian product is one solution with the covectors in place of the gradients: with phi_x, phi_u for gx, gu,
# the rest zero, it gives x^, u^, l^, n^, and
#
#     dphi/dp = sum x^'gx. + u^'gu. + l^'F. + n^'c. + e'limit.  e = phi_u + lux x^ + luu u^ + fu'l^' + Cu'n^  (clamped)


class Directional(NamedTuple):
    """Derivatives along one direction of the parameters: xs (N+1, ndx), us (N, nu), costate (N+1, ndx), multipliers as
    in the reports."""

    xs: np.ndarray
    us: np.ndarray
    costate: np.ndarray
    multipliers: tuple[np.ndarray, ...]

    def __repr__(self) -> str:
        return in_brief(self)


@dataclass(frozen=True)
class Sensitivity:
    """Derivatives of a solution with respect to P parameters p; see `trajopt.sensitivity`.

    Attributes
    ----------
    xs : (N+1, ndx, P), tangent vectors at the states
    us : (N, nu, P)
    cost : (P,), derivatives of the optimal cost
    multipliers : (K, nr, P) for each constraint
    costate : (N+1, ndx, P)
    labels : (P,) names of the numbers
    residual : residual of the KKT equations after refinement, relative to their right-hand side
    multipliers_unique : False where active constraints depend on each other; the multipliers are then the shortest
    weak : weakly active limits, with multiplier and slack both zero to their accuracy; the derivatives are those
        without them
    valid : (P, 2), changes of each number down and up, to first order, up to which the same limits are active: an
        estimate, no bound
    """

    parameters: Parameters
    point: KKTPoint = field(repr=False)
    solution: SolutionData = field(repr=False)
    make_problem: Callable[[Any], Problem] = field(repr=False)
    steps: np.ndarray = field(repr=False)
    system: KKTSystem = field(repr=False)

    def __repr__(self) -> str:
        return in_brief(self, labels=self.labels, weak=len(self.weak))

    # -------------------------------------------------------------------------------------------- forward
    @cached_property
    def change(self) -> FirstOrder:
        """d/dp of the optimality conditions at the fixed point."""
        frozen = self._declared is not None
        return change_with(self.make_problem, self.parameters, self.point, self.steps, frozen)

    @cached_property
    def _step(self) -> KKTStep:
        return self.system.solve(self.change.right_hand_side(self.system.held))

    @property
    def labels(self) -> tuple[str, ...]:
        """Names (P,) of the parameters."""
        return self.parameters.labels()

    @property
    def xs(self) -> np.ndarray:
        """d xs / dp."""
        return self._changes[0]

    @property
    def us(self) -> np.ndarray:
        """d us / dp."""
        return self._changes[1]

    @cached_property
    def _changes(self) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of the states and controls of the problem itself."""
        return self._outside(self._step.dx, self._step.du)

    def _outside(self, dx: np.ndarray, du: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        by = transcribed_by(self.point.problem)
        return (dx, du) if by is None else by.changes_outside(dx, du)

    @property
    def costate(self) -> np.ndarray:
        """d lam / dp."""
        dlam, by = self._step.dlam, transcribed_by(self.point.problem)
        return dlam if by is None else dlam[by.front :, : by.given.system.ndx]

    @cached_property
    def residual(self) -> float:
        """Residual of the KKT equations, relative to their right-hand side."""
        return self.system.residual(self.change.right_hand_side(self.system.held), self._step)

    @property
    def multipliers_unique(self) -> bool:
        """True if the active constraints are independent."""
        return self.system.independent

    @cached_property
    def cost(self) -> np.ndarray:
        """d J / dp, by the envelope theorem: the derivative of the Lagrangian at the fixed point."""
        if self._declared is not None:
            return self._by_values(None, None, 1.0)
        change, point = self.change, self.point
        rhs = change.right_hand_side(point.held)
        held = np.flatnonzero(point.held.rows)
        total = change.cost + np.einsum("ti,tip->p", point.costate, rhs.F) + point.nu[held] @ rhs.c
        return total + np.einsum("ti,tip->p", point.gradient, rhs.held)

    @cached_property
    def multipliers(self) -> tuple[np.ndarray, ...]:
        """Derivatives of each constraint's multipliers."""
        return self._multipliers_outside(change_of_multipliers(self.system, self._step, self.change.gu))

    def _multipliers_outside(self, parts: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        by = transcribed_by(self.point.problem)
        return parts if by is None else multipliers_outside(by, parts)

    # -------------------------------------------------------------------------------------------- prediction
    def predict(self, dp: Any) -> WarmStart:
        """The warm start for a solve at p + dp: states, controls within their limits, multipliers, to first order in
        dp, which has the form of p, or of the part of it that counts; from the side of dp where limits are weakly
        active. Raises: RuntimeError as `directional`."""
        point, reports, along = self.point, self.solution.constraints, self._along(dp)
        us, d, limits = point.us + along.us, self._direction(dp), point.problem.control_limits
        if limits is not None:
            us = np.clip(us, limits[0] + self.change.least @ d, limits[1] + self.change.largest @ d)
        xs = point.problem.system.integrate(point.xs, along.xs)
        moved = tuple(
            report._replace(multipliers=report.multipliers + dnu)
            for report, dnu in zip(reports, along.multipliers, strict=True)
        )
        start, by = WarmStart(us, xs, moved, 0.0, point.costate + along.costate), transcribed_by(point.problem)
        return start if by is None else warm_start_outside(by, start)

    def _direction(self, dp: Any) -> np.ndarray:
        flat = dp if isinstance(dp, np.ndarray) and dp.ndim == 1 else self.parameters.flat(dp)
        return as_array("dp", flat, (len(self.parameters.vector),), copy=True)

    # -------------------------------------------------------------------------------------------- reverse
    def vjp(
        self,
        xs_bar: ArrayLike | None = None,
        us_bar: ArrayLike | None = None,
        cost_bar: float = 0.0,
        ambient: bool = False,
    ) -> Any:
        """d phi / dp of a function phi of the solution, in the form of p.

        Parameters
        ----------
        xs_bar : (N+1, ndx), d phi / d xs along tangents; if ambient (N+1, nx), by the numbers of the states
        us_bar : (N, nu), d phi / d us
        cost_bar : d phi / d J

        Raises: ValueError for a wrong shape or numbers that are not finite; if ambient, TypeError for a system on a
        manifold without `integrate_jacobian` (`trajopt.capabilities.StateManifold`).
        """
        problem, xs, us = self.point.problem, self.point.xs, self.point.us
        by = transcribed_by(problem)
        if by is not None:
            problem, (xs, us) = by.given, by.outside(xs, us)
        if as_flag("ambient", ambient) and xs_bar is not None:
            xs_bar = along_tangents(problem.system, xs, as_array("xs_bar", xs_bar, xs.shape))
        if by is not None:
            shape = len(xs), problem.system.ndx
            xs_bar = None if xs_bar is None else as_array("xs_bar", xs_bar, shape, copy=True)
            us_bar = None if us_bar is None else as_array("us_bar", us_bar, us.shape, copy=True)
            xs_bar, us_bar = by.covectors_inside(xs_bar, us_bar)
        if self._declared is not None:
            return self.parameters.like(self._by_values(xs_bar, us_bar, cost_bar))
        total, cost_bar = np.zeros(len(self.parameters.vector)), as_number("cost_bar", cost_bar)
        if xs_bar is not None or us_bar is not None:
            rhs, back = covector_step(self.system, xs_bar, us_bar)
            d = self.change.right_hand_side(self.system.held)
            total += np.einsum("tiz,tip->p", back.dx, d.gx) + np.einsum("tiz,tip->p", back.du, d.gu)
            total += np.einsum("tiz,tip->p", back.dlam, d.F) + np.einsum("rz,rp->p", back.dnu, d.c)
            total += np.einsum("tiz,tip->p", self.system.gradient(rhs.gu, back), d.held)
        if cost_bar:
            total += cost_bar * self.cost
        return self.parameters.like(total)

    @property
    def _declared(self) -> DeclaredParameters | None:
        """Declaration of the parameters in the problem's values, None without one."""
        made, by = self.make_problem, transcribed_by(self.point.problem)
        said = capability(made.given if isinstance(made, Transcribed) else made, DeclaredParameters)
        besides = counts_besides(self.point.problem if by is None else by.given)
        return None if not said.wanted or (INITIAL in said.wanted and besides) else said

    def _by_values(self, xs_bar: ArrayLike | None, us_bar: ArrayLike | None, cost_bar: float) -> np.ndarray:
        """d phi / dp (P,) from declared parameters, without making a problem."""
        declared = self._declared
        assert declared is not None
        by = transcribed_by(self.point.problem)
        gradients = problem_vjp(self.system, xs_bar, us_bar, cost_bar, declared.wanted)
        gradients = gradients if by is None else by.gradients_outside(gradients)
        return self.parameters.flat(declared.chained(self.parameters.given, gradients))

    # -------------------------------------------------------------------------------------------- where limits change
    @cached_property
    def weak(self) -> tuple[WeakLimit, ...]:
        """Weakly active limits, by name."""
        found, by = weak_limits(self.point), transcribed_by(self.point.problem)
        return found if by is None else tuple(one._replace(knot=by.knot_outside(one.knot)) for one in found)

    def directional(self, dp: Any) -> Directional:
        """The derivative along dp, from this side: weakly active limits hold where the solution would cross them, and
        become inactive where their multipliers would have the wrong sign (the quadratic problem on the critical cone).

        Raises: RuntimeError where no set of them is found.
        """
        xs, us, costate, multipliers = self._along(dp)
        by = transcribed_by(self.point.problem)
        if by is not None:
            xs, us = by.changes_outside(xs, us)
            costate = costate[by.front :, : by.given.system.ndx]
        return Directional(xs, us, costate, self._multipliers_outside(multipliers))

    def _along(self, dp: Any) -> Directional:
        """The directional derivative at the KKT point."""
        d, point = self._direction(dp), self.point
        if not (point.weak.rows.any() or point.weak.controls.any()):
            step = self._step
            multipliers = tuple(part @ d for part in change_of_multipliers(self.system, step, self.change.gu))
            return Directional(step.dx @ d, step.du @ d, step.dlam @ d, multipliers)
        change = FirstOrder(*((part @ d)[..., None] for part in self.change))
        system, step = one_sided(point, change)
        parts = change_of_multipliers(system, step, change.gu)
        dx, du, dlam = (part[..., 0] for part in step[:3])
        return Directional(dx, du, dlam, tuple(part[..., 0] for part in parts))

    @cached_property
    def valid(self) -> np.ndarray:
        """Changes (P, 2) of each parameter up to which the same limits are active, to first order."""
        return reach(self.system, self._step, self.change)


# ------------------------------------------------------------------------------------------------ public functions
def sensitivity(
    make_problem: Callable[[Any], Problem],
    p: Any,
    solution: SolutionData,
    *,
    wrt: Sequence[str] | None = None,
    steps: float | ArrayLike | None = None,
    polish: bool = False,
) -> Sensitivity:
    """Exact derivatives of a solution with respect to the parameters of its problem, of any kind.

    Parameters
    ----------
    make_problem : function of p that returns a Problem, as for `solve_many`; horizon, sizes and knots of constraints
        must be the same for all p; dt, models, costs, limits, initial states may depend on p.  With a
        `trajopt.ParametricProblem`, `vjp` and `cost` make no problem, however many numbers p has.
    p : a number, an array, or a mapping or dataclass of numbers and arrays, whose other entries are constants
    solution : solution of make_problem(p)
    wrt : names of the entries of p to differentiate by; by default all floats
    steps : steps of the differences of the analytic first order, number or (P,); by default 1e-3 of each
        number, 1e-5 below 0.01, and 1e-3 at zero
    polish : take a Newton step of the optimality conditions first, for solutions that are not converged to rounding

    Returns
    -------
    Sensitivity, whose `xs`, `us`, `cost`, `multipliers` are derivatives, `predict(dp)` a warm start, and `vjp` their
    products with covectors, for gradients of losses.  Only the factor is computed at once.

    Raises
    ------
    TypeError, ValueError : naming the argument; for a solution that has not converged, has gaps, soft constraints that
        are violated, or is of another problem; at a solution that is no strict minimum of second order (see
        `Solution.certificate`).
    """
    if not callable(make_problem):
        raise TypeError(f"make_problem: got {type(make_problem).__name__}, expected a function of p")
    parameters_of(p, wrt)  # raises for invalid parameters before a problem is made
    problem = make_problem(p)
    check_problem(problem)
    if transcription_of(problem) is not None:
        make_problem, solution = Transcribed(make_problem), solution_inside(problem, solution)
    point = stationary_point(transcribed(problem), solution)
    if polish:
        point = polished(point, factored(point), solution.constraints)
    return sensitivity_at(point, make_problem, p, solution, wrt, steps)


def sensitivity_at(
    point: KKTPoint,
    make_problem: Callable[[Any], Problem],
    p: Any,
    solution: SolutionData,
    wrt: Sequence[str] | None = None,
    steps: float | ArrayLike | None = None,
) -> Sensitivity:
    """`sensitivity` at the KKT point of the solution, where that is already known."""
    parameters = parameters_of(p, wrt)
    shape = parameters.vector.shape
    given = as_array("steps", default_steps(parameters) if steps is None else steps, copy=True)
    steps = check_shape("steps", given if given.ndim else np.full(shape, given), shape)
    if not (steps > 0.0).all():
        raise ValueError(f"steps: got {steps}, expected positive numbers")
    return Sensitivity(parameters, point, solution, make_problem, steps, factored(point))
