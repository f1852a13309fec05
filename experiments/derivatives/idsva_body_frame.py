"""IDSVA in body coordinates: `dynamics.inverse_dynamics_derivatives` with each body's quantities in its own frame.

Composites pass from child to parent by a change of frame, and so do, inside the loop over the joints above, the four
force vectors of a joint.  In ground coordinates neither is needed; what that is worth is figure 3 of the paper.

                                                                                   [Singh 2022, algorithm 1, figure 3]
"""

from dynamics.derivatives.inverse_dynamics import first_order_vectors
from dynamics.model.joints import REVOLUTE
from dynamics.model.knot_driver import knot_driver, nv
from dynamics.simd import align_stack, fma, helper, kernel, load, sincos, splat, store
from dynamics.spatial.spatial import (
    accumulate,
    add6,
    add_cross,
    add_cross_force,
    add_cross_motion,
    add_dot6,
    add_scaled3,
    add_scaled6,
    angular,
    dot3,
    dot6,
    inertia_times,
    join,
    linear,
    load3,
    load6,
    load9,
    rate_rotation,
    rotate,
    rotate_back,
    store3,
    store6,
    store9,
    world_inertia,
)
from experiments.derivatives.chain_rule import zero6

# numbers kept per body in its own frame
ROTATION, POSITION, VELOCITY, ACCELERATION, FORCE = 0, 9, 12, 18, 24
BODY_FRAME = 30
# numbers kept per joint, S itself being constant, and per composite body besides its force
PSI, PSI2 = 0, 6
JOINT = 12
MOMENT, INERTIA, INERTIA_RATE, MOMENTUM = 0, 3, 9, 15
COMPOSITE = 21


# ------------------------------------------------------------------------------------------------ joints of one axis
# Body i's frame is its joint's moving frame, and (R, p) its pose in its parent, x_parent = R x + p.  The column of a
# joint of one axis u is S = (u, 0) or (0, u) there: constant, with half of its products known to vanish.


@helper
def local_pose(m, i, q):
    """R, p of body i in its parent."""
    C, t, d = m.rotation[i], m.translation[i], m.joint_axis[i]
    x = load(q, i)
    if m.joint_type[i] == REVOLUTE:
        s, c = sincos(x)
        p = (splat(q, t[0]), splat(q, t[1]), splat(q, t[2]))
    else:
        s, c = splat(q, 0.0), splat(q, 0.0)
        p = (fma(x, d[0], t[0]), fma(x, d[1], t[1]), fma(x, d[2], t[2]))
    R = (
        fma(c, C[9], fma(s, C[18], C[0])), fma(c, C[10], fma(s, C[19], C[1])), fma(c, C[11], fma(s, C[20], C[2])),
        fma(c, C[12], fma(s, C[21], C[3])), fma(c, C[13], fma(s, C[22], C[4])), fma(c, C[14], fma(s, C[23], C[5])),
        fma(c, C[15], fma(s, C[24], C[6])), fma(c, C[16], fma(s, C[25], C[7])), fma(c, C[17], fma(s, C[26], C[8])),
    )  # fmt: skip
    return R, p


@helper
def joint_axis(m, i):
    """The axis of body i in its own frame, and whether the joint turns about it."""
    d = m.dof_axis[i]
    return (d[0], d[1], d[2]), m.dof_angular[i] != 0


@helper
def joint_dot(u, turning, f):
    """S . f"""
    if turning:
        return dot3(u, angular(f))
    return dot3(u, linear(f))


@helper
def add_along(x, s, u, turning):
    """x + s S"""
    if turning:
        return join(add_scaled3(angular(x), s, u), linear(x))
    return join(angular(x), add_scaled3(linear(x), s, u))


@helper
def add_cross_joint(x, a, u, turning):
    """x + a x S"""
    if turning:
        return join(add_cross(angular(x), angular(a), u), add_cross(linear(x), linear(a), u))
    return join(angular(x), add_cross(linear(x), angular(a), u))


# ------------------------------------------------------------------------------------------------ between body frames
@helper
def to_child(R, p, a):
    """The motion a of the parent frame in the child frame: (R'w, R'(v + w x p))."""
    w = angular(a)
    return join(rotate_back(R, w), rotate_back(R, add_cross(linear(a), w, p)))


@helper
def to_parent(R, p, f):
    """The force f of the child frame in the parent frame: (R n + p x R f, R f)."""
    g = rotate(R, linear(f))
    return join(add_cross(rotate(R, angular(f)), p, g), g)


@helper
def load_pose(body, b):
    return load9(body, b + ROTATION), load3(body, b + POSITION)


@helper
def body_inertia(m, i):
    """Mass, first moment and rotational inertia of body i in its own frame: constants."""
    c, I = m.first_moment[i], m.rotational_inertia[i]
    return m.mass[i], (c[0], c[1], c[2]), (I[0], I[1], I[2], I[3], I[4], I[5])


# ------------------------------------------------------------------------------------------------ the two passes
@kernel
def _move(m, i, q, v, a, body, joint, composite):
    """Motion of body i, its psi and psi2, and its own share of the composite."""
    align_stack(body)
    b, g, zero = i * BODY_FRAME, m.gravity, splat(body, 0.0)
    (R, p), (u, turning), (mass, h, I) = local_pose(m, i, q), joint_axis(m, i), body_inertia(m, i)
    vp, ap = zero6(body), (zero, zero, zero, zero - g[0], zero - g[1], zero - g[2])
    if m.parent[i] >= 0:
        o = m.parent[i] * BODY_FRAME
        vp, ap = load6(body, o + VELOCITY), load6(body, o + ACCELERATION)
    vp, ap = to_child(R, p, vp), to_child(R, p, ap)
    vi = add_along(vp, load(v, i), u, turning)
    psi = add_cross_joint(zero6(body), vi, u, turning)
    ai = add_scaled6(add_along(ap, load(a, i), u, turning), load(v, i), psi)
    momentum = inertia_times(mass, h, I, vi)
    store9(body, b + ROTATION, R)
    store3(body, b + POSITION, p)
    store6(body, b + VELOCITY, vi)
    store6(body, b + ACCELERATION, ai)
    store6(body, b + FORCE, add_cross_force(inertia_times(mass, h, I, ai), vi, momentum))
    store6(joint, i * JOINT + PSI, psi)
    store6(joint, i * JOINT + PSI2, add_cross_motion(add_cross_joint(zero6(body), ap, u, turning), vp, psi))
    o = i * COMPOSITE
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
    mass = m.subtree_mass[i]
    i_s, b_s, f_q, f_v = first_order_vectors(mass, h, I, J, momentum, force, s, psi, psi2, add6(psi, psi))
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
