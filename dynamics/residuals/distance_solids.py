"""Boxes and half-spaces: the signed distance of a segment or a point from them, and its second derivatives.

Kernels of `dynamics.residuals.distance`, which has the equations.  Of each pair NEAR keeps n, the two closest points,
and from SIGNED on lambda, the projection F on the free axes of the solid (6 numbers), u, e/|e - F e|, -F e/|e - F e|
and (1 - n n' - F - u u')/lambda (6), which is zero where closest points are free in the whole tangent plane.
"""

from __future__ import annotations

from dynamics.algorithms.frames import last_dof
from dynamics.algorithms.kinematics import COLUMN, DOF
from dynamics.residuals.distance_parts import ALONG, BOXED, LEFT, NEAR, TINY, TURNED, clip, column, less, placed, turned
from dynamics.simd import absolute, fma, helper, kernel, load, select_less, sqrt, store
from dynamics.spatial import add_scaled3, cross, dot3, load3, scale3, store3

SIGNED, FREE, ACROSS, OWN, OTHER, BEND = 9, 10, 16, 19, 22, 25
"""Where these begin."""
TOUCHING = 1e-18
"""Squared distance, m^2, below which a segment meets a box."""
LEVEL = 1e-12
"""Segments are parallel to an axis where so small a share of their squared length is across it."""
MIDDLE = 1e-13
"""Of points as close as each other, the one in the middle counts, m^2."""


# ------------------------------------------------------------------------------------------------ apart
@helper
def _beyond(x, h):
    """How far a coordinate is out of [-h, h]."""
    zero = 0.0 * x
    return select_less(h + zero, x, x - h, select_less(x, zero - h, x + h, zero))


@helper
def _slope(s, x, e, h):
    """Of half the squared distance along the segment."""
    out = (s - 0.5) * MIDDLE
    for i in range(3):
        out = fma(e[i], _beyond(fma(s, e[i], x[i]), h[i]), out)
    return out


@helper
def _closest_parameter(x, e, h):
    """s in [0, 1] where the slope, piecewise linear and rising, is zero, and one where that is inside, else zero."""
    zero = 0.0 * x[0]
    lo, hi = zero, zero + 1.0
    f_lo, f_hi = _slope(lo, x, e, h), _slope(hi, x, e, h)
    for i in range(3):
        over = 1.0 / select_less(absolute(e[i]), zero + TINY, zero + 1.0, e[i])
        for side in range(2):
            c, _ = clip((h[i] * (2.0 * side - 1.0) - x[i]) * over)
            f = _slope(c, x, e, h)
            up_lo, up_hi = select_less(c, lo, lo, c), select_less(hi, c, hi, c)
            g_lo, g_hi = select_less(c, lo, f_lo, f), select_less(hi, c, f_hi, f)
            lo, f_lo = select_less(zero, f, lo, up_lo), select_less(zero, f, f_lo, g_lo)
            hi, f_hi = select_less(zero, f, up_hi, hi), select_less(zero, f, g_hi, f_hi)
    return clip(lo - f_lo * (hi - lo) / (f_hi - f_lo + TINY))


# ------------------------------------------------------------------------------------------------ meeting
@helper
def _face(best, i, x, y, h):
    """The separation along axis i of the box, where it is larger than the best so far."""
    zero = 0.0 * x[0]
    sign = select_less(x[i] + y[i], zero, zero - 1.0, zero + 1.0)
    a, b = sign * x[i], sign * y[i]
    s = select_less(a, b, zero, select_less(b, a, zero + 1.0, zero + 0.5))
    found = fma(s, b - a, a) - h[i]
    n = (sign if i == 0 else zero, sign if i == 1 else zero, sign if i == 2 else zero)
    free = (zero + 1.0 * (i != 0), zero + 1.0 * (i != 1), zero + 1.0 * (i != 2))
    return _larger(best, (found, s, n, free, zero), zero - 1.0)


