"""Accelerations and contact forces of a robot in contact, from the factors of M and of J M^-1 J'."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import points, unbatch
from dynamics.algorithms.branch_factor import factorize, sweep_down, sweep_up
from dynamics.algorithms.frames import last_dof
from dynamics.algorithms.inverse_dynamics import torques_of_forces
from dynamics.algorithms.kinematics import BODY, DOF, FORCES, forward_pass
from dynamics.algorithms.mass_matrix import composite_mass_matrix
from dynamics.contacts.contact_motion import (
    CONTACT,
    constraint,
    contact_jacobian_transposed,
    contact_points,
    force_components,
    put_across,
    subtract_couplings,
)
from dynamics.contacts.contact_set import (
    ContactArrays,
    Contacts,
    ContactSet,
    LoopArrays,
    blocks,
    endpoints,
    on_full_model,
)
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.simd import align_stack, fma, fnma, helper, kernel, load, select_less, shared_kernel, splat, store
from dynamics.simd.by_type import by_type
from dynamics.simd.lane_algebra import four_columns, load_columns, scale_columns, store_columns, subtract_scaled
from dynamics.simd.lane_blocks import lanes
from dynamics.spatial.spatial import add_scaled3, load3, scale3, store3

# --------------------------------------------------------------------------------------------
# The Delassus matrix S = J M^-1 J' of contacts: the acceleration of their points per force      [Delassus 1917]
#
# With M = L'D L of `branch_factor` and Y = L^-T J', which is as sparse as J',
#
#     S = Y' D^-1 Y + damping 1
#
# and S = C E C', C unit lower triangular: the lower triangle then holds C E, the diagonal E^-1, the upper triangle C'.
#
# Contacts may be redundant: rows of J that depend on those before them leave a pivot of zero.  Such a row gets E^-1 =
# 0, which is the same as leaving it out: it carries no force, and its constraint follows from the other rows.  A
# pivot counts as zero below `REDUNDANT` times the entry of S that it started from.

REDUNDANT = 1e-10
NEGLIGIBLE = 1e-24
"""Pivots below this times the largest entry count as zero: the square of rounding errors in a row of zeros."""


@kernel
def _half_solve_paths(m, contacts, L, Y):
    width = 3 * contacts.blocks
    for c in range(contacts.body.size):
        k = last_dof(m, contacts.body[c])
        sweep_up(m, L, k, k + 1, Y, Y, width, (3 * c, 3 * c + 1, 3 * c + 2, 3 * c + 2))


@kernel
def _half_solve_all(m, contacts, L, Y):
    width = 3 * contacts.blocks
    for c in range(0, width, 4):
        sweep_up(m, L, 0, m.dof_body.size, Y, Y, width, four_columns(c, width))


half_solve = by_type("contacts", {ContactArrays: _half_solve_paths, LoopArrays: _half_solve_all})
"""Y <- L^-T Y for Y = J' (nv 3B): (m, contacts, L, Y); for contacts only the rows on their paths are touched."""


@helper
def _common_dof(m, i, j):
    """Lowest dof on both paths from bodies i and j, -1 if there is none."""
    k, l = last_dof(m, i), last_dof(m, j)
    while k != l:
        if k > l:
            k = m.dof_parent[k]
        else:
            l = m.dof_parent[l]
    return k


@helper
def _lowest_common(m, contacts, c, d):
    return _common_dof(m, contacts.body[c], contacts.body[d])


@helper
def _next_on_path(m, contacts, k):
    return m.dof_parent[k]


@helper
def _lowest_of_all(m, contacts, c, d):
    return m.dof_body.size - 1


@helper
def _next_of_all(m, contacts, k):
    return k - 1


_first = by_type("contacts", {ContactArrays: _lowest_common, LoopArrays: _lowest_of_all})
_next = by_type("contacts", {ContactArrays: _next_on_path, LoopArrays: _next_of_all})


@kernel
def _no_idle_rows(contacts, width, S):
    return


