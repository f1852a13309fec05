"""Damped Newton's method on the residual of a soft robot, for statics and for implicit time steps.

The unknown z (n) moves coordinates, velocities and accelerations along together,

    q = q0 + cq z,    v = v0 + cv z,    a = a0 + ca z,          r(q, v, a, u) = 0,      J = cq r_q + cv r_v + ca M

so that statics is (1, 0, 0), and Newmark's step or the implicit midpoint rule is (c h^2, c' h, 1).  A step is halved
until it decreases sum (r_i / s_i)^2, s_i^2 = |J_ii| at the start: all terms are energies.
"""

from typing import NamedTuple

import numpy as np

from dynamics.rods.arrays import FIRST, FORCES
from dynamics.rods.residual_kernel import residual_kernel, residual_work, result_numbers
from dynamics.rods.soft_robot import SoftRobot
from dynamics.simd import kernel, routine

CONVERGED, TOO_MANY, SINGULAR, STALLED = 0, 1, 2, 3
MESSAGES = ("converged", "too many iterations", "a singular Jacobian", "no decrease of the residual along the step")
SMALLEST_STEP = 1e-6
DECREASE = 1e-4
"""Of the merit, relative to what the linear model promises, that a step must give."""


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
@kernel
def _evaluate(m, e, level, base, c, z, state, work, r, A):
    """r, and the blocks A of the level, at z."""
    n, level = len(z), np.int64(level)  # for a literal numba would compile everything once more
    for i in range(n):
        for k in range(3):
            state[k * n + i] = base[k, i] + c[k] * z[i]
    residual_kernel(m, e, level, state, work, r, A)


@kernel
def _jacobian(c, blocks, J):
    """J (n, n) from dr/dq, dr/dv, M."""
    n = len(J)
    for i in range(n):
        for j in range(n):
            J[i, j] = c[0] * blocks[0, i, j] + c[1] * blocks[1, i, j] + c[2] * blocks[2, i, j]


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
def _is_small(base, c, z, step, tolerance):
    """Whether the step changes q and v (where it changes both, or one of them) by at most the tolerance."""
    for i in range(len(z)):
        for k in range(3):
            size = abs(c[k] * step[i])
            if (k < 2 or c[0] == c[1] == 0.0) and not size <= tolerance * (1.0 + abs(base[k, i] + c[k] * z[i])):
                return False
    return True


# ------------------------------------------------------------------------------------------------ the method
@routine
def _newton(m, e, base, c, u, z, tolerance, max_iterations, work_numbers, result_numbers):
    """Improve z in place; status, number of steps, and the residual's largest entry.  base (3, n), c (3,)."""
    n = len(z)
    state, r, step, trial, scale = np.zeros(4 * n + len(u)), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    work, A, J = np.empty(work_numbers), np.empty(result_numbers), np.empty((n, n))
    blocks = A[: 3 * n * n].reshape(3, n, n)
    state[4 * n :] = u
    _evaluate(m, e, FIRST, base, c, z, state, work, r, A)
    status, count = TOO_MANY, 0
    while count < max_iterations:
        _jacobian(c, blocks, J)
        if count == 0:
            _set_scale(J, scale)
        merit = _merit(r, scale)
        step[:] = -r
        if not _solve(J, step):
            status = SINGULAR
            break
        count += 1
        length = 1.0
        small = _is_small(base, c, z, step, tolerance)
        while True:
            trial[:] = z + length * step
            level = FORCES if small or length < 1.0 else FIRST
            _evaluate(m, e, level, base, c, trial, state, work, r, A)
            if small or _merit(r, scale) <= (1.0 - 2.0 * DECREASE * length) * merit:
                break
            length *= 0.5
            if length < SMALLEST_STEP:
                status = STALLED
                break
        if status == STALLED:
            _evaluate(m, e, FORCES, base, c, z, state, work, r, A)
            break
        z[:] = trial
        if small:
            status = CONVERGED
            break
        if level == FORCES:
            _evaluate(m, e, FIRST, base, c, z, state, work, r, A)
    return status, count, np.abs(r).max()


def newton(robot: SoftRobot, base, coefficients, u, z, tolerance: float, max_iterations: int) -> NewtonResult:
    """Solve r(q, v, a, u) = 0 for z; base (3, n): q0, v0, a0; coefficients (3,): cq, cv, ca.

    It ends when a step changes coordinates and velocities by at most `tolerance` (1 + their size); z is a start.
    """
    z, n, nu = np.array(z, dtype=np.float64), robot.nq, robot.nu
    numbers = residual_work(robot.model), result_numbers(n, nu)
    status, count, residual = _newton(
        robot.model.arrays, robot.arrays, base, coefficients, u, z, tolerance, max_iterations, *numbers
    )
    return NewtonResult(z, status, count, float(residual))
