"""The gradient of the Lagrangian of a solution,

    dJ/du_t + sum_i lam_i dr_i/du_t,

with J and r functions of the controls alone.  It vanishes at an optimum under constraints, limits of controls included.
Where the system is unstable so is its recursion, and rounding grows with the horizon; the gradient in changes of the
controls under feedback vanishes at the same points without that growth (`adjoint`).
"""

from __future__ import annotations

import numpy as np

from trajopt.backward.expansions import Expansion, adjoint, expand
from trajopt.interfaces.residual import at_knots
from trajopt.problem.constraints import ControlBounds
from trajopt.problem.transcription import transcription_of
from trajopt.results.records import SolutionData
from trajopt.results.stationary import solution_inside


def gradients_of_rows(solution: SolutionData) -> tuple[np.ndarray, np.ndarray]:
    """Gradients (N+1, ndx) and (N, nu) of all rows, each times its multiplier, in the state and in the control of each
    knot."""
    problem, xs, us, N = solution.problem, solution.xs, solution.us, len(solution.us)
    gx, gu = np.zeros((N + 1, problem.system.ndx)), np.zeros(us.shape)
    for constraint, report in zip(problem.constraints, solution.constraints, strict=True):
        if isinstance(constraint, ControlBounds):
            gu += report.multipliers
            continue
        for terminal in (False, True):
            rows = (report.knots == N) == terminal
            if rows.any():
                t, lam = report.knots[rows], report.multipliers[rows]
                residual = at_knots(constraint.residual, t)
                rx, ru = residual.jacobians(xs[t], None if terminal else us[t])
                gx[t] += np.einsum("ki,kij->kj", lam, rx)
                if ru is not None and not terminal:
                    gu[t] += np.einsum("ki,kij->kj", lam, ru)
    return gx, gu


def _expansion(solution: SolutionData) -> Expansion:
    """The expansion of the Lagrangian with the multipliers of the solution; its Hessians are those of the cost."""
    expansion = expand(solution.problem, solution.xs, solution.us)
    gx, gu = gradients_of_rows(solution)
    return expansion._replace(lx=expansion.lx + gx, lu=expansion.lu + gu)


def lagrangian_gradient(solution: SolutionData, closed_loop: bool = False) -> np.ndarray:
    """Gradient (N, nu) of the Lagrangian with respect to the controls, with the multipliers of the solution;
    closed_loop: with respect to changes of the controls under the gains of the solution."""
    by, inside = transcription_of(solution.problem), solution_inside(solution.problem, solution)
    gradient = adjoint(_expansion(inside), np.ascontiguousarray(inside.K) if closed_loop else None)[1]
    return gradient if by is None else by.gradient_outside(gradient)


def relative_gradient(solution: SolutionData) -> float:
    """Largest entry of the Lagrangian's gradient under feedback, relative to the largest of the terms whose sum it is;
    inf where it is not finite."""
    inside = solution_inside(solution.problem, solution)
    with np.errstate(all="ignore"):
        expansion = _expansion(inside)
        costate, gradient = adjoint(expansion, np.ascontiguousarray(inside.K))
        terms = np.abs(expansion.lu) + np.einsum("tij,ti->tj", np.abs(expansion.fu), np.abs(costate[1:]))
    largest, size = float(np.abs(gradient).max(initial=0.0)), float(terms.max(initial=0.0))
    if not (np.isfinite(largest) and np.isfinite(size)):
        return np.inf
    return largest / size if size > 0.0 else 0.0
