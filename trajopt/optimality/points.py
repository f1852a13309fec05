"""Construction of KKT points from trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trajopt.backward.expansions import adjoint, expand, hessian_products, with_hessians
from trajopt.optimality.active_limits import side_of, with_limits
from trajopt.optimality.kkt_point import Held, KKTPoint
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.objective import zero_blocks
from trajopt.problem.problem import Problem
from trajopt.rows.augmented_terms import with_multipliers
from trajopt.rows.packing import pack
from trajopt.rows.rows import Rows

if TYPE_CHECKING:
    from trajopt.results.records import ConstraintReport


def kkt_point(
    problem: Problem,
    xs: np.ndarray,
    us: np.ndarray,
    reports: Sequence[ConstraintReport],
    nu: np.ndarray | None = None,
    K: np.ndarray | None = None,
) -> KKTPoint:
    """The KKT point of a trajectory with one report for each of the problem's constraints; nu (R,): multipliers of the
    rows in place of those reported; K (N, m, n): gains of the loop that costates follow."""
    rows, reported = _rows(problem, reports)
    penalty = max((report.penalty for report in reports), default=0.0)
    return point_of(problem, xs, us, rows, reported if nu is None else nu, penalty, problem.control_limits, K)


def point_of(
    problem: Problem,
    xs: np.ndarray,
    us: np.ndarray,
    rows: Rows | None,
    nu: np.ndarray,
    penalty: float,
    limits: tuple[np.ndarray, np.ndarray] | None,
    K: np.ndarray | None = None,
) -> KKTPoint:
    """The KKT point of a trajectory with these rows, their multipliers (R,), limits (N, m) of its controls, and
    gains."""
    n, m = problem.system.ndx, problem.system.nu
    c, C = np.zeros(0), (np.zeros((0, n)), np.zeros((0, m)))
    curvature = zero_blocks(problem.horizon, n, m)
    first = lagrangian = expand(problem, xs, us, curvature=curvature)
    if rows is not None:
        c, *jacobians = rows.linearized(xs, us)
        C = jacobians[0], jacobians[1]
        lagrangian = with_multipliers(first, rows.first, C, nu)
        rows.add_curvature(xs, us, nu, curvature)
    if K is not None:
        K = np.where((side_of(us, limits) == 0)[..., None], K, 0.0)
    costate, gradient = adjoint(lagrangian, K)
    with np.errstate(all="ignore"):
        e = with_hessians(first, curvature, hessian_products(problem.system, xs, us, costate[1:]))
    nothing = Held(np.zeros(len(nu), np.int8), np.zeros(us.shape, np.int8))
    point = KKTPoint(problem, xs, us, costate, nu, c, C, gradient, rows, e, nothing, nothing, penalty)
    return with_limits(point, limits)


def _rows(problem: Problem, reports: Sequence[ConstraintReport]) -> tuple[Rows | None, np.ndarray]:
    """Rows of all constraints but limits of controls, scaled as in the solver, and their multipliers (R,)."""
    pairs = zip(problem.constraints, reports, strict=True)
    kept = [(one, report) for one, report in pairs if isinstance(one, ResidualConstraint)]
    if not kept:
        return None, np.zeros(0)
    rows = pack(problem, tuple(constraint for constraint, _ in kept))
    rows = rows.with_factors([np.ones(one.nr) if report.factors is None else report.factors for one, report in kept])
    return rows, rows.packed("multipliers", [report.multipliers for _, report in kept]) / rows.D
