"""Weakly active limits of a solution, and derivatives along a direction, in which some of them hold."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajopt.optimality.first_order import FirstOrder
from trajopt.optimality.kkt_point import Held, KKTPoint
from trajopt.optimality.kkt_system import KKTStep, KKTSystem
from trajopt.problem.constraints import BOUNDS

SWITCHES = 50
"""Largest number of changes of the set of weakly active limits that hold, in a derivative along a direction."""


class WeakLimit(NamedTuple):
    """A limit that is reached without a multiplier: the constraint's name, the knot, the component, -1 the lower or 1
    the upper limit."""

    name: str
    knot: int
    component: int
    side: int


def weak_limits(point: KKTPoint) -> tuple[WeakLimit, ...]:
    """The weakly active limits of a point, by name."""
    found, sides = [], point.weak.controls
    for t, i in np.argwhere(sides != 0):
        found.append(WeakLimit(BOUNDS, int(t), int(i), int(sides[t, i])))
    if point.rows is not None:
        rows, parts = point.rows, point.rows.unpacked(point.weak.rows.astype(float))
        for constraint, knots, part in zip(rows.constraints, rows.knots, parts, strict=True):
            for k, i in np.argwhere(part != 0.0):
                found.append(WeakLimit(constraint.name, int(knots[k]), int(i), int(part[k, i])))
    return tuple(found)


def one_sided(point: KKTPoint, change: FirstOrder) -> tuple[KKTSystem, KKTStep]:
    """The derivative of the solution along a direction, given the change of the conditions along it (one column), and
    the KKT system with the limits that hold; RuntimeError where no set of weakly active limits is consistent."""
    held = point.held
    for _ in range(SWITCHES):
        system = KKTSystem(point, held)
        step = system.solve(change.right_hand_side(held))
        rows, controls = _switched(system, step, change)
        if (rows == held.rows).all() and (controls == held.controls).all():
            return system, step
        held = Held(rows, controls)
    raise RuntimeError(f"directional: no set of weak limits was found in {SWITCHES} changes")


def _switched(system: KKTSystem, step: KKTStep, change: FirstOrder) -> tuple[np.ndarray, np.ndarray]:
    """The held weak limits after one change: the worst violated one is held, the one with the worst sign released."""
    (rows, controls), (weak_rows, weak_controls) = system.held, system.point.weak
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
