"""Constraints as smooth terms of the objective: the augmented Lagrangian of Powell, Hestenes and Rockafellar.

For lower <= r <= upper with multiplier lam (positive where the upper limit presses) and penalty rho > 0,

    z = r + lam/rho,    s = z - clip(z, lower, upper),    term  rho/2 s^2
    gradient  rho s r_x,    Gauss-Newton Hessian  rho r_x'r_x where s != 0 (or lower = upper),    curvature  rho s d2 r
    update    lam <- rho s

so a minimum of the sum is a stationary point of the Lagrangian with the updated multipliers.  The terms are not
multiplied by dt: lam is the multiplier of the constraint at one knot.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dynamics.simd import routine
from trajopt.costs import Quadratic
from trajopt.costs.cost_of_residual import CostOfResidual, add_products, evaluated, linearized
from trajopt.costs.loss import Model
from trajopt.interfaces.residual import Residual
from trajopt.problem.constraints import ResidualConstraint
from trajopt.problem.problem import Problem
from trajopt.problem.term import Term
from trajopt.results.records import ConstraintReport, largest_product
from trajopt.validation import float_array


class Shifted(NamedTuple):
    """s (K, nr), the derivative of s by r, 0 or 1, and rho/2 s^2 summed per knot (K,)."""

    s: np.ndarray
    active: np.ndarray
    values: np.ndarray


@routine
def _shift(r, multipliers, penalty, lower, upper, s, active):
    values = np.zeros(r.shape[0])
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            z = r[t, i] + multipliers[t, i] / penalty
            s[t, i] = z - min(max(z, lower[t, i]), upper[t, i])
            active[t, i] = 1.0 if s[t, i] != 0.0 or lower[t, i] == upper[t, i] else 0.0
            values[t] += 0.5 * penalty * s[t, i] * s[t, i]
    return values


class Part(NamedTuple):
    """A constraint at its running knots, or at the last one: limits, multipliers and penalty, (K, nr) each."""

    constraint: ResidualConstraint
    knots: np.ndarray
    terminal: bool
    lower: np.ndarray
    upper: np.ndarray
    multipliers: np.ndarray
    penalty: float

    def points(self, xs: np.ndarray, us: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """States and controls at its knots."""
        return (xs[-1:], None) if self.terminal else (xs[self.knots], us[self.knots])

    def values(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """r (K, nr)."""
        return evaluated(self.constraint.residual, self.constraint.nr, xs, us)

    def shifted(self, r: np.ndarray) -> Shifted:
        """s, where it is active, and its cost."""
        s, active = np.empty_like(r), np.empty_like(r)
        values = _shift(r, self.multipliers, self.penalty, self.lower, self.upper, s, active)
        return Shifted(s, active, values)

    def sides(self, r: np.ndarray) -> np.ndarray:
        """-1 where z lies below the lower limit, 1 where above the upper one or the two are equal, 0 between."""
        z = r + self.multipliers / self.penalty
        return np.where((z > self.upper) | (self.lower == self.upper), 1, np.where(z < self.lower, -1, 0))

    def next_multipliers(self, r: np.ndarray) -> np.ndarray:
        """rho s."""
        return self.penalty * self.shifted(r).s

    def violation(self, r: np.ndarray) -> float:
        """Largest distance of r from its limits."""
        return float(np.maximum(self.lower - r, r - self.upper).max(initial=0.0))


class AugmentedTerm(CostOfResidual):
    """The cost rho/2 s^2 of one part."""

    def __init__(self, part: Part) -> None:
        self.part, self.name = part, part.constraint.name
        self.residual, self.nr, self.knots, self._diagonal = part.constraint.residual, part.constraint.nr, None, True

    def squares(self, nu: int) -> tuple[Residual, np.ndarray]:
        """The residual and rho, lam/rho, lower, upper (K, 4 nr) of which this is 1/2 sum rho s^2."""
        part = self.part
        weights = np.full_like(part.lower, part.penalty), part.multipliers / part.penalty, part.lower, part.upper
        return self.residual, np.concatenate(weights, axis=1)

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,)."""
        return self.part.shifted(self.part.values(xs, us)).values

    def _model(self, r: np.ndarray) -> Model:
        s, active, _ = self.part.shifted(r)
        return Model(self.part.penalty * s, self.part.penalty * active)

    def accumulate_change(
        self,
        xs: np.ndarray,
        us: np.ndarray | None,
        trial: tuple[np.ndarray, np.ndarray | None],
        scale: float,
        target: Quadratic,
    ) -> np.ndarray:
        """Add what gradient and Gauss-Newton Hessian at (xs, us) lack of those with the limits that press at a trial:
        of rho/2 (z - limit)^2 where one does, else of nothing.

        Returns the sides at the trial (K, nr), empty if they are those at (xs, us).
        """
        part = self.part
        now, then = part.sides(part.values(xs, us)), part.sides(part.values(*trial))
        if (now == then).all():
            return np.empty(0, dtype=now.dtype)
        r, rx, ru = linearized(self.residual, self.nr, xs, us)
        z = r + part.multipliers / part.penalty
        s = np.where(then > 0, z - part.upper, np.where(then < 0, z - part.lower, 0.0))
        model = Model(part.penalty * (s - part.shifted(r).s), part.penalty * (np.abs(then) - np.abs(now)))
        add_products(model, rx, ru, scale, target)
        return then


