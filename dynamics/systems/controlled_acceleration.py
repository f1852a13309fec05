"""The acceleration a(q, v, u) of a controlled robot and its derivatives, one knot per lane.

The Hessian of y'a is that of `implicit_function`; columns of tau times the actuation are those of the controls u.  For
robots in contact see `dynamics.contacts.derivatives` and `dynamics.contacts.hessian`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.articulated_body import forward_dynamics_kernel
from dynamics.algorithms.inverse_mass import AUTOMATIC
from dynamics.contacts.contact_set import free_or_held
from dynamics.contacts.derivatives import ContactFirstOrder, contact_first_order
from dynamics.contacts.dynamics import ContactWorkspace, contact_dynamics_kernel
from dynamics.contacts.hessian import ContactSecondOrder, contact_hessian_at_solution
from dynamics.derivatives.forward_dynamics import (
    FirstOrder,
    SecondOrder,
    Workspace,
    forward_dynamics_first_order,
    forward_dynamics_hessian_at_solution,
)
from dynamics.derivatives.implicit_function import subtract_product
from dynamics.model.actuation import joint_torques, times_actuation
from dynamics.model.knot_driver import nb, nv
from dynamics.simd import kernel, shared_kernel
from dynamics.simd.by_type import by_type
from dynamics.simd.lane_algebra import add_transpose, scale_into
from dynamics.simd.lane_blocks import lanes, part_by_type, slicing, view
from dynamics.simd.sizes import Size
from dynamics.spatial.tangent import TANGENT_SLOTS
from dynamics.systems.frame_forces import (
    Forces,
    FrameActuators,
    add_force_curvature,
    add_force_derivatives,
    add_frame_forces,
)

nu = Size("nu", "nu")
"""Number of controls, with the duration where that is free."""


class Dynamics(NamedTuple):
    """Lanes of the acceleration."""

    tau: np.ndarray = lanes(nv)
    space: Workspace | ContactWorkspace = part_by_type("contacts", free_or_held(Workspace, ContactWorkspace))
    a: np.ndarray = view("space.a")


class Derivatives(NamedTuple):
    """Lanes of its first derivatives."""

    au: np.ndarray = lanes(nv * nu)
    maps: np.ndarray = lanes(nb * TANGENT_SLOTS)
    first: FirstOrder | ContactFirstOrder = part_by_type("contacts", free_or_held(FirstOrder, ContactFirstOrder))
    forces: Forces | None = part_by_type("actuators", {None: None, FrameActuators: Forces})
    aq: np.ndarray = view("first.Gq")  # the rows of accelerations come first
    av: np.ndarray = view("first.Gv")


class Curvature(NamedTuple):
    """Lanes of its Hessian."""

    Hqu: np.ndarray = lanes(nv * nu)
    second: SecondOrder | ContactSecondOrder = part_by_type("contacts", free_or_held(SecondOrder, ContactSecondOrder))
    y: np.ndarray = view("second.y")
    Hqq: np.ndarray = view("second.Hqq")
    Hqv: np.ndarray = view("second.Hqv")
    Hvv: np.ndarray = view("second.Hvv")


slice_dynamics, dynamics_size = slicing(Dynamics)


# ------------------------------------------------------------------------------------------------ free, held
@kernel
def _solve_free(m, contacts, q, v, d, a):
    w = d.space
    forward_dynamics_kernel(m, q, v, d.tau, w.zeros, None, w.body, w.dof, w.art, w.elim, a)


@kernel
def _solve_held(m, contacts, q, v, d, a):
    d.space.Y[:] = 0.0
    contact_dynamics_kernel(m, contacts, q, v, d.tau, d.space)
    scale_into(m.dof_body.size, a, 1.0, d.a)


@kernel
def _free_first_order(m, contacts, B, skip, q, v, d, e):
    forward_dynamics_first_order(m, q, v, d.tau, AUTOMATIC, None, d.space, e.first)
    times_actuation(B, skip, e.first.Minv, m.dof_body.size, e.au)


@kernel
def _held_first_order(m, contacts, B, skip, q, v, d, e):
    contact_first_order(m, contacts, q, v, d.tau, d.space, e.first, False)
    times_actuation(B, skip, e.first.Z, m.dof_body.size + 3 * contacts.blocks, e.au)


@kernel
def _free_hessian(m, contacts, B, skip, q, v, d, e, s):
    n, nu = B.shape
    forward_dynamics_hessian_at_solution(m, q, v, None, d.space, e.first, s.second)
    times_actuation(B, skip, e.first.Minv, n, e.au)
    s.Hqu[:] = 0.0
    subtract_product(None, n, nu, s.second.Hqa, e.au, nu, s.Hqu)


@kernel
def _held_hessian(m, contacts, B, skip, q, v, d, e, s):
    n = m.dof_body.size
    s.y[n:] = 0.0
    contact_hessian_at_solution(m, contacts, q, v, d.space, e.first, s.second)
    times_actuation(B, skip, e.first.Z, n + 3 * contacts.blocks, e.au)
    times_actuation(B, skip, s.second.Hqtau, n, s.Hqu)


_solve = by_type("contacts", free_or_held(_solve_free, _solve_held))
_first_order = by_type("contacts", free_or_held(_free_first_order, _held_first_order))
_hessian = by_type("contacts", free_or_held(_free_hessian, _held_hessian))


# ------------------------------------------------------------------------------------------------ either
@shared_kernel
def acceleration(m, p, q, v, u, d, a):
    """a(q, v, u) of the `Plant` p with scratch d, a `Dynamics`, whose d.a it may be."""
    joint_torques(m, p.B, p.skip, q, v, u, d.tau)
    add_frame_forces(m, p.actuators, q, u, d)
    _solve(m, p.contacts, q, v, d, a)


@shared_kernel
def acceleration_derivatives(m, p, q, v, u, d, e):
    """d.a = a(q, v, u) and its derivatives, into e.aq, e.av, e.au; d, e are `Dynamics` and `Derivatives`."""
    joint_torques(m, p.B, p.skip, q, v, u, d.tau)
    add_frame_forces(m, p.actuators, q, u, d)
    _first_order(m, p.contacts, p.B, p.skip, q, v, d, e)
    add_force_derivatives(m, p.actuators, p.contacts, u.shape[0], q, u, d, e)


@shared_kernel
def hessian_at_acceleration(m, p, q, v, u, d, e, s):
    """Hessian of s.y'a(q, v, u): s.Hqq (symmetric part of the Lie Hessian), s.Hqv, s.Hvv, s.Hqu; also the first order
    into e.aq, e.av, e.au.  d as `acceleration` left it, with d.a; d, e, s are `Dynamics`, `Derivatives` and
    `Curvature`."""
    _hessian(m, p.contacts, p.B, p.skip, q, v, d, e, s)
    add_force_curvature(m, p.actuators, p.contacts, u.shape[0], q, u, d, e, s)
    add_transpose(m.dof_body.size, 0.5, s.Hqq)


@kernel
def acceleration_hessian(m, p, q, v, u, d, e, s):
    """d.a = a(q, v, u), and what `hessian_at_acceleration` gives there."""
    acceleration(m, p, q, v, u, d, d.a)
    hessian_at_acceleration(m, p, q, v, u, d, e, s)
