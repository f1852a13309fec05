"""Weighted squares of a residual, summed over knots and expanded to second order in the lanes.

    value            1/2 sum_i w_i s_i^2,     s = r,  or  s = z - clip(z, lower, upper) with z = r + shift
    gradient         J'(w s)
    Gauss-Newton     J' diag(w a) J,          a_i = 0 where s_i is zero between its limits, else 1
    curvature        sum_i w_i s_i d2 r_i

The first form is a quadratic cost, the second a quadratic barrier; multipliers may be given in place of w s and w a
(`dynamics.simd.squares.ResidualWeights`).  Only sums leave the lanes: gradients and Hessians are added to what the
arrays of an expansion hold.
"""

import numpy as np

from dynamics.simd import fma, gather, helper, kernel, load, select_less, splat, store
from dynamics.simd.lane_algebra import store_pair
from dynamics.simd.squares import CLIPPED, MULTIPLIERS

SQUARES_ROW = 4
"""Workspace size for every number of a residual that `weigh` needs for its weights."""


@kernel
def weigh(layout, weights, first, r, row, mu, gauss_newton_weight):
    """mu = w s and gauss_newton_weight = w a (nr) of the residual r (nr); returns 1/2 sum w s^2.

    layout, weights : as of `dynamics.simd.squares.ResidualWeights`; row receives the weights of these lanes."""
    gather(weights, first, row)
    nr = r.shape[0]
    limited, zero = layout == CLIPPED, splat(r, 0.0)
    total = zero
    if layout == MULTIPLIERS:
        for i in range(nr):
            store(mu, i, load(row, i))
            store(gauss_newton_weight, i, load(row, nr + i))
        return total
    for i in range(nr):
        w, s = load(row, i), load(r, i)
        k = w
        if limited:
            z, lower, upper = s + load(row, nr + i), load(row, 2 * nr + i), load(row, 3 * nr + i)
            clipped = select_less(z, lower, lower, z)
            s = z - select_less(upper, clipped, upper, clipped)
            k = select_less(s, zero, w, select_less(zero, s, w, select_less(lower, upper, zero, w)))
        store(mu, i, w * s)
        store(gauss_newton_weight, i, k)
        total = fma(0.5 * (w * s), s, total)
    return total


@helper
def sum_lanes(x, row, count):
    """Sum of the first `count` lanes of x, by way of the scratch row (1)."""
    store(row, 0, x)
    total = 0.0
    for k in range(count):
        total += row[0, k]
    return total


@helper
def add_row(row, first, count, target, i):
    """target[first + k, i] += row[0, k]"""
    for k in range(count):
        target[first + k, i] += row[0, k]


@helper
def add_entry(row, first, count, target, i, j):
    """target[first + k, i, j] += row[0, k], and its mirror image."""
    for k in range(count):
        target[first + k, i, j] += row[0, k]
    if i != j:
        for k in range(count):
            target[first + k, j, i] += row[0, k]


@helper
def add_pair(H, size, i, j, x):
    """H[i, j] += x, and its mirror image, of a symmetric row-major block (size size)."""
    store_pair(H, size, i, j, load(H, i * size + j) + x)


@kernel
def add_gauss_newton(path, J, mu, gauss_newton_weight, t, count, row, lx, lxx):
    """Add J'mu to lx (K, n) and J' diag(gauss_newton_weight) J to lxx (K, n, n) at the knots t ... t + count.

    J (nr stride) is row-major, zero but for the columns on the path; row (1) is scratch."""
    nr = mu.shape[0]
    stride = J.shape[0] // nr
    for a in range(path.size):
        x = path[a]
        g = splat(J, 0.0)
        for m in range(nr):
            g = fma(load(mu, m), load(J, m * stride + x), g)
        store(row, 0, g)
        add_row(row, t, count, lx, x)
        for b in range(a + 1):
            y = path[b]
            e = splat(J, 0.0)
            for m in range(nr):
                o = m * stride
                e = fma(load(gauss_newton_weight, m) * load(J, o + x), load(J, o + y), e)
            store(row, 0, e)
            add_entry(row, t, count, lxx, x, y)


@kernel
def add_control_gauss_newton(B, skip, J, mu, gauss_newton_weight, first, count, row, lu, lux, luu):
    """The same for controls that enter as B u, B (nr, nu) as in `dynamics.model.actuation`: B'mu to lu (K, nu),
    B' diag(gauss_newton_weight) J to lux (K, nu, n), and B' diag(gauss_newton_weight) B to luu (K, nu, nu)."""
    nr, nu = B.shape
    stride = J.shape[0] // nr
    for i in range(nu):
        begin, end = (skip + i, skip + i + 1) if skip >= 0 else (0, nr)
        g = splat(J, 0.0)
        for m in range(begin, end):
            g = fma(B[m, i], load(mu, m), g)
        store(row, 0, g)
        add_row(row, first, count, lu, i)
        for x in range(stride):
            e = splat(J, 0.0)
            for m in range(begin, end):
                e = fma(B[m, i] * load(gauss_newton_weight, m), load(J, m * stride + x), e)
            store(row, 0, e)
            for k in range(count):
                lux[first + k, i, x] += row[0, k]
        for j in range(i if skip >= 0 else 0, i + 1):
            e = splat(J, 0.0)
            for m in range(begin, end):
                e = fma(B[m, i] * B[m, j], load(gauss_newton_weight, m), e)
            store(row, 0, e)
            add_entry(row, first, count, luu, i, j)


@kernel
def add_curvature(path, H, t, count, Hxx):
    """Add H (n n), symmetric and zero but for the rows and columns on the path, to Hxx (K, m, m) at these knots."""
    n = int(np.sqrt(H.shape[0]) + 0.5)
    for a in range(path.size):
        x = path[a]
        for b in range(a + 1):
            y = path[b]
            add_entry(H[x * n + y : x * n + y + 1], t, count, Hxx, x, y)
