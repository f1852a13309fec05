"""Gains at active constraints: how exact they are, and how large, by the penalty of the sweep that they are of.

At a minimum with multipliers lam, whose active rows are held to first order, controls follow an initial state dx0 by

    [ Huu  J' ] [ du   ]     [ Hux ]
    [ J    0  ] [ dlam ] = - [ Jx  ] dx0        H of the Lagrangian, J of active rows, in the controls alone

with the states eliminated and clamped controls left out: a dense solve, and du_0/dx0 is what K is at knot 0.  A sweep
with the penalty rho, in units of the cost's largest derivative at the start and of scaled rows, has 1/rho in place of
the 0.  Rows with multipliers of about zero, as two of the double integrator's speed limit, are left out: there du_0 has
kinks, and this is its derivative to one side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import trajopt
from experiments.constraints.catalogue import statement
from experiments.constraints.residuals import problem_of
from trajopt.backward.expansions import Expansion
from trajopt.results.records import HELD
from trajopt.solvers.augmented_lagrangian import Multipliers, first_multipliers
from trajopt.solvers.formulation import EXACT, Curvature, Formulation, LocalModel
from trajopt.solvers.solve import transcribe

PROBLEMS = ("double_integrator", "arm_tip", "cart_pole")
PENALTIES = (1e2, 1e4, 1e6, 1e8, 1e10)
ACTIVE = 1e-6
"""An inequality is held where its multiplier is at least this, in units."""
LAST = 5


def at_solution(solution: trajopt.Solution, solver: trajopt.DDP) -> tuple[Formulation, LocalModel, np.ndarray, float]:
    """The formulation, its exact model at a solution, the multipliers of its rows, and the unit of penalties."""
    problem, formulation = solution.problem, transcribe(solution.problem, solver, Curvature())
    boxes = formulation.kept["transcribed"].boxed
    reports = [report for report, box in zip(solution.constraints, boxes, strict=True) if box is None]
    assert formulation.rows is not None
    factors: list[Any] = [report.factors for report in reports]
    rows = formulation.rows = formulation.rows.with_factors(factors)
    lam = rows.packed("multipliers", [report.multipliers for report in reports]) / rows.D
    held = np.repeat(problem.x0[None], problem.horizon + 1, axis=0) if solution.start == HELD else None
    first = formulation.expand(formulation.start(problem.us_init, held), dual=0.0 * lam)
    model = formulation.expand(formulation.start(solution.us, None), dual=lam)
    unit = first_multipliers(first, None, rows).scale
    return formulation, formulation.with_curvature(model, model.costate), lam, unit


def active_sides(formulation: Formulation, lam: np.ndarray, unit: float) -> np.ndarray:
    """Of every row (R,): 1 where it is held at its upper limit or both, -1 at its lower one, 0 where it is not held."""
    rows = formulation.rows
    assert rows is not None
    return np.where(rows.lower == rows.upper, 1, np.where(np.abs(lam) > ACTIVE * unit, np.sign(lam), 0)).astype(int)


def sensitivity(e: Expansion, first: np.ndarray, C: tuple[np.ndarray, np.ndarray], free: np.ndarray) -> np.ndarray:
    """du_0/dx0 (nu, ndx) by the dense solve.

    first (N+2,), C: knots of the active rows and their Jacobians; free (N, nu): controls that are not clamped."""
    (N, nu), n, (Cx, Cu) = free.shape, e.fx.shape[1], C
    X = np.zeros((N + 1, n, n + N * nu))  # dx_t by dx0 and du
    X[0, :, :n] = np.eye(n)
    U = np.zeros((N, nu, n + N * nu))
    H, J = np.zeros((n + N * nu, n + N * nu)), np.zeros((len(Cx), n + N * nu))
    for t in range(N + 1):
        at = slice(first[t], first[t + 1])
        H += X[t].T @ e.lxx[t] @ X[t]
        J[at] = Cx[at] @ X[t]
        if t < N:
            U[t, :, n + t * nu : n + (t + 1) * nu] = np.eye(nu)
            mixed = U[t].T @ e.lux[t] @ X[t]
            H += mixed + mixed.T + U[t].T @ e.luu[t] @ U[t]
            J[at] += Cu[at] @ U[t]
            X[t + 1] = e.fx[t] @ X[t] + e.fu[t] @ U[t]
    kept, zeros = n + np.flatnonzero(free), np.zeros((len(J), len(J)))
    matrix = np.block([[H[np.ix_(kept, kept)], J[:, kept].T], [J[:, kept], zeros]])
    du, result = np.linalg.lstsq(matrix, -np.vstack([H[kept, :n], J[:, :n]]), rcond=1e-14)[0], np.zeros((N * nu, n))
    result[kept - n] = du[: len(kept)]
    return result[:nu]


def gains_record(name: str, advance: Callable[[], None]) -> dict[str, Any]:
    """Of DDP's solution of a problem: errors of K at knot 0, relative to its largest entry, and largest entries of K at
    the last knots, by penalty, and those of the solution's own policy."""
    solver = trajopt.DDP()
    solution = solver.solve(problem_of(statement(name)))
    formulation, model, lam, unit = at_solution(solution, solver)
    rows, at = formulation.rows, model.rows
    assert rows is not None and at is not None
    sides, limits = active_sides(formulation, lam, unit), formulation.limits
    held, us = sides != 0, solution.us
    free = np.full(us.shape, True) if limits is None else (us > limits[0]) & (us < limits[1])
    count = np.concatenate([[0], np.cumsum(held)])[rows.first]
    expected = sensitivity(model.expansions[EXACT], count, (at.C[0][held], at.C[1][held]), free)

    def of(K: np.ndarray) -> dict[str, float]:
        error = float(np.abs(K[0] - expected).max() / np.abs(expected).max())
        return {"error": error, "largest": float(np.abs(K[-LAST:]).max())}

    record: dict[str, Any] = {"status": str(solution.status), "solution": of(solution.K), "penalties": {}}
    for penalty in PENALTIES:
        _, weights = Multipliers(lam, lam, penalty * unit, unit).weights(rows, at.c, sides)
        sweep = formulation.sweep(model._replace(rows=at._replace(weights=weights)), 0.0, EXACT)
        record["penalties"][f"{penalty:g}"] = of(sweep.K) if sweep.ok else None
        advance()
    return record
