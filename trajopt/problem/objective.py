"""The sum of a problem's costs: terms with their knots, and squares that are summed in one pass."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import LANES, routine
from trajopt.costs import Cost, Quadratic

# --------------------------------------------------------------------------------------------
# A cost and the knots where it counts.


def runs(knots: np.ndarray, gap: int = 0) -> list[tuple[int, int]]:
    """Runs start <= t < stop of growing knots, across at most `gap` missing ones."""
    pieces = np.split(knots, np.flatnonzero(np.diff(knots) > gap + 1) + 1)
    return [(int(piece[0]), int(piece[-1]) + 1) for piece in pieces if len(piece)]


class Term(NamedTuple):
    """A cost, the knots it is evaluated at (None: all N running ones; the last one if terminal), and its factor, or one
    for each of the knots, which are then given."""

    cost: Cost
    knots: np.ndarray | None
    scale: float | np.ndarray
    terminal: bool

    def points(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """States and controls where it is evaluated."""
        if self.terminal:
            return xs[-1:], None
        return (xs[:-1], us) if self.knots is None else (xs[self.knots], us[self.knots])

    def knot(self, row: int) -> int:
        """The knot of a row of `points`, -1 for the last one."""
        return -1 if self.terminal else int(row if self.knots is None else self.knots[row])

    @property
    def name(self) -> str:
        """What messages call it."""
        cost: Any = self.cost
        return getattr(cost, "name", "") or getattr(getattr(cost, "residual", None), "name", "") or type(cost).__name__


# --------------------------------------------------------------------------------------------
# Terms that are weighted squares of a residual, for residuals that sum and expand these by themselves.
#
# Such a residual has ``sums_squares`` true and a method ``weighted_squares`` (see `trajopt.Residual`).  Its terms at
# running knots and at the last one become one sum for every run of knots; where none of them counts the weight is zero.

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


class _CostRows(NamedTuple):
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


def _rows(term: Term, horizon: int, nu: int) -> _CostRows | None:
    found = _squares(term, nu)
    if found is None:
        return None
    residual, weights = found
    scale = np.reshape(term.scale, (-1, 1))
    weights = np.array(np.broadcast_to(weights, (max(len(weights), len(scale)), weights.shape[1])))
    weights[:, : residual.nr] *= scale
    knots = np.arange(horizon) if term.knots is None else term.knots
    return _CostRows(term, residual, weights, np.array([horizon]) if term.terminal else np.asarray(knots))


def _sums(rows: Sequence[_CostRows]) -> list[SquaresOfResidual]:
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
    groups: dict[Any, list[_CostRows]] = {}
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


# --------------------------------------------------------------------------------------------
# The sum of cost terms along a trajectory, each over the knots it belongs to: value, expansion, and whom to blame.
#
# A running cost is multiplied by its knot's duration; a terminal cost, one at single instants, and a term that stands
# for constraints, is not (`trajopt.problem.placement`).


def zero_blocks(N: int, ndx: int, nu: int) -> tuple[np.ndarray, ...]:
    """Zeroed lx (N+1, ndx), lu (N, nu), lxx (N+1, ndx, ndx), lux (N, nu, ndx), luu (N, nu, nu)."""
    shapes = (N + 1, ndx), (N, nu), (N + 1, ndx, ndx), (N, nu, ndx), (N, nu, nu)
    return tuple(np.zeros(shape) for shape in shapes)


Blocks = Sequence[np.ndarray]
"""lx, lu, lxx, lux, luu over all knots, as `zero_blocks` makes them."""


def _target(term: Term, blocks: Blocks) -> Quadratic:
    """The rows of the blocks that a term adds to; new zeros if it has knots of its own."""
    lx, lu, lxx, lux, luu = blocks
    if term.terminal:
        return Quadratic(lx[-1:], None, lxx[-1:], None, None)
    if term.knots is None:
        return Quadratic(lx[:-1], lu, lxx[:-1], lux, luu)
    return Quadratic(*(np.zeros((len(term.knots), *block.shape[1:])) for block in blocks))


def _accumulate(term: Term, xs: np.ndarray, us: np.ndarray, blocks: Blocks | None, curvature: Blocks | None) -> None:
    points, cost, scale = term.points(xs, us), term.cost, term.scale
    together = getattr(cost, "accumulate_exact", None) if blocks is curvature else None
    for add, into in (cost.accumulate, blocks), (cost.accumulate_curvature, None if together else curvature):
        if into is None:
            continue
        target = _target(term, into)
        (together or add)(*points, 1.0 if isinstance(scale, np.ndarray) else scale, target)
        if term.knots is not None and not term.terminal:
            for block, part in zip(into, target, strict=True):
                assert part is not None
                if isinstance(scale, np.ndarray):
                    part *= np.reshape(scale, (-1,) + (1,) * (part.ndim - 1))
                block[term.knots] += part


@routine
def all_finite(rows):
    """Whether no entry (K, n) is NaN or infinite."""
    for t in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            if not abs(rows[t, i]) < np.inf:
                return False
    return True


Parts = tuple[tuple[Term, ...], tuple[SquaresOfResidual, ...]]


class Objective:
    """The sum of terms; NaN or infinite wherever one of them is.

    Terms that are weighted squares of a residual that can sum and expand these by itself are left to it.

    Parameters
    ----------
    terms : Terms
    """

    def __init__(self, terms: Iterable[Term]) -> None:
        self.terms = tuple(terms)
        self._parts: dict[tuple[int, ...], Parts] = {}

    def _for(self, us: np.ndarray) -> Parts:
        """Terms to be asked one by one, and sums of squares, for controls (N, nu)."""
        parts = self._parts.get(us.shape)
        if parts is None:
            parts = self._parts[us.shape] = gather_squares(self.terms, *us.shape)
        return parts

    def with_terms(self, terms: Sequence[Term]) -> Objective:
        """The sum of other terms in the places of these."""
        other = Objective(terms)
        for shape, parts in self._parts.items():
            known = carried_over(*parts, self.terms, other.terms, shape[1])
            if known is not None:
                other._parts[shape] = known
        return other

    def value(self, xs: np.ndarray, us: np.ndarray) -> float:
        """J; inf where the trajectory or a term is not finite."""
        total = 0.0
        with np.errstate(all="ignore"):
            if not (all_finite(xs) and all_finite(us)):
                return np.inf
            terms, squares = self._for(us)
            for term in terms:
                values = term.cost.value(*term.points(xs, us))
                if isinstance(term.scale, np.ndarray):
                    total += float(term.scale @ values)
                else:
                    total += term.scale * float(np.add.reduce(values))
            for sum_of_squares in squares:
                total += sum_of_squares.add(xs, us, None, None)
        return total if math.isfinite(total) else np.inf

    def accumulate(
        self,
        xs: np.ndarray,
        us: np.ndarray,
        blocks: Blocks | None,
        curvature: Blocks | None = None,
    ) -> None:
        """Add gradients and Gauss-Newton Hessians to ``blocks`` lx, lu, lxx, lux, luu, and what those Hessians leave
        out to the Hessians in ``curvature``, which may be the same arrays; None for what is not wanted."""
        with np.errstate(all="ignore"):
            terms, squares = self._for(us)
            for term in terms:
                _accumulate(term, xs, us, blocks, curvature)
            for sum_of_squares in squares:
                sum_of_squares.add(xs, us, blocks, curvature)

    def culprit(self, xs: np.ndarray, us: np.ndarray, ndx: int) -> str | None:
        """The first term whose value, gradient or Gauss-Newton Hessian is not finite, and where; None if all are."""
        with np.errstate(all="ignore"):
            for term in self.terms:
                values = np.asarray(term.cost.value(*term.points(xs, us)))
                row = first_not_finite(values)
                if row is not None:
                    at = term.knot(row) % (len(us) + 1)
                    return f"cost term '{term.name}' is {number_name(values[row])} at knot {at}"
                blocks = zero_blocks(len(us), ndx, us.shape[1])
                _accumulate(term, xs, us, blocks, None)
                if (found := _block_not_finite(blocks)) is not None:
                    return f"{found[0]} of cost term '{term.name}' is not finite at knot {found[1]}"
        return None

    def curvature_culprit(self, xs: np.ndarray, us: np.ndarray, ndx: int) -> str | None:
        """The same of what Gauss-Newton Hessians leave out."""
        with np.errstate(all="ignore"):
            for term in self.terms:
                blocks = zero_blocks(len(us), ndx, us.shape[1])
                _accumulate(term, xs, us, None, blocks)
                if (found := _block_not_finite(blocks)) is not None:
                    return f"{found[0]} of the curvature of cost term '{term.name}' is not finite at knot {found[1]}"
        return None


def first_not_finite(rows: np.ndarray) -> int | None:
    """The first of K rows with a number that is not, None if all are finite."""
    good = np.isfinite(np.reshape(rows, (len(rows), -1))).all(axis=1)
    return None if good.all() else int(np.argmin(good))


def _block_not_finite(blocks: Blocks) -> tuple[str, int] | None:
    """Name and knot of a number that is not finite."""
    for what, block in zip(("lx", "lu", "lxx", "lux", "luu"), blocks, strict=True):
        knot = first_not_finite(block)
        if knot is not None:
            return what, knot
    return None


def number_name(value: float) -> str:
    """NaN, Inf or -Inf."""
    return "NaN" if np.isnan(value) else ("Inf" if value > 0 else "-Inf")
