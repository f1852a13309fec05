"""What Python between the kernels costs: iterations compiled and in Python, and cycles of control in a C library.

    python -m experiments.without_python [--cycles 5000] [--turns 9] [--quick] [--out results/without_python.json]

Iterations are those of the arm with 100, 20 and 10 knots, of one evaluation of the dynamics a step and of four; both
ways take turns and make the same steps.  Cycles are
those of `experiments.mpc_latency`: a seven-axis arm of 40 knots follows a moving target, with limits of torques, joints
and speeds and a ball to stay away from, or without any; they are exported as a C library, which a C program calls from
states with noise.  The jitter is the ratio of the time within which 99.9 % of the cycles end to the median.  Needs a C
compiler for the cycles, which are left out where there is none.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.table import Table

import problems
import trajopt
from experiments.harness import Experiment, Run, count, quick, table
from experiments.mpc_latency.scene import follow

KNOTS = 100, 20, 10
SOLVERS: dict[str, Any] = {"iLQR": trajopt.ILQR, "DDP": trajopt.DDP}
WAYS = "compiled", "in Python"
INTEGRATORS = "semi_implicit_euler", "rk4"
NOISE = 1e-4
"""Largest number that is added to each number of the state in a cycle."""

PROGRAM = r"""
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arm7.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int count, char **words)
{
    long cycles = count > 1 ? atol(words[1]) : 1000;
    double *seconds = malloc(cycles * sizeof *seconds);
    arm7_t *self = arm7_create();
    arm7_solve(self);
    double *x0 = arm7_x0(self), *xs = arm7_xs(self);
    for (long cycle = -100; cycle < cycles; cycle++) {
        double angle = 2.0 * acos(-1.0) * 0.02 * cycle / 4.0;
        double target[3] = {0.5, 0.35 * cos(angle), 0.6 + 0.1 * sin(angle)};
        memcpy(arm7_translation_of_tool_and_terminal_target(self), target, sizeof target);
        for (int i = 0; i < ARM7_x0_SIZE; i++)
            x0[i] = xs[ARM7_x0_SIZE + i] + NOISE * (2.0 * rand() / RAND_MAX - 1.0);
        double start = now();
        arm7_cycle(self);
        if (cycle >= 0)
            seconds[cycle] = now() - start;
    }
    qsort(seconds, cycles, sizeof *seconds, ascending);
    printf("%.9g %.9g %.9g\n", seconds[cycles / 2], seconds[cycles - 1 - cycles / 1000], seconds[cycles - 1]);
    arm7_free(self);
    return 0;
}
"""


@contextmanager
def loop_in_python() -> Iterator[None]:
    """Context in which iterations are made in Python."""
    with patch("trajopt.solvers.program.program_of", lambda *_: None):
        yield


def an_iteration(prepared: trajopt.PreparedSolver) -> float:
    """Seconds of an iteration of a solve, but for its first one."""
    log = prepared.solve().log
    return (log[-1].time - log[1].time) / (len(log) - 2)


def iterations(turns: int, knots: tuple[int, ...]) -> list[dict[str, Any]]:
    """Medians of iterations of the arm, both ways in turns."""
    rows = []
    for integrator, (name, make) in product(INTEGRATORS, SOLVERS.items()):
        arm = problems.make("arm", integrator=integrator)
        for N in knots:
            prepared = make().prepare(replace(arm, horizon=N, us_init=np.tile(arm.us_init[:1], (N, 1))))
            found: dict[str, list[float]] = {way: [] for way in WAYS}
            for turn in range(turns + 1):
                seconds = an_iteration(prepared)
                with loop_in_python():
                    other = an_iteration(prepared)
                if turn > 0:
                    for way, value in zip(WAYS, (seconds, other), strict=True):
                        found[way].append(1e6 * value)
            medians = {way: float(np.median(found[way])) for way in WAYS}
            rows.append({"integrator": integrator, "solver": name, "knots": N, **medians})
    return rows


def cycles_in_c(constrained: bool, make: Callable[..., Any], cycles: int) -> dict[str, float]:
    """Microseconds of cycles of an exported library: median, the time within which 99.9 % end, and the largest."""
    prepared = make(max_iterations=100).prepare(follow(constrained))
    with tempfile.TemporaryDirectory() as place:
        folder = prepared.export(Path(place) / "arm7", "arm7")
        (folder / "cycles.c").write_text(PROGRAM.replace("NOISE", repr(NOISE)), encoding="utf-8")
        build = "cc", "-O2", "cycles.c", "-I.", "libarm7.a", "-lm", "-o", "cycles"
        subprocess.run(build, cwd=folder, check=True)
        done = subprocess.run(["./cycles", str(cycles)], cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
    median, late, largest = [1e6 * float(word) for word in done.stdout.split()]
    return {"median_us": median, "late_us": late, "largest_us": largest, "jitter": late / median}


def cycles_in_python(constrained: bool, make: Callable[..., Any], cycles: int) -> float:
    """Median microseconds of the same cycles by `PreparedSolver.solve` and `Solution.shifted`."""
    from experiments.mpc_latency.study import Loop

    loop = Loop(make(max_iterations=1), constrained, seed=0)
    return 1e6 * float(np.median([sum(loop.cycle()) for _ in range(cycles)][cycles // 10 :]))


def study(run: Run) -> dict[str, Any]:
    """Iterations, and cycles where there is a C compiler."""
    turns, cycles, knots, ways = run.options.turns, run.options.cycles, KNOTS, (True, False)
    if run.options.quick:
        turns, cycles, knots, ways = 1, 200, KNOTS[-1:], ways[:1]
    results: dict[str, Any] = {"iterations": iterations(turns, knots), "cycles": []}
    if shutil.which("cc") is None:
        return results
    for constrained in ways:
        for name, make in SOLVERS.items():
            given = constrained, make
            row = {"solver": name, "constrained": constrained, **cycles_in_c(*given, cycles)}
            results["cycles"].append({**row, "python_us": cycles_in_python(*given, max(50, cycles // 10))})
    return results


def tables(results: dict[str, Any]) -> Iterator[Table]:
    """Iterations and cycles."""
    rows = [
        (
            one["integrator"], one["solver"], str(one["knots"]),
            *[f"{one[way]:.0f}" for way in WAYS], f"{one[WAYS[0]] / one[WAYS[1]]:.2f}",
        )
        for one in results["iterations"]
    ]  # fmt: skip
    yield table("an iteration of the arm [us]", ("integrator", "solver", "knots"), (*WAYS, "ratio"), [rows])
    names = partial(map, lambda one: f"{one['solver']}{', constrained' if one['constrained'] else ''}")
    keys = "median_us", "late_us", "largest_us", "jitter", "python_us"
    lines = [
        (name, *[f"{one[key]:.2f}" if key == "jitter" else f"{one[key]:.0f}" for key in keys])
        for name, one in zip(names(results["cycles"]), results["cycles"], strict=True)
    ]
    headings = "in C", "99.9 %", "largest", "jitter", "in Python"
    yield table("a cycle of a seven-axis arm, 40 knots [us]", ("solver",), headings, [lines])


main = Experiment(
    "without_python",
    __doc__,
    study,
    options=[
        count("--cycles", 5000, "cycles of each library"),
        count("--turns", 9, "turns"),
        quick("10 knots, 200 cycles under constraints, one turn"),
    ],
    tables=lambda results: tuple(tables(results)),
    out="results/without_python.json",
    threads=1,
)

if __name__ == "__main__":
    sys.exit(main())
