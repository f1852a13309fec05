"""What a first use costs: functions that numba compiles, and processor time, with an empty cache.

    python -m experiments.cold_start [--budget] [--only NAME ...]

Processor seconds differ by half between two runs on one machine, and more between machines.  So they are also given in
units of a loop of Python that runs between compilations, and the budget that continuous integration holds is on what
does not differ: how many specialisations are compiled, and how many instructions LLVM is given for them.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from experiments.harness import Experiment, Run, option, records

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = "quick_start", "quadruped", "soft_arm"
ARM = "import problems, trajopt; trajopt.compare(problems.make('arm'), {'ilqr': trajopt.ILQR(), 'ddp': trajopt.DDP()})"
"""What `trajopt compare arm` does, in one process."""
BUDGET = ROOT / "tests" / "compilation_budget.json"
"""Raised by 2 % (from 97,441 instructions) when each driver and routine got an entry (`dynamics.simd.entries`)."""
"""What `trajopt compare arm` may compile; an edit says that more is worth it."""
GROWTH = 1.05

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
    """Figures of the arm or of an example, with an empty cache."""
    path = ROOT / "examples" / f"{name}.py"
    code = ARM if name == "arm" else f"runpy.run_path({str(path)!r})"
    with tempfile.TemporaryDirectory() as folder:
        variables = {"TRAJOPT_CACHE_DIR": f"{folder}/cache", "MPLBACKEND": "agg"}
        command, env = [sys.executable, "-c", _MEASURE, code], {**os.environ, **variables}
        done = subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True)
    specialisations, instructions, seconds, units = done.stdout.split()[-4:]
    return {
        "solved": name,
        "specialisations": int(specialisations),
        "instructions": int(instructions),
        "seconds": float(seconds),
        "loops": float(units),
    }


def study(run: Run) -> dict[str, Any]:
    """One after another; with --budget the arm alone, beside what it may compile."""
    names = ["arm"] if run.options.budget else run.options.only or ["arm", *EXAMPLES]
    rows = [cold(name) for name in run.track(names, "cold")]
    if not run.options.budget:
        return {"rows": rows, "over": []}
    allowed = json.loads(BUDGET.read_text(encoding="utf-8"))
    over = [key for key, most in allowed.items() if rows[0][key] > GROWTH * most]
    return {"rows": [*rows, {"solved": "budget", **allowed}], "over": over}


main = Experiment(
    "cold_start",
    __doc__,
    study,
    options=[
        option("--budget", action="store_true", help="the arm alone, and exit code 1 if it compiles over 5 % more"),
        option("--only", nargs="+", choices=("arm", *EXAMPLES), help="only these"),
    ],
    tables=lambda results: [
        records("Processor time with an empty cache", results["rows"]),
        *(f"more {key} than the budget allows: see {BUDGET.relative_to(ROOT)}" for key in results["over"]),
    ],
    failed=lambda results: bool(results["over"]),
)

if __name__ == "__main__":
    sys.exit(main())
