"""The sum of a problem's costs: terms with their knots, and squares that are summed in one pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from itertools import zip_longest
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import LANES, by_address, lean_routine, routine
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls, calls_of, checks_of
from dynamics.simd.squares import Blocks, KnotSum, ResidualWeights, sum_of, without_effect
from trajopt.costs import Cost, Quadratic
from trajopt.costs.cost import add_expansion
from trajopt.costs.cost_of_residual import prepared_sum, sums
from trajopt.problem.knot_rows import (
    PreparedPoints,
    add_rows_at,
    multiply,
    place_of,
    prepared_points,
    prepared_rows_at,
    quiet,
    rows_at,
)

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
        place = self.place(len(us))
        return xs[place], None if self.terminal else us[place]

    def place(self, N: int) -> slice | np.ndarray:
        """Its knots, of N running ones and the last: a slice of them where they are a run with one factor."""
        if self.terminal or self.knots is None:
            return slice(N, N + 1) if self.terminal else slice(0, N)
        return self.knots if isinstance(self.scale, np.ndarray) else place_of(self.knots)

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
# Such a residual is a `trajopt.interfaces.residual.SummedResidual`.  Its terms at running knots and at the last one
# become one sum for every run of knots; where none of them counts the weight is zero.

UNUSED = LANES
"""A run of knots does not go on over more knots than this where no term counts."""


class SquaresOfResidual(NamedTuple):
    """1/2 sum_i w_i s_i^2 over the knots start <= t < stop of the span."""

    residual: Any
    weights: ResidualWeights
    span: tuple[int, int]

    def add(self, xs: np.ndarray, us: np.ndarray, blocks: Any, curvature: Any) -> float:
        """The sum; its expansion is added to blocks, and what Gauss-Newton leaves out of the Hessians to curvature."""
        return self.residual.add_expansion(KnotSum(self.span, xs, us, self.weights, blocks, curvature))

    def of_another(self, swaps: Mapping[Any, Any]) -> SquaresOfResidual:
        """The same of the residual in the place of this one, if there is another."""
        residual = swaps.get(self.residual)
        return self if residual is None else SquaresOfResidual(residual, *self[1:])

    def with_own_numbers(self) -> SquaresOfResidual:
        """The same with weights and a residual in arrays that nobody else has."""
        own = getattr(self.residual, "with_own_numbers", None)
        weights = self.weights._replace(rows=self.weights.rows.copy())
        return self._replace(residual=self.residual if own is None else own(), weights=weights)

    def take_numbers(self, other: SquaresOfResidual) -> bool:
        """Write the numbers of another one into these arrays; False if it differs in more."""
        rows, given = self.weights.rows, other.weights.rows
        if self.span != other.span or self.weights.layout != other.weights.layout or rows.shape != given.shape:
            return False
        take = getattr(self.residual, "take_numbers", None)
        if not (self.residual is other.residual if take is None else take(other.residual)):
            return False
        rows[...] = given
        return True

    def prepared(self, xs: np.ndarray, us: np.ndarray, blocks: Any, curvature: Any) -> Callable[[], float]:
        """`add` with these arrays, as a function without arguments."""
        found = prepared_sum(self.residual, KnotSum(self.span, xs, us, self.weights, blocks, curvature))
        return partial(self.add, xs, us, blocks, curvature) if found is None else found


class _CostRows(NamedTuple):
    """Weights of a term at its knots (K,)."""

    term: Term
    residual: Any
    weights: ResidualWeights
    knots: np.ndarray


def _squares(term: Term, nu: int) -> tuple[Any, ResidualWeights] | None:
    """The residual and the weights of a term that is left to it, else None."""
    squares = getattr(term.cost, "squares", None)
    found = None if squares is None else squares(nu)
    return found if found is not None and sums(found[0]) else None


def _rows(term: Term, horizon: int, found: tuple[Any, ResidualWeights]) -> _CostRows:
    residual, (given, layout) = found
    scale = np.reshape(term.scale, (-1, 1))
    rows = np.empty((max(len(given), len(scale)), given.shape[1]))
    rows[...] = given
    rows[:, : residual.nr] *= scale
    knots = np.arange(horizon) if term.knots is None else term.knots
    at = np.array([horizon]) if term.terminal else np.asarray(knots)
    return _CostRows(term, residual, ResidualWeights(rows, layout), at)


class _Layout(NamedTuple):
    """Runs of knots at which several terms count, the first knot and the last one, and their number; meet: True if two
    of the terms count at one knot."""

    spans: list[tuple[int, int]]
    first: int
    last: int
    count: int
    meet: bool


@lru_cache(maxsize=256)
def _layout(*knots: bytes) -> _Layout:
    """Of terms at these knots, arrays of whole numbers."""
    of_all = np.concatenate([np.frombuffer(each, np.int64) for each in knots])
    present = np.unique(of_all)
    meet = len(present) < len(of_all)
    return _Layout(runs(present, UNUSED - 1), int(present[0]), int(present[-1]), len(present), meet)


def _sums(rows: Sequence[_CostRows]) -> list[SquaresOfResidual]:
    """The sums over all runs of knots of terms of one residual, together if they never meet at a knot, else apart."""
    spans, first, last, count, meet = _layout(*[row.knots.astype(np.int64).tobytes() for row in rows])
    residual, (given, layout) = rows[0].residual, rows[0].weights
    if meet:
        return [found for row in rows for found in _sums([row])]
    if len(rows) == 1 and len(given) == 1 and count == sum(stop - start for start, stop in spans):
        return [SquaresOfResidual(residual, rows[0].weights, span) for span in spans]
    together = without_effect(last + 1 - first, residual.nr, layout).rows
    for row in rows:
        together[row.knots - first] = row.weights.rows
    return [SquaresOfResidual(residual, ResidualWeights(together[start - first : stop - first], layout), (start, stop))
            for start, stop in spans]  # fmt: skip


Squares = tuple[tuple[Any, ResidualWeights] | None, ...]
"""Residual and weights of each of several terms that is left to it."""


def squares_of(terms: Sequence[Term], nu: int) -> Squares:
    """What these terms leave to residuals."""
    return tuple([_squares(term, nu) for term in terms])


def gather_squares(
    terms: Sequence[Term], horizon: int, nu: int, left: Squares | None = None
) -> tuple[tuple[Term, ...], tuple[SquaresOfResidual, ...]]:
    """The terms to be asked one by one, and the sums of squares that the others make; N knots, nu controls; left: what
    is left to residuals, if that is known."""
    left = squares_of(terms, nu) if left is None else left
    plain: list[Term] = []
    groups: dict[Any, list[_CostRows]] = {}
    for term, found in zip(terms, left, strict=True):
        if found is None:
            plain.append(term)
        else:
            rows = _rows(term, horizon, found)
            groups.setdefault((rows.residual, rows.weights.layout), []).append(rows)
    return tuple(plain), tuple(found for rows in groups.values() for found in _sums(rows))


def swapped_residuals(old: Squares, new: Squares) -> dict[Any, Any] | None:
    """Residuals that terms are left to in the places of others, if terms differ in residuals alone and groups stay as
    they are; else None."""
    swaps: dict[Any, Any] = {}
    same = []
    for was, is_now in zip(old, new, strict=True):
        if was is is_now:
            same += () if was is None else was[:1]
        elif was is None or is_now is None or was[1].rows is not is_now[1].rows:
            return None
        elif swaps.setdefault(was[0], is_now[0]) != is_now[0]:
            return None
    others = set(swaps.values())
    if len(others) < len(swaps):  # two groups would be one
        return None
    touched = others.union(swaps)
    return None if any([one in touched and swaps.get(one) != one for one in same]) else swaps


# --------------------------------------------------------------------------------------------
# The sum of cost terms along a trajectory, each over the knots it belongs to: value, expansion, and whom to blame.
#
# A running cost is multiplied by its knot's duration; a terminal cost, one at single instants, and a term that stands
# for constraints, is not (`trajopt.problem.problem`).


def zero_blocks(N: int, ndx: int, nu: int) -> tuple[np.ndarray, ...]:
    """Zeroed lx (N+1, ndx), lu (N, nu), lxx (N+1, ndx, ndx), lux (N, nu, ndx), luu (N, nu, nu)."""
    shapes = (N + 1, ndx), (N, nu), (N + 1, ndx, ndx), (N, nu, ndx), (N, nu, nu)
    return tuple(np.zeros(shape) for shape in shapes)


def _sum(term: Term, xs: np.ndarray, us: np.ndarray) -> float:
    """The term's part of the cost."""
    values = np.asarray(term.cost.value(*term.points(xs, us)), np.float64)
    if isinstance(term.scale, np.ndarray):
        return sum_of(term.scale * values, 1.0)
    return sum_of(np.ascontiguousarray(values).reshape(-1), float(term.scale))