@kernel
def _ones_on_diagonal(contacts, width, S):
    for i in range(contacts.idle.size):
        r = contacts.idle[i]
        store(S, r * width + r, load(S, r * width + r) + 1.0)


_hold_idle_rows = by_type("contacts", {ContactArrays: _no_idle_rows, LoopArrays: _ones_on_diagonal})


@kernel
def delassus_matrix(m, contacts, L, Y, S):
    """Lower triangle, in blocks of three, of S (3B 3B)."""
    align_stack(S)
    zero = splat(S, 0.0)
    width = 3 * contacts.blocks
    for c in range(contacts.blocks):
        for d in range(c + 1):
            s0 = s1 = s2 = (zero, zero, zero)
            k = _first(m, contacts, c, d)
            while k >= 0:
                y = load3(Y, k * width + 3 * c)
                z = scale3(load3(Y, k * width + 3 * d), load(L, k * m.dof_body.size + k))
                s0, s1, s2 = add_scaled3(s0, y[0], z), add_scaled3(s1, y[1], z), add_scaled3(s2, y[2], z)
                k = _next(m, contacts, k)
            o = 3 * c * width + 3 * d
            store3(S, o, s0)
            store3(S, o + width, s1)
            store3(S, o + 2 * width, s2)
        for r in range(3 * c, 3 * c + 3):
            store(S, r * width + r, load(S, r * width + r) + contacts.damping)
    _hold_idle_rows(contacts, width, S)


@kernel
def factorize_delassus(size, S, diagonal, report):
    """S (size size) = C E C' in place; scratch diagonal (size).

    report: smallest pivot, relative to its entry of S, and number of rows left out."""
    align_stack(S)
    zero, one = splat(S, 0.0), splat(S, 1.0)
    smallest, dropped, largest = one, zero, zero
    for i in range(size):
        store(diagonal, i, load(S, i * size + i))
        largest = select_less(largest, load(diagonal, i), load(diagonal, i), largest)
    for k in range(size):
        pivot, start = load(S, k * size + k), load(diagonal, k)
        bound = start * REDUNDANT + largest * NEGLIGIBLE
        inverse = select_less(bound, pivot, 1.0 / pivot, zero)
        dropped = dropped + select_less(bound, pivot, zero, one)
        relative = select_less(zero, start, pivot / start, zero)
        smallest = select_less(relative, smallest, relative, smallest)
        store(S, k * size + k, inverse)
        for j in range(k + 1, size):
            store(S, k * size + j, load(S, j * size + k) * inverse)
        for i in range(k + 1, size):
            x = load(S, i * size + k)
            for j in range(k + 1, i + 1):
                store(S, i * size + j, fnma(x, load(S, k * size + j), load(S, i * size + j)))
    store(report, 0, smallest)
    store(report, 1, dropped)


@kernel
def solve_delassus(size, S, x):
    """x <- S^-1 x by the factor, x (size); zero for the rows left out."""
    align_stack(S)
    for i in range(size):
        e = load(x, i)
        for k in range(i):
            e = fnma(load(S, k * size + i), load(x, k), e)
        store(x, i, e)
    for i in range(size - 1, -1, -1):
        e = load(x, i) * load(S, i * size + i)
        for k in range(i + 1, size):
            e = fnma(load(S, i * size + k), load(x, k), e)
        store(x, i, _unless_dropped(load(S, i * size + i), e))


@helper
def _unless_dropped(inverse, x):
    """x, or zero where the inverse pivot is."""
    return select_less(0.0 * inverse, inverse, x, 0.0 * inverse)


