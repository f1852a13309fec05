"""Common parts of robots with closed chains: slender rods, and costs of a motion from rest to rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import dynamics
import trajopt

DENSITY = 0.8
"""Density of rods, kg/m."""


def rod(length: float, direction: str = "x") -> dict[str, Any]:
    """Mass, centre and inertia of a slender rod of 20 mm diameter from the origin along an axis."""
    along = np.array([direction == axis for axis in "xyz"], dtype=float)
    mass, across = DENSITY * length, 0.01**2 / 4
    inertia = mass * (np.diag(1.0 - along) * (length**2 / 12 + across) + np.diag(along) * 2 * across)
    return {"mass": mass, "com": 0.5 * length * along, "inertia": inertia}


def motors(model: dynamics.RigidBodyModel, joints: Sequence[str]) -> np.ndarray:
    """Matrix B (nv, nu) of a torque on each of these joints."""
    B = np.zeros((model.nv, len(joints)))
    for column, joint in enumerate(joints):
        B[model.v_index[model.joint_index(joint)], column] = 1.0
    return B


def rest_to_rest(
    system: dynamics.RigidBodySystem,
    q0: np.ndarray,
    horizon: int,
    goal: trajopt.ResidualCost,
    control: float,
    scenery: Sequence[Any],
    name: str,
) -> trajopt.Problem:
    """A problem from rest at q0 to a goal at the end, at rest there."""
    x0 = system.state(q0)
    still = np.repeat([0.0, 1.0], system.nv)
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[trajopt.StateCost(system, x0, 1e-3 * still), trajopt.ControlCost(control)],
        terminal_costs=[goal, trajopt.StateCost(system, x0, still)],
        scenery=scenery,
        us_init="quasi_static",
        name=name,
    )
