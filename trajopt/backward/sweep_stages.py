"""Stages of one knot of the SIMD sweep: helpers over small matrices, inlined into the sweep (formulas there)."""

from typing import NamedTuple

import numpy as np

from dynamics.simd import LANES, fma, helper
from dynamics.simd.rows import Matrix, Term, entry, load_part, set_entry, store_part, submatrix
from trajopt.backward.box_qp import PIVOT, box_qp
from trajopt.matrix_products import copy_rows, padded, row_product


@helper
def inner_matrix(n, h, V, v, lxx, M, G, p, S):
    """M, G, p of the module's formulas for semi-implicit Euler, and S = lxx[:n] + [V'qq 0]."""
    for i in range(n):
        for j in range(0, n, LANES):
            qq, vq = load_part(V, i, j, n - j), load_part(V, n + i, j, n - j)
            mixed = load_part(V, i, n + j, n - j) + vq
            store_part(G, i, j, LANES, fma(h, qq, vq))
            store_part(M, i, j, LANES, fma(h, fma(h, qq, mixed), load_part(V, n + i, n + j, n - j)))
        for j in range(0, 2 * n, LANES):
            store_part(S, i, j, LANES, load_part(lxx, i, j, 2 * n - j) + load_part(V, i, j, n - j))
        set_entry(p, i, 0, fma(h, entry(v, 0, i), entry(v, 0, n + i)))


@helper
def inner_matrix_behind(n, b, h, V, v, lxx, M, G, p, S):
    """The same where the first b configuration rows are dense.  Rows of M, G, p and columns of M: these b, then all
    velocities; S, from row b on: lxx, with V'qq added where both indices are from b on."""
    for i in range(n + b):
        source = i if i < b else n + i - b
        weight, extra = (0.0, source) if i < 2 * b else (h, i - b)
        for j in range(0, padded(n + b), LANES):
            store_part(G, i, j, LANES, load_part(V, source, j, 0))
        for j in range(0, n - b, LANES):
            rest = n - b - j
            q = fma(weight, load_part(V, extra, b + j, rest), load_part(V, source, b + j, rest))
            v_ = fma(weight, load_part(V, extra, n + b + j, rest), load_part(V, source, n + b + j, rest))
            store_part(G, i, b + j, rest, q)
            store_part(M, i, 2 * b + j, rest, fma(h, q, v_))
        for j in range(0, b, LANES):
            for column, at in (0, 0), (n, b):
                row = fma(weight, load_part(V, extra, column + j, b - j), load_part(V, source, column + j, b - j))
                store_part(M, i, at + j, b - j, row)
        set_entry(p, i, 0, fma(weight, entry(v, 0, extra), entry(v, 0, source)))
    for i in range(b, n):
        copy_rows(1, 2 * n, submatrix(S, i, 0), submatrix(lxx, i, 0))
        for j in range(b, n, LANES):
            store_part(S, i, j, n - j, load_part(lxx, i, j, n - j) + load_part(V, i, j, n - j))


class Rows(NamedTuple):
    """Rows of a matrix in two places: the first b, which may be none, and the others."""

    top: Matrix
    bottom: Matrix


@helper
def count(leading):
    """The number in a tuple that may be empty, else 0."""
    if len(leading) == 0:
        return 0
    return leading[0]


@helper
def split(leading, matrix):
    """A matrix in one place."""
    return Rows(matrix, submatrix(matrix, count(leading), 0))


@helper
def terms(leading, rows, left, right):
    """left'right of matrices with so many rows, of which leading = (b,) are on top, or () none."""
    if len(leading) == 0:
        return (Term(left.bottom, right.bottom, rows),)
    return (Term(left.top, right.top, leading[0]), Term(left.bottom, right.bottom, rows - leading[0]))


@helper
def acceleration_model(n, h, V, v, lx, lu, lxx, lux, luu, M, G, p, s, U, Y, Qu, Qx):
    """The action value where accelerations are the controls: fx[n:] = [0 I] and fu[n:] = h I, so that T = [G M],

    Quu = luu + h^2 M, Qux = lux + h T, Qu = lu + h p, Qx = lx + [v'q; p] and Qxx = lxx + [[V'qq, G'], [G, M]], of which
    the upper triangle goes into s.S (rows q) and s.T (rows v).  M, G, p and s.S = lxx[:n] + [V'qq 0] are in place."""
    for i in range(n):
        for j in range(0, n, LANES):
            m = load_part(M, i, j, LANES)
            store_part(U, i, j, LANES, fma(h * h, m, load_part(luu, i, j, n - j)))
        for j in range(n):
            set_entry(Y, i, j, fma(h, entry(G, i, j), entry(lux, i, j)))
            set_entry(Y, i, n + j, fma(h, entry(M, i, j), entry(lux, i, n + j)))
            set_entry(s.S, i, n + j, entry(s.S, i, n + j) + entry(G, j, i))
            set_entry(s.T, i, n + j, entry(lxx, n + i, n + j) + entry(M, i, j))
        set_entry(Qu, 0, i, fma(h, entry(p, i, 0), entry(lu, 0, i)))
        set_entry(Qx, 0, i, entry(lx, 0, i) + entry(v, 0, i))
        set_entry(Qx, 0, n + i, entry(lx, 0, n + i) + entry(p, i, 0))


@helper
def regularized(nu, mu, luu, target):
    """target = luu + mu I."""
    for i in range(nu):
        for j in range(nu):
            set_entry(target, i, j, entry(luu, i, j))
        set_entry(target, i, i, entry(luu, i, i) + mu)


