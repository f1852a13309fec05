"""Loads on the nodes of segments: loads of poses, contact with fixed objects, with other links and with friction, loads
of fluids, and users' laws."""

from typing import NamedTuple

import numpy as np

from dynamics.rods.kinematics.forward_pass import add_families, load_column
from dynamics.rods.loads.composites import add_at, add_moved, store_block, times6, transposed_times6, turn
from dynamics.rods.loads.contacts import (
    ALONG_CENTRES,
    ARM,
    DAMPING,
    EXPONENT,
    FRICTION,
    NO_ARM,
    OFFSET,
    PLACE,
    POINT,
    SIDE,
    SLIP,
    SMOOTHING,
    SPIN_A,
    SPIN_B,
    STIFFNESS,
    combination,
    contact_law,
    distance,
    speed_law,
    symmetric_times,
)
from dynamics.rods.loads.external_loads import INPUTS
from dynamics.rods.model.arrays import (
    ACCELERATION,
    B6,
    CARRIED,
    CODE,
    CODE_START,
    COMPOSITE,
    CONSTANTS_START,
    CONTACT,
    CONTROLS,
    DEAD,
    DOUBLE_FORCE,
    DRAG,
    END,
    FAMILIES,
    FIRST,
    FIRST_CONTROL,
    FOLLOWER,
    FORCE,
    LAW,
    LENGTHS,
    LOAD_FORCE,
    LOADS,
    M6,
    N6,
    OUTPUTS,
    OUTPUTS_START,
    RATE_FORCE,
    RATES,
    REGISTERS,
    SECOND,
    SEGMENT,
    TWIST,
    VIRTUAL,
    WRENCH,
    C,
    P,
    entry,
    n,
    touching_path,
    touching_segment,
)
from dynamics.simd import align_stack, fma, helper, kernel, load, shared_kernel, splat, sqrt, store
from dynamics.simd.functions import all_less
from dynamics.simd.lane_algebra import add_entry, store_pair
from dynamics.simd.lane_blocks import lanes, slicing
from dynamics.simd.sizes import Size
from dynamics.spatial.spatial import (
    accumulate,
    add3,
    add6,
    add_cross,
    add_rotated,
    add_scaled3,
    angular,
    cross,
    cross_force,
    cross_motion,
    dot3,
    dot6,
    join,
    linear,
    load3,
    load6,
    load9,
    rotate,
    rotate_back,
    scale3,
    scale6,
    store3,
    store6,
    store9,
    sub6,
)
from dynamics.tape.operations import WIDTH, execute

# --------------------------------------------------------------------------------------------
# Loads that depend on the pose of a node: forces of its position, and wrenches that keep their direction.
#
# A load F has P = -dF/dX and C = -d2(mu'F)/dX2 along g exp(X).  Forces of a position p, f(p) with F1 = df/dp and f''
# contracted with mu as F2, and a moment m that keeps its direction, have in axes of the world at p       [rod_hessian,
# 5]
#
#     P = [-m~ 0; -f~ -F1]      C = [(w.m + v.f) 1 - (w m' + m w' + v f' + f v')/2,  -v~F1 + (F1 v)~/2;  .,  -F2]
#
# with the virtual twist mu = (w, v) of the point; e = P'mu.


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
    """Add P and C of a load with this moment and force at p, world axes, and e from P; F1, F2 symmetric (six numbers
    each), or zero for a constant force."""
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


# --------------------------------------------------------------------------------------------
# Contact of a point of a link, as a sphere, with fixed objects: forces that depend on its position.
#
# With a depth s d(p) + o for the distance d, and the force law F (`contacts`), along a virtual velocity v
#
#     f = - s F u        F1 = - (F' u u' + s F T / d)
#     F2 = - (s F'' (u.v) u u' + (F' - s F / d) ((u.v) T + u t' + t u') / d)


@kernel
def add_contact(c, level, R, p, mu, seg, A, extra):
    """Add the contact with the numbers c of a point of the link whose frame is (R, p)."""
    align_stack(A)
    z = splat(A, 0.0)
    p = add_rotated(p, R, (z + c[PLACE], z + c[PLACE + 1], z + c[PLACE + 2]))
    d, inverse, u, T = distance(c, (p[0] - c[POINT], p[1] - c[POINT + 1], p[2] - c[POINT + 2]))
    depth = c[SIDE] * d + c[OFFSET]
    if all_less(depth, z - c[SMOOTHING]):
        return
    force, df, ddf = contact_law(depth, c[STIFFNESS], c[EXPONENT], c[SMOOTHING])
    force, ddf = c[SIDE] * force, c[SIDE] * ddf
    f = scale3(u, -force)
    add_at(seg, COMPOSITE + FORCE, wrench_about_origin(p, (z, z, z), scale3(f, -1.0)))
    if level < FIRST:
        return
    side = force * inverse
    F1 = combination(-side, T, -0.5 * df, u, u)
    v = add_cross(linear(mu), angular(mu), p)
    s, b = dot3(u, v), (side - df) * inverse
    F2 = combination(b, combination(s, T, 1.0, u, symmetric_times(T, v)), -0.5 * ddf * s, u, u)
    add_pose_terms(level, p, (z, z, z), f, F1, F2, mu, seg, A, extra)


# --------------------------------------------------------------------------------------------
# Loads of a fluid on a node: drag and lift, and added mass.
#
#     drag          F = |v| D eta                           N = D (eta g' + |v| 1),   g = [0; v / |v|]
#                   B = d g' + g d' + (d.eta) |v|'',        d = D'mu
#     added mass    F = M eta' + eta x* M eta,  as of a rigid body, with the acceleration without gravity
#
# F resists: it is added to the forces of inertia.  D and M are matrices (6, 6) in axes of the node, M symmetric.  Since
# the acceleration of the kernels contains gravity, M g is subtracted again, as a load of the pose.


