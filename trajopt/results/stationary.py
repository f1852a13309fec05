"""The KKT point of a solution, its factor, or why there is none, and Newton's step from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trajopt.backward.expansions import gaps_of
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.optimality.kkt_system import Indefinite, KKTSystem
from trajopt.optimality.points import kkt_point
from trajopt.optimality.pressing import moved_by, newton_step
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.problem import Problem
from trajopt.problem.transcription import transcription_of
from trajopt.results.transcribed import solution_inside, solution_outside

if TYPE_CHECKING:
    from trajopt.results.records import ConstraintReport
    from trajopt.results.solution import Solution

SAME = 1e-9
"""Relative difference of costs, and of states, up to which a solution is that of a problem."""
VIOLATED, SOFT = 1e-6, 1e-3
"""Constraints are soft if one is violated by more, and its multiplier the penalty's but for this part."""
POLISHES = 4
SHORT = 1e-6
"""Newton steps taken at most, and how short the last one is, relative to the controls: its square is rounding."""


def stationary_point(problem: Problem, solution: Solution) -> KKTPoint:
    """That of a solution of this problem; ValueError where it has not converged, has gaps, has soft constraints that
    are violated, or is of another one."""
    if not solution.converged:
        raise ValueError(f"solution: got the status '{solution.status}', wanted a converged one")
    if not solution.consistent:
        raise ValueError(f"solution: got gaps of {solution.largest_gap:.3g}, wanted none")
    shapes = (problem.horizon + 1, problem.system.nx), (problem.horizon, problem.system.nu)
    if (solution.xs.shape, solution.us.shape) != shapes or len(solution.constraints) != len(problem.constraints):
        raise ValueError(f"solution: got xs {solution.xs.shape} and us {solution.us.shape} of another problem")
    gap = float(np.abs(gaps_of(problem, solution.xs, solution.us)).max())
    if not gap <= SAME * (1.0 + float(np.abs(solution.xs).max())):
        raise ValueError(f"solution: got states that differ by {gap:.3g} from the dynamics of make_problem(p)")
    cost = problem.objective.value(solution.xs, solution.us)
    if not abs(cost - solution.cost) <= SAME * (1.0 + abs(cost)):
        raise ValueError(f"solution: got the cost {solution.cost:.9g}, which make_problem(p) has as {cost:.9g}")
    if any(map(_is_soft, solution.constraints)):
        raise ValueError("solution: got one of soft constraints (soft_penalty), wanted constraints that hold")
    return kkt_point(problem, solution.xs, solution.us, solution.constraints, K=solution.K)


def _is_soft(report: ConstraintReport) -> bool:
    """Whether the penalty alone holds what is violated most: multipliers that hold a row are found by steps that leave
    no such part of them to the violation."""
    if report.factors is None or not report.values.size:
        return False
    v = report.values - np.clip(report.values, report.lower, report.upper)
    worst = np.unravel_index(np.argmax(np.abs(v)), v.shape)
    by_penalty, multiplier = (report.penalty * v * report.factors**2)[worst], report.multipliers[worst]
    return bool(np.abs(v[worst]) > VIOLATED and abs(by_penalty - multiplier) <= SOFT * abs(multiplier))


def factored(point: KKTPoint) -> KKTSystem:
    """The factored system of a point; ValueError where it is no strict minimum."""
    try:
        return KKTSystem(point)
    except Indefinite as error:
        raise ValueError(
            f"solution: got one that is no strict minimum of second order (Quu at knot {error.knot} is not positive "
            "definite), wanted one that is; see its certificate()"
        ) from None


def polished_point(problem: Problem, solution: Solution, short: float = 0.0) -> KKTPoint:
    """The point of a solution of this problem after Newton steps of its optimality conditions, until one is as short as
    this relative to the controls; ValueError where there is no strict minimum, or where they do not get shorter."""
    point, size = stationary_point(problem, solution), np.inf
    for _ in range(POLISHES):
        before, point = point, polished(point, factored(point), solution.constraints)
        size = float(np.abs(point.us - before.us).max()) / (1.0 + float(np.abs(before.us).max()))
        if size <= short:
            break
    if not size <= SHORT:
        raise ValueError(f"solution: got one from which {POLISHES} Newton steps did not settle, wanted a minimum")
    return point


def polished_solution(problem: Problem, solution: Solution, short: float = 0.0) -> Solution:
    """The solution with trajectory, cost and multipliers of that point."""
    by = transcription_of(problem)
    if by is not None:
        return solution_outside(by, polished_solution(by.problem, solution_inside(problem, solution), short))
    point = polished_point(problem, solution, short)
    parts = iter(() if point.rows is None else point.rows.unpacked(point.nu * point.rows.D))
    pairs = zip(problem.constraints, solution.constraints, strict=True)
    reports = [r._replace(multipliers=next(parts)) if isinstance(c, ResidualConstraint) else r for c, r in pairs]
    cost, gaps = problem.objective.value(point.xs, point.us), gaps_of(problem, point.xs, point.us)
    return replace(solution, xs=point.xs, us=point.us, cost=cost, gaps=gaps, constraints=tuple(reports))


def polished(point: KKTPoint, system: KKTSystem, reports: Sequence[ConstraintReport]) -> KKTPoint:
    """A Newton step of the optimality conditions further."""
    _, step = newton_step(point, system)
    to = moved_by(point, step, system.of_all_rows(step.dnu)[:, 0])
    nu = np.where((system.held.rows != 0) | (point.weak.rows != 0), to.nu, 0.0)
    return kkt_point(point.problem, to.xs, to.us, reports, nu, system.factor.K)
