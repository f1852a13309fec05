"""Which limits press at a point, which are weak: told by what multipliers and slacks are known to.

A multiplier presses, and a slack is one, by its size as long as that is above SMALL of its unit.  Below it, where a
limit is touched or has a multiplier, Newton's method tells [primal-dual active sets, Hintermueller, Ito and Kunisch]:

    limits are held where they seem to press;  z <- z - H^-1 F(z), H the factor of the point, until it stands still
    held ones that pull are let go, free ones that are crossed are held, and again

The last change of each number is what it is known to.  What presses, or is away from its limit, by more than KNOWN
times that does; the rest, multiplier and slack both zero as far as can be told, is weak.  A point from which Newton's
method leads nowhere has no more than the sizes: what is small is weak.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajopt.backward.expansions import finite
from trajopt.optimality.first_order import FirstOrder, first_order
from trajopt.optimality.kkt_point import Held, KKTPoint
from trajopt.optimality.kkt_system import Indefinite, KKTStep, KKTSystem

ON_LIMIT = 1e-9
"""How near, relative to its size and one, a control is to a limit that it lies on."""
SMALL = 1e-6
"""Above this part of its unit a multiplier, and a slack, is one, whatever it is known to."""
KNOWN = 100.0
"""So many times what it is known to, it is one, too."""
ROUNDING = 16.0 * np.finfo(float).eps
"""No number is known to less of its unit."""
SWITCHES, STEPS = 20, 5
"""Sets tried, and Newton steps for each."""
SETTLED, STANDING = 1e-8, 0.1
"""Of steps, relative to the controls: shorter ones are at rounding once they no longer shrink by this factor."""


class Limits(NamedTuple):
    """Numbers of rows (R,) and of controls (N, m)."""

    rows: np.ndarray
    controls: np.ndarray

    def any(self) -> bool:
        """Whether one is not zero."""
        return bool(self.rows.any() or self.controls.any())


def with_limits(point: KKTPoint, limits: tuple[np.ndarray, np.ndarray] | None) -> KKTPoint:
    """The point with what is held, and what is weak, told from the rest; limits (N, m) of its controls."""
    held, weak, doubtful = _by_size(point, limits)
    if doubtful.any():
        with np.errstate(all="ignore"):
            told = _by_newton(point, held, doubtful, limits)
        if told is not None:
            held, weak = told
    return point._replace(held=held, weak=weak)


def side_of(us: np.ndarray, limits: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """On which limit controls (N, m) lie, -1 or 1; 0 elsewhere."""
    if limits is None:
        return np.zeros(us.shape, np.int8)
    lower, upper = limits
    near = ON_LIMIT * (1.0 + np.abs(us))
    return np.where(us <= lower + near, -1, np.where(us >= upper - near, 1, 0)).astype(np.int8)


# ------------------------------------------------------------------------------------------------ by size
def _by_size(point: KKTPoint, limits: tuple[np.ndarray, np.ndarray] | None) -> tuple[Held, Held, Limits]:
    """What is held by a multiplier that is not small, what is weak if no more is known, and the sides (-1, 1) of what
    there is a doubt about: small multipliers of limits that are touched, or would have to be."""
    side, size = side_of(point.us, limits), _sizes(point)
    pressed = side * point.gradient < -SMALL * size
    held, doubtful = np.where(pressed, side, 0), np.where(pressed, 0, side)
    if limits is not None:  # a control with one value left is clamped whichever way it is pressed
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
    """Of the terms of the gradient (N, m)."""
    e = point.e
    return np.abs(e.lu) + np.einsum("tij,ti->tj", np.abs(e.fu), np.abs(point.costate[1:]))


# ------------------------------------------------------------------------------------------------ by Newton's method
class _Told(NamedTuple):
    """Multipliers nu (R,), values c (R,), controls us and the gradient there (N, m) where Newton's method ends, and the
    last change of each."""

    nu: np.ndarray
    c: np.ndarray
    us: np.ndarray
    gradient: np.ndarray
    changes: tuple[float, np.ndarray, np.ndarray, np.ndarray]


def _by_newton(
    point: KKTPoint, sure: Held, doubtful: Limits, limits: tuple[np.ndarray, np.ndarray] | None
) -> tuple[Held, Held] | None:
    """What is held and what is weak; None where that cannot be told."""
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
    """By how much held limits press and free ones are away, in units of KNOWN times what that is known to; zero where
    there is no doubt."""
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
    """Where Newton's method with the point's factor ends; None where it does not settle."""
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
    """The conditions at a point, and the step from there with the factor of one nearby."""
    here = first_order(at.problem, at)
    rhs = FirstOrder(*(part[..., None] for part in here)).right_hand_side(system.held)
    missing = np.where(system.free[..., None], 0.0, rhs.held - at.us[..., None])
    return here, system.solve(rhs._replace(gx=rhs.gx - at.costate[..., None], held=missing))


def moved_by(at: KKTPoint, step: KKTStep, dnu: np.ndarray) -> KKTPoint:
    """The point's trajectory and multipliers a step further, the rest as it is; dnu (R,)."""
    xs = at.problem.system.integrate(at.xs, step.dx[..., 0])
    return at._replace(xs=xs, us=at.us + step.du[..., 0], costate=at.costate + step.dlam[..., 0], nu=at.nu + dnu)
