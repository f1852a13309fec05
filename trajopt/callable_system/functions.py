"""A user's function g(x, u) at many points: plain Python, Python on batches, or compiled by numba.

Every kind offers ``evaluate(X, U)``: X (K, nx) and U (K, nu), real or complex, give g (K, nx).  A point that is not
finite, or at which the function fails as arithmetic does (division by zero, overflow, a singular matrix), gives a row
of NaN: a line search that tries a wild step must be able to go on.  All other exceptions are the user's to see.
"""

import inspect
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import is_jitted, overload

from dynamics.simd import LANES, launch

# --------------------------------------------------------------------------------------------
# Compiled loops over a user's numba function.
#
# numba cannot cache on disk what calls a function passed in at run time, so each loop is a closure over the user's
# function, made and compiled when it is first needed and kept as long as the process.  The function itself is compiled
# again from its source, with division by zero giving inf as in numpy, once for float64 and, for complex steps, once for
# complex128.


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


# --------------------------------------------------------------------------------------------
# Knots over threads, as the rigid-body kernels do it: disjoint outputs, so results do not depend on their number.


POINT_NUMBERS = 10
"""Work of one evaluation of a user's function in the measure of `launch`: 100 ns would be 30 or more, but how cheap the
function is nobody knows, and a hand-over that does not pay costs more than one that is missed."""


def over_threads(loop: Callable[..., Any], knots: int, points: int, *args: Any) -> None:
    """loop(first, last, *args) over all knots, each of so many evaluations, in parallel where that pays."""

    def drive(first, last, work, *args):
        loop(first * LANES, min(last * LANES, knots), *args)

    launch(drive, knots, 0, *args, effort=POINT_NUMBERS * points * LANES)


# --------------------------------------------------------------------------------------------
# The kinds of functions.

ARITHMETIC = (ArithmeticError, np.linalg.LinAlgError)
"""What a diverging trajectory raises: ZeroDivisionError, OverflowError, FloatingPointError, singular matrices."""

BLOCK = 1 << 13
"""Points that a Python function of batches is given at once, at most: they stay in the processor's cache."""

FEW = 4
"""Points at which a compiled function is called from Python."""


TIMES = {"t", "time"}
STATES = (["x"], ["y"], ["z"], ["q"], ["s"], ["state"])
"""Names of a first argument that is time, where another one follows that is the state."""


class SlowDynamicsWarning(UserWarning):
    """The dynamics are plain Python, called once per knot: a hundred times slower than compiled."""


class Function:
    """g(x, u) of ny numbers, by default nx, at many points; subclasses evaluate it."""

    compiled = False

    def __init__(self, name: str, function: Callable, nx: int, nu: int, ny: int | None = None) -> None:
        self.name, self.function, self.nx, self.nu = name, function, nx, nu
        self.ny = nx if ny is None else ny

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, ny) at X (K, nx), U (K, nu); NaN where it is not defined."""
        raise NotImplementedError

    def at(self, x: np.ndarray, u: np.ndarray) -> np.ndarray | None:
        """g (ny,) at one finite point x (nx,), u (nu,), as cheaply as can be; None where it is not defined."""
        y = self.evaluate(x[None], u[None])[0]
        return y if np.isfinite(y).all() else None

    def returned_kind(self, x: np.ndarray, u: np.ndarray) -> str:
        """The name of the numbers that the function itself returns at one point."""
        return "float64"

    def displaced(self, X: np.ndarray, U: np.ndarray, D: np.ndarray) -> np.ndarray:
        """g (K, m, ny) at z_t + D_i, z = [x; u], for D (m, nx + nu) real or complex."""
        (K, n), m = X.shape, len(D)
        Y = np.empty((K, m, self.ny), np.result_type(X, D))
        knots = max(1, BLOCK // m)
        for t in range(0, K, knots):
            block = slice(t, min(K, t + knots))
            x, u = X[block, None] + D[:, :n], U[block, None] + D[:, n:]
            points = len(x) * m
            Y[block] = self.evaluate(x.reshape(points, n), u.reshape(points, self.nu)).reshape(-1, m, self.ny)
        return Y

    def contracted(self, X: np.ndarray, U: np.ndarray, mu: np.ndarray, D: np.ndarray) -> np.ndarray:
        """mu_t'g (K, m) at the same points, mu (K, ny)."""
        return np.einsum("kmi,ki->km", self.displaced(X, U, D), mu)


