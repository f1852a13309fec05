"""What an iteration of DDP takes beside one of iLQR on systems as users write them: plain Python with `math`.

A hanging chain of five masses, of which the last is pulled aside past a soft wall, under two integrators, and a planar
quadrotor that flies past a ball, a constraint that is a function, too.  Both solvers take turns and find the same
minimum; times are medians of seconds a solve, over its iterations.

And what comes before the first iteration: chains of more and more masses under RK4, traced, differentiated to the first
and to the second order, and once more for another system of the same function, whose programs are remembered.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import cos, exp, sin, sqrt
from typing import Any

import numpy as np

import trajopt
from dynamics.tape.expressions import programs_of
from experiments.harness import in_turns

SOLVERS = {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()}
MASSES, LENGTH, STIFFNESS, DAMPING = 5, 0.2, 200.0, 0.5
"""Of the chain: springs of 0.2 m and 200 N/m between masses of 1 kg, 0.5 Ns/m on each."""
WALL, DECAY = 0.5, 0.05
"""The wall pushes by exp((x - WALL)/DECAY) N."""
BALL = (0.9, 0.6, 0.35)
"""Place and radius, m, of what the quadrotor flies past."""


def chain_rates(x, u):
    """Of places (x, y) of the masses from the top on, then their velocities; u pulls at the last."""
    n = len(x) // 4
    px, py = [0.0] + [x[2 * i] for i in range(n)], [0.0] + [x[2 * i + 1] for i in range(n)]
    ax, ay = [0.0] * n, [-9.81] * n
    for i in range(n):
        dx, dy = px[i + 1] - px[i], py[i + 1] - py[i]
        length = sqrt(dx * dx + dy * dy + 1e-9)
        pull = STIFFNESS * (length - LENGTH) / length
        ax[i], ay[i] = ax[i] - pull * dx, ay[i] - pull * dy
        if i > 0:
            ax[i - 1], ay[i - 1] = ax[i - 1] + pull * dx, ay[i - 1] + pull * dy
    rates = [x[2 * n + i] for i in range(2 * n)]
    for i in range(n):
        ax[i] = ax[i] - exp((px[i + 1] - WALL) / DECAY) - DAMPING * rates[2 * i]
        ay[i] = ay[i] - DAMPING * rates[2 * i + 1]
    ax[-1], ay[-1] = ax[-1] + u[0], ay[-1] + u[1]
    return [*rates, *(a for pair in zip(ax, ay, strict=True) for a in pair)]


def chain(integrator: str, horizon: int) -> trajopt.Problem:
    """From hanging to slanting, with the last mass beyond the wall."""
    n, below = MASSES, np.arange(1, MASSES + 1)
    system = trajopt.CallableSystem(xdot=chain_rates, nx=4 * n, nu=2, dt=0.02, integrator=integrator)
    hangs, slants = np.zeros(4 * n), np.zeros(4 * n)
    hangs[1 : 2 * n : 2] = -0.22 * below
    slants[: 2 * n : 2], slants[1 : 2 * n : 2] = 0.15 * below, -0.15 * below
    end = trajopt.StateCost(system, slants, np.repeat([100.0, 1.0], 2 * n))
    return trajopt.Problem(system, hangs, horizon, [trajopt.ControlCost(1e-3)], [end], name="hanging chain")


def quadrotor_rates(x, u):
    """Of the place (x, z), the pitch and their rates; two rotors, 0.5 kg, 0.02 kg m^2, arms of 0.2 m."""
    lift = (u[0] + u[1]) / 0.5
    return x[3], x[4], x[5], -lift * sin(x[2]), lift * cos(x[2]) - 9.81, 0.2 * (u[1] - u[0]) / 0.02


def past_the_ball(x):
    """How far from its surface, m."""
    return [sqrt((x[0] - BALL[0]) ** 2 + (x[1] - BALL[1]) ** 2) - BALL[2]]


def quadrotor(integrator: str, horizon: int) -> trajopt.Problem:
    """Two metres to the right and one up, around the ball."""
    system = trajopt.CallableSystem(xdot=quadrotor_rates, nx=6, nu=2, dt=0.02, integrator=integrator)
    there = [2.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    return trajopt.Problem(
        system, np.zeros(6), horizon,
        [trajopt.ControlCost(1e-1, 0.25 * 9.81), trajopt.StateCost(system, there, 1e-2)],
        [trajopt.StateCost(system, there, 1e3)],
        [trajopt.ResidualConstraint(trajopt.residual(past_the_ball, 1, system), lower=0.0, name="ball")],
        us_init=np.full((horizon, 2), 0.25 * 9.81), name="planar quadrotor",
    )  # fmt: skip


CASES: dict[str, tuple[Callable[[str, int], trajopt.Problem], str]] = {
    "hanging chain, rk4": (chain, "rk4"),
    "hanging chain, Euler": (chain, "semi_implicit_euler"),
    "quadrotor past a ball": (quadrotor, "rk4"),
}


def ratio_of(name: str, turns: int, horizon: int = 100) -> dict[str, Any]:
    """A case by both solvers: how they end, milliseconds an iteration, and the quotient of these."""
    make, integrator = CASES[name]
    problem = make(integrator, horizon)
    system: Any = problem.system
    solutions = {solver: options.solve(problem) for solver, options in SOLVERS.items()}
    calls = {solver: lambda options=options: options.solve(problem) for solver, options in SOLVERS.items()}
    seconds = {solver: float(np.median(samples)) for solver, samples in in_turns(calls, turns).items()}
    found: dict[str, Any] = {
        solver: {
            "status": str(solution.status), "cost": solution.cost, "violation": solution.violation,
            "iterations": solution.iterations, "ms": 1e3 * seconds[solver] / solution.iterations,
        } for solver, solution in solutions.items()
    }  # fmt: skip
    return {
        "states": system.nx, "controls": system.nu, "knots": horizon, "system": repr(system),
        "derivatives": f"{system.derivative_source}{', compiled' if system.compiled else ''}",
        **found, "ratio": found["ddp"]["ms"] / found["ilqr"]["ms"],
        "apart": abs(found["ddp"]["cost"] / found["ilqr"]["cost"] - 1.0),
    }  # fmt: skip


def preparation_of(masses: int) -> dict[str, Any]:
    """A chain of so many masses: seconds until its derivatives are there, and instructions of their programs."""
    x, u = np.zeros((1, 4 * masses)), np.zeros((1, 2))
    x[0, 1 : 2 * masses : 2] = -0.22 * np.arange(1, masses + 1)

    def seconds(second_order: bool) -> float:
        begun = time.perf_counter()
        system = trajopt.CallableSystem(xdot=chain_rates, nx=x.shape[1], nu=2, dt=0.02)
        system.linearize(x, u)
        if second_order:
            system.hessian_products(x, u, x)
        return time.perf_counter() - begun

    found: dict[str, Any] = {"states": x.shape[1]}
    seconds(True)  # what the first calls of all load and compile
    for order, name in enumerate(SOLVERS):
        programs_of.cache_clear()
        found[name] = seconds(bool(order))
    found["again"] = seconds(True)
    system: Any = trajopt.CallableSystem(xdot=chain_rates, nx=x.shape[1], nu=2, dt=0.02)
    found["instructions"] = [len(system._integrator.tapes.program(which)[0].code) for which in range(3)]
    return found
