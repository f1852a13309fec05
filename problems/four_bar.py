"""A crank turns by half a turn and drives a rocker, through a rod that closes the chain.

Slender rods: crank 0.15 m, connecting rod 0.45 m, rocker 0.35 m, on bearings 0.5 m apart, lengths with which the crank
can turn all the way (Grashof: 0.15 + 0.5 < 0.45 + 0.35).  One motor, on the crank; 0.6 s in knots of 10 ms by RK4,
which keeps the loop closed to 1e-6 m, under gravity.
The rod's end is held on the rocker's by a `LoopConstraint`, whose row across the plane constrains nothing.
"""

import numpy as np

import dynamics
import trajopt
from problems.linkages import motors, rest_to_rest, rod

CRANK, ROD, ROCKER, GROUND = 0.15, 0.45, 0.35, 0.5
START, TURN = -0.4, np.pi
"""Initial angle of the crank, and the angle by which it rotates [rad]."""


def model() -> dynamics.RigidBodyModel:
    """Crank and rod from one bearing, rocker from the other, in the plane of x and z."""
    builder = dynamics.ModelBuilder(name="four_bar")
    along = dynamics.Revolute([0.0, -1.0, 0.0])  # from x towards z
    builder.add_body("crank", "world", along, joint_name="motor", **rod(CRANK))
    builder.add_body("rod", "crank", along, "pin", placement=(np.eye(3), (CRANK, 0.0, 0.0)), **rod(ROD))
    builder.add_body("rocker", "world", along, "bearing", placement=(np.eye(3), (GROUND, 0.0, 0.0)), **rod(ROCKER))
    builder.add_frame("rod_end", "rod", (np.eye(3), (ROD, 0.0, 0.0)))
    builder.add_frame("rocker_end", "rocker", (np.eye(3), (ROCKER, 0.0, 0.0)))
    return builder.build()


def closed(robot: dynamics.RigidBodyModel, crank: float) -> np.ndarray:
    """The configuration (3,) for an angle of the crank, the rocker's end above the line of the bearings."""
    pin, far = CRANK * np.array([np.cos(crank), np.sin(crank)]), np.array([GROUND, 0.0])
    away = far - pin
    distance = np.linalg.norm(away)
    lean = np.arccos((ROD**2 + distance**2 - ROCKER**2) / (2 * ROD * distance))
    angle = np.arctan2(away[1], away[0]) + lean
    end = pin + ROD * np.array([np.cos(angle), np.sin(angle)]) - far
    guess = np.array([crank, angle - crank, np.arctan2(end[1], end[0])])
    return dynamics.close_loops(robot, guess, [loop(robot)], fixed=["motor"])


def loop(robot: dynamics.RigidBodyModel) -> dynamics.LoopConstraint:
    """The loop constraint at the pin of rod and rocker."""
    return dynamics.LoopConstraint(robot, "rod_end", "rocker_end")


def make(horizon: int = 60, dt: float = 0.01) -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds."""
    robot = model()
    system = dynamics.RigidBodySystem(robot, dt, "rk4", actuation=motors(robot, ["motor"]), contacts=[loop(robot)])
    end = dynamics.frame_placement(robot, closed(robot, START + TURN), "rod").p
    goal = trajopt.ResidualCost(dynamics.FrameTranslation(robot, "rod", end), 1e4)
    return rest_to_rest(system, closed(robot, START), horizon, goal, 1e-2, [trajopt.Target(end, 0.05)], "four_bar")
