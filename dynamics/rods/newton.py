"""Damped Newton's method on the residual of a soft robot, for statics and for implicit time steps.

The unknown z (n) moves coordinates, velocities and accelerations along together,

    q = q0 + cq z,    v = v0 + cv z,    a = a0 + ca z,          r(q, v, a, u) = 0,      J = cq r_q + cv r_v + ca M

so that statics is (1, 0, 0), and Newmark's step or the implicit midpoint rule is (c h^2, c' h, 1).  Prescribed
coordinates have z = 0.  Closed chains add the multipliers to the unknowns, e(q) / cq = 0 to the equations, and

    [J_ff  -A_f'; A_f  0]

to the Jacobian.  A step is halved until it decreases sum (rho_i / s_i)^2, rho = (r_f, e / cq), with s_i^2 = |J_ii| and
sum_j A_ij^2 / |J_jj| of the first Jacobian: all terms are energies.

A Jacobian serves as long as each step with it leaves little of the residual, also in later calls with the same cq, cv,
ca.  Steps that shrink by a rate theta leave an error of about theta / (1 - theta) times the last.  [HW, section IV.8]
"""

from typing import Any, NamedTuple

import numpy as np

from dynamics.rods.arrays import FIRST, FORCES
from dynamics.rods.backward_pass import BLOCKS
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
UNTRIED = 1e-3
"""Times the tolerance, a step with a Jacobian of an earlier call, of unknown rate, is small enough: at a rate of 0.99 it
leaves the error that steps as large as the tolerance leave at FAST."""


class NewtonResult(NamedTuple):
    """The unknown z (n), multipliers (G,), the status, the numbers of steps, evaluations and Jacobians among them, and r
    (n,) where it was last evaluated, which along prescribed coordinates is what holds them."""

    z: np.ndarray
    multipliers: np.ndarray
    status: int
    iterations: int
    evaluations: int
    jacobians: int
    forces: np.ndarray


class _Factors(NamedTuple):
    """Of the last Jacobian, N = F + G: its coefficients c (3,), NaN if there is none, L and U of the equilibrated matrix
    (N, N), its equilibration (N,), pivots (N,); and 1 / s (N,)."""

    c: np.ndarray
    J: np.ndarray
    d: np.ndarray
    pivots: np.ndarray
    scale: np.ndarray


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
    counts: np.ndarray  # (2,) evaluations, and Jacobians among them


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
    p.counts[0] += 1
    p.counts[1] += level >= FIRST


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
def _move(y, length, step, moved):
    for i in range(len(y)):
        moved[i] = y[i] + length * step[i]


@kernel
def _search(p, level, y, step, scale, shortest, trial):
    """The first of the steps 1, 1/2, 1/4 ... down to the shortest that decreases the residual enough, 0 if none does:
    evaluated there, the first one at the level."""
    merit, length = _merit(p.rho, scale), 1.0
    while length >= shortest:
        _move(y, length, step, trial)
        _evaluate(p, level if length == 1.0 else FORCES, trial)
        if _merit(p.rho, scale) <= (1.0 - 2.0 * DECREASE * length) * merit:
            return length
        length *= 0.5
    return 0.0


@kernel
def _set_factors(p, rescale, k):
    """Factors of the Jacobian that was evaluated last; whether it is regular."""
    _fill_jacobian(p, k.J)
    if rescale:
        _set_scale(p.free.size, k.J, k.scale)
    equilibrate(k.J, k.d)
    regular = factorize_dense(k.J, k.pivots)
    for i in range(3):
        k.c[i] = p.c[i] if regular else np.nan
    return regular


@kernel
def _set_step(k, rho, step):
    """step (N, 1) <- - J^-1 rho."""
    for i in range(len(rho)):
        step[i, 0] = -k.d[i] * rho[i]
    solve_dense(k.J, k.pivots, step)
    for i in range(len(rho)):
        step[i, 0] *= k.d[i]


