"""Measure how iLQR and DDP converge, and write tables, data and figures.

    python -m experiments.convergence [--quick] [--out DIR] [--seed N]

Writes DIR/convergence.json (all figures and histories), DIR/gradients.png and DIR/starts.png.
"""

import sys
from typing import Any

from experiments.convergence.figures import plot_gradients, plot_starts
from experiments.convergence.study import STUDIED, problem_record, starts_record, studied_names
from experiments.convergence.tables import problems_table, starts_table
from experiments.harness import Experiment, Run, quick, seed

STARTS, QUICK_STARTS = 50, 5


def study(run: Run) -> dict[str, Any]:
    """Every problem by every solver, then the perturbed starts."""
    count, number = QUICK_STARTS if run.options.quick else STARTS, run.options.seed
    problems = {name: problem_record(name) for name in run.track(studied_names(), "problems")}
    starts = {name: starts_record(name, run.track(range(count), f"starts of {name}"), number) for name in STUDIED}
    return {"seed": number, "problems": problems, "starts": starts}


main = Experiment(
    "convergence",
    __doc__,
    study,
    options=[quick(f"{QUICK_STARTS} starts of each problem, not {STARTS}"), seed("perturbed starts")],
    tables=lambda results: (problems_table(results["problems"]), starts_table(results["starts"])),
    pictures={
        "gradients.png": lambda results: plot_gradients(results["problems"]),
        "starts.png": lambda results: plot_starts(results["starts"]),
    },
    width=140,
)

if __name__ == "__main__":
    sys.exit(main())
