"""Cost of the state's distance to a reference, along the tangent of the state."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd.squares import ResidualWeights
from dynamics.validation import as_number_or_vector
from trajopt.capabilities import StateManifold, capability
from trajopt.costs.activations import Activation
from trajopt.costs.cost import OfTime, PlacedCost, as_rows, common_knots, dimensions, state_rows, weight_rows
from trajopt.costs.cost_of_residual import CostOfResidual
from trajopt.costs.deviation import ManifoldDifference, deviation
from trajopt.interfaces.system import System, as_manifold, check_system
from trajopt.interfaces.terms import At, Tangents, checked_at, state_space


class StateCost(PlacedCost, CostOfResidual):
    """1/2 sum_i w_i r_i^2 with r = x (-) x_ref, the tangent vector from the reference to the state.

    Parameters
    ----------
    system : System
    reference : (nx,) array, or (K, nx) with a reference for each of K knots, or a function of time
        Of plain vectors of states also a number, for all of theirs.  A function of t (s) returns the same; a problem
        evaluates it at the times of its knots.
    weights : number, (ndx,) array, or (K, ndx) with weights for each of K knots; non-negative
    activation : "quadratic" (default) or an Activation
        A(r) instead of the sum of squares: `WeightedQuadratic` for a full matrix of weights, `SmoothAbs`, ...
    at : where it counts, by default at all knots of the list that it is in
        Knots, times, a slice or a word (see `trajopt.interfaces.terms`).  Of a running cost, K is the number of knots
        where it counts; at knots and times it counts as it is, over a slice it is integrated.

    Attributes
    ----------
    knots : K, the number of knots at which it can be evaluated; None if reference and weights are constant.
    made_for : the space of the system's states, which those of a problem must be (see `trajopt.interfaces.terms`)

    Examples
    --------
    >>> system = problems.make("pendulum").system  # x = (angle, rate)
    >>> upright = trajopt.StateCost(system, reference=[np.pi, 0.0], weights=[100.0, 10.0])
    >>> upright.value(np.array([[0.0, 0.0], [3.0, 0.0]]), None).round(2)
    array([493.48,   1.  ])
    >>> along = trajopt.StateCost(system, lambda t: [np.sin(t), np.cos(t)], 1.0, at=slice(0.5, 1.0))  # seconds
    """

    adjustable = "reference", "weights"

    def __init__(
        self,
        system: System,
        reference: ArrayLike | OfTime,
        weights: ArrayLike,
        activation: str | Activation = "quadratic",
        at: At | None = None,
    ) -> None:
        check_system(system, "nx", "ndx", "difference")
        self.system, self.activation, self.at = system, activation, checked_at(at)
        self.nr, self.made_for = system.ndx, state_space(system)
        self._manifold = as_manifold(system)
        self._set(weights, reference)

    def _width(self, name: str, system: System) -> int:
        return system.nx

    def _set(self, weights: ArrayLike, reference: ArrayLike | OfTime) -> None:
        self.reference: Any = reference if callable(reference) else self._states(reference)
        self.weights = np.full(self.nr, 1.0) * weight_rows(weights, self.nr)
        self.knots = common_knots("StateCost", reference=self.reference, weights=self.weights)
        self._set_loss(self.weights, self.activation)
        self._refer()

    def _states(self, reference: ArrayLike) -> np.ndarray:
        """References (nx,) or (K, nx); a number is that of all components of a plain vector."""
        if self._manifold is None and dimensions(reference) == 0:
            reference = np.full(self.system.nx, as_number_or_vector("reference", reference, self.system.nx))
        return state_rows(self.system, "reference", reference)

    def _refer(self) -> None:
        """The residual of the reference."""
        self._difference: Any = None
        if callable(self.reference):
            return
        rest = None
        if self._manifold is None:
            self.residual, rest = deviation(False, as_rows(self.reference, self.system.nx))
        else:
            self.residual = ManifoldDifference(self._manifold, self.reference)
        self._set_shift(rest)

    def adjusted(self, reference: ArrayLike | None = None, weights: ArrayLike | None = None) -> Self:
        """With another reference, or other weights."""
        new = copy.copy(self)
        if reference is not None:
            new.reference = self._states(reference)
            new._refer()
        if weights is not None:
            new._set(weights, new.reference)
        return new

    def _gradient_inside(self, name: str, at: Tangents, value: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
        """See `CostOfResidual.gradient_by`; by the reference along its tangent, (ndx,) or (K, ndx)."""
        if self._manifold is None:
            return super()._gradient_inside(name, at, value, slope)
        return self.residual.gradient_by(name, at, value, slope)

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError if the cost was made for states of other dimensions."""
        if (system.nx, system.ndx) != (self.system.nx, self.system.ndx):
            raise ValueError(
                f"StateCost: made for a system with (nx, ndx) = {(self.system.nx, self.system.ndx)}, "
                f"expected {(system.nx, system.ndx)}"
            )

    def squares(self, nu: int) -> tuple[Any, ResidualWeights] | None:
        """See `CostOfResidual.squares`; on a manifold of a system that sums them itself, with one reference."""
        found = super().squares(nu)
        return found if found is None else (self._there(), found[1])

    def _there(self) -> Any:
        """The residual; on a manifold the system's own, if it has one, for one reference."""
        if self._manifold is None or callable(self.reference) or self.reference.ndim > 1:
            return self.residual
        if self._difference is None:
            known = capability(self.system, StateManifold).difference_residual
            self._difference = self.residual if known is None else known(self.reference)
        return self._difference
