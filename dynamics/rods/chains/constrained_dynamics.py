"""Accelerations with closed chains and coordinate-controlled joints, one point in plain numbers.

Free coordinates f, prescribed ones p with accelerations given, multipliers lambda:             [GVS, eqs. 43 - 47]

    [M_ff  -A_f'; A_f  0] [a_f; lambda] = - [r_f; e'' + 2 e' / T + e / T^2]          at a_f = 0, lambda = 0

where T, Baumgarte's constant, draws open chains together; without it e'' = 0.  Derivatives of (a_f, lambda) in q, v, u
have the same matrix, and at the solution the right-hand sides

    - [dr_f/dq; A'' + 2 A' / T + A / T^2]        - [dr_f/dv; 2 A' + 2 A / T]        [B_f; 0]

Velocities and accelerations that open the chains lose what does, the least in the metric of M: the same matrix and the
right-hand sides [0; - e'] and [0; - e''].
"""

from typing import NamedTuple

import numpy as np

from dynamics.rods.loads.robot_arrays import RobotArrays
from dynamics.rods.model.arrays import FIRST, FORCES, MASS_MATRIX, RodArrays
from dynamics.rods.model.rod_model import RodModel
from dynamics.rods.recursion.blocks import BLOCKS
from dynamics.rods.recursion.residual_kernel import DV, MASS, residual_kernel, residual_work, result_numbers
from dynamics.simd import equilibrate, factorize_dense, kernel, routine, solve_dense


class ConstrainedMotion(NamedTuple):
    """Of K points: accelerations a (K, n), multipliers (K, G), generalised forces that are missing, zero but along
    prescribed coordinates, (K, n); derivatives of (a_f, lambda) along q_f, v_f and u, (K, F + G, 2 F + nu)."""

    a: np.ndarray
    multipliers: np.ndarray
    forces: np.ndarray
    derivatives: np.ndarray


@kernel
def fill_border(n, free, rows, K):
    """K (F + G, F + G) = [0 -A_f'; A_f 0] from A (G n)."""
    F = free.size
    K[:] = 0.0
    for x in range(F):
        for g in range(K.shape[0] - F):
            K[F + g, x] = rows[g * n + free[x]]
            K[x, F + g] = -K[F + g, x]


@kernel
def _factorize(n, free, mass, rows, K, d, pivots):
    """Factors K and equilibration d of [M_ff -A_f'; A_f 0] from M (n n) and A (G n); whether it is regular."""
    fill_border(n, free, rows, K)
    for x in range(free.size):
        for y in range(free.size):
            K[x, y] = mass[free[x] * n + free[y]]
    equilibrate(K, d)
    return factorize_dense(K, pivots)


@kernel
def _fill_derivatives(n, nu, free, rate, A, closed, X):
    """The right-hand sides, columns q_f, v_f, u."""
    F = free.size
    G, size = X.shape[0] - F, n * n
    rows, o = 3 * G, G * n
    for y in range(F):
        j = free[y]
        for x in range(F):
            X[x, y] = -A[free[x] * n + j]
            X[x, F + y] = -A[DV * size + free[x] * n + j]
        for g in range(G):
            k = rows + g * n + j
            J, J1, J2 = closed[k], closed[o + k], closed[2 * o + k]
            X[F + g, y] = -(J2 + 2.0 * rate * J1 + rate * rate * J)
            X[F + g, F + y] = -2.0 * (J1 + rate * J)
    for c in range(nu):
        for x in range(F):
            X[x, 2 * F + c] = A[BLOCKS * size + free[x] * nu + c]
        for g in range(G):
            X[F + g, 2 * F + c] = 0.0


@kernel
def _solve_scaled(K, d, pivots, X):
    """X <- D K^-1 D X, K the factors of an equilibrated matrix."""
    for x in range(X.shape[0]):
        for c in range(X.shape[1]):
            X[x, c] *= d[x]
    solve_dense(K, pivots, X)
    for x in range(X.shape[0]):
        for c in range(X.shape[1]):
            X[x, c] *= d[x]


@kernel
def _add_motion(n, free, mass, rows, y, r):
    """r (n,) <- r + M a - A'lambda for y = (a_f, lambda)."""
    F = free.size
    for i in range(n):
        for x in range(F):
            r[i] += mass[i * n + free[x]] * y[x, 0]
        for g in range(y.shape[0] - F):
            r[i] -= rows[g * n + i] * y[F + g, 0]


