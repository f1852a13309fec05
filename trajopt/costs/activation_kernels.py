"""Compiled activations: values per knot, and first and second derivatives in the residual.

r (K, n); weights w have a row for every knot or one for all of them; parameters have a number for every component or
one for all of them.
"""

import math

import numpy as np

from dynamics.simd import helper, routine


# ------------------------------------------------------------------------------------------------ smooth |r|
@routine
def smooth_abs_values(r, w, p):
    """sum_i w_i (sqrt(r_i^2 + p_i^2) - p_i), without the cancellation of the difference near r = 0."""
    values = np.zeros(r.shape[0])
    next_w, next_p = min(w.shape[0] - 1, 1), min(p.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            x, scale = r[t, i], p[next_p * i]
            values[t] += w[next_w * t, i] * (x * (x / (math.sqrt(x * x + scale * scale) + scale)))
    return values


@routine
def smooth_abs_derivatives(r, w, p):
    """Gradient and diagonal of the Hessian, (K, n) each: w r/s and w p^2/s^3, s = sqrt(r^2 + p^2)."""
    gradient, hessian = np.empty(r.shape), np.empty(r.shape)
    next_w, next_p = min(w.shape[0] - 1, 1), min(p.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            x, scale, weight = r[t, i], p[next_p * i], w[next_w * t, i]
            s = math.sqrt(x * x + scale * scale)
            ratio = scale / s
            gradient[t, i] = weight * (x / s)
            hessian[t, i] = weight * (ratio * ratio / s)
    return gradient, hessian


# ------------------------------------------------------------------------------------------------ smooth norm
@routine
def smooth_norm_values(r, w, p):
    """sqrt(r'W r + p^2) - p, W = diag w."""
    values = np.empty(r.shape[0])
    next_w = min(w.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        square = 0.0
        for i in range(r.shape[1]):
            square += w[next_w * t, i] * r[t, i] * r[t, i]
        values[t] = square / (math.sqrt(square + p * p) + p)
    return values


@routine
def smooth_norm_derivatives(r, w, p):
    """Gradient W r/s (K, n) and Hessian W/s - W r r'W/s^3 (K, n, n), s = sqrt(r'W r + p^2)."""
    K, n = r.shape
    gradient, hessian = np.empty((K, n)), np.empty((K, n, n))
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
    return gradient, hessian


# ------------------------------------------------------------------------------------------------ barriers
@helper
def relaxed_logarithm(z, delta):
    """-log z for z > delta, and the parabola with the same value, slope and curvature at delta below."""
    if z > delta:
        return -math.log(z), -1.0 / z, 1.0 / (z * z)
    x = (z - 2.0 * delta) / delta
    return 0.5 * (x * x - 1.0) - math.log(delta), x / delta, 1.0 / (delta * delta)


@routine
def log_barrier_values(r, w, lower, upper, delta):
    """sum_i w_i (b(r_i - lower_i) + b(upper_i - r_i)), b the relaxed -log; an infinite bound adds nothing."""
    values = np.zeros(r.shape[0])
    next_w, next_l, next_u = min(w.shape[0] - 1, 1), min(lower.shape[0] - 1, 1), min(upper.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            low, high, weight = lower[next_l * i], upper[next_u * i], w[next_w * t, i]
            if low > -np.inf:
                values[t] += weight * relaxed_logarithm(r[t, i] - low, delta)[0]
            if high < np.inf:
                values[t] += weight * relaxed_logarithm(high - r[t, i], delta)[0]
    return values


@routine
def log_barrier_derivatives(r, w, lower, upper, delta):
    """Gradient and diagonal of the Hessian, (K, n) each."""
    gradient, hessian = np.zeros(r.shape), np.zeros(r.shape)
    next_w, next_l, next_u = min(w.shape[0] - 1, 1), min(lower.shape[0] - 1, 1), min(upper.shape[0] - 1, 1)
    for t in range(r.shape[0]):
        for i in range(r.shape[1]):
            low, high, weight = lower[next_l * i], upper[next_u * i], w[next_w * t, i]
            if low > -np.inf:
                _, slope, bend = relaxed_logarithm(r[t, i] - low, delta)
                gradient[t, i] += weight * slope
                hessian[t, i] += weight * bend
            if high < np.inf:
                _, slope, bend = relaxed_logarithm(high - r[t, i], delta)
                gradient[t, i] -= weight * slope
                hessian[t, i] += weight * bend
    return gradient, hessian
