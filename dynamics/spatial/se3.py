"""SE(3): a position and a unit quaternion; tangents xi = [rho; phi], covectors k = [f; n], linear part first.

The bracket of (rho, phi) is that of so(3) at the dual number phi + eps rho, so every formula is the one of SO(3) plus
eps times its derivative along rho.  Hence every map is block upper triangular with equal diagonal blocks,

    [[X, Y], [0, X]],   stored as the pair X, Y (nine numbers each),

and every symmetric form contracted with a covector is [[0, G0], [G0, G1]], stored as the pair G0, G1 (six
numbers each).  `c` is `stumpff(phi.phi)`.
"""

from dynamics.simd import fma, fms, fnma, helper
from dynamics.spatial import so3
from dynamics.spatial.so3 import stumpff, stumpff_derivatives
from dynamics.spatial.spatial import (
    add3,
    add_cross,
    add_rotated,
    add_scaled3,
    cross,
    dot3,
    multiply,
    rotate,
    rotate_back,
    scale3,
)


@helper
def linear(xi):
    return (xi[0], xi[1], xi[2])


@helper
def angular(xi):
    return (xi[3], xi[4], xi[5])


@helper
def twist(rho, phi):
    return (rho[0], rho[1], rho[2], phi[0], phi[1], phi[2])


# ------------------------------------------------------------------------------------------------ group
@helper
def exp(xi):
    """Translation Jr(-phi) rho and unit quaternion of exp(xi)."""
    rho, phi = linear(xi), angular(xi)
    c = stumpff(dot3(phi, phi))
    p = add_scaled3(scale3(rho, c[1]), c[3] * dot3(phi, rho), phi)
    return add_cross(p, scale3(phi, c[2]), rho), so3.exp(phi)


@helper
def log(p, quaternion):
    """Tangent of the pose (p, quaternion):  phi = log quaternion,  rho = Jr(-phi)^-1 p."""
    phi = so3.log(quaternion)
    c = stumpff(dot3(phi, phi))
    half = 0.5 / c[2]
    rho = add_scaled3(scale3(p, c[1] * half), fnma(2.0, c[4], c[3]) * half * dot3(phi, p), phi)
    return twist(add_cross(rho, scale3(phi, -0.5), p), phi)


@helper
def integrate(p, quaternion, xi):
    """The pose (p, quaternion) exp(xi), quaternion renormalised."""
    step, turn = exp(xi)
    return add3(p, so3.act(quaternion, step)), so3.normalise(so3.product(quaternion, turn))


@helper
def difference(p0, quaternion0, p1, quaternion1):
    """log of (p0, quaternion0)^-1 (p1, quaternion1)."""
    back = so3.conjugate(quaternion0)
    return log(so3.act(back, add_scaled3(p1, -1.0, p0)), so3.product(back, quaternion1))


# ------------------------------------------------------------------------------------------------ maps
@helper
def adjoint(xi, c):
    """A(xi) = Ad_exp(-xi) = [[R', -R'[p]], [0, R']], exp(xi) = (R, p)."""
    rho, phi = linear(xi), angular(xi)
    X = so3.adjoint(phi, c)
    # R'p = Jr(phi) rho =: u, and R'[p] = [R'p] R'
    u = add_scaled3(scale3(rho, c[1]), c[3] * dot3(phi, rho), phi)
    u = add_cross(u, rho, scale3(phi, c[2]))
    return X, so3.bracket_matrix(u, X)


@helper
def coupling(xi, c):
    """Q = D Jr(phi)[rho], the upper right block of Jr(xi):
    (phi.rho)(D1 1 - D2 [phi] + D3 phi phi') - c2 [rho] + c3 (rho phi' + phi rho'),  D1 = c3 - c2."""
    rho, phi = linear(xi), angular(xi)
    D2, D3, _, _ = stumpff_derivatives(c)
    t = dot3(phi, rho)
    Q = so3.axis_matrix((c[3] - c[2]) * t, -D2 * t, D3 * t, phi)
    x, y, z = scale3(rho, c[2])
    r = scale3(rho, c[3])
    xy, xz, yz = fma(r[0], phi[1], r[1] * phi[0]), fma(r[0], phi[2], r[2] * phi[0]), fma(r[1], phi[2], r[2] * phi[1])
    return (
        fma(2.0 * r[0], phi[0], Q[0]), Q[1] + (xy + z), Q[2] + (xz - y),
        Q[3] + (xy - z), fma(2.0 * r[1], phi[1], Q[4]), Q[5] + (yz + x),
        Q[6] + (xz + y), Q[7] + (yz - x), fma(2.0 * r[2], phi[2], Q[8]),
    )  # fmt: skip