@routine
def _constrained(m, e, level, rate, free, states, numbers, forces, derivatives):
    """Accelerations and multipliers into the states (K, .), and the others of `ConstrainedMotion`; rate: 1 / T."""
    n, nu, G = m.numbers[0], e.numbers[0], e.closures.kind.size
    F = free.size
    work, A, K = np.empty(numbers[0]), np.empty(numbers[1]), np.empty((F + G, F + G))
    d, pivots, y = np.empty(F + G), np.empty(F + G, np.int64), np.empty((F + G, 1))
    closed, last = A[BLOCKS * n * n + 2 * n * nu :], states.shape[1] - G
    mass_matrix = np.int64(MASS_MATRIX)  # for a literal numba would compile everything once more
    for t in range(states.shape[0]):
        state, r = states[t], forces[t]
        residual_kernel(m, e, mass_matrix, state, work, r, A)
        regular = _factorize(n, free, A[MASS * n * n :], closed[3 * G :], K, d, pivots)
        for x in range(F):
            y[x, 0] = -r[free[x]] if regular else np.nan
        for g in range(G):
            y[F + g, 0] = -(closed[2 * G + g] + rate * (2.0 * closed[G + g] + rate * closed[g]))
        _solve_scaled(K, d, pivots, y)
        for x in range(F):
            state[2 * n + free[x]] = y[x, 0]
        for g in range(G):
            state[last + g] = y[F + g, 0]
        _add_motion(n, free, A[MASS * n * n :], closed[3 * G :], y, r)
        if level >= FIRST:
            residual_kernel(m, e, level, state, work, r, A)
            _fill_derivatives(n, nu, free, rate, A, closed, derivatives[t])
            _solve_scaled(K, d, pivots, derivatives[t])


def constrained_motion(
    model: RodModel, arrays: RobotArrays, level: int, states: np.ndarray, free: np.ndarray, rate: float
) -> ConstrainedMotion:
    """Solution for states (K, .) as `residual_kernel` reads them, which it overwrites; free (F,) coordinates, those of
    the others holding the accelerations given; rate: 1 / T of Baumgarte's method, or 0."""
    n, nu, G, K = model.nq, int(arrays.numbers[0]), model.constraint_count, len(states)
    F = len(free)
    numbers = np.array([residual_work(model), result_numbers(n, nu, int(arrays.numbers[2]))])
    forces, derivatives = np.empty((K, n)), np.empty((K if level >= FIRST else 0, F + G, 2 * F + nu))
    states[:, 2 * n + free], states[:, states.shape[1] - G :] = 0.0, 0.0
    _constrained(model.arrays, arrays, level, rate, free, states, numbers, forces, derivatives)
    a, multipliers = states[:, 2 * n : 3 * n], states[:, states.shape[1] - G :]
    return ConstrainedMotion(a, multipliers, forces, derivatives)


@routine
def _project(m, e, free, state, work, r, A):
    n, nu, G, F = m.numbers[0], e.numbers[0], e.closures.kind.size, free.size
    K, d, pivots, y = np.empty((F + G, F + G)), np.empty(F + G), np.empty(F + G, np.int64), np.zeros((F + G, 2))
    closed, multipliers = A[BLOCKS * n * n + 2 * n * nu :], state[len(state) - G :]
    multipliers[:] = 0.0
    residual_kernel(m, e, np.int64(MASS_MATRIX), state, work, r, A)
    rows = closed[3 * G : (3 + n) * G].copy()
    if not _factorize(n, free, A[MASS * n * n :], rows, K, d, pivots):
        d[:] = np.nan
    for g in range(G):
        y[F + g, 1] = -closed[G + g]
    _solve_scaled(K, d, pivots, y)
    a = np.zeros(n)
    for x in range(F):
        state[n + free[x]] += y[x, 1]
        a[free[x]], state[2 * n + free[x]] = state[2 * n + free[x]], 0.0
    residual_kernel(m, e, np.int64(FORCES), state, work, r, A)
    for x in range(F):
        y[x, 0], y[x, 1] = -r[free[x]], 0.0
    for g in range(G):
        y[F + g, 0] = y[F + g, 1] = -closed[2 * G + g]
        for i in range(n):
            y[F + g, 1] -= rows[g * n + i] * a[i]
    _solve_scaled(K, d, pivots, y)
    for x in range(F):
        state[2 * n + free[x]] = a[free[x]] + y[x, 1]
    multipliers[:] = y[F:, 0]
    _add_motion(n, free, A[MASS * n * n :], rows, y, r)


def project_motion(
    m: RodArrays, e: RobotArrays, free: np.ndarray, state: np.ndarray, work: np.ndarray, r: np.ndarray, A: np.ndarray
) -> None:
    """Change the free velocities and accelerations of a state so that the chains stay closed: e' = e'' = 0; multipliers
    of the motion from there into the state, and the forces that it misses, as in `ConstrainedMotion`, into r (n,).
    work and A: places for what `residual_kernel` writes."""
    _project(m, e, free, state, work, r, A)
