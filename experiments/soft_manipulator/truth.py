"""Where plans of soft robots end when their controls are executed, by Radau's method, without feedback: the truth of
`solution.discretization_error()`."""

from __future__ import annotations

import time
from typing import Any, cast

import numpy as np

import problems
from dynamics.rods.robot.link_residuals import LinkVelocity
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from experiments.soft_manipulator.study import CLOSED, SOLVERS

INTEGRATORS = ("semi_implicit_euler", "extrapolated_euler", "implicit_midpoint", "sdirk2")
OF_CLOSED_CHAINS = "sdirk2"
REFINEMENTS = (1, 2)
"""Knots of the plans, times those of the problem."""
RTOL, ATOL = 1e-7, 1e-9
"""Of the execution."""
LAST = 4
"""Steps, whose part in what is left to be gained is told."""
NEAR, SMALL = 5e-3, 0.02
"""A plan holds if its tip ends as near to the truth, m, and off by no more than this part of its way and velocity."""


def executed(system: SoftRobotSystem, x0: np.ndarray, us: np.ndarray) -> np.ndarray:
    """The state (nx,) after the controls us (N, nu), each held for dt, from x0; knots bound the solver's steps."""
    return system.resimulated(RTOL, ATOL).rollout(x0, us)[-1]


def plan_record(name: str, integrator: str | None, refinement: int, solver: str) -> dict[str, Any]:
    """A plan of a problem by an integrator, None for its own: how it was found, how far its tip ends from the truth, m,
    and, where the tip's velocity is what was wanted, how much faster or slower it ends, m/s; `part`: of that velocity,
    or of the tip's largest distance from its start, the larger one of both; `left`: of what is to be gained, by each of
    the last steps."""
    given = problems.make(name)
    horizon, dt = refinement * given.horizon, given.system.dt / refinement
    chosen = {} if integrator is None or name in CLOSED else {"integrator": integrator}
    problem = problems.make(name, horizon=horizon, dt=dt, **chosen)
    SOLVERS[solver].solve(problem)
    begin = time.perf_counter()
    solution = SOLVERS[solver].solve(problem)
    seconds, system = time.perf_counter() - begin, problem.system
    assert isinstance(system, SoftRobotSystem)
    xs = np.array([solution.xs[-1], executed(system, solution.xs[0], solution.us)])
    ends, wanted = system.skeleton(xs)[:, -1, 1], getattr(problem.terminal_costs[0], "residual", None)
    tips = system.skeleton(solution.xs)[:, -1, 1]
    way, off = np.linalg.norm(tips - tips[0], axis=1).max(), np.linalg.norm(ends[1] - ends[0])
    speeds = np.full((2, 3), np.nan)
    if isinstance(wanted, LinkVelocity):
        speeds = cast(Any, wanted).target[:3] + wanted.evaluate(xs)[:, :3]
    speed_off, promised = np.linalg.norm(speeds[1] - speeds[0]), solution.history("predicted_decrease")[-LAST - 1 :]
    return {
        "problem": name, "integrator": system.integrator, "knots": horizon, "solver": solver,
        "status": str(solution.status), "iterations": solution.iterations, "cost": solution.cost, "seconds": seconds,
        "ms": 1e3 * seconds / solution.iterations, "off": float(off), "speed_off": float(speed_off),
        "gauss_newton": sum(record.step == "gauss_newton" for record in solution.log[: solution.iterations]),
        "left": float((promised[-1] / promised[0]) ** (1.0 / LAST)),
        "part": float(np.nanmax([off / way, speed_off / np.linalg.norm(speeds[0])])),
    }  # fmt: skip


def holds(plan: dict[str, Any]) -> bool:
    """Whether a plan converged and ends where it says."""
    return plan["status"] == "converged" and plan["off"] < NEAR and plan["part"] < SMALL
