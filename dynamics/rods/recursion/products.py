"""Products of the columns on the path of a segment with its right factors, for groups of coordinates.

A group is as many coordinates as a vector has lanes where the numbers are those of one knot, else one coordinate.
"""

from dynamics.rods.kinematics.strains import column_place, component_of, half_columns, is_idle, mode
from dynamics.rods.model.arrays import FIRST, ROD, SECOND
from dynamics.rods.recursion.right_factors import PT, X1, X2, X3, X4, Y1, Y2, Y3, Y4
from dynamics.simd import align_stack, fma, group_size, helper, kernel, load, load_group, splat, store, store_group
from dynamics.spatial import add_dot6, dot6, load6, scale6

PRODUCTS = 11
"""Left products of a coordinate with the factors, 12 each: J'Y1, R'X4 + Q'X3, J'X1, J'X4 + 2 R'X3, J'X3, then those of
the Hessian: qq, qv and its transposed part, vv, qa and its transposed part."""
ALL = -1  # members of a group


# ------------------------------------------------------------------------------------------------ groups
@helper
def path_group(m, s, t, ws):
    """First coordinate and members of the group that begins with m.path[t], and the place of the next group in the
    path."""
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
    """Products of J, R, Q, W of the coordinates from i on with the factors."""
    align_stack(ws)
    n, two = m.numbers[0], splat(ws, 2.0)
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
    """Products of J of the coordinates from i on with the factors that loads have of their own."""
    align_stack(ws)
    J = _family(columns, m.numbers[0], 0, i, members)
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
    """Add row i of the segment's own U/2, a coordinate of component `row`, to the products, number k of their group."""
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
    """Add the segment's own U/2 to the products of those coordinates from i on that are its own."""
    for k in range(group_size(L)):
        row = component_of(m, s, i + k)
        if row >= 0 and (members >> k) & 1:
            _add_curvature_of(m, s, level, row, i + k, k, halves, L)
