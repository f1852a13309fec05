"""Where a number is not finite: which term or which array, and at which knot.  Asked only where a solve went wrong."""

from collections.abc import Sequence

import numpy as np

from trajopt.backward.expansions import Expansion, adjoint, expand, expand_exactly
from trajopt.problem.objective import Objective, first_not_finite, number_name
from trajopt.problem.problem import Problem
from trajopt.rows.rows import Rows


def of_derivatives(problem: Problem, rows: Rows | None, expansion: Expansion, xs: np.ndarray, us: np.ndarray) -> str:
    """Which first derivative or Gauss-Newton Hessian at xs, us, the expansion of which failed a sweep."""
    culprit = _of_terms(problem, rows, xs, us) or _of_dynamics(expand(problem, xs, us)[:2], ("fx", "fu"))
    if culprit is not None:
        return culprit
    costate, _ = adjoint(expansion)
    bad = np.flatnonzero(~np.isfinite(costate).all(axis=1))
    where = f" at knot {bad[-1]}" if len(bad) else ""
    return f"the gradient overflows{where} although costs and dynamics are finite"


def of_curvature(problem: Problem, rows: Rows | None, xs: np.ndarray, us: np.ndarray) -> str:
    """Which second derivative that Gauss-Newton Hessians leave out; nothing if all are finite."""
    culprit = problem.objective.curvature_culprit(xs, us, problem.system.ndx)
    if culprit is None and rows is not None:
        culprit = rows.curvature_culprit(xs, us)
    if culprit is None:
        ones = np.ones((problem.horizon, problem.system.ndx))
        exact = expand_exactly(problem, xs, us, ones, Objective(()), cost_curvature=False)
        culprit = _of_dynamics(exact[4:], ("Hxx", "Hux", "Huu"))
    return "" if culprit is None else f"{culprit}, so the last step does without curvature"


def of_trajectory(problem: Problem, rows: Rows | None, xs: np.ndarray, us: np.ndarray) -> str:
    """Which state, control, cost or constraint; or the dynamics, where states were given."""
    for what, points in (("the state is", xs), ("a control is", us)):
        t = first_not_finite(points)
        if t is not None:
            return f"{what} {number_name(points[t][~np.isfinite(points[t])][0])} at knot {t}"
    with np.errstate(all="ignore"):
        reached = np.asarray(problem.system.step(xs[:-1], us))
    t = first_not_finite(reached)
    if t is not None:
        return f"the step of the dynamics is not finite at knot {t}"
    return _of_terms(problem, rows, xs, us) or "the sum of costs overflows"


def _of_terms(problem: Problem, rows: Rows | None, xs: np.ndarray, us: np.ndarray) -> str | None:
    return problem.objective.culprit(xs, us, problem.system.ndx) or (None if rows is None else rows.culprit(xs, us))


def _of_dynamics(arrays: Sequence[np.ndarray], names: tuple[str, ...]) -> str | None:
    for name, array in zip(names, arrays, strict=True):
        knot = first_not_finite(array)
        if knot is not None:
            return f"{name} of the dynamics is not finite at knot {knot}"
    return None
