"""The operations of a program, one instruction for all its lanes."""

import math

from dynamics.simd import LANES, absolute, arctan2, fma, fms, fnma, helper, kernel, lane, load, sincos, sqrt, store

WIDTH = 5
"""Numbers of an instruction."""

NAMES = (
    "add", "sub", "mul", "fma", "fms", "fnma", "neg", "inverse", "sqrt", "sincos", "exp", "log", "power", "arcsin",
    "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "expm1", "log1p",
    "absolute", "sign", "maximum", "minimum", "less", "inverse_or_zero",
)  # fmt: skip
CODES = {name: k for k, name in enumerate(NAMES)}
(
    ADD, SUB, MUL, FMA, FMS, FNMA, NEG, INVERSE, SQRT, SINCOS, EXP, LOG, POWER, ARCSIN, ARCCOS, ARCTAN, ARCTAN2, SINH,
    COSH, TANH, ARCSINH, ARCCOSH, ARCTANH, EXPM1, LOG1P, ABSOLUTE, SIGN, MAXIMUM, MINIMUM, LESS,
    INVERSE_OR_ZERO,
) = range(len(NAMES))  # fmt: skip
LARGE_ANGLE = 1e5
"""Beyond which the C library's sine, slower and always exact, takes over."""


@kernel
def _of_numbers(operation, x, y):
    """The functions that the C library has, of one lane."""
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


@helper
def _sincos(ws, sine, cosine, angle):
    """Both, of the angles in a register."""
    angles = load(ws, angle)
    s, c = sincos(angles)
    store(ws, sine, s)
    store(ws, cosine, c)
    for k in range(LANES):
        x = lane(angles, k)
        if abs(x) > LARGE_ANGLE:  # one of them alone: the others may not depend on it
            ws[sine, k] = math.sin(x)
            ws[cosine, k] = math.cos(x)


@kernel
def execute(ws, code, count, registers, banks):
    """Run `count` instructions on so many banks of registers, each LANES points, which lie one after the other."""
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
                _sincos(ws, w + d, w + b, w + a)
        elif operation == SQRT:
            for w in range(0, end, registers):
                store(ws, w + d, sqrt(load(ws, w + a)))
        elif operation == ABSOLUTE:
            for w in range(0, end, registers):
                store(ws, w + d, absolute(load(ws, w + a)))
        elif operation == ARCTAN2:
            for w in range(0, end, registers):
                store(ws, w + d, arctan2(load(ws, w + a), load(ws, w + b)))
        else:
            for w in range(0, end, registers):
                for k in range(LANES):
                    ws[w + d, k] = _of_numbers(operation, ws[w + a, k], ws[w + b, k])
