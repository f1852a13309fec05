"""Backward pass over a tree of rods and joints: generalised forces, mass matrix, first derivatives, Hessian.

A segment with composites f, n, m, M, N, B of all that moves with its end, and increments S, R, Q, W, has right factors

    Y1 = N R + M Q + K_f S      Y2 = N'W + B R + K_n S + K_m R      Y3 = M W + K_m S
    X1 = N S + 2 M R            X2 = B S + K_m S                    X3 = M S              X4 = N'S

and with J, R, Q, W of all coordinates on the path, at the middle of the segment,                  [rod_hessian, 2]

    dID/dq = J'Y1 + {R'X4 + Q'X3}'        dID/dv = J'X1 + {J'X4 + 2 R'X3}'        M = {J'X3 + its transpose}
    Hqq = {W'Y1 + R'Y2 + Q'Y3 + its transpose}      Hqv = W'X1 + R'X2 + {J'Y2 + 2 R'Y3}'
    Hvv = {J'X2 + its transpose}                    Hqa = W'X3 + {J'Y3}'

summed over segments, each with the curvature of `curvature` in its own block.  Strains multiply the factors at last:
two numbers for a coordinate of a rod.
"""

from dynamics.rods.arrays import (
    COLUMNS,
    COMPOSITE,
    DOUBLE_FORCE,
    FAMILIES,
    FIRST,
    FORCE,
    INERTIA_RATE,
    LOAD_FORCE,
    MASS_MATRIX,
    MOMENTUM,
    RATE_FORCE,
    ROD,
    SCREW,
    SECOND,
    SEGMENT,
    VIRTUAL_MOMENT,
    VIRTUAL_RATE,
)
from dynamics.rods.composites import add_at, add_node, add_to_parent, composite_inertia
from dynamics.rods.curvature import CURVATURE_NUMBERS, HALVES, segment_curvature
from dynamics.rods.load_arrays import B6, LOADS, M6, N6, C, P
from dynamics.rods.loads import add_loads, add_loads_to_parent
from dynamics.rods.matrices import times6, transposed_times6
from dynamics.rods.strains import add_families, component_of, half_columns, mode
from dynamics.simd import align_stack, fma, helper, kernel, load, splat, store
from dynamics.spatial import (
    add6,
    add_cross_force,
    add_dot6,
    add_inertia_times,
    add_scaled6,
    cross_force,
    dot6,
    inertia_times,
    linear,
    load3,
    load6,
    rate_times,
    scale6,
    store6,
    sub6,
)

# right factors in scratch, (12, 6) each
Y1, X1, X3, X4, Y2, Y3, X2 = 0, 72, 144, 216, 288, 360, 432
PT, Y4 = 504, 576
FACTORS = 648
PRODUCTS = 11
"""Left products of a coordinate with the factors, 12 each: J'Y1, R'X4 + Q'X3, J'X1, J'X4 + 2 R'X3, J'X3, then those of
the Hessian: qq, qv and its transposed part, vv, qa and its transposed part."""
BLOCKS = 9
"""Sums (n, n): dID/dq, dID/dv, half of M, half of Hqq, Hqv and what is transposed in it, half of Hvv, Hqa likewise."""


