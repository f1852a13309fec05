"""Spatial algebra on flat tuples, one knot per lane.

Inside kernels a motion vector is (w, v), a force (n, f), angular part first, all in the world frame (Featherstone
2008).  A rigid-body inertia is (m, h, I): mass, first moment m c (3 numbers), rotational inertia about the world origin
(xx xy xz yy yz zz).  No 6x6 matrix is ever formed:

    inertia            [[I, h~], [-h~, m 1]]
    inertia rate       [[J, k~], [-k~, 0]]: a massless inertia (k, J), the form of  s x* I - I s x  for any motion s

Names: `cross_motion(a, b)` = a x b, `cross_force(a, f)` = a x* f; the prefix `add_` accumulates, x + ..., with fused
multiply-adds.
"""

from dynamics.simd import fma, fms, fnma, helper, load, store


# ------------------------------------------------------------------------------------------------ memory
@helper
def load3(w, i):
    return (load(w, i), load(w, i + 1), load(w, i + 2))


@helper
def load6(w, i):
    return (load(w, i), load(w, i + 1), load(w, i + 2), load(w, i + 3), load(w, i + 4), load(w, i + 5))


@helper
def load9(w, i):
    return (
        load(w, i), load(w, i + 1), load(w, i + 2), load(w, i + 3), load(w, i + 4), load(w, i + 5), load(w, i + 6),
        load(w, i + 7), load(w, i + 8),
    )  # fmt: skip


@helper
def store3(w, i, x):
    store(w, i, x[0])
    store(w, i + 1, x[1])
    store(w, i + 2, x[2])


@helper
def store6(w, i, x):
    store3(w, i, (x[0], x[1], x[2]))
    store3(w, i + 3, (x[3], x[4], x[5]))


@helper
def store9(w, i, x):
    store6(w, i, (x[0], x[1], x[2], x[3], x[4], x[5]))
    store3(w, i + 6, (x[6], x[7], x[8]))


@helper
def add3_at(w, i, x):
    """w[i ...] += x"""
    store3(w, i, add3(load3(w, i), x))


@helper
def accumulate(w, target, source, count):
    """w[target + k] += w[source + k]."""
    for k in range(count):
        store(w, target + k, load(w, target + k) + load(w, source + k))


# ------------------------------------------------------------------------------------------------ three numbers
@helper
def add3(a, b):
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])


@helper
def scale3(a, s):
    return (a[0] * s, a[1] * s, a[2] * s)


@helper
def dot3(a, b):
    return fma(a[2], b[2], fma(a[1], b[1], a[0] * b[0]))


@helper
def cross(a, b):
    return (fms(a[1], b[2], a[2] * b[1]), fms(a[2], b[0], a[0] * b[2]), fms(a[0], b[1], a[1] * b[0]))


@helper
def add_cross(x, a, b):
    """x + a x b"""
    return (
        fma(a[1], b[2], fnma(a[2], b[1], x[0])),
        fma(a[2], b[0], fnma(a[0], b[2], x[1])),
        fma(a[0], b[1], fnma(a[1], b[0], x[2])),
    )


@helper
def add_scaled3(x, s, a):
    """x + s a"""
    return (fma(s, a[0], x[0]), fma(s, a[1], x[1]), fma(s, a[2], x[2]))


@helper
def rotate(R, v):
    """R v, R row-major"""
    return (
        fma(R[2], v[2], fma(R[1], v[1], R[0] * v[0])),
        fma(R[5], v[2], fma(R[4], v[1], R[3] * v[0])),
        fma(R[8], v[2], fma(R[7], v[1], R[6] * v[0])),
    )


@helper
def rotate_back(R, v):
    """R' v"""
    return (
        fma(R[6], v[2], fma(R[3], v[1], R[0] * v[0])),
        fma(R[7], v[2], fma(R[4], v[1], R[1] * v[0])),
        fma(R[8], v[2], fma(R[5], v[1], R[2] * v[0])),
    )


