"""Which kind of function a user gave, and where its derivatives come from."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numba.extending import is_jitted

from dynamics.tape.graph import Untraceable
from trajopt.callable_system.checks import why_not_complex
from trajopt.callable_system.derivatives import ComplexStep, DerivativeSource, FiniteDifferences, relative_noise
from trajopt.callable_system.functions import BatchFunction, CompiledFunction, Function, PointFunction
from trajopt.callable_system.traced import TracedDerivatives
from trajopt.callable_system.user_derivatives import UserDerivatives
from trajopt.validation import one_of

DERIVATIVES = ("auto", "user", "traced", "complex_step", "finite_differences", "jax")


class Derivatives(NamedTuple):
    """What the user asked for."""

    kind: str
    jacobians: Callable | None
    hessian_products: Callable | None
    vectorized: bool
    scale: np.ndarray


def make_function(
    name: str, function: Any, nx: int, nu: int, wish: Derivatives, ny: int | None = None
) -> Function:
    """The user's function of ny numbers, by default nx, given as the argument `name`, for what it is; errors name what
    does not fit."""
    one_of("derivatives", wish.kind, DERIVATIVES)
    for what, value in ((name, function), ("jacobians", wish.jacobians), ("hessian_products", wish.hessian_products)):
        if value is not None and not callable(value):
            raise TypeError(f"{what}: got {type(value).__name__}, wanted a function")
    if wish.kind == "jax":
        from trajopt.callable_system.jax_functions import JaxFunction

        return JaxFunction(name, function, nx, nu, wish.vectorized)
    if wish.vectorized:
        return BatchFunction(name, function, nx, nu, ny)
    return (CompiledFunction if is_jitted(function) else PointFunction)(name, function, nx, nu, ny)


def make_source(function: Function, wish: Derivatives, X: np.ndarray, U: np.ndarray) -> DerivativeSource:
    """Derivatives of the function, tried at the sample points X, U."""
    if wish.hessian_products is not None and wish.jacobians is None:
        raise ValueError("jacobians: got None with hessian_products, wanted both")
    if wish.jacobians is not None:
        if wish.kind not in ("auto", "user"):
            raise ValueError(f"derivatives: got {wish.kind!r} with jacobians, wanted 'auto' or 'user'")
        user = UserDerivatives(function, wish.jacobians, wish.hessian_products, wish.vectorized, wish.scale, X, U)
        user.noise = relative_noise(function, wish.scale, X[1:], U[1:])
        return user
    if wish.kind == "user":
        raise ValueError("jacobians: got None, wanted a function for derivatives='user'")
    if wish.kind == "jax":
        from trajopt.callable_system.jax_functions import JaxDerivatives

        return JaxDerivatives(function)
    reason = None
    if wish.kind in ("auto", "traced"):
        try:
            return TracedDerivatives(function, wish.vectorized, partial(numerical, function, wish, X, U), X, U)
        except Untraceable as error:
            if wish.kind == "traced":
                raise ValueError(
                    f"derivatives: got 'traced' for a function that cannot be: {error}; wanted 'auto' or another"
                ) from None
            reason = str(error)
    source = numerical(function, wish, X, U)
    source.why_not_traced = reason
    return source


def numerical(function: Function, wish: Derivatives, X: np.ndarray, U: np.ndarray) -> ComplexStep | FiniteDifferences:
    """Derivatives from values: complex steps, or else differences."""
    if wish.kind == "finite_differences":
        return _differences(function, wish, X, U)
    reason = why_not_complex(function, wish.scale, X, U)
    if reason is None:
        return ComplexStep(function, wish.scale)
    if wish.kind == "complex_step":
        raise ValueError(f"derivatives: got 'complex_step' for a function that {reason}, wanted 'finite_differences'")
    return _differences(function, wish, X, U)


def _differences(function: Function, wish: Derivatives, X: np.ndarray, U: np.ndarray) -> FiniteDifferences:
    """Differences with steps for the noise of the function."""
    return FiniteDifferences(function, wish.scale, relative_noise(function, wish.scale, X[1:], U[1:]))
