"""Plans that are renewed by one iteration a cycle, beside plans that are solved to convergence, under noise."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import trajopt
from experiments.mpc_latency.ten import TEN

NOISES = 0.0, 1e-5, 1e-3, 1e-2
"""Standard deviations of what is added to every entry of the state's tangent after a cycle."""
SOLVERS: dict[str, trajopt.ILQR | trajopt.DDP] = {
    "iLQR": trajopt.ILQR(max_iterations=1),
    "DDP": trajopt.DDP(max_iterations=1),
}
SAID = trajopt.Status.LINE_SEARCH_FAILED, trajopt.Status.NOT_POSITIVE_DEFINITE, trajopt.Status.INVALID_DERIVATIVES
"""Statuses that say that a cycle has no new plan."""


class Motion(NamedTuple):
    """Costs of plans and of what was executed, with the best one can do from its end; the largest violation of a plan;
    cycles without a step, and those of them whose status does not say so."""

    plans: np.ndarray
    executed: float
    violation: float
    without: int
    silent: int


def start_of(problem: trajopt.Problem) -> trajopt.Solution:
    """The plan from which both begin."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return trajopt.DDP(max_iterations=1000).solve(problem)


def motion(
    problem: trajopt.Problem, solver: trajopt.ILQR | trajopt.DDP, start: trajopt.Solution, noise: float, cycles: int,
    seed: int, advance: Callable[[], Any] = lambda: None,
) -> Motion:  # fmt: skip
    """Cycles of a solver in closed loop with its own model, disturbed."""
    rng, system, plan, x = np.random.default_rng(seed), problem.system, start, problem.x0
    prepared, xs, us, plans = solver.prepare(problem), [x], [], []
    violation, without, silent = 0.0, 0, 0
    for _ in range(cycles):
        u = plan.us[0]
        x = system.integrate(system.step(x, u), noise * rng.standard_normal(system.ndx))
        xs.append(x)
        us.append(u)
        plan = prepared.solve(x, warm_start=prepared.shifted(plan))
        plans.append(plan.cost)
        violation = max(violation, plan.violation)
        if solver.max_iterations == 1:
            lost = not plan.converged and not (plan.log and plan.log[0].alpha > 0.0)
            without, silent = without + lost, silent + (lost and plan.status not in SAID)
        else:
            without += not plan.converged
        advance()
    way = trajopt.Problem(system, problem.x0, cycles, problem.running_costs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rest = trajopt.DDP(max_iterations=1000).solve(prepared.at(x), warm_start=plan)
    executed = way.objective.value(np.array(xs), np.array(us)) + rest.cost
    return Motion(np.array(plans), executed, violation, without, silent)


def disturbed(cycles: int, seed: int, advance: Callable[[], Any] = lambda: None) -> list[dict[str, Any]]:
    """For every problem, noise and solver: ratio of the largest costs of plans, relative excess of the cost of what was
    executed, largest violations, and cycles without a step."""
    rows = []
    for name, make in TEN.items():
        problem = make()
        start = start_of(problem)
        for noise in NOISES:
            best = motion(problem, trajopt.DDP(), start, noise, cycles, seed, advance)
            for kind, solver in SOLVERS.items():
                found = motion(problem, solver, start, noise, cycles, seed, advance)
                largest, converged = float(found.plans.max()), float(best.plans.max())
                rows.append({
                    "problem": name, "solver": kind, "noise": noise, "largest": largest,
                    "largest_converged": converged, "ratio": largest / converged, "executed": found.executed,
                    "excess": found.executed / best.executed - 1.0, "violation": found.violation,
                    "violation_converged": best.violation, "without": found.without,
                    "without_converged": best.without, "silent": found.silent,
                })  # fmt: skip
    return rows
