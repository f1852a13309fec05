"""A six-axis arm to a tool pose and to rest there, both as equalities, with four weights of the torques.

The rest is nearly met at the start, the pose is not: a penalty for each, from its violation alone, would hold the arm
where it is.  50 knots of 0.02 s, default options.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

import dynamics
import trajopt
from problems import arm

KNOTS, DT = 50, 0.02
WEIGHTS = (4e-4, 4e-3, 4e-2, 4e-1)


def problem(weight: float) -> trajopt.Problem:
    """With this weight of the torques."""
    model = dynamics.load_urdf(arm.MODEL)
    system = dynamics.RigidBodySystem(model, DT)
    x0, pose = system.state(arm.START), dynamics.frame_placement(model, arm.GOAL, "tool")
    rest = trajopt.StateResidual(system, x0, components=range(6, 12))
    return trajopt.Problem(
        system,
        x0,
        KNOTS,
        [trajopt.StateCost(system, x0, 1e-1), trajopt.ControlCost(weight)],
        [],
        [
            trajopt.ResidualConstraint(dynamics.FramePlacement(model, "tool", pose), at="terminal", name="pose"),
            trajopt.ResidualConstraint(rest, at="terminal", name="rest"),
        ],
        np.tile(dynamics.gravity_forces(model, arm.START), (KNOTS, 1)),
        name="arm to a pose",
    )


def pose_record(solver: trajopt.DDP | trajopt.ILQR, advance: Callable[[], None]) -> dict[str, Any]:
    """How this solver ends with each of the weights."""
    record = {}
    for weight in WEIGHTS:
        solution = solver.solve(problem(weight))
        record[f"{weight:g}"] = {
            "status": str(solution.status),
            "iterations": solution.iterations,
            "cost": solution.cost,
            "violation": solution.violation,
        }
        advance()
    return record
