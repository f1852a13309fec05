"""Standing on four feet, the centre of mass moved sideways: Solo12 and HyQ, 50 steps of 10 ms.

The feet are held by Crocoddyl's `ContactModel3D` with gains (0, 50) and by ours with the same, semi-implicit Euler in
both.  The robots' models come from example-robot-data.
"""

import crocoddyl  # pyright: ignore[reportMissingImports]
import example_robot_data  # pyright: ignore[reportMissingImports]
import numpy as np
import pinocchio  # pyright: ignore[reportMissingImports]

import dynamics
import trajopt
from experiments.peers.pair import Pair, cost, cost_sum
from experiments.quadruped.robots import floating

DT, HORIZON, GAINS = 1e-2, 50, (0.0, 50.0)
SHIFT = np.array([0.03, 0.02, 0.01])
FEET = {
    "solo12": ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT"),
    "hyq": ("lf_foot", "rf_foot", "lh_foot", "rh_foot"),
}
STATE_POSITION, STATE_VELOCITY, CONTROL, CENTER, TERMINAL_CENTER = 1.0, 1e-1, 1e-3, 1e3, 1e4


def _weights(nv: int) -> np.ndarray:
    return np.r_[np.full(nv, STATE_POSITION), np.full(nv, STATE_VELOCITY)]


def problem(name: str) -> trajopt.Problem:
    """Our statement."""
    robot = example_robot_data.load(name)
    model = floating(robot)
    contacts = [dynamics.PointContact(model, foot, GAINS) for foot in FEET[name]]
    system = dynamics.RigidBodySystem(model, DT, actuation="floating_base", contacts=contacts, joint_friction=False)
    q0 = np.array(robot.q0)
    x0 = system.state(q0)
    center = dynamics.CenterOfMass(model, dynamics.center_of_mass(model, q0) + SHIFT)
    posture = trajopt.StateCost(system, x0, _weights(model.nv))
    return trajopt.Problem(
        system,
        x0,
        HORIZON,
        running_costs=[posture, trajopt.ControlCost(CONTROL), trajopt.ResidualCost(center, CENTER)],
        terminal_costs=[posture, trajopt.ResidualCost(center, TERMINAL_CENTER)],
        us_init="quasi_static",
        name=f"standing {name}",
    )


def peer(name: str):
    """Crocoddyl's statement."""
    robot = example_robot_data.load(name)
    model, q0 = robot.model, np.array(robot.q0)
    state = crocoddyl.StateMultibody(model)
    actuation = crocoddyl.ActuationModelFloatingBase(state)
    nu, x0 = actuation.nu, np.r_[q0, np.zeros(model.nv)]
    contacts = crocoddyl.ContactModelMultiple(state, nu)
    for foot in FEET[name]:
        held = crocoddyl.ContactModel3D(
            state, model.getFrameId(foot), np.zeros(3), pinocchio.LOCAL_WORLD_ALIGNED, nu, np.array(GAINS)
        )
        contacts.addContact(foot, held)
    center = pinocchio.centerOfMass(model, model.createData(), q0) + SHIFT
    costs = {
        "state": cost(state, crocoddyl.ResidualModelState(state, x0, nu), _weights(model.nv)),
        "control": cost(state, crocoddyl.ResidualModelControl(state, nu)),
        "center": cost(state, crocoddyl.ResidualModelCoMPosition(state, center, nu)),
    }

    def action(weights):
        total = cost_sum(state, nu, {key: (costs[key], weight) for key, weight in weights.items()})
        held = crocoddyl.DifferentialActionModelContactFwdDynamics(state, actuation, contacts, total, 0.0, True)
        return crocoddyl.IntegratedActionModelEuler(held, DT)

    running = action({"state": 1.0, "control": CONTROL, "center": CENTER})
    terminal = action({"state": 1.0, "center": TERMINAL_CENTER})
    return crocoddyl.ShootingProblem(x0, [running] * HORIZON, terminal)


def pairs() -> list[Pair]:
    """Both robots."""
    return [Pair(f"standing {name}", problem(name), peer(name), None) for name in FEET]
