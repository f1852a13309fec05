"""An arm of three driven joints with a soft last link moves its tip to a target and comes to rest there.

The robot is that of `rods.hybrid_arm`: a rod of 25 cm with three tendons on a rigid arm.  It starts at rest with slack
tendons, the rod sagging, and goes about 0.8 m across.  1.2 seconds, 120 knots of extrapolated Euler: with 60 knots the
plan would miss by 5 cm in continuous time.  Costs: torques, tensions and a little motion on the way, the tip's position
and rest at the end.  Tendons only pull.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

import trajopt
from dynamics.rods.robot.link_residuals import LinkTranslation
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from problems.rods.hybrid_arm import JOINTS, TIP, hybrid_arm

START = (0.0, -0.9, 1.5)  # rad
TARGET = (0.15, 0.5, 0.45)  # m
LARGEST_TENSION, LARGEST_TORQUE = 20.0, 30.0  # N, N m


def make(
    horizon: int = 120, dt: float = 0.01, target: ArrayLike = TARGET, integrator: str = "extrapolated_euler"
) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, a target (3,) of the tip, m, and a method of
    `SoftRobotSystem`."""
    robot = hybrid_arm()
    system = SoftRobotSystem(robot, dt, integrator)
    n, tendons, joints = system.nv, system.nu - len(JOINTS), len(JOINTS)
    rest = static_equilibrium(robot, np.zeros(system.nu), prescribed=dict(zip(JOINTS, START, strict=True)))
    x0, holding = system.state(rest.q), np.r_[np.zeros(tendons), *rest.prescribed_forces.values()]
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[
            trajopt.ControlCost(np.r_[np.full(tendons, 1e-3), np.full(joints, 5e-2)]),
            trajopt.StateCost(system, x0, np.r_[np.zeros(n), np.full(n, 1e-2)]),
        ],
        terminal_costs=[
            trajopt.ResidualCost(LinkTranslation(robot.model, TIP, target), 1e4),
            trajopt.StateCost(system, x0, np.r_[np.zeros(n), np.full(n, 10.0)]),
        ],
        constraints=[
            trajopt.ControlBounds(
                np.r_[np.zeros(tendons), np.full(joints, -LARGEST_TORQUE)],
                np.r_[np.full(tendons, LARGEST_TENSION), np.full(joints, LARGEST_TORQUE)],
            )
        ],
        us_init=np.tile(holding, (horizon, 1)),
        scenery=[trajopt.Target(target, 0.05)],
        name="hybrid_arm_reach",
    )
