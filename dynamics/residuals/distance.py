"""Distances of a robot's shapes from each other and from obstacles, as rows that are exact to second order."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.frames import body_placements, last_dof
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, POSITION, ROTATION, place_bodies
from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import Box, Capsule, HalfSpace, Sphere
from dynamics.geometry.world_shape import WorldShape, world_shape
from dynamics.model.knot_driver import nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.residuals.kernel_residual import KernelResidual, Targets, as_places, places_at, residual_kernels
from dynamics.residuals.robot_residual import path_dofs
from dynamics.simd import absolute, align_stack, fma, helper, kernel, load, select_less, splat, sqrt, store
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import (
    add3,
    add_cross,
    add_scaled3,
    cross,
    dot3,
    load3,
    load6,
    load9,
    rotate,
    scale3,
    store3,
    store9,
)
from dynamics.validation import as_items, as_kind, as_not_negative

# --------------------------------------------------------------------------------------------
# What kernels of distances share: points of bodies, columns, and where the closest points of a pair are kept.

ROUND, FLAT, BOXED = range(3)
"""Kinds of pairs: of two segments; of a point and a half-space; of a segment and a box."""
NEAR = 31
"""Numbers per pair: delta or n, the closest points of both, then what its kind needs; see `Segments` and `Solids`."""
ALONG, LEFT, TURNED = 19, 8, 16
"""Numbers per degree of freedom k: 8 of right_k, which begins with j_k, 8 of left_k, 3 of delta x w_k or n x w_k."""
ROUND_TERMS, SOLID_TERMS = 5, 8
"""How many of these count."""
TINY = 1e-30
PARALLEL = 1e-14


@helper
def turned(i, numbers, at, body):
    """A direction of a body in the world."""
    zero = splat(body, 0.0)
    x = (zero + numbers[at], zero + numbers[at + 1], zero + numbers[at + 2])
    return x if i < 0 else rotate(load9(body, i * BODY + ROTATION), x)


@helper
def placed(i, numbers, at, body):
    """A point of a body in the world."""
    x = turned(i, numbers, at, body)
    return x if i < 0 else add3(load3(body, i * BODY + POSITION), x)


@helper
def less(a, b):
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@helper
def clip(x):
    """Into [0, 1], and one where it was inside, else zero."""
    zero, one = x * 0.0, x * 0.0 + 1.0
    inside = select_less(zero, x, select_less(x, one, one, zero), zero)
    return select_less(x, zero, zero, select_less(one, x, one, x)), inside


@helper
def column(k, sign, point, dof):
    """The velocity that degree of freedom k gives a point, times a sign."""
    s = load6(dof, k * DOF + COLUMN)
    return scale3(add_cross((s[3], s[4], s[5]), (s[0], s[1], s[2]), point), sign)


@helper
def product(along, terms, x, y):
    """left_x.right_y, the part of a Hessian that is symmetric in x and y on any side."""
    o, i = x * ALONG + LEFT, y * ALONG
    e = load(along, o) * load(along, i)
    for k in range(1, terms):
        e = fma(load(along, o + k), load(along, i + k), e)
    return e


# --------------------------------------------------------------------------------------------
# Segments with radii: half the squared distance of their closest points, and its second derivatives.
#
# Kernels of `dynamics.residuals.distance`, which has the equations.  Of each pair NEAR keeps delta, the two closest
# points, t_1, t_2, and whether theta is free.


@kernel
def segments_apart(pairs, p, body, near, r):
    """The row of a pair of segments, and what its derivatives need."""
    ends, eps, o = pairs.ends[p], pairs.smoothing, p * NEAR
    a0, a1 = placed(pairs.first[p], ends, 0, body), placed(pairs.first[p], ends, 3, body)
    b0, b1 = placed(pairs.second[p], ends, 6, body), placed(pairs.second[p], ends, 9, body)
    e1, e2, d = less(a1, a0), less(b1, b0), less(a0, b0)
    a, e, b = dot3(e1, e1) + (eps + TINY), dot3(e2, e2) + (eps + TINY), dot3(e1, e2)
    half = 0.5 * (eps + TINY)
    c, f = half - dot3(e1, d), half + dot3(e2, d)
    det = fma(a, e, -b * b)
    crossed = (c * e + b * f) / (det + TINY * TINY)
    s, _ = clip(select_less(det, PARALLEL * a * e, 0.0 * a + 0.5, crossed))
    t, t_free = clip((b * s + f) / e)
    s, s_free = clip((b * t + c) / a)
    delta = add_scaled3(add_scaled3(d, s, e1), -t, e2)
    store3(near, o, delta)
    store3(near, o + 3, add_scaled3(a0, s, e1))
    store3(near, o + 6, add_scaled3(b0, t, e2))
    store3(near, o + 9, e1)
    store3(near, o + 12, scale3(e2, -1.0))
    store(near, o + 15, s_free)
    store(near, o + 16, t_free)
    spread = (s - 0.5) * (s - 0.5) + (t - 0.5) * (t - 0.5)
    store(r, p, (dot3(delta, delta) + eps * spread - pairs.offset[p]) * (0.5 * pairs.scale[p]))


@helper
def _inverse(near, o, eps):
    """G^-1, (xx, xy, yy), with ones on the diagonal where theta is at an end."""
    t1, t2 = load3(near, o + 9), load3(near, o + 12)
    f1, f2 = load(near, o + 15), load(near, o + 16)
    a = f1 * (dot3(t1, t1) + eps + TINY) + (1.0 - f1)
    c = f2 * (dot3(t2, t2) + eps + TINY) + (1.0 - f2)
    b = f1 * f2 * dot3(t1, t2)
    over = 1.0 / (fma(a, c, -b * b) + PARALLEL * TINY)
    return c * over, -b * over, a * over


@kernel
def along_segments(m, pairs, p, side, dof, near, along):
    """right = (j, C) and left = (j, -G^-1 C) of the degrees of freedom of one side."""
    o = p * NEAR
    G = _inverse(near, o, pairs.smoothing)
    delta, point = load3(near, o), load3(near, o + 3 + 3 * side)
    t1, t2 = load3(near, o + 9), load3(near, o + 12)
    k = last_dof(m, pairs.movers[p, side])
    while k > pairs.common[p]:
        j, i = column(k, 1.0 - 2.0 * side, point, dof), k * ALONG
        rotated = cross(delta, load3(dof, k * DOF + COLUMN))
        own1, own2 = 1.0 - side, 1.0 * side
        c = load(near, o + 15) * (dot3(t1, j) + own1 * dot3(rotated, t1))
        d = load(near, o + 16) * (dot3(t2, j) + own2 * dot3(rotated, t2))
        store3(along, i + TURNED, rotated)
        store3(along, i, j)
        store(along, i + 3, c)
        store(along, i + 4, d)
        store3(along, i + LEFT, j)
        store(along, i + LEFT + 3, -(G[0] * c + G[1] * d))
        store(along, i + LEFT + 4, -(G[1] * c + G[2] * d))
        k = m.dof_parent[k]


# --------------------------------------------------------------------------------------------
# Boxes and half-spaces: the signed distance of a segment or a point from them, and its second derivatives.
#
# Kernels of `dynamics.residuals.distance`, which has the equations.  Of each pair NEAR keeps n, the two closest points,
# and from SIGNED on lambda, the projection F on the free axes of the solid (6 numbers), u, e/|e - F e|, -F e/|e - F e|
# and (1 - n n' - F - u u')/lambda (6), which is zero where closest points are free in the whole tangent plane.

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


# --------------------------------------------------------------------------------------------
# Pairs of shapes for distances: checked, and as kernels take them.


class Pairs(NamedTuple):
    """P pairs of a segment with a radius and another, a box, or a half-space; each on a body, -1 the world."""

    first: np.ndarray  # (P,) the bodies in whose axes they are, those of obstacles that move after the robot's
    second: np.ndarray  # (P,)
    kind: np.ndarray  # (P,) ROUND, FLAT or BOXED
    ends: np.ndarray  # (P, 12) start and end of the first, and of the second or its origin, in their bodies
    axes: np.ndarray  # (P, 9) the three axes of a box or half-space, one after the other
    half: np.ndarray  # (P, 3) half extents of a box
    radius: np.ndarray  # (P,) the sum of both, and the margin
    scale: np.ndarray  # (P,) 1/R, 1 for boxes and half-spaces
    offset: np.ndarray  # (P,) R^2 + m eps/4
    common: np.ndarray  # (P,) last degree of freedom that moves both, -1 for none
    smoothing: float  # eps
    movers: np.ndarray  # (P, 2) the robot's bodies that carry both, -1 for none
    moving: np.ndarray  # (M,) obstacles that move, as bodies


Row = tuple[Geometry, Geometry, tuple[np.ndarray, ...]]
"""Two shapes, a box or a half-space second, and the ends of the first that count."""


def checked_rows(p: int, pair: tuple[Geometry, ...], margin: float) -> list[Row]:
    """The rows of a pair, checked."""
    if len(pair) != 2:
        raise ValueError(f"pairs[{p}]: got {len(pair)} of them, expected two")
    for geometry in pair:
        kind = type(as_kind(f"pairs[{p}]", geometry, Geometry).shape)
        if not issubclass(kind, (Sphere, Capsule, Box, HalfSpace)):
            expected = "Sphere, Capsule, Box or HalfSpace; see collision_geometry"
            raise ValueError(f"pairs[{p}]: {geometry.name!r} is a {kind.__name__}, expected {expected}")
    a, b = sorted(pair, key=lambda geometry: isinstance(geometry.shape, (Box, HalfSpace)))
    if isinstance(a.shape, HalfSpace):
        a, b = b, a
    both = f"pairs[{p}]: {a.name!r} and {b.name!r}"
    if a.body == b.body:
        raise ValueError(f"{both} are on one body, expected two")
    if isinstance(a.shape, HalfSpace):
        raise ValueError(f"{both} are two half-spaces, expected one at most")
    if isinstance(b.shape, HalfSpace):  # of a box the corners
        return [(a, b, (np.array(end),)) for end in dict.fromkeys(tuple(end.tolist()) for end in ends_of(a))]
    if isinstance(a.shape, Box):
        raise ValueError(f'{both} are two boxes, expected one at most; collision_geometry(model, "capsule") has none')
    if not isinstance(b.shape, Box) and _radius(a) + _radius(b) + margin == 0.0:
        raise ValueError(f"{both} have no radius, expected a positive one, or a margin")
    return [(a, b, ends_of(a))]


def ends_of(geometry: Geometry) -> tuple[np.ndarray, ...]:
    """Ends of a segment, or corners of a box, in the axes of its body; a ball's are one point."""
    shape = geometry.shape
    if isinstance(shape, Capsule):
        ends = shape.start, shape.end
    elif isinstance(shape, Box):
        ends = [np.array(signs) * shape.half_extents for signs in itertools.product((-1.0, 1.0), repeat=3)]
    else:
        ends = np.zeros(3), np.zeros(3)
    return tuple(geometry.R @ np.asarray(end) + geometry.p for end in ends)


