"""Crocoddyl's own gaits with ANYmal, as its example runs them: walking, trotting and jumping.

Figures: crocoddyl.utils.quadruped.SimpleQuadrupedalGaitProblem and Crocoddyl's example quadrupedal_gaits.py.  The
example's gaits follow each other, each from where the last one's optimum ends; published costs are those it prints.
"""

from typing import Any

import crocoddyl  # pyright: ignore[reportMissingImports]
import example_robot_data  # pyright: ignore[reportMissingImports]
import numpy as np
from crocoddyl.utils.quadruped import SimpleQuadrupedalGaitProblem  # pyright: ignore[reportMissingImports]

from experiments.peers.pair import Pair
from experiments.quadruped.robots import floating
from experiments.quadruped.translation import translated

FEET = ("LF_FOOT", "RF_FOOT", "LH_FOOT", "RH_FOOT")
DT, STEP_KNOTS, GROUND_KNOTS, FLYING_KNOTS = 1e-2, 25, 10, 20
STEPS = {"walk": (0.25, 0.15, 2), "trot": (0.15, 0.1, 2), "pace": (0.15, 0.1, 5), "bound": (0.15, 0.1, 5)}
"""Length and height of a step, m, and knots on four feet."""
JUMP_HEIGHT, JUMP = 0.15, (0.0, 0.3, 0.0)
PUBLISHED = {"walk": 588.6, "trot": 427.3, "jump": 3059.0}
ITERATIONS, FIRST_REGULARIZATION = 100, 0.1


def gait(name: str, makers: Any, x0: np.ndarray) -> Any:
    """Crocoddyl's statement of a gait from x0."""
    if name == "jump":
        return makers.createJumpingProblem(x0, JUMP_HEIGHT, np.array(JUMP), DT, GROUND_KNOTS, FLYING_KNOTS)
    create = {
        "walk": makers.createWalkingProblem,
        "trot": makers.createTrottingProblem,
        "pace": makers.createPacingProblem,
        "bound": makers.createBoundingProblem,
    }[name]
    length, height, support = STEPS[name]
    return create(x0, length, height, DT, STEP_KNOTS, support)


def pairs() -> list[Pair]:
    """The three gaits of `PUBLISHED` in both libraries."""
    robot = example_robot_data.load("anymal")
    model = floating(robot)
    makers = SimpleQuadrupedalGaitProblem(robot.model, *FEET)
    x0, result = np.r_[robot.model.referenceConfigurations["standing"], np.zeros(robot.model.nv)], []
    for name in (*STEPS, "jump"):
        theirs = gait(name, makers, x0)
        if name in PUBLISHED:
            result.append(Pair(f"ANYmal {name}", translated(theirs, model, f"ANYmal {name}"), theirs, PUBLISHED[name]))
        solver = crocoddyl.SolverFDDP(theirs)
        guess = theirs.quasiStatic([x0] * theirs.T)
        solver.solve([x0] * (theirs.T + 1), guess, ITERATIONS, False, FIRST_REGULARIZATION)
        x0 = np.array(solver.xs[-1])
    return result
