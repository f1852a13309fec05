"""The kind of function that a user gave, and the source of its derivatives."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from functools import cached_property, partial
from operator import sub
from typing import Any, NamedTuple

import numpy as np
from numba.core.errors import NumbaError
from numba.extending import is_jitted
from numpy.typing import ArrayLike

from dynamics.tape.expressions import Expressions, Tapes
from dynamics.tape.graph import Untraceable
from dynamics.tape.trace import traceable, traced
from dynamics.validation import as_array, as_choice
from trajopt.callable_system.derivatives import (
    ComplexStep,
    DerivativeSource,
    FiniteDifferences,
    Perturbing,
    UserDerivatives,
    relative_noise,
)
from trajopt.callable_system.functions import (
    BatchFunction,
    CompiledFunction,
    Function,
    PointFunction,
    plain,
    returning,
    wants_output,
)

# --------------------------------------------------------------------------------------------
# What a user's function must satisfy, tried at sample points when a system is made.


SAMPLES = 4
ANALYTIC_TOLERANCE = 1e-7
"""Relative difference up to which complex steps and differences agree; a function that is not analytic is off by its
own derivative."""


def sample_points(
    x: ArrayLike | None, u: ArrayLike | None, scale: np.ndarray, nx: int, nu: int
) -> tuple[np.ndarray, np.ndarray]:
    """The example, zeros by default, and points around it: (SAMPLES, nx), (SAMPLES, nu)."""
    x = np.zeros(nx) if x is None else as_array("x_example", x, (nx,), copy=True)
    u = np.zeros(nu) if u is None else as_array("u_example", u, (nu,), copy=True)
    offsets = 0.3 * scale * np.random.default_rng(0).standard_normal((SAMPLES, nx + nu))
    offsets[0] = 0.0
    return x + offsets[:, :nx], u + offsets[:, nx:]


def check_values(name: str, function: Function, X: np.ndarray, U: np.ndarray, give: str = "pass") -> None:
    """Raise unless the function returns finite floats of shape (ny,) at the example and leaves its arguments alone.

    give: the verb of the advice to give an example."""
    x, u = X[:1].copy(), U[:1].copy()
    source = getattr(function.function, "py_func", None)
    try:
        if source is not None:  # of a compiled function too: compiled code does not look at shapes
            PointFunction(name, source, function.nx, function.nu, function.ny).evaluate(x, u)
        y = function.evaluate(x, u)
    except NumbaError as error:
        raise TypeError(f"{name}: numba cannot compile it for x (nx,) and u (nu,) of float64: {error}") from None
    if not (np.array_equal(x, X[:1]) and np.array_equal(u, U[:1])):
        raise ValueError(f"{name}: changes its arguments in place, expected a new array")
    if not np.isfinite(y).all():
        at = f"x = {X[0]}" + (f", u = {U[0]}" if U.shape[1] else "")
        got = function.failure(x[0], u[0]) or f"got {y[0]}"
        raise ValueError(
            f"{name}: {got} at {at}, expected finite numbers ({give} x_example=, u_example= if "
            "this point is not a valid one)"
        )


def check_mechanical(function: Function, X: np.ndarray, U: np.ndarray) -> None:
    """Raise unless x = [q; v] and the first half of xdot is v."""
    nx = X.shape[1]
    if nx % 2:
        raise ValueError(f"nx: got {nx}, expected an even number for semi_implicit_euler, whose state is [q; v]")
    Y = function.evaluate(X, U)
    n = nx // 2
    valid = np.isfinite(Y).all(axis=1)
    wrong = np.abs(Y[valid, :n] - X[valid, n:]).max() > 1e-12 * (1.0 + np.abs(X[valid]).max())
    if wrong:
        raise ValueError(
            "xdot: its first half is not v, the second half of the state, as integrator='semi_implicit_euler' wants "
            "(x = [q; v], xdot = [v; a]); choose another integrator"
        )


def why_not_complex(function: Function, scale: np.ndarray, X: np.ndarray, U: np.ndarray) -> str | None:
    """Why complex steps do not give the derivatives of the function; None if they do."""
    valid = np.isfinite(function.evaluate(X, U)).all(axis=1)
    X, U = X[valid], U[valid]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", np.exceptions.ComplexWarning)  # where an imaginary part is dropped
            got = ComplexStep(function, scale).jacobians(X, U)
    except Exception as error:  # whatever it is, real numbers did not raise it, neither in numba nor in the function
        return f"does not accept complex numbers ({type(error).__name__})"
    wanted = FiniteDifferences(function, scale).jacobians(X, U)
    valid = np.isfinite(wanted).all(axis=(1, 2))
    error = np.abs(got - wanted)[valid].max(initial=0.0)
    size = np.abs(wanted * scale)[valid].max(initial=0.0) + np.abs(function.evaluate(X, U)).max()
    if not error <= ANALYTIC_TOLERANCE * size:
        return "is not analytic (abs, real parts, conjugates, or a corner)"
    return None


# --------------------------------------------------------------------------------------------
# Derivatives of a user's function from its trace (`dynamics.tape`).
#
# A trace is compared with the function: at the sample points when it is made, and at one point of every call.  Where
# the function says something else by then, because what it closes over has changed, it is traced anew.


AGREEMENT = 1e-12
"""Difference up to which trace and function agree, relative to the value and to its change by rounding of arguments."""
BESIDE = 1e-9
"""Distance, relative to the arguments, of the points that are tried where trace and function differ."""


def expressions_of(function: Function, vectorized: bool) -> Expressions:
    """The function as expressions; `Untraceable` says why not."""
    call = returning(traceable(function.function), function.ny)

    def y(x, u):
        value = traced(call, x[None], u[None])[0] if vectorized else traced(call, x, u)
        if value.shape != (function.ny,):
            raise Untraceable(f"it returns shape {value.shape}")
        return value

    return Expressions(function.nx, function.nu, y)


class TracedDerivatives:
    """Derivatives of a function that can be traced.

    `Untraceable` is raised where it cannot, or differs from its trace at X (K, nx), U (K, nu).
    """

    name = "traced"

    def __init__(
        self, function: Function, vectorized: bool, otherwise: Callable[[], DerivativeSource], X: Any, U: Any
    ) -> None:
        self.function, self.otherwise, self._vectorized = function, otherwise, vectorized
        e = self.expressions = expressions_of(function, vectorized)
        self.tapes = Tapes(e, lambda: e.y[None], lambda: e.J[None], lambda: e.H[None], e.content)
        for which in range(3):  # what steps fall back on is there
            self.tapes.program(which)
        if not all(self.agrees(x, u) for x, u in zip(X, U, strict=True)):
            raise Untraceable("its trace gives other values, as those of hidden branches")

    def agrees(self, x: np.ndarray, u: np.ndarray, got: np.ndarray | None = None) -> bool:
        """True if the function, where it is finite, agrees at x (nx,), u (nu,) with its trace, whose value may be given
        (`got`)."""
        got = self.tapes.at(x, u) if got is None else got
        if not (math.isfinite(sum(got.tolist())) or (np.isfinite(x).all() and np.isfinite(u).all())):
            return True
        return self._agrees(x, u, got) or self._agrees_beside(x, u)

    def _agrees_beside(self, x, u):
        """True if both agree on either side of a point; at it they may differ, as rounding decides on which side of a
        jump they see it."""
        for side in (BESIDE, -BESIDE):
            z, w = (z + side * (1.0 + np.abs(z)) * np.linspace(1.0, 1.5, len(z)) for z in (x, u))
            if not self._agrees(z, w, self.tapes.at(z, w)):
                return False
        return True

    def _agrees(self, x, u, got):
        y = self.function.at(x, u)
        if y is None:
            return True
        wanted, values = y.tolist(), got.tolist()  # lists are faster than arrays of a few numbers
        size, off = max(map(abs, wanted)), max(map(abs, map(sub, wanted, values)))
        if off <= AGREEMENT * size or not np.isfinite(y).all():
            return True
        with np.errstate(all="ignore"):
            slopes = np.abs(self.jacobians(x[None], u[None])[0]) @ np.abs(np.concatenate([x, u]))
            return bool((np.abs(y - got) <= AGREEMENT * (size + slopes.max())).all())

    def again(self, X: np.ndarray, U: np.ndarray) -> DerivativeSource:
        """The function traced anew, or other derivatives if it does not agree at these points."""
        try:
            return TracedDerivatives(self.function, self._vectorized, self.otherwise, X, U)
        except Untraceable:
            return self.otherwise()

    @cached_property
    def linear(self) -> bool:
        """True if the Hessian is zero for all multipliers and points."""
        program, _ = self.tapes.program(2)
        return bool((program.outputs < len(program.constants)).all()) and not program.constants.any()

    @property
    def compiled_jacobians(self) -> Any:
        """Compiled Jacobians of the other derivatives."""
        return self.otherwise().compiled_jacobians

    def evaluate(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """g (K, ny)."""
        return self.tapes.evaluate(plain(X), plain(U))

    def jacobians(self, X: np.ndarray, U: np.ndarray) -> np.ndarray:
        """[g_x g_u] (K, nx, nz)."""
        return self.tapes.jacobians(plain(X), plain(U))

    def hessian_products(self, X: np.ndarray, U: np.ndarray, mu: np.ndarray) -> np.ndarray:
        """Hessian (K, nz, nz) of mu'g."""
        return self.tapes.hessian_products(plain(X), plain(U), plain(mu))


