"""IDSVA in body coordinates: `dynamics.inverse_dynamics_derivatives` with each body's quantities in its own frame.

Composites pass from child to parent by a change of frame, and so do, inside the loop over the joints above, the four
force vectors of a joint.  In ground coordinates neither is needed; what that is worth is figure 3 of the paper.

                                                                                   [Singh 2022, algorithm 1, figure 3]
"""

from dynamics.derivatives.inverse_dynamics import first_order_vectors
from dynamics.model.knot_driver import knot_driver, nv
from dynamics.simd import align_stack, fma, kernel, load, splat, store
from dynamics.spatial.spatial import (
    accumulate,
    add_cross_motion,
    add_dot6,
    dot6,
    linear,
    load3,
    load6,
    rate_rotation,
    store3,
    store6,
    world_inertia,
)
from experiments.derivatives.body_frame import (
    BODY_FRAME,
    FORCE,
    add_along,
    add_cross_joint,
    body_inertia,
    joint_axis,
    joint_dot,
    load_pose,
    move_body,
    to_parent,
    zero6,
)

# numbers kept per joint, S itself being constant, and per composite body besides its force
PSI, PSI2 = 0, 6
JOINT = 12
MOMENT, INERTIA, INERTIA_RATE, MOMENTUM = 0, 3, 9, 15
COMPOSITE = 21


@kernel
def _move(m, i, q, v, a, body, joint, composite):
    """Motion of body i, its psi and psi2, and its own share of the composite."""
    align_stack(body)
    _, _, vi, _, carried, momentum = move_body(m, i, q, v, a, body)
    u, turning = joint_axis(m, i)
    _, h, I = body_inertia(m, i)
    vp = add_along(vi, -load(v, i), u, turning)  # the parent's velocity in frame i
    psi = add_cross_joint(zero6(body), vi, u, turning)
    store6(joint, i * JOINT + PSI, psi)
    store6(joint, i * JOINT + PSI2, add_cross_motion(add_cross_joint(zero6(body), carried, u, turning), vp, psi))
    o = i * COMPOSITE
    zero = splat(body, 0.0)
    store3(composite, o + MOMENT, (zero + h[0], zero + h[1], zero + h[2]))
    store6(composite, o + INERTIA, (zero + I[0], zero + I[1], zero + I[2], zero + I[3], zero + I[4], zero + I[5]))
    store6(composite, o + INERTIA_RATE, rate_rotation(h, I, vi))
    store6(composite, o + MOMENTUM, momentum)


@kernel
def _rows(m, i, body, joint, composite, dq, dv, M):
    """Entries [i, j] and [j, i] for the joints j at and above body i; its composite passes to the parent."""
    align_stack(body)
    n, o, parent = m.parent.size, i * COMPOSITE, m.parent[i]
    h, I, J = load3(composite, o + MOMENT), load6(composite, o + INERTIA), load6(composite, o + INERTIA_RATE)
    momentum, force = load6(composite, o + MOMENTUM), load6(body, i * BODY_FRAME + FORCE)
    u, turning = joint_axis(m, i)
    psi, psi2 = load6(joint, i * JOINT + PSI), load6(joint, i * JOINT + PSI2)
    s = add_along(zero6(body), 1.0, u, turning)
    rate = (psi[0] + psi[0], psi[1] + psi[1], psi[2] + psi[2], psi[3] + psi[3], psi[4] + psi[4], psi[5] + psi[5])
    mass = m.subtree_mass[i]
    i_s, b_s, f_q, f_v = first_order_vectors(mass, h, I, J, momentum, force, s, psi, psi2, rate)
    store(M, i * n + i, joint_dot(u, turning, i_s) + m.armature[i])
    j = i
    while True:
        u, turning = joint_axis(m, j)
        psi, psi2 = load6(joint, j * JOINT + PSI), load6(joint, j * JOINT + PSI2)
        store(dq, i * n + j, add_dot6(dot6(b_s, psi), i_s, psi2))
        store(dv, i * n + j, fma(2.0, dot6(i_s, psi), joint_dot(u, turning, b_s)))
        if j < i:
            x = joint_dot(u, turning, i_s)
            store(M, i * n + j, x)
            store(M, j * n + i, x)
            store(dq, j * n + i, joint_dot(u, turning, f_q))
            store(dv, j * n + i, joint_dot(u, turning, f_v))
        if m.parent[j] < 0:
            break
        R, p = load_pose(body, j * BODY_FRAME)
        i_s, b_s, f_q, f_v = to_parent(R, p, i_s), to_parent(R, p, b_s), to_parent(R, p, f_q), to_parent(R, p, f_v)
        j = m.parent[j]
    if parent >= 0:
        R, p = load_pose(body, i * BODY_FRAME)
        hp, Ip = world_inertia(R, p, mass, h, I)
        _, Jp = world_inertia(R, p, 0.0, linear(momentum), J)  # a massless inertia whose moment is the linear momentum
        store3(composite, o + MOMENT, hp)
        store6(composite, o + INERTIA, Ip)
        store6(composite, o + INERTIA_RATE, Jp)
        store6(composite, o + MOMENTUM, to_parent(R, p, momentum))
        accumulate(composite, parent * COMPOSITE, o, COMPOSITE)
        store6(body, i * BODY_FRAME + FORCE, to_parent(R, p, force))
        accumulate(body, parent * BODY_FRAME + FORCE, i * BODY_FRAME + FORCE, 6)


@kernel
def idsva_body_frame(m, q, v, a, body, joint, composite, dq, dv, M):
    """dtau/dq, dtau/dv, M (n n) for one knot per lane; entries between branches are not written."""
    n = m.parent.size
    for i in range(n):
        _move(m, i, q, v, a, body, joint, composite)
    for i in range(n - 1, -1, -1):
        _rows(m, i, body, joint, composite, dq, dv, M)


drive = knot_driver(
    idsva_body_frame,
    "q v a",
    scratch={"body": nv * BODY_FRAME, "joint": nv * JOINT, "composite": nv * COMPOSITE},
    outputs={"dq": nv * nv, "dv": nv * nv, "M": nv * nv},
    zeroed="dq dv M",
)
