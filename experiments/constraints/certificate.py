"""Whether a trajectory is a minimum by first order, whoever found it: multipliers by least squares.

At a feasible w with rows c_a that are equalities or active, gradient g and Jacobian A: the smallest residual

    min |g + A_e' y + A_i' z|    z >= 0

is found by projecting g and A_i' on the null space of A_e and non-negative least squares.  A trajectory is stationary
if no entry of what is left exceeds `STATIONARY` times the largest of g.
"""

from __future__ import annotations

from typing import Any

import casadi as ca  # pyright: ignore[reportMissingImports]
import numpy as np
import scipy.linalg
import scipy.optimize

from experiments.constraints.programme import Programme, packed

ACTIVE, STATIONARY, RANK = 1e-5, 1e-3, 1e-10


class Certifier:
    """Of one nonlinear programme."""

    def __init__(self, nlp: Programme) -> None:
        self._nlp = nlp
        self._derivatives: Any = ca.Function(
            "derivatives", [nlp.w], [ca.gradient(nlp.f, nlp.w), nlp.g, ca.jacobian(nlp.g, nlp.w)]
        )

    def residual(self, xs: np.ndarray, us: np.ndarray) -> float:
        """What is left of the gradient at xs (N+1, nx), us (N, nu), relative to its largest entry."""
        nlp, w = self._nlp, packed(xs, us)
        gradient, g, J = (np.array(each) for each in self._derivatives(w))
        gradient, g = gradient.ravel(), g.ravel()
        equal = nlp.lbg == nlp.ubg
        rows = [J[~equal & (g > nlp.ubg - ACTIVE)], -J[~equal & (g < nlp.lbg + ACTIVE)]]
        unit = np.eye(len(w))
        rows += [unit[w > nlp.ubx - ACTIVE], -unit[w < nlp.lbx + ACTIVE]]
        return self._left(gradient, J[equal], np.vstack(rows)) / max(np.abs(gradient).max(), 1e-12)

    @staticmethod
    def _left(gradient, A_e, A_i):
        Q, R, _ = scipy.linalg.qr(A_e.T, mode="economic", pivoting=True)
        size = np.abs(np.diag(R))
        Q = Q[:, size > RANK * size.max()]
        left, active = gradient - Q @ (Q.T @ gradient), A_i.T - Q @ (Q.T @ A_i.T)
        if active.shape[1]:
            lengths = np.maximum(np.linalg.norm(active, axis=0), 1e-12)
            active = active / lengths
            z, _ = scipy.optimize.nnls(active, -left, maxiter=20 * active.shape[1])
            left = left + active @ z
        return float(np.abs(left).max())
