"""Overview of a solution: how the solve ended, and its result."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trajopt.printed import new_table
from trajopt.problem.problem import heading
from trajopt.results.advice import plural
from trajopt.results.conflict import conflict
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
    weights = conflict(solution)
    pressing = weights or [report.multipliers for report in solution.constraints]
    for report, rows in zip(solution.constraints, pressing, strict=True):
        violated = f", violated by {report.violation:.1e}" if report.violation > 0.0 else ""
        knots = plural(int(rows.any(axis=1).sum()), "knot")
        yield report.name, f"{'in conflict' if weights else 'active'} at {knots}{violated}"
    times = solution.timings  # of any solver, and of any file
    parts = ", ".join(f"{name} {milliseconds(times[part])}" for part, name in PARTS.items() if part in times)
    yield "time", f"{milliseconds(times.get('total', math.nan))} ms{': ' * bool(parts)}{parts}"


def milliseconds(seconds: float) -> str:
    """Milliseconds with three digits, or all digits of a whole number."""
    return f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


# --------------------------------------------------------------------------------------------
# Base of results that write a report of themselves.


class Reported:
    """Base of a solution and of several solutions of one problem."""

    def report(self, path: str | Path, solver: Any = None) -> Path:
        """Write a report of the solve: one HTML file that opens in any browser, without loading other files.

        It contains the problem in words, how each solver ended, second-order conditions where they can be computed
        (`Solution.certificate`), an animation in space, motion and convergence against time, constraints with
        multipliers and worst knots, `Solution.explain`, times, versions, and the machine.  A system that cannot be
        drawn has no animation; for several solutions it shows the cheapest feasible one.

        Parameters
        ----------
        path : file to write, .html
            Its folder is made as needed, and it appears complete or not at all.
        solver : DDP or ILQR, optional, or a mapping of names to them for several solutions
            The solver used, which makes the explanation more precise.

        Returns
        -------
        path

        Raises
        ------
        ValueError : another extension, a solution without its problem, or unknown names of solvers.
        TypeError : the argument is no path or no solver.
        """
        from trajopt.plotting import write_report

        return write_report(self, path, solver)
