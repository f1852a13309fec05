"""Distances from planes, points, axes and capsules, with all that contact needs of their derivatives.

The distance d of a place x has the gradient u and, with T = d d''(x), along a direction v,

    planes      d = a.x                      T = 0
    others      d = |x - t a|                T = 1 - u u', of an axis 1 - a a' - u u'
    third       d'''(x)[v] = - ((u.v) T + u t' + t u') / d^2,     t = T v

where t a is the place nearest to x on an axis of half length h: zero for points, infinite for lines.
"""

from dynamics.simd import helper, select_less, sqrt
from dynamics.spatial import add_scaled3, dot3, scale3

PLANE, ROUND = 0, 1
# numbers of a contact
STIFFNESS, EXPONENT, SMOOTHING, SIDE, OFFSET = 0, 1, 2, 3, 4
POINT, AXIS, SHAPE, HALF_LENGTH, CORE, PLACE = 5, 8, 11, 12, 13, 14
DAMPING, FRICTION, SLIP = 17, 18, 19
CONTACT_NUMBERS = 20
"""Force law; depth = SIDE d + OFFSET; a point (3) and a direction a (3); PLANE or ROUND, h, and a square that is added
to that of d; the place (3) in axes of the link that touches; damping and friction (`contact_law`)."""


@helper
def distance(c, x):
    """d, 1/d (0 of planes), u (3) and T (xx xy xz yy yz zz) at x from the point of a contact with the numbers c."""
    z = 0.0 * x[0]
    a = (z + c[AXIS], z + c[AXIS + 1], z + c[AXIS + 2])
    along, h = dot3(a, x), c[HALF_LENGTH]
    if c[SHAPE] == PLANE:
        return along, z, a, (z, z, z, z, z, z)
    share = select_less(-h, along, select_less(along, h, z + 1.0, z), z)
    nearest = select_less(along, h, select_less(-h, along, along, z - h), z + h)
    n = add_scaled3(x, -nearest, a)
    d = sqrt(dot3(n, n) + c[CORE])
    inverse = 1.0 / d
    u, b = scale3(n, inverse), scale3(a, share)
    T = (
        1.0 - b[0] * a[0] - u[0] * u[0], -b[0] * a[1] - u[0] * u[1], -b[0] * a[2] - u[0] * u[2],
        1.0 - b[1] * a[1] - u[1] * u[1], -b[1] * a[2] - u[1] * u[2], 1.0 - b[2] * a[2] - u[2] * u[2],
    )  # fmt: skip
    return d, inverse, u, T


@helper
def symmetric_times(S, v):
    """S v for S = xx xy xz yy yz zz."""
    return (
        S[0] * v[0] + S[1] * v[1] + S[2] * v[2], S[1] * v[0] + S[3] * v[1] + S[4] * v[2],
        S[2] * v[0] + S[4] * v[1] + S[5] * v[2],
    )  # fmt: skip


@helper
def combination(a, A, b, x, y):
    """a A + b (x y' + y x'), symmetric."""
    x0, x1, x2 = b * x[0], b * x[1], b * x[2]
    return (
        a * A[0] + 2.0 * x0 * y[0], a * A[1] + (x0 * y[1] + x1 * y[0]), a * A[2] + (x0 * y[2] + x2 * y[0]),
        a * A[3] + 2.0 * x1 * y[1], a * A[4] + (x1 * y[2] + x2 * y[1]), a * A[5] + 2.0 * x2 * y[2],
    )  # fmt: skip
