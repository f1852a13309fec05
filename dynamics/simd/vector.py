"""The SIMD number: a numba type that LLVM keeps in one vector register.

A kernel is written as if for one knot.  It reads numbers with `load(ws, i)` and writes them with `store(ws, i, x)`:
from a workspace of shape (n, LANES) they are vectors, one knot per lane; from a workspace of shape (n,) they are plain
float64.  The same source therefore compiles twice, and the float64 build is the oracle of the vector build.

Arithmetic between vectors and floats broadcasts the float.  `fma`, `fnma` and `fms` name the fused forms explicitly,
because contraction flags alone leave multiply-add pairs behind.
"""

import math
import operator

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, overload, register_model

from dynamics.simd.compilation import FLAGS, helper


def _native_lanes() -> int:
    """Eight doubles where the processor has 512-bit registers, else four."""
    try:
        return 8 if llvm.get_host_cpu_features().get("avx512f", False) else 4
    except RuntimeError:  # the host cannot be asked
        return 4


LANES = _native_lanes()
"""Knots per vector: 8 with AVX-512, else 4."""

ALIGNMENT = 8 * LANES
_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, LANES)
_I64 = ir.IntType(64)
_I32 = ir.IntType(32)
_MATH = tuple(sorted(FLAGS))


class VecType(types.Type):
    """Numba's view of LLVM's <LANES x double>."""

    def __init__(self):
        super().__init__(name=f"Vec{LANES}")


VEC = VecType()


@register_model(VecType)
class _VecModel(models.PrimitiveModel):
    def __init__(self, manager, fe_type):
        super().__init__(manager, fe_type, _VECTOR)


def _is_vector(t) -> bool:
    return isinstance(t, VecType)


def _splat(builder, x):
    """All lanes equal to the double x."""
    v = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), x, ir.Constant(_I32, 0))
    zeros = ir.Constant(ir.VectorType(_I32, LANES), [0] * LANES)
    return builder.shuffle_vector(v, ir.Constant(_VECTOR, ir.Undefined), zeros)


def _widen(builder, arg_types, args):
    return [x if _is_vector(t) else _splat(builder, x) for t, x in zip(arg_types, args, strict=True)]


def _register_binary(op, instruction):
    @infer_global(op)
    class _Template(AbstractTemplate):
        def generic(self, args, kws):
            known = all(_is_vector(a) or isinstance(a, types.Number) for a in args)
            if len(args) == 2 and known and any(map(_is_vector, args)):
                return signature(VEC, *[a if _is_vector(a) else types.float64 for a in args])
            return None

    def lower(context, builder, sig, args):
        a, b = _widen(builder, sig.args, args)
        return getattr(builder, instruction)(a, b, flags=_MATH)

    for pair in ((VecType, VecType), (VecType, types.Float), (types.Float, VecType)):
        lower_builtin(op, *pair)(lower)


for _op, _inplace, _instruction in (
    (operator.add, operator.iadd, "fadd"),
    (operator.sub, operator.isub, "fsub"),
    (operator.mul, operator.imul, "fmul"),
    (operator.truediv, operator.itruediv, "fdiv"),
):
    _register_binary(_op, _instruction)
    _register_binary(_inplace, _instruction)


@infer_global(operator.neg)
class _NegTemplate(AbstractTemplate):
    def generic(self, args, kws):
        return signature(VEC, VEC) if _is_vector(args[0]) else None


@lower_builtin(operator.neg, VecType)
def _lower_neg(context, builder, sig, args):
    return builder.fneg(args[0])


# ------------------------------------------------------------------------------------------------ memory
def _pointer(context, builder, sig, args):
    """Address of element args[1] of the workspace args[0]: a double (1-D) or a vector (2-D)."""
    array = context.make_array(sig.args[0])(context, builder, args[0])
    if sig.args[0].ndim == 1:
        return builder.gep(array.data, [args[1]]), None
    offset = builder.mul(args[1], ir.Constant(_I64, LANES), flags=("nsw",))
    return builder.bitcast(builder.gep(array.data, [offset]), _VECTOR.as_pointer()), ALIGNMENT


def _element(ws):
    return types.float64 if ws.ndim == 1 else VEC


@intrinsic
def load(typing, ws, i):
    """Number i of the workspace: float64 from (n,), a vector from (n, LANES)."""

    def generate(context, builder, sig, args):
        p, align = _pointer(context, builder, sig, args)
        return builder.load(p, align=align)

    return _element(ws)(ws, types.intp), generate


@intrinsic
def store(typing, ws, i, x):
    """Write number i of the workspace."""

    def generate(context, builder, sig, args):
        p, align = _pointer(context, builder, sig, args)
        builder.store(args[2], p, align=align)
        return context.get_dummy_value()

    return types.void(ws, types.intp, _element(ws)), generate


@intrinsic
def splat(typing, ws, x):
    """The float x as a number of the workspace's kind."""

    def generate(context, builder, sig, args):
        return args[1] if sig.args[0].ndim == 1 else _splat(builder, args[1])

    return _element(ws)(ws, types.float64), generate


@intrinsic
def lane(typing, x, k):
    """Lane k of a vector as a float64 (a float64 is its own only lane)."""

    def generate(context, builder, sig, args):
        return builder.extract_element(args[0], args[1]) if _is_vector(sig.args[0]) else args[0]

    return types.float64(x if _is_vector(x) else types.float64, types.intp), generate


@intrinsic
def with_lane(typing, x, k, value):
    """The vector x with lane k replaced by value."""
    t = x if _is_vector(x) else types.float64

    def generate(context, builder, sig, args):
        return builder.insert_element(args[0], args[2], args[1]) if _is_vector(sig.args[0]) else args[2]

    return t(t, types.intp, types.float64), generate


