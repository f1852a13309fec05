"""6x6 matrices in memory, row-major, that act on twists of the world frame."""

from dynamics.simd import align_stack, helper, kernel, load, store
from dynamics.spatial import add_scaled6, dot6, load6, multiply, scale6, store3, store6


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
def _block(A, o):
    """Nine numbers, row-major, of the 3x3 block of A (stride 6) at o."""
    return (
        load(A, o), load(A, o + 1), load(A, o + 2), load(A, o + 6), load(A, o + 7), load(A, o + 8),
        load(A, o + 12), load(A, o + 13), load(A, o + 14),
    )  # fmt: skip


@helper
def store_block(A, o, x):
    """Nine numbers, row-major, into the 3x3 block of A (stride 6) at o."""
    store3(A, o, (x[0], x[1], x[2]))
    store3(A, o + 6, (x[3], x[4], x[5]))
    store3(A, o + 12, (x[6], x[7], x[8]))


@kernel
def turn(R, A):
    """A in the axes of a frame to the world's: every 3x3 block X becomes R X R'."""
    align_stack(A)
    back = (R[0], R[3], R[6], R[1], R[4], R[7], R[2], R[5], R[8])
    for r in range(0, 6, 3):
        for c in range(0, 6, 3):
            o = 6 * r + c
            store_block(A, o, multiply(multiply(R, _block(A, o)), back))


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
