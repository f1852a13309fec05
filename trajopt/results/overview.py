"""Overview of a solution: how the solve ended, and its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trajopt.printed import new_table
from trajopt.problem.overview import heading
from trajopt.results.advice import plural
from trajopt.results.records import SolutionData, Status

if TYPE_CHECKING:
    from rich.table import Table


PARTS = {"derivatives": "derivatives", "backward_pass": "backward pass", "rollouts": "rollouts"}


def overview(solution: SolutionData) -> Table:
    """Status, iterations, cost, gradient, gaps if there are some, constraints and time."""
    from rich.markup import escape

    problem = solution.problem
    title = "solution" if problem is None else heading(problem.name, problem.horizon, problem.system.dt)
    table = new_table(title, header=False)
    table.add_column("what", overflow="fold")
    table.add_column("value", overflow="fold")
    local = ", near this trajectory" if solution.status == Status.INFEASIBLE else ""
    table.add_row("status", f"{'' if solution.converged else '[red]'}{solution.status}{local}")
    for what, value in _rows(solution):
        table.add_row(escape(what), escape(value))
    return table


def _rows(solution: SolutionData) -> Iterator[tuple[str, str]]:
    yield "iterations", str(solution.iterations)
    yield "cost", f"{solution.cost:.9g}"
    yield "gradient norm", f"{solution.gradient_norm:.1e}"
    if not solution.consistent:
        yield "largest gap", f"{solution.largest_gap:.1e}"
    for report in solution.constraints:
        violated = f", violated by {report.violation:.1e}" if report.violation > 0.0 else ""
        yield report.name, f"active at {plural(int(report.active.any(axis=1).sum()), 'knot')}{violated}"
    parts = ", ".join(f"{name} {milliseconds(solution.timings[part])}" for part, name in PARTS.items())
    yield "time", f"{milliseconds(solution.timings['total'])} ms: {parts}"


def milliseconds(seconds: float) -> str:
    """Milliseconds with three digits, or all digits of a whole number."""
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"
