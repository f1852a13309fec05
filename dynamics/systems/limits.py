"""A model's limits as limits of a system: of the tangent at the neutral state, and of the controls."""

import numpy as np

from dynamics.joints import PRISMATIC, REVOLUTE, TRANSLATION
from dynamics.model import RigidBodyModel

PLAIN = (REVOLUTE, PRISMATIC, TRANSLATION)
"""Joints whose displacement from the neutral configuration is their configuration."""


def position_limits(model: RigidBodyModel) -> tuple[np.ndarray, np.ndarray]:
    """lower and upper (nv,) of the displacement from the neutral configuration, infinite where there is no limit.

    Raises ValueError for limits of a joint that turns or moves on a group: no displacement stands for one number of its
    configuration.
    """
    lower, upper = np.full(model.nv, -np.inf), np.full(model.nv, np.inf)
    for i, joint in enumerate(model.joints):
        q = slice(model.q_index[i], model.q_index[i] + joint.nq)
        low, high = model.lower_position[q], model.upper_position[q]
        if joint.code in PLAIN:
            v = slice(model.v_index[i], model.v_index[i] + joint.nv)
            lower[v], upper[v] = low, high
        elif np.isfinite(low).any() or np.isfinite(high).any():
            raise ValueError(
                f"position: joint {model.joint_names[i]!r} of type {joint.type_name} has limits of its configuration, "
                "which are none of its displacement; expected position=False and a constraint of a residual"
            )
    return lower, upper


def effort_limits(model: RigidBodyModel, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """lower and upper (nu,) of controls u for |B u| to keep to the effort limits, where that is a box.

    Of |B_ij u_j| <= effort_i the narrowest counts for u_j.  Raises ValueError where a limited degree of freedom is
    driven by several controls: their limits depend on each other.
    """
    upper = np.full(B.shape[1], np.inf)
    for i in np.flatnonzero(np.isfinite(model.effort_limit)):
        driving = np.flatnonzero(B[i])
        if len(driving) > 1:
            raise ValueError(
                f"actuation: {model.dof_names[i]!r} has an effort limit and is driven by {len(driving)} controls, "
                "whose limits depend on each other; expected one control, or a constraint of a residual"
            )
        for j in driving:
            upper[j] = min(upper[j], model.effort_limit[i] / abs(B[i, j]))
    return -upper, upper


def speed_limits(model: RigidBodyModel, B: np.ndarray) -> np.ndarray:
    """Limits (nu,) of the motors' speeds B'v, where a motor drives one degree of freedom; of others infinite."""
    alone = np.count_nonzero(B, axis=0) == 1
    driven = np.abs(B).argmax(axis=0)
    return np.where(alone, model.velocity_limit[driven] * np.abs(B).max(axis=0), np.inf)


def control_names(model: RigidBodyModel, B: np.ndarray) -> tuple[str, ...]:
    """Names (nu,) of the degrees of freedom where every control is the torque of one of its own, else "control j"."""
    driven = [np.flatnonzero(column) for column in B.T]
    if all(len(rows) == 1 and B[rows[0], j] == 1.0 for j, rows in enumerate(driven)):
        names = [model.dof_names[rows[0]] for rows in driven]
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"control {j}" for j in range(B.shape[1]))
