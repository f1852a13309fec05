"""The forward pass: poses, velocities, accelerations and inertias of all bodies in the world frame.

All later algorithms sum over paths the quantities that this pass stores in two workspaces, one block per body and one
per degree of freedom.  With S the joint's columns (fixed in the moving body), v_p and a_p of the parent,

    v = v_p + S qd                       psi  = v_p x S                         ("Psi dot")
    a = a_p + S qdd + v_p x S qd         psi2 = a_p x S + v_p x psi             ("Psi ddot")
    Sdot = v x S                         rate = psi + Sdot                        [Singh 2022, eq. 31, alg. 1]

Gravity enters as the acceleration of the base, a_0 = -g.

Joint torques, accelerations and all their derivatives are the same about any point of the world.  So positions of this
pass count from the origin of the first body, if that is free to travel, and lose no digits however far it has gone;
`place_bodies` has those in the world.
"""

from dynamics.model.joints import FREE_FLYER, PLANAR, PRISMATIC, REVOLUTE, SPHERICAL, TRANSLATION
from dynamics.simd import align_stack, fma, fnma, helper, kernel, load, shared_kernel, sincos, splat, store
from dynamics.spatial.spatial import (
    add6,
    add_cross_force,
    add_cross_motion,
    add_rotated,
    add_scaled3,
    add_scaled6,
    cross,
    cross_motion,
    inertia_times,
    join,
    load3,
    load6,
    load9,
    multiply,
    rate_rotation,
    rotate,
    store3,
    store6,
    store9,
    world_inertia,
)

# block of a body ...
ROTATION, POSITION, VELOCITY, ACCELERATION = 0, 9, 12, 18
MOMENT, INERTIA, INERTIA_RATE, MOMENTUM, FORCE = 24, 27, 33, 39, 45
ORIGIN = 51  # of the first body: the point of the world that positions count from
BODY = 54
COMPOSITE, COMPOSITE_SIZE = MOMENT, 27  # subtree sums: moment, inertia, its rate, momentum, force
# ... and of a degree of freedom
COLUMN, PSI, PSI2, RATE = 0, 6, 12, 18
DOF = 24
# extent of the forward pass
MOMENTA, FORCES, DERIVATIVES = 0, 1, 2


@helper
def _quaternion_rotation(x, y, z, w):
    """Rotation matrix of a unit quaternion."""
    x2, y2, z2 = x + x, y + y, z + z
    xx, yy, zz = x * x2, y * y2, z * z2
    one = 1.0
    return (
        one - (yy + zz), fnma(w, z2, x * y2), fma(w, y2, x * z2),
        fma(w, z2, x * y2), one - (xx + zz), fnma(w, x2, y * z2),
        fnma(w, y2, x * z2), fma(w, x2, y * z2), one - (xx + yy),
    )  # fmt: skip


@helper
def _load_parent(m, i, body):
    """R, p, v, a of the parent of body i; the world's acceleration is -g."""
    zero, one = splat(body, 0.0), splat(body, 1.0)
    g = m.gravity
    R = (one, zero, zero, zero, one, zero, zero, zero, one)
    p = (zero, zero, zero)
    v = (zero, zero, zero, zero, zero, zero)
    a = (zero, zero, zero, zero - g[0], zero - g[1], zero - g[2])
    if m.parent[i] >= 0:
        o = m.parent[i] * BODY
        R, p, v, a = (
            load9(body, o + ROTATION), load3(body, o + POSITION), load6(body, o + VELOCITY),
            load6(body, o + ACCELERATION),
        )  # fmt: skip
    return R, p, v, a


@helper
def _revolute_pose(m, i, q, Rp, pp):
    """Pose of a body on a revolute joint, R = Rp (C0 + cos q C1 + sin q C2)."""
    C, t = m.rotation[i], m.translation[i]
    s, c = sincos(load(q, m.q_index[i]))
    local = (
        fma(c, C[9], fma(s, C[18], C[0])), fma(c, C[10], fma(s, C[19], C[1])), fma(c, C[11], fma(s, C[20], C[2])),
        fma(c, C[12], fma(s, C[21], C[3])), fma(c, C[13], fma(s, C[22], C[4])), fma(c, C[14], fma(s, C[23], C[5])),
        fma(c, C[15], fma(s, C[24], C[6])), fma(c, C[16], fma(s, C[25], C[7])), fma(c, C[17], fma(s, C[26], C[8])),
    )  # fmt: skip
    return multiply(Rp, local), add_rotated(pp, Rp, (t[0], t[1], t[2]))


