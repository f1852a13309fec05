"""Arithmetic and elementary functions of lane numbers."""

import math
import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, overload

from dynamics.simd.compilation import FLAGS, INLINED, helper
from dynamics.simd.vector import (
    COMPLEX_VEC,
    LANES,
    VEC,
    LaneNumber,
    common_kind,
    complex_number,
    imag,
    join_parts,
    kind,
    lane,
    parts,
    real,
    with_lane,
)

# --------------------------------------------------------------------------------------------
# Operators and fused products of lane numbers, in any mixture of complex vectors, vectors and floats.
#
# All functions work on pairs (real, imaginary part), where None stands for an imaginary part that is known to be zero:
# a product with a real factor costs half of a complex one, and real arithmetic has no overhead.
#
# Where imaginary parts are so small that their products vanish beside the real parts, the real part of every result is
# that of real arithmetic to the last bit.

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


_I64 = ir.IntType(64)


def _unary(name):
    @intrinsic
    def function(typing, x):
        if x == COMPLEX_VEC:
            return None

        def generate(context, builder, sig, args):
            return call(builder, name, args[0])

        return kind(x)(kind(x)), generate

    return function


sqrt = _unary("sqrt")
nearest = _unary("rint")


@intrinsic
def select_less(typing, a, b, x, y):
    """x where a < b, else y, lane by lane; complex a and b are compared by their real parts."""
    result = common_kind((a, b, x, y))

    def generate(context, builder, sig, args):
        (a, _), (b, _), x, y = parts(builder, sig.args, args)
        less = builder.fcmp_ordered("<", a, b)
        real = builder.select(less, x[0], y[0])
        if result != COMPLEX_VEC:
            return real
        zero = ir.Constant(real.type, None)
        imag = builder.select(less, *(zero if part is None else part for part in (x[1], y[1])))
        return join_parts(builder, result, (real, imag))

    return result(*map(kind, (a, b, x, y))), generate


@overload(sqrt, jit_options=INLINED)
def _complex_sqrt(x):
    """`sqrt` of complex lanes: the root in the right half plane, if the squares of x's parts neither overflow nor both
    underflow."""
    if x != COMPLEX_VEC:
        return None

    def implementation(x):
        a, b = real(x), imag(x)
        larger = sqrt(0.5 * (select_less(a, 0.0, -a, a) + sqrt(fma(b, b, a * a))))
        smaller = select_less(0.0, larger, 0.5 * b / larger, 0.0)
        return complex_number(
            select_less(a, 0.0, select_less(smaller, 0.0, -smaller, smaller), larger),
            select_less(a, 0.0, select_less(b, 0.0, -larger, larger), smaller),
        )

    return implementation


@helper
def absolute(x):
    """|x|, lane by lane; for complex numbers x or -x, whichever has a real part of at least zero."""
    return select_less(x, 0.0, -x, x)


# ------------------------------------------------------------------------------------------------ angles
@intrinsic
def _quadrant(typing, n, s, c):
    """(sin, cos) of n pi/2 + r from (sin r, cos r) and the integer-valued n."""
    t = kind(n)

    def generate(context, builder, sig, args):
        n, s, c = args
        integer = ir.VectorType(_I64, LANES) if t == VEC else _I64

        def constant(v):
            return ir.Constant(integer, [v] * LANES if t == VEC else v)

        q = builder.fptosi(n, integer)
        odd = builder.icmp_signed("!=", builder.and_(q, constant(1)), constant(0))
        sine, cosine = builder.select(odd, c, s), builder.select(odd, s, c)
        flip_s = builder.shl(builder.and_(q, constant(2)), constant(62))
        flip_c = builder.shl(builder.and_(builder.add(q, constant(1)), constant(2)), constant(62))
        sine = builder.bitcast(builder.xor(builder.bitcast(sine, integer), flip_s), n.type)
        cosine = builder.bitcast(builder.xor(builder.bitcast(cosine, integer), flip_c), n.type)
        return context.make_tuple(builder, sig.return_type, (sine, cosine))

    return types.UniTuple(t, 2)(t, t, t), generate


def sincos(x: Any) -> tuple[Any, Any]:
    """Sine and cosine, accurate to an ulp or two for |x| < 1e6; larger arguments lose digits but stay finite.

    Complex lanes need imaginary parts of at most 0.1, more than derivatives by complex steps use."""
    raise TypeError("sincos is for compiled kernels")


def _real_sincos(x):
    """Two-part reduction by pi/2 with fused products, then the fdlibm kernels."""
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


def _complex_sincos(x):
    """sin(a + ib) = sin a cosh b + i cos a sinh b, and so on; cosh and sinh by their series, exact to rounding."""
    s, c = sincos(real(x))
    b = imag(x)
    z = b * b
    cosh = fma(z, fma(z, fma(z, fma(z, 1.0 / 40320.0, 1.0 / 720.0), 1.0 / 24.0), 0.5), 1.0)
    sinh = b * fma(z, fma(z, fma(z, fma(z, 1.0 / 362880.0, 1.0 / 5040.0), 1.0 / 120.0), 1.0 / 6.0), 1.0)
    return complex_number(s * cosh, c * sinh), complex_number(c * cosh, -(s * sinh))


@overload(sincos, jit_options=INLINED)
def _overload_sincos(x):
    return _complex_sincos if x == COMPLEX_VEC else _real_sincos


def arctan2(y: Any, x: Any) -> Any:
    """Angle of the point (x, y), lane by lane (the C library's function: used per knot, not per degree of freedom)."""
    raise TypeError("arctan2 of lanes is for compiled kernels")


@overload(arctan2)
def _overload_arctan2(y, x):
    if VEC in (y, x):

        def implementation(y, x):
            r = y
            for k in range(LANES):
                r = with_lane(r, k, math.atan2(lane(y, k), lane(x, k)))
            return r

        return implementation
    return lambda y, x: math.atan2(y, x)


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
