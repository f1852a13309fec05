"""Rows of the constraints of contacts, loop endpoints and couplings: their motion and its first derivatives."""

from dynamics.algorithms.frames import frame_pose, last_dof
from dynamics.algorithms.kinematics import (
    ACCELERATION,
    BODY,
    COLUMN,
    DOF,
    ORIGIN,
    PSI,
    PSI2,
    RATE,
    VELOCITY,
    VIRTUAL,
    VIRTUAL_BODY,
)
from dynamics.contacts.contact_set import ContactArrays, LoopArrays
from dynamics.simd import align_stack, fma, helper, kernel, load, shared_kernel, splat, store
from dynamics.simd.by_type import by_type
from dynamics.spatial.spatial import (
    add3,
    add_cross,
    add_scaled3,
    angular,
    cross,
    dot3,
    linear,
    load3,
    load6,
    load9,
    rotate,
    rotate_back,
    scale3,
    store3,
    store9,
)
from dynamics.spatial.tangent import store_column3

# --------------------------------------------------------------------------------------------
# Storage of the motion of a contact: in rows of its own, or for endpoints of loops added to the rows of the loop.

POINT, POINT_VELOCITY, POINT_ACCELERATION, POINT_AXES, POINT_OFF = 0, 3, 6, 9, 18
CONTACT = 21
"""Size per block of a contact or endpoint of a loop: position (from the pass's ORIGIN), velocity, acceleration (with
-g), axes, and distance from the reference; for a moment's block the velocity and acceleration are the angular ones."""


# ------------------------------------------------------------------------------------------------ blocks and axes
@helper
def _own_block(contacts, c):
    return c


@helper
def _block_of_endpoint(contacts, c):
    return contacts.row[c]


@helper
def _unchanged(contacts, c, points, x):
    return x


@helper
def axes_of_endpoint(contacts, c, points):
    """Axes T (9) of the block of endpoint c."""
    if contacts.axes[c] >= 0:
        return load9(points, contacts.axes[c] * CONTACT + POINT_AXES)
    T = contacts.fixed_axes[c]
    zero = splat(points, 0.0)
    return (zero + T[0], zero + T[1], zero + T[2], zero + T[3], zero + T[4], zero + T[5], zero + T[6], zero + T[7],
            zero + T[8])  # fmt: skip


@helper
def _part_of_rows(contacts, c, points, x):
    y, s, k = rotate_back(axes_of_endpoint(contacts, c, points), x), contacts.sign[c], contacts.kept[c]
    return (s * k[0] * y[0], s * k[1] * y[1], s * k[2] * y[2])


@helper
def _part_of_force(contacts, c, points, x):
    return scale3(rotate(axes_of_endpoint(contacts, c, points), x), contacts.sign[c])


block_of = by_type("contacts", {ContactArrays: _own_block, LoopArrays: _block_of_endpoint})
"""Block of a contact or endpoint: (contacts, c)."""
on_body = by_type("contacts", {ContactArrays: _unchanged, LoopArrays: _part_of_force})
"""Force on the body of contact or endpoint c, world axes, from the rows' force x: (contacts, c, points, x)."""


# ------------------------------------------------------------------------------------------------ into matrices
@helper
def _store_across(contacts, c, points, Y, o, x):
    store3(Y, o + 3 * c, x)


@helper
def _add_across(contacts, c, points, Y, o, x):
    o += 3 * contacts.row[c]
    store3(Y, o, add3(load3(Y, o), _part_of_rows(contacts, c, points, x)))


@helper
def _store_down(contacts, c, points, G, o, n, x):
    store_column3(G, o + 3 * c * n, n, x)


@helper
def add_column3(G, o, n, x):
    """G[o], G[o + n], G[o + 2 n] += x"""
    store_column3(G, o, n, add3((load(G, o), load(G, o + n), load(G, o + 2 * n)), x))


@helper
def _add_down(contacts, c, points, G, o, n, x):
    add_column3(G, o + 3 * contacts.row[c] * n, n, _part_of_rows(contacts, c, points, x))


put_across = by_type("contacts", {ContactArrays: _store_across, LoopArrays: _add_across})
"""Store the motion x at contact or endpoint c in the row of Y that starts at o: (contacts, c, points, Y, o, x)."""
put_down = by_type("contacts", {ContactArrays: _store_down, LoopArrays: _add_down})
"""Store it in a column of G, whose rows of blocks start at o, n apart: (contacts, c, points, G, o, n, x)."""


# ------------------------------------------------------------------------------------------------ sums over endpoints
@kernel
def _leave(contacts, width, Y):
    return


