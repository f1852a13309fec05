"""What a residual costs: A(r), weights and activation together, and its expansion through the Jacobian of r.

    gradient              J'A_r
    Gauss-Newton Hessian  J'A_rr J           never indefinite, A being convex
    residual curvature    sum_i (A_r)_i d2 r_i

With A = 1/2 r'W r these are J'W r, J'W J and sum_i w_i r_i d2 r_i; the quadratic has kernels of its own.
"""

from typing import Any, NamedTuple

import numpy as np

from trajopt.costs.activations import QuadraticActivation
from trajopt.costs.cost_kernels import add_cross, add_diagonal, add_gauss_newton, weighted_squares
from trajopt.validation import check_rows, one_of, same_shape


class Model(NamedTuple):
    """A to second order at K residuals: A_r = weights * residual, A_rr = hessian.

    residual (K, n), weights (1 or K, n), hessian (1 or K, n, n) or its diagonal (1 or K, n).
    """

    residual: np.ndarray
    weights: np.ndarray
    hessian: np.ndarray

    @property
    def gradient(self) -> np.ndarray:
        """A_r (K, n)."""
        return self.weights * self.residual

    def add(self, scale: float, J: np.ndarray, gradient: np.ndarray, hessian: np.ndarray) -> None:
        """Add scale times J'A_r and J'A_rr J, J (K, n, m)."""
        add_gauss_newton(self.residual, self.weights, self.hessian, scale, J, gradient, hessian)

    def add_cross(self, scale: float, Ju: np.ndarray, Jx: np.ndarray, hessian: np.ndarray) -> None:
        """Add scale times Ju'A_rr Jx."""
        add_cross(self.hessian, scale, Ju, Jx, hessian)


class Loss:
    """A(r) of residuals with n numbers.

    Parameters
    ----------
    weights : (1 or K, n) array
    activation : "quadratic" or an Activation
    """

    def __init__(self, weights: np.ndarray, activation: Any) -> None:
        self.weights = weights
        self.activation = None if is_quadratic(activation) else activation
        self._origin, self._ones = np.zeros((1, weights.shape[1])), np.ones((1, weights.shape[1]))
        if self.activation is not None:
            self.activation.check(weights.shape[1])

    def value(self, z: np.ndarray, z_ref: np.ndarray | None = None) -> np.ndarray:
        """A (K,) of the residuals z (K, n) less z_ref (1 or K, n)."""
        check_rows("residual", z, 0, self.weights.shape[1:])
        if self.activation is None:
            return weighted_squares(z, self._origin if z_ref is None else z_ref, self.weights)
        r = z if z_ref is None else z - z_ref
        return same_shape("activation.value", self.activation.value(r, self.weights), (len(r),))

    def expand(self, r: np.ndarray) -> Model:
        """A to second order at the residuals r (K, n)."""
        if self.activation is None:
            return Model(r, self.weights, self.weights)
        gradient, hessian = self.activation.derivatives(r, self.weights)
        return Model(
            same_shape("activation.derivatives, gradient", gradient, r.shape), self._ones, self._hessian(hessian, r)
        )

    def _hessian(self, hessian, r):
        K, n = r.shape
        shape = np.shape(hessian)
        if shape[1:] not in ((n,), (n, n)) or shape[0] not in (1, K):
            raise ValueError(
                f"activation.derivatives, Hessian: returned shape {shape}, "
                f"wanted {(K, n, n)}, or its diagonal {(K, n)}, or one knot of either"
            )
        return np.ascontiguousarray(hessian, dtype=np.float64)

    def add_shifted(
        self, z: np.ndarray, z_ref: np.ndarray, scale: float, gradient: np.ndarray, hessian: np.ndarray
    ) -> None:
        """Add scale times the derivatives in z of A(z - z_ref): the Jacobian is the identity."""
        check_rows("residual", z, 0, self.weights.shape[1:])
        check_rows("gradient", gradient, len(z), z.shape[1:])
        check_rows("hessian", hessian, len(z), (z.shape[1], z.shape[1]))
        if self.activation is None:
            add_diagonal(z, z_ref, self.weights, scale, gradient, hessian)
            return
        _, _, A = model = self.expand(z - z_ref)
        np.add(gradient, scale * model.gradient, out=gradient)
        target = hessian if A.ndim == 3 else np.einsum("tii->ti", hessian)
        np.add(target, scale * A, out=target)


def is_quadratic(activation: Any) -> bool:
    """Whether an argument `activation` is the quadratic one; raises if it is none at all."""
    if isinstance(activation, str):
        one_of("activation", activation, ("quadratic",))
        return True
    for method in ("check", "value", "derivatives"):
        if not callable(getattr(activation, method, None)):
            raise TypeError(f"activation: got {type(activation).__name__}, wanted 'quadratic' or a trajopt.Activation")
    return isinstance(activation, QuadraticActivation)
