"""The product group of all joints: tangents of a configuration, curvature of their maps, brackets."""

from dynamics.model.joints import FREE_FLYER, PLANAR, SPHERICAL
from dynamics.simd import align_stack, fma, helper, kernel, load, shared_kernel, splat, store
from dynamics.simd.lane_algebra import add_entry
from dynamics.spatial import se2, se3, so3
from dynamics.spatial.so3 import stumpff
from dynamics.spatial.spatial import (
    add_symmetric,
    dot3,
    load3,
    load6,
    load9,
    multiply,
    rotate,
    rotate_back,
    store3,
    store6,
    store9,
)

# --------------------------------------------------------------------------------------------
# The tangent of a robot's configuration: maps of the groups applied joint by joint to vectors and rows of matrices.
#
# A configuration lives on a product of groups: SO(3), SE(3) and SE(2) where the joint is spherical, free-flying or
# planar, R elsewhere.  The maps A(xi) = Ad_exp(-xi), Jr(xi), Jr(xi)^-1 of `dynamics.spatial` are therefore block
# diagonal over the joints, the identity on ordinary ones; no nv x nv matrix is ever formed to apply one.
#
# Every kernel takes the model's arrays `m` and workspaces, (n,) for one knot or (n, LANES) for LANES knots.  Matrices
# are row-major inside a workspace: entry (r, c) is number offset + r stride + c.  `maps` has nb * TANGENT_SLOTS
# numbers: per body three slots, A, Jr and Jr^-1, selected by ADJOINT, JACOBIAN, JACOBIAN_INVERSE.

ADJOINT, JACOBIAN, JACOBIAN_INVERSE = 0, 1, 2
SLOT = 18
TANGENT_SLOTS = 3 * SLOT
"""Size per body of a `maps` workspace.  A map is [X Y] (SE(3), 18 numbers), X (SO(3), 9) or (a b y) (SE(2), 4)."""


# ------------------------------------------------------------------------------------------------ memory
@helper
def load4(w, i):
    return (load(w, i), load(w, i + 1), load(w, i + 2), load(w, i + 3))


@helper
def store4(w, i, x):
    store3(w, i, (x[0], x[1], x[2]))
    store(w, i + 3, x[3])


@helper
def load_column3(w, i, stride):
    """Three entries of one column of a row-major matrix."""
    return (load(w, i), load(w, i + stride), load(w, i + 2 * stride))


@helper
def load_column6(w, i, stride):
    a, b = load_column3(w, i, stride), load_column3(w, i + 3 * stride, stride)
    return (a[0], a[1], a[2], b[0], b[1], b[2])


@helper
def store_column3(w, i, stride, x):
    store(w, i, x[0])
    store(w, i + stride, x[1])
    store(w, i + 2 * stride, x[2])


@helper
def store_column6(w, i, stride, x):
    store_column3(w, i, stride, (x[0], x[1], x[2]))
    store_column3(w, i + 3 * stride, stride, (x[3], x[4], x[5]))


@helper
def map_at(i, which):
    """Offset of a map of body i in `maps`."""
    return i * TANGENT_SLOTS + which * SLOT


# ------------------------------------------------------------------------------------------------ moving and comparing
@shared_kernel
def integrate_configuration(m, q, dq, q_out):
    """q_out = q (+) dq; quaternions renormalised.  q_out may be q."""
    align_stack(q)
    for i in range(len(m.joint_type)):
        kind, iq, iv = m.joint_type[i], m.q_index[i], m.v_index[i]
        if kind == FREE_FLYER:
            p, quaternion = se3.integrate(load3(q, iq), load4(q, iq + 3), load6(dq, iv))
            store3(q_out, iq, p)
            store4(q_out, iq + 3, quaternion)
        elif kind == SPHERICAL:
            store4(q_out, iq, so3.normalise(so3.product(load4(q, iq), so3.exp(load3(dq, iv)))))
        elif kind == PLANAR:
            store3(q_out, iq, se2.integrate(load3(q, iq), load3(dq, iv)))
        else:
            for k in range(m.dof_count[i]):
                store(q_out, iq + k, load(q, iq + k) + load(dq, iv + k))


