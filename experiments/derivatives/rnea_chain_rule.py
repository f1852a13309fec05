"""RNEACR and FDCR: derivatives of inverse dynamics by the chain rule through the recursive Newton-Euler algorithm,
of forward dynamics by the chain rule through these.

The competitor of IDSVA in the papers, with the same lanes and the same use of the tree, so that what is left of the
difference is the algorithm's.  One sweep outwards and one inwards, all directions p = q_j and qd_j at once, in body
coordinates.  In the frame of body i, X the transform from its parent,

    dV_i = X dV_p + [p = q_j, j = i] (X V_p) x S + [p = qd_j, j = i] S
    dA_i = X dA_p + [p = q_j, j = i] (X A_p) x S + dV_i x S qd_i + [p = qd_j, j = i] V_i x S
    dF_i = I dA_i + d(V_i x* I V_i) + sum over children k of X_k' (dF_k + [p = q_j, j = k] S_k x* F_k)
    dtau_i = S . dF_i

and with dtau/dq, dtau/dv at (q, v, a), a = FD(q, v, tau), by products with M^-1, which are the library's,

    da/dq = -M^-1 dtau/dq,    da/dv = -M^-1 dtau/dv,    da/dtau = M^-1                       [Singh 2022, eq. 5]

V and A vary only for joints at or above the body; F for those below it too.  [Kim 2012, table 5; Singh 2022, table II]
"""

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION, forward_dynamics_kernel
from dynamics.algorithms.branch_factor import factorize, invert_factored
from dynamics.algorithms.inverse_mass import products_direct
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.algorithms.mass_matrix import mass_matrix_kernel
from dynamics.model.knot_driver import knot_driver, nv
from dynamics.simd import align_stack, kernel, load, store
from dynamics.spatial.spatial import add6, load6, scale3, store6
from experiments.derivatives.body_frame import (
    BODY_FRAME,
    FORCE,
    add_along,
    add_cross_joint,
    add_joint_cross_force,
    body_inertia,
    buffers,
    force_variation,
    gyroscopic_jacobian,
    joint_axis,
    joint_dot,
    load_pose,
    move_body,
    pairs,
    pass_up,
    to_child,
    to_parent,
    width,
    zero6,
)

# numbers kept per level: variations of velocity and acceleration with q_j, then with qd_j; and of forces
V_Q, A_Q, V_V, A_V = 0, 6, 12, 18
MOTION = 24
F_Q, F_V = 0, 6
FORCES = 12


@kernel
def _outwards(m, t, i, q, v, a, body, motion, local):
    """Body i: its motion, that motion's variations with the joints at and above, and the force's that follow."""
    align_stack(body)
    R, p, vi, _, carried, momentum = move_body(m, i, q, v, a, body)
    mass, h, I = body_inertia(m, i)
    K, L = gyroscopic_jacobian(h, I, vi, momentum)
    w = (vi[0], vi[1], vi[2])
    u, turning = joint_axis(m, i)
    rate = scale3(u, load(v, i))
    nothing = zero6(body)
    above = t.depth[i] - 1
    o = t.slot[i] * t.width * MOTION
    f = t.first_pair[i] * FORCES
    if above > 0:
        parent = t.slot[m.parent[i]] * t.width * MOTION
        for level in range(above):
            d, e = level * MOTION, f + level * FORCES
            v_q = to_child(R, p, load6(motion, parent + d + V_Q))
            a_q = add_cross_joint(to_child(R, p, load6(motion, parent + d + A_Q)), v_q, rate, turning)
            v_v = to_child(R, p, load6(motion, parent + d + V_V))
            a_v = add_cross_joint(to_child(R, p, load6(motion, parent + d + A_V)), v_v, rate, turning)
            store6(motion, o + d + V_Q, v_q)
            store6(motion, o + d + A_Q, a_q)
            store6(motion, o + d + V_V, v_v)
            store6(motion, o + d + A_V, a_v)
            store6(local, e + F_Q, force_variation(mass, h, I, w, K, L, v_q, a_q))
            store6(local, e + F_V, force_variation(mass, h, I, w, K, L, v_v, a_v))
    d, e = o + above * MOTION, f + above * FORCES
    v_q = add_cross_joint(nothing, vi, u, turning)  # V_i x S = (X V_p) x S
    a_q = add_cross_joint(add_cross_joint(nothing, carried, u, turning), v_q, rate, turning)
    v_v = add_along(nothing, 1.0, u, turning)
    store6(motion, d + V_Q, v_q)
    store6(motion, d + A_Q, a_q)
    store6(motion, d + V_V, v_v)
    store6(motion, d + A_V, v_q)
    store6(local, e + F_Q, force_variation(mass, h, I, w, K, L, v_q, a_q))
    store6(local, e + F_V, force_variation(mass, h, I, w, K, L, v_v, v_q))


