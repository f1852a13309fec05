"""Distances between spheres, capsules and half-spaces, with exact first and second derivatives.

With theta the parameters of the closest points on two segments, delta their difference, R the sum of the radii and

    D = min over theta in [0, 1]^2 of  1/2 delta.delta + eps/2 sum (theta_i - 1/2)^2

a row is r = (2 D - R^2 - m eps/4)/(2 R), m the number of segments: near contact the distance of the surfaces, and
never more than that.  Along a degree of freedom k that moves one side alone, j_k is the velocity of delta with the
points held in their bodies, and, theta being free or at an end,

    D_k = delta.j_k      H_D[x, y] = j_x.j_y + [same side] (delta x w_y).j_x - C_x' G^-1 C_y      y at or above x
    C_ik = t_i.j_k + [t_i on k's side] (delta x w_k).t_i      G_il = t_i.t_l + eps [i = l]

with t_i = d delta/d theta_i; rows of C are zero where theta_i is at an end.  Of a point p on A and a half-space on B
with the normal n, r = n.(p - o) - radius, one row for each end of a capsule, and with L_k the velocity of p moved by k

    r_k = n.L_k on A, -n.L_k on B
    H[x, y] = (n x w_y).L_x on A, (n x w_x).L_y on B, (w_y x n).L_x for x on A, y on B

Degrees of freedom that move both sides change nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dynamics.algorithms.frames import last_dof
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, POSITION, ROTATION, place_bodies
from dynamics.geometry.geometry import Geometry
from dynamics.knot_driver import nb, nv
from dynamics.model import RigidBodyModel
from dynamics.residuals.distance_rows import checked_rows, segments
from dynamics.residuals.kernel_residual import KernelResidual, residual_kernels
from dynamics.residuals.robot_residual import path_dofs
from dynamics.simd import align_stack, fma, helper, kernel, load, select_less, splat, store
from dynamics.simd.sizes import Size
from dynamics.spatial import add_cross, add_rotated, cross, dot3, load3, load6, load9, rotate, scale3, store3
from dynamics.validation import as_array, as_items

NEAR = 17
"""Numbers per pair: delta, the two closest points, t_1, t_2, whether theta is free."""
ALONG = 5
"""Numbers per degree of freedom: j and C."""
TINY = 1e-30
PARALLEL = 1e-14


pair_count = Size("pair_count", "pairs.radius.size")


@helper
def _placed(i, ends, at, body):
    """A point of a body in the world."""
    zero = splat(body, 0.0)
    x = (zero + ends[at], zero + ends[at + 1], zero + ends[at + 2])
    if i < 0:
        return x
    return add_rotated(load3(body, i * BODY + POSITION), load9(body, i * BODY + ROTATION), x)


@helper
def _less(a, b):
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@helper
def _clip(x):
    """Into [0, 1], and one where it was inside, else zero."""
    zero, one = x * 0.0, x * 0.0 + 1.0
    inside = select_less(zero, x, select_less(x, one, one, zero), zero)
    return select_less(x, zero, zero, select_less(one, x, one, x)), inside


@helper
def _flat_value(m, pairs, p, body, near, r):
    ends, zero = pairs.ends[p], splat(body, 0.0)
    point, origin = _placed(pairs.first[p], ends, 0, body), _placed(pairs.second[p], ends, 6, body)
    n = (zero + ends[9], zero + ends[10], zero + ends[11])
    if pairs.second[p] >= 0:
        n = rotate(load9(body, pairs.second[p] * BODY + ROTATION), n)
    store3(near, p * NEAR, n)
    store3(near, p * NEAR + 3, point)
    store3(near, p * NEAR + 6, point)
    store(r, p, dot3(n, _less(point, origin)) - pairs.radius[p])


@kernel
def _value(m, pairs, x, body, dof, near, r):
    align_stack(body)
    place_bodies(m, x, body, dof)
    eps = pairs.smoothing
    for p in range(pairs.radius.size):
        if pairs.flat[p] == 1:
            _flat_value(m, pairs, p, body, near, r)
            continue
        ends = pairs.ends[p]
        a0, a1 = _placed(pairs.first[p], ends, 0, body), _placed(pairs.first[p], ends, 3, body)
        b0, b1 = _placed(pairs.second[p], ends, 6, body), _placed(pairs.second[p], ends, 9, body)
        e1, e2, d = _less(a1, a0), _less(b1, b0), _less(a0, b0)
        a, e, b = dot3(e1, e1) + (eps + TINY), dot3(e2, e2) + (eps + TINY), dot3(e1, e2)
        half = 0.5 * (eps + TINY)
        c, f = half - dot3(e1, d), half + dot3(e2, d)
        det = fma(a, e, -b * b)
        crossed = (c * e + b * f) / (det + TINY * TINY)
        s, _ = _clip(select_less(det, PARALLEL * a * e, 0.0 * a + 0.5, crossed))
        t, t_free = _clip((b * s + f) / e)
        s, s_free = _clip((b * t + c) / a)
        delta = (
            d[0] + s * e1[0] - t * e2[0], d[1] + s * e1[1] - t * e2[1], d[2] + s * e1[2] - t * e2[2]
        )  # fmt: skip
        o = p * NEAR
        store3(near, o, delta)
        store3(near, o + 3, (fma(s, e1[0], a0[0]), fma(s, e1[1], a0[1]), fma(s, e1[2], a0[2])))
        store3(near, o + 6, (fma(t, e2[0], b0[0]), fma(t, e2[1], b0[1]), fma(t, e2[2], b0[2])))
        store3(near, o + 9, e1)
        store3(near, o + 12, scale3(e2, -1.0))
        store(near, o + 15, s_free)
        store(near, o + 16, t_free)
        spread = (s - 0.5) * (s - 0.5) + (t - 0.5) * (t - 0.5)
        store(r, p, (dot3(delta, delta) + eps * spread - pairs.offset[p]) * (0.5 * pairs.scale[p]))


@helper
def _column(k, sign, point, dof):
    s = load6(dof, k * DOF + COLUMN)
    return scale3(add_cross((s[3], s[4], s[5]), (s[0], s[1], s[2]), point), sign)


@kernel
def _jacobian(m, pairs, dof, near, J):
    align_stack(dof)
    n = m.dof_body.size
    J[:] = 0.0
    for p in range(pairs.radius.size):
        delta, scale = load3(near, p * NEAR), pairs.scale[p]
        for side in range(2):
            k = last_dof(m, pairs.second[p] if side else pairs.first[p])
            point = load3(near, p * NEAR + 3 + 3 * side)
            while k > pairs.common[p]:
                store(J, p * n + k, scale * dot3(delta, _column(k, 1.0 - 2.0 * side, point, dof)))
                k = m.dof_parent[k]


@helper
def _features(m, pairs, p, side, dof, near, along):
    """j and C of the degrees of freedom of one side."""
    o = p * NEAR
    delta, point = load3(near, o), load3(near, o + 3 + 3 * side)
    t1, t2 = load3(near, o + 9), load3(near, o + 12)
    k = last_dof(m, pairs.second[p] if side else pairs.first[p])
    while k > pairs.common[p]:
        j = _column(k, 1.0 - 2.0 * side, point, dof)
        turned = cross(delta, load3(dof, k * DOF + COLUMN))
        own1, own2 = 1.0 - side, 1.0 * side
        store3(along, k * ALONG, j)
        store(along, k * ALONG + 3, load(near, o + 15) * (dot3(t1, j) + own1 * dot3(turned, t1)))
        store(along, k * ALONG + 4, load(near, o + 16) * (dot3(t2, j) + own2 * dot3(turned, t2)))
        k = m.dof_parent[k]


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


@helper
def _bent(along, G, x, y):
    """j_x.j_y - C_x' G^-1 C_y"""
    cx, dx = load(along, x * ALONG + 3), load(along, x * ALONG + 4)
    cy, dy = load(along, y * ALONG + 3), load(along, y * ALONG + 4)
    held = cx * (G[0] * cy + G[1] * dy) + dx * (G[1] * cy + G[2] * dy)
    return dot3(load3(along, x * ALONG), load3(along, y * ALONG)) - held


