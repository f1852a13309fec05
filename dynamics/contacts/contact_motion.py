"""Motion of contacts, and its first derivatives.

With L(s) = u + w x p the linear part at the contact point p of a world motion s = (w, u), and v_c, a_c the point's
velocity and classical acceleration,

    dp/dq_k   = L(s_k) = J_k                                  da_c/da_k = dv_c/dv_k = J_k
    dv_c/dq_k = L(psi_k) + w_k x v_c
    da_c/dq_k = L(psi2_k) + 2 w(psi_k) x v_c + w_k x a_c      da_c/dv_k = L(rate_k) + 2 w_k x v_c

for the degrees of freedom on the path from the contact's body to the root.  Accelerations carry the base's -g: the
columns come out the same, the value of a_c does not.  The angular velocity and acceleration omega and alpha of a rigid
foot, with w instead of L, have Coriolis terms half as large:

    domega/dq_k = w(psi_k) + w_k x omega                      dalpha/dalpha_k = domega/dv_k = w_k
    dalpha/dq_k = w(psi2_k) + w(psi_k) x omega + w_k x alpha  dalpha/dv_k = w(rate_k) + w_k x omega

With the columns R_i of its rotation and those r_i of the rotation to be kept, its rotation error is

    e = 1/2 sum_i r_i x R_i                                   de/dq_k = 1/2 sum_i r_i x (w_k x R_i)
"""

from dynamics.algorithms.frames import frame_pose, last_dof
from dynamics.algorithms.kinematics import ACCELERATION, BODY, COLUMN, DOF, PSI, PSI2, RATE, VELOCITY
from dynamics.contacts.row_blocks import (
    CONTACT,
    POINT,
    POINT_ACCELERATION,
    POINT_AXES,
    POINT_VELOCITY,
    block_of,
    put_across,
    put_down,
    start_derivatives,
    start_jacobian,
)
from dynamics.simd import align_stack, helper, kernel, load, shared_kernel, splat
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
from dynamics.tangent import store_column3


@helper
def at_point(s, p):
    """L(s): linear part of the world motion s at the point p."""
    return add_cross(linear(s), angular(s), p)


@helper
def column(contacts, c, s, p):
    """What block c sees of the world motion s: L(s) at its point p, or the angular part."""
    if contacts.angular[c] != 0:
        return angular(s)
    return at_point(s, p)


@helper
def sum_of_crosses(turn, X):
    """1/2 sum_i r_i x X_i over the columns of the rotation `turn` (9,) and of X, row-major."""
    x = cross((0.5 * turn[0], 0.5 * turn[3], 0.5 * turn[6]), (X[0], X[3], X[6]))
    x = add_cross(x, (0.5 * turn[1], 0.5 * turn[4], 0.5 * turn[7]), (X[1], X[4], X[7]))
    return add_cross(x, (0.5 * turn[2], 0.5 * turn[5], 0.5 * turn[8]), (X[2], X[5], X[8]))


@helper
def cross_columns(w, X):
    """w x X_i for the columns of X, row-major."""
    a, b, c = cross(w, (X[0], X[3], X[6])), cross(w, (X[1], X[4], X[7])), cross(w, (X[2], X[5], X[8]))
    return (a[0], b[0], c[0], a[1], b[1], c[1], a[2], b[2], c[2])


@shared_kernel
def contact_points(m, contacts, body, points):
    """Motion of all contacts, after `forward_pass`; points (B CONTACT) for B blocks."""
    align_stack(body)
    for c in range(contacts.body.size):
        i = contacts.body[c]
        R, p = frame_pose(i, contacts.frame[c], body)
        V, A = load6(body, i * BODY + VELOCITY), load6(body, i * BODY + ACCELERATION)
        v_c, a_c = column(contacts, c, V, p), column(contacts, c, A, p)
        o = c * CONTACT
        store3(points, o + POINT, p)
        store3(points, o + POINT_VELOCITY, v_c)
        store3(points, o + POINT_ACCELERATION, add_cross(a_c, angular(V), v_c))
        store9(points, o + POINT_AXES, R)


@helper
def constraint(m, contacts, c, points):
    """a_c + kd v_c + kp (p - reference), or alpha + kd omega + kp e, of block c."""
    o = c * CONTACT
    kp, kd = splat(points, contacts.gains[c, 0]), splat(points, contacts.gains[c, 1])
    x = add_scaled3(load3(points, o + POINT_ACCELERATION), kd, load3(points, o + POINT_VELOCITY))
    if contacts.angular[c] != 0:
        return add_scaled3(x, kp, sum_of_crosses(contacts.turn[c], load9(points, o + POINT_AXES)))
    p, r, g = load3(points, o + POINT), contacts.reference[c], m.gravity
    x = add_scaled3(x, kp, (p[0] - r[0], p[1] - r[1], p[2] - r[2]))
    return (x[0] + g[0], x[1] + g[1], x[2] + g[2])


