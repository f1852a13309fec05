"""Gradients of a trajectory loss by ever more numbers of a problem: by problems made, and by one backward pass.

The arm of `problems.arm`, whose costs refer to states and torques that are the parameters: the same for all knots or
others at each, 1 to 900 numbers.  The loss is that of `inertial`.  `trajopt.sensitivity` with a function that makes
the problem of p (with the costs alone made anew, the robot shared) makes four for each number; with the same values
declared, by a `trajopt.ParametricProblem`, it makes none.  Both begin from a solution, and include everything after it.
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

SIZES = {
    1: ("ControlCost",), 6: ("ControlCost",), 12: ("StateCost",), 60: ("StateCost",), 300: ("ControlCost",),
    600: ("StateCost",), 900: ("StateCost", "ControlCost"),
}  # fmt: skip
"""How many numbers, and the costs whose references they are."""
QUICK = 1, 12, 300
ROUNDS, SECONDS = 15, 4.0
"""Turns that a time is the median of, and how long problems are made for all of them, about."""


def arm(count: int) -> tuple[Callable[[np.ndarray], trajopt.Problem], trajopt.ParametricProblem]:
    """A function that makes the problem of p (count,), and the same with its values declared."""
    plain = problems.make("arm")
    state, control = plain.running_costs
    N, system = plain.horizon, plain.system
    x_ref, u_ref = np.array(state.reference), np.zeros(system.nu)
    if count in (300, 900):
        u_ref = np.zeros((N, system.nu))
    if count in (600, 900):
        x_ref = np.tile(x_ref, (N, 1))
    if count == 60:
        x_ref = x_ref + np.zeros((N, system.nx))
    if count == 1:
        u_ref = np.zeros(())
    shapes = {"StateCost": x_ref.shape, "ControlCost": u_ref.shape}
    names = SIZES[count]
    costs: list[Any] = [
        trajopt.StateCost(system, x_ref, state.weights), trajopt.ControlCost(control.weights, u_ref),
    ]  # fmt: skip
    problem = replace(plain, running_costs=costs)

    def make(p: np.ndarray) -> trajopt.Problem:
        parts, start = {"StateCost": x_ref, "ControlCost": u_ref}, 0
        for name in names:
            size = int(np.prod(shapes[name], dtype=int))
            parts[name], start = p[start : start + size].reshape(shapes[name]), start + size
        new: list[Any] = [
            trajopt.StateCost(system, parts["StateCost"], state.weights),
            trajopt.ControlCost(control.weights, parts["ControlCost"]),
        ]
        return replace(plain, running_costs=new)

    return make, trajopt.ParametricProblem(problem, *names)
