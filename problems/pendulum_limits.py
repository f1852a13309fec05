"""A pendulum too weak to lift itself swings up by pumping.

The pendulum of `pendulum`, 1 kg at 1 m, with its torque limited to 3 N m, less than a third of the 9.8 N m that hold
the rod level; four seconds of 40 ms knots by RK4, in which it swings once to each side before it goes up.  It starts
from zero torques.  Limits of this kind are those of Tassa, Mansard and Todorov, "Control-limited differential dynamic
programming", 2014.
"""

import numpy as np

import dynamics
import trajopt
from problems.pendulum import model
from problems.swing_up import swing_up

LIMIT = 3.0
"""Limit of the torque, N m."""
NOISE = 1.0
"""Standard deviation [N m] of `perturbed_start`."""


def perturbed_start(rng: np.random.Generator, horizon: int = 100) -> np.ndarray:
    """Controls (horizon, 1) of normal noise."""
    return NOISE * rng.standard_normal((horizon, 1))


def make(horizon: int = 100, dt: float = 0.04, integrator: str = "rk4") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, by an integrator of `dynamics.RigidBodySystem`."""
    system = dynamics.RigidBodySystem(model(), dt, integrator)
    return swing_up(
        system, [np.pi], horizon, running=[0.1, 0.1], controls=1e-1, terminal=[200.0, 50.0],
        constraints=[trajopt.ControlBounds(-LIMIT, LIMIT)], name="pendulum_limits",
    )  # fmt: skip
