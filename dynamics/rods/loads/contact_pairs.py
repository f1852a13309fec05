"""Contact between two links as spheres about their nodes, and contact with damping and friction."""

from dynamics.rods.kinematics.strains import add_families, load_column
from dynamics.rods.loads.composites import add_at
from dynamics.rods.loads.contacts import (
    DAMPING,
    EXPONENT,
    FRICTION,
    OFFSET,
    PLACE,
    POINT,
    SIDE,
    SLIP,
    SMOOTHING,
    STIFFNESS,
    combination,
    contact_law,
    distance,
    symmetric_times,
)
from dynamics.rods.loads.segment_loads import add_pose_terms, entry3, wrench_about_origin
from dynamics.rods.model.arrays import (
    COMPOSITE,
    END,
    FAMILIES,
    FIRST,
    FORCE,
    LOAD_FORCE,
    LOADS,
    RATE_FORCE,
    SECOND,
    SEGMENT,
    TWIST,
    VIRTUAL,
    RodContactArrays,
    touching_path,
    touching_segment,
)
from dynamics.simd import align_stack, fma, helper, kernel, load, shared_kernel, splat, split, sqrt, store
from dynamics.simd.functions import all_less
from dynamics.spatial.spatial import (
    add3,
    add_cross,
    add_rotated,
    add_scaled3,
    angular,
    cross,
    dot3,
    linear,
    load3,
    load6,
    load9,
    scale3,
    store3,
)

# --------------------------------------------------------------------------------------------
# Force of a contact with damping and friction, and its derivatives, by positions, velocities and virtual velocities.
#
# With the depth D of a relative position x, its gradient g, the relative velocity y, and the force F(D) of `contacts`,
#
#     f = - F (1 + c a) g - mu F (y - a g) / N,  a = g.y,  N = sqrt(y.y - a^2 + s^2)  [Hunt and Crossley]
#
# with c the damping, mu the friction and s the speed of slip, derivatives are those of the power of a virtual velocity,
#
#     L = v.f = - F p,      p = (1 + c a) b + mu (h - a b) / N,      b = g.v,      h = y.v
#
# a function of D, a, b, h and e = y.y: with their gradients in (x, y, v) as rows of G, and derivatives l, C of L by
# them,
#
#     L' = G'l      L'' = G'C G + sum of l_k times second derivatives

GRADIENT, CURVATURE, ROWS, PRODUCTS, COEFFICIENTS = 0, 9, 90, 135, 180
"""L' (9), L'' (81), G (5, 9), C G (5, 9), C (25)."""
LAW = 205


@helper
def _store_pair(X, i, j, x):
    store(X, 5 * i + j, x)
    store(X, 5 * j + i, x)


@kernel
def _store_coefficients(c, depth, a, b, h, e, C):
    """C (25); returns l (5)."""
    align_stack(C)
    F, dF, ddF = contact_law(depth, c[STIFFNESS], c[EXPONENT], c[SMOOTHING])
    damping, mu = c[DAMPING], c[FRICTION]
    i = 1.0 / sqrt(e - a * a + c[SLIP] * c[SLIP])
    side, cube = h - a * b, i * i * i
    fifth = cube * i * i
    p = (1.0 + damping * a) * b + mu * side * i
    of_a, of_b = damping * b + mu * (side * a * cube - b * i), 1.0 + damping * a - mu * a * i
    of_h, of_e = mu * i, -0.5 * mu * side * cube
    C[:25] = 0.0
    store(C, 0, -ddF * p)
    _store_pair(C, 0, 1, -dF * of_a)
    _store_pair(C, 0, 2, -dF * of_b)
    _store_pair(C, 0, 3, -dF * of_h)
    _store_pair(C, 0, 4, -dF * of_e)
    store(C, 6, -F * mu * ((side - 2.0 * a * b) * cube + 3.0 * side * a * a * fifth))
    _store_pair(C, 1, 2, -F * (damping - mu * (i + a * a * cube)))
    _store_pair(C, 1, 3, -F * mu * a * cube)
    _store_pair(C, 1, 4, -F * mu * (0.5 * b * cube - 1.5 * side * a * fifth))
    _store_pair(C, 2, 4, -0.5 * F * mu * a * cube)
    _store_pair(C, 3, 4, 0.5 * F * mu * cube)
    store(C, 24, -0.75 * F * mu * side * fifth)
    return -dF * p, -F * of_a, -F * of_b, -F * of_h, -F * of_e


