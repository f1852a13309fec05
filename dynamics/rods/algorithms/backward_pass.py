"""Backward pass over a tree of rods and joints: generalised forces, mass matrix, first derivatives, Hessian.

A segment with composites f, n, m, M, N, B of all that moves with its end, and increments S, R, Q, W, has right factors

    Y1 = N R + M Q + K_f S      Y2 = N'W + B R + K_n S + K_m R      Y3 = M W + K_m S
    X1 = N S + 2 M R            X2 = B S + K_m S                    X3 = M S              X4 = N'S

and with J, R, Q, W of all coordinates on the path, at the middle of the segment,                  [rod_hessian, 2]

    dID/dq = J'Y1 + {R'X4 + Q'X3}'        dID/dv = J'X1 + {J'X4 + 2 R'X3}'        M = {J'X3 + its transpose}
    Hqq = {W'Y1 + R'Y2 + Q'Y3 + its transpose}      Hqv = W'X1 + R'X2 + {J'Y2 + 2 R'Y3}'
    Hvv = {J'X2 + its transpose}                    Hqa = W'X3 + {J'Y3}'

summed over segments, each with the curvature of its exponential map in its own block.  Strains multiply the factors
last: two numbers for a coordinate of a rod.
"""

from typing import NamedTuple

import numpy as np

from dynamics.rods.kinematics import exponential as jets
from dynamics.rods.kinematics.exponential import (
    curvature_jet,
    stumpff_derivatives,
    symmetric_of_order,
    tangent_transposed_times,
)
from dynamics.rods.kinematics.forward_pass import (
    add_beyond,
    add_families,
    column_place,
    component_of,
    half_columns,
    is_idle,
    mode,
    store_tangent,
    strain_columns,
)
from dynamics.rods.loads.composites import add_at, add_node, add_to_parent, composite_inertia, times6, transposed_times6
from dynamics.rods.loads.segment_loads import add_contact_pairs, add_loads, add_loads_to_parent
from dynamics.rods.model.arrays import (
    ACCELERATION,
    B6,
    COLUMNS,
    COMPOSITE,
    DOUBLE_FORCE,
    FIRST,
    FORCE,
    INERTIA_RATE,
    LOAD_FORCE,
    LOADS,
    M6,
    MASS_MATRIX,
    MOMENTUM,
    N6,
    OMEGA,
    RATE_FORCE,
    ROD,
    SCREW,
    SECOND,
    SEGMENT,
    START,
    TWIST,
    VIRTUAL,
    VIRTUAL_MOMENT,
    VIRTUAL_RATE,
    C,
    P,
    n,
)
from dynamics.simd import (
    LANES,
    align_stack,
    fma,
    group_size,
    helper,
    kernel,
    load,
    load_group,
    scatter,
    splat,
    split,
    store,
    store_group,
)
from dynamics.simd.lane_algebra import add_entry, add_transpose
from dynamics.simd.lane_blocks import lanes, slicing
from dynamics.spatial.spatial import (
    add6,
    add_cross,
    add_cross_force,
    add_dot6,
    add_inertia_times,
    add_scaled6,
    add_symmetric,
    angular,
    cross_force,
    dot3,
    dot6,
    inertia_times,
    join,
    linear,
    load3,
    load6,
    load9,
    rate_times,
    rotate_back,
    scale6,
    store6,
    sub6,
)

# --------------------------------------------------------------------------------------------
# Right factors of a segment, by which the columns on its path are multiplied.

# places in scratch, (12, 6) each
Y1, X1, X3, X4, Y2, Y3, X2 = 0, 72, 144, 216, 288, 360, 432
PT, Y4 = 504, 576
FACTORS = 648


@kernel
def right_factors(m, s, level, seg, ws):
    """Store the factors of the columns whose component has coordinates."""
    align_stack(seg)
    mass, h, I = composite_inertia(seg)
    o, two = COMPOSITE, splat(seg, 2.0)
    f, p, J = load6(seg, o + FORCE), load6(seg, o + MOMENTUM), load6(seg, o + INERTIA_RATE)
    k = linear(p)
    for c in range(half_columns(m, s)):
        if is_idle(m, s, c):
            continue
        e = 6 * c
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
def add_load_factors(m, s, level, seg, extra, ws):
    """Add the part of external loads to the factors, and P'S and P'W + C S + K_e S / 2."""
    align_stack(seg)
    two, half = splat(seg, 2.0), splat(seg, 0.5)
    for c in range(half_columns(m, s)):
        if is_idle(m, s, c):
            continue
        e = 6 * c
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