def _radius(geometry: Geometry) -> float:
    return float(getattr(geometry.shape, "radius", 0.0))


def pair_arrays(
    model: RigidBodyModel, rows: list[Row], eps: float, margin: float, moving: Sequence[str] = (), count: int = 0
) -> Pairs:
    """Pairs of shapes, with the ends of the first of each, as arrays for kernels; moving: names of obstacles that
    move, whose shapes are in axes of their own, and which are bodies behind so many others."""
    P = len(rows)
    movers = np.array([[a.body, b.body] for a, b, _ in rows])
    bodies = movers.copy()
    for p, pair in enumerate(rows):
        for side, geometry in enumerate(pair[:2]):
            if geometry.body < 0 and geometry.name in moving:
                bodies[p, side] = count + moving.index(geometry.name)
    kinds = [{HalfSpace: FLAT, Box: BOXED}.get(type(b.shape), ROUND) for _, b, _ in rows]
    arrays = Pairs(
        bodies[:, 0].copy(), bodies[:, 1].copy(), np.array(kinds),
        np.zeros((P, 12)), np.zeros((P, 9)), np.zeros((P, 3)),
        np.array([_radius(a) + _radius(b) + margin for a, b, _ in rows]), np.ones(P), np.zeros(P),
        np.full(P, -1, np.int64), eps, movers, count + np.arange(len(moving)),
    )  # fmt: skip
    for p, (a, b, ends) in enumerate(rows):
        arrays.ends[p, :6] = np.concatenate([ends[0], ends[-1]])
        if kinds[p] == ROUND:
            arrays.ends[p, 6:] = np.concatenate(ends_of(b))
            starts, stops = arrays.ends[p].reshape(2, 2, 3).swapaxes(0, 1)
            lengths = np.count_nonzero((starts != stops).any(axis=1))
            arrays.scale[p] = 1.0 / arrays.radius[p]
            arrays.offset[p] = arrays.radius[p] ** 2 + 0.25 * eps * lengths
        else:
            arrays.ends[p, 6:9], arrays.axes[p] = b.p, b.R.T.ravel()
            arrays.half[p] = getattr(b.shape, "half_extents", 0.0)
        both = set(path_dofs(model, a.body).tolist()) & set(path_dofs(model, b.body).tolist())
        arrays.common[p] = max(both, default=-1)
    return arrays