@helper
def _third(side, inverse, u, T, w):
    """Third derivative of the depth along w."""
    return combination(-side * inverse * inverse * dot3(u, w), T, -side * inverse * inverse, u, symmetric_times(T, w))


@kernel
def _add_block(X, row, column, S, x):
    """X (9, 9) += x S at (row, column), and its transpose unless that is on the diagonal; S = xx xy xz yy yz zz."""
    align_stack(X)
    for i in range(3):
        for j in range(3):
            s = entry3((entry3((S[0], S[1], S[2]), j), entry3((S[1], S[3], S[4]), j), entry3((S[2], S[4], S[5]), j)), i)
            o = 9 * (row + i) + column + j
            store(X, o, load(X, o) + x * s)
            if row != column:
                o = 9 * (column + j) + row + i
                store(X, o, load(X, o) + x * s)


@kernel
def store_law(level, c, depth, inverse, u, T, y, v, work):
    """Store L' and, where the level needs it, L'' at a relative velocity y and virtual velocity v, for a distance with
    1/d, u and T; work: LAW."""
    align_stack(work)
    X, G, CG, C = work[CURVATURE:], work[ROWS:], work[PRODUCTS:], work[COEFFICIENTS:]
    side, z, one = c[SIDE], splat(work, 0.0), splat(work, 1.0)
    unit = (one, z, z, one, z, one)
    g = scale3(u, z + side)
    Hy, Hv = scale3(symmetric_times(T, y), side * inverse), scale3(symmetric_times(T, v), side * inverse)
    l = _store_coefficients(c, depth, dot3(g, y), dot3(g, v), dot3(y, v), dot3(y, y), C)
    G[:45] = 0.0
    store3(G, 0, g)
    store3(G, 9, Hy)
    store3(G, 12, g)
    store3(G, 18, Hv)
    store3(G, 24, g)
    store3(G, 30, v)
    store3(G, 33, y)
    store3(G, 39, scale3(y, z + 2.0))
    for j in range(9):
        x = l[0] * load(G, j) + l[1] * load(G, 9 + j) + l[2] * load(G, 18 + j)
        store(work, GRADIENT + j, x + l[3] * load(G, 27 + j) + l[4] * load(G, 36 + j))
    if level < FIRST:
        return
    for j in range(9):
        for i in range(5):
            x = load(C, 5 * i) * load(G, j) + load(C, 5 * i + 1) * load(G, 9 + j) + load(C, 5 * i + 2) * load(G, 18 + j)
            store(CG, 9 * i + j, x + load(C, 5 * i + 3) * load(G, 27 + j) + load(C, 5 * i + 4) * load(G, 36 + j))
    for i in range(9):
        for j in range(9):
            x = load(G, i) * load(CG, j) + load(G, 9 + i) * load(CG, 9 + j) + load(G, 18 + i) * load(CG, 18 + j)
            store(X, 9 * i + j, x + load(G, 27 + i) * load(CG, 27 + j) + load(G, 36 + i) * load(CG, 36 + j))
    _add_block(X, 0, 0, T, l[0] * side * inverse)
    _add_block(X, 0, 0, _third(side, inverse, u, T, y), l[1])
    _add_block(X, 0, 0, _third(side, inverse, u, T, v), l[2])
    _add_block(X, 0, 3, T, l[1] * side * inverse)
    _add_block(X, 0, 6, T, l[2] * side * inverse)
    _add_block(X, 3, 6, unit, l[3])
    _add_block(X, 3, 3, unit, 2.0 * l[4])


@helper
def law_force(work):
    """f = dL/dv."""
    return load3(work, GRADIENT + 6)


# --------------------------------------------------------------------------------------------
# Contact between points of two links, or with friction and damping: forces of relative positions and velocities.
#
# With the columns X = (J, T, V) of the relative position x, velocity y and virtual velocity v of points A and B,
#
#     J = dx/dq = dy/dv      T = dy/dq      V = dv/dq      L = v.f(x, y) as above,
#
# the terms of r = -J'f and of the Hessian of w'r = -L are
#
#     dr/dq  - J'(f_x J + f_y T)      dr/dv  - J'f_y J      Hqq  - X'L''X      Hqv  - X'L''_y J      Hvv  - J'L''_yy J
#
# and those of the second derivatives of x, y and v: f as a world-fixed force on either side (`segment_loads`), -L_x and
# -L_y as rows of a closed chain that act there (`closure_kernel`).  If no lane is in contact, all of it is skipped.

RATE, VIRTUAL_RATE, POINT_NUMBERS = 3, 6, 9
"""Numbers of a point: position, velocity, virtual velocity (3 each)."""
# numbers of a coordinate: J, T, V; of A and B how it moves the point, and the rate of that; the same times L' and L''
OF_SIDES, RIGHT, RATES = 9, 21, 42
RECORD = 51


