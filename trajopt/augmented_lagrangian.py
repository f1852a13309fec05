"""Constraints as smooth terms of the objective: the augmented Lagrangian of Powell, Hestenes and Rockafellar.

For lower <= r <= upper with multiplier lam (positive where the upper limit presses) and penalty rho > 0,

    z = r + lam/rho,    s = z - clip(z, lower, upper),    term  rho/2 s^2
    gradient  rho s r_x,    Gauss-Newton Hessian  rho r_x'r_x where s != 0 (or lower = upper),    curvature  rho s d2 r
    update    lam <- rho s

so a minimum of the sum is a stationary point of the Lagrangian with the updated multipliers.  The terms are not
multiplied by dt: lam is the multiplier of the constraint at one knot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trajopt.constraints import ResidualConstraint
from trajopt.cost_kernels import add_cross, add_gauss_newton
from trajopt.costs import Quadratic
from trajopt.objective import Term
from trajopt.problem import Problem
from trajopt.solution import ConstraintReport
from trajopt.system import System
from trajopt.validation import same_shape


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
        shape = (len(xs), self.constraint.nr)
        return same_shape("residual.evaluate", self.constraint.residual.evaluate(xs, us), shape)

    def shifted(self, r: np.ndarray) -> np.ndarray:
        """s (K, nr)."""
        z = r + self.multipliers / self.penalty
        return z - np.clip(z, self.lower, self.upper)


class AugmentedTerm:
    """The cost rho/2 s^2 of one part."""

    def __init__(self, part: Part):
        self.part, self.name = part, part.constraint.name

    def check(self, system: System, terminal: bool) -> None:
        """Accept any system: what the residual returns is checked when it is evaluated."""

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,)."""
        s = self.part.shifted(self.part.values(xs, us))
        return 0.5 * self.part.penalty * np.einsum("ki,ki->k", s, s)

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times gradient and Gauss-Newton Hessian."""
        part, nr = self.part, self.part.constraint.nr
        s = part.shifted(part.values(xs, us))
        active = part.penalty * ((s != 0.0) | (part.lower == part.upper))
        rx, ru = part.constraint.residual.jacobians(xs, us)
        rx = same_shape("residual.jacobians, rx", rx, (len(xs), nr, target.lx.shape[1]))
        slope = np.full((1, nr), part.penalty)
        add_gauss_newton(s, slope, active, scale, rx, target.lx, target.lxx)
        if ru is not None and target.lu is not None:
            ru = same_shape("residual.jacobians, ru", ru, (len(xs), nr, target.lu.shape[1]))
            add_gauss_newton(s, slope, active, scale, ru, target.lu, target.luu)
            add_cross(active, scale, ru, rx, target.lux)

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times rho s d2 r."""
        s = self.part.shifted(self.part.values(xs, us))
        blocks = self.part.constraint.residual.hessian_products(xs, us, scale * self.part.penalty * s)
        for name, H, into in zip(("Hxx", "Hux", "Huu"), blocks, target[2:], strict=True):
            if H is not None and into is not None:
                np.add(into, same_shape(f"residual.hessian_products, {name}", H, into.shape), out=into)


class Measures(NamedTuple):
    """Of a trajectory: largest violation, largest lam times slack, and of every part the largest |s - lam/rho|, which
    is violation and slackness together."""

    violation: float
    complementarity: float
    residuals: np.ndarray


@dataclass(frozen=True)
class AugmentedLagrangian:
    """The terms of all constraints of a problem."""

    parts: tuple[Part, ...]

    def terms(self) -> tuple[Term, ...]:
        """Terms to add to an objective."""
        return tuple(Term(AugmentedTerm(p), None if p.terminal else p.knots, 1.0, p.terminal) for p in self.parts)

    def measures(self, xs: np.ndarray, us: np.ndarray) -> Measures:
        """Violation, residual and complementarity, with the multipliers the next update would give."""
        violation, complementarity, residuals = 0.0, 0.0, []
        for part in self.parts:
            r = part.values(*part.points(xs, us))
            lam = part.penalty * part.shifted(r)
            violation = max(violation, float(np.abs(r - np.clip(r, part.lower, part.upper)).max(initial=0.0)))
            change = np.abs(lam - part.multipliers) / part.penalty
            residuals.append(float(change.max(initial=0.0)))
            limit = np.where(lam > 0.0, part.upper, part.lower)
            slack = np.where(lam != 0.0, r - np.where(np.isfinite(limit), limit, 0.0), 0.0)
            complementarity = max(complementarity, float(np.abs(lam * slack).max(initial=0.0)))
        return Measures(violation, complementarity, np.array(residuals))

    def updated(self, xs: np.ndarray, us: np.ndarray, growth: np.ndarray | None = None) -> "AugmentedLagrangian":
        """Multipliers lam <- rho s, penalties multiplied by growth, one number a part."""
        parts = []
        for part, factor in zip(self.parts, np.ones(len(self.parts)) if growth is None else growth, strict=True):
            lam = part.penalty * part.shifted(part.values(*part.points(xs, us)))
            parts.append(part._replace(multipliers=lam, penalty=float(factor * part.penalty)))
        return AugmentedLagrangian(tuple(parts))

    def with_penalty(self, penalty: float) -> "AugmentedLagrangian":
        """The same multipliers with this penalty everywhere."""
        return AugmentedLagrangian(tuple(part._replace(penalty=penalty) for part in self.parts))

    def with_multipliers(self, multipliers: Sequence[np.ndarray], penalties: Sequence[float]) -> "AugmentedLagrangian":
        """These multipliers (K, nr) and penalties, one for each constraint; a penalty of 0 leaves what is there.

        Raises ValueError where multipliers do not fit their constraint.
        """
        pairs = zip(multipliers, penalties, strict=True)
        given = dict(zip(map(id, self.constraints), pairs, strict=True))
        parts: list[Part] = []
        rows: dict[int, int] = {}
        for part in self.parts:
            array, penalty = given[id(part.constraint)]
            start = rows.get(id(part.constraint), 0)
            stop = start + len(part.knots)
            rows[id(part.constraint)] = stop
            if array.ndim != 2 or array.shape[1] != part.constraint.nr or len(array) < stop:
                raise ValueError(f"multipliers of {part.constraint.name}: got shape {array.shape}, which does not fit")
            parts.append(part._replace(multipliers=array[start:stop].copy(), penalty=penalty or part.penalty))
        return AugmentedLagrangian(tuple(parts))

    @property
    def constraints(self) -> list[ResidualConstraint]:
        """The constraints in order, each once."""
        return list({id(part.constraint): part.constraint for part in self.parts}.values())

    def reports(self, xs: np.ndarray, us: np.ndarray) -> list[ConstraintReport]:
        """One report for each constraint."""
        result = []
        for constraint in self.constraints:
            parts = [part for part in self.parts if part.constraint is constraint]
            values = [part.values(*part.points(xs, us)) for part in parts]
            joined = (
                np.concatenate([getattr(part, name) for part in parts])
                for name in ("knots", "lower", "upper", "multipliers")
            )
            knots, lower, upper, multipliers = joined
            result.append(
                ConstraintReport(
                    constraint.name,
                    knots,
                    np.concatenate(values),
                    lower,
                    upper,
                    multipliers,
                    max(part.penalty for part in parts),
                )
            )
        return result


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
    return AugmentedLagrangian(tuple(parts))
