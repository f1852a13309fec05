"""Perturbed first controls."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

import trajopt


def perturbed(problem: trajopt.Problem, spread: ArrayLike, rng: np.random.Generator) -> trajopt.Problem:
    """The problem with normal noise of this standard deviation, a number or one for each control, in `us_init`."""
    us = np.asarray(problem.us_init)
    return replace(problem, us_init=us + np.asarray(spread) * rng.standard_normal(us.shape))
