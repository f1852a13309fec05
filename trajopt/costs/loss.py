"""A(r) of residuals: an activation and its weights, to second order."""

from typing import Any, NamedTuple

import numpy as np

from trajopt.costs.activations import QuadraticActivation
from trajopt.costs.differences import ONE_SIDED
from trajopt.validation import check_rows, one_of, same_shape

WEIGHT_STEP = 1e-3
"""Relative, of differences by weights, to one side: weights are not below zero.  Exact where an activation is linear in
its weights, as most are."""


class Model(NamedTuple):
    """A to second order at K residuals: A_r (K, n), and A_rr (1 or K, n, n) or its diagonal (1 or K, n)."""

    gradient: np.ndarray
    hessian: np.ndarray

    def multipliers(self, scale: float) -> np.ndarray:
        """scale times A_r and the diagonal that A_rr is, (K, 2 n), as `weighted_squares` of a residual takes them."""
        return scale * np.concatenate([self.gradient, np.broadcast_to(self.hessian, self.gradient.shape)], axis=1)


class Loss:
    """A(r) of residuals with n numbers.

    Parameters
    ----------
    weights : (1 or K, n) array
    activation : "quadratic" or an Activation

    Attributes
    ----------
    quadratic : whether A = 1/2 sum_i w_i r_i^2
    diagonal : whether A_rr is
    """

    def __init__(self, weights: np.ndarray, activation: Any) -> None:
        self.weights, self.quadratic = weights, is_quadratic(activation)
        self.activation = QuadraticActivation() if self.quadratic else activation
        self.activation.check(weights.shape[1])
        with np.errstate(all="ignore"):
            _, hessian = self.activation.derivatives(np.zeros((1, weights.shape[1])), weights[:1])
        self.diagonal = np.ndim(hessian) == 2

    def value(self, r: np.ndarray) -> np.ndarray:
        """A (K,) of the residuals r (K, n)."""
        check_rows("residual", r, 0, self.weights.shape[1:])
        return same_shape("activation.value", self.activation.value(r, self.weights), (len(r),))

    def by_weights(self, r: np.ndarray, dr: np.ndarray, value: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """d/dw (K, n) of value A + slope A_r'dr at residuals r that change along dr (K, n); value, slope (K,)."""
        if self.quadratic:
            return value[:, None] * 0.5 * r**2 + slope[:, None] * r * dr
        weights = np.broadcast_to(self.weights, r.shape)
        scale = np.where(weights > 0.0, weights, max(float(weights.max()), 1e-3))
        total = np.zeros(r.shape)
        for i in range(r.shape[1]):
            h = WEIGHT_STEP * scale[:, i]
            for multiple, factor in ONE_SIDED:
                w = np.array(weights)
                w[:, i] += multiple * h
                gradient, _ = self.activation.derivatives(r, w)
                along = np.einsum("ti,ti->t", gradient, dr)
                total[:, i] += factor / h * (value * self.activation.value(r, w) + slope * along)
        return total

    def expand(self, r: np.ndarray) -> Model:
        """A to second order at the residuals r (K, n)."""
        gradient, hessian = self.activation.derivatives(r, self.weights)
        gradient = same_shape("activation.derivatives, gradient", gradient, r.shape)
        (K, n), shape = r.shape, np.shape(hessian)
        if shape[1:] not in ((n,), (n, n)) or shape[0] not in (1, K):
            raise ValueError(
                f"activation.derivatives, Hessian: returned shape {shape}, "
                f"wanted {(K, n, n)}, or its diagonal {(K, n)}, or one knot of either"
            )
        return Model(gradient, np.ascontiguousarray(hessian, dtype=np.float64))


def is_quadratic(activation: Any) -> bool:
    """Whether an argument `activation` is the quadratic one; raises if it is none at all."""
    if isinstance(activation, str):
        one_of("activation", activation, ("quadratic",))
        return True
    for method in ("check", "value", "derivatives"):
        if not callable(getattr(activation, method, None)):
            raise TypeError(f"activation: got {type(activation).__name__}, wanted 'quadratic' or a trajopt.Activation")
    return isinstance(activation, QuadraticActivation)
