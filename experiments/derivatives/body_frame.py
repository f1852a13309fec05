"""What the competitors share: transforms between body frames, joints of one axis, the layout of path derivatives.

Body i's frame is its joint's moving frame, and (R, p) its pose in its parent, x_parent = R x + p.  The column of a
joint of one axis u is S = (u, 0) or (0, u) there: constant, with half of its products known to vanish.

Derivatives of body i with respect to the degrees of freedom on its path are numbered by level, 0 at the root.  A body
takes over the buffer of its parent if it is the last child; only a branch needs another one (`Paths.slot`).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dynamics.model.joints import REVOLUTE
from dynamics.simd import fma, helper, load, sincos, splat
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import (
    add6,
    add_cross,
    add_cross_force,
    add_rotated,
    add_scaled3,
    add_symmetric,
    angular,
    cross,
    dot3,
    inertia_times,
    join,
    linear,
    load3,
    load6,
    load9,
    rotate,
    rotate_back,
    scale3,
    store3,
    store6,
    store9,
)
from experiments.derivatives.chains import depths

# numbers kept per body in its own frame
ROTATION, POSITION, VELOCITY, ACCELERATION, FORCE = 0, 9, 12, 18, 24
BODY_FRAME = 30


class Paths(NamedTuple):
    """Where derivatives along paths are kept; one entry per body."""

    depth: np.ndarray  # degrees of freedom on the path from the root, the body's own included
    first_pair: np.ndarray  # number of the pair (body, root dof); the others on the path follow
    slot: np.ndarray  # buffer of the body: its parent's if it is the last child, else the next one
    root: np.ndarray  # the body without parent that the path starts at
    pairs: int  # number of all pairs (body, dof on its path)
    buffers: int  # number of buffers
    width: int  # levels of a buffer: the largest depth


pairs, buffers, width = (Size(name, f"t.{name}") for name in ("pairs", "buffers", "width"))
"""Sizes that a driver takes from its argument t, the robot's `Paths`."""


@lru_cache(maxsize=256)
def paths(model) -> Paths:
    """The layout for a model, all of whose joints have one axis."""
    m, depth = model.arrays, depths(model)
    slot, root = np.zeros(model.nb, np.int64), np.arange(model.nb)
    for i, p in enumerate(m.parent):
        if p >= 0:
            slot[i], root[i] = slot[p] + 1 - m.last_child[i], root[p]
    first_pair = np.cumsum(depth) - depth
    return Paths(depth, first_pair, slot, root, int(depth.sum()), int(slot.max()) + 1, int(depth.max()))


# ------------------------------------------------------------------------------------------------ joints of one axis
@helper
def local_pose(m, i, q):
    """R, p of body i in its parent."""
    C, t, d = m.rotation[i], m.translation[i], m.joint_axis[i]
    x = load(q, i)
    if m.joint_type[i] == REVOLUTE:
        s, c = sincos(x)
        p = (splat(q, t[0]), splat(q, t[1]), splat(q, t[2]))
    else:
        s, c = splat(q, 0.0), splat(q, 0.0)
        p = (fma(x, d[0], t[0]), fma(x, d[1], t[1]), fma(x, d[2], t[2]))
    R = (
        fma(c, C[9], fma(s, C[18], C[0])), fma(c, C[10], fma(s, C[19], C[1])), fma(c, C[11], fma(s, C[20], C[2])),
        fma(c, C[12], fma(s, C[21], C[3])), fma(c, C[13], fma(s, C[22], C[4])), fma(c, C[14], fma(s, C[23], C[5])),
        fma(c, C[15], fma(s, C[24], C[6])), fma(c, C[16], fma(s, C[25], C[7])), fma(c, C[17], fma(s, C[26], C[8])),
    )  # fmt: skip
    return R, p


@helper
def joint_axis(m, i):
    """The axis of body i in its own frame, and whether the joint turns about it."""
    d = m.dof_axis[i]
    return (d[0], d[1], d[2]), m.dof_angular[i] != 0


@helper
def joint_dot(u, turning, f):
    """S . f"""
    if turning:
        return dot3(u, angular(f))
    return dot3(u, linear(f))


@helper
def add_along(x, s, u, turning):
    """x + s S"""
    if turning:
        return join(add_scaled3(angular(x), s, u), linear(x))
    return join(angular(x), add_scaled3(linear(x), s, u))


@helper
def add_cross_joint(x, a, u, turning):
    """x + a x S"""
    if turning:
        return join(add_cross(angular(x), angular(a), u), add_cross(linear(x), linear(a), u))
    return join(angular(x), add_cross(linear(x), angular(a), u))


@helper
def add_joint_cross_force(x, u, turning, f):
    """x + S x* f"""
    if turning:
        return join(add_cross(angular(x), u, angular(f)), add_cross(linear(x), u, linear(f)))
    return join(add_cross(angular(x), u, linear(f)), linear(x))


# ------------------------------------------------------------------------------------------------ between body frames
@helper
def zero6(w):
    z = splat(w, 0.0)
    return (z, z, z, z, z, z)