# --------------------------------------------------------------------------------------------
# Products of the columns on the path of a segment with its right factors, for groups of coordinates.
#
# For a single knot, a group has as many coordinates as a vector has lanes; for knots in lanes, one coordinate.

PRODUCTS = 11
"""Number of left products of a coordinate with the factors, 12 entries each: J'Y1, R'X4 + Q'X3, J'X1, J'X4 + 2 R'X3,
J'X3, then those of the Hessian: qq, qv and its transposed part, vv, qa and its transposed part."""
ALL = -1  # members of a group


# ------------------------------------------------------------------------------------------------ groups
@helper
def path_group(m, s, t, ws):
    """First coordinate and number of members of the group that begins with m.path[t], and the start of the next group
    in the path."""
    first, members = m.path[t], 0
    while t < m.path_start[s + 1] and m.path[t] < first + group_size(ws):
        members |= 1 << (m.path[t] - first)
        t += 1
    return first, members, t


@helper
def _family(columns, n, row, i, members):
    """Rows row ... row + 5 of the columns of a group from coordinate i on."""
    o, step = column_place(columns, n, row, i), column_place(columns, n, 1, 0)
    return (
        load_group(columns, o, members), load_group(columns, o + step, members),
        load_group(columns, o + 2 * step, members), load_group(columns, o + 3 * step, members),
        load_group(columns, o + 4 * step, members), load_group(columns, o + 5 * step, members),
    )  # fmt: skip


@helper
def _put(L, c, x):
    """Store product c of a group."""
    store_group(L, c * group_size(L), ALL, x)


@helper
def product(L, c):
    return load_group(L, c * group_size(L), ALL)


# ------------------------------------------------------------------------------------------------ products
@kernel
def left_products(m, s, level, i, members, columns, ws, L):
    """Store products of J, R, Q, W of the coordinates from i on with the factors."""
    align_stack(ws)
    n, two = m.counts[0], splat(ws, 2.0)
    J, R = _family(columns, n, 0, i, members), _family(columns, n, 6, i, members)
    Q, W = _family(columns, n, 12, i, members), _family(columns, n, 18, i, members)
    R2 = scale6(R, two)
    for c in range(half_columns(m, s)):
        if is_idle(m, s, c):
            continue
        e = 6 * c
        x3 = load6(ws, X3 + e)
        _put(L, 48 + c, dot6(J, x3))
        if level >= FIRST:
            x1, x4, y1 = load6(ws, X1 + e), load6(ws, X4 + e), load6(ws, Y1 + e)
            _put(L, c, dot6(J, y1))
            _put(L, 12 + c, add_dot6(dot6(R, x4), Q, x3))
            _put(L, 24 + c, dot6(J, x1))
            _put(L, 36 + c, add_dot6(dot6(J, x4), R2, x3))
            if level >= SECOND:
                y2, y3, x2 = load6(ws, Y2 + e), load6(ws, Y3 + e), load6(ws, X2 + e)
                _put(L, 60 + c, add_dot6(add_dot6(dot6(W, y1), R, y2), Q, y3))
                _put(L, 72 + c, add_dot6(dot6(W, x1), R, x2))
                _put(L, 84 + c, add_dot6(dot6(J, y2), R2, y3))
                _put(L, 96 + c, dot6(J, x2))
                _put(L, 108 + c, dot6(W, x3))
                _put(L, 120 + c, dot6(J, y3))


@kernel
def add_load_products(m, s, level, i, members, columns, ws, L):
    """Add products of J of the coordinates from i on with the loads' own factors."""
    align_stack(ws)
    J = _family(columns, m.counts[0], 0, i, members)
    for c in range(half_columns(m, s)):
        if is_idle(m, s, c):
            continue
        e = 6 * c
        _put(L, 12 + c, add_dot6(product(L, 12 + c), J, load6(ws, PT + e)))
        if level >= SECOND:
            _put(L, 60 + c, add_dot6(product(L, 60 + c), J, load6(ws, Y4 + e)))


@kernel
def _add_curvature_of(m, s, level, row, i, k, halves, L):
    """Add row i of the segment's own U/2, for a coordinate of component `row`, to the products, member k of the
    group."""
    align_stack(L)
    one, two = mode(m, s, i)
    size, rod, half = group_size(L), m.kind[s] == ROD, splat(L, 0.5)
    for c in range(half_columns(m, s)):
        for j in range(4 if level >= SECOND else 1):
            o = 144 * j + 12 * row + c
            u, x = one * load(halves, o), c * size + k
            if rod:
                u = fma(two, load(halves, o + 72), u)
            if j == 0:
                add_entry(L, x, u)
                add_entry(L, 12 * size + x, u)
            elif j == 1:
                add_entry(L, 60 * size + x, u)
            elif j == 2:
                add_entry(L, 72 * size + x, u)
                add_entry(L, 84 * size + x, u)
            else:
                add_entry(L, 96 * size + x, u)
                add_entry(L, 108 * size + x, half * u)
                add_entry(L, 120 * size + x, half * u)


