"""Forward pass over a tree of rods and joints: poses, twists, and their derivatives in the coordinates."""

from dynamics.rods.kinematics import exponential as jets
from dynamics.rods.kinematics.exponential import exponential, of_order, stumpff_derivatives, tangent_jet, tangent_times
from dynamics.rods.model.arrays import (
    ACCELERATION,
    COLUMNS,
    COMPOSITE,
    COMPOSITE_NUMBERS,
    END,
    FAMILIES,
    FIRST,
    MASS_MATRIX,
    OMEGA,
    ROD,
    SCREW,
    SECOND,
    SEGMENT,
    START,
    TWIST,
    VALUES,
    VIRTUAL,
)
from dynamics.simd import align_stack, group_size, helper, kernel, load, sincos, splat, store
from dynamics.spatial.spatial import (
    add6,
    add_cross,
    add_cross_motion,
    add_rotated,
    add_scaled6,
    angular,
    cross_motion,
    join,
    linear,
    load3,
    load6,
    load9,
    multiply,
    rotate,
    scale6,
    store3,
    store6,
    store9,
)

# --------------------------------------------------------------------------------------------
# Dependence of a segment on its coordinates: strains at its points, Omega and Z of a Magnus step, columns of families.
#
#     Omega = h/2 (xi_1 + xi_2) + b xi_1 x xi_2        Z = dOmega / d(xi_1, xi_2)               [GVS, C1 - C14]


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


# --------------------------------------------------------------------------------------------
# Poses, twists and increments of segments.

TANGENT = 54  # T3 as nine jets: real parts of orders 0, 1, 2, then dual ones


# ------------------------------------------------------------------------------------------------ helpers
@helper
def move_twist(R, p, x):
    """Twist x in the axes of the frame at (R, p), about the world origin: Ad_g x."""
    w = rotate(R, angular(x))
    return join(w, add_cross(rotate(R, linear(x)), p, w))


@helper
def placed(R, p, placement, s):
    """(R, p) times the fixed placement in row s."""
    A = (
        placement[s, 0], placement[s, 1], placement[s, 2], placement[s, 3], placement[s, 4], placement[s, 5],
        placement[s, 6], placement[s, 7], placement[s, 8],
    )  # fmt: skip
    return multiply(R, A), add_rotated(p, R, (placement[s, 9], placement[s, 10], placement[s, 11]))


@kernel
def store_tangent(w, s, derivatives, T):
    """Store T3 of a path in T: real parts of orders 0 to 2, then dual ones."""
    jet = tangent_jet(w, s, derivatives)
    for_order = (0, 9, 18, 27, 36, 45)
    store9(T, for_order[0], of_order(jet, 0))
    store9(T, for_order[1], of_order(jet, 1))
    store9(T, for_order[2], of_order(jet, 2))
    store9(T, for_order[3], of_order(jet, 3))
    store9(T, for_order[4], of_order(jet, 4))
    store9(T, for_order[5], of_order(jet, 5))


# ------------------------------------------------------------------------------------------------ increments
@helper
def _applied(T, k, x):
    """Order k of T3, real and dual, applied to a twist."""
    return tangent_times(load9(T, 9 * k), load9(T, 27 + 9 * k), x)


@kernel
def _curved_increments(columns, level, R, p, seg, Z, T, TL):
    """Columns S, R, Q, W of a rod's segment or a joint of several degrees of freedom; frame (R, p) at its start."""
    align_stack(seg)
    mu, V, A = load6(seg, START + VIRTUAL), load6(seg, START + TWIST), load6(seg, START + ACCELERATION)
    two = splat(seg, 2.0)
    for c in range(columns):
        z0, z1, z2 = load6(Z, 6 * c), load6(Z, 72 + 6 * c), load6(Z, 144 + 6 * c)
        o = COLUMNS + 6 * c
        S = move_twist(R, p, _applied(T, 0, z0))
        S1 = move_twist(R, p, add6(_applied(T, 1, z0), _applied(T, 0, z1)))
        VS = cross_motion(V, S)
        store6(seg, o, S)
        store6(seg, o + 72, add6(S1, VS))
        if level >= FIRST:
            S2 = add_scaled6(_applied(T, 0, z2), two, add6(_applied(T, 2, z0), _applied(T, 1, z1)))
            inner = add_scaled6(VS, two, S1)
            store6(seg, o + 144, add_cross_motion(add_cross_motion(move_twist(R, p, S2), A, S), V, inner))
        if level >= SECOND:
            SL = add6(_applied(TL, 1, z0), _applied(T, 0, load6(Z, 216 + 6 * c)))
            store6(seg, o + 216, add_cross_motion(move_twist(R, p, SL), mu, S))


