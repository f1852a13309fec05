"""Accelerations of closed chains, with first derivatives and exact Hessians."""

from typing import NamedTuple

import numpy as np

from dynamics.rods.algorithms.backward_pass import BLOCKS, Blocks
from dynamics.rods.algorithms.equation_of_motion import (
    RobotArrays,
    residual_kernel,
    residual_work,
    result_size,
    slice_results,
)
from dynamics.rods.model.arrays import FIRST, FORCES, MASS_MATRIX, SECOND, RodArrays, closure_size
from dynamics.rods.model.rod_model import RodModel
from dynamics.simd import (
    LANES,
    aligned_zeros,
    by_reference,
    equilibrate,
    factorize_dense,
    kernel,
    routine,
    solve_dense,
    span,
)
from dynamics.simd.lane_algebra import scale_into

# --------------------------------------------------------------------------------------------
# Accelerations with closed chains and coordinate-controlled joints, one point in plain numbers.
#
# Free coordinates f, prescribed ones p with accelerations given, multipliers lambda:             [GVS, eqs. 43 - 47]
#
#     [M_ff  -A_f'; A_f  0] [a_f; lambda] = - [r_f; e'' + 2 e' / T + e / T^2]          at a_f = 0, lambda = 0
#
# where T, Baumgarte's constant, closes open chains; without it e'' = 0.  Derivatives of (a_f, lambda) in q, v,
# u have the same matrix, and at the solution the right-hand sides
#
#     - [dr_f/dq; A'' + 2 A' / T + A / T^2]        - [dr_f/dv; 2 A' + 2 A / T]        [B_f; 0]
#
# Velocities and accelerations that open the chains are projected with the least change in the metric of M: the same
# matrix with the right-hand sides [0; - e'] and [0; - e''].


class ConstrainedMotion(NamedTuple):
    """Motion of K points: accelerations a (K, n), multipliers (K, G), residual generalised forces (K, n), which are
    zero except along prescribed coordinates; derivatives of (a_f, lambda) along q_f, v_f and u, (K, F + G, 2 F +
    nu)."""

    a: np.ndarray
    multipliers: np.ndarray
    forces: np.ndarray
    derivatives: np.ndarray


@kernel
def fill_border(n, free, rows, K):
    """Fill K (F + G, F + G) = [0 -A_f'; A_f 0] from A (G n)."""
    F = free.size
    K[:] = 0.0
    for x in range(F):
        for g in range(K.shape[0] - F):
            K[F + g, x] = rows[g * n + free[x]]
            K[x, F + g] = -K[F + g, x]


@kernel
def _factorize(n, free, mass, rows, K, d, pivots):
    """Store factors K and equilibration d of [M_ff -A_f'; A_f 0] from M (n n) and A (G n); returns True if it is
    regular."""
    fill_border(n, free, rows, K)
    for x in range(free.size):
        for y in range(free.size):
            K[x, y] = mass[free[x] * n + free[y]]
    equilibrate(K, d)
    return factorize_dense(K, pivots)


@kernel
def _fill_derivatives(n, nu, free, rate, b, c, X):
    """Fill the right-hand sides, columns q_f, v_f, u, from the results b and c."""
    F, G = free.size, X.shape[0] - free.size
    for y in range(F):
        j = free[y]
        for x in range(F):
            X[x, y] = -b.dq[free[x] * n + j]
            X[x, F + y] = -b.dv[free[x] * n + j]
        for g in range(G):
            k = g * n + j
            J, J1, J2 = c.closed.A[k], c.closed.A_rate[k], c.closed.A_rate_2[k]
            X[F + g, y] = -(J2 + 2.0 * rate * J1 + rate * rate * J)
            X[F + g, F + y] = -2.0 * (J1 + rate * J)
    for k in range(nu):
        for x in range(F):
            X[x, 2 * F + k] = c.B[free[x] * nu + k]
        for g in range(G):
            X[F + g, 2 * F + k] = 0.0


