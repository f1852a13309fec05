"""Closed chains: constraints e(q) = 0, their Jacobians A with two time derivatives, and the wrenches that hold them.

In axes of the world a constraint row pulls at a side as a wrench W = [h; f] about the origin does, the direction u at
the point p or the moment c = a x b,                                                               [GVS, eqs. D69 - D82]

    position       e = u.(p_A - p_B)     A: h = p_A x u, f = u       B: h = - p_B x u, f = - u
    orientation    e = a.b               A: h = c,       f = 0       B: h = - c,       f = 0

so that a column J of a side's family, with R = dJ/dt and Q = d2J/dt2, adds

    A_j = W.J      A_j' = h'.J + W.R      A_j'' = h''.J + 2 h'.R + W.Q

and de/dq = A, de'/dq = A', de''/dq = A'', de'/dv = A, de''/dv = 2 A', de''/da = A.  Q of the forward pass has gravity g
in it: its linear part misses g x J_angular.

The reactions A'lambda are world-fixed wrenches at points of links (`loads`).  Moments lambda c turn with the sides,
what the derivative of such a wrench leaves out:

    dr/dq gets - (w_A - w_B)' sum lambda dc/dq,     dc/dq_j = (w_Aj x a) x b + a x (w_Bj x b)
"""

from dynamics.rods.kinematics.strains import add_beyond, load_column
from dynamics.rods.model.arrays import ACCELERATION, END, FIRST, MASS_MATRIX, SEGMENT, TWIST
from dynamics.rods.model.closure_arrays import POSITION
from dynamics.simd import align_stack, fma, helper, kernel, load, splat, store
from dynamics.spatial import (
    add3,
    add_cross,
    add_dot6,
    add_rotated,
    add_scaled3,
    angular,
    cross,
    dot3,
    dot6,
    join,
    linear,
    load3,
    load6,
    load9,
    rotate,
    scale3,
    store3,
    store9,
)

# a side: axes R (9), the point and its time derivatives, angular velocity and acceleration (3 each)
POINT, POINT_RATE, POINT_RATE_2, SPIN, SPIN_RATE = 9, 12, 15, 18, 21
SIDE = 24
# a row's wrench on a side: moment about the origin, its time derivatives, force (3 each)
MOMENT, MOMENT_RATE, MOMENT_RATE_2, FORCE = 0, 3, 6, 9
JETS = 12


@helper
def _vector(x, i, like):
    """Row i of x."""
    z = splat(like, 0.0)
    return (z + x[i, 0], z + x[i, 1], z + x[i, 2])


@kernel
def store_side(k, c, side, gravity, segments, x):
    """Axes, point and spins of a side of joint c."""
    align_stack(x)
    s = k.segment[c, side]
    z, one = splat(x, 0.0), splat(x, 1.0)
    point = (z + k.point[c, side, 0], z + k.point[c, side, 1], z + k.point[c, side, 2])
    x[:SIDE] = 0.0
    if s < 0:
        store9(x, 0, (one, z, z, z, one, z, z, z, one))
        store3(x, POINT, point)
        return
    end = segments[s * SEGMENT + END :]
    R, V, acceleration = load9(end, 0), load6(end, TWIST), load6(end, ACCELERATION)
    p, w, spin_rate = add_rotated(load3(end, 9), R, point), angular(V), angular(acceleration)
    rate = add_cross(linear(V), w, p)
    g = (z + gravity[0], z + gravity[1], z + gravity[2])
    store9(x, 0, R)
    store3(x, POINT, p)
    store3(x, POINT_RATE, rate)
    store3(x, POINT_RATE_2, add_cross(add_cross(add3(linear(acceleration), g), spin_rate, p), w, rate))
    store3(x, SPIN, w)
    store3(x, SPIN_RATE, spin_rate)


@helper
def _turned(side, a):
    """A direction of a side in axes of the world, with two time derivatives."""
    w = load3(side, SPIN)
    x = rotate(load9(side, 0), a)
    y = cross(w, x)
    return x, y, add_cross(cross(w, y), load3(side, SPIN_RATE), x)


