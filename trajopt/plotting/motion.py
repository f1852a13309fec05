"""Motions that pictures show, a solution or any motion that has a system, times, states and controls, and fixed shapes
around them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dynamics.validation import check_finite
from trajopt.capabilities import Pictures, capability
from trajopt.costs.residuals import StateResidual
from trajopt.interfaces.residual import SeenResidual
from trajopt.interfaces.state_space import numbers_of_states
from trajopt.problem.lifted_terms import LiftedCost, LiftedResidual
from trajopt.problem.problem import Problem
from trajopt.problem.scenery import Lines, Shape
from trajopt.results.dense_output import DenseOutput, dense_output
from trajopt.results.solution import Solution

# --------------------------------------------------------------------------------------------
# Fixed shapes in pictures: those of the system, of the problem's scenery, and of its costs and constraints.


def shapes_of(problem: Problem, xs: np.ndarray | None = None) -> tuple[Shape, ...]:
    """All fixed shapes: those of the system, the scenery of the problem, and those of its costs and constraints that
    the scenery does not list, for a motion through states xs (K, nx), by default the problem's initial state."""
    shapes = [*brought(problem.system), *problem.scenery]
    for term in (*problem.objective.terms, *problem.residual_constraints):
        for shape in _shapes_of_term(term, problem.x0[None] if xs is None or not len(xs) else xs):
            if not any(_same_place(shape, other) for other in shapes):
                shapes.append(shape)
    for shape in shapes:
        as_segments(f"lines of {type(shape).__name__}", shape.lines(), ())
    return tuple(shapes)


def brought(system: Any) -> tuple[Shape, ...]:
    """Fixed shapes of a system."""
    own = capability(system, Pictures).scenery
    return own if isinstance(own, tuple) else (Lines(as_segments("scenery", own, ())),)


def _shapes_of_term(term: Any, xs: np.ndarray, targets: bool = True) -> Iterator[Shape]:
    """Obstacles of a cost or constraint, and its targets if `targets`."""
    scenery = capability(term, SeenResidual).scenery
    if scenery is not None:
        yield from (shape for shape in scenery(xs) if targets or not shape.target)
        return
    expected = [getattr(term, name, 0.0) for name in ("reference", "lower", "upper")]
    targets = targets and not any(callable(value) or np.any(value) for value in expected)
    inside = getattr(term, "cost", None) or getattr(term, "residual", None)
    if inside is not None:
        lifted = isinstance(term, (LiftedCost, LiftedResidual))
        yield from _shapes_of_term(inside, term.system.split(xs)[0] if lifted else xs, targets)


def _same_place(one: Shape, other: Shape) -> bool:
    """True if shapes are of one kind and have the same middle."""
    middles = [0.5 * (lines.min(axis=(0, 1)) + lines.max(axis=(0, 1))) for lines in (one.lines(), other.lines())]
    return one.target == other.target and np.allclose(*middles, rtol=0.0, atol=1e-9 + 1e-6 * np.ptp(one.lines()))


def as_segments(what: str, value: Any, leading: tuple[int, ...]) -> np.ndarray:
    """Segments (*leading, S, 2, 3) from a system, checked."""
    return shaped(what, value, (*leading, None, 2, 3), unknown="segments")


def shaped(what: str, value: Any, shape: tuple[int | None, ...], unknown: str = "points") -> np.ndarray:
    """The value as an array of this shape, in which one size, None, is unknown."""
    array = np.asarray(value, dtype=float)
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        expected = ", ".join(unknown if n is None else str(n) for n in shape)
        raise ValueError(f"{what}: got shape {array.shape}, expected ({expected})")
    return array


# --------------------------------------------------------------------------------------------
# Motions.


MEMBERS = ("system", "times", "xs", "us")


