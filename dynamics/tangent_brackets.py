"""Lie brackets of velocities, joint by joint: the commutators that give Runge-Kutta methods their order on groups.

    [a, b] = ad_a b,    k'[a, b] = a'C(k) b,    so  ad_a'k = C(k)'a = -C(k) a

Zero on ordinary joints.  Layouts as in `dynamics.tangent`.
"""

from dynamics.groups import se2, se3, so3
from dynamics.joints import FREE_FLYER, PLANAR, SPHERICAL
from dynamics.simd import align_stack, fma, helper, kernel, load, store
from dynamics.spatial import load3, load6
from dynamics.tangent import add_column3, load_column3, load_column6


@helper
def _add6(w, i, stride, s, x):
    add_column3(w, i, stride, s, se3.linear(x))
    add_column3(w, i + 3 * stride, stride, s, se3.angular(x))


@kernel
def add_bracket_rows(m, v, scale, X, x_offset, x_stride, Y, y_offset, y_stride, columns):
    """Y += scale ad_v X, all nv rows, `columns` columns (one column: Y += scale [v, X])."""
    align_stack(v)
    for i in range(len(m.joint_type)):
        kind, iv = m.joint_type[i], m.v_index[i]
        x, y = x_offset + iv * x_stride, y_offset + iv * y_stride
        if kind == FREE_FLYER:
            a = load6(v, iv)
            for c in range(columns):
                _add6(Y, y + c, y_stride, scale, se3.bracket(a, load_column6(X, x + c, x_stride)))
        elif kind == SPHERICAL:
            b = load3(v, iv)
            for c in range(columns):
                add_column3(Y, y + c, y_stride, scale, so3.bracket(b, load_column3(X, x + c, x_stride)))
        elif kind == PLANAR:
            b = load3(v, iv)
            for c in range(columns):
                add_column3(Y, y + c, y_stride, scale, se2.bracket(b, load_column3(X, x + c, x_stride)))


@kernel
def add_bracket_matrix(m, v, scale, Y, offset, stride):
    """Y += scale ad_v, a block-diagonal matrix (nv, nv)."""
    for i in range(len(m.joint_type)):
        kind, at = m.joint_type[i], offset + m.v_index[i] * (stride + 1)
        if kind == FREE_FLYER:
            a = load6(v, m.v_index[i])
            _add_skew(Y, at, stride, scale, se3.angular(a))
            _add_skew(Y, at + 3, stride, scale, se3.linear(a))
            _add_skew(Y, at + 3 + 3 * stride, stride, scale, se3.angular(a))
        elif kind == SPHERICAL:
            _add_skew(Y, at, stride, scale, load3(v, m.v_index[i]))
        elif kind == PLANAR:
            x, y, w = load3(v, m.v_index[i])
            store(Y, at + 1, fma(-scale, w, load(Y, at + 1)))
            store(Y, at + stride, fma(scale, w, load(Y, at + stride)))
            store(Y, at + 2, fma(scale, y, load(Y, at + 2)))
            store(Y, at + stride + 2, fma(-scale, x, load(Y, at + stride + 2)))


@helper
def _add_skew(Y, at, stride, s, x):
    """Y += s [x], three rows and columns."""
    for r, c, k in ((2, 1, 0), (0, 2, 1), (1, 0, 2)):
        below, above = at + r * stride + c, at + c * stride + r
        store(Y, below, fma(s, x[k], load(Y, below)))
        store(Y, above, fma(-s, x[k], load(Y, above)))


@kernel
def add_bracket_transposed(m, v, scale, k, out):
    """out += scale ad_v'k for a covector k (nv)."""
    align_stack(v)
    for i in range(len(m.joint_type)):
        kind, iv = m.joint_type[i], m.v_index[i]
        if kind == FREE_FLYER:
            _add6(out, iv, 1, -scale, se3.coadjoint(load6(k, iv), load6(v, iv)))
        elif kind == SPHERICAL:
            add_column3(out, iv, 1, -scale, so3.coadjoint(load3(k, iv), load3(v, iv)))
        elif kind == PLANAR:
            add_column3(out, iv, 1, -scale, se2.coadjoint(load3(k, iv), load3(v, iv)))


@helper
def _add_mirrored3(H, offset, stride, row, column, s, x):
    """H[row + k, column] += s x_k and H[column, row + k] += s x_k."""
    add_column3(H, offset + row * stride + column, stride, s, x)
    add_column3(H, offset + column * stride + row, 1, s, x)


@kernel
def add_bracket_hessian(m, k, scale, column, X, x_offset, x_stride, columns, H, offset, stride):
    """H += T + T',  T = scale P_v'C(k) X: the Hessian of scale k'[nu, X z], nu the part of z that starts at `column`.

    X (nv rows, `columns` columns), H (columns, columns).
    """
    align_stack(k)
    for i in range(len(m.joint_type)):
        kind, iv, row = m.joint_type[i], m.v_index[i], column + m.v_index[i]
        x = x_offset + iv * x_stride
        if kind == FREE_FLYER:
            lam = load6(k, iv)
            for c in range(columns):
                y = se3.coadjoint(lam, load_column6(X, x + c, x_stride))
                _add_mirrored3(H, offset, stride, row, c, scale, se3.linear(y))
                _add_mirrored3(H, offset, stride, row + 3, c, scale, se3.angular(y))
        elif kind == SPHERICAL:
            n = load3(k, iv)
            for c in range(columns):
                y = so3.coadjoint(n, load_column3(X, x + c, x_stride))
                _add_mirrored3(H, offset, stride, row, c, scale, y)
        elif kind == PLANAR:
            n = load3(k, iv)
            for c in range(columns):
                y = se2.coadjoint(n, load_column3(X, x + c, x_stride))
                _add_mirrored3(H, offset, stride, row, c, scale, y)