@kernel
def _inwards(m, t, i, body, local, passed, below, dq, dv):
    """Row i of both matrices, and the force variations that go on to the parent.

    passed: per level, what the children of a body have left for it; below (n FORCES): in the frame of body i."""
    align_stack(body)
    n, b, parent = m.parent.size, i * BODY_FRAME, m.parent[i]
    R, p = load_pose(body, b)
    u, turning = joint_axis(m, i)
    force = load6(body, b + FORCE)
    inner = m.subtree_end[i] > i + 1
    last = m.last_child[i] != 0
    own = t.slot[i] * t.width * FORCES
    up = (t.slot[parent] if parent >= 0 else 0) * t.width * FORCES
    level = t.depth[i] - 1
    j = i
    while j >= 0:
        e, o = (t.first_pair[i] + level) * FORCES, level * FORCES
        f_q, f_v = load6(local, e + F_Q), load6(local, e + F_V)
        if inner:
            f_q, f_v = add6(f_q, load6(passed, own + o + F_Q)), add6(f_v, load6(passed, own + o + F_V))
        store(dq, i * n + j, joint_dot(u, turning, f_q))
        store(dv, i * n + j, joint_dot(u, turning, f_v))
        if j == i:
            f_q = add_joint_cross_force(f_q, u, turning, force)
            store6(below, j * FORCES + F_Q, to_parent(R, p, f_q))
            store6(below, j * FORCES + F_V, to_parent(R, p, f_v))
        else:
            pass_up(passed, up + o + F_Q, to_parent(R, p, f_q), last)
            pass_up(passed, up + o + F_V, to_parent(R, p, f_v), last)
        level -= 1
        j = m.parent[j]
    for j in range(i + 1, m.subtree_end[i]):
        f_q, f_v = load6(below, j * FORCES + F_Q), load6(below, j * FORCES + F_V)
        store(dq, i * n + j, joint_dot(u, turning, f_q))
        store(dv, i * n + j, joint_dot(u, turning, f_v))
        if parent >= 0:
            store6(below, j * FORCES + F_Q, to_parent(R, p, f_q))
            store6(below, j * FORCES + F_V, to_parent(R, p, f_v))
    if parent >= 0:
        pass_up(body, parent * BODY_FRAME + FORCE, to_parent(R, p, force), False)


@kernel
def rnea_chain_rule(m, q, v, a, t, body, below, local, motion, passed, dq, dv):
    """dtau/dq, dtau/dv (n n) for one knot per lane; entries between branches are not written."""
    for i in range(m.parent.size):
        _outwards(m, t, i, q, v, a, body, motion, local)
    for i in range(m.parent.size - 1, -1, -1):
        _inwards(m, t, i, body, local, passed, below, dq, dv)


SCRATCH = {
    "body": nv * BODY_FRAME, "below": nv * FORCES, "local": pairs * FORCES,
    "motion": buffers * width * MOTION, "passed": buffers * width * FORCES,
}  # fmt: skip
drive = knot_driver(rnea_chain_rule, "q v a", SCRATCH, outputs={"dq": nv * nv, "dv": nv * nv}, zeroed="dq dv")


# ------------------------------------------------------------------------------------------------ forward dynamics
@kernel
def forward_chain_rule(
    m, q, v, tau, t, zeros, a, L, ground, dof, art, elim, body, below, local, motion, passed, aq, av, Minv
):
    """da/dq, da/dv, da/dtau (n n) for one knot per lane."""
    aq[:], av[:] = 0.0, 0.0
    forward_dynamics_kernel(m, q, v, tau, zeros, None, ground, dof, art, elim, a)
    mass_matrix_kernel(m, q, ground, dof, L)
    factorize(m, L)
    invert_factored(m, L, Minv)
    rnea_chain_rule(m, q, v, a, t, body, below, local, motion, passed, aq, av)
    products_direct(m, Minv, aq, av, art)


ACCELERATIONS = {"ground": nv * BODY, "dof": nv * DOF, "art": nv * ARTICULATED, "elim": nv * ELIMINATION}
drive_forward = knot_driver(
    forward_chain_rule,
    "q v tau",
    scratch={"zeros": nv, "a": nv, "L": nv * nv, **ACCELERATIONS, **SCRATCH},
    outputs={"aq": nv * nv, "av": nv * nv, "Minv": nv * nv},
    zeroed="zeros",
)
