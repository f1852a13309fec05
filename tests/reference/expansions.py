"""The expansion of a problem with all curvature, in arrays of its own."""

import numpy as np

from trajopt import Problem
from trajopt.backward.expansions import Expansion, settle_idle_controls, write_derivatives
from trajopt.interfaces.system import idle_knots
from trajopt.problem.objective import zero_blocks


def expand_exactly(
    problem: Problem, xs: np.ndarray, us: np.ndarray, multiplier: np.ndarray, cost_curvature: bool = True
) -> Expansion:
    """The curvature of the dynamics contracted with multiplier (N, ndx), and if asked for that of the costs."""
    system, N = problem.system, problem.horizon
    n, nu = system.ndx, system.nu
    first, blocks = (np.empty((N, n, n)), np.empty((N, n, nu))), zero_blocks(N, n, nu)
    write_derivatives(system, xs, us, *first, multiplier, blocks[2][:-1], *blocks[3:])
    problem.objective.accumulate(xs, us, blocks, blocks if cost_curvature else None)
    expansion = Expansion(*first, *blocks)
    settle_idle_controls(expansion, idle_knots(system))
    return expansion