@kernel
def add_curvature(m, s, level, i, members, halves, L):
    """Add the segment's own U/2 to the products of the coordinates from i on that belong to the segment."""
    for k in range(group_size(L)):
        row = component_of(m, s, i + k)
        if row >= 0 and (members >> k) & 1:
            _add_curvature_of(m, s, level, row, i + k, k, halves, L)


# --------------------------------------------------------------------------------------------
# Curvature of a segment's exponential map in the Hessian, from the strains of its one or two points.
#
# With the wrenches f, n, m on what moves with the segment, in the axes of its start,                [rod_hessian, 2]
#
#     c0 = e + ad_mu'f + ad_eta'n + (ad_eta' + ad_eta ad_eta)'m,    c1 = n + 2 ad_eta'm,      c(t) = 2 m + c1 t + c0 t^2
#
# and paths Omega(t), Z(t) of second order in time, the polynomial
#
#     U_vv + t U_qv + t^2 U_qq  =  b P(T(Omega)'c) + Z'E(Omega; c) Z,       P(w) = Phi_1'K_w Phi_2 - Phi_2'K_w Phi_1
#
# contains the terms that all blocks of the Hessian lack; U_qq also has the derivative along lambda of the same
# expression with c = f, whose value is the symmetric part of the first derivative.  Stored is U/2, whose sum with its
# transpose is U.

# offsets in scratch
Z, T, E, W, CURVED, HALVES = 0, 288, 342, 402, 426, 786
"""Z and derivatives (4, 12, 6); T3 (54); curvature of orders 0, 1, 2 in time, then 0, 1 along lambda (12 each);
T'c (4, 6); E applied to columns (5, 12, 6); U/2 (4, 12, 12): first derivatives, qq, qv, vv."""
CURVATURE_NUMBERS = HALVES + 4 * 144


@helper
def wrench_at_start(R, p, f):
    """Wrench f in the axes of the frame at (R, p): Ad_g'f."""
    n = add_cross(angular(f), linear(f), p)
    return join(rotate_back(R, n), rotate_back(R, linear(f)))


@helper
def _apply(ws, o, x):
    """Apply the curvature at ws[o] (real part, then dual part) to a twist."""
    real, dual = load6(ws, o), load6(ws, o + 6)
    w, z = angular(x), splat(ws, 0.0)
    zero = (z, z, z)
    return join(add_symmetric(add_symmetric(zero, dual, w), real, linear(x)), add_symmetric(zero, real, w))


@helper
def _transposed_at(ws, k, c):
    """Order k of T' applied to a wrench."""
    return tangent_transposed_times(load9(ws, T + 9 * k), load9(ws, T + 27 + 9 * k), c)


@kernel
def _store_curvature(w, c, s, derivatives, ws, o, orders):
    """Store orders of E at ws[o], 12 numbers each."""
    jet = curvature_jet(w, c, s, derivatives)
    store6(ws, o, symmetric_of_order(jet, 0))
    store6(ws, o + 6, symmetric_of_order(jet, 3))
    store6(ws, o + 12, symmetric_of_order(jet, 1))
    store6(ws, o + 18, symmetric_of_order(jet, 4))
    if orders > 2:
        store6(ws, o + 24, symmetric_of_order(jet, 2))
        store6(ws, o + 30, symmetric_of_order(jet, 5))


@kernel
def _along_lambda(level, R, p, derivatives, seg, ws):
    """Store E and T'f along lambda: values and, for the Hessian, derivatives."""
    align_stack(seg)
    z = splat(seg, 0.0)
    none = (z, z, z, z, z, z)
    w = jets.of_twists(load6(seg, OMEGA), load6(seg, OMEGA + 18) if level >= SECOND else none, none)
    s = jets.dot(w, w)
    f = wrench_at_start(R, p, load6(seg, COMPOSITE + FORCE))
    store_tangent(w, s, derivatives, ws[T:])
    _store_curvature(w, jets.of_wrenches(f, none, none), s, derivatives, ws, E + 36, 2)
    store6(ws, W, _transposed_at(ws, 0, f))
    store6(ws, W + 6, _transposed_at(ws, 1, f))


