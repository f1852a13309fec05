"""Scratch of one discrete-time step, sliced from a driver's block of memory.

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
from dynamics.simd import helper, split
from dynamics.simd.by_type import by_type
from dynamics.spatial.tangent import TANGENT_SLOTS
from dynamics.systems.frame_forces import Forces, FrameActuators, force_size, slice_forces


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
    tau, w = split(w, m.dof_body.size)
    space, w = forward_dynamics.slice_workspace(m, w)
    return Dynamics(tau, space.a, space), w


@helper
def _held_dynamics(m, contacts, w):
    tau, w = split(w, m.dof_body.size)
    space, w = contact_dynamics.slice_workspace(m, contacts, w)
    return Dynamics(tau, space.a, space), w


@helper
def _free_derivatives(m, contacts, nu, w):
    au, w = split(w, m.dof_body.size * nu)
    maps, w = split(w, m.parent.size * TANGENT_SLOTS)
    first, w = forward_dynamics.slice_first_order(m, w)
    return Derivatives(first.aq, first.av, au, maps, first, None), w


@helper
def _held_derivatives(m, contacts, nu, w):
    n = m.dof_body.size
    au, w = split(w, n * nu)
    maps, w = split(w, m.parent.size * TANGENT_SLOTS)
    first, w = contact_derivatives.slice_first_order(m, contacts, w)
    return Derivatives(first.Gq[: n * n], first.Gv[: n * n], au, maps, first, None), w


@helper
def _free_curvature(m, contacts, nu, w):
    y, w = split(w, m.dof_body.size)
    Hqu, w = split(w, m.dof_body.size * nu)
    h, w = forward_dynamics.slice_second_order(m, w)
    return Curvature(y, h.w, h.Hqq, h.Hqv, h.Hvv, Hqu, h), w


@helper
def _held_curvature(m, contacts, nu, w):
    n = m.dof_body.size
    x, w = split(w, n)
    Hqu, w = split(w, n * nu)
    h, w = contact_curvature.slice_second_order(m, contacts, w)
    return Curvature(h.y[:n], x, h.Hqq, h.Hqv, h.Hvv, Hqu, h), w


slice_dynamics = by_type("contacts", {None: _free_dynamics, ContactArrays: _held_dynamics, LoopArrays: _held_dynamics})
"""A `Dynamics` block, its zeros zeroed, and the rest of w: (m, contacts, w)."""
_slice_derivatives = by_type(
    "contacts", {None: _free_derivatives, ContactArrays: _held_derivatives, LoopArrays: _held_derivatives}
)


@helper
def slice_derivatives(m, p, nu, w):
    """A `Derivatives` block of the `Plant` p and the rest of w."""
    e, w = _slice_derivatives(m, p.contacts, nu, w)
    forces, w = slice_forces(m, p.actuators, w)
    return Derivatives(e.aq, e.av, e.au, e.maps, e.first, forces), w


slice_curvature = by_type(
    "contacts", {None: _free_curvature, ContactArrays: _held_curvature, LoopArrays: _held_curvature}
)
"""A `Curvature` block and the rest of w: (m, contacts, nu, w)."""


def dynamics_size(model: RigidBodyModel, contacts: ContactSet) -> int:
    """Workspace size per lane of `slice_dynamics`; contacts: the robot's `ContactSet`, which may be empty."""
    n, m = model.nv, model.arrays
    if len(contacts) == 0:
        return n + forward_dynamics.workspace_size(m)
    return n + contact_dynamics.workspace_size(m, contacts.arrays)


def derivative_size(
    model: RigidBodyModel, contacts: ContactSet, nu: int, actuators: FrameActuators | None = None
) -> int:
    """Workspace size per lane of `slice_derivatives`."""
    m, own = model.arrays, model.nv * nu + model.nb * TANGENT_SLOTS
    own += force_size(m, actuators)
    if len(contacts) == 0:
        return own + forward_dynamics.first_order_size(m)
    return own + contact_derivatives.first_order_size(m, contacts.arrays)


def curvature_size(model: RigidBodyModel, contacts: ContactSet, nu: int) -> int:
    """Workspace size per lane of `slice_curvature`."""
    m, own = model.arrays, model.nv * (1 + nu)
    if len(contacts) == 0:
        return own + forward_dynamics.second_order_size(m)
    return own + contact_curvature.second_order_size(m, contacts.arrays)
