"""Second-order terms of moving on groups, against differences of exact gradients and by slopes."""

import numpy as np

from dynamics.algorithms.configuration import difference, integrate, neutral, random_configuration
from dynamics.spatial import tangent as tangent_brackets
from dynamics.spatial import tangent as tangent_geometry
from tests.reference.mixed_joints import (
    MODEL,
    A,
    Ji,
    Jr,
    M,
    N,
    ad,
    ad_reference,
    derivative,
    error,
    geometry,
    maps_at,
    model_slopes,
    random_tangent,
)


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
