"""The three sweeps of the articulated-body algorithm and of its derivatives, in body coordinates.

With c = V_i x S qd_i, articulated inertia A and bias force B of body i, X the transform from its parent,

    outwards   V
    inwards    U = A S,  D = S.U + armature,  u = tau - S.B - U.c,  T = c + S u/D,  P = A - U U'/D,  b = B + A T
               A_p += X' P X,  B_p += X' b
    outwards   W = X a_p,  qdd = (u - U.W) / D,  a = W + c + S qdd

and in a direction p = q_j, qd_j or tau_j, with s = S . (dB + dA c + A dc), which is -du but for tau_j itself,

    dP = dA - (dU U' + U dU')/D + U U' dD/D^2
    db = dB + dA c + A dc + dU u/D - U (s/D + dD u/D^2)
    d(X' P X) = X' (dP + [p = q_j, j = i] (S x* P - P S x)) X       d(X' b) = X' (db + [p = q_j, j = i] S x* b)
    dqdd = -(s + dU.(W + S qdd) + U.dW) / D,   dW = X da_p + [p = q_j, j = i] W x S,   da = dW + dc + S dqdd

What is zero is never touched: V and c vary for j at or above i only; A for q_j with j strictly below only, and A, B do
not vary between branches; the columns of tau_j are those of a symmetric matrix.             [Kim 2012, tables 3 and 6]
"""

from dynamics.simd import align_stack, fma, helper, kernel, load, splat, store
from dynamics.spatial.spatial import (
    add6,
    add_dot6,
    add_scaled6,
    cross_force,
    dot6,
    inertia_times,
    load6,
    scale3,
    scale6,
    store3,
    store6,
    store9,
)
from experiments.derivatives.aba_chain_rule_inertia import (
    INERTIA,
    add_articulated_times,
    add_inertia,
    articulated_column,
    inertia_to_parent,
    load_inertia,
    store_inertia,
    subtract_outer,
    turned_inertia,
)
from experiments.derivatives.competitors_common import (
    POSITION,
    ROTATION,
    VELOCITY,
    add_along,
    add_cross_joint,
    add_joint_cross_force,
    bias_variation,
    body_inertia,
    gyroscopic_jacobian,
    joint_axis,
    joint_dot,
    load_pose,
    local_pose,
    pass_up,
    to_child,
    to_parent,
    zero6,
)

# numbers kept per body after ROTATION, POSITION, VELOCITY; bias force before and after elimination share a place
ACCELERATION, BIAS, U_VECTOR, D_INVERSE, U_TORQUE, ARTICULATED = 18, 24, 30, 36, 37, 38
BODY_ABA = ARTICULATED + INERTIA
# per pair (body, level): variations of the velocity
V_Q, V_V = 0, 6
VELOCITIES = 12
# per direction below the body: variations of A and of B with q_j, qd_j, tau_j, in the frame of the body
B_Q, B_V, B_TAU = INERTIA, INERTIA + 6, INERTIA + 12
BELOW = INERTIA + 18
# per direction: variations of the acceleration
A_Q, A_V, A_TAU = 0, 6, 12
ACCELERATIONS = 18


@helper
def _store_own(m, i, v, body):
    """A and B of the single body."""
    mass, h, I = body_inertia(m, i)
    z = splat(body, 0.0)
    E, M = (z + I[0], z + I[1], z + I[2], z + I[3], z + I[4], z + I[5]), z + mass
    F = (z, z - h[2], z + h[1], z + h[2], z, z - h[0], z - h[1], z + h[0], z)
    store_inertia(body, i * BODY_ABA + ARTICULATED, E, F, (M, z, z, M, z, M))
    store6(body, i * BODY_ABA + BIAS, cross_force(v, inertia_times(mass, h, I, v)))


@kernel
def velocity_sweep(m, t, i, q, v, body, pairs):
    """Pose, velocity, inertia and bias force V x* I V of body i; the velocity's variations with the joints above."""
    align_stack(body)
    R, p = local_pose(m, i, q)
    u, turning = joint_axis(m, i)
    b = i * BODY_ABA
    parent = m.parent[i]
    vi = zero6(body)
    if parent >= 0:
        vi = to_child(R, p, load6(body, parent * BODY_ABA + VELOCITY))
    vi = add_along(vi, load(v, i), u, turning)
    store9(body, b + ROTATION, R)
    store3(body, b + POSITION, p)
    store6(body, b + VELOCITY, vi)
    _store_own(m, i, vi, body)
    o = t.first_pair[i] * VELOCITIES
    if parent >= 0:
        e = t.first_pair[parent] * VELOCITIES
        for level in range(0, t.depth[parent] * VELOCITIES, VELOCITIES):
            store6(pairs, o + level + V_Q, to_child(R, p, load6(pairs, e + level + V_Q)))
            store6(pairs, o + level + V_V, to_child(R, p, load6(pairs, e + level + V_V)))
    o += (t.depth[i] - 1) * VELOCITIES
    store6(pairs, o + V_Q, add_cross_joint(zero6(body), vi, u, turning))
    store6(pairs, o + V_V, add_along(zero6(body), 1.0, u, turning))


