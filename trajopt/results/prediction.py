"""How the multipliers of constraints change along solutions of the KKT system."""

from __future__ import annotations

import numpy as np

from trajopt.optimality.kkt_point import KKTPoint
from trajopt.optimality.kkt_system import KKTStep, KKTSystem
from trajopt.problem.constraints import ControlBounds, ResidualConstraint


def change_of_multipliers(system: KKTSystem, step: KKTStep, gu: np.ndarray) -> tuple[np.ndarray, ...]:
    """Of each constraint (K, nr, P), for a step with gu (N, m, P) on its right-hand side: of rows, and for limits of
    controls minus the gradient that they hold."""
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
    """Which of the controls (N, m) on a limit are on one of these, and not on a tighter one of others."""
    common, own = point.problem.control_limits, bounds.limits(*point.us.shape)
    assert common is not None
    return np.where(point.held.controls > 0, own[1] == common[1], own[0] == common[0])
