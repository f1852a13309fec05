"""ABACR: derivatives of forward dynamics by the chain rule through the articulated-body algorithm, in body coordinates.

All directions at once: three sweeps over the bodies, and in each body a loop over the directions in which something
varies there.                                                                  [Kim 2012, table 6; Singh 2022, table II]

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

from dynamics.model.knot_driver import knot_driver, nv
from dynamics.simd import align_stack, fma, fnma, helper, kernel, load, splat, store
from dynamics.spatial.so3 import add9, congruence, full, transpose
from dynamics.spatial.spatial import (
    add6,
    add_cross,
    add_dot6,
    add_rotated,
    add_scaled6,
    add_symmetric,
    angular,
    cross,
    cross_force,
    dot6,
    inertia_times,
    join,
    linear,
    load6,
    load9,
    multiply,
    rotate,
    rotate_back,
    scale3,
    scale6,
    store3,
    store6,
    store9,
)
from experiments.derivatives.body_frame import (
    POSITION,
    ROTATION,
    VELOCITY,
    add_along,
    add_cross_joint,
    add_joint_cross_force,
    bias_variation,
    body_inertia,
    buffers,
    gyroscopic_jacobian,
    joint_axis,
    joint_dot,
    load_pose,
    local_pose,
    pairs,
    pass_up,
    to_child,
    to_parent,
    width,
    zero6,
)

# ------------------------------------------------------------------------------------------------ articulated inertias
# Symmetric 6x6 matrices by blocks [[E, F], [F', G]], kept as 21 numbers: E (6, upper triangle), F (9, row-major),
# G (6).  An articulated inertia is one, and so is its derivative in any direction.
TOP, COUPLING, BOTTOM = 0, 6, 15
INERTIA = 21


@helper
def _load_inertia(w, o):
    return load6(w, o + TOP), load9(w, o + COUPLING), load6(w, o + BOTTOM)


@helper
def _store_inertia(w, o, E, F, G):
    store6(w, o + TOP, E)
    store9(w, o + COUPLING, F)
    store6(w, o + BOTTOM, G)


@helper
def _add_inertia(w, o, E, F, G):
    """Add to the matrix at offset o."""
    e, f, g = _load_inertia(w, o)
    _store_inertia(w, o, add6(e, E), add9(f, F), add6(g, G))


@helper
def _columns(M):
    """The columns of a symmetric 3x3 matrix."""
    return (M[0], M[1], M[2]), (M[1], M[3], M[4]), (M[2], M[4], M[5])


@helper
def _add_articulated_times(x, E, F, G, a):
    """x + [[E, F], [F', G]] a"""
    w, v = angular(a), linear(a)
    n = add_rotated(add_symmetric(angular(x), E, w), F, v)
    return join(n, add_symmetric(add_rotated(linear(x), transpose(F), w), G, v))


@helper
def _articulated_column(E, F, G, u, turning):
    """[[E, F], [F', G]] S for the column (u, 0) or (0, u)."""
    if turning:
        return join(rotate(full(E), u), rotate_back(F, u))
    return join(rotate(F, u), rotate(full(G), u))


@helper
def _subtract_outer(E, F, G, x, U):
    """[[E, F], [F', G]] - x U', where x U' is symmetric."""
    E = (
        fnma(x[0], U[0], E[0]), fnma(x[0], U[1], E[1]), fnma(x[0], U[2], E[2]), fnma(x[1], U[1], E[3]),
        fnma(x[1], U[2], E[4]), fnma(x[2], U[2], E[5]),
    )  # fmt: skip
    F = (
        fnma(x[0], U[3], F[0]), fnma(x[0], U[4], F[1]), fnma(x[0], U[5], F[2]), fnma(x[1], U[3], F[3]),
        fnma(x[1], U[4], F[4]), fnma(x[1], U[5], F[5]), fnma(x[2], U[3], F[6]), fnma(x[2], U[4], F[7]),
        fnma(x[2], U[5], F[8]),
    )  # fmt: skip
    G = (
        fnma(x[3], U[3], G[0]), fnma(x[3], U[4], G[1]), fnma(x[3], U[5], G[2]), fnma(x[4], U[4], G[3]),
        fnma(x[4], U[5], G[4]), fnma(x[5], U[5], G[5]),
    )  # fmt: skip
    return E, F, G


@helper
def _inertia_to_parent(R, p, E, F, G):
    """X' [[E, F], [F', G]] X, from the child frame to the parent frame.

    The blocks turn with R; then F_new = F + p~ G and E_new = E - F p~ + p~ F_new'."""
    back = transpose(R)
    E, G = congruence(back, E), congruence(back, G)
    F = multiply(multiply(R, F), back)
    x, y, z = _columns(G)
    a, b, c = (F[0], F[1], F[2]), (F[3], F[4], F[5]), (F[6], F[7], F[8])
    x = add_cross((a[0], b[0], c[0]), p, x)
    y = add_cross((a[1], b[1], c[1]), p, y)
    z = add_cross((a[2], b[2], c[2]), p, z)
    d, e, f = (x[0], y[0], z[0]), (x[1], y[1], z[1]), (x[2], y[2], z[2])  # rows of the new F, a, b, c those of the old
    E = (
        fma(p[1], a[2] + d[2], fnma(p[2], a[1] + d[1], E[0])),
        fma(p[2], a[0], fnma(p[0], a[2], fma(p[1], e[2], fnma(p[2], e[1], E[1])))),
        fma(p[0], a[1], fnma(p[1], a[0], fma(p[1], f[2], fnma(p[2], f[1], E[2])))),
        fma(p[2], b[0] + e[0], fnma(p[0], b[2] + e[2], E[3])),
        fma(p[0], b[1], fnma(p[1], b[0], fma(p[2], f[0], fnma(p[0], f[2], E[4])))),
        fma(p[0], c[1] + f[1], fnma(p[1], c[0] + f[0], E[5])),
    )
    return E, (d[0], d[1], d[2], e[0], e[1], e[2], f[0], f[1], f[2]), G


@helper
def _plus_transpose(x, y, z):
    """A + A' (6) of the matrix A with columns x, y, z."""
    return (x[0] + x[0], y[0] + x[1], z[0] + x[2], y[1] + y[1], z[1] + y[2], z[2] + z[2])


@helper
def _turned_inertia(E, F, G, u, turning):
    """S x* P - P S x for P = [[E, F], [F', G]]: how P varies as its body moves along the column (u, 0) or (0, u)."""
    x, y, z = _columns(G)
    r, s, t = cross(u, x), cross(u, y), cross(u, z)  # columns of u~ G
    a, b, c = (F[0], F[1], F[2]), (F[3], F[4], F[5]), (F[6], F[7], F[8])
    if turning:
        # u~ M - M u~ = u~ M + (u~ M)' for symmetric M
        G = _plus_transpose(r, s, t)
        x, y, z = _columns(E)
        E = _plus_transpose(cross(u, x), cross(u, y), cross(u, z))
        r, s, t = cross(u, (a[0], b[0], c[0])), cross(u, (a[1], b[1], c[1])), cross(u, (a[2], b[2], c[2]))
        a, b, c = cross(a, u), cross(b, u), cross(c, u)  # rows of F u~
        F = (
            r[0] - a[0], s[0] - a[1], t[0] - a[2], r[1] - b[0], s[1] - b[1], t[1] - b[2], r[2] - c[0], s[2] - c[1],
            t[2] - c[2],
        )  # fmt: skip
        return E, F, G
    E = _plus_transpose(cross(u, a), cross(u, b), cross(u, c))  # u~ F' - F u~ = u~ F' + (u~ F')'
    return E, (r[0], s[0], t[0], r[1], s[1], t[1], r[2], s[2], t[2]), scale6(G, 0.0)


# ------------------------------------------------------------------------------------------------ the three sweeps
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
    _store_inertia(body, i * BODY_ABA + ARTICULATED, E, F, (M, z, z, M, z, M))
    store6(body, i * BODY_ABA + BIAS, cross_force(v, inertia_times(mass, h, I, v)))


@kernel
def _velocity_sweep(m, t, i, q, v, body, velocities):
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
            store6(velocities, o + level + V_Q, to_child(R, p, load6(velocities, e + level + V_Q)))
            store6(velocities, o + level + V_V, to_child(R, p, load6(velocities, e + level + V_V)))
    o += (t.depth[i] - 1) * VELOCITIES
    store6(velocities, o + V_Q, add_cross_joint(zero6(body), vi, u, turning))
    store6(velocities, o + V_V, add_along(zero6(body), 1.0, u, turning))


@kernel
def _eliminate(m, i, v, tau, body, below):
    """U, D, u of body i and its parent's share of A and B; BIAS becomes b.

    Also starts the directions q_i and tau_i at the parent: the variation of X' P X, and X' U/D."""
    align_stack(body)
    b, parent = i * BODY_ABA, m.parent[i]
    u, turning = joint_axis(m, i)
    E, F, G = _load_inertia(body, b + ARTICULATED)
    bias = load6(body, b + BIAS)
    c = add_cross_joint(zero6(body), load6(body, b + VELOCITY), scale3(u, load(v, i)), turning)
    U = _articulated_column(E, F, G, u, turning)
    d = 1.0 / (joint_dot(u, turning, U) + m.armature[i])
    torque = load(tau, i) - joint_dot(u, turning, bias) - dot6(U, c)
    bias = add_scaled6(_add_articulated_times(bias, E, F, G, c), torque * d, U)
    store6(body, b + BIAS, bias)
    store6(body, b + U_VECTOR, U)
    store(body, b + D_INVERSE, d)
    store(body, b + U_TORQUE, torque)
    if parent >= 0:
        R, p = load_pose(body, b)
        y = scale6(U, d)
        E, F, G = _subtract_outer(E, F, G, y, U)
        Et, Ft, Gt = _turned_inertia(E, F, G, u, turning)
        Et, Ft, Gt = _inertia_to_parent(R, p, Et, Ft, Gt)
        E, F, G = _inertia_to_parent(R, p, E, F, G)
        _store_inertia(below, i * BELOW, Et, Ft, Gt)
        store6(below, i * BELOW + B_TAU, to_parent(R, p, y))
        o = parent * BODY_ABA
        _add_inertia(body, o + ARTICULATED, E, F, G)
        pass_up(body, o + BIAS, to_parent(R, p, bias), False)


@kernel
def _vary_above(m, t, i, v, body, velocities, passed, below, aq, av, Minv):
    """Directions q_j and qd_j with joint j at or above body i: s, left in row i of the results, and X' db."""
    align_stack(body)
    n, b, parent = m.parent.size, i * BODY_ABA, m.parent[i]
    R, p = load_pose(body, b)
    u, turning = joint_axis(m, i)
    rate = scale3(u, load(v, i))
    E, F, G = _load_inertia(body, b + ARTICULATED)
    U, d, bias = load6(body, b + U_VECTOR), load(body, b + D_INVERSE), load6(body, b + BIAS)
    vi = load6(body, b + VELOCITY)
    mass, h, I = body_inertia(m, i)
    K, L = gyroscopic_jacobian(h, I, vi, inertia_times(mass, h, I, vi))
    w, nothing = (vi[0], vi[1], vi[2]), zero6(body)
    inner, last = m.subtree_end[i] > i + 1, m.last_child[i] != 0
    own = t.slot[i] * t.width * VELOCITIES
    up = (t.slot[parent] if parent >= 0 else 0) * t.width * VELOCITIES
    store(Minv, i * n + i, splat(Minv, -1.0))
    level = t.depth[i] - 1
    j = i
    while j >= 0:
        o, e = (t.first_pair[i] + level) * VELOCITIES, level * VELOCITIES
        v_q, v_v = load6(velocities, o + V_Q), load6(velocities, o + V_V)
        c_v = v_q  # V_i x S, if j = i
        if j != i:
            c_v = add_cross_joint(nothing, v_v, rate, turning)
        c_q = add_cross_joint(nothing, v_q, rate, turning)
        f_q = _add_articulated_times(bias_variation(mass, h, w, K, L, v_q), E, F, G, c_q)
        f_v = _add_articulated_times(bias_variation(mass, h, w, K, L, v_v), E, F, G, c_v)
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
def _vary_below(m, t, i, v, body, below, rates, aq, av, Minv):
    """Directions q_j, qd_j and tau_j with joint j strictly below body i: s, dU, and what passes to the parent."""
    align_stack(body)
    n, b, parent = m.parent.size, i * BODY_ABA, m.parent[i]
    R, p = load_pose(body, b)
    u, turning = joint_axis(m, i)
    c = add_cross_joint(zero6(body), load6(body, b + VELOCITY), scale3(u, load(v, i)), turning)
    U, d, torque = load6(body, b + U_VECTOR), load(body, b + D_INVERSE), load(body, b + U_TORQUE)
    for j in range(i + 1, m.subtree_end[i]):
        o = j * BELOW
        E, F, G = _load_inertia(below, o)
        dU = _articulated_column(E, F, G, u, turning)
        f_q = _add_articulated_times(load6(below, o + B_Q), E, F, G, c)
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
            E, F, G = _subtract_outer(E, F, G, y, U)
            E, F, G = _subtract_outer(E, F, G, U, y)
            E, F, G = _inertia_to_parent(R, p, E, F, G)
            _store_inertia(below, o, E, F, G)
            store6(below, o + B_Q, to_parent(R, p, f_q))
            store6(below, o + B_V, to_parent(R, p, add_scaled6(f_v, -s_v * d, U)))
            store6(below, o + B_TAU, to_parent(R, p, add_scaled6(f_tau, -s_tau * d, U)))


@kernel
def _acceleration_sweep(m, t, i, v, body, velocities, rates, moving, aq, av, Minv):
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
    inner = m.subtree_end[i] > i + 1
    root = t.root[i]
    for j in range(root, m.subtree_end[root]):
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
        elif j > i and j < m.subtree_end[i]:
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
            if j <= i and m.subtree_end[j] > i:
                r = (t.first_pair[i] + t.depth[j] - 1) * VELOCITIES
                v_q = load6(velocities, r + V_Q)
                w_q = add_cross_joint(w_q, v_q, rate, turning)
                if j == i:
                    w_v = add6(w_v, v_q)
                else:
                    w_v = add_cross_joint(w_v, load6(velocities, r + V_V), rate, turning)
            store6(moving, o + A_Q, w_q)
            store6(moving, o + A_V, w_v)


@kernel
def aba_chain_rule(m, q, v, tau, t, body, velocities, rates, passed, below, moving, aq, av, Minv):
    """da/dq, da/dv, da/dtau (n n) for one knot per lane."""
    n = m.parent.size
    aq[:], av[:], Minv[:] = 0.0, 0.0, 0.0
    for i in range(n):
        _velocity_sweep(m, t, i, q, v, body, velocities)
    for i in range(n - 1, -1, -1):
        _eliminate(m, i, v, tau, body, below)
        _vary_above(m, t, i, v, body, velocities, passed, below, aq, av, Minv)
        _vary_below(m, t, i, v, body, below, rates, aq, av, Minv)
    for i in range(n):
        _acceleration_sweep(m, t, i, v, body, velocities, rates, moving, aq, av, Minv)


drive = knot_driver(
    aba_chain_rule,
    "q v tau",
    scratch={
        "body": nv * BODY_ABA, "velocities": pairs * VELOCITIES, "rates": pairs * 6, "below": nv * BELOW,
        "passed": buffers * width * VELOCITIES, "moving": buffers * nv * ACCELERATIONS,
    },
    outputs={"aq": nv * nv, "av": nv * nv, "Minv": nv * nv},
)  # fmt: skip
