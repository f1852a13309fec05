"""What is known of a minimum: the smallest eigenvalues by counting and of dense matrices, and saddles left behind.

With `escape_record` a problem is solved with and without DDP's look at the curvature where it ends, from its own start
and from random ones: what that costs, and whether it leads elsewhere.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import scipy.linalg

import problems
import trajopt
from experiments.ilqr_vs_ddp.starts import controls
from experiments.sensitivity.dense import dense_hessian
from experiments.sensitivity.references import polished_solution
from experiments.sensitivity.saddles import SADDLES
from experiments.sensitivity.study import Record, check_calls, processor_time
from trajopt.results.stationary import stationary_point

WITH, WITHOUT = trajopt.DDP(), trajopt.DDP(escape=False)


def smallest(problem: trajopt.Problem, solution: trajopt.Solution) -> Record:
    """The smallest eigenvalue of the reduced Hessian relative to the metric, of a dense solver and counted."""
    found, (H, M) = solution.certificate(), dense_hessian(stationary_point(problem, solution))
    dense = scipy.linalg.eigh(H, M, eigvals_only=True)
    return {
        "dense": float(dense[0]),
        "counted": found.smallest_eigenvalue,
        "difference": abs(found.smallest_eigenvalue / float(dense[0]) - 1.0),
        "negative": [int((dense < 0.0).sum()), found.negative],
    }


def minimum_record(name: str) -> Record:
    """Of a problem's solution."""
    problem = problems.make(name)
    solution = polished_solution(problem, trajopt.DDP().solve(problem))
    return {"problem": name, "size": problem.horizon * problem.system.nu, **smallest(problem, solution)}


def saddle_record(name: str) -> Record:
    """Of a saddle: where solvers stop, and where DDP goes on to."""
    problem = SADDLES[name]()
    stuck, free = WITHOUT.solve(problem), WITH.solve(problem)
    ends = {solver: one.cost for solver, one in (("ilqr", trajopt.ILQR().solve(problem)), ("ddp", stuck))}
    return {
        "problem": name, **smallest(problem, stuck), "stuck": ends, "iterations": [stuck.iterations, free.iterations],
        "cost": free.cost, "minimum": free.certificate().minimum,
    }  # fmt: skip


def shows_a_minimum(solution: trajopt.Solution) -> bool:
    """Whether a solve that converged ended with an exact sweep without regularization, or did not converge."""
    last = solution.log[-1] if solution.log else None
    return not solution.converged or (last is not None and last.step == "exact" and last.mu == 0.0)


def escape_record(name: str, starts: int, seed: int, seconds: float) -> Record:
    """A problem from its own start and from so many random ones, with and without escapes."""
    problem, runs = problems.make(name), []
    us = [problem.us_init, *(controls(name, problem, number, seed) for number in range(starts))]
    for each in us:
        start = replace(problem, us_init=each)
        one, other = (solver.solve(start) for solver in (WITHOUT, WITH))
        runs.append({
            "iterations": [one.iterations, other.iterations], "costs": [one.cost, other.cost],
            "status": [str(one.status), str(other.status)], "saddle": "saddle" in other.message.lower(),
            "looked_at": not shows_a_minimum(one),
        })  # fmt: skip
    solution, times = WITHOUT.solve(problem), {}
    if solution.converged:
        calls: dict[str, Any] = {"solve": lambda: WITHOUT.solve(problem), **check_calls(problem, solution)}
        times = {call: processor_time(calls[call], seconds) for call in ("solve", "check")}
        times["iteration"] = times["solve"] / max(solution.iterations, 1)
    return {"problem": name, "runs": runs, "times": times}
