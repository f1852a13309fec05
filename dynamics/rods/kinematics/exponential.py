"""Truncated Taylor polynomials with dual coefficients, for the curvature of the exponential map of SE(3).

SE(3) is SO(3) over dual numbers a + e b, e e = 0: the same formula in dual numbers gives rotations and translations.  A
jet is such a number along a path, up to the second order in t,

    (a0, a1, a2, b0, b1, b2)  =  a0 + a1 t + a2 t^2  +  e (b0 + b1 t + b2 t^2),        t^3 = 0,

and a vector jet three of them, of the angular part (a) and the linear part (b) of a twist.
"""

from math import factorial

import numpy as np

from dynamics.simd import fma, fnma, helper, select_less
from dynamics.spatial.spatial import add6, add_rotated, angular, join, linear, rotate, scale6, sub6


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
    """Vector jet of x0 + x1 t + x2 t^2 for twists."""
    return (
        (x0[0], x1[0], x2[0], x0[3], x1[3], x2[3]),
        (x0[1], x1[1], x2[1], x0[4], x1[4], x2[4]),
        (x0[2], x1[2], x2[2], x0[5], x1[5], x2[5]),
    )


@helper
def of_wrenches(x0, x1, x2):
    """Vector jet of x0 + x1 t + x2 t^2 for wrenches, with forces first, so that the dual part of c.w is the power."""
    swapped = join(linear(x0), angular(x0)), join(linear(x1), angular(x1)), join(linear(x2), angular(x2))
    return of_twists(swapped[0], swapped[1], swapped[2])


# --------------------------------------------------------------------------------------------
# The exponential map of SE(3) along a path of twists, and its curvature, by entire functions of s = |w|^2.
#
# For a twist x = [w; u] and its path x(t), in dual numbers, with the Stumpff functions c_k(s),
#
#     exp x     R = c0 I + c1 w~ + c2 w w'          p = T3 u, T3 the real part of T
#     T(x)      = c1 I + c2 w~ + c3 w w'            the tangent operator:  d exp(x) = (T dx)^ exp(x)
#     E(x; c)   = sym d(T'c)/dx / 2                 for a constant wrench c                   [rod_hessian, section 3]
#               = c3 (w.c) I + w g' + g w',         g = c3'(w.c) w - (c3/2 + s c3') c - c2' (w x c)
#
# No norm, no branch, no division: the formulas hold at w = 0, and for complex numbers.  The coefficients are accurate
# to rounding up to |w| = pi and to 1e-11 up to 2 pi.  Beyond they are NaN, so that no wrong number is used.

TERMS = 14
FARTHEST = 2.0 * np.pi
"""Rotation, rad, up to which the coefficients are accurate."""
_SQUARE = FARTHEST**2
_INVERSE = tuple(1.0 / factorial(k) for k in range(2 * TERMS + 12))


# ------------------------------------------------------------------------------------------------ Stumpff functions
@helper
def _series(s, k):
    """c_k(s) = sum (-s)^j / (2j + k)!."""
    x = fnma(s, _INVERSE[k + 26], _INVERSE[k + 24])
    x = fnma(s, fnma(s, fnma(s, x, _INVERSE[k + 22]), _INVERSE[k + 20]), _INVERSE[k + 18])
    x = fnma(s, fnma(s, fnma(s, x, _INVERSE[k + 16]), _INVERSE[k + 14]), _INVERSE[k + 12])
    x = fnma(s, fnma(s, fnma(s, x, _INVERSE[k + 10]), _INVERSE[k + 8]), _INVERSE[k + 6])
    return fnma(s, fnma(s, fnma(s, x, _INVERSE[k + 4]), _INVERSE[k + 2]), _INVERSE[k])


@helper
def _derivative(k, c_next, c_after):
    """c_k' = (k c_{k+2} - c_{k+1}) / 2"""
    return 0.5 * fma(float(k), c_after, -c_next)


@helper
def stumpff_derivatives(s):
    """(c1, ..., c1'''), (c2, ..., c2''''), (c3, ..., c3'''') at s; NaN where |w| > FARTHEST."""
    s = select_less(_SQUARE, s, np.nan * s, s)
    c11, c10 = _series(s, 11), _series(s, 10)
    c9, c8 = fnma(s, c11, _INVERSE[9]), fnma(s, c10, _INVERSE[8])
    c7, c6 = fnma(s, c9, _INVERSE[7]), fnma(s, c8, _INVERSE[6])
    c5, c4 = fnma(s, c7, _INVERSE[5]), fnma(s, c6, _INVERSE[4])
    c3, c2 = fnma(s, c5, _INVERSE[3]), fnma(s, c4, _INVERSE[2])
    c1 = fnma(s, c3, 1.0)
    d1, d2, d3 = _derivative(1, c2, c3), _derivative(2, c3, c4), _derivative(3, c4, c5)
    d4, d5, d6 = _derivative(4, c5, c6), _derivative(5, c6, c7), _derivative(6, c7, c8)
    d7, d8, d9 = _derivative(7, c8, c9), _derivative(8, c9, c10), _derivative(9, c10, c11)
    e1, e2, e3 = _derivative(1, d2, d3), _derivative(2, d3, d4), _derivative(3, d4, d5)
    e4, e5, e6, e7 = _derivative(4, d5, d6), _derivative(5, d6, d7), _derivative(6, d7, d8), _derivative(7, d8, d9)
    g1, g2, g3 = _derivative(1, e2, e3), _derivative(2, e3, e4), _derivative(3, e4, e5)
    g4, g5 = _derivative(4, e5, e6), _derivative(5, e6, e7)
    return (c1, d1, e1, g1), (c2, d2, e2, g2, _derivative(2, g3, g4)), (c3, d3, e3, g3, _derivative(3, g4, g5))


