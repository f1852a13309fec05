"""What many small problems at once gain over a loop: swing-ups, and an arm from many initial states.

    python -m experiments.many [--problems 500] [--arms 1000] [--large 0] [--turns 5] [--quick] [--out many.json]

Each swing-up is made anew, from its robot on, and solved by processes and by threads; the arm is prepared once, for
`PreparedSolver.solve_batch`.  The ways take turns, so that a busy machine
slows all of them alike, and times are medians.  A call of `solve_many` starts its workers, which import the libraries
and load kernels: what that takes is measured by calls with one problem for each worker, and the speed is given with it
and without.

With the arms, two threads compute hashes, which needs no interpreter, and say what two threads can gain at most on the
machine as it is then.  ``--large 10000`` solves so many arms once, with a progress bar.
"""

import hashlib
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
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


def hash_in(workers: int) -> None:
    """Compute hashes in so many threads, which takes 0.1 seconds or so alone."""
    content = bytes(2**20)
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda _: hashlib.sha256(content).digest(), range(80)))


def solve_arms(run: Run, size: int, large: int, turns: int) -> dict[str, Any]:
    """An arm from many initial states: a loop, and one and two threads by two ways."""
    problem = problems.make("arm", horizon=20, dt=0.05)
    spread = 0.1 * np.random.default_rng(0).normal(size=(max(size, large), problem.system.ndx))
    x0s = problem.x0 + spread
    prepared = trajopt.DDP().prepare(problem)
    of_x0 = trajopt.ParametricProblem(problem, "x0")
    calls: dict[tuple[str, int], Callable[[], object]] = {
        ("loop", 1): lambda: [prepared.solve(x0) for x0 in x0s[:size]],
    }
    for workers in 1, 2:
        many = partial(trajopt.solve_many, of_x0, x0s[:size], trajopt.DDP(), threads=True, progress=False)
        calls["solve_batch", workers] = partial(prepared.solve_batch, x0s[:size], workers=workers, progress=False)
        calls["solve_many, threads", workers] = partial(many, workers=workers)
        calls["hashes", workers] = partial(hash_in, workers)
    before = os.getloadavg()[0]
    medians = {key: float(np.median(seconds)) for key, seconds in in_turns(calls, turns).items()}
    ways = [
        {"way": way, "workers": workers, "seconds": seconds,
         "loop": medians["loop", 1] / seconds if way != "hashes" else None,
         "one": medians[way, 1] / seconds}
        for (way, workers), seconds in medians.items()
    ]  # fmt: skip
    results = {"arms": size, "turns": turns, "load": [before, os.getloadavg()[0]], "ways": ways}
    if large:
        begin = time.perf_counter()
        solved = prepared.solve_batch(x0s, progress=True)
        results["large"] = {
            "arms": large, "seconds": time.perf_counter() - begin, "converged": int(solved.converged.sum()),
        }  # fmt: skip
    return results


def study(run: Run) -> dict[str, Any]:
    """Both comparisons."""
    size, turns = (6, 1) if run.options.quick else (run.options.problems, run.options.turns)
    arms, large = (12, 12) if run.options.quick else (run.options.arms, run.options.large)
    results = solve_swing_ups(run, size, turns) if size else {}
    return {**results, "of_arms": solve_arms(run, arms, large, turns)} if arms else results


def solve_swing_ups(run: Run, size: int, turns: int) -> dict[str, Any]:
    """A loop, and one and two workers of each kind."""
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


def arms_table(results: dict[str, Any]) -> Table:
    """One line for each way."""
    headings = ["threads", "seconds", "ms a solve", "loop = 1", "one thread = 1"]
    rows = [
        (way["way"], str(way["workers"]), way["seconds"], 1e3 * way["seconds"] / results["arms"],
         way["loop"], way["one"])
        for way in results["ways"]
    ]  # fmt: skip
    load = " to ".join(f"{each:.1f}" for each in results["load"])
    return table(f"{results['arms']} arms, load {load}", ("way",), headings, [rows])


def tables(results: dict[str, Any]) -> tuple[Table, ...]:
    """Those of what was measured."""
    found = [ways_table(results)] if "ways" in results else []
    return (*found, arms_table(results["of_arms"])) if "of_arms" in results else tuple(found)


main = Experiment(
    "many",
    __doc__,
    study,
    options=[
        count("--problems", 500, "swing-ups, 0 for none", 0),
        count("--arms", 1000, "initial states of the arm, 0 for none", 0),
        count("--large", 0, "initial states of the arm, solved once with a progress bar", 0),
        count("--turns", 5, "turns"),
        quick("six problems, a dozen arms, two workers, one turn"),
    ],
    tables=tables,
    out="results/many.json",
    threads=1,
)

if __name__ == "__main__":
    sys.exit(main())
