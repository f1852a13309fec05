"""Segments with radii: half the squared distance of their closest points, and its second derivatives.

Kernels of `dynamics.residuals.distance`, which has the equations.  Of each pair NEAR keeps delta, the two closest
points, t_1, t_2, and whether theta is free.
"""

from __future__ import annotations

from dynamics.algorithms.frames import last_dof
from dynamics.algorithms.kinematics import COLUMN, DOF
from dynamics.residuals.distance_parts import ALONG, LEFT, NEAR, PARALLEL, TINY, TURNED, clip, column, less, placed
from dynamics.simd import fma, helper, kernel, load, select_less, store
from dynamics.spatial import add_scaled3, cross, dot3, load3, scale3, store3


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
        turning = cross(delta, load3(dof, k * DOF + COLUMN))
        own1, own2 = 1.0 - side, 1.0 * side
        c = load(near, o + 15) * (dot3(t1, j) + own1 * dot3(turning, t1))
        d = load(near, o + 16) * (dot3(t2, j) + own2 * dot3(turning, t2))
        store3(along, i + TURNED, turning)
        store3(along, i, j)
        store(along, i + 3, c)
        store(along, i + 4, d)
        store3(along, i + LEFT, j)
        store(along, i + LEFT + 3, -(G[0] * c + G[1] * d))
        store(along, i + LEFT + 4, -(G[1] * c + G[2] * d))
        k = m.dof_parent[k]