@kernel
def _solve_columns(size, S, X, o, w, c):
    """`solve_delassus` for the columns c of X (size rows of length w), which starts at o."""
    align_stack(X)
    for i in range(size):
        x = load_columns(X, X, o + i * w, c)
        for k in range(i):
            x = subtract_scaled(x, load(S, k * size + i), load_columns(X, X, o + k * w, c))
        store_columns(X, X, o + i * w, c, x)
    for i in range(size - 1, -1, -1):
        inverse = load(S, i * size + i)
        x = scale_columns(load_columns(X, X, o + i * w, c), inverse)
        for k in range(i + 1, size):
            x = subtract_scaled(x, load(S, i * size + k), load_columns(X, X, o + k * w, c))
        store_columns(
            X, X, o + i * w, c,
            (_unless_dropped(inverse, x[0]), _unless_dropped(inverse, x[1]), _unless_dropped(inverse, x[2]),
             _unless_dropped(inverse, x[3])),
        )  # fmt: skip


# ------------------------------------------------------------------------------------------------ KKT matrix
@kernel
def invert_kkt(n, size, S, X, Minv, Z):
    """Z = [[P, B], [-B', S^-1]] (n + size squared), the inverse of [[M, -J'], [J, damping 1]].

    B = X S^-1,  P = M^-1 - B X',  with X = M^-1 J' (n size)."""
    w = n + size
    for r in range(size):
        o = (n + r) * w
        for j in range(n):
            store(Z, o + j, load(X, j * size + r))
        for s in range(size):
            store(Z, o + n + s, splat(Z, 1.0 if r == s else 0.0))
    for c in range(0, w, 4):
        _solve_columns(size, S, Z, n * w, w, four_columns(c, w))
    for i in range(0, n, 3):
        for j in range(0, n, 4):
            _project_tile(n, size, (i, min(i + 1, n - 1), min(i + 2, n - 1)), four_columns(j, n), X, Minv, Z)
    for r in range(size):
        for j in range(n):
            b = load(Z, (n + r) * w + j)
            store(Z, j * w + n + r, b)
            store(Z, (n + r) * w + j, -b)


@kernel
def _project_tile(n, size, rows, c, X, Minv, Z):
    """Compute three rows and four columns of P, while the rows below n hold B'."""
    align_stack(Z)
    w = n + size
    i, j, k = rows
    x0, x1, x2 = (
        load_columns(Minv, Minv, i * n, c),
        load_columns(Minv, Minv, j * n, c),
        load_columns(Minv, Minv, k * n, c),
    )
    for r in range(size):
        y = load_columns(Z, Z, (n + r) * w, c)
        x0 = subtract_scaled(x0, load(X, i * size + r), y)
        x1 = subtract_scaled(x1, load(X, j * size + r), y)
        x2 = subtract_scaled(x2, load(X, k * size + r), y)
    store_columns(Z, Z, i * w, c, x0)
    store_columns(Z, Z, j * w, c, x1)
    store_columns(Z, Z, k * w, c, x2)


# --------------------------------------------------------------------------------------------
# Accelerations and forces of a robot in rigid contact with its surroundings.
#
#     M a + bias = tau + J'f          a_c + kd v_c + kp (p - reference) = 0   for every contact point
#
# where f stands for the moments of rigid feet as well, and the constraints for those of `RigidContact`.
#
# With b = tau - bias, M = L'D L, Y = L^-T J' and y = L^-T b, the free acceleration M^-1 b = (D L)^-1 y moves the points
# by Y'D^-1 y, and
#
#     (Y'D^-1 Y + damping 1) f = -(Y'D^-1 y + drift)          a = (D L)^-1 (y + Y f)
#
# where the drift is the value of the constraint at a = 0.                     [Featherstone 2008, section 8.3]

ONE = (0, 0, 0, 0)


class ContactDynamics(NamedTuple):
    """Accelerations, contact forces, and measures of the contacts' independence."""

    a: np.ndarray  # (nv,) or (K, nv)
    f: np.ndarray  # (C, 3) or (K, C, 3), N, on the robot
    moment: np.ndarray  # (C, 3) or (K, C, 3), N m, on rigid feet, about their frames' origins; zero for points
    smallest_pivot: np.ndarray  # () or (K,), relative pivot of J M^-1 J', 1 at best, about 0 for redundant contacts
    redundant: np.ndarray  # () or (K,) int, rows of J left out because they depend on others


ROWS = 3 * blocks
"""Number of rows of forces and moments, and of their constraints."""


