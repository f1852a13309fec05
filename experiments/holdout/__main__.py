"""Solve ten problems with default options on which the solvers were not tuned.

    python -m experiments.holdout [--only NAME ...] [--starts N] [--solver ddp | ilqr] [--limit SECONDS] [--out DIR]
                                  [--seed N]

Robots, vehicles and a crane, each with limits of states and a last state that holds exactly (`experiments.holdout`,
files `robots` and `vehicles`).  None is among the problems, the experiments or the tests by which parts and constants
of the solvers were chosen, and starts were fixed before the first solve: a first guess that anyone would make and
noise, or other loads, poses and velocities.  Five statements were mended after it: limits of the satellites and of the
cart did not bind, a wall had holes and was thinner than a step, and a hop had no time to lean into its flight.  They
are for judging, not for tuning: a change that was chosen by their figures needs other problems to be judged by.  All
have trajectories that keep the constraints, so that every "infeasible" is false.  Medians and the best cost are those
of the starts that converge.  Writes DIR/holdout.json with all runs.
"""

import sys
from typing import Any

from rich.table import Table

from experiments.harness import Experiment, Run, count, option, positive, seed, table
from experiments.holdout.study import PROBLEMS, SOLVERS, runs_of, summary

STARTS, LIMIT = 10, 60.0


def study(run: Run) -> dict[str, Any]:
    """Every problem from every start."""
    options = run.options
    advance = run.counter("solves", len(options.only) * options.starts)
    found = {
        name: runs_of(name, options.solver, options.starts, options.seed, options.limit, advance)
        for name in options.only
    }
    problems = {name: {"summary": summary(runs), "runs": runs} for name, runs in found.items()}
    settings = {"solver": options.solver, "seed": options.seed, "starts": options.starts, "limit": options.limit}
    return {**settings, "problems": problems}


def printed(results: dict[str, Any]) -> list[Table | str]:
    """A row for every problem, and the share of all starts that converge."""
    summaries = {name: record["summary"] for name, record in results["problems"].items()}
    rows = [
        [name, s["starts"], s["converged"], s["infeasible"], s["iterations"], s["seconds"], s["cost"],
         ", ".join(f"{n} {status}" for status, n in s["others"].items())]
        for name, s in summaries.items()
    ]  # fmt: skip
    headings = ("starts", "converged", "infeasible", "iterations", "seconds", "best cost")
    solved, starts = (sum(s[key] for s in summaries.values()) for key in ("converged", "starts"))
    shown = table(results["solver"], ("problem",), headings, (rows,), ("other ends",))
    return [shown, f"{solved} of {starts} starts converge ({solved / starts:.0%})"]


main = Experiment(
    "holdout",
    __doc__,
    study,
    options=[
        option(
            "--only", nargs="+", choices=tuple(PROBLEMS), default=tuple(PROBLEMS), metavar="NAME",
            help=f"which problems (default: all): {', '.join(PROBLEMS)}",
        ),
        count("--starts", STARTS, "of each problem"),
        option("--solver", choices=tuple(SOLVERS), default="ddp", help="with default options (default: %(default)s)"),
        option("--limit", type=positive, default=LIMIT, metavar="SECONDS", help="of a solve (default: %(default)s)"),
        seed("starts"),
    ],
    tables=printed,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
