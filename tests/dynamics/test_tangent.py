"""Tangent maps, integrator geometry and log residuals over all joints, on a chain with every joint type."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag, expm

from dynamics import tangent, tangent_brackets, tangent_geometry
from dynamics.algorithms.configuration import difference, integrate, neutral, random_configuration
from dynamics.builder import ModelBuilder
from dynamics.joints import FreeFlyer, Planar, Prismatic, Revolute, Spherical, Translation
from dynamics.simd import LANES, aligned_zeros
from dynamics.tangent import ADJOINT, JACOBIAN, JACOBIAN_INVERSE, TANGENT_SLOTS

JOINTS = (FreeFlyer(), Revolute("x"), Spherical(), Planar(), Translation(), Prismatic("y"))
ROTATIONS = [slice(3, 6), slice(7, 10)]  # in v: free flyer, spherical
HEADING = 12


def make_model():
    builder = ModelBuilder()
    for k, joint in enumerate(JOINTS):
        parent = "world" if k == 0 else f"body {k}"
        limits = {"lower": -0.5, "upper": 2.0} if joint.nv == 1 else {}
        builder.add_body(f"body {k + 1}", parent, joint, mass=1.0, inertia=np.eye(3), **limits)
    return builder.build()


MODEL = make_model()
M, N, NV = MODEL.arrays, MODEL.nv, MODEL.nv
MAPS = MODEL.nb * TANGENT_SLOTS


# ------------------------------------------------------------------------------------------------ one knot, in numpy
def maps_at(xi, inverse=False):
    maps = np.zeros(MAPS)
    (tangent.tangent_maps_inverse if inverse else tangent.tangent_maps)(M, np.ascontiguousarray(xi), maps)
    return maps


def dense(maps, which):
    X = np.zeros(N * N)
    tangent.add_map(M, maps, which, 1.0, X, 0, N)
    return X.reshape(N, N)


def A(xi):
    return dense(maps_at(xi), ADJOINT)


def Jr(xi):
    return dense(maps_at(xi), JACOBIAN)


def Ji(xi):
    return dense(maps_at(xi, inverse=True), JACOBIAN_INVERSE)


def ad(v):
    Y = np.zeros(N * N)
    tangent_brackets.add_bracket_matrix(M, v, 1.0, Y, 0, N)
    return Y.reshape(N, N)


def skew(x):
    return np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])


def ad_reference(v):
    w, zero = skew(v[3:6]), np.zeros((3, 3))
    planar = np.array([[0, -v[12], v[11]], [v[12], 0, -v[10]], [0, 0, 0]])
    blocks = {FreeFlyer: np.block([[w, skew(v[:3])], [zero, w]]), Spherical: skew(v[7:10]), Planar: planar}
    return block_diag(*(blocks.get(type(joint), np.zeros((joint.nv, joint.nv))) for joint in MODEL.joints))


def random_tangent(rng, rotation=2.0):
    xi = rng.standard_normal(NV)
    for part in ROTATIONS:
        xi[part] *= rotation / np.linalg.norm(xi[part])
    return xi


def geometry(xi, k, scale, rows):
    H = np.zeros(rows.shape[1] ** 2)
    n = rows.shape[1]
    tangent_geometry.add_geometry(M, maps_at(xi), xi, k, scale, np.ascontiguousarray(rows).ravel(), 0, n, n, H, 0, n)
    return H.reshape(n, n)


def derivative(f, n, step=0.08, levels=5):
    """Jacobian of f(z) at z = 0, Richardson extrapolation of central differences."""
    columns = []
    for e in np.eye(n):
        table = [(f(h * e) - f(-h * e)) / (2 * h) for h in step * 0.5 ** np.arange(levels)]
        for order in range(1, levels):
            table = [(4**order * b - a) / (4**order - 1) for a, b in pairwise(table)]
        columns.append(table[0])
    return np.stack(columns, axis=-1)


def error(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


def model_slopes(f, first, second, rng, directions=4):
    """Order at which f(h d) - (first h d + 1/2 h^2 d'second d) vanishes, along random directions; f(0) = 0."""
    h = 0.08 * 0.5 ** np.arange(4)
    slopes = []
    for d in rng.standard_normal((directions, len(second))):
        d /= np.linalg.norm(d)
        gap = [abs(f(s * d) - s * first @ d - 0.5 * s * s * d @ second @ d) for s in h]
        slopes.append(np.polyfit(np.log(h), np.log(gap), 1)[0])
    return np.median(slopes)


# ------------------------------------------------------------------------------------------------ configurations
def angles(limit):
    return st.lists(st.floats(-limit, limit), min_size=3, max_size=3).map(np.array)


@settings(deadline=None, max_examples=100)
@given(angles(1.8), angles(1.8), st.floats(-6.2, 6.2), st.integers(0, 2**32 - 1))
def test_difference_undoes_integrate(turn, spin, heading, seed):
    rng = np.random.default_rng(seed)
    q, dq = random_configuration(MODEL, rng), rng.uniform(-2, 2, NV)
    dq[ROTATIONS[0]], dq[ROTATIONS[1]], dq[HEADING] = turn, spin, heading  # |turn| < pi: 1.8 sqrt(3) = 3.12
    moved = integrate(MODEL, q, dq)
    for _, at in MODEL.quaternion_slots:
        assert abs(np.linalg.norm(moved[at : at + 4]) - 1.0) < 1e-15
    np.testing.assert_allclose(difference(MODEL, q, moved), dq, rtol=0, atol=2e-13)


def test_integrate_undoes_difference():
    rng = np.random.default_rng(1)
    q0, q1 = (np.array([random_configuration(MODEL, rng) for _ in range(21)]) for _ in range(2))
    back = integrate(MODEL, q0, difference(MODEL, q0, q1))
    for _, at in MODEL.quaternion_slots:
        part = slice(at, at + 4)
        sign = np.sign((back[:, part] * q1[:, part]).sum(axis=1, keepdims=True))
        back[:, part] *= sign  # a quaternion and its negative are the same rotation
    np.testing.assert_allclose(back, q1, rtol=0, atol=1e-13)


def test_free_flyer_moves_as_homogeneous_matrices_do():
    def pose(q):
        x, y, z, w = q[3:7]
        T, U = np.eye(4), skew((x, y, z))
        T[:3, :3], T[:3, 3] = np.eye(3) + 2 * w * U + 2 * U @ U, q[:3]
        return T

    rng = np.random.default_rng(2)
    q, dq = random_configuration(MODEL, rng), random_tangent(rng)
    twist = np.zeros((4, 4))
    twist[:3, :3], twist[:3, 3] = skew(dq[3:6]), dq[:3]
    assert np.abs(pose(integrate(MODEL, q, dq)) - pose(q) @ expm(twist)).max() < 1e-14


def test_one_point_and_batches():
    rng = np.random.default_rng(3)
    q, dq = np.array([random_configuration(MODEL, rng) for _ in range(LANES + 3)]), rng.standard_normal((LANES + 3, NV))
    moved = integrate(MODEL, q, dq)
    for k in range(len(q)):
        np.testing.assert_array_equal(integrate(MODEL, q[k], dq[k]), moved[k])
        np.testing.assert_array_equal(difference(MODEL, q[k], moved[k]), difference(MODEL, q, moved)[k])
    np.testing.assert_array_equal(integrate(MODEL, q[0], dq)[4], integrate(MODEL, q[0], dq[4]))
    np.testing.assert_array_equal(difference(MODEL, q[0], q)[4], difference(MODEL, q[0], q[4]))
    np.testing.assert_array_equal(difference(MODEL, q, q[1:2])[4], difference(MODEL, q[4], q[1]))
    assert difference(MODEL, q[:0], q[:0]).shape == (0, NV)


def test_bad_configurations_are_named():
    q = neutral(MODEL)
    with pytest.raises(ValueError, match="q1"):
        difference(MODEL, q, q[:-1])
    with pytest.raises(ValueError, match="dq"):
        integrate(MODEL, q, np.full(NV, np.nan))
    with pytest.raises(ValueError, match="unit quaternion"):
        difference(MODEL, 0 * q, q)
    with pytest.raises(ValueError, match="2 points and q1 has 3"):
        difference(MODEL, np.tile(q, (2, 1)), np.tile(q, (3, 1)))


def test_random_configurations_respect_limits_and_cover_rotations():
    rng = np.random.default_rng(4)
    q = np.array([random_configuration(MODEL, rng) for _ in range(2000)])
    bounded = np.isfinite(MODEL.lower_position)
    assert bounded.sum() == 2
    assert (q[:, bounded] >= -0.5).all() and (q[:, bounded] <= 2.0).all() and np.ptp(q[:, bounded]) > 2.4
    for _, at in MODEL.quaternion_slots:
        u = q[:, at : at + 4]
        np.testing.assert_allclose(np.linalg.norm(u, axis=1), 1.0, atol=1e-15)
        assert np.abs(u.T @ u / len(u) - np.eye(4) / 4).max() < 0.03, "uniform: E[u u'] = 1/4"
    assert np.abs(q[:, :3]).max() <= 1.0
    once, again = (random_configuration(MODEL, np.random.default_rng(5)) for _ in range(2))
    np.testing.assert_array_equal(once, again)


# ------------------------------------------------------------------------------------------------ maps
def test_maps_are_derivatives_of_the_moved_configuration():
    rng = np.random.default_rng(6)
    q, xi = random_configuration(MODEL, rng), random_tangent(rng)
    moved = integrate(MODEL, q, xi)
    by_start = derivative(lambda d: difference(MODEL, moved, integrate(MODEL, integrate(MODEL, q, d), xi)), NV)
    by_step = derivative(lambda d: difference(MODEL, moved, integrate(MODEL, q, xi + d)), NV)
    assert error(A(xi), by_start) < 1e-11
    assert error(Jr(xi), by_step) < 1e-11
    by_end = derivative(lambda d: difference(MODEL, q, integrate(MODEL, moved, d)), NV)
    assert error(Ji(xi), by_end) < 1e-11
    assert error(Ji(xi) @ Jr(xi), np.eye(N)) < 1e-13


def test_map_kernels_equal_dense_products():
    rng = np.random.default_rng(7)
    xi, X, Y, y = random_tangent(rng), rng.standard_normal((N, 7)), rng.standard_normal((N, 5)), rng.standard_normal(N)
    maps = maps_at(xi) + maps_at(xi, inverse=True)
    for which in (ADJOINT, JACOBIAN, JACOBIAN_INVERSE):
        T = dense(maps, which)
        for scale in (1.0, -0.3):
            flat = np.r_[9.0, X.ravel()]
            tangent.apply_map_rows(M, maps, which, scale, flat, 1, 7, 4)  # the first four of seven columns
            expected = np.hstack([scale * T @ X[:, :4], X[:, 4:]])
            np.testing.assert_allclose(flat[1:].reshape(N, 7), expected, rtol=0, atol=3e-15)
            total = np.r_[9.0, 9.0, Y.ravel()]
            tangent.add_mapped_rows(M, maps, which, scale, flat, 4, 7, total, 2, 5, 4)
            expected = np.hstack([Y[:, :4] + scale * T @ flat[1:].reshape(N, 7)[:, 3:], Y[:, 4:]])
            np.testing.assert_allclose(total[2:].reshape(N, 5), expected, rtol=0, atol=2e-14)
        out = y.copy()
        tangent.apply_map_transposed(M, maps, which, out, out)
        np.testing.assert_allclose(out, T.T @ y, rtol=0, atol=1e-14)


def lanes_of(knots):
    """Knots (LANES, n) as a lane workspace (n, LANES)."""
    ws = aligned_zeros(knots.shape[1], LANES)
    ws[:] = knots.T
    return ws


def all_kernels(q, xi, k, rows, new):
    """Everything the kernels compute from one set of workspaces, in one vector workspace each."""
    maps, moved, back, y = new(MAPS), new(MODEL.nq), new(N), new(N)
    H, E, L, B = new(4 * N * N), new(4 * N * N), new(N * N), new(4 * N * N)
    tangent.integrate_configuration(M, q, xi, moved)
    tangent.difference_configuration(M, q, moved, back)
    tangent.tangent_maps(M, xi, maps)
    tangent.tangent_maps_inverse(M, xi, maps)
    tangent.apply_map_transposed(M, maps, JACOBIAN, k, y)
    tangent_geometry.semi_implicit_geometry(M, maps, xi, 0.5, k, rows, 0, 2 * N, 2 * N, H, 0, 2 * N)
    tangent_geometry.add_output_geometry(M, maps, xi, 0.5, k, E, 0, 2 * N)
    tangent_geometry.add_log_hessian(M, maps, xi, k, 1.0, L, 0, N)
    tangent_brackets.add_bracket_hessian(M, k, 1.0, N, rows, 0, 2 * N, 2 * N, B, 0, 2 * N)
    tangent.apply_map_rows(M, maps, ADJOINT, 0.5, rows, 0, 2 * N, 2 * N)
    return maps, moved, back, y, H, E, L, B, rows


def test_lanes_equal_floats():
    rng = np.random.default_rng(8)
    q = np.array([random_configuration(MODEL, rng) for _ in range(LANES)])
    xi = np.array([random_tangent(rng) for _ in range(LANES)])
    k, rows = rng.standard_normal((LANES, N)), rng.standard_normal((LANES, 4 * N * N))
    in_lanes = all_kernels(*map(lanes_of, (q, xi, k, rows)), lambda n: aligned_zeros(n, LANES))
    for lane in range(LANES):
        alone = all_kernels(q[lane].copy(), xi[lane].copy(), k[lane].copy(), rows[lane].copy(), np.zeros)
        for vector, number in zip(in_lanes, alone, strict=True):
            assert np.abs(vector[:, lane] - number).max() <= 4e-16 * np.abs(number).max()


# ------------------------------------------------------------------------------------------------ second order
def exact_gradient(xi, k, delta, eta):
    """Gradient in (delta, eta) of k'r,  r = log(exp(-xi) exp(delta) exp(xi + eta))."""
    q = neutral(MODEL)
    moved = integrate(MODEL, integrate(MODEL, q, delta), xi + eta)
    weight = Ji(difference(MODEL, integrate(MODEL, q, xi), moved)).T @ k
    return np.r_[Jr(delta).T @ A(xi + eta).T @ weight, Jr(xi + eta).T @ weight]


def test_geometry_equals_differences_of_exact_gradients():
    rng = np.random.default_rng(9)
    xi, k = random_tangent(rng, 1.5), rng.standard_normal(N)
    exact = derivative(lambda z: exact_gradient(xi, k, z[:N], z[N:]), 2 * N)
    rows = np.hstack([np.zeros((N, N)), np.eye(N)])
    assert error(geometry(xi, k, 1.0, rows), exact) < 1e-11
    direct = np.zeros(4 * N * N)
    tangent_geometry.add_velocity_geometry(M, maps_at(xi), xi, k, 0.4, N, direct, 0, 2 * N)
    assert error(direct.reshape(2 * N, -1), geometry(xi, k, 0.4, rows)) < 1e-14
    rows = rng.standard_normal((N, 2 * N))
    change = np.block([[np.eye(N), np.zeros((N, N))], [0.7 * rows]])
    assert error(geometry(xi, k, 0.7, rows), change.T @ exact @ change) < 1e-11


def free_particle(rng, h):
    """v+ = v + h (a + u), q+ = q (+) h v+, with its linear model f_z in z = (delta, nu, w)."""
    q, v, a = random_configuration(MODEL, rng), random_tangent(rng, 1.2), rng.standard_normal(N)
    v_next = v + h * a
    V = np.hstack([np.zeros((N, N)), np.eye(N), h * np.eye(N)])
    P = np.hstack([np.eye(N), np.zeros((N, 2 * N))])
    fz = np.vstack([A(h * v_next) @ P + h * Jr(h * v_next) @ V, V])
    nominal = integrate(MODEL, q, h * v_next)

    def step(z):
        moved = v_next + V @ z
        return np.r_[difference(MODEL, nominal, integrate(MODEL, integrate(MODEL, q, z[:N]), h * moved)), V @ z]

    return step, fz, h * v_next


def test_semi_implicit_euler_is_second_order_exact():
    """A large step, since what Gam does shrinks with its square; without the geometry the order is two."""
    rng = np.random.default_rng(10)
    h = 0.5
    step, fz, xi = free_particle(rng, h)
    lam = np.r_[rng.standard_normal(N), np.zeros(N)]
    H = np.zeros(9 * N * N)
    flat = np.ascontiguousarray(fz).ravel()
    tangent_geometry.semi_implicit_geometry(M, maps_at(xi), xi, h, lam[:N], flat, 0, 3 * N, 3 * N, H, 0, 3 * N)
    H = H.reshape(3 * N, 3 * N)
    np.testing.assert_array_equal(H, H.T)

    def seen(z):
        return lam @ step(z)

    assert abs(model_slopes(seen, lam @ fz, H, rng) - 3.0) < 0.1
    assert abs(model_slopes(seen, lam @ fz, 0 * H, rng) - 2.0) < 0.1

    E = np.zeros(4 * N * N)
    tangent_geometry.add_output_geometry(M, maps_at(xi), xi, h, lam[:N], E, 0, 2 * N)
    assert error(fz.T @ E.reshape(2 * N, -1) @ fz, H) < 1e-13, "folded into the Hessian of the outputs"


def runge_kutta(rng, h):
    """The fourth-order method on the group for the acceleration a = B v + w, linear: its curvature is all geometry."""
    q, v, w = random_configuration(MODEL, rng), random_tangent(rng, 1.0), rng.standard_normal(N)
    B = rng.standard_normal((N, N)) / np.sqrt(N)

    def stages(v, w):
        a1 = B @ v + w
        a2 = B @ (v + h / 2 * a1) + w
        a3 = B @ (v + h / 2 * a2) + w
        return a1, a2, a3

    def omega(v, w):
        a1, a2, a3 = stages(v, w)
        O = h * v + h**2 / 6 * (a1 + a2 + a3)
        tangent_brackets.add_bracket_rows(M, v, h**3 / 12, a3, 0, 1, O, 0, 1, 1)
        return O

    return q, v, w, stages, omega


def test_brackets_of_runge_kutta_are_second_order_exact():
    """q+ = q (+) O with O = h v + h^2/6 (a1 + a2 + a3) + h^3/12 [v, a3] and its first and second order."""
    rng = np.random.default_rng(11)
    h, zero = 0.5, np.zeros((N, N))
    q, v, w, stages, omega = runge_kutta(rng, h)
    lam, xi, (_, _, a3) = rng.standard_normal(N), omega(v, w), stages(v, w)
    nu, control = np.hstack([zero, np.eye(N), zero]), np.hstack([zero, zero, np.eye(N)])
    da1, da2, da3 = stages(nu, control)
    eta = np.ascontiguousarray(h * nu + h**2 / 6 * (da1 + da2 + da3)).ravel()
    tangent_brackets.add_bracket_rows(M, v, h**3 / 12, da3.ravel(), 0, 3 * N, eta, 0, 3 * N, 3 * N)
    tangent_brackets.add_bracket_matrix(M, a3, -(h**3) / 12, eta, N, 3 * N)  # [nu, a3] = -[a3, nu]
    eta = eta.reshape(N, 3 * N)
    first = lam @ (A(xi) @ np.hstack([np.eye(N), zero, zero]) + Jr(xi) @ eta)
    H = geometry(xi, lam, 1.0, eta).ravel()
    lO = Jr(xi).T @ lam
    tangent_brackets.add_bracket_hessian(M, lO, h**3 / 12, N, da3.ravel(), 0, 3 * N, 3 * N, H, 0, 3 * N)
    nominal = integrate(MODEL, q, xi)

    def seen(z):
        O = omega(v + z[N : 2 * N], w + z[2 * N :])
        return lam @ difference(MODEL, nominal, integrate(MODEL, integrate(MODEL, q, z[:N]), O))

    assert abs(model_slopes(seen, first, H.reshape(3 * N, -1), rng) - 3.0) < 0.1
    assert abs(model_slopes(seen, first, geometry(xi, lam, 1.0, eta), rng) - 2.0) < 0.1, "the brackets matter"


def test_bracket_kernels_equal_dense_products():
    rng = np.random.default_rng(12)
    v, k, X, Y = *rng.standard_normal((2, N)), *rng.standard_normal((2, N, 4))
    np.testing.assert_array_equal(ad(v), ad_reference(v))
    out = Y.copy().ravel()
    tangent_brackets.add_bracket_rows(M, v, -0.3, X.ravel(), 1, 4, out, 0, 4, 3)
    np.testing.assert_allclose(out.reshape(N, 4)[:, :3], Y[:, :3] - 0.3 * ad(v) @ X[:, 1:], rtol=0, atol=3e-15)
    np.testing.assert_array_equal(out.reshape(N, 4)[:, 3], Y[:, 3])
    out = Y[:, 0].copy()
    tangent_brackets.add_bracket_transposed(M, v, 0.7, k, out)
    np.testing.assert_allclose(out, Y[:, 0] + 0.7 * ad(v).T @ k, rtol=0, atol=3e-15)


def test_log_residual_hessian_equals_differences_of_exact_gradients():
    rng = np.random.default_rng(13)
    r, mu = random_tangent(rng, 1.5), rng.standard_normal(N)
    q = integrate(MODEL, neutral(MODEL), r)

    def gradient(d):  # of mu' log(q_ref^-1 q exp(d)), in the chart d
        return Jr(d).T @ Ji(difference(MODEL, neutral(MODEL), integrate(MODEL, q, d))).T @ mu

    H = np.zeros(N * N)
    tangent_geometry.add_log_hessian(M, maps_at(r, inverse=True), r, mu, -2.0, H, 0, N)
    assert error(H.reshape(N, N), -2.0 * derivative(gradient, N)) < 1e-11


def test_ordinary_joints_have_no_geometry():
    rng = np.random.default_rng(14)
    xi, k = rng.standard_normal((2, N))
    ordinary = np.ones(N, bool)
    ordinary[[*range(6), *range(7, 13)]] = False
    H = geometry(xi, k, 1.0, np.hstack([np.zeros((N, N)), np.eye(N)])).reshape(2, N, 2, N)
    assert np.abs(H).max() > 0.1
    assert not H[:, ordinary].any() and not H[:, :, :, ordinary].any()
    for T in (A(xi), Jr(xi), Ji(xi)):
        np.testing.assert_array_equal(T[ordinary], np.eye(N)[ordinary])
