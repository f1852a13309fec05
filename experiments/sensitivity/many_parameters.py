"""Gradients of a trajectory loss by ever more numbers of a problem: by problems made, and by one backward pass.

The arm of `problems.arm`, whose running costs refer to torques and states, and weigh these, with numbers that are the
parameters: the same at all knots, or others at each.  The loss is that of `inertial`.  `trajopt.sensitivity` with a
function that makes the problem of p makes four of them for each number (the costs alone anew: model and system are
shared); with the same values declared, by a `trajopt.ParametricProblem`, none.  Times are of all that comes after a
solution; a solve is one from the problem's own start.  Calls take turns; the slow one has as many as fit in.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import problems
import trajopt
from experiments.harness.timing import threads
from experiments.sensitivity.inertial import loss_covectors
from experiments.sensitivity.references import polished_solution

PARAMETERS = {
    1: {"ControlCost": ()},
    12: {"StateCost": (12,)},
    18: {"StateCost": (12,), "ControlCost": (6,)},
    300: {"ControlCost": (50, 6)},
    600: {"StateCost": (50, 12)},
    900: {"StateCost": (50, 12), "ControlCost": (50, 6)},
    1200: {"StateCost": (50, 12), "StateCost.weights": (50, 12)},
}
"""Shapes of what is declared, by how many numbers these are."""
QUICK = 1, 18
ROUNDS, SECONDS = 31, 8.0
"""Turns at most, and at least three, and about how long they take together."""


def arm(count: int) -> tuple[Callable[[np.ndarray], trajopt.Problem], trajopt.ParametricProblem]:
    """A function that makes the problem of p (count,), and the problem with the same values declared."""
    plain, shapes = problems.make("arm"), PARAMETERS[count]
    state, control = plain.running_costs
    start = {"StateCost": state.reference, "StateCost.weights": state.weights, "ControlCost": np.zeros(())}
    own = {name: np.array(np.broadcast_to(value, shapes.get(name, value.shape))) for name, value in start.items()}
    ends = np.cumsum([own[name].size for name in shapes])

    def make(p: np.ndarray) -> trajopt.Problem:
        parts = zip(shapes, np.split(p, ends[:-1]), strict=True)
        values = own | {name: part.reshape(shapes[name]) for name, part in parts}
        costs: list[Any] = [
            trajopt.StateCost(plain.system, values["StateCost"], values["StateCost.weights"]),
            trajopt.ControlCost(control.weights, values["ControlCost"]),
        ]
        return replace(plain, running_costs=costs)

    return make, trajopt.ParametricProblem(make(np.concatenate([own[name].ravel() for name in shapes])), *shapes)


def gradients(count: int) -> dict[str, Callable[[], Any]]:
    """A solve, and the two ways to the gradient from a solution."""
    make, parametric = arm(count)
    p, problem = parametric.p, parametric.problem
    solution = polished_solution(problem, trajopt.DDP().solve(problem))
    covectors = loss_covectors(solution)
    return {
        "solve": lambda: trajopt.DDP().solve(problem),
        "direct": lambda: trajopt.sensitivity(parametric, p, solution).vjp(*covectors),
        "made": lambda: trajopt.sensitivity(make, p, solution).vjp(*covectors),
    }


def measure(count: int, rounds: int = ROUNDS, seconds: float = SECONDS) -> dict[str, Any]:
    """Parameters, median milliseconds of the processor of each call, and how far the two gradients are apart."""
    calls = gradients(count)
    direct, made = calls["direct"](), calls["made"]()
    samples: dict[str, list[float]] = {name: [] for name in calls}
    with threads(1):
        end = time.process_time() + seconds
        while len(samples["made"]) < min(3, rounds) or (len(samples["made"]) < rounds and time.process_time() < end):
            for name, call in calls.items():
                begin = time.process_time()
                call()
                samples[name].append(1e3 * (time.process_time() - begin))
    return {
        "parameters": count, "milliseconds": {name: float(np.median(found)) for name, found in samples.items()},
        "error": float(np.abs(direct - made).max() / np.abs(made).max()),
    }  # fmt: skip
