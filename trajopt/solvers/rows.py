"""The rows of all constraints lower <= c <= upper, packed knot by knot, for a solve.

Row i is one number of a residual at one knot, times a factor D_i that makes the largest entry of its Jacobian 1:

    c_i = D_i r_i      D_i = 1 / max over the constraint's knots of |row i of (r_x, r_u)|      (1 where that is tiny)

with one factor for every component of a constraint.  So a constraint in other units is the same to a solve.  The rows
of knot t are first[t] <= i < first[t + 1]; the knots are 0 ... N.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from trajopt.costs import Quadratic
from trajopt.costs.cost_of_residual import add_curvature, evaluated, linearized
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.objective import Blocks, first_not_finite, number_name
from trajopt.problem.problem import Problem
from trajopt.results.records import ConstraintReport
from trajopt.validation import float_array, same_shape

TINY = 1e-8
"""Below this the largest entry of a row's Jacobian says nothing about its units."""


class Block(NamedTuple):
    """A constraint at knots (K,) where its residual is evaluated in one call, and its places (K, nr) among the rows."""

    constraint: ResidualConstraint
    knots: np.ndarray
    of_states: bool
    rows: np.ndarray

    def points(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """States and controls at its knots."""
        first, stop = self.knots[0], self.knots[-1] + 1
        where = slice(first, stop) if stop - first == len(self.knots) else self.knots
        return xs[where], None if self.of_states else us[where]


@dataclass(frozen=True)
class Rows:
    """R rows.

    Attributes
    ----------
    constraints : tuple of ResidualConstraint
    blocks : tuple of Block
    first : (N+2,) integers
    lower, upper : (R,) arrays
        Limits of c.
    D : (R,) array
    sizes : (ndx, nu)
    """

    constraints: tuple[ResidualConstraint, ...]
    blocks: tuple[Block, ...]
    first: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    D: np.ndarray
    sizes: tuple[int, int]

    def __len__(self) -> int:
        return len(self.D)

    def values(self, xs: np.ndarray, us: np.ndarray) -> np.ndarray:
        """c (R,)."""
        c = np.empty(len(self))
        with np.errstate(all="ignore"):
            for block in self.blocks:
                c[block.rows] = evaluated(block.constraint.residual, block.constraint.nr, *block.points(xs, us))
            return c * self.D

    def linearized(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """c (R,), its Jacobians Cx (R, ndx) and Cu (R, nu)."""
        ndx, nu = self.sizes
        c, Cx, Cu = np.empty(len(self)), np.empty((len(self), ndx)), np.zeros((len(self), nu))
        with np.errstate(all="ignore"):
            for block in self.blocks:
                nr, (K, _) = block.constraint.nr, block.rows.shape
                r, rx, ru = linearized(block.constraint.residual, nr, *block.points(xs, us))
                c[block.rows] = r
                Cx[block.rows] = same_shape("residual.jacobians, rx", rx, (K, nr, ndx))
                if ru is not None and not block.of_states:
                    Cu[block.rows] = same_shape("residual.jacobians, ru", ru, (K, nr, nu))
            D = self.D[:, None]
            return c * self.D, Cx * D, Cu * D

    def add_curvature(self, xs: np.ndarray, us: np.ndarray, multipliers: np.ndarray, blocks: Blocks) -> None:
        """Add sum_i lam_i d2 c_i, lam (R,), to lxx, lux, luu of the blocks."""
        lam = multipliers * self.D
        with np.errstate(all="ignore"):
            for block in self.blocks:
                used = blocks[2:3] if block.of_states else blocks[2:5]
                parts = [np.zeros((len(block.knots), *total.shape[1:])) for total in used]
                Hxx, Hux, Huu = (*parts, None, None)[:3]
                assert Hxx is not None
                target = Quadratic(np.empty(0), None, Hxx, Hux, Huu)
                add_curvature(block.constraint.residual, *block.points(xs, us), lam[block.rows], target)
                for total, part in zip(used, parts, strict=True):
                    total[block.knots] += part

    # -------------------------------------------------------------------------------------------- units
    def scaled_at(self, xs: np.ndarray, us: np.ndarray) -> Rows:
        """With factors from the Jacobians there."""
        _, Cx, Cu = replace(self, D=np.ones(len(self))).linearized(xs, us)
        largest = np.maximum(np.abs(Cx).max(axis=1, initial=0.0), np.abs(Cu).max(axis=1, initial=0.0))
        sizes = []
        for constraint in self.constraints:
            rows = [largest[block.rows].max(axis=0) for block in self.blocks if block.constraint is constraint]
            size = np.max(rows, axis=0, initial=0.0) if rows else np.zeros(constraint.nr)
            sizes.append(np.where((size > TINY) & np.isfinite(size), 1.0 / np.maximum(size, TINY), 1.0))
        return self.with_factors(sizes)

    def with_factors(self, factors: Sequence[np.ndarray]) -> Rows:
        """With these positive ones (nr,), one array a constraint; limits follow.  Raises ValueError for others."""
        D = np.empty(len(self))
        for block in self.blocks:
            name, given = block.constraint.name, factors[self._index(block)]
            D[block.rows] = float_array(f"factors of {name}", given, (block.constraint.nr,))
            if not (D[block.rows] > 0.0).all():
                raise ValueError(f"factors of {name}: got {given}, wanted positive numbers")
        with np.errstate(invalid="ignore"):
            return replace(self, D=D, lower=self.lower / self.D * D, upper=self.upper / self.D * D)

    def factors(self) -> list[np.ndarray]:
        """Those of each constraint (nr,)."""
        found = [np.ones(constraint.nr) for constraint in self.constraints]
        for block in self.blocks:
            found[self._index(block)] = self.D[block.rows[0]]
        return found

    def _index(self, block: Block) -> int:
        return next(i for i, constraint in enumerate(self.constraints) if constraint is block.constraint)

    # -------------------------------------------------------------------------------------------- in and out
    def packed(self, name: str, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """(R,) of one array (K, nr) for each constraint.  Raises ValueError where one does not fit."""
        packed = np.zeros(len(self))
        for constraint, array in zip(self.constraints, arrays, strict=True):
            blocks = [block for block in self.blocks if block.constraint is constraint]
            total = sum(len(block.knots) for block in blocks)
            array, start = float_array(f"{name} of {constraint.name}", array, (total, constraint.nr)), 0
            for block in blocks:
                packed[block.rows] = array[start : start + len(block.knots)]
                start += len(block.knots)
        return packed

    def unpacked(self, rows: np.ndarray) -> list[np.ndarray]:
        """One array (K, nr) for each constraint."""
        found = []
        for constraint in self.constraints:
            parts = [rows[block.rows] for block in self.blocks if block.constraint is constraint]
            found.append(np.concatenate(parts) if parts else np.zeros((0, constraint.nr)))
        return found

    def reports(
        self, c: np.ndarray, multipliers: np.ndarray, penalty: float, weights: np.ndarray | None
    ) -> list[ConstraintReport]:
        """One report for each constraint, in its own units; weights (R,) of a certificate of infeasibility, if any."""
        arrays = c / self.D, self.lower / self.D, self.upper / self.D, multipliers * self.D
        columns = [self.unpacked(array) for array in arrays]
        blame = [None] * len(self.constraints) if weights is None else self.unpacked(weights * self.D)
        reports = []
        for constraint, factors, nu, c, low, high, lam in zip(
            self.constraints, self.factors(), blame, *columns, strict=True
        ):
            at = [block.knots for block in self.blocks if block.constraint is constraint]
            knots, names = np.concatenate(at) if at else np.zeros(0, dtype=np.intp), constraint.component_names
            reports.append(ConstraintReport(constraint.name, knots, c, low, high, lam, penalty, names, factors, nu))
        return reports

    def culprit(self, xs: np.ndarray, us: np.ndarray) -> str | None:
        """The first constraint whose value or Jacobian is not finite, and where; None if all are."""
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
                    return f"{what} of constraint '{block.constraint.name}' is not finite at knot {block.knots[row]}"
        return None


    def curvature_culprit(self, xs: np.ndarray, us: np.ndarray) -> str | None:
        """The same of second derivatives."""
        ones = np.ones(len(self))
        for block in self.blocks:
            with np.errstate(all="ignore"):
                points = block.points(xs, us)
                found = block.constraint.residual.hessian_products(*points, ones[block.rows])
            for what, H in zip(("Hxx", "Hux", "Huu"), found, strict=True):
                row = None if H is None else first_not_finite(H)
                if row is not None:
                    name = block.constraint.name
                    return f"{what} of constraint '{name}' is not finite at knot {block.knots[row]}"
        return None


def pack(problem: Problem, constraints: tuple[ResidualConstraint, ...]) -> Rows:
    """The rows of these constraints, unscaled."""
    N, first, parts = problem.horizon, np.zeros(problem.horizon + 2, dtype=np.intp), []
    counts = np.zeros(N + 1, dtype=np.intp)
    for constraint in constraints:
        of_states = constraint.at == "terminal" or state_only(constraint, problem)
        knots = constraint.knots(N, constraint.at != "terminal" and of_states)
        for some in (knots,) if of_states else (knots[knots < N], knots[knots == N]):
            if len(some):
                limits = [rows[np.isin(knots, some)] for rows in constraint.limits(knots)]
                parts.append((constraint, some, of_states or some[0] == N, counts[some].copy(), limits))
                counts[some] += constraint.nr
    first[1:] = np.cumsum(counts)
    lower, upper, blocks = np.empty(first[-1]), np.empty(first[-1]), []
    for constraint, knots, of_states, before, limits in parts:
        rows = (first[knots] + before)[:, None] + np.arange(constraint.nr)
        blocks.append(Block(constraint, knots, of_states, rows))
        lower[rows], upper[rows] = limits
    sizes = problem.system.ndx, problem.system.nu
    return Rows(constraints, tuple(blocks), first, lower, upper, np.ones(first[-1]), sizes)


def state_only(constraint: ResidualConstraint, problem: Problem) -> bool:
    """Whether the residual has no derivative in the controls."""
    _, ru = constraint.residual.jacobians(problem.x0[None], problem.us_init[:1])
    return ru is None
