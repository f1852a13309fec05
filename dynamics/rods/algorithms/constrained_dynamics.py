"""Accelerations of closed chains, with first derivatives and exact Hessians."""

from typing import NamedTuple

import numpy as np

from dynamics.derivatives.implicit_function import (
    ConstrainedFactors,
    constrained_changes,
    factorize_constrained,
    implicit_hessians,
    room_for_factors,
)
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
from dynamics.simd import LANES, aligned_zeros, by_reference, kernel, routine, span
from dynamics.simd.lane_algebra import scale_into

# --------------------------------------------------------------------------------------------
# Accelerations with closed chains and coordinate-controlled joints, one point in plain numbers.
#
# The implicit function (a_f, lambda) of the free coordinates f and G constraints, with the accelerations of prescribed
# ones given (`implicit_function`):                                                            [GVS, eqs. 43 - 47]
#
#     r(q, v, a, u) - A'lambda = 0        e'' + 2 e' / T + e / T^2 = 0        J = M
#
# where T, Baumgarte's constant, closes open chains; without it e'' = 0.  The equations are linear in the unknowns, so
# that their values at a_f = 0, lambda = 0 are a change that these make up for; at the solution they change by
#
#     [r_q; A'' + 2 A' / T + A / T^2] dq + [r_v; 2 A' + 2 A / T] dv + [-B; 0] du + [M_p; A_p] da_p
#
# Velocities and accelerations that open the chains are projected with the least change in the metric of M: the same
# matrix for the changes [0; e'] and [0; e''].


class ConstrainedMotion(NamedTuple):
    """Motion of K points: accelerations a (K, n), multipliers (K, G), residual generalised forces (K, n), which are
    zero except along prescribed coordinates; derivatives of (a_f, lambda), (K, F + G, Z), and of the forces, (K, n, Z),
    along q, v, u and accelerations of prescribed coordinates."""

    a: np.ndarray
    multipliers: np.ndarray
    forces: np.ndarray
    derivatives: np.ndarray
    force_derivatives: np.ndarray


@kernel
def _fill_changes(n, nu, held, rate, b, c, X):
    """Fill X with the changes along q, v, u and the accelerations of prescribed coordinates."""
    for i in range(n):
        for j in range(n):
            X[i, j], X[i, n + j] = b.dq[i * n + j], b.dv[i * n + j]
        for k in range(nu):
            X[i, 2 * n + k] = -c.B[i * nu + k]
        for k in range(held.size):
            X[i, 2 * n + nu + k] = b.M[i * n + held[k]]
    for g in range(X.shape[0] - n):
        for j in range(n):
            A, A1, A2 = c.closed.A[g * n + j], c.closed.A_rate[g * n + j], c.closed.A_rate_2[g * n + j]
            X[n + g, j] = A2 + 2.0 * rate * A1 + rate * rate * A
            X[n + g, n + j] = 2.0 * (A1 + rate * A)
        for k in range(nu):
            X[n + g, 2 * n + k] = 0.0
        for k in range(held.size):
            X[n + g, 2 * n + nu + k] = c.closed.A[g * n + held[k]]


class _Places(NamedTuple):
    """Arrays of intermediate results."""

    work: np.ndarray
    A: np.ndarray
    all: np.ndarray  # (n,) 0, 1 ...
    K: ConstrainedFactors  # of M and A
    x: np.ndarray  # (n + G, 1) a change of the equations
    y: np.ndarray  # (F + G, 1) and of the unknowns


def _places(n: int, free: np.ndarray, constraints: int, work: np.ndarray, A: np.ndarray) -> _Places:
    K = room_for_factors(free, constraints)
    return _Places(work, A, np.arange(n), K, np.empty((n + constraints, 1)), np.empty((len(K.d), 1)))


