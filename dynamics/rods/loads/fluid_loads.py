"""Loads of a fluid on a node: drag and lift, and added mass.

    drag          F = |v| D eta                           N = D (eta g' + |v| 1),   g = [0; v / |v|]
                  B = d g' + g d' + (d.eta) |v|'',        d = D'mu
    added mass    F = M eta' + eta x* M eta,  as of a rigid body, with the acceleration without gravity

F resists: it is added to the forces of inertia.  D and M are matrices (6, 6) in axes of the node, M symmetric.  As the
acceleration of the kernels holds gravity, M g is taken off again, a load of the pose.
"""

from dynamics.rods.loads.composites import add_at
from dynamics.rods.loads.load_laws import speed_law
from dynamics.rods.loads.matrices import add_moved, times6, transposed_times6, turn
from dynamics.rods.loads.pose_loads import entry3, wrench_about_origin
from dynamics.rods.model.arrays import (
    ACCELERATION,
    COMPOSITE,
    DOUBLE_FORCE,
    END,
    FIRST,
    FORCE,
    LOAD_FORCE,
    RATE_FORCE,
    SECOND,
    TWIST,
)
from dynamics.rods.model.load_arrays import B6, M6, N6, C, P
from dynamics.simd import align_stack, helper, kernel, load, splat, store
from dynamics.spatial import (
    add6,
    add_cross,
    angular,
    cross,
    cross_force,
    cross_motion,
    dot3,
    dot6,
    join,
    linear,
    load6,
    rotate,
    rotate_back,
    scale6,
    store6,
    sub6,
)


@helper
def in_axes(R, p, x):
    """A twist of the world frame in the axes of a frame at (R, p)."""
    w = angular(x)
    return join(rotate_back(R, w), rotate_back(R, add_cross(linear(x), w, p)))


@helper
def to_world(R, p, f):
    """A wrench in axes of a frame at (R, p), about the origin of the world."""
    return wrench_about_origin(p, rotate(R, angular(f)), rotate(R, linear(f)))


@helper
def _entry6(x, i):
    """Entry i of six numbers."""
    return entry3((x[0], x[1], x[2]), i) if i < 3 else entry3((x[3], x[4], x[5]), i - 3)


@kernel
def load_matrix(parameters, A):
    """The parameters of a load as a matrix in A."""
    align_stack(A)
    for i in range(36):
        store(A, i, splat(A, parameters[i]))


@kernel
def carry(R, p, A, extra, o):
    """Add the matrix A, in axes of the node, to the sum at o in the world frame; A is spent."""
    align_stack(A)
    turn(R, A)
    add_moved(p, A, extra, o)


# ------------------------------------------------------------------------------------------------ drag and lift
@kernel
def add_drag(parameters, level, R, p, mu, seg, D, A, extra):
    """Drag and lift at the node; D and A are scratch (36)."""
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
    """A = sign (x x* M - M x x) + (y -> y x* momentum)."""
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
    """P, C and e of the load -M g, where g (3), in axes of the node, turns against it."""
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
    """Added mass at the node; M and A are scratch (36)."""
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
