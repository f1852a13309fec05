"""Curvature of a segment's exponential map in the Hessian, from the strains of its one or two points.

With the wrenches f, n, m on what moves with the segment, in the axes of its start,                [rod_hessian, 2]

    c0 = e + ad_mu'f + ad_eta'n + (ad_eta' + ad_eta ad_eta)'m,      c1 = n + 2 ad_eta'm,      c(t) = 2 m + c1 t + c0 t^2

and paths Omega(t), Z(t) of second order in time, the polynomial

    U_vv + t U_qv + t^2 U_qq  =  b P(T(Omega)'c) + Z'E(Omega; c) Z,       P(w) = Phi_1'K_w Phi_2 - Phi_2'K_w Phi_1

contains the terms that all blocks of the Hessian lack; U_qq also has the derivative along lambda of the same expression
with c = f, whose value is the symmetric part of the first derivative.  This module stores U/2: half of each U, whose
sum with its transpose is U.
"""

from dynamics.rods.kinematics import exponential as jets
from dynamics.rods.kinematics.exponential import (
    curvature_jet,
    stumpff_derivatives,
    symmetric_of_order,
    tangent_transposed_times,
)
from dynamics.rods.kinematics.forward_pass import store_tangent
from dynamics.rods.kinematics.strains import strain_columns
from dynamics.rods.model.arrays import (
    ACCELERATION,
    COMPOSITE,
    DOUBLE_FORCE,
    FORCE,
    LOAD_FORCE,
    OMEGA,
    RATE_FORCE,
    SECOND,
    START,
    TWIST,
    VIRTUAL,
)
from dynamics.simd import align_stack, helper, kernel, load, splat, store
from dynamics.spatial.spatial import (
    add6,
    add_cross,
    add_dot6,
    add_symmetric,
    angular,
    cross_force,
    dot3,
    dot6,
    join,
    linear,
    load3,
    load6,
    load9,
    rotate_back,
    scale6,
    store6,
    sub6,
)

# offsets in scratch
Z, T, E, W, PRODUCTS, HALVES = 0, 288, 342, 402, 426, 786
"""Z and derivatives (4, 12, 6); T3 (54); curvature of orders 0, 1, 2 in time, then 0, 1 along lambda (12 each);
T'c (4, 6); E applied to columns (5, 12, 6); U/2 (4, 12, 12): first derivatives, qq, qv, vv."""
CURVATURE_NUMBERS = HALVES + 4 * 144


@helper
def wrench_at_start(R, p, f):
    """Wrench f in the axes of the frame at (R, p): Ad_g'f."""
    n = add_cross(angular(f), linear(f), p)
    return join(rotate_back(R, n), rotate_back(R, linear(f)))


@helper
def _apply(ws, o, x):
    """Apply the curvature at ws[o] (real part, then dual part) to a twist."""
    real, dual = load6(ws, o), load6(ws, o + 6)
    w, z = angular(x), splat(ws, 0.0)
    zero = (z, z, z)
    return join(add_symmetric(add_symmetric(zero, dual, w), real, linear(x)), add_symmetric(zero, real, w))


@helper
def _transposed_at(ws, k, c):
    """Order k of T' applied to a wrench."""
    return tangent_transposed_times(load9(ws, T + 9 * k), load9(ws, T + 27 + 9 * k), c)


@kernel
def _store_curvature(w, c, s, derivatives, ws, o, orders):
    """Store orders of E at ws[o], 12 numbers each."""
    jet = curvature_jet(w, c, s, derivatives)
    store6(ws, o, symmetric_of_order(jet, 0))
    store6(ws, o + 6, symmetric_of_order(jet, 3))
    store6(ws, o + 12, symmetric_of_order(jet, 1))
    store6(ws, o + 18, symmetric_of_order(jet, 4))
    if orders > 2:
        store6(ws, o + 24, symmetric_of_order(jet, 2))
        store6(ws, o + 30, symmetric_of_order(jet, 5))


@kernel
def _along_lambda(level, R, p, derivatives, seg, ws):
    """Store E and T'f along lambda: values and, for the Hessian, derivatives."""
    align_stack(seg)
    z = splat(seg, 0.0)
    none = (z, z, z, z, z, z)
    w = jets.of_twists(load6(seg, OMEGA), load6(seg, OMEGA + 18) if level >= SECOND else none, none)
    s = jets.dot(w, w)
    f = wrench_at_start(R, p, load6(seg, COMPOSITE + FORCE))
    store_tangent(w, s, derivatives, ws[T:])
    _store_curvature(w, jets.of_wrenches(f, none, none), s, derivatives, ws, E + 36, 2)
    store6(ws, W, _transposed_at(ws, 0, f))
    store6(ws, W + 6, _transposed_at(ws, 1, f))


