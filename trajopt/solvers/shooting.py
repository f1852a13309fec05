"""Common base of iLQR and DDP: options, `solve` and `prepare`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import ArrayLike

from trajopt.problem.problem import Problem
from trajopt.results.records import WarmStart
from trajopt.results.solution import Solution
from trajopt.solvers.forward import Curvature
from trajopt.solvers.loop import Callback
from trajopt.solvers.options import LoopOptions, solver_options
from trajopt.solvers.prepared import PreparedSolver
from trajopt.solvers.solve import check_callback, solve
from trajopt.solvers.transcribed import TranscribedProblem
from trajopt.solvers.verbose import IterationLines


@solver_options
class ShootingSolver(LoopOptions):
    """Base of the solvers; they differ in the curvature of their steps."""

    def _curvature(self) -> tuple[Curvature, float | None]:
        """Curvature in exact sweeps, and the fraction of the cost below which the predicted decrease switches them on;
        None: never."""
        raise NotImplementedError

    def solve(
        self,
        problem: Problem,
        us: ArrayLike | None = None,
        xs: ArrayLike | None = None,
        callback: Callback | None = None,
        warm_start: WarmStart | Solution | None = None,
        time_limit: float | None = None,
    ) -> Solution:
        """Solve the problem.

        Parameters
        ----------
        problem : Problem
        us : (N, nu) array, optional
            Controls to start from instead of ``problem.us_init``.
        xs : (N+1, nx) array, optional
            States to start from, which need not follow from the controls: the solve closes the gaps (multiple
            shooting).  By default ``problem.xs_init``, and where there is none a rollout of the controls or, if that
            costs more than twice as much, the initial state at every knot (``solution.start`` says which).
        callback : callable, optional
            Called with a `Progress` after each iteration, not within a search for feasibility, which may take several;
            a true result stops the solve.
        warm_start : Solution or WarmStart, optional
            Controls, multipliers and penalties of an earlier solve (``solution``, ``solution.shifted()``).
        time_limit : float, optional
            Seconds after which no iteration is begun.  A solve that has not ended by then has the status "time_limit"
            and is the best iterate so far, the start if there is no other: without gaps rather than with, within the
            feasibility tolerance of constraints rather than not, then of the least cost.

        Returns
        -------
        Solution
            Its `status` says how the solve ended; no end is an exception.

        Raises
        ------
        TypeError, ValueError
            Naming the argument, the value it got and the one expected.
        """
        return self.solve_posed(problem, None, us, xs, callback, warm_start, time_limit)

    def solve_posed(
        self,
        problem: Problem,
        transcribed: TranscribedProblem | None,
        us: ArrayLike | None,
        xs: ArrayLike | None,
        callback: Callback | None,
        warm_start: WarmStart | Solution | None,
        time_limit: float | None = None,
    ) -> Solution:
        """`solve` with the problem already transcribed for this solver, None if it is not."""
        check_callback(callback)
        lines = IterationLines(callback) if self.verbose else None
        called = callback if lines is None else lines
        solution = solve(problem, self, *self._curvature(), us, xs, called, warm_start, transcribed, time_limit)
        if lines is not None:
            lines.end(solution)
        return solution

    def prepare(
        self, problem: Problem, parameters: str | Callable[[Any], Mapping[str, Any]] | None = None
    ) -> PreparedSolver:
        """Prepare to solve a problem repeatedly from new initial states; parameters: the values that the p of
        `PreparedSolver.prepare_step` sets."""
        return PreparedSolver(self, problem, parameters)
