"""Right factors of a segment, by which the columns on its path are multiplied (`backward_pass`)."""

from dynamics.rods.kinematics.strains import column_place, component_of, half_columns, is_idle, mode
from dynamics.rods.loads.composites import add_at, composite_inertia, times6, transposed_times6
from dynamics.rods.model.arrays import (
    B6,
    COLUMNS,
    COMPOSITE,
    DOUBLE_FORCE,
    FIRST,
    FORCE,
    INERTIA_RATE,
    LOAD_FORCE,
    M6,
    MOMENTUM,
    N6,
    RATE_FORCE,
    ROD,
    SECOND,
    VIRTUAL_MOMENT,
    VIRTUAL_RATE,
    C,
    P,
)
from dynamics.simd import align_stack, fma, group_size, helper, kernel, load, load_group, splat, store, store_group
from dynamics.spatial.spatial import (
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


@helper
def _add_at(L, o, x):
    store(L, o, load(L, o) + x)


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
                _add_at(L, x, u)
                _add_at(L, 12 * size + x, u)
            elif j == 1:
                _add_at(L, 60 * size + x, u)
            elif j == 2:
                _add_at(L, 72 * size + x, u)
                _add_at(L, 84 * size + x, u)
            else:
                _add_at(L, 96 * size + x, u)
                _add_at(L, 108 * size + x, half * u)
                _add_at(L, 120 * size + x, half * u)


@kernel
def add_curvature(m, s, level, i, members, halves, L):
    """Add the segment's own U/2 to the products of the coordinates from i on that belong to the segment."""
    for k in range(group_size(L)):
        row = component_of(m, s, i + k)
        if row >= 0 and (members >> k) & 1:
            _add_curvature_of(m, s, level, row, i + k, k, halves, L)
