"""Are derivatives of a solution right?  A comparison with problems solved again, parameter by parameter.

Each of these is polished to rounding, and the same limits have to press; steps become shorter where others do.
Differences are of fourth order, of solutions at p +- h and p +- 2h.  What `trajopt.sensitivity` differences itself, the
optimality conditions at the fixed trajectory, is compared with steps of a fourth: where a function of p has a kink
within a step, as a clipped number, the two differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trajopt.optimality.first_order import FOURTH_ORDER
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.derivative_check import ROUNDING, DerivativeReport, compared
from trajopt.problem.problem import Problem
from trajopt.results.sensitivity import Sensitivity, sensitivity
from trajopt.results.stationary import polished_point, polished_solution

if TYPE_CHECKING:
    from trajopt.results.solution import Solution

SOLVED_STEP = 0.1
"""Of differences of solutions, in units of those of the optimality conditions."""
SHORTER, TRIES = 0.25, 6
"""Where other limits press."""
WITHIN = 0.2
"""Part of the way to another limit that a step may go."""


class _Parts(NamedTuple):
    """Of a solution, or derivatives by one parameter: xs (N+1, n), us (N, m), the cost (1,), multipliers (., 1)."""

    xs: np.ndarray
    us: np.ndarray
    cost: np.ndarray
    multipliers: np.ndarray


class _OtherLimits(Exception):
    pass


def check_sensitivity(
    make_problem: Callable[[Any], Problem],
    p: Any,
    solution: Solution,
    solver: Any,
    *,
    wrt: Sequence[str] | None = None,
    steps: float | ArrayLike | None = None,
    tolerance: float = 1e-6,
) -> DerivativeReport:
    """Compare `sensitivity` with differences of solutions, and with itself in steps of a fourth.

    Parameters
    ----------
    make_problem, p, solution, wrt, steps : as of `sensitivity`
    solver : what solves problems again, as `trajopt.DDP()`
    tolerance : largest error allowed, relative to the largest entry of each block

    Returns
    -------
    DerivativeReport, with blocks "us by mass", "us by mass, h/4", ... that `print` shows; its notes say what could not
    be compared, as where a number lies at the end of the range in which the same limits press.

    Raises
    ------
    TypeError, ValueError : as `sensitivity`, or for a tolerance that is not positive.  Wrong derivatives raise nothing:
        look at `DerivativeReport.ok`.
    """
    if not (np.isfinite(tolerance) and tolerance > 0.0):
        raise ValueError(f"tolerance: got {tolerance}, wanted a positive number")
    if not callable(getattr(solver, "solve", None)):
        raise TypeError(f"solver: got {type(solver).__name__}, wanted one with a method solve, as trajopt.DDP()")
    sensitivity(make_problem, p, solution, wrt=wrt, steps=steps)  # refuses what is wrong
    exact = polished_solution(make_problem(p), solution)
    found = sensitivity(make_problem, p, exact, wrt=wrt, steps=steps)
    finer = sensitivity(make_problem, p, exact, wrt=wrt, steps=0.25 * found.steps)
    blocks, notes = [], []
    size = max(float(np.abs(exact.xs).max()), float(np.abs(exact.us).max()), abs(exact.cost))
    for number, label in enumerate(found.labels):
        got = _derivatives(found, number)
        try:
            expected, h = _solved_again(found, number, solver)
        except (_OtherLimits, ValueError) as error:
            notes.append(f"{label} was not compared with problems solved again: {error}")
        else:
            noise = ROUNDING * size / h
            pairs = zip(_Parts._fields, got, expected, strict=True)
            blocks += [compared(f"{name} by {label}", a, b, noise, tolerance) for name, a, b in pairs if a.size]
        other, noise = _derivatives(finer, number), ROUNDING * size / finer.steps[number]
        blocks += [
            compared(f"{name} by {label}, h/4", getattr(got, name), getattr(other, name), noise, tolerance)
            for name in ("us", "cost")
        ]
    if not found.multipliers_unique:
        notes.append("active constraints depend on each other: multipliers were not compared")
    p_row = found.parameters.vector[None]
    return DerivativeReport("a solution", tolerance, tuple(blocks), tuple(notes), p_row, None, "row")


def _derivatives(found: Sensitivity, number: int) -> _Parts:
    """Those by one parameter."""
    parts = [part[..., number].ravel() for part in _ordered(found.point, found.multipliers)]
    whole = np.concatenate([np.zeros(0), *parts])[:, None] if found.multipliers_unique else np.zeros((0, 1))
    return _Parts(found.xs[..., number], found.us[..., number], found.cost[number : number + 1], whole)


def _ordered(point: KKTPoint, multipliers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Those of rows, then those of limits of controls."""
    pairs = list(zip(point.problem.constraints, multipliers, strict=True))
    rows = [part for one, part in pairs if isinstance(one, ResidualConstraint)]
    return rows + [part for one, part in pairs if not isinstance(one, ResidualConstraint)]


def _solved_again(found: Sensitivity, number: int, solver: Any) -> tuple[_Parts, float]:
    """Differences of solutions, and the step h; _OtherLimits where none is short enough."""
    if found.weak:
        raise _OtherLimits("the solution touches a limit without pressing")
    reach = WITHIN * float(np.abs(found.valid[number]).min())
    h = min(SOLVED_STEP * float(found.steps[number]), reach) if reach > 0.0 else 0.0
    least = SHORTER**TRIES * SOLVED_STEP * float(found.steps[number])
    while h >= least:
        try:
            return _differences(found, number, h, solver), h
        except _OtherLimits:
            h *= SHORTER
    raise _OtherLimits("other limits press next to it")


def _differences(found: Sensitivity, number: int, h: float, solver: Any) -> _Parts:
    here, p, total = found.point, found.parameters, None
    for multiple, weight in FOURTH_ORDER:
        moved = p.vector.copy()
        moved[number] += multiple * h
        problem = found.make_problem(p.at(moved))
        point = polished_point(problem, solver.solve(problem, warm_start=found.solution))
        if any((a != b).any() for a, b in zip(point.held, here.held, strict=True)):
            raise _OtherLimits
        values = _values(here, point, found.multipliers_unique)
        terms = [weight / h * part for part in values]
        total = terms if total is None else [a + b for a, b in zip(total, terms, strict=True)]
    assert total is not None
    return _Parts(*total)


def _values(here: KKTPoint, point: KKTPoint, multipliers: bool) -> _Parts:
    """A solution, its states as tangents at those of the one here."""
    parts = [] if point.rows is None else [part.ravel() for part in point.rows.unpacked(point.nu * point.rows.D)]
    bounds = len(point.problem.constraints) - (0 if point.rows is None else len(point.rows.constraints))
    parts += bounds * [np.where(point.held.controls != 0, -point.gradient, 0.0).ravel()]
    whole = np.concatenate([np.zeros(0), *parts])[:, None] if multipliers else np.zeros((0, 1))
    cost = np.array([point.problem.objective.value(point.xs, point.us)])
    return _Parts(point.problem.system.difference(here.xs, point.xs), point.us, cost, whole)
