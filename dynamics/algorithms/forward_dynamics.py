"""Forward dynamics by the articulated-body algorithm (ABA), in the world frame.

A joint of several degrees of freedom is eliminated one degree of freedom at a time, last first: with the articulated
inertia A and bias force p of the moving body,

    U = A S_k,   D = S_k.U + armature_k,   u = tau_k - S_k.p,   A <- A - U U'/D,   p <- p + U u/D

and the joint's bias acceleration c = v_p x (S qd) enters once, when A and p pass to the parent: p <- p + A c.
So one recursion serves every joint type.                                          [Featherstone 2008, table 7.1]
"""

import numpy as np

from dynamics.algorithms.batch import launch, points, unbatch
from dynamics.algorithms.inverse_dynamics import wrench_batch
from dynamics.algorithms.kinematics import (
    ACCELERATION,
    BODY,
    COLUMN,
    DOF,
    INERTIA,
    MOMENT,
    MOMENTA,
    MOMENTUM,
    POSITION,
    ROTATION,
    VELOCITY,
    forward_pass,
)
from dynamics.simd import LANES, align_stack, carve, driver, fnma, gather, helper, kernel, load, scatter, splat, store
from dynamics.spatial import (
    add6,
    add_cross,
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
def _own(m, i, wrenches, body):
    """Inertia and bias force v x* I v of the single body, less the external wrench, [force; moment] in its frame."""
    zero = splat(body, 0.0)
    b = i * BODY
    h = load3(body, b + MOMENT)
    mass = splat(body, m.mass[i])
    bias = cross_force(load6(body, b + VELOCITY), load6(body, b + MOMENTUM))
    if wrenches.shape[0] > 0:
        R = load9(body, b + ROTATION)
        w = load6(wrenches, 6 * i)
        f = rotate(R, (w[0], w[1], w[2]))
        n = add_cross(rotate(R, (w[3], w[4], w[5])), load3(body, b + POSITION), f)
        bias = sub6(bias, join(n, f))
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
    """Plus what the children have left at offset o of art."""
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
def _towards_root(m, v, tau, wrenches, body, dof, art, elim):
    """Eliminate all degrees of freedom, leaves first; art holds what the children of each body have passed on."""
    align_stack(body)
    nb = m.parent.size
    for i in range(nb - 1, -1, -1):
        E, F, G, bias = _own(m, i, wrenches, body)
        if i + 1 < nb and m.parent[i + 1] == i:
            E, F, G, bias = _add_children(i * ARTICULATED, art, E, F, G, bias)
        for k in range(m.v_index[i] + m.dof_count[i] - 1, m.v_index[i] - 1, -1):
            S = load6(dof, k * DOF + COLUMN)
            U = _articulated_times(E, F, G, S)
            d = 1.0 / (dot6(S, U) + m.armature[k])
            u = load(tau, k) - dot6(S, bias)
            store6(elim, k * ELIMINATION + U_VECTOR, U)
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
def _towards_leaves(m, v, body, dof, elim, a):
    align_stack(body)
    zero = splat(body, 0.0)
    g = m.gravity
    for i in range(m.parent.size):
        if m.parent[i] >= 0:
            acc = add6(load6(body, m.parent[i] * BODY + ACCELERATION), _joint_bias(m, i, body, dof, v))
        else:
            acc = (zero, zero, zero, zero - g[0], zero - g[1], zero - g[2])
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            e = k * ELIMINATION
            x = (load(elim, e + U_TORQUE) - dot6(load6(elim, e + U_VECTOR), acc)) * load(elim, e + D_INVERSE)
            store(a, k, x)
            acc = add_scaled6(acc, x, load6(dof, k * DOF + COLUMN))
        store6(body, i * BODY + ACCELERATION, acc)


@kernel
def solve_articulated(m, y, dof, elim, art, w):
    """w = M^-1 y by the articulated factor that `forward_dynamics_kernel` left in elim: ABA without bias ("AZA").

    The BIAS_FORCE slots of art serve as scratch, first for forces, then for accelerations."""
    align_stack(dof)
    zero = splat(dof, 0.0)
    nothing = (zero, zero, zero, zero, zero, zero)
    for i in range(m.parent.size):
        store6(art, i * ARTICULATED + BIAS_FORCE, nothing)
    for i in range(m.parent.size - 1, -1, -1):
        bias = load6(art, i * ARTICULATED + BIAS_FORCE)
        for k in range(m.v_index[i] + m.dof_count[i] - 1, m.v_index[i] - 1, -1):
            e = k * ELIMINATION
            u = load(y, k) - dot6(load6(dof, k * DOF + COLUMN), bias)
            store(w, k, u)
            bias = add_scaled6(bias, u * load(elim, e + D_INVERSE), load6(elim, e + U_VECTOR))
        if m.parent[i] >= 0:
            o = m.parent[i] * ARTICULATED + BIAS_FORCE
            store6(art, o, add6(load6(art, o), bias))
    for i in range(m.parent.size):
        acc = nothing
        if m.parent[i] >= 0:
            acc = load6(art, m.parent[i] * ARTICULATED + BIAS_FORCE)
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            e = k * ELIMINATION
            x = (load(w, k) - dot6(load6(elim, e + U_VECTOR), acc)) * load(elim, e + D_INVERSE)
            store(w, k, x)
            acc = add_scaled6(acc, x, load6(dof, k * DOF + COLUMN))
        store6(art, i * ARTICULATED + BIAS_FORCE, acc)


@kernel
def forward_dynamics_kernel(m, q, v, tau, zeros, wrenches, body, dof, art, elim, a):
    """a = M(q)^-1 (tau - bias) for one knot per lane.

    zeros (nv) holds zeros; wrenches (6 nb) or empty; scratch body (nb BODY), dof (nv DOF), art (nb ARTICULATED),
    elim (nv ELIMINATION)."""
    forward_pass(m, q, v, zeros, body, dof, MOMENTA)
    _towards_root(m, v, tau, wrenches, body, dof, art, elim)
    _towards_leaves(m, v, body, dof, elim, a)


def _numbers(model) -> int:
    return len(model.arrays.parent) * (BODY + ARTICULATED + 6) + model.nv * (DOF + ELIMINATION + 5) + model.nq


@driver
def _drive(first, last, work, m, q, v, tau, wrenches, a):
    nb, nv, nq = m.parent.size, m.dof_body.size, q.shape[1]
    for c in range(first, last):
        body, w = carve(work, nb * BODY)
        dof, w = carve(w, nv * DOF)
        art, w = carve(w, nb * ARTICULATED)
        elim, w = carve(w, nv * ELIMINATION)
        q_, w = carve(w, nq)
        v_, w = carve(w, nv)
        tau_, w = carve(w, nv)
        zeros, w = carve(w, nv)
        a_, w = carve(w, nv)
        loads, w = carve(w, wrenches.shape[1])
        gather(q, c * LANES, q_)
        gather(v, c * LANES, v_)
        gather(tau, c * LANES, tau_)
        if wrenches.shape[0] > 0:
            gather(wrenches, c * LANES, loads)
        zeros[:] = 0.0
        forward_dynamics_kernel(m, q_, v_, tau_, zeros, loads, body, dof, art, elim, a_)
        scatter(a_, c * LANES, a)


def forward_dynamics(model, q, v, tau, external_wrenches=None) -> np.ndarray:
    """Joint accelerations under the torques tau.

    a = M(q)^-1 (tau - C(q, v) v - g(q) + sum_i J_i' f_i)                         [Featherstone 2008, table 7.1]

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v, tau : (nv,) or (K, nv), velocity and joint torques
    external_wrenches : (nb, 6) or (K, nb, 6), optional
        Force and moment [N; N m] on each moving body, in the body frame, about its origin.

    Returns
    -------
    a : (nv,) or (K, nv)

    Raises
    ------
    ValueError : wrong shape, non-finite entry, or a quaternion that is not of unit length; names the argument.
    """
    single, (q, v, tau) = points(model, q, v=v, tau=tau)
    wrenches = wrench_batch(model, external_wrenches, len(q))
    a = np.empty_like(v)
    launch(_drive, len(q), _numbers(model), model.arrays, q, v, tau, wrenches, a)
    return unbatch(single, a)[0]
