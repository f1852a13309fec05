"""Dense linear equations in compiled code: against numpy, and what comes of singular matrices."""

import numpy as np
import pytest

from dynamics.simd import equilibrate, factorize_dense, routine, solve_dense
from tests.tolerances import IDENTITY, relative_error


@routine
def _solve(A, pivots, X):
    regular = factorize_dense(A, pivots)
    solve_dense(A, pivots, X)
    return regular


@routine
def _scales(A, d):
    equilibrate(A, d)


@pytest.mark.parametrize("n", [1, 2, 9])
def test_solution(n, rng):
    A, X = rng.standard_normal((n, n)), rng.standard_normal((n, 3))
    expected, pivots = np.linalg.solve(A, X), np.empty(n, np.int64)
    assert _solve(A.copy(), pivots, X)
    assert relative_error(X, expected) <= 1e3 * IDENTITY


def test_a_singular_matrix_leaves_pivots_in_range(rng):
    """A caller that goes on after a failure finds numbers that are not finite, and harms nothing."""
    A = np.outer(np.arange(1.0, 6.0), np.ones(5))
    pivots, X = np.full(5, 10**9), rng.standard_normal((5, 2))
    assert not _solve(A, pivots, X)
    assert ((pivots >= 0) & (pivots < 5)).all() and not np.isfinite(X).all()


def test_equilibrium_of_rows_and_columns(rng):
    """D A D has diagonals of size one where A has any."""
    A = np.diag([1e-8, 4.0, 1e6]) + 1e-9
    B, d = A.copy(), np.empty(3)
    _scales(B, d)
    assert relative_error(B, d[:, None] * A * d) <= IDENTITY
    np.testing.assert_allclose(np.abs(B).max(axis=1), 1.0, rtol=0.5)
