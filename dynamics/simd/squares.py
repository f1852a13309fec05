"""Weights of a residual in a sum over knots, and that sum for differences from a row of numbers."""

from typing import NamedTuple

import numpy as np

from dynamics.simd.compilation import routine

SQUARES, CLIPPED, MULTIPLIERS = 0, 1, 2
"""What the numbers of `ResidualWeights` are."""
COLUMNS = 1, 4, 2
"""Numbers of each layout for every number of a residual."""


class ResidualWeights(NamedTuple):
    """The function of a residual r of n numbers that a sum over K knots is made of.

        layout        rows                          sum                s           mu     a
        SQUARES       w                             1/2 sum_i w s^2    r           w s    w
        CLIPPED       w, shift, lower, upper        1/2 sum_i w s^2    z - y       w s    w where s counts, else 0
        MULTIPLIERS   mu, a                         0                              mu     a

    with z = r + shift and y the nearest number to z between its limits; s counts unless it is zero between limits that
    differ.  The gradient of the sum is J'mu, its Gauss-Newton Hessian J' diag(a) J, and what that leaves out
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


def check_weights(weights: ResidualWeights, n: int, span: tuple[int, int]) -> None:
    """Raise ValueError unless weights are those of n numbers at the knots start <= t < stop."""
    if weights.layout not in (SQUARES, CLIPPED, MULTIPLIERS):
        raise ValueError(f"weights: got layout {weights.layout}, expected SQUARES, CLIPPED or MULTIPLIERS")
    columns, count = COLUMNS[weights.layout] * n, span[1] - span[0]
    if weights.rows.ndim != 2 or weights.rows.shape[1] != columns or len(weights.rows) not in (1, count):
        raise ValueError(f"weights: got rows of shape {weights.rows.shape}, expected (1 or {count}, {columns})")


@routine
def add_squares(layout, weights, start, stop, z, reference, gradient, hessian):
    """The sum of r = z - reference, z (K, n), over the knots start <= t < stop, weights being `ResidualWeights`; mu and
    a are added to gradient (K, n) and to the diagonals of hessian (K, n, n) if these have rows."""
    total, expanded, n = 0.0, gradient.shape[0] > 0, z.shape[1]
    next_row = min(weights.shape[0] - 1, 1)
    for t in range(start, stop):
        row = next_row * (t - start)
        for i in range(n):
            w, s = weights[row, i], z[t, i] - reference[i]
            active = w
            if layout == CLIPPED:
                y, lower, upper = s + weights[row, n + i], weights[row, 2 * n + i], weights[row, 3 * n + i]
                s = y - min(max(y, lower), upper)
                active = 0.0 if s == 0.0 and lower < upper else w
            slope = w * s
            if layout == MULTIPLIERS:
                slope, active, s = w, weights[row, n + i], 0.0
            total += 0.5 * slope * s
            if expanded:
                gradient[t, i] += slope
                hessian[t, i, i] += active
    return total