def _prepared_sum(term: Term, xs: np.ndarray, us: np.ndarray) -> Callable[[], float]:
    """The term's part of the cost at what these arrays hold, as a function without arguments."""
    points, prepare = _prepared_points(term, xs, us), getattr(term.cost, "prepared_value", None)
    values, scale = np.zeros(len(points.xs)), term.scale
    call = None if prepare is None else prepare(points.xs, points.us, values)
    if call is None:
        return partial(_sum, term, xs, us)
    if not isinstance(scale, np.ndarray):
        return PreparedCalls(*points.calls, call, PreparedCall(sum_of, values, float(scale)))
    scaled = PreparedCall(multiply, values, scale), PreparedCall(sum_of, values, 1.0)
    return PreparedCalls(*points.calls, call, *scaled)


def _prepared_points(term: Term, xs: np.ndarray, us: np.ndarray) -> PreparedPoints:
    return prepared_points(term.place(len(us)), xs, None if term.terminal else us)


def _prepared_expansion(
    term: Term, xs: np.ndarray, us: np.ndarray, blocks: Blocks | None, curvature: Blocks | None
) -> Callable[[], Any]:
    """The addition of its expansion at what these arrays hold, as a function without arguments."""
    prepare = getattr(term.cost, "prepared_accumulation", None)
    if prepare is not None:
        points, scale = _prepared_points(term, xs, us), term.scale
        first, second = [
            None if into is None else prepared_rows_at(into, term.place(len(us)), term.terminal, scale)
            for into in (blocks, curvature)
        ]
        if curvature is blocks:
            second = first
        rows = [None if into is None else into.rows for into in (first, second)]
        call = prepare(points.xs, points.us, 1.0 if isinstance(scale, np.ndarray) else float(scale), *rows)
        if call is not None:
            around = [into for into in ((first, second) if second is not first else (first,)) if into is not None]
            before = [clear for into in around for clear in into.before]
            after = [add for into in around for add in into.after]
            return PreparedCalls(*points.calls, *before, call, *after)
    return _expansion(term, xs, us, blocks, curvature)


