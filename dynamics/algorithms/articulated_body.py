"""The articulated-body algorithm (ABA) for forward and hybrid dynamics, in the world frame.

A joint of several degrees of freedom is eliminated one degree of freedom at a time, last first: with the articulated
inertia A and bias force p of the moving body,

    U = A S_k,   D = S_k.U + armature_k,   u = tau_k - S_k.p,   A <- A - U U'/D,   p <- p + U u/D

and the joint's bias acceleration c = v_p x (S qd) enters once, when A and p pass to the parent: p <- p + A c.
So one recursion covers every joint type.                                          [Featherstone 2008, table 7.1]

Hybrid dynamics is the same recursion.  A degree of freedom whose acceleration x is prescribed is not eliminated:
A is unchanged, p <- p + U x, and in the forward sweep its torque is U.a + S_k.p + D x.          [Kim 2012, table 4]
`prescribed` (nv) is nonzero where the acceleration is given, or None.
"""

from dynamics.algorithms.kinematics import (
    ACCELERATION,
    BODY,
    COLUMN,
    DOF,
    FORCE,
    INERTIA,
    MOMENT,
    MOMENTA,
    MOMENTUM,
    VELOCITY,
    forward_pass,
)
from dynamics.algorithms.loads import add_loads
from dynamics.simd import align_stack, fma, fnma, helper, kernel, load, shared_kernel, splat, store
from dynamics.spatial.spatial import (
    add6,
    add_dot6,
    add_rotated,
    add_scaled6,
    add_symmetric,
    angular,
    cross_force,
    cross_motion,
    dot6,
    join,
    linear,
    load3,
    load6,
    load9,
    rotate,
    scale6,
    store6,
    store9,
    sub6,
)

# articulated inertia [[E, F], [F', G]] and bias force per body; the elimination vectors per degree of freedom
TOP, COUPLING, BOTTOM, BIAS_FORCE = 0, 6, 15, 21
ARTICULATED = 27
U_VECTOR, D_INVERSE, U_TORQUE = 0, 6, 7
ELIMINATION = 8


@helper
def _articulated_times(E, F, G, a):
    """[[E, F], [F', G]] a"""
    w, v = angular(a), linear(a)
    n = add_rotated(add_symmetric((w[0] * 0.0, w[0] * 0.0, w[0] * 0.0), E, w), F, v)
    f = add_symmetric(rotate((F[0], F[3], F[6], F[1], F[4], F[7], F[2], F[5], F[8]), w), G, v)
    return join(n, f)


@helper
def _eliminate(E, F, G, U, d):
    """[[E, F], [F', G]] - d U U'"""
    V = scale6(U, d)
    E = (
        fnma(V[0], U[0], E[0]), fnma(V[0], U[1], E[1]), fnma(V[0], U[2], E[2]), fnma(V[1], U[1], E[3]),
        fnma(V[1], U[2], E[4]), fnma(V[2], U[2], E[5]),
    )  # fmt: skip
    F = (
        fnma(V[0], U[3], F[0]), fnma(V[0], U[4], F[1]), fnma(V[0], U[5], F[2]), fnma(V[1], U[3], F[3]),
        fnma(V[1], U[4], F[4]), fnma(V[1], U[5], F[5]), fnma(V[2], U[3], F[6]), fnma(V[2], U[4], F[7]),
        fnma(V[2], U[5], F[8]),
    )  # fmt: skip
    G = (
        fnma(V[3], U[3], G[0]), fnma(V[3], U[4], G[1]), fnma(V[3], U[5], G[2]), fnma(V[4], U[4], G[3]),
        fnma(V[4], U[5], G[4]), fnma(V[5], U[5], G[5]),
    )  # fmt: skip
    return E, F, G


@helper
def _own(m, i, loads, body):
    """Inertia and bias force v x* I v of the single body, less the external wrenches on it, if any."""
    zero = splat(body, 0.0)
    b = i * BODY
    h = load3(body, b + MOMENT)
    mass = splat(body, m.mass[i])
    bias = cross_force(load6(body, b + VELOCITY), load6(body, b + MOMENTUM))
    if loads is not None:
        bias = sub6(bias, load6(body, b + FORCE))
    F = (zero, -h[2], h[1], h[2], zero, -h[0], -h[1], h[0], zero)
    return load6(body, b + INERTIA), F, (mass, zero, zero, mass, zero, mass), bias


