"""Loads on the nodes of segments: loads of poses, contact with fixed objects, loads of fluids, and users' laws."""

from dynamics.rods.kinematics.strains import load_column
from dynamics.rods.loads.composites import add_at, add_moved, store_block, times6, transposed_times6, turn
from dynamics.rods.loads.contacts import (
    EXPONENT,
    OFFSET,
    PLACE,
    POINT,
    SIDE,
    SMOOTHING,
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
    TWIST,
    VIRTUAL,
    WRENCH,
    C,
    LoadArrays,
    P,
    entry,
)
from dynamics.simd import align_stack, helper, kernel, load, shared_kernel, splat, store
from dynamics.simd.functions import all_less
from dynamics.spatial.spatial import (
    accumulate,
    add6,
    add_cross,
    add_rotated,
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
            store(b.Hqq, ij, load(b.Hqq, ij) + dot6(J, of_R))
            store(b.Hqv, ij, load(b.Hqv, ij) + dot6(J, of_J))


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


@kernel
def add_loads(m, external, controls, wrenches, s, level, seg, columns, extra, work, b, of_controls):
    """Add the loads at the end of segment s; the columns reach up to it.

    controls: of laws; wrenches: (6 each) in the order in which they were added; work: `load_work`; b: `Blocks`;
    of_controls: B and Hqu of laws, or empty where they are not needed."""
    align_stack(seg)
    R, p, mu = load9(seg, END), load3(seg, END + 9), load6(seg, END + VIRTUAL)
    M, A = work[:36], work[36:72]
    z = splat(seg, 0.0)
    none = (z, z, z, z, z, z)
    for k in range(external.start[s], external.start[s + 1]):
        kind, parameters = external.kind[k], external.parameters[k]
        if kind == CONTACT:
            add_contact(parameters, level, R, p, mu, seg, A, extra)
        elif kind == DRAG:
            add_drag(parameters, level, R, p, mu, seg, M, A, extra)
        elif kind == LAW:
            law, share, registers = int(parameters[0]), parameters[1], work[72:]
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


def load_work(external: LoadArrays) -> int:
    """Scratch size of `add_loads`."""
    return 72 + int(external.laws.integers[REGISTERS])


@kernel
def add_loads_to_parent(m, external, s, loads):
    """Add the sums of the loads of a subtree to its parent's."""
    if m.parent[s] >= 0 and external.loaded[s] == 1:
        accumulate(loads, m.parent[s] * LOADS, s * LOADS, LOADS)