# ------------------------------------------------------------------------------------------------ factors
@kernel
def _right_factors(m, s, level, seg, ws):
    """The factors of the columns whose component has coordinates."""
    align_stack(seg)
    mass, h, I = composite_inertia(seg)
    o, two = COMPOSITE, splat(seg, 2.0)
    f, p, J = load6(seg, o + FORCE), load6(seg, o + MOMENTUM), load6(seg, o + INERTIA_RATE)
    k = linear(p)
    for c in range(half_columns(m, s)):
        r, e = c - 6 if c >= 6 else c, 6 * c
        if m.rows[s, r] == m.rows[s, r + 1]:
            continue
        S = load6(seg, COLUMNS + e)
        MS = inertia_times(mass, h, I, S)
        store6(ws, X3 + e, MS)
        if level >= FIRST:
            R, Q = load6(seg, COLUMNS + 72 + e), load6(seg, COLUMNS + 144 + e)
            rate, turned = rate_times(k, J, S), cross_force(S, p)
            NR = add_cross_force(rate_times(k, J, R), R, p)
            store6(ws, Y1 + e, add_inertia_times(add_cross_force(NR, S, f), mass, h, I, Q))
            store6(ws, X1 + e, add_scaled6(add6(rate, turned), two, inertia_times(mass, h, I, R)))
            store6(ws, X4 + e, sub6(rate, turned))
        if level >= SECOND:
            n, d = load6(seg, o + RATE_FORCE), load6(seg, o + DOUBLE_FORCE)
            b, B = load3(seg, o + VIRTUAL_MOMENT), load6(seg, o + VIRTUAL_RATE)
            W, R = load6(seg, COLUMNS + 216 + e), load6(seg, COLUMNS + 72 + e)
            y, twist = add_cross_force(cross_force(S, n), R, d), cross_force(S, d)
            y = sub6(add6(y, rate_times(k, J, W)), add6(cross_force(W, p), rate_times(b, B, R)))
            store6(ws, Y2 + e, y)
            store6(ws, Y3 + e, add_inertia_times(twist, mass, h, I, W))
            store6(ws, X2 + e, sub6(twist, rate_times(b, B, S)))


@kernel
def _add_load_factors(m, s, level, seg, extra, ws):
    """What external loads add to the factors, and P'S and P'W + C S + K_e S / 2."""
    align_stack(seg)
    two, half = splat(seg, 2.0), splat(seg, 0.5)
    for c in range(half_columns(m, s)):
        r, e = c - 6 if c >= 6 else c, 6 * c
        if m.rows[s, r] == m.rows[s, r + 1]:
            continue
        S = load6(seg, COLUMNS + e)
        MS = times6(extra, M6, S)
        add_at(ws, X3 + e, MS)
        if level >= FIRST:
            R, Q = load6(seg, COLUMNS + 72 + e), load6(seg, COLUMNS + 144 + e)
            add_at(ws, Y1 + e, add6(add6(times6(extra, N6, R), times6(extra, M6, Q)), times6(extra, P, S)))
            add_at(ws, X1 + e, add_scaled6(times6(extra, N6, S), two, times6(extra, M6, R)))
            add_at(ws, X4 + e, transposed_times6(extra, N6, S))
            store6(ws, PT + e, transposed_times6(extra, P, S))
        if level >= SECOND:
            W, R = load6(seg, COLUMNS + 216 + e), load6(seg, COLUMNS + 72 + e)
            add_at(ws, Y2 + e, add6(transposed_times6(extra, N6, W), times6(extra, B6, R)))
            add_at(ws, Y3 + e, times6(extra, M6, W))
            add_at(ws, X2 + e, times6(extra, B6, S))
            y = add6(transposed_times6(extra, P, W), times6(extra, C, S))
            store6(ws, Y4 + e, add_scaled6(y, half, cross_force(S, load6(seg, COMPOSITE + LOAD_FORCE))))


# ------------------------------------------------------------------------------------------------ products
@kernel
def _left_products(m, s, level, i, columns, ws, L):
    """Products of J, R, Q, W of coordinate i with the factors."""
    align_stack(ws)
    o, two = FAMILIES * i, splat(ws, 2.0)
    J, R, Q, W = load6(columns, o), load6(columns, o + 6), load6(columns, o + 12), load6(columns, o + 18)
    R2 = scale6(R, two)
    for c in range(half_columns(m, s)):
        r, e = c - 6 if c >= 6 else c, 6 * c
        if m.rows[s, r] == m.rows[s, r + 1]:
            continue
        x3 = load6(ws, X3 + e)
        store(L, 48 + c, dot6(J, x3))
        if level >= FIRST:
            x1, x4, y1 = load6(ws, X1 + e), load6(ws, X4 + e), load6(ws, Y1 + e)
            store(L, c, dot6(J, y1))
            store(L, 12 + c, add_dot6(dot6(R, x4), Q, x3))
            store(L, 24 + c, dot6(J, x1))
            store(L, 36 + c, add_dot6(dot6(J, x4), R2, x3))
            if level >= SECOND:
                y2, y3, x2 = load6(ws, Y2 + e), load6(ws, Y3 + e), load6(ws, X2 + e)
                store(L, 60 + c, add_dot6(add_dot6(dot6(W, y1), R, y2), Q, y3))
                store(L, 72 + c, add_dot6(dot6(W, x1), R, x2))
                store(L, 84 + c, add_dot6(dot6(J, y2), R2, y3))
                store(L, 96 + c, dot6(J, x2))
                store(L, 108 + c, dot6(W, x3))
                store(L, 120 + c, dot6(J, y3))