@helper
def _store_jets(x, moment, rate, rate_2, force):
    store3(x, MOMENT, moment)
    store3(x, MOMENT_RATE, rate)
    store3(x, MOMENT_RATE_2, rate_2)
    store3(x, FORCE, force)


@kernel
def store_row(k, i, sides, jets, closed):
    """e, e', e'' of row i, and its wrenches on both sides."""
    align_stack(closed)
    rows, A, B = k.kind.size, sides[:SIDE], sides[SIDE:]
    a = _vector(k.a, i, closed)
    if k.kind[i] == POSITION:
        p, p1, p2 = load3(A, POINT), load3(A, POINT_RATE), load3(A, POINT_RATE_2)
        q, q1, q2 = load3(B, POINT), load3(B, POINT_RATE), load3(B, POINT_RATE_2)
        e, e1, e2 = dot3(a, p) - dot3(a, q), dot3(a, p1) - dot3(a, q1), dot3(a, p2) - dot3(a, q2)
        _store_jets(jets, cross(p, a), cross(p1, a), cross(p2, a), a)
        _store_jets(jets[JETS:], cross(a, q), cross(a, q1), cross(a, q2), scale3(a, -1.0))
    else:
        x, x1, x2 = _turned(A, a)
        y, y1, y2 = _turned(B, _vector(k.b, i, closed))
        e, e1, e2 = dot3(x, y), dot3(x1, y) + dot3(x, y1), fma(2.0, dot3(x1, y1), dot3(x2, y) + dot3(x, y2))
        c, c1 = cross(x, y), add_cross(cross(x1, y), x, y1)
        c2 = add_scaled3(add_cross(cross(x2, y), x, y2), 2.0, cross(x1, y1))
        zero = scale3(x, 0.0)
        _store_jets(jets, c, c1, c2, zero)
        _store_jets(jets[JETS:], scale3(c, -1.0), scale3(c1, -1.0), scale3(c2, -1.0), zero)
    store(closed, i, e)
    store(closed, rows + i, e1)
    store(closed, 2 * rows + i, e2)


@kernel
def _add_columns(m, s, level, row, size, jets, columns, A):
    """Add one side's part of row A_j (and A_j', A_j'' at distances `size`) of the coordinates that move it."""
    align_stack(A)
    n, z, g = m.numbers[0], splat(A, 0.0), m.gravity
    h, h1, h2, f = load3(jets, MOMENT), load3(jets, MOMENT_RATE), load3(jets, MOMENT_RATE_2), load3(jets, FORCE)
    W, weight = join(h, f), (z + g[0], z + g[1], z + g[2])
    for t in range(m.path_start[s], m.path_start[s + 1]):
        j = m.path[t]
        o = row * n + j
        J = load_column(columns, n, 0, j)
        store(A, o, add_dot6(load(A, o), W, J))
        if level >= FIRST:
            R, Q, w = load_column(columns, n, 6, j), load_column(columns, n, 12, j), angular(J)
            store(A, size + o, load(A, size + o) + dot6(W, R) + dot3(h1, w))
            x = fma(2.0, dot3(h1, angular(R)), dot3(h2, w) + dot3(f, cross(weight, w)))
            store(A, 2 * size + o, load(A, 2 * size + o) + dot6(W, Q) + x)


# ------------------------------------------------------------------------------------------------ reactions
@kernel
def _add_reaction(multiplier, orientation, jets, wrench):
    """Add the row's wrench at the point of a side."""
    align_stack(wrench)
    o = 0 if orientation else 3
    x = load3(jets, MOMENT if orientation else FORCE)
    store3(wrench, o, add_scaled3(load3(wrench, o), multiplier, x))


@kernel
def _relative_spins(m, s, sign, columns, turning):
    """Add a side's angular velocities to those of A relative to B."""
    align_stack(turning)
    if s < 0:
        return
    for t in range(m.path_start[s], m.path_start[s + 1]):
        j = m.path[t]
        w = angular(load_column(columns, m.numbers[0], 0, j))
        store3(turning, 6 * j, add_scaled3(load3(turning, 6 * j), sign, w))


