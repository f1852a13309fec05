"""Scratch of one discrete-time step, carved from a driver's block of memory."""

from typing import NamedTuple

import numpy as np

from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION
from dynamics.algorithms.kinematics import BODY, DOF
from dynamics.derivatives.virtual import VIRTUAL_BODY
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


@helper
def carve_dynamics(nb, n, w):
    """A `Dynamics` block, its zeros zeroed, and the rest of w."""
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
def carve_derivatives(nb, n, nu, w):
    torque, w = carve(w, n)
    aq, w = carve(w, n * n)
    av, w = carve(w, n * n)
    au, w = carve(w, n * nu)
    M, w = carve(w, n * n)
    Minv, w = carve(w, n * n)
    maps, w = carve(w, nb * TANGENT_SLOTS)
    return Derivatives(torque, aq, av, au, M, Minv, maps), w


@helper
def carve_curvature(nb, n, nu, w):
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


def dynamics_numbers(model) -> int:
    nb, n = len(model.arrays.parent), model.nv
    return nb * (BODY + ARTICULATED) + n * (DOF + ELIMINATION + 3)


def derivative_numbers(model, nu: int) -> int:
    nb, n = len(model.arrays.parent), model.nv
    return n * (1 + 4 * n + nu) + nb * TANGENT_SLOTS


def curvature_numbers(model, nu: int) -> int:
    nb, n = len(model.arrays.parent), model.nv
    return nb * VIRTUAL_BODY + n * (8 + 4 * n + nu)
