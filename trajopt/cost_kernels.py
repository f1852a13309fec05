"""Compiled sums over knots for costs 1/2 sum_i w_i r_i^2.

All arrays are knot-major float64 in C order; `scale` is dt for running costs and 1 at the end.  Terms are added to what
the targets hold already, so several costs share one expansion.
"""

import numpy as np

from dynamics.simd import routine


@routine
def weighted_squares(r, w):
    """1/2 sum_i w_i r_i^2 per knot: r (K, nr), w (nr,) -> (K,)."""
    values = np.empty(r.shape[0])
    for t in range(r.shape[0]):
        total = 0.0
        for i in range(r.shape[1]):
            total += w[i] * r[t, i] * r[t, i]
        values[t] = 0.5 * total
    return values


@routine
def add_diagonal(r, w, scale, gradient, hessian):
    """r = z - z_ref, whose Jacobian is the identity: gradient (K, n) += s w r, hessian (K, n, n) += s diag w."""
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            gradient[t, i] += scale * w[i] * r[t, i]
            hessian[t, i, i] += scale * w[i]


@routine
def add_gauss_newton(r, w, scale, J, gradient, hessian):
    """gradient (K, n) += s J'W r, hessian (K, n, n) += s J'W J, with J (K, nr, n)."""
    n = J.shape[2]
    for t in range(r.shape[0]):
        for m in range(r.shape[1]):
            weight = scale * w[m]
            if weight == 0.0:
                continue
            slope = weight * r[t, m]
            for j in range(n):
                gradient[t, j] += slope * J[t, m, j]
            for i in range(n):
                a = weight * J[t, m, i]
                if a == 0.0:
                    continue
                for j in range(n):
                    hessian[t, i, j] += a * J[t, m, j]


@routine
def add_cross(w, scale, Ju, Jx, hessian):
    """hessian (K, nu, ndx) += s Ju'W Jx."""
    for t in range(Ju.shape[0]):
        for m in range(Ju.shape[1]):
            for i in range(Ju.shape[2]):
                a = scale * w[m] * Ju[t, m, i]
                if a == 0.0:
                    continue
                for j in range(Jx.shape[2]):
                    hessian[t, i, j] += a * Jx[t, m, j]