@helper
def _add(H, n, x, y, e):
    store(H, x * n + y, load(H, x * n + y) + e)
    if x != y:
        store(H, y * n + x, load(H, y * n + x) + e)


@helper
def _add_flat(m, pairs, p, weight, dof, near, H):
    """H += weight times that of a point's height over a half-space."""
    size, last = m.dof_body.size, pairs.common[p]
    n, point = load3(near, p * NEAR), load3(near, p * NEAR + 3)
    for side in range(2):
        x = last_dof(m, pairs.second[p] if side else pairs.first[p])
        while x > last:
            y, w_x, L_x = x, load3(dof, x * DOF + COLUMN), _column(x, 1.0, point, dof)
            while y > last:
                w_y, L_y = load3(dof, y * DOF + COLUMN), _column(y, 1.0, point, dof)
                one, other = dot3(cross(n, w_y), L_x), dot3(cross(n, w_x), L_y)
                e = other if side else one
                if m.dof_body[y] == m.dof_body[x]:
                    e = 0.5 * (one + other)
                _add(H, size, x, y, weight * e)
                y = m.dof_parent[y]
            x = m.dof_parent[x]
    x = last_dof(m, pairs.first[p])
    while x > last:
        y, L_x = last_dof(m, pairs.second[p]), _column(x, 1.0, point, dof)
        while y > last:
            _add(H, size, x, y, weight * dot3(cross(load3(dof, y * DOF + COLUMN), n), L_x))
            y = m.dof_parent[y]
        x = m.dof_parent[x]