@helper
def _edge(best, i, x, e, h):
    """The same along the common normal of the segment and axis i."""
    j, k = (i + 1) % 3, (i + 2) % 3
    zero = 0.0 * x[0]
    across, length = fma(e[j], e[j], e[k] * e[k]), dot3(e, e)
    over = 1.0 / sqrt(across + TINY)
    nj, nk = e[k] * over, -e[j] * over
    middle = nj * fma(0.5 * e[j], zero + 1.0, x[j]) + nk * fma(0.5 * e[k], zero + 1.0, x[k])
    sign = select_less(middle, zero, zero - 1.0, zero + 1.0)
    nj, nk = sign * nj, sign * nk
    found = nj * x[j] + nk * x[k] - (h[j] * absolute(nj) + h[k] * absolute(nk))
    cj, ck = select_less(nj, zero, zero - h[j], zero + h[j]), select_less(nk, zero, zero - h[k], zero + h[k])
    s = -(e[j] * (x[j] - cj) + e[k] * (x[k] - ck)) * (over * over)
    n = (
        zero if i == 0 else (nj if j == 0 else nk), zero if i == 1 else (nj if j == 1 else nk),
        zero if i == 2 else (nj if j == 2 else nk),
    )  # fmt: skip
    free = (zero + 1.0 * (i == 0), zero + 1.0 * (i == 1), zero + 1.0 * (i == 2))
    refused = select_less(s, zero, zero + 1.0, select_less(zero + 1.0, s, zero + 1.0, zero - 1.0))
    refused = select_less(LEVEL * length, across, refused, zero + 1.0)
    return _larger(best, (found, s, n, free, zero + 1.0), refused)


@helper
def _larger(best, other, refused):
    """Of two (separation, s, n, free axes, whether s is free) the one with the larger separation."""
    zero = 0.0 * refused
    found = select_less(zero, refused, best[0], other[0])
    return _chosen(best[0], found, other, best)


@helper
def _chosen(a, b, x, y):
    """x where a < b, else y, each (separation, s, n, free axes, whether s is free)."""
    return (
        select_less(a, b, x[0], y[0]), select_less(a, b, x[1], y[1]),
        (select_less(a, b, x[2][0], y[2][0]), select_less(a, b, x[2][1], y[2][1]), select_less(a, b, x[2][2], y[2][2])),
        (select_less(a, b, x[3][0], y[3][0]), select_less(a, b, x[3][1], y[3][1]), select_less(a, b, x[3][2], y[3][2])),
        select_less(a, b, x[4], y[4]),
    )  # fmt: skip


@helper
def _from_box(x, y, h):
    """(separation, s, n, free axes, whether s is free) of the segment from x to y, in the axes of the box."""
    e, zero = less(y, x), 0.0 * x[0]
    one = zero + 1.0
    s, s_free = _closest_parameter(x, e, h)
    at = add_scaled3(x, s, e)
    delta = (_beyond(at[0], h[0]), _beyond(at[1], h[1]), _beyond(at[2], h[2]))
    squared = dot3(delta, delta)
    far = sqrt(squared + TINY)
    free = (
        select_less(absolute(at[0]), one * h[0], one, zero), select_less(absolute(at[1]), one * h[1], one, zero),
        select_less(absolute(at[2]), one * h[2], one, zero),
    )  # fmt: skip
    apart = (far, s, scale3(delta, 1.0 / far), free, s_free)
    none = (zero, zero, zero)
    best = (zero - 1e30, zero, none, none, zero)
    best = _edge(_face(best, 0, x, y, h), 0, x, e, h)
    best = _edge(_face(best, 1, x, y, h), 1, x, e, h)
    best = _edge(_face(best, 2, x, y, h), 2, x, e, h)
    return _chosen(zero + TOUCHING, squared, apart, best)


@kernel
def boxed(pairs, p, body, near):
    """A segment and a box."""
    second, o = pairs.second[p], p * NEAR
    a0, a1 = placed(pairs.first[p], pairs.ends[p], 0, body), placed(pairs.first[p], pairs.ends[p], 3, body)
    origin, axes = placed(second, pairs.ends[p], 6, body), pairs.axes[p]
    b0, b1, b2 = turned(second, axes, 0, body), turned(second, axes, 3, body), turned(second, axes, 6, body)
    x, y = less(a0, origin), less(a1, origin)
    x, y = (dot3(b0, x), dot3(b1, x), dot3(b2, x)), (dot3(b0, y), dot3(b1, y), dot3(b2, y))
    half = pairs.half[p]
    signed, s, n, free, s_free = _from_box(x, y, (half[0], half[1], half[2]))
    zero = 0.0 * signed
    count = free[0] + free[1] + free[2]
    e = less(y, x)
    inside = (free[0] * e[0], free[1] * e[1], free[2] * e[2])
    across = less(e, inside)
    squared = dot3(across, across)
    s_free = select_less(LEVEL * dot3(e, e) + TINY, squared, select_less(count, zero + 1.5, s_free, zero), zero)
    over = s_free / sqrt(squared + TINY)
    deficient = select_less(count + s_free, zero + 1.5, 1.0 / select_less(zero, signed, signed, zero + 1.0), zero)
    normal = _combine(n, b0, b1, b2)
    point, u = add_scaled3(a0, s, less(a1, a0)), scale3(_combine(across, b0, b1, b2), over)
    store(near, o + SIGNED, signed)
    store3(near, o, normal)
    store3(near, o + 3, point)
    store3(near, o + 6, add_scaled3(point, -signed, normal))
    store3(near, o + ACROSS, u)
    store3(near, o + OWN, scale3(less(a1, a0), over))
    store3(near, o + OTHER, scale3(_combine(inside, b0, b1, b2), -over))
    at = 0
    for i in range(3):
        for j in range(i, 3):
            F = free[0] * (b0[i] * b0[j]) + free[1] * (b1[i] * b1[j]) + free[2] * (b2[i] * b2[j])
            rest = 1.0 * (i == j) - normal[i] * normal[j] - F - u[i] * u[j]
            store(near, o + FREE + at, F)
            store(near, o + BEND + at, deficient * rest)
            at += 1


