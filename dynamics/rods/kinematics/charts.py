"""Charts of joints that turn about any axis: two vectors of coordinates x = [w; u] that place a joint alike.

A rotation by |w| about w is one by |w| - 2 pi about w.  In dual numbers w + e u, and along a path, this one formula

    phi(w) = (1 - 2 pi / |w|) w

gives all: u, velocities, accelerations, for T3(phi(w)) phi'(w) = T3(w).  So a joint whose |w| passes LIMIT goes on in
its other chart, with 2 pi - |w|, far from 2 pi, where coordinates are singular: rotations have no limit.

`turns` are the coordinates (J, 6) of such joints, `turning_joints`.
"""

import numpy as np

from dynamics.rods.kinematics import jets
from dynamics.simd import align_stack, fma, helper, kernel, load, select_less, splat, sqrt, store
from dynamics.simd.comparison import all_less
from dynamics.spatial import scale6

LIMIT = 4.2
"""rad, between pi and 2 pi: the other chart begins with 2.1 rad, so that changes are rare; a step may turn as far."""
SQUARE = LIMIT**2
_TURN = 2.0 * np.pi


@helper
def _number(x, i, first):
    """Number `first` + i of x, zero for i < 0."""
    return load(x, first + i) if i >= 0 else splat(x, 0.0)


@helper
def _twist(turns, k, x, first):
    """The six of joint k."""
    return (
        _number(x, turns[k, 0], first), _number(x, turns[k, 1], first), _number(x, turns[k, 2], first),
        _number(x, turns[k, 3], first), _number(x, turns[k, 4], first), _number(x, turns[k, 5], first),
    )  # fmt: skip


@helper
def _other_chart(q, v):
    """Coordinates and velocities in the other chart."""
    z = q[0] * 0.0
    w = jets.of_twists(q, v, (z, z, z, z, z, z))
    s = jets.dot(w, w)
    r = 1.0 / sqrt(s[0])
    r3 = r * r * r
    r5 = r3 * r * r
    g = scale6(jets.compose((r, -0.5 * r3, 0.75 * r5, -1.875 * r5 * r * r), s), -_TURN)
    g = (g[0] + 1.0, g[1], g[2], g[3], g[4], g[5])
    a, b, c = jets.times(g, w[0]), jets.times(g, w[1]), jets.times(g, w[2])
    return (a[0], b[0], c[0], a[3], b[3], c[3]), (a[1], b[1], c[1], a[4], b[4], c[4])


@helper
def _square(a, b, c):
    return fma(a, a, fma(b, b, c * c))


@helper
def _put(x, i, first, near, far, new):
    """`new` into number `first` + i of x where near < far, none for i < 0."""
    if i >= 0:
        store(x, first + i, select_less(near, far, new, load(x, first + i)))


@kernel
def _move(turns, k, n, near, far, x):
    """Joint k of x = (q, v) to its other chart where near < far."""
    q, v = _other_chart(_twist(turns, k, x, 0), _twist(turns, k, x, n))
    for r in range(6):
        _put(x, turns[k, r], 0, near, far, q[r])
        _put(x, turns[k, r], n, near, far, v[r])


@kernel
def change_charts(turns, n, x):
    """Move joints of x = (q, v) that have passed the limit to their other chart."""
    align_stack(x)
    for k in range(turns.shape[0]):
        q = _twist(turns, k, x, 0)
        s = _square(q[0], q[1], q[2])
        if not all_less(s, SQUARE):
            _move(turns, k, n, splat(x, SQUARE), s, x)


@kernel
def move_near(turns, n, reference, x):
    """Move joints of x = (q, v) to that one of their charts in which their w is nearer to the reference, a row of plain
    numbers."""
    align_stack(x)
    for k in range(turns.shape[0]):
        q = _twist(turns, k, x, 0)
        i, j, l = turns[k, 0], turns[k, 1], turns[k, 2]
        a, b, c = reference[i] if i >= 0 else 0.0, reference[j] if j >= 0 else 0.0, reference[l] if l >= 0 else 0.0
        near = _square(q[0] - a, q[1] - b, q[2] - c)
        if not all_less(near, 0.25 * _TURN * _TURN):  # the two are 2 pi apart
            w, _ = _other_chart(q, q)
            _move(turns, k, n, _square(w[0] - a, w[1] - b, w[2] - c), near, x)
