"""Rows of all constraints lower <= c <= upper of a problem, packed knot by knot.

Row i is one entry of a residual at one knot, times a factor D_i that makes the largest entry of its Jacobian 1:

    c_i = D_i r_i      D_i = 1 / max over the constraint's knots of |row i of (r_x, r_u)|      (1 where that is tiny)

with one factor for every component of a constraint, so that a solve does not depend on the units of constraints. Where
states are large numbers themselves, as orbits in metres are, this fails: a row is then a difference of numbers of the
size s_i = |r_i| + |r_x| |x| + |r_u| |u|, and D_i is chosen such that all components have gradients of one size with
respect to the controls, and that the largest D_i s_i is 1.  The accuracy of a row is a few eps s_i, whatever the
tolerance.  The rows of knot t are first[t] <= i < first[t + 1]; the knots are 0 ... N.  Limits of states and controls,
whose rows are one component less a reference, are all read in one call, and their Jacobians written once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from dynamics.simd import by_address, lean_routine
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from dynamics.simd.squares import Blocks, KnotSum, multipliers
from dynamics.validation import as_array
from trajopt.backward.expansions import HALF_PRECISION, Expansion, adjoint
from trajopt.capabilities import capability
from trajopt.costs.cost_of_residual import add_curvature, evaluated, linearized, prepared_rows, prepared_sum
from trajopt.interfaces.residual import SingleComponents, at_knots
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.knot_rows import (
    PreparedPoints,
    Quiet,
    add_rows_at,
    place_of,
    prepared_points,
    prepared_rows_at,
    quiet,
    rows_at,
)
from trajopt.problem.objective import entry_name, first_not_finite, number_name, zero_blocks
from trajopt.problem.problem import Problem

# --------------------------------------------------------------------------------------------
# Augmented-Lagrangian terms of rows in an expansion: gradients C'p and Hessians C'wC; change of rows along a step.


class Weights(NamedTuple):
    """First and second derivatives p, w (R,) of the terms with respect to their rows."""

    p: np.ndarray
    w: np.ndarray


@lean_routine
def add_terms(first, Cx, Cu, p, w, lx, lu, lxx, lux, luu):
    """Add C'p to gradients and C'wC to Hessians, which are not looked at where w is 0."""
    N, n, m = lu.shape[0], Cx.shape[1], Cu.shape[1]
    for t in range(N + 1):
        for i in range(first[t], first[t + 1]):
            if p[i] == 0.0 and w[i] == 0.0:
                continue
            for a in range(n):
                lx[t, a] += p[i] * Cx[i, a]
                x = w[i] * Cx[i, a] if w[i] != 0.0 else 0.0
                if x != 0.0:
                    for b in range(n):
                        lxx[t, a, b] += x * Cx[i, b]
            if t == N:
                continue
            for a in range(m):
                lu[t, a] += p[i] * Cu[i, a]
                x = w[i] * Cu[i, a] if w[i] != 0.0 else 0.0
                if x != 0.0:
                    for b in range(n):
                        lux[t, a, b] += x * Cx[i, b]
                    for b in range(m):
                        luu[t, a, b] += x * Cu[i, b]


@lean_routine
def add_gradients(first, Cx, Cu, multipliers, lx, lu):
    """Add C'lam to gradients."""
    N, n, m = lu.shape[0], Cx.shape[1], Cu.shape[1]
    for t in range(N + 1):
        for i in range(first[t], first[t + 1]):
            if multipliers[i] == 0.0:
                continue
            for a in range(n):
                lx[t, a] += multipliers[i] * Cx[i, a]
            if t < N:
                for a in range(m):
                    lu[t, a] += multipliers[i] * Cu[i, a]


def with_terms(e: Expansion, first: np.ndarray, C: tuple[np.ndarray, np.ndarray], weights: Weights) -> Expansion:
    """The expansion with C'p in its gradients and C'wC in its Hessians."""
    copies = [block.copy() for block in e[2:]]
    add_terms(first, *C, *weights, *copies)
    return Expansion(e.fx, e.fu, *copies)


def with_multipliers(
    e: Expansion, first: np.ndarray, C: tuple[np.ndarray, np.ndarray], multipliers: np.ndarray
) -> Expansion:
    """The expansion with C'lam in its gradients, those of the Lagrangian."""
    lx, lu = e.lx.copy(), e.lu.copy()
    add_gradients(first, *C, multipliers, lx, lu)
    return e._replace(lx=lx, lu=lu)


