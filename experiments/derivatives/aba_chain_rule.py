"""ABACR: derivatives of forward dynamics by the chain rule through the articulated-body algorithm, in the ground frame.

All directions at once: after the algorithm itself a sweep inwards and one outwards over the bodies, and in each body a
loop over the directions in which something varies there.                      [Kim 2012, table 6; Singh 2022, table II]

With psi = V_p x S, c = psi qd, articulated inertia A and bias force B of body i, of which p is the parent,

    inwards    U = A S,  D = S.U + armature,  u = tau - S.B - U.c,  P = A - U U'/D,  b = B + A c + U u/D
               A_p += P,  B_p += b
    outwards   qdd = (u - U.a_p) / D,  a = a_p + c + S qdd

Everything at and below joint j moves with S_j as q_j changes; there d is what remains beside this motion: of V it is
psi_j, of A and U nothing.  In a direction x = q_j, qd_j or tau_j, with s = S . (dB + dA c + A dc), which is -du but for
tau_j itself, then

    dP = dA - (dU U' + U dU')/D + U U' dD/D^2
    db = dB + dA c + A dc + dU u/D - U (s/D + dD u/D^2)
    dqdd = -(s + dU.(a_p + S qdd) + U.da_p) / D,   da = da_p + dc + S dqdd

and for x = q_j between joint j and its parent, where the motion ends, dP += S x* P - P S x, db += S x* b inwards, and
da_p += a_p x S outwards.  What is zero is never touched: A varies for q_j with j strictly below only, and A, B do not
vary between branches; the columns of tau_j are those of a symmetric matrix.             [Kim 2012, tables 3 and 6]
"""

from dynamics.algorithms.articulated_body import (
    ARTICULATED,
    BIAS_FORCE,
    BOTTOM,
    COUPLING,
    D_INVERSE,
    ELIMINATION,
    TOP,
    U_TORQUE,
    U_VECTOR,
    forward_dynamics_kernel,
)
from dynamics.algorithms.kinematics import ACCELERATION, BODY, COLUMN, DOF, INERTIA, MOMENT, MOMENTUM, PSI, VELOCITY
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.simd import align_stack, fma, fnma, helper, kernel, load, splat, store
from dynamics.spatial.so3 import add9, transpose
from dynamics.spatial.spatial import (
    add6,
    add_cross,
    add_cross_force,
    add_cross_motion,
    add_dot6,
    add_rotated,
    add_scaled6,
    add_symmetric,
    angular,
    cross,
    cross_force,
    cross_motion,
    dot6,
    join,
    linear,
    load3,
    load6,
    load9,
    scale6,
    store6,
    store9,
)
from experiments.derivatives.chain_rule import bias_variation, buffers, gyroscopic_body, pairs, pass_up, width, zero6

# ------------------------------------------------------------------------------------------------ articulated inertias
# Symmetric 6x6 matrices [[E, F], [F', G]], as in `articulated_body`, and their variations: E (6), F (9), G (6).


@helper
def _load_inertia(w, o):
    return load6(w, o + TOP), load9(w, o + COUPLING), load6(w, o + BOTTOM)


@helper
def _store_inertia(w, o, E, F, G):
    store6(w, o + TOP, E)
    store9(w, o + COUPLING, F)
    store6(w, o + BOTTOM, G)


@helper
def _articulated(m, i, body, art):
    """Articulated inertia and bias force of body i: its own and what its children passed up."""
    b, zero = i * BODY, splat(body, 0.0)
    h, mass = load3(body, b + MOMENT), splat(body, m.mass[i])
    E, G = load6(body, b + INERTIA), (mass, zero, zero, mass, zero, mass)
    F = (zero, -h[2], h[1], h[2], zero, -h[0], -h[1], h[0], zero)
    bias = cross_force(load6(body, b + VELOCITY), load6(body, b + MOMENTUM))
    if m.subtree_end[i] > i + 1:
        e, f, g = _load_inertia(art, i * ARTICULATED)
        E, F, G = add6(E, e), add9(F, f), add6(G, g)
        bias = add6(bias, load6(art, i * ARTICULATED + BIAS_FORCE))
    return E, F, G, bias


@helper
def _add_articulated_times(x, E, F, G, a):
    """x + [[E, F], [F', G]] a"""
    w, v = angular(a), linear(a)
    n = add_rotated(add_symmetric(angular(x), E, w), F, v)
    return join(n, add_symmetric(add_rotated(linear(x), transpose(F), w), G, v))


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
def _columns(M):
    """The columns of a symmetric 3x3 matrix."""
    return (M[0], M[1], M[2]), (M[1], M[3], M[4]), (M[2], M[4], M[5])


@helper
def _plus_transpose(x, y, z):
    """A + A' (6) of the matrix A with columns x, y, z."""
    return (x[0] + x[0], y[0] + x[1], z[0] + x[2], y[1] + y[1], z[1] + y[2], z[2] + z[2])


