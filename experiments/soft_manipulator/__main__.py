"""Solve problems of soft robots by iLQR and DDP, and many targets of the manipulator; write tables, data and figures.

    python -m experiments.soft_manipulator [--targets N] [--seed N] [--out DIR]

Targets are where the manipulator's tip rests under random tensions.  Writes DIR/soft_manipulator.json and, for each
problem, DIR/<problem>_convergence.png, _controls.png and, of the manipulator, _shapes.png.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import problems
import trajopt
from dynamics.simd import num_threads
from experiments.ilqr_vs_ddp.tables import table
from experiments.soft_manipulator.figures import plot_shapes, plot_tensions
from experiments.soft_manipulator.study import PROBLEMS, SOLVERS, random_targets, solution_record, targets_record

TARGETS = 100


def parser() -> argparse.ArgumentParser:
    """The options."""
    description = (__doc__ or "").split("\n", 1)[0]
    result = argparse.ArgumentParser(prog="python -m experiments.soft_manipulator", description=description)
    result.add_argument("--targets", type=int, default=TARGETS, metavar="N", help="random ones (default: %(default)s)")
    result.add_argument("--seed", type=int, default=0, help="seed of the targets (default: 0)")
    result.add_argument(
        "--out", type=Path, default=Path("results/soft_manipulator"), help="folder (default: %(default)s)"
    )
    return result


def problems_table(records: dict[str, Any]) -> Table:
    """Every problem and solver, with the cost above the optimum in the last iterations."""
    result = table("soft robots", ("problem", "solver", "status"), ("iterations", "cost", "ms", "last cost gaps"))
    for name, record in records.items():
        for solver, entry in record.items():
            gaps = "  ".join(f"{gap:.0e}" for gap in entry["cost_gaps"][-5:-1])
            milliseconds = f"{1e3 * entry['seconds']:.0f}"
            result.add_row(
                name, solver, entry["status"], str(entry["iterations"]), f"{entry['cost']:.10g}", milliseconds, gaps
            )
        result.add_section()
    return result


def targets_table(record: dict[str, Any]) -> Table:
    """Shares and medians over the targets."""
    share = f"{record['same_optimum']:.0%}"
    title = f"{len(record['runs'])} targets, the same optimum in {share}; medians"
    result = table(title, ("solver",), ("success", "iterations", "ms", "distance [mm]", "speed [mm/s]"))
    for solver, s in record["summary"].items():
        figures = f"{1e3 * s['seconds']:.0f}", f"{1e3 * s['distance']:.3g}", f"{1e3 * s['speed']:.3g}"
        result.add_row(solver, f"{s['success']:.0%}", f"{s['iterations']:g}", *figures)
    return result


def goal_of(problem: trajopt.Problem) -> np.ndarray:
    """The target of the tip, or its path."""
    terminal: Any = problem.terminal_costs[0]
    running: Any = problem.running_costs[-1]
    return running.reference if problem.name == "soft_manipulator_track" else terminal.residual.target


def draw(solutions: dict[str, trajopt.Solution], out: Path) -> list[str]:
    """The figures of a problem; returns the names of their files."""
    problem = next(iter(solutions.values())).problem
    files = [f"{problem.name}_{what}.png" for what in ("convergence", "controls")]
    trajopt.plot_convergence(solutions, out / files[0])
    plot_tensions(solutions, out / files[1])
    if problem.name.startswith("soft_manipulator"):
        files.append(f"{problem.name}_shapes.png")
        plot_shapes(solutions["DDP"], out / files[2], goal_of(problem))
    return files


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; returns the exit code."""
    options = parser().parse_args(argv)
    if options.targets < 0:
        parser().error(f"--targets: got {options.targets}, wanted at least 0")
    console, data, files = Console(width=160), {"threads": num_threads(), "problems": {}}, ["soft_manipulator.json"]
    options.out.mkdir(parents=True, exist_ok=True)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for name in progress.track(PROBLEMS, description="problems"):
            solutions = trajopt.compare(problems.make(name), SOLVERS).solutions
            data["problems"][name] = {solver: solution_record(solutions[solver]) for solver in SOLVERS}
            files += draw(solutions, options.out)
        if options.targets:
            task = progress.add_task("targets", total=options.targets)
            targets = random_targets(options.targets, options.seed)
            data["targets"] = targets_record(targets, lambda: progress.advance(task))
    console.print(problems_table(data["problems"]))
    if options.targets:
        console.print(targets_table(data["targets"]))
    (options.out / files[0]).write_text(json.dumps(data, indent=1), encoding="utf-8")
    for file in files:
        console.print(f"wrote {options.out / file}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
