"""Derivatives of solutions by differences of fourth order of problems solved again, each polished to rounding."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import trajopt
from experiments.sensitivity.cases import Case
from trajopt.optimality.first_order import FOURTH_ORDER, Parameters, default_steps
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.problem.constraints import ResidualConstraint
from trajopt.results.stationary import polished_point, polished_solution, stationary_point

__all__ = ["Reference", "polished_point", "polished_solution", "reference"]


class Reference(NamedTuple):
    """By one parameter: d xs (N+1, ndx), d us (N, nu), d J, d of the multipliers of rows (R,) and of limits of
    controls (N, nu)."""

    xs: np.ndarray
    us: np.ndarray
    cost: float
    nu: np.ndarray
    bounds: np.ndarray

    @property
    def multipliers(self) -> np.ndarray:
        """Both, as one vector."""
        return np.concatenate([self.nu, self.bounds.ravel()])


def derivatives(found: trajopt.Sensitivity, number: int) -> Reference:
    """Those that were found, in the same form."""
    point, rows, bounds = found.point, [], np.zeros(found.us.shape[:2])
    for part, one in zip(found.multipliers, point.problem.constraints, strict=True):
        if isinstance(one, ResidualConstraint):
            rows.append(part[..., number])
        else:
            bounds = part[..., number]
    nu = np.zeros(0) if point.rows is None else point.rows.packed("multipliers", rows)
    return Reference(found.xs[..., number], found.us[..., number], float(found.cost[number]), nu, bounds)


def reference(case: Case, solution: trajopt.Solution, parameters: Parameters, number: int) -> Reference:
    """By number `number` of the parameters, about a polished solution."""
    return _differences(case, solution, parameters, number, FOURTH_ORDER, polished_point)


def central(
    case: Case, solution: trajopt.Solution, parameters: Parameters, number: int, step: float = 1.0
) -> Reference:
    """What two solves give, as the solver leaves them; step: in units of that of the reference."""
    wider = case._replace(factor=step * case.factor)
    return _differences(wider, solution, parameters, number, ((1.0, 0.5), (-1.0, -0.5)), stationary_point)


def _differences(
    case: Case,
    solution: trajopt.Solution,
    parameters: Parameters,
    number: int,
    stencil: Sequence[tuple[float, float]],
    point_of: Callable[[trajopt.Problem, trajopt.Solution], KKTPoint],
) -> Reference:
    h = case.factor * default_steps(parameters)[number]
    total: list[Any] = [0.0] * len(Reference._fields)
    for multiple, weight in stencil:
        moved = parameters.vector.copy()
        moved[number] += multiple * h
        problem = case.make(parameters.at(moved))
        point = point_of(problem, trajopt.DDP().solve(problem, warm_start=solution))
        values = (
            problem.system.difference(solution.xs, point.xs),
            point.us,
            problem.objective.value(point.xs, point.us),
            point.nu if point.rows is None else point.nu * point.rows.D,
            np.where(point.held.controls != 0, -point.gradient, 0.0),
        )
        total = [a + weight / h * b for a, b in zip(total, values, strict=True)]
    return Reference(*total)
