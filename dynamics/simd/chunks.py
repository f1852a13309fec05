"""Transfer between arrays of knots and lanes, inside compiled drivers.

Arrays are knot-major outside, (K, n); a workspace holds LANES knots, (n, LANES).  The last chunk repeats the last knot,
so that idle lanes compute something finite and harmless.

A driver over complex lanes asks `launch` for twice its workspace size and views the workspace as complex by
`work.reshape(work.shape[0] // 2, 2, LANES)`.
"""

from dynamics.simd.compilation import helper, kernel, shared_kernel
from dynamics.simd.span import flat
from dynamics.simd.tiles import gather_tile, scatter_tile, stream_tile
from dynamics.simd.vector import LANES, span, split

LARGE = 2**18
"""Numbers of an array beyond which stores go past the caches, where a plain store reads its cache line and evicts
another: a few such arrays exceed the cache of one core."""


def chunk_count(knots: int) -> int:
    """Chunks of LANES knots needed for this many knots."""
    return -(-knots // LANES)


@shared_kernel
def gather(source, first, ws):
    """ws[i, l] = source[first + l, i] for the LANES knots from `first` on; source (K, n), ws (n, LANES)."""
    knots, n = source.shape
    i = 0
    if first + LANES <= knots and n >= LANES:
        while i < n:  # the last tile may overlap the one before
            i = min(i, n - LANES)
            gather_tile(source, first * n + i, n, ws, i)
            i += LANES
        return
    for k in range(LANES):
        t = min(first + k, knots - 1)
        for i in range(n):
            ws[i, k] = source[t, i]


@kernel
def gather_complex(source, first, ws):
    """`gather` into complex lanes, with imaginary parts zero; ws (n, 2, LANES)."""
    knots, n = source.shape
    for k in range(LANES):
        t = min(first + k, knots - 1)
        for i in range(n):
            ws[i, 0, k] = source[t, i]
            ws[i, 1, k] = 0.0


@shared_kernel
def scatter_rows(ws, offset, count, target, start, first, knots, size):
    """target.flat[t size + start + i] = ws[offset + i, l], i < count, for the knots t = first + l that exist."""
    if first + LANES <= knots and count >= LANES:
        i = 0
        while i < count:
            i = min(i, count - LANES)
            scatter_tile(ws, offset + i, target, first * size + start + i, size)
            i += LANES
        return
    for k in range(min(LANES, knots - first)):
        o = (first + k) * size + start
        for i in range(count):
            target[o + i] = ws[offset + i, k]


@helper
def scatter(ws, first, target):
    """target[first + l].flat[i] = ws[i, l] for the knots that exist; target (K, n) or (K, rows, columns)."""
    knots = target.shape[0]
    size = target.size // max(knots, 1)
    scatter_rows(span(ws), 0, size, flat(target), 0, first, knots, size)


@helper
def scatter_blocks(ws, first, rows, stride, column, target):
    """target[first + l, r, c] = ws[r stride + column + c, l] for the knots that exist; target (K, rows, columns)."""
    columns, lanes, numbers = target.shape[2], span(ws), flat(target)
    for r in range(rows):
        scatter_rows(lanes, r * stride + column, columns, numbers, r * columns, first, target.shape[0], rows * columns)


@helper
def gather_state(q, v, x, first, ws):
    """Configuration, velocity and a third array of LANES knots in slices of the workspace, and the rest of it."""
    q_, w = split(ws, q.shape[1])
    v_, w = split(w, v.shape[1])
    x_, w = split(w, x.shape[1])
    gather(q, first, q_)
    gather(v, first, v_)
    gather(x, first, x_)
    return q_, v_, x_, w


@helper
def stream(ws, first, target):
    """`scatter` past the caches if target is large; target (K, n) from `aligned_empty`."""
    knots, n = target.shape
    if target.size < LARGE or n % LANES != 0 or first + LANES > knots:
        scatter(ws, first, target)
        return
    for i in range(0, n, LANES):
        stream_tile(ws, i, target, first * n + i, n)
