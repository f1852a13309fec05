"""The measurements, as plain dicts: every problem by both solvers from the same random starts.

Success.  A run that ends "converged" is in a minimum.  It is in the best one if its cost is within `SAME` of the lowest
that any solver converged to from any start of that problem, relative.

Iterations and seconds to tolerance, of converged runs: the first iterate from which on cost and violation stay within
`TOLERANCE`, relative, of the run's own last cost, and below `FEASIBLE`, in the constraint's units.  With limits and
other constraints the cost alone says little: before the violation has gone it is often below that of the minimum.
Iterations are counted as in the log, where each round of multipliers adds one, for its first expansion and sweep.

Pairs are starts from which both solvers converge to the same minimum, whichever that is.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import trajopt
from experiments.convergence.study import same_minimum
from experiments.ilqr_vs_ddp.starts import SOLVERS, Both, make_start
from trajopt.batch.outcomes import Outcome

SAME, TOLERANCE, FEASIBLE = 1e-6, 1e-8, 1e-6
MEASURES = ("iterations_to", "seconds_to", "iterations", "seconds")

Run = dict[str, Any]


def settled(solution: trajopt.Solution, tolerance: float = TOLERANCE) -> trajopt.IterationRecord:
    """The first iterate from which on all are within tolerance of the last."""
    distance = np.abs(solution.history("cost") - solution.cost)
    outside = (distance > tolerance * abs(solution.cost)) | (solution.history("violation") > FEASIBLE)
    outside[-1] = False
    return solution.log[int(np.flatnonzero(outside).max(initial=-1)) + 1]


def run_record(number: int, outcome: Outcome) -> Run:
    """What became of one start."""
    solution = outcome.solution
    run: Run = {"number": number, "status": outcome.ending, "seconds": outcome.seconds, "error": outcome.error}
    if solution is not None:
        tried = solution.log[-1].iteration if solution.log else 0  # no log of a start that diverges
        run |= {"cost": solution.cost, "violation": solution.violation, "iterations": tried}
    if solution is not None and solution.converged:
        reached = settled(solution)
        run |= {"iterations_to": reached.iteration, "seconds_to": reached.time}
    return run


def converged(run: Run) -> bool:
    """Whether a run ended in a minimum."""
    return run["status"] == "converged"


def runs_of(
    name: str, starts: int, seed: int, workers: int | None = None, folder: Path | None = None, times: float = 1.0
) -> dict[str, list[Run]]:
    """Both solvers from every start of a problem; with a folder, solutions are kept in it and taken from it."""
    parameters = [(name, number, seed, solver, times) for number in range(starts) for solver in SOLVERS]
    kept = None if folder is None else folder / name
    results = trajopt.solve_many(make_start, parameters, Both(), workers=workers, folder=kept, progress=False)
    runs: dict[str, list[Run]] = {solver: [] for solver in SOLVERS}
    for outcome in results:
        _, number, _, solver, _ = outcome.parameter
        runs[solver].append(run_record(number, outcome))
    return runs


def problem_record(runs: dict[str, list[Run]]) -> dict[str, Any]:
    """Everything about one problem, from the runs of both solvers."""
    costs = [run["cost"] for of_solver in runs.values() for run in of_solver if converged(run)]
    best = min(costs, default=None)
    solvers = {solver: {"summary": summary(of_solver, best), "runs": of_solver} for solver, of_solver in runs.items()}
    return {"best_cost": best, "pairs": pairs(runs["ilqr"], runs["ddp"]), "solvers": solvers}


def summary(runs: list[Run], best: float | None) -> dict[str, Any]:
    """Shares of all runs, and quartiles of the converged ones."""
    good = [run for run in runs if converged(run)]
    return {
        "starts": len(runs),
        "statuses": dict(Counter(run["status"] for run in runs)),
        "converged": len(good) / len(runs),
        "best": sum(same_minimum(run["cost"], best, SAME) for run in good) / len(runs) if best is not None else 0.0,
        "quartiles": {measure: quartiles([run[measure] for run in good]) for measure in MEASURES},
    }


def quartiles(values: list[float]) -> list[float] | None:
    """Lower quartile, median and upper quartile; None of nothing."""
    return np.quantile(values, [0.25, 0.5, 0.75]).tolist() if values else None


def pairs(ilqr: list[Run], ddp: list[Run]) -> dict[str, Any]:
    """DDP over iLQR from the same start to the same minimum: medians of the ratios; where DDP needs more, or twice."""
    both = [
        (a, b)
        for a, b in zip(ilqr, ddp, strict=True)
        if converged(a) and converged(b) and same_minimum(a["cost"], b["cost"], SAME)
    ]
    ratios = {
        measure: [b[measure] / a[measure] for a, b in both if a[measure] > 0]
        for measure in ("iterations_to", "seconds_to")
    }
    return {
        "count": len(both),
        "ratio": {measure: float(np.median(values)) if values else None for measure, values in ratios.items()},
        "ddp_fewer": sum(b["iterations_to"] < a["iterations_to"] for a, b in both),
        "ddp_more": sum(b["iterations_to"] > a["iterations_to"] for a, b in both),
        "ddp_twice": [b["number"] for a, b in both if b["iterations_to"] > 2 * a["iterations_to"]],
    }
