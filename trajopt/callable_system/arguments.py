"""Arguments of systems from functions, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trajopt.callable_system.integrators import INTEGRATORS
from trajopt.interfaces.stepwise import ClosedLoop
from trajopt.validation import number_array, one_of, same_shape


def points(name: str, value: ArrayLike, size: int) -> np.ndarray:
    """One point (size,) or a batch (K, size) of floats."""
    array = np.asarray(number_array(name, value, f"numbers of shape ({size},)"), dtype=np.float64)
    if array.ndim not in (1, 2) or array.shape[-1] != size:
        raise ValueError(f"{name}: got shape {array.shape}, wanted ({size},) or (K, {size})")
    return array


def closed_loop_arrays(loop: ClosedLoop, nx: int, nu: int) -> list[np.ndarray | None]:
    """The arrays of a closed loop, x0 (A, nx)."""
    x0, xs, us, k, K, alphas, gaps, lower, upper, shift, pull = loop
    if (lower is None) != (upper is None):
        raise ValueError("lower, upper: got one of them, wanted both or none")
    us = points("us", us, nu)
    N, A = len(us), len(alphas)
    x0 = same_shape("x0", np.asarray(x0), (A, nx) if np.ndim(x0) == 2 else (nx,))
    arrays = [
        None if value is None else same_shape(name, np.asarray(value), shape)
        for name, value, shape in (
            ("xs", xs, (N + 1, nx)), ("us", us, (N, nu)), ("k", k, (N, nu)), ("K", K, (N, nu, nx)),
            ("alphas", alphas, (A,)), ("gaps", gaps, (N + 1, nx)), ("lower", lower, (N, nu)),
            ("upper", upper, (N, nu)), ("shift", shift, (A,)), ("pull", pull, (N, nu)),
        )
    ]  # fmt: skip
    return [np.broadcast_to(x0, (A, nx)), *arrays]


def time_step(dt: Any) -> float:
    """A checked dt, s."""
    if isinstance(dt, bool) or not isinstance(dt, (int, float, np.number)) or not np.isfinite(dt) or dt <= 0:
        raise ValueError(f"dt: got {dt!r}, wanted a positive number of seconds")
    return float(dt)


def integrator_name(step: Any, xdot: Any, integrator: Any) -> str | None:
    """The integrator of xdot, rk4 by default; None for discrete steps."""
    if (step is None) == (xdot is None):
        raise ValueError("step, xdot: wanted one of them, a discrete step or a differential equation")
    if step is None:
        return one_of("integrator", "rk4" if integrator is None else integrator, INTEGRATORS)
    if integrator is not None:
        raise ValueError(f"integrator: got {integrator!r} with a discrete step, wanted it only with xdot")
    return None


def slow_words(argument: str, function_compiled: bool, why_not_traced: str | None) -> str:
    """What a warning says of a plain function, and what to do."""
    if function_compiled:
        return "jacobians: plain Python, which the implicit rule calls in every step; decorate it with numba.njit"
    reason = "" if why_not_traced is None else f" (it is not traced: {why_not_traced})"
    return (
        f"{argument}: plain Python, called once per knot, which makes solvers slow{reason}; decorate it with "
        "numba.njit, or write it for batches and pass vectorized=True"
    )
