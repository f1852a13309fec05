"""Stumpff coefficients: the only transcendental functions in the maps between a Lie algebra and its group.

    c_k(s) = sum_i (-s)^i / (2i + k)!,    s = theta^2                        [Stumpff 1959, Himmelsmechanik I]

so c0 = cos theta, c1 = sin(theta)/theta, c2 = (1 - cos theta)/theta^2, c3 = (theta - sin theta)/theta^3, ...

They are entire functions of s.  c6 and c7 come from eleven terms of the series at s/16, then twice from s to 4s by the
addition theorem, and the others by c_k = 1/k! - s c_{k+2}, without branches or thresholds.  k! |error| is at most 2e-15
up to theta = 4 pi (c0 and c1, differences of large terms: 3e-15 at 2 pi, 2e-13 at 4 pi); beyond it grows, but stays
finite.
"""

from math import factorial

from dynamics.simd import fma, fnma, helper, sincos, sqrt

F6, F8, F10, F12, F14, F16, F18, F20, F22, F24, F26 = (float(factorial(k)) for k in range(6, 27, 2))
F7, F9, F11, F13, F15, F17, F19, F21, F23, F25, F27 = (float(factorial(k)) for k in range(7, 28, 2))


@helper
def _descend(s, c6, c7):
    """All eight coefficients from the last two:  c_k = 1/k! - s c_{k+2}."""
    c5 = fnma(s, c7, 1.0 / 120.0)
    c4 = fnma(s, c6, 1.0 / 24.0)
    c3 = fnma(s, c5, 1.0 / 6.0)
    c2 = fnma(s, c4, 0.5)
    return fnma(s, c2, 1.0), fnma(s, c3, 1.0), c2, c3, c4, c5, c6, c7


@helper
def _quadruple(s, c):
    """Coefficients at 4s from those at s: the addition theorem for the doubled angle."""
    c0, c1, c2, c3, c4, c5, c6, c7 = c
    d6 = fma(c1, c5, fma(c0, c6, fma(c2, 1.0 / 24.0, fma(c3, 1.0 / 6.0, fma(0.5, c4, c5 + c6)))))
    d7 = fma(c1, c6, fma(c0, c7, fma(c2, 1.0 / 120.0, fma(c3, 1.0 / 24.0, fma(c4, 1.0 / 6.0, fma(0.5, c5, c6 + c7))))))
    return _descend(4.0 * s, d6 * (1.0 / 64.0), d7 * (1.0 / 128.0))


@helper
def stumpff(s):
    """(c0, ..., c7) at s >= 0."""
    x = s * 0.0625
    p = fma(x, 1.0 / F26, -1.0 / F24)
    p = fma(x, fma(x, fma(x, p, 1.0 / F22), -1.0 / F20), 1.0 / F18)
    p = fma(x, fma(x, fma(x, p, -1.0 / F16), 1.0 / F14), -1.0 / F12)
    c6 = fma(x, fma(x, fma(x, p, 1.0 / F10), -1.0 / F8), 1.0 / F6)
    p = fma(x, 1.0 / F27, -1.0 / F25)
    p = fma(x, fma(x, fma(x, p, 1.0 / F23), -1.0 / F21), 1.0 / F19)
    p = fma(x, fma(x, fma(x, p, -1.0 / F17), 1.0 / F15), -1.0 / F13)
    c7 = fma(x, fma(x, fma(x, p, 1.0 / F11), -1.0 / F9), 1.0 / F7)
    return _quadruple(0.25 * s, _quadruple(x, _descend(x, c6, c7)))


@helper
def stumpff_derivatives(c):
    """(D2, D3, DD2, DD3): first and second derivatives of c2 and c3,  D c_k = 2 dc_k/ds = k c_{k+2} - c_{k+1}."""
    _, _, _, c3, c4, c5, c6, c7 = c
    return fma(2.0, c4, -c3), fma(3.0, c5, -c4), fma(8.0, c6, fnma(5.0, c5, c4)), fma(15.0, c7, fnma(7.0, c6, c5))


@helper
def half_sinc(angle):
    """sin(angle/2) / (angle/2): the chord of an arc over its length, accurate for any angle."""
    m = sqrt(fma(angle, angle, 1e-300))
    return 2.0 * sincos(0.5 * m)[0] / m
