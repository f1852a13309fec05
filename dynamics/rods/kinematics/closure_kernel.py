"""Constraints of closed chains: gaps of closures, with first derivatives and Hessians."""

from typing import NamedTuple

import numpy as np

from dynamics.rods.kinematics.forward_pass import add_beyond, load_column
from dynamics.rods.model.arrays import (
    ACCELERATION,
    COMPOSITE,
    END,
    FIRST,
    LOAD_FORCE,
    MASS_MATRIX,
    POSITION,
    RATE_FORCE,
    SEGMENT,
    TWIST,
    VIRTUAL,
    n,
)
from dynamics.simd import align_stack, fma, helper, kernel, load, splat, store
from dynamics.simd.lane_blocks import lanes, slicing
from dynamics.spatial.spatial import (
    add3,
    add3_at,
    add6,
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
    rotate_back,
    scale3,
    store3,
    store6,
    store9,
)

# --------------------------------------------------------------------------------------------
# Closed chains: constraints e(q) = 0, their Jacobians A with two time derivatives, and the wrenches that hold them.
#
# In world axes, a constraint row acts on a side with a wrench W = [h; f] about the origin, given by the direction u at
# the point p or by the moment c = a x b,                                                      [GVS, eqs. D69 - D82]
#
#     position       e = u.(p_A - p_B)     A: h = p_A x u, f = u       B: h = - p_B x u, f = - u
#     orientation    e = a.b               A: h = c,       f = 0       B: h = - c,       f = 0
#
# so that a column J of a side's family, with R = dJ/dt and Q = d2J/dt2, adds
#
#     A_j = W.J      A_j' = h'.J + W.R      A_j'' = h''.J + 2 h'.R + W.Q
#
# and de/dq = A, de'/dq = A', de''/dq = A'', de'/dv = A, de''/dv = 2 A', de''/da = A.  Q of the forward pass contains
# gravity g: its linear part lacks g x J_angular.
#
# The reactions A'lambda are world-fixed wrenches at points of links (`loads`).  Moments lambda c rotate with the sides,
# which the derivative of such a wrench does not contain:
#
#     dr/dq gets - (w_A - w_B)' sum lambda dc/dq,     dc/dq_j = (w_Aj x a) x b + a x (w_Bj x b)

# a side: axes R (9), the point and its time derivatives, angular velocity and acceleration (3 each)
POINT, POINT_RATE, POINT_RATE_2, SPIN, SPIN_RATE = 9, 12, 15, 18, 21
SIDE = 24
# a row's wrench on a side: moment about the origin, its time derivatives, force (3 each)
MOMENT, MOMENT_RATE, MOMENT_RATE_2, FORCE = 0, 3, 6, 9
JETS = 12
# three numbers each of a coordinate, of the joint as a whole, points of A and B, turns of A and B
VELOCITY, RATE, VIRTUAL_RATE, RIGHT = 0, 15, 30, 33
VIRTUAL_RIGHT = RIGHT + 15  # factors of VIRTUAL_RATE, and angular velocities of A and B
VECTORS = RIGHT + 24
# sums over rows: D, f of mu, D of lambda
OF_MU, PULL, OF_LAMBDA = 0, 9, 12
SUMS = 21


class ClosureScratch(NamedTuple):
    """Scratch of `closure_rows` and `closure_hessian`: sides, also with rates along w, wrenches of a row, sums of rows,
    vectors of all coordinates."""

    sides: np.ndarray = lanes(2 * SIDE)
    virtual: np.ndarray = lanes(2 * SIDE)
    jets: np.ndarray = lanes(2 * JETS)
    sums: np.ndarray = lanes(SUMS)
    vectors: np.ndarray = lanes(n * VECTORS)


slice_scratch, _ = slicing(ClosureScratch)


@helper
def _vector(x, i, like):
    """Row i of x."""
    z = splat(like, 0.0)
    return (z + x[i, 0], z + x[i, 1], z + x[i, 2])