class Measures(NamedTuple):
    """Of a trajectory: largest violation, largest lam times slack, and of every part the largest |s - lam/rho|, which
    is violation and slackness together."""

    violation: float
    complementarity: float
    residuals: np.ndarray


@dataclass(frozen=True)
class AugmentedLagrangian:
    """The terms of all constraints; a constraint that holds at no knot has no part.

    Attributes
    ----------
    constraints : tuple of ResidualConstraint
    parts : tuple of Part
    """

    constraints: tuple[ResidualConstraint, ...]
    parts: tuple[Part, ...]

    def _with(self, parts: Iterable[Part]) -> "AugmentedLagrangian":
        return AugmentedLagrangian(self.constraints, tuple(parts))

    def terms(self) -> tuple[Term, ...]:
        """Terms to add to an objective."""
        return tuple(Term(AugmentedTerm(p), None if p.terminal else p.knots, 1.0, p.terminal) for p in self.parts)

    def measures(self, xs: np.ndarray, us: np.ndarray) -> Measures:
        """Violation, residual and complementarity, with the multipliers the next update would give."""
        violation, complementarity, residuals = 0.0, 0.0, []
        for part in self.parts:
            r = part.values(*part.points(xs, us))
            lam = part.next_multipliers(r)
            violation = max(violation, part.violation(r))
            change = np.abs(lam - part.multipliers) / part.penalty
            residuals.append(float(change.max(initial=0.0)))
            complementarity = max(complementarity, largest_product(r, part.lower, part.upper, lam))
        return Measures(violation, complementarity, np.array(residuals))

    def violation(self, xs: np.ndarray, us: np.ndarray) -> float:
        """The largest violation."""
        return max((part.violation(part.values(*part.points(xs, us))) for part in self.parts), default=0.0)

    def updated(self, xs: np.ndarray, us: np.ndarray, growth: np.ndarray | None = None) -> "AugmentedLagrangian":
        """Multipliers lam <- rho s, penalties multiplied by growth, one number a part."""
        parts = []
        for part, factor in zip(self.parts, np.ones(len(self.parts)) if growth is None else growth, strict=True):
            lam = part.next_multipliers(part.values(*part.points(xs, us)))
            parts.append(part._replace(multipliers=lam, penalty=float(factor * part.penalty)))
        return self._with(parts)

    def with_penalties(self, penalty: Callable[[Part], float]) -> "AugmentedLagrangian":
        """The same multipliers with the penalty that the function gives each part."""
        return self._with(part._replace(penalty=penalty(part)) for part in self.parts)

    def with_multipliers(self, multipliers: Sequence[np.ndarray], penalties: Sequence[float]) -> "AugmentedLagrangian":
        """These multipliers (K, nr) and penalties, one for each constraint; a penalty of 0 leaves what is there.

        Raises ValueError where multipliers do not fit their constraint.
        """
        pairs = zip(multipliers, penalties, strict=True)
        given = dict(zip(map(id, self.constraints), pairs, strict=True))
        total: dict[int, int] = {}
        for part in self.parts:
            total[id(part.constraint)] = total.get(id(part.constraint), 0) + len(part.knots)
        parts: list[Part] = []
        rows: dict[int, int] = {}
        for part in self.parts:
            array, penalty = given[id(part.constraint)]
            shape = total[id(part.constraint)], part.constraint.nr
            array = float_array(f"multipliers of {part.constraint.name}", array, shape)
            start = rows.get(id(part.constraint), 0)
            stop = start + len(part.knots)
            rows[id(part.constraint)] = stop
            parts.append(part._replace(multipliers=array[start:stop].copy(), penalty=penalty or part.penalty))
        return self._with(parts)

    def reports(self, xs: np.ndarray, us: np.ndarray) -> list[ConstraintReport]:
        """One report for each constraint."""
        return [self._report(constraint, xs, us) for constraint in self.constraints]

    def _report(self, constraint: ResidualConstraint, xs: np.ndarray, us: np.ndarray) -> ConstraintReport:
        parts = [part for part in self.parts if part.constraint is constraint]
        names = constraint.component_names
        if not parts:
            none = np.zeros((0, constraint.nr))
            return ConstraintReport(constraint.name, np.zeros(0, dtype=np.intp), none, none, none, none, 0.0, names)
        knots, lower, upper, multipliers = (
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("knots", "lower", "upper", "multipliers")
        )
        values = np.concatenate([part.values(*part.points(xs, us)) for part in parts])
        penalty = max(part.penalty for part in parts)
        return ConstraintReport(constraint.name, knots, values, lower, upper, multipliers, penalty, names)


def state_only(constraint: ResidualConstraint, problem: Problem) -> bool:
    """Whether the residual has no derivative in the controls."""
    _, ru = constraint.residual.jacobians(problem.x0[None], problem.us_init[:1])
    return ru is None


def augmented_lagrangian(problem: Problem, constraints: tuple[ResidualConstraint, ...]) -> AugmentedLagrangian:
    """Zero multipliers and unit penalties for these constraints."""
    parts = []
    for constraint in constraints:
        knots = constraint.knots(problem.horizon, constraint.at != "terminal" and state_only(constraint, problem))
        lower, upper = constraint.limits(knots)
        for terminal in (False, True):
            rows = (knots == problem.horizon) == terminal
            if rows.any():
                zero = np.zeros((int(rows.sum()), constraint.nr))
                parts.append(Part(constraint, knots[rows], terminal, lower[rows], upper[rows], zero, 1.0))
    return AugmentedLagrangian(constraints, tuple(parts))
