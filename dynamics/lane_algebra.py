"""Vectors and small matrices in the lanes, matrices row-major.  Products take four sums at a time."""

from dynamics.simd import align_stack, fma, helper, kernel, load, splat, store


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
def multiply_negative(n, A, B, X):
    """X <- -A B, all (n n)."""
    align_stack(X)
    for j in range(n):
        for k in range(n):
            x = splat(X, 0.0)
            for i in range(n):
                x = fma(load(A, j * n + i), load(B, i * n + k), x)
            store(X, j * n + k, -x)
