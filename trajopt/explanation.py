"""A solution in plain words: why it ended, what is left to gain and where, and what to try next.

Everything is read off the solution but the gradient knot by knot, which is that of the Lagrangian,

    dJ/du_t + sum_i lam_i dr_i/du_t,

J and r functions of the controls alone.  It vanishes at an optimum under constraints, limits of controls included.
"""

from collections import Counter
from collections.abc import Iterator
from textwrap import fill
from typing import Any

import numpy as np

from trajopt.constraints import ControlBounds
from trajopt.expansions import adjoint, expand
from trajopt.problem import Problem
from trajopt.solution import ConstraintReport, Solution
from trajopt.status import Status
from trajopt.term import Term

WIDTH = 100
NO_PROMISE = (
    Status.DIVERGED, Status.INVALID_DERIVATIVES, Status.NOT_POSITIVE_DEFINITE, Status.INTERRUPTED, Status.INFEASIBLE,
)  # fmt: skip
"""Ends where the last record has no predicted decrease, or one of a penalty rather than of the cost."""
NEARLY_DONE = 1e-6
"""A predicted decrease below this part of the cost is called small."""
MANY_STEPS = 20
SHORT = 0.1
SMALL_VIOLATION = 1e-6
FIRST_SHARES = 6


def explain(solution: Solution, solver: Any = None) -> str:
    """What happened in a solve, and what to try next: several lines of plain words, for any status.

    Parameters
    ----------
    solution : Solution
        One read from a file without its problem is explained by what the file holds.
    solver : DDP or ILQR, optional
        What solved it; tolerances are then named, and options that it already has are not advised.

    Raises
    ------
    TypeError
        If solver is something else.
    """
    if solver is not None and not hasattr(solver, "feasibility_tolerance"):
        raise TypeError(f"solver: got {type(solver).__name__}, wanted a trajopt.DDP or trajopt.ILQR")
    parts = [f"{solution.status}: {solution.message}", *_ending(solution, solver)]
    if solution.cause:
        parts.append(f"Not finite: {solution.cause}.")
    if np.isfinite(solution.cost):
        parts += [_states(solution), *_gradient(solution), *_costs(solution)]
    parts += [*map(_constraint, solution.constraints), *_steps(solution)]
    parts += [f"Try: {line}." for line in _advice(solution, solver)]
    return "\n".join(fill(part, WIDTH, subsequent_indent="  ", break_long_words=False) for part in parts)


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


# ------------------------------------------------------------------------------------------------ the end
def _promise(solution: Solution) -> float:
    """Predicted decrease from the last iterate, with the smallest mu that was tried there."""
    log = solution.log
    if solution.status != Status.LINE_SEARCH_FAILED:
        return log[-1].predicted_decrease
    accepted = [i for i, record in enumerate(log) if record.alpha > 0.0]
    return max(record.predicted_decrease for record in log[accepted[-1] + 1 if accepted else 0 :])


def _relative_promise(solution: Solution) -> float:
    """The same as a part of the cost."""
    gain, cost = _promise(solution), abs(solution.cost)
    return gain / cost if cost > 0.0 else (np.inf if gain > 0.0 else 0.0)


def _ending(solution: Solution, solver: Any) -> Iterator[str]:
    tried = _plural(solution.iterations, "step")
    if not solution.log:
        yield "No step was tried."
    elif solution.status in NO_PROMISE:
        yield f"After {tried} the cost is {solution.cost:.6g}."
    else:
        wanted = "" if solver is None else f"; the tolerance is {solver.tolerance:.1g}"
        yield (
            f"After {tried} the cost is {solution.cost:.6g}; a full step promises to lower it by "
            f"{_promise(solution):.2g}, {_relative_promise(solution):.1g} of it{wanted}."
        )


def _states(solution: Solution) -> str:
    gap = solution.largest_gap
    if solution.consistent:
        return f"States follow from the controls (largest gap {gap:.1g})."
    knot, component = np.unravel_index(np.argmax(np.abs(solution.gaps)), solution.gaps.shape)
    return (
        f"States do not follow from the controls yet: the largest gap to the dynamics is {gap:.2g}, at knot {knot}, "
        f"component {component}."
    )