@helper
def jacobian(xi, c):
    """Jr(xi) = [[Jr(phi), Q], [0, Jr(phi)]]."""
    return so3.jacobian(angular(xi), c), coupling(xi, c)


@helper
def jacobian_inverse(xi, c):
    """Jr(xi)^-1 = [[Ji, -Ji Q Ji], [0, Ji]],  Ji = Jr(phi)^-1."""
    Ji = so3.jacobian_inverse(angular(xi), c)
    return Ji, so3.scale9(multiply(Ji, multiply(coupling(xi, c), Ji)), -1.0)


@helper
def apply(X, Y, x):
    """[[X, Y], [0, X]] x."""
    w = angular(x)
    return twist(add_rotated(rotate(X, linear(x)), Y, w), rotate(X, w))


@helper
def apply_transposed(X, Y, y):
    """[[X, Y], [0, X]]' y."""
    f = linear(y)
    return twist(rotate_back(X, f), add3(rotate_back(Y, f), rotate_back(X, angular(y))))


# ------------------------------------------------------------------------------------------------ forms
@helper
def bracket(a, b):
    """[a, b] = (a_w x b_v + a_v x b_w, a_w x b_w)."""
    w, u = angular(a), angular(b)
    return twist(add_cross(cross(w, linear(b)), linear(a), u), cross(w, u))


@helper
def coadjoint(k, x):
    """C(k) x = (x_w x f, x_v x f + x_w x n)."""
    f, w = linear(k), angular(x)
    return twist(cross(w, f), add_cross(cross(linear(x), f), w, angular(k)))


@helper
def bracket_matrix(k, J, Q):
    """C(k) Jr = [[0, F0], [F0, F1]]:  F0 = -[f] J,  F1 = -[f] Q - [n] J."""
    f = linear(k)
    return so3.bracket_matrix(f, J), so3.add9(so3.bracket_matrix(f, Q), so3.bracket_matrix(angular(k), J))


@helper
def transposed_product(X, Y, F0, F1):
    """[[X, Y], [0, X]]' [[0, F0], [F0, F1]] = [[0, P0], [P0, P1]]:  P0 = X'F0,  P1 = Y'F0 + X'F1."""
    Xt = so3.transpose(X)
    return multiply(Xt, F0), so3.add9(multiply(so3.transpose(Y), F0), multiply(Xt, F1))


@helper
def gamma(xi, k, c):
    """Gam(xi, k) = [[0, G0], [G0, G1]]:  G0 = Gam(phi, f),  G1 = Gam(phi, n) + D_phi Gam(phi, f)[rho]."""
    rho, phi, f, n = linear(xi), angular(xi), linear(k), angular(k)
    D2, D3, DD2, DD3 = stumpff_derivatives(c)
    mf, t, m = dot3(phi, f), dot3(phi, rho), dot3(phi, n) + dot3(rho, f)
    e, u = fms(2.0, c[3], c[2]), cross(phi, f)
    bf = add_scaled3(add_scaled3(scale3(f, e), D2, u), D3 * mf, phi)
    bn = add_scaled3(scale3(n, e), D2, add_cross(cross(phi, n), rho, f))
    bn = add_scaled3(add_scaled3(bn, t * fms(2.0, D3, D2), f), t * DD2, u)
    bn = add_scaled3(add_scaled3(bn, fma(D3, m, DD3 * t * mf), phi), D3 * mf, rho)
    G0 = so3.add_symmetric_product(so3.diagonal(c[3] * mf), phi, bf)
    G1 = so3.add_symmetric_product(so3.diagonal(fma(c[3], m, D3 * t * mf)), rho, bf)
    return G0, so3.add_symmetric_product(G1, phi, bn)


@helper
def congruence(X, Y, G0, G1):
    """[[X, Y], [0, X]]' [[0, G0], [G0, G1]] [[X, Y], [0, X]] = [[0, P0], [P0, P1]], all symmetric:
    P0 = X'G0 X,  P1 = X'G1 X + (Y'G0 X) + (Y'G0 X)'."""
    T = multiply(so3.transpose(Y), multiply(so3.full(G0), X))
    P1 = so3.congruence(X, G1)
    P1 = (
        P1[0] + (T[0] + T[0]), P1[1] + (T[1] + T[3]), P1[2] + (T[2] + T[6]),
        P1[3] + (T[4] + T[4]), P1[4] + (T[5] + T[7]), P1[5] + (T[8] + T[8]),
    )  # fmt: skip
    return so3.congruence(X, G0), P1