@kernel
def _solve_scaled(K, d, pivots, X):
    """X <- D K^-1 D X, with the factors K of an equilibrated matrix."""
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


class _Places(NamedTuple):
    """Arrays of intermediate results."""

    work: np.ndarray
    A: np.ndarray
    K: np.ndarray  # (F + G, F + G), replaced by its factors
    d: np.ndarray
    pivots: np.ndarray
    y: np.ndarray  # (F + G, .) right-hand sides, then a_f and multipliers


@kernel
def _solve_point(m, e, level, rate, free, s, state, r, derivatives):
    """`_constrained` for one point; s: `_Places`."""
    n, nu, G = m.counts[0], e.counts[0], e.closures.kind.size
    F, (b, c, _), mass_matrix = free.size, slice_results(m, e, span(s.A)), np.int64(MASS_MATRIX)
    closed = c.closed
    residual_kernel(m, e, mass_matrix, span(state), span(s.work), span(r), span(s.A))
    regular = _factorize(n, free, b.M, closed.A, s.K, s.d, s.pivots)
    for x in range(F):
        s.y[x, 0] = -r[free[x]] if regular else np.nan
    for g in range(G):
        s.y[F + g, 0] = -(closed.rate_2[g] + rate * (2.0 * closed.rate[g] + rate * closed.e[g]))
    _solve_scaled(s.K, s.d, s.pivots, s.y)
    for x in range(F):
        state[2 * n + free[x]] = s.y[x, 0]
    for g in range(G):
        state[state.size - G + g] = s.y[F + g, 0]
    _add_motion(n, free, b.M, closed.A, s.y, r)
    if level >= FIRST:
        residual_kernel(m, e, level, span(state), span(s.work), span(r), span(s.A))
        _fill_derivatives(n, nu, free, rate, b, c, derivatives)
        _solve_scaled(s.K, s.d, s.pivots, derivatives)


@routine
def _constrained(m, e, level, rate, free, states, numbers, forces, derivatives):
    """Store accelerations and multipliers in the states (K, .), and the other fields of `ConstrainedMotion`; rate: 1 /
    T."""
    m, e = by_reference(m), by_reference(e)
    N, none = free.size + e.closures.kind.size, np.empty((0, 0))
    s = _Places(
        np.empty(numbers[0]), np.empty(numbers[1]), np.empty((N, N)), np.empty(N), np.empty(N, np.int64),
        np.empty((N, 1)),
    )  # fmt: skip
    for t in range(states.shape[0]):
        X = derivatives[t] if level >= FIRST else none
        _solve_point(m, e, level, rate, free, s, states[t], forces[t], X)


def constrained_motion(
    model: RodModel, arrays: RobotArrays, level: int, states: np.ndarray, free: np.ndarray, rate: float
) -> ConstrainedMotion:
    """Solution for states (K, .) in the layout of `residual_kernel`, which it overwrites; `free` (F,) are the free
    coordinates, and the states contain the accelerations of the others; rate: 1 / T of Baumgarte's method, or 0."""
    n, nu, G, K = model.nq, int(arrays.counts[0]), model.constraint_count, len(states)
    F = len(free)
    numbers = np.array([residual_work(model.arrays, arrays), result_size(model.arrays, arrays)])
    forces, derivatives = np.empty((K, n)), np.empty((K if level >= FIRST else 0, F + G, 2 * F + nu))
    states[:, 2 * n + free], states[:, states.shape[1] - G :] = 0.0, 0.0
    _constrained(model.arrays, arrays, level, rate, free, states, numbers, forces, derivatives)
    a, multipliers = states[:, 2 * n : 3 * n], states[:, states.shape[1] - G :]
    return ConstrainedMotion(a, multipliers, forces, derivatives)


