"""SE(2): q = (x, y, theta), tangents xi = (p, theta), covectors k = (f, n); J = [[0, -1], [1, 0]].

theta is a real number, never wrapped.  The group is the universal cover of SE(2), where exp is one to one for angles
below a full turn, so `difference` inverts `integrate` exactly.

Every map is [[a 1 + b J, y], [0, 1]], stored as four numbers (a, b, y0, y1).  `c` is `stumpff(theta^2)`.
"""

from dynamics.simd import fma, fms, fnma, helper, sincos
from dynamics.spatial.so3 import half_sinc


# ------------------------------------------------------------------------------------------------ group
@helper
def integrate(q, xi):
    """q exp(xi): an arc is its chord at the mean heading,  p + half_sinc(theta) R(q_theta + theta/2) xi_p."""
    s, c = sincos(fma(0.5, xi[2], q[2]))
    h = half_sinc(xi[2])
    x, y = h * xi[0], h * xi[1]
    return (fma(c, x, fnma(s, y, q[0])), fma(s, x, fma(c, y, q[1])), q[2] + xi[2])


@helper
def difference(q0, q1):
    """log of q0^-1 q1 on the cover, theta not wrapped; singular where the angles differ by whole turns."""
    theta = q1[2] - q0[2]
    s, c = sincos(fma(0.5, theta, q0[2]))
    h = half_sinc(theta)
    x, y = q1[0] - q0[0], q1[1] - q0[1]
    return (fma(c, x, s * y) / h, fms(c, y, s * x) / h, theta)


# ------------------------------------------------------------------------------------------------ maps
@helper
def adjoint(xi, c):
    """A(xi) = Ad_exp(-xi): heading block R', last column (theta c2 1 + c1 J) p."""
    d = xi[2] * c[2]
    return (c[0], -xi[2] * c[1], fnma(c[1], xi[1], d * xi[0]), fma(c[1], xi[0], d * xi[1]))


@helper
def jacobian(xi, c):
    """Jr(xi): heading block c1 1 - theta c2 J, last column (theta c3 1 + c2 J) p."""
    d = xi[2] * c[3]
    return (c[1], -xi[2] * c[2], fnma(c[2], xi[1], d * xi[0]), fma(c[2], xi[0], d * xi[1]))


@helper
def jacobian_inverse(xi, c):
    """Jr(xi)^-1: heading block W = c1/(2 c2) 1 + theta/2 J, last column -W (theta c3 1 + c2 J) p."""
    _, _, y0, y1 = jacobian(xi, c)
    a, b = 0.5 * c[1] / c[2], 0.5 * xi[2]
    return (a, b, fms(b, y1, a * y0), -fma(b, y0, a * y1))


@helper
def apply(M, x):
    return (
        fma(M[0], x[0], fnma(M[1], x[1], M[2] * x[2])),
        fma(M[1], x[0], fma(M[0], x[1], M[3] * x[2])),
        x[2],
    )


@helper
def apply_transposed(M, y):
    return (
        fma(M[0], y[0], M[1] * y[1]),
        fms(M[0], y[1], M[1] * y[0]),
        fma(M[2], y[0], fma(M[3], y[1], y[2])),
    )


@helper
def full(M):
    """The map as nine numbers, row-major."""
    zero = 0.0 * M[0]
    return (M[0], -M[1], M[2], M[1], M[0], M[3], zero, zero, zero + 1.0)


# ------------------------------------------------------------------------------------------------ forms
@helper
def bracket(a, b):
    """[a, b] = (a_w J b_v - b_w J a_v, 0)."""
    return (fms(b[2], a[1], a[2] * b[1]), fms(a[2], b[0], b[2] * a[0]), 0.0 * a[0])


@helper
def coadjoint(k, x):
    """C(k) x = (-x_w J'f, f'J x_v)."""
    return (-x[2] * k[1], x[2] * k[0], fms(k[1], x[0], k[0] * x[1]))


@helper
def bracket_matrix(k, M):
    """C(k) M, nine numbers, for a map M."""
    zero = 0.0 * k[0]
    return (
        zero, zero, -k[1],
        zero, zero, k[0],
        fms(k[1], M[0], k[0] * M[1]), -fma(k[1], M[1], k[0] * M[0]), fms(k[1], M[2], k[0] * M[3]),
    )  # fmt: skip


@helper
def gamma(xi, k, c):
    """Gam(xi, k), six numbers: linear-linear 0, linear-angular (theta/2)(e f + theta D2 J f),
    angular-angular -e f.p + theta D2 f'J p,  e = 2 c3 - c2,  D2 = 2 c4 - c3."""
    e, d = fms(2.0, c[3], c[2]), xi[2] * fms(2.0, c[4], c[3])
    half, zero = 0.5 * xi[2], 0.0 * xi[2]
    return (
        zero, zero, half * fnma(d, k[1], e * k[0]),
        zero, half * fma(d, k[0], e * k[1]),
        fms(d, fms(k[1], xi[0], k[0] * xi[1]), e * fma(k[0], xi[0], k[1] * xi[1])),
    )  # fmt: skip
