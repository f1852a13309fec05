"""Activations: convex functions A(r) that turn a residual into a cost.

    quadratic        1/2 sum_i w_i r_i^2
    full quadratic   1/2 r'D Q D r                              D = diag sqrt(w)
    smooth |r|       sum_i w_i (sqrt(r_i^2 + p_i^2) - p_i)      [Tassa et al. 2012, the car]
    pseudo-Huber     sum_i w_i d^2 (sqrt(1 + (r_i/d)^2) - 1)    quadratic within about d, linear beyond
    smooth norm      sqrt(r'W r + p^2) - p                      W = diag w
    log barrier      sum_i w_i (b(r_i - l_i) + b(u_i - r_i))    b(z) = -log z for z > d, else a parabola
    quadratic barrier   1/2 sum_i w_i v_i^2                     v the violation of l <= r <= u

A_rr is positive semidefinite in all of them, so the Gauss-Newton Hessian J'A_rr J of a cost is never indefinite.  For
the smooth norm, A_rr = W/s - W r r'W/s^3 with s^2 = r'W r + p^2 is so because (y'W r)^2 <= (y'W y)(r'W r) < s^2 y'W y.

References: Tassa, Erez, Todorov, "Synthesis and stabilization of complex behaviors through online trajectory
optimization", 2012; Hauser, Saccon, "A barrier function method for the optimization of trajectory functionals with
constraints", 2006; Feller, Ebenbauer, "Relaxed logarithmic barrier function based model predictive control of linear
systems", 2017.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from trajopt.costs.activation_kernels import (
    log_barrier_derivatives,
    log_barrier_values,
    smooth_abs_derivatives,
    smooth_abs_values,
    smooth_norm_derivatives,
    smooth_norm_values,
)
from trajopt.costs.cost_kernels import weighted_squares
from trajopt.validation import float_array, number_array, scalar_or_vector


class Activation(Protocol):
    """What costs accept as an activation; any object with these methods will do.

    Residuals are r (K, n); weights are w (K, n), or (1, n) where they are the same at all knots.
    """

    def check(self, n: int) -> None:
        """Raise ValueError if the activation was made for residuals of other than n numbers."""
        ...

    def value(self, r: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A (K,)."""
        ...

    def derivatives(self, r: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A_r (K, n), and A_rr (K, n, n) or, if it is diagonal, its diagonal (K, n).

        A_rr should be positive semidefinite, and may be (1, n, n) or (1, n) where it is the same at all knots.
        """
        ...


def _check_length(name: str, numbers: np.ndarray, n: int) -> None:
    """Raise ValueError unless there is one number, or n."""
    if len(numbers) not in (1, n):
        raise ValueError(f"{name}: got {len(numbers)} numbers, wanted one or {n}")


def _positive(name: str, value: Any) -> np.ndarray:
    """Positive finite numbers as a vector; one number as a vector of length one."""
    numbers = np.atleast_1d(scalar_or_vector(name, value, None))
    if not (numbers > 0).all():
        raise ValueError(f"{name}: got {float(numbers.min())}, wanted positive numbers")
    return numbers


def _one_positive(name: str, value: Any) -> float:
    """A positive finite number."""
    numbers = _positive(name, value)
    if np.ndim(value) != 0:
        raise ValueError(f"{name}: got {len(numbers)} numbers, wanted one")
    return float(numbers[0])


def _bounds(lower: Any, upper: Any) -> tuple[np.ndarray, np.ndarray]:
    """Bounds lower < upper as vectors of length one or n; -inf below and inf above are allowed."""
    bounds = []
    for name, value, absent in (("lower", lower, -np.inf), ("upper", upper, np.inf)):
        try:
            numbers = np.atleast_1d(number_array(name, value))
        except TypeError:
            numbers = np.empty(0)
        if numbers.ndim != 1 or not numbers.size:
            raise ValueError(f"{name}: got {value!r}, wanted a number or a vector")
        if not (np.isfinite(numbers) | (numbers == absent)).all():
            raise ValueError(f"{name}: got {value!r}, wanted finite numbers or {absent}")
        bounds.append(numbers.astype(np.float64))
    if len({len(b) for b in bounds} - {1}) > 1:
        raise ValueError(f"upper: got {len(bounds[1])} numbers, wanted as many as lower has, {len(bounds[0])}")
    if not (bounds[0] < bounds[1]).all():
        raise ValueError(f"upper: got {upper!r}, wanted more than lower, {lower!r}")
    return bounds[0], bounds[1]


class QuadraticActivation:
    """1/2 sum_i w_i r_i^2, what the name "quadratic" stands for."""

    def check(self, n: int) -> None:
        """Any length will do."""

    def value(self, r: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A (K,)."""
        return weighted_squares(r, np.zeros((1, r.shape[1])), w)

    def derivatives(self, r: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A_r (K, n) and the diagonal of A_rr, (1 or K, n)."""
        return w * r, w


class WeightedQuadratic:
    """1/2 rho'Q rho with rho_i = sqrt(w_i) r_i: the weights of the cost multiply rows and columns of Q.

    Parameters
    ----------
    matrix : (n, n) array, symmetric positive semidefinite
    """

    def __init__(self, matrix: ArrayLike) -> None:
        Q = float_array("matrix", matrix, None)
        if Q.ndim != 2 or Q.shape[0] != Q.shape[1]:
            raise ValueError(f"matrix: got shape {Q.shape}, wanted a square one")
        rounding = 1e-10 * max(float(np.abs(Q).max(initial=0.0)), np.finfo(float).tiny)
        if np.abs(Q - Q.T).max(initial=0.0) > rounding:
            raise ValueError("matrix: got one that is not symmetric")
        self.matrix = 0.5 * (Q + Q.T)
        least = float(np.linalg.eigvalsh(self.matrix).min(initial=0.0))
        if least < -rounding:
            raise ValueError(f"matrix: got eigenvalue {least:.3g}, wanted none below zero")

    def check(self, n: int) -> None:
        """Raise ValueError if the matrix is not (n, n)."""
        if len(self.matrix) != n:
            raise ValueError(f"matrix: got shape {self.matrix.shape}, wanted {(n, n)}")

    def value(self, r: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A (K,)."""
        rho = np.sqrt(w) * r
        return 0.5 * np.einsum("ti,ti->t", rho @ self.matrix, rho)

    def derivatives(self, r: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A_r (K, n) and A_rr (1 or K, n, n)."""
        d = np.sqrt(w)
        return d * ((d * r) @ self.matrix), d[:, :, None] * self.matrix * d[:, None, :]


class SmoothAbs:
    """sum_i w_i (sqrt(r_i^2 + p_i^2) - p_i): quadratic for r well below the scale, |r| far beyond it.

    Parameters
    ----------
    scale : number or (n,) array, positive
        p, in the units of the residual.
    """

    def __init__(self, scale: ArrayLike) -> None:
        self.scale = _positive("scale", scale)

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one scale, or n."""
        _check_length("scale", self.scale, n)

    def value(self, r: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A (K,)."""
        return smooth_abs_values(r, w, self.scale)

    def derivatives(self, r: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A_r and the diagonal of A_rr, (K, n) each."""
        return smooth_abs_derivatives(r, w, self.scale)


class PseudoHuber:
    """sum_i w_i delta_i^2 (sqrt(1 + (r_i/delta_i)^2) - 1): the quadratic cost near zero, growing linearly beyond delta.

    It is `SmoothAbs` with scale delta and weights w delta, so that the curvature at zero is w.

    Parameters
    ----------
    delta : number or (n,) array, positive
        In the units of the residual.
    """

    def __init__(self, delta: ArrayLike) -> None:
        self.delta = _positive("delta", delta)

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one delta, or n."""
        _check_length("delta", self.delta, n)

    def value(self, r: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A (K,)."""
        return smooth_abs_values(r, w * self.delta, self.delta)

    def derivatives(self, r: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A_r and the diagonal of A_rr, (K, n) each."""
        return smooth_abs_derivatives(r, w * self.delta, self.delta)


class SmoothNorm:
    """sqrt(r'W r + p^2) - p with W = diag w: quadratic near zero, the norm of r far from it.

    Parameters
    ----------
    scale : number, positive
        p, in the units of the weighted norm.
    """

    def __init__(self, scale: float) -> None:
        self.scale = _one_positive("scale", scale)

    def check(self, n: int) -> None:
        """Any length will do."""

    def value(self, r: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A (K,)."""
        return smooth_norm_values(r, w, self.scale)

    def derivatives(self, r: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A_r (K, n) and A_rr (K, n, n)."""
        return smooth_norm_derivatives(r, w, self.scale)


class LogBarrier:
    """Relaxed logarithmic barrier that keeps lower < r < upper: sum_i w_i (b(r_i - lower_i) + b(upper_i - r_i)).

    b(z) = -log z for z > delta; nearer than delta to the bound, and beyond it, the parabola
    ((z/delta - 2)^2 - 1)/2 - log delta, which continues value, slope and curvature.  The barrier is finite, convex and
    twice continuously differentiable everywhere; the smaller the weights and delta, the nearer to the constraint.

    Parameters
    ----------
    lower, upper : number or (n,) array, lower < upper
        -inf and inf for no bound, which then adds nothing.
    delta : number, positive
        In the units of the residual.
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike, delta: float) -> None:
        self.lower, self.upper = _bounds(lower, upper)
        self.delta = _one_positive("delta", delta)

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one bound on each side, or n."""
        _check_length("lower", self.lower, n)
        _check_length("upper", self.upper, n)

    def value(self, r: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A (K,)."""
        return log_barrier_values(r, w, self.lower, self.upper, self.delta)

    def derivatives(self, r: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A_r and the diagonal of A_rr, (K, n) each."""
        return log_barrier_derivatives(r, w, self.lower, self.upper, self.delta)


class QuadraticBarrier:
    """1/2 sum_i w_i v_i^2 with v the violation of lower <= r <= upper; its curvature jumps at the bounds.

    Parameters
    ----------
    lower, upper : number or (n,) array, lower < upper
        -inf and inf for no bound.
    """

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self.lower, self.upper = _bounds(lower, upper)

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one bound on each side, or n."""
        _check_length("lower", self.lower, n)
        _check_length("upper", self.upper, n)

    def _nearest(self, r):
        return np.minimum(np.maximum(r, self.lower), self.upper)

    def value(self, r: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A (K,)."""
        return weighted_squares(r, self._nearest(r), w)

    def derivatives(self, r: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A_r and the diagonal of A_rr, (K, n) each."""
        violation = r - self._nearest(r)
        return w * violation, w * (violation != 0.0)
