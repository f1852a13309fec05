"""What a first use costs: functions that numba compiles, and processor time, with an empty cache; and every later one.

    python -m experiments.cold_start [--budget | --warm] [--only NAME ...] [--starts N]

Processor seconds differ by half between two runs on one machine, and more between machines.  So they are also given in
units of a loop of Python that runs between compilations, and the budget that continuous integration holds is on what
does not differ: how many specialisations are compiled, and how many instructions LLVM is given for them.

Later uses are short scripts in processes of their own, which find their kernels on the disk and Python's bytecode of
all modules, as is usual; one that only imports numba says what of it is not the project's.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dynamics.compilation.ahead import VARIABLE, worker_count
from experiments.harness import Experiment, Run, count, either, in_turns, option, records

ROOT = Path(__file__).resolve().parents[1]
OWN = ROOT / "experiments" / "own_robots"
EXAMPLES = "quick_start", "quadruped", "soft_arm"
"""Run only where they are asked for."""
COMPARE = "trajopt.compare(problem, {'ilqr': trajopt.ILQR(), 'ddp': trajopt.DDP()})"
GALLERY = "arm", "quadruped_trot", "soft_manipulator_reach"
FUNCTIONS = {"pendulum": "pendulum from a function", "cartpole": "cart-pole from a function, on a rail"}


def solved_once(script: str) -> str:
    """A script with a robot of its own up to its problem, which DDP solves."""
    problem, _, _ = (OWN / f"{script}.py").read_text(encoding="utf-8").partition("\nprint(")
    return f"{problem}\ntrajopt.DDP().solve(problem)"


JOBS = {name: solved_once(script) for script, name in FUNCTIONS.items()} | {
    name: f"import problems, trajopt; problem = problems.make({name!r}); {COMPARE}" for name in GALLERY
}
"""One solve of users' functions, and what `trajopt compare` does of problems of the gallery, each in one process."""
BUDGET = ROOT / "tests" / "compilation_budget.json"
"""Raised by 2 % (from 97,441 instructions) when each driver and routine got an entry (`dynamics.simd.entries`), and by
15 % when the iteration was compiled, which serves all problems once it is (`trajopt.solvers.compiled`); lowered where
passes and flags were, and raised by 3 % when one closed loop came to serve all systems, gaps, limits and feedbacks."""
"""What `trajopt compare arm` may compile; an edit says that more is worth it."""
GROWTH = 1.05
WARM = {
    "import numba": "import numba",
    "arm": "import dynamics, trajopt, problems; trajopt.ILQR().solve(problems.make('arm'))",
    "pendulum by hand": """
import dynamics, trajopt
builder = dynamics.ModelBuilder()
builder.add_body("bob", "world", dynamics.Continuous("y"), mass=1.0, com=[0.0, 0.0, -1.0])
system = dynamics.RigidBodySystem(builder.build(), dt=0.02, integrator="rk4")
up, down = system.state([3.14]), system.state([0.0])
running = [trajopt.StateCost(system, up, [0.2, 0.1]), trajopt.ControlCost(0.02)]
trajopt.ILQR().solve(trajopt.Problem(system, down, 100, running, [trajopt.StateCost(system, up, [100.0, 10.0])]))
""",
}
"""Scripts whose start-up is measured."""

_MEASURE = """
import runpy, sys, time

from numba.core import codegen, event

def loop():
    start = time.process_time()
    sum(i * i % 7 for i in range(4000))
    return time.process_time() - start

class Clock(event.Listener):
    def __init__(self):
        self.last, self.unit = time.process_time(), min(loop() for _ in range(9))
        self.specialisations, self.units = 0, 0.0

    def on_start(self, ev):
        self.specialisations += 1
        self.on_end()

    def on_end(self, ev=None):
        passed = time.process_time() - self.last
        if passed > 0.02:
            unit = min(loop(), loop())
            self.units += 2.0 * passed / (unit + self.unit)
            self.last, self.unit = time.process_time(), unit


instructions, add = 0, codegen.CPUCodeLibrary.add_ir_module

def counting(self, module):
    global instructions
    instructions += sum(len(block.instructions) for f in module.functions for block in f.blocks)
    add(self, module)

codegen.CPUCodeLibrary.add_ir_module = counting
clock = Clock()
event.register("numba:compile", clock)
exec(sys.argv[1])
clock.on_end()
print()
print(clock.specialisations, instructions, time.process_time(), clock.units)
"""


def cold(name: str) -> dict[str, Any]:
    """Figures of a problem or of an example, with an empty cache, without other processes."""
    printed, seconds = _alone(name, 0)
    specialisations, instructions, processor, units = printed.split()[-4:]
    return {
        "solved": name,
        "specialisations": int(specialisations),
        "instructions": int(instructions),
        "processor seconds": float(processor),
        "loops": float(units),
        "seconds": seconds,
    }