@helper
def add_rotated(x, R, v):
    """x + R v"""
    return (
        fma(R[2], v[2], fma(R[1], v[1], fma(R[0], v[0], x[0]))),
        fma(R[5], v[2], fma(R[4], v[1], fma(R[3], v[0], x[1]))),
        fma(R[8], v[2], fma(R[7], v[1], fma(R[6], v[0], x[2]))),
    )


@helper
def multiply(A, B):
    """A B, 3x3 row-major"""
    return (
        fma(A[2], B[6], fma(A[1], B[3], A[0] * B[0])),
        fma(A[2], B[7], fma(A[1], B[4], A[0] * B[1])),
        fma(A[2], B[8], fma(A[1], B[5], A[0] * B[2])),
        fma(A[5], B[6], fma(A[4], B[3], A[3] * B[0])),
        fma(A[5], B[7], fma(A[4], B[4], A[3] * B[1])),
        fma(A[5], B[8], fma(A[4], B[5], A[3] * B[2])),
        fma(A[8], B[6], fma(A[7], B[3], A[6] * B[0])),
        fma(A[8], B[7], fma(A[7], B[4], A[6] * B[1])),
        fma(A[8], B[8], fma(A[7], B[5], A[6] * B[2])),
    )


@helper
def add_symmetric(x, I, w):
    """x + I w, I = (xx xy xz yy yz zz)"""
    return (
        fma(I[2], w[2], fma(I[1], w[1], fma(I[0], w[0], x[0]))),
        fma(I[4], w[2], fma(I[3], w[1], fma(I[1], w[0], x[1]))),
        fma(I[5], w[2], fma(I[4], w[1], fma(I[2], w[0], x[2]))),
    )


# ------------------------------------------------------------------------------------------------ six numbers
@helper
def angular(a):
    return (a[0], a[1], a[2])


@helper
def linear(a):
    return (a[3], a[4], a[5])


@helper
def join(w, v):
    return (w[0], w[1], w[2], v[0], v[1], v[2])


@helper
def add6(a, b):
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5])


@helper
def sub6(a, b):
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2], a[3] - b[3], a[4] - b[4], a[5] - b[5])


@helper
def scale6(a, s):
    return (a[0] * s, a[1] * s, a[2] * s, a[3] * s, a[4] * s, a[5] * s)


@helper
def add_scaled6(x, s, a):
    """x + s a"""
    return (
        fma(s, a[0], x[0]), fma(s, a[1], x[1]), fma(s, a[2], x[2]), fma(s, a[3], x[3]), fma(s, a[4], x[4]),
        fma(s, a[5], x[5]),
    )  # fmt: skip


@helper
def dot6(a, b):
    return fma(a[5], b[5], fma(a[4], b[4], fma(a[3], b[3], fma(a[2], b[2], fma(a[1], b[1], a[0] * b[0])))))


@helper
def add_dot6(x, a, b):
    """x + a.b"""
    return fma(a[5], b[5], fma(a[4], b[4], fma(a[3], b[3], fma(a[2], b[2], fma(a[1], b[1], fma(a[0], b[0], x))))))


@helper
def cross_motion(a, b):
    """a x b = (w x b_w, w x b_v + v x b_w)"""
    w, u = angular(a), angular(b)
    return join(cross(w, u), add_cross(cross(w, linear(b)), linear(a), u))


@helper
def add_cross_motion(x, a, b):
    w, u = angular(a), angular(b)
    return join(add_cross(angular(x), w, u), add_cross(add_cross(linear(x), w, linear(b)), linear(a), u))


@helper
def cross_force(a, f):
    """a x* f = (w x f_n + v x f_f, w x f_f)"""
    w, u = angular(a), linear(f)
    return join(add_cross(cross(w, angular(f)), linear(a), u), cross(w, u))