def may_have_kinks(source: DerivativeSource) -> bool:
    """True unless the function has been traced and its trace is smooth."""
    return not isinstance(source, TracedDerivatives) or source.expressions.may_have_kinks


def up_to_date(source: DerivativeSource, X: np.ndarray, U: np.ndarray, Y: np.ndarray | None = None) -> DerivativeSource:
    """The source, or what takes the place of a trace that is not the function's at a knot in the middle; Y (K, ny) are
    values of the trace."""
    if not isinstance(source, TracedDerivatives) or not X.size:
        return source
    knot = len(X) // 2
    if source.agrees(X[knot], U[knot], None if Y is None else Y[knot]):
        return source
    return source.again(X[knot : knot + 1], U[knot : knot + 1])


# --------------------------------------------------------------------------------------------
# The choice.


DERIVATIVES = ("auto", "user", "traced", "complex_step", "finite_differences", "jax", "torch")
LIBRARIES = ("jax", "torch")
LOST = 1e-3
"""Fraction of the values: derivatives that are larger than it by differences, and zero by a library, count as lost."""


class DerivativeRequest(NamedTuple):
    """What the user asked for."""

    kind: str
    jacobians: Callable | None
    hessian_products: Callable | None
    vectorized: bool
    scale: np.ndarray


def make_function(
    name: str, function: Any, nx: int, nu: int, request: DerivativeRequest, ny: int | None = None
) -> Function:
    """The user's function of ny numbers, by default nx, given as the argument `name`, for what it is; errors name what
    does not fit."""
    as_choice("derivatives", request.kind, DERIVATIVES)
    given = (name, function), ("jacobians", request.jacobians), ("hessian_products", request.hessian_products)
    for what, value in given:
        if value is not None and not callable(value):
            raise TypeError(f"{what}: got {type(value).__name__}, expected a function")
    if request.kind == "jax":
        from trajopt.callable_system.array_libraries import JaxFunction

        return JaxFunction(name, function, nx, nu, request.vectorized, ny)
    if request.kind == "torch":
        from trajopt.callable_system.array_libraries import TorchFunction

        return TorchFunction(name, function, nx, nu, request.vectorized, ny)
    if request.vectorized:
        return BatchFunction(name, function, nx, nu, ny)
    return (CompiledFunction if is_jitted(function) else PointFunction)(name, function, nx, nu, ny)