@kernel
def _along_time(R, p, derivatives, seg, ws):
    """Store E and T'c in time: of T'c orders 0 and 1; order 2 is added to the derivative along lambda, at W + 6."""
    align_stack(seg)
    w = jets.of_twists(load6(seg, OMEGA), load6(seg, OMEGA + 6), load6(seg, OMEGA + 12))
    s = jets.dot(w, w)
    mu, V, A = load6(seg, START + VIRTUAL), load6(seg, START + TWIST), load6(seg, START + ACCELERATION)
    o, two = COMPOSITE, splat(seg, 2.0)
    f, n, m = load6(seg, o + FORCE), load6(seg, o + RATE_FORCE), load6(seg, o + DOUBLE_FORCE)
    Vm = cross_force(V, m)
    c1 = sub6(n, scale6(Vm, two))
    turned = add6(add6(cross_force(mu, f), cross_force(V, n)), sub6(cross_force(A, m), cross_force(V, Vm)))
    c0 = wrench_at_start(R, p, sub6(load6(seg, o + LOAD_FORCE), turned))
    c1, c2 = wrench_at_start(R, p, c1), wrench_at_start(R, p, scale6(m, two))
    store_tangent(w, s, derivatives, ws[T:])
    _store_curvature(w, jets.of_wrenches(c2, c1, c0), s, derivatives, ws, E, 3)
    store6(ws, W + 18, _transposed_at(ws, 0, c2))
    store6(ws, W + 12, add6(_transposed_at(ws, 1, c2), _transposed_at(ws, 0, c1)))
    second = add6(_transposed_at(ws, 2, c2), add6(_transposed_at(ws, 1, c1), _transposed_at(ws, 0, c0)))
    store6(ws, W + 6, add6(load6(ws, W + 6), second))


@kernel
def _curved_columns(columns, level, ws):
    """Apply E to the columns of Z and of its derivatives, so that Z'(one of the first four) + Z''(the last) is U/2."""
    align_stack(ws)
    half = splat(ws, 0.5)
    for c in range(columns):
        z0 = load6(ws, Z + 6 * c)
        along = _apply(ws, E + 36, z0)
        store6(ws, CURVED + 6 * c, scale6(along, half))
        if level >= SECOND:
            z1, z2, zl = load6(ws, Z + 72 + 6 * c), load6(ws, Z + 144 + 6 * c), load6(ws, Z + 216 + 6 * c)
            outer = add6(add6(_apply(ws, E + 24, z0), _apply(ws, E + 48, z0)), _apply(ws, E, z2))
            inner = add6(_apply(ws, E + 12, z1), _apply(ws, E + 36, zl))
            first = _apply(ws, E, z1)
            store6(ws, CURVED + 72 + 6 * c, add6(inner, scale6(outer, half)))
            store6(ws, CURVED + 144 + 6 * c, add6(first, scale6(_apply(ws, E + 12, z0), half)))
            store6(ws, CURVED + 216 + 6 * c, scale6(_apply(ws, E, z0), half))
            store6(ws, CURVED + 288 + 6 * c, scale6(first, half))


@kernel
def _half_products(columns, level, ws):
    """Store U/2 of first derivatives, and of qq, qv, vv."""
    align_stack(ws)
    count = 4 if level >= SECOND else 1
    for r in range(columns):
        z0, z1 = load6(ws, Z + 6 * r), load6(ws, Z + 72 + 6 * r)
        for c in range(columns):
            for k in range(count):
                x = dot6(z0, load6(ws, CURVED + 72 * k + 6 * c))
                if k == 1:
                    x = add_dot6(x, z1, load6(ws, CURVED + 288 + 6 * c))
                store(ws, HALVES + 144 * k + 12 * r + c, x)


@kernel
def _add_brackets(b, level, ws):
    """Add b Phi_1'K_w Phi_2 of every block; its transpose is the other half."""
    align_stack(ws)
    for k in range(4 if level >= SECOND else 1):
        w, o = load6(ws, W + 6 * k), HALVES + 144 * k
        n, f = (b * w[0], b * w[1], b * w[2]), (b * w[3], b * w[4], b * w[5])
        for block in range(3):
            x = n if block == 0 else f
            r, c = (3 if block == 1 else 0), (9 if block == 2 else 6)
            # column i of K_w is e_i x* w: rows r ... r + 2 of -x~
            for i in range(3):
                j, l = (i + 1) % 3, (i + 2) % 3
                xj, xl = (x[1], x[2]) if i == 0 else ((x[2], x[0]) if i == 1 else (x[0], x[1]))
                add_entry(ws, o + 12 * (r + j) + c + i, -xl)
                add_entry(ws, o + 12 * (r + l) + c + i, xj)


