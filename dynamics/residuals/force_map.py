"""Numbers made of the forces at contacts, one contact at a time, and their derivatives in the force.

    r_i = A_i f + b_i,      r_0 = A_0 f + b_0 - s,   s = sqrt(|f_t|^2 + delta^2)   for a second-order cone

with f_t = P f the part of the force f along the plane of the normal n, P = 1 - n n'.  The root is concave in r_0:

    dr_0/df = A_0 - d,   d = f_t/s              d2r_0/df2 = -(P - d d')/s
"""

from typing import NamedTuple

import numpy as np

from dynamics.simd import fma, helper, kernel, load, splat, sqrt, store
from dynamics.spatial import add_scaled3, dot3, load3, scale3, store3


class ForceMap(NamedTuple):
    """r of the forces at S contacts of a set, as kernels take it."""

    contact: np.ndarray  # (S,) places in the set
    A: np.ndarray  # (rows, 3)
    b: np.ndarray  # (S, rows)
    normal: np.ndarray  # (3,)
    smoothing: float  # delta, N; zero if no row has a root


@helper
def _tangent(forces, f):
    """f_t, and s."""
    n = (forces.normal[0], forces.normal[1], forces.normal[2])
    f_t = add_scaled3(f, -dot3(n, f), n)
    return f_t, sqrt(dot3(f_t, f_t) + forces.smoothing * forces.smoothing)


@helper
def force_direction(forces, f):
    """d and 1/s; zeros if no row has a root."""
    zero = 0.0 * f[0]
    d, inverse = (zero, zero, zero), zero
    if forces.smoothing > 0.0:
        f_t, s = _tangent(forces, f)
        inverse = 1.0 / s
        d = scale3(f_t, inverse)
    return d, inverse


@helper
def row_gradient(forces, i, d):
    """dr_i/df"""
    x, y, z = forces.A[i, 0], forces.A[i, 1], forces.A[i, 2]
    share = -1.0 if i == 0 else 0.0
    return (fma(share, d[0], x), fma(share, d[1], y), fma(share, d[2], z))


@kernel
def force_rows(forces, f, r):
    """r (S rows) of the contact forces f, which come before the moments of rigid feet."""
    S, rows = forces.b.shape
    for s in range(S):
        x = load3(f, 3 * forces.contact[s])
        for i in range(rows):
            a = (forces.A[i, 0], forces.A[i, 1], forces.A[i, 2])
            store(r, s * rows + i, dot3(a, x) + forces.b[s, i])
        if forces.smoothing > 0.0:
            _, length = _tangent(forces, x)
            store(r, s * rows, load(r, s * rows) - length)


@kernel
def force_expansion(forces, f, mu, gauss_newton_weight, g, G, K):
    """Per contact the gradient g (3 S) = sum_i mu_i dr_i/df, and the matrices, (9 S) each,
    G = sum_i gauss_newton_weight_i (dr_i/df)'(dr_i/df) and K = sum_i mu_i d2r_i/df2."""
    S, rows = forces.b.shape
    for s in range(S):
        d, inverse = force_direction(forces, load3(f, 3 * forces.contact[s]))
        zero = splat(f, 0.0)
        gradient = x = y = z = (zero, zero, zero)
        for i in range(rows):
            a, k = row_gradient(forces, i, d), load(gauss_newton_weight, s * rows + i)
            gradient = add_scaled3(gradient, load(mu, s * rows + i), a)
            x, y, z = add_scaled3(x, k * a[0], a), add_scaled3(y, k * a[1], a), add_scaled3(z, k * a[2], a)
        store3(g, 3 * s, gradient)
        store3(G, 9 * s, x)
        store3(G, 9 * s + 3, y)
        store3(G, 9 * s + 6, z)
        _store_root_curvature(forces, d, -load(mu, s * rows) * inverse, K, 9 * s)


@helper
def _store_root_curvature(forces, d, scale, K, o):
    """scale (P - d d'), (9), at o."""
    n = (forces.normal[0], forces.normal[1], forces.normal[2])
    for i in range(3):
        for j in range(3):
            p = (1.0 if i == j else 0.0) - n[i] * n[j]
            store(K, o + 3 * i + j, scale * fma(-d[i], d[j], splat(K, p)))


@helper
def any_nonzero(ws, start, stop, count):
    """Whether any of the numbers start ... stop of the first `count` lanes is not zero; NaN is not."""
    for i in range(start, stop):
        for k in range(count):
            if ws[i, k] != 0.0:
                return True
    return False
