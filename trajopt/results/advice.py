"""Advice on what to try after a solve, from its status and its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from trajopt.backward.expansions import expand
from trajopt.backward.regularization import Regularization
from trajopt.capabilities import Names, Start, capability
from trajopt.interfaces.system import as_manifold, control_names, knot_durations, slope_name, tangent_names
from trajopt.problem.problem import Problem
from trajopt.results.conflict import violations_of_x0
from trajopt.results.lagrangian import relative_gradient
from trajopt.results.records import GIVEN, HELD, WARM, ConstraintReport, IterationRecord, SolutionData, Status
from trajopt.results.stationary import is_soft

NEARLY_DONE = 1e-6
"""Fraction of the cost below which a predicted decrease is called small."""
ROUNDING = 1e-12
"""Fraction of the cost below which a predicted decrease is rounding, whatever its mu."""
VANISHING = 1e-6
"""Bound on a gradient that vanishes to rounding, relative to the terms whose sum it is."""
FALLEN = 1e3
"""Depth below zero of a cost that seems to have no lower bound, relative to the first cost and its first predicted
decrease."""
STEEP = 1e3
"""Entry of fx or fu, in units of the largest states and of controls or the width of their limits, beyond which a model
is singular, or too stiff for its time step."""
APART, NOTHING = 1e4, 1e-9
"""Ratio of the largest numbers in a state from which units are worth a thought; and that of what counts as zero."""
FAR = 1e6
"""Size of a component of the state that may be beyond the range of a model, relative to one and to where it began."""
MANY_STEPS = 20
IMPLICIT_STEP = "implicit step"
"""What the cause of an end says where the equation of a step was found to have no solution."""
SMALL_VIOLATION = 1e-6
LIBRARY = ("trajopt", "dynamics")
"""Packages whose derivatives are known to be right."""
GO_ON = "go on from here with solver.solve(problem, warm_start=solution)"


def called(names: Sequence[str], index: Any, what: str) -> str:
    """The name of a component in quotation marks, else its kind and its number."""
    return repr(names[index]) if names else f"{what} {index}"


def plural(count: int, what: str) -> str:
    """A count with its noun: '1 step', '2 steps'."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


# ------------------------------------------------------------------------------------------------ predicted decrease
def _at_last(solution: SolutionData) -> IterationRecord:
    """The record at the last iterate with the smallest mu that was tried there."""
    log = [record for record in solution.log if record.descends]
    if solution.status not in (Status.LINE_SEARCH_FAILED, Status.NOT_FINITE):
        return log[-1]
    accepted = [i for i, record in enumerate(log) if record.alpha > 0.0]
    since = [record for record in log[accepted[-1] + 1 if accepted else 0 :] if record.cost == log[-1].cost]
    return max(since or log[-1:], key=lambda record: record.predicted_decrease)


def promise(solution: SolutionData) -> float:
    """Predicted decrease from the last iterate, with the smallest mu that was tried there."""
    return _at_last(solution).predicted_decrease


def disguise(solution: SolutionData) -> float:
    """The mu of that predicted decrease where it shortens steps so much that the decrease does not measure the distance
    to the optimum; else 0."""
    mu = _at_last(solution).mu
    return 0.0 if Regularization(mu).small else mu


def promise_is_plain(solution: SolutionData) -> bool:
    """True if the predicted decrease is one of the cost alone, without augmented-Lagrangian terms and gaps."""
    return solution.consistent and not any(report.penalty > 0.0 for report in solution.constraints)


def relative_promise(solution: SolutionData) -> float:
    """Ratio of the predicted decrease to the cost."""
    gain, cost = promise(solution), abs(solution.cost)
    return gain / cost if cost > 0.0 else (np.inf if gain > 0.0 else 0.0)


def largest_violation(solution: SolutionData, solver: Any) -> ConstraintReport | None:
    """The constraint with the largest violation, None if all are met."""
    allowed = getattr(solver, "feasibility_tolerance", SMALL_VIOLATION)
    worst = max(solution.constraints, key=lambda report: report.excess, default=None)
    return worst if worst is not None and worst.excess > allowed else None


def _nearly_done(solution: SolutionData, solver: Any) -> bool:
    """True if only a small fraction of the cost is left to gain, and no large mu makes it appear smaller than it is."""
    met = solution.consistent and largest_violation(solution, solver) is None
    return met and disguise(solution) == 0.0 and relative_promise(solution) < NEARLY_DONE


