"""Cost of the controls' distance to a reference."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd.squares import ResidualWeights
from trajopt.costs.activations import Activation
from trajopt.costs.cost import (
    ExpandedCost,
    Into,
    OfTime,
    PlacedCost,
    as_rows,
    check_knots,
    common_knots,
    scalars_or_rows,
    weight_rows,
)
from trajopt.costs.cost_of_residual import CostOfResidual, is_quadratic
from trajopt.costs.deviation import deviation
from trajopt.interfaces.system import System
from trajopt.interfaces.terms import At, Tangents, checked_at


class ControlCost(PlacedCost, ExpandedCost):
    """1/2 sum_i w_i (u_i - u_ref_i)^2.

    Parameters
    ----------
    weights : number, (nu,) array, or (K, nu) with weights for each of K knots; non-negative
    reference : number, (nu,) array, or (K, nu), or a function of time
        A function of t (s) returns a number or (nu,); a problem evaluates it at the times of its knots.
    activation : "quadratic" (default) or an Activation
        A(u - u_ref) instead of the sum of squares: `WeightedQuadratic` for a full matrix of weights, `SmoothAbs`, ...
    at : where it counts, by default at all knots
        Knots, times, a slice or "path" (see `trajopt.interfaces.terms`).  K is the number of knots where it counts; at
        knots and times it counts as it is, over a slice it is integrated.

    Attributes
    ----------
    knots : K, the number of knots at which it can be evaluated; None if reference and weights are constant.

    Examples
    --------
    >>> effort = trajopt.ControlCost(weights=[2.0, 0.01])
    >>> effort.value(np.zeros((1, 4)), np.array([[1.0, 10.0]]))  # 1/2 (2 * 1 + 0.01 * 100)
    array([1.5])
    >>> beside = trajopt.ControlCost(0.01, reference=[9.81, 0.0])  # what holds the robot costs nothing
    """

    adjustable = "reference", "weights"

    def __init__(
        self,
        weights: ArrayLike,
        reference: ArrayLike | OfTime = 0.0,
        activation: str | Activation = "quadratic",
        at: At | None = None,
    ) -> None:
        is_quadratic(activation)
        self.activation, self.at = activation, checked_at(at)
        self._set(weights, reference)

    def _width(self, name: str, system: System) -> int:
        return system.nu

    def _set(self, weights: ArrayLike, reference: ArrayLike | OfTime) -> None:
        self.weights = weight_rows(weights, None)
        self.reference: Any = reference if callable(reference) else scalars_or_rows("reference", reference, None)
        self.knots = common_knots("ControlCost", weights=self.weights, reference=self.reference)
        self._of: dict[int, _OfControls] = {}

    def adjusted(self, reference: ArrayLike | None = None, weights: ArrayLike | None = None) -> Self:
        """With another reference, or other weights."""
        new = copy.copy(self)
        if weights is not None:
            new._set(weights, self.reference if reference is None else reference)
        elif reference is not None:
            new.reference, new._of = scalars_or_rows("reference", reference, None), {}
        return new

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError at the terminal knot, or where a vector does not have nu numbers."""
        if terminal:
            raise ValueError(
                "terminal_costs: got a ControlCost, expected costs of the state (the last knot has no control)"
            )
        for name, value in (("weights", self.weights), ("reference", self.reference)):
            if not callable(value) and value.ndim > 0 and value.shape[-1] != system.nu:
                raise ValueError(f"ControlCost {name}: got {value.shape[-1]} numbers, expected one or {system.nu}")
        if not callable(self.reference):
            self._for(system.nu)

    def _for(self, nu: int) -> _OfControls:
        """The cost of nu controls, which numbers for all of them leave open."""
        if nu not in self._of:
            self._of[nu] = _OfControls(self, nu)
        return self._of[nu]

    def squares(self, nu: int) -> tuple[Any, ResidualWeights] | None:
        """See `trajopt.costs.cost_of_residual.CostOfResidual.squares`."""
        return self._for(nu).squares(nu) if type(self) is ControlCost else None

    def gradient_by(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `trajopt.interfaces.terms.AttributeGradient`."""
        if at.us is None or type(self) is not ControlCost:
            return None
        return self._for(at.us.shape[1]).gradient_by(name, at, value, slope)

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at us (K, nu)."""
        assert us is not None
        check_knots("ControlCost", self.knots, us)
        return self._for(us.shape[1]).value(xs, us)

    def add_expansion(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into) -> None:
        """See `trajopt.costs.cost.ExpandedCost`; the residual is linear."""
        assert us is not None
        check_knots("ControlCost", self.knots, us)
        if target is not None:
            self._for(us.shape[1]).add_expansion(xs, us, scale, target, None)

    def prepared_value(self, xs: np.ndarray, us: np.ndarray | None, values: np.ndarray) -> Callable[[], Any] | None:
        """See `trajopt.costs.cost.PreparedCost`."""
        if us is None or type(self) is not ControlCost:
            return None
        check_knots("ControlCost", self.knots, us)
        return self._for(us.shape[1]).prepared_value(xs, us, values)

    def prepared_accumulation(
        self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Into, curvature: Into
    ) -> Callable[[], Any] | None:
        """See `trajopt.costs.cost.PreparedCost`."""
        if us is None or type(self) is not ControlCost:
            return None
        check_knots("ControlCost", self.knots, us)
        return self._for(us.shape[1]).prepared_accumulation(xs, us, scale, target, None)


class _OfControls(CostOfResidual):
    """A `ControlCost` of so many controls."""

    def __init__(self, cost: ControlCost, nu: int) -> None:
        self.nr, self.knots, self.reference, self.weights = nu, None, cost.reference, cost.weights
        self.residual, reference = deviation(True, as_rows(cost.reference, nu))
        self._set_loss(cost.weights, cost.activation, reference)
