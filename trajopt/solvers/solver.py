"""DDP with exact second-order dynamics, switched on late [Mayne 1966; Tassa 2012], and iLQR, which never has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import ArrayLike

from dynamics.printed import printable
from dynamics.simd import PROGRESS
from dynamics.validation import as_choice, as_not_negative
from trajopt.problem.problem import Problem
from trajopt.results.records import IterationRecord, Progress, WarmStart
from trajopt.results.solution import Solution
from trajopt.solvers.ddp import Callback
from trajopt.solvers.formulation import Curvature
from trajopt.solvers.options import LoopOptions, solver_options
from trajopt.solvers.prepared import PreparedSolver
from trajopt.solvers.solve import solve

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
        self._console.print(printable(text), markup=False)

    def __call__(self, progress: Progress) -> bool | None:
        """Print the record of the iteration; return the other callback's result."""
        self._print(line_of(progress.record))
        return None if self._callback is None else self._callback(progress)

    def end(self, solution: Solution) -> None:
        """Print the final iterate, from which no step was taken, and how the solve ended."""
        if solution.log:
            self._print(line_of(solution.log[-1]._replace(step="", alpha=0.0)))
        self._print(f"{solution.status}: {solution.message}")


@solver_options
class ShootingSolver(LoopOptions):
    """Base of the solvers; they differ in the curvature of their steps."""

    def _curvature(self) -> Curvature:
        """Curvature in exact sweeps; by default there are none."""
        return Curvature()

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
            a true result stops the solve.  Its arrays are read-only copies.
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
        if not (callback is None or callable(callback)):
            raise TypeError(f"callback: got {type(callback).__name__}, expected a function of the progress")
        lines = IterationLines(callback) if self.verbose else None
        called = callback if lines is None else lines
        solution = solve(problem, self, self._curvature(), us, xs, called, warm_start, time_limit)
        PROGRESS.finish()
        if lines is not None:
            lines.end(solution)
        return solution

    def prepare(
        self, problem: Problem, parameters: str | Callable[[Any], Mapping[str, Any]] | None = None
    ) -> PreparedSolver:
        """Prepare to solve a problem repeatedly from new initial states; parameters: the values that the p of
        `PreparedSolver.prepare_step` sets."""
        return PreparedSolver(self, problem, parameters)


@solver_options
class ILQR(ShootingSolver):
    """Iterative LQR: Gauss-Newton steps, without the curvature of dynamics and residuals [Li and Todorov 2004].

    It converges linearly; its Hessian is never indefinite if the costs' weights make Quu positive.

    Parameters
    ----------
    all
        See `LoopOptions`.

    Examples
    --------
    >>> problem = problems.make("pendulum")
    >>> first = trajopt.ILQR(max_iterations=3).solve(problem)
    >>> print(first.status)
    max_iterations
    >>> trajopt.ILQR().solve(problem, warm_start=first).converged
    True
    """


HESSIANS = ("parallel", "tensor")
COST_HESSIANS = ("exact", "gauss_newton")


@solver_options
class DDP(ShootingSolver):
    """Differential dynamic programming: iLQR far from an optimum, Newton's quadratic convergence near it.

    An iteration expands dynamics and costs along the trajectory, computes gains in a backward pass, and rolls out
    shorter and shorter steps until one lowers the cost as predicted.  Steps are those of `ILQR` until the predicted
    decrease is small, and contain the curvature of the dynamics from then on.  Limits of controls are kept by a box QP
    in the backward pass, other constraints by an augmented Lagrangian.  A solve that fails raises nothing:
    `Solution.status` names how it ended, and `Solution.explain` says what to try.

    Parameters
    ----------
    hessian : str
        Which multiplier lam contracts the curvature sum_i lam_i d2 f_i of the dynamics at each knot:
        "parallel" (default), Vx' known before the sweep, so that all knots are evaluated in one call: after a full
        step what the last sweep predicts, Vx' + Vxx' dx', else that of a Gauss-Newton sweep of the same iteration;
        "tensor", Vx' of the exact sweep itself (classical DDP), from the full tensors of all knots.
        In the inverse-dynamics formulation the multiplier is the gradient of the cost in the controls, and both are
        the same.
    cost_hessian : str
        "exact" (default) or "gauss_newton": curvature of the residuals in exact steps.
    switch_threshold : float
        Exact steps begin once the predicted decrease is below this fraction of the cost.  Default 1e-2.
    escape : bool
        Where a solve converges to a saddle, which no step without curvature leaves, go on along the direction in which
        the cost falls (default).  Saddles are looked for where the last sweep was no exact one, at the cost of a sweep.
    others
        See `LoopOptions`.

    Examples
    --------
    >>> problem = problems.make("pendulum")
    >>> solution = trajopt.DDP().solve(problem)
    >>> print(solution.status, solution.xs[-1, 0].round(2))  # rad, upright
    converged 3.14
    >>> policy = solution.policy()  # u = policy(t, x), with gains
    >>> again = trajopt.DDP(hessian="tensor").solve(problem, warm_start=solution)
    >>> again.iterations  # the solution is where it starts
    0
    """

    hessian: str = "parallel"
    cost_hessian: str = "exact"
    switch_threshold: float = 1e-2
    escape: bool = True

    def __post_init__(self):
        ShootingSolver.__post_init__(self)
        as_choice("hessian", self.hessian, HESSIANS)
        as_choice("cost_hessian", self.cost_hessian, COST_HESSIANS)
        as_not_negative("switch_threshold", self.switch_threshold)

    def _curvature(self) -> Curvature:
        return Curvature(self.hessian, self.cost_hessian, self.switch_threshold, self.escape)