@helper
def _moved_inertia(E, F, G, S):
    """S x* P - P S x for P = [[E, F], [F', G]]: how P varies as its bodies move along S = (w, v).

    Its blocks are M + M' with M = w~ E + v~ F',  w~ F + v~ G - F w~,  N + N' with N = w~ G."""
    w, v = angular(S), linear(S)
    a, b, c = (F[0], F[1], F[2]), (F[3], F[4], F[5]), (F[6], F[7], F[8])
    x, y, z = _columns(E)
    E = _plus_transpose(add_cross(cross(w, x), v, a), add_cross(cross(w, y), v, b), add_cross(cross(w, z), v, c))
    x, y, z = _columns(G)
    G = _plus_transpose(cross(w, x), cross(w, y), cross(w, z))
    x = add_cross(cross(w, (F[0], F[3], F[6])), v, x)
    y = add_cross(cross(w, (F[1], F[4], F[7])), v, y)
    z = add_cross(cross(w, (F[2], F[5], F[8])), v, z)
    a, b, c = cross(a, w), cross(b, w), cross(c, w)  # rows of F w~
    F = (
        x[0] - a[0], y[0] - a[1], z[0] - a[2], x[1] - b[0], y[1] - b[1], z[1] - b[2], x[2] - c[0], y[2] - c[1],
        z[2] - c[2],
    )  # fmt: skip
    return E, F, G


# ------------------------------------------------------------------------------------------------ the two sweeps
# per level: variations of the bias force with q_j and qd_j, j at or above
F_Q, F_V = 0, 6
FORCES = 12
# per direction below the body: variations of A, and of B with q_j, qd_j, tau_j
B_Q, B_V, B_TAU = 21, 27, 33
BELOW = 39
# per direction: variations of the acceleration
A_Q, A_V, A_TAU = 0, 6, 12
ACCELERATIONS = 18


@helper
def _eliminated(i, v, dof, elim):
    """S, c, U, 1/D and u of joint i."""
    o = i * ELIMINATION
    U, c = load6(elim, o + U_VECTOR), scale6(load6(dof, i * DOF + PSI), load(v, i))
    return load6(dof, i * DOF + COLUMN), c, U, load(elim, o + D_INVERSE), load(elim, o + U_TORQUE) - dot6(U, c)


@kernel
def _vary_above(m, t, i, v, body, dof, art, elim, passed, below, aq, av, Minv):
    """Directions q_j and qd_j with joint j at or above body i: s, left in row i of the results, and db; and the
    directions q_i, qd_i and tau_i as the parent sees them."""
    align_stack(body)
    n, parent = m.parent.size, m.parent[i]
    S, c, U, d, u = _eliminated(i, v, dof, elim)
    E, F, G, bias = _articulated(m, i, body, art)
    bias = add_scaled6(_add_articulated_times(bias, E, F, G, c), u * d, U)
    single, rate = gyroscopic_body(m, i, body), scale6(S, load(v, i))
    inner, last = m.subtree_end[i] > i + 1, m.last_child[i] != 0
    own = t.slot[i] * t.width * FORCES
    up = (t.slot[parent] if parent >= 0 else 0) * t.width * FORCES
    store(Minv, i * n + i, splat(Minv, -1.0))
    level = t.depth[i] - 1
    j = i
    while j >= 0:
        e = level * FORCES
        v_q, v_v = load6(dof, j * DOF + PSI), load6(dof, j * DOF + COLUMN)
        c_v = v_q
        if j != i:
            c_v = cross_motion(v_v, rate)
        f_q = _add_articulated_times(bias_variation(single, v_q), E, F, G, cross_motion(v_q, rate))
        f_v = _add_articulated_times(bias_variation(single, v_v), E, F, G, c_v)
        if inner:
            f_q, f_v = add6(f_q, load6(passed, own + e + F_Q)), add6(f_v, load6(passed, own + e + F_V))
        s_q, s_v = dot6(S, f_q), dot6(S, f_v)
        store(aq, i * n + j, s_q)
        store(av, i * n + j, s_v)
        f_q, f_v = add_scaled6(f_q, -s_q * d, U), add_scaled6(f_v, -s_v * d, U)
        if j == i:
            store6(below, j * BELOW + B_Q, add_cross_force(f_q, S, bias))
            store6(below, j * BELOW + B_V, f_v)
        else:
            pass_up(passed, up + e + F_Q, f_q, last)
            pass_up(passed, up + e + F_V, f_v, last)
        level -= 1
        j = m.parent[j]
    y = scale6(U, d)
    E, F, G = _subtract_outer(E, F, G, y, U)
    E, F, G = _moved_inertia(E, F, G, S)
    _store_inertia(below, i * BELOW, E, F, G)
    store6(below, i * BELOW + B_TAU, y)


