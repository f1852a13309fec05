"""A double pendulum with a motor at each joint swings up and comes to rest.

Two uniform rods of 1 kg and 1 m (inertia m l^2/12 about the centre), hanging down at zero; one second, 50 knots by RK4.
"""

import numpy as np

import dynamics
import trajopt
from problems.swing_up import swing_up


def model(name: str = "double_pendulum") -> dynamics.RigidBodyModel:
    """Two uniform rods, axes along y."""
    builder = dynamics.ModelBuilder(name=name)
    rod = {"mass": 1.0, "com": (0.0, 0.0, -0.5), "inertia": np.diag([1.0, 1.0, 0.0]) / 12}
    builder.add_body("upper", "world", dynamics.Continuous("y"), joint_name="shoulder", **rod)
    below = (np.eye(3), (0.0, 0.0, -1.0))
    builder.add_body("lower", "upper", dynamics.Continuous("y"), joint_name="elbow", placement=below, **rod)
    builder.add_frame("tip", "lower", below)
    return builder.build()


def make(horizon: int = 50, dt: float = 0.02, integrator: str = "rk4") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, by an integrator of `dynamics.RigidBodySystem`."""
    system = dynamics.RigidBodySystem(model(), dt, integrator)
    return swing_up(
        system, [np.pi, 0.0], horizon, running=[1e-1, 1e-1, 1e-2, 1e-2], controls=[1e-3, 1e-3],
        terminal=[1e2, 1e2, 1e1, 1e1], us_init=np.zeros((horizon, 2)), name="double_pendulum",
    )  # fmt: skip
