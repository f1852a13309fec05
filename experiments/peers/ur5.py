"""UR5 arm: the tool to a point, 40 steps of 50 ms.

Figures: mim_solvers, examples/ur5.py, without the box that it keeps the tool in.  Controls are weighed by what they
exceed gravity; at the last knot, where there is none, the gravity torques themselves remain of that residual.
"""

import crocoddyl  # pyright: ignore[reportMissingImports]
import example_robot_data  # pyright: ignore[reportMissingImports]
import numpy as np

import dynamics
import trajopt
from experiments.peers.pair import Pair, action, cost

DT, HORIZON = 5e-2, 40
TOOL, POINT = "tool0", np.full(3, 0.4)
STATE, CONTROL, TRANSLATION, TERMINAL_TRANSLATION = 1e-1, 1e-4, 4.0, 40.0
PUBLISHED = 0.66532


def problem(horizon: int = HORIZON, **formulation) -> trajopt.Problem:
    """Our statement; `formulation` goes to the system."""
    model = dynamics.load_urdf(example_robot_data.load("ur5").urdf)
    system = dynamics.RigidBodySystem(model, DT, joint_friction=False, **formulation)
    x0 = np.zeros(system.nx)
    tool, held = dynamics.FrameTranslation(model, TOOL, POINT), dynamics.ControlGravity(model)
    shared = [trajopt.StateCost(system, x0, STATE), trajopt.ResidualCost(held, CONTROL)]
    return trajopt.Problem(
        system,
        x0,
        horizon,
        running_costs=[*shared, trajopt.ResidualCost(tool, TRANSLATION)],
        terminal_costs=[*shared, trajopt.ResidualCost(tool, TERMINAL_TRANSLATION)],
        name="UR5",
    )


def peer(horizon: int = HORIZON):
    """Crocoddyl's statement."""
    model = example_robot_data.load("ur5").model
    state = crocoddyl.StateMultibody(model)
    actuation = crocoddyl.ActuationModelFull(state)
    rest = cost(state, crocoddyl.ResidualModelState(state, state.zero(), actuation.nu))
    control = cost(state, crocoddyl.ResidualModelControlGrav(state, actuation.nu))
    frame = model.getFrameId(TOOL)
    tool = cost(state, crocoddyl.ResidualModelFrameTranslation(state, frame, POINT, actuation.nu))
    first, last = (
        action(state, actuation, {"x": (rest, STATE), "u": (control, CONTROL), "tool": (tool, weight)}, DT)
        for weight in (TRANSLATION, TERMINAL_TRANSLATION)
    )
    return crocoddyl.ShootingProblem(state.zero(), [first] * horizon, last)


def pair(inverse: bool = False, horizon: int = HORIZON) -> Pair:
    """Both; the published optimum is that of the published horizon."""
    other = problem(horizon, formulation="inverse") if inverse else None
    published = PUBLISHED if horizon == HORIZON else None
    return Pair("UR5", problem(horizon), peer(horizon), published, inverse=other)
