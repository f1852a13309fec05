"""Newton's method for equilibria and implicit steps, with factors that are kept between solves."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from dynamics.derivatives.implicit_function import fill_border
from dynamics.rods.algorithms.backward_pass import slice_blocks
from dynamics.rods.algorithms.constrained_dynamics import project_motion
from dynamics.rods.algorithms.equation_of_motion import residual_kernel, residual_work, result_size, slice_results
from dynamics.rods.model.arrays import FIRST, FORCES
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.simd import by_reference, equilibrate, factorize_dense, kernel, routine, solve_dense

# --------------------------------------------------------------------------------------------
# Factors of a Jacobian for many steps of Newton's method, improved by Broyden's updates, and a rule for renewing them.
#
# After full steps s_0 ... s_(k-1) with one Jacobian J, the last of which left the residual r, the next one is
#
#     x <- - J^-1 r,    x <- x + s_(j+1) (s_j.x) / (s_j.s_j),  j = 0 ... k - 2,
#     s_k = x / (1 - (s_(k-1).x) / (s_(k-1).s_(k-1)))
#
# in the unknowns of the equilibrated matrix.                                                        [Kelley 1995, 7.3]

UPDATES = 20
"""Largest number of steps that enter the updates."""
ALONG = 0.5
"""Largest share of a step that the next may repeat for an update to be used."""
RENEWAL = 8
"""Cost of a Jacobian and its factors, in evaluations of the residual."""


class Factors(NamedTuple):
    """Factors of a Jacobian (N, N)."""

    c: np.ndarray  # (3,) coefficients of the Jacobian; NaN if it must be renewed
    J: np.ndarray  # (N, N) L and U of the equilibrated matrix
    d: np.ndarray  # (N,) its equilibration
    pivots: np.ndarray  # (N,)
    scale: np.ndarray  # (N,) of the residual
    record: np.ndarray  # (3,) excess evaluations, fewest of a call with the factors before and with these


class Steps(NamedTuple):
    """Steps of a call with the same Jacobian."""

    full: np.ndarray  # (UPDATES, N) equilibrated, with the same Jacobian
    now: np.ndarray  # (N,) the current step
    column: np.ndarray  # (N, 1)


def no_factors(N: int) -> Factors:
    """Empty arrays of factors."""
    pivots, record = np.empty(N, np.int64), np.array([0.0, np.inf, np.inf])
    return Factors(np.full(3, np.nan), np.empty((N, N)), np.empty(N), pivots, np.empty(N), record)


@kernel
def factorize(k, c):
    """Factorize in place the matrix stored in k.J; returns True if it is regular."""
    equilibrate(k.J, k.d)
    regular = factorize_dense(k.J, k.pivots)
    for i in range(3):
        k.c[i] = c[i] if regular else np.nan
    return regular


@kernel
def keep_record(k, evaluations, jacobians):
    """Count the evaluations of a call.  Factors are discarded when calls with them have taken RENEWAL evaluations more
    than the best of them, or the best with the factors before, would have."""
    record = k.record
    if jacobians > 0:
        record[0], record[1], record[2] = 0.0, record[2], np.inf
        return
    record[2] = min(record[2], evaluations)
    record[0] += evaluations - min(record[1], record[2])
    if record[0] > RENEWAL:
        k.c[:] = np.nan


# ------------------------------------------------------------------------------------------------ steps
@kernel
def move(y, length, step, moved):
    """moved <- y + length step."""
    for i in range(len(y)):
        moved[i] = y[i] + length * step[i]


@kernel
def _dot(x, y):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@kernel
def _update(steps, count, x):
    """Apply the updates to the step x; returns False if the last step does not permit one."""
    for j in range(count - 1):
        move(x, _dot(steps[j], x) / _dot(steps[j], steps[j]), steps[j + 1], x)
    last = steps[count - 1]
    along = _dot(last, x) / _dot(last, last)
    if not along < ALONG:
        return False
    move(x, along / (1.0 - along), x, x)
    return True


@kernel
def set_step(k, r, count, s):
    """Set the step for the residual r (N,), from the factors and the `count` full steps before; returns the number of
    steps with it."""
    N, x = len(r), s.now
    for i in range(N):
        s.column[i, 0] = -k.d[i] * r[i]
    solve_dense(k.J, k.pivots, s.column)
    move(s.column[:, 0], 0.0, s.column[:, 0], x)
    if count > 0 and (count == len(s.full) or not _update(s.full, count, x)):
        count = 0
        move(s.column[:, 0], 0.0, s.column[:, 0], x)
    for i in range(N):
        s.full[count, i] = x[i]
        x[i] *= k.d[i]
    return count + 1


# --------------------------------------------------------------------------------------------
# Damped Newton's method on the residual of a soft robot, for statics and for implicit time steps.
#
# The unknown z (n) moves coordinates, velocities and accelerations along together,
#
#     q = q0 + cq z,    v = v0 + cv z,    a = a0 + ca z,          r(q, v, a, u) = 0,      J = cq r_q + cv r_v + ca M
#
# so that statics is (1, 0, 0), and Newmark's step or the implicit midpoint rule is (c h^2, c' h, 1).  Prescribed
# coordinates have z = 0.  Closed chains add the multipliers to the unknowns, e(q) / cq = 0 to the equations, and
#
#     [J_ff  -A_f'; A_f  0]
#
# to the Jacobian.  A step is halved until it decreases sum (rho_i / s_i)^2, rho = (r_f, e / cq), with s_i^2 = |J_ii|
# and sum_j A_ij^2 / |J_jj| of the first Jacobian: all terms are energies.  Chains that are to have A v + rate e = 0
# have that over cv + rate cq in place of e / cq, and the same Jacobian, without the change of A.
#
# A Jacobian is kept as long as two steps with it reduce the residual enough, also in later calls with the same cq, cv,
# ca.  Steps that shrink at a rate theta leave an error of about theta / (1 - theta) times the last, by
# which they are judged.                                                       [Hairer, Wanner 1996, section IV.8]

CONVERGED, TOO_MANY, SINGULAR, STALLED, NO_START = 0, 1, 2, 3, 4
MESSAGES = (
    "converged", "too many iterations", "a singular Jacobian", "no decrease of the residual along the step",
    "forces are not finite where the method starts: more than 2 pi of rotation in one step along a rod, or an overflow",
)  # fmt: skip
SHORTEST = 1e-6
ROUNDING = 1e3
"""Multiple of the tolerance below which a step is accepted as converged when rounding prevents a decrease of the
residual."""
DECREASE = 1e-4
"""Least decrease of the residual, relative to that of the linear model, that a step must give."""
FAST = 0.1
"""Largest share of the residual that a step may leave for the Jacobian to be kept, and share of the tolerance that is
allowed for the error."""
UNTRIED = 100.0
"""Bound on the error, relative to the step, after the first step with a Jacobian of an earlier call: a rate of 0.99."""
LEAST_RATE = 0.01
"""Least rate of convergence that error estimates assume."""


class NewtonResult(NamedTuple):
    """The unknown z (n), multipliers (G,), the status, the numbers of steps, of evaluations and of Jacobians among
    them, and r (n,) of the last evaluation, which along prescribed coordinates is their driving force."""

    z: np.ndarray
    multipliers: np.ndarray
    status: int
    iterations: int
    evaluations: int
    jacobians: int
    forces: np.ndarray


# ------------------------------------------------------------------------------------------------ pieces of a step
class _Problem(NamedTuple):
    """The equations, and arrays for the input and output of `residual_kernel`."""

    m: Any  # RodArrays
    e: Any  # RobotArrays
    free: np.ndarray  # (F,)
    base: np.ndarray  # (3, n) q0, v0, a0
    c: np.ndarray  # (3,) cq, cv, ca
    closing: np.ndarray  # (3,) for the equations (closing[0] e + closing[1] e') / closing[2]
    state: np.ndarray  # input of `residual_kernel`, multipliers (G) last
    work: np.ndarray
    r: np.ndarray  # (n,)
    A: np.ndarray
    rho: np.ndarray  # (F + G,)
    counts: np.ndarray  # (2,) evaluations, and Jacobians among them


@kernel
def _closed(p):
    """Results of closed chains."""
    _, c, _ = slice_results(p.m, p.e, p.A)
    return c.closed


@kernel
def _evaluate(p, level, y):
    """Compute rho, and the blocks A of the level, at y = (z_f, multipliers)."""
    n, F, level = p.r.size, p.free.size, np.int64(level)  # a literal would compile everything once more
    G = len(y) - F
    for x in range(F):
        for k in range(3):
            p.state[k * n + p.free[x]] = p.base[k, p.free[x]] + p.c[k] * y[x]
    for g in range(G):
        p.state[len(p.state) - G + g] = y[F + g]
    residual_kernel(p.m, p.e, level, p.state, p.work, p.r, p.A)
    for x in range(F):
        p.rho[x] = p.r[p.free[x]]
    closed = _closed(p)
    for g in range(G):
        p.rho[F + g] = (p.closing[0] * closed.e[g] + p.closing[1] * closed.rate[g]) / p.closing[2]
    p.counts[0] += 1
    p.counts[1] += level >= FIRST


@kernel
def _fill_jacobian(p, J):
    """Fill J (F + G, F + G) from dr/dq, dr/dv, M and A."""
    n, c, F, (b, _) = p.r.size, p.c, p.free.size, slice_blocks(p.m, p.A)
    fill_border(n, p.free, _closed(p).A, J)
    for x in range(F):
        for y in range(F):
            k = p.free[x] * n + p.free[y]
            J[x, y] = c[0] * b.dq[k] + c[1] * b.dv[k] + c[2] * b.M[k]


@kernel
def _merit(rho, scale):
    total = 0.0
    for i in range(len(scale)):
        total += (rho[i] * scale[i]) ** 2
    return total


@kernel
def _set_scale(F, J, scale):
    """Set the scale to 1 / sqrt |J_ii|, bounded by that of a millionth of the largest |J_ii|; for rows of closed chains
    to 1 / sqrt of sum_j A_ij^2 / |J_jj|."""
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
def _size(p, y, step):
    """Largest change of coordinates and velocities, relative to 1 + their size."""
    largest = 0.0
    for x in range(p.free.size):
        for k in range(2):
            size = abs(p.c[k] * step[x]) / (1.0 + abs(p.base[k, p.free[x]] + p.c[k] * y[x]))
            if not size <= largest:
                largest = size if size > largest else np.inf
    return largest


@kernel
def _search(p, level, y, step, scale, shortest, trial):
    """Length of the first of the steps 1, 1/2, 1/4 ... down to the shortest that decreases the residual enough, or 0.
    The residual is evaluated there; the full step is evaluated at `level`."""
    merit, length = _merit(p.rho, scale), 1.0
    while length >= shortest:
        move(y, length, step, trial)
        _evaluate(p, level if length == 1.0 else FORCES, trial)
        if _merit(p.rho, scale) <= (1.0 - 2.0 * DECREASE * length) * merit:
            return length
        length *= 0.5
    return 0.0


@kernel
def _renew(p, rescale, k):
    """Factorize the Jacobian that was evaluated last; returns True if it is regular."""
    _fill_jacobian(p, k.J)
    if rescale:
        _set_scale(p.free.size, k.J, k.scale)
    return factorize(k, p.c)


# ------------------------------------------------------------------------------------------------ the method
@kernel
def _error(count, fresh, sizes):
    """Bound on the error after the last of `count` steps with a Jacobian, relative to the step."""
    if count == 1:
        return FAST if fresh else UNTRIED
    rate = max(sizes[2] / sizes[1], sizes[1] / sizes[0] if count > 2 else FAST, LEAST_RATE)
    return rate / (1.0 - rate) if rate < 1.0 else np.inf


@kernel
def _iterate(p, k, y, tolerance, max_iterations, s, sizes, trial):
    """Improve y = (z_f, multipliers) in place, at first with the factors k if their coefficients agree; returns the
    status and the number of steps."""
    fresh = k.c[0] != p.c[0] or k.c[1] != p.c[1] or k.c[2] != p.c[2]  # the Jacobian was evaluated at y
    rescale, count, before = fresh, 0, 0.0
    full = np.int64(FORCES)  # the level at which full steps are evaluated
    _evaluate(p, np.int64(FIRST if fresh else FORCES), y)
    for i in range(len(p.rho)):
        if not np.isfinite(p.rho[i]):
            return NO_START, 0
    for iteration in range(max_iterations):
        if fresh:
            if not _renew(p, rescale, k):
                return SINGULAR, iteration
            rescale, count = False, 0
        merit, count = _merit(p.rho, k.scale), set_step(k, p.rho, count, s)
        sizes[0], sizes[1], sizes[2] = sizes[1], sizes[2], _size(p, y, s.now)
        if sizes[2] * _error(count, fresh, sizes) <= FAST * tolerance:
            move(y, 1.0, s.now, y)
            return CONVERGED, iteration + 1
        length = _search(p, full, y, s.now, k.scale, SHORTEST if fresh else 1.0, trial)
        if length == 0.0 and fresh:
            return CONVERGED if sizes[2] <= ROUNDING * tolerance else STALLED, iteration + 1
        slow, known = True, False
        if length > 0.0:
            move(y, length, s.now, y)
            left = _merit(p.rho, k.scale) / merit
            slow = length < 1.0 or (left > FAST**2 and (count == 1 or left * before > FAST**4))
            before, known = left, full == FIRST and length == 1.0
        full = np.int64(FIRST if slow and fresh else FORCES)
        if slow and not known:
            _evaluate(p, np.int64(FIRST), y)
        fresh = slow or known
    return TOO_MANY, max_iterations


@routine
def _newton(p, k, y, tolerance, max_iterations, final, s, sizes, trial):
    """`_iterate`, followed by an evaluation of r at y if `final`."""
    p, k = by_reference(p), by_reference(k)
    result = _iterate(p, k, y, tolerance, max_iterations, s, sizes, trial)
    keep_record(k, p.counts[0], p.counts[1])
    if final:
        _evaluate(p, np.int64(FORCES), y)
    return result


@routine
def _linearize(p, J, e, A):
    """Compute r and its derivative J (n, n) at the state, with e (G,) and A (G n,) of closed chains."""
    p = by_reference(p)
    residual_kernel(p.m, p.e, np.int64(FIRST), p.state, p.work, p.r, p.A)
    (b, _), closed = slice_blocks(p.m, p.A), _closed(p)
    for i in range(len(J)):
        J[i] = b.dq[i]
    for g in range(len(e)):
        e[g] = closed.e[g]
    for i in range(len(A)):
        A[i] = closed.A[i]


class Newton:
    """Newton's method for one robot, whose calls share the factors of the last Jacobian.

    Parameters
    ----------
    robot : SoftRobot
    free : (F,) coordinates that are unknown; others stay at their base.  By default all
    """

    def __init__(self, robot: SoftRobot, free: np.ndarray | None = None) -> None:
        n, nu, G = robot.nq, robot.nu, robot.model.constraint_count
        self._free, self._chains = np.arange(n) if free is None else free, G
        N = len(self._free) + G
        m, e = robot.model.arrays, robot.arrays
        state, A = np.zeros(4 * n + nu + int(e.counts[1])), np.empty(result_size(m, e))
        base, r, rho, counts = np.empty((3, n)), np.empty(n), np.empty(N), np.zeros(2, np.int64)
        self._problem = _Problem(
            m, e, self._free, base, np.empty(3), np.empty(3), state, np.empty(residual_work(m, e)), r, A, rho, counts
        )
        self._factors = no_factors(N)
        self._room = Steps(np.empty((UPDATES, N)), np.empty(N), np.empty((N, 1))), np.zeros(3), np.empty(N)

    def solve(
        self,
        base: np.ndarray,
        coefficients: ArrayLike,
        inputs: np.ndarray,
        z: np.ndarray,
        tolerance: float,
        max_iterations: int,
        multipliers: np.ndarray | None = None,
        final: bool = False,
        rate: float | None = None,
    ) -> NewtonResult:
        """Solve r(q, v, a, u) = 0 for z; base (3, n): q0, v0, a0; coefficients (3,): cq, cv, ca; inputs: u (nu),
        external wrenches (6 W).

        It ends when the remaining error of coordinates and velocities is at most FAST `tolerance` (1 + their size),
        which also holds after a step of Newton's method by the tolerance or less; z (n,) is a start, and so are the
        multipliers (G,).  `final`: evaluate r at the solution.  `rate`: closed chains satisfy A v + rate e = 0 in place
        of e = 0.
        """
        p, n, F = self._problem, len(z), len(self._free)
        p.base[:], p.c[:], p.counts[:] = base, coefficients, 0
        closing = (1.0, 0.0, p.c[0]) if rate is None else (rate, 1.0, p.c[1] + rate * p.c[0])
        p.closing[0], p.closing[1], p.closing[2] = closing
        p.state[: 3 * n], p.state[4 * n : 4 * n + len(inputs)] = p.base.ravel(), inputs
        y = np.zeros(len(p.rho))
        y[:F] = z[self._free]
        if multipliers is not None:
            y[F:] = multipliers
        status, count = _newton(p, self._factors, y, tolerance, max_iterations, final, *self._room)
        z = np.zeros(n)
        z[self._free] = y[:F]
        return NewtonResult(z, y[F:], status, count, int(p.counts[0]), int(p.counts[1]), p.r.copy())

    def forget(self) -> None:
        """Discard the factors, for example after a change of charts."""
        self._factors.c[:] = np.nan

    def linearize(self, q: np.ndarray, inputs: np.ndarray, multipliers: np.ndarray) -> tuple[np.ndarray, ...]:
        """r (n,), dr/dq (n, n), e (G,) and A (G, n) at rest at q (n,)."""
        p, n, G = self._problem, len(q), self._chains
        p.state[:] = 0.0
        p.state[:n], p.state[4 * n : 4 * n + len(inputs)] = q, inputs
        p.state[len(p.state) - G :] = multipliers
        J, e, A = np.empty(n * n), np.empty(G), np.empty(G * n)
        _linearize(p, J, e, A)
        return p.r.copy(), J.reshape(n, n), e, A.reshape(G, n)

    def project(self, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q, v, a (3, n), with velocities and accelerations projected so that the chains stay closed, under the inputs
        of the last call; multipliers (G,) and forces (n,) of the motion from there."""
        p, n = self._problem, len(q)
        p.state[: 3 * n] = np.concatenate([q, v, a])
        project_motion(p.m, p.e, p.free, p.state, p.work, p.r, p.A)
        return p.state[: 3 * n].reshape(3, n).copy(), p.state[len(p.state) - self._chains :].copy(), p.r.copy()
