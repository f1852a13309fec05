"""A solve printed as lines of text, one for each iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trajopt.results.records import IterationRecord, Progress
from trajopt.results.solution import Solution

if TYPE_CHECKING:
    from trajopt.solvers.loop import Callback

HEADER = f"{'iteration':>9} {'cost':>16} {'violation':>10} {'gap':>10} {'gradient':>10} {'predicted':>10} " + (
    f"{'step':<12} {'length':>8} {'mu':>8} {'time':>8}"
)
"""Header of the columns: each line describes an iterate and the step tried from it (see `IterationRecord`)."""


def line_of(record: IterationRecord) -> str:
    """One line for an iteration, under the header."""
    length = f"{record.alpha:.2g}" if record.alpha > 0.0 else "none"
    return (
        f"{record.iteration:>9d} {record.cost:>16.9g} {record.violation:>10.2e} {record.gap:>10.2e} "
        f"{record.gradient_norm:>10.2e} {record.predicted_decrease:>10.2e} {record.step:<12} {length:>8} "
        f"{record.mu:>8.1e} {record.time:>7.3f}s"
    )


class IterationLines:
    """A callback that prints each iteration to stdout, as plain text where that is no terminal, and calls another
    callback."""

    def __init__(self, callback: Callback | None) -> None:
        from rich.console import Console

        self._callback = callback
        self._console, self._begun = Console(highlight=False, soft_wrap=True, force_jupyter=False), False

    def _print(self, text: str) -> None:
        if not self._begun:
            self._console.print(HEADER, style="bold", markup=False)
        self._begun = True
        self._console.print(text, markup=False)

    def __call__(self, progress: Progress) -> bool | None:
        """Print the record of the iteration; return the other callback's result."""
        self._print(line_of(progress.record))
        return None if self._callback is None else self._callback(progress)

    def end(self, solution: Solution) -> None:
        """Print the final iterate, from which no step was taken, and how the solve ended."""
        if solution.log:
            self._print(line_of(solution.log[-1]._replace(step="", alpha=0.0)))
        self._print(f"{solution.status}: {solution.message}")