def _expansion(
    term: Term, xs: np.ndarray, us: np.ndarray, blocks: Blocks | None, curvature: Blocks | None
) -> Callable[[], None]:
    """The addition of its expansion at what these arrays hold, as a function without arguments."""
    knots, scale = term.place(len(us)), term.scale

    def rows() -> tuple[Quadratic | None, Quadratic | None]:
        first = None if blocks is None else rows_at(blocks, knots, term.terminal)
        if curvature is None or curvature is blocks:
            return first, None if curvature is None else first
        return first, rows_at(curvature, knots, term.terminal)

    if isinstance(knots, slice):
        return partial(add_expansion, term.cost, *term.points(xs, us), scale, *rows())

    def add() -> None:
        first, second = rows()
        add_expansion(term.cost, *term.points(xs, us), 1.0 if isinstance(scale, np.ndarray) else scale, first, second)
        if first is not None and blocks is not None:
            add_rows_at(blocks, knots, first, scale)
        if second is not None and second is not first and curvature is not None:
            add_rows_at(curvature, knots, second, scale)

    return add


@lean_routine
def all_finite(rows):
    """True if no entry of rows (K, n) is NaN or infinite."""
    for t in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            if not abs(rows[t, i]) < np.inf:
                return False
    return True


# --------------------------------------------------------------------------------------------
# The cost at arrays that stay: prepared calls where every term is summed by some.
#
# The first call looks at the trajectory, then each sum is followed by a call that adds it to the total, so that whoever
# makes all of these calls finds the cost where the last one leaves its result.