@kernel
def _project_point(m, e, free, s, state, r, rows, a):
    """`project_motion` with arrays s for two right-hand sides; rows (G n) of A; a (n), zero."""
    n, G, F = m.counts[0], e.closures.kind.size, free.size
    (b, c, _), multipliers = slice_results(m, e, span(s.A)), state[len(state) - G :]
    closed = c.closed
    multipliers[:], s.y[:] = 0.0, 0.0
    residual_kernel(m, e, np.int64(MASS_MATRIX), span(state), span(s.work), span(r), span(s.A))
    scale_into(n * G, rows, 1.0, closed.A)
    if not _factorize(n, free, b.M, rows, s.K, s.d, s.pivots):
        s.d[:] = np.nan
    for g in range(G):
        s.y[F + g, 1] = -closed.rate[g]
    _solve_scaled(s.K, s.d, s.pivots, s.y)
    for x in range(F):
        state[n + free[x]] += s.y[x, 1]
        a[free[x]], state[2 * n + free[x]] = state[2 * n + free[x]], 0.0
    residual_kernel(m, e, np.int64(FORCES), span(state), span(s.work), span(r), span(s.A))
    for x in range(F):
        s.y[x, 0], s.y[x, 1] = -r[free[x]], 0.0
    for g in range(G):
        s.y[F + g, 0] = s.y[F + g, 1] = -closed.rate_2[g]
        for i in range(n):
            s.y[F + g, 1] -= rows[g * n + i] * a[i]
    _solve_scaled(s.K, s.d, s.pivots, s.y)
    for x in range(F):
        state[2 * n + free[x]] = a[free[x]] + s.y[x, 1]
    for g in range(G):
        multipliers[g] = s.y[F + g, 0]
    _add_motion(n, free, b.M, rows, s.y, r)


@routine
def _project(m, e, free, state, work, r, A):
    m, e = by_reference(m), by_reference(e)
    n, G, N = m.counts[0], e.closures.kind.size, free.size + e.closures.kind.size
    s = _Places(work, A, np.empty((N, N)), np.empty(N), np.empty(N, np.int64), np.empty((N, 2)))
    _project_point(m, e, free, s, state, r, np.empty(G * n), np.zeros(n))


def project_motion(
    m: RodArrays, e: RobotArrays, free: np.ndarray, state: np.ndarray, work: np.ndarray, r: np.ndarray, A: np.ndarray
) -> None:
    """Change the free velocities and accelerations of a state so that the chains stay closed, e' = e'' = 0; store the
    multipliers of the motion from there in the state, and its residual forces, as in `ConstrainedMotion`, in r (n,).
    work and A: arrays for the results of `residual_kernel`."""
    _project(m, e, free, state, work, r, A)


# --------------------------------------------------------------------------------------------
# Second derivatives of accelerations with closed chains, all points in lanes.
#
# With K = [M -A'; A 0] of (a, lambda), K'(w, mu) = (y, 0), the Hessian of y'a is that of `implicit_function` for
#
#     w'r(q, v, a, u, lambda) + mu'e''(q, v, a)
#
# The kernels have that of w'r, and of g = mu'e' (`closure_kernel`); e'' is the rate of e' along (v, a), so that
#
#     qq  (g_qq)'      qv  (g_qv)' + g_qq      vv  g_qv + g_qv'      qa  g_qv
#
# where the rates (.)' along (v, a) are complex steps, which are exact.

STEP = 1e-30


@routine
def _evaluate(m, e, level, state, work, r, A):
    m, e = by_reference(m), by_reference(e)
    residual_kernel(m, e, level, span(state), span(work), span(r), span(A))


