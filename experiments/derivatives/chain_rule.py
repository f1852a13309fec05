"""What the chain rules share: the layout of path derivatives, and how the force on a body varies with its motion.

Derivatives of body i with respect to the degrees of freedom on its path are numbered by level, 0 at the root.  A body
takes over the buffer of its parent if it is the last child; only a branch needs another one (`Paths.slot`).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dynamics.algorithms.kinematics import BODY, INERTIA, MOMENT, MOMENTUM, VELOCITY
from dynamics.simd import helper, splat
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import (
    add6,
    add_cross,
    add_rotated,
    add_symmetric,
    angular,
    cross,
    dot3,
    join,
    linear,
    load3,
    load6,
    scale3,
    store6,
)
from experiments.derivatives.chains import depths


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


@helper
def zero6(w):
    z = splat(w, 0.0)
    return (z, z, z, z, z, z)


# ------------------------------------------------------------------------------------------------ force derivatives
@helper
def gyroscopic_body(m, i, body):
    """Of body i alone, from the forward pass: mass, first moment h, inertia I, angular velocity w, and K, L (3x3) of
    the derivative of v x* I v:  d = (K dw + h x y, m y + L dw)  with  y = w x dv.

    dv x* I v + v x* I dv collected by the halves of the variation, where h x (w x dv) = w x (h x dv) - (w x h) x dv."""
    b = i * BODY
    h, I = load3(body, b + MOMENT), load6(body, b + INERTIA)
    v, momentum = load6(body, b + VELOCITY), load6(body, b + MOMENTUM)
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
    return m.mass[i], h, I, w, K, L


@helper
def force_variation(own, dv, da):
    """d(I a + v x* I v) for variations of v and a, of a `gyroscopic_body`."""
    mass, h, I, w, K, L = own
    o, b = angular(dv), angular(da)
    x = add_cross(linear(da), w, linear(dv))
    n = add_symmetric(add_rotated(cross(h, x), K, o), I, b)
    return join(n, add_cross(add_rotated(scale3(x, mass), L, o), b, h))


@helper
def bias_variation(own, dv):
    """d(v x* I v) for a variation of v, of a `gyroscopic_body`."""
    mass, h, _, w, K, L = own
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