@kernel
def _add_turning(m, s, multiplier, sign, x, y, columns, turning):
    """Add sign lambda (x (y.w) - (x.y) w) for the coordinates that move a side, w their angular velocities."""
    align_stack(turning)
    if s < 0:
        return
    scale, overlap = sign * multiplier, dot3(x, y)
    for t in range(m.path_start[s], m.path_start[s + 1]):
        j = m.path[t]
        w = angular(load_column(columns, m.numbers[0], 0, j))
        d = add_scaled3(scale3(x, dot3(y, w)), -overlap, w)
        store3(turning, 6 * j + 3, add_scaled3(load3(turning, 6 * j + 3), scale, d))


@kernel
def _on_side(m, k, c, side, share, families, segments, columns):
    """With the share -1, columns of a side that is not at the tip of its rod; with 1, what they were."""
    if k.segment[c, side] >= 0:
        add_beyond(m, k.segment[c, side], m.parent.size, share, families, segments, columns)


@kernel
def closure_rows(m, k, level, segments, columns, wrenches, work, closed):
    """e, e', e'', A, A', A'' as far as the level goes (`closed`), and the reactions among the wrenches, after
    `forward_pass`; multipliers follow after the wrenches; work: 72 numbers."""
    align_stack(closed)
    rows, n = k.kind.size, m.numbers[0]
    size, joints, first = rows * n, k.segment.shape[0], 6 * k.first_wrench[0]
    sides, jets, A = work[: 2 * SIDE], work[2 * SIDE : 2 * SIDE + 2 * JETS], closed[3 * rows :]
    closed[: 3 * (rows + size) + 6 * n * joints] = 0.0
    reactions, multipliers = wrenches[first:], wrenches[first + 12 * joints + 1 + rows :]
    reactions[: 12 * joints] = 0.0
    families = 3 if level >= FIRST else (1 if level >= MASS_MATRIX else 0)
    for c in range(joints):
        store_side(k, c, 0, m.gravity, segments, sides)
        store_side(k, c, 1, m.gravity, segments, sides[SIDE:])
        turning = A[3 * size + 6 * n * c :]
        if level >= FIRST:
            for side in range(2):
                _on_side(m, k, c, side, -1.0, families, segments, columns)
                _relative_spins(m, k.segment[c, side], 1.0 - 2.0 * side, columns, turning)
                _on_side(m, k, c, side, 1.0, families, segments, columns)
        for i in range(k.row_start[c], k.row_start[c + 1]):
            store_row(k, i, sides, jets, closed)
            multiplier, turns = load(multipliers, i), k.kind[i] != POSITION
            x, y = rotate(load9(sides, 0), _vector(k.a, i, sides)), rotate(load9(sides, SIDE), _vector(k.b, i, sides))
            for side in range(2):
                s = k.segment[c, side]
                _add_reaction(multiplier, turns, jets[JETS * side :], reactions[12 * c + 6 * side :])
                if level < MASS_MATRIX or s < 0:
                    continue
                _on_side(m, k, c, side, -1.0, families, segments, columns)
                _add_columns(m, s, level, i, size, jets[JETS * side :], columns, A)
                if level >= FIRST and turns:
                    if side == 0:
                        _add_turning(m, s, multiplier, 1.0, x, y, columns, turning)
                    else:
                        _add_turning(m, s, multiplier, -1.0, y, x, columns, turning)
                _on_side(m, k, c, side, 1.0, families, segments, columns)


@kernel
def subtract_turning(m, k, closed, dq):
    """What the moments' turning with the sides adds to dr/dq."""
    align_stack(dq)
    n, rows = m.numbers[0], k.kind.size
    for c in range(k.segment.shape[0]):
        turning = closed[3 * rows * (1 + n) + 6 * n * c :]
        for s in range(k.path_start[c], k.path_start[c + 1]):
            i = k.path[s]
            w = load3(turning, 6 * i)
            for t in range(k.path_start[c], k.path_start[c + 1]):
                j = k.path[t]
                store(dq, i * n + j, load(dq, i * n + j) - dot3(w, load3(turning, 6 * j + 3)))
