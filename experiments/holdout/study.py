"""Every problem from every start, and what is counted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import trajopt
from experiments.holdout import robots, vehicles

FACTORIES = (
    robots.loaded_trot, robots.seven_axis_pose, robots.tumbling_space_arm, robots.quadrotor_window,
    robots.cart_double_pendulum, robots.one_leg_hop, robots.keep_out_slew, vehicles.orbit_transfer,
    vehicles.trailer_parking, vehicles.hoisting_crane,
)  # fmt: skip
PROBLEMS: dict[str, Callable[[np.random.Generator], trajopt.Problem]] = {make.__name__: make for make in FACTORIES}
SOLVERS = {"ddp": trajopt.DDP(), "ilqr": trajopt.ILQR()}


def problem_of(name: str, number: int, seed: int) -> trajopt.Problem:
    """The problem of that name from the start of that number, a function of the seed and the number alone."""
    return PROBLEMS[name](np.random.default_rng([seed, number]))


def runs_of(
    name: str, solver: str, starts: int, seed: int, limit: float, advance: Callable[[], None]
) -> list[dict[str, Any]]:
    """How the solver ends from every start, with its default options and at most `limit` seconds."""
    first, records = problem_of(name, 0, seed), []
    replace(SOLVERS[solver], max_iterations=2).solve(first)  # compiles, which no time is to contain
    for number in range(starts):
        problem, begin = problem_of(name, number, seed), time.perf_counter()
        solution = SOLVERS[solver].solve(problem, time_limit=limit)
        records.append({
            "number": number, "status": str(solution.status), "iterations": solution.iterations,
            "seconds": time.perf_counter() - begin, "cost": solution.cost, "violation": solution.violation,
        })  # fmt: skip
        advance()
    return records


def summary(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Of one problem; medians and the best cost are those of the starts that converge, None if none does."""
    statuses = Counter(run["status"] for run in runs)
    done = [run for run in runs if run["status"] == "converged"]
    converged, infeasible = statuses.pop("converged", 0), statuses.pop("infeasible", 0)
    return {
        "starts": len(runs),
        "converged": converged,
        "infeasible": infeasible,
        "others": dict(statuses),
        "iterations": float(np.median([run["iterations"] for run in done])) if done else None,
        "seconds": float(np.median([run["seconds"] for run in done])) if done else None,
        "cost": min((run["cost"] for run in done), default=None),
    }