@kernel
def store_side(k, c, side, gravity, segments, x):
    """Store axes, point and angular velocities of a side of joint c."""
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
    """A direction of a side in world axes, with two time derivatives."""
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
def store_row(k, i, sides, jets, c):
    """Store e, e', e'' of row i in the results c, and its wrenches on both sides."""
    align_stack(jets)
    A, B = sides[:SIDE], sides[SIDE:]
    a = _vector(k.a, i, jets)
    if k.kind[i] == POSITION:
        p, p1, p2 = load3(A, POINT), load3(A, POINT_RATE), load3(A, POINT_RATE_2)
        q, q1, q2 = load3(B, POINT), load3(B, POINT_RATE), load3(B, POINT_RATE_2)
        e, e1, e2 = dot3(a, p) - dot3(a, q), dot3(a, p1) - dot3(a, q1), dot3(a, p2) - dot3(a, q2)
        _store_jets(jets, cross(p, a), cross(p1, a), cross(p2, a), a)
        _store_jets(jets[JETS:], cross(a, q), cross(a, q1), cross(a, q2), scale3(a, -1.0))
    else:
        x, x1, x2 = _turned(A, a)
        y, y1, y2 = _turned(B, _vector(k.b, i, jets))
        e, e1, e2 = dot3(x, y), dot3(x1, y) + dot3(x, y1), fma(2.0, dot3(x1, y1), dot3(x2, y) + dot3(x, y2))
        h, h1 = cross(x, y), add_cross(cross(x1, y), x, y1)
        h2 = add_scaled3(add_cross(cross(x2, y), x, y2), 2.0, cross(x1, y1))
        zero = scale3(x, 0.0)
        _store_jets(jets, h, h1, h2, zero)
        _store_jets(jets[JETS:], scale3(h, -1.0), scale3(h1, -1.0), scale3(h2, -1.0), zero)
    store(c.e, i, e)
    store(c.rate, i, e1)
    store(c.rate_2, i, e2)


@kernel
def _add_columns(m, s, level, row, jets, columns, c):
    """Add one side's part of row A_j, A_j', A_j'' of the coordinates that move it."""
    align_stack(jets)
    n, z, g = m.counts[0], splat(jets, 0.0), m.gravity
    h, h1, h2, f = load3(jets, MOMENT), load3(jets, MOMENT_RATE), load3(jets, MOMENT_RATE_2), load3(jets, FORCE)
    W, weight = join(h, f), (z + g[0], z + g[1], z + g[2])
    for t in range(m.path_start[s], m.path_start[s + 1]):
        j = m.path[t]
        o = row * n + j
        J = load_column(columns, n, 0, j)
        store(c.A, o, add_dot6(load(c.A, o), W, J))
        if level >= FIRST:
            R, Q, w = load_column(columns, n, 6, j), load_column(columns, n, 12, j), angular(J)
            store(c.A_rate, o, load(c.A_rate, o) + dot6(W, R) + dot3(h1, w))
            x = fma(2.0, dot3(h1, angular(R)), dot3(h2, w) + dot3(f, cross(weight, w)))
            store(c.A_rate_2, o, load(c.A_rate_2, o) + dot6(W, Q) + x)


# ------------------------------------------------------------------------------------------------ reactions
@kernel
def _add_reaction(multiplier, orientation, jets, wrench):
    """Add the row's wrench at the point of a side."""
    align_stack(wrench)
    o = 0 if orientation else 3
    x = load3(jets, MOMENT if orientation else FORCE)
    store3(wrench, o, add_scaled3(load3(wrench, o), multiplier, x))


@kernel
def _relative_spins(m, s, sign, columns, spins):
    """Add a side's angular velocities to those of A relative to B."""
    align_stack(spins)
    if s < 0:
        return
    for t in range(m.path_start[s], m.path_start[s + 1]):
        j = m.path[t]
        w = angular(load_column(columns, m.counts[0], 0, j))
        store3(spins, 6 * j, add_scaled3(load3(spins, 6 * j), sign, w))


@kernel
def _add_spins(m, s, multiplier, sign, x, y, columns, spins):
    """Add sign lambda (x (y.w) - (x.y) w) for the coordinates that move a side, w their angular velocities."""
    align_stack(spins)
    if s < 0:
        return
    scale, overlap = sign * multiplier, dot3(x, y)
    for t in range(m.path_start[s], m.path_start[s + 1]):
        j = m.path[t]
        w = angular(load_column(columns, m.counts[0], 0, j))
        d = add_scaled3(scale3(x, dot3(y, w)), -overlap, w)
        store3(spins, 6 * j + 3, add_scaled3(load3(spins, 6 * j + 3), scale, d))


