"""Activations: what a cost makes of a residual, its derivatives, and the kernels that evaluate them at all knots."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from dynamics.simd import LANES, driver, helper, routine
from dynamics.simd.prepared_calls import PreparedCall
from dynamics.simd.rows import Term, entry, load_part, matrix, set_entry, store_part
from dynamics.validation import as_array, as_floats, as_number_or_vector
from trajopt.costs.cost import Quadratic
from trajopt.matrix_products import add_product, row_product

# --------------------------------------------------------------------------------------------
# Compiled sums over knots for costs A(r) of a residual r.
#
# All arrays are knot-major float64 in C order; `scale` is dt for running costs and 1 at the end.  Terms are added to
# what the targets hold already, so several costs share one expansion.  Weights, references and curvatures have a row
# for every knot, or a single row for all of them.
#
# Products of Jacobians are summed in SIMD registers along rows.  Columns that are zero from some place on, as those of
# the velocities in a residual of the configuration, are left out.  Of a symmetric Hessian the upper triangle is
# computed, then mirrored: what is added is symmetric to the last bit.


# ------------------------------------------------------------------------------------------------ no Jacobian
@routine
def rate_squares(u, x, w, values):
    """Write 1/2 sum_i w_i (u_i - p_i)^2 (K,), where p are the last nu numbers of x (K, nx); w (1 or K, nu)."""
    start, next_w = x.shape[1] - u.shape[1], min(w.shape[0] - 1, 1)
    for t in range(u.shape[0]):
        total = 0.0
        for i in range(u.shape[1]):
            r = u[t, i] - x[t, start + i]
            total += w[next_w * t, i] * r * r
        values[t] = 0.5 * total


@routine
def add_rates(u, x, w, scale, lx, lu, lxx, lux, luu):
    """Add scale times the expansion of that; the controls before are also the last numbers of the tangent."""
    before, start, next_w = x.shape[1] - u.shape[1], lx.shape[1] - u.shape[1], min(w.shape[0] - 1, 1)
    for t in range(u.shape[0]):
        for i in range(u.shape[1]):
            weight = scale * w[next_w * t, i]
            slope = weight * (u[t, i] - x[t, before + i])
            lu[t, i] += slope
            lx[t, start + i] -= slope
            luu[t, i, i] += weight
            lux[t, i, start + i] -= weight
            lxx[t, start + i, start + i] += weight


# ------------------------------------------------------------------------------------------------ products of Jacobians
@helper
def _support(J, t):
    """Columns of J[t] up to the last one that is not all zero."""
    width = J.shape[2]
    while width > 0:
        for m in range(J.shape[1]):
            if J[t, m, width - 1] != 0.0:
                return width
        width -= 1
    return width


@helper
def _bent(h, t, scale, J, rows, width, target):
    """target = scale h_t J, of shape (rows, width), h_t being a matrix or the diagonal of one."""
    t *= min(h.shape[0] - 1, 1)
    if h.ndim == 3:
        for m in range(rows):
            for j in range(0, width, LANES):
                store_part(target, m, j, LANES, load_part(target, m, j, 0))  # no numbers read: zeros
        add_product(False, rows, width, target, Term(matrix(h, t * rows * rows, rows), J, rows))
        for m in range(rows):
            for j in range(0, width, LANES):
                store_part(target, m, j, LANES, scale * load_part(target, m, j, LANES))
    else:
        for m in range(rows):
            a = scale * h[t, m]
            for j in range(0, width, LANES):
                store_part(target, m, j, LANES, a * load_part(J, m, j, J.stride - j))


@helper
def _add_square(t, slopes, h, scale, J, rows, width, bent, gradient, hessian):
    """gradient += J'slopes and hessian += J'(scale h_t J), J (rows, width); bent receives scale h_t J."""
    row_product(0, 0, width, gradient, gradient, (Term(slopes, J, rows),))
    _bent(h, t, scale, J, rows, width, bent)
    add_product(True, width, width, hessian, Term(bent, J, rows))
    for i in range(width):
        for j in range(i):
            set_entry(hessian, i, j, entry(hessian, j, i))


@driver
def _gauss_newton(g, h, scale, Jx, Ju, lx, lu, lxx, lux, luu, work):
    (knots, nr, n), nu = Jx.shape, Ju.shape[2]
    slopes, bent = matrix(work, 0, 1), matrix(work, nr, (max(n, nu) + LANES - 1) // LANES * LANES)
    for t in range(knots):
        x, u, width = matrix(Jx, t * nr * n, n), matrix(Ju, t * nr * nu, nu), _support(Jx, t)
        for m in range(nr):
            set_entry(slopes, m, 0, scale * g[t, m])
        _add_square(t, slopes, h, scale, x, nr, width, bent, matrix(lx, t * n, n), matrix(lxx, t * n * n, n))
        if nu > 0:
            rows = _support(Ju, t)
            _add_square(t, slopes, h, scale, u, nr, rows, bent, matrix(lu, t * nu, nu), matrix(luu, t * nu * nu, nu))
            add_product(False, rows, width, matrix(lux, t * nu * n, n), Term(bent, x, nr))


_NO_ROWS, _NO_BLOCKS = np.empty((0, 0)), np.empty((0, 0, 0))


def _products(
    g: np.ndarray, h: np.ndarray, scale: float, Jx: np.ndarray | None, Ju: np.ndarray | None, target: Quadratic
) -> tuple[Any, ...]:
    lx, lu, lxx, lux, luu = target
    if Ju is None or lu is None:
        Ju, lu, lux, luu = np.empty((*g.shape, 0)), _NO_ROWS, _NO_BLOCKS, _NO_BLOCKS
    Jx = np.empty((*g.shape, 0)) if Jx is None else Jx
    work = np.empty(g.shape[1] * (1 + max(Jx.shape[2], Ju.shape[2]) + LANES))
    return g, h, scale, Jx, Ju, lx, lu, lxx, lux, luu, work


def add_gauss_newton(
    g: np.ndarray, h: np.ndarray, scale: float, Jx: np.ndarray | None, Ju: np.ndarray | None, target: Quadratic
) -> None:
    """Add s J'g to the gradient of the target and s J'h J to its Hessian, with J = [Jx Ju].

    g (K, nr) and h are gradient and Hessian of the cost in r: h (1 or K, nr, nr), or its diagonal (1 or K, nr);
    Jx (K, nr, ndx), Ju (K, nr, nu), None for zeros.  The Hessians must be symmetric as they come.
    """
    _gauss_newton(*_products(g, h, scale, Jx, Ju, target))


def prepared_gauss_newton(
    g: np.ndarray, h: np.ndarray, scale: float, Jx: np.ndarray | None, Ju: np.ndarray | None, target: Quadratic
) -> PreparedCall:
    """`add_gauss_newton` of these arrays."""
    return PreparedCall(_gauss_newton, *_products(g, h, scale, Jx, Ju, target))


# --------------------------------------------------------------------------------------------
# Compiled activations: values (K,), and first and second derivatives in the residual, written to arrays.
#
# r (K, n); weights w have a row for every knot or one for all of them; parameters have a number for every component or
# one for all of them.  The gradient is (K, n), the Hessian (K, n, n) or, where it is diagonal, its diagonal (K, n).


# ------------------------------------------------------------------------------------------------ squares
@routine
def squares_values(r, w, values):
    """1/2 sum_i w_i r_i^2."""
    next_w = min(w.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        total = 0.0
        for i in range(r.shape[1]):
            total += w[next_w * t, i] * r[t, i] * r[t, i]
        values[t] = 0.5 * total


@routine
def squares_derivatives(r, w, gradient, hessian):
    """w r and w."""
    next_w = min(w.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            gradient[t, i], hessian[t, i] = w[next_w * t, i] * r[t, i], w[next_w * t, i]


@routine
def full_squares_values(r, w, Q, values):
    """1/2 sum_ij sqrt(w_i) r_i Q_ij sqrt(w_j) r_j."""
    next_w = min(w.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        total = 0.0
        for i in range(r.shape[1]):
            for j in range(r.shape[1]):
                x, y = math.sqrt(w[next_w * t, i]) * r[t, i], math.sqrt(w[next_w * t, j]) * r[t, j]
                total += x * Q[i, j] * y
        values[t] = 0.5 * total


@routine
def full_squares_derivatives(r, w, Q, gradient, hessian):
    """sqrt(w_i) sum_j Q_ij sqrt(w_j) r_j and sqrt(w_i) Q_ij sqrt(w_j)."""
    next_w = min(w.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            total = 0.0
            for j in range(r.shape[1]):
                hessian[t, i, j] = math.sqrt(w[next_w * t, i]) * math.sqrt(w[next_w * t, j]) * Q[i, j]
                total += hessian[t, i, j] * r[t, j]
            gradient[t, i] = total


@routine
def excess_values(r, w, lower, upper, values):
    """1/2 sum_i w_i v_i^2, v = r - clip(r, lower, upper)."""
    next_w, next_l, next_u = min(w.shape[0] - 1, 1), min(lower.shape[0] - 1, 1), min(upper.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        total = 0.0
        for i in range(r.shape[1]):
            v = r[t, i] - min(max(r[t, i], lower[next_l * i]), upper[next_u * i])
            total += w[next_w * t, i] * v * v
        values[t] = 0.5 * total


@routine
def excess_derivatives(r, w, lower, upper, gradient, hessian):
    """w v, and w where v is not zero."""
    next_w, next_l, next_u = min(w.shape[0] - 1, 1), min(lower.shape[0] - 1, 1), min(upper.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            v = r[t, i] - min(max(r[t, i], lower[next_l * i]), upper[next_u * i])
            gradient[t, i] = w[next_w * t, i] * v
            hessian[t, i] = w[next_w * t, i] if v != 0.0 else 0.0


# ------------------------------------------------------------------------------------------------ smooth |r|
@routine
def smooth_abs_values(r, w, p, values):
    """sum_i w_i (sqrt(r_i^2 + p_i^2) - p_i), without the cancellation of the difference near r = 0."""
    next_w, next_p = min(w.shape[0] - 1, 1), min(p.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        values[t] = 0.0
        for i in range(r.shape[1]):
            x, scale = r[t, i], p[next_p * i]
            values[t] += w[next_w * t, i] * (x * (x / (math.sqrt(x * x + scale * scale) + scale)))


@routine
def smooth_abs_derivatives(r, w, p, gradient, hessian):
    """w r/s and w p^2/s^3, s = sqrt(r^2 + p^2)."""
    next_w, next_p = min(w.shape[0] - 1, 1), min(p.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            x, scale, weight = r[t, i], p[next_p * i], w[next_w * t, i]
            s = math.sqrt(x * x + scale * scale)
            ratio = scale / s
            gradient[t, i] = weight * (x / s)
            hessian[t, i] = weight * (ratio * ratio / s)


@routine
def pseudo_huber_values(r, w, p, values):
    """sum_i w_i p_i (sqrt(r_i^2 + p_i^2) - p_i)."""
    next_w, next_p = min(w.shape[0] - 1, 1), min(p.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        values[t] = 0.0
        for i in range(r.shape[1]):
            x, scale = r[t, i], p[next_p * i]
            weight = w[next_w * t, i] * scale
            values[t] += weight * (x * (x / (math.sqrt(x * x + scale * scale) + scale)))


@routine
def pseudo_huber_derivatives(r, w, p, gradient, hessian):
    """w p r/s and w p^3/s^3, s = sqrt(r^2 + p^2)."""
    next_w, next_p = min(w.shape[0] - 1, 1), min(p.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            x, scale = r[t, i], p[next_p * i]
            weight, s = w[next_w * t, i] * scale, math.sqrt(x * x + scale * scale)
            ratio = scale / s
            gradient[t, i] = weight * (x / s)
            hessian[t, i] = weight * (ratio * ratio / s)


# ------------------------------------------------------------------------------------------------ smooth norm
@routine
def smooth_norm_values(r, w, p, values):
    """sqrt(r'W r + p^2) - p, W = diag w."""
    next_w = min(w.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        square = 0.0
        for i in range(r.shape[1]):
            square += w[next_w * t, i] * r[t, i] * r[t, i]
        values[t] = square / (math.sqrt(square + p * p) + p)


@routine
def smooth_norm_derivatives(r, w, p, gradient, hessian):
    """W r/s and W/s - W r r'W/s^3, s = sqrt(r'W r + p^2)."""
    K, n = r.shape
    next_w = min(w.shape[0] - 1, 1)
    for t in range(K):
        square = p * p
        for i in range(n):
            square += w[next_w * t, i] * r[t, i] * r[t, i]
        s = math.sqrt(square)
        for i in range(n):
            gradient[t, i] = w[next_w * t, i] * r[t, i] / s
        for i in range(n):
            for j in range(n):
                hessian[t, i, j] = -(gradient[t, i] * gradient[t, j]) / s
            hessian[t, i, i] += w[next_w * t, i] / s


# ------------------------------------------------------------------------------------------------ barriers
@helper
def relaxed_logarithm(z, delta):
    """-log z for z > delta, and the parabola with the same value, slope and curvature at delta below."""
    if z > delta:
        return -math.log(z), -1.0 / z, 1.0 / (z * z)
    x = (z - 2.0 * delta) / delta
    return 0.5 * (x * x - 1.0) - math.log(delta), x / delta, 1.0 / (delta * delta)


@routine
def log_barrier_values(r, w, lower, upper, delta, values):
    """sum_i w_i (b(r_i - lower_i) + b(upper_i - r_i)), b the relaxed -log; an infinite bound adds nothing."""
    next_w, next_l, next_u = min(w.shape[0] - 1, 1), min(lower.shape[0] - 1, 1), min(upper.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        values[t] = 0.0
        for i in range(r.shape[1]):
            low, high, weight = lower[next_l * i], upper[next_u * i], w[next_w * t, i]
            if low > -np.inf:
                values[t] += weight * relaxed_logarithm(r[t, i] - low, delta)[0]
            if high < np.inf:
                values[t] += weight * relaxed_logarithm(high - r[t, i], delta)[0]


@routine
def log_barrier_derivatives(r, w, lower, upper, delta, gradient, hessian):
    """Of the two barriers of each number."""
    next_w, next_l, next_u = min(w.shape[0] - 1, 1), min(lower.shape[0] - 1, 1), min(upper.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            low, high, weight = lower[next_l * i], upper[next_u * i], w[next_w * t, i]
            gradient[t, i] = hessian[t, i] = 0.0
            if low > -np.inf:
                _, slope, bend = relaxed_logarithm(r[t, i] - low, delta)
                gradient[t, i] += weight * slope
                hessian[t, i] += weight * bend
            if high < np.inf:
                _, slope, bend = relaxed_logarithm(high - r[t, i], delta)
                gradient[t, i] -= weight * slope
                hessian[t, i] += weight * bend


# --------------------------------------------------------------------------------------------
# Activations: convex functions A(r) that turn a residual into a cost.
#
#     quadratic        1/2 sum_i w_i r_i^2
#     full quadratic   1/2 r'D Q D r                              D = diag sqrt(w)
#     smooth |r|       sum_i w_i (sqrt(r_i^2 + p_i^2) - p_i)      [Tassa et al. 2012, the car]
#     pseudo-Huber     sum_i w_i d^2 (sqrt(1 + (r_i/d)^2) - 1)    quadratic within about d, linear beyond
#     smooth norm      sqrt(r'W r + p^2) - p                      W = diag w
#     log barrier      sum_i w_i (b(r_i - l_i) + b(u_i - r_i))    b(z) = -log z for z > d, else a parabola
#     quadratic barrier   1/2 sum_i w_i v_i^2                     v the violation of l <= r <= u
#
# A_rr is positive semidefinite in all of them, so the Gauss-Newton Hessian J'A_rr J of a cost is never indefinite.  For
# the smooth norm, A_rr = W/s - W r r'W/s^3 with s^2 = r'W r + p^2 is so because (y'W r)^2 <= (y'W y)(r'W r) < s^2 y'W
# y.
#
# References: Tassa, Erez, Todorov, "Synthesis and stabilization of complex behaviors through online trajectory
# optimization", 2012; Hauser, Saccon, "A barrier function method for the optimization of trajectory functionals with
# constraints", 2006; Feller, Ebenbauer, "Relaxed logarithmic barrier function based model predictive control of linear
# systems", 2017.


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
        raise ValueError(f"{name}: got {len(numbers)} numbers, expected one or {n}")


def _positive(name: str, value: Any) -> np.ndarray:
    """Positive finite numbers as a vector; one number as a vector of length one."""
    numbers = np.atleast_1d(as_number_or_vector(name, value, None))
    if not (numbers > 0).all():
        raise ValueError(f"{name}: got {float(numbers.min())}, expected positive numbers")
    return numbers


def _one_positive(name: str, value: Any) -> float:
    """A positive finite number."""
    numbers = _positive(name, value)
    if np.ndim(value) != 0:
        raise ValueError(f"{name}: got {len(numbers)} numbers, expected one")
    return float(numbers[0])


def _bounds(lower: Any, upper: Any) -> tuple[np.ndarray, np.ndarray]:
    """Bounds lower < upper as vectors of length one or n; -inf below and inf above are allowed."""
    bounds = []
    for name, value, absent in (("lower", lower, -np.inf), ("upper", upper, np.inf)):
        try:
            numbers = np.atleast_1d(as_floats(name, value))
        except TypeError:
            numbers = np.empty(0)
        if numbers.ndim != 1 or not numbers.size:
            raise ValueError(f"{name}: got {value!r}, expected a number or a vector")
        if not (np.isfinite(numbers) | (numbers == absent)).all():
            raise ValueError(f"{name}: got {value!r}, expected finite numbers or {absent}")
        bounds.append(numbers.astype(np.float64))
    if len({len(b) for b in bounds} - {1}) > 1:
        raise ValueError(f"upper: got {len(bounds[1])} numbers, expected as many as lower has, {len(bounds[0])}")
    if not (bounds[0] < bounds[1]).all():
        raise ValueError(f"upper: got {upper!r}, expected more than lower, {lower!r}")
    return bounds[0], bounds[1]


class CompiledActivation:
    """Base of the activations here, of compiled functions."""

    _kernels: ClassVar[tuple[Any, Any]]
    """values(r, w, *numbers, values) and derivatives(r, w, *numbers, gradient, hessian)"""
    _full: ClassVar[bool] = False
    """True if A_rr is not diagonal."""

    def _numbers(self) -> tuple[Any, ...]:
        """What kernels are given between weights and results."""
        return ()

    def value(self, r: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A (K,)."""
        values = np.empty(len(r))
        self._kernels[0](r, w, *self._numbers(), values)
        return values

    def derivatives(self, r: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A_r (K, n), and A_rr (K, n, n) or, if it is diagonal, its diagonal (K, n)."""
        gradient, hessian = self._places(r)
        self._kernels[1](r, w, *self._numbers(), gradient, hessian)
        return gradient, hessian

    def _places(self, r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(r.shape), np.zeros((*r.shape, r.shape[1]) if self._full else r.shape)

    def prepared_value(self, r: np.ndarray, w: np.ndarray, values: np.ndarray) -> PreparedCall | None:
        """The call that writes A (K,); None for a class with methods of its own."""
        if type(self).value is not CompiledActivation.value:
            return None
        return PreparedCall(self._kernels[0], r, w, *self._numbers(), values)

    def prepared_derivatives(self, r: np.ndarray, w: np.ndarray) -> tuple[PreparedCall, np.ndarray, np.ndarray] | None:
        """The call that writes A_r and A_rr, and these arrays; None for a class with methods of its own."""
        if type(self).derivatives is not CompiledActivation.derivatives:
            return None
        gradient, hessian = self._places(r)
        return PreparedCall(self._kernels[1], r, w, *self._numbers(), gradient, hessian), gradient, hessian


class QuadraticActivation(CompiledActivation):
    """1/2 sum_i w_i r_i^2, what the name "quadratic" stands for."""

    _kernels = squares_values, squares_derivatives

    def check(self, n: int) -> None:
        """Any length will do."""


class WeightedQuadratic(CompiledActivation):
    """1/2 rho'Q rho with rho_i = sqrt(w_i) r_i: the weights of the cost multiply rows and columns of Q.

    Parameters
    ----------
    matrix : (n, n) array, symmetric positive semidefinite
    """

    _kernels = full_squares_values, full_squares_derivatives
    _full = True

    def __init__(self, matrix: ArrayLike) -> None:
        Q = as_array("matrix", matrix, copy=True)
        if Q.ndim != 2 or Q.shape[0] != Q.shape[1]:
            raise ValueError(f"matrix: got shape {Q.shape}, expected a square one")
        rounding = 1e-10 * max(float(np.abs(Q).max(initial=0.0)), np.finfo(float).tiny)
        if np.abs(Q - Q.T).max(initial=0.0) > rounding:
            raise ValueError("matrix: got one that is not symmetric")
        self.matrix = 0.5 * (Q + Q.T)
        least = float(np.linalg.eigvalsh(self.matrix).min(initial=0.0))
        if least < -rounding:
            raise ValueError(f"matrix: got eigenvalue {least:.3g}, expected none below zero")

    def check(self, n: int) -> None:
        """Raise ValueError if the matrix is not (n, n)."""
        if len(self.matrix) != n:
            raise ValueError(f"matrix: got shape {self.matrix.shape}, expected {(n, n)}")

    def _numbers(self) -> tuple[Any, ...]:
        return (self.matrix,)


class SmoothAbs(CompiledActivation):
    """sum_i w_i (sqrt(r_i^2 + p_i^2) - p_i): quadratic for r well below the scale, |r| far beyond it.

    Parameters
    ----------
    scale : number or (n,) array, positive
        p, in the units of the residual.
    """

    _kernels = smooth_abs_values, smooth_abs_derivatives

    def __init__(self, scale: ArrayLike) -> None:
        self.scale = _positive("scale", scale)

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one scale, or n."""
        _check_length("scale", self.scale, n)

    def _numbers(self) -> tuple[Any, ...]:
        return (self.scale,)


class PseudoHuber(CompiledActivation):
    """sum_i w_i delta_i^2 (sqrt(1 + (r_i/delta_i)^2) - 1): the quadratic cost near zero, growing linearly beyond delta.

    It is `SmoothAbs` with scale delta and weights w delta, so that the curvature at zero is w.

    Parameters
    ----------
    delta : number or (n,) array, positive
        In the units of the residual.
    """

    _kernels = pseudo_huber_values, pseudo_huber_derivatives

    def __init__(self, delta: ArrayLike) -> None:
        self.delta = _positive("delta", delta)

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one delta, or n."""
        _check_length("delta", self.delta, n)

    def _numbers(self) -> tuple[Any, ...]:
        return (self.delta,)


class SmoothNorm(CompiledActivation):
    """sqrt(r'W r + p^2) - p with W = diag w: quadratic near zero, the norm of r far from it.

    Parameters
    ----------
    scale : number, positive
        p, in the units of the weighted norm.
    """

    _kernels = smooth_norm_values, smooth_norm_derivatives
    _full = True

    def __init__(self, scale: float) -> None:
        self.scale = _one_positive("scale", scale)

    def check(self, n: int) -> None:
        """Any length will do."""

    def _numbers(self) -> tuple[Any, ...]:
        return (self.scale,)


class LogBarrier(CompiledActivation):
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

    _kernels = log_barrier_values, log_barrier_derivatives

    def __init__(self, lower: ArrayLike, upper: ArrayLike, delta: float) -> None:
        self.lower, self.upper = _bounds(lower, upper)
        self.delta = _one_positive("delta", delta)

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one bound on each side, or n."""
        _check_length("lower", self.lower, n)
        _check_length("upper", self.upper, n)

    def _numbers(self) -> tuple[Any, ...]:
        return self.lower, self.upper, self.delta


class QuadraticBarrier(CompiledActivation):
    """1/2 sum_i w_i v_i^2 with v the violation of lower <= r <= upper; its curvature jumps at the bounds.

    Parameters
    ----------
    lower, upper : number or (n,) array, lower < upper
        -inf and inf for no bound.
    """

    _kernels = excess_values, excess_derivatives

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self.lower, self.upper = _bounds(lower, upper)

    def check(self, n: int) -> None:
        """Raise ValueError unless there is one bound on each side, or n."""
        _check_length("lower", self.lower, n)
        _check_length("upper", self.upper, n)

    def _nearest(self, r):
        return np.minimum(np.maximum(r, self.lower), self.upper)

    def _numbers(self) -> tuple[Any, ...]:
        return self.lower, self.upper
