"""Which kind of function a user gave, and where its derivatives come from."""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba.extending import is_jitted

from dynamics.tape.graph import Untraceable
from dynamics.validation import as_choice
from trajopt.callable_system.checks import why_not_complex
from trajopt.callable_system.derivatives import (
    ComplexStep,
    DerivativeSource,
    FiniteDifferences,
    Perturbing,
    relative_noise,
)
from trajopt.callable_system.functions import BatchFunction, CompiledFunction, Function, PointFunction, wants_output
from trajopt.callable_system.traced import TracedDerivatives
from trajopt.callable_system.user_derivatives import UserDerivatives

DERIVATIVES = ("auto", "user", "traced", "complex_step", "finite_differences", "jax", "torch")
LIBRARIES = ("jax", "torch")
LOST = 1e-3
"""Of the values: derivatives that are larger by differences, and zero by a library, are those that it has lost."""


class DerivativeRequest(NamedTuple):
    """What the user asked for."""

    kind: str
    jacobians: Callable | None
    hessian_products: Callable | None
    vectorized: bool
    scale: np.ndarray


def make_function(
    name: str, function: Any, nx: int, nu: int, wish: DerivativeRequest, ny: int | None = None
) -> Function:
    """The user's function of ny numbers, by default nx, given as the argument `name`, for what it is; errors name what
    does not fit."""
    as_choice("derivatives", wish.kind, DERIVATIVES)
    for what, value in ((name, function), ("jacobians", wish.jacobians), ("hessian_products", wish.hessian_products)):
        if value is not None and not callable(value):
            raise TypeError(f"{what}: got {type(value).__name__}, expected a function")
    if wish.kind == "jax":
        from trajopt.callable_system.jax_functions import JaxFunction

        return JaxFunction(name, function, nx, nu, wish.vectorized, ny)
    if wish.kind == "torch":
        from trajopt.callable_system.torch_functions import TorchFunction

        return TorchFunction(name, function, nx, nu, wish.vectorized, ny)
    if wish.vectorized:
        return BatchFunction(name, function, nx, nu, ny)
    return (CompiledFunction if is_jitted(function) else PointFunction)(name, function, nx, nu, ny)


def with_library(wish: DerivativeRequest, function: Any, X: np.ndarray, U: np.ndarray, ny: int) -> DerivativeRequest:
    """The wish, but with the library in place of "auto" whose arrays the function of ny numbers returns: jax's or
    torch's; as it is where the function does not go through that library."""
    modules = sys.modules.get("jax"), sys.modules.get("torch")
    unknown = wish.kind != "auto" or wish.jacobians is not None or not callable(function)
    if unknown or is_jitted(function) or wants_output(function) or modules == (None, None):
        return wish
    points = (X[:1], U[:1]) if wish.vectorized else (X[0], U[0])
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
                found = wish._replace(kind=kind)
                return found if _goes_through(found, function, X, U, ny) else wish
        return wish
    return wish


def _goes_through(wish, function, X, U, ny):
    """Whether the library can evaluate the function, or finds that it returns another shape."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            make_function("function", function, X.shape[1], U.shape[1], wish, ny).evaluate(X[:1], U[:1])
    except Exception as error:
        return "returned shape" in str(error)
    return True


def _by_library(function: Any, wish: DerivativeRequest, X: np.ndarray, U: np.ndarray) -> DerivativeSource:
    """Derivatives by jax or torch; ValueError where these lose them on the way to the values."""
    noise = relative_noise(function, wish.scale, X[1:], U[1:])
    if wish.kind == "jax":
        from trajopt.callable_system.jax_functions import JaxDerivatives as Source
    else:
        from trajopt.callable_system.torch_functions import TorchDerivatives as Source
    source = Source(function, noise)
    got = source.jacobians(X, U)
    wanted = FiniteDifferences(function, wish.scale, noise).jacobians(X, U) * wish.scale
    size = LOST * np.abs(function.evaluate(X, U)).max(initial=0.0)
    lost = (got == 0.0).all(axis=0) & (np.abs(wanted) > size).all(axis=0)
    if lost.any():
        i, j = np.argwhere(lost)[0]
        raise ValueError(
            f"{function.name}: got number {i} without a derivative by number {j} of [x; u] from {wish.kind}, on which "
            "it depends; expected no detach, stop_gradient, numpy or torch.tensor (but torch.as_tensor) on the way"
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


def make_source(function: Function, wish: DerivativeRequest, X: np.ndarray, U: np.ndarray) -> DerivativeSource:
    """Derivatives of the function, tried at the sample points X, U."""
    if wish.hessian_products is not None and wish.jacobians is None:
        raise ValueError("jacobians: got None with hessian_products, expected both")
    if wish.jacobians is not None:
        if wish.kind not in ("auto", "user"):
            raise ValueError(f"derivatives: got {wish.kind!r} with jacobians, expected 'auto' or 'user'")
        user = UserDerivatives(function, wish.jacobians, wish.hessian_products, wish.vectorized, wish.scale, X, U)
        user.noise = relative_noise(function, wish.scale, X[1:], U[1:])
        return user
    if wish.kind == "user":
        raise ValueError("jacobians: got None, expected a function for derivatives='user'")
    if wish.kind in LIBRARIES:
        return _by_library(function, wish, X, U)
    reason = None
    if wish.kind in ("auto", "traced"):
        try:
            return TracedDerivatives(function, wish.vectorized, partial(numerical, function, wish, X, U), X, U)
        except Untraceable as error:
            if wish.kind == "traced":
                raise ValueError(
                    f"derivatives: got 'traced' for a function that cannot be: {error}; expected 'auto' or another"
                ) from None
            reason = str(error)
        check_precision(function, X[0], U[0])
    source = numerical(function, wish, X, U)
    source.why_not_traced = reason
    return source


def numerical(function: Function, wish: DerivativeRequest, X: np.ndarray, U: np.ndarray) -> Perturbing:
    """Derivatives from values: complex steps, or else differences."""
    if wish.kind == "finite_differences":
        return _differences(function, wish, X, U)
    reason = why_not_complex(function, wish.scale, X, U)
    if reason is None:
        return ComplexStep(function, wish.scale)
    if wish.kind == "complex_step":
        raise ValueError(f"derivatives: got 'complex_step' for a function that {reason}, expected 'finite_differences'")
    return _differences(function, wish, X, U)


def _differences(function: Function, wish: DerivativeRequest, X: np.ndarray, U: np.ndarray) -> FiniteDifferences:
    """Differences with steps for the noise of the function."""
    return FiniteDifferences(function, wish.scale, relative_noise(function, wish.scale, X[1:], U[1:]))
