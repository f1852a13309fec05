"""A six-axis industrial arm moves its tool to a pose and comes to rest there.

The robot is `models/arm6.urdf`: the kinematics, masses, centres of mass, inertias and limits published for the
Universal Robots UR10, in the project's own file.  One second, 50 knots by RK4, so that the torques alone lead the tool
within 0.1 mm of where it was planned to be.  It starts in a working posture and goes about 0.9 m across, turning by
about 75 degrees.  Costs: torques and a weak pull towards the starting posture on the way, the tool's pose and rest at
the end.  The torques are weighted such that the arm folds on its way, and the tool still arrives within a
millimetre; they stay below a third of the motors' limits, the speeds below the joints'.
"""

import numpy as np

import dynamics
import problems
import trajopt

MODEL = problems.model_path("arm6")
START = np.array([0.0, -1.2, 1.6, -1.9, -1.6, 0.0])
GOAL = np.array([1.1, -1.7, 2.0, -1.4, -1.1, 0.8])
"""A posture whose tool pose is the target; the costs contain the pose only."""


def make(horizon: int = 50, dt: float = 0.02, integrator: str = "rk4") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, by an integrator of `dynamics.RigidBodySystem`."""
    model = dynamics.load_urdf(MODEL)
    system = dynamics.RigidBodySystem(model, dt, integrator)
    x0 = system.state(START)
    pose = dynamics.frame_placement(model, GOAL, "tool")
    posture = np.r_[np.full(6, 1e-1), np.full(6, 1e-1)]
    rest = np.r_[np.zeros(6), np.full(6, 1e1)]
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[
            trajopt.StateCost(system, x0, posture),
            trajopt.ControlCost(np.full(6, 4e-4)),
        ],
        terminal_costs=[
            trajopt.ResidualCost(dynamics.FramePlacement(model, "tool", pose), np.r_[np.full(3, 1e3), np.full(3, 1e2)]),
            trajopt.StateCost(system, x0, rest),
        ],
        scenery=[trajopt.Target(pose.p, 0.05, pose.R)],
        us_init=np.tile(dynamics.gravity_forces(model, START), (horizon, 1)),
        name="arm",
    )