# --------------------------------------------------------------------------------------------
# Obstacles that move, of residuals that are distances: bodies behind those of the robot, which no joint carries.
#
# Their places are the targets of the residual (`dynamics.residuals.kernel_residual`): at each knot kernels have them in
# the lanes `target`, PLACE numbers for each obstacle.

moving_count = Size("moving_count", "pairs.moving.size")
PLACE = 12
"""Numbers of the place of an obstacle: R, row-major, and p."""


@kernel
def place_obstacles(pairs, target, body):
    """Poses of the obstacles that move into their slots of body."""
    for k in range(pairs.moving.size):
        b = pairs.moving[k] * BODY
        store9(body, b + ROTATION, load9(target, k * PLACE))
        store3(body, b + POSITION, load3(target, k * PLACE + 9))


class MovingObstacles(KernelResidual):
    """Base of distances from shapes of the world of which some may move.

    Its constructors end with `_set_places`, after `_finish`.

    Attributes
    ----------
    places : mapping of names of shapes that move to their places, (R, p) with one for all knots or one for each knot,
        or a function of time
    """

    places: Mapping[str, Any]
    may_have_kinks = True  # where other points are nearest
    _found: dict[str, Targets]
    _moving = "places"

    def _set_places(self, found: Mapping[str, Targets], at: np.ndarray | None = None) -> None:
        """What `found_places` returns, for the knots `at`; None for all knots."""
        rows = [of_one for _, of_one in found.values() if of_one is not None]
        counts = {len(of_one) for of_one in rows} - {1}
        if len(counts) > 1:
            each = ", ".join(f"{len(of_one)} of {name!r}" for name, (_, of_one) in found.items() if of_one is not None)
            raise ValueError(f"places: got {each}, expected as many of each, one per knot, or one")
        whole = None
        if len(rows) == len(found):
            K = max(counts, default=1)
            whole = np.hstack([np.empty((K, 0)), *(np.broadcast_to(of_one, (K, PLACE)) for of_one in rows)])
        self._set(places={name: place for name, (place, _) in found.items()}, _found=dict(found))
        self._set_target(None, whole, at)

    @property
    def adjustable(self) -> tuple[str, ...]:
        """The places of obstacles that move, where there are some."""
        return ("places",) if self.places else ()

    def adjusted(self, **values: Any) -> Self:
        """With other places of some of the obstacles that move; raises what the constructor does."""
        places = as_kind("places", values["places"], Mapping, "a mapping of names to places")
        if unknown := [name for name in places if name not in self.places]:
            known = ", ".join(map(repr, self.places))
            raise ValueError(f"places: got {unknown[0]!r}, which does not move, expected some of {known}")
        new = copy.copy(self)
        others = {name: as_places(f"places[{name!r}]", place) for name, place in places.items()}
        new._set_places({**self._found, **others}, self._knots)
        return new

    def at_times(self, times: np.ndarray) -> Self:
        """See `RobotResidual`."""
        new = self
        if any(map(callable, self.places.values())):
            new, found = copy.copy(self), dict(self._found)
            for name, place in self.places.items():
                if callable(place):
                    found[name] = places_at(f"places[{name!r}]", place, self._times_of_all(times))
            new._set_places(found, self._knots)
        return super(MovingObstacles, new).at_times(times)

    def _moving_scenery(self, shapes: Mapping[str, Geometry], around: np.ndarray) -> list[WorldShape]:
        """Of those that move, which are among the shapes by name, their last places and their paths."""
        found = []
        for name, (R, p) in self.places.items():
            path = np.atleast_2d(p)
            found.append(world_shape(shapes[name].shape, R.reshape(-1, 3, 3)[-1], path[-1], around))
            if len(path) > 1:
                found.append(WorldShape(np.stack([path[:-1], path[1:]], axis=1)))
        return found


