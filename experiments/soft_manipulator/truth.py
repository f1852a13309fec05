"""Where plans of soft robots end when their controls are executed, by Radau's method, without feedback: the truth of
`solution.discretization_error()`."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import problems
from dynamics.rods.robot.link_velocity import LinkVelocity
from dynamics.rods.stepping.soft_system import SoftRobotSystem
from experiments.soft_manipulator.study import CLOSED, SOLVERS

INTEGRATORS = ("semi_implicit_euler", "extrapolated_euler", "implicit_midpoint", "sdirk2")
OF_CLOSED_CHAINS = "sdirk2"
REFINEMENTS = (1, 2)
"""Knots of the plans, times those of the problem."""
RTOL, ATOL = 1e-7, 1e-9
"""Of the execution."""


def executed(system: SoftRobotSystem, x0: np.ndarray, us: np.ndarray) -> np.ndarray:
    """The state (nx,) after the controls us (N, nu), each held for dt, from x0; knots bound the solver's steps."""
    return system.resimulated(RTOL, ATOL).rollout(x0, us)[-1]


def plan_record(name: str, integrator: str, refinement: int, solver: str) -> dict[str, Any]:
    """A plan of a problem: how it was found, how far its tip ends from the truth, m, and, where the tip's velocity is
    what was wanted, how much faster or slower it ends, m/s."""
    given = problems.make(name)
    horizon, dt = refinement * given.horizon, given.system.dt / refinement
    chosen = {} if name in CLOSED else {"integrator": integrator}
    problem = problems.make(name, horizon=horizon, dt=dt, **chosen)
    SOLVERS[solver].solve(problem)
    begin = time.perf_counter()
    solution = SOLVERS[solver].solve(problem)
    seconds, system = time.perf_counter() - begin, problem.system
    assert isinstance(system, SoftRobotSystem)
    xs = np.array([solution.xs[-1], executed(system, solution.xs[0], solution.us)])
    ends, wanted = system.skeleton(xs)[:, -1, 1], getattr(problem.terminal_costs[0], "residual", None)
    speeds = wanted.evaluate(xs)[:, :3] if isinstance(wanted, LinkVelocity) else np.full((2, 3), np.nan)
    return {
        "problem": name, "integrator": integrator, "knots": horizon, "solver": solver, "status": str(solution.status),
        "iterations": solution.iterations, "cost": solution.cost, "ms": 1e3 * seconds / solution.iterations,
        "off": float(np.linalg.norm(ends[1] - ends[0])), "speed_off": float(np.linalg.norm(speeds[1] - speeds[0])),
    }  # fmt: skip