@kernel
def _on_side(m, k, c, side, share, families, segments, columns):
    """With share -1, reduce the columns to those of a side that is not at the tip of its rod; with share 1, undo
    that."""
    if k.segment[c, side] >= 0:
        add_beyond(m, k.segment[c, side], m.parent.size, share, families, segments, columns)


@kernel
def closure_rows(m, k, level, segments, columns, wrenches, work, results):
    """Store e, e', e'', A, A', A'' as far as the level goes in the results, and the reactions among the wrenches, after
    `forward_pass`.  Multipliers follow after the wrenches; work: `ClosureScratch`."""
    align_stack(work)
    n, rows, joints, first = m.counts[0], k.kind.size, k.segment.shape[0], 6 * k.first_wrench[0]
    x, _ = slice_scratch(m, work)
    sides, jets = x.sides, x.jets
    results.e[:], results.rate[:], results.rate_2[:], results.spins[:] = 0.0, 0.0, 0.0, 0.0
    results.A[:], results.A_rate[:], results.A_rate_2[:] = 0.0, 0.0, 0.0
    reactions, multipliers = wrenches[first:], wrenches[first + 12 * joints + 1 + rows :]
    reactions[: 12 * joints] = 0.0
    families = 3 if level >= FIRST else (1 if level >= MASS_MATRIX else 0)
    for c in range(joints):
        store_side(k, c, 0, m.gravity, segments, sides)
        store_side(k, c, 1, m.gravity, segments, sides[SIDE:])
        spins = results.spins[6 * n * c :]
        if level >= FIRST:
            for side in range(2):
                _on_side(m, k, c, side, -1.0, families, segments, columns)
                _relative_spins(m, k.segment[c, side], 1.0 - 2.0 * side, columns, spins)
                _on_side(m, k, c, side, 1.0, families, segments, columns)
        for i in range(k.row_start[c], k.row_start[c + 1]):
            store_row(k, i, sides, jets, results)
            multiplier, turns = load(multipliers, i), k.kind[i] != POSITION
            a, b = rotate(load9(sides, 0), _vector(k.a, i, sides)), rotate(load9(sides, SIDE), _vector(k.b, i, sides))
            for side in range(2):
                s = k.segment[c, side]
                _add_reaction(multiplier, turns, jets[JETS * side :], reactions[12 * c + 6 * side :])
                if level < MASS_MATRIX or s < 0:
                    continue
                _on_side(m, k, c, side, -1.0, families, segments, columns)
                _add_columns(m, s, level, i, jets[JETS * side :], columns, results)
                if level >= FIRST and turns:
                    if side == 0:
                        _add_spins(m, s, multiplier, 1.0, a, b, columns, spins)
                    else:
                        _add_spins(m, s, multiplier, -1.0, b, a, columns, spins)
                _on_side(m, k, c, side, 1.0, families, segments, columns)


@kernel
def subtract_turning(m, k, results, dq):
    """Subtract from dr/dq the change of moments that rotate with the sides."""
    align_stack(dq)
    n = m.counts[0]
    for c in range(k.segment.shape[0]):
        spins = results.spins[6 * n * c :]
        for s in range(k.path_start[c], k.path_start[c + 1]):
            i = k.path[s]
            w = load3(spins, 6 * i)
            for t in range(k.path_start[c], k.path_start[c + 1]):
                j = k.path[t]
                store(dq, i * n + j, load(dq, i * n + j) - dot3(w, load3(spins, 6 * j + 3)))


