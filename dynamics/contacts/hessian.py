"""The exact Hessian of y'z, z = (a, f) the accelerations and forces of contact dynamics, without forming a tensor.

With g(z; q, v, tau) = 0 of `derivatives`, nu = Z'y = (mu, n) and G the Hessian of nu'g at constant nu, z_x = dz/dx,

    Hqq = -(Gqq + T_q + T_q')      Hqv = -(Gqv + T_v)      Hqtau = -T_tau      Hvv = -Gvv         T_x = Gqz z_x

mu'g1 is what `inverse_dynamics_hessian_kernel` takes, with the contact forces as dead loads.  n'g2 adds, for every
degree of freedom x, sums over the contacts below it,

    B = sum J x n        C = sum (2 dv_c/dq + kd J) x n        D = sum dg2/dq x n        D_v = sum dg2/dv x n

and for x at or below y on one path, with w the angular parts of a column s, its psi, psi2 and rate,

    Gqq[x, y] += C_x.w(psi_y) + B_x.w(psi2_y) + D_x.w_y            Gvv[x, y] += 2 B_x.w_y
    G[q_x, v_y] += C_x.w_y + B_x.w(rate_y)                         G[q_y, v_x] += 2 B_x.w(psi_y) + D_v,x.w_y
    G[q_x, a_y] += B_x.w_y                                         G[q_y, a_x] += B_x.w_y

where inside one joint only the forms with q_y upper apply, as in `derivatives.hessian`, and
Gvv[x, y] += B_x.w_y + B_y.w_x.  Forces enter by G[q_k, f] = -d(J mu)/dq_k = -(L(zeta_k) + w_k x L(V)).

A multiplier e of a force given in the frame's axes turns with them: D -= (w x e) x f and G[q_k, f] -= w_k x e.
"""

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.batch import empty_matrices, launch, points, square_matrices
from dynamics.algorithms.branch_factor import four_columns, load_columns, store_columns, subtract_scaled
from dynamics.algorithms.frames import last_dof
from dynamics.algorithms.kinematics import COLUMN, DOF, PSI, PSI2, RATE
from dynamics.contacts.contact_motion import (
    CONTACT,
    POINT,
    POINT_AXES,
    at_point,
    contact_points,
    point_columns,
    store_rows,
)
from dynamics.contacts.derivatives import (
    carve_first_order,
    contact_loads,
    first_order_numbers,
    invert_contact_kkt,
    minus_products,
)
from dynamics.contacts.dynamics import as_damping, carve_workspace, contact_dynamics_kernel, workspace_numbers
from dynamics.contacts.point_contact import as_contact_set
from dynamics.derivatives.hessian import inverse_dynamics_hessian_kernel
from dynamics.derivatives.virtual import VIRTUAL, VIRTUAL_BODY
from dynamics.kernel_model import kernel_model
from dynamics.simd import (
    LANES,
    align_stack,
    carve,
    driver,
    fma,
    gather,
    gather_state,
    helper,
    kernel,
    load,
    scatter,
    splat,
    store,
)
from dynamics.spatial import add3, add_cross, add_scaled3, cross, dot3, load3, load6, load9, rotate, store3
from dynamics.validation import as_array

# per degree of freedom: the sums B, C, D, D_v
SUM_B, SUM_C, SUM_D, SUM_DV, SUMS = 0, 3, 6, 9, 12


class ContactDynamicsHessian(NamedTuple):
    """Second derivatives of w_a'a + w_f'f; each (nv, nv) or (K, nv, nv)."""

    Hqq: np.ndarray
    Hqv: np.ndarray
    Hvv: np.ndarray
    Hqtau: np.ndarray


class SecondOrder(NamedTuple):
    """Lanes of the Hessian, m = 3 C."""

    y: np.ndarray  # (nv + m) multiplier
    nu: np.ndarray  # (nv + m)
    virtual: np.ndarray  # (nb VIRTUAL_BODY)
    zeta: np.ndarray  # (nv 6)
    sums: np.ndarray  # (nv SUMS)
    Hqq: np.ndarray  # (nv nv), the others too
    Hqv: np.ndarray
    Hvv: np.ndarray
    Hqa: np.ndarray
    Hqtau: np.ndarray
    Gzq: np.ndarray  # ((nv + m) nv), rows a and f, columns q


