"""Symmetric 6x6 matrices of the articulated-body algorithm in body frames, by blocks [[E, F], [F', G]].

Kept as 21 numbers: E (6, upper triangle), F (9, row-major), G (6).  An articulated inertia is one, and so is its
derivative in any direction.
"""

from dynamics.simd import fma, fnma, helper
from dynamics.spatial.so3 import add9, congruence, full, transpose
from dynamics.spatial.spatial import (
    add6,
    add_cross,
    add_rotated,
    add_symmetric,
    angular,
    cross,
    join,
    linear,
    load6,
    load9,
    multiply,
    rotate,
    rotate_back,
    scale6,
    store6,
    store9,
)

TOP, COUPLING, BOTTOM = 0, 6, 15
INERTIA = 21


@helper
def load_inertia(w, o):
    return load6(w, o + TOP), load9(w, o + COUPLING), load6(w, o + BOTTOM)


@helper
def store_inertia(w, o, E, F, G):
    store6(w, o + TOP, E)
    store9(w, o + COUPLING, F)
    store6(w, o + BOTTOM, G)


@helper
def add_inertia(w, o, E, F, G):
    """Add to the matrix at offset o."""
    e, f, g = load_inertia(w, o)
    store_inertia(w, o, add6(e, E), add9(f, F), add6(g, G))


@helper
def columns(M):
    """The columns of a symmetric 3x3 matrix."""
    return (M[0], M[1], M[2]), (M[1], M[3], M[4]), (M[2], M[4], M[5])


@helper
def add_articulated_times(x, E, F, G, a):
    """x + [[E, F], [F', G]] a"""
    w, v = angular(a), linear(a)
    n = add_rotated(add_symmetric(angular(x), E, w), F, v)
    return join(n, add_symmetric(add_rotated(linear(x), transpose(F), w), G, v))


@helper
def articulated_column(E, F, G, u, turning):
    """[[E, F], [F', G]] S for the column (u, 0) or (0, u)."""
    if turning:
        return join(rotate(full(E), u), rotate_back(F, u))
    return join(rotate(F, u), rotate(full(G), u))


@helper
def subtract_outer(E, F, G, x, U):
    """[[E, F], [F', G]] - x U', where x U' is symmetric."""
    E = (
        fnma(x[0], U[0], E[0]), fnma(x[0], U[1], E[1]), fnma(x[0], U[2], E[2]), fnma(x[1], U[1], E[3]),
        fnma(x[1], U[2], E[4]), fnma(x[2], U[2], E[5]),
    )  # fmt: skip
    F = (
        fnma(x[0], U[3], F[0]), fnma(x[0], U[4], F[1]), fnma(x[0], U[5], F[2]), fnma(x[1], U[3], F[3]),
        fnma(x[1], U[4], F[4]), fnma(x[1], U[5], F[5]), fnma(x[2], U[3], F[6]), fnma(x[2], U[4], F[7]),
        fnma(x[2], U[5], F[8]),
    )  # fmt: skip
    G = (
        fnma(x[3], U[3], G[0]), fnma(x[3], U[4], G[1]), fnma(x[3], U[5], G[2]), fnma(x[4], U[4], G[3]),
        fnma(x[4], U[5], G[4]), fnma(x[5], U[5], G[5]),
    )  # fmt: skip
    return E, F, G


@helper
def inertia_to_parent(R, p, E, F, G):
    """X' [[E, F], [F', G]] X, from the child frame to the parent frame.

    The blocks turn with R; then F_new = F + p~ G and E_new = E - F p~ + p~ F_new'."""
    back = transpose(R)
    E, G = congruence(back, E), congruence(back, G)
    F = multiply(multiply(R, F), back)
    x, y, z = columns(G)
    a, b, c = (F[0], F[1], F[2]), (F[3], F[4], F[5]), (F[6], F[7], F[8])
    x = add_cross((a[0], b[0], c[0]), p, x)
    y = add_cross((a[1], b[1], c[1]), p, y)
    z = add_cross((a[2], b[2], c[2]), p, z)
    d, e, f = (x[0], y[0], z[0]), (x[1], y[1], z[1]), (x[2], y[2], z[2])  # rows of the new F, a, b, c those of the old
    E = (
        fma(p[1], a[2] + d[2], fnma(p[2], a[1] + d[1], E[0])),
        fma(p[2], a[0], fnma(p[0], a[2], fma(p[1], e[2], fnma(p[2], e[1], E[1])))),
        fma(p[0], a[1], fnma(p[1], a[0], fma(p[1], f[2], fnma(p[2], f[1], E[2])))),
        fma(p[2], b[0] + e[0], fnma(p[0], b[2] + e[2], E[3])),
        fma(p[0], b[1], fnma(p[1], b[0], fma(p[2], f[0], fnma(p[0], f[2], E[4])))),
        fma(p[0], c[1] + f[1], fnma(p[1], c[0] + f[0], E[5])),
    )
    return E, (d[0], d[1], d[2], e[0], e[1], e[2], f[0], f[1], f[2]), G


@helper
def _plus_transpose(x, y, z):
    """A + A' (6) of the matrix A with columns x, y, z."""
    return (x[0] + x[0], y[0] + x[1], z[0] + x[2], y[1] + y[1], z[1] + y[2], z[2] + z[2])


@helper
def turned_inertia(E, F, G, u, turning):
    """S x* P - P S x for P = [[E, F], [F', G]]: how P varies as its body moves along the column (u, 0) or (0, u)."""
    x, y, z = columns(G)
    r, s, t = cross(u, x), cross(u, y), cross(u, z)  # columns of u~ G
    a, b, c = (F[0], F[1], F[2]), (F[3], F[4], F[5]), (F[6], F[7], F[8])
    if turning:
        # u~ M - M u~ = u~ M + (u~ M)' for symmetric M
        G = _plus_transpose(r, s, t)
        x, y, z = columns(E)
        E = _plus_transpose(cross(u, x), cross(u, y), cross(u, z))
        r, s, t = cross(u, (a[0], b[0], c[0])), cross(u, (a[1], b[1], c[1])), cross(u, (a[2], b[2], c[2]))
        a, b, c = cross(a, u), cross(b, u), cross(c, u)  # rows of F u~
        F = (
            r[0] - a[0], s[0] - a[1], t[0] - a[2], r[1] - b[0], s[1] - b[1], t[1] - b[2], r[2] - c[0], s[2] - c[1],
            t[2] - c[2],
        )  # fmt: skip
        return E, F, G
    E = _plus_transpose(cross(u, a), cross(u, b), cross(u, c))  # u~ F' - F u~ = u~ F' + (u~ F')'
    return E, (r[0], s[0], t[0], r[1], s[1], t[1], r[2], s[2], t[2]), scale6(G, 0.0)
