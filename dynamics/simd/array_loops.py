"""Loops over whole arrays, C-contiguous ones of any shape, as prepared calls in place of expressions in numpy."""

from dynamics.simd.compilation import by_address, lean_routine
from dynamics.simd.span import flat


@by_address
def fill(array, value):
    """array = value"""
    numbers = flat(array)
    for i in range(array.size):
        numbers[i] = value


@by_address
def copy(source, target):
    """The first numbers of the target are those of the source."""
    given, numbers = flat(source), flat(target)
    for i in range(source.size):
        numbers[i] = given[i]


@by_address
def repeat(row, rows):
    """rows[t] = row for all t; row (n,), rows (K, n)."""
    for t in range(rows.shape[0]):
        for i in range(row.shape[0]):
            rows[t, i] = row[i]


@by_address
def subtract(x0, x1, difference):
    """difference = x1 - x0"""
    a, b, numbers = flat(x0), flat(x1), flat(difference)
    for i in range(difference.size):
        numbers[i] = b[i] - a[i]


@lean_routine
def add(x, dx, total):
    """total = x + dx, which may be one of them."""
    a, b, numbers = flat(x), flat(dx), flat(total)
    for i in range(total.size):
        numbers[i] = a[i] + b[i]


@by_address
def take_columns(source, first, target):
    """target = source[:, first : first + n]; target (K, n)."""
    for t in range(target.shape[0]):
        for i in range(target.shape[1]):
            target[t, i] = source[t, first + i]


@by_address
def place_columns(source, target, first):
    """target[:, first : first + n] = source; source (K, n)."""
    for t in range(source.shape[0]):
        for i in range(source.shape[1]):
            target[t, first + i] = source[t, i]


@by_address
def split_columns(whole, left, right):
    """left = whole[:, :, :n] and right = whole[:, :, n:]; whole (K, m, n + p), left (K, m, n), right (K, m, p)."""
    n, p = left.shape[2], right.shape[2]
    for t in range(whole.shape[0]):
        for i in range(whole.shape[1]):
            for j in range(n):
                left[t, i, j] = whole[t, i, j]
            for j in range(p):
                right[t, i, j] = whole[t, i, n + j]


@by_address
def split_hessian(whole, xx, ux, uu):
    """Blocks xx (K, n, n), ux (K, p, n), uu (K, p, p) of Hessians (K, n + p, n + p)."""
    n, p = xx.shape[1], uu.shape[1]
    for t in range(whole.shape[0]):
        for i in range(n):
            for j in range(n):
                xx[t, i, j] = whole[t, i, j]
        for i in range(p):
            for j in range(n):
                ux[t, i, j] = whole[t, n + i, j]
            for j in range(p):
                uu[t, i, j] = whole[t, n + i, n + j]