# ------------------------------------------------------------------------------------------------ gradient and cost
def lagrangian_gradient(solution: Solution) -> np.ndarray:
    """Gradient (N, nu) of the Lagrangian in the controls, with the multipliers of the solution."""
    problem, xs, us, N = solution.problem, solution.xs, solution.us, len(solution.us)
    expansion = expand(problem, xs, us)
    lx, lu = expansion.lx.copy(), expansion.lu.copy()
    for constraint, report in zip(problem.constraints, solution.constraints, strict=True):
        if isinstance(constraint, ControlBounds):
            lu += report.multipliers
            continue
        for terminal in (False, True):
            rows = (report.knots == N) == terminal
            if rows.any():
                t, lam = report.knots[rows], report.multipliers[rows]
                rx, ru = constraint.residual.jacobians(xs[t], None if terminal else us[t])
                lx[t] += np.einsum("ki,kij->kj", lam, rx)
                if ru is not None and not terminal:
                    lu[t] += np.einsum("ki,kij->kj", lam, ru)
    return adjoint(expansion._replace(lx=lx, lu=lu))[1]


def _gradient(solution: Solution) -> Iterator[str]:
    if solution.problem is None:
        yield f"Largest gradient entry: {solution.gradient_norm:.2g}."
        return
    with np.errstate(all="ignore"):
        gradient = np.abs(lagrangian_gradient(solution))
    if np.isfinite(gradient).all():
        knot, control = np.unravel_index(np.argmax(gradient), gradient.shape)
        yield f"Largest gradient entry: {gradient.max():.2g}, of control {control} at knot {knot}."


def term_values(problem: Problem, xs: np.ndarray, us: np.ndarray) -> list[tuple[Term, np.ndarray]]:
    """Every term of the cost with what each knot contributes to it, (N+1,); the sum of all is the cost."""
    values = []
    for term in problem.objective.terms:
        rows = np.zeros(len(xs))
        knots = slice(-1, None) if term.terminal else (slice(0, len(us)) if term.knots is None else term.knots)
        rows[knots] = term.scale * np.asarray(term.cost.value(*term.points(xs, us)))
        values.append((term, rows))
    return values


def _costs(solution: Solution) -> Iterator[str]:
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
    more = f" and {_plural(len(largest) - FIRST_SHARES, 'other')}" if len(largest) > FIRST_SHARES else ""
    per_knot = np.sum([rows for _, rows in values], axis=0)
    knot = int(np.argmax(np.abs(per_knot)))
    last = " (the last)" if knot == len(solution.us) else ""
    yield f"Cost: {shares}{more}; the dearest knot is {knot}{last} with {100 * abs(per_knot[knot]) / whole:.3g} %."


# ------------------------------------------------------------------------------------------------ constraints
def _constraint(report: ConstraintReport) -> str:
    head = f"Constraint '{report.name}': "
    if not report.values.size:
        return head + "it holds at no knot."
    worst = f" at knot {report.worst_knot}" if report.violation > 0.0 else ""
    violation = f"largest violation {report.violation:.2g}{worst}; "
    if not report.active.any():
        return head + violation + "active nowhere."
    components, knots = (int(report.active.any(axis=axis).sum()) for axis in (0, 1))
    row, component = np.unravel_index(np.argmax(np.abs(report.multipliers)), report.multipliers.shape)
    where = f"{_plural(components, 'component')} at {knots} of {_plural(len(report.knots), 'knot')}"
    return (
        f"{head}{violation}active in {where}, largest multiplier {abs(report.multipliers[row, component]):.2g}, of "
        f"component {component} at knot {report.knots[row]}."
    )


# ------------------------------------------------------------------------------------------------ steps
def _steps(solution: Solution) -> Iterator[str]:
    accepted = [r for r in solution.log if r.alpha > 0.0]
    if solution.iterations:
        kinds = Counter(r.step for r in accepted)
        names = {"gauss_newton": "Gauss-Newton", "exact": "exact"}
        taken = ", ".join(f"{count} {names.get(kind, kind)}" for kind, count in kinds.items()) or "none"
        shortest = f"; the shortest had length {min(r.alpha for r in accepted):.2g}" if accepted else ""
        yield f"Steps taken: {taken}, of {solution.iterations} tried{shortest}."
    repaired = [r for r in solution.log if r.indefinite_knot >= 0]
    if repaired:
        yield (
            f"Quu was not positive definite in {_plural(len(repaired), 'iteration')} and was repaired, the last time "
            f"at knot {repaired[-1].indefinite_knot}; mu rose to {max(r.mu for r in solution.log):.1g} and ended at "
            f"{solution.log[-1].mu:.1g}."
        )


