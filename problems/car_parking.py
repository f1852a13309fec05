"""A car with limited steering and acceleration parks at the origin, facing east.

The problem of Tassa, Mansard and Todorov, "Control-limited differential dynamic programming", 2014, with the parameters
of the authors' published demonstration (demo_car.m): wheelbase 2 m, 500 steps of 30 ms, from rest at (1, 1) facing
south, heading 3 pi/2, to heading 0.  States are position x, y of the middle of the rear axle, heading theta and speed v
of the front wheels; controls are the angle w of the front wheels and their acceleration a.  With the front wheels
rolling f = h v in a step, the rear ones roll b,

    b = d + f cos w - sqrt(d^2 - (f sin w)^2),      x += b cos theta,      y += b sin theta,
    theta += arcsin(f sin w / d),                   v += h a

Costs are those of the paper, with z(r, p) = sqrt(r^2 + p^2) - p, at every step and at the end,

    1e-2 w^2 + 1e-4 a^2 + 1e-3 (z(x, 0.1) + z(y, 0.1))
    0.1 z(x, 0.01) + 0.1 z(y, 0.01) + z(theta, 0.01) + 0.3 z(v, 1) + 1e-3 (z(x, 0.1) + z(y, 0.1))

The problem starts from zero controls, the paper from normal noise, which `perturbed_start` draws.  Minima differ in
their segments, alternately forwards and backwards: zero controls give five segments at a cost of 1.905168, noise mostly
the same, occasionally 1.436101 or 2.03 and more.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from numba import njit

import trajopt

LENGTHS, HALF_WIDTH = np.array([-0.5, 2.0, 2.5]), 0.7
"""Distances of rear end, front axle and front end of the drawn car from the middle of the rear axle, and half its width
[m]."""
STEP = 0.03
"""The paper's h [s], for which the running costs are those of a step."""
WHEELBASE = 2.0
LIMITS = np.array([0.5, 2.0])
"""Limits, either way, of the angle of the front wheels [rad] and of the acceleration [m/s^2]."""
START = np.array([1.0, 1.0, 1.5 * np.pi, 0.0])
NOISE = 0.1
"""Standard deviation of `perturbed_start` [rad, m/s^2], the paper's."""


def perturbed_start(rng: np.random.Generator, horizon: int = 500) -> np.ndarray:
    """Controls (horizon, 2) of normal noise."""
    return NOISE * rng.standard_normal((horizon, 2))


def outline(xs: np.ndarray) -> np.ndarray:
    """Segments (K, 5, 2, 3) of the car from above at states xs (K, 4): a rectangle with a line at the front axle."""
    rear, axle, front = LENGTHS
    ends = np.array([[rear, -1], [front, -1], [front, 1], [rear, 1], [axle, -1], [axle, 1]])
    along, left = ends[:, 0], HALF_WIDTH * ends[:, 1]
    c, s = np.cos(xs[:, 2:3]), np.sin(xs[:, 2:3])
    points = np.stack([xs[:, :1] + c * along - s * left, xs[:, 1:2] + s * along + c * left, 0 * s * along], axis=-1)
    return np.stack([points[:, :5], points[:, [1, 2, 3, 0, 5]]], axis=2)


@cache
def car_step(dt: float) -> Callable[[np.ndarray, np.ndarray, np.ndarray], None]:
    """step(x, u, out) of dt seconds, compiled."""
    d = WHEELBASE

    @njit
    def step(x, u, out):
        theta, f, w = x[2], dt * x[3], u[0]
        sideways = f * np.sin(w)
        b = d + f * np.cos(w) - np.sqrt(d * d - sideways * sideways)
        out[0] = x[0] + b * np.cos(theta)
        out[1] = x[1] + b * np.sin(theta)
        out[2] = theta + np.arcsin(sideways / d)
        out[3] = x[3] + dt * u[1]

    return step


def make(horizon: int = 500, dt: float = STEP) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds."""
    system = trajopt.CallableSystem(
        car_step(dt),
        nx=4,
        nu=2,
        dt=dt,
        name="car",
        skeleton=outline,
        state_names=["x [m]", "y [m]", "heading [rad]", "speed [m/s]"],
        control_names=["steering [rad]", "acceleration [m/s²]"],
    )
    goal, near = np.zeros(4), trajopt.SmoothAbs([0.1, 0.1, 1.0, 1.0])
    return trajopt.Problem(
        system,
        START,
        horizon,
        running_costs=[
            trajopt.ControlCost(np.array([2e-2, 2e-4]) / STEP),
            trajopt.StateCost(system, goal, np.array([1e-3, 1e-3, 0.0, 0.0]) / STEP, near),
        ],
        terminal_costs=[
            trajopt.StateCost(system, goal, [0.1, 0.1, 1.0, 0.3], trajopt.SmoothAbs([0.01, 0.01, 0.01, 1.0])),
            trajopt.StateCost(system, goal, [1e-3, 1e-3, 0.0, 0.0], near),
        ],
        constraints=[trajopt.ControlBounds(-LIMITS, LIMITS)],
        scenery=[trajopt.Lines(outline(goal[None])[0], target=True)],
        name="car_parking",
    )
