"""Second-order geometry of configurations: what the groups add to the Hessians of integrators and residuals.

Along q+ = q (+) xi(z), with xi -> xi + eta for the step z = (delta, nu, w), a covector k sees      [BCH, second order]

    k'dq+ = k'(A delta + Jr eta) + 1/2 { (Jr'k)'d2xi + eta'Gam(xi, k) eta + (A delta)'C(k) Jr eta }

The kernels below add the last two terms, `geo(xi, k, eta)`, for eta = scale N z (any rows N) or eta = scale nu (columns
of z).  As a matrix in z:  N'Gam N + T + T',  T = 1/2 (A P_q)'C(k) Jr N,  where P_q selects delta, the first columns.
Ordinary joints add nothing and cost nothing.  Layouts as in `dynamics.tangent`; Hessians are symmetric, both triangles
stored, and are added to.  `maps` must hold A(xi) and Jr(xi) (`tangent_maps`).
"""

from dynamics.groups import se2, se3, so3
from dynamics.groups.stumpff import stumpff
from dynamics.joints import FREE_FLYER, PLANAR, SPHERICAL
from dynamics.simd import align_stack, fma, helper, load, shared_kernel, store
from dynamics.spatial import add_symmetric, dot3, load3, load6, load9, multiply, rotate, rotate_back
from dynamics.tangent import ADJOINT, JACOBIAN, JACOBIAN_INVERSE, load4, load_column3, load_column6, map_at

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
    """The same on SE(3): Gam = [[0, G0], [G0, G1]], F = [[0, F0], [F0, F1]]."""
    at, jr = map_at(i, ADJOINT), map_at(i, JACOBIAN)
    F0, F1 = se3.bracket_matrix(k, load9(maps, jr), load9(maps, jr + 9))
    F0, F1 = so3.scale9(F0, 0.5), so3.scale9(F1, 0.5)
    if inputs:
        F0, F1 = se3.transposed_product(load9(maps, at), load9(maps, at + 9), F0, F1)
    G0, G1 = se3.gamma(xi, k, stumpff(dot3(se3.angular(xi), se3.angular(xi))))
    return G0, G1, F0, F1


# ------------------------------------------------------------------------------------------------ adding to Hessians
@helper
def _add_entry(H, i, x):
    store(H, i, load(H, i) + x)


@helper
def _add_pair(H, offset, stride, r, c, x):
    """H[r, c] += x, H[c, r] += x; a diagonal entry gets both."""
    _add_entry(H, offset + r * stride + c, x)
    _add_entry(H, offset + c * stride + r, x)


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
        _add_entry(H, offset + b * (stride + 1), dot3(load_column3(N, n_at + b, n_stride), y))
        _add_pairs3(H, offset, stride, row, b, rotate(F, x))


@helper
def _add_quadratic6(N, n_at, n_stride, G0, G1, F0, F1, scale, columns, H, offset, stride, row):
    """The same for six rows N and the forms of SE(3)."""
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
            _add_entry(H, offset + b * stride + a, s)
            if a < b:
                _add_entry(H, offset + a * stride + b, s)
        t, r = rotate(F0, u), rotate(F1, w)
        _add_pairs3(H, offset, stride, row, b, rotate(F0, w))
        _add_pairs3(H, offset, stride, row + 3, b, (t[0] + r[0], t[1] + r[1], t[2] + r[2]))


@helper
def _add_block3(H, offset, stride, row, column, G, F, scale):
    """H[column, column] += scale^2 G, H[row, column] += scale F and its transpose: three rows, three columns."""
    square = scale * scale
    for c, g in enumerate(((G[0], G[1], G[2]), (G[1], G[3], G[4]), (G[2], G[4], G[5]))):
        for r in range(3):
            _add_entry(H, offset + (column + r) * stride + column + c, square * g[r])
    for c, f in enumerate(((F[0], F[3], F[6]), (F[1], F[4], F[7]), (F[2], F[5], F[8]))):
        _add_pairs3(H, offset, stride, row, column + c, (scale * f[0], scale * f[1], scale * f[2]))


@helper
def _add_block6(H, offset, stride, row, column, G0, G1, F0, F1, scale):
    """The same with [[0, G0], [G0, G1]] and [[0, F0], [F0, F1]]."""
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
