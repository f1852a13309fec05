"""iLQR: Gauss-Newton steps only, the curvature of dynamics and residuals left out [Li and Todorov 2004; Tassa 2012]."""

from trajopt.solvers.forward import Curvature
from trajopt.solvers.options import solver_options
from trajopt.solvers.shooting import ShootingSolver


@solver_options
class ILQR(ShootingSolver):
    """Iterative LQR.  Converges linearly; its Hessian is never indefinite if the costs' weights make Quu positive.

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

    def _curvature(self) -> tuple[Curvature, float | None]:
        return Curvature(), None
