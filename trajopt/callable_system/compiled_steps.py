"""One compiled step of each integrator over a user's numba function; the formulas are those of `integrators`.

A step is step(h, x, u, work, x_next) with `work` scratch of numbers(nx, nu) floats.  Only the implicit rule needs
derivatives here: the Jacobian of g at one point, by the same source that serves `linearize`.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from trajopt.callable_system.compiled_functions import KEPT, OPTIONS, finite, in_place_form, recompiled
from trajopt.callable_system.derivatives import COMPLEX_STEP, JACOBIAN_STEP
from trajopt.callable_system.integrators import NEWTON_ITERATIONS, NEWTON_TOLERANCE, TABLEAUS


class CompiledPlant(NamedTuple):
    """What a compiled step depends on; two systems that agree in it share their compiled code."""

    function: Any
    in_place: bool
    integrator: str | None
    jacobians: Any = None
    """For the implicit rule: the user's compiled Jacobians, "complex_step", or the steps of finite differences."""


@lru_cache(KEPT)
def step_kernel(plant: CompiledPlant) -> tuple[Callable, Callable]:
    """step(h, x, u, work, x_next) and numbers(nx, nu)."""
    g = in_place_form(plant.function, plant.in_place)
    if plant.integrator is None:
        return _discrete(g)
    if plant.integrator == "semi_implicit_euler":
        return _semi_implicit_euler(g)
    if plant.integrator == "implicit_midpoint":
        return _implicit_midpoint(g, _point_jacobian(g, plant.jacobians))
    return _runge_kutta(g, *TABLEAUS[plant.integrator])


def _discrete(g):
    @njit(**OPTIONS)
    def step(h, x, u, work, x_next):
        g(x, u, x_next)

    @njit(**OPTIONS)
    def numbers(nx, nu):
        return 0

    return step, numbers


def _runge_kutta(g, a, b):
    shifts, stages = np.array((0.0, *a)), len(b)
    weights = np.array(b)

    @njit(**OPTIONS)
    def step(h, x, u, work, x_next):
        n = x.shape[0]
        k, stage = work[:n], work[n : 2 * n]
        for s in range(stages):
            if s == 0:
                g(x, u, k)
            else:
                for i in range(n):
                    stage[i] = x[i] + h * shifts[s] * k[i]
                g(stage, u, k)
            for i in range(n):
                x_next[i] = (x_next[i] if s else 0.0) + weights[s] * k[i]
        for i in range(n):
            x_next[i] = x[i] + h * x_next[i]

    @njit(**OPTIONS)
    def numbers(nx, nu):
        return 2 * nx

    return step, numbers


def _semi_implicit_euler(g):
    @njit(**OPTIONS)
    def step(h, x, u, work, x_next):
        n = x.shape[0] // 2
        g(x, u, work)
        for i in range(n):
            x_next[n + i] = x[n + i] + h * work[n + i]
            x_next[i] = x[i] + h * x_next[n + i]

    @njit(**OPTIONS)
    def numbers(nx, nu):
        return nx

    return step, numbers


def _implicit_midpoint(g, jacobian):
    @njit(**OPTIONS)
    def step(h, x, u, work, x_next):
        n, nz = x.shape[0], x.shape[0] + u.shape[0]
        k, middle, r = work[:n], work[n : 2 * n], work[2 * n : 3 * n]
        G = work[3 * n : 3 * n + n * nz].reshape(n, nz)
        A = work[3 * n + n * nz :].reshape(n, n)
        g(x, u, k)
        for _ in range(NEWTON_ITERATIONS):
            for i in range(n):
                middle[i] = x[i] + 0.5 * h * k[i]
            if not finite(middle):
                break
            g(middle, u, r)
            jacobian(middle, u, G)
            for i in range(n):
                r[i] -= k[i]
                for j in range(n):
                    A[i, j] = -0.5 * h * G[i, j]
                A[i, i] += 1.0
            _solve_in_place(A, r)
            change, rate, state = 0.0, 0.0, 0.0
            for i in range(n):
                k[i] += r[i]
                change, rate, state = max(change, abs(r[i])), max(rate, abs(k[i])), max(state, abs(x[i]))
            if finite(k) and h * change <= NEWTON_TOLERANCE * (state + h * rate):
                for i in range(n):
                    x_next[i] = x[i] + h * k[i]
                return
        x_next[:] = np.nan

    @njit(**OPTIONS)
    def numbers(nx, nu):
        return 3 * nx + nx * (nx + nu) + nx * nx

    return step, numbers


@njit(**OPTIONS)
def _solve_in_place(A, b):
    """b <- A^-1 b by elimination with row pivoting; A is destroyed; a singular A gives inf or NaN."""
    n = b.shape[0]
    for c in range(n):
        p = c
        for i in range(c + 1, n):
            if abs(A[i, c]) > abs(A[p, c]):
                p = i
        if p != c:
            for j in range(c, n):
                A[c, j], A[p, j] = A[p, j], A[c, j]
            b[c], b[p] = b[p], b[c]
        for i in range(c + 1, n):
            factor = A[i, c] / A[c, c]
            for j in range(c + 1, n):
                A[i, j] -= factor * A[c, j]
            b[i] -= factor * b[c]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            b[i] -= A[i, j] * b[j]
        b[i] /= A[i, i]


def _point_jacobian(g, source):
    """jacobian(x, u, G): [g_x g_u] at one point."""
    if source == "complex_step":
        return _complex_step_jacobian(g)
    if isinstance(source, tuple):
        return _difference_jacobian(g, np.array(source))
    jacobians = recompiled(source)

    @njit(**OPTIONS)
    def jacobian(x, u, G):
        fx, fu = jacobians(x, u)
        G[:, : x.shape[0]] = fx
        G[:, x.shape[0] :] = fu

    return jacobian


def _complex_step_jacobian(g):
    @njit(**OPTIONS)
    def jacobian(x, u, G):
        n = x.shape[0]
        z = np.empty(n + u.shape[0], np.complex128)
        y = np.empty(n, np.complex128)
        z[:n] = x
        z[n:] = u
        for j in range(z.shape[0]):
            z[j] += 1j * COMPLEX_STEP
            g(z[:n], z[n:], y)
            z[j] = z[j].real
            for i in range(n):
                G[i, j] = y[i].imag / COMPLEX_STEP

    return jacobian


def _difference_jacobian(g, scale):
    @njit(**OPTIONS)
    def jacobian(x, u, G):
        n = x.shape[0]
        z, y = np.empty(n + u.shape[0]), np.empty(n)
        z[:n] = x
        z[n:] = u
        for j in range(z.shape[0]):
            center, h = z[j], JACOBIAN_STEP * scale[j]
            G[:, j] = 0.0
            for shift, weight in ((1.0, 8.0), (-1.0, -8.0), (2.0, -1.0), (-2.0, 1.0)):
                z[j] = center + shift * h
                g(z[:n], z[n:], y)
                for i in range(n):
                    G[i, j] += weight * y[i] / (12.0 * h)
            z[j] = center

    return jacobian