@shared_kernel
def difference_configuration(m, q0, q1, dq):
    """dq = log(q0^-1 q1), so that q0 (+) dq = q1.  Rotations at most pi; planar angles are not wrapped."""
    align_stack(q0)
    for i in range(len(m.joint_type)):
        kind, iq, iv = m.joint_type[i], m.q_index[i], m.v_index[i]
        if kind == FREE_FLYER:
            store6(dq, iv, se3.difference(load3(q0, iq), load4(q0, iq + 3), load3(q1, iq), load4(q1, iq + 3)))
        elif kind == SPHERICAL:
            store3(dq, iv, so3.log(so3.product(so3.conjugate(load4(q0, iq)), load4(q1, iq))))
        elif kind == PLANAR:
            store3(dq, iv, se2.difference(load3(q0, iq), load3(q1, iq)))
        else:
            for k in range(m.dof_count[i]):
                store(dq, iv + k, load(q1, iq + k) - load(q0, iq + k))


# ------------------------------------------------------------------------------------------------ maps
@helper
def _store_pair(w, i, pair):
    store9(w, i, pair[0])
    store9(w, i + 9, pair[1])


@shared_kernel
def tangent_maps(m, xi, maps):
    """Store A(xi) and Jr(xi) of every joint with maps other than the identity; xi (nv)."""
    align_stack(xi)
    for i in range(len(m.joint_type)):
        kind, iv = m.joint_type[i], m.v_index[i]
        at, jr = map_at(i, ADJOINT), map_at(i, JACOBIAN)
        if kind == FREE_FLYER:
            x = load6(xi, iv)
            c = stumpff(dot3(se3.angular(x), se3.angular(x)))
            _store_pair(maps, at, se3.adjoint(x, c))
            _store_pair(maps, jr, se3.jacobian(x, c))
        elif kind == SPHERICAL:
            phi = load3(xi, iv)
            c = stumpff(dot3(phi, phi))
            store9(maps, at, so3.adjoint(phi, c))
            store9(maps, jr, so3.jacobian(phi, c))
        elif kind == PLANAR:
            y = load3(xi, iv)
            c = stumpff(y[2] * y[2])
            store4(maps, at, se2.adjoint(y, c))
            store4(maps, jr, se2.jacobian(y, c))


@shared_kernel
def tangent_maps_inverse(m, xi, maps):
    """Store Jr(xi)^-1, the Jacobian of log, of the same joints; singular only at a full turn."""
    align_stack(xi)
    for i in range(len(m.joint_type)):
        kind, iv, at = m.joint_type[i], m.v_index[i], map_at(i, JACOBIAN_INVERSE)
        if kind == FREE_FLYER:
            x = load6(xi, iv)
            _store_pair(maps, at, se3.jacobian_inverse(x, stumpff(dot3(se3.angular(x), se3.angular(x)))))
        elif kind == SPHERICAL:
            phi = load3(xi, iv)
            store9(maps, at, so3.jacobian_inverse(phi, stumpff(dot3(phi, phi))))
        elif kind == PLANAR:
            y = load3(xi, iv)
            store4(maps, at, se2.jacobian_inverse(y, stumpff(y[2] * y[2])))


# ------------------------------------------------------------------------------------------------ applying them
@helper
def _scaled(x, s):
    return (x[0] * s, x[1] * s, x[2] * s)


@helper
def add_column3(w, i, stride, s, x):
    """Column += s x."""
    store(w, i, fma(s, x[0], load(w, i)))
    store(w, i + stride, fma(s, x[1], load(w, i + stride)))
    store(w, i + 2 * stride, fma(s, x[2], load(w, i + 2 * stride)))


@kernel
def apply_map_rows(m, maps, which, scale, X, offset, stride, columns):
    """X <- scale Map X on all nv rows and the first `columns` columns of X, in place."""
    align_stack(X)
    for i in range(len(m.joint_type)):
        kind, first, at = m.joint_type[i], offset + m.v_index[i] * stride, map_at(i, which)
        if kind == FREE_FLYER:
            A, B = load9(maps, at), load9(maps, at + 9)
            for c in range(first, first + columns):
                x = se3.apply(A, B, load_column6(X, c, stride))
                store_column3(X, c, stride, _scaled(se3.linear(x), scale))
                store_column3(X, c + 3 * stride, stride, _scaled(se3.angular(x), scale))
        elif kind == SPHERICAL:
            A = load9(maps, at)
            for c in range(first, first + columns):
                store_column3(X, c, stride, _scaled(rotate(A, load_column3(X, c, stride)), scale))
        elif kind == PLANAR:
            M = load4(maps, at)
            for c in range(first, first + columns):
                store_column3(X, c, stride, _scaled(se2.apply(M, load_column3(X, c, stride)), scale))
        elif scale != 1.0:
            for k in range(m.dof_count[i]):
                for c in range(first + k * stride, first + k * stride + columns):
                    store(X, c, scale * load(X, c))


