"""A six-axis arm to a tool pose and to rest there, both as equalities, with four weights of the torques.

The rest is nearly met at the start, the pose is not: a penalty for each, from its violation alone, would hold the arm
where it is.  50 knots of 0.02 s, default options.

And to poses of random postures, its joints within half a turn, in 50 knots of 0.03 s: all can be reached, and many are
out of reach of small changes of the controls.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import dynamics
import trajopt
from problems import arm

KNOTS, DT = 50, 0.02
WEIGHTS = (4e-4, 4e-3, 4e-2, 4e-1)
SLOWER, POSTURE = 0.03, 3.0
"""Step of the motions to random poses, s, and the largest angle of their postures, rad."""


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


def reach(pose: ArrayLike | dynamics.Placement) -> trajopt.Problem:
    """To a pose of the tool, or to that of a posture (6,), and to rest there, joints within half a turn."""
    model = dynamics.load_urdf(arm.MODEL)
    system = dynamics.RigidBodySystem(model, SLOWER)
    x0, turn = system.state(arm.START), np.r_[np.full(6, np.pi), np.full(6, np.inf)]
    target = pose if isinstance(pose, dynamics.Placement) else dynamics.frame_placement(model, pose, "tool")
    return trajopt.Problem(
        system,
        x0,
        KNOTS,
        [trajopt.StateCost(system, x0, 1e-2), trajopt.ControlCost(4e-3)],
        [],
        [
            trajopt.ResidualConstraint(dynamics.FramePlacement(model, "tool", target), at="terminal", name="pose"),
            trajopt.ResidualConstraint(
                trajopt.StateResidual(system, x0, components=range(6, 12)), at="terminal", name="rest"
            ),
            trajopt.StateBounds(system, -turn, turn, name="joints"),
        ],
        np.tile(dynamics.gravity_forces(model, arm.START), (KNOTS, 1)),
        name="arm to a random pose",
    )


def poses_record(starts: int, seed: int, advance: Callable[[], None]) -> dict[str, Any]:
    """How DDP ends at the poses of so many random postures: statuses, and the steps of those that converge."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(starts):
        found.append(trajopt.DDP().solve(reach(rng.uniform(-POSTURE, POSTURE, 6))))
        advance()
    steps = [solution.iterations for solution in found if solution.converged]
    return {
        "poses": starts,
        "statuses": dict(Counter(str(solution.status) for solution in found)),
        "iterations": float(np.median(steps)) if steps else None,
    }
