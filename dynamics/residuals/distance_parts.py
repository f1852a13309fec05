"""What kernels of distances share: points of bodies, columns, and where the closest points of a pair are kept."""

from __future__ import annotations

from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, POSITION, ROTATION
from dynamics.simd import fma, helper, load, select_less, splat
from dynamics.spatial import add3, add_cross, load3, load6, load9, rotate, scale3

ROUND, FLAT, BOXED = range(3)
"""Kinds of pairs: of two segments; of a point and a half-space; of a segment and a box."""
NEAR = 31
"""Numbers per pair: delta or n, the closest points of both, then what its kind needs; see `Segments` and `Solids`."""
ALONG, LEFT, TURNED = 19, 8, 16
"""Numbers per degree of freedom k: 8 of right_k, which begins with j_k, 8 of left_k, 3 of delta x w_k or n x w_k."""
ROUND_TERMS, SOLID_TERMS = 5, 8
"""How many of these count."""
TINY = 1e-30
PARALLEL = 1e-14


@helper
def turned(i, numbers, at, body):
    """A direction of a body in the world."""
    zero = splat(body, 0.0)
    x = (zero + numbers[at], zero + numbers[at + 1], zero + numbers[at + 2])
    return x if i < 0 else rotate(load9(body, i * BODY + ROTATION), x)


@helper
def placed(i, numbers, at, body):
    """A point of a body in the world."""
    x = turned(i, numbers, at, body)
    return x if i < 0 else add3(load3(body, i * BODY + POSITION), x)


@helper
def less(a, b):
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


@helper
def clip(x):
    """Into [0, 1], and one where it was inside, else zero."""
    zero, one = x * 0.0, x * 0.0 + 1.0
    inside = select_less(zero, x, select_less(x, one, one, zero), zero)
    return select_less(x, zero, zero, select_less(one, x, one, x)), inside


@helper
def column(k, sign, point, dof):
    """The velocity that degree of freedom k gives a point, times a sign."""
    s = load6(dof, k * DOF + COLUMN)
    return scale3(add_cross((s[3], s[4], s[5]), (s[0], s[1], s[2]), point), sign)


@helper
def product(along, terms, x, y):
    """left_x.right_y, the part of a Hessian that is symmetric in x and y on any side."""
    o, i = x * ALONG + LEFT, y * ALONG
    e = load(along, o) * load(along, i)
    for k in range(1, terms):
        e = fma(load(along, o + k), load(along, i + k), e)
    return e
