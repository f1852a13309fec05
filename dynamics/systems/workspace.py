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
from dynamics.model import RigidBodyModel
from dynamics.simd import carve, helper
from dynamics.tangent import TANGENT_SLOTS


class Dynamics(NamedTuple):
    """What one evaluation of forward dynamics and its derivatives needs; n = nv, all (n) or (n n) unless said."""

    body: np.ndarray  # (nb BODY)
    dof: np.ndarray  # (n DOF)
    art: np.ndarray  # (nb ARTICULATED)
    elim: np.ndarray  # (n ELIMINATION)
    tau: np.ndarray
    zeros: np.ndarray
    a: np.ndarray


class Derivatives(NamedTuple):
    """What the derivatives need on top."""

    torque: np.ndarray
    aq: np.ndarray
    av: np.ndarray
    au: np.ndarray  # (n nu)
    M: np.ndarray
    Minv: np.ndarray
    maps: np.ndarray  # (nb TANGENT_SLOTS)


class Curvature(NamedTuple):
    """What the Hessian needs on top."""

    virtual: np.ndarray  # (nb VIRTUAL_BODY)
    zeta: np.ndarray  # (n 6)
    y: np.ndarray
    w: np.ndarray
    Hqq: np.ndarray
    Hqv: np.ndarray
    Hvv: np.ndarray
    Hqa: np.ndarray
    Hqu: np.ndarray  # (n nu)


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
    nb, n = m.parent.size, m.dof_body.size
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
    body, w = carve(w, nb * BODY)
    dof, w = carve(w, n * DOF)
    art, w = carve(w, nb * ARTICULATED)
    elim, w = carve(w, n * ELIMINATION)
    tau, w = carve(w, n)
    zeros, w = carve(w, n)
    a, w = carve(w, n)
    zeros[:] = 0.0
    return Dynamics(body, dof, art, elim, tau, zeros, a), w


@helper
def carve_derivatives(m, contacts, nu, w):
    """A `Derivatives` or `ConstrainedDerivatives` block and the rest of w."""
    nb, n = m.parent.size, m.dof_body.size
    if len(contacts) > 0:
        au, w = carve(w, n * nu)
        maps, w = carve(w, nb * TANGENT_SLOTS)
        first, w = carve_first_order(m, contacts, w)
        return ConstrainedDerivatives(first.Gq[: n * n], first.Gv[: n * n], au, maps, first), w
    torque, w = carve(w, n)
    aq, w = carve(w, n * n)
    av, w = carve(w, n * n)
    au, w = carve(w, n * nu)
    M, w = carve(w, n * n)
    Minv, w = carve(w, n * n)
    maps, w = carve(w, nb * TANGENT_SLOTS)
    return Derivatives(torque, aq, av, au, M, Minv, maps), w


@helper
def carve_curvature(m, contacts, nu, w):
    """A `Curvature` or `ConstrainedCurvature` block and the rest of w."""
    nb, n = m.parent.size, m.dof_body.size
    if len(contacts) > 0:
        x, w = carve(w, n)
        Hqu, w = carve(w, n * nu)
        second, w = carve_second_order(m, contacts, w)
        return ConstrainedCurvature(second.y[:n], x, second.Hqq, second.Hqv, second.Hvv, Hqu, second), w
    virtual, w = carve(w, nb * VIRTUAL_BODY)
    zeta, w = carve(w, n * 6)
    y, w = carve(w, n)
    x, w = carve(w, n)
    Hqq, w = carve(w, n * n)
    Hqv, w = carve(w, n * n)
    Hvv, w = carve(w, n * n)
    Hqa, w = carve(w, n * n)
    Hqu, w = carve(w, n * nu)
    return Curvature(virtual, zeta, y, x, Hqq, Hqv, Hvv, Hqa, Hqu), w


def dynamics_numbers(model: RigidBodyModel, contacts: ContactSet, legs: LegArrays | None = None) -> int:
    """Scratch numbers per lane of `carve_dynamics`; contacts: the robot's `ContactSet`, which may be empty."""
    nb, n = len(model.arrays.parent), model.nv
    if legs is not None:
        return 2 * n + workspace_numbers(model.arrays, contacts.arrays) + elimination_numbers(model.arrays, legs)
    if len(contacts) > 0:
        return n + workspace_numbers(model.arrays, contacts.arrays)
    return nb * (BODY + ARTICULATED) + n * (DOF + ELIMINATION + 3)


def derivative_numbers(model: RigidBodyModel, contacts: ContactSet, nu: int) -> int:
    nb, n = len(model.arrays.parent), model.nv
    if len(contacts) > 0:
        return n * nu + nb * TANGENT_SLOTS + first_order_numbers(model.arrays, contacts.arrays)
    return n * (1 + 4 * n + nu) + nb * TANGENT_SLOTS


def curvature_numbers(model: RigidBodyModel, contacts: ContactSet, nu: int) -> int:
    nb, n = len(model.arrays.parent), model.nv
    if len(contacts) > 0:
        return n * (1 + nu) + second_order_numbers(model.arrays, contacts.arrays)
    return nb * VIRTUAL_BODY + n * (8 + 4 * n + nu)