@kernel
def _along_time(R, p, derivatives, seg, ws):
    """Store E and T'c in time: of T'c orders 0 and 1; order 2 is added to the derivative along lambda, at W + 6."""
    align_stack(seg)
    w = jets.of_twists(load6(seg, OMEGA), load6(seg, OMEGA + 6), load6(seg, OMEGA + 12))
    s = jets.dot(w, w)
    mu, V, A = load6(seg, START + VIRTUAL), load6(seg, START + TWIST), load6(seg, START + ACCELERATION)
    o, two = COMPOSITE, splat(seg, 2.0)
    f, n, m = load6(seg, o + FORCE), load6(seg, o + RATE_FORCE), load6(seg, o + DOUBLE_FORCE)
    Vm = cross_force(V, m)
    c1 = sub6(n, scale6(Vm, two))
    turned = add6(add6(cross_force(mu, f), cross_force(V, n)), sub6(cross_force(A, m), cross_force(V, Vm)))
    c0 = wrench_at_start(R, p, sub6(load6(seg, o + LOAD_FORCE), turned))
    c1, c2 = wrench_at_start(R, p, c1), wrench_at_start(R, p, scale6(m, two))
    store_tangent(w, s, derivatives, ws[T:])
    _store_curvature(w, jets.of_wrenches(c2, c1, c0), s, derivatives, ws, E, 3)
    store6(ws, W + 18, _transposed_at(ws, 0, c2))
    store6(ws, W + 12, add6(_transposed_at(ws, 1, c2), _transposed_at(ws, 0, c1)))
    second = add6(_transposed_at(ws, 2, c2), add6(_transposed_at(ws, 1, c1), _transposed_at(ws, 0, c0)))
    store6(ws, W + 6, add6(load6(ws, W + 6), second))


@kernel
def _curved_columns(columns, level, ws):
    """Apply E to the columns of Z and of its derivatives, so that Z'(one of the first four) + Z''(the last) is U/2."""
    align_stack(ws)
    half = splat(ws, 0.5)
    for c in range(columns):
        z0 = load6(ws, Z + 6 * c)
        along = _apply(ws, E + 36, z0)
        store6(ws, PRODUCTS + 6 * c, scale6(along, half))
        if level >= SECOND:
            z1, z2, zl = load6(ws, Z + 72 + 6 * c), load6(ws, Z + 144 + 6 * c), load6(ws, Z + 216 + 6 * c)
            outer = add6(add6(_apply(ws, E + 24, z0), _apply(ws, E + 48, z0)), _apply(ws, E, z2))
            inner = add6(_apply(ws, E + 12, z1), _apply(ws, E + 36, zl))
            first = _apply(ws, E, z1)
            store6(ws, PRODUCTS + 72 + 6 * c, add6(inner, scale6(outer, half)))
            store6(ws, PRODUCTS + 144 + 6 * c, add6(first, scale6(_apply(ws, E + 12, z0), half)))
            store6(ws, PRODUCTS + 216 + 6 * c, scale6(_apply(ws, E, z0), half))
            store6(ws, PRODUCTS + 288 + 6 * c, scale6(first, half))


@kernel
def _half_products(columns, level, ws):
    """Store U/2 of first derivatives, and of qq, qv, vv."""
    align_stack(ws)
    count = 4 if level >= SECOND else 1
    for r in range(columns):
        z0, z1 = load6(ws, Z + 6 * r), load6(ws, Z + 72 + 6 * r)
        for c in range(columns):
            for k in range(count):
                x = dot6(z0, load6(ws, PRODUCTS + 72 * k + 6 * c))
                if k == 1:
                    x = add_dot6(x, z1, load6(ws, PRODUCTS + 288 + 6 * c))
                store(ws, HALVES + 144 * k + 12 * r + c, x)


@kernel
def _add_brackets(b, level, ws):
    """Add b Phi_1'K_w Phi_2 of every block; its transpose is the other half."""
    align_stack(ws)
    for k in range(4 if level >= SECOND else 1):
        w, o = load6(ws, W + 6 * k), HALVES + 144 * k
        n, f = (b * w[0], b * w[1], b * w[2]), (b * w[3], b * w[4], b * w[5])
        for block in range(3):
            x = n if block == 0 else f
            r, c = (3 if block == 1 else 0), (9 if block == 2 else 6)
            # column i of K_w is e_i x* w: rows r ... r + 2 of -x~
            for i in range(3):
                j, l = (i + 1) % 3, (i + 2) % 3
                xj, xl = (x[1], x[2]) if i == 0 else ((x[2], x[0]) if i == 1 else (x[0], x[1]))
                e = o + 12 * (r + j) + c + i
                store(ws, e, load(ws, e) - xl)
                e = o + 12 * (r + l) + c + i
                store(ws, e, load(ws, e) + xj)


@kernel
def segment_curvature(h, b, halves, level, seg, ws):
    """Store U/2 for the segment's components in HALVES: first derivatives, and qq, qv, vv."""
    align_stack(seg)
    R, p = load9(seg, START), load3(seg, START + 9)
    strain_columns(h, b, halves, 4 if level >= SECOND else 1, seg, ws[Z:])
    w = angular(load6(seg, OMEGA))
    derivatives = stumpff_derivatives(dot3(w, w))
    _along_lambda(level, R, p, derivatives, seg, ws)
    if level >= SECOND:
        _along_time(R, p, derivatives, seg, ws)
    _curved_columns(6 * halves, level, ws)
    _half_products(6 * halves, level, ws)
    if halves == 2:
        _add_brackets(b, level, ws)
