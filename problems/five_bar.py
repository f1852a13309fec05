"""Two motors on the ground carry a point in a plane, by two arms of two rods that meet there.

Slender rods: upper arms of 0.2 m, forearms of 0.3 m, on bearings 0.15 m apart.  The point where the forearms meet, held
together by a `LoopConstraint`, goes 0.2 m sideways and 0.12 m down and stops there; 0.5 s in knots of 10 ms by RK4,
which keeps the loop closed to 1e-7 m, under gravity.
"""

import numpy as np

import dynamics
import trajopt
from problems.linkages import motors, rest_to_rest, rod

UPPER, FORE, GROUND = 0.2, 0.3, 0.15
START, GOAL = np.array([-0.1, 0.0, 0.36]), np.array([0.1, 0.0, 0.24])
"""Start and goal of the point where the arms meet [m]."""
SIDES = {"left": -1.0, "right": 1.0}


def model() -> dynamics.RigidBodyModel:
    """Two arms in the plane of x and z; a joint's angle is from x towards z."""
    builder = dynamics.ModelBuilder(name="five_bar")
    along = dynamics.Revolute([0.0, -1.0, 0.0])
    for side, sign in SIDES.items():
        base, elbow = (np.eye(3), (0.5 * sign * GROUND, 0.0, 0.0)), (np.eye(3), (UPPER, 0.0, 0.0))
        builder.add_body(f"{side}_arm", "world", along, f"{side}_motor", placement=base, **rod(UPPER))
        builder.add_body(f"{side}_forearm", f"{side}_arm", along, f"{side}_elbow", placement=elbow, **rod(FORE))
        builder.add_frame(f"{side}_hand", f"{side}_forearm", (np.eye(3), (FORE, 0.0, 0.0)))
    return builder.build()


def loop(robot: dynamics.RigidBodyModel) -> dynamics.LoopConstraint:
    """The loop constraint where the forearms meet."""
    return dynamics.LoopConstraint(robot, "left_hand", "right_hand")


def reaching(robot: dynamics.RigidBodyModel, point: np.ndarray) -> np.ndarray:
    """The configuration (4,) for a point (3,), with the elbows outwards."""
    q = []
    for sign in SIDES.values():
        away = np.array([point[0] - 0.5 * sign * GROUND, point[2]])
        distance = np.linalg.norm(away)
        lean = np.arccos((UPPER**2 + distance**2 - FORE**2) / (2 * UPPER * distance))
        bend = np.arccos((distance**2 - UPPER**2 - FORE**2) / (2 * UPPER * FORE))
        q += [np.arctan2(away[1], away[0]) - sign * lean, sign * bend]
    return dynamics.close_loops(robot, np.array(q), [loop(robot)])


def make(horizon: int = 50, dt: float = 0.01) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds."""
    robot = model()
    B = motors(robot, [f"{side}_motor" for side in SIDES])
    system = dynamics.RigidBodySystem(robot, dt, "rk4", actuation=B, contacts=[loop(robot)])
    goal = trajopt.ResidualCost(dynamics.FrameTranslation(robot, "left_hand", GOAL), 1e4)
    return rest_to_rest(system, reaching(robot, START), horizon, goal, 1e-2, [trajopt.Target(GOAL, 0.05)], "five_bar")
