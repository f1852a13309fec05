"""What a user's function must satisfy, tried at sample points when a system is made."""

from __future__ import annotations

import warnings

import numpy as np
from numba.core.errors import NumbaError
from numpy.typing import ArrayLike

from dynamics.validation import as_array
from trajopt.callable_system.derivatives import ComplexStep, FiniteDifferences
from trajopt.callable_system.functions import ARITHMETIC, Function, PointFunction

SAMPLES = 4
ANALYTIC_TOLERANCE = 1e-7
"""Between complex steps and differences, relative; a function that is not analytic is off by its own derivative."""


def sample_points(
    x: ArrayLike | None, u: ArrayLike | None, scale: np.ndarray, nx: int, nu: int
) -> tuple[np.ndarray, np.ndarray]:
    """The example, zeros by default, and points around it: (SAMPLES, nx), (SAMPLES, nu)."""
    x = np.zeros(nx) if x is None else as_array("x_example", x, (nx,), copy=True)
    u = np.zeros(nu) if u is None else as_array("u_example", u, (nu,), copy=True)
    offsets = 0.3 * scale * np.random.default_rng(0).standard_normal((SAMPLES, nx + nu))
    offsets[0] = 0.0
    return x + offsets[:, :nx], u + offsets[:, nx:]


def check_values(name: str, function: Function, X: np.ndarray, U: np.ndarray) -> None:
    """Raise unless the function returns finite floats of shape (ny,) at the example and leaves its arguments alone."""
    x, u = X[:1].copy(), U[:1].copy()
    source = getattr(function.function, "py_func", None)
    try:
        if source is not None:  # of a compiled function too: compiled code does not look at shapes
            PointFunction(name, source, function.nx, function.nu, function.ny).evaluate(x, u)
        y = function.evaluate(x, u)
    except NumbaError as error:
        raise TypeError(f"{name}: numba cannot compile it for x (nx,) and u (nu,) of float64: {error}") from error
    if not (np.array_equal(x, X[:1]) and np.array_equal(u, U[:1])):
        raise ValueError(f"{name}: changes its arguments in place, expected a new array")
    if not np.isfinite(y).all():
        raise ValueError(
            f"{name}: got {y[0]} at x = {X[0]}, u = {U[0]}, expected finite numbers (pass x_example=, u_example= if "
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
            warnings.simplefilter("error")  # of numpy, where an imaginary part is dropped
            got = ComplexStep(function, scale).jacobians(X, U)
    except (TypeError, ValueError, AttributeError, Warning, NumbaError, *ARITHMETIC) as error:
        return f"does not accept complex numbers ({type(error).__name__})"
    wanted = FiniteDifferences(function, scale).jacobians(X, U)
    valid = np.isfinite(wanted).all(axis=(1, 2))
    error = np.abs(got - wanted)[valid].max(initial=0.0)
    size = np.abs(wanted * scale)[valid].max(initial=0.0) + np.abs(function.evaluate(X, U)).max()
    if not error <= ANALYTIC_TOLERANCE * size:
        return "is not analytic (abs, real parts, conjugates, or a corner)"
    return None
