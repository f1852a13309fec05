"""A quadrotor flies to a hover a few metres away and above in the least time, turning by 120 degrees.

The robot, its start and its goal are those of `quadrotor`; its duration is free, RK4 steps.  Cost: the time, and
THRUSTS times the squares of the thrusts' deviations from hovering, integrated.  Fifty knots, and one that sets their
duration.
"""

import numpy as np

import dynamics
import trajopt
from problems.quadrotor import ARM, GOAL_POSITION, GOAL_YAW, LARGEST_THRUST, actuation, model

THRUSTS = 2e-2
"""Weight of the squared thrusts, 1/(N^2 s)."""


def make(horizon: int = 51, dt: float = 0.03) -> trajopt.Problem:
    """The problem with `horizon` knots, the first of which sets the duration of the others; at first dt seconds."""
    robot = model()
    inside = dynamics.RigidBodySystem(robot, dt, integrator="rk4", actuation=actuation())
    system = trajopt.FreeDurationSystem(inside, horizon - 1, bounds=(0.2, 4.0))
    start = dynamics.neutral(robot)
    hover = dynamics.gravity_forces(robot, start)[2] / 4
    goal = inside.state([*GOAL_POSITION, 0.0, 0.0, np.sin(0.5 * GOAL_YAW), np.cos(0.5 * GOAL_YAW)])
    us = np.zeros((horizon, system.nu))
    us[:, :4] = hover
    return trajopt.Problem(
        system,
        system.state(inside.state(start)),
        horizon,
        running_costs=[trajopt.TimeCost(system), system.lift(trajopt.ControlCost(2.0 * THRUSTS, hover))],
        constraints=[
            system.duration_bounds(),
            trajopt.ControlBounds([0.0] * 4 + [-np.inf], [LARGEST_THRUST] * 4 + [np.inf]),
            trajopt.ResidualConstraint(system.lift(trajopt.StateResidual(inside, goal)), at="terminal", name="goal"),
        ],
        us_init=us,
        scenery=[trajopt.Target(GOAL_POSITION, ARM, dynamics.frame_placement(robot, goal[: robot.nq], "body").R)],
        name="quadrotor_minimum_time",
    )
