"""How far parameters may change, to first order, before another limit presses or one lets go: a ratio test."""

from __future__ import annotations

import numpy as np

from trajopt.optimality.first_order import FirstOrder
from trajopt.optimality.kkt_system import KKTStep, KKTSystem


def reach(system: KKTSystem, step: KKTStep, change: FirstOrder) -> np.ndarray:
    """Changes (P, 2), down and up, of each parameter, whose derivatives these are."""
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
