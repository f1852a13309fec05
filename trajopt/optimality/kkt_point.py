"""A trajectory with its multipliers, and the second order of the Lagrangian there.

    L = J + sum_t lam_{t+1}'F_{t+1} + lam_0'F_0 + sum_i nu_i (c_i - limit_i)
    F_0 = difference(xs_0, x0),   F_{t+1} = difference(xs_{t+1}, f(xs_t, us_t))
    lam_N = lx_N + Cx_N'nu,   lam_t = lx_t + fx'lam_{t+1} + Cx_t'nu,   0 = lu_t + fu'lam_{t+1} + Cu_t'nu   (free controls)

nu_i is positive where the upper limit presses.  Controls on a limit that the gradient presses against are clamped:
they are no variables.  Rows with a multiplier, and equalities, are active.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trajopt.backward.expansions import Expansion, adjoint, expand, expand_exactly
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.problem import Problem

if TYPE_CHECKING:
    from trajopt.results.records import ConstraintReport
from trajopt.rows.folding import with_prices
from trajopt.rows.packing import pack
from trajopt.rows.rows import Rows

ON_LIMIT = 1e-9
"""How near, relative to its size and one, a control is to a limit that it lies on."""


class ActiveRows(NamedTuple):
    """Rows that hold with equality: numbers (A,) among all rows, knots (A,), Jacobians Cx (A, ndx), Cu (A, nu), the
    multipliers (A,), the limits (A,) that they are held at."""

    index: np.ndarray
    knots: np.ndarray
    Cx: np.ndarray
    Cu: np.ndarray
    nu: np.ndarray
    limit: np.ndarray

    def along(self, dx: np.ndarray, du: np.ndarray) -> np.ndarray:
        """C (dx, du) (A, P) of dx (N+1, ndx, P), du (N, nu, P)."""
        total = np.einsum("ri,rip->rp", self.Cx, dx[self.knots])
        before = self.knots < len(du)
        total[before] += np.einsum("ri,rip->rp", self.Cu[before], du[self.knots[before]])
        return total

    def add_transposed(self, y: np.ndarray, gx: np.ndarray, gu: np.ndarray) -> None:
        """Add C'y, y (A, P), to gx (N+1, ndx, P), gu (N, nu, P)."""
        before = self.knots < len(gu)
        np.add.at(gx, self.knots, self.Cx[:, :, None] * y[:, None, :])
        np.add.at(gu, self.knots[before], self.Cu[before][:, :, None] * y[before][:, None, :])


class KKTPoint(NamedTuple):
    """A stationary point.

    xs (N+1, nx), us (N, nu); costate (N+1, ndx), of which row 0 belongs to x0; nu (R,) of all rows, scaled as they are;
    gradient (N, nu) of L in the controls; clamped (N, nu): -1 on the lower, 1 on the upper limit, else 0; rows: None
    without any; e: first derivatives of dynamics and costs, and the Hessian of L.
    """

    problem: Problem
    xs: np.ndarray
    us: np.ndarray
    costate: np.ndarray
    nu: np.ndarray
    gradient: np.ndarray
    clamped: np.ndarray
    rows: Rows | None
    active: ActiveRows
    e: Expansion

    @property
    def weak_controls(self) -> np.ndarray:
        """Clamped controls (N, nu) whose gradient is zero to rounding of its largest parts."""
        size = np.abs(self.e.lu) + np.einsum("tij,ti->tj", np.abs(self.e.fu), np.abs(self.costate[1:]))
        return (self.clamped != 0) & (np.abs(self.gradient) <= WEAK * size)


WEAK = 1e-6


def kkt_point(
    problem: Problem, xs: np.ndarray, us: np.ndarray, reports: Sequence[ConstraintReport]
) -> KKTPoint:
    """The point of a trajectory whose constraints have these reports, one for each of the problem's."""
    rows, nu = _rows(problem, reports)
    first = expand(problem, xs, us)
    C = None if rows is None else rows.linearized(xs, us)
    lagrangian = first if rows is None or C is None else with_prices(first, rows.first, C[1:], nu)
    costate, gradient = adjoint(lagrangian)
    e = expand_exactly(problem, xs, us, costate[1:])
    if rows is not None:
        rows.add_curvature(xs, us, nu, e[2:])
    active = _active(rows, nu, C, problem.system.ndx, problem.system.nu)
    return KKTPoint(problem, xs, us, costate, nu, gradient, _clamped(problem, us, gradient), rows, active, e)


def _rows(problem: Problem, reports: Sequence[ConstraintReport]) -> tuple[Rows | None, np.ndarray]:
    """Rows of all constraints but limits of controls, scaled as the solver had them, and their multipliers (R,)."""
    pairs = zip(problem.constraints, reports, strict=True)
    kept = [(one, report) for one, report in pairs if isinstance(one, ResidualConstraint)]
    if not kept:
        return None, np.zeros(0)
    rows = pack(problem, tuple(constraint for constraint, _ in kept))
    factors = [np.ones(one.nr) if report.factors is None else report.factors for one, report in kept]
    rows = rows.with_factors(factors)
    return rows, rows.packed("multipliers", [report.multipliers for _, report in kept]) / rows.D


def _active(rows: Rows | None, nu: np.ndarray, C: tuple[np.ndarray, ...] | None, n: int, m: int) -> ActiveRows:
    if rows is None or C is None:
        none, knots = np.zeros(0), np.zeros(0, np.intp)
        return ActiveRows(knots, knots, np.zeros((0, n)), np.zeros((0, m)), none, none)
    equal = rows.lower == rows.upper
    index = np.flatnonzero(equal | (nu != 0.0))
    knots = np.searchsorted(rows.first, index, side="right") - 1
    limit = np.where(equal | (nu > 0.0), rows.upper, rows.lower)[index]
    return ActiveRows(index, knots, C[1][index], C[2][index], nu[index], limit)


def _clamped(problem: Problem, us: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    if problem.control_limits is None:
        return np.zeros(us.shape, np.int8)
    lower, upper = problem.control_limits
    near = ON_LIMIT * (1.0 + np.abs(us))
    return np.where((us <= lower + near) & (gradient > 0.0), -1,
                    np.where((us >= upper - near) & (gradient < 0.0), 1, 0)).astype(np.int8)  # fmt: skip
