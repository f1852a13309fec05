"""Cost of the state's distance to a reference, along the tangent of the state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trajopt.capabilities import DifferenceResidual, DifferenceWithJacobian, capability
from trajopt.costs.activations import Activation
from trajopt.costs.cost import Quadratic
from trajopt.costs.deviation import Deviation
from trajopt.costs.knot_rows import as_rows, check_knots, common_knots, state_rows, weight_rows
from trajopt.costs.loss import Loss
from trajopt.interfaces.owners import state_space
from trajopt.interfaces.system import System, as_manifold, check_system
from trajopt.validation import same_shape


class StateCost:
    """1/2 sum_i w_i r_i^2 with r = x (-) x_ref, the tangent vector from the reference to the state.

    Parameters
    ----------
    system : System
    reference : (nx,) array, or (K, nx) with a reference for each of K knots
    weights : number, (ndx,) array, or (K, ndx) with weights for each of K knots; non-negative
    activation : "quadratic" (default) or an Activation
        A(r) instead of the sum of squares: `WeightedQuadratic` for a full matrix of weights, `SmoothAbs`, ...

    Attributes
    ----------
    knots : K, the number of knots at which it can be evaluated; None if reference and weights are constant.
    made_for : the space of the system's states, which those of a problem must be (see `trajopt.interfaces.owners`)
    """

    def __init__(
        self, system: System, reference: ArrayLike, weights: ArrayLike, activation: str | Activation = "quadratic"
    ) -> None:
        check_system(system, "nx", "ndx", "difference")
        self.system = system
        self.reference = state_rows(system, "reference", reference)
        self.weights = np.full(system.ndx, 1.0) * weight_rows(weights, system.ndx)
        self.knots = common_knots("StateCost", reference=self.reference, weights=self.weights)
        self._loss = Loss(as_rows(self.weights, system.ndx), activation)
        self._reference = as_rows(self.reference, system.nx)
        self._manifold = as_manifold(system)
        self.made_for = state_space(system)

    def check(self, system: System, terminal: bool) -> None:
        """Raise ValueError if the cost was made for states of other dimensions."""
        if (system.nx, system.ndx) != (self.system.nx, self.system.ndx):
            raise ValueError(
                f"StateCost: made for a system with (nx, ndx) = {(self.system.nx, self.system.ndx)}, "
                f"wanted {(system.nx, system.ndx)}"
            )

    def _residual(self, xs):
        reference = self._reference if len(self._reference) == len(xs) else self._reference.repeat(len(xs), axis=0)
        return same_shape("difference", self.system.difference(reference, xs), (len(xs), self.system.ndx))

    def squares(self, nu: int) -> tuple[Any, np.ndarray] | None:
        """A residual that sums its squares, and weights, where this is 1/2 sum w r^2 with one reference."""
        if type(self) is not StateCost or self._loss.activation is not None or len(self._reference) > 1:
            return None
        if self._manifold is None:
            return Deviation(False, self._reference[0]), self._loss.weights
        known = capability(self.system, DifferenceResidual)
        return None if known is None else (known.difference_residual(self._reference[0]), self._loss.weights)

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx)."""
        check_knots("StateCost", self.knots, xs)
        if self._manifold is None:
            return self._loss.value(xs, self._reference)
        return self._loss.value(self._residual(xs))

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times gradient and Gauss-Newton Hessian."""
        check_knots("StateCost", self.knots, xs)
        if self._manifold is None:
            self._loss.add_shifted(xs, self._reference, scale, target.lx, target.lxx)
        else:
            r, J = self._first_order(xs)
            r = same_shape("difference", r, (len(xs), self.system.ndx))
            J = same_shape("difference_expansion", J, (len(xs), self.system.ndx, self.system.ndx))
            self._loss.expand(r).add(scale, J, target.lx, target.lxx)

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times the curvature of the difference; a Euclidean state has none."""
        if self._manifold is not None:
            check_knots("StateCost", self.knots, xs)
            gradient = self._loss.expand(self._residual(xs)).gradient
            _, H = self._manifold.difference_expansion(self.reference, xs, scale * gradient)
            np.add(target.lxx, same_shape("difference_expansion", H, target.lxx.shape), out=target.lxx)

    def _first_order(self, xs):
        """The residuals and their Jacobians, in one call of a system that has both."""
        assert self._manifold is not None
        both = capability(self._manifold, DifferenceWithJacobian)
        if both is not None:
            return both.difference_with_jacobian(self.reference, xs)
        r = self._residual(xs)
        return r, self._manifold.difference_expansion(self.reference, xs, np.zeros_like(r))[0]
