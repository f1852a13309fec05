"""A six-axis industrial arm moves from one posture to another in the least time.

The robot is that of `arm`.  Controls are the accelerations of its joints, at most 15 rad/s^2, which are integrated
exactly; speeds and torques keep to the robot's limits, and its duration is free.  Cost: the time, and a small cost of
the torques, each relative to its limit.  Forty knots, and one that sets their duration.
"""

import numpy as np

import dynamics
import trajopt
from problems.arm import GOAL, MODEL, START

LARGEST_ACCELERATION = 15.0
"""Limit of the accelerations, rad/s^2."""


def make(horizon: int = 41, dt: float = 0.0375) -> trajopt.Problem:
    """The problem with `horizon` knots, the first of which sets the duration of the others; at first dt seconds."""
    robot = dynamics.load_urdf(MODEL)
    inside = dynamics.JointAccelerationSystem(robot, dt)
    system = trajopt.FreeDurationSystem(inside, horizon - 1, bounds=(0.1, 4.0))
    torques = dynamics.JointTorques(inside, scale=1.0 / robot.effort_limit)
    limit = np.append(np.full(robot.nv, LARGEST_ACCELERATION), np.inf)
    goal = trajopt.StateResidual(inside, inside.state(GOAL))
    return trajopt.Problem(
        system,
        system.state(inside.state(START)),
        horizon,
        running_costs=[trajopt.TimeCost(system), system.lift(trajopt.ResidualCost(torques, 1e-3))],
        constraints=[
            system.duration_bounds(),
            trajopt.ControlBounds(-limit, limit),
            trajopt.StateBounds.from_model(system, position=False),
            trajopt.ResidualConstraint(system.lift(torques), torques.lower, torques.upper),
            trajopt.ResidualConstraint(system.lift(goal), at="terminal", name="goal"),
        ],
        name="arm_minimum_time",
    )
