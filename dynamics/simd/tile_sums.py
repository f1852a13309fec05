"""Addition of lanes to knot-major arrays, a tile at a time, transposed in registers as in `dynamics.simd.tiles`."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dynamics.simd.compilation import kernel
from dynamics.simd.tiles import transposed, vectors
from dynamics.simd.vector import ALIGNMENT, LANES


@intrinsic
def add_tile(typing, ws, i, target, offset, stride):
    """target.flat[offset + k stride + j] += ws[i + j, k] for j, k < LANES; target C-contiguous float64."""
    if ws.ndim != 2:
        return None

    def generate(context, builder, sig, args):
        lanes = ir.Constant(ir.IntType(64), LANES)
        sources = vectors(context, builder, sig.args[0], args[0], builder.mul(args[1], lanes), lanes)
        rows = [builder.load(p, align=ALIGNMENT) for p in sources]
        targets = vectors(context, builder, sig.args[2], args[2], args[3], args[4])
        for p, row in zip(targets, transposed(builder, rows), strict=True):
            builder.store(builder.fadd(builder.load(p, align=8), row), p, align=8)
        return context.get_dummy_value()

    return types.void(ws, types.intp, target, types.intp, types.intp), generate


@kernel
def add_knots(ws, first, count, target):
    """target[first + l] += ws[:, l] for the first `count` lanes; ws holds all numbers of a knot of the target."""
    size, i = ws.shape[0], 0
    if count == LANES:
        while i + LANES <= size:
            add_tile(ws, i, target, first * size + i, size)
            i += LANES
    flat = target.reshape(target.size)
    for k in range(count):
        for j in range(i, size):
            flat[(first + k) * size + j] += ws[j, k]
