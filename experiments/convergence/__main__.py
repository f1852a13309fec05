"""Measure how iLQR and DDP converge, and write tables, data and figures.

    python -m experiments.convergence [--quick] [--out DIR] [--seed N]

Writes DIR/convergence.json (all figures and histories), DIR/gradients.png and DIR/starts.png.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from experiments.convergence.figures import plot_gradients, plot_starts
from experiments.convergence.study import STUDIED, problem_record, starts_record, studied_names
from experiments.convergence.tables import problems_table, starts_table

STARTS, QUICK_STARTS = 50, 5


def parser() -> argparse.ArgumentParser:
    """The options."""
    result = argparse.ArgumentParser(prog="python -m experiments.convergence", description=__doc__.splitlines()[0])
    result.add_argument("--quick", action="store_true", help=f"{QUICK_STARTS} starts of each problem, not {STARTS}")
    result.add_argument("--out", type=Path, default=Path("results/convergence"), help="folder (default: %(default)s)")
    result.add_argument("--seed", type=int, default=0, help="seed of the perturbed starts (default: 0)")
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study; returns the exit code."""
    options = parser().parse_args(argv)
    count = QUICK_STARTS if options.quick else STARTS
    console = Console(width=140)  # the tables are wide; a narrow terminal or a file gets them whole
    names = studied_names()
    results = {"seed": options.seed, "problems": {}, "starts": {}}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("problems", total=len(names))
        for name in names:
            results["problems"][name] = problem_record(name)
            progress.advance(task)
        for name in STUDIED:
            task = progress.add_task(f"starts of {name}", total=count)
            results["starts"][name] = starts_record(name, count, options.seed, lambda task=task: progress.advance(task))
    console.print(problems_table(results["problems"]), starts_table(results["starts"]), sep="\n\n")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "convergence.json").write_text(json.dumps(results, indent=1), encoding="utf-8")
    plot_gradients(results["problems"], options.out / "gradients.png")
    plot_starts(results["starts"], options.out / "starts.png")
    for file in ("convergence.json", "gradients.png", "starts.png"):
        console.print(f"wrote {options.out / file}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