@kernel
def _screw_increments(level, component, pitch, R, p, seg):
    """The column of a joint of one degree of freedom: S moves with the frame, S' = S'' = S_lambda = 0."""
    align_stack(seg)
    z, one = splat(seg, 0.0), splat(seg, 1.0)
    mu, V, A = load6(seg, START + VIRTUAL), load6(seg, START + TWIST), load6(seg, START + ACCELERATION)
    axis = (
        one if component == 0 else z, one if component == 1 else z, one if component == 2 else z,
        one if component == 3 else (pitch * one if component == 0 else z),
        one if component == 4 else (pitch * one if component == 1 else z),
        one if component == 5 else (pitch * one if component == 2 else z),
    )  # fmt: skip
    o, S = COLUMNS + 6 * component, move_twist(R, p, axis)
    VS = cross_motion(V, S)
    store6(seg, o, S)
    store6(seg, o + 72, VS)
    if level >= FIRST:
        store6(seg, o + 144, add_cross_motion(cross_motion(A, S), V, VS))
    if level >= SECOND:
        store6(seg, o + 216, cross_motion(mu, S))


@helper
def screw_motion(component, pitch, x, like):
    """R and p of a rotation about a coordinate axis by x, with a translation along it by x times the pitch, or of a
    translation by x."""
    z, one = splat(like, 0.0), splat(like, 1.0)
    R, p = (one, z, z, z, one, z, z, z, one), (z, z, z)
    sine, cosine = sincos(x)
    if component == 0:
        R, p = (one, z, z, z, cosine, -sine, z, sine, cosine), (pitch * x, z, z)
    elif component == 1:
        R, p = (cosine, z, sine, z, one, z, -sine, z, cosine), (z, pitch * x, z)
    elif component == 2:
        R, p = (cosine, -sine, z, sine, cosine, z, z, z, one), (z, z, pitch * x)
    elif component == 3:
        p = (x, z, z)
    elif component == 4:
        p = (z, x, z)
    else:
        p = (z, z, x)
    return R, p


@kernel
def _advance_twists(m, s, level, seg):
    """Twists at the end: mu + S lambda, eta + S v, eta' + S a + R v."""
    align_stack(seg)
    mu, V, A = load6(seg, START + VIRTUAL), load6(seg, START + TWIST), load6(seg, START + ACCELERATION)
    for c in range(half_columns(m, s)):
        if is_idle(m, s, c):
            continue
        S, R = load6(seg, COLUMNS + 6 * c), load6(seg, COLUMNS + 72 + 6 * c)
        v = load(seg, VALUES + 12 + c)
        V = add_scaled6(V, v, S)
        A = add_scaled6(add_scaled6(A, load(seg, VALUES + 24 + c), S), v, R)
        if level >= SECOND:
            mu = add_scaled6(mu, load(seg, VALUES + 36 + c), S)
    store6(seg, END + VIRTUAL, mu)
    store6(seg, END + TWIST, V)
    store6(seg, END + ACCELERATION, A)


