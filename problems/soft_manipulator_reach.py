"""A soft manipulator moves its tip to a target and comes to rest there, pulled by five tendons.

The robot is that of `rods.cable_manipulator`, half a metre long; it starts at rest, sagging under its weight with slack
tendons.  One second, 50 knots of extrapolated Euler, for the material is stiff.  Costs: tensions and a little motion
on the way, the tip's position and rest at the end.  Tendons only pull, with 20 N at most.  The default target is where
the tip would rest under the tensions GOAL.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

import trajopt
from dynamics.rods.kinematics.center_lines import link_placement
from dynamics.rods.robot.link_residuals import LinkTranslation
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from problems.rods.cable_manipulator import ROD, cable_manipulator

LARGEST_TENSION = 20.0  # N
GOAL = np.array([2.0, 16.0, 6.0, 14.0, 3.0])


def make(
    horizon: int = 50,
    dt: float = 0.02,
    target: ArrayLike | None = None,
    integrator: str = "extrapolated_euler",
) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, a target (3,) of the tip, m, and a method of
    `SoftRobotSystem`."""
    robot = cable_manipulator()
    system = SoftRobotSystem(robot, dt, integrator)
    n, nu = system.nv, system.nu
    x0 = system.state(static_equilibrium(robot, np.zeros(nu)).q)
    target = resting_tip(robot, GOAL) if target is None else target
    tip = LinkTranslation(robot.model, ROD, target)
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[
            trajopt.ControlCost(1e-3),
            trajopt.StateCost(system, x0, np.r_[np.zeros(n), np.full(n, 1e-3)]),
        ],
        terminal_costs=[
            trajopt.ResidualCost(tip, 1e5),
            trajopt.StateCost(system, x0, np.r_[np.zeros(n), np.full(n, 10.0)]),
        ],
        constraints=[trajopt.ControlBounds(np.zeros(nu), np.full(nu, LARGEST_TENSION))],
        scenery=[trajopt.Target(target, 0.03)],
        name="soft_manipulator_reach",
    )


def resting_tip(robot: SoftRobot, tensions: ArrayLike) -> np.ndarray:
    """Position (3,) of the manipulator's tip at rest under constant tensions (5,), N."""
    return link_placement(robot.model, ROD, static_equilibrium(robot, tensions).q)[1]