# ------------------------------------------------------------------------------------------------ functions
def _unary(name):
    @intrinsic
    def function(typing, x):
        t = x if _is_vector(x) else types.float64

        def generate(context, builder, sig, args):
            ty = args[0].type
            suffix = f"v{LANES}f64" if _is_vector(sig.args[0]) else "f64"
            f = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ty, [ty]), f"llvm.{name}.{suffix}")
            return builder.call(f, [args[0]])

        return t(t), generate

    return function


sqrt = _unary("sqrt")
nearest = _unary("rint")


def _fused(negate_product, negate_addend, doc):
    @intrinsic
    def function(typing, a, b, c):
        t = VEC if any(map(_is_vector, (a, b, c))) else types.float64
        arg_types = [x if _is_vector(x) else types.float64 for x in (a, b, c)]

        def generate(context, builder, sig, args):
            if _is_vector(sig.return_type):
                args = _widen(builder, sig.args, args)
            x, y, z = args
            ty = x.type
            suffix = f"v{LANES}f64" if _is_vector(sig.return_type) else "f64"
            f = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ty, [ty] * 3), f"llvm.fma.{suffix}")
            x = builder.fneg(x) if negate_product else x
            return builder.call(f, [x, y, builder.fneg(z) if negate_addend else z])

        return t(*arg_types), generate

    function.__doc__ = doc
    return function


fma = _fused(False, False, "a b + c with one rounding.")
fnma = _fused(True, False, "c - a b with one rounding.")
fms = _fused(False, True, "a b - c with one rounding.")


@intrinsic
def select_less(typing, a, b, x, y):
    """x where a < b, else y, lane by lane."""
    t = VEC if any(map(_is_vector, (a, b, x, y))) else types.float64
    arg_types = [s if _is_vector(s) else types.float64 for s in (a, b, x, y)]

    def generate(context, builder, sig, args):
        if _is_vector(sig.return_type):
            args = _widen(builder, sig.args, args)
        return builder.select(builder.fcmp_ordered("<", args[0], args[1]), args[2], args[3])

    return t(*arg_types), generate


@intrinsic
def _quadrant(typing, n, s, c):
    """(sin, cos) of n pi/2 + r from (sin r, cos r) and the integer-valued n."""
    t = n if _is_vector(n) else types.float64

    def generate(context, builder, sig, args):
        n, s, c = args
        integer = ir.VectorType(_I64, LANES) if _is_vector(sig.args[0]) else _I64

        def constant(v):
            return ir.Constant(integer, [v] * LANES if _is_vector(sig.args[0]) else v)

        q = builder.fptosi(n, integer)
        odd = builder.icmp_signed("!=", builder.and_(q, constant(1)), constant(0))
        sine, cosine = builder.select(odd, c, s), builder.select(odd, s, c)
        flip_s = builder.shl(builder.and_(q, constant(2)), constant(62))
        flip_c = builder.shl(builder.and_(builder.add(q, constant(1)), constant(2)), constant(62))
        sine = builder.bitcast(builder.xor(builder.bitcast(sine, integer), flip_s), n.type)
        cosine = builder.bitcast(builder.xor(builder.bitcast(cosine, integer), flip_c), n.type)
        return context.make_tuple(builder, sig.return_type, (sine, cosine))

    return types.UniTuple(t, 2)(t, t, t), generate


@helper
def sincos(x):
    """Sine and cosine; two-part reduction by pi/2 with fused products, then the fdlibm kernels.  Accurate to an ulp
    or two for |x| < 1e6; larger arguments lose digits but stay finite."""
    n = nearest(x * 0.6366197723675814)
    r = fnma(n, 6.123233995736766e-17, fnma(n, 1.5707963267948966, x))
    z = r * r
    p = fma(z, 1.58969099521155010221e-10, -2.50507602534068634195e-08)
    p = fma(z, fma(z, fma(z, p, 2.75573137070700676789e-06), -1.98412698298579493134e-04), 8.33333333332248946124e-03)
    s = fma(r * z, fma(z, p, -1.66666666666666324348e-01), r)
    p = fma(z, -1.13596475577881948265e-11, 2.08757232129817482790e-09)
    p = fma(z, fma(z, fma(z, p, -2.75573143513906633035e-07), 2.48015872894767294178e-05), -1.38888888888741095749e-03)
    c = fma(z * z, fma(z, p, 4.16666666666666019037e-02), fnma(0.5, z, 1.0))
    return _quadrant(n, s, c)


def arctan2(y, x):
    """Angle of the point (x, y), lane by lane (the C library's function: used per knot, not per degree of freedom)."""
    raise TypeError("arctan2 of lanes is for compiled kernels")


@overload(arctan2)
def _overload_arctan2(y, x):
    if _is_vector(y) or _is_vector(x):

        def implementation(y, x):
            r = y
            for k in range(LANES):
                r = with_lane(r, k, math.atan2(lane(y, k), lane(x, k)))
            return r

        return implementation
    return lambda y, x: math.atan2(y, x)


@intrinsic
def align_stack(typing, ws):
    """Align the caller's stack frame to the vector size, so that spilled registers do not straddle cache lines.

    A dummy slot with that alignment, kept alive by an empty assembly statement, does it; large kernels gain a quarter.
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


def aligned_zeros(*shape: int) -> np.ndarray:
    """The same, zeroed."""
    array = aligned_empty(*shape)
    array[...] = 0.0
    return array
