"""A cost that is linear in states and controls."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd import by_address, routine
from dynamics.simd.prepared_calls import PreparedCall, PreparedCalls
from trajopt.costs.cost import (
    ExpandedCost,
    Into,
    OfTime,
    PlacedCost,
    as_rows,
    check_knots,
    common_knots,
    scalars_or_rows,
)
from trajopt.interfaces.system import System, as_manifold
from trajopt.interfaces.terms import At, Tangents, checked_at, summed_to


@routine
def linear_values(x, c, u, d, values):
    """Write c'x + d'u (K,); x (K, nx), c (1 or K, nx), u (K, nu), d (1 or K, nu)."""
    next_c, next_d = min(c.shape[0] - 1, 1), min(d.shape[0] - 1, 1)
    for k in range(x.shape[0]):
        total = 0.0
        for i in range(x.shape[1]):
            total += c[next_c * k, i] * x[k, i]
        for i in range(u.shape[1]):
            total += d[next_d * k, i] * u[k, i]
        values[k] = total


@by_address
def _add_rows(rows, into):
    """into += rows, (1 or K, n) and (K, n)"""
    next_row = min(rows.shape[0] - 1, 1)
    for k in range(into.shape[0]):
        for i in range(into.shape[1]):
            into[k, i] += rows[next_row * k, i]


class LinearCost(PlacedCost, ExpandedCost):
    """l(x, u) = c'x + d'u, as of a height that is to be large (c < 0) or of fuel that flows one way (d > 0).

    It has no curvature: other terms, limits of controls or constraints keep the minimum from running away.

    Parameters
    ----------
    states : number, (nx,) array, or (K, nx) with a row for each of K knots, or a function of time; default 0
        c, of any sign; of systems whose states are plain vectors.
    controls : number, (nu,) array, or (K, nu), or a function of time; default 0
        d, of any sign; a cost of the last knot has none.
    at : where it counts, by default at all knots of the list that it is in
        Knots, times, a slice or a word, as for `trajopt.StateCost`.

    Attributes
    ----------
    knots : K, the number of knots at which it can be evaluated; None if both are constant.

    Raises
    ------
    TypeError, ValueError
        Naming the argument, what it got and what was expected; also, when a problem is made, for another number of
        states or controls, and for states on a manifold.

    Examples
    --------
    >>> high = trajopt.LinearCost(states=[-1.0, 0.0])  # x = (height, speed), at the end
    >>> high.value(np.array([[3.0, 0.5]]), None)
    array([-3.])
    >>> fuel = trajopt.LinearCost(controls=2.0)  # running
    >>> fuel.value(np.zeros((1, 2)), np.array([[0.5]]))
    array([1.])
    """

    by_knot = adjustable = ("states", "controls")

    def __init__(
        self, states: ArrayLike | OfTime = 0.0, controls: ArrayLike | OfTime = 0.0, at: At | None = None
    ) -> None:
        self.at = checked_at(at)
        self._set(states, controls)

    def _width(self, name: str, system: System) -> int:
        return system.nx if name == "states" else system.nu

    def _set(self, states: ArrayLike | OfTime, controls: ArrayLike | OfTime) -> None:
        self.states: Any = states if callable(states) else scalars_or_rows("states", states, None)
        self.controls: Any = controls if callable(controls) else scalars_or_rows("controls", controls, None)
        self.knots = common_knots("LinearCost", states=self.states, controls=self.controls)

    def adjusted(self, states: ArrayLike | None = None, controls: ArrayLike | None = None) -> Self:
        """With other coefficients."""
        new = copy.copy(self)
        new._set(self.states if states is None else states, self.controls if controls is None else controls)
        return new

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError for controls at the last knot, for other numbers of states or controls than the system has,
        and for states on a manifold."""
        for name, value, size in (("states", self.states, system.nx), ("controls", self.controls, system.nu)):
            if not callable(value) and value.ndim > 0 and value.shape[-1] != size:
                raise ValueError(f"LinearCost {name}: got {value.shape[-1]} numbers, expected one or {size}")
        if (callable(self.states) or self.states.any()) and as_manifold(system) is not None:
            raise ValueError(
                f"LinearCost states: got some for a {type(system).__name__}, whose states lie on a manifold, expected "
                "a system of plain vectors, or a ResidualCost"
            )
        if terminal and (callable(self.controls) or self.controls.any()):
            raise ValueError("terminal_costs: got a LinearCost of controls, expected one of states alone")

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx) and us (K, nu)."""
        check_knots("LinearCost", self.knots, xs)
        values = np.empty(len(xs))
        linear_values(*self._arguments(xs, us), values)
        return values

    def add_expansion(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into) -> None:
        """See `trajopt.costs.cost.ExpandedCost`; the gradient is constant, and there is no curvature."""
        check_knots("LinearCost", self.knots, xs)
        if target is None:
            return
        target.lx[...] += scale * self.states
        if us is not None and target.lu is not None:
            target.lu[...] += scale * self.controls

    def prepared_value(self, xs: np.ndarray, us: np.ndarray | None, values: np.ndarray) -> PreparedCall | None:
        """See `trajopt.costs.cost.PreparedCost`."""
        check_knots("LinearCost", self.knots, xs)
        return PreparedCall(linear_values, *self._arguments(xs, us), values) if type(self) is LinearCost else None

    def prepared_accumulation(
        self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into
    ) -> Callable[[], Any] | None:
        """See `trajopt.costs.cost.PreparedCost`."""
        check_knots("LinearCost", self.knots, xs)
        if type(self) is not LinearCost:
            return None
        given = [] if target is None else [(self.states, target.lx), (self.controls, target.lu)]
        return PreparedCalls(
            *[
                PreparedCall(_add_rows, np.multiply(scale, as_rows(rows, into.shape[1])), into)
                for rows, into in given
                if into is not None
            ]
        )

    def _arguments(self, xs: np.ndarray, us: np.ndarray | None) -> tuple[np.ndarray, ...]:
        """States, controls (K, 0) if there are none, and coefficients of both (1 or K, .)."""
        us = np.empty((len(xs), 0)) if us is None else us
        rows = as_rows(self.controls, us.shape[1]) if us.shape[1] else np.empty((1, 0))
        return xs, as_rows(self.states, xs.shape[1]), us, rows

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.terms.AttributeGradient`: l is linear in its coefficients."""
        points, moved = (at.xs, at.dx) if name == "states" else (at.us, at.du)
        if points is None or moved is None or type(self) is not LinearCost:
            return None
        return summed_to(value[:, None] * points + slope[:, None] * moved, getattr(self, name).shape)
