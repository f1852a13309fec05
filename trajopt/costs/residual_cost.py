"""Cost of any residual r(x, u)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from trajopt.costs.activations import Activation
from trajopt.costs.cost import UNPLACED, OfTime, PlacedCost, common_knots, scalars_or_rows, weight_rows
from trajopt.costs.cost_of_residual import CostOfResidual, is_quadratic
from trajopt.interfaces.residual import Residual, at_knots, check_residual, is_function
from trajopt.interfaces.system import System
from trajopt.interfaces.terms import At, checked_at, subject_of
from trajopt.validation import whole_number


class ResidualCost(PlacedCost, CostOfResidual):
    """1/2 sum_i w_i (r_i(x, u) - reference_i)^2 of any residual, or another convex function of that difference.

    Parameters
    ----------
    residual : Residual, or a function r(x) or r(x, u)
        Of a function the problem makes a residual for its system, as `trajopt.residual` does, which has more options;
        the cost alone, without a problem, cannot be evaluated then.
    weights : number, (nr,) array, or (K, nr) with weights for each of K knots; non-negative
        What they multiply is said by each activation.
    activation : "quadratic" (default) or an Activation
        A(r) instead of the sum of squares: `WeightedQuadratic`, `SmoothAbs`, `SmoothNorm`, `PseudoHuber`,
        `LogBarrier`, `QuadraticBarrier`, or any object with the methods of `Activation`.
    reference : number, (nr,) array, or (K, nr) with values for each of K knots, or a function of time, default 0
        What the residual is to be, where that is not zero.  A function of t (s) returns a number or (nr,); a problem
        evaluates it at the times of its knots.  Targets of residuals of robots may be functions of time themselves.
    at : where it counts, by default at all knots of the list that it is in
        Knots, times, a slice or a word (see `trajopt.interfaces.terms`).  Of a running cost, K is the number of knots
        where it counts; at knots and times it counts as it is, over a slice it is integrated.

    Attributes
    ----------
    knots : K, the number of knots at which it can be evaluated; None if weights and reference are constant.
    made_for : what the residual was made for (see `trajopt.interfaces.terms`)

    Examples
    --------
    >>> robot = problems.make("pendulum").system.model
    >>> bob = dynamics.FrameTranslation(robot, "bob", target=[0.0, 0.0, 1.0])
    >>> near = trajopt.ResidualCost(bob, weights=100.0, at="terminal")
    >>> robust = trajopt.ResidualCost(bob, 1.0, trajopt.PseudoHuber(0.1))  # grows linearly from 0.1 m on
    """

    adjustable = "reference", "weights"

    def __init__(
        self,
        residual: Residual | Callable,
        weights: ArrayLike,
        activation: str | Activation = "quadratic",
        reference: ArrayLike | OfTime = 0.0,
        at: At | None = None,
    ) -> None:
        self.activation, self.at = activation, checked_at(at)
        if is_function(residual):
            is_quadratic(activation)
            self.residual, self.knots = residual, UNPLACED
            self.weights = weight_rows(weights, None)
            self.reference = reference if callable(reference) else scalars_or_rows("reference", reference, None)
        else:
            self._take(residual, weights, reference)

    def _take(self, residual: Any, weights: ArrayLike, reference: ArrayLike | OfTime) -> None:
        check_residual(residual)
        self.residual = residual
        self.nr = whole_number("residual.nr", getattr(residual, "nr", None), 1)
        self.made_for = subject_of(residual)
        self._set(weights, reference)

    def for_system(self, system: System, x0: np.ndarray | None = None) -> Self:
        """See `trajopt.costs.Cost`: with a residual in place of a function."""
        if not is_function(self.residual):
            return self
        from trajopt.callable_system.function_residual import residual_of

        new = copy.copy(self)
        new._take(residual_of(self.residual, system, x0), self.weights, self.reference)
        return new

    def _width(self, name: str, system: System) -> int:
        return self.nr

    def _set(self, weights: ArrayLike, reference: ArrayLike | OfTime) -> None:
        self.weights = np.full(self.nr, 1.0) * weight_rows(weights, self.nr)
        self.reference: Any = reference if callable(reference) else scalars_or_rows("reference", reference, self.nr)
        self.knots = common_knots("ResidualCost", weights=self.weights, reference=self.reference)
        self._set_loss(self.weights, self.activation, None if callable(self.reference) else self.reference)

    def placed(self, system: System, knots: np.ndarray, rows: np.ndarray, times: np.ndarray) -> Self:
        """See `trajopt.costs.Cost`."""
        new = super().placed(system, knots, rows, times)
        if at_knots(self.residual, knots) is not self.residual:
            new = copy.copy(self) if new is self else new
            new._knots = knots[rows]
        return new

    def adjusted(self, reference: ArrayLike | None = None, weights: ArrayLike | None = None) -> Self:
        """With another reference, or other weights."""
        new = copy.copy(self)
        if weights is not None:
            new._set(weights, self.reference if reference is None else reference)
        elif reference is not None:
            new.reference = scalars_or_rows("reference", reference, self.nr)
            new._set_shift(new.reference)
        return new
