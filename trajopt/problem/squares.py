"""Terms that are weighted squares of a residual, for residuals that sum and expand these by themselves.

Such a residual has ``sums_squares`` true and a method ``weighted_squares`` (see `trajopt.Residual`).  Its terms at
running knots and at the last one become one sum for every run of knots; where none of them counts the weight is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import LANES
from trajopt.problem.term import Term, runs

UNUSED = LANES
"""A run of knots does not go on over more knots than this where no term counts."""


class SquaresOfResidual(NamedTuple):
    """1/2 sum_i w_i s_i^2 over the knots start <= t < stop; weights as `weighted_squares` has them."""

    residual: Any
    weights: np.ndarray
    start: int
    stop: int

    def add(self, xs: np.ndarray, us: np.ndarray, blocks: Any, curvature: Any) -> float:
        """The sum; its expansion is added to blocks, and what Gauss-Newton leaves out of the Hessians to curvature."""
        return self.residual.weighted_squares(xs, us, self.weights, self.start, self.stop, blocks, curvature)


class _Rows(NamedTuple):
    """Figures (K, n) of a term, or one row for all, at its knots (K,)."""

    term: Term
    residual: Any
    weights: np.ndarray
    knots: np.ndarray


def _squares(term: Term, nu: int) -> tuple[Any, np.ndarray] | None:
    """The residual and the figures of a term that is left to it, else None."""
    squares = getattr(term.cost, "squares", None)
    found = None if squares is None else squares(nu)
    return found if found is not None and getattr(found[0], "sums_squares", False) else None


def _rows(term: Term, horizon: int, nu: int) -> _Rows | None:
    found = _squares(term, nu)
    if found is None:
        return None
    residual, weights = found
    scale = np.reshape(term.scale, (-1, 1))
    weights = np.array(np.broadcast_to(weights, (max(len(weights), len(scale)), weights.shape[1])))
    weights[:, : residual.nr] *= scale
    knots = np.arange(horizon) if term.knots is None else term.knots
    return _Rows(term, residual, weights, np.array([horizon]) if term.terminal else np.asarray(knots))


def _sums(rows: Sequence[_Rows]) -> list[SquaresOfResidual]:
    """The sums over all runs of knots of terms of one residual, together if they never meet at a knot, else apart."""
    knots = np.concatenate([row.knots for row in rows])
    residual, nr, first = rows[0].residual, rows[0].residual.nr, int(knots.min())
    present = np.unique(knots)
    if len(present) < len(knots):
        return [found for row in rows for found in _sums([row])]
    spans = runs(present, UNUSED - 1)
    if len(rows) == 1 and len(rows[0].weights) == 1 and len(present) == sum(stop - start for start, stop in spans):
        return [SquaresOfResidual(residual, rows[0].weights, *span) for span in spans]
    weights = np.zeros((int(knots.max()) + 1 - first, rows[0].weights.shape[1]))
    weights[:, 2 * nr : 3 * nr], weights[:, 3 * nr :] = -np.inf, np.inf
    for row in rows:
        weights[row.knots - first] = row.weights
    return [SquaresOfResidual(residual, weights[start - first : stop - first], start, stop) for start, stop in spans]


def gather_squares(
    terms: Sequence[Term], horizon: int, nu: int
) -> tuple[tuple[Term, ...], tuple[SquaresOfResidual, ...]]:
    """The terms to be asked one by one, and the sums of squares that the others make; N knots, nu controls."""
    plain: list[Term] = []
    groups: dict[Any, list[_Rows]] = {}
    for term in terms:
        rows = _rows(term, horizon, nu)
        if rows is None:
            plain.append(term)
        else:
            groups.setdefault((rows.residual, rows.weights.shape[1]), []).append(rows)
    return tuple(plain), tuple(found for rows in groups.values() for found in _sums(rows))


def carried_over(
    plain: Sequence[Term], sums: Sequence[SquaresOfResidual], old: Sequence[Term], new: Sequence[Term], nu: int
) -> tuple[tuple[Term, ...], tuple[SquaresOfResidual, ...]] | None:
    """What was gathered of old terms as that of new ones in their places, if they differ in residuals alone and groups
    stay as they are; else None."""
    swaps: dict[Any, Any] = {}
    kept = set()
    for before, after in zip(old, new, strict=True):
        was = _squares(before, nu)
        is_now = was if after.cost is before.cost else _squares(after, nu)
        if was is None or is_now is None:
            if was is not is_now:
                return None
            continue
        if was[1] is not is_now[1] or swaps.setdefault(was[0], is_now[0]) != is_now[0]:
            return None
        kept.add(is_now[0])
    if len(kept) < len(swaps):  # two groups would be one
        return None
    places = {id(before): after for before, after in zip(old, new, strict=True)}
    return tuple(places[id(term)] for term in plain), tuple(s._replace(residual=swaps[s.residual]) for s in sums)