# ------------------------------------------------------------------------------------------------ the method
@kernel
def _iterate(p, k, y, tolerance, max_iterations, step, trial):
    """Improve y = (z_f, multipliers) in place, at first with the factors k if their coefficients are these; the status
    and the number of steps."""
    fresh, tried = False, False  # the Jacobian is that of y; it is, or a step with it has left little
    for i in range(3):
        fresh = fresh or k.c[i] != p.c[i]
    rescale, full = fresh, np.int64(FORCES)  # the level at which full steps are evaluated
    _evaluate(p, np.int64(FIRST if fresh else FORCES), y)
    for count in range(max_iterations):
        if fresh:
            if not _set_factors(p, not tried, k):
                return SINGULAR, count
            tried = True
        _set_step(k, p.rho, step)
        merit = _merit(p.rho, k.scale)
        if _is_small(p, y, step[:, 0], tolerance if tried else UNTRIED * tolerance):
            _move(y, 1.0, step[:, 0], y)
            return CONVERGED, count + 1
        length = _search(p, full, y, step[:, 0], k.scale, SHORTEST if fresh else 1.0, trial)
        if length == 0.0 and fresh:
            small = _is_small(p, y, step[:, 0], ROUNDING * tolerance)
            return CONVERGED if small else STALLED, count + 1
        slow, known = True, False
        if length > 0.0:
            _move(y, length, step[:, 0], y)
            slow, known = _merit(p.rho, k.scale) > FAST * FAST * merit, full == FIRST and length == 1.0
        full = np.int64(FIRST if slow and fresh else FORCES)
        if slow and not known:
            _evaluate(p, np.int64(FIRST), y)
        fresh, tried = slow or known, tried or not slow
    return TOO_MANY, max_iterations


@routine
def _newton(p, k, y, tolerance, max_iterations, final):
    """As `_iterate`; finally r at y."""
    result = _iterate(p, k, y, tolerance, max_iterations, np.empty((len(y), 1)), np.empty(len(y)))
    if final:
        _evaluate(p, np.int64(FORCES), y)
    return result


class Newton:
    """Newton's method for one robot, whose calls share the factors of the last Jacobian.

    Parameters
    ----------
    robot : SoftRobot
    free : (F,) coordinates that are; others stay at their base.  By default all
    """

    def __init__(self, robot: SoftRobot, free: np.ndarray | None = None):
        n, nu, G = robot.nq, robot.nu, robot.model.constraint_count
        self._free = np.arange(n) if free is None else free
        N = len(self._free) + G
        numbers, results = robot.arrays.numbers, result_numbers(n, nu, int(robot.arrays.numbers[2]))
        state, A = np.zeros(4 * n + nu + int(numbers[1])), np.empty(results)
        base, r, rho, counts = np.empty((3, n)), np.empty(n), np.empty(N), np.zeros(2, np.int64)
        self._problem = _Problem(
            robot.model.arrays, robot.arrays, self._free, base, np.empty(3), state, np.empty(residual_work(robot.model)),
            r, A, A[BLOCKS * n * n + 2 * n * nu :], rho, counts,
        )  # fmt: skip
        self._factors = _Factors(
            np.full(3, np.nan), np.empty((N, N)), np.empty(N), np.empty(N, np.int64), np.empty(N)
        )  # fmt: skip

    def solve(
        self, base, coefficients, inputs, z, tolerance: float, max_iterations: int, multipliers=None, final=False
    ) -> NewtonResult:
        """Solve r(q, v, a, u) = 0 for z; base (3, n): q0, v0, a0; coefficients (3,): cq, cv, ca; inputs: u (nu),
        external wrenches (6 W).

        It ends when a step changes coordinates and velocities by at most `tolerance` (1 + their size); z (n,) is a
        start, and so are the multipliers (G,).  `final`: evaluate r at the solution.
        """
        p, n, F = self._problem, len(z), len(self._free)
        p.base[:], p.c[:], p.counts[:] = base, coefficients, 0
        p.state[: 3 * n], p.state[4 * n : 4 * n + len(inputs)] = p.base.ravel(), inputs
        y = np.zeros(len(p.rho))
        y[:F] = z[self._free]
        if multipliers is not None:
            y[F:] = multipliers
        status, count = _newton(p, self._factors, y, tolerance, max_iterations, final)
        z = np.zeros(n)
        z[self._free] = y[:F]
        return NewtonResult(z, y[F:], status, count, int(p.counts[0]), int(p.counts[1]), p.r.copy())
