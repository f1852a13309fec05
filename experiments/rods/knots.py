"""What one evaluation of the cable-driven manipulator takes per knot, on one thread: in lanes, and in plain numbers.

    python -m experiments.rods.knots [--repeats N] [--out DIR]

Writes DIR/knots.json: least and median microseconds per knot of 64 knots in lanes, and of one point in plain numbers,
and milliseconds of an equilibrium from one nearby.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from dynamics.rods.model.arrays import FIRST, FORCES, MASS_MATRIX, SECOND
from dynamics.rods.recursion.evaluation import evaluate
from dynamics.rods.recursion.residual_kernel import residual_kernel, residual_work, result_numbers
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.simd import routine
from experiments.ilqr_vs_ddp.tables import table
from experiments.quadruped.parts import threads
from experiments.rods.measure import durations
from problems.rods.cable_manipulator import cable_manipulator

KNOTS, REPEATS, CALLS, SEED = 64, 200, 20, 0
LEVELS = {"forces": FORCES, "and M": MASS_MATRIX, "and first derivatives": FIRST, "and the Hessian": SECOND}


@routine
def _plain(m, e, level, state, work, r, A, calls):
    for _ in range(calls):
        residual_kernel(m, e, level, state, work, r, A)


def _times(call: Callable[[], Any], repeats: int, count: int) -> list[float]:
    """Least and median microseconds, each of `count` that a call does."""
    times = durations(call, repeats)
    return [1e6 * float(np.min(times)) / count, 1e6 * float(np.median(times)) / count]


def measure(repeats: int = REPEATS) -> dict[str, Any]:
    """Times of every level: inverse dynamics and residual in lanes, residual in plain numbers; and of equilibria."""
    robot, rng = cable_manipulator(), np.random.default_rng(SEED)
    n, nu = robot.nq, robot.nu
    states = np.hstack([rng.uniform(-1.0, 1.0, (KNOTS, 4 * n)), rng.uniform(0.0, 10.0, (KNOTS, nu))])
    work, r, A = np.empty(residual_work(robot.model)), np.empty(n), np.empty(result_numbers(n, nu))
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
    with threads(1):
        for name, level in LEVELS.items():
            result[name] = {kind: _times(partial(call, level), repeats, count) for kind, (count, call) in calls.items()}
        return {"microseconds": result, "equilibrium": _equilibria(robot, rng, repeats)}


def _equilibria(robot: SoftRobot, rng: np.random.Generator, repeats: int) -> list[float]:
    """Least and median ms of equilibria that start from one under tensions up to 2 N apart."""
    u, times = rng.uniform(5.0, 20.0, robot.nu), []
    start = static_equilibrium(robot, u).q
    for _ in range(repeats):
        near = u + rng.uniform(-2.0, 2.0, robot.nu)
        before = time.perf_counter()
        static_equilibrium(robot, near, start)
        times.append(time.perf_counter() - before)
    return [1e3 * float(np.min(times)), 1e3 * float(np.median(times))]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.rods.knots", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--repeats", type=int, default=REPEATS, metavar="N", help="repeats (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("results/rods"), help="folder (default: %(default)s)")
    options = parser.parse_args(argv)
    if options.repeats < 1:
        parser.error(f"--repeats: got {options.repeats}, wanted at least 1")
    times = measure(options.repeats)
    kinds = tuple(times["microseconds"]["forces"])
    shown = table(f"microseconds per knot, least (median) of {options.repeats}", ("",), kinds)
    for name, row in times["microseconds"].items():
        shown.add_row(name, *(f"{least:.1f} ({median:.1f})" for least, median in row.values()))
    Console(width=100).print(shown)
    print("equilibrium from one nearby: {:.2f} ({:.2f}) ms".format(*times["equilibrium"]))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "knots.json").write_text(json.dumps(times, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