@kernel
def _add_load_products(m, s, level, i, columns, ws, L):
    """Products of J of coordinate i with the factors that loads have of their own."""
    align_stack(ws)
    J = load6(columns, FAMILIES * i)
    for c in range(half_columns(m, s)):
        r, e = c - 6 if c >= 6 else c, 6 * c
        if m.rows[s, r] == m.rows[s, r + 1]:
            continue
        store(L, 12 + c, add_dot6(load(L, 12 + c), J, load6(ws, PT + e)))
        if level >= SECOND:
            store(L, 60 + c, add_dot6(load(L, 60 + c), J, load6(ws, Y4 + e)))


@kernel
def _add_curvature(m, s, level, row, i, halves, L):
    """Add row i of the segment's own U/2, a coordinate of component `row`, to the products."""
    align_stack(L)
    one, two = mode(m, s, i)
    for c in range(half_columns(m, s)):
        for k in range(4 if level >= SECOND else 1):
            o = 144 * k + 12 * row + c
            u = one * load(halves, o)
            if m.kind[s] == ROD:
                u = fma(two, load(halves, o + 72), u)
            if k == 0:
                store(L, c, load(L, c) + u)
                store(L, 12 + c, load(L, 12 + c) + u)
            elif k == 1:
                store(L, 60 + c, load(L, 60 + c) + u)
            elif k == 2:
                store(L, 72 + c, load(L, 72 + c) + u)
                store(L, 84 + c, load(L, 84 + c) + u)
            else:
                store(L, 96 + c, load(L, 96 + c) + u)
                store(L, 108 + c, fma(0.5, u, load(L, 108 + c)))
                store(L, 120 + c, fma(0.5, u, load(L, 120 + c)))


@helper
def _both(L, o, rod):
    """Products with the strains at both points; a joint has one point, and modes of zero at the second."""
    x = load(L, o)
    return x, (load(L, o + 6) if rod else x)


@helper
def _add_strained(A, o, x, one, two):
    store(A, o, fma(two, x[1], fma(one, x[0], load(A, o))))


@kernel
def _add_pairs(m, s, level, n, i, L, A):
    """Add the products of coordinate i, times the strains of the segment's coordinates j, to the blocks of A."""
    align_stack(A)
    size, rod = n * n, m.kind[s] == ROD
    for r in range(6):
        first, last, shift = m.rows[s, r], m.rows[s, r + 1], m.first_mode[s] - m.rows[s, 0]
        if first == last:
            continue
        mass = _both(L, 48 + r, rod)
        for j in range(first, last):
            _add_strained(A, 2 * size + i * n + j, mass, m.modes[shift + j, 0], m.modes[shift + j, 1])
        if level >= FIRST:
            of_q, to_q = _both(L, r, rod), _both(L, 12 + r, rod)
            of_v, to_v = _both(L, 24 + r, rod), _both(L, 36 + r, rod)
            for j in range(first, last):
                one, two, ij, ji = m.modes[shift + j, 0], m.modes[shift + j, 1], i * n + j, j * n + i
                _add_strained(A, ij, of_q, one, two)
                _add_strained(A, ji, to_q, one, two)
                _add_strained(A, size + ij, of_v, one, two)
                _add_strained(A, size + ji, to_v, one, two)
        if level >= SECOND:
            x0, x1, x2 = _both(L, 60 + r, rod), _both(L, 72 + r, rod), _both(L, 84 + r, rod)
            x3, x4, x5 = _both(L, 96 + r, rod), _both(L, 108 + r, rod), _both(L, 120 + r, rod)
            for j in range(first, last):
                one, two, ij = m.modes[shift + j, 0], m.modes[shift + j, 1], 3 * size + i * n + j
                _add_strained(A, ij, x0, one, two)
                _add_strained(A, ij + size, x1, one, two)
                _add_strained(A, ij + 2 * size, x2, one, two)
                _add_strained(A, ij + 3 * size, x3, one, two)
                _add_strained(A, ij + 4 * size, x4, one, two)
                _add_strained(A, ij + 5 * size, x5, one, two)


