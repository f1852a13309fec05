"""Dense linear equations in float64: elimination with row pivoting, vectorised along the rows.

Matrices are C-contiguous.  Columns are eliminated in panels of LANES; the update of the columns right of a panel is a
product, which is summed in registers, four rows by two vectors at a time.
"""

from dynamics.simd.compilation import helper, kernel
from dynamics.simd.functions import absolute, fma, fnma, select_less
from dynamics.simd.rows import entry, load_part, matrix, set_entry, store_part
from dynamics.simd.vector import LANES, lane


# ------------------------------------------------------------------------------------------------ scaling
@helper
def _largest(x):
    """Largest lane of a vector."""
    result = lane(x, 0)
    for k in range(1, LANES):
        result = max(result, lane(x, k))
    return result


@kernel
def equilibrate(A, d):
    """Equilibrate a matrix with a symmetric pattern in place, A_ij <- d_i A_ij d_j; stores d (n,).

    Three sweeps of d_i <- d_i / sqrt(max_j |A_ij|).                                                     [Ruiz 2001]
    """
    n = d.size
    m, scales = matrix(A, 0, n), matrix(d, 0, n)
    d[:] = 1.0
    for _ in range(3):
        for i in range(n):
            sizes = absolute(load_part(m, i, 0, n) * load_part(scales, 0, 0, n))
            for j in range(LANES, n, LANES):
                x = absolute(load_part(m, i, j, n - j) * load_part(scales, 0, j, n - j))
                sizes = select_less(sizes, x, x, sizes)
            largest = _largest(sizes) * d[i]
            if largest > 0.0:
                d[i] /= largest**0.5
    for i in range(n):
        for j in range(0, n, LANES):
            x = load_part(m, i, j, n - j) * load_part(scales, 0, j, n - j)
            store_part(m, i, j, n - j, d[i] * x)


# ------------------------------------------------------------------------------------------------ rows and products
@helper
def _exchange(X, i, k, columns):
    """Exchange rows i and k of X."""
    for j in range(0, columns, LANES):
        x, y = load_part(X, i, j, columns - j), load_part(X, k, j, columns - j)
        store_part(X, i, j, columns - j, y)
        store_part(X, k, j, columns - j, x)


@helper
def _subtract_row(X, i, factor, k, first, last):
    """X[i] -= factor X[k] in columns first ... last - 1."""
    for j in range(first, last, LANES):
        x = fnma(factor, load_part(X, k, j, last - j), load_part(X, i, j, last - j))
        store_part(X, i, j, last - j, x)


@helper
def _subtract_tile(A, i, begin, end, X, j, width):
    """`subtract_product` for four rows from i on and two vectors from column j on, `width` numbers of them."""
    rest = width - LANES
    a, b = load_part(X, i, j, width), load_part(X, i, j + LANES, rest)
    c, d = load_part(X, i + 1, j, width), load_part(X, i + 1, j + LANES, rest)
    e, f = load_part(X, i + 2, j, width), load_part(X, i + 2, j + LANES, rest)
    g, h = load_part(X, i + 3, j, width), load_part(X, i + 3, j + LANES, rest)
    for k in range(begin, end):
        x, y = load_part(X, k, j, width), load_part(X, k, j + LANES, rest)
        p, q, r, s = entry(A, i, k), entry(A, i + 1, k), entry(A, i + 2, k), entry(A, i + 3, k)
        a, b, c, d = fnma(p, x, a), fnma(p, y, b), fnma(q, x, c), fnma(q, y, d)
        e, f, g, h = fnma(r, x, e), fnma(r, y, f), fnma(s, x, g), fnma(s, y, h)
    store_part(X, i, j, width, a)
    store_part(X, i, j + LANES, rest, b)
    store_part(X, i + 1, j, width, c)
    store_part(X, i + 1, j + LANES, rest, d)
    store_part(X, i + 2, j, width, e)
    store_part(X, i + 2, j + LANES, rest, f)
    store_part(X, i + 3, j, width, g)
    store_part(X, i + 3, j + LANES, rest, h)


