"""First derivatives of contact dynamics.

z = (a, f) solves g1 = ID(q, v, a) - tau - J'f = 0 and g2 = a_c + kd v_c + kp (p - reference) + damping f = 0:

    dz/dx = -Z [dg1/dx; dg2/dx]          dz/dtau = Z [1; 0]          Z = [[M, -J'], [J, damping 1]]^-1

The contact forces are dead loads on the points for dg1/dq.  Columns of [dg1; dg2] of a degree of freedom are zero
except on its path, its subtree and the contacts in that subtree: `ContactArrays.pair_row` lists these rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.algorithms.batch import points, unbatch
from dynamics.algorithms.branch_factor import invert_factored, sweep_down
from dynamics.algorithms.inverse_mass import PANEL
from dynamics.algorithms.loads import Loads
from dynamics.contacts.contact_motion import (
    add_rotating_frame_loads,
    add_rotating_frame_rows,
    block_of,
    constraint_derivatives,
    contact_points,
    force_components,
    force_derivative_components,
    on_body,
)
from dynamics.contacts.contact_set import Contacts, endpoints, on_full_model
from dynamics.contacts.dynamics import ROWS, ContactWorkspace, contact_dynamics_kernel, invert_kkt
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_first_order
from dynamics.model.joint_forces import add_friction_derivative, add_spring_responses
from dynamics.model.knot_driver import knot_driver, nv
from dynamics.model.model import RigidBodyModel
from dynamics.simd import align_stack, kernel, load, shared_kernel
from dynamics.simd.lane_algebra import (
    four_columns,
    load_columns,
    no_columns,
    scale_into,
    store_columns,
    subtract_scaled,
)
from dynamics.simd.lane_blocks import lanes
from dynamics.spatial.spatial import load3, store3


class ContactDynamicsDerivatives(NamedTuple):
    """Partial derivatives of a(q, v, tau), each (nv, nv) or (K, nv, nv), and of the contact forces and moments, each
    (C, 3, nv) or (K, C, 3, nv)."""

    da_dq: np.ndarray
    da_dv: np.ndarray
    da_dtau: np.ndarray
    df_dq: np.ndarray
    df_dv: np.ndarray
    df_dtau: np.ndarray
    dmoment_dq: np.ndarray
    dmoment_dv: np.ndarray
    dmoment_dtau: np.ndarray


WIDTH = nv + ROWS
"""Size of z = (accelerations, forces)."""


class ContactFirstOrder(NamedTuple):
    """Lanes of the first derivatives."""

    dead: np.ndarray = lanes(6 * endpoints)  # contact forces and moments as dead loads
    torque: np.ndarray = lanes(nv)
    Minv: np.ndarray = lanes(nv * nv)
    panel: np.ndarray = lanes(4 * WIDTH)
    Z: np.ndarray = lanes(WIDTH * WIDTH)
    Gq: np.ndarray = lanes(WIDTH * nv)  # dz/dq in the end
    Gv: np.ndarray = lanes(WIDTH * nv)  # dz/dv in the end


# ------------------------------------------------------------------------------------------------ kernels
@kernel
def _multiply_three(rows, width, listed, first, last, Z, panel, n, c, A, B):
    """Store three rows of -Z panel in the columns c of A and B."""
    align_stack(Z)
    x0 = x1 = x2 = no_columns(A)
    o0, o1, o2 = rows[0] * width, rows[1] * width, rows[2] * width
    for t in range(first, last):
        k = listed[t]
        y = load_columns(panel, panel, 4 * (t - first), PANEL)
        x0 = subtract_scaled(x0, load(Z, o0 + k), y)
        x1 = subtract_scaled(x1, load(Z, o1 + k), y)
        x2 = subtract_scaled(x2, load(Z, o2 + k), y)
    store_columns(A, B, rows[0] * n, c, x0)
    store_columns(A, B, rows[1] * n, c, x1)
    store_columns(A, B, rows[2] * n, c, x2)


@shared_kernel
def minus_products(m, contacts, Z, A, B, panel, count):
    """A, B <- the first `count` rows of -Z A, -Z B for matrices (nv + 3B, nv); rows not listed for a pair of columns
    count as zero."""
    align_stack(A)
    n = m.dof_body.size
    width = n + 3 * contacts.blocks
    for i in range(0, n, 2):
        j = min(i + 1, n - 1)
        c = (i, j, i, j)
        first, last = contacts.pair_start[i // 2], contacts.pair_start[i // 2 + 1]
        for t in range(first, last):
            store_columns(panel, panel, 4 * (t - first), PANEL, load_columns(A, B, contacts.pair_row[t] * n, c))
        for r in range(0, count, 3):
            rows = (r, min(r + 1, count - 1), min(r + 2, count - 1))
            _multiply_three(rows, width, contacts.pair_row, first, last, Z, panel, n, c, A, B)


@kernel
def contact_loads(contacts, points, f, dead):
    """Store the contact forces and moments f (3B) in `dead` as dead loads at the contact points."""
    dead[:] = 0.0
    for c in range(contacts.body.size):
        force = on_body(contacts, c, points, load3(f, 3 * block_of(contacts, c)))
        store3(dead, 6 * c + 3 * contacts.angular[c], force)
    return Loads(dead[:0], dead, contacts.body, contacts.point)


@shared_kernel
def invert_contact_kkt(m, contacts, w, d):
    """Compute d.Z after `contact_dynamics_kernel`, whose w.Y becomes M^-1 J'."""
    n, size = m.dof_body.size, 3 * contacts.blocks
    invert_factored(m, w.M, d.Minv)
    for c in range(0, size, 4):
        sweep_down(m, w.M, 1.0, w.Y, w.Y, size, four_columns(c, size))
    invert_kkt(n, size, w.S, w.Y, d.Minv, d.Z)


