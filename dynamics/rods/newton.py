"""Damped Newton's method on the residual of a soft robot, for statics and for implicit time steps.

The unknown z (n) moves coordinates, velocities and accelerations along together,

    q = q0 + cq z,    v = v0 + cv z,    a = a0 + ca z,          r(q, v, a, u) = 0,      J = cq r_q + cv r_v + ca M

so that statics is (1, 0, 0), and Newmark's step or the implicit midpoint rule is (c h^2, c' h, 1).  Prescribed
coordinates have z = 0.  Closed chains add the multipliers to the unknowns, e(q) / cq = 0 to the equations, and

    [J_ff  -A_f'; A_f  0]

to the Jacobian.  A step is halved until it decreases sum (rho_i / s_i)^2, rho = (r_f, e / cq), with s_i^2 = |J_ii| and
sum_j A_ij^2 / |J_jj| at the start: all terms are energies.
"""

from typing import Any, NamedTuple

import numpy as np

from dynamics.rods.arrays import FIRST, FORCES
from dynamics.rods.blocks import BLOCKS
from dynamics.rods.residual_kernel import residual_kernel, residual_work, result_numbers
from dynamics.rods.soft_robot import SoftRobot
from dynamics.simd import equilibrate, factorize_dense, kernel, routine, solve_dense

CONVERGED, TOO_MANY, SINGULAR, STALLED = 0, 1, 2, 3
MESSAGES = ("converged", "too many iterations", "a singular Jacobian", "no decrease of the residual along the step")
SHORTEST = 1e-6
ROUNDING = 1e3
"""Times the tolerance, a step that decreases the residual no more for rounding is small enough."""
DECREASE = 1e-4
"""Of the residual, relative to what the linear model promises, that a step must give."""
FAST = 0.1
"""Share of the residual that a step may leave for the next one to have the same Jacobian."""


class NewtonResult(NamedTuple):
    """The unknown z (n), the status, the numbers of steps and of Jacobians, the largest of r_f, multipliers (G,), and r
    (n,), which along prescribed coordinates is what holds them."""

    z: np.ndarray
    status: int
    iterations: int
    jacobians: int
    residual: float
    multipliers: np.ndarray
    forces: np.ndarray


# ------------------------------------------------------------------------------------------------ pieces of a step
class _Problem(NamedTuple):
    """The equations, and places for what `residual_kernel` reads and writes."""

    m: Any  # RodArrays
    e: Any  # RobotArrays
    free: np.ndarray  # (F,)
    base: np.ndarray  # (3, n)
    c: np.ndarray  # (3,)
    state: np.ndarray  # as `residual_kernel` reads it, multipliers (G) last
    work: np.ndarray
    r: np.ndarray  # (n,)
    A: np.ndarray
    chains: np.ndarray  # the end of A, results of closed chains: e first, A after 3 G
    rho: np.ndarray  # (F + G,)


@kernel
def _evaluate(p, level, y):
    """rho, and the blocks A of the level, at y = (z_f, multipliers)."""
    n, F, level = p.r.size, p.free.size, np.int64(level)  # for a literal numba would compile everything once more
    G = len(y) - F
    for x in range(F):
        for k in range(3):
            p.state[k * n + p.free[x]] = p.base[k, p.free[x]] + p.c[k] * y[x]
    for g in range(G):
        p.state[len(p.state) - G + g] = y[F + g]
    residual_kernel(p.m, p.e, level, p.state, p.work, p.r, p.A)
    for x in range(F):
        p.rho[x] = p.r[p.free[x]]
    for g in range(G):
        p.rho[F + g] = p.chains[g] / p.c[0]


@kernel
def _fill_jacobian(p, J):
    """J (F + G, F + G) from dr/dq, dr/dv, M and A."""
    n, c, F = p.r.size, p.c, p.free.size
    G = len(J) - F
    J[:] = 0.0
    for x in range(F):
        for y in range(F):
            k = p.free[x] * n + p.free[y]
            J[x, y] = c[0] * p.A[k] + c[1] * p.A[n * n + k] + c[2] * p.A[2 * n * n + k]
        for g in range(G):
            J[F + g, x] = p.chains[3 * G + g * n + p.free[x]]
            J[x, F + g] = -J[F + g, x]


@kernel
def _merit(rho, scale):
    total = 0.0
    for i in range(len(scale)):
        total += (rho[i] * scale[i]) ** 2
    return total


@kernel
def _set_scale(F, J, scale):
    """1 / sqrt |J_ii|, where that is far below the others that of a millionth of the largest; for rows of closed chains
    1 / sqrt of sum_j A_ij^2 / |J_jj|."""
    largest = 0.0
    for i in range(F):
        largest = max(largest, abs(J[i, i]))
    floor = 1e-6 * largest if largest > 0.0 else 1.0
    for i in range(F):
        scale[i] = 1.0 / np.sqrt(max(abs(J[i, i]), floor))
    for i in range(F, len(scale)):
        total = 0.0
        for j in range(F):
            total += (J[i, j] * scale[j]) ** 2
        scale[i] = 1.0 / np.sqrt(total) if total > 0.0 else 0.0