@kernel
def _solve_point(m, e, level, rate, held, s, state, r, X, Y):
    """`_constrained` for one point; s: `_Places`."""
    n, nu, G, free = m.counts[0], e.counts[0], e.closures.kind.size, s.K.free
    (b, c, _), mass_matrix, first = slice_results(m, e, span(s.A)), np.int64(MASS_MATRIX), np.int64(FIRST)
    F, closed = free.size, c.closed
    residual_kernel(m, e, mass_matrix, span(state), span(s.work), span(r), span(s.A))
    factorize_constrained(n, b.M, closed.A, s.K)
    for i in range(n):
        s.x[i, 0] = r[i]
    for g in range(G):
        s.x[n + g, 0] = closed.rate_2[g] + rate * (2.0 * closed.rate[g] + rate * closed.e[g])
    constrained_changes(n, s.all, b.M, closed.A, s.K, s.x, s.y)
    for i in range(n):
        r[i] = s.x[i, 0]
    for x in range(F):
        state[2 * n + free[x]] = s.y[x, 0]
    for g in range(G):
        state[state.size - G + g] = s.y[F + g, 0]
    if level >= SECOND:
        s.x[:] = 0.0
        for i in range(n):
            s.x[i, 0] = -state[3 * n + i]
        constrained_changes(n, s.all, b.M, closed.A, s.K, s.x, s.y)
        for x in range(F):
            state[3 * n + free[x]] = s.y[x, 0]
        for g in range(G):
            state[state.size - 2 * G + g] = -s.y[F + g, 0]
    if level >= FIRST:
        residual_kernel(m, e, first, span(state), span(s.work), span(r), span(s.A))
        _fill_changes(n, nu, held, rate, b, c, X)
        constrained_changes(n, held, b.M, closed.A, s.K, X, Y)


@routine
def _constrained(m, e, level, rate, held, s, states, forces, changes, derivatives):
    """Store accelerations and multipliers in the states (K, .), and the other fields of `ConstrainedMotion`; rate: 1 /
    T; changes: (K, n + G, Z) with those of forces."""
    m, e, none = by_reference(m), by_reference(e), states[:0]
    for t in range(states.shape[0]):
        X, Y = (changes[t], derivatives[t]) if level >= FIRST else (none, none)
        _solve_point(m, e, level, rate, held, s, states[t], forces[t], X, Y)


NONE = np.empty(0, np.int64)


def constrained_motion(
    model: RodModel,
    arrays: RobotArrays,
    level: int,
    states: np.ndarray,
    free: np.ndarray,
    rate: float,
    held: np.ndarray = NONE,
) -> ConstrainedMotion:
    """Solution for states (K, .) in the layout of `residual_kernel`, which it overwrites; for SECOND, w and mu of the y
    that they have in place of w follow there, and in place of the rows' weights.

    `free` (F,) are the free coordinates, and the states contain the accelerations of the others, of which `held` (P,)
    are those along which derivatives are needed; rate: 1 / T of Baumgarte's method, or 0."""
    n, nu, G, K = model.nq, int(arrays.counts[0]), model.constraint_count, len(states)
    F, Z, first = len(free), 2 * n + nu + len(held), K if level >= FIRST else 0
    forces, changes, derivatives = np.empty((K, n)), np.empty((first, n + G, Z)), np.empty((first, F + G, Z))
    states[:, 2 * n + free], states[:, states.shape[1] - G :] = 0.0, 0.0
    work, A = np.empty(residual_work(model.arrays, arrays)), np.empty(result_size(model.arrays, arrays))
    places = _places(n, free, G, work, A)
    _constrained(model.arrays, arrays, level, rate, held, places, states, forces, changes, derivatives)
    a, multipliers = states[:, 2 * n : 3 * n], states[:, states.shape[1] - G :]
    return ConstrainedMotion(a, multipliers, forces, derivatives, changes[:, :n])