@kernel
def contact_first_order(m, contacts, q, v, tau, w, d, forces):
    """Compute a, f, and the derivatives of `contact_first_order_at_solution`, for one knot per lane."""
    w.Y[:] = 0.0
    contact_dynamics_kernel(m, contacts, q, v, tau, w)
    contact_first_order_at_solution(m, contacts, q, v, w, d, forces)


@shared_kernel
def contact_first_order_at_solution(m, contacts, q, v, w, d, forces):
    """Store dz/dq and dz/dv in d.Gq and d.Gv, dz/dtau in the first nv columns of d.Z, world axes; the derivatives of
    f in q and v only with `forces`.

    w as `contact_dynamics_kernel` left it, w.Y being zero before."""
    n = m.dof_body.size
    width = n + 3 * contacts.blocks
    rows = width if forces else n
    d.Gq[:], d.Gv[:] = 0.0, 0.0
    invert_contact_kkt(m, contacts, w, d)
    loads = contact_loads(contacts, w.points, w.f, d.dead)
    inverse_dynamics_first_order(m, q, v, w.a, loads, w.body, w.dof, d.torque, d.Gq[: n * n], d.Gv[: n * n], w.M)
    add_friction_derivative(m, v, d.Gv)
    contact_points(m, contacts, w.body, w.points)
    constraint_derivatives(m, contacts, w.dof, w.points, d.Gq[n * n :], d.Gv[n * n :])
    add_rotating_frame_rows(m, contacts, w.dof, w.points, d.Gq[n * n :])
    add_rotating_frame_loads(m, contacts, w.dof, w.points, w.f, d.Gq)
    minus_products(m, contacts, d.Z, d.Gq, d.Gv, d.panel, rows)
    add_spring_responses(m, rows, width, d.Z, d.Gq, d.Gv)


@shared_kernel
def to_given_axes(m, contacts, w, d):
    """Rotate forces in w.f and their rows in d.Gq, d.Gv and d.Z to the axes in which each contact reports them."""
    n = m.dof_body.size
    width = n + 3 * contacts.blocks
    force_derivative_components(m, contacts, w.dof, w.points, w.f, n, n, n * n, d.Gq)
    force_derivative_components(m, contacts, w.dof, w.points, None, n, n, n * n, d.Gv)
    force_derivative_components(m, contacts, w.dof, w.points, None, n, width, n * width, d.Z)
    force_components(contacts, w.points, w.f)


@kernel
def _differentiate(m, contacts, q, v, tau, w, d, ztau):
    """dz/dq, dz/dv and dz/dtau in the axes of the contacts, for one knot per lane."""
    n = m.dof_body.size
    width = n + 3 * contacts.blocks
    contact_first_order(m, contacts, q, v, tau, w, d, True)
    to_given_axes(m, contacts, w, d)
    for i in range(width):
        scale_into(n, ztau[i * n :], 1.0, d.Z[i * width :])


_drive = knot_driver(
    _differentiate,
    inputs="q v tau",
    scratch={"w": ContactWorkspace, "d": ContactFirstOrder},
    outputs={"zq": "d.Gq", "zv": "d.Gv", "ztau": WIDTH * nv},
)


def contact_dynamics_derivatives(
    model: RigidBodyModel, q: ArrayLike, v: ArrayLike, tau: ArrayLike, contacts: Contacts, damping: float = 0.0
) -> ContactDynamicsDerivatives:
    """Derivatives of contact dynamics with respect to configuration (along the tangent), velocity and torque.

    Redundant rows, see `contact_dynamics`, are left out here as well: these are the derivatives of its result.

    Parameters
    ----------
    model : RigidBodyModel
    q : (nq,) or (K, nq);  v, tau : (nv,) or (K, nv)
    contacts : sequence of `PointContact` and `RigidContact`, or a `ContactSet`
    damping : as in `contact_dynamics`

    Returns
    -------
    ContactDynamicsDerivatives(da_dq, da_dv, da_dtau, df_dq, df_dv, df_dtau, dmoment_dq, dmoment_dv, dmoment_dtau) :
        those of a (nv, nv) or (K, nv, nv), those of forces and moments (C, 3, nv) or (K, C, 3, nv), in the axes of each
        contact.

    Raises
    ------
    ValueError, TypeError : as `contact_dynamics`.
    """
    contacts, enter = on_full_model(model, contacts, damping), model.mimic_map
    single, (q, v, tau) = points(model, q, v=v, tau=tau)
    q, v, tau, full = enter.full_q(q), enter.full_v(v), enter.full_torques(tau), model.full
    K, n = len(q), full.nv
    z = [np.empty((K, n + contacts.rows, n)) for _ in range(3)]
    zq, zv, ztau = (x.reshape(K, (n + contacts.rows) * n) for x in z)
    _drive(full, contacts.damped(damping), q, v, tau, ztau, zq, zv)
    z = [enter.leave(axis, x) for axis, x in zip("ppk", z, strict=True)]
    forces, moments = zip(*(contacts.forces_and_moments(x[:, n:]) for x in z), strict=True)
    accelerations = (enter.leave("k-", x[:, :n]) for x in z)
    return ContactDynamicsDerivatives(*unbatch(single, *accelerations, *forces, *moments))
