"""Elementary functions of lane numbers."""

import math
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from dynamics.simd.arithmetic import call, fma, fnma
from dynamics.simd.compilation import INLINED, helper
from dynamics.simd.vector import (
    COMPLEX_VEC,
    LANES,
    VEC,
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
