"""Residuals that sum their squares from rows: what `add_expansion` of such a residual is, and what it prepares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dynamics.simd import routine
from dynamics.simd.array_loops import add
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.squares import KnotSum
from dynamics.validation import check_blocks
from trajopt.costs.cost_of_residual import evaluated, linearized, prepared_rows
from trajopt.interfaces.residual import at_knots


@routine
def _place_columns(source, start, J):
    """Write source (K, n, m) to the columns of J (K, n, ...) from `start` on."""
    for k in range(source.shape[0]):
        for i in range(source.shape[1]):
            for j in range(source.shape[2]):
                J[k, i, start + j] = source[k, i, j]


def at_span(residual: Any, wanted: KnotSum) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """The residual for the points of a sum, and these."""
    (start, stop), xs, us = wanted[:3]
    if not 0 <= start < stop <= len(xs):
        raise ValueError(f"span: got {start}, {stop}, expected knots among those of {len(xs)} states")
    inside = residual if stop - start == len(xs) else at_knots(residual, np.arange(start, stop))
    return inside, xs[start:stop], None if us is None else us[start:stop]


def rows_of(residual: Any, wanted: KnotSum) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """r, rx and ru at the points of a sum; r alone where there is no target."""
    inside, xs, us = at_span(residual, wanted)
    if wanted.target is None:
        return evaluated(inside, residual.nr, xs, us), None, None
    return linearized(inside, residual.nr, xs, us)


def with_room(wanted: KnotSum, nr: int, rows: tuple[Any, ...]) -> tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]:
    """r, rx and ru, without columns where there are none; and arrays mu (K, nr), J = (rx, ru) (K, nr, nz) of as many
    numbers as the sum is one of.  Raises ValueError if its target or its weights have other sizes."""
    wanted.check_weights(nr)
    r: np.ndarray = rows[0]
    K, n = r.shape
    rx, ru = (np.zeros((K, n, 0)) if S is None else S for S in rows[1:])
    nx, nu = rx.shape[2], ru.shape[2]
    if wanted.target is not None:
        check_blocks(wanted.target, wanted.span[1], nx, nu)
    return (r, rx, ru), np.zeros((K, nr)), np.zeros((K, nr, nx + nu))


class SummedRows:
    """Base of residuals that evaluate their rows at any knots in one pass, and sum their squares from these.

    A class has `sums_squares`, true for itself alone, and where it has curvature `prepared_hessians`."""

    nr: int

    def add_expansion(self, wanted: KnotSum) -> float:
        """See `trajopt.interfaces.residual.SummedResidual`."""
        place, mu, (last, *arguments) = self._steps(wanted, rows_of(self, wanted))
        for step, *given in place:
            step(*given)
        total = last(*arguments)
        if wanted.curvature is not None:
            of, xs, us = at_span(self, wanted)
            for H, block in zip(of.hessian_products(xs, us, mu), wanted.curvature[2:], strict=True):
                if H is not None and block is not None:
                    block[slice(*wanted.span)] += H
        return total

    def prepared_sum(self, wanted: KnotSum) -> Callable[[], float] | None:
        """See `trajopt.interfaces.residual.PreparedResidual`."""
        of, xs, us = at_span(self, wanted)
        evaluate = prepared_rows(of, xs, us, wanted.target is not None)
        if evaluate is None:
            return None
        place, mu, last = self._steps(wanted, evaluate.arrays)
        total, parts = PreparedCall(*last), [evaluate, *[PreparedCall(*step) for step in place]]
        if wanted.curvature is None:
            return PreparedCalls(*parts, total)
        found = of.prepared_hessians(xs, us, mu)
        if found is None:
            return None
        bend, hessians = found
        blocks = [None if block is None else block[slice(*wanted.span)] for block in wanted.curvature[2:]]
        added = [
            PreparedCall(add, block, H, block)
            for H, block in zip(hessians, blocks, strict=True)
            if H is not None and block is not None
        ]
        return PreparedCalls(*parts, total, bend, *added, total.again())

    def prepared_hessians(
        self, xs: np.ndarray, us: np.ndarray | None, mu: np.ndarray
    ) -> tuple[Callable[[], Any], tuple[np.ndarray | None, ...]] | None:
        """A function without arguments that writes what `hessian_products` returns, and the arrays; None where there is
        none."""
        return PreparedCalls(), (None, None, None)

    def _steps(
        self, wanted: KnotSum, rows: tuple[Any, ...]
    ) -> tuple[list[tuple[Any, ...]], np.ndarray, tuple[Any, ...]]:
        """Routines with their arguments that follow the evaluation of rows; multipliers (K, nr) that the last one
        writes; and this one, which returns the sum."""
        (r, rx, ru), mu, J = with_room(wanted, self.nr, rows)
        place = [(_place_columns, rx, 0, J), (_place_columns, ru, rx.shape[2], J)]
        return [] if wanted.target is None else place, mu, wanted.of_rows(r, J, mu)
