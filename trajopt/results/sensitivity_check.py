"""Check of derivatives of a solution against problems solved again, parameter by parameter.

Each solution is polished to rounding, and the same limits must be active; where others are, steps become shorter.
Differences are of fourth order, of solutions at p +- h and p +- 2h, or one-sided, at p, p + h, ... p + 4h, where the
active limits change much nearer on the other side; where limits are weakly active each side is compared with its own
derivative.  The differences of `trajopt.sensitivity` itself, of the optimality conditions at the fixed trajectory, are
compared with steps of a fourth: the two differ where a function of p is not smooth within a step, as a clipped number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.validation import as_positive
from trajopt.costs.cost import FOURTH_ORDER, ONE_SIDED
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.derivative_check import ROUNDING, DerivativeReport, compared
from trajopt.problem.problem import Problem
from trajopt.problem.transcription import Transcribed, transcription_of
from trajopt.results.sensitivity import Sensitivity, sensitivity
from trajopt.results.stationary import polished_point, polished_solution, solution_inside

if TYPE_CHECKING:
    from trajopt.results.solution import Solution

SOLVED_STEP = 0.1
"""Largest step of differences of solutions, in units of the steps for the optimality conditions."""
SHORTER, TRIES = 0.25, 6
"""Factor by which steps are shortened where other limits are active, and how often."""
WITHIN = 0.2
"""Fraction of the distance to the next change of active limits that a step may cover; a central difference reaches 2 h,
twice that."""
CENTRAL = 0.1
"""Differences are central unless the step that one side allows is longer by the inverse of this factor."""
SIDES = {1.0: "from above", -1.0: "from below"}
"""Names of the sides of p."""


class _Parts(NamedTuple):
    """A solution, or its derivatives by one parameter: xs (N+1, n), us (N, m), the cost (1,), multipliers (., 1)."""

    xs: np.ndarray
    us: np.ndarray
    cost: np.ndarray
    multipliers: np.ndarray


class _Compared(NamedTuple):
    """Derivatives computed and differences with step h; `side` is "" for central differences."""

    side: str
    got: _Parts
    expected: _Parts
    h: float


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
    make_problem, p, solution, wrt, steps : as for `sensitivity`
    solver : solver of the changed problems, such as `trajopt.DDP()`
    tolerance : largest error allowed, relative to the largest entry of each block

    Returns
    -------
    DerivativeReport, with blocks "us by mass", "us by mass, h/4", ... that `print` shows, and "us by mass, from above"
    where differences were taken on one side.  Blocks that could not be compared, as where other limits are active
    within any usable step, are named by its headline, by `not_compared` and by the notes, and the report is then not
    `ok`.

    Raises
    ------
    TypeError, ValueError : as `sensitivity`, or for a tolerance that is not positive.  Wrong derivatives raise nothing:
        look at `DerivativeReport.ok`.
    """
    as_positive("tolerance", tolerance)
    if not callable(getattr(solver, "solve", None)):
        raise TypeError(f"solver: got {type(solver).__name__}, expected one with a method solve, as trajopt.DDP()")
    sensitivity(make_problem, p, solution, wrt=wrt, steps=steps)  # raises for invalid arguments
    if transcription_of(make_problem(p)) is not None:
        make_problem, solution = Transcribed(make_problem, True), solution_inside(make_problem(p), solution)
    exact = polished_solution(make_problem(p), solution)
    found = sensitivity(make_problem, p, exact, wrt=wrt, steps=steps)
    finer = sensitivity(make_problem, p, exact, wrt=wrt, steps=0.25 * found.steps)
    blocks, notes, left_out = [], [], []
    size = max(float(np.abs(exact.xs).max()), float(np.abs(exact.us).max()), abs(exact.cost))
    for number, label in enumerate(found.labels):
        got = _derivatives(found, number)
        for side, each in _solved_again(found, number, solver):
            if not isinstance(each, _Compared):
                notes.append(f"{label} was not compared with problems solved again{side and ' '}{side}: {each}")
                left_out.append(f"{label} {side}".strip())
                continue
            noise, at = ROUNDING * size / each.h, f"{label}, {side}" if side else label
            pairs = zip(_Parts._fields, each.got, each.expected, strict=True)
            blocks += [compared(f"{name} by {at}", a, b, noise, tolerance) for name, a, b in pairs if a.size]
        other, noise = _derivatives(finer, number), ROUNDING * size / finer.steps[number]
        blocks += [
            compared(f"{name} by {label}, h/4", getattr(got, name), getattr(other, name), noise, tolerance)
            for name in ("us", "cost")
        ]
    if not found.multipliers_unique:
        notes.append("active constraints depend on each other: multipliers were not compared")
        left_out.append("multipliers")
    p_row = found.parameters.vector[None]
    return DerivativeReport("a solution", tolerance, tuple(blocks), tuple(notes), p_row, None, "row", tuple(left_out))


