"""Scalar laws of external loads and their derivatives, for numbers and lanes."""

from dynamics.simd import helper, select_less, sqrt

SMALLEST = 1e-100


@helper
def smooth_depth(depth, width):
    """A function of the depth that is 0 below -width, the depth above width, and twice differentiable between, with two
    derivatives:  (d + w)^3 (3 w - d) / (16 w^3) for |d| < w;  width 0: max(depth, 0)."""
    zero, one = 0.0 * depth, 0.0 * depth + 1.0
    if width <= 0.0:
        return select_less(0.0, depth, depth, zero), select_less(0.0, depth, one, zero), zero
    scale = 1.0 / (16.0 * width * width * width)
    x, y = depth + width, 3.0 * width - depth
    value, ds = x * x * x * y * scale, (3.0 * y - x) * x * x * scale
    dds = 6.0 * (y - x) * x * scale
    value = select_less(depth, width, value, depth)
    ds = select_less(depth, width, ds, one)
    dds = select_less(depth, width, dds, zero)
    inside = -width
    return (
        select_less(inside, depth, value, zero),
        select_less(inside, depth, ds, zero),
        select_less(inside, depth, dds, zero),
    )


@helper
def half_power(x, twice):
    """x^(twice / 2) for x >= 0 and whole numbers."""
    y = 0.0 * x + 1.0
    for _ in range(twice // 2):
        y = y * x
    return y * sqrt(x) if twice % 2 == 1 else y


@helper
def contact_law(depth, stiffness, exponent, width):
    """Force k s^p of the smoothed depth s, with two derivatives; p a whole number of halves, at least 1 [Hertz: 3/2].

    Where s = 0 the derivatives are zero, although those of p < 2 need not exist there without smoothing."""
    s, ds, dds = smooth_depth(depth, width)
    power = half_power(s, round(2.0 * exponent))
    inverse = select_less(SMALLEST, s, 1.0 / (s + SMALLEST), 0.0 * s)
    first = exponent * power * inverse
    second = (exponent - 1.0) * first * inverse
    return stiffness * power, stiffness * first * ds, stiffness * (second * ds * ds + first * dds)


@helper
def speed_law(v, least):
    """sqrt(v.v + least^2) and its gradient."""
    speed = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2] + (least * least + 1e-200))
    return speed, (v[0] / speed, v[1] / speed, v[2] / speed)