@helper
def _add9(a, b):
    return (
        a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] + b[5], a[6] + b[6], a[7] + b[7],
        a[8] + b[8],
    )  # fmt: skip


@helper
def _add_children(o, art, E, F, G, bias):
    """Add the inertia and bias force of the children, at offset o of art."""
    return (
        add6(E, load6(art, o + TOP)), _add9(F, load9(art, o + COUPLING)), add6(G, load6(art, o + BOTTOM)),
        add6(bias, load6(art, o + BIAS_FORCE)),
    )  # fmt: skip


@helper
def _store_articulated(o, art, E, F, G, bias):
    store6(art, o + TOP, E)
    store9(art, o + COUPLING, F)
    store6(art, o + BOTTOM, G)
    store6(art, o + BIAS_FORCE, bias)


@helper
def _joint_bias(m, i, body, dof, v):
    """c = v_p x (S qd)"""
    zero = splat(body, 0.0)
    vj = (zero, zero, zero, zero, zero, zero)
    for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
        vj = add_scaled6(vj, load(v, k), load6(dof, k * DOF + COLUMN))
    return cross_motion(load6(body, m.parent[i] * BODY + VELOCITY), vj)


@kernel
def _towards_root(m, v, a, tau, prescribed, loads, body, dof, art, elim):
    """Eliminate the degrees of freedom, leaves first; art accumulates the contributions of each body's children."""
    align_stack(body)
    nb = m.parent.size
    for i in range(nb - 1, -1, -1):
        E, F, G, bias = _own(m, i, loads, body)
        if i + 1 < nb and m.parent[i + 1] == i:
            E, F, G, bias = _add_children(i * ARTICULATED, art, E, F, G, bias)
        for k in range(m.v_index[i] + m.dof_count[i] - 1, m.v_index[i] - 1, -1):
            S = load6(dof, k * DOF + COLUMN)
            U = _articulated_times(E, F, G, S)
            d = dot6(S, U) + m.armature[k]
            store6(elim, k * ELIMINATION + U_VECTOR, U)
            if prescribed is not None:
                if prescribed[k] != 0:
                    store(elim, k * ELIMINATION + D_INVERSE, d)
                    store(elim, k * ELIMINATION + U_TORQUE, fma(d, load(a, k), dot6(S, bias)))
                    bias = add_scaled6(bias, load(a, k), U)
                    continue
            d = 1.0 / d
            u = load(tau, k) - dot6(S, bias)
            store(elim, k * ELIMINATION + D_INVERSE, d)
            store(elim, k * ELIMINATION + U_TORQUE, u)
            E, F, G = _eliminate(E, F, G, U, d)
            bias = add_scaled6(bias, u * d, U)
        if m.parent[i] >= 0:
            o = m.parent[i] * ARTICULATED
            bias = add6(bias, _articulated_times(E, F, G, _joint_bias(m, i, body, dof, v)))
            if m.last_child[i] == 0:
                E, F, G, bias = _add_children(o, art, E, F, G, bias)
            _store_articulated(o, art, E, F, G, bias)


@kernel
def _towards_leaves(m, v, a, tau, prescribed, body, dof, elim):
    """Store unknown accelerations in a, unknown torques in tau."""
    align_stack(body)
    zero = splat(body, 0.0)
    g = m.gravity
    for i in range(m.parent.size):
        if m.parent[i] >= 0:
            acc = add6(load6(body, m.parent[i] * BODY + ACCELERATION), _joint_bias(m, i, body, dof, v))
        else:
            acc = (zero, zero, zero, zero - g[0], zero - g[1], zero - g[2])
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            acc = _advance(k, a, tau, prescribed, dof, elim, acc)
        store6(body, i * BODY + ACCELERATION, acc)


