"""How many floating-point operations the kernels need per knot, counted by running their source on counting numbers.

A fused multiply-add counts as two, a sine and cosine as the polynomials they are, a change of sign, which is folded
into its neighbours, as none.  The compiler is off, so that the kernels are plain Python; `operations` therefore runs
this file in a process of its own and hands it the model's arrays.
"""

import json
import math
import operator
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np


def operations(*models) -> list[dict[str, int]]:
    """Floating-point operations per knot of inverse dynamics and of the four main kernels, by name, for each model.

    Raises RuntimeError, with the other process' last words, if they cannot be counted."""
    command = [sys.executable, "-m", "experiments.derivatives.flops"]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    root = Path(__file__).resolve().parents[2]
    data = pickle.dumps([(model.nq, model.arrays) for model in models])
    result = subprocess.run(command, cwd=root, env=environment, input=data, capture_output=True, check=False)
    if result.returncode:
        raise RuntimeError(f"counting operations failed: {result.stderr.decode()[-2000:]}")
    return json.loads(result.stdout)


def _counting(operation):
    def method(self, y):
        Counted.total += 1
        return Counted(operation(self.x, value(y)))

    return method


class Counted:
    """A number that counts what is done with it."""

    total = 0
    __slots__ = ("x",)
    __array_ufunc__ = None  # numpy's numbers leave their products with it to this class

    def __init__(self, x):
        self.x = float(x)

    def __neg__(self):
        return Counted(-self.x)

    __add__ = __radd__ = _counting(operator.add)
    __mul__ = __rmul__ = _counting(operator.mul)
    __sub__, __truediv__ = _counting(operator.sub), _counting(operator.truediv)
    __rsub__, __rtruediv__ = _counting(lambda a, b: b - a), _counting(lambda a, b: b / a)


def value(y) -> float:
    """The plain number."""
    return y.x if isinstance(y, Counted) else float(y)


def _fused(sign_product, sign_addend):
    def function(a, b, c):
        Counted.total += 2
        return Counted(sign_product * value(a) * value(b) + sign_addend * value(c))

    return function


def _replace_numbers() -> None:
    """Put counting functions in the place of the compiler's, before any kernel imports them."""
    from dynamics import simd
    from dynamics.simd import functions

    def load(ws, i):
        return ws[i] if isinstance(ws[i], Counted) else Counted(ws[i])

    def store(ws, i, x):
        ws[i] = x

    def unary(function):
        def counting(x):
            Counted.total += 1
            return Counted(function(value(x)))

        return counting

    fused = {"fma": _fused(1, 1), "fnma": _fused(-1, 1), "fms": _fused(1, -1)}
    replaced = {
        "load": load, "store": store, "splat": lambda ws, x: Counted(x), "align_stack": lambda ws: None,
        "sqrt": unary(math.sqrt), "sincos": functions._real_sincos, **fused,
    }  # fmt: skip
    in_sincos = {"nearest": unary(round), "_quadrant": lambda n, s, c: (s, c), **fused}
    for module, names in ((simd, replaced), (functions, in_sincos)):
        for name, function in names.items():
            setattr(module, name, function)


def _counts(nq, m) -> dict[str, int]:
    """Operations of each kernel for the robot of arrays m."""
    from dynamics.algorithms import inverse_dynamics
    from experiments.derivatives.main_kernels import ALGORITHMS

    drivers = {"inverse dynamics": (inverse_dynamics._drive, (None,))}
    drivers |= {name: (algorithm.drive, algorithm.rest) for name, algorithm in ALGORITHMS.items()}
    return {name: _count(nq, m, *with_rest) for name, with_rest in drivers.items()}


def _count(nq, m, drive, rest) -> int:
    """Operations of the kernel of a declared driver, whose lanes all are as large as all of them together."""
    from dynamics.derivatives.packed import packed_size

    def numbers(size):  # any will do: no kernel branches on them
        return np.full(size, Counted(0.3), dtype=object)

    inputs = {x: np.empty((1, nq if x == "q" else len(m.dof_body))) for x in drive.inputs}
    given = dict(zip((x for x in drive.arguments if x not in (*inputs, *drive.outputs)), rest, strict=False))
    size = drive.module.workspace_size(m, *((inputs | given).get(x) for x in drive.arguments))
    lanes = {x: numbers(array.shape[1]) for x, array in inputs.items()}
    lanes |= {x: numbers(packed_size(m)) for x in drive.per_chunk}
    lanes |= {x: b(*map(numbers, [size] * len(b._fields))) for x, b in drive.scratch.items() if isinstance(b, type)}
    arguments = [lanes[x] if x in lanes else given[x] if x in given else numbers(size) for x in drive.parameters]
    Counted.total = 0
    drive.kernel(m, *arguments)
    return Counted.total


if __name__ == "__main__":
    _replace_numbers()
    print(json.dumps([_counts(*model) for model in pickle.load(sys.stdin.buffer)]))
