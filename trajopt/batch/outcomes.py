"""Outcomes of many problems, one for each parameter, in their order."""

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from dynamics.printed import in_brief
from trajopt.printed import PrintedAsTable, new_table
from trajopt.problem.problem import Problem
from trajopt.results.records import Status
from trajopt.results.results_files import load_solution, solution_bytes
from trajopt.results.solution import Solution

if TYPE_CHECKING:
    from rich.table import Table


class StoredSolution:
    """A solution as the content of its file, from which it is read when it is first asked for; its status, cost,
    iterations and seconds are known before."""

    def __init__(self, solution: Solution) -> None:
        self.status, self.cost, self.iterations = Status(solution.status), solution.cost, solution.iterations
        self.timings = {"total": seconds_of(solution)}
        self._kept: bytes | Solution = solution_bytes(solution)

    def read(self) -> Solution:
        """The solution, the same object each time."""
        if isinstance(self._kept, bytes):
            self._kept = load_solution(Solution, BytesIO(self._kept))
        return self._kept

    def content(self) -> bytes:
        """The content of its file."""
        return self._kept if isinstance(self._kept, bytes) else solution_bytes(self._kept)


def seconds_of(solution: Solution | StoredSolution) -> float:
    """Seconds that a solve took, NaN if they are not known."""
    return solution.timings.get("total", math.nan)


@dataclass(frozen=True)
class Outcome:
    """Outcome of one parameter.

    Attributes
    ----------
    parameter : the parameter as given
    stored : Solution, the content of its file, or None
        What `solution` returns or is read from.
    error : str or None
        "Type: message" of the error in make_problem or the solver, or of the worker's loss.
    traceback : str or None
        Traceback of the error.
    seconds : float
        Seconds in the worker for the solve, or until the error (NaN if not known).
    """

    parameter: Any
    stored: Solution | StoredSolution | None = field(repr=False)
    error: str | None
    traceback: str | None
    seconds: float

    def __repr__(self) -> str:
        return in_brief(self, "parameter", "seconds", ending=self.ending)

    @property
    def solution(self) -> Solution | None:
        """The solution without its problem (`ManySolutions.with_problem` makes it again); None if there is an error.

        That of another process is read from the bytes that it sent when it is first asked for; `ending`, `cost` and
        `iterations` need no such reading."""
        return self.stored.read() if isinstance(self.stored, StoredSolution) else self.stored

    @property
    def converged(self) -> bool:
        """True if there is a solution and it converged."""
        return self.stored is not None and self.stored.status == Status.CONVERGED

    @property
    def ending(self) -> str:
        """The solution's status, or the kind of error, e.g. "ValueError"."""
        return str(self.error).partition(":")[0] if self.stored is None else str(self.stored.status)

    @property
    def cost(self) -> float:
        """The solution's cost; NaN if there is none."""
        return math.nan if self.stored is None else self.stored.cost

    @property
    def iterations(self) -> int:
        """Iterations of the solution; 0 if there is none."""
        return 0 if self.stored is None else self.stored.iterations


@dataclass(frozen=True)
class ManySolutions(PrintedAsTable, Sequence[Outcome]):
    """Outcomes in the order of the parameters; prints as a table of how the solves ended."""

    outcomes: tuple[Outcome, ...] = field(repr=False)
    make_problem: Callable[[Any], Problem] | None
    folder: Path | None

    def __repr__(self) -> str:
        return in_brief(self, problems=len(self), success_rate=self.success_rate)

    def __len__(self) -> int:
        return len(self.outcomes)

    @overload
    def __getitem__(self, index: int) -> Outcome: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Outcome, ...]: ...
    def __getitem__(self, index: int | slice) -> Outcome | tuple[Outcome, ...]:
        return self.outcomes[index]

    @property
    def solutions(self) -> tuple[Solution | None, ...]:
        """The solution of each parameter, None where there was an error."""
        return tuple(outcome.solution for outcome in self.outcomes)

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The outcomes with an error."""
        return tuple(outcome for outcome in self.outcomes if outcome.error is not None)

    @property
    def success_rate(self) -> float:
        """Fraction of the parameters whose solve converged, 0 to 1."""
        return sum(outcome.converged for outcome in self.outcomes) / len(self.outcomes)

    def with_problem(self, index: int) -> Solution:
        """The solution of a parameter with its problem, made again, for plots and further solves.

        Raises ValueError if there is no solution, or no make_problem, as after `load_many`.
        """
        outcome = self.outcomes[index]
        solution = outcome.solution
        if solution is None:
            raise ValueError(f"index: got {index}, whose problem was not solved ({outcome.ending})")
        if self.make_problem is None:
            raise ValueError("make_problem: got none, as of trajopt.load_many, expected outcomes of solve_many")
        return replace(solution, problem=self.make_problem(outcome.parameter))

    def table(self) -> "Table":
        """Counts of the solves by status, with median iterations and seconds and the range of costs."""
        from rich.markup import escape

        table = new_table(f"{len(self)} problems, {100 * self.success_rate:.0f} % converged")
        table.add_column("ending", overflow="fold")
        for heading in ("problems", "median\niterations", "median\nseconds", "lowest\ncost", "highest\ncost"):
            table.add_column(heading, justify="right", no_wrap=True)
        endings = defaultdict(list)
        for outcome in self.outcomes:
            endings[outcome.ending].append(outcome)
        for ending, outcomes in sorted(endings.items(), key=lambda item: -len(item[1])):
            solved = [outcome for outcome in outcomes if outcome.stored is not None]
            seconds = [outcome.seconds for outcome in outcomes if not math.isnan(outcome.seconds)]
            costs = [outcome.cost for outcome in solved]
            table.add_row(
                escape(ending),
                str(len(outcomes)),
                f"{np.median([outcome.iterations for outcome in solved]):g}" if solved else "",
                f"{np.median(seconds):.3g}" if seconds else "",
                *(f"{cost:.6g}" for cost in (min(costs), max(costs)) if costs) if costs else "",
            )
        return table


class SolveManyInterrupted(KeyboardInterrupt):
    """Ctrl-C during `solve_many`, or a folder that can no longer be written, as on a full disk.

    `results` holds the outcomes that arrived before; the error of the others is "Interrupted".
    """

    def __init__(self, finished: int, results: ManySolutions, reason: str = "") -> None:
        super().__init__(f"{finished} of {len(results)} problems were finished{reason}")
        self.results = results
