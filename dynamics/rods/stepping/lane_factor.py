"""Dense linear equations in the lanes, by elimination without pivoting.

For matrices whose symmetric part is positive definite, as M + h/2 r_v + h^2/4 r_q of a damped elastic robot is for any
step that follows its motion: their elimination breaks down nowhere [Golub and Van Loan 2013, section 4.3].
"""

from dynamics.lane_algebra import four_columns, load_columns, scale_columns, store_columns, subtract_scaled
from dynamics.simd import align_stack, fnma, kernel, load, shared_kernel, store


@shared_kernel
def factorize_lanes(n, A):
    """A = L U in place, row-major: U with reciprocal diagonal, L below it with unit diagonal."""
    align_stack(A)
    for k in range(n):
        d = 1.0 / load(A, k * n + k)
        store(A, k * n + k, d)
        for i in range(k + 1, n):
            factor = load(A, i * n + k) * d
            store(A, i * n + k, factor)
            for j in range(k + 1, n):
                store(A, i * n + j, fnma(factor, load(A, k * n + j), load(A, i * n + j)))


@shared_kernel
def solve_lanes(n, LU, X, columns):
    """X <- A^-1 X for X (n columns), row-major, by the factors."""
    align_stack(X)
    for c in range(0, columns, 4):
        four = four_columns(c, columns)
        for i in range(1, n):
            x = load_columns(X, X, i * columns, four)
            for j in range(i):
                x = subtract_scaled(x, load(LU, i * n + j), load_columns(X, X, j * columns, four))
            store_columns(X, X, i * columns, four, x)
        for i in range(n - 1, -1, -1):
            x = load_columns(X, X, i * columns, four)
            for j in range(i + 1, n):
                x = subtract_scaled(x, load(LU, i * n + j), load_columns(X, X, j * columns, four))
            store_columns(X, X, i * columns, four, scale_columns(x, load(LU, i * n + i)))


@kernel
def solve_transposed(n, LU, x):
    """x <- A'^-1 x for x (n), by the factors of A."""
    align_stack(x)
    for i in range(n):
        total = load(x, i)
        for j in range(i):
            total = fnma(load(LU, j * n + i), load(x, j), total)
        store(x, i, total * load(LU, i * n + i))
    for i in range(n - 2, -1, -1):
        total = load(x, i)
        for j in range(i + 1, n):
            total = fnma(load(LU, j * n + i), load(x, j), total)
        store(x, i, total)