class _Results:
    """Results of `residual_kernel` for states (K, .), and their rates along directions in (q, v) (K, 2 n), complex."""

    def __init__(self, model: RodModel, arrays: RobotArrays, level: int, states, directions=None):
        n, count = model.nq, result_size(model.arrays, arrays)
        numbers = states.shape[1], residual_work(model.arrays, arrays), n, count
        self.n, self.nu, self.G = n, int(arrays.counts[0]), model.constraint_count
        self.virtual = closure_size(model.arrays, arrays.closures) - self.G * n
        self.all = np.empty((len(states), count), complex)
        for t in range(0, len(states), LANES):
            state, work, r, A = (aligned_zeros(size, 2, LANES) for size in numbers)
            own = states[t : t + LANES]
            state[:, 0] = own[0][:, None]
            state[:, 0, : len(own)] = own.T
            if directions is not None:
                state[: 2 * n, 1, : len(own)] = STEP * directions[t : t + LANES].T
            _evaluate(model.arrays, arrays, level, state, work, r, A)
            self.all[t : t + LANES] = A[:, 0, : len(own)].T + 1j / STEP * A[:, 1, : len(own)].T

    def block(self, name: str) -> np.ndarray:
        """(K, n, n)"""
        n = self.n
        return self.all[:, Blocks._fields.index(name) * n * n :][:, : n * n].reshape(-1, n, n)

    @property
    def Hqu(self) -> np.ndarray:
        """(K, n, nu)"""
        n, nu = self.n, self.nu
        return np.real(self.all)[:, BLOCKS * n * n + n * nu :][:, : n * nu].reshape(-1, n, nu)

    def rows(self, virtual: bool) -> np.ndarray:
        """A, or its rate along w, (K, G, n)."""
        n, G = self.n, self.G
        first = self.virtual if virtual else 3 * G
        return np.real(self.all)[:, BLOCKS * n * n + 2 * n * self.nu + first :][:, : G * n].reshape(-1, G, n)


def acceleration_hessian(
    model: RodModel, arrays: RobotArrays, states: np.ndarray, motion: ConstrainedMotion
) -> tuple[np.ndarray, ...]:
    """Hqq, Hqv, Hvv (K, n, n), Hqu (K, n, nu) of y'a, for states (K, .) with y in place of w, which contain their
    motion, and its first derivatives."""
    n, G, X = model.nq, model.constraint_count, motion.derivatives
    least = _Results(model, arrays, MASS_MATRIX, states)
    A, K = least.rows(False), np.zeros((len(states), n + G, n + G))
    K[:, :n, :n], K[:, :n, n:], K[:, n:, :n] = np.real(least.block("M")), -A.swapaxes(1, 2), A
    y = np.zeros((len(states), n + G))
    y[:, :n] = states[:, 3 * n : 4 * n]
    w = np.linalg.solve(K.swapaxes(1, 2), y[..., None])[..., 0]
    given, rates = states.copy(), states.copy()
    given[:, 3 * n : 4 * n], given[:, -2 * G - 1 : -G] = w[:, :n], 0.0
    rates[:, 3 * n : 4 * n], rates[:, -2 * G - 1], rates[:, -2 * G : -G], rates[:, -G:] = 0.0, 0.0, w[:, n:], 0.0
    of_r = _Results(model, arrays, SECOND, given)
    g = _Results(model, arrays, SECOND, rates, states[:, n : 3 * n])
    Hqq, Hqv, Hvv, Hqa = (np.real(of_r.block(name)) for name in ("Hqq", "Hqv", "Hvv", "Hqa"))
    (gqq, rate_qq), (gqv, rate_qv) = ((np.real(x), np.imag(x)) for x in (g.block("Hqq"), g.block("Hqv")))
    Hqz = np.concatenate([Hqa + gqv, -of_r.rows(True).swapaxes(1, 2)], axis=2)
    Xq, Xv, Xu = np.split(X, (n, 2 * n), axis=2)
    along = Hqz @ Xq
    return (
        -(Hqq + rate_qq + along + along.swapaxes(1, 2)),
        -(Hqv + rate_qv + gqq + Hqz @ Xv),
        -(Hvv + gqv + gqv.swapaxes(1, 2)),
        -(of_r.Hqu + Hqz @ Xu),
    )
