"""Force of a contact with damping and friction, and its derivatives, of places, velocities and virtual velocities.

With the depth D of a relative position x, its gradient g, the relative velocity y, and the force F(D) of `load_laws`,

    f = - F (1 + c a) g - mu F (y - a g) / N,      a = g.y,      N = sqrt(y.y - a^2 + s^2)          [Hunt and Crossley]

with c the damping, mu the friction and s the speed of slip, derivatives are those of the power of a virtual velocity,

    L = v.f = - F p,      p = (1 + c a) b + mu (h - a b) / N,      b = g.v,      h = y.v

a function of D, a, b, h and e = y.y: with their gradients in (x, y, v) as rows of G, and derivatives l, C of L by them,

    L' = G'l      L'' = G'C G + sum of l_k times second derivatives
"""

from dynamics.rods.loads.distances import (
    DAMPING,
    EXPONENT,
    FRICTION,
    SIDE,
    SLIP,
    SMOOTHING,
    STIFFNESS,
    combination,
    symmetric_times,
)
from dynamics.rods.loads.load_laws import contact_law
from dynamics.rods.loads.pose_loads import entry3
from dynamics.rods.model.arrays import FIRST
from dynamics.simd import align_stack, helper, kernel, load, splat, sqrt, store
from dynamics.spatial import dot3, load3, scale3, store3

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
    """L' and, where the level needs it, L'' at a relative velocity y and virtual velocity v, of a distance with 1/d, u
    and T; work: LAW."""
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
