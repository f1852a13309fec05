"""The KKT point of a solution; if the initial state is free, that of the problem solved in place of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trajopt.backward.expansions import gaps_of
from trajopt.interfaces.system import control_names
from trajopt.optimality.active_limits import kkt_point, moved_by, newton_step
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.optimality.kkt_system import Indefinite, KKTSystem
from trajopt.problem.constraints import ControlBounds, ResidualConstraint
from trajopt.problem.problem import Problem
from trajopt.problem.transcription import Transcription, transcription_of
from trajopt.results.records import AnySolution, ConstraintReport, Progress, SolutionData, WarmStart
from trajopt.rows import pack

# --------------------------------------------------------------------------------------------
# Solutions of problems with a free initial state or parameters, converted to and from the transcribed problem.
#
# See `trajopt.problem.transcription`; here are solutions, warm starts and reports of constraints.


def solution_inside(problem: Problem, solution: AnySolution) -> AnySolution:
    """A solution of a problem as one of its transcribed problem; itself if the problem is not transcribed."""
    by = transcription_of(problem)
    if by is None:
        return solution
    _check(by, solution)
    zs, ws = by.inside(solution.xs, solution.us)
    F, K = by.front, _gains_inside(by, solution.K)
    gaps = by.problem.system.difference(zs, zs)
    gaps[F:, : solution.gaps.shape[1]] = solution.gaps
    k = np.zeros(ws.shape)
    k[F:, : len(by.system.map.controls)] = solution.k[:, by.system.map.controls]
    reports = reports_inside(by, solution.constraints)
    return replace(
        solution, problem=by.problem, xs=zs, us=ws, k=k, K=K, gaps=gaps, constraints=reports,
        Vx=_padded(by, solution.Vx), Vxx=_padded(by, solution.Vxx),
    )  # fmt: skip


def _check(by: Transcription, solution: SolutionData) -> None:
    """Raise ValueError for arrays of another problem."""
    problem = by.given
    shapes = (problem.horizon + 1, problem.system.nx), (problem.horizon, problem.system.nu)
    if (solution.xs.shape, solution.us.shape) != shapes or len(solution.constraints) != len(problem.constraints):
        raise ValueError(f"solution: got xs {solution.xs.shape} and us {solution.us.shape} of another problem")


def solution_outside(by: Transcription, solution: AnySolution) -> AnySolution:
    """A solution of the problem itself, from one of its transcribed problem."""
    F, n, m = by.front, by.given.system.ndx, len(by.system.map.controls)
    xs, us = by.outside(solution.xs, solution.us)
    k, K = np.zeros(us.shape), np.zeros((*us.shape, n))
    k[:, by.system.map.controls], K[:, by.system.map.controls] = solution.k[F:, :m], solution.K[F:, :m, :n]
    log = tuple(each._replace(indefinite_knot=by.knot_outside(each.indefinite_knot)) for each in solution.log)
    return replace(
        solution, problem=by.given, xs=xs, us=us, k=k, K=K, log=log, Vx=solution.Vx[F:, :n].copy(),
        Vxx=solution.Vxx[F:, :n, :n].copy(), gaps=solution.gaps[F:, :n].copy(),
        constraints=reports_outside(by, solution.constraints), cause=_text_outside(by, solution.cause),
    )  # fmt: skip


def _padded(by: Transcription, rows: np.ndarray) -> np.ndarray:
    """Rows (N+1, ndx, ...) of the horizon, padded with zeros to the transcribed problem."""
    more = by.system.ndx - rows.shape[1]
    return np.pad(rows, [(by.front, 0), *[(0, more)] * (rows.ndim - 1)])


def _gains_inside(by: Transcription, K: np.ndarray) -> np.ndarray:
    whole = np.zeros((by.system.horizon, by.system.nu, by.system.ndx))
    whole[by.front :, : len(by.system.map.controls), : K.shape[2]] = K[:, by.system.map.controls]
    return whole


def _text_outside(by: Transcription, text: str) -> str:
    """The text with the numbers of the problem's own knots."""
    return re.sub(r"(?<=knot )\d+", lambda found: str(by.knot_outside(int(found[0]))), text)