class ContactWorkspace(NamedTuple):
    """Lanes that the kernels of contact dynamics share."""

    body: np.ndarray = lanes(nb * BODY)
    dof: np.ndarray = lanes(nv * DOF)
    points: np.ndarray = lanes(endpoints * CONTACT)
    zeros: np.ndarray = lanes(nv, zero=True)
    M: np.ndarray = lanes(nv * nv)
    Y: np.ndarray = lanes(nv * ROWS)
    S: np.ndarray = lanes(ROWS * ROWS)
    diagonal: np.ndarray = lanes(ROWS)
    report: np.ndarray = lanes(2)  # smallest pivot, rows left out
    a: np.ndarray = lanes(nv)
    f: np.ndarray = lanes(ROWS)


@shared_kernel
def factorize_contacts(m, contacts, w):
    """Factorize M in w.M and J M^-1 J' in w.S, with L^-T J' in w.Y and w.report, after `contact_points`."""
    composite_mass_matrix(m, w.body, w.dof, w.M)
    factorize(m, w.M)
    contact_jacobian_transposed(m, contacts, w.dof, w.points, w.Y)
    half_solve(m, contacts, w.M, w.Y)
    delassus_matrix(m, contacts, w.M, w.Y, w.S)
    factorize_delassus(3 * contacts.blocks, w.S, w.diagonal, w.report)


@kernel
def _right_sides_on_paths(m, contacts, q, v, w):
    align_stack(w.a)
    n, size = m.dof_body.size, 3 * contacts.blocks
    for c in range(contacts.blocks):
        x = constraint(m, contacts, c, w.points)
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            x = add_scaled3(x, load(w.a, k) * load(w.M, k * n + k), load3(w.Y, k * size + 3 * c))
            k = m.dof_parent[k]
        store3(w.f, 3 * c, scale3(x, -1.0))


@kernel
def _right_sides_of_loops(m, contacts, q, v, w):
    align_stack(w.a)
    n, size = m.dof_body.size, 3 * contacts.blocks
    w.f[:] = 0.0
    subtract_couplings(m, contacts, q, v, w.f)
    for c in range(contacts.body.size):
        put_across(contacts, c, w.points, w.f, 0, scale3(constraint(m, contacts, c, w.points), -1.0))
    for k in range(n):
        x = load(w.a, k) * load(w.M, k * n + k)
        for r in range(size):
            store(w.f, r, fnma(x, load(w.Y, k * size + r), load(w.f, r)))


_store_right_sides = by_type("contacts", {ContactArrays: _right_sides_on_paths, LoopArrays: _right_sides_of_loops})
"""Store -(Y'D^-1 y + drift) in w.f, y (nv) being in w.a: (m, contacts, q, v, w)."""


@kernel
def _add_forces_on_paths(m, contacts, w):
    align_stack(w.a)
    size = 3 * contacts.blocks
    for c in range(contacts.blocks):
        f = load3(w.f, 3 * c)
        k = last_dof(m, contacts.body[c])
        while k >= 0:
            y = load3(w.Y, k * size + 3 * c)
            store(w.a, k, fma(y[2], f[2], fma(y[1], f[1], fma(y[0], f[0], load(w.a, k)))))
            k = m.dof_parent[k]


@kernel
def _add_forces_of_loops(m, contacts, w):
    align_stack(w.a)
    size = 3 * contacts.blocks
    for k in range(m.dof_body.size):
        x = load(w.a, k)
        for r in range(size):
            x = fma(load(w.Y, k * size + r), load(w.f, r), x)
        store(w.a, k, x)


add_half_solved_forces = by_type("contacts", {ContactArrays: _add_forces_on_paths, LoopArrays: _add_forces_of_loops})
"""w.a += Y f: (m, contacts, w)."""


