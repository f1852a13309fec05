"""A user's differential equation in steps of any duration, which is one more control behind the others.

A step of h seconds of dx/dt = f(x, u) is a step of one unit of dx/dt = h f(x, u), for rules that treat all states
alike; semi-implicit Euler, which does not, is written out.
"""

from __future__ import annotations

from collections.abc import Callable

from trajopt.callable_system.functions import returning


def timed_function(function: Callable, nx: int, nu: int, vectorized: bool, semi_implicit: bool) -> Callable:
    """h f(x, u) as a function of x (nx,) and w = (u, h), or the semi-implicit step of h seconds."""
    call = returning(getattr(function, "py_func", function), nx)
    n = nx // 2

    def rate(x, w):
        f = call(x[None], w[None, :nu])[0] if vectorized else call(x, w[:nu])
        return tuple(w[nu] * f[i] for i in range(nx))

    def step(x, w):
        f = rate(x, w)
        v = [x[n + i] + f[n + i] for i in range(n)]
        return (*(x[i] + w[nu] * v[i] for i in range(n)), *v)

    return step if semi_implicit else rate
