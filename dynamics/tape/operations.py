"""The operations of a program: each instruction runs on all lanes."""

import math
from typing import Any

import numpy as np
from numba.extending import overload

from dynamics.simd import (
    LANES,
    absolute,
    arctan2,
    fma,
    fms,
    fnma,
    helper,
    kernel,
    lane,
    load,
    select_less,
    sincos,
    sqrt,
    store,
    with_lane,
)
from dynamics.simd.compilation import INLINED
from dynamics.simd.vector import COMPLEX_VEC, VEC, complex_number, imag, real

WIDTH = 5
"""Integers per instruction."""

NAMES = (
    "add", "sub", "mul", "fma", "fms", "fnma", "neg", "inverse", "sqrt", "sincos", "exp", "log", "power", "arcsin",
    "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "expm1", "log1p",
    "absolute", "sign", "maximum", "minimum", "less", "inverse_or_zero", "mod", "select",
)  # fmt: skip
CODES = {name: k for k, name in enumerate(NAMES)}
(
    ADD, SUB, MUL, FMA, FMS, FNMA, NEG, INVERSE, SQRT, SINCOS, EXP, LOG, POWER, ARCSIN, ARCCOS, ARCTAN, ARCTAN2, SINH,
    COSH, TANH, ARCSINH, ARCCOSH, ARCTANH, EXPM1, LOG1P, ABSOLUTE, SIGN, MAXIMUM, MINIMUM, LESS,
    INVERSE_OR_ZERO, MOD, SELECT,
) = range(len(NAMES))  # fmt: skip
LARGE_ANGLE = 1e5
"""Angle, rad, beyond which the C library's sine is used, which is slower and always accurate."""


@kernel
def _of_numbers(operation, x, y):
    """A function of the C library for one lane."""
    if operation == EXP:
        return math.exp(x)
    if operation == LOG:
        return math.log(x)
    if operation == POWER:
        return math.pow(x, y)
    if operation == ARCSIN:
        return math.asin(x)
    if operation == ARCCOS:
        return math.acos(x)
    if operation == ARCTAN:
        return math.atan(x)
    if operation == SINH:
        return math.sinh(x)
    if operation == COSH:
        return math.cosh(x)
    if operation == TANH:
        return math.tanh(x)
    if operation == ARCSINH:
        return math.asinh(x)
    if operation == ARCCOSH:
        return math.acosh(x)
    if operation == ARCTANH:
        return math.atanh(x)
    if operation == EXPM1:
        return math.expm1(x)
    if operation == LOG1P:
        return math.log1p(x)
    if operation == INVERSE_OR_ZERO:
        return 0.0 if x == 0.0 else 1.0 / x
    if operation == MOD:
        return x % y
    if operation == SIGN:
        y = 0.0
    if x != x or y != y:
        return x + y
    if operation == SIGN:
        return (1.0 if x > 0.0 else 0.0) - (1.0 if x < 0.0 else 0.0)
    if operation == MAXIMUM:
        return x if x > y else y
    if operation == MINIMUM:
        return x if x < y else y
    return 1.0 if x < y else 0.0


def _by_lane(operation: Any, x: Any, y: Any) -> Any:
    """A function of the C library for every lane; for complex lanes to first order in the imaginary parts, or NaN."""
    raise TypeError("this is for compiled kernels")


@overload(_by_lane, jit_options=INLINED)
def _overload_by_lane(operation, x, y):
    if x == VEC:

        def of_lanes(operation, x, y):
            r = x
            for k in range(LANES):
                r = with_lane(r, k, _of_numbers(operation, lane(x, k), lane(y, k)))
            return r

        return of_lanes
    if x == COMPLEX_VEC:

        def of_complex(operation, x, y):
            r = _by_lane(operation, real(x), real(y))
            slope = r if operation == EXP else (-(r * r) if operation == INVERSE_OR_ZERO else np.nan * r)
            slope = 0.0 * r if operation == LESS or operation == SIGN else slope
            return complex_number(r, slope * imag(x))

        return of_complex
    return lambda operation, x, y: _of_numbers(operation, x, y)


