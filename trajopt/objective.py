"""The sum of cost terms along a trajectory, each over the knots it belongs to: value, expansion, and whom to blame.

A running cost is multiplied by dt; a terminal cost, and a term that stands for constraints, is not.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import routine
from trajopt.costs import Cost, Quadratic


class Term(NamedTuple):
    """A cost, the knots it is evaluated at (None: all N running ones; the last one if terminal), and its factor."""

    cost: Cost
    knots: np.ndarray | None
    scale: float
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


def running_terms(costs: Sequence[Any], horizon: int, dt: float) -> tuple[Term, ...]:
    """Terms of a list of costs, or of N lists, one per knot; a cost in several lists is evaluated in one call."""
    if not costs or not isinstance(costs[0], tuple):
        return tuple(Term(cost, None, dt, False) for cost in costs)
    members: dict[int, tuple[Cost, list[int]]] = {}
    for t, of_knot in enumerate(costs):
        for cost in of_knot:
            members.setdefault(id(cost), (cost, []))[1].append(t)
    return tuple(
        Term(cost, None if knots == list(range(horizon)) else np.array(knots), dt, False)
        for cost, knots in members.values()
    )


def zero_blocks(N: int, ndx: int, nu: int) -> tuple[np.ndarray, ...]:
    """Zeroed lx (N+1, ndx), lu (N, nu), lxx (N+1, ndx, ndx), lux (N, nu, ndx), luu (N, nu, nu)."""
    shapes = (N + 1, ndx), (N, nu), (N + 1, ndx, ndx), (N, nu, ndx), (N, nu, nu)
    return tuple(np.zeros(shape) for shape in shapes)


GAUSS_NEWTON, CURVATURE, EXACT = "gauss_newton", "curvature", "exact"
"""What is added to an expansion: gradients and Gauss-Newton Hessians, what those leave out, or both."""


def _accumulate(term: Term, xs: np.ndarray, us: np.ndarray, blocks: Sequence[np.ndarray], order: str) -> None:
    lx, lu, lxx, lux, luu = blocks
    if term.terminal:
        target = Quadratic(lx[-1:], None, lxx[-1:], None, None)
    elif term.knots is None:
        target = Quadratic(lx[:-1], lu, lxx[:-1], lux, luu)
    else:
        target = Quadratic(*(np.zeros((len(term.knots), *block.shape[1:])) for block in blocks))
    arguments = *term.points(xs, us), term.scale, target
    together = getattr(term.cost, "accumulate_exact", None) if order == EXACT else None
    if together is not None:
        together(*arguments)
    else:
        if order != CURVATURE:
            term.cost.accumulate(*arguments)
        if order != GAUSS_NEWTON:
            term.cost.accumulate_curvature(*arguments)
    if term.knots is not None and not term.terminal:
        for block, part in zip(blocks, target, strict=True):
            block[term.knots] += part


@routine
def all_finite(rows):
    """Whether no entry (K, n) is NaN or infinite."""
    for t in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            if not abs(rows[t, i]) < np.inf:
                return False
    return True


class Objective:
    """The sum of terms; NaN or infinite wherever one of them is.

    Parameters
    ----------
    terms : Terms
    """

    def __init__(self, terms: Iterable[Term]):
        self.terms = tuple(terms)

    def value(self, xs: np.ndarray, us: np.ndarray) -> float:
        """J; inf where the trajectory or a term is not finite."""
        total = 0.0
        with np.errstate(all="ignore"):
            if not (all_finite(xs) and all_finite(us)):
                return np.inf
            for term in self.terms:
                total += term.scale * float(np.add.reduce(term.cost.value(*term.points(xs, us))))
        return total if np.isfinite(total) else np.inf

    def accumulate(
        self, xs: np.ndarray, us: np.ndarray, blocks: Sequence[np.ndarray], order: str = GAUSS_NEWTON
    ) -> None:
        """Add gradients and Hessians of this order to lx, lu, lxx, lux, luu; CURVATURE adds no gradients."""
        with np.errstate(all="ignore"):
            for term in self.terms:
                _accumulate(term, xs, us, blocks, order)

    def culprit(self, xs: np.ndarray, us: np.ndarray, ndx: int) -> str | None:
        """The first term whose value or derivatives are not finite, and where; None if all are."""
        N, nu = us.shape
        with np.errstate(all="ignore"):
            for term in self.terms:
                values = np.asarray(term.cost.value(*term.points(xs, us)))
                if not np.isfinite(values).all():
                    row = int(np.argmin(np.isfinite(values)))
                    return f"cost term '{term.name}' is {number_name(values[row])} at knot {term.knot(row) % (N + 1)}"
                blocks = zero_blocks(N, ndx, nu)
                _accumulate(term, xs, us, blocks, GAUSS_NEWTON)
                for what, block in zip(("lx", "lu", "lxx", "lux", "luu"), blocks, strict=True):
                    good = np.isfinite(block.reshape(len(block), -1)).all(axis=1)
                    if not good.all():
                        return f"{what} of cost term '{term.name}' is not finite at knot {int(np.argmin(good))}"
        return None


def number_name(value: float) -> str:
    """NaN, Inf or -Inf."""
    return "NaN" if np.isnan(value) else ("Inf" if value > 0 else "-Inf")
