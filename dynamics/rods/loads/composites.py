"""Composite inertias and forces of the subtree behind a segment, and small matrices in the lanes."""

from dynamics.rods.model.arrays import (
    ACCELERATION,
    COMPOSITE,
    COMPOSITE_NUMBERS,
    DOUBLE_FORCE,
    END,
    FIRST,
    FORCE,
    INERTIA,
    INERTIA_RATE,
    MASS,
    MOMENT,
    MOMENTUM,
    RATE_FORCE,
    SECOND,
    SEGMENT,
    TWIST,
    VIRTUAL,
    VIRTUAL_MOMENT,
    VIRTUAL_RATE,
)
from dynamics.simd import align_stack, fma, helper, kernel, load, splat, store
from dynamics.spatial.spatial import (
    accumulate,
    add3_at,
    add6,
    add_cross_force,
    add_scaled6,
    cross_force,
    dot6,
    inertia_times,
    linear,
    load3,
    load6,
    load9,
    multiply,
    rate_rotation,
    rate_times,
    scale6,
    store3,
    store6,
    sub6,
    world_inertia,
)

# --------------------------------------------------------------------------------------------
# 6x6 matrices in memory, row-major, that act on twists of the world frame.


@helper
def times6(A, o, x):
    """A x for A at offset o."""
    return (
        dot6(load6(A, o), x), dot6(load6(A, o + 6), x), dot6(load6(A, o + 12), x), dot6(load6(A, o + 18), x),
        dot6(load6(A, o + 24), x), dot6(load6(A, o + 30), x),
    )  # fmt: skip


@helper
def transposed_times6(A, o, x):
    """A'x"""
    y = scale6(load6(A, o), x[0])
    y = add_scaled6(y, x[1], load6(A, o + 6))
    y = add_scaled6(y, x[2], load6(A, o + 12))
    y = add_scaled6(y, x[3], load6(A, o + 18))
    y = add_scaled6(y, x[4], load6(A, o + 24))
    return add_scaled6(y, x[5], load6(A, o + 30))


@helper
def _block(A, o):
    """Nine numbers, row-major, of the 3x3 block of A (stride 6) at o."""
    return (
        load(A, o), load(A, o + 1), load(A, o + 2), load(A, o + 6), load(A, o + 7), load(A, o + 8),
        load(A, o + 12), load(A, o + 13), load(A, o + 14),
    )  # fmt: skip


@helper
def store_block(A, o, x):
    """Nine numbers, row-major, into the 3x3 block of A (stride 6) at o."""
    store3(A, o, (x[0], x[1], x[2]))
    store3(A, o + 6, (x[3], x[4], x[5]))
    store3(A, o + 12, (x[6], x[7], x[8]))


@kernel
def turn(R, A):
    """Transform A from the axes of a frame to the world's: every 3x3 block X becomes R X R'."""
    align_stack(A)
    back = (R[0], R[3], R[6], R[1], R[4], R[7], R[2], R[5], R[8])
    for r in range(0, 6, 3):
        for c in range(0, 6, 3):
            o = 6 * r + c
            store_block(A, o, multiply(multiply(R, _block(A, o)), back))


@kernel
def add_moved(p, A, total, o):
    """total[o ...] += B'A B with B = [[1, 0], [-p~, 1]]: A acts on twists at a point p, the total on those at the
    origin, in parallel axes."""
    align_stack(A)
    for i in range(6):  # rows of A B: angular columns gain -(linear) p~ = p x (rows)
        a = load6(A, 6 * i)
        w = (a[5] * p[1] - a[4] * p[2], a[3] * p[2] - a[5] * p[0], a[4] * p[0] - a[3] * p[1])
        store6(A, 6 * i, (a[0] + w[0], a[1] + w[1], a[2] + w[2], a[3], a[4], a[5]))
    for j in range(6):
        f = (load(A, 18 + j), load(A, 24 + j), load(A, 30 + j))
        n = (p[1] * f[2] - p[2] * f[1], p[2] * f[0] - p[0] * f[2], p[0] * f[1] - p[1] * f[0])
        for i in range(3):
            x = n[0] if i == 0 else (n[1] if i == 1 else n[2])
            y = f[0] if i == 0 else (f[1] if i == 1 else f[2])
            k = o + 6 * i + j
            store(total, k, load(total, k) + load(A, 6 * i + j) + x)
            store(total, k + 18, load(total, k + 18) + y)


