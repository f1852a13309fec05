"""Cost of any residual r(x, u)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from trajopt.costs.activations import Activation, QuadraticBarrier
from trajopt.costs.cost import Quadratic
from trajopt.costs.knot_rows import as_rows, check_knots, common_knots, scalars_or_rows, weight_rows
from trajopt.costs.loss import Loss
from trajopt.costs.residual_expansion import add_curvature, add_gradient, evaluated, linearized
from trajopt.interfaces.owners import subject_of
from trajopt.interfaces.residual import Residual, check_residual
from trajopt.interfaces.system import System
from trajopt.validation import whole_number


class ResidualCost:
    """1/2 sum_i w_i (r_i(x, u) - reference_i)^2 of any residual, or another convex function of that difference.

    Parameters
    ----------
    residual : Residual
    weights : number, (nr,) array, or (K, nr) with weights for each of K knots; non-negative
        What they multiply is said by each activation.
    activation : "quadratic" (default) or an Activation
        A(r) instead of the sum of squares: `WeightedQuadratic`, `SmoothAbs`, `SmoothNorm`, `PseudoHuber`,
        `LogBarrier`, `QuadraticBarrier`, or any object with the methods of `Activation`.
    reference : number, (nr,) array, or (K, nr) with values for each of K knots, default 0
        What the residual is to be: a path of a foot, say, of which a residual itself knows one point.

    Attributes
    ----------
    knots : K, the number of knots at which it can be evaluated; None if weights and reference are constant.
    made_for : what the residual was made for (see `trajopt.interfaces.owners`)
    """

    def __init__(
        self,
        residual: Residual,
        weights: ArrayLike,
        activation: str | Activation = "quadratic",
        reference: ArrayLike = 0.0,
    ) -> None:
        check_residual(residual)
        self.residual = residual
        self.nr = whole_number("residual.nr", getattr(residual, "nr", None), 1)
        self.weights = np.full(self.nr, 1.0) * weight_rows(weights, self.nr)
        self.reference = scalars_or_rows("reference", reference, self.nr)
        self.knots = common_knots("ResidualCost", weights=self.weights, reference=self.reference)
        self.activation = activation
        self.made_for = subject_of(residual)
        self._loss = Loss(as_rows(self.weights, self.nr), activation)

    def check(self, system: System, terminal: bool) -> None:
        """Accept any system: what the residual returns is checked at each use, when it is evaluated."""

    def _evaluate(self, xs, us):
        check_knots("ResidualCost", self.knots, xs)
        return evaluated(self.residual, self.nr, xs, us) - self.reference

    def _linearize(self, xs, us):
        check_knots("ResidualCost", self.knots, xs)
        r, rx, ru = linearized(self.residual, self.nr, xs, us)
        return self._loss.expand(r - self.reference), rx, ru

    def squares(self, nu: int) -> tuple[Residual, np.ndarray] | None:
        """The residual and the figures of its squares, as its `weighted_squares` takes them; None for another cost.

        w (1 or K, nr) of 1/2 sum w r^2, or w, shift, lower and upper (1 or K, 4 nr): the shift is -reference, and the
        limits are those of a quadratic barrier, or both zero.
        """
        weights, activation = self._loss.weights, self._loss.activation
        if type(self) is not ResidualCost or type(activation) not in (type(None), QuadraticBarrier):
            return None
        if activation is None and not self.reference.any():
            return self.residual, weights
        lower, upper = (0.0, 0.0) if activation is None else (activation.lower, activation.upper)
        rows = [as_rows(row, self.nr) for row in (-self.reference, np.asarray(lower), np.asarray(upper))]
        K = max(len(weights), len(rows[0]))
        return self.residual, np.hstack([np.broadcast_to(row, (K, self.nr)) for row in (weights, *rows)])

    def value(self, xs: np.ndarray, us: np.ndarray | None) -> np.ndarray:
        """Cost (K,) at xs (K, nx) and us (K, nu)."""
        return self._loss.value(self._evaluate(xs, us))

    def accumulate(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times gradient and Gauss-Newton Hessian."""
        add_gradient(*self._linearize(xs, us), scale, target)

    def accumulate_curvature(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Add scale times sum_i (A_r)_i d2 r_i."""
        model = self._loss.expand(self._evaluate(xs, us))
        add_curvature(self.residual, xs, us, scale * model.gradient, target)

    def accumulate_exact(self, xs: np.ndarray, us: np.ndarray | None, scale: float, target: Quadratic) -> None:
        """Both of the above, the residual evaluated once."""
        model, rx, ru = self._linearize(xs, us)
        add_gradient(model, rx, ru, scale, target)
        add_curvature(self.residual, xs, us, scale * model.gradient, target)
