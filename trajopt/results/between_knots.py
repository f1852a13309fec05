"""Constraints between knots: what a plan breaks on the way from one knot to the next, and keeps at both.

A solve knows a constraint lower <= r(x, u) <= upper at knots alone.  On the step from knot t to t + 1 the motion is
that of `Solution.resample`, x_t(s) after the part s of the step with the control held, and the violation there is

    v(s) = max(lower(s) - r(x_t(s), u_t), r(x_t(s), u_t) - upper(s), 0)

with limits that go linearly from those of one knot to those of the next.  It is measured at equal parts of the steps at
both ends of which the constraint holds, in the unit of r.

Whether it is worth a word depends on how much of r that is.  To first order, motions rho of the states and controls
make sum_i |dr/dx_i| rho_i + sum_j |dr/du_j| rho_j of a number of r.  A violation is compared with that of the largest
motion of a step, since steps that are short beside the curvature of a limit break it by a small part of what they move,
and with that of the whole plan, since what is small beside it is small however few steps see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from trajopt.capabilities import Steps, capability
from trajopt.costs.accelerations import AccelerationResidual
from trajopt.costs.cost_of_residual import evaluated
from trajopt.interfaces.residual import at_knots
from trajopt.interfaces.system import knot_durations
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.extended_system import innermost
from trajopt.results.advice import SMALL_VIOLATION, called
from trajopt.results.dense_output import dense_output, finer
from trajopt.results.policy import planned_problem
from trajopt.results.records import ConstraintReport, SolutionData

TIMES, OF_STEP, OF_PLAN = 10.0, 0.05, 1e-3
"""What is spoken of is so many times what is violated at knots, and more than these parts of what the motion of a step
and that of the plan make of the row."""
SAID = 3
"""Constraints that are spoken of, at most."""


class BetweenKnots(NamedTuple):
    """How far one constraint is broken between knots.

    Attributes
    ----------
    name : str
        That of the constraint.
    violation : float
        Largest distance of r from its limits between knots, in the unit of r; 0 if there is none.
    at_knots : float
        The largest one at the knots at which these steps begin and end.
    knot, time : int, float
        The knot before the largest violation, and when it is, s from the start; -1 and NaN if there is none.
    component, component_name : int, str
        Which number of r it is, and its name if the residual has one.
    of_step, of_plan : float
        The violation as a part of what the largest motion of a step, and that of the whole plan, make of this number of
        r, to first order; see the head of `trajopt.results.between_knots`.
    """

    name: str
    violation: float
    at_knots: float
    knot: int
    time: float
    component: int
    component_name: str
    of_step: float
    of_plan: float

    @property
    def notable(self) -> bool:
        """Whether it is more than knots tell and rounding explains, and a part of the motion that can be seen."""
        beyond = self.violation > TIMES * max(self.at_knots, SMALL_VIOLATION)
        return beyond and self.of_step > OF_STEP and self.of_plan > OF_PLAN

    def in_words(self) -> str:
        """'wall' by 0.0084 (component 3 at 5.05 s, between knots 50 and 51; at knots by 0)"""
        if self.violation == 0.0:
            return f"'{self.name}' by 0"
        what = called((self.component_name,) if self.component_name else (), 0, "component")
        what = what if self.component_name else f"component {self.component}"
        return (
            f"'{self.name}' by {self.violation:.2g} ({what} at {self.time:.4g} s, between knots {self.knot} and "
            f"{self.knot + 1}; at knots by {self.at_knots:.1g})"
        )


@dataclass(frozen=True, eq=False)
class ViolationBetweenKnots:
    """How far the constraints of a plan are broken between its knots; made by `Solution.violation_between_knots`.

    Attributes
    ----------
    constraints : tuple of BetweenKnots
        One for each constraint that holds at both ends of a step, in the problem's order.  Limits of controls are not
        among them: controls are held between knots.
    left_out : tuple of str
        Constraints that mean nothing between knots: means over whole steps (accelerations, jerks), and what reads
        numbers that the state remembers of the knot before (rates of controls).
    """

    constraints: tuple[BetweenKnots, ...]
    left_out: tuple[str, ...]

    @property
    def violation(self) -> float:
        """The largest one; each has the unit of its own constraint."""
        return max((each.violation for each in self.constraints), default=0.0)

    @property
    def notable(self) -> tuple[BetweenKnots, ...]:
        """Those that `Solution.explain` speaks of, the largest part of its motion first."""
        found = [each for each in self.constraints if each.notable]
        return tuple(sorted(found, key=lambda each: -each.of_plan))

    def __repr__(self) -> str:
        parts = [each.in_words() for each in self.constraints[:SAID]]
        parts += [f"and {len(self.constraints) - SAID} more"] * (len(self.constraints) > SAID)
        parts += [f"left out: {', '.join(map(repr, self.left_out[:SAID]))}"] * bool(self.left_out)
        return f"ViolationBetweenKnots({self.violation:.2g}: {', '.join(parts) or 'no constraint holds between knots'})"


def violation_between_knots(solution: SolutionData) -> ViolationBetweenKnots:
    """How far the constraints of a plan are broken between its knots.

    Raises
    ------
    TypeError
        If the system has no finer steps, being a discrete map.
    ValueError
        For a solution without its problem or a trajectory; where the motion between knots is not finite.
    """
    problem = planned_problem(solution)
    if capability(problem.system, Steps).refined is None:
        finer(problem.system, 1)  # which says why
    pairs = zip(problem.constraints, solution.constraints, strict=True)
    rows = [(constraint, report) for constraint, report in pairs if isinstance(constraint, ResidualConstraint)]
    if not rows:
        return ViolationBetweenKnots((), ())
    motion = dense_output(problem.system, solution.xs, solution.us).all_states()
    measured, left_out = [], []
    for constraint, report in rows:
        steps, of_states = _steps(solution, constraint, report)
        if not len(steps):
            continue
        first = at_knots(constraint.residual, steps[:1])
        if _of_whole_steps(first) or _remembers(solution, first, steps[0]):
            left_out.append(report.name)
        else:
            measured.append(_measured(solution, constraint, report, motion, steps, of_states))
    return ViolationBetweenKnots(tuple(measured), tuple(left_out))


def _jacobians(residual: Any, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    with np.errstate(all="ignore"):
        return residual.jacobians(xs, us)


def _steps(solution: SolutionData, constraint: ResidualConstraint, report: ConstraintReport) -> tuple[np.ndarray, bool]:
    """The steps that take time and at both ends of which a constraint holds, the last end of all being enough for one
    that reads controls; and whether it reads states alone."""
    N = len(solution.us)
    first = at_knots(constraint.residual, np.zeros(1, dtype=np.intp))
    of_states = constraint.at == "terminal" or _jacobians(first, solution.xs[:1], solution.us[:1])[1] is None
    holds = np.zeros(N + 1, dtype=bool)
    holds[constraint.knots(N, state_only=False) if of_states else report.knots] = True
    if not of_states:
        holds[N] = True
    lasting = knot_durations(solution.problem.system, N, solution.xs) > 0.0
    return np.flatnonzero(holds[:-1] & holds[1:] & lasting), of_states


def _of_whole_steps(residual: Any) -> bool:
    """Whether it is a mean over a step."""
    while residual is not None:
        if isinstance(residual, AccelerationResidual):
            return True
        residual = getattr(residual, "residual", None)
    return False


def _remembers(solution: SolutionData, residual: Any, t: int) -> bool:
    """Whether it reads what states remember of the knot before."""
    rx = _jacobians(residual, solution.xs[t : t + 1], solution.us[t : t + 1])[0]
    return bool(rx[..., innermost(solution.problem.system).ndx :].any())


def _outside(r: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Distance from the limits; infinite where r is NaN."""
    with np.errstate(invalid="ignore"):
        found = np.maximum(np.maximum(lower - r, r - upper), 0.0)
    return np.where(np.isnan(r), np.inf, found)