# ------------------------------------------------------------------------------------------------ constraints
def reports_outside(by: Transcription, reports: Sequence[ConstraintReport]) -> tuple[ConstraintReport, ...]:
    """Reports of the problem's own constraints."""
    if not reports:
        return ()
    pairs = zip(by.given.constraints, reports[: len(by.given.constraints)], strict=True)
    return tuple(
        _bounds_outside(by, one, report) if isinstance(one, ControlBounds)
        else report._replace(knots=report.knots - by.front)
        for one, report in pairs
    )  # fmt: skip


def after_the_start(problem: Problem, reports: Sequence[ConstraintReport]) -> tuple[ConstraintReport, ...]:
    """Reports at the knots at which constraints hold for a given initial state: the first knot is left out of
    constraints on states, for gains about a motion that has begun."""
    if problem.free_initial_state is None:
        return tuple(reports)
    kept = []
    for constraint, report in zip(problem.constraints, reports, strict=True):
        if isinstance(constraint, ControlBounds) or constraint.at == "terminal":
            kept.append(report)
            continue
        rows = np.isin(report.knots, pack(problem, (constraint,)).knots[0])
        arrays = {name: getattr(report, name)[rows] for name in ("knots", "values", "lower", "upper", "multipliers")}
        kept.append(report._replace(**arrays, weights=None))
    return tuple(kept)


def _bounds_outside(by: Transcription, bounds: ControlBounds, report: ConstraintReport) -> ConstraintReport:
    N, system = by.given.horizon, by.given.system
    lower, upper = bounds.limits(N, system.nu)
    values = np.zeros((N, system.nu))
    values[:, by.system.map.controls] = report.values[by.front :, : len(by.system.map.controls)]
    at, which = by.chosen
    for i, parameter in enumerate(by.given.parameters):
        values[:, parameter] = by.given.us_init[0, parameter] + report.values[at[i], which[i]]
    return report._replace(
        knots=np.arange(N), values=values, lower=lower, upper=upper, components=control_names(system),
        multipliers=by.control_rows_outside(report.multipliers, lower, upper), factors=None, weights=None,
        rounding=None,
    )  # fmt: skip


