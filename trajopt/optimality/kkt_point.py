"""A trajectory with its multipliers, and the second order of the Lagrangian there.

    L = J + sum_t lam_{t+1}'F_{t+1} + lam_0'F_0 + sum_i nu_i (c_i - limit_i)
    F_0 = difference(xs_0, x0),   F_{t+1} = difference(xs_{t+1}, f(xs_t, us_t))
    lam_N = lx_N + Cx_N'nu,   lam_t = lx_t + fx'lam_{t+1} + Cx_t'nu,   g = lu_t + fu'lam_{t+1} + Cu_t'nu

nu_i is positive where the upper limit is active, and g is zero at free controls.  The costate is that of the closed
loop, with K'g added at free controls: where the system is unstable the rest of g that the solver left grows without the
feedback, over one second of a humanoid a thousandfold.  Controls that g pushes against a limit are clamped: they are no
variables.  Equalities, and rows with a multiplier, are active: they hold as equalities.  A limit with zero multiplier
and zero slack is weakly active: a neighbouring solution may leave it or not.  Points are made, and their
active limits determined in `active_limits`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajopt.backward.expansions import Expansion
from trajopt.problem.problem import Problem
from trajopt.rows import Rows, Weights, with_terms


class Held(NamedTuple):
    """Held limits of rows (R,) and controls (N, m): -1 the lower, 1 the upper one or both, 0 free."""

    rows: np.ndarray
    controls: np.ndarray


class KKTPoint(NamedTuple):
    """A stationary point.

    xs (N+1, nx), us (N, m); costate (N+1, n), of which row 0 belongs to x0; nu (R,) and values c (R,) of all rows,
    scaled as in `rows` (None if there are none), their Jacobians C = (Cx, Cu); gradient (N, m) of L in the controls; e:
    first derivatives of dynamics and costs, and the Hessian of L; held: active limits, without weakly active ones;
    weak: the sides (-1, 1) of weakly active limits; penalty of the solver's rows, 0 without rows.
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
    def scale(self) -> float:
        """Unit of penalties: the largest entry of the Lagrangian's Hessian."""
        return max(float(np.abs(H).max(initial=0.0)) for H in (self.e.lxx, self.e.lux, self.e.luu)) or 1.0

    @property
    def multiplier_scale(self) -> float:
        """Unit of multipliers: the largest derivative of the costs."""
        return max(float(np.abs(g).max(initial=0.0)) for g in (self.e.lx, self.e.lu)) or 1.0


# --------------------------------------------------------------------------------------------
# Rows that hold as equalities: products with their Jacobians, all columns together.


class ActiveRows(NamedTuple):
    """A rows: their indices among all rows, sides, knots, Jacobians Cx (A, n) and Cu (A, m); `Cu_free` is Cu with zeros
    at clamped controls."""

    index: np.ndarray
    sides: np.ndarray
    knots: np.ndarray
    Cx: np.ndarray
    Cu: np.ndarray
    Cu_free: np.ndarray

    def along(self, dx: np.ndarray, du: np.ndarray) -> np.ndarray:
        """C (dx, du) (A, P) of dx (N+1, n, P), du (N, m, P)."""
        total, before = np.einsum("ri,rip->rp", self.Cx, dx[self.knots]), self.knots < len(du)
        total[before] += np.einsum("ri,rip->rp", self.Cu[before], du[self.knots[before]])
        return total

    def add_transposed(self, y: np.ndarray, gx: np.ndarray, gu: np.ndarray) -> None:
        """Add C'y, y (A, P), to gx (N+1, n, P), gu (N, m, P)."""
        before = self.knots < len(gu)
        np.add.at(gx, self.knots, self.Cx[:, :, None] * y[:, None, :])
        np.add.at(gu, self.knots[before], self.Cu[before][:, :, None] * y[before][:, None, :])

    def with_terms_in(self, e: Expansion, rho: float) -> Expansion:
        """The expansion of the free controls with rho C'C in its Hessians."""
        if len(self.index) == 0 or rho == 0.0:
            return e
        first = np.concatenate([[0], np.cumsum(np.bincount(self.knots, minlength=len(e.lx)))])
        w = np.full(len(self.index), rho)
        return with_terms(e, first, (self.Cx, self.Cu_free), Weights(np.zeros_like(w), w))


def active_rows(point: KKTPoint, sides: np.ndarray, clamped: np.ndarray) -> ActiveRows:
    """The rows of a point on these sides (R,), with these controls (N, m) clamped."""
    index = np.flatnonzero(sides)
    none = np.zeros(0, np.intp)
    knots = none if point.rows is None else np.searchsorted(point.rows.first, index, side="right") - 1
    Cx, Cu = (np.ascontiguousarray(C[index]) for C in point.C)
    free, before = Cu.copy(), knots < len(clamped)
    free[before] *= clamped[knots[before]] == 0
    return ActiveRows(index, sides[index], knots, Cx, Cu, free)