def _second_order_numbers(model, contacts) -> int:
    n, size = model.nv, 3 * len(contacts)
    return 2 * (n + size) + model.nb * VIRTUAL_BODY + n * (6 + SUMS + 5 * n + n + size)


@kernel
def _carve_second_order(m, C, work):
    nb, n, size = m.parent.size, m.dof_body.size, 3 * C
    y, w = carve(work, n + size)
    nu, w = carve(w, n + size)
    virtual, w = carve(w, nb * VIRTUAL_BODY)
    zeta, w = carve(w, n * 6)
    sums, w = carve(w, n * SUMS)
    Hqq, w = carve(w, n * n)
    Hqv, w = carve(w, n * n)
    Hvv, w = carve(w, n * n)
    Hqa, w = carve(w, n * n)
    Hqtau, w = carve(w, n * n)
    Gzq, w = carve(w, (n + size) * n)
    return SecondOrder(y, nu, virtual, zeta, sums, Hqq, Hqv, Hvv, Hqa, Hqtau, Gzq), w


# ------------------------------------------------------------------------------------------------ terms of the contacts
@helper
def _force_multiplier(contacts, c, points, y):
    """Multiplier of the force of contact c in world axes; y (3C) in those of the force given."""
    e = load3(y, 3 * c)
    if contacts.local[c] != 0:
        e = rotate(load9(points, c * CONTACT + POINT_AXES), e)
    return e


@kernel
def _adjoint(n, contacts, points, Z, y, nu):
    """nu = Z'y, once the force multipliers in y are turned to world axes."""
    align_stack(Z)
    width = n + 3 * contacts.body.size
    for c in range(contacts.body.size):
        store3(y, n + 3 * c, _force_multiplier(contacts, c, points, y[n:]))
    for j in range(0, width, 4):
        c = four_columns(j, width)
        x = (splat(Z, 0.0), splat(Z, 0.0), splat(Z, 0.0), splat(Z, 0.0))
        for k in range(width):
            x = subtract_scaled(x, -load(y, k), load_columns(Z, Z, k * width, c))
        store_columns(nu, nu, 0, c, x)


@helper
def _add_sums(sums, o, J, velocity, of_q, of_v, kd, n):
    """Terms of one contact in B, C, D, D_v at offset o."""
    store3(sums, o + SUM_B, add_cross(load3(sums, o + SUM_B), J, n))
    store3(sums, o + SUM_C, add_cross(load3(sums, o + SUM_C), add_scaled3(add3(velocity, velocity), kd, J), n))
    store3(sums, o + SUM_D, add_cross(load3(sums, o + SUM_D), of_q, n))
    store3(sums, o + SUM_DV, add_cross(load3(sums, o + SUM_DV), of_v, n))


@kernel
def _contact_terms(m, contacts, f, w, d, h):
    """dg2/dq and dg2/dv into d, the sums, and G[q, f] into the last rows of h.Gzq."""
    align_stack(w.dof)
    n = m.dof_body.size
    h.sums[:], h.Gzq[:] = 0.0, 0.0
    for c in range(contacts.body.size):
        row = 3 * c * n + n * n
        p = load3(w.points, c * CONTACT + POINT)
        virtual = at_point(load6(h.virtual, contacts.body[c] * VIRTUAL_BODY + VIRTUAL), p)
        kd, nu = splat(w.points, contacts.gains[c, 1]), load3(h.nu, n + 3 * c)
        e, force = load3(h.y, n + 3 * c), load3(f, 3 * c)
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            J, velocity, of_q, of_v = point_columns(contacts, c, k, w.dof, w.points)
            store_rows(d.Gq, row + k, n, of_q)
            store_rows(d.Gv, row + k, n, of_v)
            o = k * SUMS
            _add_sums(h.sums, o, J, velocity, of_q, of_v, kd, nu)
            turn = load3(w.dof, k * DOF + COLUMN)
            of_f = add_cross(at_point(load6(h.zeta, k * 6), p), turn, virtual)
            if contacts.local[c] != 0:
                lag = cross(turn, e)
                of_f = add3(of_f, lag)
                store3(h.sums, o + SUM_D, add_cross(load3(h.sums, o + SUM_D), force, lag))
            store_rows(h.Gzq, row + k, n, (-of_f[0], -of_f[1], -of_f[2]))
            k = m.dof_parent[k]