@kernel
def _start_with_couplings(contacts, width, Y):
    Y[:] = 0.0
    for i in range(contacts.coupled_row.size):
        o = contacts.coupled_dof[i] * width + contacts.coupled_row[i]
        store(Y, o, splat(Y, contacts.coupled_ratio[i]))


start_jacobian = by_type("contacts", {ContactArrays: _leave, LoopArrays: _start_with_couplings})
"""Start J' (nv 3B) with the ratios of coupled joints; contacts and endpoints add theirs: (contacts, width, Y)."""


# ------------------------------------------------------------------------------------------------ coupled joints
@kernel
def subtract_couplings(m, contacts, q, v, f):
    """f (3B) -= kd sum_j r_j v_j + kp (sum_j r_j q_j - offset) in the rows of coupled joints."""
    for i in range(contacts.coupled_row.size):
        k, r, row = contacts.coupled_dof[i], contacts.coupled_ratio[i], contacts.coupled_row[i]
        kp, kd = contacts.coupled_gains[i, 0], contacts.coupled_gains[i, 1]
        x = fma(kp * r, load(q, m.q_index[m.dof_body[k]]), splat(f, -kp * contacts.coupled_offset[i]))
        store(f, row, load(f, row) - fma(kd * r, load(v, k), x))


@kernel
def _no_derivatives(contacts, n, Gq, Gv):
    return


@kernel
def _derivatives_of_couplings(contacts, n, Gq, Gv):
    for i in range(contacts.coupled_row.size):
        o, r = contacts.coupled_row[i] * n + contacts.coupled_dof[i], contacts.coupled_ratio[i]
        store(Gq, o, splat(Gq, contacts.coupled_gains[i, 0] * r))
        store(Gv, o, splat(Gv, contacts.coupled_gains[i, 1] * r))


@kernel
def _no_velocities(contacts, s, v, f):
    return


@kernel
def _velocities_of_couplings(contacts, s, v, f):
    for i in range(contacts.coupled_row.size):
        row = contacts.coupled_row[i]
        store(f, row, fma(s * contacts.coupled_ratio[i], load(v, contacts.coupled_dof[i]), load(f, row)))


@kernel
def _no_velocity_derivatives(contacts, s, n, Gv):
    return


@kernel
def _velocity_derivatives_of_couplings(contacts, s, n, Gv):
    for i in range(contacts.coupled_row.size):
        o = contacts.coupled_row[i] * n + contacts.coupled_dof[i]
        store(Gv, o, splat(Gv, s * contacts.coupled_ratio[i]))


start_derivatives = by_type("contacts", {ContactArrays: _no_derivatives, LoopArrays: _derivatives_of_couplings})
"""Store derivatives of joint couplings in q and v (3B nv), zero before the call: (contacts, n, Gq, Gv)."""
add_coupled_velocities = by_type("contacts", {ContactArrays: _no_velocities, LoopArrays: _velocities_of_couplings})
"""f (3B) += s J v in the rows of coupled joints: (contacts, s, v, f)."""
coupled_velocity_derivatives = by_type(
    "contacts", {ContactArrays: _no_velocity_derivatives, LoopArrays: _velocity_derivatives_of_couplings}
)
"""s J in the rows (3B nv) of coupled joints: (contacts, s, n, Gv)."""


@helper
def turn_of(dof, k):
    """Angular part of the column of degree of freedom k."""
    return load3(dof, k * DOF + COLUMN)


@helper
def carries(m, k, body):
    """True if degree of freedom k moves a body; none moves the world, -1."""
    return body >= 0 and k <= last_dof(m, body) < m.subtree_end[k]


# --------------------------------------------------------------------------------------------
# Motion of contacts, and its first derivatives.
#
# With L(s) = u + w x p the linear part at the contact point p of a world motion s = (w, u), and v_c, a_c the point's
# velocity and classical acceleration,
#
#     dp/dq_k   = L(s_k) = J_k                                  da_c/da_k = dv_c/dv_k = J_k
#     dv_c/dq_k = L(psi_k) + w_k x v_c
#     da_c/dq_k = L(psi2_k) + 2 w(psi_k) x v_c + w_k x a_c      da_c/dv_k = L(rate_k) + 2 w_k x v_c
#
# for the degrees of freedom on the path from the contact's body to the root.  Accelerations carry the base's -g: the
# columns come out the same, the value of a_c does not.  The angular velocity and acceleration omega and alpha of a
# rigid foot, with w instead of L, have Coriolis terms half as large:
#
#     domega/dq_k = w(psi_k) + w_k x omega                      dalpha/dalpha_k = domega/dv_k = w_k
#     dalpha/dq_k = w(psi2_k) + w(psi_k) x omega + w_k x alpha  dalpha/dv_k = w(rate_k) + w_k x omega
#
# With the columns R_i of its rotation and those r_i of the rotation to be kept, its rotation error is
#
#     e = 1/2 sum_i r_i x R_i                                   de/dq_k = 1/2 sum_i r_i x (w_k x R_i)


