"""SO(3): rotations as unit quaternions (x y z w), tangents as rotation vectors phi.

3x3 matrices are nine numbers, row-major; symmetric ones six, (xx xy xz yy yz zz).  `c` is `stumpff(phi.phi)`.
"""

from math import factorial

from dynamics.simd import arctan2, fma, fms, fnma, helper, select_less, sincos, sqrt
from dynamics.spatial.spatial import add_cross, add_scaled3, cross, dot3, multiply, scale3

# --------------------------------------------------------------------------------------------
# Stumpff coefficients: the only transcendental functions in the maps between a Lie algebra and its group.
#
#     c_k(s) = sum_i (-s)^i / (2i + k)!,    s = theta^2                        [Stumpff 1959, Himmelsmechanik I]
#
# so c0 = cos theta, c1 = sin(theta)/theta, c2 = (1 - cos theta)/theta^2, c3 = (theta - sin theta)/theta^3, ...
#
# They are entire functions of s.  c6 and c7 come from eleven terms of the series at s/16, then twice from s to 4s by
# the addition theorem, and the others by c_k = 1/k! - s c_{k+2}, without branches or thresholds.  k! |error| is at most
# 2e-15 up to theta = 4 pi (c0 and c1, differences of large terms: 3e-15 at 2 pi, 2e-13 at 4 pi); beyond it grows, but
# stays finite.

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


# ------------------------------------------------------------------------------------------------ quaternions
@helper
def exp(phi):
    """Unit quaternion of the rotation by phi, for any angle."""
    m = sqrt(dot3(phi, phi) + 1e-300)
    s, c = sincos(0.5 * m)
    f = s / m
    return (f * phi[0], f * phi[1], f * phi[2], c)


@helper
def log(quaternion):
    """Rotation vector, at most pi long, of a unit quaternion (u, w):  phi = 2 atan2(|u|, |w|)/|u| sign(w) u."""
    x, y, z, w = quaternion
    sign = select_less(w, 0.0, -1.0, 1.0)
    m = sqrt(fma(x, x, fma(y, y, fma(z, z, 1e-300))))
    f = 2.0 * arctan2(m, sign * w) / m * sign
    return (f * x, f * y, f * z)


@helper
def product(a, b):
    """Hamilton product a b."""
    return (
        fma(a[3], b[0], fma(a[0], b[3], fms(a[1], b[2], a[2] * b[1]))),
        fma(a[3], b[1], fma(a[1], b[3], fms(a[2], b[0], a[0] * b[2]))),
        fma(a[3], b[2], fma(a[2], b[3], fms(a[0], b[1], a[1] * b[0]))),
        fnma(a[0], b[0], fnma(a[1], b[1], fnma(a[2], b[2], a[3] * b[3]))),
    )


@helper
def conjugate(quaternion):
    x, y, z, w = quaternion
    return (-x, -y, -z, w)


@helper
def normalise(quaternion):
    """The unit quaternion of the same direction."""
    x, y, z, w = quaternion
    f = 1.0 / sqrt(fma(x, x, fma(y, y, fma(z, z, w * w))))
    return (f * x, f * y, f * z, f * w)


@helper
def act(quaternion, v):
    """The vector v rotated by a unit quaternion (u, w):  v + w t + u x t,  t = 2 u x v."""
    u = (quaternion[0], quaternion[1], quaternion[2])
    t = scale3(cross(u, v), 2.0)
    return add_cross(add_scaled3(v, quaternion[3], t), u, t)