# --------------------------------------------------------------------------------------------
# Sums over all bodies that move with a segment's end: wrenches, momenta, inertias, rates, in the world frame.
#
# For a node with inertia M, twists mu and eta, and acceleration eta' (with gravity),               [rod_hessian, 2]
#
#     f = M eta' + eta x* M eta        n = N'mu        m = M mu
#     N = (rate of M along eta) + (x -> x x* p)        p = M eta        B = -(rate of M along mu)
#
# so that N and B are a momentum and massless inertias, and all is additive.

MOMENTA = 10
"""Size of the results of `store_momenta`."""


@helper
def add_at(ws, o, x):
    """ws[o ...] += x, six numbers."""
    store6(ws, o, add6(load6(ws, o), x))


@helper
def _node_inertia(m, s, seg):
    """Mass, first moment and rotational inertia of the bodies at the segment's end."""
    R, p = load9(seg, END), load3(seg, END + 9)
    z, data = splat(seg, 0.0), m.inertia[s]
    mass = z + data[0]
    h, I = world_inertia(
        R, p, mass, (z + data[1], z + data[2], z + data[3]),
        (z + data[4], z + data[5], z + data[6], z + data[7], z + data[8], z + data[9]),
    )  # fmt: skip
    return mass, h, I


@kernel
def add_node(m, s, level, seg):
    """Add the inertia at the segment's end to its composite."""
    align_stack(seg)
    if m.inertia[s, 0] == 0.0:
        return
    mass, h, I = _node_inertia(m, s, seg)
    V, o = load6(seg, END + TWIST), COMPOSITE
    momentum = inertia_times(mass, h, I, V)
    force = inertia_times(mass, h, I, load6(seg, END + ACCELERATION))
    add_at(seg, o + FORCE, add_cross_force(force, V, momentum))
    store(seg, o + MASS, load(seg, o + MASS) + mass)
    add3_at(seg, o + MOMENT, h)
    add_at(seg, o + INERTIA, I)
    if level >= FIRST:
        rate = rate_rotation(h, I, V)
        add_at(seg, o + MOMENTUM, momentum)
        add_at(seg, o + INERTIA_RATE, rate)
        if level >= SECOND:
            mu = load6(seg, END + VIRTUAL)
            virtual = inertia_times(mass, h, I, mu)
            add_at(seg, o + DOUBLE_FORCE, virtual)
            add_at(seg, o + RATE_FORCE, sub6(rate_times(linear(momentum), rate, mu), cross_force(mu, momentum)))
            add3_at(seg, o + VIRTUAL_MOMENT, linear(virtual))
            add_at(seg, o + VIRTUAL_RATE, rate_rotation(h, I, mu))


@kernel
def store_momenta(m, segments, x):
    """Store in x (MOMENTA): first moment; momentum [angular; linear] about the world's origin; kinetic energy; of all
    nodes."""
    align_stack(x)
    x[:] = 0.0
    for s in range(m.parent.size):
        if m.inertia[s, 0] != 0.0:
            seg = segments[s * SEGMENT : (s + 1) * SEGMENT]
            mass, h, I = _node_inertia(m, s, seg)
            V = load6(seg, END + TWIST)
            momentum = inertia_times(mass, h, I, V)
            add3_at(x, 0, h)
            add_at(x, 3, momentum)
            store(x, 9, fma(0.5, dot6(V, momentum), load(x, 9)))


@helper
def add_to_parent(m, s, segments):
    """Add the composite of segment s to its parent's."""
    if m.parent[s] >= 0:
        accumulate(segments, m.parent[s] * SEGMENT + COMPOSITE, s * SEGMENT + COMPOSITE, COMPOSITE_NUMBERS)


@helper
def composite_inertia(seg):
    """Mass, first moment, rotational inertia of the composite."""
    o = COMPOSITE
    return load(seg, o + MASS), load3(seg, o + MOMENT), load6(seg, o + INERTIA)
