"""Dependence of a segment on its coordinates: strains at its points, Omega and Z of a Magnus step, columns of families.

    Omega = h/2 (xi_1 + xi_2) + b xi_1 x xi_2        Z = dOmega / d(xi_1, xi_2)               [GVS, C1 - C14]
"""

from dynamics.rods.model.arrays import COLUMNS, FAMILIES, OMEGA, ROD, SEGMENT, VALUES
from dynamics.simd import align_stack, group_size, helper, kernel, load, splat, store
from dynamics.spatial.spatial import add6, add_cross_motion, add_scaled6, cross_motion, load6, scale6, store6


@helper
def half_columns(m, s):
    """Number of strain columns of the segment: 12, or 6 for a joint."""
    return 12 if m.kind[s] == ROD else 6


@helper
def is_idle(m, s, c):
    """True if the component of column c has no coordinates."""
    r = c - 6 if c >= 6 else c
    return m.rows[s, r] == m.rows[s, r + 1]


@helper
def mode(m, s, j):
    """Values of the segment's coordinate j at both points."""
    i = m.first_mode[s] + j - m.rows[s, 0]
    return m.modes[i, 0], m.modes[i, 1]


@helper
def component_of(m, s, j):
    """The component of the segment's coordinate j; -1 if j belongs to another segment."""
    if j < m.rows[s, 0] or j >= m.rows[s, 6]:
        return -1
    r = 0
    while j >= m.rows[s, r + 1]:
        r += 1
    return r


@kernel
def store_strains(m, s, n, state, count, seg):
    """Store strains at both points, and the strains due to v, a, lambda (the first `count` of the four)."""
    align_stack(seg)
    for r in range(6):
        for k in range(count):
            first = splat(seg, m.reference[s, r] if k == 0 else 0.0)
            second = splat(seg, m.reference[s, 6 + r] if k == 0 else 0.0)
            for j in range(m.rows[s, r], m.rows[s, r + 1]):
                one, two = mode(m, s, j)
                x = load(state, k * n + j)
                first = first + one * x
                second = second + two * x
            store(seg, VALUES + 12 * k + r, first)
            store(seg, VALUES + 12 * k + 6 + r, second)


@kernel
def store_displacements(h, b, count, seg):
    """Store Omega, Omega', Omega''/2 and Omega_lambda of a rod's step."""
    align_stack(seg)
    x1, x2 = load6(seg, VALUES), load6(seg, VALUES + 6)
    half, factor = splat(seg, 0.5 * h), splat(seg, b)
    store6(seg, OMEGA, add_scaled6(scale6(add6(x1, x2), half), factor, cross_motion(x1, x2)))
    for k in range(1, count):
        y1, y2 = load6(seg, VALUES + 12 * k), load6(seg, VALUES + 12 * k + 6)
        mixed = add_cross_motion(cross_motion(x1, y2), y1, x2)
        if k == 2:
            v1, v2 = load6(seg, VALUES + 12), load6(seg, VALUES + 18)
            mixed = add_scaled6(mixed, splat(seg, 2.0), cross_motion(v1, v2))
        y = add_scaled6(scale6(add6(y1, y2), half), factor, mixed)
        store6(seg, OMEGA + 6 * k, scale6(y, splat(seg, 0.5)) if k == 2 else y)


@helper
def _store_cross(ws, o, x, b, h):
    """Store columns h e_i + b (x x e_i) at ws[o + 6 i]."""
    z = splat(ws, 0.0)
    u, v, w, p, q, r = b * x[0], b * x[1], b * x[2], b * x[3], b * x[4], b * x[5]
    store6(ws, o, (h, w, -v, z, r, -q))
    store6(ws, o + 6, (-w, h, u, -r, z, p))
    store6(ws, o + 12, (v, -u, h, q, -p, z))
    store6(ws, o + 18, (z, z, z, h, w, -v))
    store6(ws, o + 24, (z, z, z, -w, h, u))
    store6(ws, o + 30, (z, z, z, v, -u, h))


@kernel
def strain_columns(h, b, halves, count, seg, ws):
    """Store Z (6, 12) and its derivatives along v, a, lambda: column c of family k at ws[72 k + 6 c]."""
    align_stack(seg)
    for k in range(count):
        diagonal = splat(seg, 0.5 * h if k == 0 else 0.0)
        x1, x2 = load6(seg, VALUES + 12 * k), load6(seg, VALUES + 12 * k + 6)
        _store_cross(ws, 72 * k, x2, -b, diagonal)
        if halves == 2:
            _store_cross(ws, 72 * k + 36, x1, b, diagonal)


@helper
def column_place(columns, n, row, j):
    """Index of entry `row` of the columns J, R, Q, W of coordinate j; entries of coordinates in one group lie side by
    side."""
    return row * n + j if group_size(columns) > 1 else FAMILIES * j + row


@helper
def load_column(columns, n, row, j):
    """Entries row ... row + 5 of the columns of coordinate j."""
    o, step = column_place(columns, n, row, j), column_place(columns, n, 1, 0)
    return (
        load(columns, o), load(columns, o + step), load(columns, o + 2 * step), load(columns, o + 3 * step),
        load(columns, o + 4 * step), load(columns, o + 5 * step),
    )  # fmt: skip


@helper
def _store_column(columns, n, row, j, x):
    o, step = column_place(columns, n, row, j), column_place(columns, n, 1, 0)
    store(columns, o, x[0])
    store(columns, o + step, x[1])
    store(columns, o + 2 * step, x[2])
    store(columns, o + 3 * step, x[3])
    store(columns, o + 4 * step, x[4])
    store(columns, o + 5 * step, x[5])


@kernel
def add_families(m, s, share, count, seg, columns):
    """Add `share` times the increments to the first `count` of J, R, Q, W of the segment's coordinates."""
    align_stack(seg)
    n, rod = m.counts[0], m.kind[s] == ROD
    for r in range(6):
        if m.rows[s, r] == m.rows[s, r + 1]:
            continue
        for k in range(count):
            first = load6(seg, COLUMNS + 72 * k + 6 * r)
            second = load6(seg, COLUMNS + 72 * k + 36 + 6 * r) if rod else first
            for j in range(m.rows[s, r], m.rows[s, r + 1]):
                one, two = mode(m, s, j)
                x = add_scaled6(load_column(columns, n, 6 * k, j), splat(seg, share * one), first)
                if rod:
                    x = add_scaled6(x, splat(seg, share * two), second)
                _store_column(columns, n, 6 * k, j, x)


@kernel
def add_beyond(m, s, last, share, count, segments, columns):
    """Apply `add_families` to the segments of index below `last` that lie on the rods along the path to segment s,
    beyond the points where that path leaves them; share -1 leaves only the columns of the path."""
    for t in range(m.beyond_start[s], m.beyond_start[s + 1]):
        if m.beyond[t] >= last:
            return
        o = m.beyond[t] * SEGMENT
        add_families(m, m.beyond[t], share, count, segments[o : o + SEGMENT], columns)