def wants_output(function: Callable) -> bool:
    """True for the form function(x, u, out), which writes its result in place."""
    try:
        parameters = inspect.signature(getattr(function, "py_func", function)).parameters.values()
    except (TypeError, ValueError):  # a builtin without signature
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return sum(p.default is p.empty for p in positional) == 3


def returning(function: Callable, width: int) -> Callable:
    """The form function(x, u) -> value of a plain function that may write in place."""
    if not wants_output(function):
        return function

    def call(x, u):
        out = np.empty((*x.shape[:-1], width), np.result_type(x, u))
        function(x, u, out)
        return out

    return call


def in_order(name: str, function: Any) -> Any:
    """The form function(x, u), or function(x), of a function that takes them by keywords, or as (u, x) by these names;
    TypeError for a list of functions and for a function of time."""
    if isinstance(function, (list, tuple)):
        raise TypeError(
            f"{name}: got {len(function)} functions, expected one: for phases count knots in one more state, and "
            "select by np.where(x[-1] < ..., ...) in one function (page 'Use your own function: dynamics')"
        )
    try:
        parameters = inspect.signature(getattr(function, "py_func", function)).parameters.values()
    except (TypeError, ValueError):  # a builtin without signature, or nothing to call
        return function
    wanted = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names = [p.name for p in wanted]
    if (len(names) > 2 and not TIMES.isdisjoint(names)) or (names[:1] and names[0] in TIMES and names[1:] in STATES):
        raise TypeError(
            f"{name}: got a function of time, ({', '.join(names)}), expected one of x and u: make time the last state, "
            "whose rate is 1 and which begins at 0, and read x[-1] (page 'Use your own function: dynamics')"
        )
    keywords = [p.name for p in wanted if p.kind is p.KEYWORD_ONLY]
    if names == ["u", "x"]:
        if is_jitted(function):
            return njit(lambda x, u: function(u, x))
        return partial(_with_keywords, function, 0, ("x", "u"))
    if not keywords or len(names) > 2:
        return function
    places = keywords if sorted(keywords) != ["u", "x"] else ["x", "u"]
    call = _with_keyword if len(names) == 1 else _with_keywords
    return partial(call, function, len(names) - len(keywords), tuple(places))


def _with_keyword(function, positional, keywords, x):
    return function(**{keywords[0]: x})


def _with_keywords(function, positional, keywords, x, u):
    values = (x, u)
    return function(*values[:positional], **dict(zip(keywords, values[positional:], strict=True)))


def of_one_point(name: str, function: Callable, vectorized: bool, library: str) -> Callable:
    """The form function(x, u) of one point for a library that maps over points, of a function of batches if it is
    vectorized; TypeError for one that writes in place."""
    if wants_output(function):
        raise TypeError(f"{name}: writes to its argument out, expected a function that returns its value for {library}")
    return (lambda x, u: function(x[None], u[None])[0]) if vectorized else function


class _PythonFunction(Function):
    def __init__(self, name: str, function: Callable, nx: int, nu: int, ny: int | None = None) -> None:
        super().__init__(name, function, nx, nu, ny)
        self._call = returning(function, self.ny)

    def returned_kind(self, x: np.ndarray, u: np.ndarray) -> str:
        """The name of the numbers that the function itself returns at one point."""
        try:
            return _array(self.name, self._call(x, u)).dtype.name
        except ARITHMETIC:
            return "float64"


class PointFunction(_PythonFunction):
    """A Python function of one point."""

    def at(self, x: np.ndarray, u: np.ndarray) -> np.ndarray | None:
        """g (ny,) by one call."""
        with np.errstate(all="ignore"):
            try:
                return _checked(self.name, self._call(x, u), (self.ny,), x.dtype)
            except ARITHMETIC:
                return None

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, ny), one call per point."""
        Y = undefined((len(X), self.ny), np.result_type(X, U))
        finite = np.isfinite(X).all(axis=1) & np.isfinite(U).all(axis=1)
        with np.errstate(all="ignore"):
            for t in np.flatnonzero(finite):
                try:
                    y = self._call(X[t], U[t])
                except ARITHMETIC:
                    continue
                Y[t] = _checked(self.name, y, (self.ny,), Y.dtype)
        return Y


class BatchFunction(_PythonFunction):
    """A Python function of many points, (K, nx) and (K, nu)."""

    def returned_kind(self, x: np.ndarray, u: np.ndarray) -> str:
        """The name of the numbers that the function itself returns at one point."""
        return super().returned_kind(x[None], u[None])

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, ny) in one call, or one point at a time if that call fails."""
        with np.errstate(all="ignore"):
            try:
                y = self._call(X, U)
            except ARITHMETIC:
                if len(X) == 1:
                    return undefined((1, self.ny), np.result_type(X, U))
                return np.concatenate([self.evaluate(X[t : t + 1], U[t : t + 1]) for t in range(len(X))])
        number = np.result_type(X, U)
        return _checked(self.name, y, (len(X), self.ny), number).astype(number, copy=False)