@kernel
def _project_point(m, e, s, state, r, rows, a):
    """`project_motion`; rows (G n) of A; a (n), zero."""
    n, G, free = m.counts[0], e.closures.kind.size, s.K.free
    (b, c, _), F = slice_results(m, e, span(s.A)), free.size
    closed, multipliers = c.closed, state[len(state) - G :]
    multipliers[:], s.x[:] = 0.0, 0.0
    residual_kernel(m, e, np.int64(MASS_MATRIX), span(state), span(s.work), span(r), span(s.A))
    scale_into(n * G, rows, 1.0, closed.A)
    factorize_constrained(n, b.M, rows, s.K)
    for g in range(G):
        s.x[n + g, 0] = closed.rate[g]
    constrained_changes(n, s.all, b.M, rows, s.K, s.x, s.y)
    for x in range(F):
        state[n + free[x]] += s.y[x, 0]
        a[free[x]], state[2 * n + free[x]] = state[2 * n + free[x]], 0.0
    residual_kernel(m, e, np.int64(FORCES), span(state), span(s.work), span(r), span(s.A))
    s.x[:] = 0.0
    for g in range(G):
        s.x[n + g, 0] = closed.rate_2[g]
        for i in range(n):
            s.x[n + g, 0] += rows[g * n + i] * a[i]
    constrained_changes(n, s.all, b.M, rows, s.K, s.x, s.y)
    for x in range(F):
        state[2 * n + free[x]] = a[free[x]] + s.y[x, 0]
    for i in range(n):
        s.x[i, 0] = r[i]
    for g in range(G):
        s.x[n + g, 0] = closed.rate_2[g]
    constrained_changes(n, s.all, b.M, rows, s.K, s.x, s.y)
    for i in range(n):
        r[i] = s.x[i, 0]
    for g in range(G):
        multipliers[g] = s.y[F + g, 0]


@routine
def _project(m, e, s, state, r, rows, a):
    m, e = by_reference(m), by_reference(e)
    _project_point(m, e, s, state, r, rows, a)


def project_motion(
    m: RodArrays, e: RobotArrays, free: np.ndarray, state: np.ndarray, work: np.ndarray, r: np.ndarray, A: np.ndarray
) -> None:
    """Change the free velocities and accelerations of a state so that the chains stay closed, e' = e'' = 0; store the
    multipliers of the motion from there in the state, and its residual forces, as in `ConstrainedMotion`, in r (n,).
    work and A: arrays for the results of `residual_kernel`."""
    n, G = len(r), len(e.closures.kind)
    _project(m, e, _places(n, free, G, work, A), state, r, np.empty(G * n), np.zeros(n))


# --------------------------------------------------------------------------------------------
# Second derivatives of accelerations with closed chains, all points in lanes.
#
# With w and mu of y'a, the Hessian of y'a is that of `implicit_function` for
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

    def __init__(self, model: RodModel, arrays: RobotArrays, states, directions=None):
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
            _evaluate(model.arrays, arrays, SECOND, state, work, r, A)
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

    def virtual_rows(self) -> np.ndarray:
        """The rate of A along w, (K, G, n)."""
        n, G = self.n, self.G
        first = BLOCKS * n * n + 2 * n * self.nu + self.virtual
        return np.real(self.all)[:, first : first + G * n].reshape(-1, G, n)


def acceleration_hessian(
    model: RodModel, arrays: RobotArrays, states: np.ndarray, motion: ConstrainedMotion
) -> tuple[np.ndarray, ...]:
    """Hqq, Hqv, Hvv (K, n, n), Hqu (K, n, nu) of y'a, for states (K, .) that contain their motion of level SECOND."""
    n, G, given, rates = model.nq, model.constraint_count, states.copy(), states.copy()
    given[:, -2 * G - 1 : -G] = 0.0
    rates[:, 3 * n : 4 * n], rates[:, -2 * G - 1], rates[:, -G:] = 0.0, 0.0, 0.0
    of_r = _Results(model, arrays, given)
    g = _Results(model, arrays, rates, states[:, n : 3 * n])
    Hqq, Hqv, Hvv, Hqa = (np.real(of_r.block(name)) for name in ("Hqq", "Hqv", "Hvv", "Hqa"))
    (gqq, rate_qq), (gqv, rate_qv) = ((np.real(x), np.imag(x)) for x in (g.block("Hqq"), g.block("Hqv")))
    Hqz = np.concatenate([Hqa + gqv, -of_r.virtual_rows().swapaxes(1, 2)], axis=2)
    Hqq, Hqv, Hvv = Hqq + rate_qq, Hqv + rate_qv + gqq, Hvv + gqv + gqv.swapaxes(1, 2)
    return implicit_hessians(Hqq, Hqv, Hvv, of_r.Hqu, Hqz, *np.split(motion.derivatives, (n, 2 * n), axis=2))
