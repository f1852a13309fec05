"""Vectors along a workspace of floats, for loops with independent iterations, such as those over coordinates.

A kernel runs such a loop in groups of `group_size(ws)` iterations.  In a workspace of floats a group is LANES adjacent
numbers, which `load_group` reads as one vector; in one of lanes, whose every number is a vector already, a group is a
single number.  So the same source fills vector registers with one knot as with many.  Bit k of `members` is set if
the group's number k takes part: the others read as zero and are not written.
"""

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from dynamics.simd.vector import COMPLEX_VEC, LANES, VEC, element_pointers, join_parts, parts

_DOUBLE, _I32 = ir.DoubleType(), ir.IntType(32)
_VECTOR, _MASK = ir.VectorType(_DOUBLE, LANES), ir.VectorType(ir.IntType(1), LANES)


def _place(context, builder, sig, args):
    """Address of a group in a workspace of floats, and the mask of its members."""
    (pointer,), _ = element_pointers(context, builder, sig, args)
    mask = builder.bitcast(builder.trunc(args[2], ir.IntType(LANES)), _MASK)
    return builder.bitcast(pointer, _VECTOR.as_pointer()), ir.Constant(_I32, 8), mask


def _masked(builder, name, result, *args):
    kind = ir.FunctionType(result, [a.type for a in args])
    function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.masked.{name}.v{LANES}f64.p0")
    return builder.call(function, args)


@intrinsic
def group_size(typing, ws):
    """LANES for a workspace of floats, else 1."""
    size = LANES if ws.ndim == 1 else 1

    def generate(context, builder, sig, args):
        return context.get_constant(types.intp, size)

    return types.intp(ws), generate


@intrinsic
def load_group(typing, ws, i, members):
    """The group of numbers from number i of the workspace on."""
    t = COMPLEX_VEC if ws.ndim == 3 else VEC

    def generate(context, builder, sig, args):
        if sig.args[0].ndim == 1:
            pointer, alignment, mask = _place(context, builder, sig, args)
            return _masked(builder, "load", _VECTOR, pointer, alignment, mask, ir.Constant(_VECTOR, None))
        pointers, align = element_pointers(context, builder, sig, args)
        values = [builder.load(p, align=align) for p in pointers]
        return join_parts(builder, t, (*values, None)[:2])

    return t(ws, types.intp, types.intp), generate


@intrinsic
def store_group(typing, ws, i, members, x):
    """Store the group of numbers from number i of the workspace on."""
    t = COMPLEX_VEC if ws.ndim == 3 else VEC

    def generate(context, builder, sig, args):
        if sig.args[0].ndim == 1:
            _masked(builder, "store", ir.VoidType(), args[3], *_place(context, builder, sig, args))
        else:
            pointers, align = element_pointers(context, builder, sig, args)
            for p, part in zip(pointers, *parts(builder, [t], args[3:]), strict=False):
                builder.store(part, p, align=align)
        return context.get_dummy_value()

    return types.void(ws, types.intp, types.intp, t), generate