@kernel
def contact_jacobian_transposed(m, contacts, dof, points, Y):
    """J' (nv 3B), row-major; entries of dofs that do not move the contact are not written."""
    align_stack(Y)
    width = 3 * contacts.blocks
    start_jacobian(contacts, width, Y)
    for c in range(contacts.body.size):
        p = load3(points, c * CONTACT + POINT)
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            put_across(contacts, c, points, Y, k * width, column(contacts, c, load6(dof, k * DOF + COLUMN), p))
            k = m.dof_parent[k]


@helper
def _point_columns(contacts, c, k, dof, points):
    """`contact_columns` of a force's block."""
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


@helper
def _angular_columns(contacts, c, k, dof, points):
    """`contact_columns` of a moment's block."""
    o, d = c * CONTACT, k * DOF
    omega, alpha = load3(points, o + POINT_VELOCITY), load3(points, o + POINT_ACCELERATION)
    kp, kd = splat(points, contacts.gains[c, 0]), splat(points, contacts.gains[c, 1])
    w, turn = load3(dof, d + COLUMN), load3(dof, d + PSI)
    turned = cross(w, omega)
    velocity = add3(turn, turned)
    error = sum_of_crosses(contacts.turn[c], cross_columns(w, load9(points, o + POINT_AXES)))
    of_q = add_cross(add_cross(load3(dof, d + PSI2), turn, omega), w, alpha)
    of_q = add_scaled3(add_scaled3(of_q, kd, velocity), kp, error)
    of_v = add_scaled3(add3(load3(dof, d + RATE), turned), kd, w)
    return w, velocity, of_q, of_v


@helper
def contact_columns(contacts, c, k, dof, points):
    """For block c: J_k, dv_c/dq_k, and the derivatives of a_c + kd v_c + kp p with respect to q_k and v_k; or the same
    of omega and alpha + kd omega + kp e."""
    if contacts.angular[c] != 0:
        return _angular_columns(contacts, c, k, dof, points)
    return _point_columns(contacts, c, k, dof, points)


@shared_kernel
def constraint_derivatives(m, contacts, dof, points, Gq, Gv):
    """Derivatives of the constraints with respect to q and v, each (3B nv), after a pass with DERIVATIVES; entries of
    dofs that do not move the contact are not written."""
    align_stack(Gq)
    n = m.dof_body.size
    start_derivatives(contacts, n, Gq, Gv)
    for c in range(contacts.body.size):
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            _, _, of_q, of_v = contact_columns(contacts, c, k, dof, points)
            put_down(contacts, c, points, Gq, k, n, of_q)
            put_down(contacts, c, points, Gv, k, n, of_v)
            k = m.dof_parent[k]


# ------------------------------------------------------------------------------------------------ axes of the forces
@kernel
def force_components(contacts, points, f):
    """Contact forces and moments f (3B), world axes, into the axes in which each is given."""
    for c in range(contacts.body.size):
        if contacts.local[c] != 0:
            o = 3 * block_of(contacts, c)
            store3(f, o, rotate_back(load9(points, c * CONTACT + POINT_AXES), load3(f, o)))


@kernel
def force_derivative_components(m, contacts, dof, points, f, columns, stride, start, F):
    """Derivatives of world-aligned contact forces and moments into those of the components given, for frames whose
    axes count.

    Row r of F begins at start + r stride and has `columns` entries.  For derivatives along q, whose columns are dofs,
    f (3B) in world axes: R' turns with them, f_loc,k = R'(f_k - w_k x f); otherwise None."""
    for c in range(contacts.body.size):
        if contacts.local[c] == 0:
            continue
        R = load9(points, c * CONTACT + POINT_AXES)
        b = 3 * block_of(contacts, c)
        o = start + b * stride
        if f is not None:
            force = load3(f, b)
            k = last_dof(m, contacts.body[c])
            while k >= 0:
                lag = cross(force, load3(dof, k * DOF + COLUMN))
                store_column3(F, o + k, stride, add3(_load_rows(F, o + k, stride), lag))
                k = m.dof_parent[k]
        for k in range(columns):
            store_column3(F, o + k, stride, rotate_back(R, _load_rows(F, o + k, stride)))


@helper
def _load_rows(F, o, stride):
    return (load(F, o), load(F, o + stride), load(F, o + 2 * stride))