@shared_kernel
def add_mapped_rows(m, maps, which, scale, X, x_offset, x_stride, Y, y_offset, y_stride, columns):
    """Y += scale Map X on all nv rows and `columns` columns; X and Y apart."""
    align_stack(X)
    for i in range(len(m.joint_type)):
        kind, iv, at = m.joint_type[i], m.v_index[i], map_at(i, which)
        x, y = x_offset + iv * x_stride, y_offset + iv * y_stride
        if kind == FREE_FLYER:
            A, B = load9(maps, at), load9(maps, at + 9)
            for c in range(columns):
                z = se3.apply(A, B, load_column6(X, x + c, x_stride))
                add_column3(Y, y + c, y_stride, scale, se3.linear(z))
                add_column3(Y, y + c + 3 * y_stride, y_stride, scale, se3.angular(z))
        elif kind == SPHERICAL:
            A = load9(maps, at)
            for c in range(columns):
                add_column3(Y, y + c, y_stride, scale, rotate(A, load_column3(X, x + c, x_stride)))
        elif kind == PLANAR:
            M = load4(maps, at)
            for c in range(columns):
                add_column3(Y, y + c, y_stride, scale, se2.apply(M, load_column3(X, x + c, x_stride)))
        else:
            for k in range(m.dof_count[i]):
                for c in range(columns):
                    a, b = y + k * y_stride + c, x + k * x_stride + c
                    store(Y, a, fma(scale, load(X, b), load(Y, a)))


@shared_kernel
def add_map(m, maps, which, scale, X, offset, stride):
    """X += scale Map, a block-diagonal matrix (nv, nv)."""
    for i in range(len(m.joint_type)):
        kind, iv, at = m.joint_type[i], m.v_index[i], map_at(i, which)
        first = offset + iv * (stride + 1)
        if kind == FREE_FLYER:
            for r in range(3):
                for c in range(3):
                    a, x, y = first + r * stride + c, load(maps, at + 3 * r + c), load(maps, at + 9 + 3 * r + c)
                    store(X, a, fma(scale, x, load(X, a)))
                    store(X, a + 3, fma(scale, y, load(X, a + 3)))
                    store(X, a + 3 + 3 * stride, fma(scale, x, load(X, a + 3 + 3 * stride)))
        elif kind == SPHERICAL:
            A = load9(maps, at)
            for c, x in enumerate(((A[0], A[3], A[6]), (A[1], A[4], A[7]), (A[2], A[5], A[8]))):
                add_column3(X, first + c, stride, scale, x)
        elif kind == PLANAR:
            A = se2.full(load4(maps, at))
            for c, x in enumerate(((A[0], A[3], A[6]), (A[1], A[4], A[7]), (A[2], A[5], A[8]))):
                add_column3(X, first + c, stride, scale, x)
        else:
            for k in range(m.dof_count[i]):
                a = first + k * (stride + 1)
                store(X, a, load(X, a) + splat(X, scale))


@kernel
def apply_map_transposed(m, maps, which, y, out):
    """out = Map' y for a covector y (nv); out may be y."""
    align_stack(y)
    for i in range(len(m.joint_type)):
        kind, iv, at = m.joint_type[i], m.v_index[i], map_at(i, which)
        if kind == FREE_FLYER:
            store6(out, iv, se3.apply_transposed(load9(maps, at), load9(maps, at + 9), load6(y, iv)))
        elif kind == SPHERICAL:
            store3(out, iv, rotate_back(load9(maps, at), load3(y, iv)))
        elif kind == PLANAR:
            store3(out, iv, se2.apply_transposed(load4(maps, at), load3(y, iv)))
        else:
            for k in range(m.dof_count[i]):
                store(out, iv + k, load(y, iv + k))


# --------------------------------------------------------------------------------------------
# Lie brackets of velocities, joint by joint: the commutators with which Runge-Kutta methods keep their order on groups.
#
#     [a, b] = ad_a b,    k'[a, b] = a'C(k) b,    so  ad_a'k = C(k)'a = -C(k) a
#
# Brackets are zero on ordinary joints.  Layouts are as above.


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