@routine
def _start(xs, us, total):
    """Whether the trajectory is finite; the total is 0, or NaN where it is not."""
    finite = all_finite(xs) and all_finite(us)
    total[0] = 0.0 if finite else np.nan
    return finite


@by_address
def _add(total, part):
    total[0] += part[0]


@by_address
def _cost(total):
    """The total; inf where it is not finite."""
    return total[0] if abs(total[0]) < np.inf else np.inf


class PreparedCost:
    """The cost of a trajectory in arrays that stay, as a function without arguments.

    Parameters
    ----------
    xs, us : (N+1, nx) and (N, nu) arrays
    sums : functions without arguments

    Attributes
    ----------
    finite : whether all numbers of the trajectory are finite, a prepared call
    sums : functions that each return a part of the cost, in the order in which they are added
    """

    def __init__(self, xs: np.ndarray, us: np.ndarray, sums: Iterable[Callable[[], float]]) -> None:
        self.sums, self._total = tuple(map(quiet, sums)), np.zeros(1)
        self.finite = PreparedCall(_start, xs, us, self._total)
        self._adds: dict[int, PreparedCall] = {}

    def __call__(self) -> float:
        """The cost; inf where the trajectory or a term is not finite."""
        if not self.finite():
            return np.inf
        total = 0.0  # not `sum`, whose rounding differs between versions of Python
        for add in self.sums:
            total += add()
        return total if math.isfinite(total) else np.inf

    @property
    def calls(self) -> tuple[PreparedCall, ...] | None:
        """Prepared calls of which the last one returns the cost; None if a term makes others."""
        calls = [self.finite]
        for add in self.sums:
            found = calls_of(add)
            if found is None:
                return None
            part = found[-1].room[:1].view(np.float64)
            add_part = self._adds.setdefault(found[-1].address, PreparedCall(_add, self._total, part))
            calls += [*found, add_part]
        return *calls, self._cost

    @property
    def checks(self) -> tuple[Callable[[], bool], ...]:
        """Checks of the sums, which ask whether their calls are still the right ones."""
        return tuple([check for add in self.sums for check in checks_of(add)])

    @cached_property
    def _cost(self) -> PreparedCall:
        return PreparedCall(_cost, self._total)


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
        self._left: dict[int, Squares] = {}

    def _for(self, us: np.ndarray) -> Parts:
        """Terms to be asked one by one, and sums of squares, for controls (N, nu)."""
        parts = self._parts.get(us.shape)
        if parts is None:
            N, nu = us.shape
            if nu not in self._left:
                self._left[nu] = squares_of(self.terms, nu)
            parts = self._parts[us.shape] = gather_squares(self.terms, N, nu, self._left[nu])
        return parts

    def with_own_numbers(self, us: np.ndarray) -> Objective:
        """The same sum for controls (N, nu), with numbers of sums of squares in arrays that nobody else has."""
        own, (plain, squares) = Objective(self.terms), self._for(us)
        own._parts[us.shape] = plain, tuple([one.with_own_numbers() for one in squares])
        return own

    def take_numbers(self, other: Objective, before: Objective | None, us: np.ndarray) -> bool:
        """Write the numbers of another objective into the arrays of this one, which `with_own_numbers` has made and
        which now holds those of the one before, if that is known; False if it differs in more, after which the numbers
        of this one are undefined."""
        (plain, squares), (others, given) = self._for(us), other._for(us)
        if len(plain) != len(others) or len(squares) != len(given):
            return False
        if not all(map(is_, plain, others)):
            return False
        known = () if before is None else before._for(us)[1]
        for own, its, had in zip_longest(squares, given, known):
            if its is not had and not own.take_numbers(its):
                return False
        return True

    def with_costs(self, costs: Mapping[int, Cost]) -> Objective:
        """The sum with other costs in some of its terms, by their places."""
        terms = list(self.terms)
        for i, cost in costs.items():
            terms[i] = Term(cost, *terms[i][1:])
        other = Objective(terms)
        for nu, left in self._left.items():
            new = tuple([_squares(terms[i], nu) if i in costs else found for i, found in enumerate(left)])
            other._left[nu] = new
            swaps = swapped_residuals(left, new)
            for shape, (_, squares) in self._parts.items():
                if shape[1] == nu and swaps is not None:
                    plain = tuple([term for term, found in zip(terms, new, strict=True) if found is None])
                    other._parts[shape] = plain, tuple([one.of_another(swaps) for one in squares])
        return other

    def value(self, xs: np.ndarray, us: np.ndarray) -> float:
        """J; inf where the trajectory or a term is not finite."""
        total = 0.0
        with np.errstate(all="ignore"):
            if not _start(xs, us, np.zeros(1)):
                return np.inf
            terms, squares = self._for(us)
            for term in terms:
                total += _sum(term, xs, us)
            for sum_of_squares in squares:
                total += sum_of_squares.add(xs, us, None, None)
        return total if math.isfinite(total) else np.inf

    def prepared_value(self, xs: np.ndarray, us: np.ndarray) -> PreparedCost:
        """`value` at these arrays, as a function without arguments."""
        terms, squares = self._for(us)
        sums = [_prepared_sum(term, xs, us) for term in terms]
        return PreparedCost(xs, us, [*sums, *[one.prepared(xs, us, None, None) for one in squares]])

    def prepared_expansion(
        self, xs: np.ndarray, us: np.ndarray, blocks: Blocks | None, curvature: Blocks | None = None
    ) -> PreparedCalls:
        """`accumulate` with these arrays, as a function without arguments."""
        terms, squares = self._for(us)
        parts = [_prepared_expansion(term, xs, us, blocks, curvature) for term in terms]
        parts += [one.prepared(xs, us, blocks, curvature) for one in squares]
        return PreparedCalls(*map(quiet, parts))

    def accumulate(
        self,
        xs: np.ndarray,
        us: np.ndarray,
        blocks: Blocks | None,
        curvature: Blocks | None = None,
    ) -> None:
        """Add gradients and Gauss-Newton Hessians to ``blocks`` lx, lu, lxx, lux, luu, and what those Hessians leave
        out to the Hessians in ``curvature``, which may be the same arrays; None for what is not asked for."""
        terms, squares = self._for(us)
        with np.errstate(all="ignore"):
            for term in terms:
                _expansion(term, xs, us, blocks, curvature)()
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
                _expansion(term, xs, us, blocks, None)()
                if (found := _block_not_finite(blocks)) is not None:
                    return f"{found[0]} of cost term '{term.name}' is not finite at knot {found[1]}"
        return None

    def curvature_culprit(self, xs: np.ndarray, us: np.ndarray, ndx: int) -> str | None:
        """The same of what Gauss-Newton Hessians leave out."""
        with np.errstate(all="ignore"):
            for term in self.terms:
                blocks = zero_blocks(len(us), ndx, us.shape[1])
                _expansion(term, xs, us, None, blocks)()
                if (found := _block_not_finite(blocks)) is not None:
                    return f"{found[0]} of the curvature of cost term '{term.name}' is not finite at knot {found[1]}"
        return None


def first_not_finite(rows: np.ndarray) -> int | None:
    """The first of K rows with a number that is not, None if all are finite."""
    good = np.isfinite(np.reshape(rows, (len(rows), -1))).all(axis=1)
    return None if good.all() else int(np.argmin(good))


def entry_name(what: str, block: np.ndarray) -> str:
    """The first entry of a block that is not finite, as "fu[1, 0]"."""
    return what + str(np.argwhere(~np.isfinite(block))[0].tolist())


def _block_not_finite(blocks: Blocks) -> tuple[str, int] | None:
    """Entry and knot of a number that is not finite."""
    for what, block in zip(("lx", "lu", "lxx", "lux", "luu"), blocks, strict=True):
        knot = first_not_finite(block)
        if knot is not None:
            return entry_name(what, block[knot]), knot
    return None


def number_name(value: float) -> str:
    """NaN, Inf or -Inf."""
    return "NaN" if np.isnan(value) else ("Inf" if value > 0 else "-Inf")
