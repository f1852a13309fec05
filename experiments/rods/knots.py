"""What one evaluation of the cable-driven manipulator takes per knot, on one thread: in lanes, and in plain numbers.

    python -m experiments.rods.knots [--repeats N] [--out DIR]

Writes DIR/knots.json: least and median microseconds per knot of 64 knots in lanes, and of one point in plain numbers,
and milliseconds of an equilibrium from one nearby.
"""

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

from dynamics.rods.algorithms.equation_of_motion import residual_kernel, residual_work, result_size
from dynamics.rods.algorithms.inverse_dynamics import evaluate
from dynamics.rods.model.arrays import FIRST, FORCES, MASS_MATRIX, SECOND
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.simd import routine
from experiments.harness import Experiment, Run, count, in_turns, least_and_median, table
from problems.rods.cable_manipulator import cable_manipulator

KNOTS, REPEATS, CALLS, SEED = 64, 200, 20, 0
LEVELS = {"forces": FORCES, "and M": MASS_MATRIX, "and first derivatives": FIRST, "and the Hessian": SECOND}


@routine
def _plain(m, e, level, state, work, r, A, calls):
    for _ in range(calls):
        residual_kernel(m, e, level, state, work, r, A)


def measure(repeats: int) -> dict[str, Any]:
    """Times of every level: inverse dynamics and residual in lanes, residual in plain numbers; and of equilibria."""
    robot, rng = cable_manipulator(), np.random.default_rng(SEED)
    n, nu = robot.nq, robot.nu
    states = np.hstack([rng.uniform(-1.0, 1.0, (KNOTS, 4 * n)), rng.uniform(0.0, 10.0, (KNOTS, nu))])
    work, r = np.empty(residual_work(robot.model.arrays, robot.arrays)), np.empty(n)
    A = np.empty(result_size(robot.model.arrays, robot.arrays))
    result = {}
    vectors, none = np.ascontiguousarray(states[:, : 4 * n]), np.zeros((KNOTS, 0))
    calls: dict[str, tuple[int, Callable[[int], Any]]] = {
        "inverse dynamics": (KNOTS, lambda level: evaluate(robot.model, level, vectors, none)),
        "residual": (KNOTS, lambda level: robot._residual(level, states)),
        "plain numbers": (
            CALLS,
            lambda level: _plain(robot.model.arrays, robot.arrays, np.int64(level), states[0], work, r, A, CALLS),
        ),
    }
    for name, level in LEVELS.items():
        times = in_turns({kind: partial(call, level) for kind, (_, call) in calls.items()}, repeats)
        result[name] = {kind: least_and_median(times[kind], 1e6 / knots) for kind, (knots, _) in calls.items()}
    return {"microseconds": result, "equilibrium": _equilibria(robot, rng, repeats)}


def _equilibria(robot: SoftRobot, rng: np.random.Generator, repeats: int) -> tuple[float, float]:
    """Least and median ms of equilibria that start from one under tensions up to 2 N apart."""
    u = rng.uniform(5.0, 20.0, robot.nu)
    start = static_equilibrium(robot, u).q
    call = lambda: static_equilibrium(robot, u + rng.uniform(-2.0, 2.0, robot.nu), start, method="newton")  # noqa: E731
    return least_and_median(in_turns({"": call}, repeats)[""], 1e3)


def study(run: Run) -> dict[str, Any]:
    """All times; prints them."""
    repeats = run.options.repeats
    times = measure(repeats)
    run.show(times_table(times["microseconds"], repeats))
    run.show("equilibrium from one nearby: {:.2f} ({:.2f}) ms".format(*times["equilibrium"]))
    return times


def times_table(microseconds: dict[str, dict[str, tuple[float, float]]], repeats: int) -> Table:
    """A row for every level."""
    rows = [
        (name, *(f"{least:.1f} ({median:.1f})" for least, median in row.values())) for name, row in microseconds.items()
    ]
    kinds = list(microseconds["forces"])
    return table(f"microseconds per knot, least (median) of {repeats}", ("",), kinds, [rows])


main = Experiment("rods.knots", __doc__, study, options=[count("--repeats", REPEATS, "repeats")], width=100, threads=1)

if __name__ == "__main__":
    sys.exit(main())
