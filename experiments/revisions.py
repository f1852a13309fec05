"""Times of this working copy relative to those of another revision, call by call in turns.

    python -m experiments.revisions --base REVISION_OR_FOLDER [--turns 60] [--only WORD ...]

Each copy runs in a process of its own on one thread.  The two take turns, a few milliseconds each, and what counts is
the median ratio of turns that follow each other: a machine that is busy slows both alike.  The load of the machine is
in the results.  Calls are those of users: derivatives of systems along a trajectory, expansions, whole solves, also of
the benchmark of constrained problems, cycles of predictive control, and iterations on more and more knots (some seconds
each: `--only growth --turns 3`).  The ratio of least is that of the shortest turns; of solves and cycles the time of an
iteration in the shortest turn is given, too, here and in the other revision.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from experiments.harness import Experiment, Run, option, records
from experiments.harness.options import count

ROOT = Path(__file__).resolve().parents[1]
TURN = 0.004
"""Seconds that a process repeats a call in its turn, at least once."""
DERIVATIVES = "arm", "arm_minimum_time", "quadrotor", "quadruped_stand", "quadruped_trot", "soft_manipulator_reach"
SOLVES = "arm", "cartpole", "pendulum_limits", "arm_obstacle", "quadruped_stand", "soft_manipulator_reach"
"""Problems whose systems are differentiated, and those that are solved."""
ITERATIONS = [f"{solver} arm{box} {N}" for solver in ("iLQR", "DDP") for box in ("", "+limits") for N in (100, 20, 10)]
"""The arm with so many knots, with limits of its torques and without."""
CONSTRAINED = (
    "bead_on_circle", "brachistochrone", "minimum_time_integrator", "moon_lander", "hang_glider", "cart_pole", "crane",
)  # fmt: skip
"""Problems of `experiments.constraints`."""
GROWTH = "arm 200", "arm 2000", "arm 20000", "quadruped_trot 62", "quadruped_trot 620", "quadruped_trot 6200"
"""Problems of 2 s and of 0.62 s with so many knots, of which a few iterations are made."""
CYCLES = "iLQR constrained", "iLQR unconstrained", "DDP constrained", "DDP unconstrained"
"""Loops of `experiments.mpc_latency`."""

_SERVE = """
import dataclasses, sys, time
import numpy as np
import problems, trajopt

def solves(solver, problem, **options):
    solver = trajopt.ILQR() if solver == "iLQR" else trajopt.DDP()
    return lambda: max(solver.solve(problem, **options).iterations, 1)

def calls_of(name):
    what, _, problem = name.partition(" ")
    if what == "cycle":
        from experiments.mpc_latency.study import SOLVERS, Loop
        solver, kind = problem.split()
        return lambda loop=Loop(SOLVERS[solver], kind == "constrained", 0): loop.cycle() and 1
    if what == "benchmark":
        from experiments.constraints.catalogue import statement
        from experiments.constraints.residuals import problem_of
        from experiments.constraints.starts import controls
        statement = statement(problem)
        return solves("DDP", problem_of(statement), us=controls(statement, 0, 0))
    if what == "growth":
        name, N = problem.split()
        seconds = 2.0 if name == "arm" else 0.62
        problem, solver = problems.make(name, horizon=int(N), dt=seconds / int(N)), trajopt.ILQR(max_iterations=8)
        return lambda: max(solver.solve(problem).iterations, 1)
    if what == "iteration":
        solver, arm, N = problem.split()
        problem = dataclasses.replace(problems.make("arm"), horizon=int(N), us_init=None)
        limits = [trajopt.ControlBounds.from_model(problem.system)] if arm != "arm" else []
        return solves(solver, dataclasses.replace(problem, constraints=limits))
    problem = problems.make(problem)
    if what in ("iLQR", "DDP"):
        return solves(what, problem)
    solution, system = trajopt.ILQR(max_iterations=3).solve(problem), problem.system
    xs, us = solution.xs, solution.us
    lam = np.random.default_rng(1).standard_normal((len(us), system.ndx))
    return {
        "first": lambda: system.linearize(xs, us),
        "second": lambda: system.hessian_products(xs, us, lam),
        "expansion": lambda: trajopt.expand(problem, xs, us),
        "rollout": lambda: system.rollout(problem.x0, us),
    }[what]

known = {}
for line in sys.stdin:
    turn, name = line.rstrip().split(" ", 1)
    if name not in known:
        known[name] = calls_of(name)
        known[name]()
    call, count, begin, iterations = known[name], 0, time.perf_counter(), None
    while count == 0 or time.perf_counter() - begin < float(turn):
        iterations = call()
        count += 1
    print((time.perf_counter() - begin) / count, iterations if isinstance(iterations, int) else 0, flush=True)