@helper
def _revolute_column(m, i, Rp, p):
    """World column of a revolute joint, whose axis is also fixed in the parent."""
    d = m.joint_axis[i]
    u = rotate(Rp, (d[0], d[1], d[2]))
    return join(u, cross(p, u))


@helper
def _from_origin(m, i, p, body):
    """The position p of a body on the world, or below, relative to the ORIGIN, which the first body stores."""
    if m.parent[i] >= 0:
        return p
    kind, o = m.joint_type[i], p
    if i > 0:
        o = load3(body, ORIGIN)
    elif kind != FREE_FLYER and kind != PLANAR and kind != TRANSLATION:
        zero = splat(body, 0.0)
        o = (zero, zero, zero)
    if i == 0:
        store3(body, ORIGIN, o)
    return add_scaled3(p, -1.0, o)


@kernel
def _place(m, i, q, relative, body, dof):
    """Store the pose and columns of body i, for any joint; relative: True for a position that counts from ORIGIN."""
    align_stack(body)
    Rp, pp, _, _ = _load_parent(m, i, body)
    C, t, k, kind = m.rotation[i], m.translation[i], m.q_index[i], m.joint_type[i]
    p = add_rotated(pp, Rp, (t[0], t[1], t[2]))
    R = multiply(Rp, (C[0], C[1], C[2], C[3], C[4], C[5], C[6], C[7], C[8]))
    if kind == REVOLUTE:
        R, p = _revolute_pose(m, i, q, Rp, pp)
    elif kind == PRISMATIC:
        d = m.joint_axis[i]
        p = add_scaled3(p, load(q, k), rotate(Rp, (d[0], d[1], d[2])))
    elif kind == SPHERICAL:
        R = multiply(R, _quaternion_rotation(load(q, k), load(q, k + 1), load(q, k + 2), load(q, k + 3)))
    elif kind == PLANAR:
        p = add_scaled3(add_scaled3(p, load(q, k), (R[0], R[3], R[6])), load(q, k + 1), (R[1], R[4], R[7]))
        s, c = sincos(load(q, k + 2))
        zero = splat(body, 0.0)
        R = multiply(R, (c, -s, zero, s, c, zero, zero, zero, splat(body, 1.0)))
    else:  # free flyer or translation
        p = add_rotated(p, R, load3(q, k))
        if kind == FREE_FLYER:
            R = multiply(R, _quaternion_rotation(load(q, k + 3), load(q, k + 4), load(q, k + 5), load(q, k + 6)))
    if relative:
        p = _from_origin(m, i, p, body)
    store9(body, i * BODY + ROTATION, R)
    store3(body, i * BODY + POSITION, p)
    zero = splat(body, 0.0)
    for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
        d = m.dof_axis[k]
        u = rotate(R, (d[0], d[1], d[2]))
        if m.dof_angular[k] != 0:
            store6(dof, k * DOF + COLUMN, join(u, cross(p, u)))
        else:
            store6(dof, k * DOF + COLUMN, join((zero, zero, zero), u))


@kernel
def place_bodies(m, q, body, dof):
    """Compute poses and world columns only; body (nb BODY), dof (nv DOF)."""
    for i in range(m.parent.size):
        _place(m, i, q, i < 0, body, dof)  # False, but no literal, for which numba would compile another kernel


@kernel
def place_near_origin(m, q, body, dof):
    """`place_bodies` with positions relative to ORIGIN, as in `forward_pass`."""
    for i in range(m.parent.size):
        _place(m, i, q, i >= 0, body, dof)


@kernel
def place_inertias(m, body):
    """Compute world first moments and rotational inertias, after `place_bodies`."""
    align_stack(body)
    for i in range(m.parent.size):
        b = i * BODY
        c, I = m.first_moment[i], m.rotational_inertia[i]
        h, Iw = world_inertia(
            load9(body, b + ROTATION), load3(body, b + POSITION), m.mass[i], (c[0], c[1], c[2]),
            (I[0], I[1], I[2], I[3], I[4], I[5]),
        )  # fmt: skip
        store3(body, b + MOMENT, h)
        store6(body, b + INERTIA, Iw)


@kernel
def _move_general(m, i, q, v, a, body, dof, order):
    """Store pose, velocity, acceleration and derivative vectors of body i, for any joint."""
    align_stack(body)
    _place(m, i, q, i >= 0, body, dof)
    _, _, vp, ap = _load_parent(m, i, body)
    zero = splat(body, 0.0)
    first, last = m.v_index[i], m.v_index[i] + m.dof_count[i]
    vj = (zero, zero, zero, zero, zero, zero)
    ai = ap
    for k in range(first, last):
        S = load6(dof, k * DOF + COLUMN)
        vj = add_scaled6(vj, load(v, k), S)
        ai = add_scaled6(ai, load(a, k), S)
    vi = add6(vp, vj)
    store6(body, i * BODY + VELOCITY, vi)
    store6(body, i * BODY + ACCELERATION, add_cross_motion(ai, vp, vj))
    if order == DERIVATIVES:
        for k in range(first, last):
            d = k * DOF
            S = load6(dof, d + COLUMN)
            psi = cross_motion(vp, S)
            store6(dof, d + PSI, psi)
            store6(dof, d + PSI2, add_cross_motion(cross_motion(ap, S), vp, psi))
            store6(dof, d + RATE, add_cross_motion(psi, vi, S))


