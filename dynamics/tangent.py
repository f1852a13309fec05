"""The tangent of a robot's configuration: groups applied joint by joint, to vectors and to rows of matrices.

A configuration lives on a product of groups: SO(3), SE(3) and SE(2) where the joint is spherical, free-flying or
planar, R elsewhere.  The maps A(xi) = Ad_exp(-xi), Jr(xi), Jr(xi)^-1 of `dynamics.groups` are therefore block diagonal
over the joints, the identity on ordinary ones; no nv x nv matrix is ever formed to apply one.

Every kernel takes the model's arrays `m` and workspaces, (n,) for one knot or (n, LANES) for LANES knots.  Matrices are
row-major inside a workspace: entry (r, c) is number offset + r stride + c.  `maps` has nb * TANGENT_SLOTS numbers:
per body three slots, A, Jr and Jr^-1, selected by ADJOINT, JACOBIAN, JACOBIAN_INVERSE.
"""

from dynamics.groups import se2, se3, so3
from dynamics.groups.stumpff import stumpff
from dynamics.joints import FREE_FLYER, PLANAR, SPHERICAL
from dynamics.simd import align_stack, fma, helper, kernel, load, shared_kernel, splat, store
from dynamics.spatial import dot3, load3, load6, load9, rotate, rotate_back, store3, store6, store9

ADJOINT, JACOBIAN, JACOBIAN_INVERSE = 0, 1, 2
SLOT = 18
TANGENT_SLOTS = 3 * SLOT
"""Numbers per body in a `maps` workspace.  A map is [X Y] (SE(3), 18 numbers), X (SO(3), 9) or (a b y) (SE(2), 4)."""


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
    """Where a map of body i starts in `maps`."""
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
    """A(xi) and Jr(xi) of every joint that has them; xi (nv)."""
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
    """Jr(xi)^-1, the Jacobian of log, of every joint that has one; singular only at a full turn."""
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
