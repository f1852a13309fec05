"""Whether a trajectory is a minimum by first order, whoever found it: multipliers by least squares.

At a feasible w with gradient g, equalities with Jacobian A_e, and inequalities near their limits with Jacobian A_i and
slacks s, the rows of A_i of length one:

    min |g + A_e' y + A_i' z|^2 + |g|_max^2 |z s / J|^2    z >= 0

by projecting g and A_i' on the null space of A_e and non-negative least squares; the second term is complementarity.  A
trajectory is stationary if nothing left exceeds `STATIONARY` times the largest entry of g.
"""

from __future__ import annotations

from typing import Any

import casadi as ca  # pyright: ignore[reportMissingImports]
import numpy as np
import scipy.linalg
import scipy.optimize

from experiments.constraints.programme import Programme, packed

NEAR, STATIONARY, RANK = 1e-3, 1e-4, 1e-10


class Certifier:
    """Of one nonlinear programme."""

    def __init__(self, nlp: Programme) -> None:
        self._nlp = nlp
        self._cost: Any = ca.Function("cost", [nlp.w], [nlp.f])
        self._derivatives: Any = ca.Function(
            "derivatives", [nlp.w], [ca.gradient(nlp.f, nlp.w), nlp.g, ca.jacobian(nlp.g, nlp.w)]
        )

    def residual(self, xs: np.ndarray, us: np.ndarray) -> float:
        """What is left of the gradient at xs (N+1, nx), us (N, nu), relative to its largest entry."""
        nlp, w = self._nlp, packed(xs, us)
        gradient, g, J = (np.array(each) for each in self._derivatives(w))
        gradient, g, unit = gradient.ravel(), g.ravel(), np.eye(len(w))
        equal = nlp.lbg == nlp.ubg
        rows = np.vstack([J[~equal], -J[~equal], unit, -unit])
        slacks = np.concatenate([(nlp.ubg - g)[~equal], (g - nlp.lbg)[~equal], nlp.ubx - w, w - nlp.lbx])
        lengths = np.maximum(np.linalg.norm(rows, axis=1), 1e-12)
        near = slacks < NEAR * lengths
        rows, slacks = rows[near] / lengths[near, None], slacks[near] / lengths[near]
        size = max(float(np.abs(gradient).max()), 1e-12)
        cost = max(abs(float(self._cost(w))), 1e-12)
        return self._left(gradient / size, J[equal], rows, np.maximum(slacks, 0.0) * size / cost)

    @staticmethod
    def _left(gradient, A_e, A_i, slacks):
        Q, R, _ = scipy.linalg.qr(A_e.T, mode="economic", pivoting=True)
        size = np.abs(np.diag(R))
        Q = Q[:, size > RANK * size.max()]
        left, near = gradient - Q @ (Q.T @ gradient), A_i.T - Q @ (Q.T @ A_i.T)
        if near.shape[1]:
            near, left = np.vstack([near, np.diag(slacks)]), np.concatenate([left, np.zeros(len(slacks))])
            z, _ = scipy.optimize.nnls(near, -left, maxiter=20 * near.shape[1])
            left = left + near @ z
        return float(np.abs(left).max())