@kernel
def _vary_below(m, t, i, v, dof, elim, below, rates, aq, av, Minv):
    """Directions q_j, qd_j and tau_j with joint j strictly below body i: s, dU, and what passes to the parent."""
    align_stack(dof)
    n, nothing = m.parent.size, zero6(dof)
    S, c, U, d, u = _eliminated(i, v, dof, elim)
    for j in range(i + 1, m.subtree_end[i]):
        o = j * BELOW
        E, F, G = _load_inertia(below, o)
        dU = _add_articulated_times(nothing, E, F, G, S)
        f_q = _add_articulated_times(load6(below, o + B_Q), E, F, G, c)
        f_v, f_tau = load6(below, o + B_V), load6(below, o + B_TAU)
        s_q, s_v, s_tau = dot6(S, f_q), dot6(S, f_v), dot6(S, f_tau)
        store6(rates, (t.first_pair[j] + t.depth[i] - 1) * 6, dU)
        store(aq, i * n + j, s_q)
        store(av, i * n + j, s_v)
        store(Minv, i * n + j, s_tau)
        if m.parent[i] >= 0:
            dD = dot6(S, dU) * d
            f_q = add_scaled6(add_scaled6(f_q, u * d, dU), -d * fma(dD, u, s_q), U)
            y = add_scaled6(scale6(dU, d), dD * d * -0.5, U)
            E, F, G = _subtract_outer(E, F, G, y, U)
            E, F, G = _subtract_outer(E, F, G, U, y)
            _store_inertia(below, o, E, F, G)
            store6(below, o + B_Q, f_q)
            store6(below, o + B_V, add_scaled6(f_v, -s_v * d, U))
            store6(below, o + B_TAU, add_scaled6(f_tau, -s_tau * d, U))


@kernel
def _vary_accelerations(m, t, i, v, a, body, dof, elim, rates, moving, aq, av, Minv):
    """Row i of the results, and the variations of the acceleration of body i with everything in its tree."""
    align_stack(body)
    n, parent, g = m.parent.size, m.parent[i], m.gravity
    S, _, U, d, _ = _eliminated(i, v, dof, elim)
    rate, nothing = scale6(S, load(v, i)), zero6(body)
    W = (nothing[0], nothing[0], nothing[0], nothing[0] - g[0], nothing[0] - g[1], nothing[0] - g[2])
    if parent >= 0:
        W = load6(body, parent * BODY + ACCELERATION)
    x = add_scaled6(W, load(a, i), S)
    inner = m.subtree_end[i] > i + 1
    root = t.root[i]
    for j in range(root, m.subtree_end[root]):
        o, e = (t.slot[i] * n + j) * ACCELERATIONS, i * n + j
        w_q, w_v, w_tau = nothing, nothing, nothing
        if parent >= 0:
            k = (t.slot[parent] * n + j) * ACCELERATIONS
            w_q, w_v = load6(moving, k + A_Q), load6(moving, k + A_V)
            if j >= i:
                w_tau = load6(moving, k + A_TAU)
        s = load(aq, e)
        if j == i:
            w_q = add_cross_motion(w_q, W, S)
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
                store6(moving, o + A_TAU, add_scaled6(w_tau, s, S))
        if inner:
            w_q, w_v = add_scaled6(w_q, s_q, S), add_scaled6(w_v, s_v, S)
            if j <= i and m.subtree_end[j] > i:
                psi = load6(dof, j * DOF + PSI)
                w_q = add_cross_motion(w_q, psi, rate)
                if j == i:
                    w_v = add6(w_v, psi)
                else:
                    w_v = add_cross_motion(w_v, load6(dof, j * DOF + COLUMN), rate)
            store6(moving, o + A_Q, w_q)
            store6(moving, o + A_V, w_v)


@kernel
def aba_chain_rule(m, q, v, tau, t, zeros, a, body, dof, art, elim, rates, passed, below, moving, aq, av, Minv):
    """da/dq, da/dv, da/dtau (n n) for one knot per lane."""
    n = m.parent.size
    aq[:], av[:], Minv[:] = 0.0, 0.0, 0.0
    forward_dynamics_kernel(m, q, v, tau, zeros, None, body, dof, art, elim, a)
    for i in range(n):
        S = load6(dof, i * DOF + COLUMN)
        store6(dof, i * DOF + PSI, cross_motion(load6(body, i * BODY + VELOCITY), S))  # V x S = V_p x S
    for i in range(n - 1, -1, -1):
        _vary_above(m, t, i, v, body, dof, art, elim, passed, below, aq, av, Minv)
        _vary_below(m, t, i, v, dof, elim, below, rates, aq, av, Minv)
    for i in range(n):
        _vary_accelerations(m, t, i, v, a, body, dof, elim, rates, moving, aq, av, Minv)


drive = knot_driver(
    aba_chain_rule,
    "q v tau",
    scratch={
        "zeros": nv, "a": nv, "body": nb * BODY, "dof": nv * DOF, "art": nb * ARTICULATED, "elim": nv * ELIMINATION,
        "rates": pairs * 6, "below": nv * BELOW, "passed": buffers * width * FORCES,
        "moving": buffers * nv * ACCELERATIONS,
    },
    outputs={"aq": nv * nv, "av": nv * nv, "Minv": nv * nv},
    zeroed="zeros",
)  # fmt: skip
