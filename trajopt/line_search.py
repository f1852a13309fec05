"""The first acceptable step length of 1, 1/2, ..., 2^-7.

The model of the cost along a direction is J + alpha d1 + alpha^2/2 d2.  A step is accepted if it achieves a small part
of what the model promises; where the model promises nothing (d2 large and positive), a still smaller part of the slope.
"""

from typing import NamedTuple

import numpy as np

from trajopt.backward_pass import SweepResult
from trajopt.expansions import total_cost
from trajopt.problem import Problem
from trajopt.rollout import ALPHAS, closed_loop

SUFFICIENT = 1e-4
ROUNDING = 1e-14
"""Relative error of a sum of costs: an increase this small is no increase."""


class Step(NamedTuple):
    """An accepted step: its length, and the trajectory and cost it leads to."""

    alpha: float
    xs: np.ndarray
    us: np.ndarray
    cost: float


def acceptable(cost: float, new_cost: float, alpha: float, d1: float, d2: float) -> bool:
    """True if new_cost is finite and low enough for a step of length alpha along a direction with (d1, d2)."""
    promised = -(alpha * d1 + 0.5 * alpha**2 * d2)
    needed = SUFFICIENT * max(promised, -SUFFICIENT * alpha * d1)
    return bool(new_cost <= cost - needed + ROUNDING * abs(cost))


def search(problem: Problem, xs: np.ndarray, us: np.ndarray, cost: float, sweep: SweepResult) -> Step | None:
    """Roll out all step lengths in one call, then take the longest acceptable one; None if there is none.

    Costs are evaluated one candidate at a time, longest step first; candidates that diverged cost inf and are refused.
    """
    candidates, controls = closed_loop(problem, xs, us, sweep)
    for alpha, xs_new, us_new in zip(ALPHAS, candidates, controls, strict=True):
        xs_new, us_new = np.array(xs_new, order="C"), np.array(us_new, order="C")
        new_cost = total_cost(problem, xs_new, us_new)
        if np.isfinite(new_cost) and acceptable(cost, new_cost, alpha, sweep.d1, sweep.d2):
            return Step(float(alpha), xs_new, us_new, new_cost)
    return None