@helper
def at_point(s, p):
    """L(s): linear part of the world motion s at the point p."""
    return add_cross(linear(s), angular(s), p)


@helper
def column(contacts, c, s, p):
    """Part of the world motion s that block c constrains: L(s) at its point p, or the angular part."""
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
        x, r = load3(body, ORIGIN), contacts.reference[c]
        store3(points, o + POINT_OFF, add3((x[0] - r[0], x[1] - r[1], x[2] - r[2]), p))


@helper
def constraint(m, contacts, c, points):
    """a_c + kd v_c + kp (p - reference), or alpha + kd omega + kp e, of block c."""
    o = c * CONTACT
    kp, kd = splat(points, contacts.gains[c, 0]), splat(points, contacts.gains[c, 1])
    x = add_scaled3(load3(points, o + POINT_ACCELERATION), kd, load3(points, o + POINT_VELOCITY))
    if contacts.angular[c] != 0:
        return add_scaled3(x, kp, sum_of_crosses(contacts.turn[c], load9(points, o + POINT_AXES)))
    g = m.gravity
    x = add_scaled3(x, kp, load3(points, o + POINT_OFF))
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
    """`contact_columns` for the block of a force."""
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
    """`contact_columns` for the block of a moment."""
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
    """J_k, dv_c/dq_k, and the derivatives of a_c + kd v_c + kp p with respect to q_k and v_k, for block c of a force;
    for a moment the same columns of omega and alpha + kd omega + kp e."""
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
    """Rotate contact forces and moments f (3B) from world axes to the axes in which each contact reports them."""
    for c in range(contacts.body.size):
        if contacts.local[c] != 0:
            o = 3 * block_of(contacts, c)
            store3(f, o, rotate_back(load9(points, c * CONTACT + POINT_AXES), load3(f, o)))


@kernel
def force_derivative_components(m, contacts, dof, points, f, columns, stride, start, F):
    """Rotate derivatives of contact forces and moments in world axes to those of the components in frame axes, for
    contacts that report these.

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


# --------------------------------------------------------------------------------------------
# Terms of loops whose axes T rotate with the second frame, and with them the rows and the forces.
#
# With X the motion that rows T'X are about, F = T f the force on the first body, V the relative virtual velocity of the
# two points, N = T n of the multiplier n of the rows, and w the angular parts of the columns of the second body,
#
#     d(T'X)/dq_k  gains  T'(X x w_k)                d(J'T f)/dq_k  gains  J'(w_k x F)
#
# and in Hessians, with N_x = w_x x N and F_x = w_x x F, for x on the second body's path and all y on either path,
#
#     Gqq[x, y], Gqq[y, x] += N_x.X_y - F_x.V_y      G[q_x, v_y] += N_x.X_vy      G[q_x, a_y] += N_x.J_y
#     Gqq[x, y] += (w_y x N_x).X - (w_y x F_x).V,  y on the second path at or above x      G[q_x, f] -= T'(V x w_x)


@helper
def _motion(m, contacts, t, points):
    """Motion X of block t among those with rotating axes."""
    first, second = contacts.rotating[t, 1], contacts.rotating[t, 2]
    x = scale3(constraint(m, contacts, second, points), -1.0)
    if first >= 0:
        x = add3(x, constraint(m, contacts, first, points))
    return x


@helper
def _kept(contacts, c, x):
    k = contacts.kept[c]
    return (k[0] * x[0], k[1] * x[1], k[2] * x[2])


@helper
def _virtual(contacts, c, h, points):
    """Virtual velocity of the point of endpoint c."""
    p = load3(points, c * CONTACT + POINT)
    return column(contacts, c, load6(h.virtual, contacts.body[c] * VIRTUAL_BODY + VIRTUAL), p)


# ------------------------------------------------------------------------------------------------ first order
@kernel
def _no_rows(m, contacts, dof, points, G):
    return


@kernel
def _add_rows(m, contacts, dof, points, G):
    align_stack(G)
    n = m.dof_body.size
    for t in range(contacts.rotating.shape[0]):
        row, c = contacts.rotating[t, 0], contacts.rotating[t, 2]
        X, T = _motion(m, contacts, t, points), axes_of_endpoint(contacts, c, points)
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            x = _kept(contacts, c, rotate_back(T, cross(X, turn_of(dof, k))))
            add_column3(G, 3 * row * n + k, n, x)
            k = m.dof_parent[k]


@kernel
def _no_loads(m, contacts, dof, points, f, G):
    return


@kernel
def _add_loads(m, contacts, dof, points, f, G):
    align_stack(G)
    n = m.dof_body.size
    for t in range(contacts.rotating.shape[0]):
        second = contacts.rotating[t, 2]
        F = rotate(axes_of_endpoint(contacts, second, points), load3(f, 3 * contacts.rotating[t, 0]))
        for side in range(1, 3):
            c = contacts.rotating[t, side]
            if c < 0:
                continue
            p = load3(points, c * CONTACT + POINT)
            j = last_dof(m, contacts.body[c])
            while j >= 0:
                J = scale3(at_point(load6(dof, j * DOF + COLUMN), p), contacts.sign[c])
                k = last_dof(m, contacts.body[second])
                while k >= 0:
                    store(G, j * n + k, load(G, j * n + k) - dot3(J, cross(turn_of(dof, k), F)))
                    k = m.dof_parent[k]
                j = m.dof_parent[j]


add_rotating_frame_rows = by_type("contacts", {ContactArrays: _no_rows, LoopArrays: _add_rows})
"""Add the terms of rotating axes to the constraints' derivatives in q (3B nv): (m, contacts, dof, points, G)."""
add_rotating_frame_loads = by_type("contacts", {ContactArrays: _no_loads, LoopArrays: _add_loads})
"""Add the terms of rotating axes to d(ID - J'f)/dq (nv nv), f (3B): (m, contacts, dof, points, f, G)."""