class Motion(NamedTuple):
    """A motion at K times."""

    name: str
    system: Any
    times: np.ndarray  # (K,) s
    xs: np.ndarray  # (K, nx)
    us: np.ndarray  # (K - 1, nu), each held until the next, or (K, nu)
    shapes: tuple[Shape, ...]  # fixed ones
    limits: tuple[np.ndarray, np.ndarray] | None  # of controls, (K - 1, nu) each
    state_limits: tuple[np.ndarray, np.ndarray] | None = None  # of the entries of the state, (K, nx) each
    between: DenseOutput | None = None  # the motion between its points, if known

    @property
    def drawable(self) -> Any:
        """The system.  TypeError if it has no `skeleton`, ValueError for states or controls that are not finite."""
        if capability(self.system, Pictures).skeleton is None:
            kind = type(self.system).__name__
            raise TypeError(f"solution: its system is a {kind} without skeleton(xs), expected one with it")
        for name, values in (("xs", self.xs), ("us", self.us)):
            check_finite(f"solution: {name}", values)
        return self.system

    def states(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """States (K, nx) at times, between knots of a plan those of its motion, elsewhere along the geodesic, and the
        knots (K,) before them."""
        if self.between is not None:
            try:
                return self.between.states(times)
            except ValueError:  # a motion in finer steps that is not finite
                pass
        knots = self.times
        lasting = np.flatnonzero(np.diff(knots) > 0.0)
        k = np.minimum(np.searchsorted(knots, times, side="right") - 1, lasting[-1])
        share = ((times - knots[k]) / (knots[k + 1] - knots[k]))[:, None]
        x = self.xs[k]
        return self.system.integrate(x, share * self.system.difference(x, self.xs[k + 1])), k


def is_motion(value: Any) -> bool:
    """True if `as_motion` accepts it."""
    return isinstance(value, Solution) or all(getattr(value, name, None) is not None for name in MEMBERS)


def as_motion(solution: Any) -> Motion:
    """The motion of a solution, or of another object with `system`, `times`, `xs`, `us` and perhaps a `name`.

    Raises
    ------
    TypeError : the argument is neither.
    ValueError : the solution has no problem.
    """
    if isinstance(solution, Motion):
        return solution
    if not is_motion(solution):
        expected = f"a Solution, or a motion with {', '.join(MEMBERS)}"
        raise TypeError(f"solution: got {type(solution).__name__}, expected {expected}")
    is_solution = isinstance(solution, Solution)
    if is_solution and solution.problem is None:
        raise ValueError("solution: got one without its problem, expected that of Solution.load(path, problem)")
    points = solution.times, solution.xs, solution.us
    if is_solution:
        problem = solution.problem
        shapes = shapes_of(problem, solution.xs[np.isfinite(solution.xs).all(axis=1)])
        between = dense_output(problem.system, solution.xs, solution.us)
        limits = problem.control_limits, state_limits(problem)
        return Motion(problem.name, problem.system, *points, shapes, *limits, between)
    return Motion(getattr(solution, "name", "motion"), solution.system, *points, brought(solution.system), None)


def state_limits(problem: Problem) -> tuple[np.ndarray, np.ndarray] | None:
    """Limits lower and upper (N+1, nx) of entries of the state, from constraints such as `trajopt.StateBounds`,
    infinite at knots and for entries without; None if all are."""
    shape = problem.horizon + 1, problem.system.nx
    lower, upper = np.full(shape, -np.inf), np.full(shape, np.inf)
    for constraint in problem.residual_constraints:
        residual = constraint.residual
        while isinstance(residual, LiftedResidual):  # its entries come first in the augmented state
            residual = residual.residual
        if type(residual) is not StateResidual:
            continue
        components = numbers_of_states(residual.system)[0]
        knots = constraint.knots(problem.horizon, True)
        low, high = constraint.limits(knots)
        low, high = np.where(low == high, [[[-np.inf]], [[np.inf]]], [low, high])  # equal limits are a target
        for row, component in enumerate(residual.components):
            for k in np.flatnonzero(components == component):
                lower[knots, k] = np.maximum(lower[knots, k], residual.reference[k] + low[:, row])
                upper[knots, k] = np.minimum(upper[knots, k], residual.reference[k] + high[:, row])
    return (lower, upper) if np.isfinite(lower).any() or np.isfinite(upper).any() else None