@helper
def clamp_controls(t, ndx, nu, mu, box, U, Y, Qu, Qx):
    """Solve the box QP of knot t; then rewrite Quu, Qux, Qu, Qx so that the stages that follow keep clamped controls.

    With c clamped to k_c and f free:  Qx += Qux_c'k_c,  Qu_f += Quu_fc k_c,  Qu_c = -Quu_cc k_c,  Qux_c = 0, and Quu
    loses its rows and columns c but for the diagonal.  Returns whether Quu_ff is positive definite, k'Qu, k'Quu k."""
    H, g, x, clamped = box.H, box.g, box.k[t], box.clamped[t]
    for i in range(nu):
        g[i], x[i] = entry(Qu, 0, i), 0.0
        for j in range(i, nu):
            H[i, j] = entry(U, i, j)
            H[j, i] = H[i, j]
    good = box_qp(H, g, box.lower[t], box.upper[t], x, clamped, box.L, box.work)
    slope, curvature = 0.0, 0.0
    for i in range(nu):
        slope += x[i] * g[i]
        curvature -= mu * x[i] * x[i]
        for j in range(nu):
            curvature += x[i] * H[i, j] * x[j]
    for c in range(nu):
        if clamped[c]:
            for j in range(0, ndx, LANES):
                store_part(Qx, 0, j, LANES, fma(x[c], load_part(Y, c, j, LANES), load_part(Qx, 0, j, LANES)))
                store_part(Y, c, j, LANES, 0.0 * load_part(Y, c, j, LANES))
            for i in range(nu):
                if not clamped[i]:
                    set_entry(Qu, 0, i, fma(H[i, c], x[c], entry(Qu, 0, i)))
                if i != c:
                    set_entry(U, i, c, 0.0)
                    set_entry(U, c, i, 0.0)
            set_entry(Qu, 0, c, -H[c, c] * x[c])
    return good, slope, curvature


@helper
def factorize(ndx, nu, U, Y, Qu, Qx, F, Z, z):
    """In place, row by row: U = L^-1 (Quu + mu I), Y = L^-1 Qux, Qu = L^-1 Qu, Qx = Qx + Z'y.

    Besides F = -D^-1 U, Z = -D^-1 Y, z = -D^-1 y.  Returns whether all pivots are good, and z'y = k'Qu."""
    d1, largest = 0.0, 0.0
    for c in range(nu):
        largest = max(largest, abs(entry(U, c, c)))
    for c in range(nu):
        row_product(c, c // LANES * LANES, nu, U, U, (Term(F, U, c),))
        row_product(c, 0, ndx, Y, Y, (Term(F, Y, c),))
        pivot = entry(U, c, c)
        if not (pivot > PIVOT * largest and pivot < np.inf):
            return False, d1
        scale = -1.0 / pivot
        y = entry(Qu, 0, c)
        zc = scale * y
        d1 += zc * y
        set_entry(z, c, 0, zc)
        for j in range(c // LANES * LANES, nu, LANES):
            row = load_part(U, c, j, LANES)
            store_part(F, c, j, LANES, scale * row)
            store_part(Qu, 0, j, LANES, fma(zc, row, load_part(Qu, 0, j, LANES)))
        for j in range(0, ndx, LANES):
            row = load_part(Y, c, j, LANES)
            store_part(Z, c, j, LANES, scale * row)
            store_part(Qx, 0, j, LANES, fma(zc, row, load_part(Qx, 0, j, LANES)))
    return True, d1


@helper
def back_substitute(ndx, nu, F, Z, z, k, K, K_out):
    """k = L^-T z and K = L^-T Z, last row first; K is padded scratch, K_out the result."""
    for c in range(nu - 1, -1, -1):
        x = entry(z, c, 0)
        for i in range(nu - 1, c, -1):
            x = fma(entry(F, c, i), entry(k, i, 0), x)
        set_entry(k, c, 0, x)
        coefficients = Matrix(submatrix(F, c, c + 1).address, 1)
        row, below = submatrix(K, c, 0), submatrix(K, c + 1, 0)
        row_product(0, 0, ndx, row, submatrix(Z, c, 0), (Term(coefficients, below, nu - 1 - c),))
        copy_rows(1, ndx, submatrix(K_out, c, 0), row)


@helper
def policy_penalty(ndx, nu, mu, k, K, muK, gradient):
    """muK = -mu K, gradient -= mu K'k; returns mu k'k."""
    total = 0.0
    for c in range(nu):
        kc = entry(k, c, 0)
        total += mu * kc * kc
        for j in range(0, ndx, LANES):
            row = -mu * load_part(K, c, j, LANES)
            store_part(muK, c, j, LANES, row)
            store_part(gradient, 0, j, LANES, fma(kc, row, load_part(gradient, 0, j, LANES)))
    return total


@helper
def hold_clamped(t, nu, box, k):
    """k_c exactly as the box QP left it."""
    for c in range(nu):
        if box.clamped[t, c]:
            set_entry(k, c, 0, box.k[t, c])


@helper
def shift_gradient(ndx, V, gap, v):
    """v += V gap: the gradient of the value function at the end of the gap."""
    for i in range(ndx):
        x = entry(v, 0, i)
        for j in range(ndx):
            x = fma(entry(V, i, j), gap[j], x)
        set_entry(v, 0, i, x)


@helper
def finite(rows, width, V):
    """Whether V[:rows, :width] is free of NaN and infinity."""
    for i in range(rows):
        for j in range(width):
            if not abs(entry(V, i, j)) < np.inf:
                return False
    return True


@helper
def mirror(size, V):
    """The lower triangle from the upper one."""
    for i in range(size):
        for j in range(i):
            set_entry(V, i, j, entry(V, j, i))
