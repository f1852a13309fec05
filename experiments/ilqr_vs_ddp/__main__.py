"""Solve every problem from many random starts by iLQR and by DDP, and write tables, data and figures.

    python -m experiments.ilqr_vs_ddp [--starts N | --quick] [--problems NAME ...] [--workers N] [--folder DIR]
                                      [--out DIR] [--seed N]

Writes OUT/ilqr_vs_ddp.json (all runs) and OUT/iterations.png, OUT/times.png, OUT/success.png.  Workers are processes of
one thread each; times depend on what else the machine does, ratios hardly.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

import problems
from experiments.ilqr_vs_ddp.figures import plot_profiles, plot_success
from experiments.ilqr_vs_ddp.study import FEASIBLE, SAME, TOLERANCE, problem_record, runs_of
from experiments.ilqr_vs_ddp.tables import pairs_table, solvers_table

STARTS, QUICK_STARTS = 100, 5


def parser() -> argparse.ArgumentParser:
    """The options."""
    description = (__doc__ or "").split("\n", 1)[0]
    result = argparse.ArgumentParser(prog="python -m experiments.ilqr_vs_ddp", description=description)
    starts = result.add_mutually_exclusive_group()
    starts.add_argument(
        "--starts", type=int, default=STARTS, metavar="N", help="of each problem (default: %(default)s)"
    )
    starts.add_argument(
        "--quick", dest="starts", action="store_const", const=QUICK_STARTS, help=f"--starts {QUICK_STARTS}"
    )
    result.add_argument(
        "--problems", nargs="+", choices=problems.names(), default=problems.names(), metavar="NAME",
        help="which problems (default: all; 'trajopt list' shows them)",
    )  # fmt: skip
    result.add_argument("--workers", type=int, metavar="N", help="processes (default: one for each processor)")
    result.add_argument(
        "--folder", type=Path, metavar="DIR",
        help="keep every solution here, and take those that are there from an earlier run of the same code",
    )  # fmt: skip
    result.add_argument("--out", type=Path, default=Path("results/ilqr_vs_ddp"), help="folder (default: %(default)s)")
    result.add_argument("--seed", type=int, default=0, help="seed of the starts (default: 0)")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; returns the exit code."""
    options = parser().parse_args(argv)
    for name in ("starts", "workers"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser().error(f"--{name}: got {value}, wanted at least 1")
    results = {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=len(options.problems))
        for name in options.problems:
            progress.update(task, description=name)
            runs = runs_of(name, options.starts, options.seed, options.workers, options.folder)
            results[name] = problem_record(runs)
            progress.advance(task)
    write(results, options)
    return 0


def write(results: dict, options: argparse.Namespace) -> None:
    """Tables to the terminal; data and figures to the folder."""
    console = Console(width=170)  # the tables are wide; a narrow terminal or a file gets them whole
    console.print(solvers_table(results), pairs_table(results), sep="\n\n")
    options.out.mkdir(parents=True, exist_ok=True)
    data = {
        "seed": options.seed,
        "starts": options.starts,
        "tolerances": {"same_minimum": SAME, "cost": TOLERANCE, "violation": FEASIBLE},
        "problems": results,
    }
    (options.out / "ilqr_vs_ddp.json").write_text(json.dumps(data, indent=1), encoding="utf-8")
    plot_profiles(results, "iterations_to", 1.0, "iterations to 1e-8 of the minimum", options.out / "iterations.png")
    plot_profiles(results, "seconds_to", 1e3, "time to 1e-8 of the minimum [ms]", options.out / "times.png")
    plot_success(results, options.out / "success.png")
    for file in ("ilqr_vs_ddp.json", "iterations.png", "times.png", "success.png"):
        console.print(f"wrote {options.out / file}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
