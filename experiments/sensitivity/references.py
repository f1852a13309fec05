"""Derivatives of solutions by differences of fourth order of problems solved again, each polished to rounding."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import trajopt
from experiments.sensitivity.cases import Case
from trajopt.optimality.first_order import FOURTH_ORDER, default_steps
from trajopt.results.stationary import polished_point, polished_solution

__all__ = ["Reference", "polished_point", "polished_solution", "reference"]


class Reference(NamedTuple):
    """d xs (N+1, ndx), d us (N, nu), d J and d of the rows' multipliers (R,) by one parameter."""

    xs: np.ndarray
    us: np.ndarray
    cost: float
    nu: np.ndarray


def reference(case: Case, solution: trajopt.Solution, parameters: Any, number: int) -> Reference:
    """By number `number` of the parameters, about a polished solution."""
    h = case.factor * default_steps(parameters)[number]
    xs, us, cost, nu = 0.0, 0.0, 0.0, 0.0
    for multiple, weight in FOURTH_ORDER:
        moved = parameters.vector.copy()
        moved[number] += multiple * h
        problem = case.make(parameters.at(moved))
        found = trajopt.DDP().solve(problem, warm_start=solution)
        point = polished_point(problem, found)
        w = weight / h
        scaled = point.nu if point.rows is None else point.nu * point.rows.D
        xs = xs + w * problem.system.difference(solution.xs, point.xs)
        us, nu = us + w * point.us, nu + w * scaled
        cost = cost + w * problem.objective.value(point.xs, point.us)
    return Reference(np.asarray(xs), np.asarray(us), float(cost), np.asarray(nu))
