"""A family of solutions: the result of a continuation, how it ended, and its table."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dynamics.printed import in_brief
from trajopt.families.path import Path
from trajopt.printed import PrintedAsTable
from trajopt.results.sensitivity import Directional
from trajopt.results.solution import Solution

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

SHOWN = 3
"""Largest number of entries of p in a table."""


class Ending(StrEnum):
    """Status at the end of a continuation."""

    COMPLETE = "complete"
    FOLD = "fold"
    BIFURCATION = "bifurcation"
    INFEASIBLE = "infeasible"
    LOST = "lost"
    START_FAILED = "start_failed"
    MAX_POINTS = "max_points"


class SingularPoint(NamedTuple):
    """Estimate of the point at which the branch becomes singular: position on the path, p there, and the difference of
    the position from the estimate without the last point."""

    position: float
    p: Any
    spread: float

    def __repr__(self) -> str:
        return in_brief(self)


@dataclass(frozen=True)
class Continuation(PrintedAsTable):
    """Solutions along a path of parameters; prints as a table.  See `trajopt.continuation`.

    Attributes
    ----------
    status, message : how it ended, as a name and as a sentence: "complete"; "fold", the branch turns back;
        "bifurcation", it becomes singular without turning back; "infeasible", near the last point no solution meets the
        constraints further on; "lost", correctors find nothing near the prediction, however short the step;
        "start_failed", there is no strict minimum to begin with; "max_points"
    positions : (K,) positions on the path, i at path[i]
    parameters : K p, in the form of the path's
    numbers : (K, P) the numbers of p that change along the path
    labels : (P,) their names
    solutions : K Solutions
    tangents : K derivatives of xs, us and multipliers by the position, in the direction of the path
    smallest_eigenvalues : (K,) of the certificates, relative to the controls' own cost
    iterations : (K,) iterations of the corrector, from the prediction
    refused : (K,) numbers of longer steps that were rejected before each point
    pressing : (K,) numbers of active limits
    switched : (K,) numbers of limits that became active or inactive since the point before
    singular : SingularPoint, or None unless the status is "fold" or "bifurcation"
    cold, warm : the problems solved again, from their own start and from the solution before; see `with_restarts`
    """

    status: Ending
    message: str
    positions: np.ndarray = field(repr=False)
    parameters: tuple[Any, ...] = field(repr=False)
    numbers: np.ndarray = field(repr=False)
    labels: tuple[str, ...]
    solutions: tuple[Solution, ...] = field(repr=False)
    tangents: tuple[Directional, ...] = field(repr=False)
    smallest_eigenvalues: np.ndarray = field(repr=False)
    iterations: np.ndarray = field(repr=False)
    refused: np.ndarray = field(repr=False)
    pressing: np.ndarray = field(repr=False)
    switched: np.ndarray = field(repr=False)
    singular: SingularPoint | None
    solver: Any = field(repr=False)
    path: Path = field(repr=False)
    cold: tuple[Solution, ...] | None = field(default=None, repr=False)
    warm: tuple[Solution, ...] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return in_brief(
            self, status=str(self.status), points=len(self), positions=self.positions[[0, -1]] if len(self) else ()
        )

    def __len__(self) -> int:
        return len(self.solutions)

    @property
    def complete(self) -> bool:
        """True if the end of the path was reached."""
        return self.status is Ending.COMPLETE

    @property
    def costs(self) -> np.ndarray:
        """Costs (K,) of the solutions."""
        return np.array([solution.cost for solution in self.solutions])

    def with_restarts(self) -> Continuation:
        """The continuation with every problem solved again without predictions: from its own start (`cold`), and from
        the solution before it (`warm`)."""
        cold = tuple(self.solver.solve(one.problem) for one in self.solutions)
        before = (None, *self.solutions[:-1])
        pairs = zip(self.solutions, before, strict=True)
        warm = tuple(self.solver.solve(one.problem, warm_start=start) for one, start in pairs)
        return replace(self, cold=cold, warm=warm)

    def plot(self, path: str | FilePath | None = None) -> Figure:
        """Cost, eigenvalue, iterations and limits along the path; see `trajopt.plot_continuation`."""
        from trajopt.plotting import plot_continuation

        return plot_continuation(self, path)

    def table(self) -> Table:
        """Table with one row per point."""
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        name = self.solutions[0].problem.name if self.solutions else "continuation"
        title = f"{name}: {len(self)} points, {self.status}"
        table = Table(title=title, caption=self.message, box=SIMPLE_HEAD, show_edge=False, padding=0)
        again = {"cold": self.cold, "warm": self.warm}
        again = {heading: solved for heading, solved in again.items() if solved is not None}
        for heading in ("position", *self.labels[:SHOWN], "cost", "smallest\neigenvalue", "pressing\n(switched)",
                        "refused\nsteps", "itera-\ntions", *again):  # fmt: skip
            table.add_column(heading, justify="right", no_wrap=True)
        for k, solution in enumerate(self.solutions):
            table.add_row(
                f"{self.positions[k]:.5g}", *(f"{number:.5g}" for number in self.numbers[k, :SHOWN]),
                f"{solution.cost:.8g}", f"{self.smallest_eigenvalues[k]:.3g}",
                f"{self.pressing[k]} ({self.switched[k]})", str(self.refused[k]), str(self.iterations[k]),
                *(_as_iterations(solved[k], solution) for solved in again.values()),
            )  # fmt: skip
        return table


def _as_iterations(again: Solution, solution: Solution) -> str:
    """The number of iterations; "worse" or "better" if another minimum was found, "failed" if none."""
    if not again.converged:
        return "[red]failed"
    off = again.cost - solution.cost
    if abs(off) <= 1e-6 * abs(solution.cost):
        return str(again.iterations)
    return f"{again.iterations} ({'worse' if off > 0.0 else 'better'})"
