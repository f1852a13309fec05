"""Cost of any residual r(x, u)."""

from __future__ import annotations

import copy
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from trajopt.costs.activations import Activation
from trajopt.costs.cost_of_residual import CostOfResidual
from trajopt.costs.knot_rows import common_knots, scalars_or_rows, weight_rows
from trajopt.interfaces.owners import subject_of
from trajopt.interfaces.residual import Residual, check_residual
from trajopt.validation import whole_number


class ResidualCost(CostOfResidual):
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

    adjustable = ("reference",)

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
        self._set_loss(self.weights, activation, self.reference)

    def adjusted(self, reference: ArrayLike) -> Self:
        """With another reference."""
        new = copy.copy(self)
        new.reference = scalars_or_rows("reference", reference, self.nr)
        new._set_shift(new.reference)
        return new
