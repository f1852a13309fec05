"""Sums over segments of products with strains: blocks (n, n) of derivatives.

Where coordinates i go in groups, blocks are added up transposed, so that the numbers of a group lie side by side.
"""

from dynamics.rods.model.arrays import FIRST, MASS_MATRIX, ROD, SECOND
from dynamics.rods.recursion.products import product
from dynamics.simd import align_stack, fma, group_size, helper, kernel, load, load_group, store, store_group

BLOCKS = 11
"""Sums (n, n): dID/dq, dID/dv, half of M, half of Hqq, Hqv and what is transposed in it, half of Hvv, Hqa likewise, and
what is transposed in dID/dq and dID/dv."""
@helper
def _both(L, c, rod):
    """Products with the strains at both points; a joint has one point, and modes of zero at the second."""
    x = product(L, c)
    return x, (product(L, c + 6) if rod else x)


@helper
def _add_strained(A, o, members, x, one, two):
    store_group(A, o, members, fma(two, x[1], fma(one, x[0], load_group(A, o, members))))


@kernel
def add_pairs(m, s, level, i, members, L, A):
    """Add the products of the coordinates from i on, times the strains of the segment's coordinates j, to the blocks of
    A."""
    align_stack(A)
    n, rod, transposed = m.numbers[0], m.kind[s] == ROD, group_size(A) > 1
    size = n * n
    of_q, of_v = (9 * size, 10 * size) if transposed else (0, size)
    qv, vq, qa, aq = (5, 4, 8, 7) if transposed else (4, 5, 7, 8)
    for r in range(6):
        first, last, shift = m.rows[s, r], m.rows[s, r + 1], m.first_mode[s] - m.rows[s, 0]
        if first == last:
            continue
        mass = _both(L, 48 + r, rod)
        for j in range(first, last):
            ij = j * n + i if transposed else i * n + j
            _add_strained(A, 2 * size + ij, members, mass, m.modes[shift + j, 0], m.modes[shift + j, 1])
        if level >= FIRST:
            x0, x1, x2, x3 = _both(L, r, rod), _both(L, 12 + r, rod), _both(L, 24 + r, rod), _both(L, 36 + r, rod)
            for j in range(first, last):
                one, two, ji = m.modes[shift + j, 0], m.modes[shift + j, 1], j * n + i
                ij = ji if transposed else i * n + j
                _add_strained(A, of_q + ij, members, x0, one, two)
                _add_strained(A, ji, members, x1, one, two)
                _add_strained(A, of_v + ij, members, x2, one, two)
                _add_strained(A, size + ji, members, x3, one, two)
        if level >= SECOND:
            x0, x1, x2 = _both(L, 60 + r, rod), _both(L, 72 + r, rod), _both(L, 84 + r, rod)
            x3, x4, x5 = _both(L, 96 + r, rod), _both(L, 108 + r, rod), _both(L, 120 + r, rod)
            for j in range(first, last):
                one, two, ij = m.modes[shift + j, 0], m.modes[shift + j, 1], j * n + i if transposed else i * n + j
                _add_strained(A, 3 * size + ij, members, x0, one, two)
                _add_strained(A, qv * size + ij, members, x1, one, two)
                _add_strained(A, vq * size + ij, members, x2, one, two)
                _add_strained(A, 6 * size + ij, members, x3, one, two)
                _add_strained(A, qa * size + ij, members, x4, one, two)
                _add_strained(A, aq * size + ij, members, x5, one, two)


@kernel
def _add_transpose(n, A, target, source):
    """Block `target` += the transpose of block `source`; they may be one."""
    align_stack(A)
    o, p = target * n * n, source * n * n
    for i in range(n):
        for j in range(i + 1):
            ij, ji = i * n + j, j * n + i
            x, y = load(A, o + ij) + load(A, p + ji), load(A, o + ji) + load(A, p + ij)
            store(A, o + ij, x)
            store(A, o + ji, y)


@kernel
def clear_blocks(n, level, A):
    """Zero the blocks that the level needs."""
    size = n * n
    A[: (9 if level >= SECOND else (3 if level >= MASS_MATRIX else 0)) * size] = 0.0
    if level >= FIRST and group_size(A) > 1:
        A[9 * size : 11 * size] = 0.0


@kernel
def add_transposed_blocks(n, level, A):
    """Turn the sums into derivatives: dq, dv, M, Hqq, Hqv, scratch, Hvv, Hqa, scratch."""
    if level >= MASS_MATRIX:
        _add_transpose(n, A, 2, 2)
    if level >= FIRST and group_size(A) > 1:
        _add_transpose(n, A, 0, 9)
        _add_transpose(n, A, 1, 10)
    if level >= SECOND:
        _add_transpose(n, A, 3, 3)
        _add_transpose(n, A, 4, 5)
        _add_transpose(n, A, 6, 6)
        _add_transpose(n, A, 7, 8)