@helper
def in_axes(R, p, x):
    """A twist of the world frame in the axes of a frame at (R, p)."""
    w = angular(x)
    return join(rotate_back(R, w), rotate_back(R, add_cross(linear(x), w, p)))


@helper
def to_world(R, p, f):
    """A wrench in axes of a frame at (R, p), transformed to the world's axes and origin."""
    return wrench_about_origin(p, rotate(R, angular(f)), rotate(R, linear(f)))


@helper
def _entry6(x, i):
    """Entry i of six numbers."""
    return entry3((x[0], x[1], x[2]), i) if i < 3 else entry3((x[3], x[4], x[5]), i - 3)


@kernel
def load_matrix(parameters, A):
    """Load the parameters of a load as a matrix into A."""
    align_stack(A)
    for i in range(36):
        store(A, i, splat(A, parameters[i]))


@kernel
def carry(R, p, A, extra, o):
    """Add the matrix A, in axes of the node, to the sum at o in the world frame; A is overwritten."""
    align_stack(A)
    turn(R, A)
    add_moved(p, A, extra, o)


# ------------------------------------------------------------------------------------------------ drag and lift
@kernel
def add_drag(parameters, level, R, p, mu, seg, D, A, extra):
    """Add drag and lift at the node; D and A are scratch (36)."""
    align_stack(A)
    load_matrix(parameters, D)
    eta, virtual = in_axes(R, p, load6(seg, END + TWIST)), in_axes(R, p, mu)
    speed, g = speed_law(linear(eta), parameters[36])
    z = 0.0 * speed
    gradient = (z, z, z, g[0], g[1], g[2])
    resistance, d = times6(D, 0, eta), transposed_times6(D, 0, virtual)
    add_at(seg, COMPOSITE + FORCE, to_world(R, p, scale6(resistance, speed)))
    if level < FIRST:
        return
    for i in range(6):
        for j in range(6):
            x = speed * load(D, 6 * i + j) + _entry6(resistance, i) * _entry6(gradient, j)
            store(A, 6 * i + j, x)
    if level >= SECOND:
        add_at(seg, COMPOSITE + RATE_FORCE, to_world(R, p, transposed_times6(A, 0, virtual)))
    carry(R, p, A, extra, N6)
    if level >= SECOND:
        bend = dot6(d, eta) / speed
        for i in range(6):
            for j in range(6):
                x = _entry6(d, i) * _entry6(gradient, j) + _entry6(gradient, i) * _entry6(d, j)
                x = x - bend * _entry6(gradient, i) * _entry6(gradient, j)
                store(A, 6 * i + j, x + bend if i == j and i >= 3 else x)
        carry(R, p, A, extra, B6)


# ------------------------------------------------------------------------------------------------ added mass
@kernel
def _store_rate(x, momentum, sign, M, A):
    """Store A = sign (x x* M - M x x) + (y -> y x* momentum)."""
    align_stack(A)
    one, z = splat(A, 1.0), splat(A, 0.0)
    for j in range(6):
        e = (
            one if j == 0 else z, one if j == 1 else z, one if j == 2 else z, one if j == 3 else z,
            one if j == 4 else z, one if j == 5 else z,
        )  # fmt: skip
        rate = sub6(cross_force(x, load6(M, 6 * j)), times6(M, 0, cross_motion(x, e)))
        column = add6(scale6(rate, splat(A, sign)), cross_force(e, momentum))
        for i in range(6):
            store(A, 6 * i + j, _entry6(column, i))


@kernel
def _add_weight(level, R, p, g, virtual, M, seg, A, extra):
    """Add P, C and e of the load -M g, where g (3), in axes of the node, rotates against it."""
    align_stack(A)
    z = splat(A, 0.0)
    for i in range(6):
        row = load6(M, 6 * i)
        c = cross(linear(row), g)
        store6(A, 6 * i, (c[0], c[1], c[2], z, z, z))
    if level >= SECOND:
        add_at(seg, COMPOSITE + LOAD_FORCE, to_world(R, p, transposed_times6(A, 0, virtual)))
    carry(R, p, A, extra, P)
    if level >= SECOND:
        nu = linear(times6(M, 0, virtual))
        A[:36] = 0.0
        for i in range(3):
            for j in range(3):
                x = 0.5 * (entry3(nu, i) * entry3(g, j) + entry3(g, i) * entry3(nu, j))
                store(A, 6 * i + j, x - dot3(nu, g) if i == j else x)
        carry(R, p, A, extra, C)


@kernel
def add_added_mass(parameters, gravity, level, R, p, mu, seg, M, A, extra):
    """Add the added mass at the node; M and A are scratch (36)."""
    align_stack(A)
    load_matrix(parameters, M)
    z = splat(A, 0.0)
    eta, virtual = in_axes(R, p, load6(seg, END + TWIST)), in_axes(R, p, mu)
    a = in_axes(R, p, load6(seg, END + ACCELERATION))
    g = rotate_back(R, (z + gravity[0], z + gravity[1], z + gravity[2]))
    momentum = times6(M, 0, eta)
    force = add6(times6(M, 0, (a[0], a[1], a[2], a[3] + g[0], a[4] + g[1], a[5] + g[2])), cross_force(eta, momentum))
    add_at(seg, COMPOSITE + FORCE, to_world(R, p, force))
    if level < FIRST:
        if level >= 1:
            for i in range(36):
                store(A, i, load(M, i))
            carry(R, p, A, extra, M6)
        return
    _store_rate(eta, momentum, 1.0, M, A)
    if level >= SECOND:
        add_at(seg, COMPOSITE + RATE_FORCE, to_world(R, p, transposed_times6(A, 0, virtual)))
        add_at(seg, COMPOSITE + DOUBLE_FORCE, to_world(R, p, times6(M, 0, virtual)))
    carry(R, p, A, extra, N6)
    if level >= SECOND:
        _store_rate(virtual, (z, z, z, z, z, z), -1.0, M, A)
        carry(R, p, A, extra, B6)
    _add_weight(level, R, p, g, virtual, M, seg, A, extra)
    for i in range(36):
        store(A, i, load(M, i))
    carry(R, p, A, extra, M6)


