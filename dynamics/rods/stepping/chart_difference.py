"""Differences of states of soft robots with joints that may change their chart, and what these changes do to steps.

    difference    r = c(x) - x_ref, each joint of x in that of its charts which is nearer to x_ref
    expansion     J = c',  H = Hessian of mu'c: 1 and 0 in the chart of x_ref

A step ends in the chart of the knot that follows, if there is one, else in that in which steps end.  With f the step
in the chart of its start, F = df/d(x, u), and c the change of chart,

    d(c f) = c'F      Hessian of lam'(c f) = that of (c'lam)'f + F' Hess(lam'c) F
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.rods.kinematics.chart_changes import beyond, change, change_derivatives, farther
from dynamics.simd.squares import weighted_squares

_NO_ROWS, _NO_BLOCKS = np.empty((0, 0)), np.empty((0, 0, 0))


class ChartDifference:
    """r = x (-) x_ref (nx,), x_ref (nx,), of joints with the coordinates `turns` (J, 6); a residual."""

    sums_squares = True

    def __init__(self, turns: np.ndarray, x_ref: np.ndarray) -> None:
        self._turns, self._reference, self.nr = turns, np.array(x_ref, dtype=np.float64), len(x_ref)
        self._key = turns.tobytes(), self._reference.tobytes()
        own = turns[turns >= 0]
        self._turned = np.concatenate([own, own + self.nr // 2])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChartDifference) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def evaluate(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nx)."""
        return moved_near(self._turns, self._reference, xs)[0] - self._reference

    def jacobians(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, None]:
        """rx (K, nx, nx), None."""
        return difference_expansion(self._turns, self._reference, xs, None)[0], None

    def hessian_products(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[np.ndarray | None, None, None]:
        """Hessian of mu'r (K, nx, nx)."""
        return difference_expansion(self._turns, self._reference, xs, mu)[1], None, None

    def weighted_squares(
        self, xs: np.ndarray, us: np.ndarray, weights: np.ndarray, start: int, stop: int, target: Any, curvature: Any
    ) -> float:
        """As `trajopt.interfaces.residual` has it."""
        figures, moved, rows = weights.reshape(len(weights), -1, self.nr)[:, :, self._turned], xs, np.zeros(0, np.int64)
        if figures[:, : 2 if figures.shape[1] == 2 else 1].any():  # else whatever charts they are in
            moved, rows = moved_near(self._turns, self._reference, xs[:stop], start)
        gradient, hessian = (_NO_ROWS, _NO_BLOCKS) if target is None else (target[0], target[2])
        if not len(rows) or (target is None and curvature is None):
            return weighted_squares(moved, self._reference, weights, start, stop, gradient, hessian)
        g, h = np.zeros(moved.shape), np.zeros((*moved.shape, self.nr))
        total = weighted_squares(moved, self._reference, weights, start, stop, g, h)
        J, H = difference_expansion(self._turns, self._reference, xs[rows], g[rows])
        g[rows] = np.einsum("kij,ki->kj", J, g[rows])
        h[rows] = J.swapaxes(1, 2) @ h[rows] @ J
        if target is not None:
            gradient[start:stop] += g[start:stop]
            hessian[start:stop] += h[start:stop]
        if curvature is not None:
            curvature[2][rows] += H
        return total


def moved_near(
    turns: np.ndarray, reference: np.ndarray, xs: np.ndarray, start: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """xs (K, nx) in the charts nearer to the reference (nx,) or (K, nx), from row `start` on, and the rows of which
    some joint has changed its chart; xs itself if there are none."""
    n = xs.shape[1] // 2
    which = np.zeros((len(xs), len(turns)), bool)
    which[start:] = farther(turns, reference if reference.ndim == 1 else reference[start:], xs[start:])
    rows = np.flatnonzero(which.any(axis=1))
    return (change(turns, n, xs, which) if len(rows) else xs), rows


def difference_expansion(
    turns: np.ndarray, reference: np.ndarray, xs: np.ndarray, mu: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Jacobian (K, nx, nx) of the difference from x_ref (nx,) or (K, nx) in xs (K, nx), and the Hessian of mu'r."""
    n = xs.shape[1] // 2
    return change_derivatives(turns, n, xs, farther(turns, reference, xs), mu)


def end_in_charts(
    turns: np.ndarray,
    ends: np.ndarray,
    xs: np.ndarray,
    lam: np.ndarray,
    F: tuple[np.ndarray, np.ndarray],
    H: tuple[np.ndarray, ...],
    again: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]],
) -> None:
    """Let steps end, and F = (fx, fu) (N or 0, nx, .) and H = (Hxx, Hux, Huu), in the charts that follow.

    ends (N, nx), of steps in the charts of their starts; xs (N or N+1, nx); lam (N or 0, nx); again : function of knots
    and their multipliers that returns fx, fu, Hxx, Hux, Huu in the charts of their starts"""
    N, n = ends.shape[0], ends.shape[1] // 2
    which = farther(turns, xs[1:], ends) if len(xs) > N else beyond(turns, ends)
    rows = np.flatnonzero(which.any(axis=1))
    if not len(rows):
        return
    lam = lam[rows] if len(lam) else np.zeros((len(rows), 2 * n))
    J, curved = change_derivatives(turns, n, ends[rows], which[rows], lam)
    fx, fu, *products = again(rows, np.einsum("kij,ki->kj", J, lam))
    for into, part in zip(F, (fx, fu), strict=True):
        if len(into):
            into[rows] = J @ part
    if len(H[0]):
        xx, uu = (X.swapaxes(1, 2) @ curved for X in (fx, fu))
        for into, part, more in zip(H, products, (xx @ fx, uu @ fx, uu @ fu), strict=True):
            into[rows] = part + more