@kernel
def _store_point(s, place, segments, x):
    """Store the point of segment s at a position in its frame, or in the world."""
    align_stack(x)
    z = splat(x, 0.0)
    place, still = (z + place[0], z + place[1], z + place[2]), (z, z, z)
    store3(x, 0, place)
    store3(x, RATE, still)
    store3(x, VIRTUAL_RATE, still)
    if s >= 0:
        end = segments[s * SEGMENT + END :]
        p = add_rotated(load3(end, 9), load9(end, 0), place)
        eta, mu = load6(end, TWIST), load6(end, VIRTUAL)
        store3(x, 0, p)
        store3(x, RATE, add_cross(linear(eta), angular(eta), p))
        store3(x, VIRTUAL_RATE, add_cross(linear(mu), angular(mu), p))


@helper
def _apart(x, o):
    """Difference of three numbers of the points."""
    return add_scaled3(load3(x, o), -1.0, load3(x, POINT_NUMBERS + o))


@kernel
def _add_loads(level, s, sign, point, law, segments, loads, A):
    """Add the force on segment s, and the wrenches that the curvature of coordinates multiplies."""
    align_stack(A)
    seg, extra = segments[s * SEGMENT : (s + 1) * SEGMENT], loads[s * LOADS : (s + 1) * LOADS]
    z, p, f = splat(A, 0.0), load3(point, 0), scale3(law_force(law), sign)
    none = (z, z, z, z, z, z)
    add_at(seg, COMPOSITE + FORCE, wrench_about_origin(p, (z, z, z), scale3(f, -1.0)))
    if level >= FIRST:
        add_pose_terms(level, p, (z, z, z), f, none, none, load6(seg, END + VIRTUAL), seg, A, extra)
    if level >= SECOND:
        of_x, of_y = scale3(load3(law, GRADIENT), -sign), scale3(load3(law, GRADIENT + 3), -sign)
        add_at(seg, COMPOSITE + RATE_FORCE, wrench_about_origin(p, (z, z, z), of_y))
        add_at(seg, COMPOSITE + LOAD_FORCE, wrench_about_origin(p, cross(load3(point, RATE), of_y), of_x))


@kernel
def _node_columns(m, s, families, segments, columns):
    """Columns of the families of all coordinates at the end of segment s, whose own are sums along the path."""
    align_stack(columns)
    columns[: FAMILIES * m.counts[0]] = 0.0
    while s >= 0:
        add_families(m, s, 1.0, families, segments[s * SEGMENT : (s + 1) * SEGMENT], columns)
        s = m.parent[s]


@kernel
def _add_side(m, s, side, point, law, columns, records):
    """Store J, T, V of the coordinates that move a side, and add the terms of this side alone."""
    align_stack(records)
    n, o, sign, half = m.counts[0], OF_SIDES + 6 * side, splat(records, 1.0 - 2.0 * side), splat(records, 0.5)
    p, rate, virtual = load3(point, 0), load3(point, RATE), load3(point, VIRTUAL_RATE)
    of_x, of_y = scale3(load3(law, GRADIENT), -0.5 * sign), scale3(load3(law, GRADIENT + 3), -sign)
    for t in range(m.path_start[s], m.path_start[s + 1]):
        j = m.path[t]
        x = records[RECORD * j : RECORD * (j + 1)]
        S, R, W = load_column(columns, n, 0, j), load_column(columns, n, 6, j), load_column(columns, n, 18, j)
        w = angular(S)
        J, turn = add_cross(linear(S), w, p), cross(w, rate)
        T = add_cross(linear(R), angular(R), p)
        V = add_cross(add_cross(linear(W), angular(W), p), w, virtual)
        store3(x, 0, add_scaled3(load3(x, 0), sign, J))
        store3(x, 3, add_scaled3(load3(x, 3), sign, add3(T, turn)))
        store3(x, 6, add_scaled3(load3(x, 6), sign, V))
        store3(x, o, J)
        store3(x, o + 3, add_scaled3(T, half, turn))
        store3(x, RIGHT + o, cross(of_x, w))
        store3(x, RIGHT + o + 3, cross(of_y, w))