# --------------------------------------------------------------------------------------------
# Second-order geometry of configurations: terms of the groups in the Hessians of integrators and residuals.
#
# Along q+ = q (+) xi(z), with xi -> xi + eta for the step z = (delta, nu, w), a covector k gives, to second order
# (Baker-Campbell-Hausdorff),
#
#     k'dq+ = k'(A delta + Jr eta) + 1/2 { (Jr'k)'d2xi + eta'Gam(xi, k) eta + (A delta)'C(k) Jr eta }
#
# The kernels below add the last two terms, `geo(xi, k, eta)`, for eta = scale N z (any rows N) or eta = scale nu
# (columns of z).  As a matrix in z:  N'Gam N + T + T',  T = 1/2 (A P_q)'C(k) Jr N,  where P_q selects delta, the first
# columns. Ordinary joints add nothing at no cost.  Layouts are as above; terms are added to both triangles of symmetric
# Hessians.  `maps` must hold A(xi) and Jr(xi) (`tangent_maps`).

ZERO3 = (0.0, 0.0, 0.0)


# ------------------------------------------------------------------------------------------------ forms of one joint
@helper
def _forms_so3(maps, i, phi, n, inputs):
    """Gam(phi, n) (six numbers) and F = 1/2 C Jr (nine); with `inputs`, F = 1/2 A'C Jr."""
    F = so3.scale9(so3.bracket_matrix(n, load9(maps, map_at(i, JACOBIAN))), 0.5)
    if inputs:
        F = multiply(so3.transpose(load9(maps, map_at(i, ADJOINT))), F)
    return so3.gamma(phi, n, stumpff(dot3(phi, phi))), F


@helper
def _forms_se2(maps, i, xi, k, inputs):
    F = so3.scale9(se2.bracket_matrix(k, load4(maps, map_at(i, JACOBIAN))), 0.5)
    if inputs:
        F = multiply(so3.transpose(se2.full(load4(maps, map_at(i, ADJOINT)))), F)
    return se2.gamma(xi, k, stumpff(xi[2] * xi[2])), F


@helper
def _forms_se3(maps, i, xi, k, inputs):
    """The forms on SE(3): Gam = [[0, G0], [G0, G1]], F = [[0, F0], [F0, F1]]."""
    at, jr = map_at(i, ADJOINT), map_at(i, JACOBIAN)
    F0, F1 = se3.bracket_matrix(k, load9(maps, jr), load9(maps, jr + 9))
    F0, F1 = so3.scale9(F0, 0.5), so3.scale9(F1, 0.5)
    if inputs:
        F0, F1 = se3.transposed_product(load9(maps, at), load9(maps, at + 9), F0, F1)
    G0, G1 = se3.gamma(xi, k, stumpff(dot3(se3.angular(xi), se3.angular(xi))))
    return G0, G1, F0, F1


# ------------------------------------------------------------------------------------------------ adding to Hessians
@helper
def _add_pair(H, offset, stride, r, c, x):
    """H[r, c] += x, H[c, r] += x; a diagonal entry gets both."""
    add_entry(H, offset + r * stride + c, x)
    add_entry(H, offset + c * stride + r, x)


@helper
def _add_pairs3(H, offset, stride, r, c, x):
    """`_add_pair` for rows r, r + 1, r + 2 of column c."""
    _add_pair(H, offset, stride, r, c, x[0])
    _add_pair(H, offset, stride, r + 1, c, x[1])
    _add_pair(H, offset, stride, r + 2, c, x[2])


@helper
def _add_quadratic3(N, n_at, n_stride, G, F, scale, columns, H, offset, stride, row):
    """H += scale^2 N'G N + T + T', T = scale F N in rows `row`, for three rows N."""
    for b in range(columns):
        x = load_column3(N, n_at + b, n_stride)
        x = (scale * x[0], scale * x[1], scale * x[2])
        y = add_symmetric(ZERO3, G, x)
        y = (scale * y[0], scale * y[1], scale * y[2])
        for a in range(b):
            _add_pair(H, offset, stride, a, b, dot3(load_column3(N, n_at + a, n_stride), y))
        add_entry(H, offset + b * (stride + 1), dot3(load_column3(N, n_at + b, n_stride), y))
        _add_pairs3(H, offset, stride, row, b, rotate(F, x))


