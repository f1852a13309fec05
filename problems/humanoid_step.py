"""The humanoid makes a step of 20 cm: the right foot goes ahead, the left one follows beside it.

One sole on the ground at a time, then both, and two touch-downs; 1.6 s of 20 ms knots.  Its weight has to move to the
other sole before a foot lifts off.  The robot is that of `humanoid_model`; costs and limits are those of `gaits`, with
torques relative to the motors' limits.
"""

import trajopt
from problems.gaits import Gait, Weights
from problems.humanoid_model import walker

PLAN = [(4, ()), (5, ("right",)), (2, ()), (5, ("left",)), (4, ())]


def make(horizon: int = 82, dt: float = 0.02) -> trajopt.Problem:
    """The problem with `horizon` knots, of which two are touch-downs and the others last dt seconds."""
    robot = walker()
    weights = Weights(
        posture=1.0, speed=1e-1, center=(1e2, 0.0, 1e2), torque=3.0 / robot.model.effort_limit[6:] ** 2, swing=1e3,
        foothold=1e5, landing=1e-1, end=1e3,
    )  # fmt: skip
    return Gait(robot, PLAN, (0.2, 0.0, 0.0), 0.05, horizon, dt, weights).problem("humanoid_step")
