"""Damped Newton's method on the residual of a soft robot, for statics and for implicit time steps.

The unknown z (n) moves coordinates, velocities and accelerations along together,

    q = q0 + cq z,    v = v0 + cv z,    a = a0 + ca z,          r(q, v, a, u) = 0,      J = cq r_q + cv r_v + ca M

so that statics is (1, 0, 0), and Newmark's step or the implicit midpoint rule is (c h^2, c' h, 1).  A step is halved
until it decreases sum (r_i / s_i)^2, s_i^2 = |J_ii| at the start: all terms are energies.
"""

from typing import Any, NamedTuple

import numpy as np

from dynamics.rods.arrays import FIRST, FORCES
from dynamics.rods.residual_kernel import residual_kernel, residual_work, result_numbers
from dynamics.rods.soft_robot import SoftRobot
from dynamics.simd import kernel, routine

CONVERGED, TOO_MANY, SINGULAR, STALLED = 0, 1, 2, 3
MESSAGES = ("converged", "too many iterations", "a singular Jacobian", "no decrease of the residual along the step")
SHORTEST = 1e-6
DECREASE = 1e-4
"""Of the residual, relative to what the linear model promises, that a step must give."""


class NewtonResult(NamedTuple):
    """The unknown z (n), the status, the number of steps, and the residual's largest entry."""

    z: np.ndarray
    status: int
    iterations: int
    residual: float


# ------------------------------------------------------------------------------------------------ linear equations
@kernel
def _solve(A, x):
    """x <- A^-1 x by elimination with partial pivoting, which overwrites A (n, n); False if A is singular."""
    n = len(x)
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[pivot, k]):
                pivot = i
        if not abs(A[pivot, k]) > 0.0:
            return False
        if pivot != k:
            for j in range(k, n):
                A[k, j], A[pivot, j] = A[pivot, j], A[k, j]
            x[k], x[pivot] = x[pivot], x[k]
        for i in range(k + 1, n):
            factor = A[i, k] / A[k, k]
            for j in range(k + 1, n):
                A[i, j] -= factor * A[k, j]
            x[i] -= factor * x[k]
    for k in range(n - 1, -1, -1):
        total = x[k]
        for j in range(k + 1, n):
            total -= A[k, j] * x[j]
        x[k] = total / A[k, k]
    return True


# ------------------------------------------------------------------------------------------------ pieces of a step
class _Problem(NamedTuple):
    """The equations, and places for what `residual_kernel` reads and writes."""

    m: Any  # RodArrays
    e: Any  # RobotArrays
    base: np.ndarray  # (3, n)
    c: np.ndarray  # (3,)
    state: np.ndarray  # q, v, a, w (n each), u (nu), external wrenches (6 W)
    work: np.ndarray
    r: np.ndarray  # (n,)
    A: np.ndarray


@kernel
def _evaluate(p, level, z):
    """r, and the blocks A of the level, at z."""
    n, level = len(z), np.int64(level)  # for a literal numba would compile everything once more
    for i in range(n):
        for k in range(3):
            p.state[k * n + i] = p.base[k, i] + p.c[k] * z[i]
    residual_kernel(p.m, p.e, level, p.state, p.work, p.r, p.A)


@kernel
def _fill_jacobian(p, J):
    """J (n, n) from dr/dq, dr/dv, M."""
    n, c = len(J), p.c
    for i in range(n):
        for j in range(n):
            k = i * n + j
            J[i, j] = c[0] * p.A[k] + c[1] * p.A[n * n + k] + c[2] * p.A[2 * n * n + k]


@kernel
def _merit(r, scale):
    total = 0.0
    for i in range(len(scale)):
        total += (r[i] * scale[i]) ** 2
    return total


@kernel
def _set_scale(J, scale):
    """1 / sqrt |J_ii|, where that is far below the others that of a millionth of the largest."""
    largest = 0.0
    for i in range(len(scale)):
        largest = max(largest, abs(J[i, i]))
    floor = 1e-6 * largest if largest > 0.0 else 1.0
    for i in range(len(scale)):
        scale[i] = 1.0 / np.sqrt(max(abs(J[i, i]), floor))


@kernel
def _is_small(p, z, step, tolerance):
    """Whether the step changes coordinates and velocities by at most the tolerance."""
    for i in range(len(z)):
        for k in range(2):
            if not abs(p.c[k] * step[i]) <= tolerance * (1.0 + abs(p.base[k, i] + p.c[k] * z[i])):
                return False
    return True


@kernel
def _search(p, z, step, scale, trial):
    """The longest of the steps 1, 1/2, 1/4 ... that decreases the residual enough, or 0; evaluated at its end."""
    merit, length = _merit(p.r, scale), 1.0
    while length > SHORTEST:
        for i in range(len(z)):
            trial[i] = z[i] + length * step[i]
        _evaluate(p, FIRST if length == 1.0 else FORCES, trial)
        if _merit(p.r, scale) <= (1.0 - 2.0 * DECREASE * length) * merit:
            if length < 1.0:
                _evaluate(p, FIRST, trial)
            return length
        length *= 0.5
    return 0.0


# ------------------------------------------------------------------------------------------------ the method
@routine
def _newton(m, e, base, c, inputs, z, tolerance, max_iterations, work_numbers, result_numbers):
    """Improve z in place; status, number of steps, and the residual's largest entry.  base (3, n), c (3,)."""
    n = len(z)
    p = _Problem(
        m, e, base, c, np.zeros(4 * n + len(inputs)), np.empty(work_numbers), np.empty(n), np.empty(result_numbers)
    )
    step, trial, scale, J = np.empty(n), np.empty(n), np.empty(n), np.empty((n, n))
    p.state[4 * n :] = inputs
    _evaluate(p, FIRST, z)
    status, count = TOO_MANY, 0
    while status == TOO_MANY and count < max_iterations:
        _fill_jacobian(p, J)
        if count == 0:
            _set_scale(J, scale)
        step[:] = -p.r
        if not _solve(J, step):
            status = SINGULAR
        elif _is_small(p, z, step, tolerance):
            z += step
            status = CONVERGED
        elif _search(p, z, step, scale, trial) > 0.0:
            z[:] = trial
        else:
            status = STALLED
        count += 1
    _evaluate(p, FORCES, z)
    return status, count, np.abs(p.r).max()


def newton(robot: SoftRobot, base, coefficients, inputs, z, tolerance: float, max_iterations: int) -> NewtonResult:
    """Solve r(q, v, a, u) = 0 for z; base (3, n): q0, v0, a0; coefficients (3,): cq, cv, ca; inputs: u
    (nu), external wrenches (6 W).

    It ends when a step changes coordinates and velocities by at most `tolerance` (1 + their size); z is a start.
    """
    z, n, nu = np.array(z, dtype=np.float64), robot.nq, robot.nu
    numbers = residual_work(robot.model), result_numbers(n, nu)
    status, count, residual = _newton(
        robot.model.arrays, robot.arrays, base, coefficients, inputs, z, tolerance, max_iterations, *numbers
    )
    return NewtonResult(z, status, count, float(residual))