@helper
def to_child(R, p, a):
    """The motion a of the parent frame in the child frame: (R'w, R'(v + w x p))."""
    w = angular(a)
    return join(rotate_back(R, w), rotate_back(R, add_cross(linear(a), w, p)))


@helper
def to_parent(R, p, f):
    """The force f of the child frame in the parent frame: (R n + p x R f, R f)."""
    g = rotate(R, linear(f))
    return join(add_cross(rotate(R, angular(f)), p, g), g)


@helper
def parent_motion(m, i, body):
    """Velocity and acceleration of the body before joint i, in its frame; the world's acceleration is -g."""
    v, g = zero6(body), m.gravity
    a = (v[0], v[1], v[2], v[3] - g[0], v[4] - g[1], v[5] - g[2])
    if m.parent[i] >= 0:
        o = m.parent[i] * BODY_FRAME
        v, a = load6(body, o + VELOCITY), load6(body, o + ACCELERATION)
    return v, a


@helper
def move_body(m, i, q, v, a, body):
    """Pose in the parent, velocity and acceleration of body i, and the force I a + v x* I v on it alone.

    All are stored.  Returns R, p, velocity, acceleration, the parent's acceleration in frame i, and the momentum."""
    R, p = local_pose(m, i, q)
    u, turning = joint_axis(m, i)
    vp, ap = parent_motion(m, i, body)
    carried = to_child(R, p, ap)
    vi = add_along(to_child(R, p, vp), load(v, i), u, turning)
    ai = add_cross_joint(add_along(carried, load(a, i), u, turning), vi, scale3(u, load(v, i)), turning)
    mass, h, I = body_inertia(m, i)
    momentum = inertia_times(mass, h, I, vi)
    b = i * BODY_FRAME
    store9(body, b + ROTATION, R)
    store3(body, b + POSITION, p)
    store6(body, b + VELOCITY, vi)
    store6(body, b + ACCELERATION, ai)
    store6(body, b + FORCE, add_cross_force(inertia_times(mass, h, I, ai), vi, momentum))
    return R, p, vi, ai, carried, momentum


@helper
def load_pose(body, b):
    return load9(body, b + ROTATION), load3(body, b + POSITION)


# ------------------------------------------------------------------------------------------------ force derivatives
@helper
def body_inertia(m, i):
    """Mass, first moment and rotational inertia of body i in its own frame: constants."""
    c, I = m.first_moment[i], m.rotational_inertia[i]
    return m.mass[i], (c[0], c[1], c[2]), (I[0], I[1], I[2], I[3], I[4], I[5])


@helper
def gyroscopic_jacobian(h, I, v, momentum):
    """K, L (3x3) of the derivative of v x* I v:  d = (K dw + h x y, m y + L dw)  with  y = w x dv.

    dv x* I v + v x* I dv collected by the halves of the variation, where h x (w x dv) = w x (h x dv) - (w x h) x dv."""
    w, u, n, f = angular(v), linear(v), angular(momentum), linear(momentum)
    x, y, z = cross(w, (I[0], I[1], I[2])), cross(w, (I[1], I[3], I[4])), cross(w, (I[2], I[4], I[5]))
    s, t = dot3(h, u), dot3(h, w)
    K = (
        x[0] + s - h[0] * u[0], y[0] + n[2] - h[0] * u[1], z[0] - n[1] - h[0] * u[2],
        x[1] - n[2] - h[1] * u[0], y[1] + s - h[1] * u[1], z[1] + n[0] - h[1] * u[2],
        x[2] + n[1] - h[2] * u[0], y[2] - n[0] - h[2] * u[1], z[2] + s - h[2] * u[2],
    )  # fmt: skip
    L = (
        t - h[0] * w[0], f[2] - h[0] * w[1], -f[1] - h[0] * w[2],
        -f[2] - h[1] * w[0], t - h[1] * w[1], f[0] - h[1] * w[2],
        f[1] - h[2] * w[0], -f[0] - h[2] * w[1], t - h[2] * w[2],
    )  # fmt: skip
    return K, L


@helper
def force_variation(mass, h, I, w, K, L, dv, da):
    """d(I a + v x* I v) for variations of v and a."""
    o, b = angular(dv), angular(da)
    x = add_cross(linear(da), w, linear(dv))
    n = add_symmetric(add_rotated(cross(h, x), K, o), I, b)
    return join(n, add_cross(add_rotated(scale3(x, mass), L, o), b, h))


@helper
def bias_variation(mass, h, w, K, L, dv):
    """d(v x* I v) for a variation of v."""
    o = angular(dv)
    y = cross(w, linear(dv))
    return join(add_rotated(cross(h, y), K, o), add_rotated(scale3(y, mass), L, o))


@helper
def pass_up(buffer, o, x, first):
    """Leave x for the parent at offset o: the first child to come overwrites, the others add."""
    if first:
        store6(buffer, o, x)
    else:
        store6(buffer, o, add6(load6(buffer, o), x))
