"""Weights of residuals in sums over knots, and the sum of squares of differences from a reference."""

from typing import NamedTuple

import numpy as np

from dynamics.simd.compilation import helper, routine

SQUARES, CLIPPED, MULTIPLIERS = 0, 1, 2
"""What the numbers of `ResidualWeights` are."""
_COLUMNS = {SQUARES: 1, CLIPPED: 4, MULTIPLIERS: 2}
"""Numbers of each layout for every number of a residual."""


class ResidualWeights(NamedTuple):
    """Function of a residual r (n,) whose sum over K knots is evaluated and expanded.

        layout        rows                          sum                s           mu     a
        SQUARES       w                             1/2 sum_i w s^2    r           w s    w
        CLIPPED       w, shift, lower, upper        1/2 sum_i w s^2    z - y       w s    w where s counts, else 0
        MULTIPLIERS   mu, a                         0                              mu     a

    with z = r + shift and y the nearest number to z between its limits; s counts unless it is zero between limits that
    differ.  The gradient of the sum is J'mu, its Gauss-Newton Hessian J' diag(a) J, and the rest of its Hessian
    sum_i mu_i d2 r_i.  So the last layout is for any other function of r with a diagonal Hessian, and for constraints.

    Attributes
    ----------
    rows : (1 or K, n) array, or with 4 n or 2 n columns, by its layout
        One row for each knot, or one for all of them.
    layout : SQUARES, CLIPPED or MULTIPLIERS
    """

    rows: np.ndarray
    layout: int = SQUARES


def multipliers(mu: np.ndarray) -> ResidualWeights:
    """ResidualWeights of mu'r, mu (K, n)."""
    return ResidualWeights(np.concatenate([mu, np.zeros(mu.shape)], axis=1), MULTIPLIERS)


def without_effect(K: int, n: int, layout: int) -> ResidualWeights:
    """ResidualWeights (K, n) of numbers that do not count, until some are written there."""
    rows = np.zeros((K, _COLUMNS[layout] * n))
    if layout == CLIPPED:
        rows[:, 2 * n : 3 * n], rows[:, 3 * n :] = -np.inf, np.inf
    return ResidualWeights(rows, layout)


def check_weights(weights: ResidualWeights, n: int, span: tuple[int, int]) -> None:
    """Raise ValueError unless weights are those of n numbers at the knots start <= t < stop."""
    rows, layout = weights
    known, count = layout in _COLUMNS, span[1] - span[0]
    if known and rows.ndim == 2 and rows.shape[1] == _COLUMNS[layout] * n and rows.shape[0] in (1, count):
        return
    if not known:
        raise ValueError(f"weights: got layout {layout}, expected SQUARES, CLIPPED or MULTIPLIERS")
    raise ValueError(f"weights: got rows of shape {rows.shape}, expected (1 or {count}, {_COLUMNS[layout] * n})")


@routine
def sum_of(values, scale):
    """The sum of values (K,), one after the other, times the scale."""
    total = 0.0
    for k in range(values.shape[0]):
        total += values[k]
    return scale * total


@helper
def _weighed(layout, weights, row, i, n, s):
    """mu, a and s of number i of a residual that is s there."""
    w = weights[row, i]
    active = w
    if layout == CLIPPED:
        y, lower, upper = s + weights[row, n + i], weights[row, 2 * n + i], weights[row, 3 * n + i]
        s = y - min(max(y, lower), upper)
        active = 0.0 if s == 0.0 and lower < upper else w
    slope = w * s
    if layout == MULTIPLIERS:
        slope, active, s = w, weights[row, n + i], 0.0
    return slope, active, s


@routine
def add_squares(layout, weights, start, stop, z, reference, gradient, hessian):
    """Weighted sum for r = z - reference, z (K, n), over the knots start <= t < stop, as of `ResidualWeights`; mu and a
    are added to gradient (K, n) and to the diagonals of hessian (K, n, n) if these have rows."""
    total, expanded, n = 0.0, gradient.shape[0] > 0, z.shape[1]
    next_row = min(weights.shape[0] - 1, 1)
    for t in range(start, stop):
        row = next_row * (t - start)
        for i in range(n):
            slope, active, s = _weighed(layout, weights, row, i, n, z[t, i] - reference[i])
            total += 0.5 * slope * s
            if expanded:
                gradient[t, i] += slope
                hessian[t, i, i] += active
    return total


@routine
def expand_squares(layout, weights, start, r, J, mu, lx, lu, lxx, lux, luu):
    """Weighted sum for residuals r (K, n) at knots from `start` on, as of `ResidualWeights`, and mu (K, n); J'mu and
    J' diag(a) J, J (K, n, nz), are added to the blocks if these have rows, without those of controls where nz = nx.
    What does not count, mu and a being zero, need not be finite."""
    total, expanded, (K, n), nx, nu = 0.0, lx.shape[0] > 0, r.shape, lx.shape[1], lu.shape[1]
    next_row = min(weights.shape[0] - 1, 1)
    for k in range(K):
        t, row = start + k, next_row * k
        for i in range(n):
            slope, active, s = _weighed(layout, weights, row, i, n, r[k, i])
            mu[k, i] = slope
            if weights[row, i] == 0.0 and active == 0.0:
                mu[k, i] = 0.0
                continue
            total += 0.5 * slope * s
            if not expanded:
                continue
            for p in range(nx + nu):
                y = J[k, i, p]
                scaled = active * y
                if p < nx:
                    lx[t, p] += slope * y
                    for q in range(p + 1):
                        lxx[t, p, q] += scaled * J[k, i, q]
                        if q < p:
                            lxx[t, q, p] += scaled * J[k, i, q]
                else:
                    lu[t, p - nx] += slope * y
                    for q in range(nx):
                        lux[t, p - nx, q] += scaled * J[k, i, q]
                    for q in range(nx, p + 1):
                        luu[t, p - nx, q - nx] += scaled * J[k, i, q]
                        if q < p:
                            luu[t, q - nx, p - nx] += scaled * J[k, i, q]
    return total


@routine
def add_hessians(start, H, mu, lxx, lux, luu):
    """Add H (K, nz, nz), Hessians of mu'r, to those at knots from `start` on, where mu (K, n) is not zero."""
    nx, nu = lxx.shape[1], luu.shape[1]
    for k in range(H.shape[0]):
        counts = False
        for i in range(mu.shape[1]):
            counts = counts or mu[k, i] != 0.0
        if not counts:
            continue
        for i in range(nx):
            for j in range(nx):
                lxx[start + k, i, j] += H[k, i, j]
        for i in range(nu):
            for j in range(nx):
                lux[start + k, i, j] += H[k, nx + i, j]
            for j in range(nu):
                luu[start + k, i, j] += H[k, nx + i, nx + j]
