"""iLQR and DDP's Hessian modes on the quadruped's own problems, as plain dicts.

Iterations and seconds to tolerance are those of `experiments.ilqr_vs_ddp`: the first iterate from which on cost and
violation stay within tolerance of the end, here `TOLERANCE`.  Seconds are the least of several solves, in turns.
"""

from typing import Any

import numpy as np

import problems
import trajopt
from experiments.ilqr_vs_ddp.study import settled
from problems.walker import FRICTION
from trajopt.solvers.solver import HESSIANS

NAMES = ("quadruped_stand", "quadruped_walk", "quadruped_trot", "quadruped_jump")
TOLERANCE = 1e-9
LATE = 0.1
"""Switch threshold for robots in contact: a share of the cost that exact steps may begin below."""
SOLVERS = {
    "iLQR": trajopt.ILQR(),
    **{f"DDP {mode}": trajopt.DDP(hessian=mode, switch_threshold=LATE) for mode in HESSIANS},
}


def gait_record(name: str, repeats: int, solvers: dict[str, Any] = SOLVERS) -> dict[str, dict[str, Any]]:
    """Every solver on one problem: solver -> figures."""
    problem = problems.make(name)
    samples: dict[str, list[trajopt.Solution]] = {solver: [] for solver in solvers}
    for turn in range(repeats + 1):
        for solver, method in solvers.items():
            solution = method.solve(problem)
            if turn > 0:  # the first turn only warms up
                samples[solver].append(solution)
    return {solver: record(problem, found) for solver, found in samples.items()}


def record(problem: trajopt.Problem, solutions: list[trajopt.Solution]) -> dict[str, Any]:
    """Figures of solves that differ in nothing but time."""
    solution = solutions[0]
    reached = settled(solution, TOLERANCE).iteration
    return {
        "status": str(solution.status),
        "cost": solution.cost,
        "violation": solution.violation,
        "iterations": solution.log[-1].iteration,
        "iterations_to": reached,
        "exact_steps": int((solution.history("step") == "exact").sum()),
        "seconds": min(float(s.log[-1].time) for s in solutions),
        "seconds_to": min(float(s.log[reached].time) for s in solutions),
        "distance": (np.abs(solution.history("cost") / solution.cost - 1.0)).tolist(),
        **feasibility(problem, solution),
    }


def feasibility(problem: trajopt.Problem, solution: trajopt.Solution) -> dict[str, float]:
    """How far torques and friction cones are beyond their limits, over these, and how far feet move on the ground [m].

    A cone is violated by the share of the normal force by which the tangential one is too large.
    """
    system: Any = problem.system
    limits = problem.control_limits
    assert limits is not None
    torque = np.max(np.abs(solution.us) / limits[1]) - 1.0
    return {
        "torque_excess": max(0.0, float(torque)),
        "cone_excess": cone_excess(system, solution),
        "drift": drift(system, solution.xs),
    }


def cone_excess(system: Any, solution: trajopt.Solution) -> float:
    """Largest |f_t| / (mu f_n) - 1 of the forces that bear anything, never below zero."""
    f = system.contact_forces(solution.xs, solution.us)
    normal, tangential = f[..., 2], np.linalg.norm(f[..., :2], axis=-1)
    loaded = np.abs(f).max(axis=-1) > 1e-3 * system.model.total_mass * 9.81
    assert (normal[loaded] > 0.0).all(), "a foot pulls at the ground"
    return max(0.0, float(np.max(tangential[loaded] / (FRICTION * normal[loaded]) - 1.0)))


def drift(system: Any, xs: np.ndarray) -> float:
    """Largest distance [m] of a foot from where its phase began."""
    places, worst = system.contact_points(xs), 0.0
    for start, stop, columns in stances(system, len(xs) - 1):
        moved = places[start : stop + 1, columns] - places[start, columns]
        worst = max(worst, float(np.linalg.norm(moved, axis=-1).max(initial=0.0)))
    return worst


def stances(system: Any, horizon: int) -> list[tuple[int, int, list[int]]]:
    """First and last knot of every phase, and which of the system's feet it holds."""
    return [
        (s.start, s.stop, [system.contact_frames.index(frame) for frame in s.system.contact_frames])
        for s in system.segments_of(horizon)
        if s.system.dt > 0.0
    ]
