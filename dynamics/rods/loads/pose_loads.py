"""Loads that depend on the pose of a node: forces of its position, and wrenches that keep their direction.

A load F has P = -dF/dX and C = -d2(mu'F)/dX2 along g exp(X).  Forces of a position p, f(p) with F1 = df/dp and f''
contracted with mu as F2, and a moment m that keeps its direction, have in axes of the world at p       [rod_hessian, 5]

    P = [-m~ 0; -f~ -F1]      C = [(w.m + v.f) 1 - (w m' + m w' + v f' + f v')/2,  -v~F1 + (F1 v)~/2;  .,  -F2]

with the virtual twist mu = (w, v) of the point; e = P'mu.
"""

from dynamics.rods.loads.composites import add_at
from dynamics.rods.loads.load_laws import contact_law
from dynamics.rods.loads.matrices import add_moved, store_block, transposed_times6
from dynamics.rods.model.arrays import COMPOSITE, FIRST, FORCE, LOAD_FORCE, SECOND
from dynamics.rods.model.load_arrays import C, P
from dynamics.simd import align_stack, helper, kernel, splat, sqrt, store
from dynamics.spatial import add_cross, angular, cross, dot3, join, linear, scale3, sub6


@helper
def wrench_about_origin(p, moment, force):
    """A wrench of a point p, axes of the world, about the origin."""
    return join(add_cross(moment, p, force), force)


@helper
def entry3(x, i):
    """Entry i of three numbers."""
    return x[0] if i == 0 else (x[1] if i == 1 else x[2])


@helper
def tilde(x):
    """x~, row-major."""
    z = 0.0 * x[0]
    return (z, -x[2], x[1], x[2], z, -x[0], -x[1], x[0], z)


@kernel
def add_pose_terms(level, p, moment, force, F1, F2, mu, seg, A, extra):
    """P and C of a load with this moment and force at p, axes of the world; F1, F2 symmetric (six numbers each), or
    zero for a force that stays as it is; e from P."""
    align_stack(A)
    xx, xy, xz, yy, yz, zz = F1
    A[:36] = 0.0
    store_block(A, 0, tilde((-moment[0], -moment[1], -moment[2])))
    store_block(A, 18, tilde((-force[0], -force[1], -force[2])))
    store_block(A, 21, (-xx, -xy, -xz, -xy, -yy, -yz, -xz, -yz, -zz))
    w, v = angular(mu), add_cross(linear(mu), angular(mu), p)
    if level >= SECOND:
        e = transposed_times6(A, 0, join(w, v))
        add_at(seg, COMPOSITE + LOAD_FORCE, wrench_about_origin(p, angular(e), linear(e)))
    add_moved(p, A, extra, P)
    if level < SECOND:
        return
    a, b, h = dot3(w, moment) + dot3(v, force), (w, moment), (v, force)
    A[:36] = 0.0
    for i in range(3):
        for j in range(3):
            x = -0.5 * (entry3(b[0], i) * entry3(b[1], j) + entry3(b[1], i) * entry3(b[0], j))
            x = x - 0.5 * (entry3(h[0], i) * entry3(h[1], j) + entry3(h[1], i) * entry3(h[0], j))
            store(A, 6 * i + j, x + a if i == j else x)
    Fv = (xx * v[0] + xy * v[1] + xz * v[2], xy * v[0] + yy * v[1] + yz * v[2], xz * v[0] + yz * v[1] + zz * v[2])
    t = tilde(Fv)
    columns = cross(v, (xx, xy, xz)), cross(v, (xy, yy, yz)), cross(v, (xz, yz, zz))
    for i in range(3):
        for j in range(3):
            x = entry3(columns[0], i) if j == 0 else (entry3(columns[1], i) if j == 1 else entry3(columns[2], i))
            y = 0.5 * entry3((t[0], t[1], t[2]), j)
            if i == 1:
                y = 0.5 * entry3((t[3], t[4], t[5]), j)
            elif i == 2:
                y = 0.5 * entry3((t[6], t[7], t[8]), j)
            store(A, 6 * i + 3 + j, y - x)
            store(A, 6 * (3 + j) + i, y - x)
    xx, xy, xz, yy, yz, zz = F2
    store_block(A, 21, (-xx, -xy, -xz, -xy, -yy, -yz, -xz, -yz, -zz))
    add_moved(p, A, extra, C)


@kernel
def add_contact(parameters, level, p, mu, seg, A, extra):
    """A sphere about the node inside a cylinder."""
    align_stack(A)
    z = splat(A, 0.0)
    a = (z + parameters[8], z + parameters[9], z + parameters[10])
    d = (p[0] - parameters[5], p[1] - parameters[6], p[2] - parameters[7])
    along = dot3(a, d)
    n = (d[0] - along * a[0], d[1] - along * a[1], d[2] - along * a[2])
    distance = sqrt(dot3(n, n) + 1e-200)
    u = scale3(n, 1.0 / distance)
    depth = distance + (parameters[4] - parameters[3])
    force, df, ddf = contact_law(depth, parameters[0], parameters[1], parameters[2])
    f = scale3(u, -force)
    add_at(seg, COMPOSITE + FORCE, wrench_about_origin(p, (z, z, z), scale3(f, -1.0)))
    if level < FIRST:
        return
    side = force / distance
    across = (1.0 - a[0] * a[0], -a[0] * a[1], -a[0] * a[2], 1.0 - a[1] * a[1], -a[1] * a[2], 1.0 - a[2] * a[2])
    square = (u[0] * u[0], u[0] * u[1], u[0] * u[2], u[1] * u[1], u[1] * u[2], u[2] * u[2])
    T = sub6(across, square)
    F1 = (
        -(df * square[0] + side * T[0]), -(df * square[1] + side * T[1]), -(df * square[2] + side * T[2]),
        -(df * square[3] + side * T[3]), -(df * square[4] + side * T[4]), -(df * square[5] + side * T[5]),
    )  # fmt: skip
    v = add_cross(linear(mu), angular(mu), p)
    s = dot3(u, v)
    t = (
        T[0] * v[0] + T[1] * v[1] + T[2] * v[2], T[1] * v[0] + T[3] * v[1] + T[4] * v[2],
        T[2] * v[0] + T[4] * v[1] + T[5] * v[2],
    )  # fmt: skip
    c = (df - side) / distance
    F2 = (
        -(ddf * s * square[0] + c * (s * T[0] + 2.0 * u[0] * t[0])),
        -(ddf * s * square[1] + c * (s * T[1] + u[0] * t[1] + u[1] * t[0])),
        -(ddf * s * square[2] + c * (s * T[2] + u[0] * t[2] + u[2] * t[0])),
        -(ddf * s * square[3] + c * (s * T[3] + 2.0 * u[1] * t[1])),
        -(ddf * s * square[4] + c * (s * T[4] + u[1] * t[2] + u[2] * t[1])),
        -(ddf * s * square[5] + c * (s * T[5] + 2.0 * u[2] * t[2])),
    )  # fmt: skip
    add_pose_terms(level, p, (z, z, z), f, F1, F2, mu, seg, A, extra)