@helper
def _add_quadratic6(N, n_at, n_stride, G0, G1, F0, F1, scale, columns, H, offset, stride, row):
    """`_add_quadratic3` for six rows N and the forms of SE(3)."""
    for b in range(columns):
        x = load_column6(N, n_at + b, n_stride)
        u = (scale * x[0], scale * x[1], scale * x[2])
        w = (scale * x[3], scale * x[4], scale * x[5])
        y = add_symmetric(ZERO3, G0, w)
        z = add_symmetric(add_symmetric(ZERO3, G0, u), G1, w)
        y = (scale * y[0], scale * y[1], scale * y[2])
        z = (scale * z[0], scale * z[1], scale * z[2])
        for a in range(b + 1):
            s = dot3(load_column3(N, n_at + a, n_stride), y)
            s = s + dot3(load_column3(N, n_at + a + 3 * n_stride, n_stride), z)
            add_entry(H, offset + b * stride + a, s)
            if a < b:
                add_entry(H, offset + a * stride + b, s)
        t, r = rotate(F0, u), rotate(F1, w)
        _add_pairs3(H, offset, stride, row, b, rotate(F0, w))
        _add_pairs3(H, offset, stride, row + 3, b, (t[0] + r[0], t[1] + r[1], t[2] + r[2]))


@helper
def _add_block3(H, offset, stride, row, column, G, F, scale):
    """H[column, column] += scale^2 G, H[row, column] += scale F and its transpose: three rows, three columns."""
    square = scale * scale
    for c, g in enumerate(((G[0], G[1], G[2]), (G[1], G[3], G[4]), (G[2], G[4], G[5]))):
        for r in range(3):
            add_entry(H, offset + (column + r) * stride + column + c, square * g[r])
    for c, f in enumerate(((F[0], F[3], F[6]), (F[1], F[4], F[7]), (F[2], F[5], F[8]))):
        _add_pairs3(H, offset, stride, row, column + c, (scale * f[0], scale * f[1], scale * f[2]))


@helper
def _add_block6(H, offset, stride, row, column, G0, G1, F0, F1, scale):
    """`_add_block3` with [[0, G0], [G0, G1]] and [[0, F0], [F0, F1]]."""
    none = so3.diagonal(0.0 * G0[0])
    _add_block3(H, offset, stride, row + 3, column + 3, G1, F1, scale)
    _add_block3(H, offset, stride, row + 3, column, none, F0, scale)
    _add_block3(H, offset, stride, row, column + 3, none, F0, scale)
    square = scale * scale
    for c, g in enumerate(((G0[0], G0[1], G0[2]), (G0[1], G0[3], G0[4]), (G0[2], G0[4], G0[5]))):
        for r in range(3):
            _add_pair(H, offset, stride, column + r, column + 3 + c, square * g[r])


# ------------------------------------------------------------------------------------------------ integrators
@shared_kernel
def add_geometry(m, maps, xi, k, scale, N, n_offset, n_stride, columns, H, offset, stride):
    """H += geo(xi, k, eta), eta = scale N z: N (nv rows, `columns` columns), H (columns, columns).

    z starts with delta: the first nv columns are those of dq.
    """
    align_stack(xi)
    for i in range(len(m.joint_type)):
        kind, iv = m.joint_type[i], m.v_index[i]
        at = n_offset + iv * n_stride
        if kind == FREE_FLYER:
            G0, G1, F0, F1 = _forms_se3(maps, i, load6(xi, iv), load6(k, iv), True)
            _add_quadratic6(N, at, n_stride, G0, G1, F0, F1, scale, columns, H, offset, stride, iv)
        elif kind == SPHERICAL:
            G, F = _forms_so3(maps, i, load3(xi, iv), load3(k, iv), True)
            _add_quadratic3(N, at, n_stride, G, F, scale, columns, H, offset, stride, iv)
        elif kind == PLANAR:
            G, F = _forms_se2(maps, i, load3(xi, iv), load3(k, iv), True)
            _add_quadratic3(N, at, n_stride, G, F, scale, columns, H, offset, stride, iv)


@shared_kernel
def semi_implicit_geometry(m, maps, xi, h, lam_q, fz, fz_offset, fz_stride, columns, H, offset, stride):
    """H += f_z'E f_z of semi-implicit Euler, v+ = v + h a, q+ = q (+) xi, xi = h v+; fz has 2 nv rows (dq+, dv+).

    With V the rows dv+ and dq+ = A delta + h Jr V:  f_z'E f_z = geo(xi, lam_q, h V), because C is antisymmetric.
    """
    velocity_rows = fz_offset + len(m.dof_parent) * fz_stride
    add_geometry(m, maps, xi, lam_q, h, fz, velocity_rows, fz_stride, columns, H, offset, stride)