@kernel
def _subtract_product(A, top, bottom, begin, end, X, first, last):
    """X[i] -= sum of A[i, k] X[k], k = begin ... end - 1, for i = top ... bottom - 1, in columns first ... last - 1;
    no row is among the k."""
    whole = top + (bottom - top) // 4 * 4
    for i in range(top, whole, 4):
        for j in range(first, last, 2 * LANES):
            _subtract_tile(A, i, begin, end, X, j, last - j)
    for i in range(whole, bottom):
        for j in range(first, last, LANES):
            x = load_part(X, i, j, last - j)
            for k in range(begin, end):
                x = fnma(entry(A, i, k), load_part(X, k, j, last - j), x)
            store_part(X, i, j, last - j, x)


# ------------------------------------------------------------------------------------------------ elimination
@kernel
def _factorize_panel(A, n, first, last, pivots):
    """Eliminate columns first ... last - 1, exchanging whole rows; False if a pivot is zero or NaN."""
    for k in range(first, last):
        pivot, largest = k, abs(entry(A, k, k))
        for i in range(k + 1, n):
            if abs(entry(A, i, k)) > largest:
                pivot, largest = i, abs(entry(A, i, k))
        pivots[k] = pivot
        if not largest > 0.0:
            return False
        if pivot != k:
            _exchange(A, k, pivot, n)
        over = entry(A, k, k)
        for i in range(k + 1, n):
            factor = entry(A, i, k) / over
            set_entry(A, i, k, factor)
            _subtract_row(A, i, factor, k, k + 1, last)
    return True


@kernel
def factorize_dense(A, pivots):
    """P A = L U in place of A (n, n), the rows exchanged in `pivots` (n,); False if A is singular or not finite."""
    n = pivots.size
    m = matrix(A, 0, n)
    for k in range(n):
        pivots[k] = k  # pivots stay valid indices after a False
    for first in range(0, n, LANES):
        last = min(first + LANES, n)
        if not _factorize_panel(m, n, first, last, pivots):
            return False
        for i in range(first + 1, last):
            _subtract_product(m, i, i + 1, first, i, m, last, n)
        _subtract_product(m, last, n, first, last, m, last, n)
    return True


@helper
def _row_product(A, i, first, last, x):
    """Sum of A[i, k] x[k], k = first ... last - 1."""
    total = load_part(x, 0, 0, 0)
    for k in range(first, last, LANES):
        total = fma(load_part(A, i, k, last - k), load_part(x, 0, k, last - k), total)
    result = lane(total, 0)
    for k in range(1, LANES):
        result += lane(total, k)
    return result


@kernel
def _solve_vector(A, n, x):
    """`solve_dense` for one right-hand side, after the exchanges."""
    for i in range(n):
        set_entry(x, 0, i, entry(x, 0, i) - _row_product(A, i, 0, i, x))
    for i in range(n - 1, -1, -1):
        set_entry(x, 0, i, (entry(x, 0, i) - _row_product(A, i, i + 1, n, x)) / entry(A, i, i))


@kernel
def solve_dense(A, pivots, X):
    """X <- A^-1 X for the columns of X (n, .), after `factorize_dense`."""
    n, columns = X.shape
    m, x = matrix(A, 0, n), matrix(X, 0, columns)
    for k in range(n):
        if pivots[k] != k:
            _exchange(x, k, pivots[k], columns)
    if columns == 1:
        _solve_vector(m, n, matrix(X, 0, n))
        return
    for first in range(0, n, 4):
        last = min(first + 4, n)
        _subtract_product(m, first, last, 0, first, x, 0, columns)
        for i in range(first + 1, last):
            _subtract_product(m, i, i + 1, first, i, x, 0, columns)
    for last in range(n, 0, -4):
        first = max(last - 4, 0)
        _subtract_product(m, first, last, last, n, x, 0, columns)
        for i in range(last - 1, first - 1, -1):
            _subtract_product(m, i, i + 1, i + 1, last, x, 0, columns)
            over = 1.0 / entry(m, i, i)
            for j in range(0, columns, LANES):
                store_part(x, i, j, columns - j, over * load_part(x, i, j, columns - j))
