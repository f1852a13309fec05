"""Loads that depend on the pose of a node: forces of its position, and wrenches that keep their direction.

A load F has P = -dF/dX and C = -d2(mu'F)/dX2 along g exp(X).  Forces of a position p, f(p) with F1 = df/dp and f''
contracted with mu as F2, and a moment m that keeps its direction, have in axes of the world at p       [rod_hessian, 5]

    P = [-m~ 0; -f~ -F1]      C = [(w.m + v.f) 1 - (w m' + m w' + v f' + f v')/2,  -v~F1 + (F1 v)~/2;  .,  -F2]

with the virtual twist mu = (w, v) of the point; e = P'mu.
"""

from dynamics.rods.loads.composites import add_at
from dynamics.rods.loads.matrices import add_moved, store_block, transposed_times6
from dynamics.rods.model.arrays import COMPOSITE, LOAD_FORCE, SECOND
from dynamics.rods.model.load_arrays import C, P
from dynamics.simd import align_stack, helper, kernel, store
from dynamics.spatial import add_cross, angular, cross, dot3, join, linear


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
