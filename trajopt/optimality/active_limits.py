"""Active and weakly active limits at a point, determined from the accuracy of multipliers and slacks.

A multiplier, or a slack, counts as nonzero if it is larger than SMALL in its unit.  Below that, where a limit is
touched or has a multiplier, Newton's method decides [primal-dual active sets, Hintermueller, Ito and Kunisch]:

    limits that seem active are held;  z <- z - H^-1 F(z), H the factor of the point, until z no longer changes
    held limits with a multiplier of the wrong sign are released, violated free ones are held, and again

The last change of each number is its accuracy.  Multipliers and slacks of more than KNOWN times their accuracy are
nonzero; a limit whose multiplier and slack both are zero by this rule is weakly active.  At a point from which Newton's
method does not converge only sizes count: limits with a small multiplier and a small slack are weakly active.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trajopt.backward.expansions import adjoint, expand, finite, hessian_products, with_hessians
from trajopt.optimality.first_order import FirstOrder, first_order
from trajopt.optimality.kkt_point import Held, KKTPoint
from trajopt.optimality.kkt_system import Indefinite, KKTStep, KKTSystem
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.objective import zero_blocks
from trajopt.problem.problem import Problem
from trajopt.rows import Rows, pack, with_multipliers

if TYPE_CHECKING:
    from trajopt.results.records import ConstraintReport

ON_LIMIT = 1e-9
"""Distance of a control from a limit, relative to the control and to one, below which it lies on the limit."""
SMALL = 1e-6
"""Size of a multiplier or a slack, in its unit, above which it is nonzero whatever its accuracy."""
KNOWN = 100.0
"""Ratio of a multiplier or a slack to its accuracy above which it is nonzero."""
ROUNDING = 16.0 * np.finfo(float).eps
"""Best accuracy of any number, relative to its unit."""
SWITCHES, STEPS = 20, 5
"""Largest number of sets tried, and of Newton steps for each."""
SETTLED, STANDING = 1e-8, 0.1
"""Length of Newton steps, relative to the controls, below which they are rounding if they no longer shrink by the
factor STANDING."""


class Limits(NamedTuple):
    """Quantities for limits of rows (R,) and of controls (N, m)."""

    rows: np.ndarray
    controls: np.ndarray

    def any(self) -> bool:
        """True if one of them is not zero."""
        return bool(self.rows.any() or self.controls.any())


def with_limits(point: KKTPoint, limits: tuple[np.ndarray, np.ndarray] | None) -> KKTPoint:
    """The point with its active and its weakly active limits; limits (N, m) of its controls."""
    held, weak, doubtful = _by_size(point, limits)
    if doubtful.any():
        with np.errstate(all="ignore"):
            told = _by_newton(point, held, doubtful, limits)
        if told is not None:
            held, weak = told
    return point._replace(held=held, weak=weak)


def side_of(us: np.ndarray, limits: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """Limits on which controls (N, m) lie, -1 or 1; 0 elsewhere."""
    if limits is None:
        return np.zeros(us.shape, np.int8)
    lower, upper = limits
    near = ON_LIMIT * (1.0 + np.abs(us))
    return np.where(us <= lower + near, -1, np.where(us >= upper - near, 1, 0)).astype(np.int8)


# ------------------------------------------------------------------------------------------------ by size
def _by_size(point: KKTPoint, limits: tuple[np.ndarray, np.ndarray] | None) -> tuple[Held, Held, Limits]:
    """Limits held by a multiplier that is not small, limits that are weak by size alone, and the sides (-1, 1) of
    doubtful ones: touched limits with a small multiplier, or those that would have to be touched."""
    side, size = side_of(point.us, limits), _sizes(point)
    pushed = side * point.gradient < -SMALL * size
    held, doubtful = np.where(pushed, side, 0), np.where(pushed, 0, side)
    if limits is not None:  # a control with equal limits is clamped whatever the sign of its gradient
        locked = limits[0] == limits[1]
        held, doubtful = np.where(locked, 1, held), np.where(locked, 0, doubtful)
    rows = near = unsure = np.zeros(len(point.nu), np.int8)
    if point.rows is not None:
        lower, upper, nu, c = point.rows.lower, point.rows.upper, point.nu, point.c
        equal, small, sign = lower == upper, np.abs(nu) <= SMALL * point.multiplier_scale, np.sign(nu)
        above, below = upper - c <= SMALL, c - lower <= SMALL
        touched = np.where(above & ~(below & (nu < 0.0)), 1, np.where(below, -1, 0))
        wanted = np.where(np.isfinite(np.where(sign > 0.0, upper, lower)), sign, 0.0)
        rows = np.where(equal, 1, np.where(small, 0, sign))
        near = np.where(~equal & small, touched, 0)
        unsure = np.where(~equal & small, np.where(touched != 0, touched, wanted), 0)
    return Held(*_sides(rows, held)), Held(*_sides(near, doubtful)), Limits(*_sides(unsure, doubtful))


def _sides(*parts: np.ndarray) -> tuple[np.ndarray, ...]:
    return tuple(part.astype(np.int8) for part in parts)


def _sizes(point: KKTPoint) -> np.ndarray:
    """Sizes of the terms of the gradient (N, m)."""
    e = point.e
    return np.abs(e.lu) + np.einsum("tij,ti->tj", np.abs(e.fu), np.abs(point.costate[1:]))


# ------------------------------------------------------------------------------------------------ by Newton's method
class _Told(NamedTuple):
    """End of Newton's method: multipliers nu (R,), values c (R,), controls us and the gradient (N, m), and the last
    change of each."""

    nu: np.ndarray
    c: np.ndarray
    us: np.ndarray
    gradient: np.ndarray
    changes: tuple[float, np.ndarray, np.ndarray, np.ndarray]


def _by_newton(
    point: KKTPoint, sure: Held, doubtful: Limits, limits: tuple[np.ndarray, np.ndarray] | None
) -> tuple[Held, Held] | None:
    """Held and weak limits; None where they cannot be determined."""
    rows, controls = doubtful
    on = Limits(rows * point.nu > 0.0, controls * point.gradient < 0.0)
    for number in range(SWITCHES):
        held = Held(sure.rows + rows * on.rows, sure.controls + controls * on.controls)
        try:
            told = _settled(point, KKTSystem(point, held))
        except Indefinite:
            return None
        if told is None:
            return None
        by = _margins(point, told, doubtful, on, limits)
        worst = min(float(part.min(initial=0.0)) for part in by)
        if worst >= -1.0:
            parts = zip(sure, doubtful, on, by, strict=True)
            held = [known + side * (now & (m > 1.0)) for known, side, now, m in parts]
            weak = [side * (np.abs(m) <= 1.0) for side, m in zip(doubtful, by, strict=True)]
            return Held(*_sides(*held)), Held(*_sides(*weak))
        below = -1.0 if number < SWITCHES // 2 else np.nextafter(worst, 0.0)
        on = Limits(*(now ^ (m < below) for now, m in zip(on, by, strict=True)))
    return None


def _margins(
    point: KKTPoint, told: _Told, doubtful: Limits, on: Limits, limits: tuple[np.ndarray, np.ndarray] | None
) -> Limits:
    """Multipliers of held limits and slacks of free ones, in units of KNOWN times their accuracy; zero where there is
    no doubt."""
    (of_nu, of_c, of_us, of_gradient), (rows, controls) = told.changes, doubtful
    of_rows = np.zeros(len(rows))
    if point.rows is not None and rows.any():
        limit = np.where(rows > 0, point.rows.upper, point.rows.lower)
        pressing = told.nu / max(of_nu, ROUNDING * max(point.multiplier_scale, float(np.abs(point.nu).max())))
        away = (limit - told.c) / np.maximum(of_c, ROUNDING * (1.0 + np.abs(limit)))
        of_rows = np.where(rows == 0, 0.0, rows * np.where(on.rows, pressing, away))
    of_controls = np.zeros(controls.shape)
    if limits is not None and controls.any():
        limit = np.where(controls > 0, limits[1], limits[0])
        pressing = -told.gradient / np.maximum(
            of_gradient, ROUNDING * np.maximum(_sizes(point), point.multiplier_scale)
        )
        away = (limit - told.us) / np.maximum(of_us, ROUNDING * (1.0 + np.abs(limit)))
        of_controls = np.where(controls == 0, 0.0, controls * np.where(on.controls, pressing, away))
    return Limits(of_rows / KNOWN, of_controls / KNOWN)


def _settled(point: KKTPoint, system: KKTSystem) -> _Told | None:
    """End of Newton's method with the point's factor; None where it does not converge."""
    at, before = point._replace(nu=np.where(system.held.rows != 0, point.nu, 0.0)), np.inf
    scale = 1.0 + float(np.abs(point.us).max(initial=0.0))
    for number in range(STEPS):
        here, step = newton_step(at, system)
        if not finite(step.dx, step.du, step.dlam, step.dnu):
            return None
        dnu, moved = system.of_all_rows(step.dnu)[:, 0], system.along_all_rows(step)[:, 0]
        du, gradient = step.du[..., 0], system.gradient(here.gu[..., None], step)[..., 0]
        size = float(np.abs(du).max(initial=0.0)) / scale
        if number and size > max(0.5 * before, SETTLED):
            return None
        standing, before = number > 0 and size <= SETTLED and size >= STANDING * before, size
        at = moved_by(at, step, dnu)
        if not finite(at.xs, at.us):
            return None
        if standing:
            break
    else:
        if before > SETTLED:
            return None
    change = np.abs(gradient - here.gu)
    return _Told(
        at.nu, here.c + moved, at.us, gradient, (float(np.abs(dnu).max(initial=0.0)), np.abs(moved), np.abs(du), change)
    )


def newton_step(at: KKTPoint, system: KKTSystem) -> tuple[FirstOrder, KKTStep]:
    """The optimality conditions at a point, and the Newton step from there with the factor of a nearby point."""
    here = first_order(at.problem, at)
    rhs = FirstOrder(*(part[..., None] for part in here)).right_hand_side(system.held)
    missing = np.where(system.free[..., None], 0.0, rhs.held - at.us[..., None])
    return here, system.solve(rhs._replace(gx=rhs.gx - at.costate[..., None], held=missing))


def moved_by(at: KKTPoint, step: KKTStep, dnu: np.ndarray) -> KKTPoint:
    """The point after a step of its trajectory and multipliers, with all else unchanged; dnu (R,)."""
    xs = at.problem.system.integrate(at.xs, step.dx[..., 0])
    return at._replace(xs=xs, us=at.us + step.du[..., 0], costate=at.costate + step.dlam[..., 0], nu=at.nu + dnu)


# --------------------------------------------------------------------------------------------
# Construction of KKT points from trajectories.


def kkt_point(
    problem: Problem,
    xs: np.ndarray,
    us: np.ndarray,
    reports: Sequence[ConstraintReport],
    nu: np.ndarray | None = None,
    K: np.ndarray | None = None,
) -> KKTPoint:
    """The KKT point of a trajectory with one report for each of the problem's constraints; nu (R,): multipliers of the
    rows in place of those reported; K (N, m, n): gains of the loop that costates follow."""
    rows, reported = _rows(problem, reports)
    penalty = max((report.penalty for report in reports), default=0.0)
    return point_of(problem, xs, us, rows, reported if nu is None else nu, penalty, problem.control_limits, K)


def point_of(
    problem: Problem,
    xs: np.ndarray,
    us: np.ndarray,
    rows: Rows | None,
    nu: np.ndarray,
    penalty: float,
    limits: tuple[np.ndarray, np.ndarray] | None,
    K: np.ndarray | None = None,
) -> KKTPoint:
    """The KKT point of a trajectory with these rows, their multipliers (R,), limits (N, m) of its controls, and
    gains."""
    n, m = problem.system.ndx, problem.system.nu
    c, C = np.zeros(0), (np.zeros((0, n)), np.zeros((0, m)))
    curvature = zero_blocks(problem.horizon, n, m)
    first = lagrangian = expand(problem, xs, us, curvature=curvature)
    if rows is not None:
        c, *jacobians = rows.linearized(xs, us)
        C = jacobians[0], jacobians[1]
        lagrangian = with_multipliers(first, rows.first, C, nu)
        rows.add_curvature(xs, us, nu, curvature)
    if K is not None:
        K = np.where((side_of(us, limits) == 0)[..., None], K, 0.0)
    costate, gradient = adjoint(lagrangian, K)
    with np.errstate(all="ignore"):
        e = with_hessians(first, curvature, hessian_products(problem.system, xs, us, costate[1:]))
    nothing = Held(np.zeros(len(nu), np.int8), np.zeros(us.shape, np.int8))
    point = KKTPoint(problem, xs, us, costate, nu, c, C, gradient, rows, e, nothing, nothing, penalty)
    return with_limits(point, limits)


def _rows(problem: Problem, reports: Sequence[ConstraintReport]) -> tuple[Rows | None, np.ndarray]:
    """Rows of all constraints but limits of controls, scaled as in the solver, and their multipliers (R,)."""
    pairs = zip(problem.constraints, reports, strict=True)
    kept = [(one, report) for one, report in pairs if isinstance(one, ResidualConstraint)]
    if not kept:
        return None, np.zeros(0)
    rows = pack(problem, tuple(constraint for constraint, _ in kept))
    rows = rows.with_factors([np.ones(one.nr) if report.factors is None else report.factors for one, report in kept])
    return rows, rows.packed("multipliers", [report.multipliers for _, report in kept]) / rows.D