# ------------------------------------------------------------------------------------------------ advice
def _advice(solution: Solution, solver: Any) -> Iterator[str]:
    """What to try next, for this status alone."""
    system = "the dynamics" if solution.problem is None else type(solution.problem.system).__name__
    go_on = "go on from here with solver.solve(problem, warm_start=solution)"
    match solution.status:
        case Status.MAX_ITERATIONS:
            yield from _after_many(solution, solver, go_on)
        case Status.STOPPED_BY_CALLBACK | Status.INTERRUPTED:
            yield go_on
        case Status.LINE_SEARCH_FAILED:
            if _relative_promise(solution) < NEARLY_DONE:
                yield "a larger tolerance: what is left to gain is near the rounding of the cost"
            else:
                yield f"trajopt.check_derivatives(system, solution.xs[:-1], solution.us): {system} may have wrong ones"
                yield "trajopt.check_derivatives(cost, system=system): so may a cost"
                yield "smooth what has kinks or jumps, e.g. with trajopt.SmoothAbs"
        case Status.NOT_POSITIVE_DEFINITE:
            yield from _for_indefinite(solution, solver)
        case Status.INVALID_DERIVATIVES:
            yield "trajopt.check_derivatives of what is not finite, at solution.xs[t], solution.us[t] of that knot t"
            yield "keep trajectories away from that point, by constraints or by another start"
        case Status.DIVERGED:
            yield "start from other controls: smaller ones, or those that hold the initial state"
            yield "start from states, which needs no rollout: solver.solve(problem, xs=...)"
            yield f"a smaller time step or another integrator for {system}"
        case Status.INFEASIBLE:
            yield from _for_infeasible(solution)


def _state_regularization(solver: Any) -> bool:
    """Whether it is worth a try."""
    return getattr(solver, "regularization", "control") == "control"


def _after_many(solution: Solution, solver: Any, go_on: str) -> Iterator[str]:
    accepted = [r.alpha for r in solution.log if r.alpha > 0.0]
    if solution.consistent and solution.iterations and _relative_promise(solution) < NEARLY_DONE:
        yield "accept it: what is left to gain is a small part of the cost"
    yield f"raise max_iterations (it was {solution.iterations}), or {go_on}"
    if accepted and np.median(accepted) < SHORT and _state_regularization(solver):
        yield "regularization='state': most steps had to be short, and it keeps them near the trajectory"
    if solution.iterations >= MANY_STEPS and not any(r.step == "exact" for r in solution.log):
        yield "trajopt.DDP if this was trajopt.ILQR: exact steps need fewer iterations near the optimum"
    allowed = getattr(solver, "feasibility_tolerance", SMALL_VIOLATION)
    worst = _worst(solution)
    if worst is not None and worst.violation > allowed:
        yield f"a larger initial_penalty: constraint '{worst.name}' at knot {worst.worst_knot} was not met in time"


def _for_indefinite(solution: Solution, solver: Any) -> Iterator[str]:
    if solution.problem is not None:
        luu = expand(solution.problem, solution.xs, solution.us).luu
        free = np.flatnonzero((np.einsum("tii->ti", luu) <= 0.0).any(axis=0))
        if len(free):
            names = ", ".join(map(str, free))
            yield f"a trajopt.ControlCost: no cost is convex in control {names} at some knot"
        largest = max(float(np.abs(block).max()) for block in (luu, solution.Vxx))
        if largest > 1e12:
            yield f"scale costs: entries of their Hessians reach {largest:.1g}"
    limit = getattr(solver, "max_regularization", None)
    yield "a larger max_regularization" + ("" if limit is None else f" than {limit:.1g}")
    if _state_regularization(solver):
        yield "regularization='both': the Hessians in the states are raised too"


def _worst(solution: Solution) -> ConstraintReport | None:
    """The constraint that is violated most, None if none is."""
    worst = max(solution.constraints, key=lambda report: report.violation, default=None)
    return worst if worst is not None and worst.violation > 0.0 else None


def _for_infeasible(solution: Solution) -> Iterator[str]:
    worst = _worst(solution)
    if worst is None:
        return
    yield (
        f"constraint '{worst.name}' at knot {worst.worst_knot} cannot be met (violated by {worst.violation:.2g}): "
        "loosen it there, or start from states that meet it, solver.solve(problem, xs=...)"
    )
    for report in solution.constraints:
        if report is not worst and report.active.any():
            knots = int(report.active.any(axis=1).sum())
            yield (
                f"loosen '{report.name}', which may stand in its way: it is active at {knots} of "
                f"{_plural(len(report.knots), 'knot')}"
            )
    yield "a longer horizon: what cannot be met in time may be met later"
