"""Sum over knots of weighted squares of differences from a reference, with gradient and Hessian."""

from dynamics.simd.compilation import routine


@routine
def weighted_squares(z, reference, weights, start, stop, gradient, hessian):
    """1/2 sum w s^2; w s and w a are added to gradient (K, n) and hessian (K, n, n) if these have rows.  Weights are
    in the form of `dynamics.residuals.squares.weigh`."""
    total, expanded, n = 0.0, gradient.shape[0] > 0, z.shape[1]
    next_row, limited, given = min(weights.shape[0] - 1, 1), weights.shape[1] == 4 * n, weights.shape[1] == 2 * n
    for t in range(start, stop):
        row = next_row * (t - start)
        for i in range(n):
            w, s = weights[row, i], z[t, i] - reference[i]
            active = w
            if limited:
                y, lower, upper = s + weights[row, n + i], weights[row, 2 * n + i], weights[row, 3 * n + i]
                s = y - min(max(y, lower), upper)
                active = 0.0 if s == 0.0 and lower < upper else w
            slope = w * s
            if given:
                slope, active, s = w, weights[row, n + i], 0.0
            total += 0.5 * slope * s
            if expanded:
                gradient[t, i] += slope
                hessian[t, i, i] += active
    return total
