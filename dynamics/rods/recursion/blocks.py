"""Sums over segments of products with strains: blocks (n, n) of derivatives.

Where coordinates i go in groups, blocks are summed transposed, so that the entries of a group lie side by side.
"""

from typing import NamedTuple

import numpy as np

from dynamics.rods.model.arrays import FIRST, MASS_MATRIX, ROD, SECOND
from dynamics.rods.recursion.products import product
from dynamics.simd import align_stack, fma, group_size, helper, kernel, load, load_group, scatter, store, store_group
from dynamics.simd.lane_algebra import add_transpose
from dynamics.simd.lane_blocks import lanes, slicing
from dynamics.simd.sizes import Size

n = Size("n", "m.counts[0]")
"""Number of coordinates."""


class Blocks(NamedTuple):
    """Derivatives of ID; terms that enter transposed are summed in blocks of their own."""

    dq: np.ndarray = lanes(n * n)
    dv: np.ndarray = lanes(n * n)
    M: np.ndarray = lanes(n * n)
    Hqq: np.ndarray = lanes(n * n)
    Hqv: np.ndarray = lanes(n * n)
    Hvq: np.ndarray = lanes(n * n)
    Hvv: np.ndarray = lanes(n * n)
    Hqa: np.ndarray = lanes(n * n)
    Haq: np.ndarray = lanes(n * n)
    dq_transposed: np.ndarray = lanes(n * n)
    dv_transposed: np.ndarray = lanes(n * n)


slice_blocks, block_size = slicing(Blocks)
BLOCKS = len(Blocks._fields)


class BlockRows(NamedTuple):
    """Arrays for the derivatives of K knots, (K, n n) each, or without rows where a derivative is not needed."""

    dq: np.ndarray
    dv: np.ndarray
    M: np.ndarray
    Hqq: np.ndarray
    Hqv: np.ndarray
    Hvv: np.ndarray
    Hqa: np.ndarray


@kernel
def scatter_derivatives(b, t, rows):
    """Scatter the blocks to the knots from t on."""
    pairs = (
        (b.dq, rows.dq), (b.dv, rows.dv), (b.M, rows.M), (b.Hqq, rows.Hqq), (b.Hqv, rows.Hqv), (b.Hvv, rows.Hvv),
        (b.Hqa, rows.Hqa),
    )  # fmt: skip
    for x, target in pairs:
        if target.shape[0] > 0:
            scatter(x, t, target)


@helper
def _both(L, c, rod):
    """Products with the strains at both points; for a joint, which has one point, the modes at the second are zero."""
    x = product(L, c)
    return x, (product(L, c + 6) if rod else x)


@helper
def _places(n):
    """Start of each of the `Blocks` in A: a call with one array costs less than with all of them."""
    k = n * n
    return Blocks(0 * k, k, 2 * k, 3 * k, 4 * k, 5 * k, 6 * k, 7 * k, 8 * k, 9 * k, 10 * k)


@helper
def _add_strained(A, o, members, x, one, two):
    store_group(A, o, members, fma(two, x[1], fma(one, x[0], load_group(A, o, members))))


@kernel
def add_pairs(m, s, level, i, members, L, A):
    """Add the products of the coordinates from i on, times the strains of the segment's coordinates j, to the blocks of
    A."""
    align_stack(A)
    n, rod, transposed = m.counts[0], m.kind[s] == ROD, group_size(A) > 1
    at = _places(n)
    of_q, of_v = (at.dq_transposed, at.dv_transposed) if transposed else (at.dq, at.dv)
    qv, vq, qa, aq = (at.Hvq, at.Hqv, at.Haq, at.Hqa) if transposed else (at.Hqv, at.Hvq, at.Hqa, at.Haq)
    for r in range(6):
        first, last, shift = m.rows[s, r], m.rows[s, r + 1], m.first_mode[s] - m.rows[s, 0]
        if first == last:
            continue
        mass = _both(L, 48 + r, rod)
        for j in range(first, last):
            ij = j * n + i if transposed else i * n + j
            _add_strained(A, at.M + ij, members, mass, m.modes[shift + j, 0], m.modes[shift + j, 1])
        if level >= FIRST:
            x0, x1, x2, x3 = _both(L, r, rod), _both(L, 12 + r, rod), _both(L, 24 + r, rod), _both(L, 36 + r, rod)
            for j in range(first, last):
                one, two, ji = m.modes[shift + j, 0], m.modes[shift + j, 1], j * n + i
                ij = ji if transposed else i * n + j
                _add_strained(A, of_q + ij, members, x0, one, two)
                _add_strained(A, at.dq + ji, members, x1, one, two)
                _add_strained(A, of_v + ij, members, x2, one, two)
                _add_strained(A, at.dv + ji, members, x3, one, two)
        if level >= SECOND:
            x0, x1, x2 = _both(L, 60 + r, rod), _both(L, 72 + r, rod), _both(L, 84 + r, rod)
            x3, x4, x5 = _both(L, 96 + r, rod), _both(L, 108 + r, rod), _both(L, 120 + r, rod)
            for j in range(first, last):
                one, two, ij = m.modes[shift + j, 0], m.modes[shift + j, 1], j * n + i if transposed else i * n + j
                _add_strained(A, at.Hqq + ij, members, x0, one, two)
                _add_strained(A, qv + ij, members, x1, one, two)
                _add_strained(A, vq + ij, members, x2, one, two)
                _add_strained(A, at.Hvv + ij, members, x3, one, two)
                _add_strained(A, qa + ij, members, x4, one, two)
                _add_strained(A, aq + ij, members, x5, one, two)


@kernel
def _add_transposed(n, X, Y):
    """X (n n) += Y', where Y is another block."""
    align_stack(X)
    for i in range(n):
        for j in range(i + 1):
            ij, ji = i * n + j, j * n + i
            x, y = load(X, ij) + load(Y, ji), load(X, ji) + load(Y, ij)
            store(X, ij, x)
            store(X, ji, y)


@kernel
def clear_blocks(level, b):
    """Zero the blocks that the level needs."""
    if level >= MASS_MATRIX:
        b.dq[:], b.dv[:], b.M[:] = 0.0, 0.0, 0.0
    if level >= FIRST and group_size(b.M) > 1:
        b.dq_transposed[:], b.dv_transposed[:] = 0.0, 0.0
    if level >= SECOND:
        b.Hqq[:], b.Hqv[:], b.Hvq[:], b.Hvv[:], b.Hqa[:], b.Haq[:] = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0


@kernel
def add_transposed_blocks(n, level, b):
    """Add the blocks of transposed terms, which turns the sums into derivatives."""
    if level >= MASS_MATRIX:
        add_transpose(n, 1.0, b.M)
    if level >= FIRST and group_size(b.M) > 1:
        _add_transposed(n, b.dq, b.dq_transposed)
        _add_transposed(n, b.dv, b.dv_transposed)
    if level >= SECOND:
        add_transpose(n, 1.0, b.Hqq)
        _add_transposed(n, b.Hqv, b.Hvq)
        add_transpose(n, 1.0, b.Hvv)
        _add_transposed(n, b.Hqa, b.Haq)
