"""Derivatives of a problem's terms by their attributes: targets, references, weights, limits.

Of each term, a cost or a constraint, that of sum_t value_t'y_t + slope_t'dy_t is wanted, y what it has at its points
and dy its change along a direction there (`trajopt.interfaces.adjustable.AttributeGradient`).  What a term does not
know by itself is differenced, that term alone, with the attribute moved number by number.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from trajopt.costs import Quadratic
from trajopt.costs.differences import ONE_SIDED
from trajopt.interfaces.adjustable import Direction, gradient_by, summed_to
from trajopt.interfaces.residual import at_knots
from trajopt.problem.constraints import ControlBounds, ResidualConstraint
from trajopt.problem.parameters import CONSTRAINT, RUNNING, TERMINAL, Key, Place, adjusted
from trajopt.problem.problem import Problem

STEP, SMALL = 1e-3, 1e-2
"""Of differences, relative to a number; numbers below SMALL are taken for that, zero for one.  They go to one side:
weights are not below zero."""


class OfLagrangian(NamedTuple):
    """What the terms of a Lagrangian are multiplied by.

    dx (N+1, ndx), du (N, nu): a direction.  cost: of the terms' values.  rows: of each constraint with rows, by its id,
    knots (K,) and (K, nr) multipliers of values and of changes, and which limits (-1, 1) hold.  controls: multipliers
    (N, nu) of the limits of controls that hold them, and which (-1, 1) these are.
    """

    xs: np.ndarray
    us: np.ndarray
    dx: np.ndarray
    du: np.ndarray
    cost: float
    rows: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]
    controls: tuple[np.ndarray, np.ndarray]


def term_gradient(problem: Problem, key: Key, place: Place, name: str, of: OfLagrangian) -> np.ndarray | None:
    """By the attribute of this name; None where the term does not know it and the attribute is no array of numbers that
    can be moved one by one."""
    term = place.term
    if isinstance(term, ControlBounds):
        return _by_control_limit(problem, term, name, of)
    if key[0] == CONSTRAINT:
        return _by_row(term, place, name, of)
    total = None
    for each in problem.objective.terms:
        if each.cost is not term or (TERMINAL if each.terminal else RUNNING) != key[0]:
            continue
        dx, du = each.points(of.dx, of.du)
        slope = np.array(np.broadcast_to(each.scale, (len(dx),)), dtype=np.float64)
        at = Direction(*each.points(of.xs, of.us), dx, du)
        found = gradient_by(term, name, at, of.cost * slope, slope)
        if found is None:
            found = _differenced(term, place.values[name], name, at, of.cost * slope, slope)
        if found is not None:
            total = found if total is None else total + found
    return total


def _by_row(term: ResidualConstraint, place: Place, name: str, of: OfLagrangian) -> np.ndarray | None:
    """Of a constraint with rows."""
    knots, value, slope, held = of.rows[id(term)]
    if name in ("lower", "upper"):
        rows = np.where((held > 0) if name == "upper" else (held < 0), -value, 0.0)
        asked = np.array(term.at) if isinstance(term.at, tuple) else knots
        of_all = np.zeros((len(asked), term.nr))
        of_all[np.isin(asked, knots)] = rows
        return summed_to(of_all, np.shape(getattr(term, name)))
    before_last = len(knots) == 0 or knots[-1] < len(of.us)
    us, du = (of.us[knots], of.du[knots]) if before_last else (None, None)
    at = Direction(of.xs[knots], us, of.dx[knots], du)
    there = copy.copy(term)
    there.residual = at_knots(term.residual, knots)
    found = gradient_by(there.residual, name, at, value, slope)
    return _differenced(there, place.values[name], name, at, value, slope) if found is None else found


def _by_control_limit(problem: Problem, term: ControlBounds, name: str, of: OfLagrangian) -> np.ndarray:
    """Where it is the tightest of all limits, the first of several that are."""
    multipliers, side = of.controls
    assert problem.control_limits is not None
    which = 0 if name == "lower" else 1
    free = (side < 0) if name == "lower" else (side > 0)
    for one in problem.constraints:
        if isinstance(one, ControlBounds):
            own = free & (one.limits(*side.shape)[which] == problem.control_limits[which])
            if one is term:
                return summed_to(np.where(own, multipliers, 0.0), np.shape(getattr(term, name)))
            free = free & ~own
    raise AssertionError("a problem's bounds are among its constraints")


# ------------------------------------------------------------------------------------------------ differences
def _differenced(
    term: Any, known: Any, name: str, at: Direction, value: np.ndarray, slope: np.ndarray
) -> np.ndarray | None:
    """By differences of the term alone, whose attribute is known to be this."""
    if not isinstance(known, np.ndarray | float | int):
        return None
    try:
        return _by_number(term, known, name, at, value, slope)
    except (TypeError, ValueError):  # a rotation, say, is refused where one of its numbers is another
        return None


def _by_number(
    term: Any, known: Any, name: str, at: Direction, value: np.ndarray, slope: np.ndarray
) -> np.ndarray:
    known = np.asarray(known, dtype=np.float64)
    total = np.zeros(known.shape)
    for index in np.ndindex(*known.shape):
        h = STEP * (max(abs(float(known[index])), SMALL) if known[index] else 1.0)
        for multiple, weight in ONE_SIDED:
            moved = known.copy()
            moved[index] += multiple * h
            total[index] += weight / h * _sum(adjusted(term, {name: moved}), at, value, slope)
    return total


def _sum(term: Any, at: Direction, value: np.ndarray, slope: np.ndarray) -> float:
    """sum_t value_t'y_t + slope_t'dy_t."""
    xs, us, dx, du = at
    if slope.ndim == 2:
        residual = term.residual
        rx, ru = residual.jacobians(xs, us)
        dy = np.einsum("tij,tj->ti", rx, dx)
        if ru is not None and du is not None:
            dy = dy + np.einsum("tij,tj->ti", ru, du)
        return float((value * residual.evaluate(xs, us)).sum() + (slope * dy).sum())
    (K, n), m = dx.shape, 0 if du is None else du.shape[1]
    blocks = np.zeros((K, n)), np.zeros((K, m)), np.zeros((K, n, n)), np.zeros((K, m, n)), np.zeros((K, m, m))
    target = Quadratic(*blocks) if du is not None else Quadratic(blocks[0], None, blocks[2], None, None)
    term.accumulate(xs, us, 1.0, target)
    dy = np.einsum("ti,ti->t", target.lx, dx)
    if du is not None and target.lu is not None:
        dy = dy + np.einsum("ti,ti->t", target.lu, du)
    return float(value @ term.value(xs, us) + slope @ dy)
