"""How many floating-point operations the kernels need per knot, counted by running their source on counting numbers.

A fused multiply-add counts as two, a sine and cosine as the polynomials they are.  The compiler is off, so that the
kernels are plain Python; `operations` therefore runs this file in a process of its own and hands it the model's arrays.
"""

import json
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np

SINCOS = 30  # reduction and the two polynomials of dynamics.simd.sincos


def operations(model) -> dict[str, int]:
    """Floating-point operations per knot of the main kernels, by name."""
    command = [sys.executable, "-m", "experiments.derivatives.flops"]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    root = Path(__file__).resolve().parents[2]
    data = pickle.dumps((model.nq, model.arrays))
    result = subprocess.run(command, cwd=root, env=environment, input=data, capture_output=True, check=False)
    if result.returncode:
        raise RuntimeError(f"counting operations failed: {result.stderr.decode()[-2000:]}")
    return json.loads(result.stdout)


class Counted:
    """A number that counts what is done with it."""

    total = 0
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = float(x)

    def _with(self, y, operation):
        Counted.total += 1
        return Counted(operation(self.x, value(y)))

    def __add__(self, y):
        return self._with(y, lambda a, b: a + b)

    def __sub__(self, y):
        return self._with(y, lambda a, b: a - b)

    def __mul__(self, y):
        return self._with(y, lambda a, b: a * b)

    def __truediv__(self, y):
        return self._with(y, lambda a, b: a / b)

    def __rsub__(self, y):
        return self._with(y, lambda a, b: b - a)

    def __rtruediv__(self, y):
        return self._with(y, lambda a, b: b / a)

    def __neg__(self):  # folded into the neighbouring fused operation
        return Counted(-self.x)

    __radd__, __rmul__ = __add__, __mul__


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
    import dynamics.simd as simd

    def load(ws, i):
        return ws[i]

    def store(ws, i, x):
        ws[i] = x if isinstance(x, Counted) else Counted(x)

    def sqrt(x):
        Counted.total += 1
        return Counted(math.sqrt(value(x)))

    def sincos(x):
        Counted.total += SINCOS
        return Counted(math.sin(value(x))), Counted(math.cos(value(x)))

    replaced = {
        "load": load, "store": store, "sqrt": sqrt, "sincos": sincos, "splat": lambda ws, x: Counted(x),
        "align_stack": lambda ws: None, "fma": _fused(1, 1), "fnma": _fused(-1, 1), "fms": _fused(1, -1),
    }  # fmt: skip
    for name, function in replaced.items():
        setattr(simd, name, function)


def _counts(nq: int, m) -> dict[str, int]:
    """Operations of each kernel for the robot of arrays m."""
    from dynamics.algorithms.articulated_body import ARTICULATED, ELIMINATION
    from dynamics.algorithms.inverse_dynamics import inverse_dynamics_kernel
    from dynamics.algorithms.kinematics import BODY, DOF
    from dynamics.derivatives.forward_dynamics import forward_dynamics_first_order
    from dynamics.derivatives.hessian import inverse_dynamics_hessian_kernel
    from dynamics.derivatives.inverse_dynamics import inverse_dynamics_first_order
    from dynamics.derivatives.virtual import VIRTUAL_BODY

    nb, n = len(m.parent), len(m.dof_body)

    def numbers(size):
        return np.array([Counted(0.3 + 0.1 * math.sin(i)) for i in range(size)], dtype=object)

    state = [numbers(nq), numbers(n), numbers(n)]
    body, dof = numbers(nb * BODY), numbers(n * DOF)
    articulated, virtual = (numbers(nb * ARTICULATED), numbers(n * ELIMINATION)), numbers(nb * VIRTUAL_BODY)
    matrices = [numbers(n * n) for _ in range(7)]
    calls = {
        "inverse dynamics": lambda: inverse_dynamics_kernel(m, *state, None, body, dof, numbers(n)),
        "inverse, first order": lambda: inverse_dynamics_first_order(
            m, *state, None, body, dof, numbers(n), *matrices[:3]
        ),
        "inverse, first order + Hessian": lambda: inverse_dynamics_hessian_kernel(
            m, *state, numbers(n), None, body, dof, virtual, numbers(6 * n), numbers(n), *matrices
        ),
        "forward, first order": lambda: forward_dynamics_first_order(
            m, *state, 0.0 * numbers(n), None, body, dof, *articulated, numbers(n), numbers(n), *matrices[:3]
        ),
    }
    counts = {}
    for name, call in calls.items():
        Counted.total = 0
        call()
        counts[name] = Counted.total
    return counts


if __name__ == "__main__":
    _replace_numbers()
    print(json.dumps(_counts(*pickle.load(sys.stdin.buffer))))
