"""Scratch of one discrete-time step, carved from a driver's block of memory.

Robots in contact have blocks of their own, with the same members for what a step reads of them.
"""

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.contacts.contact_set import ContactSet
from dynamics.contacts.curvature import SecondOrder, carve_second_order, second_order_numbers
from dynamics.contacts.derivatives import FirstOrder, carve_first_order, first_order_numbers
from dynamics.contacts.dynamics import Workspace, carve_workspace, workspace_numbers
from dynamics.contacts.elimination import Elimination, carve_elimination, elimination_numbers
from dynamics.contacts.legs import FIELDS, LegArrays
from dynamics.derivatives.virtual import VIRTUAL_BODY
from dynamics.knot_driver import nb, nv
from dynamics.model import RigidBodyModel
from dynamics.simd import carve, helper
from dynamics.simd.lane_blocks import carving, lanes
from dynamics.simd.sizes import Size
from dynamics.tangent import TANGENT_SLOTS

nu = Size("nu", "nu")
"""Number of controls."""


class Dynamics(NamedTuple):
    """What one evaluation of forward dynamics and its derivatives needs."""

    body: np.ndarray = lanes(nb * BODY)
    dof: np.ndarray = lanes(nv * DOF)
    art: np.ndarray = lanes(nb * ARTICULATED)
    elim: np.ndarray = lanes(nv * ELIMINATION)
    tau: np.ndarray = lanes(nv)
    zeros: np.ndarray = lanes(nv, zero=True)
    a: np.ndarray = lanes(nv)


class Derivatives(NamedTuple):
    """What the derivatives need on top."""

    torque: np.ndarray = lanes(nv)
    aq: np.ndarray = lanes(nv * nv)
    av: np.ndarray = lanes(nv * nv)
    au: np.ndarray = lanes(nv * nu)
    M: np.ndarray = lanes(nv * nv)
    Minv: np.ndarray = lanes(nv * nv)
    maps: np.ndarray = lanes(nb * TANGENT_SLOTS)


class Curvature(NamedTuple):
    """What the Hessian needs on top."""

    virtual: np.ndarray = lanes(nb * VIRTUAL_BODY)
    zeta: np.ndarray = lanes(nv * 6)
    y: np.ndarray = lanes(nv)
    w: np.ndarray = lanes(nv)
    Hqq: np.ndarray = lanes(nv * nv)
    Hqv: np.ndarray = lanes(nv * nv)
    Hvv: np.ndarray = lanes(nv * nv)
    Hqa: np.ndarray = lanes(nv * nv)
    Hqu: np.ndarray = lanes(nv * nu)


_carve_free_dynamics, _free_dynamics_numbers = carving(Dynamics)
_carve_free_derivatives, _free_derivatives_numbers = carving(Derivatives)
_carve_free_curvature, _free_curvature_numbers = carving(Curvature)


class ConstrainedDynamics(NamedTuple):
    """`Dynamics` in contact."""

    tau: np.ndarray
    a: np.ndarray  # that of `space`
    space: Workspace


class LeggedDynamics(NamedTuple):
    """`Dynamics` by elimination of the legs, of which derivatives know nothing."""

    tau: np.ndarray
    a: np.ndarray
    space: Workspace
    elimination: Elimination


class ConstrainedDerivatives(NamedTuple):
    """`Derivatives` in contact."""

    aq: np.ndarray  # the first rows of `first`, as av
    av: np.ndarray
    au: np.ndarray
    maps: np.ndarray
    first: FirstOrder


class ConstrainedCurvature(NamedTuple):
    """`Curvature` in contact."""

    y: np.ndarray  # that of `second`, as the matrices but Hqu
    w: np.ndarray
    Hqq: np.ndarray
    Hqv: np.ndarray
    Hvv: np.ndarray
    Hqu: np.ndarray
    second: SecondOrder


@helper
def carve_dynamics(m, contacts, w):
    """A `Dynamics` block, `ConstrainedDynamics` for `ContactArrays` or `LeggedDynamics` for `LegArrays`, its zeros
    zeroed, and the rest of w."""
    n = m.dof_body.size
    if len(contacts) == FIELDS:
        tau, w = carve(w, n)
        a, w = carve(w, n)
        space, w = carve_workspace(m, contacts.contacts, w)
        elimination, w = carve_elimination(m, contacts, w)
        return LeggedDynamics(tau, a, space, elimination), w
    if len(contacts) > 0:
        tau, w = carve(w, n)
        space, w = carve_workspace(m, contacts, w)
        return ConstrainedDynamics(tau, space.a, space), w
    return _carve_free_dynamics(m, w)


@helper
def carve_derivatives(m, contacts, nu, w):
    """A `Derivatives` or `ConstrainedDerivatives` block and the rest of w."""
    nb, n = m.parent.size, m.dof_body.size
    if len(contacts) > 0:
        au, w = carve(w, n * nu)
        maps, w = carve(w, nb * TANGENT_SLOTS)
        first, w = carve_first_order(m, contacts, w)
        return ConstrainedDerivatives(first.Gq[: n * n], first.Gv[: n * n], au, maps, first), w
    return _carve_free_derivatives(m, nu, w)


@helper
def carve_curvature(m, contacts, nu, w):
    """A `Curvature` or `ConstrainedCurvature` block and the rest of w."""
    n = m.dof_body.size
    if len(contacts) > 0:
        x, w = carve(w, n)
        Hqu, w = carve(w, n * nu)
        second, w = carve_second_order(m, contacts, w)
        return ConstrainedCurvature(second.y[:n], x, second.Hqq, second.Hqv, second.Hvv, Hqu, second), w
    return _carve_free_curvature(m, nu, w)


def dynamics_numbers(model: RigidBodyModel, contacts: ContactSet, legs: LegArrays | None = None) -> int:
    """Scratch numbers per lane of `carve_dynamics`; contacts: the robot's `ContactSet`, which may be empty."""
    n = model.nv
    if legs is not None:
        return 2 * n + workspace_numbers(model.arrays, contacts.arrays) + elimination_numbers(model.arrays, legs)
    if len(contacts) > 0:
        return n + workspace_numbers(model.arrays, contacts.arrays)
    return _free_dynamics_numbers(model.arrays)


def derivative_numbers(model: RigidBodyModel, contacts: ContactSet, nu: int) -> int:
    nb, n = len(model.arrays.parent), model.nv
    if len(contacts) > 0:
        return n * nu + nb * TANGENT_SLOTS + first_order_numbers(model.arrays, contacts.arrays)
    return _free_derivatives_numbers(model.arrays, nu)


def curvature_numbers(model: RigidBodyModel, contacts: ContactSet, nu: int) -> int:
    n = model.nv
    if len(contacts) > 0:
        return n * (1 + nu) + second_order_numbers(model.arrays, contacts.arrays)
    return _free_curvature_numbers(model.arrays, nu)
