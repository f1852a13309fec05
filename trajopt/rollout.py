"""Trajectories from controls: one open-loop rollout, or all step lengths of a line search at once."""

import numpy as np

from trajopt.backward_pass import SweepResult
from trajopt.problem import Problem

ALPHAS = 0.5 ** np.arange(8)
"""Step lengths 1, 1/2, ..., 2^-7."""


def open_loop(problem: Problem, us: np.ndarray) -> np.ndarray:
    """States (N+1, nx) under the controls us (N, nu); not finite where they diverge."""
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(problem.system.rollout(problem.x0, us), dtype=np.float64)


def closed_loop(problem: Problem, xs: np.ndarray, us: np.ndarray, sweep: SweepResult) -> tuple[np.ndarray, np.ndarray]:
    """Candidates xs_new (8, N+1, nx) and us_new (8, N, nu) for u_new = u + alpha k + K (x_new - x)."""
    with np.errstate(all="ignore"):
        return problem.system.closed_loop_rollout(problem.x0, xs, us, sweep.k, sweep.K, ALPHAS)
