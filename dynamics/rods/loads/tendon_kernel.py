"""Generalised forces of tendons and chambers, and their derivatives, at most one 6x6 matrix per quadrature point for
all of them.

With D = [-d~ I], g = D't the gradient of a tendon's length per length, y = D Phi w the virtual motion, y_par = t.y,
h = D'(y - y_par t) and G = D'D,                                                              [rod_hessian, section 4]

    B = - sum_k w_k Phi'g                     d(Bu)/dq    = - sum_k w_k Phi' { sum u (G - g g') / l } Phi
    d(B'w)/dq = - sum_k w_k h'Phi / l
    d2(w'Bu)/dq2 = sum_k w_k Phi' { sum u (h g' + g h' + y_par (G - g g')) / l^2 } Phi

with u and B of tendons; a chamber's are -A(X) times as large.
"""

from dynamics.rods.loads.tendon_spans import add_spans
from dynamics.rods.model.arrays import FIRST, SECOND
from dynamics.simd import align_stack, fma, fnma, helper, kernel, load, splat, sqrt, store
from dynamics.spatial import load6, store6

# scratch of a point
STRAINS, VIRTUAL, GRADIENT, BENT, STIFFNESS, CURVATURE = 0, 6, 12, 18, 24, 45
"""Strains, virtual strains, g, h; lower triangles (21) of what Phi'{.}Phi adds to dr/dq and to Hqq."""
TENDON_NUMBERS = 66


@kernel
def _strains(e, p, state, first, share, ws, o):
    """share times the reference + Phi x at point p, for the coordinates x at `first` in the state."""
    align_stack(ws)
    for r in range(6):
        x = splat(ws, share * e.reference[p, r])
        for j in range(e.rows[p, r], e.rows[p, r + 1]):
            x = fma(_mode(e, p, j), load(state, first + j), x)
        store(ws, o + r, x)


@helper
def _mode(e, p, j):
    return e.modes[e.first_mode[p] + j - e.rows[p, 0]]


@helper
def _carried(x, y, z):
    """D x = x[3:] + x[:3] x (0, y, z)"""
    return (
        fnma(y, x[2], fma(z, x[1], x[3])),
        fnma(z, x[0], x[4]),
        fma(y, x[0], x[5]),
    )


@helper
def _gathered(t, y, z):
    """D't = [(0, y, z) x t; t]"""
    return (y * t[2] - z * t[1], z * t[0], -y * t[0], t[0], t[1], t[2])


@helper
def _add(ws, o, x):
    store(ws, o, load(ws, o) + x)


@kernel
def _add_outer(ws, o, a, b, y, z):
    """Add a (G - g g') + b (h g' + g h') to the lower triangle at ws[o]."""
    align_stack(ws)
    k = o
    for r in range(6):
        gr, hr = load(ws, GRADIENT + r), load(ws, BENT + r)
        left, right = fma(b, hr, -a * gr), b * gr
        for c in range(r + 1):
            _add(ws, k, fma(left, load(ws, GRADIENT + c), right * load(ws, BENT + c)))
            k += 1
    _add(ws, o, a * (y * y + z * z))
    _add(ws, o + 2, a * (z * z))
    _add(ws, o + 4, a * (-y * z))
    _add(ws, o + 5, a * (y * y))
    _add(ws, o + 7, a * z)
    _add(ws, o + 8, a * -y)
    _add(ws, o + 9, a)
    _add(ws, o + 10, a * -z)
    _add(ws, o + 14, a)
    _add(ws, o + 15, a * y)
    _add(ws, o + 20, a)


@kernel
def _add_columns(e, p, size, k, factor, ws, o, target):
    """target[i size + k] += factor mode_i ws[o + r] for the coordinates i of component r."""
    align_stack(ws)
    for r in range(6):
        x = load(ws, o + r)
        for i in range(e.rows[p, r], e.rows[p, r + 1]):
            _add(target, i * size + k, (factor * _mode(e, p, i)) * x)


@kernel
def _expand(e, p, n, ws, o, A):
    """A += w Phi' {lower triangle at ws[o]} Phi for the point p."""
    align_stack(ws)
    for r in range(6):
        for c in range(r + 1):
            x = e.weight[p] * load(ws, o + r * (r + 1) // 2 + c)
            for i in range(e.rows[p, r], e.rows[p, r + 1]):
                for j in range(e.rows[p, c], e.rows[p, c + 1]):
                    entry = (_mode(e, p, i) * _mode(e, p, j)) * x
                    _add(A, i * n + j, entry)
                    if c < r:
                        _add(A, j * n + i, entry)


@kernel
def _add_tendon(e, level, p, t, nu, u, ws, r, B, Hqu):
    """What the pair t of point p and tendon adds to the residual, to B, Hqu, and to the triangles of the point."""
    align_stack(ws)
    k, w = e.control[t], e.weight[p] * e.routing[t, 4]
    y, z, dy, dz = e.routing[t, 0], e.routing[t, 1], e.routing[t, 2], e.routing[t, 3]
    x = _carried(load6(ws, STRAINS), y, z)
    x = (x[0], x[1] + dy, x[2] + dz)
    over = 1.0 / sqrt(fma(x[0], x[0], fma(x[1], x[1], x[2] * x[2])))
    along = (over * x[0], over * x[1], over * x[2])
    tension = e.routing[t, 4] * load(u, k)
    store6(ws, GRADIENT, _gathered(along, y, z))
    _add_columns(e, p, 1, 0, e.weight[p] * tension, ws, GRADIENT, r)
    if level >= FIRST:
        zero = splat(ws, 0.0)
        store6(ws, BENT, (zero, zero, zero, zero, zero, zero))
        _add_columns(e, p, nu, k, splat(ws, -w), ws, GRADIENT, B)
        _add_outer(ws, STIFFNESS, tension * over, zero, y, z)
    if level >= SECOND:
        moved = _carried(load6(ws, VIRTUAL), y, z)
        part = fma(along[0], moved[0], fma(along[1], moved[1], along[2] * moved[2]))
        across = (
            fnma(part, along[0], moved[0]), fnma(part, along[1], moved[1]), fnma(part, along[2], moved[2]),
        )  # fmt: skip
        store6(ws, BENT, _gathered(across, y, z))
        _add_columns(e, p, nu, k, w * over, ws, BENT, Hqu)
        b = -tension * over * over
        _add_outer(ws, CURVATURE, b * part, b, y, z)


@kernel
def add_tendons(e, level, n, nu, state, ws, r, dq, Hqq, B, Hqu):
    """Add what tendons contribute to the residual r = ... - B u and, as the level goes, to dr/dq, B, Hqq, Hqu.

    e: TendonArrays; state: q, v, a, w, u; scratch ws: TENDON_NUMBERS."""
    align_stack(ws)
    u = state[4 * n :]
    add_spans(e.spans, level, n, nu, state, r, dq, Hqq, B, Hqu)
    for p in range(e.weight.size):
        _strains(e, p, state, 0, 1.0, ws, STRAINS)
        ws[STIFFNESS:TENDON_NUMBERS] = 0.0
        if level >= SECOND:
            _strains(e, p, state, 3 * n, 0.0, ws, VIRTUAL)
        for t in range(e.start[p], e.start[p + 1]):
            _add_tendon(e, level, p, t, nu, u, ws, r, B, Hqu)
        if level >= FIRST:
            _expand(e, p, n, ws, STIFFNESS, dq)
        if level >= SECOND:
            _expand(e, p, n, ws, CURVATURE, Hqq)
