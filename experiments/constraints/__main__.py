"""Solve constrained problems of the literature here and by IPOPT and FATROP, from the same starts.

    python -m experiments.constraints [--only NAME ...] [--starts N] [--solvers ddp ilqr ipopt fatrop]
                                      [--scaled | --gains | --pose | --poses | --ablation] [--limit SECONDS]
                                      [--out DIR] [--seed N]

Every problem is stated once, in `experiments.constraints.catalogue`; both sides are made of that statement, on the same
discretization.  All solvers have their default options.  Ours start from controls alone, the others from the same
controls and the states they lead to.  IPOPT and FATROP need CasADi, of the `peers` extra; without it they are left out.
Times are wall-clock seconds of warm solves, without compilation and without the making of nonlinear programmes; CasADi
evaluates in its virtual machine.  --gains compares the feedback of sweeps with a dense solve with active rows held, by
their penalty; --pose solves for an arm's terminal pose and rest with four weights of its torques, --poses
for those of --starts random postures; --ablation solves
with each part of the solver left out (twenty minutes).  Writes DIR/constraints.json (all runs), DIR/constraints.md and
DIR/constraints.png.
"""

import sys
from typing import Any

from experiments.constraints.ablation import VARIANTS, ablation_record
from experiments.constraints.arm_pose import WEIGHTS, pose_record, poses_record
from experiments.constraints.catalogue import NAMES
from experiments.constraints.contestants import OURS, SOLVERS, available
from experiments.constraints.figures import plot
from experiments.constraints.gains import PENALTIES, PROBLEMS, gains_record
from experiments.constraints.study import SCALES, geometric_means, problem_record, scaled_record
from experiments.constraints.tables import markdown, printed
from experiments.harness import Experiment, Run, count, either, option, positive, seed

STARTS, LIMIT = 10, 60.0


def study(run: Run) -> dict[str, Any]:
    """Every problem by every solver, or DDP with rows multiplied."""
    options = run.options
    settings = {"seed": options.seed, "starts": options.starts, "limit": options.limit}
    sizes = options.starts, options.seed, options.limit
    if options.scaled:
        advance = run.counter("solves", len(options.only) * options.starts * len(SCALES))
        return {**settings, "scaled": {name: scaled_record(name, *sizes, advance) for name in options.only}}
    if options.gains:
        advance = run.counter("sweeps", len(PROBLEMS) * len(PENALTIES))
        return {"gains": {name: gains_record(name, advance) for name in PROBLEMS}}
    if options.pose:
        advance = run.counter("solves", len(OURS) * len(WEIGHTS))
        return {"pose": {name: pose_record(solver, advance) for name, solver in OURS.items()}}
    if options.poses:
        advance = run.counter("solves", options.starts)
        return {**settings, "poses": poses_record(options.starts, options.seed, advance)}
    if options.ablation:
        advance = run.counter("solves", len(options.only) * options.starts * (1 + len(VARIANTS)))
        return {**settings, "ablation": ablation_record(options.only, *sizes, advance)}
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
        either(
            option("--scaled", action="store_true", help="only iterations of DDP, rows multiplied by 1, 1e3 and 1e-3"),
            option("--gains", action="store_true", help="only feedback at active constraints, by the penalty"),
            option("--pose", action="store_true", help="only an arm's terminal pose and rest, by weights of torques"),
            option("--poses", action="store_true", help="only an arm's terminal poses of random postures, by DDP"),
            option("--ablation", action="store_true", help="only DDP, with each of its parts left out"),
        ),
        option("--limit", type=positive, default=LIMIT, metavar="SECONDS", help="of a solve (default: %(default)s)"),
        seed("starts"),
    ],
    tables=printed,
    width=210,
)  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