def _alone(name: str, workers: int) -> tuple[str, float]:
    """What a process prints that begins with an empty cache, and how long it takes."""
    path = ROOT / "examples" / f"{name}.py"
    code = JOBS.get(name, f"runpy.run_path({str(path)!r})")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # a worker may be at its last function
        variables = {"TRAJOPT_CACHE_DIR": f"{folder}/cache", "MPLBACKEND": "agg", "TRAJOPT_QUIET": "1"}
        command = [sys.executable, "-c", _MEASURE, code]
        env, start = {**os.environ, **variables, VARIABLE: str(workers)}, time.perf_counter()
        done = subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout, time.perf_counter() - start


_END = """
import sys, time
simd = sys.modules.get("dynamics.simd")
print()
print(time.process_time(), simd.PROGRESS.compiled if simd else 0)
"""


def warm(starts: int) -> list[dict[str, Any]]:
    """Medians over so many processes for each script, which take turns.  The first of each is not counted: it may have
    to compile, and to write bytecode."""
    printed = defaultdict(list)

    def process(name: str) -> None:
        command = [sys.executable, "-c", WARM[name] + _END]
        done = subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True)
        printed[name].append([float(x) for x in done.stdout.split()[-2:]])

    with tempfile.TemporaryDirectory() as folder:
        env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        env["PYTHONPYCACHEPREFIX"] = folder
        seconds = in_turns({name: partial(process, name) for name in WARM}, starts)
    return [
        {
            "script": name,
            "seconds": float(np.median(seconds[name])),
            "processor seconds": float(np.median([time for time, _ in printed[name][1:]])),
            "compiled": int(sum(compiled for _, compiled in printed[name][1:])),
        }
        for name in WARM
    ]


def all_compiled(run: Run) -> dict[str, Any]:
    """How long `trajopt compile` takes with an empty cache, and what scripts with robots and functions of their own,
    which no list knows, compile after it."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        env = {**os.environ, "TRAJOPT_CACHE_DIR": f"{folder}/cache", "TRAJOPT_QUIET": "1", "MPLBACKEND": "agg"}
        path, start = {"PYTHONPATH": str(ROOT)}, time.perf_counter()
        compile = [sys.executable, "-m", "trajopt", "compile"]
        subprocess.run(compile, cwd=folder, env={**env, **path}, check=True, stdout=subprocess.DEVNULL)
        rows = [{"script": "trajopt compile", "seconds": time.perf_counter() - start, "compiled": None}]
        for script in run.track(sorted(OWN.glob("[a-z]*.py")), "own robots and functions"):
            code = f"import runpy; runpy.run_path({str(script)!r})" + _END
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True
            )
            seconds, compiled = time.perf_counter() - start, int(done.stdout.split()[-1])
            rows.append({"script": script.stem, "seconds": seconds, "compiled": compiled})
        return {"all": rows}


def study(run: Run) -> dict[str, Any]:
    """One after another; with --budget the arm alone, beside what it may compile, with --warm the start-ups alone."""
    if run.options.warm:
        return {"rows": [], "warm": warm(run.options.starts), "over": []}
    names = ["arm"] if run.options.budget else run.options.only or list(JOBS)
    rows = [cold(name) for name in run.track(names, "cold")]
    if not run.options.budget:
        for row in run.track(rows, "with other processes"):
            row["seconds with other processes"] = _alone(row["solved"], worker_count(beside=1))[1]
        ahead = {} if run.options.only else all_compiled(run)
        return {"rows": rows, "warm": warm(run.options.starts), "over": [], "processors": os.cpu_count(), **ahead}
    allowed = json.loads(BUDGET.read_text(encoding="utf-8"))
    over = [key for key, most in allowed.items() if rows[0][key] > GROWTH * most]
    return {"rows": [*rows, {"solved": "budget", **allowed}], "warm": [], "over": over}


main = Experiment(
    "cold_start",
    __doc__,
    study,
    options=[
        either(
            option("--budget", action="store_true", help="the arm alone, exit code 1 if it compiles over 5 %% more"),
            option("--warm", action="store_true", help="start-ups with a filled cache alone"),
        ),
        option("--only", nargs="+", choices=(*JOBS, *EXAMPLES), help="with an empty cache, only these"),
        count("--starts", 9, "processes for each script with a filled cache"),
    ],
    tables=lambda results: [
        *(records("With an empty cache", rows) for rows in [results["rows"]] if rows),
        *(records("Start-up with a filled cache, medians", rows) for rows in [results["warm"]] if rows),
        *(records("All kernels, and what is compiled after them", rows) for rows in [results.get("all")] if rows),
        *(f"more {key} than the budget allows: see {BUDGET.relative_to(ROOT)}" for key in results["over"]),
    ],
    failed=lambda results: bool(results["over"]),
)

if __name__ == "__main__":
    sys.exit(main())
