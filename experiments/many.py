"""What `solve_many` gains over a loop on small problems: swing-ups of a pendulum, by processes and by threads.

    python -m experiments.many [--problems 500] [--turns 5] [--quick] [--out results/many.json]

Each problem is made anew, from its robot on.  The ways take turns, so that a busy machine slows all of them alike, and
times are medians.  A call starts its workers, which import the libraries and load kernels: what that takes is measured
by calls with one problem for each worker, and the speed is given with it and without.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from rich.table import Table

import problems
import trajopt
from experiments.harness import Experiment, Run, count, in_turns, quick, table

KINDS = "processes", "threads"


def swing_up(angle: float) -> trajopt.Problem:
    """The swing-up from an angle."""
    problem = problems.make("pendulum")
    return replace(problem, x0=np.array([angle, 0.0]))


def loop(angles: np.ndarray) -> None:
    """Solve one problem after another."""
    for angle in angles:
        trajopt.DDP().solve(swing_up(angle))


def many(angles: np.ndarray, threads: bool, workers: int) -> None:
    """Solve all of them at once."""
    trajopt.solve_many(swing_up, angles, trajopt.DDP(), threads=threads, workers=workers, progress=False)


def study(run: Run) -> dict[str, Any]:
    """A loop, and one and two workers of each kind."""
    size, turns = (6, 1) if run.options.quick else (run.options.problems, run.options.turns)
    angles = np.linspace(-1.0, 1.0, size)
    crews = [(kind, workers) for kind in KINDS for workers in ((2,) if run.options.quick else (1, 2))]
    calls: dict[tuple[str, int, int], Callable[[], None]] = {("loop", 1, size): partial(loop, angles)}
    for kind, workers in crews:
        for solved in workers, size:
            calls[kind, workers, solved] = partial(many, angles[:solved], kind == "threads", workers)
    medians = {key: float(np.median(seconds)) for key, seconds in in_turns(calls, turns).items()}
    alone = medians["loop", 1, size]
    ways = [{"way": "loop", "workers": 1, "seconds": alone, "start": 0.0, "speed": 1.0, "speed_after_start": 1.0}]
    for kind, workers in crews:
        seconds, start = medians[kind, workers, size], medians[kind, workers, workers]
        after = alone * (size - workers) / size / (seconds - start) if seconds > start else None
        way = {"way": kind, "workers": workers, "seconds": seconds, "start": start}
        ways.append({**way, "speed": alone / seconds, "speed_after_start": after})
    return {"problems": size, "turns": turns, "ways": ways}


def ways_table(results: dict[str, Any]) -> Table:
    """One line for each way."""
    headings = ["workers", "seconds", "to start", "ms a problem", "loop = 1", "after the start"]
    rows = [
        (way["way"], str(way["workers"]), way["seconds"], way["start"], 1e3 * way["seconds"] / results["problems"],
         way["speed"], way["speed_after_start"])
        for way in results["ways"]
    ]  # fmt: skip
    return table(f"{results['problems']} swing-ups", ("way",), headings, [rows])


main = Experiment(
    "many",
    __doc__,
    study,
    options=[
        count("--problems", 500, "problems"),
        count("--turns", 5, "turns"),
        quick("six problems, two workers, one turn"),
    ],
    tables=lambda results: (ways_table(results),),
    out="results/many.json",
    threads=1,
)

if __name__ == "__main__":
    sys.exit(main())