def found_places(places: Mapping[str, Any] | None, shapes: Iterable[Any]) -> dict[str, Targets]:
    """The argument `places`, checked, by names of shapes of the world among those given."""
    given = {} if places is None else as_kind("places", places, Mapping, "a mapping of names to places")
    world = {each.name for each in shapes if isinstance(each, Geometry) and each.body < 0}
    for name in given:
        if name not in world:
            known = ", ".join(map(repr, sorted(world))) or "none"
            raise ValueError(f"places: got {name!r}, expected names of shapes of the world, here {known}")
    return {name: as_places(f"places[{name!r}]", place) for name, place in given.items()}


def in_own_axes(geometry: Any, places: Mapping[str, Any]) -> Any:
    """A shape of the world without its placement, if it has another place; anything else as it is."""
    moves = isinstance(geometry, Geometry) and geometry.body < 0 and geometry.name in places
    return replace(geometry, placement=None) if moves else geometry


# --------------------------------------------------------------------------------------------
# Distances between spheres, capsules, boxes and half-spaces, with exact first and second derivatives.
#
# With theta the parameters of the closest points on two segments, delta their difference, R the sum of the radii and
#
#     D = min over theta in [0, 1]^2 of  1/2 delta.delta + eps/2 sum (theta_i - 1/2)^2
#
# a row is r = (2 D - R^2 - m eps/4)/(2 R), m the number of segments: near contact the distance of the surfaces, and
# never more than that.  Along a degree of freedom k that moves one side alone, j_k is the velocity of delta with the
# points held in their bodies, and, theta being free or at an end,
#
#     D_k = delta.j_k      H_D[x, y] = j_x.j_y + [same side] (delta x w_y).j_x - C_x' G^-1 C_y      y at or above x
#     C_ik = t_i.j_k + [t_i on k's side] (delta x w_k).t_i      G_il = t_i.t_l + eps [i = l]
#
# with t_i = d delta/d theta_i; rows of C are zero where theta_i is at an end.
#
# Of a segment on A and a box on B, r = lambda - R with the signed distance lambda of the segment, negative where they
# meet, and of a point and a half-space likewise, one row for each end of a capsule.  With n the normal, F the
# projection on the axes of the solid along which the closest point is free, e the segment's direction where its closest
# point is free, u = (e - F e)/|e - F e|, and c_k = n x w_k,
#
#     r_k = n.j_k
#     H[x, y] = [same side] c_y.j_x - j_x.g_y - g_x.j_y - lambda g_x.g_y + h_x.j_y
#               - alpha_x beta_y - beta_x alpha_y - lambda beta_x beta_y
#     g_k = F c_k on B, 0 on A      alpha_k = u.j_k      beta_k = e.c_k/|e - F e| on A, -F e.c_k/|e - F e| on B
#     h_k = (1 - n n' - F - u u') j_k/lambda, zero where closest points are free in the whole tangent plane
#
# Nothing is divided by lambda there, nor where they meet.  Degrees of freedom that move both sides change nothing.

