"""Scratch of one discrete-time step, carved from a driver's block of memory.

Robots in contact have blocks of their own, with the same members for what a step reads of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dynamics.contacts import derivatives as contact_derivatives
from dynamics.contacts import dynamics as contact_dynamics
from dynamics.contacts import hessian as contact_curvature
from dynamics.contacts.contact_set import ContactArrays, ContactSet, LoopArrays
from dynamics.contacts.derivatives import ContactFirstOrder
from dynamics.contacts.hessian import ContactSecondOrder
from dynamics.derivatives import forward_dynamics
from dynamics.derivatives.forward_dynamics import FirstOrder, SecondOrder
from dynamics.model.model import RigidBodyModel
from dynamics.simd import carve, helper
from dynamics.simd.by_type import by_type
from dynamics.spatial.tangent import TANGENT_SLOTS
from dynamics.systems.frame_forces import Forces, FrameActuators, carve_forces, force_numbers


class Dynamics(NamedTuple):
    """What one evaluation of the accelerations needs."""

    tau: np.ndarray
    a: np.ndarray
    space: forward_dynamics.Workspace | contact_dynamics.ContactWorkspace


class Derivatives(NamedTuple):
    """What their derivatives need on top."""

    aq: np.ndarray  # those of `first`, as av
    av: np.ndarray
    au: np.ndarray
    maps: np.ndarray
    first: FirstOrder | ContactFirstOrder
    forces: Forces | None  # of actuators on frames


class Curvature(NamedTuple):
    """What the Hessian needs on top."""

    y: np.ndarray
    w: np.ndarray
    Hqq: np.ndarray  # those of `second`, as Hqv and Hvv
    Hqv: np.ndarray
    Hvv: np.ndarray
    Hqu: np.ndarray
    second: SecondOrder | ContactSecondOrder


# ------------------------------------------------------------------------------------------------ free, held
@helper
def _free_dynamics(m, contacts, w):
    tau, w = carve(w, m.dof_body.size)
    space, w = forward_dynamics.carve_workspace(m, w)
    return Dynamics(tau, space.a, space), w


@helper
def _held_dynamics(m, contacts, w):
    tau, w = carve(w, m.dof_body.size)
    space, w = contact_dynamics.carve_workspace(m, contacts, w)
    return Dynamics(tau, space.a, space), w


@helper
def _free_derivatives(m, contacts, nu, w):
    au, w = carve(w, m.dof_body.size * nu)
    maps, w = carve(w, m.parent.size * TANGENT_SLOTS)
    first, w = forward_dynamics.carve_first_order(m, w)
    return Derivatives(first.aq, first.av, au, maps, first, None), w


@helper
def _held_derivatives(m, contacts, nu, w):
    n = m.dof_body.size
    au, w = carve(w, n * nu)
    maps, w = carve(w, m.parent.size * TANGENT_SLOTS)
    first, w = contact_derivatives.carve_first_order(m, contacts, w)
    return Derivatives(first.Gq[: n * n], first.Gv[: n * n], au, maps, first, None), w


@helper
def _free_curvature(m, contacts, nu, w):
    y, w = carve(w, m.dof_body.size)
    Hqu, w = carve(w, m.dof_body.size * nu)
    h, w = forward_dynamics.carve_second_order(m, w)
    return Curvature(y, h.w, h.Hqq, h.Hqv, h.Hvv, Hqu, h), w


@helper
def _held_curvature(m, contacts, nu, w):
    n = m.dof_body.size
    x, w = carve(w, n)
    Hqu, w = carve(w, n * nu)
    h, w = contact_curvature.carve_second_order(m, contacts, w)
    return Curvature(h.y[:n], x, h.Hqq, h.Hqv, h.Hvv, Hqu, h), w


carve_dynamics = by_type("contacts", {None: _free_dynamics, ContactArrays: _held_dynamics, LoopArrays: _held_dynamics})
"""A `Dynamics` block, its zeros zeroed, and the rest of w: (m, contacts, w)."""
_carve_derivatives = by_type(
    "contacts", {None: _free_derivatives, ContactArrays: _held_derivatives, LoopArrays: _held_derivatives}
)


@helper
def carve_derivatives(m, p, nu, w):
    """A `Derivatives` block of the `Plant` p and the rest of w."""
    e, w = _carve_derivatives(m, p.contacts, nu, w)
    forces, w = carve_forces(m, p.actuators, w)
    return Derivatives(e.aq, e.av, e.au, e.maps, e.first, forces), w


carve_curvature = by_type(
    "contacts", {None: _free_curvature, ContactArrays: _held_curvature, LoopArrays: _held_curvature}
)
"""A `Curvature` block and the rest of w: (m, contacts, nu, w)."""


def dynamics_numbers(model: RigidBodyModel, contacts: ContactSet) -> int:
    """Scratch numbers per lane of `carve_dynamics`; contacts: the robot's `ContactSet`, which may be empty."""
    n, m = model.nv, model.arrays
    if len(contacts) == 0:
        return n + forward_dynamics.workspace_numbers(m)
    return n + contact_dynamics.workspace_numbers(m, contacts.arrays)


def derivative_numbers(
    model: RigidBodyModel, contacts: ContactSet, nu: int, actuators: FrameActuators | None = None
) -> int:
    """Scratch numbers per lane of `carve_derivatives`."""
    m, own = model.arrays, model.nv * nu + model.nb * TANGENT_SLOTS
    own += force_numbers(m, actuators)
    if len(contacts) == 0:
        return own + forward_dynamics.first_order_numbers(m)
    return own + contact_derivatives.first_order_numbers(m, contacts.arrays)


def curvature_numbers(model: RigidBodyModel, contacts: ContactSet, nu: int) -> int:
    """Scratch numbers per lane of `carve_curvature`."""
    m, own = model.arrays, model.nv * (1 + nu)
    if len(contacts) == 0:
        return own + forward_dynamics.second_order_numbers(m)
    return own + contact_curvature.second_order_numbers(m, contacts.arrays)
