"""Gradients of a trajectory loss by all inertial parameters of a chain of links: their cost, their errors.

`Solution.inertial_vjp` against one exact iteration of DDP from the same trajectory, in turns on one thread, in time of
the processor, which other programs do not lengthen; against `trajopt.sensitivity`, which differences problems with
other links; and, along one direction of all parameters together, against problems solved again.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import dynamics
import trajopt
from experiments.harness.timing import threads
from experiments.one_iteration import iterations
from experiments.sensitivity.references import polished_solution
from problems import serial_chain
from trajopt.optimality.first_order import FOURTH_ORDER

STEPS = np.array([3e-3, 3e-4, 3e-4, 3e-4, *np.full(6, 3e-5)])
"""Of differences by the ten parameters of a link of 1 kg and 0.3 m."""
DIRECTION_STEP = 1e-3
ROUNDS = 60


def chain(links: int) -> tuple[Any, np.ndarray]:
    """A problem of inertial parameters (links, 10), and those of `serial_chain`."""
    plain, robot = serial_chain.make(links=links), serial_chain.model(links)
    terminal: Any = plain.terminal_costs[0]
    goal, start = terminal.reference, plain.x0

    def make(parameters: np.ndarray) -> trajopt.Problem:
        model = dynamics.with_inertial_parameters(robot, np.reshape(parameters, (links, 10)), physical=False)
        system = dynamics.RigidBodySystem(model, plain.system.dt)
        return trajopt.Problem(
            system, start, plain.horizon,
            [trajopt.StateCost(system, goal, np.repeat([1e-1, 2e-2], links)), trajopt.ControlCost(1e-3)],
            [trajopt.StateCost(system, goal, np.repeat([1e2, 1e1], links))], us_init=plain.us_init,
        )  # fmt: skip

    return make, dynamics.inertial_parameters(robot)


def loss_covectors(solution: trajopt.Solution) -> tuple[np.ndarray, np.ndarray]:
    """Of phi = sum sin(x) + |u|^2 / 2 along a trajectory."""
    return np.cos(solution.xs), solution.us


def loss(solution: trajopt.Solution) -> float:
    """phi."""
    return float(np.sin(solution.xs).sum() + 0.5 * (solution.us**2).sum())


def errors(links: int, seed: int = 0) -> dict[str, float]:
    """Of the gradient, relative to its largest entry, against the generic route; and of its product with a direction,
    relative, against problems solved again."""
    make, pi = chain(links)
    solution = polished_solution(make(pi), trajopt.DDP().solve(make(pi)))
    covectors = loss_covectors(solution)
    gradient = solution.inertial_vjp(*covectors)
    generic = trajopt.sensitivity(make, pi, solution, steps=np.tile(STEPS, links)).vjp(*covectors)
    direction = 0.1 * pi * np.random.default_rng(seed).standard_normal((links, 1))
    again = 0.0
    for multiple, weight in FOURTH_ORDER:
        problem = make(pi + multiple * DIRECTION_STEP * direction)
        found = polished_solution(problem, trajopt.DDP().solve(problem, warm_start=solution))
        again += weight / DIRECTION_STEP * loss(found)
    along = float((gradient * direction).sum())
    return {
        "generic": float(np.abs(gradient - generic).max() / np.abs(generic).max()),
        "solved again": abs(along - again) / abs(again),
    }


def times(links: int, rounds: int = ROUNDS) -> dict[str, float]:
    """Median milliseconds of the processor, by what was called."""
    make, pi = chain(links)
    problem = make(pi)
    solution = trajopt.DDP().solve(problem)
    xs_bar, us_bar = loss_covectors(solution)
    calls = {
        "exact iteration": iterations(problem, solution.us)["exact DDP"],
        "gradient": lambda: solution.inertial_vjp(xs_bar, us_bar),
    }
    samples: dict[str, list[float]] = {name: [] for name in calls}
    with threads(1):
        for _ in range(rounds):
            for name, call in calls.items():
                begin = time.process_time()
                call()
                samples[name].append(1e3 * (time.process_time() - begin))
    return {name: float(np.median(found[1:])) for name, found in samples.items()}


def measure(links: int = 10, rounds: int = ROUNDS) -> dict[str, Any]:
    """Figures of a chain: links, parameters, milliseconds of an iteration and of a gradient, their ratio, errors."""
    taken = times(links, rounds)
    return {
        "links": links, "parameters": 10 * links, "milliseconds": taken,
        "iterations": taken["gradient"] / taken["exact iteration"], "errors": errors(links),
    }  # fmt: skip
