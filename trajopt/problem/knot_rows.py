"""Points at some knots of a trajectory, and the rows that blocks of an expansion have there.

Where the knots follow one another these are views.  Else points are copied out of the trajectory, and what is added to
rows of zeros is added to the blocks after it, in prepared calls or in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import by_address
from dynamics.simd.array_loops import fill
from dynamics.simd.prepared_calls import PreparedCall, calls_of, checks_of
from dynamics.simd.squares import Blocks
from trajopt.costs import Quadratic

Place = slice | np.ndarray
"""Growing knots, a slice where none is missing between them."""


def place_of(knots: np.ndarray) -> Place:
    """Growing knots as a slice where none is missing between them, so that rows of arrays there are views."""
    count = len(knots)
    return slice(int(knots[0]), int(knots[-1]) + 1) if count and knots[-1] - knots[0] == count - 1 else knots


def rows_at(blocks: Blocks, knots: Place, of_states: bool) -> Quadratic:
    """Rows of blocks over all knots for a term at some of them, without those of controls if it is one of states alone:
    views for a slice, else zeros, for `add_rows_at` to add."""
    lx, lu, lxx, lux, luu = (
        block[knots] if isinstance(knots, slice) else np.zeros((len(knots), *block.shape[1:])) for block in blocks
    )
    return Quadratic(lx, None, lxx, None, None) if of_states else Quadratic(lx, lu, lxx, lux, luu)


def add_rows_at(blocks: Blocks, knots: Place, rows: Quadratic, scale: float | np.ndarray = 1.0) -> None:
    """Add rows of `rows_at`, times a factor for each if there are several, to the blocks; nothing is left to do for
    views."""
    if isinstance(knots, slice):
        return
    for block, part in zip(blocks, rows, strict=True):
        if part is not None:
            factors = np.reshape(scale, (-1,) + (1,) * (part.ndim - 1)) if isinstance(scale, np.ndarray) else None
            block[knots] += part if factors is None else part * factors


# --------------------------------------------------------------------------------------------
# The same for arrays that stay, as prepared calls.


@by_address
def _copy(source, knots, rows):
    """rows[k] = source[knots[k]], (K, n) and (N, n)."""
    for k in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            rows[k, i] = source[knots[k], i]


@by_address
def scale_rows(rows, factors):
    """Multiply row k by factor k, apart from `_add`, so that nothing is rounded less often than in numpy."""
    for k in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            if rows.ndim == 3:
                for j in range(rows.shape[2]):
                    rows[k, i, j] *= factors[k]
            else:
                rows[k, i] *= factors[k]


@by_address
def multiply(values, factors):
    """values *= factors, (K,)"""
    for k in range(values.shape[0]):
        values[k] *= factors[k]


@by_address
def _add(rows, knots, block):
    """block[knots[k]] += rows[k]"""
    for k in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            if rows.ndim == 3:
                for j in range(rows.shape[2]):
                    block[knots[k], i, j] += rows[k, i, j]
            else:
                block[knots[k], i] += rows[k, i]


class PreparedPoints(NamedTuple):
    """States (K, nx) and controls (K, nu), or None, at some knots, and calls that copy them there."""

    xs: np.ndarray
    us: np.ndarray | None
    calls: tuple[PreparedCall, ...]


def prepared_points(knots: Place, xs: np.ndarray, us: np.ndarray | None) -> PreparedPoints:
    """Points at these knots of a trajectory in arrays that stay; us is None for terms of states alone."""
    points = PreparedPoints(xs[knots], None if us is None else us[knots], ())
    if isinstance(knots, slice):
        return points
    calls = [PreparedCall(_copy, xs, knots, points.xs)]
    if us is not None:
        calls.append(PreparedCall(_copy, us, knots, points.us))
    return points._replace(calls=tuple(calls))


class PreparedRows(NamedTuple):
    """Rows of blocks at some knots, calls to be made before something is added to them, and calls to be made after."""

    rows: Quadratic
    before: tuple[PreparedCall, ...]
    after: tuple[PreparedCall, ...]


def prepared_rows_at(blocks: Blocks, knots: Place, of_states: bool, scale: float | np.ndarray = 1.0) -> PreparedRows:
    """`rows_at`, and calls that do what `add_rows_at` does."""
    rows = rows_at(blocks, knots, of_states)
    if isinstance(knots, slice):
        return PreparedRows(rows, (), ())
    before, after = [], []
    for block, part in zip(blocks, rows, strict=True):
        if part is not None:
            before.append(PreparedCall(fill, part, 0.0))
            if isinstance(scale, np.ndarray):
                after.append(PreparedCall(scale_rows, part, scale))
            after.append(PreparedCall(_add, part, knots, block))
    return PreparedRows(rows, tuple(before), tuple(after))


class Quiet:
    """A function without arguments, without numpy's warnings, of which prepared calls give none."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function

    def __call__(self) -> Any:
        """Call the function."""
        with np.errstate(all="ignore"):
            return self._function()

    @property
    def calls(self) -> tuple[PreparedCall, ...] | None:
        """Those of the function; see `dynamics.simd.prepared_calls.calls_of`."""
        return calls_of(self._function)

    @property
    def checks(self) -> tuple[Callable[[], bool], ...]:
        """Those of the function."""
        return checks_of(self._function)


def quiet(function: Callable[[], Any]) -> Callable[[], Any]:
    """The function without numpy's warnings; itself if it makes prepared calls alone."""
    return function if calls_of(function) is not None else Quiet(function)
