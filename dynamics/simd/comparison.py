"""Comparisons over all lanes of a number at once, for loops that end when every lane is done."""

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dynamics.simd.vector import LANES, kind, parts


@intrinsic
def all_less(typing, a, b):
    """True if a < b in every lane, by the real parts of complex numbers; False if any lane is NaN."""

    def generate(context, builder, sig, args):
        (a, _), (b, _) = parts(builder, sig.args, args)
        less = builder.fcmp_ordered("<", a, b)
        if not isinstance(less.type, ir.VectorType):
            return less
        bits = builder.bitcast(less, ir.IntType(LANES))
        return builder.icmp_unsigned("==", bits, ir.Constant(ir.IntType(LANES), 2**LANES - 1))

    return types.boolean(kind(a), kind(b)), generate
