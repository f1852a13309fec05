"""A car with limited steering and acceleration parks in the least time.

The car, its start and its limits are those of `car_parking`, as a differential equation: the front wheels roll at the
speed v in the direction w,

    dx/dt = v cos w cos theta      dy/dt = v cos w sin theta      dtheta/dt = v sin w / d      dv/dt = a

It ends at rest at the origin, facing east.  Cost: the time, and 5e-3 of the squared controls.  Its duration is
free; sixty knots, and one that sets their duration.
"""

from math import cos, sin

import numpy as np

import trajopt
from problems.car_parking import LIMITS, START, WHEELBASE, outline


def rate(x: np.ndarray, u: np.ndarray) -> tuple[float, ...]:
    """dx/dt"""
    along = x[3] * cos(u[0])
    return along * cos(x[2]), along * sin(x[2]), x[3] * sin(u[0]) / WHEELBASE, u[1]


def make(horizon: int = 61, dt: float = 0.1) -> trajopt.Problem:
    """The problem with `horizon` knots, the first of which sets the duration of the others; at first dt seconds."""
    inside = trajopt.CallableSystem(
        xdot=rate,
        nx=4,
        nu=2,
        dt=dt,
        name="car",
        skeleton=outline,
        state_names=["x [m]", "y [m]", "heading [rad]", "speed [m/s]"],
        control_names=["steering [rad]", "acceleration [m/s²]"],
    )
    system = trajopt.FreeDurationSystem(inside, horizon - 1, bounds=(0.1, 4.0))
    goal, limit = np.array([0.0, 0.0, 2.0 * np.pi, 0.0]), np.append(LIMITS, np.inf)
    return trajopt.Problem(
        system,
        system.state(START),
        horizon,
        running_costs=[trajopt.TimeCost(system), system.lift(trajopt.ControlCost(1e-2))],
        constraints=[
            system.duration_bounds(),
            trajopt.ControlBounds(-limit, limit),
            trajopt.ResidualConstraint(system.lift(trajopt.StateResidual(inside, goal)), at="terminal", name="goal"),
        ],
        scenery=[trajopt.Lines(outline(goal[None])[0], target=True)],
        name="car_minimum_time",
    )
