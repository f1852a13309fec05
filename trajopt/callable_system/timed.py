"""A user's differential equation in steps of any duration, which is one more control behind the others.

A step of h seconds of dx/dt = f(x, u) is a step of one unit of dx/dt = h f(x, u), for rules that treat all states
alike; semi-implicit Euler, which does not, is written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trajopt.callable_system.functions import returning


class TimedFunction:
    """h f(x, u) as a function of x (nx,) and w = (u, h), or the semi-implicit step of h seconds; it can be pickled
    where the user's function can."""

    def __init__(self, function: Callable, nx: int, nu: int, vectorized: bool, semi_implicit: bool) -> None:
        self._arguments = function, nx, nu, vectorized, semi_implicit
        self._nx, self._nu, self._vectorized = nx, nu, vectorized
        self._call = returning(getattr(function, "py_func", function), nx)
        self._whole = self._step if semi_implicit else self._rate

    def __reduce__(self) -> tuple[Any, ...]:
        return TimedFunction, self._arguments

    def __call__(self, x: Any, w: Any) -> np.ndarray:
        """See the class."""
        return self._whole(x, w)

    def _rate(self, x, w):
        u, h = w[: self._nu], w[self._nu]
        f = self._call(x[None], u[None])[0] if self._vectorized else self._call(x, u)
        return np.array([h * f[i] for i in range(self._nx)])

    def _step(self, x, w):
        f, n, h = self._rate(x, w), self._nx // 2, w[self._nu]
        v = [x[n + i] + f[n + i] for i in range(n)]
        return np.array([x[i] + h * v[i] for i in range(n)] + v)
