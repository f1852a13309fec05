"""The gains of one knot, from its action value: the second of the sweep's three parts.

    k = -(Quu + mu I)^-1 Qu      K = -(Quu + mu I)^-1 Qux                                   [Tassa 2012, eq. 10]

by L D L' = Quu + mu I, Y = L^-1 Qux, y = L^-1 Qu, Z = -D^-1 Y, z = -D^-1 y, K = L^-T Z, k = L^-T z.  With control
limits a box QP finds k and the clamped controls, whose rows of K are zero [Tassa 2014].
"""

import numpy as np

from dynamics.simd import LANES, fma, helper
from dynamics.simd.rows import Matrix, Term, entry, load_part, matrix, set_entry, store_part, submatrix
from trajopt.backward.box_qp import PIVOT, Box, box_qp
from trajopt.matrix_products import copy_rows, row_product


@helper
def gains(t, shape, mu, box, s, result):
    """Write k and K of knot t into the result, K also below Qux in the scratch, where Y, Z and Qx + Z'y remain for V.

    Returns True if Quu + mu I is positive definite, k'Qu and k'Quu k.
    """
    ndx, nu = shape.ndx, shape.nu
    k = matrix(result.k, t * nu, 1)
    limited, linear, quadratic = False, 0.0, 0.0
    if box is not None:
        limits = Box(*box)
        limited = len(limits.lower) > 0
        if limited:
            good, linear, quadratic = clamp_controls(t, ndx, nu, mu, limits, s)
            if not good:
                return False, 0.0, 0.0
    good, change = factorize(ndx, nu, s)
    if not good:
        return False, 0.0, 0.0
    back_substitute(ndx, nu, s, k, matrix(result.K, t * nu * ndx, ndx))
    if box is not None:
        if limited:
            for c in range(nu):
                if limits.clamped[t, c]:
                    set_entry(k, c, 0, limits.k[t, c])  # exactly, without rounding
            return True, linear, quadratic
    quadratic = -change
    if mu > 0.0:
        for i in range(nu):
            quadratic -= mu * entry(k, i, 0) * entry(k, i, 0)
    return True, change, quadratic


@helper
def clamp_controls(t, ndx, nu, mu, box, s):
    """Solve the box QP of knot t; then rewrite Quu, Qux, Qu, Qx so that the stages that follow keep clamped controls.

    With c clamped to k_c and f free:  Qx += Qux_c'k_c,  Qu_f += Quu_fc k_c,  Qu_c = -Quu_cc k_c,  Qux_c = 0, and Quu
    loses its rows and columns c but for the diagonal, which is any positive number: its sign does not matter for a
    control that does not move.  Returns True if Quu_ff is positive definite, k'Qu, k'Quu k."""
    H, g, x, clamped = box.H, box.g, box.k[t], box.clamped[t]
    for i in range(nu):
        g[i], x[i] = entry(s.Qu, 0, i), 0.0
        for j in range(i, nu):
            H[i, j] = entry(s.Quu, i, j)
            H[j, i] = H[i, j]
    good = box_qp(H, g, box.lower[t], box.upper[t], x, clamped, box.L, box.work)
    linear, quadratic, largest = 0.0, 0.0, 0.0
    for i in range(nu):
        largest = max(largest, abs(H[i, i]))
        linear += x[i] * g[i]
        quadratic -= mu * x[i] * x[i]
        for j in range(nu):
            quadratic += x[i] * H[i, j] * x[j]
    for c in range(nu):
        if clamped[c]:
            for j in range(0, ndx, LANES):
                store_part(s.Qx, 0, j, LANES, fma(x[c], load_part(s.Qux, c, j, LANES), load_part(s.Qx, 0, j, LANES)))
                store_part(s.Qux, c, j, LANES, 0.0 * load_part(s.Qux, c, j, LANES))
            for i in range(nu):
                if not clamped[i]:
                    set_entry(s.Qu, 0, i, fma(H[i, c], x[c], entry(s.Qu, 0, i)))
                if i != c:
                    set_entry(s.Quu, i, c, 0.0)
                    set_entry(s.Quu, c, i, 0.0)
            diagonal = H[c, c] if H[c, c] > PIVOT * largest else (largest if largest > 0.0 else 1.0)
            set_entry(s.Quu, c, c, diagonal)
            set_entry(s.Qu, 0, c, -diagonal * x[c])
    return good, linear, quadratic


@helper
def factorize(ndx, nu, s):
    """Factorize in place, row by row: Quu + mu I = D L', Qux = Y, Qu = y, Qx = Qx + Z'y; besides F = -L', Z and z.

    Returns True if all pivots are positive, and z'y = k'Qu.
    """
    change, largest = 0.0, 0.0
    for c in range(nu):
        largest = max(largest, abs(entry(s.Quu, c, c)))
    for c in range(nu):
        row_product(c, c // LANES * LANES, nu, s.Quu, s.Quu, (Term(s.F, s.Quu, c),))
        row_product(c, 0, ndx, s.Qux, s.Qux, (Term(s.F, s.Qux, c),))
        pivot = entry(s.Quu, c, c)
        if not (pivot > PIVOT * largest and pivot < np.inf):
            return False, change
        scale = -1.0 / pivot
        y = entry(s.Qu, 0, c)
        z = scale * y
        change += z * y
        set_entry(s.z, c, 0, z)
        for j in range(c // LANES * LANES, nu, LANES):
            row = load_part(s.Quu, c, j, LANES)
            store_part(s.F, c, j, LANES, scale * row)
            store_part(s.Qu, 0, j, LANES, fma(z, row, load_part(s.Qu, 0, j, LANES)))
        for j in range(0, ndx, LANES):
            row = load_part(s.Qux, c, j, LANES)
            store_part(s.Z, c, j, LANES, scale * row)
            store_part(s.Qx, 0, j, LANES, fma(z, row, load_part(s.Qx, 0, j, LANES)))
    return True, change


@helper
def back_substitute(ndx, nu, s, k, K):
    """Compute k = L^-T z and K = L^-T Z, last row first, K also below Qux."""
    for c in range(nu - 1, -1, -1):
        x = entry(s.z, c, 0)
        for i in range(nu - 1, c, -1):
            x = fma(entry(s.F, c, i), entry(k, i, 0), x)
        set_entry(k, c, 0, x)
        coefficients = Matrix(submatrix(s.F, c, c + 1).address, 1)
        row, below = submatrix(s.Qux, nu + c, 0), submatrix(s.Qux, nu + c + 1, 0)
        row_product(0, 0, ndx, row, submatrix(s.Z, c, 0), (Term(coefficients, below, nu - 1 - c),))
        copy_rows(1, ndx, submatrix(K, c, 0), row)