@helper
def _add_to(H, o, x):
    store(H, o, load(H, o) + x)


@kernel
def _add_contact_curvature(m, dof, h):
    """The terms of n'g2 in Gqq, Gqv, Gvv, Gqa."""
    align_stack(dof)
    n = m.dof_body.size
    for x in range(n):
        o, first = x * SUMS, m.v_index[m.dof_body[x]]
        B, C, D, Dv = (
            load3(h.sums, o + SUM_B), load3(h.sums, o + SUM_C), load3(h.sums, o + SUM_D), load3(h.sums, o + SUM_DV),
        )  # fmt: skip
        y = first + m.dof_count[m.dof_body[x]] - 1
        while y >= 0:
            e = y * DOF
            s, psi, psi2 = load3(dof, e + COLUMN), load3(dof, e + PSI), load3(dof, e + PSI2)
            lower, upper = x * n + y, y * n + x
            turned = dot3(B, s)
            curvature = dot3(C, psi) + dot3(B, psi2) + dot3(D, s)
            _add_to(h.Hqq, lower, curvature)
            _add_to(h.Hqv, upper, fma(2.0, dot3(B, psi), dot3(Dv, s)))
            _add_to(h.Hqa, upper, turned)
            if y < first:
                _add_to(h.Hqq, upper, curvature)
                _add_to(h.Hqv, lower, dot3(C, s) + dot3(B, load3(dof, e + RATE)))
                _add_to(h.Hqa, lower, turned)
                _add_to(h.Hvv, lower, turned + turned)
                _add_to(h.Hvv, upper, turned + turned)
            else:
                _add_to(h.Hvv, lower, turned + dot3(load3(h.sums, y * SUMS + SUM_B), load3(dof, x * DOF + COLUMN)))
            y = m.dof_parent[y]


