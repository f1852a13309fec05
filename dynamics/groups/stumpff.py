"""Stumpff coefficients: the only transcendental functions behind the maps between a Lie algebra and its group.

    c_k(s) = sum_i (-s)^i / (2i + k)!,    s = theta^2                        [Stumpff 1959, Himmelsmechanik I]

so c0 = cos theta, c1 = sin(theta)/theta, c2 = (1 - cos theta)/theta^2, c3 = (theta - sin theta)/theta^3, ...

They are entire functions of s.  c6 and c7 come from nine terms of the series at s/16, then twice from s to 4s by the
addition theorem, and the others by c_k = 1/k! - s c_{k+2}.  No branch, no threshold; k! |error| stays below 1e-15 (c0
and c1: 5e-15) up to theta = 4 pi, and grows, but stays finite, beyond.
"""

from dynamics.simd import fma, fnma, helper, sincos, sqrt


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
    p = fma(x, 1.0 / 1124000727777607680000.0, -1.0 / 2432902008176640000.0)  # 22!, 20!
    p = fma(x, fma(x, fma(x, p, 1.0 / 6402373705728000.0), -1.0 / 20922789888000.0), 1.0 / 87178291200.0)  # 18! 16! 14!
    p = fma(x, fma(x, fma(x, p, -1.0 / 479001600.0), 1.0 / 3628800.0), -1.0 / 40320.0)  # 12! 10! 8!
    c6 = fma(x, p, 1.0 / 720.0)
    p = fma(x, 1.0 / 25852016738884976640000.0, -1.0 / 51090942171709440000.0)  # 23!, 21!
    p = fma(x, fma(x, fma(x, p, 1.0 / 121645100408832000.0), -1.0 / 355687428096000.0), 1.0 / 1307674368000.0)
    p = fma(x, fma(x, fma(x, p, -1.0 / 6227020800.0), 1.0 / 39916800.0), -1.0 / 362880.0)  # 13! 11! 9!
    c7 = fma(x, p, 1.0 / 5040.0)
    return _quadruple(0.25 * s, _quadruple(x, _descend(x, c6, c7)))


@helper
def stumpff_slopes(c):
    """(D2, D3, DD2, DD3): first and second slopes of c2 and c3,  D c_k = 2 dc_k/ds = k c_{k+2} - c_{k+1}."""
    _, _, _, c3, c4, c5, c6, c7 = c
    return fma(2.0, c4, -c3), fma(3.0, c5, -c4), fma(8.0, c6, fnma(5.0, c5, c4)), fma(15.0, c7, fnma(7.0, c6, c5))


@helper
def half_sinc(angle):
    """sin(angle/2) / (angle/2): the chord of an arc over its length, accurate for any angle."""
    m = sqrt(fma(angle, angle, 1e-300))
    return 2.0 * sincos(0.5 * m)[0] / m