pair_count = Size("pair_count", "pairs.radius.size")


@kernel
def _value(m, pairs, target, x, body, dof, near, r):
    align_stack(body)
    place_bodies(m, x, body, dof)
    place_obstacles(pairs, target, body)
    for p in range(pairs.radius.size):
        if pairs.kind[p] == ROUND:
            segments_apart(pairs, p, body, near, r)
        else:
            solids_apart(pairs, p, body, near, r)


@kernel
def _jacobian(m, pairs, dof, near, J):
    align_stack(dof)
    n = m.dof_body.size
    J[:] = 0.0
    for p in range(pairs.radius.size):
        delta, scale = load3(near, p * NEAR), pairs.scale[p]
        for side in range(2):
            k = last_dof(m, pairs.movers[p, side])
            point = load3(near, p * NEAR + 3 + 3 * side)
            while k > pairs.common[p]:
                store(J, p * n + k, scale * dot3(delta, column(k, 1.0 - 2.0 * side, point, dof)))
                k = m.dof_parent[k]


@helper
def _add_pair(m, pairs, p, terms, weight, along, H):
    """H += weight times that of a pair, below the diagonal; terms is a constant, for loops that are unrolled."""
    n, last = m.dof_body.size, pairs.common[p]
    for side in range(2):
        x = last_dof(m, pairs.movers[p, side])
        while x > last:
            y = x
            while y > last:
                e = dot3(load3(along, y * ALONG + TURNED), load3(along, x * ALONG))
                if m.dof_body[y] == m.dof_body[x]:
                    e = 0.5 * (e + dot3(load3(along, x * ALONG + TURNED), load3(along, y * ALONG)))
                e = e + product(along, terms, x, y)
                store(H, x * n + y, fma(weight, e, load(H, x * n + y)))
                y = m.dof_parent[y]
            x = m.dof_parent[x]
    x = last_dof(m, pairs.movers[p, 0])
    while x > last:
        y = last_dof(m, pairs.movers[p, 1])
        while y > last:
            i = max(x, y) * n + min(x, y)
            store(H, i, fma(weight, product(along, terms, x, y), load(H, i)))
            y = m.dof_parent[y]
        x = m.dof_parent[x]


