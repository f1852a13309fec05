"""Operators and fused products of lane numbers, in any mixture of complex vectors, vectors and floats.

All functions work on pairs (real, imaginary part), where None stands for an imaginary part that is known to be zero: a
product with a real factor costs half of a complex one, and real arithmetic has no overhead.

Where imaginary parts are so small that their products vanish beside the real parts, the real part of every result is
that of real arithmetic to the last bit.
"""

import operator

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin

from dynamics.simd.compilation import FLAGS
from dynamics.simd.vector import LANES, LaneNumber, common_kind, join_parts, kind, parts

_MATH = tuple(sorted(FLAGS))
_REAL_ZERO = (None, None)


def call(builder, name, *args):
    """Call of LLVM's function of doubles or vectors, such as fma or sqrt."""
    t = args[0].type
    suffix = f"v{LANES}f64" if isinstance(t, ir.VectorType) else "f64"
    function_type = ir.FunctionType(t, [t] * len(args))
    return builder.call(cgutils.get_or_insert_function(builder.module, function_type, f"llvm.{name}.{suffix}"), args)


# ------------------------------------------------------------------------------------------------ on pairs
def _plus(builder, x, y):
    if x is None or y is None:
        return y if x is None else x
    return builder.fadd(x, y, flags=_MATH)


def _minus(builder, x):
    return None if x is None else builder.fneg(x)


def _plus_product(builder, total, x, y):
    """total + x y"""
    if x is None or y is None:
        return total
    return builder.fmul(x, y, flags=_MATH) if total is None else call(builder, "fma", x, y, total)


def _add(builder, a, b):
    return tuple(_plus(builder, x, y) for x, y in zip(a, b, strict=True))


def _negate(builder, a):
    return tuple(_minus(builder, x) for x in a)


def _subtract(builder, a, b):
    return _add(builder, a, _negate(builder, b))


def _fused(builder, a, b, c):
    """a b + c"""
    (ar, ai), (br, bi) = a, b
    real = _plus_product(builder, c[0], ar, br)
    imag = _plus_product(builder, c[1], ai, br)
    return _plus_product(builder, real, _minus(builder, ai), bi), _plus_product(builder, imag, ar, bi)


def _multiply(builder, a, b):
    return _fused(builder, a, b, _REAL_ZERO)


def _divide(builder, a, b):
    """a / b; both are multiplied by -i first where b's imaginary part is the larger one (Smith 1962)."""
    (x, y), (u, v) = a, b
    if v is None:
        return tuple(None if part is None else builder.fdiv(part, u, flags=_MATH) for part in a)
    y = ir.Constant(x.type, None) if y is None else y
    steep = builder.fcmp_ordered("<", call(builder, "fabs", u), call(builder, "fabs", v))
    x, y = builder.select(steep, y, x), builder.select(steep, builder.fneg(x), y)
    u, v = builder.select(steep, v, u), builder.select(steep, builder.fneg(u), v)
    r = builder.fdiv(v, u)
    d = call(builder, "fma", v, r, u)
    real, imag = call(builder, "fma", y, r, x), call(builder, "fma", builder.fneg(x), r, y)
    return builder.fdiv(real, d), builder.fdiv(imag, d)


# ------------------------------------------------------------------------------------------------ operators
def _lowered(emit):
    """Numba's function of values from a function of pairs."""

    def lower(context, builder, sig, args):
        return join_parts(builder, sig.return_type, emit(builder, *parts(builder, sig.args, args)))

    return lower


def _register_binary(op, emit):
    @infer_global(op)
    class _Template(AbstractTemplate):
        def generic(self, args, kws):
            known = all(isinstance(a, LaneNumber | types.Number) for a in args)
            if len(args) == 2 and known and any(isinstance(a, LaneNumber) for a in args):
                return signature(common_kind(args), *map(kind, args))
            return None

    for pair in ((LaneNumber, LaneNumber), (LaneNumber, types.Float), (types.Float, LaneNumber)):
        lower_builtin(op, *pair)(_lowered(emit))


for _op, _inplace, _emit in (
    (operator.add, operator.iadd, _add),
    (operator.sub, operator.isub, _subtract),
    (operator.mul, operator.imul, _multiply),
    (operator.truediv, operator.itruediv, _divide),
):
    _register_binary(_op, _emit)
    _register_binary(_inplace, _emit)


@infer_global(operator.neg)
class _NegTemplate(AbstractTemplate):
    def generic(self, args, kws):
        return signature(args[0], args[0]) if isinstance(args[0], LaneNumber) else None


lower_builtin(operator.neg, LaneNumber)(_lowered(_negate))


# ------------------------------------------------------------------------------------------------ fused products
def _fused_product(emit, doc):
    @intrinsic
    def function(typing, a, b, c):
        arg_types = (a, b, c)
        return common_kind(arg_types)(*map(kind, arg_types)), _lowered(emit)

    function.__doc__ = doc
    return function


fma = _fused_product(_fused, "a b + c with one rounding (of complex numbers: one per product of parts).")
fnma = _fused_product(lambda builder, a, b, c: _fused(builder, _negate(builder, a), b, c), "c - a b, likewise.")
fms = _fused_product(lambda builder, a, b, c: _fused(builder, a, b, _negate(builder, c)), "a b - c, likewise.")
