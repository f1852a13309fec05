"""Transfer of square tiles between knot-major arrays and workspaces of real lanes, transposed in registers.

A tile is LANES consecutive numbers of LANES consecutive knots.
"""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dynamics.simd.compilation import kernel
from dynamics.simd.span import data_pointer, flat
from dynamics.simd.vector import ALIGNMENT, LANES

_DOUBLE, _I64, _I32 = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_VECTOR = ir.VectorType(_DOUBLE, LANES)


def transposed(builder, rows):
    """The transposed tile: one butterfly per bit of the index."""
    step = 1
    while step < LANES:
        low = ir.Constant(ir.VectorType(_I32, LANES), [c if not c & step else LANES + (c ^ step) for c in range(LANES)])
        high = ir.Constant(ir.VectorType(_I32, LANES), [c | step if not c & step else LANES + c for c in range(LANES)])
        mixed = list(rows)
        for i in range(LANES):
            if not i & step:
                a, b = rows[i], rows[i | step]
                mixed[i], mixed[i | step] = builder.shuffle_vector(a, b, low), builder.shuffle_vector(a, b, high)
        rows, step = mixed, 2 * step
    return rows


def vectors(context, builder, array_type, array, offset, stride):
    """Pointers to LANES vectors of a float64 array, from `offset`, `stride` numbers apart."""
    data = data_pointer(context, builder, array_type, array)
    for k in range(LANES):
        at = builder.add(offset, builder.mul(stride, ir.Constant(_I64, k)))
        yield builder.bitcast(builder.gep(data, [at]), _VECTOR.as_pointer())


@intrinsic
def scatter_tile(typing, ws, i, target, offset, stride):
    """target.flat[offset + k stride + j] = ws[i + j, k] for j, k < LANES; target C-contiguous float64."""
    if ws.ndim != 2:
        return None

    def generate(context, builder, sig, args):
        lanes = ir.Constant(_I64, LANES)
        start = builder.mul(args[1], lanes)
        rows = [builder.load(p, align=ALIGNMENT) for p in vectors(context, builder, sig.args[0], args[0], start, lanes)]
        targets = vectors(context, builder, sig.args[2], args[2], args[3], args[4])
        for p, row in zip(targets, transposed(builder, rows), strict=True):
            builder.store(row, p, align=8)
        return context.get_dummy_value()

    return types.void(ws, types.intp, target, types.intp, types.intp), generate


@intrinsic
def stream_tile(typing, ws, i, target, offset, stride):
    """As `scatter_tile`, past the caches; every row of target on a vector boundary."""

    def generate(context, builder, sig, args):
        lanes = ir.Constant(_I64, LANES)
        start = builder.mul(args[1], lanes)
        rows = [builder.load(p, align=ALIGNMENT) for p in vectors(context, builder, sig.args[0], args[0], start, lanes)]
        past_caches = builder.module.add_metadata([ir.Constant(_I32, 1)])
        targets = vectors(context, builder, sig.args[2], args[2], args[3], args[4])
        for p, row in zip(targets, transposed(builder, rows), strict=True):
            builder.store(row, p, align=ALIGNMENT).set_metadata("nontemporal", past_caches)
        return context.get_dummy_value()

    return types.void(ws, types.intp, target, types.intp, types.intp), generate


@intrinsic
def gather_tile(typing, source, offset, stride, ws, i):
    """ws[i + j, k] = source.flat[offset + k stride + j] for j, k < LANES; source C-contiguous float64."""
    if ws.ndim != 2:
        return None

    def generate(context, builder, sig, args):
        sources = vectors(context, builder, sig.args[0], args[0], args[1], args[2])
        rows = [builder.load(p, align=8) for p in sources]
        lanes = ir.Constant(_I64, LANES)
        start = builder.mul(args[4], lanes)
        targets = vectors(context, builder, sig.args[3], args[3], start, lanes)
        for p, row in zip(targets, transposed(builder, rows), strict=True):
            builder.store(row, p, align=ALIGNMENT)
        return context.get_dummy_value()

    return types.void(source, types.intp, types.intp, ws, types.intp), generate


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
    numbers = flat(target)
    for k in range(count):
        for j in range(i, size):
            numbers[(first + k) * size + j] += ws[j, k]
