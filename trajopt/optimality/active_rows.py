"""Rows that hold as equalities: products with their Jacobians, all columns together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trajopt.backward.expansions import Expansion
from trajopt.optimality.kkt_point import KKTPoint
from trajopt.rows.augmented_terms import Weights, with_terms


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
