"""Knots to lanes and back, inside compiled drivers.

Arrays are knot-major outside, (K, n); a workspace holds LANES knots, (n, LANES).  The last chunk repeats the last knot,
so that idle lanes compute something finite and harmless.
"""

from dynamics.simd.compilation import helper
from dynamics.simd.vector import LANES

def chunk_count(knots: int) -> int:
    """Chunks of LANES knots needed for this many knots."""
    return -(-knots // LANES)


@helper
def gather(source, first, ws):
    """ws[i, l] = source[first + l, i] for the LANES knots from `first` on."""
    last = source.shape[0] - 1
    for k in range(LANES):
        t = min(first + k, last)
        for i in range(source.shape[1]):
            ws[i, k] = source[t, i]


@helper
def scatter(ws, first, target):
    """target[first + l, i] = ws[i, l] for the knots that exist."""
    count = min(LANES, target.shape[0] - first)
    for k in range(count):
        for i in range(target.shape[1]):
            target[first + k, i] = ws[i, k]


@helper
def carve(ws, count):
    """The first `count` numbers of a workspace, and the rest."""
    return ws[:count], ws[count:]
