"""DDP with exact second-order dynamics, switched on late [Mayne 1966; Tassa 2012]."""

from dynamics.validation import as_choice, as_not_negative
from trajopt.solvers.forward import Curvature
from trajopt.solvers.options import solver_options
from trajopt.solvers.shooting import ShootingSolver

HESSIANS = ("parallel", "value", "costate", "tensor")
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
        "value", Vx' of the exact sweep itself, one knot after another (classical DDP);
        "costate", the costate of the trajectory (stagewise Newton), indefinite more often far from an optimum;
        "tensor", as "value" with the full tensors of all knots computed beforehand.
        In the inverse-dynamics formulation the multiplier is the gradient of the cost in the controls, and all four
        are the same.
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
    >>> again = trajopt.DDP(hessian="costate").solve(problem, warm_start=solution)
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

    def _curvature(self) -> tuple[Curvature, float | None]:
        return Curvature(self.hessian, self.cost_hessian, self.escape), self.switch_threshold
