"""The measurements, as plain dicts.

Optima given back: each constrained problem is solved by both solvers, and by DDP once more from controls a tenth of the
largest away from the optimum's; what converges is given back to the solver that found it.

Moved states: the initial state of each problem is moved along every tangent direction at once, by 0.01 and by 0.05 in
their units, and solved from scratch and from the optimum before.  Problems whose initial state cannot move so, for
feet stand or loops are closed there, are left out.

Cycles: an arm goes to a pose that is a hard constraint, and plans anew by one iteration at every knot until it is
there, the horizon ending where it did; noise, in rad and rad/s, is added to every state that it comes to.
"""

from dataclasses import replace
from typing import Any

import numpy as np

import problems
import trajopt
from experiments.warm_starts.cases import cases, reach

SOLVERS = {"DDP": trajopt.DDP(), "iLQR": trajopt.ILQR()}
SAME = 1e-6
"""Costs that differ by less, relative, are those of one minimum."""
PERTURBED = 0.1
MOVES = (0.01, 0.05)
TURNS, NOISES, LEFT = (0.8, 1.2, 1.6), (0.0, 1e-4, 1e-3), 5
"""Cycles end with so many knots left."""

Results = dict[str, Any]


def returned(name: str) -> list[Results]:
    """Solutions of one constrained problem, given back."""
    problem = cases()[name]()
    starts: list[tuple[str, np.ndarray | None]] = [("DDP", None), ("iLQR", None)]
    first = SOLVERS["DDP"].solve(problem)
    if first.converged:
        scale = PERTURBED * np.abs(first.us).max(axis=0)
        starts.append(("DDP", first.us + scale * np.random.default_rng(0).standard_normal(first.us.shape)))
    found = []
    for solver, us in starts:
        solution = SOLVERS[solver].solve(problem, us)
        record = {"problem": name, "solver": solver, "perturbed": us is not None, "status": str(solution.status)}
        if solution.converged:
            again = SOLVERS[solver].solve(problem, warm_start=solution)
            record |= {
                "iterations": solution.iterations, "again": again.iterations, "again_status": str(again.status),
                "same": abs(again.cost - solution.cost) <= SAME * abs(solution.cost),
            }  # fmt: skip
        found.append(record)
    return found


def moved(name: str, solver: str) -> list[Results]:
    """One problem from moved initial states; empty where these cannot move."""
    problem, found = problems.make(name), []
    optimum = SOLVERS[solver].solve(problem)
    for move in MOVES if optimum.converged else ():
        try:
            there = replace(problem, x0=problem.system.integrate(problem.x0, np.full(problem.system.ndx, move)))
        except ValueError:
            return []
        cold, warm = SOLVERS[solver].solve(there), SOLVERS[solver].solve(there, warm_start=optimum)
        found.append({
            "problem": name, "solver": solver, "move": move,
            "cold": cold.iterations, "cold_status": str(cold.status), "cold_cost": cold.cost,
            "warm": warm.iterations, "warm_status": str(warm.status), "warm_cost": warm.cost,
            "more": cold.converged and not (warm.converged and warm.iterations <= cold.iterations),
            "worse": cold.converged and not warm.cost <= cold.cost + SAME * abs(cold.cost),
        })  # fmt: skip
    return found


def cycles(turn: float, noise: float) -> Results:
    """An arm that plans anew by one iteration a knot."""
    problem, one, rng = reach(turn), trajopt.DDP(max_iterations=1), np.random.default_rng(0)
    plan, x, violations = trajopt.DDP().solve(problem), problem.x0, []
    for k in range(1, problem.horizon - LEFT + 1):
        x = problem.system.step(x[None], plan.us[:1])[0]
        x = problem.system.integrate(x, noise * rng.standard_normal(problem.system.ndx))
        onwards = replace(problem, x0=x, horizon=problem.horizon - k, us_init=None)
        plan = one.solve(onwards, warm_start=plan.shifted(1))
        violations.append(plan.violation)
    best = trajopt.DDP().solve(onwards)
    return {
        "turn": turn, "noise": noise, "cycles": len(violations), "largest": max(violations),
        "median": float(np.median(violations)), "cost": plan.cost, "best": best.cost,
    }  # fmt: skip


def summary(records: list[Results]) -> Results:
    """Of moved states: how many take more iterations or find a worse minimum, and the median ratio."""
    ratios = [one["warm"] / one["cold"] for one in records if "converged" == one["cold_status"] and one["cold"] > 0]
    return {
        "count": len(records), "more": sum(one["more"] for one in records),
        "worse": sum(one["worse"] for one in records), "median": float(np.median(ratios)) if ratios else None,
    }  # fmt: skip
