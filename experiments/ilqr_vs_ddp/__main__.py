"""Solve every problem from many random starts by iLQR and by DDP, and write tables, data and figures.

    python -m experiments.ilqr_vs_ddp [--starts N | --quick] [--problems NAME ...] [--workers N] [--folder DIR]
                                      [--out DIR] [--seed N] [--spread TIMES]

Writes OUT/ilqr_vs_ddp.json (all runs) and OUT/iterations.png, OUT/times.png, OUT/success.png.  Workers are processes of
one thread each; times depend on what else the machine does, ratios hardly.
"""

import sys
from pathlib import Path
from typing import Any

import problems
from experiments.harness import Experiment, Run, count, either, option, seed
from experiments.ilqr_vs_ddp.figures import plot_profiles, plot_success
from experiments.ilqr_vs_ddp.study import FEASIBLE, SAME, TOLERANCE, problem_record, runs_of
from experiments.ilqr_vs_ddp.tables import pairs_table, solvers_table

STARTS, QUICK_STARTS = 100, 5


def study(run: Run) -> dict[str, Any]:
    """Every problem by both solvers."""
    options = run.options
    return {
        "seed": options.seed,
        "starts": options.starts,
        "spread": options.spread,
        "tolerances": {"same_minimum": SAME, "cost": TOLERANCE, "violation": FEASIBLE},
        "problems": {
            name: problem_record(
                runs_of(name, options.starts, options.seed, options.workers, options.folder, options.spread)
            )
            for name in run.track(options.problems, "problems")
        },
    }


main = Experiment(
    "ilqr_vs_ddp",
    __doc__,
    study,
    options=[
        either(
            count("--starts", STARTS, "of each problem"),
            option("--quick", dest="starts", action="store_const", const=QUICK_STARTS, help=f"--starts {QUICK_STARTS}"),
        ),
        option(
            "--problems", nargs="+", choices=problems.names(), default=problems.names(), metavar="NAME",
            help="which problems (default: all; 'trajopt list' shows them)",
        ),
        count("--workers", None, "processes (default: one for each processor)"),
        option(
            "--folder", type=Path, metavar="DIR",
            help="keep every solution here, and take those that are there from an earlier run of the same code",
        ),
        option("--spread", type=float, default=1.0, metavar="TIMES", help="of starts, times the usual (default: 1)"),
        seed("starts"),
    ],
    tables=lambda results: (solvers_table(results["problems"]), pairs_table(results["problems"])),
    pictures={
        "iterations.png": lambda results: plot_profiles(
            results["problems"], "iterations_to", 1.0, "iterations to 1e-8 of the minimum"
        ),
        "times.png": lambda results: plot_profiles(
            results["problems"], "seconds_to", 1e3, "time to 1e-8 of the minimum [ms]"
        ),
        "success.png": lambda results: plot_success(results["problems"]),
    },
    width=170,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
