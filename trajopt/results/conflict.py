"""Rows and limits that stand against each other where constraints are locally infeasible.

A certificate of local infeasibility are weights nu of violated rows r, for which

    g = d/du sum_i nu_i r_i = 0      but for controls u at a limit:   g > 0 at the lower, g < 0 at the upper one.

To go on beyond such a limit would lower the violation: it holds the motion back, and -g is its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from trajopt.backward.expansions import adjoint, expand
from trajopt.interfaces.residual import at_knots
from trajopt.problem.constraints import ControlBounds
from trajopt.problem.transcription import transcription_of
from trajopt.results.lagrangian import gradients_of_rows
from trajopt.results.records import ConstraintReport, SolutionData, Status
from trajopt.results.stationary import solution_inside

PART = 1e-6
"""Least weight of a row, and least gradient that a limit balances, relative to the largest one."""


def conflict(solution: SolutionData) -> tuple[np.ndarray, ...]:
    """Weights (K, nr) of each report's rows at a locally infeasible end, zero for rows without a part in it; empty
    where the solution has no certificate.

    Without its problem a solution has no derivatives: then all limits of controls that are reached count."""
    reports = solution.constraints
    if solution.status != Status.INFEASIBLE or all(report.weights is None for report in reports):
        return ()
    sizes = [np.abs(scaled_weights(report)) for report in reports]
    least = PART * max(float(size.max(initial=0.0)) for size in sizes)
    weights = [
        np.zeros(size.shape) if report.weights is None else np.where(size > least, report.weights, 0.0)
        for size, report in zip(sizes, reports, strict=True)
    ]
    for i, balanced in _balanced(solution, weights).items():
        weights[i] = -balanced
    return tuple(weights)


def scaled_weights(report: ConstraintReport) -> np.ndarray:
    """Weights (K, nr) of the scaled rows that a solver has; zeros where there are none."""
    if report.weights is None:
        return np.zeros(report.values.shape)
    return report.weights if report.factors is None else report.weights / report.factors


def _balanced(solution: SolutionData, weights: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
    """By the number of its report, the gradient (N, nu) of the weighted rows that limits of controls balance: more than
    is left at any control without a limit."""
    boxes = {i: report for i, report in enumerate(solution.constraints) if report.weights is None}
    sides = {i: (box.values <= box.lower, box.values >= box.upper) for i, box in boxes.items()}
    if solution.problem is None:
        return {i: below * 1.0 - above for i, (below, above) in sides.items()}
    gradient, size = _gradient(solution, weights)
    if not boxes or not np.isfinite(gradient).all():
        return {}
    balanced = {
        i: np.where(below & (gradient > 0.0) | above & (gradient < 0.0), gradient, 0.0)
        for i, (below, above) in sides.items()
    }
    left = np.all([part == 0.0 for part in balanced.values()], axis=0)
    least = max(float(np.abs(gradient[left]).max(initial=0.0)), PART * size)
    return {i: np.where(np.abs(part) > least, part, 0.0) for i, part in balanced.items()}


def _gradient(solution: SolutionData, weights: Sequence[np.ndarray]) -> tuple[np.ndarray, float]:
    """Gradient (N, nu) of the weighted rows in the controls, and the size of its terms."""
    reports = [report._replace(multipliers=nu) for report, nu in zip(solution.constraints, weights, strict=True)]
    by = transcription_of(solution.problem)
    inside = solution_inside(solution.problem, replace(solution, constraints=tuple(reports)))
    with np.errstate(all="ignore"):
        lx, lu = gradients_of_rows(inside)
        costate, gradient = adjoint(expand(inside.problem, inside.xs, inside.us)._replace(lx=lx, lu=lu))
    size = max(float(np.abs(part).max(initial=0.0)) for part in (gradient, costate, lu))
    return gradient if by is None else by.gradient_outside(gradient), size


class GivenViolation(NamedTuple):
    """A constraint that the given initial state violates: its name, by how much, and the first knot from which on the
    motion meets it, the number of knots if there is none."""

    name: str
    violation: float
    met_from: int


def violations_of_x0(solution: SolutionData, weights: Sequence[np.ndarray]) -> list[GivenViolation]:
    """Constraints on the state from one of the first two knots on that a given initial state violates, as does the
    motion that begins there; weights as of `conflict`."""
    problem, found = solution.problem, []
    if problem is None or problem.free_initial_state is not None or not weights:
        return found
    us = solution.us[:1]
    for constraint, report, nu in zip(problem.constraints, solution.constraints, weights, strict=True):
        if isinstance(constraint, ControlBounds) or constraint.at == "terminal":
            continue
        if not nu.size or report.knots[0] > 1 or not nu[0].any():
            continue
        residual = at_knots(constraint.residual, report.knots[:1])
        ru = residual.jacobians(problem.x0[None], us)[1]
        r = residual.evaluate(problem.x0[None], us)[0]
        beyond = np.abs(r - np.clip(r, report.lower[0], report.upper[0]))
        given = (nu[0] != 0.0) & (beyond > 0.0) & (True if ru is None else ~ru[0].any(axis=1))
        if given.any():
            met = np.flatnonzero(~nu.any(axis=1))
            first = int(report.knots[met[0]]) if len(met) else len(solution.us) + 1
            found.append(GivenViolation(report.name, float(beyond[given].max()), first))
    return found