@kernel
def _is_small(p, y, step, tolerance):
    """Whether the step changes coordinates and velocities by at most the tolerance."""
    for x in range(p.free.size):
        for k in range(2):
            if not abs(p.c[k] * step[x]) <= tolerance * (1.0 + abs(p.base[k, p.free[x]] + p.c[k] * y[x])):
                return False
    return True


@kernel
def _search(p, y, step, scale, shortest, trial):
    """Whether one of the steps 1, 1/2, 1/4 ... down to the shortest decreases the residual enough: evaluated there."""
    merit, length = _merit(p.rho, scale), 1.0
    while length >= shortest:
        for i in range(len(y)):
            trial[i] = y[i] + length * step[i]
        _evaluate(p, FORCES, trial)
        if _merit(p.rho, scale) <= (1.0 - 2.0 * DECREASE * length) * merit:
            return True
        length *= 0.5
    return False


@kernel
def _set_step(J, d, pivots, rho, step):
    """step (N, 1) <- - J^-1 rho for the factors J of the equilibrated matrix."""
    for i in range(len(d)):
        step[i, 0] = -d[i] * rho[i]
    solve_dense(J, pivots, step)
    for i in range(len(d)):
        step[i, 0] *= d[i]


# ------------------------------------------------------------------------------------------------ the method
@routine
def _newton(m, e, free, base, c, state, y, tolerance, max_iterations, work_numbers, result_numbers):
    """Improve y = (z_f, multipliers) in place; status, numbers of steps and Jacobians, r (n,).  base (3, n), c (3,)."""
    n, nu, N = base.shape[1], e.numbers[0], len(y)
    A = np.empty(result_numbers)
    chains = A[BLOCKS * n * n + 2 * n * nu :]
    p = _Problem(m, e, free, base, c, state, np.empty(work_numbers), np.empty(n), A, chains, np.empty(N))
    for k in range(3):
        p.state[k * n : (k + 1) * n] = base[k]
    step, trial, scale, d = np.empty((N, 1)), np.empty(N), np.empty(N), np.empty(N)
    J, pivots = np.empty((N, N)), np.empty(N, np.int64)
    _evaluate(p, FIRST, y)
    status, count, jacobians, old = TOO_MANY, 0, 0, False
    while status == TOO_MANY and count < max_iterations:
        if not old:
            _fill_jacobian(p, J)
            if count == 0:
                _set_scale(len(free), J, scale)
            equilibrate(J, d)
            jacobians += 1
            if not factorize_dense(J, pivots):
                status = SINGULAR
                break
        _set_step(J, d, pivots, p.rho, step)
        merit = _merit(p.rho, scale)
        if _is_small(p, y, step[:, 0], tolerance):
            y += step[:, 0]
            status = CONVERGED
        elif _search(p, y, step[:, 0], scale, 1.0 if old else SHORTEST, trial):
            y[:] = trial
            old = _merit(p.rho, scale) <= FAST * FAST * merit
            if not old:
                _evaluate(p, FIRST, y)
        elif old:
            old = False
            _evaluate(p, FIRST, y)
        else:
            status = CONVERGED if _is_small(p, y, step[:, 0], ROUNDING * tolerance) else STALLED
        count += 1
    _evaluate(p, FORCES, y)
    return status, count, jacobians, p.r


def newton(
    robot: SoftRobot, base, coefficients, inputs, z, tolerance: float, max_iterations: int, free=None, multipliers=None
) -> NewtonResult:
    """Solve r(q, v, a, u) = 0 for z; base (3, n): q0, v0, a0; coefficients (3,): cq, cv, ca; inputs: u (nu), external
    wrenches (6 W).

    It ends when a step changes coordinates and velocities by at most `tolerance` (1 + their size); z is a start, and so
    are the multipliers (G,).  Coordinates that are not free (F,) stay at their base.
    """
    n, nu, G = robot.nq, robot.nu, robot.model.constraint_count
    free = np.arange(n) if free is None else free
    state = np.zeros(4 * n + nu + int(robot.arrays.numbers[1]))
    state[4 * n : 4 * n + len(inputs)] = inputs
    y = np.concatenate([np.asarray(z, dtype=np.float64)[free], np.zeros(G) if multipliers is None else multipliers])
    numbers = residual_work(robot.model), result_numbers(n, nu, int(robot.arrays.numbers[2]))
    status, count, jacobians, r = _newton(
        robot.model.arrays, robot.arrays, free, base, coefficients, state, y, tolerance, max_iterations, *numbers
    )
    z = np.zeros(n)
    z[free] = y[: len(free)]
    return NewtonResult(z, status, count, jacobians, float(np.abs(r[free]).max(initial=0.0)), y[len(free) :], r)