# ------------------------------------------------------------------------------------------------ terms of dz
@kernel
def _subtract_products(m, contacts, G, X, stride, H):
    """H <- H - G'X, for the first nv columns of X (nv + 3C rows of length stride) and the pattern of G."""
    n = m.dof_body.size
    for i in range(0, n, 2):
        first, last = contacts.pair_start[i // 2], contacts.pair_start[i // 2 + 1]
        for j in range(0, n, 4):
            _product_tile(n, i, min(i + 1, n - 1), contacts.pair_row, first, last, G, X, stride, four_columns(j, n), H)


@kernel
def _product_tile(n, i, j, rows, first, last, G, X, stride, c, H):
    """Rows i and j, four columns of H."""
    align_stack(H)
    x0, x1 = load_columns(H, H, i * n, c), load_columns(H, H, j * n, c)
    for t in range(first, last):
        k = rows[t]
        y = load_columns(X, X, k * stride, c)
        x0 = subtract_scaled(x0, load(G, k * n + i), y)
        x1 = subtract_scaled(x1, load(G, k * n + j), y)
    store_columns(H, H, i * n, c, x0)
    store_columns(H, H, j * n, c, x1)


@kernel
def _congruence(m, contacts, d, h):
    """The blocks of G into those of H."""
    align_stack(h.Hqq)
    n = m.dof_body.size
    width = n + 3 * contacts.body.size
    for i in range(n):
        for j in range(n):
            store(h.Gzq, j * n + i, load(h.Hqa, i * n + j))
            for H in (h.Hqv, h.Hvv):
                store(H, i * n + j, -load(H, i * n + j))
    T = h.Hqa
    T[:], h.Hqtau[:] = 0.0, 0.0
    _subtract_products(m, contacts, h.Gzq, d.Gq, n, T)
    _subtract_products(m, contacts, h.Gzq, d.Gv, n, h.Hqv)
    _subtract_products(m, contacts, h.Gzq, d.Z, width, h.Hqtau)
    for i in range(n):
        for j in range(n):
            store(h.Hqq, i * n + j, load(T, i * n + j) + load(T, j * n + i) - load(h.Hqq, i * n + j))


@kernel
def contact_hessian_kernel(m, contacts, q, v, tau, damping, w, d, h):
    """First derivatives as `contact_first_order` leaves them, and the Hessian of y'z, for one knot per lane.

    h.y holds the multipliers of a and of the forces given; the latter are turned to world axes."""
    n = m.dof_body.size
    w.Y[:], d.Gq[:], d.Gv[:] = 0.0, 0.0, 0.0
    h.Hqq[:], h.Hqv[:], h.Hvv[:], h.Hqa[:] = 0.0, 0.0, 0.0, 0.0
    contact_dynamics_kernel(m, contacts, q, v, tau, damping, w)
    invert_contact_kkt(m, contacts, w, d)
    _adjoint(n, contacts, w.points, d.Z, h.y, h.nu)
    loads = contact_loads(contacts, w.f, d.dead)
    inverse_dynamics_hessian_kernel(
        m, q, v, w.a, h.nu[:n], loads, w.body, w.dof, h.virtual, h.zeta, d.torque, d.Gq[: n * n], d.Gv[: n * n], w.M,
        h.Hqq, h.Hqv, h.Hvv, h.Hqa,
    )  # fmt: skip
    contact_points(m, contacts, w.body, w.points)
    _contact_terms(m, contacts, w.f, w, d, h)
    _add_contact_curvature(m, w.dof, h)
    minus_products(m, contacts, d.Z, d.Gq, d.Gv, d.panel)
    _congruence(m, contacts, d, h)


@driver
def _drive(first, last, work, block, contacts, q, v, tau, damping, y, Hqq, Hqv, Hvv, Hqtau):
    m = kernel_model(block)
    C = contacts.body.size
    w, rest = carve_workspace(m, C, work)
    d, rest = carve_first_order(m, C, rest)
    h, rest = _carve_second_order(m, C, rest)
    for c in range(first, last):
        q_, v_, tau_, _ = gather_state(q, v, tau, c * LANES, rest)
        gather(y, c * LANES, h.y)
        contact_hessian_kernel(m, contacts, q_, v_, tau_, damping, w, d, h)
        scatter(h.Hqq, c * LANES, Hqq)
        scatter(h.Hqv, c * LANES, Hqv)
        scatter(h.Hvv, c * LANES, Hvv)
        scatter(h.Hqtau, c * LANES, Hqtau)


# ------------------------------------------------------------------------------------------------ public
def contact_dynamics_hessian(model, q, v, tau, contacts, w_a, w_f, damping: float = 0.0) -> ContactDynamicsHessian:
    """Hessian of w_a'a + w_f'f, a and f the accelerations and forces of contact dynamics.

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq);  v, tau : (nv,) or (K, nv)
    contacts : sequence of C `PointContact`, or a `ContactSet`
    w_a : (nv,) or (K, nv), multiplier of the accelerations
    w_f : (C, 3) or (K, C, 3), multiplier of the forces' components that each contact asks for
    damping : as in `contact_dynamics`

    Returns
    -------
    ContactDynamicsHessian(Hqq, Hqv, Hvv, Hqtau), each (nv, nv) or (K, nv, nv).  Hqq[j, k] = d/dq_k (d/dq_j), not
    symmetric inside a joint of several degrees of freedom; in Hqv and Hqtau the row is q.

    Raises
    ------
    ValueError, TypeError : as `contact_dynamics`.
    """
    contacts = as_contact_set(model, contacts)
    single, (q, v, tau, w_a) = points(model, q, v=v, tau=tau, w_a=w_a)
    K, n, C = len(q), model.nv, len(contacts)
    y = np.hstack([w_a, _force_multipliers(w_f, K, C)])
    H = empty_matrices(4, K, n)
    numbers = workspace_numbers(model, contacts) + first_order_numbers(model, contacts) + model.nq + 2 * n
    numbers += _second_order_numbers(model, contacts)
    launch(_drive, K, numbers, model.block, contacts.arrays, q, v, tau, as_damping(damping), y, *H)
    return ContactDynamicsHessian(*square_matrices(single, H))


def _force_multipliers(w_f, K: int, C: int) -> np.ndarray:
    """w_f as (K, 3 C); ValueError for another shape or a non-finite entry."""
    array = as_array("w_f", w_f)
    if array.shape not in ((C, 3), (K, C, 3)):
        raise ValueError(f"w_f: got shape {array.shape}, expected ({C}, 3) or ({K}, {C}, 3)")
    return np.broadcast_to(array, (K, C, 3)).reshape(K, 3 * C)
