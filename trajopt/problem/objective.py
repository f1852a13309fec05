"""The sum of cost terms along a trajectory, each over the knots it belongs to: value, expansion, and whom to blame.

A running cost is multiplied by its knot's duration; a terminal cost, one at single instants, and a term that stands for
constraints, is not (`trajopt.problem.placement`).
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from dynamics.simd import routine
from trajopt.costs import Quadratic
from trajopt.problem.squares import SquaresOfResidual, carried_over, gather_squares
from trajopt.problem.term import Term


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

    def with_terms(self, terms: Sequence[Term]) -> "Objective":
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
