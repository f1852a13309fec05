"""iLQR: Gauss-Newton steps only, the curvature of dynamics and residuals left out [Li and Todorov 2004; Tassa 2012]."""

from typing import Any

from trajopt.problem import Problem
from trajopt.solution import Solution
from trajopt.solvers.loop import Callback, minimize
from trajopt.solvers.options import LoopOptions, solver_options


@solver_options
class ILQR(LoopOptions):
    """Iterative LQR.  Converges linearly; its Hessian is never indefinite if the costs' weights make Quu positive.

    Parameters
    ----------
    max_iterations, tolerance, absolute_tolerance, initial_regularization, max_regularization
        See `LoopOptions`.
    """

    def solve(self, problem: Problem, us: Any = None, callback: Callback | None = None) -> Solution:
        """Solve the problem.

        Parameters
        ----------
        problem : Problem
        us : (N, nu) array, optional
            Controls to start from instead of ``problem.us_init``.
        callback : callable, optional
            Called with a `Progress` after each iteration; a true result stops the solve.

        Returns
        -------
        Solution
            Its `status` says how the solve ended; no end is an exception.
        """
        start = problem.us_init.copy() if us is None else problem.controls("us", us)
        return minimize(problem, start, self, None, callback)
