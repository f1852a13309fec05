"""Eigenvalues and eigenvectors of many small symmetric matrices [Golub & Van Loan 2013, section 8.3].

    A = Q T Q'      T tridiagonal, by reflections I - beta v v' that take a column of A to its first two entries
    T = S L S'      L diagonal, by QL iterations with implicit shifts, products of rotations

Rows of the result are eigenvectors, S'Q', so that rotations run along rows.  A matrix is scaled to entries of at most
one: squares neither overflow nor lose their digits.  Errors are a few roundings of the largest eigenvalue.
"""

import math

import numpy as np

from dynamics.simd import helper, shared_kernel

MOST_ITERATIONS = 60
"""QL iterations for one eigenvalue; two or three are usual."""
EPS = 2.0**-52
NEGLIGIBLE = 1e-140
"""Size of scaled entries beside the diagonal that count as zero: their squares have few digits."""


@helper
def _size(A, n):
    """The largest entry of A (n, n), NaN where one is not finite."""
    largest = 0.0
    for i in range(n):
        for j in range(n):
            if not abs(A[i, j]) < np.inf:
                return np.nan
            largest = max(largest, abs(A[i, j]))
    return largest


@helper
def _length(x, y):
    """The root of x^2 + y^2, also where the squares underflow."""
    large, small = max(abs(x), abs(y)), min(abs(x), abs(y))
    if large == 0.0:
        return 0.0
    ratio = small / large
    return large * math.sqrt(1.0 + ratio * ratio)


@helper
def _tridiagonalize(A, n, d, e, p):
    """Overwrite A (n, n): right of the diagonal, row k holds v of reflection k, zeros for none; d (n,) gets the
    diagonal of T, e (n,) what is beside it, e[k] = T[k, k + 1]; p (n,) is scratch."""
    for k in range(n):
        d[k], e[k] = A[k, k], 0.0
        if k + 1 == n:
            break
        first, rest = A[k, k + 1], 0.0
        for j in range(k + 2, n):
            rest += A[k, j] * A[k, j]
        if rest < NEGLIGIBLE * NEGLIGIBLE:
            e[k] = first
            for j in range(k + 1, n):
                A[k, j] = 0.0
            continue
        e[k] = -math.copysign(math.sqrt(first * first + rest), first)
        A[k, k + 1] = first - e[k]
        beta, inner = 2.0 / (A[k, k + 1] * A[k, k + 1] + rest), 0.0
        for j in range(k + 1, n):
            p[j] = 0.0
        for i in range(k + 1, n):  # p = beta A v
            v = beta * A[k, i]
            for j in range(k + 1, n):
                p[j] += v * A[i, j]
        for j in range(k + 1, n):
            inner += p[j] * A[k, j]
        for j in range(k + 1, n):
            p[j] -= 0.5 * beta * inner * A[k, j]
        for i in range(k + 1, n):
            v, w = A[k, i], p[i]
            for j in range(k + 1, n):
                A[i, j] -= v * p[j] + w * A[k, j]


@helper
def _multiply_reflections(A, n, Q, p):
    """Write Q' (n, n), of the reflections that `_tridiagonalize` leaves in A; p (n,) is scratch."""
    for i in range(n):
        for j in range(n):
            Q[i, j] = 1.0 if i == j else 0.0
    for k in range(n - 3, -1, -1):
        square = 0.0
        for j in range(k + 1, n):
            square += A[k, j] * A[k, j]
            p[j] = 0.0
        if square == 0.0:
            continue
        for i in range(k + 1, n):
            v = 2.0 / square * A[k, i]
            for j in range(k + 1, n):
                p[j] += v * Q[i, j]
        for i in range(k + 1, n):
            v = A[k, i]
            for j in range(k + 1, n):
                Q[i, j] -= v * p[j]
    for i in range(n):
        for j in range(i):
            Q[i, j], Q[j, i] = Q[j, i], Q[i, j]


@helper
def _diagonalize(d, e, n, V):
    """Take the diagonal d of T to the eigenvalues, in any order, and the rows of V (n, n) along."""
    for first in range(n):
        for _ in range(MOST_ITERATIONS):
            last = first
            while last + 1 < n and abs(e[last]) > EPS * (abs(d[last]) + abs(d[last + 1])) + NEGLIGIBLE:
                last += 1
            if last == first:
                break
            shift = (d[first + 1] - d[first]) / (2.0 * e[first])
            g = d[last] - d[first] + e[first] / (shift + math.copysign(_length(shift, 1.0), shift))
            s, c, change, split = 1.0, 1.0, 0.0, False
            for i in range(last - 1, first - 1, -1):
                f, b = s * e[i], c * e[i]
                e[i + 1] = _length(f, g)
                if e[i + 1] == 0.0:
                    d[i + 1] -= change
                    split = True
                    break
                s, c = f / e[i + 1], g / e[i + 1]
                g = d[i + 1] - change
                r = (d[i] - g) * s + 2.0 * c * b
                change = s * r
                d[i + 1] = g + change
                g = c * r - b
                for j in range(n):
                    x, y = V[i, j], V[i + 1, j]
                    V[i, j], V[i + 1, j] = c * x - s * y, s * x + c * y
            e[last] = 0.0
            if not split:
                d[first] -= change
                e[first] = g


@shared_kernel
def decompose(A, n, values, V, e, p):
    """Write the eigenvalues of the symmetric A (n, n), in growing order, and eigenvectors into the rows of V; NaN where
    an entry of A is not finite.  A is overwritten, e and p (n,) are scratch."""
    size = _size(A, n)
    if not size < np.inf:
        for i in range(n):
            values[i] = np.nan
            for j in range(n):
                V[i, j] = np.nan
        return
    unit = math.ldexp(1.0, math.frexp(size)[1] - 1)  # a power of two: without rounding
    for i in range(n):
        for j in range(n):
            A[i, j] /= unit
    _tridiagonalize(A, n, values, e, p)
    _multiply_reflections(A, n, V, p)
    _diagonalize(values, e, n, V)
    for i in range(n):
        least = i
        for k in range(i + 1, n):
            if values[k] < values[least]:
                least = k
        values[i], values[least] = values[least], values[i]
        for j in range(n):
            V[i, j], V[least, j] = V[least, j], V[i, j]
        values[i] *= unit
