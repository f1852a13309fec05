"""Dense linear equations in compiled code: against numpy, and what comes of singular matrices."""

import numpy as np
import pytest
from numba.core.errors import TypingError

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


@pytest.mark.parametrize("columns", [1, 3, 21])
@pytest.mark.parametrize("n", [1, 2, 9, 16, 37])
def test_solution(n, columns, rng):
    A, X = rng.standard_normal((n, n)), rng.standard_normal((n, columns))
    expected, pivots = np.linalg.solve(A, X), np.empty(n, np.int64)
    assert _solve(A.copy(), pivots, X)
    assert relative_error(X, expected) <= 1e3 * IDENTITY


def test_factors(rng):
    """P A = L U, no factor larger than one; numbers beside the matrix stay as they are."""
    n, memory = 19, np.full(21 * 19, 7.0)
    A, pivots = memory[19 : 20 * 19].reshape(n, n), np.empty(n, np.int64)
    A[:] = rng.standard_normal((n, n))
    exchanged = A.copy()
    assert _solve(A, pivots, np.ones((n, 1)))
    for k in range(n):
        exchanged[[k, pivots[k]]] = exchanged[[pivots[k], k]]
    L, U = np.tril(A, -1) + np.eye(n), np.triu(A)
    assert relative_error(L @ U, exchanged) <= 10.0 * IDENTITY and np.abs(L).max() == 1.0
    assert (memory[:19] == 7.0).all() and (memory[20 * 19 :] == 7.0).all()


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


def test_three_sweeps(rng):
    """Rows longer than two vectors, whose sizes are far apart."""
    sizes = 10.0 ** rng.uniform(-3.0, 3.0, 21)
    A = rng.uniform(-1.0, 1.0, (21, 21)) * sizes[:, None] * sizes
    B, d, expected = A.copy(), np.empty(21), np.ones(21)
    for _ in range(3):
        for i in range(21):
            expected[i] /= np.sqrt(expected[i] * np.max(np.abs(A[i]) * expected))
    _scales(B, d)
    assert relative_error(d, expected) <= IDENTITY
    assert relative_error(B, d[:, None] * A * d) <= IDENTITY


def test_other_numbers_are_refused():
    """Complex ones would be read as twice as many floats."""
    with pytest.raises(TypingError):
        _solve(np.eye(2) + 0j, np.empty(2, np.int64), np.ones((2, 1)))
