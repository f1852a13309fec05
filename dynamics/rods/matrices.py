"""6x6 matrices in memory, row-major, that act on twists of the world frame."""

from dynamics.simd import align_stack, helper, kernel, load, store
from dynamics.spatial import add_scaled6, dot6, load6, scale6, store6


@helper
def times6(A, o, x):
    """A x for A at offset o."""
    return (
        dot6(load6(A, o), x), dot6(load6(A, o + 6), x), dot6(load6(A, o + 12), x), dot6(load6(A, o + 18), x),
        dot6(load6(A, o + 24), x), dot6(load6(A, o + 30), x),
    )  # fmt: skip


@helper
def transposed_times6(A, o, x):
    """A'x"""
    y = scale6(load6(A, o), x[0])
    y = add_scaled6(y, x[1], load6(A, o + 6))
    y = add_scaled6(y, x[2], load6(A, o + 12))
    y = add_scaled6(y, x[3], load6(A, o + 18))
    y = add_scaled6(y, x[4], load6(A, o + 24))
    return add_scaled6(y, x[5], load6(A, o + 30))


@helper
def _rotated_pairs(R, A, o):
    """The 3x3 block of A (stride 6) at o, turned to the axes R: R block R'."""
    a = (load(A, o), load(A, o + 1), load(A, o + 2))
    b = (load(A, o + 6), load(A, o + 7), load(A, o + 8))
    c = (load(A, o + 12), load(A, o + 13), load(A, o + 14))
    x = tuple_product(R, a, b, c)
    return x


@helper
def tuple_product(R, a, b, c):
    """R [a; b; c] R', rows."""
    p = (
        R[0] * a[0] + R[1] * b[0] + R[2] * c[0], R[0] * a[1] + R[1] * b[1] + R[2] * c[1],
        R[0] * a[2] + R[1] * b[2] + R[2] * c[2],
        R[3] * a[0] + R[4] * b[0] + R[5] * c[0], R[3] * a[1] + R[4] * b[1] + R[5] * c[1],
        R[3] * a[2] + R[4] * b[2] + R[5] * c[2],
        R[6] * a[0] + R[7] * b[0] + R[8] * c[0], R[6] * a[1] + R[7] * b[1] + R[8] * c[1],
        R[6] * a[2] + R[7] * b[2] + R[8] * c[2],
    )  # fmt: skip
    return (
        p[0] * R[0] + p[1] * R[1] + p[2] * R[2], p[0] * R[3] + p[1] * R[4] + p[2] * R[5],
        p[0] * R[6] + p[1] * R[7] + p[2] * R[8],
        p[3] * R[0] + p[4] * R[1] + p[5] * R[2], p[3] * R[3] + p[4] * R[4] + p[5] * R[5],
        p[3] * R[6] + p[4] * R[7] + p[5] * R[8],
        p[6] * R[0] + p[7] * R[1] + p[8] * R[2], p[6] * R[3] + p[7] * R[4] + p[8] * R[5],
        p[6] * R[6] + p[7] * R[7] + p[8] * R[8],
    )  # fmt: skip


@kernel
def turn(R, A):
    """A in the axes of a frame to the world's: every 3x3 block X becomes R X R'."""
    align_stack(A)
    for r in range(0, 6, 3):
        for c in range(0, 6, 3):
            o = 6 * r + c
            x = _rotated_pairs(R, A, o)
            for i in range(3):
                y = (x[0], x[1], x[2]) if i == 0 else ((x[3], x[4], x[5]) if i == 1 else (x[6], x[7], x[8]))
                store(A, o + 6 * i, y[0])
                store(A, o + 6 * i + 1, y[1])
                store(A, o + 6 * i + 2, y[2])


@kernel
def add_moved(p, A, total, o):
    """total[o ...] += B'A B with B = [[1, 0], [-p~, 1]]: A acts on twists of a point p, the total on those of the
    origin, of axes that agree."""
    align_stack(A)
    for i in range(6):  # rows of A B: angular columns gain -(linear) p~ = p x (rows)
        a = load6(A, 6 * i)
        w = (a[5] * p[1] - a[4] * p[2], a[3] * p[2] - a[5] * p[0], a[4] * p[0] - a[3] * p[1])
        store6(A, 6 * i, (a[0] + w[0], a[1] + w[1], a[2] + w[2], a[3], a[4], a[5]))
    for j in range(6):
        f = (load(A, 18 + j), load(A, 24 + j), load(A, 30 + j))
        n = (p[1] * f[2] - p[2] * f[1], p[2] * f[0] - p[0] * f[2], p[0] * f[1] - p[1] * f[0])
        for i in range(3):
            x = n[0] if i == 0 else (n[1] if i == 1 else n[2])
            y = f[0] if i == 0 else (f[1] if i == 1 else f[2])
            k = o + 6 * i + j
            store(total, k, load(total, k) + load(A, 6 * i + j) + x)
            store(total, k + 18, load(total, k + 18) + y)


@helper
def store_block(A, o, x):
    """Nine numbers, row-major, into the 3x3 block of A (stride 6) at o."""
    store(A, o, x[0])
    store(A, o + 1, x[1])
    store(A, o + 2, x[2])
    store(A, o + 6, x[3])
    store(A, o + 7, x[4])
    store(A, o + 8, x[5])
    store(A, o + 12, x[6])
    store(A, o + 13, x[7])
    store(A, o + 14, x[8])