# --------------------------------------------------------------------------------------------
# Second derivatives of closed chains: their contribution to the Hessian of
#
#     w'r(q, v, a, u, lambda) + mu'(e'(q, v) + e(q) / T)
#
# The part in r is - lambda'e'(q, w), so that both are rates of e along z = v or w.  Side A is pulled at p by f = sum mu
# u of position rows and rotated by c = sum mu a x b of orientation rows, side B by the opposite.  With D = sum mu a b',
# rotations w_i of the sides by a coordinate, Omega = w_A - w_B along z and {X} = X + X', a rate's second derivative in
# q is that of
#
#     1. wrenches that keep to the axes of a side: the composites f (z = w) and n (z = v) of `backward_pass` have these
#     2. such as stay in the world    {(Rp_i + w_i x p'/2).(f x w_j) + (R_i + w_i x w/2).(c x w_j)},  e = p' x f + w x c
#     3. moments that turn with both    {Omega_i.c_j + w_Ai.x_j + w_Bi.z_j},     e = C_A'Omega of A, C_B'Omega of B
#
#     c_j = C_A w_Aj + C_B w_Bj        C_A = D - tr D        C_B = tr D - D'
#     x_j = - (Omega x D'w_Aj + (Omega.c) w_Aj) / 2 + c (Omega.w_Bj) - D Omega x w_Bj
#     z_j = (Omega x D w_Bj - (Omega.c) w_Bj) / 2
#
# where wrenches e join those of loads (`composites`), which the curvature of coordinates multiplies.  The loads have
# the second of z = w.  In qv there is (f x w_i).Jp_j + (c x w_i).w_j + c_i.(w_Aj - w_Bj), and for e(q) itself half of
# {that}, without its second term, in qq, with the wrench of mu.  Directions turn by exponentials: a + t x a + t x (t x
# a) / 2.


@helper
def _moment(D):
    """sum a x b for D = sum a b'."""
    return (D[5] - D[7], D[6] - D[2], D[1] - D[3])


@helper
def _turned_products(D, s, x):
    """s (D x - tr D x)"""
    return scale3(add_scaled3(rotate(D, x), -(D[0] + D[4] + D[8]), x), s)


@helper
def _turned_back(D, s, x):
    """s (D'x - tr D x)"""
    return scale3(add_scaled3(rotate_back(D, x), -(D[0] + D[4] + D[8]), x), s)


@helper
def _spins(sides):
    """Omega from the rates in the sides."""
    return add_scaled3(load3(sides, SPIN), splat(sides, -1.0), load3(sides, SIDE + SPIN))


@kernel
def _store_virtual_rates(k, c, segments, sides):
    """Put rates along w in place of rates in time."""
    align_stack(sides)
    for side in range(2):
        s, own = k.segment[c, side], sides[SIDE * side :]
        if s >= 0:
            mu = load6(segments, s * SEGMENT + END + VIRTUAL)
            store3(own, SPIN, angular(mu))
            store3(own, POINT_RATE, add_cross(linear(mu), angular(mu), load3(own, POINT)))


@kernel
def _add_virtual_row(m, s, jets, columns, row):
    """Add a side's part of the rate along w of a row of A (n)."""
    align_stack(row)
    n, h, h1, f = m.counts[0], load3(jets, 0), load3(jets, 3), load3(jets, 9)
    for t in range(m.path_start[s], m.path_start[s + 1]):
        j = m.path[t]
        x = load(row, j) + dot3(h1, angular(load_column(columns, n, 0, j)))
        store(row, j, add_dot6(x, join(h, f), load_column(columns, n, 18, j)))


@kernel
def _sum_row(k, i, sides, weight, multiplier, sums):
    """Add row i of a closed joint to D and f."""
    align_stack(sums)
    z = splat(sums, 0.0)
    a, b = (z + k.a[i, 0], z + k.a[i, 1], z + k.a[i, 2]), (z + k.b[i, 0], z + k.b[i, 1], z + k.b[i, 2])
    if k.kind[i] == POSITION:
        add3_at(sums, PULL, scale3(a, weight))
        return
    x, y = rotate(load9(sides, 0), a), rotate(load9(sides, SIDE), b)
    for r in range(3):
        t = x[0] if r == 0 else (x[1] if r == 1 else x[2])
        add3_at(sums, OF_MU + 3 * r, scale3(y, weight * t))
        add3_at(sums, OF_LAMBDA + 3 * r, scale3(y, multiplier * t))


