"""Constraints between knots: violations of a plan during the steps whose end points satisfy them.

A solve imposes a constraint lower <= r(x, u) <= upper at knots alone.  On the step from knot t to t + 1 the motion is
that of `Solution.resample`, x_t(s) after the fraction s of the step with the control held, and the violation there is

    v(s) = max(lower(s) - r(x_t(s), u_t), r(x_t(s), u_t) - upper(s), 0)

with limits interpolated linearly between the knots.  It is measured at equal fractions of the steps at both ends of
which the constraint holds, in the unit of r.

A violation is reported if it is large in relation to r.  To first order, motions rho of the states and controls change
an entry of r by sum_i |dr/dx_i| rho_i + sum_j |dr/du_j| rho_j.  A violation is compared with this change for the
largest motion of a step, since steps that are short beside the radius of curvature of a limit violate it by a small
fraction of their length, and for the motion of the whole plan, beside which a small violation is small however few
steps there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dynamics.printed import printable
from trajopt.capabilities import Steps, capability
from trajopt.costs.cost_of_residual import evaluated
from trajopt.costs.residuals import AccelerationResidual
from trajopt.interfaces.residual import at_knots
from trajopt.interfaces.system import knot_durations
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.extended_system import innermost
from trajopt.results.advice import SMALL_VIOLATION, called
from trajopt.results.dense_output import dense_output, finer
from trajopt.results.policy import planned_problem
from trajopt.results.records import ConstraintReport, SolutionData

TIMES, OF_STEP, OF_PLAN = 10.0, 0.05, 1e-3
"""A violation is reported if it exceeds TIMES the one at knots, and these fractions of the changes of the row by the
largest motion of a step and by the motion of the plan."""
SAID = 3
"""Largest number of constraints that are reported."""


class BetweenKnots(NamedTuple):
    """Violation of one constraint between knots.

    Attributes
    ----------
    name : str
        Name of the constraint.
    violation : float
        Largest distance of r from its limits between knots, in the unit of r; 0 if there is none.
    at_knots : float
        Largest violation at the knots at which these steps begin and end.
    knot, time : int, float
        The knot before the largest violation, and its time, s from the start; -1 and NaN if there is none.
    component, component_name : int, str
        Index of the entry of r, and its name if the residual has one.
    of_step, of_plan : float
        Ratios of the violation to the changes of this entry of r by the largest motion of a step and by that of the
        whole plan, to first order; see the docstring of `trajopt.results.between_knots`.
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
        """True if the violation is larger than that at knots and rounding, and a visible fraction of the motion."""
        beyond = self.violation > TIMES * max(self.at_knots, SMALL_VIOLATION)
        return beyond and self.of_step > OF_STEP and self.of_plan > OF_PLAN

    def in_words(self) -> str:
        """For example 'wall' by 0.0084 (component 3 at 5.05 s, between knots 50 and 51; at knots by 0)"""
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
    """Violations of a plan's constraints between its knots; made by `Solution.violation_between_knots`.

    Attributes
    ----------
    constraints : tuple of BetweenKnots
        One for each constraint that holds at both ends of a step, in the problem's order.  Limits of controls are not
        among them: controls are held between knots.
    left_out : tuple of str
        Constraints without a meaning between knots: means over whole steps (accelerations, jerks), and those that read
        quantities which the state remembers of the knot before (rates of controls).
    """

    constraints: tuple[BetweenKnots, ...]
    left_out: tuple[str, ...]

    @property
    def violation(self) -> float:
        """Largest violation of all constraints; each has its own unit."""
        return max((each.violation for each in self.constraints), default=0.0)

    @property
    def notable(self) -> tuple[BetweenKnots, ...]:
        """The violations that `Solution.explain` reports, the largest fraction of its motion first."""
        found = [each for each in self.constraints if each.notable]
        return tuple(sorted(found, key=lambda each: -each.of_plan))

    def __repr__(self) -> str:
        parts = [each.in_words() for each in self.constraints[:SAID]]
        parts += [f"and {len(self.constraints) - SAID} more"] * (len(self.constraints) > SAID)
        parts += [f"left out: {', '.join(map(repr, self.left_out[:SAID]))}"] * bool(self.left_out)
        words = printable(", ".join(parts)) or "no constraint holds between knots"
        return f"ViolationBetweenKnots({self.violation:.2g}: {words})"


def violation_between_knots(solution: SolutionData) -> ViolationBetweenKnots:
    """Measure the violations of a plan's constraints between its knots.

    Raises
    ------
    TypeError
        If the system has no finer steps, being a discrete map.
    ValueError
        For a solution without its problem or a trajectory; where the motion between knots is not finite.
    """
    problem = planned_problem(solution)
    if capability(problem.system, Steps).refined is None:
        finer(problem.system, 1)  # which raises with the reason
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
    """The steps that take time and at both ends of which a constraint holds (at the last step of all, for a constraint
    that reads controls, the beginning is enough); and True if it reads states alone."""
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
    """True if the residual is a mean over a step."""
    while residual is not None:
        if isinstance(residual, AccelerationResidual):
            return True
        residual = getattr(residual, "residual", None)
    return False


def _remembers(solution: SolutionData, residual: Any, t: int) -> bool:
    """True if the residual reads what states remember of the knot before."""
    rx = _jacobians(residual, solution.xs[t : t + 1], solution.us[t : t + 1])[0]
    return bool(rx[..., innermost(solution.problem.system).ndx :].any())


def _outside(r: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Distance from the limits; infinite where r is NaN."""
    with np.errstate(invalid="ignore"):
        found = np.maximum(np.maximum(lower - r, r - upper), 0.0)
    return np.where(np.isnan(r), np.inf, found)


def _limits(report: ConstraintReport, horizon: int) -> tuple[np.ndarray, np.ndarray]:
    """Limits lower and upper (N+1, nr) at all knots.  Where the constraint does not hold there, the first knot, whose
    state is given, has those of the next, and the last knot, which has no controls, those of the one before."""
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
    """Limits after the fraction s of the steps; infinite where one of the ends has none."""
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
    """Largest violation of a constraint inside these steps of the motion (N, k+1, nx)."""
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
    """Changes of entry i of a residual by the largest motion of a step and by that of the plan, each at the one of
    these points where it is largest."""
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
    """The violations between knots that are large enough to be reported; none where they cannot be computed."""
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
    """Sentences on the violations and on what reduces them."""
    if found:
        broken = ", ".join(each.in_words() for each in found[:SAID])
        more = f" and {len(found) - SAID} more" if len(found) > SAID else ""
        yield (
            f"Between knots constraints are broken: {broken}{more}. A solve sees knots alone: shorter steps, or a "
            "margin on the limits, let less through."
        )


def in_short(found: tuple[BetweenKnots, ...]) -> Iterator[str]:
    """The same sentences in short, for a footnote."""
    for each in found[:1]:
        yield f"'{each.name}' broken by {each.violation:.2g} between knots {each.knot} and {each.knot + 1}"
