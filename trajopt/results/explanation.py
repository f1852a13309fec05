"""Explanation of a solution in words: why it ended, what is left to gain and where, and what to try next.

Everything is read from the solution but the gradient at each knot, which is that of the Lagrangian
(`trajopt.results.lagrangian`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Any

import numpy as np

from dynamics.printed import printable
from trajopt.backward.expansions import expand
from trajopt.capabilities import Joints, capability
from trajopt.interfaces.residual import at_knots
from trajopt.interfaces.system import control_names, neutral_state, tangent_names
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.extended_system import innermost
from trajopt.problem.free_duration import FreeDurationSystem
from trajopt.problem.objective import Term
from trajopt.problem.problem import Problem
from trajopt.results.advice import (
    advice,
    called,
    disguise,
    largest_violation,
    plural,
    promise,
    promise_is_plain,
    relative_promise,
)
from trajopt.results.between_knots import in_words, notable_violation
from trajopt.results.conflict import conflict, scaled_weights, violations_of_x0
from trajopt.results.dependent_rows import advice as advice_on_dependent
from trajopt.results.dependent_rows import dependent_rows
from trajopt.results.dependent_rows import in_words as dependent_in_words
from trajopt.results.discretization import in_words as error_in_words
from trajopt.results.discretization import notable_error
from trajopt.results.joint_feedback import in_contact, least_stiffness
from trajopt.results.lagrangian import lagrangian_gradient
from trajopt.results.policy import why_not_held
from trajopt.results.records import EXAMPLE, HELD, MIDDLE, STILL, WARM, ZEROS, ConstraintReport, SolutionData, Status
from trajopt.results.stationary import is_soft

WIDTH = 100
NO_PROMISE = (
    Status.DIVERGED, Status.INVALID_DERIVATIVES, Status.NOT_POSITIVE_DEFINITE, Status.INTERRUPTED, Status.TIME_LIMIT,
    Status.INFEASIBLE,
)  # fmt: skip
"""Statuses whose last record has no predicted decrease, or one of a penalty rather than of the cost."""
FIRST_SHARES = 6
SEEN = 1e-9
"""Violation above which rounding is reported."""
AT_LIMIT = 1e-9
"""Distance from a limit of the initial state, in its unit and relative to it, within which the limit is active."""
PUSHED = 1e-6
"""Fraction of the gains below which a negative stiffness of joints is rounding."""
AMPLIFIED = 100.0
"""Ratio of the open-loop to the closed-loop gradient above which the instability of the open loop is held to be the
cause."""


def explain(solution: SolutionData, solver: Any = None) -> str:
    """Explain what happened in a solve, and what to try next: several lines of text, for any status.

    Parameters
    ----------
    solution : Solution
        If it was read from a file without its problem, the explanation uses what the file holds.
    solver : DDP or ILQR, optional
        The solver used; tolerances are then named, and options that it already has are not advised.

    Raises
    ------
    TypeError
        If solver is no solver.
    """
    if solver is not None and not hasattr(solver, "feasibility_tolerance"):
        raise TypeError(f"solver: got {type(solver).__name__}, expected a trajopt.DDP or trajopt.ILQR")
    parts = [f"{solution.status}: {solution.message}", *_ending(solution, solver)]
    if solution.cause:
        parts.append(f"Not finite: {solution.cause}.")
    parts += _start(solution)
    parts += _initial_state(solution)
    weights = conflict(solution)
    parts += _at_fault(solution, weights)
    if np.isfinite(solution.cost):
        parts += [_states(solution), *_integration(solution), *in_words(notable_violation(solution))]
        parts += [*_gradient(solution), *_without_effect(solution), *_costs(solution), *_feedback(solution)]
        parts += _afterwards(solution)
    parts += [*_soft(solution), *_constraints(solution, weights), *_steps(solution)]
    dependent = dependent_rows(solution) if _unmet(solution, solver) else None
    if dependent is not None:
        parts.append(dependent_in_words(solution, dependent))
    tried = [] if dependent is None else [*advice_on_dependent(solution, dependent)]
    tried += advice(solution, solver, weights)
    parts += [f"Try: {line}." for line in tried]
    whole = (fill(part, WIDTH, subsequent_indent="  ", break_long_words=False) for part in map(printable, parts))
    return "\n".join(whole)


def _start(solution: SolutionData) -> Iterator[str]:
    if solution.start == HELD:
        yield "A rollout of the first controls led away: the solve began with the initial state at every knot."
    if solution.start == MIDDLE:
        yield "Zeros for controls led nowhere: the solve began in the middle of limits."
    if solution.start == EXAMPLE:
        yield "Zeros for controls led nowhere: the solve began with the controls of an example (u_example=)."
    if solution.start == STILL:
        yield (
            "A solve from the first controls came to no end: this one began with controls that hold the initial state."
        )
    if solution.start == ZEROS:
        yield "A solve from the first controls came to no end: this one began with zeros for controls."
    if solution.start == WARM:
        yield "The solve began with the trajectory and the multipliers of a warm start."
    if solution.not_taken_over:
        yield f"Of the warm start: {'; '.join(solution.not_taken_over)}."


def _initial_state(solution: SolutionData) -> Iterator[str]:
    """Sentences on active limits of a free initial state."""
    problem = solution.problem
    if problem is None or problem.free_initial_state is None or not np.isfinite(solution.xs[0]).all():
        return
    free, system = problem.free_initial_state, problem.system
    found = system.difference(neutral_state(system), solution.xs[0])[free.components]
    names, active = tangent_names(system), []
    for which, limits in ("lower", free.lower), ("upper", free.upper):
        at = np.isfinite(limits) & (np.abs(found - limits) <= AT_LIMIT * (1.0 + np.abs(limits)))
        for component, limit in zip(free.components[at], limits[at], strict=True):
            active.append(f"{called(names, component, 'component')} at its {which} limit {limit:.6g}")
    if active:
        yield f"Of the free initial state: {'; '.join(active)}."


# ------------------------------------------------------------------------------------------------ the end
def _ending(solution: SolutionData, solver: Any) -> Iterator[str]:
    tried, cost = plural(solution.iterations, "step"), abs(solution.cost)
    if not solution.log:
        yield "No step was tried."
    elif solution.status in NO_PROMISE:
        yield f"After {tried} the cost is {solution.cost:.6g}."
    else:
        wanted, what, part = "", "it", ""
        if not promise_is_plain(solution):
            what = f"the cost with its {'terms for constraints' if solution.consistent else 'weighted gaps'}"
        elif cost > 0.0 and not disguise(solution):
            part = f", {relative_promise(solution):.1g} of it"
        if disguise(solution):
            wanted = f" with mu = {disguise(solution):.1g}, which makes it too short to tell how far the optimum is"
        elif solver is not None:
            wanted = f"; the tolerance is {solver.tolerance:.1g}"
            if solution.converged and part and relative_promise(solution) > solver.tolerance:
                wanted += ", but so little does not show in the cost"
        verb = "promised" if solution.iterations == 1 and solution.status == Status.MAX_ITERATIONS else "promises"
        yield (
            f"After {tried} the cost is {solution.cost:.6g}; a full step {verb} to lower {what} by "
            f"{promise(solution):.2g}{part}{wanted}."
        )


def _states(solution: SolutionData) -> str:
    gap = solution.largest_gap
    if solution.consistent:
        return f"States follow from the controls (largest gap {gap:.1g})."
    knot, component = np.unravel_index(np.argmax(np.abs(solution.gaps)), solution.gaps.shape)
    names = () if solution.problem is None else tangent_names(solution.problem.system)
    return (
        f"States do not follow from the controls yet: the largest gap to the dynamics is {gap:.2g}, at knot {knot}, "
        f"{called(names, component, 'component')}."
    )


def _integration(solution: SolutionData) -> Iterator[str]:
    error = notable_error(solution)
    if error is not None:
        yield error_in_words(solution, error)


# ------------------------------------------------------------------------------------------------ gradient and cost
def _gradient(solution: SolutionData) -> Iterator[str]:
    step = f" The full step changes no control by more than {np.abs(solution.k).max(initial=0.0):.2g}."
    last = step if solution.converged else ""
    if solution.problem is None:
        yield f"Largest gradient entry: {solution.gradient_norm:.2g}, without feedback.{last}"
        return
    with np.errstate(all="ignore"):
        gradient, closed = (np.abs(lagrangian_gradient(solution, closed_loop)) for closed_loop in (False, True))
    if not np.isfinite(gradient).all():
        return
    knot, control = np.unravel_index(np.argmax(gradient), gradient.shape)
    name = called(control_names(solution.problem.system), control, "control")
    told = f"Largest gradient entry: {gradient.max():.2g}, of {name} at knot {knot}."
    if np.isfinite(closed).all() and gradient.max() > AMPLIFIED * closed.max():
        told += (
            f" In closed loop, u = us + K (x - xs), it is {closed.max():.2g}: the rest is what the instability of the "
            "open loop makes of that, and of rounding."
        )
    yield told + last


def _without_effect(solution: SolutionData) -> Iterator[str]:
    """Sentences on controls that move nothing at any knot, and enter nothing but a cost of their own."""
    if solution.problem is None or not len(solution.us):
        return
    idle = controls_without_effect(solution)
    if not len(idle):
        return
    names = control_names(solution.problem.system)
    if len(idle) == solution.us.shape[1]:
        which = "no control moves" if len(idle) > 1 else f"{called(names, 0, 'control')}, the only one, moves"
        which += " anything" if len(idle) > 1 else " nothing"
    else:
        listed = ", ".join(called(names, i, "control") for i in idle[:FIRST_SHARES])
        more = f" and {plural(len(idle) - FIRST_SHARES, 'other')}" if len(idle) > FIRST_SHARES else ""
        which = f"{listed}{more} {'moves' if len(idle) == 1 else 'move'} nothing"
    yield (
        f"Without effect: {which} along this trajectory; derivatives in it are zero at every knot, and so no step "
        "changes the motion by it. It may be clipped in the dynamics, or act on what is not touched yet: start from "
        "controls or states where it moves something."
    )


def controls_without_effect(solution: SolutionData) -> np.ndarray:
    """Indices of the controls whose columns of fu are zero at all knots, and which no cost and no row of a constraint
    reads together with states; controls that a state remembers are not among them."""
    problem, xs, us = solution.problem, solution.xs, solution.us
    n = innermost(problem.system, FreeDurationSystem).ndx
    with np.errstate(all="ignore"):
        expansion = expand(problem, xs, us)
        acts = expansion.fu[:, :n].any(axis=(0, 1)) | expansion.lux[:, :, :n].any(axis=(0, 2))
        for constraint, report in zip(problem.constraints, solution.constraints, strict=True):
            knots = report.knots[report.knots < len(us)]
            if isinstance(constraint, ResidualConstraint) and len(knots):
                rx, ru = at_knots(constraint.residual, knots).jacobians(xs[knots], us[knots])
                if ru is not None:
                    acts |= (ru.any(axis=0) & rx[:, :, :n].any(axis=(0, 2))[:, None]).any(axis=0)
    return np.flatnonzero(~acts)


def term_values(problem: Problem, xs: np.ndarray, us: np.ndarray) -> list[tuple[Term, np.ndarray]]:
    """Every term of the cost with its contribution at each knot, (N+1,); the sum of all is the cost."""
    values = []
    for term in problem.objective.terms:
        rows = np.zeros(len(xs))
        knots = slice(-1, None) if term.terminal else (slice(0, len(us)) if term.knots is None else term.knots)
        rows[knots] = term.scale * np.asarray(term.cost.value(*term.points(xs, us)))
        values.append((term, rows))
    return values


def _costs(solution: SolutionData) -> Iterator[str]:
    if solution.problem is None:
        return
    values = term_values(solution.problem, solution.xs, solution.us)
    whole = sum(abs(float(rows.sum())) for _, rows in values)
    if not 0.0 < whole < np.inf:
        return
    parts: dict[str, float] = {}
    for term, rows in values:
        name = ("terminal " if term.terminal else "") + term.name
        parts[name] = parts.get(name, 0.0) + float(rows.sum()) / whole
    largest = sorted(parts.items(), key=lambda item: -abs(item[1]))
    shares = ", ".join(f"{name} {100 * share:.3g} %" for name, share in largest[:FIRST_SHARES])
    more = f" and {plural(len(largest) - FIRST_SHARES, 'other')}" if len(largest) > FIRST_SHARES else ""
    per_knot = np.sum([rows for _, rows in values], axis=0)
    knot = int(np.argmax(np.abs(per_knot)))
    last = " (the last)" if knot == len(solution.us) else ""
    yield f"Cost: {shares}{more}; the costliest knot is {knot}{last} with {100 * abs(per_knot[knot]) / whole:.3g} %."


def _feedback(solution: SolutionData) -> Iterator[str]:
    """Sentences on gains that push joints away from the plan where contacts give way."""
    if solution.problem is None or not len(solution.us) or not solution.K.any():
        return
    least = least_stiffness(solution) if in_contact(solution).any() else 0.0
    if least < -PUSHED * np.abs(solution.K).max():
        yield (
            f"Gains count on contacts that hold: where one slips, they push joints away from the plan by up to "
            f"{-least:.3g} N m/rad. solution.policy(joint_stiffness='auto') adds what keeps them there."
        )


def _afterwards(solution: SolutionData) -> Iterator[str]:
    """A sentence on what the policy does when the plan is over."""
    if solution.converged and solution.problem is not None and len(solution.us) and solution.K.any():
        why = why_not_held(solution)
        if why and capability(innermost(solution.problem.system), Joints).nq is not None:
            yield f"After its end solution.policy() keeps the last knot's control and gains, for this is {why}."
        elif not why:
            yield "After its end solution.policy() holds the last state; hold=False keeps the last gains."


# ------------------------------------------------------------------------------------------------ constraints
def _soft(solution: SolutionData) -> Iterator[str]:
    """A sentence on what violations of soft constraints cost."""
    if solution.converged and any(map(is_soft, solution.constraints)):
        squares = [
            0.5 * report.penalty * float(np.square(report.violations * report.factors).sum())
            for report in solution.constraints
            if report.factors is not None
        ]
        yield f"Constraints are soft: violations cost {sum(squares):.3g}, which the cost above leaves out."


def _constraints(solution: SolutionData, weights: Sequence[np.ndarray]) -> Iterator[str]:
    """A sentence on each constraint; weights as of `conflict`."""
    for i, report in enumerate(solution.constraints):
        head = f"Constraint '{report.name}': "
        if not report.values.size:
            yield head + "it holds at no knot."
        elif weights:
            yield head + _violation(report) + _part(report, weights[i])
        else:
            yield head + _violation(report) + _activity(report)


def _violation(report: ConstraintReport) -> str:
    names, worst = report.components, ""
    if report.violation > 0.0:
        worst = f" of {names[report.worst_component]!r}" if names else ""
        worst += f" at knot {report.worst_knot}"
    if report.excess == 0.0 and report.violation > SEEN:
        worst += ", rounding of numbers so large"
    return f"largest violation {report.violation:.2g}{worst}; "


def _activity(report: ConstraintReport) -> str:
    if not report.active.any():
        return "active nowhere."
    row, component = np.unravel_index(np.argmax(np.abs(report.multipliers)), report.multipliers.shape)
    return (
        f"active in {_where(report.active)}, largest multiplier {abs(report.multipliers[row, component]):.2g}, of "
        f"{called(report.components, component, 'component')} at knot {report.knots[row]}."
    )


def _part(report: ConstraintReport, weights: np.ndarray) -> str:
    """What a constraint has to do with a conflict, in which its rows have these weights."""
    if not weights.any():
        return "no part in the conflict."
    return f"{'cannot be met' if report.excess > 0.0 else 'holds the motion back'} in {_where(weights != 0.0)}."


def _where(entries: np.ndarray) -> str:
    """Counts of the components and of the knots of some entries (K, nr)."""
    components, knots = (int(entries.any(axis=axis).sum()) for axis in (0, 1))
    return f"{plural(components, 'component')} at {knots} of {plural(len(entries), 'knot')}"


def _unmet(solution: SolutionData, solver: Any) -> bool:
    """True if a solve that ended at a trajectory of the dynamics did not meet its constraints."""
    known = solution.problem is not None and solution.consistent and np.isfinite(solution.cost)
    return known and largest_violation(solution, solver) is not None


def _at_fault(solution: SolutionData, weights: Sequence[np.ndarray]) -> Iterator[str]:
    """Sentences on the constraint that a certificate of local infeasibility blames most, and on those that oppose it;
    weights as of `conflict`."""
    blamed = [report for report, nu in zip(solution.constraints, weights, strict=False) if nu.any()]
    if not blamed:
        return
    scaled = {report.name: np.abs(scaled_weights(report)) for report in blamed}
    worst = max(blamed, key=lambda report: scaled[report.name].max())
    row, component = np.unravel_index(np.argmax(scaled[worst.name]), worst.values.shape)
    told = (
        f"Most at fault here: '{worst.name}', {called(worst.components, component, 'component')}, at knot "
        f"{worst.knots[row]}, violated by {worst.violations[row, component]:.2g}"
    )
    against = [
        f"'{report.name}' at " + (f"knot {at[0]}" if len(at) == 1 else f"{len(at)} knots from {at[0]} to {at[-1]}")
        for report, nu in zip(solution.constraints, weights, strict=True)
        if report is not worst and len(at := report.knots[nu.any(axis=1)])
    ]
    yield told + (f"; held back by {', '.join(against)}." if against else ".")
    for given in violations_of_x0(solution, weights):
        yield f"The initial state x0 itself violates '{given.name}', by {given.violation:.2g}."


# ------------------------------------------------------------------------------------------------ steps
def _steps(solution: SolutionData) -> Iterator[str]:
    accepted = [r for r in solution.log if r.alpha > 0.0]
    if solution.iterations:
        kinds = Counter(r.step for r in accepted)
        names = {"gauss_newton": "Gauss-Newton", "feasibility": "in search of feasibility", "escape": "off a saddle"}
        taken = ", ".join(f"{count} {names.get(kind, kind)}" for kind, count in kinds.items()) or "none"
        shortest = f"; the shortest had length {min(r.alpha for r in accepted):.2g}" if accepted else ""
        yield f"Steps taken: {taken}, of {solution.iterations} tried{shortest}."
    repaired = [r for r in solution.log if r.indefinite_knot >= 0]
    if repaired:
        largest, regularized = max(r.mu for r in solution.log), ""
        if largest > 0.0:
            regularized = f"; mu rose to {largest:.1g} and ended at {solution.log[-1].mu:.1g}"
        yield (
            f"Quu was not positive definite in {plural(len(repaired), 'iteration')} and was repaired, the last time "
            f"at knot {repaired[-1].indefinite_knot}{regularized}."
        )
