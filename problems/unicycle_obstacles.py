"""A unicycle passes three discs on its way to a pose, its speed and turning rate limited.

The three-obstacle problem of the ALTRO solver (Howell, Jackson and Manchester, "ALTRO: A fast solver for constrained
trajectory optimization", 2019) with parameters of its published code (Altro.jl, DubinsCar, three_obstacles): from the
origin facing east to (3, 3) facing east, an equality at the end, in five seconds; three discs of 0.25 m in a row on the
straight line there, to which the vehicle of radius 0.175 m must keep its distance; speed from 0 to 3 m/s, turning rate
within 3 rad/s.  Costs are 1/2 |x - x_goal|^2 + 1/4 |u|^2 per second and 5 |x_N - x_goal|^2.  States
(x, y, theta), controls (v, omega), 100 knots of 50 ms.

Minima come in pairs that differ in which knots touch the last disc: 9.43375 and 9.43551.  From straight ahead at the
speed that covers the distance to the goal in the time given, where the problem starts, both solvers find the second;
from the published start, controls of 0.01, they find one each.
"""

import numpy as np
from numba import njit

import trajopt
from trajopt import SquaredNorm, StateResidual

GOAL = np.array([3.0, 3.0, 0.0])
CENTRES = np.array([[0.75, 0.75], [1.5, 1.5], [2.25, 2.25]])
DISC, VEHICLE = 0.25, 0.175
"""Radii of a disc and of the vehicle [m]."""
DISTANCE = DISC + VEHICLE
"""Least distance [m] of the vehicle's middle from the middle of a disc."""


@njit
def unicycle(x, u, out):
    """dx/dt."""
    out[0] = u[0] * np.cos(x[2])
    out[1] = u[0] * np.sin(x[2])
    out[2] = u[1]


def outline(xs: np.ndarray) -> np.ndarray:
    """A triangle (K, 3, 2, 3) within the vehicle's radius that points where it goes, at states xs (K, 3)."""
    angles = xs[:, 2:] + np.array([0.0, 2.5, -2.5])
    x, y = xs[:, :1] + VEHICLE * np.cos(angles), xs[:, 1:2] + VEHICLE * np.sin(angles)
    corners = np.stack([x, y, np.zeros_like(x)], axis=-1)
    return np.stack([corners, np.roll(corners, -1, axis=1)], axis=2)


def make(horizon: int = 100, dt: float = 0.05) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds."""
    system = trajopt.CallableSystem(
        xdot=unicycle,
        nx=3,
        nu=2,
        dt=dt,
        name="unicycle",
        skeleton=outline,
        state_names=["x [m]", "y [m]", "heading [rad]"],
        control_names=["speed [m/s]", "turn rate [rad/s]"],
    )
    apart = [
        trajopt.ResidualConstraint(
            SquaredNorm(StateResidual(system, [*centre, 0.0], [0, 1])), DISTANCE**2, np.inf, name=f"disc {number}"
        )
        for number, centre in enumerate(CENTRES)
    ]
    return trajopt.Problem(
        system,
        np.zeros(3),
        horizon,
        running_costs=[trajopt.StateCost(system, GOAL, 1.0), trajopt.ControlCost(0.5)],
        terminal_costs=[trajopt.StateCost(system, GOAL, 10.0)],
        constraints=[
            trajopt.ControlBounds([0.0, -3.0], [3.0, 3.0]),
            *apart,
            trajopt.ResidualConstraint(StateResidual(system, GOAL), at="terminal", name="goal"),
        ],
        scenery=[
            *(trajopt.Cylinder([*centre, 0.0], DISC) for centre in CENTRES),
            trajopt.Lines(outline(GOAL[None])[0], target=True),
        ],
        us_init=np.tile([np.hypot(*GOAL[:2]) / (horizon * dt), 0.0], (horizon, 1)),
        name="unicycle_obstacles",
    )
