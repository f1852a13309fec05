"""Overview of a problem: its system, costs and constraints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trajopt.interfaces.system import System, control_names, tangent_names
from trajopt.printed import new_table
from trajopt.problem.constraints import ControlBounds
from trajopt.problem.objective import Objective, runs

if TYPE_CHECKING:
    from rich.table import Table

FIRST_RUNS = 3
"""Number of runs of knots that are listed."""


def heading(name: str, horizon: int, dt: float) -> str:
    """Name of the problem, number and length of its steps."""
    return f"{name}: {horizon} steps of {dt:g} s"


def overview(
    name: str, system: System, horizon: int, objective: Objective, constraints: Sequence[Any],
    free: tuple[int, ...] | None, parameters: tuple[int, ...],
) -> Table:  # fmt: skip
    """Table of the system, the costs and the constraints, with the knots at which they count.

    free: components of the initial state that are free, None for a given one; parameters: controls that are one number
    over the whole horizon.
    """
    from rich.markup import escape

    table = new_table(heading(name, horizon, system.dt))
    for column in ("part", "what", "knots"):
        table.add_column(column, overflow="fold")
    table.add_row("system", type(system).__name__, f"nx {system.nx}, nu {system.nu}")
    if free is not None:
        names = tangent_names(system)
        which = "all" if len(free) == system.ndx else ", ".join(names[i] if names else str(i) for i in free)
        table.add_row("free initial state", escape(which), "0")
    if parameters:
        names = control_names(system)
        which = ", ".join(names[i] if names else f"control {i}" for i in parameters)
        table.add_row("parameters", escape(which), _in_words(np.arange(horizon)))
    for part, label, knots in _parts(horizon, objective, constraints):
        table.add_row(part, escape(label), _in_words(knots))
    return table


def _parts(N: int, objective: Objective, constraints: Sequence[Any]) -> Iterator[tuple[str, str, np.ndarray]]:
    """Kind, name and knots of costs, those of one name together, and of constraints."""
    costs: dict[tuple[str, str], set[int]] = {}
    for term in objective.terms:
        part = "terminal cost" if term.terminal else "running cost"
        knots = [N] if term.terminal else range(N) if term.knots is None else term.knots.tolist()
        costs.setdefault((part, term.name), set()).update(knots)
    for (part, name), knots in costs.items():
        yield part, name, np.array(sorted(knots))
    for constraint in constraints:
        if isinstance(constraint, ControlBounds):
            yield "constraint", "control bounds", np.arange(N)
        else:
            yield "constraint", constraint.name, constraint.knots(N, state_only=False)


def _in_words(knots: np.ndarray) -> str:
    parts = [str(start) if stop == start + 1 else f"{start} to {stop - 1}" for start, stop in runs(knots)]
    more = f" and {len(parts) - FIRST_RUNS} more" if len(parts) > FIRST_RUNS else ""
    return ", ".join(parts[:FIRST_RUNS]) + more
