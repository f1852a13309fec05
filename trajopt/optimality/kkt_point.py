"""A trajectory with its multipliers, and the second order of the Lagrangian there.

    L = J + sum_t lam_{t+1}'F_{t+1} + lam_0'F_0 + sum_i nu_i (c_i - limit_i)
    F_0 = difference(xs_0, x0),   F_{t+1} = difference(xs_{t+1}, f(xs_t, us_t))
    lam_N = lx_N + Cx_N'nu,   lam_t = lx_t + fx'lam_{t+1} + Cx_t'nu,   g = lu_t + fu'lam_{t+1} + Cu_t'nu

nu_i is positive where the upper limit presses, and g is zero at free controls.  The costate is that of the closed loop,
with K'g added at free controls: where the system is unstable what the solver left of g grows without the feedback,
over a humanoid's second a thousandfold.  Controls that g presses against a limit
are clamped: they are no variables.  Equalities, and rows with a multiplier, are active: they hold as equalities.  What
lies on a limit without pressing is weak: a neighbouring solution may leave the limit or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from trajopt.backward.expansions import Expansion, adjoint, expand, hessian_products, with_hessians
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.objective import zero_blocks
from trajopt.problem.problem import Problem
from trajopt.rows.folding import with_prices
from trajopt.rows.packing import pack
from trajopt.rows.rows import Rows

if TYPE_CHECKING:
    from trajopt.results.records import ConstraintReport

ON_LIMIT = 1e-9
"""How near, relative to its size and one, a control is to a limit that it lies on."""
WEAK = 1e-6
"""Below this part of its unit a multiplier, and a slack, is none."""


class Held(NamedTuple):
    """What is held on which limit: rows (R,) and controls (N, m), -1 the lower, 1 the upper one or both, 0 free."""

    rows: np.ndarray
    controls: np.ndarray


class KKTPoint(NamedTuple):
    """A stationary point.

    xs (N+1, nx), us (N, m); costate (N+1, n), of which row 0 belongs to x0; nu (R,) and values c (R,) of all rows, as
    they are scaled in `rows` (None without any), their Jacobians C = (Cx, Cu); gradient (N, m) of L in the controls; e:
    first derivatives of dynamics and costs, and the Hessian of L; held, without what is weak, and weak: the limits
    (-1, 1) that these lie on; penalty: of the solver's rows, 0 without.
    """

    problem: Problem
    xs: np.ndarray
    us: np.ndarray
    costate: np.ndarray
    nu: np.ndarray
    c: np.ndarray
    C: tuple[np.ndarray, np.ndarray]
    gradient: np.ndarray
    rows: Rows | None
    e: Expansion
    held: Held
    weak: Held
    penalty: float

    @property
    def unit(self) -> float:
        """Of penalties: the largest entry of the Lagrangian's Hessian."""
        return max(float(np.abs(H).max(initial=0.0)) for H in (self.e.lxx, self.e.lux, self.e.luu)) or 1.0

    @property
    def price(self) -> float:
        """Of multipliers: the largest derivative of the costs."""
        return max(float(np.abs(g).max(initial=0.0)) for g in (self.e.lx, self.e.lu)) or 1.0


def kkt_point(
    problem: Problem,
    xs: np.ndarray,
    us: np.ndarray,
    reports: Sequence[ConstraintReport],
    nu: np.ndarray | None = None,
    K: np.ndarray | None = None,
) -> KKTPoint:
    """The point of a trajectory whose constraints have these reports, one for each of the problem's; nu (R,): other
    multipliers of the rows; K (N, m, n): gains of the loop that costates follow."""
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
    """The point of a trajectory with these rows, their multipliers (R,), limits (N, m) of its controls, and gains."""
    n, m = problem.system.ndx, problem.system.nu
    c, C = np.zeros(0), (np.zeros((0, n)), np.zeros((0, m)))
    curvature = zero_blocks(problem.horizon, n, m)
    first = lagrangian = expand(problem, xs, us, curvature=curvature)
    if rows is not None:
        c, *jacobians = rows.linearized(xs, us)
        C = jacobians[0], jacobians[1]
        lagrangian = with_prices(first, rows.first, C, nu)
        rows.add_curvature(xs, us, nu, curvature)
    if K is not None:
        K = np.where((_side(us, limits) == 0)[..., None], K, 0.0)
    costate, gradient = adjoint(lagrangian, K)
    with np.errstate(all="ignore"):
        e = with_hessians(first, curvature, hessian_products(problem.system, xs, us, costate[1:]))
    nothing = Held(np.zeros(len(nu), np.int8), np.zeros(us.shape, np.int8))
    point = KKTPoint(problem, xs, us, costate, nu, c, C, gradient, rows, e, nothing, nothing, penalty)
    return _sorted(point, limits)


def _rows(problem: Problem, reports: Sequence[ConstraintReport]) -> tuple[Rows | None, np.ndarray]:
    """Rows of all constraints but limits of controls, scaled as the solver had them, and their multipliers (R,)."""
    pairs = zip(problem.constraints, reports, strict=True)
    kept = [(one, report) for one, report in pairs if isinstance(one, ResidualConstraint)]
    if not kept:
        return None, np.zeros(0)
    rows = pack(problem, tuple(constraint for constraint, _ in kept))
    rows = rows.with_factors([np.ones(one.nr) if report.factors is None else report.factors for one, report in kept])
    return rows, rows.packed("multipliers", [report.multipliers for _, report in kept]) / rows.D


def _sorted(point: KKTPoint, limits: tuple[np.ndarray, np.ndarray] | None) -> KKTPoint:
    """The point with what is held, and what is weak, told from the rest."""
    rows, held, weak = np.zeros(len(point.nu), np.int8), *_controls(point, limits)
    weak_rows = np.zeros_like(rows)
    if point.rows is not None:
        lower, upper, nu, c = point.rows.lower, point.rows.upper, point.nu, point.c
        equal, small = lower == upper, np.abs(nu) <= WEAK * point.price
        with np.errstate(invalid="ignore"):
            near = np.where(upper - c <= WEAK, 1, np.where(c - lower <= WEAK, -1, 0))
        rows = np.where(equal, 1, np.where(small, 0, np.sign(nu))).astype(np.int8)
        weak_rows = np.where(~equal & small, near, 0).astype(np.int8)
    return point._replace(held=Held(rows, held), weak=Held(weak_rows, weak))


def _controls(point: KKTPoint, limits: tuple[np.ndarray, np.ndarray] | None) -> tuple[np.ndarray, np.ndarray]:
    """Clamped and weak controls (N, m); a control with one value left is clamped whichever way it is pressed."""
    us, g, e = point.us, point.gradient, point.e
    side = _side(us, limits)
    size = np.abs(e.lu) + np.einsum("tij,ti->tj", np.abs(e.fu), np.abs(point.costate[1:]))
    pressed = side * g < -WEAK * size
    held, weak = np.where(pressed, side, 0), np.where(pressed, 0, side)
    if limits is not None:
        locked = limits[0] == limits[1]
        held, weak = np.where(locked, 1, held), np.where(locked, 0, weak)
    return held.astype(np.int8), weak.astype(np.int8)


def _side(us: np.ndarray, limits: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """On which limit controls (N, m) lie, -1 or 1; 0 elsewhere."""
    if limits is None:
        return np.zeros(us.shape, np.int8)
    lower, upper = limits
    near = ON_LIMIT * (1.0 + np.abs(us))
    return np.where(us <= lower + near, -1, np.where(us >= upper - near, 1, 0))