@shared_kernel
def add_velocity_geometry(m, maps, xi, k, scale, column, H, offset, stride):
    """H += geo(xi, k, eta), eta = scale nu, nu being the part of z that starts at `column` (nv for z = (delta, nu))."""
    align_stack(xi)
    for i in range(len(m.joint_type)):
        kind, iv = m.joint_type[i], m.v_index[i]
        if kind == FREE_FLYER:
            G0, G1, F0, F1 = _forms_se3(maps, i, load6(xi, iv), load6(k, iv), True)
            _add_block6(H, offset, stride, iv, column + iv, G0, G1, F0, F1, scale)
        elif kind == SPHERICAL:
            G, F = _forms_so3(maps, i, load3(xi, iv), load3(k, iv), True)
            _add_block3(H, offset, stride, iv, column + iv, G, F, scale)
        elif kind == PLANAR:
            G, F = _forms_se2(maps, i, load3(xi, iv), load3(k, iv), True)
            _add_block3(H, offset, stride, iv, column + iv, G, F, scale)


@shared_kernel
def add_output_geometry(m, maps, xi, h, lam_q, E, offset, stride):
    """E += the curvature of semi-implicit Euler on its outputs (dq+, dv+), 2 nv of them, xi = h v+:

    E = [[0, h/2 C Jr], [h/2 (C Jr)', h^2 Gam]], to be added to Vxx' before f_z'Vxx' f_z.  Equivalent to
    `semi_implicit_geometry`, at no cost in the sweep.
    """
    align_stack(xi)
    for i in range(len(m.joint_type)):
        kind, iv, column = m.joint_type[i], m.v_index[i], len(m.dof_parent) + m.v_index[i]
        if kind == FREE_FLYER:
            G0, G1, F0, F1 = _forms_se3(maps, i, load6(xi, iv), load6(lam_q, iv), False)
            _add_block6(E, offset, stride, iv, column, G0, G1, F0, F1, h)
        elif kind == SPHERICAL:
            G, F = _forms_so3(maps, i, load3(xi, iv), load3(lam_q, iv), False)
            _add_block3(E, offset, stride, iv, column, G, F, h)
        elif kind == PLANAR:
            G, F = _forms_se2(maps, i, load3(xi, iv), load3(lam_q, iv), False)
            _add_block3(E, offset, stride, iv, column, G, F, h)


# ------------------------------------------------------------------------------------------------ residuals
@shared_kernel
def add_log_hessian(m, maps, r, mu, scale, H, offset, stride):
    """H += scale times the Hessian of mu'r in the tangent of q,  r = log(q_ref^-1 q):  -Ji'Gam(r, Ji'mu) Ji.

    `maps` holds Ji = Jr(r)^-1, the Jacobian of r (`tangent_maps_inverse`); H (nv, nv).
    """
    align_stack(r)
    for i in range(len(m.joint_type)):
        kind, iv, at = m.joint_type[i], m.v_index[i], map_at(i, JACOBIAN_INVERSE)
        if kind == FREE_FLYER:
            x, X, Y = load6(r, iv), load9(maps, at), load9(maps, at + 9)
            c = stumpff(dot3(se3.angular(x), se3.angular(x)))
            G0, G1 = se3.gamma(x, se3.apply_transposed(X, Y, load6(mu, iv)), c)
            G0, G1 = se3.congruence(X, Y, G0, G1)
            _subtract3(H, offset, stride, iv + 3, iv + 3, G1, scale)
            _subtract3(H, offset, stride, iv + 3, iv, G0, scale)
            _subtract3(H, offset, stride, iv, iv + 3, G0, scale)
        elif kind == SPHERICAL:
            phi, X = load3(r, iv), load9(maps, at)
            G = so3.gamma(phi, rotate_back(X, load3(mu, iv)), stumpff(dot3(phi, phi)))
            _subtract3(H, offset, stride, iv, iv, so3.congruence(X, G), scale)
        elif kind == PLANAR:
            y, M = load3(r, iv), load4(maps, at)
            G = se2.gamma(y, se2.apply_transposed(M, load3(mu, iv)), stumpff(y[2] * y[2]))
            _subtract3(H, offset, stride, iv, iv, so3.congruence(se2.full(M), G), scale)


@helper
def _subtract3(H, offset, stride, row, column, G, scale):
    """H[row, column] -= scale G, three rows and columns."""
    for c, g in enumerate(((G[0], G[1], G[2]), (G[1], G[3], G[4]), (G[2], G[4], G[5]))):
        for k in range(3):
            at = offset + (row + k) * stride + column + c
            store(H, at, fma(-scale, g[k], load(H, at)))
