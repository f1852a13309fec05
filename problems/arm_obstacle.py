"""The arm of `arm` moves its tool around a ball, within its motors' torques and its joints' ranges and speeds.

The robot, the posture at the start and the pose of the tool at the end are those of `arm`, with its parameters;
40 knots of 20 ms by RK4, a fifth less time, so that the first joint runs at its largest speed for a while.  A ball of
0.1 m radius lies on the way that the arm would take without it; tool, wrist and elbow keep another 0.1 m from it,
without which the tool would go through.  Starts from the torques that hold the first posture.
"""

import numpy as np

import dynamics
import trajopt
from problems.arm import GOAL, MODEL, START
from trajopt import SquaredNorm

CENTRE = (-0.38, -0.27, 0.22)
RADIUS, DISTANCE = 0.1, 0.2
"""Radius of the ball, and least distance of the frames from its middle [m]."""
FRAMES = ("tool", "wrist_2", "elbow")


def make(horizon: int = 40, dt: float = 0.02, integrator: str = "rk4") -> trajopt.Problem:
    """The problem with `horizon` knots of dt seconds, by an integrator of `dynamics.RigidBodySystem`."""
    model = dynamics.load_urdf(MODEL)
    system = dynamics.RigidBodySystem(model, dt, integrator)
    x0 = system.state(START)
    pose = dynamics.frame_placement(model, GOAL, "tool")
    apart = [
        trajopt.ResidualConstraint(
            SquaredNorm(dynamics.FrameTranslation(model, frame, CENTRE)),
            DISTANCE**2,
            np.inf,
            at="all",
            name=f"{frame} and ball",
        )
        for frame in FRAMES
    ]
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[
            trajopt.StateCost(system, x0, np.full(12, 1e-1)),
            trajopt.ControlCost(np.full(6, 4e-4)),
        ],
        terminal_costs=[
            trajopt.ResidualCost(dynamics.FramePlacement(model, "tool", pose), np.repeat([1e3, 1e2], 3)),
            trajopt.StateCost(system, x0, np.repeat([0.0, 1e1], 6)),
        ],
        constraints=[
            trajopt.ControlBounds.from_model(system),
            trajopt.StateBounds.from_model(system, name="ranges and speeds"),
            *apart,
        ],
        scenery=[trajopt.Sphere(CENTRE, RADIUS), trajopt.Target(pose.p, 0.05, pose.R)],
        us_init=np.tile(dynamics.gravity_forces(model, START), (horizon, 1)),
        name="arm_obstacle",
    )
