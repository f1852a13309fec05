"""Dense linear equations in plain numbers: elimination with row pivoting, all right-hand sides along the rows."""

from dynamics.simd.compilation import kernel


@kernel
def equilibrate(A, d):
    """Scale a matrix with a symmetric pattern, A_ij <- d_i A_ij d_j, until its rows are alike; d (n,) is found.

    Three sweeps of d_i <- d_i / sqrt(max_j |A_ij|).                                                     [Ruiz 2001]
    """
    n = d.size
    d[:] = 1.0
    for _ in range(3):
        for i in range(n):
            largest = 0.0
            for j in range(n):
                largest = max(largest, abs(A[i, j]) * d[j])
            largest *= d[i]
            if largest > 0.0:
                d[i] /= largest**0.5
    for i in range(n):
        for j in range(n):
            A[i, j] *= d[i] * d[j]


@kernel
def factorize_dense(A, pivots):
    """P A = L U in place of A (n, n), the rows exchanged in `pivots` (n,); False if A is singular or not finite."""
    n = pivots.size
    for k in range(n):
        pivots[k] = k  # so that nothing goes astray after a False
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[pivot, k]):
                pivot = i
        pivots[k] = pivot
        if not abs(A[pivot, k]) > 0.0:
            return False
        if pivot != k:
            for j in range(n):
                A[k, j], A[pivot, j] = A[pivot, j], A[k, j]
        for i in range(k + 1, n):
            factor = A[i, k] / A[k, k]
            A[i, k] = factor
            if factor != 0.0:
                for j in range(k + 1, n):
                    A[i, j] -= factor * A[k, j]
    return True


@kernel
def solve_dense(A, pivots, X):
    """X <- A^-1 X for the columns of X (n, .), after `factorize_dense`."""
    n, columns = X.shape
    for k in range(n):
        pivot = pivots[k]
        if pivot != k:
            for c in range(columns):
                X[k, c], X[pivot, c] = X[pivot, c], X[k, c]
    for i in range(n):
        for k in range(i):
            factor = A[i, k]
            if factor != 0.0:
                for c in range(columns):
                    X[i, c] -= factor * X[k, c]
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            factor = A[i, k]
            if factor != 0.0:
                for c in range(columns):
                    X[i, c] -= factor * X[k, c]
        for c in range(columns):
            X[i, c] /= A[i, i]
