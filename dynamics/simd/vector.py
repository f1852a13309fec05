"""SIMD numbers: numba types whose values LLVM keeps in vector registers, with their loads and stores.

A kernel is written as if for one knot.  It reads numbers with `load(ws, i)` and writes them with `store(ws, i, x)`, and
the shape of the workspace determines their type:

    (n,)              float64
    (n, LANES)        a vector, one knot per lane
    (n, 2, LANES)     a complex vector: LANES real parts, then LANES imaginary parts

The same source therefore compiles three times.  The float64 build is the oracle of the vector build, and the complex
build differentiates any kernel to rounding: with imaginary parts h dx, h = 1e-30 or so, the imaginary parts of the
results are h times the derivative along dx, and the real parts are unchanged (Squire and Trapp 1998).

Arithmetic is in `arithmetic`, functions are in `functions`.
"""

import math
from itertools import accumulate
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.codegen import get_host_cpu_features
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, register_model

from dynamics.simd.span import Span, constant, data_pointer, make_span, pointer_and_rows

_SUM_OF_EIGHT = """define <8 x double> @twice(<8 x double> %x) {
  %y = fadd <8 x double> %x, %x
  ret <8 x double> %y
}"""


def _native_lanes() -> int:
    """Eight lanes where the processor that numba compiles for has 512-bit registers, else four.  LLVM finds this by its
    name and features, the host's or those of NUMBA_CPU_NAME and NUMBA_CPU_FEATURES."""
    chosen: Any = numba.config
    name = llvm.get_host_cpu_name() if chosen.CPU_NAME is None else chosen.CPU_NAME
    features = get_host_cpu_features() if chosen.CPU_FEATURES is None else chosen.CPU_FEATURES
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(cpu=name, features=features)
    return 8 if "zmm" in machine.emit_assembly(llvm.parse_assembly(_SUM_OF_EIGHT)) else 4


LANES = _native_lanes()
"""Knots per vector: 8 with AVX-512, else 4."""

ALIGNMENT = 8 * LANES
_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, LANES)
_PAIR = ir.LiteralStructType([_VECTOR, _VECTOR])
_I64 = ir.IntType(64)
_I32 = ir.IntType(32)


class LaneNumber(types.Type):
    """Numba type of one number per lane."""


class VecType(LaneNumber):
    """Numba type of LLVM's <LANES x double>."""

    def __init__(self):
        super().__init__(name=f"Vec{LANES}")


class ComplexVecType(LaneNumber):
    """Numba type of two vectors, real and imaginary parts."""

    def __init__(self):
        super().__init__(name=f"ComplexVec{LANES}")


VEC = VecType()
COMPLEX_VEC = ComplexVecType()


@register_model(VecType)
class _VecModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _VECTOR)


@register_model(ComplexVecType)
class _ComplexVecModel(models.StructModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, [("real", VEC), ("imag", VEC)])


# ------------------------------------------------------------------------------------------------ kinds of numbers
def kind(t):
    """Type to which an argument of type t is converted: its own if it has lanes, else float64."""
    return t if isinstance(t, LaneNumber) else types.float64


def common_kind(arg_types):
    """The type of a result: complex if any argument is, else a vector if any is, else float64."""
    return next((t for t in (COMPLEX_VEC, VEC) if t in arg_types), types.float64)


def _spread(builder, x):
    """Vector with all lanes equal to the double x."""
    v = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), x, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
    return builder.shuffle_vector(v, ir.Constant(_VECTOR, ir.Undefined), zeros)


def parts(builder, arg_types, args):
    """(real, imaginary part) of each number.  The imaginary part of a real number is None, so that no code is generated
    for it; floats are spread over the lanes if another number has lanes."""
    lanes = any(isinstance(t, LaneNumber) for t in arg_types)

    def of(t, x):
        if t == COMPLEX_VEC:
            return builder.extract_value(x, 0), builder.extract_value(x, 1)
        return (_spread(builder, x) if lanes and t != VEC else x), None

    return [of(t, x) for t, x in zip(arg_types, args, strict=True)]


def join_parts(builder, t, number):
    """The value of type t with these (real, imaginary) parts."""
    real, imag = number
    if t != COMPLEX_VEC:
        return real
    pair = builder.insert_value(ir.Constant(_PAIR, ir.Undefined), real, 0)
    return builder.insert_value(pair, ir.Constant(_VECTOR, None) if imag is None else imag, 1)


# ------------------------------------------------------------------------------------------------ memory
def _element(ws):
    return {1: types.float64, 2: VEC, 3: COMPLEX_VEC}[ws.ndim]


def element_pointers(context, builder, sig, args):
    """Addresses of the parts of number args[1] of the workspace args[0], and their alignment."""
    data = data_pointer(context, builder, sig.args[0], args[0])
    if sig.args[0].ndim == 1:
        return [builder.gep(data, [args[1]])], None
    count = sig.args[0].ndim - 1
    offset = builder.mul(args[1], ir.Constant(_I64, count * LANES), flags=("nsw",))
    first = builder.bitcast(builder.gep(data, [offset]), _VECTOR.as_pointer())
    return [first, builder.gep(first, [ir.Constant(_I64, 1)])][:count], ALIGNMENT


@intrinsic
def load(typing, ws, i):
    """Number i of the workspace."""
    t = _element(ws)

    def generate(context, builder, sig, args):
        pointers, align = element_pointers(context, builder, sig, args)
        values = [builder.load(p, align=align) for p in pointers]
        return join_parts(builder, t, (*values, None)[:2])

    return t(ws, types.intp), generate


