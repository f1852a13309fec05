"""Several solvers on one problem, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import nan
from typing import TYPE_CHECKING, Protocol

from numpy.typing import ArrayLike

from dynamics.printed import in_brief
from trajopt.printed import PrintedAsTable, new_table
from trajopt.problem.problem import Problem, check_problem, heading
from trajopt.results.between_knots import in_short, notable_violation
from trajopt.results.discretization import in_short as error_in_short
from trajopt.results.discretization import notable_error
from trajopt.results.overview import Reported, milliseconds
from trajopt.results.records import Status
from trajopt.results.solution import Solution

if TYPE_CHECKING:
    from rich.table import Table


class Solver(Protocol):
    """Anything with the `solve` of `ILQR` and `DDP`."""

    def solve(self, problem: Problem, us: ArrayLike | None = None) -> Solution:
        """Solve the problem from the controls us, or from the problem's own."""
        ...


@dataclass(frozen=True)
class Comparison(PrintedAsTable, Reported, Mapping[str, Solution]):
    """Solutions by solver name, in the order given; prints as a table."""

    problem: Problem
    solutions: dict[str, Solution]

    def __repr__(self) -> str:
        return in_brief(self, **{name: str(solution.status) for name, solution in self.solutions.items()})

    def __getitem__(self, name: str) -> Solution:
        return self.solutions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.solutions)

    def __len__(self) -> int:
        return len(self.solutions)

    @property
    def converged(self) -> bool:
        """True if every solver converged."""
        return all(solution.converged for solution in self.solutions.values())

    def _notes(self) -> Iterator[str]:
        """Footnotes: infeasibility is local; plans whose integrator error is large; constraints violated between
        knots."""
        for name, solution in self.solutions.items():
            if solution.status == Status.INFEASIBLE:
                yield f"{name}: infeasible near the trajectory where it ended, see explain() for other starts"
            error = notable_error(solution)
            if error is not None:
                yield f"{name}: {error_in_short(error)}, see explain()"
            yield from (f"{name}: {broken}, see explain()" for broken in in_short(notable_violation(solution)))

    def table(self) -> Table:
        """Status, iterations, cost, final gradient norm, and wall-clock time with its split, one row per solver."""
        from rich.markup import escape

        title = heading(self.problem.name, self.problem.horizon, self.problem.system.dt)
        table = new_table(title, "\n".join(["times in milliseconds", *self._notes()]))
        table.add_column("solver", no_wrap=True)
        table.add_column("status", overflow="fold")
        for name in (
            "itera-\ntions", "cost", "gradient\nnorm", "total", "deriva-\ntives", "backward\npass", "rollouts",
        ):  # fmt: skip
            table.add_column(name, justify="right", no_wrap=True)
        for name, s in self.solutions.items():
            style = "" if s.converged else "[red]"
            parts = (s.timings.get(part, nan) for part in ("total", "derivatives", "backward_pass", "rollouts"))
            table.add_row(
                escape(name), f"{style}{s.status}", str(s.iterations), f"{s.cost:.9g}", f"{s.gradient_norm:.1e}",
                *map(milliseconds, parts),
            )  # fmt: skip
        return table


def compare(problem: Problem, solvers: Mapping[str, Solver], us: ArrayLike | None = None) -> Comparison:
    """Solve the problem with each solver from the same controls.

    Each solver runs twice and the second run is reported: the first may compile kernels and warms caches, and as solves
    are deterministic the second returns the same numbers with honest timings.

    Parameters
    ----------
    problem : Problem
    solvers : dict of name to solver, e.g. ``{"ilqr": ILQR(), "ddp": DDP()}``
    us : (N, nu) array, optional
        Controls to start from instead of ``problem.us_init``.

    Examples
    --------
    >>> solutions = trajopt.compare(problems.make("pendulum"), {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()})
    >>> solutions.converged  # print(solutions) shows iterations, costs and times
    True
    >>> solutions["ddp"].iterations < solutions["ilqr"].iterations
    True
    """
    if not isinstance(solvers, Mapping) or not solvers:
        raise TypeError(f"solvers: got {solvers!r}, expected a non-empty dict of name to solver")
    check_problem(problem)
    for name, solver in solvers.items():
        if isinstance(solver, type) or not callable(getattr(solver, "solve", None)):
            raise TypeError(f"solvers[{name!r}]: got {solver!r}, expected a solver such as trajopt.DDP()")
    start = problem.us_init if us is None else problem.controls("us", us)
    solutions = {}
    for name, solver in solvers.items():
        for _ in range(2):
            solutions[name] = solver.solve(problem, start)
            if solutions[name].status is Status.INTERRUPTED:  # not of that solve alone
                raise KeyboardInterrupt
    return Comparison(problem, solutions)
