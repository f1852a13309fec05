"""An acrobot swings up: the test problem of the trajax library.

The parameters are those of trajax's acrobot test (google/trajax, tests/optimizers_test.py): rods of 1 kg and 1 m with
their centres of mass in the middle and moments of inertia of 1 kg m^2 about them, gravity 9.8 m/s^2, explicit Euler
steps of 0.1 s, fifty of them from hanging at rest; the costs of a step are 0.05 |x - x_up|^2 + 0.005 u^2, those of the
end 500 |x_N - x_up|^2.  It starts from zero controls, at a cost of 4959.476212 as there; the test asks for less than
51, and the minimum from that start is 44.513285.  Steps of this length belong to the test: in continuous time the plan
ends metres away.
"""

import numpy as np

import dynamics
import trajopt

STEP = 0.1
"""trajax's step [s], for which the running costs are those of a step."""


def model() -> dynamics.RigidBodyModel:
    """Two rods, axes along y."""
    builder = dynamics.ModelBuilder(gravity=(0.0, 0.0, -9.8), name="acrobot_trajax")
    rod = {"mass": 1.0, "com": (0.0, 0.0, -0.5), "inertia": np.diag([1.0, 1.0, 0.0])}
    builder.add_body("upper", "world", dynamics.Continuous("y"), joint_name="shoulder", **rod)
    below = (np.eye(3), (0.0, 0.0, -1.0))
    builder.add_body("lower", "upper", dynamics.Continuous("y"), joint_name="elbow", placement=below, **rod)
    builder.add_frame("tip", "lower", below)
    return builder.build()


def make(horizon: int = 50, dt: float = STEP) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds."""
    system = dynamics.RigidBodySystem(model(), dt, "explicit_euler", actuation=np.array([[0.0], [1.0]]))
    upright = system.state([np.pi, 0.0])
    return trajopt.Problem(
        system,
        system.state([0.0, 0.0]),
        horizon,
        running_costs=[trajopt.StateCost(system, upright, 0.1 / STEP), trajopt.ControlCost(0.01 / STEP)],
        terminal_costs=[trajopt.StateCost(system, upright, 1000.0)],
        name="acrobot_trajax",
    )
