"""How many negative eigenvalues the reduced Hessian has: those of Quu, summed over the knots of a sweep [Sylvester].

The reduced Hessian is that of the Lagrangian in the free controls, states following the linear dynamics, on the tangent
space of the active rows; these count through H + rho C'C with rho large enough.  With s M taken from it, counting finds
eigenvalues by bisection.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajopt.backward.expansions import Expansion

ROUNDING = 1e-12
"""A pivot below this part of the largest one at its knot counts as zero."""


class Inertia(NamedTuple):
    """Negative eigenvalues, those at rounding, and the last knot with a negative one, -1; there the eigenvector w (m,)
    of the least; gains K (N, m, n)."""

    negative: int
    zero: int
    knot: int
    w: np.ndarray
    K: np.ndarray


def inertia_of(e: Expansion, metric: np.ndarray, shift: float) -> Inertia:
    """Of a linear-quadratic problem without clamped controls, luu less shift M, M (N, m) diagonal."""
    N, _, m = e.fu.shape
    V = e.lxx[N]
    negative, zero, knot, w, K = 0, 0, -1, np.zeros(m), np.empty_like(e.lux)
    for t in range(N - 1, -1, -1):
        VA, VB = V @ e.fx[t], V @ e.fu[t]
        Quu, Qux = e.luu[t] + e.fu[t].T @ VB, e.lux[t] + e.fu[t].T @ VA
        Quu[np.arange(m), np.arange(m)] -= shift * metric[t]
        values, Q = np.linalg.eigh(0.5 * (Quu + Quu.T))
        small = np.abs(values) <= ROUNDING * np.abs(values).max(initial=0.0)
        zero, below = zero + int(small.sum()), (values < 0.0) & ~small
        if below.any():
            negative += int(below.sum())
            if knot < 0:
                knot, w = t, Q[:, 0].copy()
        inverse = np.where(small, 0.0, 1.0 / np.where(small, 1.0, values))
        K[t] = -(Q * inverse) @ (Q.T @ Qux)
        V = e.lxx[t] + e.fx[t].T @ VA + Qux.T @ K[t]
        V = 0.5 * (V + V.T)
    return Inertia(negative, zero, knot, w, K)
