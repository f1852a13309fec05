"""Motions that pictures show: a solution, or any motion that has a system, times, states and controls."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dynamics.validation import check_finite
from trajopt.capabilities import Pictures, capability
from trajopt.costs.residuals import StateResidual
from trajopt.interfaces.state_space import numbers_of_states
from trajopt.plotting.surroundings import brought, shapes_of
from trajopt.problem.lifted import LiftedResidual
from trajopt.problem.problem import Problem
from trajopt.problem.scenery import Shape
from trajopt.results.dense_output import DenseOutput, dense_output
from trajopt.results.solution import Solution

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