class CompiledFunction(Function):
    """A numba function of one point, called in compiled loops, several knots per thread; `by_point` calls it for a few.

    Loops are compiled for each function, which takes seconds, so that a few points are better left to Python."""

    compiled = True

    def __init__(
        self, name: str, function: Any, nx: int, nu: int, ny: int | None = None, by_point: PointFunction | None = None
    ) -> None:
        super().__init__(name, function, nx, nu, ny)
        self.in_place = wants_output(function)
        self.by_point = PointFunction(name, function, nx, nu, ny) if by_point is None else by_point

    def at(self, x: np.ndarray, u: np.ndarray) -> np.ndarray | None:
        """g (ny,) by one call from Python."""
        return self.by_point.at(x, u)

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, ny) at X (K, nx), U (K, nu), both real."""
        if len(X) <= FEW:
            return self.by_point.evaluate(plain(X), plain(U))
        return self.displaced(X, U, np.zeros((1, self.nx + self.nu)))[:, 0]

    def displaced(self, X: np.ndarray, U: np.ndarray, D: np.ndarray) -> np.ndarray:
        """g (K, m, ny) at z_t + D_i."""
        Y = np.empty((len(X), len(D), self.ny), D.dtype)
        return self._run(displaced_loop(self.function, self.in_place), len(D), (X, U), D, Y)

    def contracted(self, X: np.ndarray, U: np.ndarray, mu: np.ndarray, D: np.ndarray) -> np.ndarray:
        """mu_t'g (K, m) at the same points."""
        Y = np.empty((len(X), len(D)), D.dtype)
        return self._run(contracted_loop(self.function, self.in_place), len(D), (X, U, mu), D, Y)

    def _run(self, loop, m, knots, D, Y):
        knots, D, K = [plain(a) for a in knots], plain(D, D.dtype), len(Y)
        try:
            over_threads(loop, K, m, *knots, D, Y)
        except ARITHMETIC:
            for t in range(K):
                for i in range(m):
                    try:
                        loop(0, 1, *(a[t : t + 1] for a in knots), D[i : i + 1], Y[t : t + 1, i : i + 1])
                    except ARITHMETIC:
                        Y[t, i] = undefined(Y.shape[2:], Y.dtype)
        return Y


def undefined(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """NaN, in both parts if complex: a derivative is read from the imaginary part."""
    return np.full(shape, complex(np.nan, np.nan) if np.issubdtype(dtype, np.complexfloating) else np.nan, dtype)


def plain(array: np.ndarray, dtype: Any = np.float64) -> np.ndarray:
    """C-ordered and writeable: compiled loops are then compiled for one kind of array only."""
    array = np.ascontiguousarray(array, dtype)
    return array if array.flags.writeable else array.copy()


def is_plain(*arrays: np.ndarray) -> bool:
    """True if all arrays are what `plain` returns."""
    return all(a.dtype == np.float64 and a.flags.c_contiguous and a.flags.writeable for a in arrays)


def _array(name, y):
    """What a user's function returned, as an array; TypeError for one with a mask, which would be dropped."""
    if isinstance(y, np.ma.MaskedArray):
        raise TypeError(f"{name}: returned a masked array, expected numbers without a mask")
    return np.asarray(y)


def _checked(name, y, shape, number):
    y = _array(name, y)
    if y.dtype.kind not in ("fiuc" if number.kind == "c" else "fiu"):
        raise TypeError(f"{name}: returned {y.dtype.name}, expected {number.name}")
    if y.shape != shape:
        raise ValueError(f"{name}: returned shape {y.shape}, expected {shape}")
    return y
