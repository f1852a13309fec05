"""The SIMD sweep against a numpy reference that solves with Quu + mu I and follows Tassa's formulas to the letter."""

import numpy as np
import pytest

from trajopt.backward.sweep_simd import sweep

SMALL = [(2, 1), (4, 1), (4, 6), (6, 3), (8, 1), (8, 8), (10, 2), (12, 6), (14, 7)]
SIZES = [*SMALL, (18, 9), (36, 12), (36, 18), (46, 23)]
CONSTANT = [(4, 6), (12, 6), (14, 7)]
STEP = 0.02


def expansion(ndx, nu, N, h=0.0, seed=0):
    """Random expansion with a positive definite cost; of semi-implicit form if h > 0."""
    rng = np.random.default_rng([seed, ndx, nu, N])
    n = ndx // 2
    fx, fu = rng.normal(size=(N, ndx, ndx)) / np.sqrt(ndx), rng.normal(size=(N, ndx, nu))
    if h > 0.0:
        fx[:, n:] = h * fx[:, n:] + np.eye(n, ndx, n)
        fx[:, :n] = np.eye(n, ndx) + h * fx[:, n:]
        fu[:, :n] = h * fu[:, n:]
    half = rng.normal(size=(N + 1, ndx + nu, ndx + nu))
    cost = half @ half.transpose(0, 2, 1) / (ndx + nu) + 0.1 * np.eye(ndx + nu)
    lxx, lux, luu = cost[:, :ndx, :ndx].copy(), cost[:N, ndx:, :ndx].copy(), cost[:N, ndx:, ndx:].copy()
    return [fx, fu, rng.normal(size=(N + 1, ndx)), rng.normal(size=(N, nu)), lxx, lux, luu]


def reference(fx, fu, lx, lu, lxx, lux, luu, mu):
    """k, K, Vx, Vxx, d1, d2 [Tassa 2012, eq. 5, 10, 11]."""
    k, K, Vx, Vxx, d1, d2 = np.empty_like(lu), np.empty_like(lux), lx.copy(), lxx.copy(), 0.0, 0.0
    for t in range(len(fu) - 1, -1, -1):
        A, B, V = fx[t], fu[t], Vxx[t + 1]
        Qx, Qu = lx[t] + A.T @ Vx[t + 1], lu[t] + B.T @ Vx[t + 1]
        Qxx, Qux, Quu = lxx[t] + A.T @ V @ A, lux[t] + B.T @ V @ A, luu[t] + B.T @ V @ B
        solution = np.linalg.solve(Quu + mu * np.eye(len(Quu)), np.column_stack([Qu, Qux]))
        k[t], K[t] = -solution[:, 0], -solution[:, 1:]
        Vx[t] = Qx + K[t].T @ Quu @ k[t] + K[t].T @ Qu + Qux.T @ k[t]
        value = Qxx + K[t].T @ Quu @ K[t] + K[t].T @ Qux + Qux.T @ K[t]
        Vxx[t] = 0.5 * (value + value.T)
        d1, d2 = d1 + k[t] @ Qu, d2 + k[t] @ Quu @ k[t]
    return k, K, Vx, Vxx, d1, d2


def assert_agree(result, expected, tolerance=1e-11):
    """Block by block and knot by knot, relative to the largest entry of the block."""
    for got, want in zip(result[:4], expected[:4], strict=True):
        for a, b in zip(got, want, strict=True):
            assert np.abs(a - b).max() <= tolerance * np.abs(b).max()
    np.testing.assert_allclose(result[4:6], expected[4:6], rtol=tolerance)


@pytest.mark.processor
@pytest.mark.parametrize("mu", [0.0, 0.5, 1e4])
@pytest.mark.parametrize("h", [0.0, STEP], ids=["dense", "structured"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_agrees_with_reference(size, h, mu):
    arrays = expansion(*size, 25, h)
    result = sweep(*arrays, mu, h, constant_sizes=False)
    assert result.ok and result.failed_knot == -1
    assert_agree(result, reference(*arrays, mu))


@pytest.mark.parametrize("h", [0.0, STEP], ids=["dense", "structured"])
@pytest.mark.parametrize("size", CONSTANT, ids=str)
def test_constant_sizes_agree_with_reference(size, h):
    for mu in (0.0, 0.5):
        arrays = expansion(*size, 25, h)
        assert_agree(sweep(*arrays, mu, h, constant_sizes=True), reference(*arrays, mu))


@pytest.mark.parametrize("h", [0.0, STEP], ids=["dense", "structured"])
def test_structured_form_is_read_from_the_lower_halves_only(h):
    arrays = expansion(12, 6, 8, STEP)
    expected = sweep(*arrays, 0.0, 0.0)
    if h > 0.0:
        arrays[0][:, :6], arrays[1][:, :6] = np.nan, np.nan
    assert_agree(sweep(*arrays, 0.0, h), expected)


@pytest.mark.parametrize("mu", [0.0, 0.3])
@pytest.mark.parametrize("size", [(12, 6), (18, 9)], ids=str)
def test_exactly_symmetric_and_repeatable(size, mu):
    arrays = expansion(*size, 40, STEP)
    first, second = sweep(*arrays, mu, STEP), sweep(*[a.copy() for a in arrays], mu, STEP)
    np.testing.assert_array_equal(first.Vxx, first.Vxx.transpose(0, 2, 1))
    for a, b in zip(first, second, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_one_knot():
    arrays = expansion(12, 6, 1, STEP)
    assert_agree(sweep(*arrays, 0.1, STEP), reference(*arrays, 0.1))


def broken(what, knot):
    arrays = expansion(12, 6, 10, STEP)
    lxx, luu = arrays[4], arrays[6]
    if what == "indefinite":
        luu[knot] -= 1e3 * np.eye(6)
    elif what == "nan":
        luu[knot, 2, 2] = np.nan
    elif what == "infinite":
        luu[knot, 5, 5] = np.inf
    elif what == "singular":  # two controls that do the same, at no cost
        arrays[1][knot], arrays[5][knot], luu[knot] = arrays[1][knot][:, :1], 0.0, 0.0
    else:
        lxx[knot + 1, 0, 0] = np.nan
    return arrays


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("what", ["indefinite", "nan", "infinite", "singular", "value nan"])
def test_failure_is_reported_and_finite(what, constant):
    result = sweep(*broken(what, 4), 0.0, STEP, constant_sizes=constant)
    assert not result.ok and result.failed_knot == 4
    assert all(np.isfinite(a).all() for a in result[:6])


def test_nan_at_the_first_knot_is_noticed():
    arrays = expansion(12, 6, 10, STEP)
    arrays[4][0, 3, 7] = np.nan
    result = sweep(*arrays, 0.0, STEP)
    assert not result.ok and result.failed_knot == 0
    assert not np.any(result.Vxx)


def test_regularization_rescues_an_indefinite_problem():
    arrays = broken("indefinite", 4)
    result = sweep(*arrays, 2e3, STEP)
    assert result.ok
    assert_agree(result, reference(*arrays, 2e3), 1e-10)


def test_wrong_shapes_and_layouts():
    arrays = expansion(12, 6, 5)
    expected = sweep(*arrays, 0.0)
    fortran = [np.asfortranarray(a) for a in arrays]
    np.testing.assert_array_equal(sweep(*fortran, 0.0).K, expected.K)
    arrays[6] = arrays[6][:-1]
    with pytest.raises(ValueError, match="shapes"):
        sweep(*arrays, 0.0)