@kernel
def eliminate(m, i, v, tau, body, below):
    """U, D, u of body i and its parent's share of A and B; BIAS becomes b.

    Also starts the directions q_i and tau_i at the parent: the variation of X' P X, and X' U/D."""
    align_stack(body)
    b, parent = i * BODY_ABA, m.parent[i]
    u, turning = joint_axis(m, i)
    E, F, G = load_inertia(body, b + ARTICULATED)
    bias = load6(body, b + BIAS)
    c = add_cross_joint(zero6(body), load6(body, b + VELOCITY), scale3(u, load(v, i)), turning)
    U = articulated_column(E, F, G, u, turning)
    d = 1.0 / (joint_dot(u, turning, U) + m.armature[i])
    torque = load(tau, i) - joint_dot(u, turning, bias) - dot6(U, c)
    bias = add_scaled6(add_articulated_times(bias, E, F, G, c), torque * d, U)
    store6(body, b + BIAS, bias)
    store6(body, b + U_VECTOR, U)
    store(body, b + D_INVERSE, d)
    store(body, b + U_TORQUE, torque)
    if parent >= 0:
        R, p = load_pose(body, b)
        y = scale6(U, d)
        E, F, G = subtract_outer(E, F, G, y, U)
        Et, Ft, Gt = turned_inertia(E, F, G, u, turning)
        Et, Ft, Gt = inertia_to_parent(R, p, Et, Ft, Gt)
        E, F, G = inertia_to_parent(R, p, E, F, G)
        store_inertia(below, i * BELOW, Et, Ft, Gt)
        store6(below, i * BELOW + B_TAU, to_parent(R, p, y))
        o = parent * BODY_ABA
        add_inertia(body, o + ARTICULATED, E, F, G)
        pass_up(body, o + BIAS, to_parent(R, p, bias), False)


@kernel
def vary_above(m, t, i, v, body, pairs, passed, below, aq, av, Minv):
    """Directions q_j and qd_j with joint j at or above body i: s, left in row i of the results, and X' db."""
    align_stack(body)
    n, b, parent = m.parent.size, i * BODY_ABA, m.parent[i]
    R, p = load_pose(body, b)
    u, turning = joint_axis(m, i)
    rate = scale3(u, load(v, i))
    E, F, G = load_inertia(body, b + ARTICULATED)
    U, d, bias = load6(body, b + U_VECTOR), load(body, b + D_INVERSE), load6(body, b + BIAS)
    vi = load6(body, b + VELOCITY)
    mass, h, I = body_inertia(m, i)
    K, L = gyroscopic_jacobian(h, I, vi, inertia_times(mass, h, I, vi))
    w, nothing = (vi[0], vi[1], vi[2]), zero6(body)
    inner, last = t.last_dof[i] > i + 1, m.last_child[i] != 0
    own = t.slot[i] * t.width * VELOCITIES
    up = (t.slot[parent] if parent >= 0 else 0) * t.width * VELOCITIES
    store(Minv, i * n + i, splat(Minv, -1.0))
    level = t.depth[i] - 1
    j = i
    while j >= 0:
        o, e = (t.first_pair[i] + level) * VELOCITIES, level * VELOCITIES
        v_q, v_v = load6(pairs, o + V_Q), load6(pairs, o + V_V)
        c_v = v_q  # V_i x S, if j = i
        if j != i:
            c_v = add_cross_joint(nothing, v_v, rate, turning)
        c_q = add_cross_joint(nothing, v_q, rate, turning)
        f_q = add_articulated_times(bias_variation(mass, h, w, K, L, v_q), E, F, G, c_q)
        f_v = add_articulated_times(bias_variation(mass, h, w, K, L, v_v), E, F, G, c_v)
        if inner:
            f_q, f_v = add6(f_q, load6(passed, own + e + V_Q)), add6(f_v, load6(passed, own + e + V_V))
        s_q, s_v = joint_dot(u, turning, f_q), joint_dot(u, turning, f_v)
        store(aq, i * n + j, s_q)
        store(av, i * n + j, s_v)
        f_q, f_v = add_scaled6(f_q, -s_q * d, U), add_scaled6(f_v, -s_v * d, U)
        if j == i:
            f_q = add_joint_cross_force(f_q, u, turning, bias)
            store6(below, j * BELOW + B_Q, to_parent(R, p, f_q))
            store6(below, j * BELOW + B_V, to_parent(R, p, f_v))
        else:
            pass_up(passed, up + e + V_Q, to_parent(R, p, f_q), last)
            pass_up(passed, up + e + V_V, to_parent(R, p, f_v), last)
        level -= 1
        j = m.parent[j]


