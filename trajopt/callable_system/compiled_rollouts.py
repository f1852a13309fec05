"""Compiled loops over steps: batches of single steps, and closed loops for every step length."""

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numba import njit

from trajopt.callable_system.compiled_functions import KEPT, OPTIONS, finite
from trajopt.callable_system.compiled_steps import CompiledPlant, step_kernel


@lru_cache(KEPT)
def steps(plant: CompiledPlant) -> Callable:
    """advance(h, X, U, X_next): one step from every point; NaN from points that are not finite."""
    step, numbers = step_kernel(plant)

    @njit(**OPTIONS)
    def advance(h, X, U, X_next):
        work = np.empty(numbers(X.shape[1], U.shape[1]))
        for t in range(X.shape[0]):
            if finite(X[t]) and finite(U[t]):
                step(h, X[t], U[t], work, X_next[t])
            else:
                X_next[t, :] = np.nan

    return advance


@lru_cache(KEPT)
def closed_loops(plant: CompiledPlant) -> Callable:
    """roll_out(h, x0, xs, us, k, K, alphas, gaps, lower, upper, shift, pull, X, U), as `System.closed_loop_rollout`.

    x0 (A, nx).  K with no rows: open loop; gaps, lower or pull with no rows: none.
    """
    step, numbers = step_kernel(plant)

    @njit(**OPTIONS)
    def roll_out(h, x0, xs, us, k, K, alphas, gaps, lower, upper, shift, pull, X, U):
        nx, N, nu = x0.shape[1], us.shape[0], us.shape[1]
        feedback, gapped, limited = K.shape[0] > 0, gaps.shape[0] > 0, lower.shape[0] > 0
        shifted = pull.shape[0] > 0
        work = np.empty(numbers(nx, nu))
        for a in range(alphas.shape[0]):
            left = 1.0 - alphas[a]
            for i in range(nx):
                X[a, 0, i] = x0[a, i] - left * gaps[0, i] if gapped else x0[a, i]
            for t in range(N):
                x, u, x_next = X[a, t], U[a, t], X[a, t + 1]
                for i in range(nu):
                    value = us[t, i]
                    if feedback:
                        value += alphas[a] * k[t, i]
                        if shifted:
                            value += shift[a] * pull[t, i]
                        for j in range(nx):
                            value += K[t, i, j] * (x[j] - xs[t, j])
                    if limited:  # by comparison, so that NaN stays NaN
                        if value < lower[t, i]:
                            value = lower[t, i]
                        elif value > upper[t, i]:
                            value = upper[t, i]
                    u[i] = value
                if finite(x) and finite(u):
                    step(h, x, u, work, x_next)
                else:
                    x_next[:] = np.nan
                if gapped:
                    for i in range(nx):
                        x_next[i] -= left * gaps[t + 1, i]

    return roll_out