# ------------------------------------------------------------------------------------------------ tangent operator
@helper
def tangent_jet(w, s, derivatives):
    """T3 = c1 I + c2 w~ + c3 w w' as nine jets, row-major; s = w.w."""
    first, second, third = derivatives
    a = compose(first, s)
    b = compose((second[0], second[1], second[2], second[3]), s)
    c = compose((third[0], third[1], third[2], third[3]), s)
    x, y, z = w
    bx, by, bz = times(b, x), times(b, y), times(b, z)
    cx, cy = times(c, x), times(c, y)
    xy, xz, yz = times(cx, y), times(cx, z), times(cy, z)
    return (
        add6(a, times(cx, x)), sub6(xy, bz), add6(xz, by),
        add6(xy, bz), add6(a, times(cy, y)), sub6(yz, bx),
        sub6(xz, by), add6(yz, bx), add6(a, times(times(c, z), z)),
    )  # fmt: skip


@helper
def of_order(T, k):
    """The coefficients of order k of nine jets."""
    return (T[0][k], T[1][k], T[2][k], T[3][k], T[4][k], T[5][k], T[6][k], T[7][k], T[8][k])


@helper
def tangent_times(Tr, Td, x):
    """T x = [[Tr, 0], [Td, Tr]] x"""
    w = angular(x)
    return join(rotate(Tr, w), add_rotated(rotate(Tr, linear(x)), Td, w))


@helper
def transposed9(A):
    return (A[0], A[3], A[6], A[1], A[4], A[7], A[2], A[5], A[8])


@helper
def tangent_transposed_times(Tr, Td, c):
    """T'c"""
    t, f = transposed9(Tr), linear(c)
    return join(add_rotated(rotate(t, angular(c)), transposed9(Td), f), rotate(t, f))


@helper
def exponential(x, derivatives, T0):
    """R (nine numbers) and p of exp x; T0: order 0 of T3."""
    c1, c2 = derivatives[0][0], derivatives[1][0]
    a, b, c = angular(x)
    cosine = fnma(c2, fma(a, a, fma(b, b, c * c)), 1.0)
    sa, sb, sc, ca, cb = c1 * a, c1 * b, c1 * c, c2 * a, c2 * b
    R = (
        fma(ca, a, cosine), fma(ca, b, -sc), fma(ca, c, sb),
        fma(ca, b, sc), fma(cb, b, cosine), fma(cb, c, -sa),
        fma(ca, c, -sb), fma(cb, c, sa), fma(c2 * c, c, cosine),
    )  # fmt: skip
    return R, rotate(T0, linear(x))


# ------------------------------------------------------------------------------------------------ curvature
@helper
def curvature_jet(w, c, s, derivatives):
    """E3(w; c) as six jets, xx xy xz yy yz zz."""
    _, second, third = derivatives
    b = compose((third[0], third[1], third[2], third[3]), s)
    db = compose((third[1], third[2], third[3], third[4]), s)
    da = compose((second[1], second[2], second[3], second[4]), s)
    wc, z = dot(w, c), cross(w, c)
    half = add6(scale6(b, 0.5), times(s, db))
    k, diagonal = times(db, wc), times(b, wc)
    g = (
        sub6(times(k, w[0]), add6(times(half, c[0]), times(da, z[0]))),
        sub6(times(k, w[1]), add6(times(half, c[1]), times(da, z[1]))),
        sub6(times(k, w[2]), add6(times(half, c[2]), times(da, z[2]))),
    )
    xx, yy, zz = times(w[0], g[0]), times(w[1], g[1]), times(w[2], g[2])
    return (
        add6(diagonal, add6(xx, xx)),
        add6(times(w[0], g[1]), times(w[1], g[0])),
        add6(times(w[0], g[2]), times(w[2], g[0])),
        add6(diagonal, add6(yy, yy)),
        add6(times(w[1], g[2]), times(w[2], g[1])),
        add6(diagonal, add6(zz, zz)),
    )


@helper
def symmetric_of_order(E, k):
    """The coefficients of order k of six jets."""
    return (E[0][k], E[1][k], E[2][k], E[3][k], E[4][k], E[5][k])
