"""Hector quadrotor: to a pose one metre ahead and one up, 33 steps of 30 ms.

Figures: Crocoddyl, examples/quadrotor_fwddyn.py; quadrotor_ubound.py limits the thrusts to 0.1 ... 5 N.

Each rotor pushes along the body's z axis, and its drag turns the body about that axis by a fixed ratio, one way or the
other.  So with rotors at p_i the wrench on the body is a constant matrix times the thrusts,

    column i = [z; p_i x z + (+-) ratio z],        force and moment in body axes.
"""

import crocoddyl  # pyright: ignore[reportMissingImports]
import example_robot_data  # pyright: ignore[reportMissingImports]
import numpy as np
import pinocchio  # pyright: ignore[reportMissingImports]

import dynamics
import trajopt
from experiments.peers.pair import Pair, action, bounds, cost

DT, HORIZON = 3e-2, 33
ARM = 0.1525
ROTORS = ARM * np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
COUNTERCLOCKWISE = (True, False, True, False)
DRAG_RATIO = 1e-6 / 6.6e-5
LIMITS = (0.1, 5.0)
BODY, ROTATION, POINT = "base_link", np.eye(3), np.array([1.0, 0.0, 1.0])
STATE = 1e-6 * np.r_[np.full(3, 0.1), np.full(9, 1e3)]
CONTROL, POSE, TERMINAL_POSE = 1e-6, 1e-2, 3.0
PUBLISHED = 5.209e-3


def thrust_matrix() -> np.ndarray:
    """Wrench (6,) on the body per thrust, (6, 4)."""
    up = np.array([0.0, 0.0, 1.0])
    turn = np.where(COUNTERCLOCKWISE, -DRAG_RATIO, DRAG_RATIO)
    return np.vstack([np.tile(up[:, None], 4), (np.cross(ROTORS, up) + np.outer(turn, up)).T])


def problem(limits=None) -> trajopt.Problem:
    """Our statement."""
    model = dynamics.load_urdf(example_robot_data.load("hector").urdf, floating_base=True)
    system = dynamics.RigidBodySystem(model, DT, actuation=thrust_matrix(), joint_friction=False)
    pose = dynamics.FramePlacement(model, BODY, (ROTATION, POINT))
    x0 = system.state(dynamics.neutral(model))
    return trajopt.Problem(
        system,
        x0,
        HORIZON,
        running_costs=[
            trajopt.StateCost(system, x0, STATE),
            trajopt.ControlCost(CONTROL),
            trajopt.ResidualCost(pose, POSE),
        ],
        terminal_costs=[trajopt.ResidualCost(pose, TERMINAL_POSE)],
        name="Hector",
        **bounds(limits),
    )


def peer(limits=None):
    """Crocoddyl's statement."""
    robot = example_robot_data.load("hector")
    state = crocoddyl.StateMultibody(robot.model)
    kinds = crocoddyl.ThrusterType
    rotors = [
        crocoddyl.Thruster(pinocchio.SE3(np.eye(3), p), DRAG_RATIO, kinds.CCW if counter else kinds.CW)
        for p, counter in zip(ROTORS, COUNTERCLOCKWISE, strict=True)
    ]
    actuation = crocoddyl.ActuationModelFloatingBaseThrusters(state, rotors)
    target, body = pinocchio.SE3(ROTATION, POINT), robot.model.getFrameId(BODY)
    pose = cost(state, crocoddyl.ResidualModelFramePlacement(state, body, target, actuation.nu))
    rest = cost(state, crocoddyl.ResidualModelState(state, state.zero(), actuation.nu), STATE)
    control = cost(state, crocoddyl.ResidualModelControl(state, actuation.nu))
    running = {"x": (rest, 1.0), "u": (control, CONTROL), "pose": (pose, POSE)}
    first = action(state, actuation, running, DT, limits)
    last = action(state, actuation, {"pose": (pose, TERMINAL_POSE)}, DT)
    return crocoddyl.ShootingProblem(state.zero(), [first] * HORIZON, last)


def pair(limits=None) -> Pair:
    """Both."""
    published, name = (PUBLISHED, "Hector") if limits is None else (None, "Hector, limited")
    return Pair(name, problem(limits), peer(limits), published, limits)