@kernel
def _complete(law, x):
    """Store -L''X / 2 and -L''_y J of a coordinate."""
    align_stack(law)
    for i in range(9):
        y, half = splat(law, 0.0), splat(law, 0.0)
        for j in range(3):
            o = CURVATURE + 9 * i + j
            y = fma(load(law, o + 3), load(x, j), y)
            half = fma(load(law, o), load(x, j), half)
            half = fma(load(law, o + 3), load(x, 3 + j), half)
            half = fma(load(law, o + 6), load(x, 6 + j), half)
        store(x, RIGHT + i, -0.5 * half)
        store(x, RATES + i, -1.0 * y)


@helper
def _product(x, o, y, p, count, sum):
    """sum + x[o ...].y[p ...], of `count` numbers."""
    for k in range(count):
        sum = fma(load(x, o + k), load(y, p + k), sum)
    return sum


@kernel
def _add_first(n, path, first, last, of_rates, records, b):
    """Add to dr/dq and, if forces depend on velocities, to dr/dv."""
    align_stack(records)
    for s in range(first, last):
        x, i = records[RECORD * path[s] :], path[s]
        for t in range(first, last):
            y, ij = records[RECORD * path[t] :], i * n + path[t]
            z = splat(records, 0.0)
            store(b.dq, ij, fma(2.0, _product(x, 0, y, RIGHT + 6, 3, z), load(b.dq, ij)))
            if of_rates:
                store(b.dv, ij, _product(x, 0, y, RATES + 6, 3, load(b.dv, ij)))


@kernel
def _add_second(n, path, first, last, of_rates, records, b):
    """Add to the Hessian: half of Hqq and Hvv, which are then added to their transposes, and Hqv."""
    align_stack(records)
    for s in range(first, last):
        x, i = records[RECORD * path[s] :], path[s]
        for t in range(first, last):
            y, ij = records[RECORD * path[t] :], i * n + path[t]
            store(b.Hqq, ij, _product(x, 0, y, RIGHT, OF_SIDES + 12, load(b.Hqq, ij)))
            if of_rates:
                z = splat(records, 0.0)
                qv = _product(x, 0, y, RATES, 9, load(b.Hqv, ij))
                for o in (OF_SIDES, OF_SIDES + 6):
                    qv = _product(x, RIGHT + o + 3, y, o, 3, qv)
                store(b.Hqv, ij, qv)
                store(b.Hvv, ij, fma(0.5, _product(x, 0, y, RATES + 3, 3, z), load(b.Hvv, ij)))


@shared_kernel
def add_contact_pairs(m, k, level, segments, loads, work, b):
    """Add the contacts to composites, loads and `Blocks`, between the forward and the backward pass; work:
    `pair_size`."""
    n = m.counts[0]
    points, w = split(work, 2 * POINT_NUMBERS)
    law, w = split(w, LAW)
    A, w = split(w, 36)
    records, w = split(w, RECORD * n)
    columns, w = split(w, FAMILIES * n)
    families = 4 if level >= SECOND else 3
    for i in range(k.numbers.shape[0]):
        c = k.numbers[i]
        _store_point(touching_segment(k, i, 0), c[PLACE:], segments, points)
        _store_point(touching_segment(k, i, 1), c[POINT:], segments, points[POINT_NUMBERS:])
        d, inverse, u, T = distance(c, _apart(points, 0))
        depth = c[SIDE] * d + c[OFFSET]
        if all_less(depth, -c[SMOOTHING]):
            continue
        store_law(level, c, depth, inverse, u, T, _apart(points, RATE), _apart(points, VIRTUAL_RATE), law)
        first, last = touching_path(k, i)
        for t in range(first, last):
            records[RECORD * k.integers[t] : RECORD * (k.integers[t] + 1)] = 0.0
        for side in range(2):
            s, point = touching_segment(k, i, side), points[POINT_NUMBERS * side :]
            if s >= 0:
                _add_loads(level, s, 1.0 - 2.0 * side, point, law, segments, loads, A)
            if s >= 0 and level >= FIRST:
                _node_columns(m, s, families, segments, columns)
                _add_side(m, s, side, point, law, columns, records)
        if level < FIRST:
            continue
        for t in range(first, last):
            _complete(law, records[RECORD * k.integers[t] : RECORD * (k.integers[t] + 1)])
        of_rates = c[DAMPING] > 0.0 or c[FRICTION] > 0.0
        _add_first(n, k.integers, first, last, of_rates, records, b)
        if level >= SECOND:
            _add_second(n, k.integers, first, last, of_rates, records, b)


def pair_size(k: RodContactArrays, n: int) -> int:
    """Scratch size of `add_contact_pairs`."""
    return 2 * POINT_NUMBERS + LAW + 36 + (RECORD + FAMILIES) * n if len(k.numbers) else 0
