"""The reduced Hessian as a matrix, without a sweep: what inertia and eigenvalues are compared with."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from trajopt.optimality.certificate import metric_of
from trajopt.optimality.kkt_point import KKTPoint, active_rows
from trajopt.optimality.kkt_system import without_clamped

DENSE = "pendulum", "pendulum_limits", "cartpole", "double_pendulum", "quadrotor", "unicycle_obstacles"
"""Problems with a reduced Hessian whose smallest eigenvalue a dense solver finds to six digits."""


def dense_hessian(point: KKTPoint) -> tuple[np.ndarray, np.ndarray]:
    """The Lagrangian's Hessian in the free controls, on the tangent space of the active rows, and the metric there."""
    e = without_clamped(point.e, point.held.controls)
    N, n, m = e.fu.shape
    S = np.zeros((N + 1, n, N * m))  # states by controls
    for t in range(N):
        S[t + 1] = e.fx[t] @ S[t]
        S[t + 1, :, t * m : (t + 1) * m] += e.fu[t]
    H = np.einsum("tia,tij,tjb->ab", S, e.lxx, S)
    for t in range(N):
        own, mixed = slice(t * m, (t + 1) * m), e.lux[t] @ S[t]
        H[own] += mixed
        H[:, own] += mixed.T
        H[own, own] += e.luu[t]
    A = active_rows(point, point.held.rows, point.held.controls)
    C = np.einsum("ri,ria->ra", A.Cx, S[A.knots])
    for r, t in enumerate(A.knots):
        if t < N:
            C[r, t * m : (t + 1) * m] += A.Cu_free[r]
    free = (point.held.controls == 0).ravel()
    H, C, M = H[np.ix_(free, free)], C[:, free], metric_of(point.problem, point.held.controls).ravel()[free]
    Z = scipy.linalg.null_space(C) if len(C) else np.eye(len(H))
    return Z.T @ H @ Z, (Z.T * M) @ Z
