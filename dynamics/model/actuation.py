"""Attachments in the coordinates of a robot: matrices of its springs, and joint torques of its controls, tau = B u.

Where every control drives one degree of freedom in order, tau = (0, ..., 0, u), only the number of leading unactuated
degrees of freedom is kept; any other B is a dense matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.model.attachments import Actuator, Ratios, Springs
from dynamics.model.joint_forces import subtract_joint_forces
from dynamics.model.joints import FREE_FLYER
from dynamics.model.model import RigidBodyModel, check_model
from dynamics.simd import fma, kernel, load, splat, store
from dynamics.validation import as_array


def joint_row(model: RigidBodyModel, joints: Ratios) -> np.ndarray:
    """Ratios of joints as a row (nv,)."""
    row = np.zeros(model.nv)
    for joint, ratio in joints:
        row[model.v_index[model.joint_index(joint)]] = ratio
    return row


def spring_matrices(model: RigidBodyModel) -> Springs:
    """K = sum k r'r, D = sum d r'r and c = sum k rest r over the springs; joints of several degrees of freedom have
    none."""
    K, D, c = np.zeros((model.nv, model.nv)), np.zeros((model.nv, model.nv)), np.zeros(model.nv)
    for each in model.springs:
        row = joint_row(model, each.joints)
        K += each.stiffness * np.outer(row, row)
        D += each.damping * np.outer(row, row)
        c += each.stiffness * each.rest * row
    return Springs(K, D, c)


def joint_rows(model: RigidBodyModel) -> np.ndarray:
    """Ratios (nu, nv of the full model) of the actuators' joints, zero for those on frames."""
    return np.array([joint_row(model.full, each.joints) for each in model.actuators])


def actuation_of(model: RigidBodyModel) -> np.ndarray:
    """B (nv, nu) of the actuators of a robot; ValueError if it has none."""
    if not model.actuators:
        raise ValueError("actuation: got 'model', expected a model with actuators")
    return np.ascontiguousarray(model.mimic_map.leave("p", joint_rows(model)).T)


def actuator_limits(model: RigidBodyModel) -> tuple[np.ndarray, np.ndarray]:
    """lower and upper (nu,) of the actuators' forces."""
    return np.array([each.lower for each in model.actuators]), np.array([each.upper for each in model.actuators])


class Actuation(NamedTuple):
    """B (nv, nu); skip >= 0 says that B = [0; I] with `skip` zero rows, -1 that B is dense; on_frames that the model's
    actuators on frames are among the controls, whose columns are zero."""

    B: np.ndarray
    skip: int
    on_frames: bool = False


def actuation_map(model: RigidBodyModel, actuation: str | ArrayLike | None) -> Actuation:
    """The map named by `actuation`: None (every degree of freedom), "floating_base" (all but the first six), "model"
    (its actuators), or a matrix (nv, nu).  Raises ValueError for anything else."""
    check_model(model)
    n = model.nv
    if actuation is None:
        return Actuation(np.eye(n), 0)
    if isinstance(actuation, str):
        if actuation == "model":
            return Actuation(actuation_of(model), -1, any(not isinstance(each, Actuator) for each in model.actuators))
        if actuation != "floating_base":
            choices = "None, 'floating_base', 'model' or a matrix (nv, nu)"
            raise ValueError(f"actuation: got {actuation!r}, expected {choices}")
        if model.arrays.joint_type[0] != FREE_FLYER:
            raise ValueError("actuation: got 'floating_base', expected a model whose first joint is a free flyer")
        if n == 6:
            raise ValueError("actuation: got 'floating_base', expected a model with joints besides the free flyer")
        return Actuation(np.vstack([np.zeros((6, n - 6)), np.eye(n - 6)]), 6)
    B = as_array("actuation", actuation, copy=True)
    if B.ndim != 2 or B.shape[0] != n or B.shape[1] == 0:
        raise ValueError(f"actuation: got shape {B.shape}, expected ({n}, nu) with nu >= 1")
    return Actuation(B, -1)


def on_full_joints(model: RigidBodyModel, actuation: Actuation) -> Actuation:
    """The same map to torques of the full model."""
    if not model.mimics:
        return actuation
    B = model.mimic_map.full_torques(actuation.B.T).T
    return Actuation(np.ascontiguousarray(B), -1, actuation.on_frames)


@kernel
def torques_of_controls(B, skip, u, tau):
    """tau = B u"""
    n, nu = B.shape
    for i in range(n):
        t = splat(tau, 0.0)
        if skip >= 0:
            if i >= skip:
                t = load(u, i - skip)
        else:
            for j in range(nu):
                t = fma(B[i, j], load(u, j), t)
        store(tau, i, t)


@kernel
def joint_torques(m, B, skip, q, v, u, tau):
    """tau = B u less the friction and springs of the joints of m"""
    torques_of_controls(B, skip, u, tau)
    subtract_joint_forces(m, 1.0, q, v, tau)


@kernel
def times_actuation(B, skip, A, stride, X):
    """X (rows nu) <- A B for A (rows nv), whose rows begin `stride` numbers apart."""
    n, nu = B.shape
    for i in range(X.shape[0] // max(nu, 1)):
        for j in range(nu):
            x = splat(X, 0.0)
            if skip >= 0:
                x = load(A, i * stride + skip + j)
            else:
                for k in range(n):
                    x = fma(load(A, i * stride + k), B[k, j], x)
            store(X, i * nu + j, x)