# ------------------------------------------------------------------------------------------------ advice
def advice(solution: SolutionData, solver: Any, weights: Sequence[np.ndarray]) -> Iterator[str]:
    """Sentences that say what to try next, for this status and these numbers; weights as of `conflict`."""
    system = "the dynamics" if solution.problem is None else type(solution.problem.system).__name__
    yield from _for_a_start_without_states(solution)
    yield from _for_negative_durations(solution)
    yield from _for_what_runs_away(solution)
    match solution.status:
        case Status.CONVERGED:
            worst = largest_violation(solution, solver)
            if worst is not None and is_soft(worst):
                yield (
                    f"a larger soft_penalty (it was {worst.penalty:.3g}): '{worst.name}' is soft and missed by "
                    f"{worst.violation:.2g}, which falls as 1/soft_penalty where nothing else prevents it; with "
                    "soft_penalty=0 constraints hold"
                )
            elif worst is not None:
                yield f"a feasibility_tolerance below {worst.violation:.2g}, by which '{worst.name}' is violated"
        case Status.MAX_ITERATIONS | Status.LINE_SEARCH_FAILED if _is_sample(solution, solver):
            yield from _for_next_sample(solution, solver)
        case Status.MAX_ITERATIONS:
            yield from _after_many(solution, solver)
        case Status.STOPPED_BY_CALLBACK | Status.INTERRUPTED | Status.TIME_LIMIT:
            yield GO_ON
        case Status.LINE_SEARCH_FAILED:
            yield from _for_line_search(solution, solver, system)
        case Status.NOT_POSITIVE_DEFINITE:
            yield from _for_indefinite(solution, solver)
        case Status.INVALID_DERIVATIVES:
            yield "trajopt.check_derivatives of what is not finite, at solution.xs[t], solution.us[t] of that knot t"
            yield "keep trajectories away from that point, by constraints or by another start"
        case Status.NOT_FINITE if IMPLICIT_STEP in solution.cause:
            yield from _for_implicit_steps()
        case Status.NOT_FINITE:
            yield from _for_steep_dynamics(solution)
            yield "limits or a barrier that keep trajectories clear of where that is so, or a start farther from it"
            yield "make it finite there, with a large cost in place of NaN or Inf"
        case Status.DIVERGED:
            if IMPLICIT_STEP in solution.cause:
                yield from _for_implicit_steps()
            if solution.us.any():
                yield "start from other controls: smaller ones, or those that hold the initial state"
            else:
                yield "start from other controls than zeros: us_init=, inside of where functions are finite"
            yield "start from states, which needs no rollout: solver.solve(problem, xs=...)"
            yield f"a smaller time step or another integrator for {system}"
        case Status.INFEASIBLE:
            yield from _for_infeasible(solution, solver, weights)


def _for_implicit_steps() -> Iterator[str]:
    """Advice where the equation of a step was found to have no solution."""
    yield "a shorter time step, or softer contacts, and trajopt.continuation from there to stiff ones"
    yield "another start: controls that hold the robot up, us_init=, or states, xs="


def _for_a_start_without_states(solution: SolutionData) -> Iterator[str]:
    """Advice to start from the states that the system suggests, unless a solve without them took few steps and no angle
    made more than half a turn."""
    problem = solution.problem
    advice = "" if problem is None else capability(problem.system, Start).start_advice
    if problem is None or not advice or problem.xs_init is not None or solution.start not in (GIVEN, HELD):
        return
    if solution.start == GIVEN and solution.log and solution.log[0].gap > 0.0:
        return  # states were given to the solve
    turned = _turned_over(solution)
    if turned or not solution.converged or solution.iterations >= MANY_STEPS:
        yield f"start from {advice}" + (f": {turned}" if turned else "")


def _for_negative_durations(solution: SolutionData) -> Iterator[str]:
    """Advice to limit durations, where a plan with free ones goes back in time."""
    if solution.problem is not None and np.isfinite(solution.xs).all():
        seconds = knot_durations(solution.problem.system, len(solution.us), solution.xs)
        if (seconds < 0.0).any():
            k = int(np.argmin(seconds))
            yield f"add system.duration_bounds() to the constraints: knot {k} takes {seconds[k]:.3g} s"