@kernel
def _hessian(m, pairs, mu, dof, near, along, H):
    align_stack(H)
    H[:] = 0.0
    for p in range(pairs.radius.size):
        weight = load(mu, p) * pairs.scale[p]
        if pairs.kind[p] == ROUND:
            along_segments(m, pairs, p, 0, dof, near, along)
            along_segments(m, pairs, p, 1, dof, near, along)
            _add_pair(m, pairs, p, ROUND_TERMS, weight, along, H)
        else:
            along_solid(m, pairs, p, 0, dof, near, along)
            along_solid(m, pairs, p, 1, dof, near, along)
            _add_pair(m, pairs, p, SOLID_TERMS, weight, along, H)
    n = m.dof_body.size
    for x in range(n):
        for y in range(x):
            store(H, y * n + x, load(H, x * n + y))


class Distance(MovingObstacles):
    """Distances between spheres, capsules, boxes and half-spaces of a robot and the world, m; see the module.

    Parameters
    ----------
    model : RigidBodyModel
    pairs : sequence of two `Geometry` each, with the shapes Sphere, Capsule, Box (one at most) or HalfSpace (one at
        most), as `collision_pairs` gives them
    smoothing : eps, m^2, at least zero: rows of spheres and capsules have one derivative everywhere, and are too small
        by at most eps/(4 R) for each capsule
    margin : m, at least zero, by which every pair has to stay apart
    places : mapping of names of shapes of the world to where they are, in place of their own placements, for obstacles
        that move: positions (N+1, 3), one for each knot of a problem, or (R, p), either or both of them (N+1, ...), or
        a function of time, t (s) to (3,) or (R, p), which a problem evaluates at its knots; or one place (3,) or
        (R, p), which `trajopt.PreparedSolver.update` may move

    Raises
    ------
    ValueError : no pairs, shapes of other kinds, two boxes or half-spaces, two of one body, radii and margin that are
        all zero, a negative smoothing or margin, places of what is no shape of the world in a pair.
    TypeError : what is no Geometry, places that are no mapping.

    Notes
    -----
    One row for a pair, but one for each end of a capsule and each corner of a box above a half-space;
    `component_names` says of which.  No two are closer than the margin where `lower` <= r <= `upper`, zeros and inf, as
    in ``trajopt.ResidualConstraint(distance)``.  Of segments r = (d^2 - R^2)/(2 R), up to the smoothing, has the
    gradient of the distance of the surfaces where they touch; `distances` gives metres.
    """

    kernels = residual_kernels(
        _value, _jacobian, _hessian, pair_count, nv,
        {"body": (nb + moving_count) * BODY, "dof": nv * DOF, "near": pair_count * NEAR, "along": nv * ALONG},
        target=moving_count * PLACE,
    )  # fmt: skip
    pairs: tuple[tuple[Geometry, Geometry], ...]
    component_names: tuple[str, ...]
    lower: np.ndarray
    upper: np.ndarray
    smoothing: float
    margin: float

    def __init__(
        self,
        model: RigidBodyModel,
        pairs: Iterable[tuple[Geometry, Geometry]],
        smoothing: float = 1e-4,
        margin: float = 0.0,
        places: Mapping[str, Any] | None = None,
    ) -> None:
        eps, margin = as_not_negative("smoothing", smoothing), as_not_negative("margin", margin)
        chosen = tuple(tuple(pair) for pair in as_items("pairs", pairs, "pairs of Geometry"))
        if not chosen:
            raise ValueError("pairs: got none, expected at least one")
        super().__init__(model, "distance")
        found = found_places(places, (each for pair in chosen for each in pair))
        own = [tuple(in_own_axes(each, found) for each in pair) for pair in chosen]
        rows = [row for p, pair in enumerate(own) for row in checked_rows(p, pair, margin)]
        arrays = pair_arrays(model.full, rows, eps, margin, tuple(found), model.nb)
        names = tuple(f"{a.name} - {b.name}" for a, b, _ in rows)
        self._set(nr=len(rows), pairs=chosen, smoothing=eps, margin=margin, component_names=names)
        self._set(lower=np.zeros(len(rows)), upper=np.full(len(rows), np.inf))
        path = sorted({int(k) for body in arrays.movers.ravel().tolist() for k in path_dofs(model.full, body)})
        self._finish(np.array(path, dtype=np.int64), pairs=arrays)
        self._set_places(found)

    def distances(self, xs: ArrayLike) -> np.ndarray:
        """Signed distances (K, nr), m, of the surfaces at states xs (K, nx), without smoothing or margin.

        Segments whose cores cross are at minus the sum of their radii, however deep.
        """
        rows = self
        if self.smoothing != 0.0:
            rows = Distance(self.model, self.pairs, 0.0, self.margin, self.places)
            rows = rows if self._knots is None else rows.at_knots(self._knots)
        values, arrays = rows.evaluate(xs), rows._data[0]
        R = arrays.radius
        cores = np.sqrt(np.maximum(2.0 * R * values + R * R, 0.0))
        return np.where(arrays.kind == ROUND, cores - R, values) + self.margin

    def scenery(self, xs: np.ndarray) -> tuple[WorldShape, ...]:
        """The shapes of the world that the robot keeps away from, but those that its own model shows, as pictures draw
        them, of those that move the last place and the path; see `trajopt.interfaces.residual.SeenResidual`."""
        shown = {geometry.name for geometry in self.model.geometries if not isinstance(geometry.shape, HalfSpace)}
        seen = {geometry.name: geometry for pair in self._seen for geometry in pair}
        R, p = body_placements(self.model, np.ascontiguousarray(xs[:, : self.model.nq]))
        ends = [(each.body, end) for each in seen.values() if each.body >= 0 for end in ends_of(each)]
        around = np.concatenate([p.reshape(-1, 3), *(R[:, body] @ end + p[:, body] for body, end in ends)])
        still = [each for each in seen.values() if each.body < 0 and each.name not in {*shown, *self.places}]
        shapes = [world_shape(each.shape, each.R, each.p, around) for each in still]
        return (*shapes, *self._moving_scenery(seen, around))

    @property
    def _seen(self) -> tuple[tuple[Geometry, Geometry], ...]:
        """Pairs whose shapes pictures show."""
        return self.pairs
