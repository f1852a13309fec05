"""The box QP of one knot against all active sets, against least squares with bounds, and its optimality conditions."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from trajopt.backward.backward_pass import box_qp


def solve(H, g, lower, upper, guess=None):
    """x, clamped, ok."""
    m = len(g)
    x = np.zeros(m) if guess is None else np.array(guess, float)
    clamped = np.zeros(m, dtype=np.bool_)
    ok = box_qp(np.array(H, float), np.array(g, float), lower, upper, x, clamped, np.empty((m, m)), np.empty((4, m)))
    return x, clamped, bool(ok)


def objective(H, g, x):
    return g @ x + 0.5 * x @ H @ x


def best_of_all_active_sets(H, g, lower, upper):
    """The minimum by trying every number at its lower limit, at its upper one, and free."""
    best, value = None, np.inf
    for choice in product((-1, 0, 1), repeat=len(g)):
        at = np.array(choice)
        x = np.where(at < 0, lower, np.where(at > 0, upper, 0.0))
        if not np.isfinite(x).all():
            continue
        free = at == 0
        if free.any():
            x[free] = np.linalg.solve(H[np.ix_(free, free)], -(g + H @ x)[free])
        if (x >= lower - 1e-12).all() and (x <= upper + 1e-12).all() and objective(H, g, x) < value:
            best, value = x, objective(H, g, x)
    return best


def random_program(rng, m, condition=1e3):
    """Eigenvalues from 1 to `condition`; some limits infinite, some equal, some gradients zero."""
    Q, _ = np.linalg.qr(rng.standard_normal((m, m)))
    H = Q @ np.diag(condition ** rng.uniform(0.0, 1.0, m)) @ Q.T
    g = 10.0 ** rng.uniform(-1, 3) * rng.standard_normal(m)
    g[rng.random(m) < 0.2] = 0.0
    lower, upper = -rng.uniform(0.0, 1.0, m), rng.uniform(0.0, 1.0, m)
    lower[rng.random(m) < 0.2], upper[rng.random(m) < 0.2] = -np.inf, np.inf
    equal = rng.random(m) < 0.1
    centre = rng.uniform(-1.0, 1.0, m)
    return 0.5 * (H + H.T), g, np.where(equal, centre, lower), np.where(equal, centre, upper)


def assert_optimal(H, g, lower, upper, x, clamped, tolerance=1e-9):
    """Within the box; free numbers without gradient, clamped ones on a limit that the gradient pushes against."""
    r, scale = g + H @ x, np.abs(g).max() + np.abs(H).max() * (np.abs(x).max() + 1e-5)  # a guess leaves rounding
    assert (lower <= x).all() and (x <= upper).all()
    assert (np.abs(r[~clamped]) <= tolerance * scale).all()
    at_lower, at_upper = x == lower, x == upper
    assert (at_lower | at_upper)[clamped].all()
    assert (r[clamped & ~at_upper] >= -tolerance * scale).all() and (r[clamped & ~at_lower] <= tolerance * scale).all()


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 5))
@settings(max_examples=150, deadline=None)
def test_against_all_active_sets(seed, m):
    H, g, lower, upper = random_program(np.random.default_rng(seed), m)
    x, clamped, ok = solve(H, g, lower, upper)
    assert ok
    expected = best_of_all_active_sets(H, g, lower, upper)
    np.testing.assert_allclose(x, expected, rtol=0, atol=1e-9 * max(1.0, np.abs(expected).max()))
    assert_optimal(H, g, lower, upper, x, clamped)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 8))
@settings(max_examples=150, deadline=None)
def test_against_least_squares_with_bounds(seed, m):
    """g'x + 1/2 x'LL'x = 1/2 |L'x + L^-1 g|^2 + constant, which scipy solves by another active-set method (BVLS)."""
    H, g, lower, upper = random_program(np.random.default_rng(seed), m)
    upper = np.where(upper > lower, upper, lower + 1e-3)  # it wants lower < upper
    x, clamped, ok = solve(H, g, lower, upper)
    assert ok
    L = np.linalg.cholesky(H)
    oracle = lsq_linear(L.T, -np.linalg.solve(L, g), (lower, upper), method="bvls", tol=1e-14, max_iter=200)
    assert oracle.success
    np.testing.assert_allclose(x, oracle.x, rtol=0, atol=1e-8 * max(1.0, np.abs(oracle.x).max()))
    assert_optimal(H, g, lower, upper, x, clamped)


@given(seed=st.integers(0, 2**32 - 1), m=st.integers(1, 8))
@settings(max_examples=100, deadline=None)
def test_the_first_guess_does_not_matter(seed, m):
    rng = np.random.default_rng(seed)
    H, g, lower, upper = random_program(rng, m)
    x, _, _ = solve(H, g, lower, upper)
    guessed, clamped, ok = solve(H, g, lower, upper, 3.0 * rng.standard_normal(m))
    assert ok
    np.testing.assert_allclose(guessed, x, rtol=0, atol=1e-9 * max(1.0, np.abs(x).max()))
    assert_optimal(H, g, lower, upper, guessed, clamped)


def test_without_limits_it_is_a_linear_solve(rng):
    H, g, _, _ = random_program(rng, 6)
    x, clamped, ok = solve(H, g, np.full(6, -np.inf), np.full(6, np.inf))
    assert ok and not clamped.any()
    np.testing.assert_allclose(x, np.linalg.solve(H, -g), rtol=1e-11)


def test_one_number():
    one, lower, upper = np.eye(1), np.array([-1.0]), np.array([2.0])
    for g, x, held in ((5.0, -1.0, True), (0.5, -0.5, False), (-1.5, 1.5, False), (-7.0, 2.0, True)):
        got, clamped, ok = solve(one, [g], lower, upper)
        assert ok and got[0] == x and clamped[0] == held


def test_a_limit_reached_without_pressure_does_not_clamp():
    """The minimum lies exactly on the limit: the gradient is zero there, and nothing is held."""
    x, clamped, ok = solve(np.eye(2), [-1.0, 0.25], np.full(2, -1.0), np.full(2, 1.0))
    assert ok and not clamped.any()
    np.testing.assert_array_equal(x, [1.0, -0.25])


def test_zero_gradient_stays():
    x, clamped, ok = solve(np.eye(3), np.zeros(3), np.full(3, -1.0), np.ones(3))
    assert ok and not x.any() and not clamped.any()


def test_a_corner_may_have_to_be_left_again():
    """Coupled: the projected Newton point clamps both numbers, the solution only the second one."""
    H, g = np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([-1.0, -2.0])
    newton = np.linalg.solve(H, -g)
    assert newton[0] < -1.0 and newton[1] > 1.0
    x, clamped, ok = solve(H, g, np.full(2, -1.0), np.ones(2))
    assert ok and clamped.tolist() == [False, True]
    np.testing.assert_allclose(x, [0.1, 1.0], atol=1e-15)


@pytest.mark.parametrize(
    "H", [-np.eye(2), np.diag([1.0, 0.0]), np.array([[1.0, 2.0], [2.0, 1.0]]), np.diag([1.0, np.nan])], ids=str
)
def test_an_indefinite_free_block_is_reported(H):
    _, _, ok = solve(H, [0.1, 0.1], np.full(2, -np.inf), np.full(2, np.inf))
    assert not ok


def test_only_the_free_block_must_be_positive_definite():
    """The first number is held by its limit, whatever its curvature."""
    x, clamped, ok = solve(np.diag([-1.0, 2.0]), [5.0, -1.0], np.array([0.0, -1.0]), np.ones(2))
    assert ok and clamped.tolist() == [True, False]
    np.testing.assert_allclose(x, [0.0, 0.5])


@pytest.mark.parametrize("condition", [1e4, 1e8])
def test_ill_conditioned_programs(condition, rng):
    """Nearly singular: the minimum without limits lies far outside the box, and the way there is not along it."""
    for _ in range(2000):
        m = int(rng.integers(2, 9))
        H, g, lower, upper = random_program(rng, m, condition)
        x, clamped, ok = solve(H, g, lower, upper)
        assert ok
        assert_optimal(H, g, lower, upper, x, clamped, 1e-7)


@pytest.mark.parametrize(
    ("H", "g", "lower", "upper"),
    [
        ([[16.0, 4.0], [4.0, 1.0009765625]], [-6.1, -1.56], [-0.97, -0.26], [0.91, 0.21]),
        ([[4.0, 2.0], [2.0, 1.0001220703125]], [49.44, 25.07], [-1.0, -0.02], [0.9, 0.42]),
        ([[400.0, 20.0], [20.0, 1.00048828125]], [-33.52, -1.83], [-0.18, -0.11], [0.69, 0.26]),
    ],
)
def test_nearly_parallel_controls(H, g, lower, upper):
    """Two controls that do nearly the same: the Newton step from the start leaves the box almost sideways."""
    H, g, lower, upper = map(np.array, (H, g, lower, upper))
    x, clamped, ok = solve(H, g, lower, upper)
    assert ok
    np.testing.assert_allclose(x, best_of_all_active_sets(H, g, lower, upper), atol=1e-10)
    assert_optimal(H, g, lower, upper, x, clamped)
