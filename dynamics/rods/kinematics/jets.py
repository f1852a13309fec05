"""Truncated Taylor polynomials with dual coefficients, for the curvature of the exponential map of SE(3).

SE(3) is SO(3) over dual numbers a + e b, e e = 0: the same formula in dual numbers gives rotations and translations.  A
jet is such a number along a path, up to the second order in t,

    (a0, a1, a2, b0, b1, b2)  =  a0 + a1 t + a2 t^2  +  e (b0 + b1 t + b2 t^2),        t^3 = 0,

and a vector jet three of them, of the angular part (a) and the linear part (b) of a twist.
"""

from dynamics.simd import fma, helper
from dynamics.spatial import add6, angular, join, linear, sub6


@helper
def times(x, y):
    """x y"""
    return (
        x[0] * y[0],
        fma(x[0], y[1], x[1] * y[0]),
        fma(x[0], y[2], fma(x[1], y[1], x[2] * y[0])),
        fma(x[0], y[3], x[3] * y[0]),
        fma(x[0], y[4], fma(x[3], y[1], fma(x[1], y[3], x[4] * y[0]))),
        fma(x[0], y[5], fma(x[3], y[2], fma(x[1], y[4], fma(x[4], y[1], fma(x[2], y[3], x[5] * y[0]))))),
    )


@helper
def dot(x, y):
    """x.y of vector jets."""
    return add6(times(x[0], y[0]), add6(times(x[1], y[1]), times(x[2], y[2])))


@helper
def cross(x, y):
    """x x y of vector jets."""
    return (
        sub6(times(x[1], y[2]), times(x[2], y[1])),
        sub6(times(x[2], y[0]), times(x[0], y[2])),
        sub6(times(x[0], y[1]), times(x[1], y[0])),
    )


@helper
def compose(derivatives, s):
    """f(s) from the values f, f', f'', f''' at the real number s0 of the jet s."""
    f0, f1, f2, f3 = derivatives
    square = s[1] * s[1]
    return (
        f0,
        f1 * s[1],
        fma(f1, s[2], 0.5 * f2 * square),
        f1 * s[3],
        fma(f1, s[4], f2 * s[1] * s[3]),
        fma(f1, s[5], fma(f2, fma(s[2], s[3], s[1] * s[4]), 0.5 * f3 * square * s[3])),
    )


@helper
def of_twists(x0, x1, x2):
    """Vector jet of x0 + x1 t + x2 t^2, twists."""
    return (
        (x0[0], x1[0], x2[0], x0[3], x1[3], x2[3]),
        (x0[1], x1[1], x2[1], x0[4], x1[4], x2[4]),
        (x0[2], x1[2], x2[2], x0[5], x1[5], x2[5]),
    )


@helper
def of_wrenches(x0, x1, x2):
    """Vector jet of x0 + x1 t + x2 t^2, wrenches: forces come first, so that the dual part of c.w is the power."""
    swapped = join(linear(x0), angular(x0)), join(linear(x1), angular(x1)), join(linear(x2), angular(x2))
    return of_twists(swapped[0], swapped[1], swapped[2])
