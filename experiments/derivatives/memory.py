"""How much memory the derivatives of 64 knots need at 50 degrees of freedom.

    python -m experiments.derivatives.memory [--quick] [--out DIR] [--seed N]

The issue is the second order: four dense tensors are 4 nv^3 numbers per knot, nearly all of them zero or twice there,
while the packed tensors keep each number once and the Hessian of w'ID needs no tensor at all.
Every case runs once in a process of its own, which has run the same code on a tiny robot before, so that the program
is in memory, with libraries and compiled kernels.  Two measures are then taken of one call, its results alive:
    resident   the peak of the process' resident memory, less what was resident before the call
    arrays     the peak of what numpy allocated (tracemalloc): results, workspaces of all threads, temporaries
Writes DIR/memory.json and DIR/memory.png.
"""

import multiprocessing
import resource
import sys
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.table import Table

import dynamics
from dynamics.derivatives.hessian import inverse_dynamics_expansion
from experiments.derivatives.chains import chain, humanoid
from experiments.derivatives.main_kernels import states
from experiments.derivatives.trees import derivatives
from experiments.harness import Run, records
from experiments.harness.pictures import grouped_bars
from trajopt.plotting.style import new_figure, tidy

KNOTS = 64
ROBOTS: dict[str, Callable[[], dynamics.RigidBodyModel]] = {"humanoid": humanoid, "chain 50": lambda: chain(50)}
PACKED, HESSIAN = "packed tensors", "first order + Hessian"
LIMITS = {HESSIAN: 30.0, PACKED: 200.0}
"""MB that the cases may need."""


def _contracted(model, q, v, a, w):
    tensors = dynamics.inverse_dynamics_second_derivatives(model, q, v, a, packed=True)
    return tensors, tensors.contract(w)


CASES: dict[str, Callable[..., object]] = {  # of the model, q, v, a, w
    "first order": lambda *x: dynamics.inverse_dynamics_derivatives(*x[:4]),
    HESSIAN: inverse_dynamics_expansion,
    PACKED: lambda *x: dynamics.inverse_dynamics_second_derivatives(*x[:4], packed=True),
    "packed tensors, contracted": _contracted,
    "dense tensors": lambda *x: dynamics.inverse_dynamics_second_derivatives(*x[:4]),
}


# ------------------------------------------------------------------------------------------------ one process
def resident_bytes(peak: bool) -> int:
    """Memory of this process that is resident now, or the most that has been.

    The system's own account of the peak, which stands in where there is no better one, is always the latter, and may
    begin with what the parent process had."""
    field = "VmHWM:" if peak else "VmRSS:"
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))
    except (OSError, StopIteration):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else 1024 * most


def measure(robot: str, case: str, K: int, seed: int) -> dict:
    """Megabytes that one call needs; meant for a fresh process."""
    model, call = ROBOTS[robot](), CASES[case]
    small = chain(2)
    call(small, *states(small, 1, seed))
    x = states(model, K, seed)
    before = resident_bytes(peak=False)
    tracemalloc.start()
    result = call(model, *x)
    arrays = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    growth = resident_bytes(peak=True) - before
    del result
    return {
        "robot": robot, "case": case, "nv": model.nv, "knots": K, "resident_MB": growth / 1e6,
        "arrays_MB": arrays / 1e6, "limit_MB": LIMITS.get(case), "program_MB": before / 1e6,
    }  # fmt: skip


def in_fresh_processes(tasks: Iterable[tuple]) -> list[dict]:
    """`measure` of every task, one at a time, each in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, max_tasks_per_child=1) as pool:
        return [pool.submit(measure, *task).result() for task in tasks]


# ------------------------------------------------------------------------------------------------ all of them
HEADINGS = {
    "robot": "robot", "nv": "nv", "knots": "knots", "case": "derivatives", "resident_MB": "resident [MB]",
    "arrays_MB": "arrays [MB]", "limit_MB": "limit [MB]", "program_MB": "program [MB]",
}  # fmt: skip


def draw(results: dict[str, Any]) -> Figure:
    """Peaks, a group of bars per case, and the limits."""
    rows, figure = results["rows"], new_figure(5.4, 4.2)
    axes = figure.subplots()
    for bars in grouped_bars(axes, rows, "case", "robot", lambda row: row["resident_MB"], horizontal=True):
        axes.bar_label(bars, fmt="%.0f", padding=2, fontsize=8)
    for place, case in enumerate(dict.fromkeys(row["case"] for row in rows)):
        if case in LIMITS:
            axes.plot(2 * [LIMITS[case]], [place - 0.45, place + 0.45], color="black", linewidth=2.0)
    axes.plot([], [], color="black", linewidth=2.0, label="limit at 64 knots")
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(1.0, 2.5 * max(r["resident_MB"] for r in rows))
    tidy(axes, f"peak of resident memory [MB], {rows[0]['knots']} knots, nv = {rows[0]['nv']}", "")
    axes.legend(frameon=False, fontsize=8, loc="upper right")
    return figure


def study(run: Run) -> dict[str, Any]:
    """All cases."""
    robots, cases = (("humanoid",), (HESSIAN, PACKED)) if run.options.quick else (tuple(ROBOTS), tuple(CASES))
    tasks = [(robot, case, KNOTS, run.options.seed) for robot in robots for case in cases]
    return {"rows": in_fresh_processes(run.track(tasks, "cases"))}


def tables(results: dict[str, Any]) -> Iterator[Table]:
    """All peaks."""
    yield records("Memory of one call, at its peak", results["rows"], HEADINGS)


main = derivatives("memory", __doc__, study, tables, draw, width=140, threads=None)

if __name__ == "__main__":
    sys.exit(main())
