"""An acrobot, two rods with a motor at the elbow only, swings up.

The task is that of Spong, "The swing up control problem for the acrobot", 1995, with the rods of `double_pendulum`;
three seconds of 20 ms knots by RK4, from hanging.  The cost of speed leads all solvers from these initial controls to
one minimum, and keeps the motor below 15 N m.  The motion is unstable: with the torque alone the tip deviates by 6 cm
in three seconds, with the gains by less than 0.1 mm.
"""

import numpy as np

import dynamics
import trajopt
from problems.double_pendulum import model
from problems.swing_up import swing_up

NOISE = 0.2
"""Standard deviation [N m] of `perturbed_start`."""


def initial_controls(horizon: int = 150) -> np.ndarray:
    """Three periods of a sine, (horizon, 1)."""
    return 5.0 * np.sin(np.linspace(0.0, 6 * np.pi, horizon))[:, None]


def perturbed_start(rng: np.random.Generator, horizon: int = 150) -> np.ndarray:
    """The problem's initial controls (horizon, 1) and normal noise."""
    return initial_controls(horizon) + NOISE * rng.standard_normal((horizon, 1))


def make(horizon: int = 150, dt: float = 0.02, integrator: str = "rk4") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, by an integrator of `dynamics.RigidBodySystem`."""
    system = dynamics.RigidBodySystem(model("acrobot"), dt, integrator, actuation=np.array([[0.0], [1.0]]))
    return swing_up(
        system, [np.pi, 0.0], horizon, running=[0.1, 0.1, 0.1, 0.1], controls=[1e-2], terminal=[1e3, 1e3, 1e2, 1e2],
        us_init=initial_controls(horizon), name="acrobot",
    )  # fmt: skip
