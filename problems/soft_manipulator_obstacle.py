"""A soft manipulator swings its tip from one side of a pillar to the other, over its top.

The robot is that of `rods.cable_manipulator`, half a metre long; it starts at rest, held on one side by the tensions
START, and is to rest where these, mirrored, hold it on the other.  The pillar stands in between: the straight way would
lead through it.  The rod, as thick as it is, keeps 1 cm from it at each of its quadrature points and at the tip.  One
second, 40 knots of an L-stable method of second order.  Costs: tensions and motion on the way, the tip's position and
rest at the end.  Tendons only pull, with 40 N at most.  Starts from START held all the time.
"""

from __future__ import annotations

import numpy as np

import dynamics
import trajopt
from dynamics.rods.robot.link_translation import LinkTranslation
from dynamics.rods.robot.rod_distance import RodDistance
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from problems.rods.cable_manipulator import ROD, cable_manipulator
from problems.soft_manipulator_reach import resting_tip

LARGEST_TENSION = 40.0  # N
START, GOAL = np.array([20.0, 20.0, 0.0, 0.0, 0.0]), np.array([20.0, 0.0, 20.0, 0.0, 0.0])
FOOT, TOP, RADIUS = np.array([0.36, 0.0, -0.35]), np.array([0.36, 0.0, -0.05]), 0.03
"""Ends of the pillar's axis and its radius, m."""
MARGIN = 0.01  # m


def make(horizon: int = 40, dt: float = 0.025, integrator: str = "sdirk2") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, and a method of `SoftRobotSystem`."""
    robot = cable_manipulator()
    system = SoftRobotSystem(robot, dt, integrator)
    n, nu = system.nv, system.nu
    x0, target = system.state(static_equilibrium(robot, START).q), resting_tip(robot, GOAL)
    pillar = dynamics.Geometry("pillar", "world", -1, dynamics.Capsule(RADIUS, FOOT, TOP))
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[
            trajopt.ControlCost(1e-3),
            trajopt.StateCost(system, x0, np.r_[np.zeros(n), np.full(n, 3e-2)]),
        ],
        terminal_costs=[
            trajopt.ResidualCost(LinkTranslation(robot.model, ROD, target), 1e5),
            trajopt.StateCost(system, x0, np.r_[np.zeros(n), np.full(n, 10.0)]),
        ],
        constraints=[
            trajopt.ControlBounds(np.zeros(nu), np.full(nu, LARGEST_TENSION)),
            trajopt.ResidualConstraint(RodDistance(robot.model, [pillar], margin=MARGIN), name="pillar"),
        ],
        us_init=np.tile(START, (horizon, 1)),
        scenery=[
            trajopt.Cylinder(0.5 * (FOOT + TOP), RADIUS, TOP[2] - FOOT[2]),
            trajopt.Sphere(TOP, RADIUS),
            trajopt.Target(target, 0.03),
        ],
        name="soft_manipulator_obstacle",
    )