@lru_cache
def random_signs(count: int) -> np.ndarray:
    """Entries 1 and -1, the same ones for the same number of them."""
    return read_only([np.random.default_rng(0).choice([-1.0, 1.0], count)])[0]


def random_sum_gradient(
    fx: np.ndarray, fu: np.ndarray, first: np.ndarray, C: tuple[np.ndarray, np.ndarray], chosen: np.ndarray
) -> np.ndarray:
    """Gradient (N, nu), with respect to the controls, of the sum of the chosen rows with random signs: the expectation
    of its squares is the sum of the squares of these rows' own gradients, at the cost of one."""
    N, ndx, nu = fu.shape
    signs = np.zeros(len(C[0]))
    signs[chosen] = random_signs(len(chosen))
    none = Expansion(fx, fu, *zero_blocks(N, ndx, nu))
    with np.errstate(all="ignore"):
        return adjoint(with_multipliers(none, first, C, signs))[1]


@lean_routine
def along(first, Cx, Cu, dx, du, change):
    """Write C (dx, du) for every row."""
    for t in range(dx.shape[0]):
        for i in range(first[t], first[t + 1]):
            total = 0.0
            for a in range(Cx.shape[1]):
                total += Cx[i, a] * dx[t, a]
            if t < du.shape[0]:
                for a in range(Cu.shape[1]):
                    total += Cu[i, a] * du[t, a]
            change[i] = total


def change_of_rows(first: np.ndarray, C: tuple[np.ndarray, np.ndarray], dx: np.ndarray, du: np.ndarray) -> np.ndarray:
    """C (dx, du) for every row (R,)."""
    change = np.empty(len(C[0]))
    along(first, *C, dx, du, change)
    return change


def read_only(arrays: Iterable[np.ndarray]) -> list[np.ndarray]:
    """The arrays, made read-only, so that many can have them."""
    arrays = list(arrays)
    for array in arrays:
        array.flags.writeable = False
    return arrays


Linearize = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""fx (N, ndx, ndx) and fu (N, ndx, nu) along a trajectory."""


# --------------------------------------------------------------------------------------------
# The rows.


LARGE = 1e3
"""Size of the terms of rows with slopes of 1 above which all rows are scaled by their terms; in the library's problems
terms are of size 0.4 to 30."""
ROUNDING = 100.0 * float(np.finfo(np.float64).eps)
"""Rounding error of a row, relative to its terms: some tens of steps in time, each with the last bit of its numbers."""


class Block(NamedTuple):
    """One constraint (by its index) at knots (K,) where it is evaluated in one call, the residual for these knots, and
    its places (K, nr) among the rows; `single` if each row is a component of a state or a control."""

    constraint: ResidualConstraint
    residual: Any
    number: int
    knots: np.ndarray
    of_states: bool
    rows: np.ndarray
    single: bool

    def points(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """States and controls at its knots."""
        place = place_of(self.knots)
        return xs[place], None if self.of_states else us[place]

    def with_own_numbers(self) -> Block:
        """The same with a residual of targets in arrays that nobody else has."""
        own = None if self.single else getattr(self.residual, "with_own_numbers", None)
        return self if own is None else self._replace(residual=own())

    def take_numbers(self, other: Block) -> bool:
        """Write targets of another one's residual into these arrays; False if it differs in more."""
        if self.single != other.single or not np.array_equal(self.rows, other.rows):
            return False
        if self.single:
            return True
        if self.of_states != other.of_states or not np.array_equal(self.knots, other.knots):
            return False
        take = getattr(self.residual, "take_numbers", None)
        return self.residual is other.residual if take is None else take(other.residual)

    def prepared_points(self, xs: np.ndarray, us: np.ndarray) -> PreparedPoints:
        """The same for arrays that stay."""
        return prepared_points(place_of(self.knots), xs, None if self.of_states else us)


class Singles(NamedTuple):
    """Rows that are one component each: place, knot and component (S,), controls counted after states, and reference
    (S,)."""

    place: np.ndarray
    knot: np.ndarray
    component: np.ndarray
    reference: np.ndarray


@by_address
def _read(place, knot, component, reference, xs, us, D, c):
    for i in range(place.shape[0]):
        t, j = knot[i], component[i]
        z = xs[t, j] if j < xs.shape[1] else us[t, j - xs.shape[1]]
        c[place[i]] = (z - reference[i]) * D[place[i]]


