"""Starts: controls perturbed around the problem's own first guess, and the states that they lead to."""

import numpy as np

from experiments.constraints.statement import Statement


def controls(statement: Statement, number: int, seed: int) -> np.ndarray:
    """Controls (N, nu) of a start, within their limits; a function of the seed and its number alone."""
    rng = np.random.default_rng([seed, number])
    us = statement.us_init
    return np.clip(us + rng.standard_normal(us.shape) * np.asarray(statement.spread), statement.lower, statement.upper)


def states(statement: Statement, us: np.ndarray) -> np.ndarray:
    """States (N+1, nx) that the controls lead to, x0 held where these are not finite: for solvers that need some."""
    xs = statement.rollout(us)
    return xs if np.isfinite(xs).all() else np.tile(np.array(statement.x0), (statement.horizon + 1, 1))
