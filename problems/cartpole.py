"""A cart swings up its pole by moving sideways.

A cart of 1 kg on a rail along x and a point mass of 0.1 kg on a massless rod of 0.5 m; one force, on the cart.  Masses
and length are those of Barto, Sutton and Anderson, "Neuronlike adaptive elements that can solve difficult learning
control problems", 1983, where the pole is a rod with its middle at 0.5 m.  Two seconds of 20 ms knots by RK4, from
hanging: time for one swing back and one up.
"""

import numpy as np

import dynamics
import trajopt
from problems.swing_up import swing_up


def model() -> dynamics.RigidBodyModel:
    """Cart and pole, the pole's angle 0 hanging."""
    builder = dynamics.ModelBuilder(name="cartpole")
    builder.add_body("cart", "world", dynamics.Prismatic("x"), joint_name="rail", mass=1.0)
    builder.add_body("pole", "cart", dynamics.Continuous("y"), joint_name="pivot", mass=0.1, com=(0.0, 0.0, -0.5))
    return builder.build()


NOISE = 2.0
"""Standard deviation [N] of `perturbed_start`."""


def initial_controls(horizon: int = 100) -> np.ndarray:
    """Two periods of a sine, (horizon, 1)."""
    return 2.0 * np.sin(np.linspace(0.0, 4 * np.pi, horizon))[:, None]


def perturbed_start(rng: np.random.Generator, horizon: int = 100) -> np.ndarray:
    """The problem's initial controls (horizon, 1) and normal noise."""
    return initial_controls(horizon) + NOISE * rng.standard_normal((horizon, 1))


def make(horizon: int = 100, dt: float = 0.02, integrator: str = "rk4") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, by an integrator of `dynamics.RigidBodySystem`."""
    system = dynamics.RigidBodySystem(model(), dt, integrator, actuation=np.array([[1.0], [0.0]]))
    return swing_up(
        system, [0.0, np.pi], horizon, running=[0.1, 0.1, 0.01, 0.01], controls=[1e-2],
        terminal=[100.0, 100.0, 10.0, 10.0], us_init=initial_controls(horizon), name="cartpole",
    )  # fmt: skip