@kernel
def _hessian(m, pairs, mu, dof, near, along, H):
    align_stack(H)
    n = m.dof_body.size
    H[:] = 0.0
    for p in range(pairs.radius.size):
        if pairs.flat[p] == 1:
            _add_flat(m, pairs, p, load(mu, p), dof, near, H)
            continue
        _features(m, pairs, p, 0, dof, near, along)
        _features(m, pairs, p, 1, dof, near, along)
        G, delta = _inverse(near, p * NEAR, pairs.smoothing), load3(near, p * NEAR)
        weight = load(mu, p) * pairs.scale[p]
        last = pairs.common[p]
        for side in range(2):
            x = last_dof(m, pairs.second[p] if side else pairs.first[p])
            while x > last:
                y = x
                while y > last:
                    e = dot3(cross(delta, load3(dof, y * DOF + COLUMN)), load3(along, x * ALONG))
                    if m.dof_body[y] == m.dof_body[x]:
                        other = dot3(cross(delta, load3(dof, x * DOF + COLUMN)), load3(along, y * ALONG))
                        e = 0.5 * (e + other)
                    _add(H, n, x, y, weight * (e + _bent(along, G, x, y)))
                    y = m.dof_parent[y]
                x = m.dof_parent[x]
        x = last_dof(m, pairs.first[p])
        while x > last:
            y = last_dof(m, pairs.second[p])
            while y > last:
                _add(H, n, x, y, weight * _bent(along, G, x, y))
                y = m.dof_parent[y]
            x = m.dof_parent[x]


class Distance(KernelResidual):
    """Distances between spheres, capsules and half-spaces of a robot and the world, m; see the module.

    Parameters
    ----------
    model : RigidBodyModel
    pairs : sequence of two `Geometry` each, with the shapes Sphere, Capsule or HalfSpace, as `collision_pairs` gives
        them
    smoothing : eps, m^2, at least zero: rows of capsules have one derivative everywhere, and are too small by at most
        eps/(4 R) for each of the two

    Raises
    ------
    ValueError : no pairs, shapes of other kinds, two half-spaces, two of one body, radii that are both zero, a negative
        smoothing.
    TypeError : what is no Geometry.

    Notes
    -----
    One row for a pair, but two, one for each end, for a capsule and a half-space; `names` says of which.  Nothing
    touches where r >= `lower`, zeros.
    """

    kernels = residual_kernels(
        _value, _jacobian, _hessian, pair_count, nv,
        {"body": nb * BODY, "dof": nv * DOF, "near": pair_count * NEAR, "along": nv * ALONG},
    )  # fmt: skip
    pairs: tuple[tuple[Geometry, Geometry], ...]
    names: tuple[str, ...]
    lower: np.ndarray

    def __init__(
        self, model: RigidBodyModel, pairs: Iterable[tuple[Geometry, Geometry]], smoothing: float = 1e-4
    ) -> None:
        eps = float(as_array("smoothing", smoothing, ()))
        if eps < 0.0:
            raise ValueError(f"smoothing: got {eps}, expected a number of at least zero")
        chosen = tuple(tuple(pair) for pair in as_items("pairs", pairs, "pairs of Geometry"))
        if not chosen:
            raise ValueError("pairs: got none, expected at least one")
        super().__init__(model, "distance")
        rows = [row for p, pair in enumerate(chosen) for row in checked_rows(p, pair)]
        arrays = segments(model, rows, eps)
        names = tuple(f"{a.name} - {b.name}" for a, b, _ in rows)
        self._set(nr=len(rows), pairs=chosen, smoothing=eps, names=names, lower=np.zeros(len(rows)))
        moved = [*arrays.first.tolist(), *arrays.second.tolist()]
        path = sorted({int(k) for body in moved for k in path_dofs(model, body)})
        self._finish(np.array(path, dtype=np.int64), pairs=arrays)
