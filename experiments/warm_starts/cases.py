"""Constrained problems: those that are shipped, and free ones with a hard goal, limits of speeds, or of efforts.

Limits are a part of what the free optimum uses, so that they are active.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

import dynamics
import problems
import trajopt

SHARE = 0.8
"""Limits are this part of the largest speed, and of the largest effort, of the free optimum."""
GOALS = {
    "pendulum": [np.pi, 0.0],
    "cartpole": [0.0, np.pi, 0.0, 0.0],
    "double_pendulum": [np.pi, 0.0, 0.0, 0.0],
    "arm": None,  # of the tool
    "serial_chain": None,
    "quadrotor": None,
}
"""Where the free problems go; None: where the free optimum ends."""
SHIPPED = (
    "arm_minimum_time", "arm_obstacle", "car_minimum_time", "car_parking", "leg_jump", "pendulum_limits", "quadrotor",
    "quadrotor_minimum_time", "quadruped_stand", "quadruped_trot", "unicycle_obstacles", "soft_manipulator_obstacle",
    "rod_gripper",
)  # fmt: skip


@cache
def free_optimum(name: str) -> trajopt.Solution:
    """Of a problem without other constraints than limits of controls."""
    return trajopt.DDP().solve(problems.make(name))


def hard_goal(name: str) -> list[trajopt.ResidualConstraint]:
    """The goal as an equality at the last knot."""
    system, end = problems.make(name).system, GOALS[name]
    if end is None:
        end = free_optimum(name).xs[-1]
    return [trajopt.ResidualConstraint(trajopt.StateResidual(system, end), at="terminal", name="goal")]


def speed_limits(name: str) -> list[trajopt.ResidualConstraint]:
    """Limits of the last half of the tangent."""
    solution = free_optimum(name)
    system, xs = solution.problem.system, solution.xs
    v = np.abs(xs[:, system.nx - system.ndx // 2 :]).max(axis=0)
    limit = np.concatenate([np.full(system.ndx - len(v), np.inf), SHARE * np.maximum(v, 0.1 * v.max())])
    return [trajopt.StateBounds(system, -limit, limit, name="speeds")]


def effort_limits(name: str) -> list[trajopt.ControlBounds]:
    """Limits of controls, about the middle of what the free optimum does."""
    us = free_optimum(name).us
    middle, half = 0.5 * (us.max(axis=0) + us.min(axis=0)), 0.5 * np.ptp(us, axis=0)
    return [trajopt.ControlBounds(middle - SHARE * half, middle + SHARE * half)]


def constrained(name: str, *kinds: Callable) -> trajopt.Problem:
    """A free problem with constraints of these kinds; a hard goal takes the place of the terminal costs."""
    problem = problems.make(name)
    constraints = [constraint for kind in kinds for constraint in kind(name)]
    terminal = () if hard_goal in kinds else problem.terminal_costs
    return replace(problem, terminal_costs=terminal, constraints=[*problem.constraints, *constraints])


def reach(turn: float) -> trajopt.Problem:
    """A six-axis arm whose tool is to be in a pose, as a hard constraint, within the limits of its motors."""
    robot = dynamics.load_urdf(problems.model_path("arm6"))
    system = dynamics.RigidBodySystem(robot, dt=0.02)
    q0 = np.array([0.0, -1.2, 1.6, -1.9, -1.6, 0.0])
    x0 = system.state(q0)
    goal = dynamics.frame_placement(robot, q0 + [turn, 0.5, -0.5, 0.5, 0.5, 0.5], "tool")
    weight = dynamics.gravity_forces(robot, q0)
    return trajopt.Problem(
        system, x0, 50, [trajopt.StateCost(system, x0, np.repeat([0.0, 0.2], 6)), trajopt.ControlCost(2e-4, weight)],
        [],
        [
            trajopt.ControlBounds.from_model(system),
            trajopt.ResidualConstraint(dynamics.FramePlacement(robot, "tool", goal), at="terminal", name="pose"),
        ],
        us_init="quasi_static",
    )  # fmt: skip


KINDS = {
    "goal": (hard_goal,), "speeds": (speed_limits,), "goal, efforts": (hard_goal, effort_limits),
    "goal, speeds": (hard_goal, speed_limits),
}  # fmt: skip


def cases() -> dict[str, Callable[[], trajopt.Problem]]:
    """All constrained problems, by name."""
    found = {name: lambda name=name: problems.make(name) for name in SHIPPED}
    for name in GOALS:
        for what, kinds in KINDS.items():
            if not (name == "quadrotor" and effort_limits in kinds):
                found[f"{name}: {what}"] = lambda name=name, kinds=kinds: constrained(name, *kinds)
    for turn in (0.8, 1.2, 1.6):
        found[f"reach, {turn} rad"] = lambda turn=turn: reach(turn)
    return found
