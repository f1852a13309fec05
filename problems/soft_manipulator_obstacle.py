"""A soft manipulator moves its tip to a target past a ball, and comes to rest there.

The robot is that of `rods.cable_manipulator`, half a metre long, from where it hangs at rest with slack tendons.  The
motion without an obstacle, as in `soft_manipulator_reach`, would go through the ball.  The rod, with its thickness,
keeps 5 mm from it at each of its quadrature points and at the tip.  One second, 50 knots of extrapolated Euler; costs
and limits as there.
"""

from __future__ import annotations

import numpy as np

import dynamics
import trajopt
from dynamics.rods.robot.rod_distance import RodDistance
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from problems import soft_manipulator_reach
from problems.rods.cable_manipulator import cable_manipulator

GOAL = np.array([0.0, 18.0, 2.0, 0.0, 14.0])
"""Tensions that would hold the tip at the target, N."""
CENTER, RADIUS, MARGIN = np.array([0.438, -0.069, -0.192]), 0.04, 0.005  # m


def make(horizon: int = 50, dt: float = 0.02, integrator: str = "extrapolated_euler") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, and a method of `SoftRobotSystem`."""
    target = soft_manipulator_reach.resting_tip(cable_manipulator(), GOAL)
    free = soft_manipulator_reach.make(horizon, dt, target, integrator)
    assert isinstance(free.system, SoftRobotSystem)
    ball = dynamics.Geometry("ball", "world", -1, dynamics.Sphere(RADIUS), (np.eye(3), CENTER))
    distance = RodDistance(free.system.model, [ball], margin=MARGIN)
    return trajopt.Problem(
        free.system,
        free.x0,
        horizon,
        running_costs=free.running_costs,
        terminal_costs=free.terminal_costs,
        constraints=[*free.constraints, trajopt.ResidualConstraint(distance, name="ball")],
        scenery=[trajopt.Sphere(CENTER, RADIUS), *free.scenery],
        name="soft_manipulator_obstacle",
    )
