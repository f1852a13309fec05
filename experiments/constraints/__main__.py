"""Solve constrained problems of the literature here and by IPOPT and FATROP, from the same starts.

    python -m experiments.constraints [--only NAME ...] [--starts N] [--solvers ddp ilqr ipopt fatrop] [--scaled]
                                      [--limit SECONDS] [--out DIR] [--seed N]

Every problem is stated once, in `experiments.constraints.catalogue`; both sides are made of that statement, on the same
discretization.  All solvers have their default options.  Ours start from controls alone, the others from the same
controls and the states they lead to.  IPOPT and FATROP need CasADi, of the `peers` extra; without it they are left out.
Times are wall-clock seconds of warm solves, without compilation and without the making of nonlinear programmes; CasADi
evaluates in its virtual machine.  Writes DIR/constraints.json (all runs), DIR/constraints.md and DIR/constraints.png.
"""

import sys
from typing import Any

from experiments.constraints.catalogue import NAMES
from experiments.constraints.contestants import SOLVERS, available
from experiments.constraints.figures import plot
from experiments.constraints.study import SCALES, geometric_means, problem_record, scaled_record
from experiments.constraints.tables import markdown, printed
from experiments.harness import Experiment, Run, count, option, positive, seed

STARTS, LIMIT = 10, 60.0


def study(run: Run) -> dict[str, Any]:
    """Every problem by every solver, or DDP with rows multiplied."""
    options = run.options
    settings = {"seed": options.seed, "starts": options.starts, "limit": options.limit}
    sizes = options.starts, options.seed, options.limit
    if options.scaled:
        advance = run.counter("solves", len(options.only) * options.starts * len(SCALES))
        return {**settings, "scaled": {name: scaled_record(name, *sizes, advance) for name in options.only}}
    advance = run.counter("solves", len(options.only) * options.starts * len(options.solvers))
    problems = {name: problem_record(name, options.solvers, *sizes, advance) for name in options.only}
    results = {**settings, "problems": problems, "geometric_means": geometric_means(problems)}
    run.file("constraints.md").write_text(markdown(results), encoding="utf-8")
    run.picture("constraints.png", plot(problems))
    return results


main = Experiment(
    "constraints",
    __doc__,
    study,
    options=[
        option(
            "--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME",
            help=f"which problems (default: all): {', '.join(NAMES)}",
        ),
        count("--starts", STARTS, "of each problem"),
        option("--solvers", nargs="+", choices=SOLVERS, default=available(), metavar="NAME", help=", ".join(SOLVERS)),
        option("--scaled", action="store_true", help="only iterations of DDP, rows multiplied by 1, 1e3 and 1e-3"),
        option("--limit", type=positive, default=LIMIT, metavar="SECONDS", help="of a solve (default: %(default)s)"),
        seed("starts"),
    ],
    tables=printed,
    width=210,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
