"""Compiled sums over knots for costs A(r) of a residual r.

All arrays are knot-major float64 in C order; `scale` is dt for running costs and 1 at the end.  Terms are added to what
the targets hold already, so several costs share one expansion.  Weights, references and curvatures have a row for every
knot, or a single row for all of them.

Products of Jacobians are summed in SIMD registers along rows.  Columns that are zero from some place on, as those of
the velocities in a residual of the configuration, are left out.  Of a symmetric Hessian the upper triangle is computed,
then mirrored: what is added is symmetric to the last bit.
"""

import numpy as np

from dynamics.simd import LANES, driver, helper, routine
from dynamics.simd.rows import Term, entry, load_part, matrix, set_entry, store_part
from trajopt.matrix_products import add_product, row_product


# ------------------------------------------------------------------------------------------------ no Jacobian
@routine
def weighted_squares(z, z_ref, w):
    """1/2 sum_i w_i (z_i - z_ref_i)^2 per knot: z (K, n), z_ref (1 or K, n), w (1 or K, n) -> (K,)."""
    values = np.empty(z.shape[0])
    next_ref, next_w = min(z_ref.shape[0] - 1, 1), min(w.shape[0] - 1, 1)
    for t in range(z.shape[0]):
        total = 0.0
        for i in range(z.shape[1]):
            r = z[t, i] - z_ref[next_ref * t, i]
            total += w[next_w * t, i] * r * r
        values[t] = 0.5 * total
    return values


@routine
def add_rates(u, u_before, w, scale, lx, lu, lxx, lux, luu):
    """1/2 sum_i w_i (u_i - u_before_i)^2, where u_before are the last nu numbers of the state, and of its tangent."""
    start = lx.shape[1] - u.shape[1]
    next_w = min(w.shape[0] - 1, 1)
    for t in range(u.shape[0]):
        for i in range(u.shape[1]):
            weight = scale * w[next_w * t, i]
            slope = weight * (u[t, i] - u_before[t, i])
            lu[t, i] += slope
            lx[t, start + i] -= slope
            luu[t, i, i] += weight
            lux[t, i, start + i] -= weight
            lxx[t, start + i, start + i] += weight


# ------------------------------------------------------------------------------------------------ products of Jacobians
@helper
def _support(J, t):
    """Columns of J[t] up to the last one that is not all zero."""
    width = J.shape[2]
    while width > 0:
        for m in range(J.shape[1]):
            if J[t, m, width - 1] != 0.0:
                return width
        width -= 1
    return width


@helper
def _bent(h, t, scale, J, rows, width, target):
    """target = scale h_t J, of shape (rows, width), h_t being a matrix or the diagonal of one."""
    t *= min(h.shape[0] - 1, 1)
    if h.ndim == 3:
        for m in range(rows):
            for j in range(0, width, LANES):
                store_part(target, m, j, LANES, load_part(target, m, j, 0))  # no numbers read: zeros
        add_product(False, rows, width, target, Term(matrix(h, t * rows * rows, rows), J, rows))
        for m in range(rows):
            for j in range(0, width, LANES):
                store_part(target, m, j, LANES, scale * load_part(target, m, j, LANES))
    else:
        for m in range(rows):
            a = scale * h[t, m]
            for j in range(0, width, LANES):
                store_part(target, m, j, LANES, a * load_part(J, m, j, J.stride - j))


@driver
def _gauss_newton(g, h, scale, J, gradient, hessian, work):
    knots, nr, n = J.shape
    slopes, bent = matrix(work, 0, 1), matrix(work, nr, (n + LANES - 1) // LANES * LANES)
    for t in range(knots):
        width = _support(J, t)
        J_t, H = matrix(J, t * nr * n, n), matrix(hessian, t * n * n, n)
        for m in range(nr):
            set_entry(slopes, m, 0, scale * g[t, m])
        row_product(0, 0, width, matrix(gradient, t * n, n), matrix(gradient, t * n, n), (Term(slopes, J_t, nr),))
        _bent(h, t, scale, J_t, nr, width, bent)
        add_product(True, width, width, H, Term(bent, J_t, nr))
        for i in range(width):
            for j in range(i):
                set_entry(H, i, j, entry(H, j, i))


@driver
def _cross(h, scale, Ju, Jx, hessian, work):
    knots, nr, ndx = Jx.shape
    nu = Ju.shape[2]
    bent = matrix(work, 0, (nu + LANES - 1) // LANES * LANES)
    for t in range(knots):
        rows, width = _support(Ju, t), _support(Jx, t)
        _bent(h, t, scale, matrix(Ju, t * nr * nu, nu), nr, rows, bent)
        H = matrix(hessian, t * nu * ndx, ndx)
        add_product(False, rows, width, H, Term(bent, matrix(Jx, t * nr * ndx, ndx), nr))


def add_gauss_newton(
    g: np.ndarray, h: np.ndarray, scale: float, J: np.ndarray, gradient: np.ndarray, hessian: np.ndarray
) -> None:
    """gradient (K, n) += s J'g, hessian (K, n, n) += s J'h J, with J (K, nr, n).

    g (K, nr) and h are gradient and Hessian of the cost in r: h (1 or K, nr, nr), or its diagonal (1 or K, nr).
    The hessian must be symmetric as it comes.
    """
    nr, n = J.shape[1:]
    _gauss_newton(g, h, scale, J, gradient, hessian, np.empty(nr * (1 + n + LANES)))


def add_cross(h: np.ndarray, scale: float, Ju: np.ndarray, Jx: np.ndarray, hessian: np.ndarray) -> None:
    """hessian (K, nu, ndx) += s Ju'h Jx, h as for `add_gauss_newton`."""
    nr, nu = Ju.shape[1:]
    _cross(h, scale, Ju, Jx, hessian, np.empty(nr * (nu + LANES)))
