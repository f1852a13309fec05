"""A six-axis arm whose tool follows a target that nobody knows before it is sampled.

The arm of `problems.arm`, 40 knots of 20 ms, for 60 samples.  Costs: 1e3 (N/m)/s times the tool's distance squared, the
joints' speeds, torques beside those that hold the posture of the start.  The target jumps from sample to sample, on a
circle of 0.3 m in the vertical plane, once around in the 1.2 s of the run (31 mm a sample), or by a random walk, 15 mm
along every axis a sample.  The plant is the model, and adds noise of 0.02 rad/s to the speeds in every step.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

import dynamics
import trajopt
from problems.arm import MODEL, START

KNOTS, DT, SAMPLES = 40, 0.02, 60
NOISE = 0.02
RADIUS, WALK = 0.3, 0.015
TOOL, SPEED, TORQUE, POSTURE, AT_END = 1e3, 1.0, 1e-3, 0.1, 1e2
TARGET = "translation of tool"


@cache
def robot() -> tuple[dynamics.RigidBodySystem, np.ndarray]:
    """The system, and the place of its tool at the start."""
    model = dynamics.load_urdf(MODEL)
    return dynamics.RigidBodySystem(model, DT), dynamics.frame_placement(model, START, "tool").p


def follow() -> trajopt.Problem:
    """The problem of a sample."""
    system, place = robot()
    x0, holding = system.state(START), dynamics.gravity_forces(system.model, START)
    tool = dynamics.FrameTranslation(system.model, "tool", place)
    return trajopt.Problem(
        system, x0, KNOTS,
        running_costs=[
            trajopt.ResidualCost(tool, TOOL), trajopt.StateCost(system, x0, np.repeat([POSTURE, SPEED], 6)),
            trajopt.ControlCost(TORQUE, holding),
        ],
        terminal_costs=[
            trajopt.ResidualCost(tool, AT_END), trajopt.StateCost(system, x0, np.repeat([0.0, SPEED], 6)),
        ],
        us_init=np.tile(holding, (KNOTS, 1)), name="six-axis arm",
    )  # fmt: skip


def aimed_at(target: np.ndarray) -> dict[str, np.ndarray]:
    """What `PreparedSolver.update` takes for a target (3,)."""
    return {TARGET: target, f"terminal {TARGET}": target}


def circle(seed: int) -> np.ndarray:
    """Targets (SAMPLES + 1, 3), the first of which is known."""
    angle = 2.0 * np.pi * np.arange(SAMPLES + 1) / SAMPLES
    return robot()[1] + RADIUS * np.column_stack([0.0 * angle, np.sin(angle), 1.0 - np.cos(angle)])


def random_walk(seed: int) -> np.ndarray:
    """Targets (SAMPLES + 1, 3), the first of which is known."""
    moves = WALK * np.random.default_rng([seed, 1]).standard_normal((SAMPLES, 3))
    return robot()[1] + np.concatenate([np.zeros((1, 3)), np.cumsum(moves, axis=0)])


PATHS: dict[str, Callable[[int], np.ndarray]] = {"circle": circle, "random walk": random_walk}


def cost_of(x: np.ndarray, u: np.ndarray, target: np.ndarray) -> float:
    """Of one step in closed loop."""
    system, _ = robot()
    missed = dynamics.frame_placement(system.model, x[:6], "tool").p - target
    off, turned = x - system.state(START), u - dynamics.gravity_forces(system.model, START)
    return 0.5 * DT * float(TOOL * missed @ missed + np.repeat([POSTURE, SPEED], 6) @ off**2 + TORQUE * turned @ turned)