@kernel
def _add_composites(k, c, rate, sides, virtual, sums, segments):
    """Add wrenches n and e at both sides."""
    align_stack(sums)
    D, L, v, w = load9(sums, OF_MU), load9(sums, OF_LAMBDA), _spins(sides), _spins(virtual)
    for side in range(2):
        s, own, sign = k.segment[c, side], sides[SIDE * side :], splat(sums, 1.0 - 2.0 * side)
        if s < 0:
            continue
        p, f, moment = load3(own, POINT), scale3(load3(sums, PULL), sign), scale3(_moment(D), sign)
        e = add_cross(cross(load3(own, POINT_RATE), f), load3(own, SPIN), moment)
        if side == 0:
            e = add3(e, add3(_turned_back(D, 1.0, v), _turned_back(L, -1.0, w)))
        else:
            e = add3(e, add3(_turned_products(D, -1.0, v), _turned_products(L, 1.0, w)))
        moment = add_cross(moment, p, f)
        o = s * SEGMENT + COMPOSITE
        store6(segments, o + RATE_FORCE, add6(load6(segments, o + RATE_FORCE), join(moment, f)))
        e = join(add_scaled3(e, rate, moment), scale3(f, rate))
        store6(segments, o + LOAD_FORCE, add6(load6(segments, o + LOAD_FORCE), e))


# ------------------------------------------------------------------------------------------------ vectors
@kernel
def _store_side_vectors(m, s, side, own, virtual, columns, vectors):
    """Store J and its rates along v and w at a side, for all coordinates that move it."""
    align_stack(vectors)
    n, o, p, sign = m.counts[0], 3 * side, load3(own, POINT), splat(vectors, 1.0 - 2.0 * side)
    half = splat(vectors, 0.5)
    for t in range(m.path_start[s], m.path_start[s + 1]):
        j = m.path[t]
        x = vectors[VECTORS * j : VECTORS * (j + 1)]
        J, R, W = load_column(columns, n, 0, j), load_column(columns, n, 6, j), load_column(columns, n, 18, j)
        w, omega = angular(J), angular(R)
        turn, shift = cross(w, load3(own, SPIN)), cross(w, load3(own, POINT_RATE))
        store3(x, VELOCITY + 3 + o, add_cross(linear(J), w, p))
        store3(x, VELOCITY + 9 + o, w)
        store3(x, RATE + 3 + o, add_scaled3(add_cross(linear(R), omega, p), half, shift))
        store3(x, RATE + 9 + o, add_scaled3(omega, half, turn))
        add3_at(x, VELOCITY, scale3(w, sign))
        add3_at(x, RATE, scale3(add3(omega, turn), sign))
        add3_at(x, VIRTUAL_RATE, scale3(add_cross(angular(W), w, load3(virtual, SPIN)), sign))


@helper
def _add_quadratic(D, s, spins, A, B, x):
    """Add s x_j and s z_j of turns A and B."""
    c, half = _moment(D), -0.5 * dot3(spins, _moment(D))
    y = add_scaled3(scale3(cross(rotate_back(D, A), spins), 0.5 + 0.0 * half), half, A)
    y = add3(add_scaled3(y, dot3(spins, B), c), cross(B, rotate(D, spins)))
    add3_at(x, VIRTUAL_RIGHT + 3, scale3(y, s))
    y = add_scaled3(scale3(cross(spins, rotate(D, B)), 0.5 + 0.0 * half), half, B)
    add3_at(x, VIRTUAL_RIGHT + 6, scale3(y, s))


@kernel
def _complete(rate, sides, virtual, sums, x):
    """Store the right-hand vectors of a coordinate, and add the part of e to rates."""
    align_stack(x)
    D, L, f, v, w = load9(sums, OF_MU), load9(sums, OF_LAMBDA), load3(sums, PULL), _spins(sides), _spins(virtual)
    A, B, c, half = load3(x, VELOCITY + 9), load3(x, VELOCITY + 12), _moment(D), 0.5 * rate
    for o in range(0, 9, 3):
        add3_at(x, RATE + o, scale3(load3(x, VELOCITY + o), half))
    store3(x, RIGHT, add3(_turned_products(D, 1.0, A), _turned_back(D, -1.0, B)))
    store3(x, RIGHT + 3, cross(f, A))
    store3(x, RIGHT + 6, cross(B, f))
    store3(x, RIGHT + 9, cross(c, A))
    store3(x, RIGHT + 12, cross(B, c))
    store3(x, VIRTUAL_RIGHT, add3(_turned_products(L, -1.0, A), _turned_back(L, 1.0, B)))
    _add_quadratic(D, 1.0, v, A, B, x)
    _add_quadratic(L, -1.0, w, A, B, x)


