"""A torque-driven pendulum swings up and balances.

A point mass of 1 kg on a massless rod of 1 m, hanging down at the angle 0; two seconds of 40 ms knots by RK4, enough
torque to go straight up, so that every solver finds the same minimum, but with a cost that keeps it near the 9.8 N m
that hold the rod level.
"""

import numpy as np

import dynamics
import trajopt
from problems.swing_up import swing_up


def model() -> dynamics.RigidBodyModel:
    """The pendulum, its axis along y, the mass below it."""
    builder = dynamics.ModelBuilder(name="pendulum")
    builder.add_body("bob", "world", dynamics.Continuous("y"), joint_name="pivot", mass=1.0, com=(0.0, 0.0, -1.0))
    return builder.build()


def make(horizon: int = 50, dt: float = 0.04, integrator: str = "rk4") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, by an integrator of `dynamics.RigidBodySystem`."""
    system = dynamics.RigidBodySystem(model(), dt, integrator)
    return swing_up(
        system, [np.pi], horizon, running=[0.2, 0.1], controls=[2e-2], terminal=[100.0, 10.0],
        us_init=np.full((horizon, 1), 1.0), name="pendulum",
    )  # fmt: skip
