"""Residuals that sum their squares from rows: what `add_expansion` of such a residual is, and what it prepares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.simd import routine
from dynamics.simd.array_loops import first_of
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.squares import ResidualWeights, check_weights, expand_squares
from dynamics.validation import check_rows
from trajopt.costs.cost_of_residual import evaluated, linearized, prepared_rows
from trajopt.interfaces.residual import Blocks, at_knots

NO_BLOCKS = np.empty((0, 0)), np.empty((0, 0)), np.empty((0, 0, 0)), np.empty((0, 0, 0)), np.empty((0, 0, 0))
"""In place of an expansion that is not wanted."""


@routine
def _place_columns(source, start, J):
    """Write source (K, n, m) to the columns of J (K, n, ...) from `start` on."""
    for k in range(source.shape[0]):
        for i in range(source.shape[1]):
            for j in range(source.shape[2]):
                J[k, i, start + j] = source[k, i, j]


@routine
def _add(source, into):
    for k in range(source.shape[0]):
        for i in range(source.shape[1]):
            for j in range(source.shape[2]):
                into[k, i, j] += source[k, i, j]


def at_span(residual: Any, span: tuple[int, int], xs: np.ndarray, us: np.ndarray | None) -> tuple[Any, Any, Any]:
    """The residual for the points of these knots, and these."""
    start, stop = span
    if not 0 <= start < stop <= len(xs):
        raise ValueError(f"span: got {start}, {stop}, expected knots among those of {len(xs)} states")
    inside = residual if stop - start == len(xs) else at_knots(residual, np.arange(start, stop))
    return inside, xs[start:stop], None if us is None else us[start:stop]


def without_controls(blocks: Blocks) -> Blocks:
    """The blocks of an expansion for `expand_squares` of a function of states."""
    return blocks[0], NO_BLOCKS[1], blocks[2], *NO_BLOCKS[3:]


def check_blocks(blocks: Blocks, stop: int, n: int, m: int) -> None:
    """Raise ValueError unless blocks of an expansion reach this knot, and are those of n tangent components, and of m
    controls if there are any."""
    lx, lu, lxx, lux, luu = blocks
    shapes = [("lx", lx, (n,)), ("lxx", lxx, (n, n))]
    if m:
        shapes += [("lu", lu, (m,)), ("lux", lux, (m, n)), ("luu", luu, (m, m))]
    for name, block, row in shapes:
        check_rows(name, block, stop, row)


class SummedRows:
    """Base of residuals that evaluate their rows at any knots in one pass, and sum their squares from these.

    A class has `sums_squares`, true for itself alone, and where it has curvature `prepared_hessians`."""

    nr: int

    def add_expansion(
        self,
        span: tuple[int, int],
        xs: np.ndarray,
        us: np.ndarray | None,
        weights: ResidualWeights,
        target: Blocks | None,
        curvature: Blocks | None,
    ) -> float:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        of, *points = at_span(self, span, xs, us)
        if target is None:
            rows = evaluated(of, self.nr, *points), None, None
        else:
            rows = linearized(of, self.nr, *points)
        place, mu, (last, *arguments) = self._steps(span, rows, weights, target)
        for step, *given in place:
            step(*given)
        total = last(*arguments)
        if curvature is not None:
            for H, block in zip(of.hessian_products(*points, mu), curvature[2:], strict=True):
                if H is not None and block is not None:
                    _add(H, block[span[0] : span[1]])
        return total

    def prepared_sum(
        self,
        span: tuple[int, int],
        xs: np.ndarray,
        us: np.ndarray | None,
        weights: ResidualWeights,
        target: Blocks | None,
        curvature: Blocks | None,
    ) -> Callable[[], float] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        of, x, u = at_span(self, span, xs, us)
        evaluate = prepared_rows(of, x, u, target is not None)
        if evaluate is None:
            return None
        place, mu, last = self._steps(span, evaluate.arrays, weights, target)
        total, parts = PreparedCall(*last), [evaluate, *[PreparedCall(*step) for step in place]]
        if curvature is None:
            return PreparedCalls(*parts, total)
        found = of.prepared_hessians(x, u, mu)
        if found is None:
            return None
        bend, hessians = found
        add = [
            PreparedCall(_add, H, block[span[0] : span[1]])
            for H, block in zip(hessians, curvature[2:], strict=True)
            if H is not None and block is not None
        ]
        return PreparedCalls(*parts, total, bend, *add, PreparedCall(first_of, total.room.view(np.float64)))

    def prepared_hessians(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[Callable[[], Any], tuple[np.ndarray | None, ...]] | None:
        """A function without arguments that writes what `hessian_products` returns, and the arrays; None where there is
        none."""
        return PreparedCalls(), (None, None, None)

    def _steps(
        self, span: tuple[int, int], rows: tuple[Any, ...], weights: ResidualWeights, target: Blocks | None
    ) -> tuple[list[tuple[Any, ...]], np.ndarray, tuple[Any, ...]]:
        """Routines with their arguments that follow the evaluation of rows; multipliers (K, nr) that the last one
        writes; and this one, which returns the sum."""
        check_weights(weights, self.nr, span)
        (r, rx, ru), K = rows, span[1] - span[0]
        rx, ru = (np.zeros((K, self.nr, 0)) if S is None else S for S in (rx, ru))
        mu, J = np.zeros((K, self.nr)), np.zeros((K, self.nr, rx.shape[2] + ru.shape[2]))
        if target is not None:
            check_blocks(target, span[1], rx.shape[2], ru.shape[2])
        steps = [] if target is None else [(_place_columns, rx, 0, J), (_place_columns, ru, rx.shape[2], J)]
        into = NO_BLOCKS if target is None else target
        into = into if ru.shape[2] else without_controls(into)
        return steps, mu, (expand_squares, weights.layout, weights.rows, span[0], r, J, mu, *into)