def multipliers_outside(by: Transcription, parts: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Changes (K, nr, P) of the multipliers of the problem's own constraints."""
    shape = by.given.horizon, by.given.system.nu
    pairs = zip(by.given.constraints, parts[: len(by.given.constraints)], strict=True)
    return tuple(
        by.control_rows_outside(part, *one.limits(*shape)) if isinstance(one, ControlBounds) else part
        for one, part in pairs
    )


def reports_inside(by: Transcription, reports: Sequence[ConstraintReport]) -> tuple[ConstraintReport, ...]:
    """Reports of the transcribed problem's constraints."""
    if not reports and by.given.constraints:
        return ()
    given = {constraint.name: constraint for constraint in by.problem.constraints}
    bounds = {name: one for name, one in given.items() if isinstance(one, ControlBounds)}
    found = [
        _bounds_inside(by, bounds.pop(report.name), report) if report.name in bounds
        else report._replace(knots=report.knots + by.front)
        for report in reports
    ]  # fmt: skip
    return (*found, *(_bounds_inside(by, one, None) for one in bounds.values()))


def _bounds_inside(by: Transcription, bounds: ControlBounds, report: ConstraintReport | None) -> ConstraintReport:
    """The report with the multipliers of controls that are no parameters."""
    shape = by.system.horizon, by.system.nu
    lower, upper = bounds.limits(*shape)
    values, lam = np.clip(0.0, lower, upper), np.zeros(shape)
    if report is not None and report.multipliers.shape == (by.given.horizon, by.given.system.nu):
        for rows, own in (values, report.values), (lam, report.multipliers):
            rows[by.front :, : len(by.system.map.controls)] = own[:, by.system.map.controls]
    knots = np.arange(by.system.horizon)
    return ConstraintReport(bounds.name, knots, values, lower, upper, lam, 0.0 if report is None else report.penalty)


# ------------------------------------------------------------------------------------------------ starts
def warm_start_inside(by: Transcription, warm: WarmStart, xs: np.ndarray | None) -> WarmStart:
    """A warm start over the problem's horizon, with the states xs in place of its own if they are given."""
    states = warm.xs if xs is None else xs
    zs, ws = by.inside(states, warm.us)
    return warm._replace(
        us=ws,
        xs=zs,
        constraints=reports_inside(by, warm.constraints),
        costate=None if warm.costate is None else _padded(by, warm.costate),
        K=None if warm.K is None else _gains_inside(by, warm.K),
    )


def warm_start_outside(by: Transcription, warm: WarmStart) -> WarmStart:
    """A warm start of the problem itself."""
    assert warm.xs is not None and warm.costate is not None
    xs, us = by.outside(warm.xs, warm.us)
    costate = warm.costate[by.front :, : by.given.system.ndx]
    return warm._replace(us=us, xs=xs, constraints=reports_outside(by, warm.constraints), costate=costate)


def callback_inside(by: Transcription, callback: Callable[[Progress], Any] | None) -> Callable[[Progress], Any] | None:
    """A callback that receives the problem's own trajectories."""
    if callback is None:
        return None
    return lambda progress: callback(Progress.of(progress.record, *by.outside(progress.xs, progress.us)))


def both(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    """Sentences of both, each once."""
    return tuple(dict.fromkeys((*first, *second)))


# --------------------------------------------------------------------------------------------
# The KKT point of a solution, its factor, and Newton steps from there.

SAME = 1e-9
"""Relative difference of costs, and of states, up to which a solution belongs to a problem."""
VIOLATED, SOFT = 1e-6, 1e-3
"""Constraints are soft if one is violated by more than VIOLATED, and its multiplier is the penalty's up to a relative
difference of SOFT."""
POLISHES = 4
SHORT = 1e-6
"""Largest number of Newton steps, and bound on the last one, relative to the controls: its square is rounding."""


def stationary_point(problem: Problem, solution: SolutionData) -> KKTPoint:
    """The KKT point of a solution of this problem; ValueError where it has not converged, has gaps, violates soft
    constraints, or belongs to another problem."""
    if not solution.converged:
        raise ValueError(f"solution: got the status '{solution.status}', expected a converged one")
    if not solution.consistent:
        raise ValueError(f"solution: got gaps of {solution.largest_gap:.3g}, expected none")
    shapes = (problem.horizon + 1, problem.system.nx), (problem.horizon, problem.system.nu)
    if (solution.xs.shape, solution.us.shape) != shapes or len(solution.constraints) != len(problem.constraints):
        raise ValueError(f"solution: got xs {solution.xs.shape} and us {solution.us.shape} of another problem")
    gap = float(np.abs(gaps_of(problem, solution.xs, solution.us)).max())
    if not gap <= SAME * (1.0 + float(np.abs(solution.xs).max())):
        raise ValueError(f"solution: got states that differ by {gap:.3g} from the dynamics of make_problem(p)")
    cost = problem.objective.value(solution.xs, solution.us)
    if not abs(cost - solution.cost) <= SAME * (1.0 + abs(cost)):
        raise ValueError(f"solution: got the cost {solution.cost:.9g}, which make_problem(p) has as {cost:.9g}")
    if any(map(is_soft, solution.constraints)):
        raise ValueError("solution: got one of soft constraints (soft_penalty), expected constraints that hold")
    return kkt_point(problem, solution.xs, solution.us, solution.constraints, K=solution.K)


def is_soft(report: ConstraintReport) -> bool:
    """True if the penalty alone balances the largest violation: the multipliers of hard rows are larger than that by
    the solve's dual steps."""
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
            "definite), expected one that is; see its certificate()"
        ) from None


def polished_point(problem: Problem, solution: SolutionData, short: float = 0.0) -> KKTPoint:
    """The point of a solution of this problem after Newton steps of its optimality conditions, until one is at most
    `short` relative to the controls; ValueError where there is no strict minimum, or where the steps do not become
    small."""
    point, size = stationary_point(problem, solution), np.inf
    for _ in range(POLISHES):
        before, point = point, polished(point, factored(point), solution.constraints)
        size = float(np.abs(point.us - before.us).max()) / (1.0 + float(np.abs(before.us).max()))
        if size <= short:
            break
    if not size <= SHORT:
        raise ValueError(f"solution: got one from which {POLISHES} Newton steps did not settle, expected a minimum")
    return point


def polished_solution(problem: Problem, solution: AnySolution, short: float = 0.0) -> AnySolution:
    """The solution with trajectory, cost and multipliers of the polished point."""
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
    """The point after one Newton step of the optimality conditions."""
    _, step = newton_step(point, system)
    to = moved_by(point, step, system.of_all_rows(step.dnu)[:, 0])
    nu = np.where((system.held.rows != 0) | (point.weak.rows != 0), to.nu, 0.0)
    return kkt_point(point.problem, to.xs, to.us, reports, nu, system.factor.K)
