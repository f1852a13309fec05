"""A problem and its solution in words and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from trajopt.capabilities import StateNames, capability
from trajopt.interfaces.system import control_names, knot_durations
from trajopt.plotting.report.markup import Html, folded, joined, table, tag
from trajopt.plotting.style import LONE
from trajopt.problem.problem import Problem
from trajopt.problem.term import Term
from trajopt.results.advice import called, plural
from trajopt.results.explanation import term_values
from trajopt.results.records import ConstraintReport
from trajopt.results.solution import Solution

LISTED = 200
"""Rows of a table of iterations or components, at most."""
THOUSANDS = 1e6


def number(value: float, digits: int = 6) -> str:
    """As people write it, with a true minus, and thousands without a power of ten."""
    text = f"{float(value) + 0.0:.{digits}g}"
    text = f"{float(text):.0f}" if "e+" in text and abs(value) < THOUSANDS else text
    return text.replace("-", "\N{MINUS SIGN}").replace("inf", "∞")


def between(values: np.ndarray, digits: int = 3) -> str:
    """One number, or the least and the largest."""
    low, high = float(np.min(values)), float(np.max(values))
    return number(low, digits) if low == high else f"{number(low, digits)} … {number(high, digits)}"


# ------------------------------------------------------------------------------------------------ the problem
def problem_in_words(problem: Problem, solution: Solution) -> Html:
    """System, sizes and horizon, costs and constraints."""
    return joined([
        tag("p", _system(problem), " ", _time(problem, solution)),
        tag("p", "It is to minimise the sum of these costs, running ones over time:"),
        _costs(problem, solution),
        *_limits(solution),
        folded("The system in full", tag("p", tag("code", repr(problem.system)))),
        folded("States and controls, component by component", _components(problem, solution)),
    ])  # fmt: skip


def _system(problem: Problem) -> str:
    system = problem.system
    tangent = "" if system.ndx == system.nx else f", on a manifold of {system.ndx} dimensions"
    kind = type(system).__name__
    return (
        f"The system is a{'n' * (kind[0] in 'AEIOU')} {kind}: {plural(system.nx, 'number')} to a state{tangent}, "
        f"{plural(system.nu, 'control')}."
    )


def _time(problem: Problem, solution: Solution) -> str:
    """How long the steps are."""
    planned, taken = (knot_durations(problem.system, problem.horizon, xs) for xs in (None, solution.xs))
    steps, whole = plural(problem.horizon, "step"), number(float(taken.sum()))
    if not np.array_equal(planned, taken):
        return f"It takes {steps} whose durations are free; here {between(taken)} s, {whole} s in all."
    lasting = planned[planned > 0.0]
    idle = "" if len(lasting) == len(planned) else f", {len(planned) - len(lasting)} of which take no time"
    return f"It takes {steps} of {between(lasting)} s{idle}, {whole} s in all."


def _where(term: Term, horizon: int) -> str:
    if term.terminal:
        return "at the end"
    return knots_in_words(np.arange(horizon) if term.knots is None else term.knots, horizon)


def knots_in_words(knots: np.ndarray, horizon: int) -> str:
    """'knots 6 to 24', and how many of them if some are left out."""
    if not len(knots):
        return "nowhere"
    first, last = int(knots[0]), int(knots[-1])
    if first == last:
        return "at the end" if first == horizon else f"knot {first}"
    some = "" if len(knots) == last - first + 1 else f"{len(knots)} of "
    return f"{some}knots {first} to {last}"


def _costs(problem: Problem, solution: Solution) -> Html:
    """Every term, where it counts, what it weighs and what it costs."""
    values = [(term, float(rows.sum())) for term, rows in term_values(problem, solution.xs, solution.us)]
    whole = sum(abs(value) for _, value in values)
    rows = []
    for term, value in values:
        weights = getattr(term.cost, "weights", None)
        share = f"{number(100.0 * abs(value) / whole, 3)} %" if 0.0 < whole < np.inf else ""
        weighed = "" if weights is None or not np.size(weights) else between(np.asarray(weights))
        rows.append([term.name, _where(term, problem.horizon), weighed, number(value), share])
    return table(["cost", "where", "weights", "value", "share"], rows, words=2)


def _limits(solution: Solution) -> Iterator[Html]:
    if not solution.constraints:
        yield tag("p", "There are no constraints.")
        return
    horizon = len(solution.us)
    yield tag("p", "It is to keep these constraints:")
    yield table(
        ["constraint", "where", "rows", "lower", "upper"],
        (
            [report.name, knots_in_words(report.knots, horizon), str(report.values.shape[1]), *_sides(report)]
            for report in solution.constraints
        ),
        words=2,
    )


def _sides(report: ConstraintReport) -> tuple[str, str]:
    return ("", "") if not report.values.size else (between(report.lower), between(report.upper))


def _components(problem: Problem, solution: Solution) -> Html:
    """Every number of states and controls: start, end, least and largest."""
    system, named = problem.system, capability(problem.system, StateNames)
    states = [f"x[{i}]" for i in range(system.nx)] if named is None else named.state_names
    controls = control_names(system) or [f"u[{i}]" for i in range(system.nu)]
    rows = [
        [name, *(number(x, 4) for x in (column[0], column[-1], column.min(), column.max()))]
        for names, values in ((states, solution.xs), (controls, solution.us))
        for name, column in zip(names, values.T, strict=True)
    ]
    return table(["component", "first", "last", "least", "largest"], rows[:LISTED])


# ------------------------------------------------------------------------------------------------ the result
def result(solutions: Mapping[str, Solution]) -> Html:
    """A row for each solver."""
    headings = ["status", "iterations", "cost", "gradient norm", "violation", "gap"]
    rows = [
        [s.status, str(s.iterations), number(s.cost, 9),
         *(number(value, 2) for value in (s.gradient_norm, s.violation, s.largest_gap))]
        for s in solutions.values()
    ]  # fmt: skip
    return _by_solver(solutions, headings, rows, 1)


def seconds(solutions: Mapping[str, Solution]) -> Html:
    """Where the time of each went, milliseconds."""
    parts = list(next(iter(solutions.values())).timings)
    rows = [[number(1e3 * s.timings.get(part, np.nan), 3) for part in parts] for s in solutions.values()]
    return _by_solver(solutions, [part.replace("_", " ") + " [ms]" for part in parts], rows, 0)


def _by_solver(solutions: Mapping[str, Solution], headings: list[str], rows: list[list[str]], words: int) -> Html:
    """A table with a first column of names, unless there is but a solution without one."""
    if list(solutions) == [LONE]:
        return table(headings, rows, words)
    named = ([name, *row] for name, row in zip(solutions, rows, strict=True))
    return table(["solver", *headings], named, words + 1)


def iterations(solution: Solution) -> Html:
    """The log."""
    rows = [
        [str(r.iteration), r.step.replace("_", "-"), number(r.cost, 9),
         *(number(value, 2) for value in (r.gradient_norm, r.predicted_decrease, r.alpha, r.mu, r.violation, r.gap))]
        for r in solution.log[:LISTED]
    ]  # fmt: skip
    headings = ["iteration", "step", "cost", "gradient norm", "predicted decrease", "step length", "mu", "violation",
                "gap"]  # fmt: skip
    left = len(solution.log) - LISTED
    return joined([table(headings, rows, words=2), *([tag("p", f"And {left} more.")] if left > 0 else [])])


def constraints(solution: Solution) -> Html:
    """How each constraint is kept, where it is worst, and what it costs."""
    rows = [_constraint(report) for report in solution.constraints]
    headings = ["constraint", "most violated", "hardest pressed", "violation", "active", "multiplier", "penalty"]
    return table(headings, rows, words=3)


def _constraint(report: ConstraintReport) -> list[str]:
    if not report.values.size:
        return [report.name, "holds at no knot", "", "", "", "", ""]
    named = report.components
    worst = "" if report.violation == 0.0 else _place(named, report.worst_component, report.worst_knot)
    row, component = np.unravel_index(np.argmax(np.abs(report.multipliers)), report.multipliers.shape)
    pressed = _place(named, int(component), int(report.knots[row])) if report.active.any() else ""
    return [
        report.name, worst or "nowhere violated", pressed or "active nowhere", number(report.violation, 2),
        f"{int(report.active.sum())} of {report.active.size}", number(float(report.multipliers[row, component]), 3),
        number(report.penalty, 2) if report.penalty else "kept by a box",
    ]  # fmt: skip


def _place(names: tuple[str, ...], component: int, knot: int) -> str:
    return f"{called(names, component, 'component')} at knot {knot}"


def paragraphs(text: str) -> Html:
    """One for each line of what `Solution.explain` says, with those that continue it."""
    return joined([tag("p", line) for line in text.replace("\n  ", " ").split("\n")])
