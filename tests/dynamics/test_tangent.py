"""Tangent maps, integrator geometry and log residuals over all joints, on a chain with every joint type."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm

from dynamics.algorithms.configuration import difference, integrate, random_configuration
from dynamics.simd import LANES, aligned_zeros
from dynamics.spatial import tangent
from dynamics.spatial import tangent as tangent_brackets
from dynamics.spatial import tangent as tangent_geometry
from dynamics.spatial.tangent import ADJOINT, JACOBIAN, JACOBIAN_INVERSE
from tests.reference.mixed_joints import (
    HEADING,
    MAPS,
    MODEL,
    NV,
    ROTATIONS,
    A,
    Ji,
    Jr,
    M,
    N,
    dense,
    derivative,
    error,
    maps_at,
    random_tangent,
    skew,
)


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
