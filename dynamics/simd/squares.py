"""Sums over knots of a function of residuals, and the loops that add and expand them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd.compilation import helper, routine

SQUARES, CLIPPED, MULTIPLIERS = 0, 1, 2
"""What the numbers of `ResidualWeights` are."""
_COLUMNS = {SQUARES: 1, CLIPPED: 4, MULTIPLIERS: 2}
"""Numbers of each layout for every number of a residual."""

Blocks = Sequence[Any]
"""lx (N+1, ndx), lu (N, nu), lxx (N+1, ndx, ndx), lux (N, nu, ndx), luu (N, nu, nu): an expansion over knots."""
NO_TARGET = np.empty((0, 0)), np.empty((0, 0)), np.empty((0, 0, 0)), np.empty((0, 0, 0)), np.empty((0, 0, 0))
"""In place of an expansion that is not wanted."""


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


class KnotSum(NamedTuple):
    """The sum of a function A of a residual over knots, with what it is made of added to arrays over all knots.

        value            sum_t A(r_t)
        gradient         J'A_r                     added to lx and lu of the target
        Gauss-Newton     J'A_rr J                  added to lxx, lux and luu of the target
        curvature        sum_i (A_r)_i d2 r_i      added to lxx, lux and luu of the curvature

    Attributes
    ----------
    span : (start, stop)
        The knots start <= t < stop.
    xs, us : (N+1, nx) and (N, nu), a whole trajectory; us is None where no control counts
    weights : ResidualWeights
        A, with a row for each knot of the span or one for all of them: squares, squares beyond limits, or A_r and the
        diagonal of A_rr themselves, as for the multipliers of a constraint; then the value is zero.
    target, curvature : Blocks or None
        The same arrays, or others, or None for what is not wanted; blocks of controls are None where none counts.
    """

    span: tuple[int, int]
    xs: np.ndarray
    us: np.ndarray | None
    weights: ResidualWeights
    target: Blocks | None = None
    curvature: Blocks | None = None

    def check_weights(self, n: int) -> None:
        """Raise ValueError unless the weights are those of n numbers at these knots."""
        (rows, layout), count = self.weights, self.span[1] - self.span[0]
        if layout not in _COLUMNS:
            raise ValueError(f"weights: got layout {layout}, expected SQUARES, CLIPPED or MULTIPLIERS")
        columns = _COLUMNS[layout] * n
        if rows.ndim != 2 or rows.shape[1] != columns or rows.shape[0] not in (1, count):
            raise ValueError(f"weights: got rows of shape {rows.shape}, expected (1 or {count}, {columns})")

    def of_rows(self, r: np.ndarray, J: np.ndarray, mu: np.ndarray) -> tuple[Any, ...]:
        """`expand_squares` and its arguments: the value, and the expansion of the target, from r (K, n) and J (K, n,
        nz), of which nothing is read without a target; A_r is written to mu (K, n)."""
        into = NO_TARGET if self.target is None else self.target
        if self.target is not None and J.shape[2] == into[0].shape[1]:
            into = without_controls(into)
        return expand_squares, self.weights.layout, self.weights.rows, self.span[0], r, J, mu, *into


def without_controls(blocks: Blocks) -> Blocks:
    """The blocks of a function of states alone."""
    return blocks[0], NO_TARGET[1], blocks[2], *NO_TARGET[3:]


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
