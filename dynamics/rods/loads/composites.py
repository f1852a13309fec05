"""What moves with a segment's end, added up from the tips: wrenches, momenta, inertias, rates, in the world frame.

Of a node with inertia M, twists mu and eta, and acceleration eta' (gravity folded in),             [rod_hessian, 2]

    f = M eta' + eta x* M eta        n = N'mu        m = M mu
    N = (rate of M along eta) + (x -> x x* p)        p = M eta        B = -(rate of M along mu)

so that N and B are a momentum and massless inertias, and all is additive.
"""

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
from dynamics.spatial import (
    accumulate,
    add3,
    add6,
    add_cross_force,
    cross_force,
    dot6,
    inertia_times,
    linear,
    load3,
    load6,
    load9,
    rate_rotation,
    rate_times,
    store3,
    store6,
    sub6,
    world_inertia,
)

MOMENTA = 10
"""Numbers of `store_momenta`."""


@helper
def add_at(ws, o, x):
    """ws[o ...] += x, six numbers."""
    store6(ws, o, add6(load6(ws, o), x))


@helper
def _add3_at(ws, o, x):
    store3(ws, o, add3(load3(ws, o), x))


@helper
def _node_inertia(m, s, seg):
    """Mass, first moment and rotational inertia of what moves with the segment's end."""
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
    _add3_at(seg, o + MOMENT, h)
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
            _add3_at(seg, o + VIRTUAL_MOMENT, linear(virtual))
            add_at(seg, o + VIRTUAL_RATE, rate_rotation(h, I, mu))


@kernel
def store_momenta(m, segments, x):
    """x (MOMENTA): first moment; momentum [angular; linear], about the world's origin; kinetic energy, of all nodes."""
    align_stack(x)
    x[:] = 0.0
    for s in range(m.parent.size):
        if m.inertia[s, 0] != 0.0:
            seg = segments[s * SEGMENT : (s + 1) * SEGMENT]
            mass, h, I = _node_inertia(m, s, seg)
            V = load6(seg, END + TWIST)
            momentum = inertia_times(mass, h, I, V)
            _add3_at(x, 0, h)
            add_at(x, 3, momentum)
            store(x, 9, fma(0.5, dot6(V, momentum), load(x, 9)))


@helper
def add_to_parent(m, s, segments):
    """Add the composite of segment s to its parent's."""
    if m.parent[s] >= 0:
        accumulate(segments, m.parent[s] * SEGMENT + COMPOSITE, s * SEGMENT + COMPOSITE, COMPOSITE_NUMBERS)


@helper
def composite_inertia(seg):
    """Mass, first moment, rotational inertia."""
    o = COMPOSITE
    return load(seg, o + MASS), load3(seg, o + MOMENT), load6(seg, o + INERTIA)