def _turned_over(solution: SolutionData) -> str:
    """The angle that went farthest from where it began, in words, if by more than half a turn; else empty."""
    assert solution.problem is not None
    system, units = solution.problem.system, capability(solution.problem.system, Names).tangent_units
    if not units or not np.isfinite(solution.xs).all():
        return ""
    away = np.abs(system.difference(np.repeat(solution.xs[:1], len(solution.xs), axis=0), solution.xs))
    away[:, [unit != "rad" for unit in units]] = 0.0
    knot, i = np.unravel_index(np.argmax(away), away.shape)
    if away[knot, i] <= np.pi:
        return ""
    name = called(tangent_names(system), i, "angle")
    return f"{name} turned over, {away[knot, i]:.2g} rad from its start at knot {knot}"


def _seems_unbounded(solution: SolutionData) -> bool:
    """True if the cost fell far below zero in a solve that did not converge: compared with what the first step
    promised; or with what it gained, where a step promises more at the end than all steps have gained."""
    if solution.status in (Status.CONVERGED, Status.INFEASIBLE) or not solution.log:
        return False
    first, cost = solution.log[0], solution.cost
    gained = next((record.actual_decrease for record in solution.log if record.alpha > 0.0), np.inf)
    more = cost < -FALLEN * max(abs(first.cost), gained) and promise(solution) > first.cost - cost
    return more or cost < -FALLEN * max(abs(first.cost), first.predicted_decrease)


def _for_what_runs_away(solution: SolutionData) -> Iterator[str]:
    """Advice to limit a motion that may have left the range of its model, towards a cost without a lower bound."""
    xs, problem = solution.xs, solution.problem
    failed, falls = solution.status == Status.LINE_SEARCH_FAILED, _seems_unbounded(solution)
    if problem is None or not (falls or failed) or not np.isfinite(xs).all():
        return
    sizes = np.abs(xs).max(axis=0) / (1.0 + np.abs(xs[0]))
    if falls or sizes.max() > FAR:
        i = int(np.argmax(sizes))
        name = called(capability(problem.system, Names).state_names, i, "number")
        why = f"{name} of the state reaches {np.abs(xs[:, i]).max():.2g}, where the model may no longer hold"
        if falls:
            why = (
                f"the cost fell from {solution.log[0].cost:.3g} to {solution.cost:.3g}, as if it had no lower bound, "
                f"and {why}"
            )
        yield f"trajopt.StateBounds or trajopt.ControlBounds on what runs away: {why}"


def _for_line_search(solution: SolutionData, solver: Any, system: str) -> Iterator[str]:
    if _nearly_done(solution, solver):
        left = f"{relative_promise(solution):.1g} of the cost"
        yield f"a larger tolerance: what is left to gain, {left}, does not show in it"
    elif _at_an_optimum(solution, solver):
        yield (
            "take it as it is: the gradient vanishes to rounding, as at an optimum, and a full step promises "
            f"{relative_promise(solution):.1g} of the cost, which does not show in it"
        )
    else:
        suspected = [*_for_steep_dynamics(solution), *_for_functions(solution.problem, system)]
        suspected += [*_for_unmet(solution, solver), *_for_units(solution, solver)]
        yield from suspected
        if not suspected and not _seems_unbounded(solution):
            yield "start from other controls or states: solver.solve(problem, us=...), or xs=..."


def _for_functions(problem: Problem | None, system: str) -> Iterator[str]:
    """Advice on functions whose derivatives may be wrong, or that may have kinks; system: the name of its class."""
    doubtful = problem is None or _may_be_wrong(problem.system)
    if doubtful:
        yield f"trajopt.check_derivatives(system, solution.xs[:-1], solution.us): {system} may have wrong ones"
    if doubtful or problem is None or any(_may_be_wrong(term.cost) for term in problem.objective.terms):
        yield "trajopt.check_derivatives(cost, system=system): so may a cost"
    if problem is not None and any(_may_be_wrong(one.residual) for one in problem.residual_constraints):
        yield "trajopt.check_derivatives(residual, system=system): so may the residual of a constraint"
    if problem is None or any(map(_may_have_kinks, _parts(problem))):
        yield "smooth what has kinks or jumps, e.g. with trajopt.SmoothAbs"


def _for_unmet(solution: SolutionData, solver: Any) -> Iterator[str]:
    """Advice to start from states that meet the constraint with the largest violation."""
    worst = largest_violation(solution, solver)
    if worst is not None and not is_soft(worst):
        where = f"'{worst.name}', which is violated at knot {worst.worst_knot}"
        yield f"start from states that meet {where}: solver.solve(problem, xs=...)"