@shared_kernel
def contact_dynamics_kernel(m, contacts, q, v, tau, w):
    """Compute a and f, in world axes, for one knot per lane, after `factorize_contacts`, whose results it keeps."""
    align_stack(w.a)
    n = m.dof_body.size
    forward_pass(m, q, v, w.zeros, w.body, w.dof, FORCES)
    contact_points(m, contacts, w.body, w.points)
    torques_of_forces(m, w.zeros, w.body, w.dof, w.a)
    for k in range(n):
        store(w.a, k, load(tau, k) - load(w.a, k))
    factorize_contacts(m, contacts, w)
    sweep_up(m, w.M, 0, n, w.a, w.a, 1, ONE)
    _store_right_sides(m, contacts, q, v, w)
    solve_delassus(3 * contacts.blocks, w.S, w.f)
    add_half_solved_forces(m, contacts, w)
    sweep_down(m, w.M, 1.0, w.a, w.a, 1, ONE)


@kernel
def _given_axes_kernel(m, contacts, q, v, tau, w):
    """Contact dynamics with forces in the axes of each contact."""
    contact_dynamics_kernel(m, contacts, q, v, tau, w)
    force_components(contacts, w.points, w.f)


_drive = knot_driver(
    _given_axes_kernel,
    inputs="q v tau",
    scratch={"w": ContactWorkspace},
    outputs={"a": "w.a", "f": "w.f", "report": "w.report"},
)


def contact_dynamics(
    model: RigidBodyModel, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: Contacts, damping: float = 0.0
) -> ContactDynamics:
    """Joint accelerations and contact forces of a robot whose contact points or feet are constrained.

    M a + bias = tau + J'f,        a_c + kd v_c + kp (p - reference) + damping f = 0

    with the classical accelerations a_c of the points; for rigid feet see `RigidContact`.
                                                                                 [Featherstone 2008, section 8.3]

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq), configuration
    v, tau : (nv,) or (K, nv), velocity and joint torques
    contacts : sequence of `PointContact`, `RigidContact`, `LoopConstraint` and `JointCoupling`, or a `ContactSet`
    damping : at least zero, 1/kg (1/(kg m^2) for moments): compliance of the constraints, which makes
        J M^-1 J' + damping 1 regular

    Returns
    -------
    ContactDynamics(a, f, moment, smallest_pivot, redundant) : f (C, 3) or (K, C, 3) in N, on the robot, in the axes
        of each contact; moment likewise, in N m, about the frames' origins, zero for points.  Those of loops
        act on the body of their first frame, those of coupled joints are the force along their sum, and zeros.  Where
        contacts are redundant and damping is zero, rows that depend on those before them carry no force and are counted
        in `redundant`; a is still the right one if all rows can be satisfied.

    Raises
    ------
    ValueError : wrong shape, non-finite entry, a quaternion that is not of unit length, a frame in contact twice, or a
        contact of another model; names the argument.
    TypeError : an entry of `contacts` that is no contact.
    """
    held, enter = on_full_model(model, contacts, damping), model.mimic_map
    single, (q, v, tau) = points(model, q, v=v, tau=tau)
    point = enter.full_q(q), enter.full_v(v), enter.full_torques(tau)
    a, *rest = _at_points(model.full, *point, held, damping)
    return ContactDynamics(*unbatch(single, enter.leave("k", a), *rest))


def dynamics_of_set(
    model: RigidBodyModel, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: ContactSet, damping: float
) -> ContactDynamics:
    """`contact_dynamics` with a set whose model may differ in joint friction from the one given."""
    single, (q, v, tau) = points(model, q, v=v, tau=tau)
    return ContactDynamics(*unbatch(single, *_at_points(model, q, v, tau, contacts, damping)))


def _at_points(model, q, v, tau, contacts, damping) -> tuple[np.ndarray, ...]:
    """Fields of a ContactDynamics at points (K, .)."""
    K = len(q)
    a, f, report = np.empty_like(v), np.empty((K, contacts.rows)), np.empty((K, 2))
    _drive(model, contacts.damped(damping), q, v, tau, a, f, report)
    redundant = report[:, 1].astype(np.int64)
    return a, *contacts.forces_and_moments(f), report[:, 0].copy(), redundant