@helper
def _move_revolute(m, i, q, v, a, body, dof, order):
    """`_move_general` for a revolute joint, whose Sdot is psi."""
    Rp, pp, vp, ap = _load_parent(m, i, body)
    R, p = _revolute_pose(m, i, q, Rp, pp)
    p = _from_origin(m, i, p, body)
    S = _revolute_column(m, i, Rp, p)
    k = m.v_index[i]
    d = k * DOF
    store9(body, i * BODY + ROTATION, R)
    store3(body, i * BODY + POSITION, p)
    store6(body, i * BODY + VELOCITY, add_scaled6(vp, load(v, k), S))
    store6(dof, d + COLUMN, S)
    if order == MOMENTA:
        return
    psi = cross_motion(vp, S)
    store6(body, i * BODY + ACCELERATION, add_scaled6(add_scaled6(ap, load(a, k), S), load(v, k), psi))
    if order == DERIVATIVES:
        store6(dof, d + PSI, psi)
        store6(dof, d + PSI2, add_cross_motion(cross_motion(ap, S), vp, psi))
        store6(dof, d + RATE, add6(psi, psi))


@shared_kernel
def forward_pass(m, q, v, a, body, dof, order):
    """The pass with `order` MOMENTA, FORCES (accelerations included), or DERIVATIVES (all vectors of the first order).

    q (nq), v (nv), a (nv); body (nb BODY), dof (nv DOF).  FORCE is I a + v x* I v of the single body."""
    align_stack(body)
    for i in range(m.parent.size):
        if m.joint_type[i] == REVOLUTE:
            _move_revolute(m, i, q, v, a, body, dof, order)
        else:
            _move_general(m, i, q, v, a, body, dof, order)
        b = i * BODY
        vi = load6(body, b + VELOCITY)
        c, I = m.first_moment[i], m.rotational_inertia[i]
        h, Iw = world_inertia(
            load9(body, b + ROTATION), load3(body, b + POSITION), m.mass[i], (c[0], c[1], c[2]),
            (I[0], I[1], I[2], I[3], I[4], I[5]),
        )  # fmt: skip
        momentum = inertia_times(m.mass[i], h, Iw, vi)
        store3(body, b + MOMENT, h)
        store6(body, b + INERTIA, Iw)
        store6(body, b + MOMENTUM, momentum)
        if order != MOMENTA:
            ai = load6(body, b + ACCELERATION)
            store6(body, b + FORCE, add_cross_force(inertia_times(m.mass[i], h, Iw, ai), vi, momentum))
        if order == DERIVATIVES:
            store6(body, b + INERTIA_RATE, rate_rotation(h, Iw, vi))


# --------------------------------------------------------------------------------------------
# The virtual velocity V = sum of w_k s_k down the path to each body, and zeta = V_p x s of each degree of freedom.

VIRTUAL, SUM_G0, SUM_G4, SUM_MOMENT, SUM_ROTATION = 0, 6, 12, 18, 21
VIRTUAL_BODY = 27


@helper
def load_virtual(m, i, virtual):
    """V of the parent of body i."""
    zero = splat(virtual, 0.0)
    if m.parent[i] >= 0:
        return load6(virtual, m.parent[i] * VIRTUAL_BODY + VIRTUAL)
    return (zero, zero, zero, zero, zero, zero)


@kernel
def virtual_motion(m, w, dof, virtual, zeta):
    """Store V of every body and zeta of every degree of freedom, and zero the subtree sums."""
    zero = splat(virtual, 0.0)
    for i in range(m.parent.size):
        parent = load_virtual(m, i, virtual)
        V = parent
        for k in range(m.v_index[i], m.v_index[i] + m.dof_count[i]):
            s = load6(dof, k * DOF + COLUMN)
            store6(zeta, k * 6, cross_motion(parent, s))
            V = add_scaled6(V, load(w, k), s)
        store6(virtual, i * VIRTUAL_BODY + VIRTUAL, V)
        for k in range(6, VIRTUAL_BODY):
            store(virtual, i * VIRTUAL_BODY + k, zero)