def _derivatives(found: Sensitivity, number: int) -> _Parts:
    """Derivatives by one parameter."""
    parts = [part[..., number].ravel() for part in _ordered(found.point, found.multipliers)]
    whole = np.concatenate([np.zeros(0), *parts])[:, None] if found.multipliers_unique else np.zeros((0, 1))
    return _Parts(found.xs[..., number], found.us[..., number], found.cost[number : number + 1], whole)


def _ordered(point: KKTPoint, multipliers: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Multipliers of rows, then those of limits of controls."""
    pairs = list(zip(point.problem.constraints, multipliers, strict=True))
    rows = [part for one, part in pairs if isinstance(one, ResidualConstraint)]
    return rows + [part for one, part in pairs if not isinstance(one, ResidualConstraint)]


def _solved_again(found: Sensitivity, number: int, solver: Any) -> Iterator[tuple[str, _Compared | str]]:
    """For each side, "" for both: derivatives and differences, or the reason why there are none."""
    if found.weak:
        for sign, side in SIDES.items():
            yield side, _compared(found, number, sign, solver)
        return
    down, up = (WITHIN * float(abs(end)) for end in found.valid[number])
    longer = 1.0 if up >= down else -1.0
    one_sided, least = min(max(up, down) / 2.0, _longest(found, number)), min(up, down, _longest(found, number))
    for sign in (0.0, longer) if least >= CENTRAL * one_sided else (longer, 0.0):
        tried = _compared(found, number, sign, solver)
        if isinstance(tried, _Compared):
            yield tried.side, tried
            return
    yield "", tried


def _longest(found: Sensitivity, number: int) -> float:
    return SOLVED_STEP * float(found.steps[number])


def _compared(found: Sensitivity, number: int, sign: float, solver: Any) -> _Compared | str:
    """Derivatives and differences, central or on one side (sign); or the reason why no step is short enough."""
    formula = tuple((sign * m, sign * w) for m, w in ONE_SIDED) if sign else FOURTH_ORDER
    ends = np.abs(found.valid[number])
    reach = WITHIN * float(ends.min() if not sign else ends[int(sign > 0.0)] / 2.0)
    h, least = min(_longest(found, number), reach), SHORTER**TRIES * _longest(found, number)
    while h >= least:
        try:
            got = _along(found, number, sign) if found.weak else _derivatives(found, number)
            return _Compared(SIDES.get(sign, ""), got, _differences(found, number, h, formula, solver), h)
        except _OtherLimits:
            h *= SHORTER
        except (RuntimeError, ValueError) as error:
            return str(error)
    return "other limits press next to it"


def _along(found: Sensitivity, number: int, sign: float) -> _Parts:
    """Derivatives by one parameter on one side of a solution with weakly active limits."""
    along = found.directional(sign * np.eye(len(found.parameters.vector))[number])
    parts = [sign * part.ravel() for part in _ordered(found.point, along.multipliers)]
    whole = np.concatenate([np.zeros(0), *parts])[:, None] if found.multipliers_unique else np.zeros((0, 1))
    return _Parts(sign * along.xs, sign * along.us, found.cost[number : number + 1], whole)


def _differences(
    found: Sensitivity, number: int, h: float, formula: tuple[tuple[float, float], ...], solver: Any
) -> _Parts:
    """Differences of solutions which all have the same active limits: those of this solution, unless some are weakly
    active."""
    here, p, total = found.point, found.parameters, None
    same = None if found.weak else here.held
    for multiple, weight in formula:
        point = here
        if multiple:
            moved = p.vector.copy()
            moved[number] += multiple * h
            problem = found.make_problem(p.at(moved))
            point = polished_point(problem, solver.solve(problem, warm_start=found.solution))
            same = point.held if same is None else same
            if any((a != b).any() for a, b in zip(point.held, same, strict=True)):
                raise _OtherLimits
        values = _values(here, point, found.multipliers_unique)
        terms = [weight / h * part for part in values]
        total = terms if total is None else [a + b for a, b in zip(total, terms, strict=True)]
    assert total is not None
    return _Parts(*total)


def _values(here: KKTPoint, point: KKTPoint, multipliers: bool) -> _Parts:
    """A solution relative to this one: its states as tangents at this one's, its controls as differences."""
    parts = [] if point.rows is None else [part.ravel() for part in point.rows.unpacked(point.nu * point.rows.D)]
    bounds = len(point.problem.constraints) - (0 if point.rows is None else len(point.rows.constraints))
    parts += bounds * [np.where(point.held.controls != 0, -point.gradient, 0.0).ravel()]
    whole = np.concatenate([np.zeros(0), *parts])[:, None] if multipliers else np.zeros((0, 1))
    cost = np.array([point.problem.objective.value(point.xs, point.us)])
    return _Parts(point.problem.system.difference(here.xs, point.xs), point.us - here.us, cost, whole)