def _for_units(solution: SolutionData, solver: Any) -> Iterator[str]:
    """Advice to count states in units in which they are of similar size, where constraints are not met."""
    problem = solution.problem
    if problem is None or as_manifold(problem.system) is not None or largest_violation(solution, solver) is None:
        return
    sizes = np.abs(solution.xs).max(axis=0)
    counted = np.flatnonzero(sizes > NOTHING * sizes.max())
    if not np.isfinite(sizes).all() or not len(counted):
        return
    least, most = counted[np.argmin(sizes[counted])], int(np.argmax(sizes))
    if sizes[most] > APART * sizes[least]:
        names = capability(problem.system, Names).state_names
        large, small = (f"{called(names, i, 'component')} reaches {sizes[i]:.2g}" for i in (most, least))
        yield f"count states in units in which all are of similar size: {large}, {small}"


def _for_steep_dynamics(solution: SolutionData) -> Iterator[str]:
    """Advice to keep clear of where fx or fu has entries that no time step bears, or that are not finite."""
    problem, xs, us = solution.problem, solution.xs, solution.us
    if problem is None or not (np.isfinite(xs).all() and np.isfinite(us).all()) or _seems_unbounded(solution):
        return
    system, of_states = problem.system, np.ones(problem.system.ndx)
    if as_manifold(system) is None:
        of_states = np.maximum(np.abs(xs).max(axis=0), 1.0)
    of_controls = np.abs(us).max(axis=0)
    if problem.control_limits is not None:
        lower, upper = problem.control_limits
        width = (upper - lower).max(axis=0)
        of_controls = np.where(np.isfinite(width), np.maximum(width, of_controls), of_controls)
    with np.errstate(all="ignore"):
        for which, f, sizes in zip(("fx", "fu"), system.linearize(xs, us), (of_states, of_controls), strict=True):
            scaled = np.where(np.isfinite(f), np.abs(f) * sizes / of_states[:, None], np.inf)
            if scaled.size and scaled.max() > STEEP:
                t, i, j = (int(at) for at in np.unravel_index(np.argmax(scaled), scaled.shape))
                value = f"{f[t, i, j]:.2g}" if np.isfinite(f[t, i, j]) else "not finite"
                yield (
                    "keep clear of where the model is singular, or stiff beyond its time step: "
                    f"{slope_name(system, which, i, j)}, is {value} at knot {t}"
                )
                return


def _at_an_optimum(solution: SolutionData, solver: Any) -> bool:
    """True if the gradient vanishes to rounding where constraints are met, and no step promises more than rounding."""
    met = solution.consistent and largest_violation(solution, solver) is None
    small = met and relative_promise(solution) < ROUNDING and solution.problem is not None
    return small and relative_gradient(solution) < VANISHING


def _parts(problem: Problem) -> list[Any]:
    """The system, the costs, and the residuals of constraints."""
    terms, constraints = problem.objective.terms, problem.residual_constraints
    return [problem.system, *(term.cost for term in terms), *(one.residual for one in constraints)]


def _with_insides(term: Any) -> Iterator[Any]:
    """A system, a cost or a residual, and what it is made of."""
    yield term
    for slot in ("system", "cost", "residual"):
        part = getattr(term, slot, None)
        if part is not None:
            yield from _with_insides(part)


def _is_a_users(term: Any) -> bool:
    return type(term).__module__.partition(".")[0] not in LIBRARY


def _may_be_wrong(term: Any) -> bool:
    """True of a system, a cost or a residual whose derivatives, or those of what it is made of, are a user's or
    differences: neither traced nor the library's own."""
    sources = ((part, getattr(part, "derivative_source", None)) for part in _with_insides(term))
    return any(_is_a_users(part) if source is None else source != "traced" for part, source in sources)


def _may_have_kinks(term: Any) -> bool:
    """True of a system, a cost or a residual that is a user's, or made of such, unless its trace is smooth; and of the
    library's few that say so."""
    return any(getattr(part, "may_have_kinks", _is_a_users(part)) for part in _with_insides(term))


def _is_sample(solution: SolutionData, solver: Any) -> bool:
    """True for a single iteration from a warm start, as in predictive control; solver: None if that is not known."""
    most = getattr(solver, "max_iterations", solution.iterations)
    return solution.start == WARM and solution.iterations == 1 and most == 1


