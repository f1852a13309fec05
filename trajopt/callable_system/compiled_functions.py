"""Compiled loops over a user's numba function.

numba cannot cache on disk what calls a function passed in at run time, so each loop is a closure over the user's
function, made and compiled when it is first needed and kept as long as the process.  The function itself is compiled
again from its source, with division by zero giving inf as in numpy, once for float64 and, for complex steps, once for
complex128.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import overload

KEPT = 128
OPTIONS: Any = {"nogil": True, "error_model": "numpy"}


@lru_cache(KEPT)
def recompiled(dispatcher: Any) -> Any:
    """The user's function with their options, but floating-point errors give inf and NaN and it has one thread."""
    options = dispatcher.targetoptions
    kept = {key: options[key] for key in ("fastmath", "boundscheck", "inline") if key in options}
    return njit(dispatcher.py_func, **kept, **OPTIONS)


@lru_cache(KEPT)
def in_place_form(dispatcher: Any, in_place: bool) -> Any:
    """g(x, u, out) from either form of the user's function."""
    g = recompiled(dispatcher)
    if in_place:
        return g

    @njit(**OPTIONS, forceinline=True)
    def into(x, u, out):
        _copy(g(x, u), out)

    return into


def _copy(y, out):
    """out[:] = y for an array or a tuple."""
    raise NotImplementedError("for compiled code only")


@overload(_copy, jit_options={"forceinline": True, "error_model": "numpy"})
def _(y, out):
    if isinstance(y, types.BaseTuple):  # spelled out, for entries of mixed types, as (x[1], 0.0) with complex x
        lines = [f"out[{i}] = y[{i}]" for i in range(len(y))]
        namespace = {}
        exec("def copy_tuple(y, out):\n    " + "\n    ".join(lines), namespace)
        return namespace["copy_tuple"]

    def copy_array(y, out):
        if y.shape != out.shape:
            raise ValueError("returned a vector of another length than nx")
        for i in range(out.shape[0]):
            out[i] = y[i]

    return copy_array


@njit(**OPTIONS)
def finite(x):
    """True if no entry of x is inf or NaN."""
    for i in range(x.shape[0]):
        if not np.isfinite(x[i]):
            return False
    return True


@lru_cache(KEPT)
def displaced_loop(dispatcher: Any, in_place: bool) -> Callable:
    """evaluate(first, last, X, U, D, Y): Y[t, i] = g([X[t]; U[t]] + D[i]) for first <= t < last, D (m, nz) and Y
    (K, m, ny) both real or both complex; NaN at points that are not finite."""
    g = in_place_form(dispatcher, in_place)

    @njit(**OPTIONS)
    def evaluate(first, last, X, U, D, Y):
        n = X.shape[1]
        z = np.empty(D.shape[1], D.dtype)
        x, u = z[:n], z[n:]
        for t in range(first, last):
            if not (finite(X[t]) and finite(U[t])):
                Y[t] = np.nan * D[0, 0]  # in both parts, if complex
                continue
            for i in range(D.shape[0]):
                displace(X[t], U[t], D[i], z)
                g(x, u, Y[t, i])

    return evaluate


@lru_cache(KEPT)
def contracted_loop(dispatcher: Any, in_place: bool) -> Callable:
    """evaluate(first, last, X, U, mu, D, Y): the same contracted with mu (K, ny), Y (K, m)."""
    g = in_place_form(dispatcher, in_place)

    @njit(**OPTIONS)
    def evaluate(first, last, X, U, mu, D, Y):
        n = X.shape[1]
        z, y = np.empty(D.shape[1], D.dtype), np.empty(mu.shape[1], D.dtype)
        x, u = z[:n], z[n:]
        for t in range(first, last):
            if not (finite(X[t]) and finite(U[t])):
                Y[t] = np.nan * D[0, 0]  # in both parts, if complex
                continue
            for i in range(D.shape[0]):
                displace(X[t], U[t], D[i], z)
                g(x, u, y)
                total = mu[t, 0] * y[0]
                for j in range(1, mu.shape[1]):
                    total += mu[t, j] * y[j]
                Y[t, i] = total

    return evaluate


@njit(**OPTIONS)
def displace(x, u, d, z):
    """z = [x; u] + d."""
    n = x.shape[0]
    for j in range(n):
        z[j] = x[j] + d[j]
    for j in range(u.shape[0]):
        z[n + j] = u[j] + d[n + j]


@lru_cache(KEPT)
def jacobian_loop(dispatcher: Any) -> Callable:
    """evaluate(X, U, J): J[t] = [fx fu] of the user's compiled Jacobians."""
    jacobians = recompiled(dispatcher)

    @njit(**OPTIONS)
    def evaluate(X, U, J):
        n = X.shape[1]
        for t in range(X.shape[0]):
            fx, fu = jacobians(X[t], U[t])
            J[t, :, :n] = fx
            J[t, :, n:] = fu

    return evaluate


@lru_cache(KEPT)
def hessian_loop(dispatcher: Any) -> Callable:
    """evaluate(X, U, lam, H): the blocks of H[t] from the user's compiled Hessian products."""
    products = recompiled(dispatcher)

    @njit(**OPTIONS)
    def evaluate(X, U, lam, H):
        n = X.shape[1]
        for t in range(X.shape[0]):
            Hxx, Hux, Huu = products(X[t], U[t], lam[t])
            H[t, :n, :n] = Hxx
            H[t, n:, :n] = Hux
            H[t, :n, n:] = Hux.T
            H[t, n:, n:] = Huu

    return evaluate
