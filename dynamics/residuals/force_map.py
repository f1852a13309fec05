"""Numbers made of forces and moments at contacts, and their derivatives in these.

A part F of the map reads blocks of three, forces and moments in any number:

    r_i = A_i F + b_i,      r_0 = A_0 f + b_0 - s,   s = sqrt(|f_t|^2 + delta^2)   for a second-order cone

with f_t = P f the part of the force f = F along the plane of the normal n, P = 1 - n n'.  The root is concave in r_0:

    dr_0/df = A_0 - d,   d = f_t/s              d2r_0/df2 = -(P - d d')/s
"""

from typing import NamedTuple

import numpy as np

from dynamics.simd import fma, helper, kernel, load, splat, sqrt, store
from dynamics.spatial import add_scaled3, dot3, load3, scale3


class ForceMap(NamedTuple):
    """r of S parts, each of k blocks of a set of contacts, as kernels take it."""

    blocks: np.ndarray  # (S, k) blocks of the set, none twice
    A: np.ndarray  # (S, rows, 3 k)
    b: np.ndarray  # (S, rows)
    normal: np.ndarray  # (3,)
    smoothing: float  # delta, N; zero if no row has a root, as where k > 1


@helper
def _tangent(forces, f):
    """f_t, and s."""
    n = (forces.normal[0], forces.normal[1], forces.normal[2])
    f_t = add_scaled3(f, -dot3(n, f), n)
    return f_t, sqrt(dot3(f_t, f_t) + forces.smoothing * forces.smoothing)


@helper
def force_direction(forces, f, s):
    """d and 1/s of part s; zeros if no row has a root."""
    f = load3(f, 3 * forces.blocks[s, 0])
    zero = 0.0 * f[0]
    d, inverse = (zero, zero, zero), zero
    if forces.smoothing > 0.0:
        f_t, length = _tangent(forces, f)
        inverse = 1.0 / length
        d = scale3(f_t, inverse)
    return d, inverse


@helper
def row_gradient(forces, s, i, j, d):
    """dr_i/df of part s, f its block j."""
    x, y, z = forces.A[s, i, 3 * j], forces.A[s, i, 3 * j + 1], forces.A[s, i, 3 * j + 2]
    share = -1.0 if i == 0 else 0.0
    return (fma(share, d[0], x), fma(share, d[1], y), fma(share, d[2], z))


@kernel
def force_rows(forces, f, r):
    """r (S rows) of the contact forces f, which come before the moments of rigid feet."""
    S, rows, parts = forces.b.shape[0], forces.b.shape[1], forces.blocks.shape[1]
    for s in range(S):
        for i in range(rows):
            x = splat(f, forces.b[s, i])
            for j in range(parts):
                a = (forces.A[s, i, 3 * j], forces.A[s, i, 3 * j + 1], forces.A[s, i, 3 * j + 2])
                x += dot3(a, load3(f, 3 * forces.blocks[s, j]))
            store(r, s * rows + i, x)
        if forces.smoothing > 0.0:
            _, length = _tangent(forces, load3(f, 3 * forces.blocks[s, 0]))
            store(r, s * rows, load(r, s * rows) - length)


@kernel
def force_expansion(forces, f, mu, gauss_newton_weight, g, G, K):
    """Per part the gradient g (3 k) = sum_i mu_i dr_i/dF, and the matrices, (9 k k) each,
    G = sum_i gauss_newton_weight_i (dr_i/dF)'(dr_i/dF) and K = sum_i mu_i d2r_i/dF2."""
    S, rows, parts = forces.b.shape[0], forces.b.shape[1], forces.blocks.shape[1]
    width = 3 * parts
    g[:], G[:], K[:] = 0.0, 0.0, 0.0
    for s in range(S):
        d, inverse = force_direction(forces, f, s)
        o = s * width * width
        for i in range(rows):
            scale, weight = load(mu, s * rows + i), load(gauss_newton_weight, s * rows + i)
            for j in range(parts):
                a = row_gradient(forces, s, i, j, d)
                for e in range(3):
                    at = 3 * j + e
                    store(g, s * width + at, fma(scale, a[e], load(g, s * width + at)))
                    for c in range(parts):
                        _add_row(G, o + at * width + 3 * c, weight * a[e], row_gradient(forces, s, i, c, d))
        _store_root_curvature(forces, d, -load(mu, s * rows) * inverse, K, o)


@helper
def _add_row(G, o, scale, a):
    for e in range(3):
        store(G, o + e, fma(scale, a[e], load(G, o + e)))


@helper
def _store_root_curvature(forces, d, scale, K, o):
    """scale (P - d d'), (9), at o."""
    if forces.smoothing == 0.0:
        return
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
