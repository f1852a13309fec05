"""The measurements, as plain dicts: every problem by every solver, and iLQR against DDP from perturbed starts."""

from collections.abc import Iterable
from typing import Any

import numpy as np

import problems
import trajopt
from experiments.convergence.starts import kind_of, perturbed

MODES = ("parallel", "tensor")
SOLVERS = {"ilqr": trajopt.ILQR(), **{f"ddp {mode}": trajopt.DDP(hessian=mode) for mode in MODES}}
REFERENCE = "ddp parallel"
STUDIED = ("arm", "double_pendulum")
SAME_MINIMUM = 1e-8
"""Relative difference of costs up to which two solutions count as the same minimum."""


def studied_names() -> list[str]:
    """The problems without constraints, whose tails show an order of convergence; `ilqr_vs_ddp` has them all."""
    return [name for name in problems.names() if not problems.make(name).constraints]


def same_minimum(a: float, b: float, tolerance: float = SAME_MINIMUM) -> bool:
    """Whether two costs agree within a relative tolerance."""
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def ending(solution: trajopt.Solution) -> dict[str, Any]:
    """How a solve ended."""
    return {"status": str(solution.status), "iterations": solution.iterations, "cost": solution.cost}


def tail_order(decrements: np.ndarray) -> float:
    """Order of convergence p in e_{k+1} ~ e_k^p, from the last three entries of a history."""
    a, b, c = np.log(decrements[-3:])
    return float((c - b) / (b - a))


def newton_decrements(solution: trajopt.Solution) -> np.ndarray:
    """(g' H^-1 g)^(1/2) of every iterate: the gradient norm that does not depend on the units of the controls."""
    return np.sqrt(2.0 * solution.history("predicted_decrease"))


def problem_record(name: str) -> dict[str, Any]:
    """Iterations, cost, status and histories of every solver on one problem."""
    problem = problems.make(name)
    solutions = {solver: method.solve(problem) for solver, method in SOLVERS.items()}
    reference = solutions[REFERENCE]
    return {
        solver: {
            **ending(solution),
            "same_minimum": same_minimum(solution.cost, reference.cost),
            "trajectory_difference": float(np.abs(solution.xs - reference.xs).max() / np.abs(reference.xs).max()),
            "tail_order": tail_order(newton_decrements(solution)),
            "gradient_norm": solution.history("gradient_norm").tolist(),
            "newton_decrement": newton_decrements(solution).tolist(),
            "step": solution.history("step").tolist(),
        }
        for solver, solution in solutions.items()
    }


def start_record(problem: trajopt.Problem, number: int, seed: int) -> dict[str, Any]:
    """Both solvers from one perturbed start."""
    start = perturbed(problem, number, seed)
    ilqr, ddp = SOLVERS["ilqr"].solve(start), SOLVERS[REFERENCE].solve(start)
    return {
        "number": number,
        "kind": kind_of(number),
        "ilqr": ending(ilqr),
        "ddp": ending(ddp),
        "same_minimum": same_minimum(ilqr.cost, ddp.cost),
    }


def summary(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Statistics of some starts; cost difference is the largest relative one among starts with the same minimum."""
    ilqr, ddp = (np.array([record[solver]["iterations"] for record in records]) for solver in ("ilqr", "ddp"))
    same = [record for record in records if record["same_minimum"]]
    return {
        "starts": len(records),
        "converged": {
            solver: sum(record[solver]["status"] == "converged" for record in records) for solver in ("ilqr", "ddp")
        },
        "mean": {"ilqr": float(ilqr.mean()), "ddp": float(ddp.mean())},
        "median": {"ilqr": float(np.median(ilqr)), "ddp": float(np.median(ddp))},
        "max": {"ilqr": int(ilqr.max()), "ddp": int(ddp.max())},
        "ratio_of_means": float(ddp.mean() / ilqr.mean()),
        "fewer": int((ddp < ilqr).sum()),
        "as_many": int((ddp == ilqr).sum()),
        "most_more": int((ddp - ilqr).max()),
        "same_minimum": len(same),
        "cost_difference": max((abs(r["ilqr"]["cost"] / r["ddp"]["cost"] - 1.0) for r in same), default=0.0),
    }


def starts_record(name: str, numbers: Iterable[int], seed: int) -> dict[str, Any]:
    """The perturbed starts of one problem that have these numbers, and their statistics by kind."""
    problem = problems.make(name)
    records = [start_record(problem, number, seed) for number in numbers]
    groups = {"all": records}
    groups |= {kind: [r for r in records if r["kind"] == kind] for kind in ("mild", "hard")}
    return {"summary": {group: summary(members) for group, members in groups.items() if members}, "starts": records}