@helper
def _combine(x, b0, b1, b2):
    return add_scaled3(add_scaled3(scale3(b0, x[0]), x[1], b1), x[2], b2)


@kernel
def flat(pairs, p, body, near):
    """A point and a half-space."""
    o = p * NEAR
    n = turned(pairs.second[p], pairs.axes[p], 6, body)
    point, origin = placed(pairs.first[p], pairs.ends[p], 0, body), placed(pairs.second[p], pairs.ends[p], 6, body)
    signed = dot3(n, less(point, origin))
    store3(near, o, n)
    store3(near, o + 3, point)
    store3(near, o + 6, add_scaled3(point, -signed, n))
    store(near, o + SIGNED, signed)
    at = 0
    for i in range(3):
        for j in range(i, 3):
            store(near, o + FREE + at, 1.0 * (i == j) - n[i] * n[j])
            at += 1
    for i in range(ACROSS, NEAR):
        store(near, o + i, 0.0 * signed)


@kernel
def solids_apart(pairs, p, body, near, r):
    """The row of a segment or point and a solid, and what its derivatives need."""
    if pairs.kind[p] == BOXED:
        boxed(pairs, p, body, near)
    else:
        flat(pairs, p, body, near)
    store(r, p, load(near, p * NEAR + SIGNED) - pairs.radius[p])


# ------------------------------------------------------------------------------------------------ second derivatives
@helper
def _symmetric(near, o, x):
    """The product of a symmetric matrix, (xx, xy, xz, yy, yz, zz), and x."""
    a, b, c = load(near, o), load(near, o + 1), load(near, o + 2)
    d, e, f = load(near, o + 3), load(near, o + 4), load(near, o + 5)
    return (
        fma(a, x[0], fma(b, x[1], c * x[2])), fma(b, x[0], fma(d, x[1], e * x[2])),
        fma(c, x[0], fma(e, x[1], f * x[2])),
    )  # fmt: skip


@kernel
def along_solid(m, pairs, p, side, dof, near, along):
    """right = (j, g, beta, alpha) and left = (h - g, -j - lambda g, -alpha - lambda beta, -beta) of one side."""
    o = p * NEAR
    n, point, signed = load3(near, o), load3(near, o + 3 + 3 * side), load(near, o + SIGNED)
    u, own = load3(near, o + ACROSS), load3(near, o + (OTHER if side else OWN))
    k = last_dof(m, pairs.movers[p, side])
    while k > pairs.common[p]:
        j, i = column(k, 1.0 - 2.0 * side, point, dof), k * ALONG
        c = cross(n, load3(dof, k * DOF + COLUMN))
        g = scale3(_symmetric(near, o + FREE, c), 1.0 * side)
        alpha, beta = dot3(u, j), dot3(own, c)
        store3(along, i + TURNED, c)
        store3(along, i, j)
        store3(along, i + 3, g)
        store(along, i + 6, beta)
        store(along, i + 7, alpha)
        store3(along, i + LEFT, less(_symmetric(near, o + BEND, j), g))
        store3(along, i + LEFT + 3, scale3(add_scaled3(j, signed, g), -1.0))
        store(along, i + LEFT + 6, -(alpha + signed * beta))
        store(along, i + LEFT + 7, -beta)
        k = m.dof_parent[k]
