"""Trajectories from controls: one open-loop rollout, or all step lengths of a line search at once."""

import numpy as np

from trajopt.interfaces.stepwise import closed_loop_by_steps, rollouts_take
from trajopt.problem.problem import Problem
from trajopt.validation import check_shape, same_shape

ALPHAS = 0.5 ** np.arange(8)
"""Step lengths 1, 1/2, ..., 2^-7."""


def open_loop(problem: Problem, us: np.ndarray) -> np.ndarray:
    """States (N+1, nx) under the controls us (N, nu); not finite where they diverge."""
    with np.errstate(all="ignore"):
        return same_shape("rollout", problem.system.rollout(problem.x0, us), (len(us) + 1, problem.system.nx))


def closed_loop(
    problem: Problem,
    xs: np.ndarray,
    us: np.ndarray,
    k: np.ndarray,
    K: np.ndarray,
    gaps: np.ndarray | None = None,
    limits: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Candidates xs_new (8, N+1, nx) and us_new (8, N, nu) for u_new = u + alpha k + K (x_new - x).

    They keep the control limits (lower, upper), (N, nu) each, and the part 1 - alpha of the gaps.
    """
    system, policy = problem.system, (xs, us, k, K, ALPHAS)
    with np.errstate(all="ignore"):
        if gaps is None and limits is None:
            found = system.closed_loop_rollout(problem.x0, *policy)
        elif rollouts_take(type(system), "gaps", "lower", "upper"):
            found = system.closed_loop_rollout(problem.x0, *policy, gaps, *(limits or (None, None)))
        else:
            found = closed_loop_by_steps(system, problem.x0, *policy, gaps, *(limits or (None, None)))
    xs_new = check_shape("closed_loop_rollout, xs_new", found[0], (len(ALPHAS), *xs.shape))
    return xs_new, check_shape("closed_loop_rollout, us_new", found[1], (len(ALPHAS), *us.shape))