"""


class Copy:
    """A process that times calls with the packages of a folder."""

    def __init__(self, folder: Path) -> None:
        one = {name: "1" for name in ("TRAJOPT_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")}
        process = subprocess.Popen(
            [sys.executable, "-c", _SERVE], cwd=folder, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, **one, "PYTHONPATH": str(folder)},
        )  # fmt: skip
        assert process.stdin is not None and process.stdout is not None
        self._process, self._questions, self._answers = process, process.stdin, process.stdout

    def seconds(self, name: str, turn: float = TURN) -> tuple[float, int]:
        """Mean time of a call in one turn, and its iterations, 0 where it has none."""
        self._questions.write(f"{turn} {name}\n")
        self._questions.flush()
        answer = self._answers.readline()
        if not answer:
            raise RuntimeError(f"{name}: the process has ended with {self._process.wait()}")
        seconds, iterations = answer.split()
        return float(seconds), int(iterations)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@contextmanager
def copy_of(base: str) -> Iterator[Path]:
    """A folder with the files of a revision; the folder itself if `base` is one."""
    if Path(base).is_dir():
        yield Path(base).resolve()
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", base], cwd=ROOT, capture_output=True)
        if archive.returncode:
            raise SystemExit(f"--base: got {base}, expected a revision or a folder")
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        yield Path(folder)


def calls(only: list[str] | None) -> list[str]:
    """Names of the calls that contain one of these words."""
    every = [f"{what} {name}" for name in DERIVATIVES for what in ("first", "second", "expansion", "rollout")]
    every += [f"{what} {name}" for name in SOLVES for what in ("iLQR", "DDP")]
    every += [f"iteration {name}" for name in ITERATIONS] + [f"benchmark {name}" for name in CONSTRAINED]
    every += [f"cycle {name}" for name in CYCLES] + [f"growth {name}" for name in GROWTH]
    found = [name for name in every if not only or any(word in name for word in only)]
    if not found:
        raise SystemExit(f"--only: got {' '.join(only or ())}, expected words of {', '.join(every)}")
    return found


def compared(copies: tuple[Copy, Copy], name: str, turns: int) -> dict[str, Any]:
    """Ratios of this copy's times to the base's."""
    times, iterations = np.empty((turns, 2)), [0, 0]
    for t in range(turns):
        for which in (0, 1) if t % 2 else (1, 0):
            times[t, which], iterations[which] = copies[which].seconds(name)
    ratios = times[:, 0] / times[:, 1]
    every = zip(times.min(axis=0), iterations, strict=True)
    least = [1e6 * float(time) / count if count else None for time, count in every]
    return {
        "call": name, "here_us": 1e6 * float(np.median(times[:, 0])), "base_us": 1e6 * float(np.median(times[:, 1])),
        "ratio": float(np.median(ratios)), "ratio_of_least": float(times[:, 0].min() / times[:, 1].min()),
        "iterations": iterations, "least_us_an_iteration": least,
        "quartiles": [float(x) for x in np.quantile(ratios, (0.25, 0.75))],
    }  # fmt: skip


def study(run: Run) -> dict[str, Any]:
    base = run.options.base
    with copy_of(base) as folder:
        copies = Copy(ROOT), Copy(folder)
        try:
            names, load = calls(run.options.only), os.getloadavg()[0]
            rows = [compared(copies, name, run.options.turns) for name in run.track(names, "calls")]
        finally:
            for copy in copies:
                copy.close()
    return {"base": base, "threads": 1, "load": [load, os.getloadavg()[0]], "rows": rows}


def tables(results: dict[str, Any]) -> list[Any]:
    headings = {
        "call": "call", "here_us": "here, us", "base_us": "base, us", "ratio": "median ratio",
        "ratio_of_least": "ratio of least", "iterations": "iterations, both",
        "least_us_an_iteration": "us an iteration, both",
    }  # fmt: skip
    load = ", ".join(f"{x:.1f}" for x in results["load"])
    title = f"Times relative to {results['base']}, one thread; load of the machine {load}"
    pairs = "iterations", "least_us_an_iteration"
    rows = [{**row, **{name: _pair(row[name]) for name in pairs}} for row in results["rows"]]
    return [records(title, rows, headings)]


def _pair(numbers: list[Any]) -> str:
    """Numbers of both copies, none where calls have no iterations."""
    return ", ".join(f"{x:.4g}" for x in numbers if x)


main = Experiment(
    "revisions",
    __doc__,
    study,
    options=(
        option("--base", default="HEAD", help="revision, or folder of another copy (default: %(default)s)"),
        count("--turns", 60, "turns of each call"),
        option("--only", nargs="+", metavar="WORD", help="calls whose names contain one of these words"),
    ),
    tables=tables,
)

if __name__ == "__main__":
    raise SystemExit(main())
