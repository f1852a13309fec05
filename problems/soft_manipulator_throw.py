"""A soft manipulator throws: its tip flies upwards, fast, when the ball leaves it.

The robot is that of `rods.cable_manipulator`, half a metre long, from where it hangs at rest with slack tendons, and
swings back first: about 4.5 m/s is the most that it reaches.  Eighty knots of 10 ms by extrapolated Euler.  The
implicit midpoint rule does not damp stiff motion that a step does not resolve: its plans have velocities that are
numerical artefacts, from which motions in continuous time differ by 1.9 m/s.  Costs: tensions and a little motion on
the way, the tip's velocity at the end.  Tendons only pull, with 20 N at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

import trajopt
from dynamics.rods.robot.link_residuals import LinkVelocity
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from problems.rods.cable_manipulator import ROD, cable_manipulator

LARGEST_TENSION = 20.0  # N
VELOCITY = (0.0, 4.0, 2.0)  # m/s


def make(
    horizon: int = 80, dt: float = 0.01, velocity: ArrayLike = VELOCITY, integrator: str = "extrapolated_euler"
) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, a velocity (3,) of the tip, m/s, and a method of
    `SoftRobotSystem`."""
    robot = cable_manipulator()
    system = SoftRobotSystem(robot, dt, integrator)
    n, nu = system.nv, system.nu
    x0 = system.state(static_equilibrium(robot, np.zeros(nu)).q)
    tip = LinkVelocity(robot.model, ROD, np.r_[velocity, np.zeros(3)])
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[
            trajopt.ControlCost(1e-3),
            trajopt.StateCost(system, x0, np.r_[np.zeros(n), np.full(n, 1e-4)]),
        ],
        terminal_costs=[trajopt.ResidualCost(tip, np.r_[np.full(3, 1e2), np.zeros(3)])],
        constraints=[trajopt.ControlBounds(np.zeros(nu), np.full(nu, LARGEST_TENSION))],
        name="soft_manipulator_throw",
    )