def with_library(request: DerivativeRequest, function: Any, X: np.ndarray, U: np.ndarray, ny: int) -> DerivativeRequest:
    """The request, but with the library in place of "auto" whose arrays the function of ny numbers returns: jax's or
    torch's; as it is where the function does not go through that library."""
    modules = sys.modules.get("jax"), sys.modules.get("torch")
    unknown = request.kind != "auto" or request.jacobians is not None or not callable(function)
    if unknown or is_jitted(function) or wants_output(function) or modules == (None, None):
        return request
    points = (X[:1], U[:1]) if request.vectorized else (X[0], U[0])
    kinds = {"jax": getattr(modules[0], "Array", ()), "torch": getattr(modules[1], "Tensor", ())}
    tensors = [points] if modules[1] is None else [points, tuple(map(modules[1].as_tensor, points))]
    for arguments in tensors:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = function(*arguments)
        except Exception:  # wrong for this kind of argument, or for all, which the user sees later
            continue
        for kind, array in kinds.items():
            if any(isinstance(x, array) for x in (value if isinstance(value, (tuple, list)) else (value,))):
                found = request._replace(kind=kind)
                return found if _goes_through(found, function, X, U, ny) else request
        return request
    return request


def _goes_through(request, function, X, U, ny):
    """True if the library can evaluate the function, or finds that it returns another shape."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make_function("function", function, X.shape[1], U.shape[1], request, ny).evaluate(X[:1], U[:1])
    except Exception as error:
        return "returned shape" in str(error)
    return True


def _by_library(function: Any, request: DerivativeRequest, X: np.ndarray, U: np.ndarray) -> DerivativeSource:
    """Derivatives by jax or torch; ValueError where these lose them on the way to the values."""
    noise = relative_noise(function, request.scale, X[1:], U[1:])
    if request.kind == "jax":
        from trajopt.callable_system.array_libraries import JaxDerivatives as Source
    else:
        from trajopt.callable_system.array_libraries import TorchDerivatives as Source
    source = Source(function, noise)
    got = source.jacobians(X, U)
    wanted = FiniteDifferences(function, request.scale, noise).jacobians(X, U) * request.scale
    size = LOST * np.abs(function.evaluate(X, U)).max(initial=0.0)
    lost = (got == 0.0).all(axis=0) & (np.abs(wanted) > size).all(axis=0)
    if lost.any():
        i, j = np.argwhere(lost)[0]
        raise ValueError(
            f"{function.name}: got number {i} without a derivative by number {j} of [x; u] from {request.kind}, on "
            "which it depends; expected no detach, stop_gradient, numpy or torch.tensor (but torch.as_tensor) on "
            "the way"
        )
    return source


def check_precision(function: Function, x: np.ndarray, u: np.ndarray) -> None:
    """TypeError for what returns numbers in single precision, of which differences are of little use."""
    kind = function.returned_kind(x, u)
    if kind in ("float16", "float32"):
        raise TypeError(
            f"{function.name}: returned {kind}, expected float64, of which derivatives can be taken: compute in "
            "float64 (x.astype(float), net.double(), all of it in jax.numpy or torch), pass jacobians=, or "
            "derivatives='finite_differences' for rough ones"
        )


def make_source(function: Function, request: DerivativeRequest, X: np.ndarray, U: np.ndarray) -> DerivativeSource:
    """Derivatives of the function, tried at the sample points X, U."""
    if request.hessian_products is not None and request.jacobians is None:
        raise ValueError("jacobians: got None with hessian_products, expected both")
    if request.jacobians is not None:
        if request.kind not in ("auto", "user"):
            raise ValueError(f"derivatives: got {request.kind!r} with jacobians, expected 'auto' or 'user'")
        given = request.jacobians, request.hessian_products, request.vectorized, request.scale
        user = UserDerivatives(function, *given, X, U)
        user.noise = relative_noise(function, request.scale, X[1:], U[1:])
        return user
    if request.kind == "user":
        raise ValueError("jacobians: got None, expected a function for derivatives='user'")
    if request.kind in LIBRARIES:
        return _by_library(function, request, X, U)
    reason = None
    if request.kind in ("auto", "traced"):
        try:
            return TracedDerivatives(function, request.vectorized, partial(numerical, function, request, X, U), X, U)
        except Untraceable as error:
            if request.kind == "traced":
                raise ValueError(
                    f"derivatives: got 'traced' for a function that cannot be: {error}; expected 'auto' or another"
                ) from None
            reason = str(error)
        check_precision(function, X[0], U[0])
    source = numerical(function, request, X, U)
    source.why_not_traced = reason
    return source


def numerical(function: Function, request: DerivativeRequest, X: np.ndarray, U: np.ndarray) -> Perturbing:
    """Derivatives from values: complex steps, or else differences."""
    if request.kind == "finite_differences":
        return _differences(function, request, X, U)
    reason = why_not_complex(function, request.scale, X, U)
    if reason is None:
        return ComplexStep(function, request.scale)
    if request.kind == "complex_step":
        raise ValueError(f"derivatives: got 'complex_step' for a function that {reason}, expected 'finite_differences'")
    return _differences(function, request, X, U)


def _differences(function: Function, request: DerivativeRequest, X: np.ndarray, U: np.ndarray) -> FiniteDifferences:
    """Differences with steps for the noise of the function."""
    return FiniteDifferences(function, request.scale, relative_noise(function, request.scale, X[1:], U[1:]))


# --------------------------------------------------------------------------------------------
# What messages say where all of a problem has to be compiled.


def words_of_python(argument: str, function: Function, source: DerivativeSource, otherwise: str) -> str:
    """Why a user's function is not compiled, the argument as which it was given among these words; otherwise: what
    keeps it from that where it is traced."""
    why = otherwise
    if not isinstance(source, TracedDerivatives):
        reason = getattr(source, "why_not_traced", None)
        kind = f"has derivatives of kind {source.name!r}, expected 'traced'"
        why = kind if reason is None else f"is not traced: {reason}"
    return f"its {argument}, {_name_of(function.function)}, {why}; page 'Use your own function: dynamics'"


def _name_of(function: Any) -> str:
    """What a user calls a function, which may be wrapped here in others."""
    while isinstance(function, partial):
        inside = function.args[:1]
        function = inside[0] if inside and callable(inside[0]) else function.func
    function = getattr(function, "py_func", function)
    return getattr(function, "__name__", type(function).__name__)
