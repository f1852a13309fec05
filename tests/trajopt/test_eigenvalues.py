"""Eigenvalues of small symmetric matrices, against LAPACK and what they are for."""

import numpy as np
import pytest

from trajopt.backward.expansions import Expansion, convexified
from trajopt.eigenvalues import EPS, decompose
from trajopt.optimality.certificate import inertia_of

SIZES = (1, 2, 3, 4, 6, 13, 40)


def eigen(A):
    """Eigenvalues of A (n, n), and eigenvectors in rows."""
    n = len(A)
    values, V, e, p = np.empty(n), np.empty((n, n)), np.empty(n), np.empty(n)
    decompose(np.array(A), n, values, V, e, p)
    return values, V


def symmetric(rng, n):
    B = rng.standard_normal((n, n))
    return B + B.T


def with_eigenvalues(rng, values):
    Q = np.linalg.qr(rng.standard_normal((len(values), len(values))))[0]
    A = (Q * values) @ Q.T
    return 0.5 * (A + A.T)


def graded(rng, n):
    """Entries of very different sizes, some so small that their squares underflow."""
    scales = 10.0 ** rng.uniform(-155.0, 0.0, n)
    return scales[:, None] * symmetric(rng, n) * scales


MATRICES = {
    "random": symmetric,
    "tiny": lambda rng, n: 1e-305 * symmetric(rng, n),
    "huge": lambda rng, n: 1e306 * symmetric(rng, n),
    "denormal": lambda rng, n: np.full((n, n), 5e-324),
    "graded": graded,
    "rank one": lambda rng, n: np.outer(*[rng.standard_normal(n)] * 2),
    "degenerate": lambda rng, n: with_eigenvalues(rng, rng.integers(-1, 2, n).astype(float)),
    "clustered": lambda rng, n: with_eigenvalues(rng, 1.0 + 1e-14 * rng.standard_normal(n)),
    "tridiagonal": lambda rng, n: np.diag(2.0 * np.ones(n)) - np.eye(n, k=1) - np.eye(n, k=-1),
    "diagonal": lambda rng, n: np.diag(rng.standard_normal(n)),
    "zero": lambda rng, n: np.zeros((n, n)),
}


@pytest.mark.parametrize("kind", MATRICES)
@pytest.mark.parametrize("n", SIZES)
def test_eigenvalues_and_eigenvectors(kind, n, rng):
    for _ in range(5):
        A = MATRICES[kind](rng, n)
        size = max(np.abs(A).max(), np.finfo(float).tiny)
        B = A / size
        values, V = eigen(A)
        tolerance = 10.0 * EPS * n
        assert (np.diff(values) >= 0.0).all()
        if kind != "denormal":  # of which LAPACK has no digit
            assert np.abs(values / size - np.linalg.eigvalsh(B)).max() <= tolerance
        assert np.abs((V.T * (values / size)) @ V - B).max() <= tolerance
        assert np.abs(V @ V.T - np.eye(n)).max() <= tolerance


def test_diagonal_matrices_exactly(rng):
    d = rng.standard_normal(7)
    values, V = eigen(np.diag(d))
    assert np.array_equal(values, np.sort(d)) and np.array_equal(np.abs(V), np.eye(7)[np.argsort(d)])


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite(wrong, rng):
    A = symmetric(rng, 4)
    A[1, 2] = A[2, 1] = wrong
    for found in eigen(A):
        assert np.isnan(found).all()


def expansion(rng, N, n, m, bend):
    """Of stable dynamics, with Hessians that are indefinite where bend > 0."""

    def hessians(count, size):
        return np.stack([with_eigenvalues(rng, rng.uniform(0.1, 2.0, size) - bend) for _ in range(count)])

    H = hessians(N + 1, n + m)
    fx, fu = np.eye(n) + 0.1 * rng.standard_normal((N, n, n)), 0.3 * rng.standard_normal((N, n, m))
    lx, lu = np.zeros((N + 1, n)), np.zeros((N, m))
    return Expansion(fx, fu, lx, lu, H[:, :n, :n].copy(), H[:N, n:, :n].copy(), H[:N, n:, n:].copy())


def hessian_of(e, t):
    return np.block([[e.lxx[t], e.lux[t].T], [e.lux[t], e.luu[t]]])


@pytest.mark.parametrize("bend", [0.0, 0.5, 3.0])
def test_positive_parts(bend, rng):
    """Of the states at the last knot alone; what is positive stays to the last bit."""
    e = expansion(rng, 6, 3, 2, bend)
    found = convexified(e)
    for t in range(7):
        before, after = (hessian_of(x, t) if t < 6 else x.lxx[t] for x in (e, found))
        values, V = np.linalg.eigh(before)
        wanted = (V * np.maximum(values, 1e-8 * np.abs(values).max())) @ V.T
        assert np.abs(after - wanted).max() < 1e-13
        assert np.array_equal(after, before) or values[0] < 1e-7
    assert np.array_equal(found.lxx, found.lxx.swapaxes(1, 2)) and np.array_equal(found.luu, found.luu.swapaxes(1, 2))
    e.luu[2, 0, 0] = np.nan
    assert np.isnan(convexified(e).luu[2, 0, 0])


@pytest.mark.parametrize("shift", [0.0, 0.4, -50.0])
def test_inertia_of_dense_hessians(shift, rng):
    """That of the Hessian in all controls, states following."""
    N, n, m = 7, 4, 3
    e = expansion(rng, N, n, m, 0.6)
    metric = rng.uniform(0.5, 2.0, (N, m))
    metric[3] = 0.0
    X = np.zeros((N + 1, n, N * m))
    U = np.eye(N * m).reshape(N, m, N * m)
    for t in range(N):
        X[t + 1] = e.fx[t] @ X[t] + e.fu[t] @ U[t]
    H = X[N].T @ e.lxx[N] @ X[N] - shift * np.diag(metric.ravel())
    for t in range(N):
        z = np.concatenate([X[t], U[t]])
        H += z.T @ hessian_of(e, t) @ z
    found = inertia_of(e, metric, shift)
    eigenvalues = np.linalg.eigvalsh(H)
    assert found.negative == (eigenvalues < 0.0).sum() and found.zero == 0
    assert (found.knot >= 0) == (found.negative > 0)
    singular = inertia_of(e._replace(fu=0.0 * e.fu, luu=0.0 * e.luu), metric, 0.0)
    assert (singular.negative, singular.zero, singular.knot) == (0, N * m, -1)
