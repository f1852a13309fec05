"""What turns with the second frame of a loop: the axes T of a block, and with them its rows and its forces.

With X the motion that rows T'X are about, F = T f the force on the first body, V the relative virtual velocity of the
two points, N = T n of the multiplier n of the rows, and w the angular parts of the columns of the second body,

    d(T'X)/dq_k  gains  T'(X x w_k)                d(J'T f)/dq_k  gains  J'(w_k x F)

and in Hessians, with N_x = w_x x N and F_x = w_x x F, for x on the second body's path and all y on either path,

    Gqq[x, y], Gqq[y, x] += N_x.X_y - F_x.V_y      G[q_x, v_y] += N_x.X_vy      G[q_x, a_y] += N_x.J_y
    Gqq[x, y] += (w_y x N_x).X - (w_y x F_x).V,  y on the second path at or above x      G[q_x, f] -= T'(V x w_x)
"""

from dynamics.algorithms.frames import last_dof
from dynamics.algorithms.kinematics import COLUMN, DOF
from dynamics.contacts.contact_arrays import ContactArrays
from dynamics.contacts.contact_motion import at_point, column, constraint, contact_columns
from dynamics.contacts.loop_arrays import LoopArrays
from dynamics.contacts.row_blocks import CONTACT, POINT, add_column3, axes_of_half, turn_of
from dynamics.derivatives.virtual import VIRTUAL, VIRTUAL_BODY
from dynamics.simd import align_stack, helper, kernel, load, store
from dynamics.simd.by_type import by_type
from dynamics.spatial import add3, add_cross, cross, dot3, load3, load6, rotate, rotate_back, scale3


@helper
def _motion(m, contacts, t, points):
    """X of block t of those that turn."""
    first, second = contacts.turning[t, 1], contacts.turning[t, 2]
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
    """Virtual velocity of the point of half c."""
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
    for t in range(contacts.turning.shape[0]):
        row, c = contacts.turning[t, 0], contacts.turning[t, 2]
        X, T = _motion(m, contacts, t, points), axes_of_half(contacts, c, points)
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
    for t in range(contacts.turning.shape[0]):
        second = contacts.turning[t, 2]
        F = rotate(axes_of_half(contacts, second, points), load3(f, 3 * contacts.turning[t, 0]))
        for side in range(1, 3):
            c = contacts.turning[t, side]
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


add_turning_rows = by_type("contacts", {ContactArrays: _no_rows, LoopArrays: _add_rows})
"""What constraints' derivatives in q (3B nv) gain, after `constraint_derivatives`: (m, contacts, dof, points, G)."""
add_turning_loads = by_type("contacts", {ContactArrays: _no_loads, LoopArrays: _add_loads})
"""What d(ID - J'f)/dq (nv nv) gains, f (3B): (m, contacts, dof, points, f, G)."""


# ------------------------------------------------------------------------------------------------ second order
@kernel
def _add_pairs(m, contacts, c, x, N, F, w, h):
    """Terms of half c and degree of freedom x of the second body, with N_x and F_x."""
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
    for t in range(contacts.turning.shape[0]):
        row, first, second = contacts.turning[t, 0], contacts.turning[t, 1], contacts.turning[t, 2]
        T, X = axes_of_half(contacts, second, w.points), _motion(m, contacts, t, w.points)
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


add_turning_curvature = by_type("contacts", {ContactArrays: _no_curvature, LoopArrays: _add_curvature})
"""Its terms in h.Hqq, h.Hqv, h.Hqa and h.Gzq, after `contact_terms`, f (3B): (m, contacts, f, w, h)."""
