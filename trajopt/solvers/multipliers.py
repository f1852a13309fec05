"""The augmented Lagrangian of packed rows, its multipliers and its penalty.

For lower <= c <= upper, with a centre lam_e for the multipliers (positive at an active upper limit) and a penalty
rho > 0 that all rows share [Powell, Hestenes, Rockafellar],

    z = c + lam_e/rho      s = z - clip(z, lower, upper)      term  rho/2 s^2      p = rho s      w = rho where s != 0

(or lower = upper).  In the quadratic model, with rows C of Jacobians, the term has the gradient C'p and the Hessian
C'wC.  A step (dx, du) of that model has the multipliers lam+ = p + w C (dx, du): the dual-regularized Newton step of
the KKT conditions.  The dual iterate lam follows it, and is the multiplier of exact Hessians; the centre lam_e moves to
it where that reduces the error of the optimality conditions.  p is a first-order estimate of the multipliers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.simd import routine
from trajopt.rows.augmented_terms import Weights
from trajopt.rows.rows import Rows


class Multipliers(NamedTuple):
    """Multipliers of scaled rows, in units of the cost.

    dual : lam (R,), the dual iterate
    centre : lam_e (R,)
    penalty : rho
    scale : unit of penalties: the largest derivative of the cost at the start; where rows are scaled by the size of
        their terms, a fraction of the penalty with which a step halves violations
    slope : of rows by controls, where they are scaled like that: scale times slope is that of gradients; else 1
    error : the least violation of the optimality conditions at which the centre has moved
    stationary : how small the gradient of the augmented Lagrangian must be to count as zero
    residual : violation and slackness where the centre last moved to a minimum
    ceiling : largest penalty to which a step that leaves too much of the violation may raise it
    relaxed : number of times that the penalty was lowered
    """

    dual: np.ndarray
    centre: np.ndarray
    penalty: float
    scale: float = 1.0
    slope: float = 1.0
    error: float = np.inf
    stationary: float = 1e-2
    residual: float = np.inf
    ceiling: float = np.inf
    relaxed: int = 0

    def weights(self, rows: Rows, c: np.ndarray, sides: np.ndarray | None = None) -> tuple[float, Weights]:
        """Sum of the augmented-Lagrangian terms at c (R,), and their derivatives; sides (R,): the limits to take as
        active, -1 the lower, 1 the upper one, 0 none; None for those active at c."""
        p, w = np.empty(len(c)), np.empty(len(c))
        total = _weigh(c, rows.lower, rows.upper, self.centre, self.penalty, p, w)
        if sides is not None:
            limit = np.where(sides > 0, rows.upper, rows.lower)
            w = np.where(sides != 0, self.penalty, 0.0)
            p = np.where(sides != 0, self.centre + self.penalty * (c - np.where(sides != 0, limit, c)), 0.0)
        return total, Weights(p, w)

    def value(self, rows: Rows, c: np.ndarray) -> float:
        """Sum of the augmented-Lagrangian terms at c (R,)."""
        return self.weights(rows, c)[0]

    def sides(self, rows: Rows, c: np.ndarray) -> np.ndarray:
        """Active limits (R,): -1 the lower, 1 the upper one or both, 0 none."""
        z = c + self.centre / self.penalty
        return np.where((z > rows.upper) | (rows.lower == rows.upper), 1, np.where(z < rows.lower, -1, 0))


@routine
def _weigh(c, lower, upper, centre, penalty, p, w):
    total = 0.0
    for i in range(c.shape[0]):
        z = c[i] + centre[i] / penalty
        s = z - min(max(z, lower[i]), upper[i])
        p[i] = penalty * s
        w[i] = penalty if s != 0.0 or lower[i] == upper[i] else 0.0
        total += 0.5 * penalty * s * s
    return total


# ------------------------------------------------------------------------------------------------ measures
@routine
def _measure(c, lower, upper, D, rounding, lam):
    violation, excess, scaled, complementarity, product = 0.0, 0.0, 0.0, 0.0, 0.0
    for i in range(c.shape[0]):
        v = max(lower[i] - c[i], c[i] - upper[i], 0.0)
        scaled = max(scaled, v)
        violation = max(violation, v / D[i])
        if v / D[i] > rounding[i]:
            excess = max(excess, v / D[i])
        if lam[i] != 0.0 and lower[i] != upper[i]:
            slack = abs((upper[i] if lam[i] > 0.0 else lower[i]) - c[i])
            complementarity = max(complementarity, min(abs(lam[i]), slack))
            product = max(product, abs(lam[i]) * slack)
    return violation, excess, scaled, complementarity, product


class Measures(NamedTuple):
    """Measures of rows and multipliers: the largest violation in the user's units, the largest one in excess of
    rounding, the largest one of scaled rows; complementarity, the largest min(|lam|, slack) of inequalities, and their
    largest product of multiplier and slack."""

    violation: float
    excess: float
    scaled: float
    complementarity: float
    product: float


def measures(rows: Rows, c: np.ndarray, lam: np.ndarray) -> Measures:
    """Measures of these values and multipliers (R,)."""
    return Measures(*_measure(c, rows.lower, rows.upper, rows.D, rows.rounding, lam))


@routine
def project(lower, upper, lam, result):
    """`projected`, for compiled code."""
    for i in range(lam.shape[0]):
        x = lam[i]
        if x > 0.0 and not abs(upper[i]) < np.inf:
            x = 0.0
        if x < 0.0 and not abs(lower[i]) < np.inf:
            x = 0.0
        result[i] = x


def projected(rows: Rows, lam: np.ndarray) -> np.ndarray:
    """Multipliers (R,) with the signs that their limits allow."""
    result = np.empty_like(lam)
    project(rows.lower, rows.upper, lam, result)
    return result
