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

# numbers kept per block of rows: position, velocity, acceleration (with -g) and axes; for a moment's block the velocity
# and acceleration are the angular ones
POINT, POINT_VELOCITY, POINT_ACCELERATION, POINT_AXES = 0, 3, 6, 9
CONTACT = 18


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


@kernel
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
    width = 3 * contacts.body.size
    for c in range(contacts.body.size):
        p = load3(points, c * CONTACT + POINT)
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            store3(Y, k * width + 3 * c, column(contacts, c, load6(dof, k * DOF + COLUMN), p))
            k = m.dof_parent[k]


@helper
def store_rows(G, o, n, x):
    """A column of three rows of length n."""
    store(G, o, x[0])
    store(G, o + n, x[1])
    store(G, o + 2 * n, x[2])


@helper
def _block_columns(contacts, c, k, dof, points):
    """What block c sees of s, psi, psi2 and rate of dof k, and the derivative of the error that kp takes back."""
    o, d = c * CONTACT, k * DOF
    s, psi, psi2, rate = load6(dof, d + COLUMN), load6(dof, d + PSI), load6(dof, d + PSI2), load6(dof, d + RATE)
    if contacts.angular[c] != 0:
        error = sum_of_crosses(contacts.turn[c], cross_columns(angular(s), load9(points, o + POINT_AXES)))
        return angular(s), angular(psi), angular(psi2), angular(rate), error
    p = load3(points, o + POINT)
    J = at_point(s, p)
    return J, at_point(psi, p), at_point(psi2, p), at_point(rate, p), J


@helper
def contact_columns(contacts, c, k, dof, points):
    """For block c: J_k, dv_c/dq_k, and the derivatives of a_c + kd v_c + kp p with respect to q_k and v_k; or the same
    of omega and alpha + kd omega + kp e."""
    o, d = c * CONTACT, k * DOF
    v_c, a_c = load3(points, o + POINT_VELOCITY), load3(points, o + POINT_ACCELERATION)
    kp, kd = splat(points, contacts.gains[c, 0]), splat(points, contacts.gains[c, 1])
    coriolis = splat(points, 1.0 if contacts.angular[c] != 0 else 2.0)
    w, turn = load3(dof, d + COLUMN), load3(dof, d + PSI)
    J, psi, psi2, rate, error = _block_columns(contacts, c, k, dof, points)
    turned = cross(w, v_c)
    velocity = add3(psi, turned)
    of_q = add_cross(add_scaled3(psi2, coriolis, cross(turn, v_c)), w, a_c)
    of_q = add_scaled3(add_scaled3(of_q, kd, velocity), kp, error)
    of_v = add_scaled3(add_scaled3(rate, coriolis, turned), kd, J)
    return J, velocity, of_q, of_v


@kernel
def constraint_derivatives(m, contacts, dof, points, Gq, Gv):
    """Derivatives of the constraints with respect to q and v, each (3B nv), after a pass with DERIVATIVES; entries of
    dofs that do not move the contact are not written."""
    align_stack(Gq)
    n = m.dof_body.size
    for c in range(contacts.body.size):
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            _, _, of_q, of_v = contact_columns(contacts, c, k, dof, points)
            store_rows(Gq, 3 * c * n + k, n, of_q)
            store_rows(Gv, 3 * c * n + k, n, of_v)
            k = m.dof_parent[k]


# ------------------------------------------------------------------------------------------------ axes of the forces
@kernel
def force_components(contacts, points, f):
    """Contact forces and moments f (3B), world axes, into the axes in which each is given."""
    for c in range(contacts.body.size):
        if contacts.local[c] != 0:
            store3(f, 3 * c, rotate_back(load9(points, c * CONTACT + POINT_AXES), load3(f, 3 * c)))


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
