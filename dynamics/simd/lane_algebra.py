"""Vectors and small row-major matrices in the lanes.  Products compute four sums at a time."""

from dynamics.simd import align_stack, fma, fnma, helper, kernel, load, shared_kernel, splat, store


@helper
def combine(n, target, x, s, y):
    """target = x + s y"""
    for i in range(n):
        store(target, i, fma(s, load(y, i), load(x, i)))


@helper
def scale_into(n, target, s, x):
    """target = s x"""
    for i in range(n):
        store(target, i, s * load(x, i))


@helper
def add_scaled(n, target, s, x):
    """target += s x"""
    for i in range(n):
        store(target, i, fma(s, load(x, i), load(target, i)))


@helper
def add_entry(X, o, x):
    """X[o] += x"""
    store(X, o, load(X, o) + x)


@helper
def store_pair(H, size, i, j, x):
    """H[i, j] = H[j, i] = x of a row-major block (size size)."""
    store(H, i * size + j, x)
    store(H, j * size + i, x)


@helper
def _sum_of_products(n, scale, sign, A, a, step, B, b, columns, C, c):
    """scale C[c] + sign sum_k A[a + k step] B[b + k columns]"""
    x = scale * load(C, c)
    for k in range(n):
        x = fma(sign * load(A, a + k * step), load(B, b + k * columns), x)
    return x


@helper
def add_product(upper, n, rows, columns, scale, sign, A, row, step, B, C):
    """C (rows columns) <- scale C + sign A B, B (n columns); A's entry (i, k) is its number i row + k step, so that
    (n, 1) reads A (rows n) and (1, rows) the transpose of an (n rows) block.  With `upper`, groups of four columns that
    lie left of the diagonal are left out."""
    for i in range(rows):
        j = i // 4 * 4 if upper else 0
        while j + 4 <= columns:
            o = i * columns + j
            x0, x1 = scale * load(C, o), scale * load(C, o + 1)
            x2, x3 = scale * load(C, o + 2), scale * load(C, o + 3)
            for k in range(n):
                a, b = sign * load(A, i * row + k * step), k * columns + j
                x0, x1 = fma(a, load(B, b), x0), fma(a, load(B, b + 1), x1)
                x2, x3 = fma(a, load(B, b + 2), x2), fma(a, load(B, b + 3), x3)
            store(C, o, x0)
            store(C, o + 1, x1)
            store(C, o + 2, x2)
            store(C, o + 3, x3)
            j += 4
        while j < columns:
            c = i * columns + j
            store(C, c, _sum_of_products(n, scale, sign, A, i * row, step, B, j, columns, C, c))
            j += 1


@kernel
def add_transpose(n, s, X):
    """X (n n) <- s (X + X')"""
    align_stack(X)
    for i in range(n):
        for j in range(i + 1):
            x = s * (load(X, i * n + j) + load(X, j * n + i))
            store(X, i * n + j, x)
            store(X, j * n + i, x)


# ------------------------------------------------------------------------------------------------ four columns
@helper
def load_columns(A, B, o, c):
    """Numbers c[0], c[1] of the row of A that starts at o, and c[2], c[3] of that of B, often A itself."""
    return (load(A, o + c[0]), load(A, o + c[1]), load(B, o + c[2]), load(B, o + c[3]))


@helper
def store_columns(A, B, o, c, x):
    store(A, o + c[0], x[0])
    store(A, o + c[1], x[1])
    store(B, o + c[2], x[2])
    store(B, o + c[3], x[3])


@helper
def subtract_scaled(x, e, y):
    """x - e y"""
    return (fnma(e, y[0], x[0]), fnma(e, y[1], x[1]), fnma(e, y[2], x[2]), fnma(e, y[3], x[3]))


@helper
def scale_columns(x, s):
    return (x[0] * s, x[1] * s, x[2] * s, x[3] * s)


@helper
def no_columns(w):
    zero = splat(w, 0.0)
    return (zero, zero, zero, zero)


@helper
def four_columns(c, count):
    """Columns c ... c + 3, the last one again where there are fewer: it is computed twice and stored twice."""
    return (c, min(c + 1, count - 1), min(c + 2, count - 1), min(c + 3, count - 1))


# --------------------------------------------------------------------------------------------
# Dense linear equations, by elimination without pivoting.
#
# For matrices whose symmetric part is positive definite, whose elimination breaks down nowhere  [Golub and Van Loan
# 2013, section 4.3].


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