@helper
def _advance(k, a, tau, prescribed, dof, elim, acc):
    """Store the unknown of dof k, from the acceleration before it; returns the acceleration after it."""
    e = k * ELIMINATION
    U, u = load6(elim, e + U_VECTOR), load(elim, e + U_TORQUE)
    S = load6(dof, k * DOF + COLUMN)
    if prescribed is not None:
        if prescribed[k] != 0:
            store(tau, k, add_dot6(u, U, acc))
            return add_scaled6(acc, load(a, k), S)
    x = (u - dot6(U, acc)) * load(elim, e + D_INVERSE)
    store(a, k, x)
    return add_scaled6(acc, x, S)


@kernel
def solve_articulated(m, a, tau, prescribed, dof, elim, art):
    """Solve M a = tau by the factor in elim: the recursion at rest without gravity, "AZA".        [Singh 2022, sec. IV]

    Where `prescribed` (as in the factorization; None in forward dynamics) the acceleration is given and the torque is
    unknown.  Overwrites the U_TORQUE slots of elim and the BIAS_FORCE slots of art, first by forces, then by
    accelerations."""
    align_stack(dof)
    zero = splat(dof, 0.0)
    nothing = (zero, zero, zero, zero, zero, zero)
    for i in range(m.parent.size):
        store6(art, i * ARTICULATED + BIAS_FORCE, nothing)
    for i in range(m.parent.size - 1, -1, -1):
        bias = load6(art, i * ARTICULATED + BIAS_FORCE)
        for k in range(m.v_index[i] + m.dof_count[i] - 1, m.v_index[i] - 1, -1):
            bias = _retreat(k, a, tau, prescribed, dof, elim, bias)
        if m.parent[i] >= 0:
            o = m.parent[i] * ARTICULATED + BIAS_FORCE
            store6(art, o, add6(load6(art, o), bias))
    for i in range(m.parent.size):
        acc = nothing
        if m.parent[i] >= 0:
            acc = load6(art, m.parent[i] * ARTICULATED + BIAS_FORCE)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            acc = _advance(k, a, tau, prescribed, dof, elim, acc)
        store6(art, i * ARTICULATED + BIAS_FORCE, acc)


@helper
def _retreat(k, a, tau, prescribed, dof, elim, bias):
    """Store U_TORQUE of dof k from the bias force of the body it moves; returns the bias force before it."""
    e = k * ELIMINATION
    U, d = load6(elim, e + U_VECTOR), load(elim, e + D_INVERSE)
    S = load6(dof, k * DOF + COLUMN)
    if prescribed is not None:
        if prescribed[k] != 0:
            store(elim, e + U_TORQUE, fma(d, load(a, k), dot6(S, bias)))
            return add_scaled6(bias, load(a, k), U)
    u = load(tau, k) - dot6(S, bias)
    store(elim, e + U_TORQUE, u)
    return add_scaled6(bias, u * d, U)


@shared_kernel
def hybrid_dynamics_kernel(m, q, v, a, tau, prescribed, zeros, loads, body, dof, art, elim):
    """Solve M(q) a + bias = tau + loads for the entries of a and tau that are not given, for one knot per lane.

    zeros (nv) holds zeros; scratch body (nb BODY), dof (nv DOF), art (nb ARTICULATED), elim (nv ELIMINATION)."""
    forward_pass(m, q, v, zeros, body, dof, MOMENTA)
    if loads is not None:
        zero = splat(body, 0.0)
        for i in range(m.parent.size):
            store6(body, i * BODY + FORCE, (zero, zero, zero, zero, zero, zero))
        add_loads(m, loads, 1.0, body)
    _towards_root(m, v, a, tau, prescribed, loads, body, dof, art, elim)
    _towards_leaves(m, v, a, tau, prescribed, body, dof, elim)


@kernel
def forward_dynamics_kernel(m, q, v, tau, zeros, loads, body, dof, art, elim, a):
    """Compute a = M(q)^-1 (tau - bias + loads) for one knot per lane; arguments as `hybrid_dynamics_kernel`."""
    hybrid_dynamics_kernel(m, q, v, a, tau, None, zeros, loads, body, dof, art, elim)
