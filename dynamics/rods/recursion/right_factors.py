"""Right factors of a segment: what columns on its path are multiplied with (`backward_pass`)."""

from dynamics.rods.kinematics.strains import half_columns, is_idle
from dynamics.rods.loads.composites import add_at, composite_inertia
from dynamics.rods.loads.matrices import times6, transposed_times6
from dynamics.rods.model.arrays import (
    COLUMNS,
    COMPOSITE,
    DOUBLE_FORCE,
    FIRST,
    FORCE,
    INERTIA_RATE,
    LOAD_FORCE,
    MOMENTUM,
    RATE_FORCE,
    SECOND,
    VIRTUAL_MOMENT,
    VIRTUAL_RATE,
)
from dynamics.rods.model.load_arrays import B6, M6, N6, C, P
from dynamics.simd import align_stack, kernel, splat
from dynamics.spatial import (
    add6,
    add_cross_force,
    add_inertia_times,
    add_scaled6,
    cross_force,
    inertia_times,
    linear,
    load3,
    load6,
    rate_times,
    store6,
    sub6,
)

# places in scratch, (12, 6) each
Y1, X1, X3, X4, Y2, Y3, X2 = 0, 72, 144, 216, 288, 360, 432
PT, Y4 = 504, 576
FACTORS = 648


@kernel
def right_factors(m, s, level, seg, ws):
    """The factors of the columns whose component has coordinates."""
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
    """What external loads add to the factors, and P'S and P'W + C S + K_e S / 2."""
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
