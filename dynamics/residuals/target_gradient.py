"""Derivatives of residuals by their targets, along the target's tangent.

A residual r = g(x) - target falls as the target grows.  One of an orientation, r = log(T'R), has with T exp(d) in
place of T the value log(exp(-d) exp(r)), hence

    dr/dd = -J(r)      J(w) = 1 - [w]/2 + c(w'w) [w]^2      c(s) = (1 - (t/2) cot(t/2))/s,  s = t^2

the inverse of the left Jacobian.  Of a pose, with r = (v, w) linear and angular, it is the same over dual numbers
w + e v:

    dr/dd = -[[J(w), J'(w) v], [0, J(w)]]      J'(w) v = -[v]/2 + 2 w'v c'(s) [w]^2 + c(s) ([w][v] + [v][w])
"""

from __future__ import annotations

import numpy as np

VECTOR, ROTATION, PLACEMENT = "vector", "rotation", "placement"
"""Kinds of targets: numbers that are subtracted, rotations, poses."""
STEP = 1e-3
FOURTH_ORDER = (1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (2.0, -1.0 / 12.0), (-2.0, 1.0 / 12.0)
"""Of a difference: steps relative to the size of the change, and the weights of values there."""


def _series(terms: int = 30) -> np.ndarray:
    """Coefficients 2 zeta(2k)/(2 pi)^2k of c, k = 1, 2, ..., which serve up to half a turn to rounding."""
    zeta = [np.pi**2 / 6.0]
    for k in range(2, terms + 1):
        zeta.append(sum(a * b for a, b in zip(zeta, reversed(zeta), strict=True)) / (k + 0.5))
    return 2.0 * np.array(zeta) / (2.0 * np.pi) ** (2.0 * np.arange(1, terms + 1))


_C = _series()
_DC = _C[1:] * np.arange(1, len(_C))


def target_gradients(r: np.ndarray, dr: np.ndarray, value: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """d/d(target) value_t'r_t + slope_t'dr_t (K, nr) of rotations or poses r that change along dr; all (K, nr)."""
    total, size = _transposed(r, value), float(np.abs(dr).max(initial=0.0))
    if size > 0.0:
        h = STEP / size
        total = total + sum(weight / h * _transposed(r + multiple * h * dr, slope) for multiple, weight in FOURTH_ORDER)
    return -total


def _transposed(r: np.ndarray, b: np.ndarray) -> np.ndarray:
    """b (K, nr) times the transposed -dr/dd above."""
    w, angular, cross = r[:, -3:], b[:, -3:], np.cross
    s = np.einsum("ti,ti->t", w, w)[:, None]
    c, dc = (np.polynomial.polynomial.polyval(s, of) for of in (_C, _DC))

    def turned(x: np.ndarray) -> np.ndarray:
        return x + 0.5 * cross(w, x) + c * cross(w, cross(w, x))

    if r.shape[1] == 3:
        return turned(angular)
    v, linear = r[:, :3], b[:, :3]
    inner = 2.0 * dc * np.einsum("ti,ti->t", w, v)[:, None]
    moved = 0.5 * cross(v, linear) + inner * cross(w, cross(w, linear))
    moved += c * (cross(w, cross(v, linear)) + cross(v, cross(w, linear)))
    return np.hstack([turned(linear), turned(angular) + moved])
