"""RNEACR by the chain rule through recursive Newton-Euler in ground coordinates, for joints of any kind.

Bodies move with S_j as q_j changes: dS_i = S_j x S_i and dI_i x = S_j x* I_i x - I_i S_j x x for j at or above body i.
With vJ = S qd, aJ = S qdd of all columns of the joint, and terms in brackets for j strictly above only,

    d/dq_j    dv_i = [dv_p] + S_j x vJ          da_i = [da_p] + S_j x aJ + [dv_p] x vJ + v_p x (S_j x vJ)
              dF_i = S_j x* F_i + G(dv_i - S_j x v_i, da_i - S_j x a_i) + sum over children of dF
              dtau_i = (S_j x S_i) . F_i + S_i . dF_i
    d/dqd_j   dv_i = S_j                        da_i = [da_p + S_j x vJ]  or  v_p x S_j at joint j itself
              dF_i = G(dv_i, da_i) + sum over children of dF,        dtau_i = S_i . dF_i

where G is the derivative of F = I a + v x* I v with the body held in place.                    [Singh 2022, section II]
"""

from dynamics.algorithms.kinematics import (
    ACCELERATION,
    BODY,
    COLUMN,
    DOF,
    FORCE,
    FORCES,
    INERTIA,
    MOMENT,
    MOMENTUM,
    VELOCITY,
    forward_pass,
)
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.simd import align_stack, kernel, load, store
from dynamics.spatial.spatial import (
    accumulate,
    add6,
    add_cross_force,
    add_cross_motion,
    add_scaled6,
    cross_force,
    cross_motion,
    dot6,
    load3,
    load6,
    store6,
    sub6,
)
from experiments.derivatives.body_frame import (
    buffers,
    force_variation,
    gyroscopic_jacobian,
    pairs,
    pass_up,
    width,
    zero6,
)

# numbers kept per level: variations of velocity and acceleration with q_j, of acceleration with qd_j; and of forces
V_Q, A_Q, A_V = 0, 6, 12
MOTION = 18
F_Q, F_V = 0, 6
VARIATION = 12


@kernel
def _outwards(m, t, i, v, a, body, dof, motion, local):
    """Variations of the motion of body i with the joints at and above it, and those of its own force."""
    align_stack(body)
    b = i * BODY
    vi, ai, force = load6(body, b + VELOCITY), load6(body, b + ACCELERATION), load6(body, b + FORCE)
    mass, h, I = m.mass[i], load3(body, b + MOMENT), load6(body, b + INERTIA)
    K, L = gyroscopic_jacobian(h, I, vi, load6(body, b + MOMENTUM))
    w = (vi[0], vi[1], vi[2])
    first, count = m.v_index[i], m.dof_count[i]
    nothing = zero6(body)
    vp, vj, aj = nothing, nothing, nothing
    for k in range(first, first + count):
        S = load6(dof, k * DOF + COLUMN)
        vj, aj = add_scaled6(vj, load(v, k), S), add_scaled6(aj, load(a, k), S)
    parent = 0
    if m.parent[i] >= 0:
        parent = t.slot[m.parent[i]] * t.width * MOTION
        vp = load6(body, m.parent[i] * BODY + VELOCITY)
    level = t.depth[i] - 1
    j = first + count - 1
    while j >= 0:
        S = load6(dof, j * DOF + COLUMN)
        v_q, a_q = cross_motion(S, vj), cross_motion(S, aj)
        a_q = add_cross_motion(a_q, vp, v_q)
        if j < first:
            o = parent + level * MOTION
            a_v = add6(load6(motion, o + A_V), v_q)
            above = load6(motion, o + V_Q)
            v_q = add6(above, v_q)
            a_q = add_cross_motion(add6(load6(motion, o + A_Q), a_q), above, vj)
        else:
            a_v = cross_motion(vp, S)
        o, e = (t.slot[i] * t.width + level) * MOTION, (t.first_pair[i] + level) * VARIATION
        store6(motion, o + V_Q, v_q)
        store6(motion, o + A_Q, a_q)
        store6(motion, o + A_V, a_v)
        x, y = sub6(v_q, cross_motion(S, vi)), sub6(a_q, cross_motion(S, ai))
        store6(local, e + F_Q, add_cross_force(force_variation(mass, h, I, w, K, L, x, y), S, force))
        store6(local, e + F_V, force_variation(mass, h, I, w, K, L, S, a_v))
        level -= 1
        j = m.dof_parent[j]


@kernel
def _inwards(m, t, i, body, dof, local, passed, below, dq, dv):
    """Rows of body i's joint, and the force variations that go on to the parent."""
    align_stack(body)
    n, parent = m.dof_body.size, m.parent[i]
    first, end = m.v_index[i], m.v_index[i] + m.dof_count[i]
    force = load6(body, i * BODY + FORCE)
    inner = t.last_dof[i] > end
    last = m.last_child[i] != 0
    own = t.slot[i] * t.width * VARIATION
    up = (t.slot[parent] if parent >= 0 else 0) * t.width * VARIATION
    level = t.depth[i] - 1
    j = end - 1
    while j >= 0:
        e, o = (t.first_pair[i] + level) * VARIATION, level * VARIATION
        f_q, f_v = load6(local, e + F_Q), load6(local, e + F_V)
        if inner:
            f_q, f_v = add6(f_q, load6(passed, own + o + F_Q)), add6(f_v, load6(passed, own + o + F_V))
        f = sub6(f_q, cross_force(load6(dof, j * DOF + COLUMN), force))  # (S_j x S) . F = -S . (S_j x* F)
        for x in range(first, end):
            S = load6(dof, x * DOF + COLUMN)
            store(dq, x * n + j, dot6(S, f))
            store(dv, x * n + j, dot6(S, f_v))
        if j >= first:
            store6(below, j * VARIATION + F_Q, f_q)
            store6(below, j * VARIATION + F_V, f_v)
        else:
            pass_up(passed, up + o + F_Q, f_q, last)
            pass_up(passed, up + o + F_V, f_v, last)
        level -= 1
        j = m.dof_parent[j]
    for x in range(first, end):
        S = load6(dof, x * DOF + COLUMN)
        for j in range(end, t.last_dof[i]):
            store(dq, x * n + j, dot6(S, load6(below, j * VARIATION + F_Q)))
            store(dv, x * n + j, dot6(S, load6(below, j * VARIATION + F_V)))
    if parent >= 0:
        accumulate(body, parent * BODY + FORCE, i * BODY + FORCE, 6)


@kernel
def rnea_chain_rule_ground(m, q, v, a, t, body, dof, below, local, motion, passed, dq, dv):
    """dtau/dq, dtau/dv (n n) for one knot per lane; entries between branches are not written."""
    forward_pass(m, q, v, a, body, dof, FORCES)
    for i in range(m.parent.size):
        _outwards(m, t, i, v, a, body, dof, motion, local)
    for i in range(m.parent.size - 1, -1, -1):
        _inwards(m, t, i, body, dof, local, passed, below, dq, dv)


drive = knot_driver(
    rnea_chain_rule_ground,
    "q v a",
    scratch={
        "body": nb * BODY, "dof": nv * DOF, "below": nv * VARIATION, "local": pairs * VARIATION,
        "motion": buffers * width * MOTION, "passed": buffers * width * VARIATION,
    },
    outputs={"dq": nv * nv, "dv": nv * nv},
    zeroed="dq dv",
)  # fmt: skip
