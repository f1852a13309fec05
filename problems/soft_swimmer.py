"""A soft fish swims forward from rest, by two segments that bend to and fro.

The robot is that of `rods.fish`.  Two seconds, 100 knots of SDIRK2, which takes the water's drag implicitly: the plan
by extrapolated Euler would miss by 16 mm.  Costs: tensions and the bending of the segments on the way, the head's
position at the end, which is 25 cm ahead.  Tendons only pull, with 20 N at most.
"""

from __future__ import annotations

import numpy as np

import trajopt
from dynamics.rods.robot.link_residuals import LinkTranslation
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from problems.rods.fish import HEAD, fish

LARGEST_TENSION, DISTANCE = 20.0, 0.25  # N, m
BEATS = 1.5
"""Frequency of the tail's beats in the initial guess, 1/s."""


def make(
    horizon: int = 100, dt: float = 0.02, distance: float = DISTANCE, integrator: str = "sdirk2"
) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, a distance to go, m, and a method of `SoftRobotSystem`."""
    robot = fish()
    system = SoftRobotSystem(robot, dt, integrator)
    n, target = system.nv, np.array([distance, 0.0, 0.0])
    x0 = system.state(np.zeros(n))
    phase = 2.0 * np.pi * BEATS * dt * np.arange(horizon)
    beat = np.stack([np.sin(phase), -np.sin(phase), np.sin(phase - 1.5), -np.sin(phase - 1.5)], axis=1)
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[
            trajopt.ControlCost(1e-3),
            trajopt.StateCost(system, x0, np.r_[np.zeros(3), np.full(n - 3, 1e-3), np.zeros(n)]),
        ],
        terminal_costs=[trajopt.ResidualCost(LinkTranslation(robot.model, HEAD, target), 1e3)],
        constraints=[trajopt.ControlBounds(np.zeros(4), np.full(4, LARGEST_TENSION))],
        us_init=np.clip(3.0 * beat, 0.0, None),
        scenery=[trajopt.Target(target, 0.02)],
        name="soft_swimmer",
    )
