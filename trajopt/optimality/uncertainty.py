"""Propagation of noise along a plan, and the Gaussian distribution whose mode the plan is.

Noise w_t of covariance W_t, tangent at x_{t+1}, under feedback K:

    P' = (fx + fu K) P (fx + fu K)' + W      cov u = K P K'
    E[J] - J = 1/2 tr Vxx_0 P_0 + 1/2 sum tr(Vxx_{t+1} W_t),   Vxx of the exact sweep, to second order

Laplace's approximation of p(us) ~ exp(- J / T) about a minimum: the inverse of the reduced Hessian, times T,

    P' = A P A' + T fu Quu^-1 fu',  A = fx + fu K      cov u = T Quu^-1 + K P K'      du = K dx + sqrt(T) L^-T xi

Controls on active limits do not move; active rows enter with the penalty of the factor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dynamics.printed import in_brief
from dynamics.validation import as_array, as_floats
from trajopt.optimality.kkt_system import KKTSystem


@dataclass(frozen=True)
class Covariance:
    """Covariances along a plan.

    Attributes
    ----------
    xs : (N+1, ndx, ndx), covariances of tangent vectors at the states
    us : (N, nu, nu), covariances of the controls
    cost_increase : expected cost less that of the plan, to second order; NaN where the plan is no certified minimum
    """

    xs: np.ndarray
    us: np.ndarray
    cost_increase: float = float("nan")

    def __repr__(self) -> str:
        largest = float(self.state_deviations.max(initial=0.0))
        return in_brief(self, cost_increase=self.cost_increase, largest_state_deviation=largest)

    @property
    def state_deviations(self) -> np.ndarray:
        """Standard deviations (N+1, ndx) of the states along tangents."""
        return np.sqrt(np.maximum(np.diagonal(self.xs, axis1=1, axis2=2), 0.0))

    @property
    def control_deviations(self) -> np.ndarray:
        """Standard deviations (N, nu) of the controls."""
        return np.sqrt(np.maximum(np.diagonal(self.us, axis1=1, axis2=2), 0.0))


def as_covariances(name: str, value: ArrayLike, n: int, knots: int | None) -> np.ndarray:
    """A covariance (n, n), or (knots, n, n), symmetric, without negative eigenvalues; ValueError otherwise."""
    given = as_floats(name, value)
    W = as_array(name, given, (n, n) if knots is None or given.ndim == 2 else (knots, n, n), copy=True)
    if np.abs(W - W.swapaxes(-1, -2)).max(initial=0.0) > 1e-9 * np.abs(W).max(initial=0.0):
        raise ValueError(f"{name}: got a matrix that is not symmetric")
    if W.size and np.linalg.eigvalsh(W).min() < -1e-9 * np.abs(W).max():
        raise ValueError(f"{name}: got a matrix with a negative eigenvalue, expected a covariance")
    return W if knots is None else np.broadcast_to(W, (knots, n, n))


def spread(
    fx: np.ndarray, fu: np.ndarray, K: np.ndarray, W: np.ndarray, P0: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Covariances of states (N+1, n, n) and controls (N, m, m) under feedback K (N, m, n)."""
    A, P = fx + fu @ K, [P0]
    for A_t, W_t in zip(A, W, strict=True):
        P.append(A_t @ P[-1] @ A_t.T + W_t)
    xs = np.array(P)
    return xs, K @ xs[:-1] @ K.swapaxes(1, 2)


@dataclass(frozen=True, repr=False)
class Laplace(Covariance):
    """The Gaussian distribution about a minimum; `sample` draws controls from it.

    log_determinant : log det of the reduced Hessian
    """

    log_determinant: float = 0.0
    system: Any = field(default=None, repr=False)
    temperature: float = 1.0

    def sample(self, rng: np.random.Generator, count: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """Draws (count, N+1, ndx) of tangents at the states and (count, N, nu) of changes of the controls, with the
        dynamics linearized about the plan."""
        from scipy.linalg import solve_triangular  # which is slow to import

        f, (N, n, m) = self.system.factor, self.system.e.fu.shape
        xi = np.sqrt(self.temperature) * rng.standard_normal((count, N, m)) * self.system.free
        dx, du = np.zeros((count, N + 1, n)), np.empty((count, N, m))
        for t in range(N):
            du[:, t] = dx[:, t] @ f.K[t].T + solve_triangular(f.L[t], xi[:, t].T, lower=True, trans="T").T
            dx[:, t + 1] = dx[:, t] @ f.fx[t].T + du[:, t] @ f.fu[t].T
        return dx, du


def laplace_of(system: KKTSystem, temperature: float) -> Laplace:
    """Laplace's approximation at a factored point."""
    f, free = system.factor, system.free
    root = np.linalg.solve(f.L, np.eye(f.L.shape[1]))
    Quu = temperature * root.swapaxes(1, 2) @ root * (free[:, :, None] & free[:, None])
    W = f.fu @ Quu @ f.fu.swapaxes(1, 2)
    xs, us = spread(f.fx, f.fu, f.K, W, np.zeros(f.Vxx.shape[1:]))
    increase = 0.5 * temperature * float(free.sum())
    return Laplace(xs, us + Quu, increase, f.log_determinant, system, temperature)
