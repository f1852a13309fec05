"""A delta robot carries its platform to another place.

Three motors on the ceiling turn arms of 0.2 m, each of which carries two parallel rods of 0.45 m on universal joints;
the rods end in ball joints on a platform that only they carry: 21 degrees of freedom and six loops of three rows,
which leave three, the platform's translations.  Pairs of rods are 0.1 m apart, motors 0.15 m and the rods' ends on the
platform 0.05 m from the middle; the platform weighs 0.4 kg.  It goes 0.16 m sideways and 0.06 m up; 0.4 s in knots of
10 ms.  The kind of robot is that of Clavel, "Device for the movement and positioning of an element in space", 1990; the
parameters are our own choice.
"""

import numpy as np

import dynamics
import trajopt
from problems.linkages import motors, rest_to_rest, rod

ARM, ROD, BASE, PLATFORM, APART = 0.2, 0.45, 0.15, 0.05, 0.05
"""Lengths, distances from the middle, and half the distance of two rods [m]."""
START, GOAL = np.array([-0.08, 0.04, -0.45]), np.array([0.06, -0.03, -0.39])
SIDES = (0, 1, 2)
RODS = tuple((side, end) for side in SIDES for end in (-1, 1))


def about_z(side: int) -> np.ndarray:
    """Rotation (3, 3) towards a side."""
    c, s = np.cos(2 * np.pi * side / 3), np.sin(2 * np.pi * side / 3)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def model() -> dynamics.RigidBodyModel:
    """Arms along x of their sides, rods down; a massless cross between the two axes of each universal joint."""
    builder = dynamics.ModelBuilder(name="delta")
    for side in SIDES:
        R = about_z(side)
        place = R, R @ (BASE, 0.0, 0.0)
        builder.add_body(f"arm{side}", "world", dynamics.Revolute("y"), f"motor{side}", placement=place, **rod(ARM))
        for end in (-1, 1):
            name, elbow = label(side, end), (np.eye(3), (ARM, end * APART, 0.0))
            builder.add_body(f"cross{name}", f"arm{side}", dynamics.Revolute("y"), f"swing{name}", placement=elbow)
            down = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
            builder.add_body(
                f"rod{name}", f"cross{name}", dynamics.Revolute("z"), f"lean{name}", placement=(down, np.zeros(3)),
                **rod(ROD),
            )  # fmt: skip
            builder.add_frame(f"end{name}", f"rod{name}", (np.eye(3), (ROD, 0.0, 0.0)))
    builder.add_body(
        "platform", "world", dynamics.FreeFlyer(), "floating", mass=0.4, inertia=np.diag([4e-4, 4e-4, 8e-4])
    )
    for side, end in RODS:
        builder.add_frame(
            f"ball{label(side, end)}", "platform", (np.eye(3), about_z(side) @ (PLATFORM, end * APART, 0.0))
        )
    return builder.build()


def label(side: int, end: int) -> str:
    """Name of a rod."""
    return f"{side}{'a' if end < 0 else 'b'}"


def loops(robot: dynamics.RigidBodyModel) -> list[dynamics.LoopConstraint]:
    """The loop constraints at the ball joints of the platform."""
    names = [label(side, end) for side, end in RODS]
    return [dynamics.LoopConstraint(robot, f"end{name}", f"ball{name}") for name in names]


def holding(robot: dynamics.RigidBodyModel, point: np.ndarray) -> np.ndarray:
    """The configuration (22,) with the platform at a point, level."""
    q = dynamics.neutral(robot)
    at = robot.q_index[robot.joint_index("floating")]
    q[at : at + 3] = point
    return dynamics.close_loops(robot, q, loops(robot), fixed=["floating"])


def make(horizon: int = 40, dt: float = 0.01) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds."""
    robot = model()
    B = motors(robot, [f"motor{side}" for side in SIDES])
    system = dynamics.RigidBodySystem(robot, dt, "rk4", actuation=B, contacts=loops(robot))
    goal = trajopt.ResidualCost(dynamics.FrameTranslation(robot, "platform", GOAL), 1e4)
    return rest_to_rest(system, holding(robot, START), horizon, goal, 1e-2, [trajopt.Target(GOAL, 0.05)], "delta")