@intrinsic
def store(typing, ws, i, x):
    """Write number i of the workspace."""
    t = _element(ws)

    def generate(context, builder, sig, args):
        pointers, align = element_pointers(context, builder, sig, args)
        for p, part in zip(pointers, *parts(builder, [t], args[2:]), strict=False):
            builder.store(part, p, align=align)
        return context.get_dummy_value()

    return types.void(ws, types.intp, t), generate


@intrinsic
def splat(typing, ws, x):
    """The float x converted to the workspace's kind of number; a number of this kind is unchanged."""
    t = _element(ws)
    if x == t:
        return t(ws, t), lambda context, builder, sig, args: args[1]

    def generate(context, builder, sig, args):
        return join_parts(builder, t, (args[1] if t == types.float64 else _spread(builder, args[1]), None))

    return t(ws, types.float64), generate


def _span_of(ws):
    if isinstance(ws, Span):
        return ws
    if not isinstance(ws, types.Array) or ws.layout != "C" or ws.ndim > 3:
        raise TypingError(f"workspace is {ws}; expected a C-contiguous array of one to three dimensions, or a span")
    return Span(ws.dtype, ((), (LANES,), (2, LANES))[ws.ndim - 1])


@intrinsic
def span(typing, ws):
    """The span of a workspace, which may be an array."""

    def generate(context, builder, sig, args):
        return make_span(context, builder, sig.return_type, *pointer_and_rows(context, builder, ws, args[0]))

    return _span_of(ws)(ws), generate


@intrinsic
def split(typing, ws, count):
    """Slices of a workspace as spans: the first `count` numbers, and the rest."""
    t = _span_of(ws)

    def generate(context, builder, sig, args):
        data, rows = pointer_and_rows(context, builder, ws, args[0])
        rest = builder.gep(data, [builder.mul(args[1], constant(math.prod(t.row)), flags=("nsw",))])
        parts = (data, args[1]), (rest, builder.sub(rows, args[1]))
        return context.make_tuple(builder, sig.return_type, [make_span(context, builder, t, *x) for x in parts])

    return types.UniTuple(t, 2)(ws, types.intp), generate


# ------------------------------------------------------------------------------------------------ lanes and parts
@intrinsic
def lane(typing, x, k):
    """Lane k of a vector as a float64 (a float64 is its own only lane)."""

    def generate(context, builder, sig, args):
        return builder.extract_element(args[0], args[1]) if sig.args[0] == VEC else args[0]

    return types.float64(x if x == VEC else types.float64, types.intp), generate


@intrinsic
def with_lane(typing, x, k, value):
    """The vector x with lane k replaced by value."""
    t = x if x == VEC else types.float64

    def generate(context, builder, sig, args):
        return builder.insert_element(args[0], args[2], args[1]) if t == VEC else args[2]

    return t(t, types.intp, types.float64), generate


@intrinsic
def real(typing, x):
    """Real parts of complex lanes."""

    def generate(context, builder, sig, args):
        return builder.extract_value(args[0], 0)

    return VEC(COMPLEX_VEC), generate


@intrinsic
def imag(typing, x):
    """Imaginary parts of complex lanes."""

    def generate(context, builder, sig, args):
        return builder.extract_value(args[0], 1)

    return VEC(COMPLEX_VEC), generate


@intrinsic
def complex_number(typing, real, imag):
    """real + i imag."""

    def generate(context, builder, sig, args):
        return join_parts(builder, COMPLEX_VEC, args)

    return COMPLEX_VEC(VEC, VEC), generate


# ------------------------------------------------------------------------------------------------ alignment
@intrinsic
def align_stack(typing, ws):
    """Align the caller's stack frame to the vector size, so that spilled registers do not straddle cache lines.

    This is done by a dummy slot with that alignment, kept alive by an empty assembly statement; large kernels gain a
    quarter.
    """

    def generate(context, builder, sig, args):
        if sig.args[0].ndim > 1:
            with builder.goto_entry_block():
                slot = builder.alloca(_VECTOR)
                slot.align = ALIGNMENT
            keep = ir.InlineAsm(ir.FunctionType(ir.VoidType(), [slot.type]), "", "r,~{memory}", side_effect=True)
            builder.call(keep, [slot])
        return context.get_dummy_value()

    return types.void(ws), generate


def aligned_empty(*shape: int) -> np.ndarray:
    """An array whose data start on a vector boundary, contents undefined; for workspaces of shape (..., LANES)."""
    size = math.prod(shape)
    raw = np.empty(size + 8, np.float64)
    start = (-raw.__array_interface__["data"][0] % 64) // 8
    return raw[start : start + size].reshape(shape)


def aligned_arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    """Several arrays as of `aligned_empty` in one piece of memory; the last dimension of each is LANES."""
    ends = list(accumulate(map(math.prod, shapes)))
    memory = aligned_empty(ends[-1])
    return [memory[b - math.prod(shape) : b].reshape(shape) for b, shape in zip(ends, shapes, strict=True)]


def aligned_zeros(*shape: int) -> np.ndarray:
    """`aligned_empty` filled with zeros."""
    array = aligned_empty(*shape)
    array[...] = 0.0
    return array


# --------------------------------------------------------------------------------------------
# Vectors along a workspace of floats, for loops with independent iterations, such as those over coordinates.
#
# A kernel runs such a loop in groups of `group_size(ws)` iterations.  In a workspace of floats a group is LANES
# adjacent numbers, which `load_group` reads as one vector; in one of lanes, whose every number is a vector already, a
# group is a single number.  So the same source fills vector registers with one knot as with many.  Bit k of `members`
# is set if the group's number k takes part: the others read as zero and are not written.

_MASK = ir.VectorType(ir.IntType(1), LANES)


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
