"""Derivatives of solutions, measured: errors against problems solved again, times, predictions.

Errors are the largest entry's, relative to the largest entry, one for each parameter: of the exact derivatives, of
those with Gauss and Newton's Hessian, and of what users do without either, central differences of two solves each, at
the best of three steps, which nobody knows beforehand.  The references are differences of fourth order of polished
solves (`references`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

import trajopt
from experiments.sensitivity.cases import CASES, Case
from experiments.sensitivity.gauss_newton import by_gains, gauss_newton
from experiments.sensitivity.references import Reference, central, derivatives, polished_solution, reference
from trajopt.optimality.active_limits import kkt_point
from trajopt.optimality.first_order import default_steps
from trajopt.optimality.kkt_system import Indefinite, KKTSystem

PREDICTED = {"cartpole": "pole", "arm": "place[0]", "quadrotor": "mass", "quadruped_stand": "shift"}
"""Of these problems, what is changed by less and less."""
CHANGES = np.logspace(-4.0, -1.0, 10)
"""Of a parameter, relative to it, or to one where it is zero."""

STEPS = 0.1, 1.0, 10.0
"""Of central differences, of which the best is taken, in units of those of the references."""
ROUNDS = 25
NAMES = "xs", "us", "cost", "multipliers"

Record = dict[str, Any]


def relative(value: Any, expected: Any) -> float:
    """Largest deviation over the largest entry; 0 of nothing."""
    deviation, size = (float(np.abs(x).max(initial=0.0)) for x in (np.subtract(value, expected), np.asarray(expected)))
    return deviation / (size or 1.0)


def case_record(case: Case, count: int | None, seconds: float) -> Record:
    """One problem by its first `count` parameters, or all."""
    problem = case.make(case.p)
    rough = trajopt.DDP().solve(problem)
    solution = polished_solution(problem, rough)
    found = trajopt.sensitivity(case.make, case.p, solution)
    numbers = range(len(found.labels))[:count]
    kinds: dict[str, Callable[[int], list[Reference]]] = {
        "exact": lambda i: [derivatives(found, i)],
        "gauss_newton": lambda i: [derivatives(without, i)],
        "differences": lambda i: [central(case, rough, found.parameters, i, step) for step in STEPS],
    }
    without, errors = gauss_newton(found), {kind: [] for kind in kinds}
    for i in numbers:
        again = reference(case, solution, found.parameters, i)
        for kind, of in kinds.items():
            errors[kind].append(min((_errors(one, again) for one in of(i)), key=lambda found: found[1]))
    held, system = found.point.held, problem.system
    return {
        "sizes": [problem.horizon, system.ndx, system.nu],
        "parameters": [found.labels[i] for i in numbers],
        "held": [int((held.controls != 0).sum()), int((held.rows != 0).sum())],
        "residual": found.residual,
        "errors": errors,
        "gains": gain_errors(problem, rough, solution),
        "times": case_times(case, rough, len(found.labels), seconds),
    }


def _errors(found: Reference, expected: Reference) -> list[float]:
    return [relative(getattr(found, name), getattr(expected, name)) for name in NAMES]


def gain_errors(problem: trajopt.Problem, rough: trajopt.Solution, solution: trajopt.Solution) -> Record:
    """Of d us / d x0 by the gains of both solvers, against the exact one."""
    exact = solution.dx0()[1]
    ilqr = trajopt.ILQR().solve(problem, warm_start=solution)
    return {"ilqr": relative(by_gains(ilqr), exact), "ddp": relative(by_gains(rough), exact)}


def case_times(case: Case, solution: trajopt.Solution, count: int, seconds: float) -> Record:
    """Seconds of derivatives by all parameters, and of what else would give them."""
    make, p, problem = case.make, case.p, solution.problem
    found, covector = trajopt.sensitivity(make, p, solution), np.ones(solution.us.shape)
    found.vjp(us_bar=covector)
    calls: dict[str, Callable[[], Any]] = {
        "make": lambda: make(p),
        "solve": lambda: trajopt.DDP().solve(problem),
        "forward": lambda: trajopt.sensitivity(make, p, solution).us,
        "vjp": lambda: trajopt.sensitivity(make, p, solution).vjp(us_bar=covector),
        "next_vjp": lambda: found.vjp(us_bar=covector),
        "differences": lambda: [central(case, solution, found.parameters, i) for i in range(count)],
        **check_calls(problem, solution),
    }
    times = {name: processor_time(call, seconds) for name, call in calls.items()}
    return {**times, "iteration": times["solve"] / max(solution.iterations, 1), "iterations": solution.iterations}


def processor_time(call: Callable[[], object], seconds: float) -> float:
    """Median seconds of the processor, which other programs do not lengthen, of 3 to `ROUNDS` calls."""
    call()
    samples: list[float] = []
    while len(samples) < 3 or (len(samples) < ROUNDS and sum(samples) < seconds):
        begin = time.process_time()
        call()
        samples.append(time.process_time() - begin)
    return float(np.median(samples))


def check_calls(problem: trajopt.Problem, solution: trajopt.Solution) -> dict[str, Callable[[], Any]]:
    """What a solver asks for before it takes a point for a minimum, and the whole certificate."""

    def check() -> None:
        with suppress(Indefinite):
            KKTSystem(kkt_point(problem, solution.xs, solution.us, solution.constraints, K=solution.K))

    return {"check": check, "certificate": solution.certificate}


def prediction(case: Case, label: str, changes: np.ndarray) -> Record:
    """How far controls that are predicted for other parameters are from the optimal ones, relative to these."""
    problem = case.make(case.p)
    solution = polished_solution(problem, trajopt.DDP().solve(problem))
    found = trajopt.sensitivity(case.make, case.p, solution)
    predictors = {"exact": found, "gauss_newton": gauss_newton(found)}
    number = found.labels.index(label)
    size = abs(found.parameters.vector[number]) or 1e3 * default_steps(found.parameters)[number]
    errors: dict[str, list[float]] = {name: [] for name in (*predictors, "none")}
    for change in changes:
        dp = change * size * (np.arange(len(found.labels)) == number)
        other = case.make(found.parameters.at(found.parameters.vector + dp))
        us = polished_solution(other, trajopt.DDP().solve(other, warm_start=found.predict(dp))).us
        for name, predictor in predictors.items():
            errors[name].append(relative(predictor.predict(dp).us, us))
        errors["none"].append(relative(solution.us, us))
    slopes = {name: slope(changes, values) for name, values in errors.items()}
    return {"parameter": label, "changes": changes, "errors": errors, "slopes": slopes}


def slope(changes: np.ndarray, errors: list[float]) -> float:
    """Of errors over changes in logarithms, of the smaller half of the changes."""
    half = (len(changes) + 1) // 2
    return float(np.polyfit(np.log(changes[:half]), np.log(errors[:half]), 1)[0])


def cases_named(names: list[str]) -> dict[str, Case]:
    """Cases by name."""
    return {name: CASES[name] for name in names}
