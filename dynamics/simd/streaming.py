"""Stores from lanes to large arrays past the caches, since a plain store reads its cache line and evicts another."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dynamics.simd.chunks import scatter
from dynamics.simd.compilation import helper
from dynamics.simd.tiles import transposed, vectors
from dynamics.simd.vector import ALIGNMENT, LANES

LARGE = 2**18  # numbers; a few such arrays exceed the cache of one core


@intrinsic
def _stream_tile(typing, ws, i, target, offset, stride):
    """target.flat[offset + k stride + j] = ws[i + j, k] for j, k < LANES; every row of target on a vector boundary."""

    def generate(context, builder, sig, args):
        lanes = ir.Constant(ir.IntType(64), LANES)
        start = builder.mul(args[1], lanes)
        rows = [builder.load(p, align=ALIGNMENT) for p in vectors(context, builder, sig.args[0], args[0], start, lanes)]
        past_caches = builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)])
        targets = vectors(context, builder, sig.args[2], args[2], args[3], args[4])
        for p, row in zip(targets, transposed(builder, rows), strict=True):
            builder.store(row, p, align=ALIGNMENT).set_metadata("nontemporal", past_caches)
        return context.get_dummy_value()

    return types.void(ws, types.intp, target, types.intp, types.intp), generate


@helper
def stream(ws, first, target):
    """`scatter` past the caches if target is large; target (K, n) from `aligned_empty`."""
    knots, n = target.shape
    if target.size < LARGE or n % LANES != 0 or first + LANES > knots:
        scatter(ws, first, target)
        return
    for i in range(0, n, LANES):
        _stream_tile(ws, i, target, first * n + i, n)