@kernel
def segment_curvature(h, b, halves, level, seg, ws):
    """Store U/2 for the segment's components in HALVES: first derivatives, and qq, qv, vv."""
    align_stack(seg)
    R, p = load9(seg, START), load3(seg, START + 9)
    strain_columns(h, b, halves, 4 if level >= SECOND else 1, seg, ws[Z:])
    w = angular(load6(seg, OMEGA))
    derivatives = stumpff_derivatives(dot3(w, w))
    _along_lambda(level, R, p, derivatives, seg, ws)
    if level >= SECOND:
        _along_time(R, p, derivatives, seg, ws)
    _curved_columns(6 * halves, level, ws)
    _half_products(6 * halves, level, ws)
    if halves == 2:
        _add_brackets(b, level, ws)


# --------------------------------------------------------------------------------------------
# Sums over segments of products with strains: blocks (n, n) of derivatives.
#
# Where coordinates i go in groups, blocks are summed transposed, so that the entries of a group lie side by side.


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


# --------------------------------------------------------------------------------------------
# The pass, from the tips of the tree to its base.


@kernel
def _add_forces(m, s, seg, tau):
    """Store generalised forces of the segment's coordinates: S'f through the strains."""
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


SEGMENT_SCRATCH = FACTORS + CURVATURE_NUMBERS + 12 * PRODUCTS * LANES
"""Scratch of a segment: factors, curvature, products of a group."""


@kernel
def _segment_blocks(m, external, s, level, seg, columns, extra, ws, A):
    """Add one segment's part to the blocks of A."""
    factors, w = split(ws, FACTORS)
    curvature, L = split(w, CURVATURE_NUMBERS)
    right_factors(m, s, level, seg, factors)
    loaded = external.loaded[s] == 1
    if loaded:
        add_load_factors(m, s, level, seg, extra, factors)
    differentiated = level >= FIRST and m.kind[s] != SCREW
    if differentiated:
        segment_curvature(m.step[s, 0], m.step[s, 1], 2 if m.kind[s] == ROD else 1, level, seg, curvature)
    t = m.path_start[s]
    while t < m.path_start[s + 1]:
        i, members, t = path_group(m, s, t, L)
        left_products(m, s, level, i, members, columns, factors, L)
        if loaded and level >= FIRST:
            add_load_products(m, s, level, i, members, columns, factors, L)
        if differentiated:
            add_curvature(m, s, level, i, members, curvature[HALVES:], L)
        add_pairs(m, s, level, i, members, L, A)


@kernel
def backward_pass(m, external, level, controls, wrenches, segments, columns, loads, ws, tau, A, of_controls):
    """Store generalised forces tau (n) and `Blocks` in A, as far as the level needs them, after `forward_pass` and
    `clear_blocks`; arguments also: controls of laws, wrenches of the external loads that take them, sums of all loads
    (LOADS per segment), and B and Hqu of laws."""
    align_stack(tau)
    n, (b, _) = m.counts[0], slice_blocks(m, A)
    families = 4 if level >= SECOND else (3 if level >= FIRST else 1)
    tau[:n] = 0.0
    for s in range(m.parent.size):
        if external.loaded[s] == 1:
            loads[s * LOADS : (s + 1) * LOADS] = 0.0
    if external.contacts.numbers.shape[0] > 0:
        add_contact_pairs(m, external.contacts, level, segments, loads, ws, b)
    for s in range(m.parent.size - 1, -1, -1):
        seg = segments[s * SEGMENT : (s + 1) * SEGMENT]
        extra = loads[s * LOADS : (s + 1) * LOADS]
        add_node(m, s, level, seg)
        if level >= MASS_MATRIX:
            add_beyond(m, s, s, -1.0, families, segments, columns)
        if external.start[s] < external.start[s + 1]:
            add_loads(m, external, controls, wrenches, s, level, seg, columns, extra, ws, b, of_controls)
        if m.rows[s, 0] < m.rows[s, 6]:
            _add_forces(m, s, seg, tau)
            if level >= MASS_MATRIX:
                add_families(m, s, -0.5, families, seg, columns)
                _segment_blocks(m, external, s, level, seg, columns, extra, ws, A)
                add_families(m, s, -0.5, families, seg, columns)
        if level >= MASS_MATRIX:
            add_beyond(m, s, s, 1.0, families, segments, columns)
        add_to_parent(m, s, segments)
        add_loads_to_parent(m, external, s, loads)
    add_transposed_blocks(n, level, b)