def _sines(angles: Any) -> Any:
    """Sine and cosine of all lanes, for angles of any size."""
    raise TypeError("this is for compiled kernels")


@helper
def _of_large_angles(angles):
    s, c = sincos(angles)
    for k in range(LANES):
        x = lane(angles, k)
        if abs(x) > LARGE_ANGLE:  # each lane alone: a lane must not affect the others
            s, c = with_lane(s, k, math.sin(x)), with_lane(c, k, math.cos(x))
    return s, c


@overload(_sines, jit_options=INLINED)
def _overload_sines(angles):
    return (lambda angles: sincos(angles)) if angles == COMPLEX_VEC else (lambda angles: _of_large_angles(angles))


def _angle(y: Any, x: Any) -> Any:
    """`arctan2`, for complex lanes to first order in their imaginary parts."""
    raise TypeError("this is for compiled kernels")


@overload(_angle, jit_options=INLINED)
def _overload_angle(y, x):
    if x != COMPLEX_VEC:
        return lambda y, x: arctan2(y, x)

    def of_complex(y, x):
        a, b = real(x), real(y)
        return complex_number(arctan2(b, a), (a * imag(y) - b * imag(x)) / (a * a + b * b))

    return of_complex


@kernel
def execute(ws, code, count, registers, banks):
    """Run `count` instructions, one after the other, on all banks of registers, each for LANES points or one."""
    end = banks * registers
    for i in range(count):
        place = i * WIDTH
        operation, d, a, b, c = code[place], code[place + 1], code[place + 2], code[place + 3], code[place + 4]
        if operation == MUL:
            for w in range(0, end, registers):
                store(ws, w + d, load(ws, w + a) * load(ws, w + b))
        elif operation == ADD:
            for w in range(0, end, registers):
                store(ws, w + d, load(ws, w + a) + load(ws, w + b))
        elif operation == FMA:
            for w in range(0, end, registers):
                store(ws, w + d, fma(load(ws, w + a), load(ws, w + b), load(ws, w + c)))
        elif operation == FNMA:
            for w in range(0, end, registers):
                store(ws, w + d, fnma(load(ws, w + a), load(ws, w + b), load(ws, w + c)))
        elif operation == FMS:
            for w in range(0, end, registers):
                store(ws, w + d, fms(load(ws, w + a), load(ws, w + b), load(ws, w + c)))
        elif operation == SUB:
            for w in range(0, end, registers):
                store(ws, w + d, load(ws, w + a) - load(ws, w + b))
        elif operation == NEG:
            for w in range(0, end, registers):
                store(ws, w + d, -load(ws, w + a))
        elif operation == INVERSE:
            for w in range(0, end, registers):
                store(ws, w + d, 1.0 / load(ws, w + a))
        elif operation == SINCOS:
            for w in range(0, end, registers):
                sine, cosine = _sines(load(ws, w + a))
                store(ws, w + d, sine)
                store(ws, w + b, cosine)
        elif operation == SQRT:
            for w in range(0, end, registers):
                store(ws, w + d, sqrt(load(ws, w + a)))
        elif operation == ABSOLUTE:
            for w in range(0, end, registers):
                store(ws, w + d, absolute(load(ws, w + a)))
        elif operation == SELECT:
            for w in range(0, end, registers):
                store(ws, w + d, select_less(0.0, load(ws, w + a), load(ws, w + b), load(ws, w + c)))
        elif operation == ARCTAN2:
            for w in range(0, end, registers):
                store(ws, w + d, _angle(load(ws, w + a), load(ws, w + b)))
        else:
            for w in range(0, end, registers):
                store(ws, w + d, _by_lane(operation, load(ws, w + a), load(ws, w + b)))
