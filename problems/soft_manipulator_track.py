"""A soft manipulator draws a circle with its tip, pulled by five tendons.

The robot is that of `rods.cable_manipulator`; it starts at rest, sagging under its weight with slack tendons, at the
lowest point of a circle of 8 cm radius in the plane across its root, which the tip follows once in 0.6 seconds, from
rest to rest, at up to 1.6 m/s: about as fast as it can within 3 mm.  60 knots of extrapolated Euler.  Costs: tensions
and the tip's distance from its reference on the circle, within that plane, and rest at the end.  Tendons only pull,
with 30 N at most.
"""

import numpy as np

import trajopt
from dynamics.rods.robot.link_residuals import LinkTranslation
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from problems.rods.cable_manipulator import ROD, cable_manipulator

RADIUS = 0.08  # m
LARGEST_TENSION = 30.0  # N


def make(horizon: int = 60, dt: float = 0.01, integrator: str = "extrapolated_euler") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, and a method of `SoftRobotSystem`."""
    robot = cable_manipulator()
    system = SoftRobotSystem(robot, dt, integrator)
    n, nu = system.nv, system.nu
    x0 = system.state(static_equilibrium(robot, np.zeros(nu)).q)
    tip = LinkTranslation(robot.model, ROD, np.zeros(3))
    path, across = tip.evaluate(x0[None]) + circle(horizon), np.array([0.0, 1e5, 1e5])
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[trajopt.ControlCost(3e-3), trajopt.ResidualCost(tip, across, reference=path[:-1])],
        terminal_costs=[
            trajopt.ResidualCost(tip, across, reference=path[-1]),
            trajopt.StateCost(system, x0, np.r_[np.zeros(n), np.full(n, 0.1)]),
        ],
        constraints=[trajopt.ControlBounds(np.zeros(nu), np.full(nu, LARGEST_TENSION))],
        scenery=[trajopt.Lines(np.stack([path[:-1], path[1:]], axis=1), target=True)],
        name="soft_manipulator_track",
    )


def circle(horizon: int) -> np.ndarray:
    """Offsets (N+1, 3), m, from the lowest point of the circle, which are at rest at both ends."""
    s = np.linspace(0.0, 1.0, horizon + 1)
    angle = 2.0 * np.pi * s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
    return RADIUS * np.stack([0.0 * s, np.sin(angle), 1.0 - np.cos(angle)], axis=1)
