"""The value function of one knot under its gains: the third of the sweep's three parts.

    Vxx = Qxx + Z'Y - mu K'K     Vx = Qx + Z'y - mu K'k                                     (Y, y, Z of `gains`)

which equals Qxx + K'Quu K + K'Qux + Qux'K and Qx + K'Quu k + K'Qu + Qux'k [Tassa 2012, eq. 11] without their
cancellations.  The upper triangle is computed, then mirrored.  With gaps between the states and the dynamics, Vx at
each knot is that at the end of its gap, Vx + Vxx gap [Mastalli 2020].
"""

import numpy as np

from dynamics.simd import LANES, fma, helper
from dynamics.simd.rows import Term, entry, load_part, matrix, set_entry, store_part, submatrix
from trajopt.matrix_products import copy_rows, product


@helper
def value_function(shared, t, shape, mu, gaps, Qxx, s, result):
    """Write Vx, Vxx of knot t into the result, from Qxx and the scratch that `gains` left."""
    ndx, depth = shape.ndx, shape.nu
    V, v = matrix(result.Vxx, t * ndx * ndx, ndx), matrix(result.Vx, t * ndx, ndx)
    if mu > 0.0:
        subtract_penalty(ndx, shape.nu, mu, matrix(result.k, t * shape.nu, 1), s)
        depth = 2 * shape.nu
    lxx, A, G, m, b, n = Qxx
    quadratic, policy = Term(A, s.T, m), Term(s.Z, s.Qux, depth)
    product(shared, True, 0, b, ndx, V, lxx, (quadratic, policy))
    product(shared, True, b, n, ndx, V, s.S, (quadratic, Term(G, A, m), policy))
    product(shared, True, n, ndx, ndx, V, lxx, (quadratic, policy))
    copy_rows(1, ndx, v, s.Qx)
    finish_value(t, ndx, gaps, V, v)


@helper
def final_value(ndx, gaps, e, result):
    """Write Vx, Vxx of the last knot, those of the final cost."""
    t = len(e.lx) - 1
    V, v = matrix(result.Vxx, t * ndx * ndx, ndx), matrix(result.Vx, t * ndx, ndx)
    copy_rows(ndx, ndx, V, matrix(e.lxx, t * ndx * ndx, ndx))
    copy_rows(1, ndx, v, matrix(e.lx, t * ndx, ndx))
    finish_value(t, ndx, gaps, V, v)


@helper
def finish_value(t, ndx, gaps, V, v):
    """Copy the upper triangle of V to the lower one; move v to the end of the gap, if there are gaps."""
    for i in range(ndx):
        for j in range(i):
            set_entry(V, i, j, entry(V, j, i))
    if len(gaps) > 0:
        for i in range(ndx):
            x = entry(v, 0, i)
            for j in range(ndx):
                x = fma(entry(V, i, j), gaps[t, j], x)
            set_entry(v, 0, i, x)


@helper
def subtract_penalty(ndx, nu, mu, k, s):
    """Write -mu K below Z, for the product with K below Y; Qx -= mu K'k."""
    K, muK = submatrix(s.Qux, nu, 0), submatrix(s.Z, nu, 0)
    for c in range(nu):
        for j in range(0, ndx, LANES):
            row = -mu * load_part(K, c, j, LANES)
            store_part(muK, c, j, LANES, row)
            store_part(s.Qx, 0, j, LANES, fma(entry(k, c, 0), row, load_part(s.Qx, 0, j, LANES)))


@helper
def finite_value(ndx, result):
    """True if Vx, Vxx of the first knot are finite: no later knot would detect it."""
    V, v = matrix(result.Vxx, 0, ndx), matrix(result.Vx, 0, ndx)
    for i in range(ndx):
        if not abs(entry(v, 0, i)) < np.inf:
            return False
        for j in range(ndx):
            if not abs(entry(V, i, j)) < np.inf:
                return False
    return True