@kernel
def vary_below(m, t, i, v, body, below, rates, aq, av, Minv):
    """Directions q_j, qd_j and tau_j with joint j strictly below body i: s, dU, and what passes to the parent."""
    align_stack(body)
    n, b, parent = m.parent.size, i * BODY_ABA, m.parent[i]
    R, p = load_pose(body, b)
    u, turning = joint_axis(m, i)
    c = add_cross_joint(zero6(body), load6(body, b + VELOCITY), scale3(u, load(v, i)), turning)
    U, d, torque = load6(body, b + U_VECTOR), load(body, b + D_INVERSE), load(body, b + U_TORQUE)
    for j in range(i + 1, t.last_dof[i]):
        o = j * BELOW
        E, F, G = load_inertia(below, o)
        dU = articulated_column(E, F, G, u, turning)
        f_q = add_articulated_times(load6(below, o + B_Q), E, F, G, c)
        f_v, f_tau = load6(below, o + B_V), load6(below, o + B_TAU)
        s_q, s_v, s_tau = joint_dot(u, turning, f_q), joint_dot(u, turning, f_v), joint_dot(u, turning, f_tau)
        store6(rates, (t.first_pair[j] + t.depth[i] - 1) * 6, dU)
        store(aq, i * n + j, s_q)
        store(av, i * n + j, s_v)
        store(Minv, i * n + j, s_tau)
        if parent >= 0:
            dD = joint_dot(u, turning, dU) * d
            f_q = add_scaled6(add_scaled6(f_q, torque * d, dU), -d * fma(dD, torque, s_q), U)
            y = add_scaled6(scale6(dU, d), dD * d * -0.5, U)
            E, F, G = subtract_outer(E, F, G, y, U)
            E, F, G = subtract_outer(E, F, G, U, y)
            E, F, G = inertia_to_parent(R, p, E, F, G)
            store_inertia(below, o, E, F, G)
            store6(below, o + B_Q, to_parent(R, p, f_q))
            store6(below, o + B_V, to_parent(R, p, add_scaled6(f_v, -s_v * d, U)))
            store6(below, o + B_TAU, to_parent(R, p, add_scaled6(f_tau, -s_tau * d, U)))


@kernel
def acceleration_sweep(m, t, i, v, body, pairs, rates, moving, aq, av, Minv):
    """Row i of the results, and the variations of the acceleration of body i with everything in its tree."""
    align_stack(body)
    n, b, parent, g = m.parent.size, i * BODY_ABA, m.parent[i], m.gravity
    R, p = load_pose(body, b)
    u, turning = joint_axis(m, i)
    rate, nothing = scale3(u, load(v, i)), zero6(body)
    U, d = load6(body, b + U_VECTOR), load(body, b + D_INVERSE)
    W = (nothing[0], nothing[0], nothing[0], nothing[0] - g[0], nothing[0] - g[1], nothing[0] - g[2])
    if parent >= 0:
        W = load6(body, parent * BODY_ABA + ACCELERATION)
    W = to_child(R, p, W)
    x = add_along(W, (load(body, b + U_TORQUE) - dot6(U, W)) * d, u, turning)
    store6(body, b + ACCELERATION, add_cross_joint(x, load6(body, b + VELOCITY), rate, turning))
    inner = t.last_dof[i] > i + 1
    root = t.root[i]
    for j in range(root, t.last_dof[root]):
        o = (t.slot[i] * n + j) * ACCELERATIONS
        e = i * n + j
        w_q, w_v, w_tau = nothing, nothing, nothing
        if parent >= 0:
            k = (t.slot[parent] * n + j) * ACCELERATIONS
            w_q, w_v = to_child(R, p, load6(moving, k + A_Q)), to_child(R, p, load6(moving, k + A_V))
            if j >= i:
                w_tau = to_child(R, p, load6(moving, k + A_TAU))
        s = load(aq, e)
        if j == i:
            w_q = add_cross_joint(w_q, W, u, turning)
        elif j > i and j < t.last_dof[i]:
            s = add_dot6(s, load6(rates, (t.first_pair[j] + t.depth[i] - 1) * 6), x)
        s_q, s_v = -d * add_dot6(s, U, w_q), -d * add_dot6(load(av, e), U, w_v)
        store(aq, e, s_q)
        store(av, e, s_v)
        if j >= i:
            s = -d * add_dot6(load(Minv, e), U, w_tau)
            store(Minv, e, s)
            store(Minv, j * n + i, s)
            if inner and j > i:
                store6(moving, o + A_TAU, add_along(w_tau, s, u, turning))
        if inner:
            w_q, w_v = add_along(w_q, s_q, u, turning), add_along(w_v, s_v, u, turning)
            if j <= i and t.last_dof[j] > i:
                r = (t.first_pair[i] + t.depth[j] - 1) * VELOCITIES
                v_q = load6(pairs, r + V_Q)
                w_q = add_cross_joint(w_q, v_q, rate, turning)
                if j == i:
                    w_v = add6(w_v, v_q)
                else:
                    w_v = add_cross_joint(w_v, load6(pairs, r + V_V), rate, turning)
            store6(moving, o + A_Q, w_q)
            store6(moving, o + A_V, w_v)