def _limits(report: ConstraintReport, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """lower and upper (N+1, nr) at all knots: those of the next at the first, where states are given, and those of the
    one before at the last, where there are no controls, if they hold nowhere there."""
    found = []
    for side, free in ((report.lower, -np.inf), (report.upper, np.inf)):
        rows = np.full((horizon + 1, side.shape[1]), free)
        rows[report.knots] = side
        if 0 not in report.knots:
            rows[0] = rows[1]
        if horizon not in report.knots:
            rows[horizon] = rows[horizon - 1]
        found.append(rows)
    return found[0], found[1]


def _between(ends: np.ndarray, steps: np.ndarray, s: float) -> np.ndarray:
    """Limits after the part s of the steps; none where one of the ends has none."""
    first, last = ends[steps], ends[steps + 1]
    without = ~np.isfinite(first) | ~np.isfinite(last)
    with np.errstate(invalid="ignore"):
        return np.where(without, np.where(np.isfinite(first), last, first), (1.0 - s) * first + s * last)


def _measured(
    solution: SolutionData,
    constraint: ResidualConstraint,
    report: ConstraintReport,
    motion: np.ndarray,
    steps: np.ndarray,
    of_states: bool,
) -> BetweenKnots:
    """The largest violation of a constraint inside these steps of the motion (N, k+1, nx)."""
    k, us = motion.shape[1] - 1, None if of_states else solution.us[steps]
    lower, upper = _limits(report, len(solution.us))

    ends = [at_knots(constraint.residual, knots) for knots in (steps, steps + 1)]
    moving = ends[0] is not constraint.residual

    def values(j: int) -> np.ndarray:
        xs = np.ascontiguousarray(motion[steps, j])
        with np.errstate(all="ignore"):
            found = evaluated(ends[0], constraint.nr, xs, us)
            if moving:  # between the values at the targets of both ends
                found = (1.0 - j / k) * found + j / k * evaluated(ends[1], constraint.nr, xs, us)
            return found

    found = np.stack(
        [_outside(values(j), _between(lower, steps, j / k), _between(upper, steps, j / k)) for j in range(1, k)]
    )
    if steps[0] == 0 and of_states:  # a given state may break what holds from knot 1 on
        found[:, 0, _outside(values(0)[0], lower[0], upper[0]) > SMALL_VIOLATION] = 0.0
    near = np.isin(report.knots, np.concatenate([steps, steps + 1]))
    held = float(report.violations[near].max(initial=0.0))
    j, row, i = (int(index) for index in np.unravel_index(np.argmax(found), found.shape))
    violation = float(found[j, row, i])
    if violation == 0.0:
        return BetweenKnots(report.name, 0.0, held, -1, float("nan"), 0, "", 0.0, 0.0)
    t, s = int(steps[row]), (j + 1) / k
    duration = knot_durations(solution.problem.system, len(solution.us), solution.xs)[t]
    name = report.components[i] if report.components else ""
    there = at_knots(constraint.residual, np.array([t]))
    sizes = _sizes(solution, there, i, motion[t, [0, j + 1, k]], solution.us[[t, t, t]])
    of_step, of_plan = (violation / size if size > 0.0 else float("inf") for size in sizes)
    time = float(solution.times[t] + s * duration)
    return BetweenKnots(report.name, violation, held, t, time, i, name, of_step, of_plan)


def _sizes(solution: SolutionData, residual: Any, i: int, xs: np.ndarray, us: np.ndarray) -> tuple[float, float]:
    """What the largest motion of a step and that of the plan make of number i of a residual, at the one of these points
    where that is most."""
    system, xs_plan, us_plan = solution.problem.system, solution.xs, solution.us
    moved = system.difference(np.tile(xs_plan[0], (len(xs_plan), 1)), xs_plan)
    of_states = np.abs(system.difference(xs_plan[:-1], xs_plan[1:])).max(axis=0), np.ptp(moved, axis=0)
    of_controls = np.abs(np.diff(us_plan, axis=0)).max(axis=0, initial=0.0), np.ptp(us_plan, axis=0)
    rx, ru = _jacobians(residual, np.ascontiguousarray(xs), us)
    sizes = []
    for dx, du in zip(of_states, of_controls, strict=True):
        size = np.abs(rx[:, i]) @ dx + (0.0 if ru is None else np.abs(ru[:, i]) @ du)
        sizes.append(float(np.nan_to_num(size, nan=0.0).max()))
    return sizes[0], sizes[1]


# ------------------------------------------------------------------------------------------------ in words
def notable_violation(solution: SolutionData) -> tuple[BetweenKnots, ...]:
    """What is broken between knots by so much that it is worth a word; nothing where that cannot be told."""
    problem = solution.problem
    if problem is None or not np.isfinite(solution.cost) or not solution.consistent:
        return ()
    if not problem.residual_constraints or capability(problem.system, Steps).refined is None:
        return ()
    try:
        return violation_between_knots(solution).notable
    except ValueError:  # not finite there
        return ()


def in_words(found: tuple[BetweenKnots, ...]) -> Iterator[str]:
    """What is broken, and what would help."""
    if found:
        broken = ", ".join(each.in_words() for each in found[:SAID])
        more = f" and {len(found) - SAID} more" if len(found) > SAID else ""
        yield (
            f"Between knots constraints are broken: {broken}{more}. A solve sees knots alone: shorter steps, or a "
            "margin on the limits, let less through."
        )


def in_short(found: tuple[BetweenKnots, ...]) -> Iterator[str]:
    """The same for a footnote."""
    for each in found[:1]:
        yield f"'{each.name}' broken by {each.violation:.2g} between knots {each.knot} and {each.knot + 1}"