@helper
def add_cross_force(x, a, f):
    w, u = angular(a), linear(f)
    return join(add_cross(add_cross(angular(x), w, angular(f)), linear(a), u), add_cross(linear(x), w, u))


# ------------------------------------------------------------------------------------------------ inertias
@helper
def inertia_times(m, h, I, a):
    """(m, h, I) a"""
    w, v = angular(a), linear(a)
    return join(add_symmetric(cross(h, v), I, w), add_cross(scale3(v, m), w, h))


@helper
def add_inertia_times(x, m, h, I, a):
    w, v = angular(a), linear(a)
    return join(add_symmetric(add_cross(angular(x), h, v), I, w), add_cross(add_scaled3(linear(x), m, v), w, h))


@helper
def rate_times(k, J, a):
    """(k, J) a for a massless inertia"""
    w = angular(a)
    return join(add_symmetric(cross(k, linear(a)), J, w), cross(w, k))


@helper
def add_rate_times(x, k, J, a):
    w = angular(a)
    return join(add_symmetric(add_cross(angular(x), k, linear(a)), J, w), add_cross(linear(x), w, k))


@helper
def rate_moment(m, h, s):
    """First moment of s x* I - I s x:  m v + w x h"""
    return add_cross(scale3(linear(s), m), angular(s), h)


@helper
def rate_rotation(h, I, s):
    """Rotational part of s x* I - I s x:  2 (h.v) 1 - h v' - v h' + w~ I - I w~"""
    a, b, c, u, v, w = s
    xx, xy, xz, yy, yz, zz = I
    xx_ = fma(b, xz, fnma(c, xy, fma(h[1], v, h[2] * w)))
    yy_ = fma(c, xy, fnma(a, yz, fma(h[0], u, h[2] * w)))
    zz_ = fma(a, yz, fnma(b, xz, fma(h[0], u, h[1] * v)))
    return (
        xx_ + xx_,
        fma(b, yz, fma(c, xx - yy, fnma(a, xz, fnma(h[0], v, -h[1] * u)))),
        fma(b, zz - xx, fnma(c, yz, fma(a, xy, fnma(h[0], w, -h[2] * u)))),
        yy_ + yy_,
        fma(c, xz, fma(a, yy - zz, fnma(b, xy, fnma(h[1], w, -h[2] * v)))),
        zz_ + zz_,
    )


@helper
def world_inertia(R, p, m, c, I):
    """First moment and rotational inertia about the world origin of a body with pose (R, p) and body-frame data m,
    m c = c, I about the body origin: parallel axes,  I_w = R I R' + (2 Rc.p + m p.p) 1 - Rc p' - p Rc' - m p p'."""
    r = rotate(R, c)
    xx, xy, xz, yy, yz, zz = I
    T = multiply(R, (xx, xy, xz, xy, yy, yz, xz, yz, zz))
    h = add_scaled3(r, m, p)
    t = fma(2.0, dot3(r, p), m * dot3(p, p))
    return h, (
        fma(T[0], R[0], fma(T[1], R[1], fma(T[2], R[2], fnma(r[0], p[0], fnma(p[0], h[0], t))))),
        fma(T[0], R[3], fma(T[1], R[4], fma(T[2], R[5], fnma(r[0], p[1], -p[0] * h[1])))),
        fma(T[0], R[6], fma(T[1], R[7], fma(T[2], R[8], fnma(r[0], p[2], -p[0] * h[2])))),
        fma(T[3], R[3], fma(T[4], R[4], fma(T[5], R[5], fnma(r[1], p[1], fnma(p[1], h[1], t))))),
        fma(T[3], R[6], fma(T[4], R[7], fma(T[5], R[8], fnma(r[1], p[2], -p[1] * h[2])))),
        fma(T[6], R[6], fma(T[7], R[7], fma(T[8], R[8], fnma(r[2], p[2], fnma(p[2], h[2], t))))),
    )