@kernel
def _add_products(m, k, c, vectors, Hqq, Hqv):
    """Add the products of the vectors of all coordinates of a joint: half of Hqq (to be added to its transpose), and
    Hqv."""
    align_stack(Hqq)
    n = m.counts[0]
    for s in range(k.path_start[c], k.path_start[c + 1]):
        i = k.path[s]
        x = vectors[VECTORS * i : VECTORS * (i + 1)]
        for t in range(k.path_start[c], k.path_start[c + 1]):
            j = k.path[t]
            y = vectors[VECTORS * j : VECTORS * (j + 1)]
            qq, qv = load(Hqq, i * n + j), load(Hqv, i * n + j)
            for o in range(15):
                right = load(y, RIGHT + o)
                qq = fma(load(x, RATE + o), right, qq)
                qv = fma(load(x, RIGHT + o), load(y, VELOCITY + o), qv)
            for o in range(3):
                qq = fma(load(x, VIRTUAL_RATE + o), load(y, VIRTUAL_RIGHT + o), qq)
            for o in range(6):
                qq = fma(load(x, VELOCITY + 9 + o), load(y, VIRTUAL_RIGHT + 3 + o), qq)
            store(Hqq, i * n + j, qq)
            store(Hqv, i * n + j, qv)


@kernel
def closure_hessian(m, k, segments, columns, wrenches, work, results, Hqq, Hqv):
    """Add, between `forward_pass` and `closure_rows`, the composites n and e, the rates of A along w, and the rest of
    the Hessian to Hqv and to Hqq, which is then added to its transpose; work: `ClosureScratch`."""
    align_stack(work)
    rows, n = k.kind.size, m.counts[0]
    (sides, virtual, jets, sums, vectors), _ = slice_scratch(m, work)
    given = wrenches[6 * k.first_wrench[0] + 12 * k.segment.shape[0] :]
    rate, weights, multipliers = load(given, 0), given[1:], given[1 + rows :]
    results.virtual[:] = 0.0
    for c in range(k.segment.shape[0]):
        for side in range(2):
            store_side(k, c, side, m.gravity, segments, sides[SIDE * side :])
            store_side(k, c, side, m.gravity, segments, virtual[SIDE * side :])
        _store_virtual_rates(k, c, segments, virtual)
        sums[:SUMS] = 0.0
        for i in range(k.row_start[c], k.row_start[c + 1]):
            _sum_row(k, i, sides, load(weights, i), load(multipliers, i), sums)
            store_row(k, i, virtual, jets, results)
            for side in range(2):
                s = k.segment[c, side]
                if s >= 0:
                    add_beyond(m, s, m.parent.size, -1.0, 4, segments, columns)
                    _add_virtual_row(m, s, jets[JETS * side :], columns, results.virtual[i * n : (i + 1) * n])
                    add_beyond(m, s, m.parent.size, 1.0, 4, segments, columns)
        _add_composites(k, c, rate, sides, virtual, sums, segments)
        for t in range(k.path_start[c], k.path_start[c + 1]):
            vectors[VECTORS * k.path[t] : VECTORS * (k.path[t] + 1)] = 0.0
        for side in range(2):
            if k.segment[c, side] >= 0:
                s, own, other = k.segment[c, side], sides[SIDE * side :], virtual[SIDE * side :]
                add_beyond(m, s, m.parent.size, -1.0, 4, segments, columns)
                _store_side_vectors(m, s, side, own, other, columns, vectors)
                add_beyond(m, s, m.parent.size, 1.0, 4, segments, columns)
        for t in range(k.path_start[c], k.path_start[c + 1]):
            _complete(rate, sides, virtual, sums, vectors[VECTORS * k.path[t] : VECTORS * (k.path[t] + 1)])
        _add_products(m, k, c, vectors, Hqq, Hqv)