# ------------------------------------------------------------------------------------------------ second order
@kernel
def _add_pairs(m, contacts, c, x, N, F, w, h):
    """Terms of endpoint c and degree of freedom x of the second body, with N_x and F_x."""
    align_stack(h.Hqq)
    n = m.dof_body.size
    V, sign = _virtual(contacts, c, h, w.points), contacts.sign[c]
    p = load3(w.points, c * CONTACT + POINT)
    y = last_dof(m, contacts.body[c])
    while y >= 0:
        J, _, of_q, of_v = contact_columns(contacts, c, y, w.dof, w.points)
        V_y = add_cross(at_point(load6(h.zeta, y * 6), p), turn_of(w.dof, y), V)
        both = sign * (dot3(N, of_q) - dot3(F, V_y))
        store(h.Hqq, x * n + y, load(h.Hqq, x * n + y) + both)
        store(h.Hqq, y * n + x, load(h.Hqq, y * n + x) + both)
        store(h.Hqv, x * n + y, load(h.Hqv, x * n + y) + sign * dot3(N, of_v))
        store(h.Hqa, x * n + y, load(h.Hqa, x * n + y) + sign * dot3(N, J))
        y = m.dof_parent[y]


@kernel
def _no_curvature(m, contacts, f, w, h):
    return


@kernel
def _add_curvature(m, contacts, f, w, h):
    align_stack(h.Hqq)
    n = m.dof_body.size
    for t in range(contacts.rotating.shape[0]):
        row, first, second = contacts.rotating[t, 0], contacts.rotating[t, 1], contacts.rotating[t, 2]
        T, X = axes_of_endpoint(contacts, second, w.points), _motion(m, contacts, t, w.points)
        N, F = rotate(T, load3(h.nu, n + 3 * row)), rotate(T, load3(f, 3 * row))
        V = scale3(_virtual(contacts, second, h, w.points), -1.0)
        if first >= 0:
            V = add3(V, _virtual(contacts, first, h, w.points))
        x = last_dof(m, contacts.body[second])
        while x >= 0:
            turn, start = turn_of(w.dof, x), m.v_index[m.dof_body[x]]
            N_x, F_x = cross(turn, N), cross(turn, F)
            of_f = _kept(contacts, second, rotate_back(T, cross(turn, V)))
            add_column3(h.Gzq, n * n + 3 * row * n + x, n, of_f)
            if first >= 0:
                _add_pairs(m, contacts, first, x, N_x, F_x, w, h)
            _add_pairs(m, contacts, second, x, N_x, F_x, w, h)
            y = start + m.dof_count[m.dof_body[x]] - 1
            while y >= 0:
                s = turn_of(w.dof, y)
                bent = dot3(cross(s, N_x), X) - dot3(cross(s, F_x), V)
                store(h.Hqq, x * n + y, load(h.Hqq, x * n + y) + bent)
                if y < start:
                    store(h.Hqq, y * n + x, load(h.Hqq, y * n + x) + bent)
                y = m.dof_parent[y]
            x = m.dof_parent[x]


add_rotating_frame_curvature = by_type("contacts", {ContactArrays: _no_curvature, LoopArrays: _add_curvature})
"""Add the terms of rotating axes to h.Hqq, h.Hqv, h.Hqa, h.Gzq after `contact_terms`: (m, contacts, f (3B), w, h)."""