@by_address
def _write(place, component, nx, D, Cx, Cu):
    for i in range(place.shape[0]):
        j = component[i]
        if j < nx:
            Cx[place[i], j] = D[place[i]]
        else:
            Cu[place[i], j - nx] = D[place[i]]


@by_address
def _place_values(rows, r, D, c):
    """Write values r (K, nr) times D to their places (K, nr) among the rows."""
    for k in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            c[rows[k, i]] = r[k, i] * D[rows[k, i]]


@by_address
def _place_jacobian(rows, J, D, C):
    """Write Jacobians J (K, nr, n) times D to their places (K, nr) among the rows."""
    for k in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            row = rows[k, i]
            for j in range(J.shape[2]):
                C[row, j] = J[k, i, j] * D[row]


@by_address
def _set_multipliers(rows, lam, D, weights):
    """Write lam D at these rows (K, nr) to the first nr columns of weights."""
    for k in range(rows.shape[0]):
        for i in range(rows.shape[1]):
            weights[k, i] = lam[rows[k, i]] * D[rows[k, i]]


class RowCalls:
    """Evaluations of rows at arrays that stay, as functions without arguments: prepared calls of those of single
    components, and of residuals that prepare some (`trajopt.interfaces.residual.PreparedResidual`), Python for others.

    It also has such arrays of its own, to which a trajectory and factors are copied, and evaluations there; they are
    made when they are first asked for, for one thread at a time.

    Parameters
    ----------
    blocks : those that are no single components
    singles : Singles
    sizes : (nx, ndx, nu)
    N, R : numbers of knots and of rows
    """

    def __init__(
        self, blocks: tuple[Block, ...], singles: Singles, sizes: tuple[int, int, int], N: int, R: int
    ) -> None:
        self.blocks, self._singles, self._sizes, self._N = blocks, singles, sizes, N
        (nx, ndx, nu), self._R = sizes, R
        self._xs, self._us, self._D = np.zeros((N + 1, nx)), np.zeros((N, nu)), np.zeros(R)
        self._c, self._Cx, self._Cu = np.zeros(R), np.zeros((R, ndx)), np.zeros((R, nu))

    def of_others(self, blocks: tuple[Block, ...], singles: Singles) -> RowCalls:
        """Those of as many other rows."""
        return RowCalls(blocks, singles, self._sizes, self._N, self._R)

    def __reduce__(self) -> tuple[Any, ...]:
        return RowCalls, (self.blocks, self._singles, self._sizes, self._N, self._R)

    # -------------------------------------------------------------------------------------------- at its own arrays
    def values_at(self, xs: np.ndarray, us: np.ndarray, D: np.ndarray) -> np.ndarray:
        """Values c (R,) of this trajectory, with factors D (R,)."""
        self._xs[...], self._us[...], self._D[...] = xs, us, D
        self._own_values()
        return self._c.copy()

    def linearized_at(self, xs: np.ndarray, us: np.ndarray, D: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values c (R,) and their Jacobians Cx (R, ndx), Cu (R, nu)."""
        self._xs[...], self._us[...], self._D[...] = xs, us, D
        self._own_linearization()
        return self._c.copy(), self._Cx.copy(), self._Cu.copy()

    def add_curvature_at(self, xs: np.ndarray, us: np.ndarray, D: np.ndarray, lam: np.ndarray, blocks: Blocks) -> None:
        """Add sum_i lam_i d2 c_i, lam (R,), to the Hessians of blocks."""
        if not self.blocks:
            return
        own_lam, own_blocks, add = self._own_curvature
        self._xs[...], self._us[...], self._D[...], own_lam[...] = xs, us, D, lam
        used = slice(min(block.knots[0] for block in self.blocks), max(block.knots[-1] for block in self.blocks) + 1)
        for own, H in zip(own_blocks[2:], blocks[2:], strict=True):
            own[used] = H[used]
        add()
        for own, H in zip(own_blocks[2:], blocks[2:], strict=True):
            H[used] = own[used]

    @cached_property
    def _own_values(self) -> PreparedCalls:
        return self.values(self._xs, self._us, self._D, self._c)

    @cached_property
    def _own_linearization(self) -> PreparedCalls:
        return self.linearization(self._xs, self._us, self._D, self._c, self._Cx, self._Cu)

    @cached_property
    def _own_curvature(self) -> tuple[np.ndarray, Blocks, PreparedCalls]:
        lam, blocks = np.zeros(self._R), zero_blocks(self._N, *self._sizes[1:])
        return lam, blocks, self.curvature(self._xs, self._us, self._D, lam, blocks)

    # -------------------------------------------------------------------------------------------- at arrays that stay
    def values(self, xs: np.ndarray, us: np.ndarray, D: np.ndarray, c: np.ndarray) -> PreparedCalls:
        """A function that writes c (R,)."""
        parts: list[Callable[[], Any]] = [PreparedCall(_read, *self._singles, xs, us, D, c)]
        for block in self.blocks:
            points = block.prepared_points(xs, us)
            evaluate = prepared_rows(block.residual, points.xs, points.us, False)
            if evaluate is None:
                parts.append(Quiet(partial(_write_values, block, xs, us, D, c)))
            else:
                place = PreparedCall(_place_values, block.rows, evaluate.arrays[0], D, c)
                parts += [*points.calls, quiet(evaluate), place]
        return PreparedCalls(*parts)

    def linearization(
        self, xs: np.ndarray, us: np.ndarray, D: np.ndarray, c: np.ndarray, Cx: np.ndarray, Cu: np.ndarray
    ) -> PreparedCalls:
        """A function that writes c (R,), Cx (R, ndx) and Cu (R, nu), but for entries that are always zero, which are
        written when it is prepared."""
        Cx.fill(0.0)
        Cu.fill(0.0)
        place, _, component, _ = self._singles
        parts: list[Callable[[], Any]] = [
            PreparedCall(_read, *self._singles, xs, us, D, c),
            PreparedCall(_write, place, component, self._sizes[0], D, Cx, Cu),
        ]
        for block in self.blocks:
            points = block.prepared_points(xs, us)
            evaluate = prepared_rows(block.residual, points.xs, points.us, True)
            if evaluate is None:
                parts.append(Quiet(partial(_write_jacobians, block, xs, us, D, c, Cx, Cu)))
                continue
            r, rx, ru = evaluate.arrays
            parts += [*points.calls, quiet(evaluate), PreparedCall(_place_values, block.rows, r, D, c)]
            parts += [
                PreparedCall(_place_jacobian, block.rows, J, D, C) for J, C in ((rx, Cx), (ru, Cu)) if J is not None
            ]
        return PreparedCalls(*parts)

    def curvature(
        self, xs: np.ndarray, us: np.ndarray, D: np.ndarray, lam: np.ndarray, blocks: Blocks
    ) -> PreparedCalls:
        """A function that adds sum_i lam_i d2 c_i, lam (R,), to the Hessians of blocks."""
        return PreparedCalls(*[self._curvature(block, xs, us, D, lam, blocks) for block in self.blocks])

    def _curvature(
        self, block: Block, xs: np.ndarray, us: np.ndarray, D: np.ndarray, lam: np.ndarray, blocks: Blocks
    ) -> Callable[[], Any]:
        place, (K, nr) = place_of(block.knots), block.rows.shape
        points, into = block.prepared_points(xs, us), prepared_rows_at(blocks, place, block.of_states)
        weights = multipliers(np.zeros((K, nr)))
        add = prepared_sum(block.residual, KnotSum((0, K), points.xs, points.us, weights, None, into.rows))
        if add is not None:
            weigh = PreparedCall(_set_multipliers, block.rows, lam, D, weights.rows)
            return quiet(PreparedCalls(*points.calls, weigh, *into.before, add, *into.after))

        def plain() -> None:
            target = rows_at(blocks, place, block.of_states)
            add_curvature(block.residual, *block.points(xs, us), (lam * D)[block.rows], target)
            add_rows_at(blocks, place, target)

        return quiet(plain)


def _write_values(block: Block, xs: np.ndarray, us: np.ndarray, D: np.ndarray, c: np.ndarray) -> None:
    """Write values of a residual that prepares nothing."""
    rows = block.rows
    c[rows] = evaluated(block.residual, rows.shape[1], *block.points(xs, us)) * D[rows]


def _write_jacobians(
    block: Block, xs: np.ndarray, us: np.ndarray, D: np.ndarray, c: np.ndarray, Cx: np.ndarray, Cu: np.ndarray
) -> None:
    """Write values and Jacobians of a residual that prepares nothing."""
    rows, factors = block.rows, D[block.rows]
    r, rx, ru = linearized(block.residual, rows.shape[1], *block.points(xs, us))
    shape = *rows.shape, Cx.shape[1]
    c[rows], Cx[rows] = r * factors, as_array("residual.jacobians, rx", rx, shape, finite=False) * factors[:, :, None]
    if ru is not None and not block.of_states:
        shape = *rows.shape, Cu.shape[1]
        Cu[rows] = as_array("residual.jacobians, ru", ru, shape, finite=False) * factors[:, :, None]


@dataclass(frozen=True)
class Rows:
    """R rows of constraints.

    Attributes
    ----------
    constraints : tuple of ResidualConstraint
    blocks : tuple of Block
    calls : RowCalls
        Evaluations, whatever the factors.
    singles : Singles
    knots : tuple of (K,) integers
        Knots of each constraint, read-only.
    order : (R,) integers
        Indices of rows, constraint by constraint, each by knots and components.
    component : (R,) integers
        Index of a row's component among the components of all constraints.
    first : (N+2,) integers
    lower, upper : (R,) arrays
        Limits of c.
    D : (R,) array
    sizes : (nx, ndx, nu)
    rounding : (R,) array
        Accuracy of rows, in the user's units; zeros before `scaled_at`.
    large : bool
        True if rows are scaled by the size of their terms.
    """

    constraints: tuple[ResidualConstraint, ...]
    blocks: tuple[Block, ...]
    calls: RowCalls
    singles: Singles
    knots: tuple[np.ndarray, ...]
    order: np.ndarray
    component: np.ndarray
    first: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    D: np.ndarray
    sizes: tuple[int, int, int]
    rounding: np.ndarray
    large: bool = False

    def __len__(self) -> int:
        return len(self.D)

    def values(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Values c (R,)."""
        return self.calls.values_at(xs, us, self.D)

    def prepared_values(self, xs: np.ndarray, us: np.ndarray, c: np.ndarray) -> PreparedCalls:
        """A function without arguments that writes `values` into c, at what these arrays and D hold then."""
        return self.calls.values(xs, us, self.D, c)

    def violations(self, c: np.ndarray) -> np.ndarray:
        """Signed violations c - clip(c, lower, upper) (R,) of values c."""
        with np.errstate(invalid="ignore"):  # of infinite rows, far away
            return c - np.clip(c, self.lower, self.upper)

    def linearized(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values c (R,), and their Jacobians Cx (R, ndx) and Cu (R, nu)."""
        return self.calls.linearized_at(xs, us, self.D)

    def prepared_linearization(
        self, xs: np.ndarray, us: np.ndarray, c: np.ndarray, Cx: np.ndarray, Cu: np.ndarray
    ) -> PreparedCalls:
        """A function without arguments that writes what `linearized` returns into c, Cx and Cu, which nobody else may
        write to: entries that are always zero are written when it is prepared."""
        return self.calls.linearization(xs, us, self.D, c, Cx, Cu)

    def add_curvature(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, blocks: Blocks) -> None:
        """Add sum_i lam_i d2 c_i, lam (R,), to lxx, lux, luu of the blocks."""
        self.calls.add_curvature_at(xs, us, self.D, lam, blocks)

    def prepared_curvature(self, xs: np.ndarray, us: np.ndarray, lam: np.ndarray, blocks: Blocks) -> PreparedCalls:
        """`add_curvature` with these arrays, as a function without arguments."""
        return self.calls.curvature(xs, us, self.D, lam, blocks)

    # -------------------------------------------------------------------------------------------- own numbers
    def with_own_numbers(self) -> Rows:
        """The same rows with factors, limits, rounding, references and targets in arrays that nobody else has, which
        its prepared functions read."""
        blocks = tuple([block.with_own_numbers() for block in self.blocks])
        singles = self.singles._replace(reference=self.singles.reference.copy())
        calls = self.calls.of_others(tuple([block for block in blocks if not block.single]), singles)
        arrays = {name: getattr(self, name).copy() for name in ("D", "lower", "upper", "rounding")}
        return replace(self, blocks=blocks, singles=singles, calls=calls, **arrays)

    def take_numbers(self, other: Rows) -> bool:
        """Write the numbers of other rows into these arrays, which `with_own_numbers` has made; False if they differ in
        more, after which the numbers of these are undefined."""
        (*places, reference), (*others, given) = self.singles, other.singles
        mine, its = [self.first, *places], [other.first, *others]
        if len(self.blocks) != len(other.blocks) or not all(map(np.array_equal, mine, its)):
            return False
        if not all([own.take_numbers(block) for own, block in zip(self.blocks, other.blocks, strict=True)]):
            return False
        reference[...] = given
        for name in ("D", "lower", "upper", "rounding"):
            getattr(self, name)[...] = getattr(other, name)
        return True

    # -------------------------------------------------------------------------------------------- units
    def scaled_at(self, xs: np.ndarray, us: np.ndarray, linearize: Linearize | None = None) -> Rows:
        """The rows with factors from the Jacobians at xs, us or, where terms are large, from the terms' sizes and the
        dynamics, if these are given; and with their rounding."""
        c, Cx, Cu = replace(self, D=np.ones(len(self))).linearized(xs, us)
        slopes = self._largest(np.maximum(np.abs(Cx).max(axis=1, initial=0.0), np.abs(Cu).max(axis=1, initial=0.0)))
        sizes = self._largest(self._made_of(c, Cx, Cu, xs, us))
        least = HALF_PRECISION  # a slope below it is not used as a unit
        factors = [np.where((s > least) & np.isfinite(s), 1.0 / np.maximum(s, least), 1.0) for s in slopes]
        made_of = [size * factor for size, factor in zip(sizes, factors, strict=True)]
        large = any((LARGE < s).any() and np.isfinite(s).all() for s in made_of)
        if large:
            factors = [factor / np.maximum(s, 1.0) for factor, s in zip(factors, made_of, strict=True)]
            if linearize is not None:
                factors = self._balanced(factors, sizes, (Cx, Cu), linearize(xs, us))
        rounding = ROUNDING * np.concatenate([np.zeros(0), *sizes])[self.component]
        return replace(self.with_factors(factors), rounding=rounding, large=large)

    def measured_at(self, xs: np.ndarray, us: np.ndarray) -> Rows:
        """The rows with the rounding at xs, us, and unchanged factors."""
        there = self.scaled_at(xs, us)
        return replace(self, rounding=there.rounding, large=there.large)

    def _balanced(
        self,
        factors: list[np.ndarray],
        sizes: list[np.ndarray],
        C: tuple[np.ndarray, np.ndarray],
        dynamics: tuple[np.ndarray, np.ndarray],
    ) -> list[np.ndarray]:
        """Factors with which all components have gradients of one size with respect to the controls; the given ones
        where a gradient is zero or not finite."""
        slopes = [np.zeros(constraint.nr) for constraint in self.constraints]
        for number, constraint in enumerate(self.constraints):
            for j in range(constraint.nr):
                places = [block.rows[:, j] for block in self.blocks if block.number == number]
                chosen = np.concatenate([np.zeros(0, np.intp), *places])
                if len(chosen):
                    gradient = random_sum_gradient(*dynamics, self.first, C, chosen)
                    slopes[number][j] = np.sqrt(np.square(gradient).sum() / len(chosen))
        known = np.concatenate(slopes)[self.component]
        if not (np.isfinite(known) & (known > 0.0)).all():
            return factors
        found = [1.0 / np.where(slope > 0.0, slope, 1.0) for slope in slopes]
        largest = max((size * factor).max(initial=0.0) for size, factor in zip(sizes, found, strict=True))
        return [factor / largest for factor in found]

    def _largest(self, values: np.ndarray) -> list[np.ndarray]:
        """Largest of values (R,) for each component of each constraint, (nr,) each; 0 where that has no rows."""
        found = []
        for number, constraint in enumerate(self.constraints):
            rows = [values[block.rows].max(axis=0) for block in self.blocks if block.number == number]
            found.append(np.max(rows, axis=0) if rows else np.zeros(constraint.nr))
        return found

    def _made_of(self, c: np.ndarray, Cx: np.ndarray, Cu: np.ndarray, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """Size |c| + |Cx| |x| + |Cu| |u| of the terms of every row (R,), x and u being the largest of the trajectory;
        for states on a manifold, whose numbers are no coordinates of their tangent, without x."""
        nx, ndx, _ = self.sizes
        size = np.abs(c) + np.abs(Cu) @ np.abs(us).max(axis=0)
        return size + np.abs(Cx) @ np.abs(xs).max(axis=0) if nx == ndx else size

    def with_factors(self, factors: Sequence[np.ndarray]) -> Rows:
        """The rows with these positive factors (nr,), one array for each constraint; limits are scaled with them.
        Raises ValueError for factors that are not positive or of another shape."""
        key = tuple([(given.dtype.char, given.shape, given.tobytes()) for given in map(np.asarray, factors)])
        known = self._last.get(key)
        if known is not None:
            return known
        checked = []
        for constraint, given in zip(self.constraints, factors, strict=True):
            checked.append(as_array(f"factors of {constraint.name}", given, (constraint.nr,), copy=True))
            if not (checked[-1] > 0.0).all():
                raise ValueError(f"factors of {constraint.name}: got {given}, expected positive numbers")
        D = np.concatenate(checked)[self.component]
        with np.errstate(invalid="ignore"):
            known = replace(self, D=D, lower=self.lower / self.D * D, upper=self.upper / self.D * D)
        self._last.clear()
        self._last[key] = known
        return known

    @cached_property
    def _last(self) -> dict[tuple[Any, ...], Rows]:
        """Cache of the rows with their last factors, kept from one real-time iteration to the next."""
        return {}

    @cached_property
    def factors(self) -> list[np.ndarray]:
        """Factors of each constraint (nr,), read-only."""
        return self._of_components(self.D)

    def _of_components(self, values: np.ndarray) -> list[np.ndarray]:
        """Entries of values (R,) that rows have in common at all knots, (nr,) of each constraint; ones where it has no
        rows."""
        found = [np.ones(constraint.nr) for constraint in self.constraints]
        for block in self.blocks:
            found[block.number] = values[block.rows[0]]
        return read_only(found)

    # -------------------------------------------------------------------------------------------- in and out
    @cached_property
    def of_reports(self) -> list[dict[str, Any]]:
        """What reports of the constraints, in their own units, have in common at all trajectories, by fields; arrays
        are read-only."""
        lower, upper = (read_only(self.unpacked(limits / self.D)) for limits in (self.lower, self.upper))
        columns = zip(
            self.constraints, self.knots, lower, upper, self.factors, self._of_components(self.rounding), strict=True
        )
        return [
            {"name": one.name, "components": one.component_names, "knots": knots, "lower": low, "upper": high,
             "factors": factors, "rounding": rounding}
            for one, knots, low, high, factors, rounding in columns
        ]  # fmt: skip

    @cached_property
    def _parts(self) -> list[tuple[slice, tuple[int, int]]]:
        """Of each constraint the place of its rows, of those in `order`, and the shape (K, nr) of their values."""
        shapes = [(len(knots), one.nr) for one, knots in zip(self.constraints, self.knots, strict=True)]
        ends = np.cumsum([0, *[K * nr for K, nr in shapes]]).tolist()
        return [(slice(*ends[i : i + 2]), shape) for i, shape in enumerate(shapes)]

    def packed(self, name: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Values (R,) from one array (K, nr) for each constraint.  Raises ValueError where one does not fit."""
        packed, ordered = np.empty(self.D.shape), np.empty(self.D.shape)
        for one, (part, shape), array in zip(self.constraints, self._parts, arrays, strict=True):
            ordered[part] = as_array(f"{name} of {one.name}", array, shape).reshape(-1)
        packed[self.order] = ordered
        return packed

    def unpacked(self, rows: np.ndarray) -> list[np.ndarray]:
        """One array (K, nr) for each constraint from values (R,)."""
        ordered = rows.take(self.order)
        return [ordered[part].reshape(shape) for part, shape in self._parts]

    def culprit(self, xs: np.ndarray, us: np.ndarray) -> str | None:
        """Message: the first constraint whose value or Jacobian is not finite, and where; None if all are."""
        c, Cx, Cu = self.linearized(xs, us)
        for block in self.blocks:
            row = first_not_finite(c[block.rows])
            if row is not None:
                values = c[block.rows[row]]
                what = number_name(values[~np.isfinite(values)][0])
                return f"constraint '{block.constraint.name}' is {what} at knot {block.knots[row]}"
            for what, array in (("rx", Cx), ("ru", Cu)):
                row = first_not_finite(array[block.rows])
                if row is not None:
                    entry, name = entry_name(what, array[block.rows][row]), block.constraint.name
                    return f"{entry} of constraint '{name}' is not finite at knot {block.knots[row]}"
        return None

    def curvature_culprit(self, xs: np.ndarray, us: np.ndarray) -> str | None:
        """Message: the first constraint whose second derivative is not finite, and where; None if all are."""
        ones = np.ones(len(self))
        for block in self.blocks:
            with np.errstate(all="ignore"):
                points = block.points(xs, us)
                found = block.residual.hessian_products(*points, ones[block.rows])
            for what, H in zip(("Hxx", "Hux", "Huu"), found, strict=True):
                row = None if H is None else first_not_finite(H)
                if H is not None and row is not None:
                    entry, name = entry_name(what, H[row]), block.constraint.name
                    return f"{entry} of constraint '{name}' is not finite at knot {block.knots[row]}"
        return None


# --------------------------------------------------------------------------------------------
# Packing of constraints into rows: the knots at which they hold, and the rows that are single components of a state or
# control.


def pack(problem: Problem, constraints: tuple[ResidualConstraint, ...]) -> Rows:
    """The rows of these constraints, unscaled."""
    N, nx, ndx, nu = problem.horizon, problem.system.nx, problem.system.ndx, problem.system.nu
    parts, counts = [], np.zeros(N + 1, dtype=np.intp)
    for number, constraint in enumerate(constraints):
        of_states = constraint.at == "terminal" or _state_only(constraint, problem)
        knots = constraint.knots(N, constraint.at != "terminal" and of_states)
        limits = constraint.limits(knots)
        for chosen in (slice(None),) if of_states else (knots < N, knots == N):
            some = knots[chosen]
            if len(some):
                parts.append((number, constraint, some, of_states or some[0] == N, [rows[chosen] for rows in limits]))
                counts[some] += constraint.nr
    first = np.concatenate([np.zeros(1, dtype=np.intp), np.cumsum(counts)])
    free, components_before = first[:-1].copy(), np.cumsum([0, *(constraint.nr for constraint in constraints)])
    R, blocks, singles = first[-1], [], []
    lower, upper, component = np.empty(R), np.empty(R), np.empty(R, dtype=np.intp)
    for number, constraint, knots, of_states, limits in parts:
        rows = free[knots][:, None] + np.arange(constraint.nr)
        free[knots] += constraint.nr
        single = _singles(constraint, knots, of_states, rows, nx, nu)
        if single is not None:
            singles.append(single)
        residual = at_knots(constraint.residual, knots)
        blocks.append(Block(constraint, residual, number, knots, of_states, rows, single is not None))
        lower[rows], upper[rows] = limits
        component[rows] = components_before[number] + np.arange(constraint.nr)
    nowhere = np.zeros(0, dtype=np.intp)
    order = np.concatenate([nowhere, *(block.rows.ravel() for block in blocks)])
    columns = zip(Singles(nowhere, nowhere, nowhere, np.zeros(0)), *singles, strict=True)
    at = [[nowhere, *[block.knots for block in blocks if block.number == i]] for i in range(len(constraints))]
    together, others = Singles(*map(np.concatenate, columns)), tuple(block for block in blocks if not block.single)
    calls = RowCalls(others, together, (nx, ndx, nu), N, int(R))
    return Rows(
        constraints, tuple(blocks), calls, together, tuple(read_only(map(np.concatenate, at))), order, component,
        first, lower, upper, np.ones(R), (nx, ndx, nu), np.zeros(R),
    )  # fmt: skip


def _singles(
    constraint: ResidualConstraint, knots: np.ndarray, of_states: bool, rows: np.ndarray, nx: int, nu: int
) -> Singles | None:
    """The rows (K, nr) as single components of states or controls if they are that, else None."""
    found = capability(constraint.residual, SingleComponents).components_read()
    if found is None or (of_states and found.of_controls):
        return None
    if found.width != (nu if found.of_controls else nx) or len(found.indices) != constraint.nr:
        return None
    K, components = len(knots), found.indices + nx * found.of_controls
    return Singles(rows.ravel(), np.repeat(knots, len(components)), np.tile(components, K), np.tile(found.reference, K))


def _state_only(constraint: ResidualConstraint, problem: Problem) -> bool:
    """True if the residual has no derivative in the controls."""
    residual = at_knots(constraint.residual, np.zeros(1, dtype=np.intp))
    _, ru = residual.jacobians(problem.x0[None], problem.us_init[:1])
    return ru is None