# --------------------------------------------------------------------------------------------
# Loads on a node given by users' laws, by the programs that compute them and their derivatives.
#
# Beside the sums of `segment_loads` towards the base, forces of pose and velocity together have the block E, and
# controls have columns b of the forces, where mu'b has the gradient h; with J, R, W of the coordinates at the node,
#
#     Hqq + J'E R + its transpose      Hqv + J'E J      B - J'b      Hqu + W'b + J'h

OF_X, OF_D, OF_U = 6, 42, 78
"""Start of P, N and b (6 each) among a program's outputs; C, E, B and h follow."""


@shared_kernel
def _run(laws, i, R, p, eta, mu, controls, work):
    """Run program i at this pose and twist, in axes of the node."""
    constants, last = entry(laws, CONSTANTS_START, i), entry(laws, CONSTANTS_START, i + 1)
    for k in range(constants, last):
        store(work, k - constants, splat(work, laws.constants[k]))
    law = i // 3
    first = entry(laws, FIRST_CONTROL, law)
    x, count = work[last - constants :], entry(laws, FIRST_CONTROL, law + 1) - first
    store9(x, 0, R)
    store3(x, 9, p)
    store6(x, 12, eta)
    for k in range(count):
        store(x, INPUTS + k, load(controls, first + k))
    store6(x, INPUTS + count, mu)
    start, end = entry(laws, CODE_START, i), entry(laws, CODE_START, i + 1)
    code = laws.integers[laws.integers[CODE] + start :]
    execute(work, code, (end - start) // WIDTH, entry(laws, LENGTHS, i), 1)


@helper
def _six(laws, i, o, share, work):
    """Six outputs of program i from o on, times the share."""
    k = laws.integers[OUTPUTS] + entry(laws, OUTPUTS_START, i) + o
    r = laws.integers[k : k + 6]
    x = load(work, r[0]), load(work, r[1]), load(work, r[2]), load(work, r[3]), load(work, r[4]), load(work, r[5])
    return scale6(x, share)


@kernel
def _block(laws, i, o, share, work, A):
    """Store 36 outputs of program i in A."""
    for r in range(0, 36, 6):
        store6(A, r, _six(laws, i, o + r, share, work))


@kernel
def _add_mixed(m, s, columns, E, b):
    """Add J'E R, half of the symmetric term, to Hqq, and J'E J to Hqv; E about the origin."""
    n = m.counts[0]
    for t in range(m.path_start[s], m.path_start[s + 1]):
        j = m.path[t]
        of_R, of_J = times6(E, 0, load_column(columns, n, 6, j)), times6(E, 0, load_column(columns, n, 0, j))
        for k in range(m.path_start[s], m.path_start[s + 1]):
            ij = m.path[k] * n + j
            J = load_column(columns, n, 0, m.path[k])
            add_entry(b.Hqq, ij, dot6(J, of_R))
            add_entry(b.Hqv, ij, dot6(J, of_J))


@kernel
def _add_controls(m, s, level, laws, i, share, R, p, columns, work, of_controls):
    """Add to B and Hqu of the controls of all laws (`of_controls`), one after the other."""
    align_stack(work)
    n, law, all_of_them = m.counts[0], i // 3, laws.integers[CONTROLS]
    first, last = entry(laws, FIRST_CONTROL, law), entry(laws, FIRST_CONTROL, law + 1)
    h = OF_U + 6 * (last - first) + 108
    for j in range(first, last):
        f = to_world(R, p, _six(laws, i, OF_U + 6 * (j - first), share, work))
        g = f
        if level >= SECOND:
            g = to_world(R, p, _six(laws, i, h + 6 * (j - first), share, work))
        for t in range(m.path_start[s], m.path_start[s + 1]):
            o = m.path[t] * all_of_them + j
            J = load_column(columns, n, 0, m.path[t])
            store(of_controls, o, load(of_controls, o) - dot6(J, f))
            if level >= SECOND:
                W, o = load_column(columns, n, 18, m.path[t]), o + n * all_of_them
                store(of_controls, o, load(of_controls, o) + dot6(W, f) + dot6(J, g))


@kernel
def add_law(m, laws, law, share, level, s, R, p, mu, controls, seg, columns, extra, A, E, work, b, of_controls):
    """Add a law's load at the end of segment s; A, E (36) and work are scratch."""
    align_stack(A)
    i = 3 * law + (0 if level < FIRST else (1 if level < SECOND else 2))
    eta, virtual = in_axes(R, p, load6(seg, END + TWIST)), in_axes(R, p, mu)
    _run(laws, i, R, p, eta, virtual, controls, work)
    add_at(seg, COMPOSITE + FORCE, to_world(R, p, _six(laws, i, 0, share, work)))
    if level < FIRST:
        return
    second = OF_U + 6 * (entry(laws, FIRST_CONTROL, law + 1) - entry(laws, FIRST_CONTROL, law))
    rates = entry(laws, RATES, law) == 1
    _block(laws, i, OF_X, share, work, A)
    if level >= SECOND:
        add_at(seg, COMPOSITE + LOAD_FORCE, to_world(R, p, transposed_times6(A, 0, virtual)))
    carry(R, p, A, extra, P)
    if rates:
        _block(laws, i, OF_D, share, work, A)
        if level >= SECOND:
            add_at(seg, COMPOSITE + RATE_FORCE, to_world(R, p, transposed_times6(A, 0, virtual)))
        carry(R, p, A, extra, N6)
    if level >= SECOND:
        _block(laws, i, second, share, work, A)
        carry(R, p, A, extra, C)
        if rates:
            _block(laws, i, second + 72, share, work, A)
            carry(R, p, A, extra, B6)
            _block(laws, i, second + 36, share, work, A)
            E[:36] = 0.0
            carry(R, p, A, E, 0)
            _add_mixed(m, s, columns, E, b)
    if of_controls.shape[0] > 0:
        _add_controls(m, s, level, laws, i, share, R, p, columns, work, of_controls)


# --------------------------------------------------------------------------------------------
# External loads at the ends of segments, added to the composites of the backward pass.
#
# Loads add 6x6 matrices in the world frame to derivatives and Hessians, summed towards the base beside the composites
# of rigid bodies: P and C for those that depend on the pose, N and B for those that depend on the twist, M, N and B for
# added mass (above).  The wrench e = P'mu is one of the composites.


class LoadScratch(NamedTuple):
    """Scratch of `add_loads`: two 6x6 matrices, and registers of laws."""

    M: np.ndarray = lanes(36)
    A: np.ndarray = lanes(36)
    registers: np.ndarray = lanes(Size("registers", f"external.laws.integers[{REGISTERS}]"))


_slice_load_scratch, _ = slicing(LoadScratch)


@kernel
def add_loads(m, external, controls, wrenches, s, level, seg, columns, extra, work, b, of_controls):
    """Add the loads at the end of segment s; the columns reach up to it.

    controls: of laws; wrenches: (6 each) in the order in which they were added; work: `LoadScratch`; b: `Blocks`;
    of_controls: B and Hqu of laws, or empty where they are not needed."""
    align_stack(seg)
    R, p, mu = load9(seg, END), load3(seg, END + 9), load6(seg, END + VIRTUAL)
    (M, A, registers), _ = _slice_load_scratch(external, work)
    z = splat(seg, 0.0)
    none = (z, z, z, z, z, z)
    for k in range(external.start[s], external.start[s + 1]):
        kind, parameters = external.kind[k], external.parameters[k]
        if kind == CONTACT:
            add_contact(parameters, level, R, p, mu, seg, A, extra)
        elif kind == DRAG:
            add_drag(parameters, level, R, p, mu, seg, M, A, extra)
        elif kind == LAW:
            law, share = int(parameters[0]), parameters[1]
            add_law(
                m, external.laws, law, share, level, s, R, p, mu, controls, seg, columns, extra, A, M, registers, b,
                of_controls,
            )  # fmt: skip
        elif kind <= DEAD or kind == CARRIED:
            force, point = (z + parameters[0], z + parameters[1], z + parameters[2]), p
            moment = (z + parameters[3], z + parameters[4], z + parameters[5])
            if kind == WRENCH or kind == FOLLOWER:
                i = 6 * int(parameters[0])
                point = add_rotated(p, R, (z + parameters[1], z + parameters[2], z + parameters[3]))
                share = z + parameters[4]
                moment, force = scale3(load3(wrenches, i), share), scale3(load3(wrenches, i + 3), share)
            if kind == FOLLOWER or kind == CARRIED:
                moment, force = rotate(R, moment), rotate(R, force)
            add_at(seg, COMPOSITE + FORCE, wrench_about_origin(point, scale3(moment, -1.0), scale3(force, -1.0)))
            if kind != FOLLOWER and kind != CARRIED and level >= FIRST:
                add_pose_terms(level, point, moment, force, none, none, mu, seg, A, extra)
        else:
            add_added_mass(parameters, m.gravity, level, R, p, mu, seg, M, A, extra)


@kernel
def add_loads_to_parent(m, external, s, loads):
    """Add the sums of the loads of a subtree to its parent's."""
    if m.parent[s] >= 0 and external.loaded[s] == 1:
        accumulate(loads, m.parent[s] * LOADS, s * LOADS, LOADS)


# --------------------------------------------------------------------------------------------
# Force of a contact with damping and friction, and its derivatives, by positions, velocities and virtual velocities.
#
# With the depth D of a relative position x, its gradient g, the relative velocity y where the bodies touch, and the
# force F(D) of `contacts`,
#
#     f = - F (1 + c a) g - mu F (y - a g) / N,  a = g.y,  N = sqrt(y.y - a^2 + s^2)  [Hunt and Crossley]
#
# with c the damping, mu the friction and s the speed of slip, derivatives are those of the power of a virtual velocity,
#
#     L = v.f = - F p,      p = (1 + c a) b + mu (h - a b) / N,      b = g.v,      h = y.v
#
# a function of D, a, b, h and e = y.y: with their gradients in (x, y, v) as rows of G, and derivatives l, C of L by
# them,
#
#     L' = G'l      L'' = G'C G + sum of l_k times second derivatives
#
# A place of contact moves with a lever nu(x) along the normal, by the sums W and U of angular velocities and virtual
# ones (`contacts.ARM`): then y + W x nu and v + U x nu stand for y and v in h and e, and (W, U) are variables, too;
# L_U = nu x f is the moment.  With the columns A, B of their derivatives by all variables, and m = l_h v + 2 l_e y,
#
#     l_h h'' + l_e e'' = l_h (A'B + B'A) + 2 l_e A'A + m.(W x nu)'' + l_h y.(U x nu)''

VARIABLES = 15  # x, y, v, W, U, three each; the first nine without lever
GRADIENT, CURVATURE, ROWS, PRODUCTS, COEFFICIENTS, MOVED = 0, 15, 240, 315, 390, 415
"""L' (15), L'' (15, 15), G (5, 15), C G (5, 15), C (25), A and B (15, 3)."""
PAIR_LAW = 505
OF_Y, OF_V, OF_W, OF_U_TURN = 3, 6, 9, 12
"""Places of y, v, W and U among the variables."""


@kernel
def _store_coefficients(c, depth, a, b, h, e, C):
    """C (25); returns l (5)."""
    align_stack(C)
    F, dF, ddF = contact_law(depth, c[STIFFNESS], c[EXPONENT], c[SMOOTHING])
    damping, mu = c[DAMPING], c[FRICTION]
    i = 1.0 / sqrt(e - a * a + c[SLIP] * c[SLIP])
    side, cube = h - a * b, i * i * i
    fifth = cube * i * i
    p = (1.0 + damping * a) * b + mu * side * i
    of_a, of_b = damping * b + mu * (side * a * cube - b * i), 1.0 + damping * a - mu * a * i
    of_h, of_e = mu * i, -0.5 * mu * side * cube
    C[:25] = 0.0
    store(C, 0, -ddF * p)
    store_pair(C, 5, 0, 1, -dF * of_a)
    store_pair(C, 5, 0, 2, -dF * of_b)
    store_pair(C, 5, 0, 3, -dF * of_h)
    store_pair(C, 5, 0, 4, -dF * of_e)
    store(C, 6, -F * mu * ((side - 2.0 * a * b) * cube + 3.0 * side * a * a * fifth))
    store_pair(C, 5, 1, 2, -F * (damping - mu * (i + a * a * cube)))
    store_pair(C, 5, 1, 3, -F * mu * a * cube)
    store_pair(C, 5, 1, 4, -F * mu * (0.5 * b * cube - 1.5 * side * a * fifth))
    store_pair(C, 5, 2, 4, -0.5 * F * mu * a * cube)
    store_pair(C, 5, 3, 4, 0.5 * F * mu * cube)
    store(C, 24, -0.75 * F * mu * side * fifth)
    return -dF * p, -F * of_a, -F * of_b, -F * of_h, -F * of_e


@helper
def _third(side, inverse, u, T, w):
    """Third derivative of the depth along w."""
    return combination(-side * inverse * inverse * dot3(u, w), T, -side * inverse * inverse, u, symmetric_times(T, w))


@kernel
def _add_block(X, row, column, S, x):
    """X (15, 15) += x S at (row, column), and its transpose unless that is on the diagonal; S = xx xy xz yy yz zz."""
    align_stack(X)
    for i in range(3):
        for j in range(3):
            s = entry3((entry3((S[0], S[1], S[2]), j), entry3((S[1], S[3], S[4]), j), entry3((S[2], S[4], S[5]), j)), i)
            add_entry(X, VARIABLES * (row + i) + column + j, x * s)
            if row != column:
                add_entry(X, VARIABLES * (column + j) + row + i, x * s)


@helper
def _unit3(like, i):
    """Direction i of three."""
    one, z = splat(like, 1.0), splat(like, 0.0)
    return (one if i == 0 else z, one if i == 1 else z, one if i == 2 else z)


@helper
def arm_along(moved, side, inverse, T, e):
    """Derivative of the lever along e."""
    return e if moved else scale3(symmetric_times(T, e), side * inverse)


@kernel
def _store_moved(moved, side, inverse, T, nu, W, U, A, B):
    """Store the derivatives of y + W x nu and v + U x nu by variable i in rows i of A and B (15, 3)."""
    align_stack(A)
    A[:45], B[:45] = 0.0, 0.0
    for i in range(3):
        e = _unit3(A, i)
        along, across = arm_along(moved, side, inverse, T, e), cross(e, nu)
        store3(A, 3 * i, cross(W, along))
        store3(B, 3 * i, cross(U, along))
        store3(A, 3 * (OF_Y + i), e)
        store3(B, 3 * (OF_V + i), e)
        store3(A, 3 * (OF_W + i), across)
        store3(B, 3 * (OF_U_TURN + i), across)


@kernel
def _add_moved(moved, side, inverse, u, T, W, U, m, k, h, e, A, B, X):
    """Add l_h h'' + l_e e'' to X (15, 15), for a lever, with m as above, k = l_h y, h = l_h and e = l_e."""
    align_stack(X)
    for i in range(VARIABLES):
        a, b = load3(A, 3 * i), load3(B, 3 * i)
        left = add_scaled3(scale3(b, h), 2.0 * e, a)
        for j in range(VARIABLES):
            add_entry(X, VARIABLES * i + j, dot3(left, load3(A, 3 * j)) + h * dot3(a, load3(B, 3 * j)))
    for j in range(3):
        along = arm_along(moved, side, inverse, T, _unit3(X, j))
        of_W, of_U = cross(along, m), cross(along, k)
        for i in range(3):
            for row, x in ((OF_W + i, entry3(of_W, i)), (OF_U_TURN + i, entry3(of_U, i))):
                add_entry(X, VARIABLES * row + j, x)
                add_entry(X, VARIABLES * j + row, x)
    if not moved:
        _add_block(X, 0, 0, _third(side, inverse, u, T, add3(cross(m, W), cross(k, U))), 1.0)


@kernel
def store_law(level, c, x, inverse, u, T, depth, y, v, W, U, work):
    """Store L' and, where the level needs it, L'' at a relative position, velocity y and virtual velocity v of the
    centres, with the sums W and U, for a distance with 1/d, u and T; work: PAIR_LAW."""
    align_stack(work)
    X, G, CG, C = work[CURVATURE:], work[ROWS:], work[PRODUCTS:], work[COEFFICIENTS:]
    A, B = work[MOVED:], work[MOVED + 45 :]
    turning, moved = c[ARM] != NO_ARM, c[ARM] == ALONG_CENTRES
    count = VARIABLES if turning else OF_W
    side, z, one = c[SIDE], splat(work, 0.0), splat(work, 1.0)
    unit = (one, z, z, one, z, one)
    g = scale3(u, z + side)
    Hy, Hv = scale3(symmetric_times(T, y), side * inverse), scale3(symmetric_times(T, v), side * inverse)
    nu, centres = x if moved else g, (y, v)
    if turning:
        y, v = add3(y, cross(W, nu)), add3(v, cross(U, nu))
        _store_moved(moved, side, inverse, T, nu, W, U, A, B)
    l = _store_coefficients(c, depth, dot3(g, y), dot3(g, v), dot3(y, v), dot3(y, y), C)
    G[: 5 * VARIABLES] = 0.0
    store3(G, 0, g)
    store3(G, VARIABLES, Hy)
    store3(G, VARIABLES + OF_Y, g)
    store3(G, 2 * VARIABLES, Hv)
    store3(G, 2 * VARIABLES + OF_V, g)
    if turning:
        for j in range(VARIABLES):
            a, b = load3(A, 3 * j), load3(B, 3 * j)
            store(G, 3 * VARIABLES + j, dot3(a, v) + dot3(b, y))
            store(G, 4 * VARIABLES + j, 2.0 * dot3(a, y))
    else:
        store3(G, 3 * VARIABLES + OF_Y, v)
        store3(G, 3 * VARIABLES + OF_V, y)
        store3(G, 4 * VARIABLES + OF_Y, scale3(y, z + 2.0))
    for j in range(count):
        s = l[0] * load(G, j) + l[1] * load(G, VARIABLES + j) + l[2] * load(G, 2 * VARIABLES + j)
        store(work, GRADIENT + j, s + l[3] * load(G, 3 * VARIABLES + j) + l[4] * load(G, 4 * VARIABLES + j))
    if level < FIRST:
        return
    for j in range(count):
        r = (
            load(G, j), load(G, VARIABLES + j), load(G, 2 * VARIABLES + j), load(G, 3 * VARIABLES + j),
            load(G, 4 * VARIABLES + j),
        )  # fmt: skip
        for i in range(5):
            s = load(C, 5 * i) * r[0] + load(C, 5 * i + 1) * r[1] + load(C, 5 * i + 2) * r[2]
            store(CG, VARIABLES * i + j, s + load(C, 5 * i + 3) * r[3] + load(C, 5 * i + 4) * r[4])
    for i in range(count):
        for j in range(count):
            s = load(G, i) * load(CG, j)
            for k in range(1, 5):
                s = s + load(G, VARIABLES * k + i) * load(CG, VARIABLES * k + j)
            store(X, VARIABLES * i + j, s)
    _add_block(X, 0, 0, T, l[0] * side * inverse)
    _add_block(X, 0, 0, _third(side, inverse, u, T, centres[0]), l[1])
    _add_block(X, 0, 0, _third(side, inverse, u, T, centres[1]), l[2])
    _add_block(X, 0, OF_Y, T, l[1] * side * inverse)
    _add_block(X, 0, OF_V, T, l[2] * side * inverse)
    if turning:
        m, k = add_scaled3(scale3(v, l[3]), 2.0 * l[4], y), scale3(y, l[3])
        _add_moved(moved, side, inverse, u, T, W, U, m, k, l[3], l[4], A, B, X)
    else:
        _add_block(X, OF_Y, OF_V, unit, l[3])
        _add_block(X, OF_Y, OF_Y, unit, 2.0 * l[4])


@helper
def law_force(work):
    """f = dL/dv."""
    return load3(work, GRADIENT + OF_V)


# --------------------------------------------------------------------------------------------
# Contact between points of two links, or with friction and damping: forces of relative positions and velocities.
#
# With the columns X = (J, T, V) of the relative position x, velocity y and virtual velocity v of points A and B,
#
#     J = dx/dq = dy/dv      T = dy/dq      V = dv/dq      L = v.f(x, y) as above,
#
# the terms of r = -J'f and of the Hessian of w'r = -L are
#
#     dr/dq  - J'(f_x J + f_y T)      dr/dv  - J'f_y J      Hqq  - X'L''X      Hqv  - X'L''_y J      Hvv  - J'L''_yy J
#
# and those of the second derivatives of x, y and v: f as a world-fixed force on either side (`segment_loads`), -L_x and
# -L_y as rows of a closed chain that act there (`closure_kernel`).  If no lane is in contact, all of it is skipped.
#
# Where bodies touch beside their centres, W and U are among the variables, with columns dW/dq, dU/dq, and dW/dv beside
# J; L_U is a world-fixed moment on either side, -L_W one of the rows.

RATE, VIRTUAL_RATE, SPIN, VIRTUAL_SPIN, POINT_NUMBERS = 3, 6, 9, 12, 15
"""Numbers of a point: position, velocity, virtual velocity, angular velocity, virtual one (3 each)."""
# numbers of a coordinate: J, T, V; of A and B how it moves the point, and the rate of that; the same times L' and L''
OF_SIDES, RIGHT, SIDE_RATES = 9, 21, 42
# with a lever: dW/dq and dU/dq; dW/dv; of A and B the rate of how it turns the side, and that; the same times L', L''
TURN, SPIN_COLUMN, OF_TURNS, RIGHT_TURN, RIGHT_TURNS, TURN_RATES = 51, 57, 60, 72, 78, 84
RECORD = 90


@kernel
def _store_point(s, place, segments, x):
    """Store the point of segment s at a position in its frame, or in the world."""
    align_stack(x)
    z = splat(x, 0.0)
    place, still = (z + place[0], z + place[1], z + place[2]), (z, z, z)
    store3(x, 0, place)
    for o in range(RATE, POINT_NUMBERS, 3):
        store3(x, o, still)
    if s >= 0:
        end = segments[s * SEGMENT + END :]
        p = add_rotated(load3(end, 9), load9(end, 0), place)
        eta, mu = load6(end, TWIST), load6(end, VIRTUAL)
        store3(x, 0, p)
        store3(x, RATE, add_cross(linear(eta), angular(eta), p))
        store3(x, VIRTUAL_RATE, add_cross(linear(mu), angular(mu), p))
        store3(x, SPIN, angular(eta))
        store3(x, VIRTUAL_SPIN, angular(mu))


@helper
def _apart(x, o):
    """Difference of three numbers of the points."""
    return add_scaled3(load3(x, o), -1.0, load3(x, POINT_NUMBERS + o))


@helper
def _sum_of_spins(c, x, o):
    """W or U of two points, at their numbers o."""
    return add_scaled3(scale3(load3(x, o), c[SPIN_A]), c[SPIN_B], load3(x, POINT_NUMBERS + o))


@helper
def _share(c, side):
    """Of the angular velocity of a side in W."""
    return c[SPIN_A] if side == 0 else c[SPIN_B]


@kernel
def _add_loads(c, level, s, side, point, law, segments, loads, A):
    """Add the force and moment on segment s, and the wrenches that the curvature of coordinates multiplies."""
    align_stack(A)
    seg, extra = segments[s * SEGMENT : (s + 1) * SEGMENT], loads[s * LOADS : (s + 1) * LOADS]
    sign, turning, share = 1.0 - 2.0 * side, c[ARM] != NO_ARM, _share(c, side)
    z, p, f = splat(A, 0.0), load3(point, 0), scale3(law_force(law), sign)
    none, moment = (z, z, z, z, z, z), (z, z, z)
    if turning:
        moment = scale3(load3(law, GRADIENT + OF_U_TURN), share)
    add_at(seg, COMPOSITE + FORCE, wrench_about_origin(p, scale3(moment, -1.0), scale3(f, -1.0)))
    if level >= FIRST:
        add_pose_terms(level, p, moment, f, none, none, load6(seg, END + VIRTUAL), seg, A, extra)
    if level >= SECOND:
        of_x, of_y = scale3(load3(law, GRADIENT), -sign), scale3(load3(law, GRADIENT + 3), -sign)
        of_turn, turned = (z, z, z), cross(load3(point, RATE), of_y)
        if turning:
            of_turn = scale3(load3(law, GRADIENT + OF_W), -share)
            turned = add_cross(turned, load3(point, SPIN), of_turn)
        add_at(seg, COMPOSITE + RATE_FORCE, wrench_about_origin(p, of_turn, of_y))
        add_at(seg, COMPOSITE + LOAD_FORCE, wrench_about_origin(p, turned, of_x))


@kernel
def _node_columns(m, s, families, segments, columns):
    """Columns of the families of all coordinates at the end of segment s, whose own are sums along the path."""
    align_stack(columns)
    columns[: FAMILIES * m.counts[0]] = 0.0
    while s >= 0:
        add_families(m, s, 1.0, families, segments[s * SEGMENT : (s + 1) * SEGMENT], columns)
        s = m.parent[s]


@kernel
def _add_turns(share, side, point, law, S, R, W, x):
    """Store dW/dq, dU/dq and dW/dv of a coordinate x that moves a side, and add the terms of this side alone."""
    align_stack(x)
    w, o, half = angular(S), OF_TURNS + 6 * side, splat(x, 0.5)
    turn = cross(w, load3(point, SPIN))
    store3(x, TURN, add_scaled3(load3(x, TURN), share, add3(angular(R), turn)))
    virtual = add_cross(angular(W), w, load3(point, VIRTUAL_SPIN))
    store3(x, TURN + 3, add_scaled3(load3(x, TURN + 3), share, virtual))
    store3(x, SPIN_COLUMN, add_scaled3(load3(x, SPIN_COLUMN), share, w))
    store3(x, o, add_scaled3(angular(R), half, turn))
    store3(x, o + 3, w)
    store3(x, RIGHT_TURNS + 3 * side, cross(scale3(load3(law, GRADIENT + OF_W), -share), w))


@kernel
def _add_side(m, c, s, side, point, law, columns, records):
    """Store J, T, V of the coordinates that move a side, and add the terms of this side alone."""
    align_stack(records)
    n, o, sign, half = m.counts[0], OF_SIDES + 6 * side, splat(records, 1.0 - 2.0 * side), splat(records, 0.5)
    p, rate, virtual = load3(point, 0), load3(point, RATE), load3(point, VIRTUAL_RATE)
    of_x, of_y = scale3(load3(law, GRADIENT), -0.5 * sign), scale3(load3(law, GRADIENT + 3), -sign)
    for t in range(m.path_start[s], m.path_start[s + 1]):
        j = m.path[t]
        x = records[RECORD * j : RECORD * (j + 1)]
        S, R, W = load_column(columns, n, 0, j), load_column(columns, n, 6, j), load_column(columns, n, 18, j)
        w = angular(S)
        J, turn = add_cross(linear(S), w, p), cross(w, rate)
        T = add_cross(linear(R), angular(R), p)
        V = add_cross(add_cross(linear(W), angular(W), p), w, virtual)
        store3(x, 0, add_scaled3(load3(x, 0), sign, J))
        store3(x, 3, add_scaled3(load3(x, 3), sign, add3(T, turn)))
        store3(x, 6, add_scaled3(load3(x, 6), sign, V))
        store3(x, o, J)
        store3(x, o + 3, add_scaled3(T, half, turn))
        store3(x, RIGHT + o, cross(of_x, w))
        store3(x, RIGHT + o + 3, cross(of_y, w))
        if c[ARM] != NO_ARM:
            _add_turns(splat(records, _share(c, side)), side, point, law, S, R, W, x)


@kernel
def _complete(turning, law, x):
    """Store -L''X / 2 and -L''_y J of a coordinate."""
    align_stack(law)
    for i in range(VARIABLES if turning else OF_W):
        y, half = splat(law, 0.0), splat(law, 0.0)
        for j in range(3):
            o = CURVATURE + VARIABLES * i + j
            y = fma(load(law, o + 3), load(x, j), y)
            half = fma(load(law, o), load(x, j), half)
            half = fma(load(law, o + 3), load(x, 3 + j), half)
            half = fma(load(law, o + 6), load(x, 6 + j), half)
            if turning:
                y = fma(load(law, o + OF_W), load(x, SPIN_COLUMN + j), y)
                half = fma(load(law, o + OF_W), load(x, TURN + j), half)
                half = fma(load(law, o + OF_U_TURN), load(x, TURN + 3 + j), half)
        store(x, RIGHT + i if i < OF_W else RIGHT_TURN + i - OF_W, -0.5 * half)
        store(x, SIDE_RATES + i if i < OF_W else TURN_RATES + i - OF_W, -1.0 * y)


@helper
def _product(x, o, y, p, count, sum):
    """sum + x[o ...].y[p ...], of `count` numbers."""
    for k in range(count):
        sum = fma(load(x, o + k), load(y, p + k), sum)
    return sum


@kernel
def _add_first(n, path, first, last, of_rates, turning, records, b):
    """Add to dr/dq and, if forces depend on velocities, to dr/dv."""
    align_stack(records)
    for s in range(first, last):
        x, i = records[RECORD * path[s] :], path[s]
        for t in range(first, last):
            y, ij = records[RECORD * path[t] :], i * n + path[t]
            z = splat(records, 0.0)
            store(b.dq, ij, fma(2.0, _product(x, 0, y, RIGHT + 6, 3, z), load(b.dq, ij)))
            if of_rates:
                store(b.dv, ij, _product(x, 0, y, SIDE_RATES + 6, 3, load(b.dv, ij)))
            if turning:
                of_q = _product(x, SPIN_COLUMN, y, RIGHT_TURN + 3, 3, z)
                store(b.dq, ij, fma(2.0, of_q, load(b.dq, ij)))
                store(b.dv, ij, _product(x, SPIN_COLUMN, y, TURN_RATES + 3, 3, load(b.dv, ij)))


@kernel
def _add_second_turns(x, y, ij, b):
    """Add the terms of W and U to entry ij of the Hessian, for records x and y."""
    align_stack(x)
    qq = _product(x, TURN, y, RIGHT_TURN, 6, load(b.Hqq, ij))
    qv = _product(x, TURN, y, TURN_RATES, 6, load(b.Hqv, ij))
    for side in range(2):
        o, right = OF_TURNS + 6 * side, RIGHT_TURNS + 3 * side
        qq = _product(x, o, y, right, 3, qq)
        qv = _product(x, right, y, o + 3, 3, qv)
    store(b.Hqq, ij, qq)
    store(b.Hqv, ij, qv)
    vv = _product(x, SPIN_COLUMN, y, TURN_RATES, 3, splat(x, 0.0))
    store(b.Hvv, ij, fma(0.5, vv, load(b.Hvv, ij)))


@kernel
def _add_second(n, path, first, last, of_rates, turning, records, b):
    """Add to the Hessian: half of Hqq and Hvv, which are then added to their transposes, and Hqv."""
    align_stack(records)
    for s in range(first, last):
        x, i = records[RECORD * path[s] :], path[s]
        for t in range(first, last):
            y, ij = records[RECORD * path[t] :], i * n + path[t]
            store(b.Hqq, ij, _product(x, 0, y, RIGHT, OF_SIDES + 12, load(b.Hqq, ij)))
            if of_rates:
                z = splat(records, 0.0)
                qv = _product(x, 0, y, SIDE_RATES, 9, load(b.Hqv, ij))
                for o in (OF_SIDES, OF_SIDES + 6):
                    qv = _product(x, RIGHT + o + 3, y, o, 3, qv)
                store(b.Hqv, ij, qv)
                store(b.Hvv, ij, fma(0.5, _product(x, 0, y, SIDE_RATES + 3, 3, z), load(b.Hvv, ij)))
            if turning:
                _add_second_turns(x, y, ij, b)


class PairScratch(NamedTuple):
    """Scratch of `add_contact_pairs`."""

    points: np.ndarray = lanes(2 * POINT_NUMBERS)
    law: np.ndarray = lanes(PAIR_LAW)
    A: np.ndarray = lanes(36)
    records: np.ndarray = lanes(n * RECORD)
    columns: np.ndarray = lanes(n * FAMILIES)


_slice_pair_scratch, _ = slicing(PairScratch)


@shared_kernel
def add_contact_pairs(m, k, level, segments, loads, work, b):
    """Add the contacts to composites, loads and `Blocks`, between the forward and the backward pass; work:
    `PairScratch`."""
    n = m.counts[0]
    (points, law, A, records, columns), _ = _slice_pair_scratch(m, work)
    families = 4 if level >= SECOND else 3
    for i in range(k.numbers.shape[0]):
        c = k.numbers[i]
        _store_point(touching_segment(k, i, 0), c[PLACE:], segments, points)
        _store_point(touching_segment(k, i, 1), c[POINT:], segments, points[POINT_NUMBERS:])
        x = _apart(points, 0)
        d, inverse, u, T = distance(c, x)
        depth = c[SIDE] * d + c[OFFSET]
        if all_less(depth, -c[SMOOTHING]):
            continue
        W, U = _sum_of_spins(c, points, SPIN), _sum_of_spins(c, points, VIRTUAL_SPIN)
        y, v = _apart(points, RATE), _apart(points, VIRTUAL_RATE)
        store_law(level, c, x, inverse, u, T, depth, y, v, W, U, law)
        turning = c[ARM] != NO_ARM
        first, last = touching_path(k, i)
        for t in range(first, last):
            records[RECORD * k.integers[t] : RECORD * (k.integers[t] + 1)] = 0.0
        for side in range(2):
            s, point = touching_segment(k, i, side), points[POINT_NUMBERS * side :]
            if s >= 0:
                _add_loads(c, level, s, side, point, law, segments, loads, A)
            if s >= 0 and level >= FIRST:
                _node_columns(m, s, families, segments, columns)
                _add_side(m, c, s, side, point, law, columns, records)
        if level < FIRST:
            continue
        for t in range(first, last):
            _complete(turning, law, records[RECORD * k.integers[t] : RECORD * (k.integers[t] + 1)])
        of_rates = c[DAMPING] > 0.0 or c[FRICTION] > 0.0
        _add_first(n, k.integers, first, last, of_rates, turning, records, b)
        if level >= SECOND:
            _add_second(n, k.integers, first, last, of_rates, turning, records, b)