# ------------------------------------------------------------------------------------------------ the pass
@kernel
def _add_forces(m, s, seg, tau):
    """Generalised forces of the segment's coordinates: S'f through the strains."""
    align_stack(seg)
    f, rod = load6(seg, COMPOSITE + FORCE), m.kind[s] == ROD
    for r in range(6):
        if m.rows[s, r] == m.rows[s, r + 1]:
            continue
        first = dot6(load6(seg, COLUMNS + 6 * r), f)
        second = dot6(load6(seg, COLUMNS + 36 + 6 * r), f) if rod else first
        for j in range(m.rows[s, r], m.rows[s, r + 1]):
            one, two = mode(m, s, j)
            x = fma(one, first, load(tau, j))
            store(tau, j, fma(two, second, x) if rod else x)


@kernel
def _segment_blocks(m, external, s, level, seg, columns, extra, ws, A):
    """What one segment adds to the blocks of A."""
    n = m.numbers[0]
    factors, curvature, L = ws[:FACTORS], ws[FACTORS : FACTORS + CURVATURE_NUMBERS], ws[FACTORS + CURVATURE_NUMBERS :]
    _right_factors(m, s, level, seg, factors)
    loaded = external.loaded[s] == 1
    if loaded:
        _add_load_factors(m, s, level, seg, extra, factors)
    curved = level >= FIRST and m.kind[s] != SCREW
    if curved:
        segment_curvature(m.step[s, 0], m.step[s, 1], 2 if m.kind[s] == ROD else 1, level, seg, curvature)
    for t in range(m.path_start[s], m.path_start[s + 1]):
        i = m.path[t]
        _left_products(m, s, level, i, columns, factors, L)
        if loaded and level >= FIRST:
            _add_load_products(m, s, level, i, columns, factors, L)
        row = component_of(m, s, i)
        if curved and row >= 0:
            _add_curvature(m, s, level, row, i, curvature[HALVES:], L)
        _add_pairs(m, s, level, n, i, L, A)


@kernel
def backward_pass(m, external, level, wrenches, segments, columns, loads, ws, tau, A):
    """Generalised forces tau (n) and the sums A (BLOCKS n n, as the level needs them) after `forward_pass`; wrenches of
    the external loads that take them, and what all loads come to (LOADS per segment)."""
    align_stack(tau)
    n = m.numbers[0]
    families = 4 if level >= SECOND else (3 if level >= FIRST else 1)
    tau[:n] = 0.0
    for s in range(m.parent.size):
        if external.loaded[s] == 1:
            loads[s * LOADS : (s + 1) * LOADS] = 0.0
    A[: n * n * (BLOCKS if level >= SECOND else (3 if level >= MASS_MATRIX else 0))] = 0.0
    for s in range(m.parent.size - 1, -1, -1):
        seg = segments[s * SEGMENT : (s + 1) * SEGMENT]
        extra = loads[s * LOADS : (s + 1) * LOADS]
        add_node(m, s, level, seg)
        if external.start[s] < external.start[s + 1]:
            add_loads(m, external, wrenches, s, level, seg, extra, ws)
        if m.rows[s, 0] < m.rows[s, 6]:
            _add_forces(m, s, seg, tau)
            if level >= MASS_MATRIX:
                add_families(m, s, -0.5, families, seg, columns)
                _segment_blocks(m, external, s, level, seg, columns, extra, ws, A)
                add_families(m, s, -0.5, families, seg, columns)
        add_to_parent(m, s, segments)
        add_loads_to_parent(m, external, s, loads)


def backward_numbers() -> int:
    """Numbers of the scratch of `backward_pass`."""
    return FACTORS + CURVATURE_NUMBERS + 12 * PRODUCTS
