"""A tumbling satellite with a flexible boom stops, its boom pointing where it is told, and not swinging.

    hub     a cube of 20 kg, free to move and turn
    boom    1.5 m along the hub's x axis, 8 mm in radius; bending of order 1 both ways: four coordinates
    wheels  three reaction wheels about the hub's axes, driven by 0.8 N m at most; they take up the spin

It rotates at 1.6 rad/s about an axis that is no principal one, and does two whole turns before it rests, during which
its coordinates change their chart.  Eight seconds, 200 knots of SDIRK2: by extrapolated Euler the motion in continuous
time would end 43 mm off at the tip, in place of 5.  Costs: torques and the boom's bending on the way, orientation and
rest at the end.  All parameters are our own choice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

import trajopt
from dynamics import FreeFlyer, Revolute
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.link_residuals import LinkRotation, LinkVelocity
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from dynamics.validation import as_array

HUB, BOOM, WHEELS = "hub", "boom", ("wheel x", "wheel y", "wheel z")
SPIN = (0.8, 0.6, 1.25)  # rad/s, in the hub's axes
LARGEST_TORQUE = 0.8  # N m


def satellite() -> SoftRobot:
    """The satellite; controls are the torques of its wheels."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0), name="flexible satellite")
    builder.add_body(HUB, "world", FreeFlyer(), mass=20.0, inertia=np.diag([0.7, 0.8, 0.9]))
    carbon = Elastic(young=2e9, poisson=0.3, density=1600.0, viscosity=2e6)
    placement = (np.eye(3), [0.25, 0.0, 0.0])
    basis = LegendreBasis(bending_y=1, bending_z=1)
    builder.add_rod(BOOM, HUB, 1.5, Circular(0.008), carbon, basis, placement=placement, points=3)
    for name, axis in zip(WHEELS, np.eye(3), strict=True):
        inertia = 0.01 * np.eye(3) + 0.01 * np.outer(axis, axis)
        builder.add_body(name, HUB, Revolute(axis), mass=2.0, inertia=inertia)
    return SoftRobot(builder.build(), torques=WHEELS)


def make(horizon: int = 200, dt: float = 0.04, spin: ArrayLike = SPIN, integrator: str = "sdirk2") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, angular velocities (3,) at the start, rad/s, and a method of
    `SoftRobotSystem`."""
    robot = satellite()
    system = SoftRobotSystem(robot, dt, integrator)
    n, boom = system.nv, robot.model.rods[BOOM].coordinates
    x0, bent, still = np.zeros(2 * n), np.zeros(2 * n), np.zeros(2 * n)
    x0[n : n + 3], bent[boom] = as_array("spin", spin, (3,)), 1.0
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[trajopt.ControlCost(0.1), trajopt.StateCost(system, still, 0.1 * bent)],
        terminal_costs=[
            trajopt.ResidualCost(LinkRotation(robot.model, HUB, np.eye(3)), 100.0),
            trajopt.ResidualCost(LinkVelocity(robot.model, HUB), np.r_[np.zeros(3), np.full(3, 100.0)]),
            trajopt.StateCost(system, still, 10.0 * (bent + np.roll(bent, n))),
        ],
        constraints=[trajopt.ControlBounds(np.full(3, -LARGEST_TORQUE), np.full(3, LARGEST_TORQUE))],
        name="flexible_satellite",
    )
