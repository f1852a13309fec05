"""What is solved, and what is kept of each solution."""

from collections.abc import Iterable
from typing import Any

import numpy as np

import problems
import trajopt
from experiments.convergence.study import ending
from problems.rods.cable_manipulator import cable_manipulator
from problems.soft_manipulator_reach import LARGEST_TENSION, resting_tip

PROBLEMS = (
    "soft_manipulator_reach", "soft_manipulator_track", "hybrid_arm_reach", "soft_manipulator_throw", "soft_swimmer",
    "soft_manipulator_obstacle", "rod_gripper", "parallel_rods",
)  # fmt: skip
CLOSED = PROBLEMS[-2:]
"""With closed chains, which one integrator knows."""
SOLVERS = {"iLQR": trajopt.ILQR(), "DDP": trajopt.DDP()}
NEAR = 1e-3
"""Distance of the tip from its target, m, at the end of a success."""
SLOW = 0.01
"""Speed of the tip, m/s, there."""
SAME = 1e-8
"""Relative difference of costs of one optimum."""
TAIL = 6


def random_targets(count: int, seed: int) -> np.ndarray:
    """Positions (count, 3) of the manipulator's tip at rest under uniformly random tensions, m."""
    robot, rng = cable_manipulator(), np.random.default_rng(seed)
    tensions = rng.uniform(0.0, LARGEST_TENSION, (count, robot.nu))
    return np.array([resting_tip(robot, row) for row in tensions]).reshape(count, 3)


def solution_record(solution: trajopt.Solution) -> dict[str, Any]:
    """Status, counts and the last iterations: how far the cost is from the last, and the gradient's size."""
    costs, tail = solution.history("cost"), slice(-TAIL, None)
    return {
        **ending(solution),
        "seconds": float(solution.history("time")[-1]),
        "cost_gaps": (costs - solution.cost)[tail].tolist(),
        "gradients": solution.history("gradient_norm")[tail].tolist(),
        "steps": [str(step) for step in solution.history("step")[tail]],
    }


def arrival(solution: trajopt.Solution) -> tuple[float, float]:
    """Distance of the tip from its target, m, and its speed, m/s, at the end."""
    tip, n = solution.problem.terminal_costs[0].residual, solution.problem.system.nv  # type: ignore[attr-defined]
    r, rx, _ = tip.evaluate_with_jacobians(solution.xs[-1:])
    return float(np.linalg.norm(r)), float(np.linalg.norm(rx[0, :, :n] @ solution.xs[-1, n:]))


def target_record(target: np.ndarray) -> dict[str, Any]:
    """Both solvers on one target."""
    record: dict[str, Any] = {"target": target.tolist()}
    problem = problems.make("soft_manipulator_reach", target=target)
    for name, solver in SOLVERS.items():
        solution = solver.solve(problem)
        distance, speed = arrival(solution)
        success = bool(solution.converged and distance < NEAR and speed < SLOW)
        record[name] = {**solution_record(solution), "distance": distance, "speed": speed, "success": success}
    return record


def targets_record(targets: Iterable[np.ndarray]) -> dict[str, Any]:
    """All targets, and for each solver the share of successes and medians; how many end in the same optimum."""
    runs = [target_record(target) for target in targets]
    summary = {}
    for name in SOLVERS:
        of_solver = [run[name] for run in runs]
        keys = ("iterations", "seconds", "distance", "speed")
        medians = {key: float(np.median([entry[key] for entry in of_solver])) for key in keys}
        summary[name] = {"success": float(np.mean([entry["success"] for entry in of_solver])), **medians}
    first, *others = SOLVERS
    same = [all(abs(run[o]["cost"] / run[first]["cost"] - 1.0) < SAME for o in others) for run in runs]
    return {"runs": runs, "summary": summary, "same_optimum": float(np.mean(same))}
