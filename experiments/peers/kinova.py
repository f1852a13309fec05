"""Kinova arm: the hand to a pose, 100 steps of 10 ms.

Figures: Crocoddyl, examples/arm_manipulation_fwddyn.py.
"""

import crocoddyl  # pyright: ignore[reportMissingImports]
import example_robot_data  # pyright: ignore[reportMissingImports]
import numpy as np
import pinocchio  # pyright: ignore[reportMissingImports]

import dynamics
import trajopt
from experiments.peers.pair import Pair, action, bounds, cost, from_pinocchio

DT, HORIZON = 1e-2, 100
HAND, ROTATION, POINT = "j2s6s200_end_effector", np.eye(3), np.array([0.6, 0.2, 0.5])
POSE, STATE, CONTROL, TERMINAL_POSE = 1.0, 1e-1, 1e-1, 1e3
PUBLISHED = 8.125


def _start(robot) -> np.ndarray:
    """The state "arm_up" at rest, as Pinocchio has it."""
    return np.r_[robot.model.referenceConfigurations["arm_up"], np.zeros(robot.model.nv)]


def problem(limits=None, **formulation) -> trajopt.Problem:
    """Our statement; `formulation` goes to the system."""
    robot = example_robot_data.load("kinova")
    model = dynamics.load_urdf(robot.urdf)
    system = dynamics.RigidBodySystem(model, DT, joint_friction=False, **formulation)
    pose = dynamics.FramePlacement(model, HAND, (ROTATION, POINT))
    x0 = from_pinocchio(robot.model, _start(robot))
    return trajopt.Problem(
        system,
        x0,
        HORIZON,
        running_costs=[
            trajopt.ResidualCost(pose, POSE),
            trajopt.StateCost(system, x0, STATE),
            trajopt.ControlCost(CONTROL),
        ],
        terminal_costs=[trajopt.ResidualCost(pose, TERMINAL_POSE)],
        name="Kinova",
        **bounds(limits),
    )


def peer(limits=None):
    """Crocoddyl's statement."""
    robot = example_robot_data.load("kinova")
    state, x0 = crocoddyl.StateMultibody(robot.model), _start(robot)
    actuation = crocoddyl.ActuationModelFull(state)
    target = pinocchio.SE3(ROTATION, POINT)
    hand = robot.model.getFrameId(HAND)
    pose = cost(state, crocoddyl.ResidualModelFramePlacement(state, hand, target, actuation.nu))
    rest = cost(state, crocoddyl.ResidualModelState(state, x0, actuation.nu))
    control = cost(state, crocoddyl.ResidualModelControl(state, actuation.nu))
    running = {"pose": (pose, POSE), "x": (rest, STATE), "u": (control, CONTROL)}
    first = action(state, actuation, running, DT, limits)
    last = action(state, actuation, {"pose": (pose, TERMINAL_POSE)}, 0.0)
    return crocoddyl.ShootingProblem(x0, [first] * HORIZON, last)


def pair(limits=None, inverse: bool = False) -> Pair:
    """Both."""
    published, name = (PUBLISHED, "Kinova") if limits is None else (None, "Kinova, limited")
    other = problem(limits, formulation="inverse") if inverse else None
    return Pair(name, problem(limits), peer(limits), published, limits, inverse=other)