def _for_next_sample(solution: SolutionData, solver: Any) -> Iterator[str]:
    """Advice after a single iteration that has not converged."""
    if solution.status == Status.LINE_SEARCH_FAILED:
        yield "keep the last plan's control or its gains for this sample: no step from the start lowers its cost"
        if getattr(solver, "max_sweeps", None) is not None:
            yield f"a larger max_sweeps (it was {solver.max_sweeps}), or None, to find which constraints are active"
        yield "look whether the state or a target has jumped; a solve with more iterations finds another plan"
    yield "go on with the next sample: solver.solve(problem, warm_start=solution.shifted())"


def _after_many(solution: SolutionData, solver: Any) -> Iterator[str]:
    steps = [r for r in solution.log if r.descends]
    if solution.iterations and _nearly_done(solution, solver):
        yield "accept it: what is left to gain is a small part of the cost"
    if not _seems_unbounded(solution):
        yield f"raise max_iterations (it was {solution.iterations}), or {GO_ON}"
    if solution.iterations >= MANY_STEPS and all(r.step == "gauss_newton" for r in steps):
        yield "trajopt.DDP if this was trajopt.ILQR: exact steps need fewer iterations near the optimum"
    yield from _for_unmet(solution, solver)
    yield from _for_units(solution, solver)


def _for_indefinite(solution: SolutionData, solver: Any) -> Iterator[str]:
    steep = [*_for_steep_dynamics(solution)]
    yield from steep
    if solution.problem is not None:
        luu = expand(solution.problem, solution.xs, solution.us).luu
        free = np.flatnonzero((np.einsum("tii->ti", luu) <= 0.0).any(axis=0))
        if len(free):
            given = control_names(solution.problem.system)
            names = ", ".join(repr(given[i]) if given else str(i) for i in free)
            yield f"a trajopt.ControlCost: no cost is convex in control {names} at some knot"
        largest = max(float(np.abs(block).max()) for block in ((luu,) if steep else (luu, solution.Vxx)))
        if largest > 1e12:
            yield f"scale costs: entries of their Hessians reach {largest:.1g}"
    if not solution.consistent:
        if getattr(solver, "initial_regularization", 0.0) < 1.0:
            yield "initial_regularization=1.0: steps that close gaps between states and dynamics are shorter"
        yield "start from other controls, nearer to those that hold the initial state"
    if not steep:
        limit = getattr(solver, "max_regularization", None)
        yield "a larger max_regularization" + ("" if limit is None else f" than {limit:.1g}")


def _straight_line(solution: SolutionData) -> str:
    """Code for the argument `xs=` that starts on a straight line."""
    knots = len(solution.us) + 1
    if solution.problem is None or as_manifold(solution.problem.system) is None:
        return f"xs=np.linspace(x0, x_goal, {knots})"
    return f"xs=[system.integrate(x0, s * system.difference(x0, x_goal)) for s in np.linspace(0, 1, {knots})]"


def _for_infeasible(solution: SolutionData, solver: Any, weights: Sequence[np.ndarray]) -> Iterator[str]:
    worst = largest_violation(solution, solver)
    if worst is None:
        yield "a larger complementarity_tolerance: the constraints are met, but pressed on where they leave room"
        return
    for given in violations_of_x0(solution, weights):
        later = f"; or '{given.name}' at later knots alone, as by at=slice({given.met_from}, None)"
        yield f"another x0, for this one violates '{given.name}'{later if given.met_from < len(solution.us) else ''}"
    yield (
        f"start from the states of another way to meet '{worst.name}', solver.solve(problem, xs=...), as those of a "
        f"straight line to another posture: {_straight_line(solution)}"
    )
    if solution.start == WARM:
        yield "solve without warm_start=: the old plan may be on the wrong side of what is new"
    yield "start from other controls: solver.solve(problem, us=...)"
    yield f"loosen '{worst.name}' at knot {worst.worst_knot}, where it is violated by {worst.violation:.2g}"
    against = weights or [report.multipliers for report in solution.constraints]
    for report, pressing in zip(solution.constraints, against, strict=True):
        if report is not worst and pressing.any():
            knots = f"{int(pressing.any(axis=1).sum())} of {plural(len(report.knots), 'knot')}"
            yield f"loosen '{report.name}', which stands in its way at {knots}"
    yield "a longer horizon: what cannot be met in time may be met later"
