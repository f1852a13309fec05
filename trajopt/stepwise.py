"""Closed-loop rollouts for any system, one call of `step` per knot with all step lengths in a batch.

A system that compiles its rollouts is many times faster; this is what serves all others.
"""

import numpy as np

from trajopt.system import System


def closed_loop_by_steps(
    system: System,
    x0: np.ndarray,
    xs: np.ndarray,
    us: np.ndarray,
    k: np.ndarray,
    K: np.ndarray,
    alphas: np.ndarray,
    gaps: np.ndarray | None = None,
    lower: np.ndarray | None = None,
    upper: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """What `System.closed_loop_rollout` returns, by `step`, `difference` and `integrate` alone."""
    A, N = len(alphas), len(us)
    X, U = np.empty((A, N + 1, system.nx)), np.empty((A, N, system.nu))
    left = (1.0 - np.asarray(alphas))[:, None]
    X[:, 0] = x0 if gaps is None else system.integrate(np.tile(x0, (A, 1)), -left * gaps[0])
    for t in range(N):
        dx = system.difference(np.tile(xs[t], (A, 1)), X[:, t])
        U[:, t] = us[t] + np.multiply.outer(alphas, k[t]) + dx @ K[t].T
        if lower is not None and upper is not None:
            np.clip(U[:, t], lower[t], upper[t], out=U[:, t])
        X[:, t + 1] = system.step(X[:, t], U[:, t])
        if gaps is not None:
            X[:, t + 1] = system.integrate(X[:, t + 1], -left * gaps[t + 1])
    return X, U