@helper
def matrix(quaternion):
    """Rotation matrix of a unit quaternion."""
    x, y, z, w = quaternion
    a, b, c = x + x, y + y, z + z
    ax, by, cz = a * x, b * y, c * z
    return (
        1.0 - (by + cz), fnma(c, w, a * y), fma(b, w, a * z),
        fma(c, w, a * y), 1.0 - (ax + cz), fnma(a, w, b * z),
        fnma(b, w, a * z), fma(a, w, b * z), 1.0 - (ax + by),
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ matrices
@helper
def axis_matrix(a, b, d, phi):
    """a 1 + b [phi] + d phi phi': every analytic function of [phi] has this form, as [phi]^2 = phi phi' - |phi|^2 1."""
    x, y, z = phi
    dx, dy, dz = d * x, d * y, d * z
    xy, xz, yz = dx * y, dx * z, dy * z
    return (
        fma(dx, x, a), fnma(b, z, xy), fma(b, y, xz),
        fma(b, z, xy), fma(dy, y, a), fnma(b, x, yz),
        fnma(b, y, xz), fma(b, x, yz), fma(dz, z, a),
    )  # fmt: skip


@helper
def adjoint(phi, c):
    """A(phi) = exp(phi)' = 1 - c1 [phi] + c2 [phi]^2."""
    return axis_matrix(c[0], -c[1], c[2], phi)


@helper
def jacobian(phi, c):
    """Jr(phi) = 1 - c2 [phi] + c3 [phi]^2."""
    return axis_matrix(c[1], -c[2], c[3], phi)


@helper
def jacobian_inverse(phi, c):
    """Jr(phi)^-1 = 1 + [phi]/2 + d [phi]^2,  d = (c3 - 2 c4)/(2 c2); singular only at a full turn."""
    half = 0.5 / c[2]
    return axis_matrix(c[1] * half, 0.5, fnma(2.0, c[4], c[3]) * half, phi)


@helper
def gamma(phi, n, c):
    """Gam(phi, n) = c3 (phi.n) 1 + S(phi, b),  b = (2 c3 - c2) n + D2 phi x n + D3 (phi.n) phi; six numbers."""
    D2, D3, _, _ = stumpff_derivatives(c)
    m = dot3(phi, n)
    b = scale3(n, fms(2.0, c[3], c[2]))
    b = add_scaled3(add_scaled3(b, D2, cross(phi, n)), D3 * m, phi)
    return add_symmetric_product(diagonal(c[3] * m), phi, b)


@helper
def bracket(a, b):
    """[a, b] = a x b."""
    return cross(a, b)


@helper
def coadjoint(n, x):
    """C(n) x = x x n."""
    return cross(x, n)


@helper
def bracket_matrix(n, J):
    """C(n) J = -[n] J."""
    return (
        fms(n[2], J[3], n[1] * J[6]), fms(n[2], J[4], n[1] * J[7]), fms(n[2], J[5], n[1] * J[8]),
        fms(n[0], J[6], n[2] * J[0]), fms(n[0], J[7], n[2] * J[1]), fms(n[0], J[8], n[2] * J[2]),
        fms(n[1], J[0], n[0] * J[3]), fms(n[1], J[1], n[0] * J[4]), fms(n[1], J[2], n[0] * J[5]),
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ small algebra
@helper
def diagonal(a):
    """a 1 as a symmetric matrix."""
    zero = 0.0 * a
    return (a, zero, zero, a, zero, a)


@helper
def add_symmetric_product(G, a, b):
    """G + S(a, b),  S(a, b) = (a b' + b a')/2; G symmetric, six numbers."""
    x, y, z = 0.5 * a[0], 0.5 * a[1], 0.5 * a[2]
    return (
        fma(a[0], b[0], G[0]), fma(x, b[1], fma(y, b[0], G[1])), fma(x, b[2], fma(z, b[0], G[2])),
        fma(a[1], b[1], G[3]), fma(y, b[2], fma(z, b[1], G[4])), fma(a[2], b[2], G[5]),
    )  # fmt: skip


@helper
def transpose(M):
    return (M[0], M[3], M[6], M[1], M[4], M[7], M[2], M[5], M[8])


@helper
def full(G):
    """Symmetric matrix from its six numbers to nine."""
    return (G[0], G[1], G[2], G[1], G[3], G[4], G[2], G[4], G[5])


@helper
def congruence(J, G):
    """J'G J, G symmetric; both results and G six numbers."""
    P = multiply(transpose(J), multiply(full(G), J))
    return (P[0], P[1], P[2], P[4], P[5], P[8])


@helper
def add9(A, B):
    return (
        A[0] + B[0], A[1] + B[1], A[2] + B[2], A[3] + B[3], A[4] + B[4], A[5] + B[5], A[6] + B[6], A[7] + B[7],
        A[8] + B[8],
    )  # fmt: skip


@helper
def scale9(A, s):
    return (A[0] * s, A[1] * s, A[2] * s, A[3] * s, A[4] * s, A[5] * s, A[6] * s, A[7] * s, A[8] * s)