# ------------------------------------------------------------------------------------------------ the pass
@kernel
def _start(m, s, level, segments, seg):
    """Store the state at the segment's start: that at its parent's end, or of the base, moved by the placement
    before."""
    align_stack(seg)
    parent = m.parent[s]
    if parent < 0:
        z, b = splat(seg, 0.0), m.base
        R = (z + b[0], z + b[1], z + b[2], z + b[3], z + b[4], z + b[5], z + b[6], z + b[7], z + b[8])
        p, still = (z + b[9], z + b[10], z + b[11]), (z, z, z, z, z, z)
        mu, V, A = still, still, (z, z, z, z - m.gravity[0], z - m.gravity[1], z - m.gravity[2])
    else:
        before = segments[parent * SEGMENT + END :]
        R, p = load9(before, 0), load3(before, 9)
        mu, V, A = load6(before, VIRTUAL), load6(before, TWIST), load6(before, ACCELERATION)
    R, p = placed(R, p, m.before, s)
    store9(seg, START, R)
    store3(seg, START + 9, p)
    store6(seg, START + VIRTUAL, mu)
    store6(seg, START + TWIST, V)
    store6(seg, START + ACCELERATION, A)
    return R, p


@kernel
def _curved_motion(m, s, level, seg, ws, R, p):
    """Increments of a rod's segment or a joint of several degrees of freedom; returns its R and p."""
    align_stack(seg)
    rod, count = m.kind[s] == ROD, 4 if level >= SECOND else 3
    h, b = m.step[s, 0], m.step[s, 1]
    if rod:
        store_displacements(h, b, count, seg)
    else:
        for k in range(count):
            x = load6(seg, VALUES + 12 * k)
            store6(seg, OMEGA + 6 * k, scale6(x, splat(seg, 0.5 if k == 2 else 1.0)))
    Z, T, TL = ws[:288], ws[288 : 288 + TANGENT], ws[288 + TANGENT : 288 + 2 * TANGENT]
    strain_columns(h, b, 2 if rod else 1, count, seg, Z)
    z = splat(seg, 0.0)
    omega = load6(seg, OMEGA)
    w = jets.of_twists(omega, load6(seg, OMEGA + 6), load6(seg, OMEGA + 12))
    derivatives = stumpff_derivatives(w[0][0] * w[0][0] + w[1][0] * w[1][0] + w[2][0] * w[2][0])
    store_tangent(w, jets.dot(w, w), derivatives, T)
    if level >= SECOND:
        along = jets.of_twists(omega, load6(seg, OMEGA + 18), (z, z, z, z, z, z))
        store_tangent(along, jets.dot(along, along), derivatives, TL)
    _curved_increments(12 if rod else 6, level, R, p, seg, Z, T, TL)
    return exponential(omega, derivatives, load9(T, 0))


@kernel
def forward_pass(m, level, state, segments, columns, ws):
    """Fill the segments, and J, R, Q, W (columns) as far as the level needs them; state: q, v, a, lambda (n each)."""
    align_stack(state)
    n = m.counts[0]
    families = 4 if level >= SECOND else (3 if level >= FIRST else (1 if level >= MASS_MATRIX else 0))
    columns[: FAMILIES * n] = 0.0
    for s in range(m.parent.size):
        seg = segments[s * SEGMENT : (s + 1) * SEGMENT]
        seg[COMPOSITE : COMPOSITE + COMPOSITE_NUMBERS] = 0.0
        R, p = _start(m, s, level, segments, seg)
        if m.rows[s, 0] == m.rows[s, 6] and m.kind[s] != ROD:
            _advance_twists(m, s, level, seg)
        else:
            store_strains(m, s, n, state, 4 if level >= SECOND else 3, seg)
            if m.kind[s] == SCREW:
                component = component_of(m, s, m.rows[s, 0])
                _screw_increments(level, component, m.step[s, 1], R, p, seg)
                E, r = screw_motion(component, m.step[s, 1], load(seg, VALUES + component), seg)
            else:
                E, r = _curved_motion(m, s, level, seg, ws, R, p)
            _advance_twists(m, s, level, seg)
            add_families(m, s, 1.0, families, seg, columns)
            p = add_rotated(p, R, r)
            R = multiply(R, E)
        R, p = placed(R, p, m.after, s)
        store9(seg, END, R)
        store3(seg, END + 9, p)
