"""Motion of contact points, and its first derivatives.

With L(s) = u + w x p the linear part at the contact point p of a world motion s = (w, u), and v_c, a_c the point's
velocity and classical acceleration,

    dp/dq_k   = L(s_k) = J_k                                  da_c/da_k = dv_c/dv_k = J_k
    dv_c/dq_k = L(psi_k) + w_k x v_c
    da_c/dq_k = L(psi2_k) + 2 w(psi_k) x v_c + w_k x a_c      da_c/dv_k = L(rate_k) + 2 w_k x v_c

for the degrees of freedom on the path from the contact's body to the root.  Accelerations carry the base's -g: the
columns come out the same, the value of a_c does not.
"""

from dynamics.algorithms.frames import frame_pose, last_dof
from dynamics.algorithms.kinematics import ACCELERATION, BODY, COLUMN, DOF, PSI, PSI2, RATE, VELOCITY
from dynamics.simd import align_stack, helper, kernel, load, splat, store
from dynamics.spatial import (
    add3,
    add_cross,
    add_scaled3,
    angular,
    cross,
    linear,
    load3,
    load6,
    load9,
    rotate_back,
    store3,
    store9,
)

# numbers kept per contact: position, velocity, acceleration (with -g) and axes
POINT, POINT_VELOCITY, POINT_ACCELERATION, POINT_AXES = 0, 3, 6, 9
CONTACT = 18


@helper
def at_point(s, p):
    """L(s): linear part of the world motion s at the point p."""
    return add_cross(linear(s), angular(s), p)


@kernel
def contact_points(m, contacts, body, points):
    """Motion of all contact points, after `forward_pass`; points (C CONTACT)."""
    align_stack(body)
    for c in range(contacts.body.size):
        i = contacts.body[c]
        R, p = frame_pose(i, contacts.frame[c], body)
        V = load6(body, i * BODY + VELOCITY)
        v_c = at_point(V, p)
        o = c * CONTACT
        store3(points, o + POINT, p)
        store3(points, o + POINT_VELOCITY, v_c)
        store3(
            points,
            o + POINT_ACCELERATION,
            add_cross(at_point(load6(body, i * BODY + ACCELERATION), p), angular(V), v_c),
        )
        store9(points, o + POINT_AXES, R)


@helper
def constraint(m, contacts, c, points):
    """a_c + kd v_c + kp (p - reference) of contact c."""
    o = c * CONTACT
    kp, kd = splat(points, contacts.gains[c, 0]), splat(points, contacts.gains[c, 1])
    p, r, g = load3(points, o + POINT), contacts.reference[c], m.gravity
    x = add_scaled3(load3(points, o + POINT_ACCELERATION), kd, load3(points, o + POINT_VELOCITY))
    x = add_scaled3(x, kp, (p[0] - r[0], p[1] - r[1], p[2] - r[2]))
    return (x[0] + g[0], x[1] + g[1], x[2] + g[2])


@kernel
def contact_jacobian_transposed(m, contacts, dof, points, Y):
    """J' (nv 3C), row-major; entries of dofs that do not move the contact are not written."""
    align_stack(Y)
    width = 3 * contacts.body.size
    for c in range(contacts.body.size):
        p = load3(points, c * CONTACT + POINT)
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            store3(Y, k * width + 3 * c, at_point(load6(dof, k * DOF + COLUMN), p))
            k = m.dof_parent[k]


@helper
def store_rows(G, o, n, x):
    """A column of three rows of length n."""
    store(G, o, x[0])
    store(G, o + n, x[1])
    store(G, o + 2 * n, x[2])


@helper
def point_columns(contacts, c, k, dof, points):
    """dp/dq_k, dv_c/dq_k, and the derivatives of a_c + kd v_c + kp p with respect to q_k and v_k."""
    o, d = c * CONTACT, k * DOF
    p, v_c, a_c = load3(points, o + POINT), load3(points, o + POINT_VELOCITY), load3(points, o + POINT_ACCELERATION)
    kp, kd = splat(points, contacts.gains[c, 0]), splat(points, contacts.gains[c, 1])
    s, psi = load6(dof, d + COLUMN), load6(dof, d + PSI)
    w, turn = angular(s), angular(psi)
    J = at_point(s, p)
    turned = cross(w, v_c)
    velocity = add3(at_point(psi, p), turned)
    of_q = add_cross(at_point(load6(dof, d + PSI2), p), add3(turn, turn), v_c)
    of_q = add_scaled3(add_scaled3(add_cross(of_q, w, a_c), kd, velocity), kp, J)
    of_v = add_scaled3(add3(at_point(load6(dof, d + RATE), p), add3(turned, turned)), kd, J)
    return J, velocity, of_q, of_v


@kernel
def constraint_derivatives(m, contacts, dof, points, Gq, Gv):
    """d(a_c + kd v_c + kp p)/dq and /dv of all contacts, each (3C nv), after a pass with DERIVATIVES; entries of dofs
    that do not move the contact are not written."""
    align_stack(Gq)
    n = m.dof_body.size
    for c in range(contacts.body.size):
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            _, _, of_q, of_v = point_columns(contacts, c, k, dof, points)
            store_rows(Gq, 3 * c * n + k, n, of_q)
            store_rows(Gv, 3 * c * n + k, n, of_v)
            k = m.dof_parent[k]


# ------------------------------------------------------------------------------------------------ axes of the forces
@kernel
def force_components(contacts, points, f):
    """Contact forces f (3C), world axes, into the axes in which each is given."""
    for c in range(contacts.body.size):
        if contacts.local[c] != 0:
            store3(f, 3 * c, rotate_back(load9(points, c * CONTACT + POINT_AXES), load3(f, 3 * c)))


@kernel
def force_derivative_components(m, contacts, dof, points, f, columns, stride, start, F):
    """Derivatives of world-aligned contact forces into those of the components given, for frames whose axes count.

    Row r of F begins at start + r stride and has `columns` entries.  For derivatives along q, whose columns are dofs,
    f (3C) in world axes: R' turns with them, f_loc,k = R'(f_k - w_k x f); otherwise None."""
    for c in range(contacts.body.size):
        if contacts.local[c] == 0:
            continue
        R = load9(points, c * CONTACT + POINT_AXES)
        o = start + 3 * c * stride
        if f is not None:
            force = load3(f, 3 * c)
            k = last_dof(m, contacts.body[c])
            while k >= 0:
                lag = cross(force, load3(dof, k * DOF + COLUMN))
                store_rows(F, o + k, stride, add3(_load_rows(F, o + k, stride), lag))
                k = m.dof_parent[k]
        for k in range(columns):
            store_rows(F, o + k, stride, rotate_back(R, _load_rows(F, o + k, stride)))


@helper
def _load_rows(F, o, stride):
    return (load(F, o), load(F, o + stride), load(F, o + 2 * stride))
