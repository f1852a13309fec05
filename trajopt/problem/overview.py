"""Overview of a problem: its system, costs and constraints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from trajopt.interfaces.system import control_names, tangent_names
from trajopt.printed import new_table
from trajopt.problem.constraints import ControlBounds
from trajopt.problem.objective import runs

if TYPE_CHECKING:
    from rich.table import Table

    from trajopt.problem.problem import Problem

FIRST_RUNS = 3
"""Number of runs of knots that are listed."""


def heading(problem: Problem) -> str:
    """Name of the problem, number and length of its steps."""
    return f"{problem.name}: {problem.horizon} steps of {problem.system.dt:g} s"


def overview(problem: Problem) -> Table:
    """Table of the system, the costs and the constraints, with the knots at which they count."""
    from rich.markup import escape

    table = new_table(heading(problem))
    for name in ("part", "what", "knots"):
        table.add_column(name, overflow="fold")
    system = problem.system
    table.add_row("system", type(system).__name__, f"nx {system.nx}, nu {system.nu}")
    if problem.free_initial_state is not None:
        free = problem.free_initial_state.components
        names = tangent_names(system)
        which = "all" if len(free) == system.ndx else ", ".join(names[i] if names else str(i) for i in free)
        table.add_row("free initial state", escape(which), "0")
    if problem.parameters:
        names = control_names(system)
        which = ", ".join(names[i] if names else f"control {i}" for i in problem.parameters)
        table.add_row("parameters", escape(which), _in_words(np.arange(problem.horizon)))
    for part, name, knots in _parts(problem):
        table.add_row(part, escape(name), _in_words(knots))
    return table


def _parts(problem: Problem) -> Iterator[tuple[str, str, np.ndarray]]:
    """Kind, name and knots of costs, those of one name together, and of constraints."""
    N, costs = problem.horizon, {}
    for term in problem.objective.terms:
        part = "terminal cost" if term.terminal else "running cost"
        knots = [N] if term.terminal else range(N) if term.knots is None else term.knots.tolist()
        costs.setdefault((part, term.name), set()).update(knots)
    for (part, name), knots in costs.items():
        yield part, name, np.array(sorted(knots))
    for constraint in problem.constraints:
        if isinstance(constraint, ControlBounds):
            yield "constraint", "control bounds", np.arange(N)
        else:
            yield "constraint", constraint.name, constraint.knots(N, state_only=False)


def _in_words(knots: np.ndarray) -> str:
    parts = [str(start) if stop == start + 1 else f"{start} to {stop - 1}" for start, stop in runs(knots)]
    more = f" and {len(parts) - FIRST_RUNS} more" if len(parts) > FIRST_RUNS else ""
    return ", ".join(parts[:FIRST_RUNS]) + more
