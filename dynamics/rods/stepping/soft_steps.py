"""One time step of a soft robot and its expansion, one knot per lane.

    semi-implicit Euler    v+ = v + h a    q+ = q + h v+            ID(q, v, a) + K q+ + D v+ - B(q) u = 0
    implicit midpoint      v+ = v + h a    q+ = q + h v + h^2/2 a   r(q + h/2 v + h^2/4 a, v + h/2 a, a, u) = 0
    Newmark                v+ = v~ + h/2 a1            q+ = q~ + h^2/4 a1            r(q+, v+, a1, u) = 0
                           v~ = v + h/2 a0             q~ = q + h v + h^2/4 a0       r(q, v, a0, u) = 0

    SDIRK2                 v+ = v~ + g a1              q+ = q~ + g^2 a1              r(q+, v+, a1, u) = 0
                           v~ = v + (h - g) a0         q~ = q + h v + 2 g (h - g) a0
                           r(q + g v + g^2 a0, v + g a0, a0, u) = 0                  g = (1 - 1/sqrt 2) h

    extrapolated Euler     x+ = 2 P(h/2) P(h/2) x - P(h) x, P(h) the first of these methods

(Newmark's with average acceleration; SDIRK2 is Alexander's method [Alexander 1977], L-stable, which takes closed chains
as well, with A v + e / h = 0 at both stages: velocities at the end of a step keep them closed, what opens them falls
to 0.35 of it; the extrapolation is L-stable too [Hairer, Wanner 1996, section IV.9].)
"""

from typing import NamedTuple

import numpy as np

from dynamics.rods.algorithms.backward_pass import Blocks
from dynamics.rods.algorithms.equation_of_motion import (
    RESULTS,
    WORK,
    ControlBlocks,
    accelerations_kernel,
    linearly_implicit_kernel,
    nu,
    residual_kernel,
    slice_results,
)
from dynamics.rods.model.arrays import FIRST, FORCES, MASS_MATRIX, n
from dynamics.simd import (
    absolute,
    align_stack,
    fma,
    helper,
    kernel,
    load,
    select_less,
    shared_kernel,
    splat,
    sqrt,
    store,
)
from dynamics.simd.functions import all_less
from dynamics.simd.lane_algebra import factorize_lanes, solve_lanes
from dynamics.simd.lane_blocks import lanes, slicing
from dynamics.simd.sizes import Size

# --------------------------------------------------------------------------------------------
# Accelerations at the end of an implicit stage, by Newton's method in the lanes.
#
#     a(q, v, u) with  r(q', v', a, u) = 0,    q' = q + cq a,    v' = v + cv a
#     J = M + cq r_q + cv r_v    at (q', v')
#
# Closed chains have their multipliers lambda (G) among the unknowns (a, lambda), N = n + G, and at (q', v') besides
#
#     A v' + e / T = 0,            J then is  [J  -A'; cq (A' + A / T) + cv A  0]  with the rate A' of A
#
# The symmetric part of M + h/2 r_v + h^2/4 r_q of a damped elastic robot is positive definite for any step that follows
# its motion, so that elimination without pivoting (`factorize_lanes`) breaks down nowhere; nor does that of the border,
# for what is left of its end, A J^-1 A' but for a factor, is definite as well.

TOLERANCE, FINE, ROUNDED = 1e-10, 1e-12, 1e-8
"""Change of coordinates and velocities, relative to one plus their size, by a last step.  Steps go on down to FINE for
as long as each is less than half the one before, for derivatives depend on accelerations themselves; where one by the
factors of J at the point itself is not, rounding is what is left, and ROUNDED will do."""
MAX_STEPS = 60
SLOW = 0.2
"""Kept factors are replaced where a step is larger than this share of the one before."""
KEPT, LINEAR, EXACT = 0, 1, 2
"""Factors of a step of Newton's method: those that are there, of M + cq K + cv D, or of J."""


@helper
def unknown_count(m, e):
    """N."""
    return m.counts[0] + e.closures.kind.size


N = n + Size("closed", "e.closures.kind.size")
"""Number of unknowns."""


class StepScratch(NamedTuple):
    """Lanes of a `SoftStage`."""

    open: np.ndarray = lanes(1)
    base: np.ndarray = lanes(2 * n)
    first: np.ndarray = lanes(N)
    state: np.ndarray = lanes(4 * n + nu + Size("inputs", "e.counts[1]"), zero=True)
    r: np.ndarray = lanes(N)
    J: np.ndarray = lanes(N * N)
    A: np.ndarray = lanes(RESULTS)
    accepted: np.ndarray = lanes(N)
    step: np.ndarray = lanes(N)
    scale: np.ndarray = lanes(N)
    path: np.ndarray = lanes(2 * N)
    missed: np.ndarray = lanes(Size("closed", "e.closures.kind.size"))
    work: np.ndarray = lanes(WORK)


_slice_lanes, _ = slicing(StepScratch)


class SoftStage(NamedTuple):
    """Scratch of a step and of its stages, one after the other."""

    open: np.ndarray  # 1 in lanes whose stage is not solved yet, else 0
    base: np.ndarray  # q, v of a stage (2 n)
    first: np.ndarray  # (N), the unknowns of the first of two stages
    state: np.ndarray  # q, v, a, w (n each), u (nu), external wrenches (6 W), zero, numbers of closed chains
    r: np.ndarray  # (N)
    J: np.ndarray  # (N N)
    A: np.ndarray  # `residual_kernel`, where b and c find its results
    accepted: np.ndarray  # (N), of Newton's method: the best so far, the step from there, weights of the residual
    step: np.ndarray  # (N)
    scale: np.ndarray  # (N)
    path: np.ndarray  # (N, 2) of a point of a path: J^-1 R and J^-1 R_t
    missed: np.ndarray  # (N - n), A v + e / T of closed chains where a path begins
    work: np.ndarray
    b: Blocks
    c: ControlBlocks


@helper
def slice_stage(m, e, work):
    """A `SoftStage` in `StepScratch`."""
    x, _ = _slice_lanes(m, e, work)
    b, c, _ = slice_results(m, e, x.A)
    return SoftStage(
        x.open, x.base, x.first, x.state, x.r, x.J, x.A, x.accepted, x.step, x.scale, x.path, x.missed, x.work, b, c
    )


# ------------------------------------------------------------------------------------------------ Newton's method
@kernel
def advance(n, t, cq, cv, x, a, out):
    """out = (q + t v + cq a, v + cv a) for x = (q, v)."""
    for i in range(n):
        q, v, ai = load(x, i), load(x, n + i), load(a, i)
        store(out, i, fma(t, v, fma(cq, ai, q)))
        store(out, n + i, fma(cv, ai, v))


@helper
def unknown(n, N, s, i):
    """Where unknown i is in the state."""
    return 2 * n + i if i < n else s.state.shape[0] - N + i


@kernel
def start_chains(n, N, rate, s):
    """No multipliers, and 1/T of closed chains."""
    if N > n:
        store(s.state, s.state.shape[0] - 2 * (N - n) - 1, splat(s.state, rate))
        for i in range(n, N):
            store(s.state, unknown(n, N, s, i), splat(s.state, 0.0))


@helper
def chain_rate(n, N, s):
    return load(s.state, s.state.shape[0] - 2 * (N - n) - 1)


@kernel
def _store_border(n, N, exact, cq, cv, s, J):
    """-A' on the right of J, below derivatives of A v' + e / T, and zeros; A' = 0 unless `exact`."""
    if N == n:
        return
    align_stack(J)
    G, rate, zero = N - n, chain_rate(n, N, s), splat(J, 0.0)
    for g in range(G):
        for j in range(n):
            x = load(s.c.closed.A, g * n + j)
            below = fma(cq, rate * x, cv * x)
            if exact:
                below = fma(cq, load(s.c.closed.A_rate, g * n + j), below)
            store(J, j * N + n + g, -x)
            store(J, (n + g) * N + j, below)
        for k in range(G):
            store(J, (n + g) * N + n + k, zero)


@kernel
def store_jacobian(n, N, cq, cv, s, J):
    align_stack(J)
    b = s.b
    for i in range(n):
        for j in range(n):
            k = i * n + j
            store(J, i * N + j, fma(cq, load(b.dq, k), fma(cv, load(b.dv, k), load(b.M, k))))
    _store_border(n, N, True, cq, cv, s, J)


@kernel
def _store_linear_jacobian(e, n, N, cq, cv, s):
    """M + cq K + cv D: J without what the loads, the motion and the shape add."""
    align_stack(s.J)
    for i in range(n):
        for j in range(n):
            store(s.J, i * N + j, load(s.b.M, i * n + j))
        for j in range(e.band[i, 0], e.band[i, 1]):
            k = i * N + j
            store(s.J, k, load(s.J, k) + (cq * e.stiffness[i, j] + cv * e.damping[i, j]))
    _store_border(n, N, False, cq, cv, s, s.J)


@kernel
def _evaluate_residual(m, e, N, level, s):
    """r, of closed chains with A v' + e / T behind it."""
    n = m.counts[0]
    residual_kernel(m, e, level, s.state, s.work, s.r, s.A)
    for g in range(N - n):
        store(s.r, n + g, fma(chain_rate(n, N, s), load(s.c.closed.e, g), load(s.c.closed.rate, g)))


@kernel
def _evaluate(m, e, cq, cv, kind, slow, s):
    """r and, unless `kind` is KEPT, factors: `LINEAR` ones, with the weights of r, or `EXACT` ones of the lanes that
    are slow, 1 and not 0.  r is that of the same level whatever other lanes need: no lane's bits depend on them."""
    n, N, level = m.counts[0], unknown_count(m, e), np.int64(MASS_MATRIX if kind == LINEAR else FORCES)
    if kind == EXACT:
        residual_kernel(m, e, np.int64(FIRST), s.state, s.work, s.r, s.A)
        J = s.A[3 * n * n :]  # blocks of the Hessian, idle here
        store_jacobian(n, N, cq, cv, s, J)
        factorize_lanes(N, J)
        for k in range(N * N):
            store(s.J, k, select_less(0.5, slow, load(J, k), load(s.J, k)))
    _evaluate_residual(m, e, N, level, s)
    if kind == LINEAR:
        _store_linear_jacobian(e, n, N, cq, cv, s)
        for i in range(n):
            store(s.scale, i, 1.0 / load(s.J, i * N + i))
        factorize_lanes(N, s.J)
        for i in range(n, N):
            store(s.scale, i, load(s.J, i * N + i) / cv)


@kernel
def _merit(N, s):
    """sum r_i^2 / J_ii with the first Jacobian: all terms are energies."""
    total = splat(s.r, 0.0)
    for i in range(N):
        r = load(s.r, i)
        total = fma(r * r, load(s.scale, i), total)
    return total


@kernel
def _largest(n, x):
    """max |x_i|"""
    most = splat(x, 0.0)
    for i in range(n):
        size = absolute(load(x, i))
        most = select_less(most, size, size, most)
    return most


@kernel
def _next_trial(n, N, cq, cv, better, fresh, tolerance, active, s):
    """Where the trial was better, take it and the Newton step in s.r; elsewhere half the step before, if that was by
    fresh factors, or none, for factors to be made at the best so far.  Move the trials of active lanes by it.  Returns
    1 in those lanes that are not done, else 0: a lane is done where its step changes coordinates and velocities by no
    more than the tolerance, or is no number."""
    zero, one = splat(s.r, 0.0), splat(s.r, 1.0)
    running = select_less(0.5, better, zero, one - fresh)
    for i in range(N):
        z = unknown(n, N, s, i)
        accepted = select_less(0.5, better, load(s.state, z), load(s.accepted, i))
        step = select_less(0.5, better, load(s.r, i), 0.5 * fresh * load(s.step, i))
        store(s.accepted, i, accepted)
        store(s.step, i, step)
        for k in range(2 if i < n else 0):
            bound = fma(tolerance, absolute(load(s.state, k * n + i)), tolerance)
            running = select_less(bound, (cq if k == 0 else cv) * absolute(step), one, running)
        store(s.state, z, select_less(0.5, active, accepted - step, load(s.state, z)))
    return select_less(0.5, active, running, zero)


@shared_kernel
def _newton(m, e, cq, cv, base, s, kind):
    """Newton's method from the a in the state's third part, in open lanes; s.open becomes 1 in those of them in which
    it has not converged.

    The first steps are by the factors of M + cq K + cv D, or, of the `kind` KEPT, by those that are there from another
    stage of these cq, cv, or, EXACT, by those of J itself, as all later ones where these get on slowly, or not at all,
    which are kept for as long as they serve.  Each lane halves its own steps until they decrease the residual, and
    keeps its a once it is done, whatever the others need."""
    align_stack(base)
    n, N = m.counts[0], unknown_count(m, e)
    a = s.state[2 * n : 3 * n]
    s.accepted[:], s.step[:] = 0.0, 0.0
    zero, one = splat(s.r, 0.0), splat(s.r, 1.0)
    active, again, least, before = load(s.open, 0), one, splat(s.r, np.inf), splat(s.r, np.inf)
    slow = active if kind == EXACT else zero  # lanes that get factors of J
    fresh = zero  # those whose last step is by such from where it began
    count = 0
    while count < MAX_STEPS and not all_less(active, 0.5):
        advance(n, 0.0, cq, cv, base, a, s.state)
        _evaluate(m, e, cq, cv, kind, slow, s)
        merit = _merit(N, s)
        better = select_less(merit, least, one, again)
        least = select_less(0.5, better, merit, least)
        solve_lanes(N, s.J, s.r, 1)
        size = _largest(n, s.r)
        fast = select_less(size, SLOW * before, one, zero)
        shrinking = select_less(size, 0.5 * before, better, zero)
        left = select_less(0.5, slow * better, splat(s.r, ROUNDED), splat(s.r, TOLERANCE))
        tolerance = select_less(0.5, shrinking, splat(s.r, FINE), left)
        active = _next_trial(n, N, cq, cv, better, fresh, tolerance, active, s)
        before = select_less(0.5, better, size, before)
        again = (one - better) * (one - fresh)
        fresh = select_less(0.5, better, slow, fresh)
        slow = select_less(0.5, active, select_less(0.5, better, one - fast, one), zero)
        kind = KEPT if all_less(slow, 0.5) else EXACT
        count += 1
    store(s.open, 0, active)


# ------------------------------------------------------------------------------------------------ far from a solution
# Where bodies have sunk deep into stiff ground the residual has minima that are no solutions.  Such a stage is reached
# from the explicit one, along the solutions of
#
#     R(a, t) = r(q + t^2 cq a, v + t cv a, a, u) = 0,     t from 0 to 1
#
# For t = 0 there is one, M a = - r(q, v, 0, u).  Steps along the tangent are corrected across it by Newton's method, by
# the arc length of (cv a / S, t), S = 1 + max |v|, so that the path may turn back on its way     [Keller 1977]
#
# Closed chains have g = A v' + e / T at (q + t^2 cq a, v + t cv a), and what of it the base misses, g0, falls with t:
#
#     (g - (1 - t) g0) / t = 0,      which for t = 0 is cv A a + g0 = 0

FIRST_ARC, LEAST_ARC = 0.1, 1e-9
"""Length of the first step along a path; lengths below which a path is given up."""
ON_PATH = 1e-6
"""Largest last correction of a point of a path."""
MAX_POINTS = 1000
"""Evaluations along a path, of which those seen take 150 to 600."""


@kernel
def _store_chains_on_path(n, N, cq, cv, t, s):
    """Rows of closed chains of R and R_t at (a, t), into s.path; s.missed where t is zero."""
    zero, one = splat(s.r, 0.0), splat(s.r, 1.0)
    square, back = t * t, 1.0 / t
    for k in range(N - n):
        g = fma(chain_rate(n, N, s), load(s.c.closed.e, k), load(s.c.closed.rate, k))
        missed = select_less(zero, square, load(s.missed, k), g)
        along, turning = zero, zero
        for j in range(n):
            a, x = load(s.state, 2 * n + j), load(s.c.closed.A, k * n + j)
            along = fma(cv * x, a, along)
            turning = fma(cq * fma(chain_rate(n, N, s), x, load(s.c.closed.A_rate, k * n + j)), a, turning)
        row = select_less(zero, square, back * fma(t - one, missed, g), along + missed)
        rate = select_less(zero, square, back * (fma(2.0 * t, turning, along + missed) - row), turning)
        store(s.missed, k, missed)
        store(s.path, 2 * (n + k), row)
        store(s.path, 2 * (n + k) + 1, rate)


@kernel
def _evaluate_path(m, e, cq, cv, t, base, s):
    """J^-1 R and J^-1 R_t at (a, t), into s.path; the factors in s.J stay, for they are those of a lane alone."""
    align_stack(base)
    n, N, first = m.counts[0], unknown_count(m, e), np.int64(FIRST)
    square, slope, b, X = cq * t * t, cv * t, s.b, s.path
    J = s.A[3 * n * n :]  # blocks of the Hessian, idle here
    advance(n, 0.0, square, slope, base, s.state[2 * n : 3 * n], s.state)
    residual_kernel(m, e, first, s.state, s.work, s.r, s.A)
    _store_chains_on_path(n, N, cq, cv, t, s)
    for i in range(n):
        rate = splat(s.r, 0.0)
        for j in range(n):
            a, k = load(s.state, 2 * n + j), i * n + j
            rate = fma(fma(2.0 * cq * t, load(b.dq, k), cv * load(b.dv, k)), a, rate)
        store(X, 2 * i, load(s.r, i))
        store(X, 2 * i + 1, rate)
    store_jacobian(n, N, square, slope, s, J)
    _store_border(n, N, True, cq * t, cv, s, J)
    factorize_lanes(N, J)
    solve_lanes(N, J, X, 2)


@kernel
def _correct(n, w, t, ds, turn, at, s):
    """Of the correction of a trial (a, at) of a step ds from (s.accepted, t) along (s.step, turn): its part dt, the
    square of its length, that of the distance of what it makes from the step's end, the part of the tangent there
    along t, and the cosine of both tangents."""
    align_stack(s.r)
    zero, one = splat(s.r, 0.0), splat(s.r, 1.0)
    across, of_r, of_t, square = fma(turn, at - t, -ds), zero, zero, zero
    for i in range(n):
        along, z = w * load(s.step, i), load(s.path, 2 * i + 1)
        across = fma(along, load(s.state, 2 * n + i) - load(s.accepted, i), across)
        of_r = fma(along, load(s.path, 2 * i), of_r)
        of_t = fma(along, z, of_t)
        square = fma(w * z, z, square)
    dt = (of_r - across) / (turn - of_t)
    size, off = dt * dt, at + dt - fma(ds, turn, t)
    off = off * off
    for i in range(n):
        change = fma(load(s.path, 2 * i + 1), dt, load(s.path, 2 * i))
        away = load(s.state, 2 * n + i) - change - fma(ds, load(s.step, i), load(s.accepted, i))
        size = fma(w * change, change, size)
        off = fma(w * away, away, off)
    new = one / sqrt(one + square)
    return dt, size, off, new, new * (turn - of_t)


@kernel
def _follow_path(m, e, cq, cv, base, s):
    """Let unknowns of open lanes follow the path from t = 0 to t = 1; s.open becomes 1 in those of them that arrive."""
    align_stack(base)
    n, N, zero, one = m.counts[0], unknown_count(m, e), splat(s.r, 0.0), splat(s.r, 1.0)
    scale = cv / (one + _largest(n, base[n:]))
    active, arrived, w = load(s.open, 0), zero, scale * scale
    t, ds, square = zero, splat(s.r, FIRST_ARC), zero
    for i in range(N):
        k = unknown(n, N, s, i)
        store(s.state, k, select_less(0.5, active, zero, load(s.state, k)))
    for _ in range(2):  # R is linear in a; then a tangent at its zero
        _evaluate_path(m, e, cq, cv, zero, base, s)
        square = zero
        for i in range(N):
            k = unknown(n, N, s, i)
            z, x = load(s.path, 2 * i + 1), load(s.state, k)
            if i < n:
                square = fma(w * z, z, square)
            x = select_less(0.5, active, x - load(s.path, 2 * i), x)
            store(s.state, k, x)
            store(s.accepted, i, x)
    turn = one / sqrt(one + square)
    at = ds * turn
    for i in range(N):
        along = -turn * load(s.path, 2 * i + 1)
        store(s.step, i, along)
        x = load(s.accepted, i)
        store(s.state, unknown(n, N, s, i), select_less(0.5, active, fma(ds, along, x), x))
    before, corrections, count = splat(s.r, np.inf), zero, 0
    while count < MAX_POINTS and not all_less(active, 0.5):
        _evaluate_path(m, e, cq, cv, at, base, s)
        dt, size, off, new, cosine = _correct(n, w, t, ds, turn, at, s)
        sign = select_less(zero, cosine, one, -one)
        fine = select_less(size, splat(s.r, ON_PATH * ON_PATH), one, zero)
        near = select_less(off, 0.25 * ds * ds, select_less(splat(s.r, 0.5), sign * cosine, one, zero), zero)
        falls = select_less(size, 4.0 * before, one, select_less(corrections, 1.5, one, zero))
        good = fine * near
        lost = select_less(0.5, fine, one - near, one - falls * select_less(corrections, 4.5, one, zero))
        lost = select_less(size, splat(s.r, np.inf), lost, one)
        other = select_less(0.5, good, one, lost)  # begins another step
        following = select_less(0.5, good, at + dt, t)
        length = ds * select_less(0.5, good, select_less(corrections, 2.5, 2.0 * one, 1.2 * one), one)
        length = select_less(0.5, lost, 0.4 * ds, length)
        direction = select_less(0.5, good, sign * new, turn)
        ends = select_less(one - ON_PATH, following, good, zero)
        stop = select_less(following, zero, good, select_less(length, splat(s.r, LEAST_ARC), one, ends))
        to_end = (one - following) / direction
        beyond = select_less(one, fma(length, direction, following), other, zero)
        shorter = select_less(1e-3 * length, to_end, to_end, 1e-3 * length)
        length = select_less(0.5, beyond, shorter, length)
        length = select_less(0.5, ends, zero, length)
        for i in range(N):
            k = unknown(n, N, s, i)
            z, x = load(s.path, 2 * i + 1), load(s.state, k)
            corrected = x - fma(z, dt, load(s.path, 2 * i))
            accepted = select_less(0.5, good, corrected, load(s.accepted, i))
            along = select_less(0.5, good, -1.0 * (direction * z), load(s.step, i))
            store(s.accepted, i, accepted)
            store(s.step, i, along)
            trial = select_less(0.5, other, fma(length, along, accepted), corrected)
            store(s.state, k, select_less(0.5, active, trial, x))
        at = select_less(0.5, other, fma(length, direction, following), at + dt)
        corrections = select_less(0.5, other, zero, corrections + one)
        before = select_less(0.5, other, splat(s.r, np.inf), size)
        t, ds, turn = following, length, direction
        arrived = select_less(0.5, active, ends, arrived)
        active = select_less(0.5, stop, zero, active)
        count += 1
    store(s.open, 0, arrived)


@shared_kernel
def solve_stage(m, e, cq, cv, base, s, kind):
    """a of the stage at base = (q, v), in the state's third part, which has a start, and q', v' in its first two; NaN
    in lanes in which no method has converged, from the start, or at the end of a path."""
    align_stack(base)
    n, one = m.counts[0], splat(s.r, 1.0)
    a = s.state[2 * n : 3 * n]
    store(s.open, 0, one)
    _newton(m, e, cq, cv, base, s, kind)
    left = load(s.open, 0)
    if not all_less(left, 0.5):
        _follow_path(m, e, cq, cv, base, s)
        left = left * (one - load(s.open, 0))
        _newton(m, e, cq, cv, base, s, EXACT)
        left = left + load(s.open, 0)
    for i in range(n):
        store(a, i, select_less(0.5, left, splat(a, np.nan), load(a, i)))
    advance(n, 0.0, cq, cv, base, a, s.state)


# --------------------------------------------------------------------------------------------
# Steps of the five methods.

SEMI_IMPLICIT_EULER, IMPLICIT_MIDPOINT, NEWMARK, SDIRK2, EXTRAPOLATED_EULER = 0, 1, 2, 3, 4
INTEGRATORS = ("semi_implicit_euler", "implicit_midpoint", "newmark", "sdirk2", "extrapolated_euler")
IMPLICIT = ("implicit_midpoint", "newmark", "sdirk2")
"""Those of which a step solves an equation, which may have no solution."""
GAMMA = 1.0 - 0.5 * np.sqrt(2.0)


# ------------------------------------------------------------------------------------------------ motion
@kernel
def enter(n, x, u, s):
    """Put x = (q, v) and u into the state of a stage."""
    for i in range(2 * n):
        store(s.state, i, load(x, i))
    for i in range(u.shape[0]):
        store(s.state, 4 * n + i, load(u, i))


@kernel
def solve_midpoint(m, e, h, x, s):
    """a of the midpoint rule and the state there, in the stage's state."""
    n, a = m.counts[0], s.state[2 * m.counts[0] : 3 * m.counts[0]]
    a[:] = 0.0
    advance(n, 0.5 * h, 0.0, 0.0, x, a, s.base)
    solve_stage(m, e, 0.25 * h * h, 0.5 * h, s.base, s, LINEAR)


@kernel
def solve_newmark(m, e, h, x, s):
    """a1 of Newmark's method and the state at the end, in the stage's state; q~, v~ in s.base.

    The start a1 = -a0, at q+ = q + h v and v+ = v, is where a stiff motion ends that a0 has pushed far away."""
    n, least = m.counts[0], np.int64(MASS_MATRIX)
    a = s.state[2 * n : 3 * n]
    accelerations_kernel(m, e, least, s.state, s.J, s.work, s.r, s.A)
    advance(n, h, 0.25 * h * h, 0.5 * h, x, a, s.base)
    for i in range(n):
        store(a, i, -load(a, i))
    solve_stage(m, e, 0.25 * h * h, 0.5 * h, s.base, s, LINEAR)


@kernel
def solve_sdirk(m, e, h, x, s):
    """a0, in s.first, and a1 of the two stages, and the state at the end, in the stage's state."""
    n, N, g = m.counts[0], unknown_count(m, e), GAMMA * h
    a = s.state[2 * n : 3 * n]
    a[:] = 0.0
    start_chains(n, N, 1.0 / h, s)
    advance(n, g, 0.0, 0.0, x, a, s.base)
    solve_stage(m, e, g * g, g, s.base, s, LINEAR)
    for i in range(N):
        store(s.first, i, load(s.state, unknown(n, N, s, i)))
    advance(n, h, 2.0 * g * (h - g), h - g, x, a, s.base)
    solve_stage(m, e, g * g, g, s.base, s, KEPT)


@kernel
def semi_implicit_step(m, e, h, level, s, out):
    """The semi-implicit step of the state in the stage, into out (2 n)."""
    n = m.counts[0]
    linearly_implicit_kernel(m, e, h, level, s.state, s.J, s.work, s.r, s.A)
    advance(n, h, h * h, h, s.state, s.state[2 * n : 3 * n], out)


@shared_kernel
def step_kernel(m, e, integrator, h, x, u, s, x_next):
    """x+ = f(x, u), apart from x; s: `slice_stage`."""
    align_stack(x)
    n, least = m.counts[0], np.int64(MASS_MATRIX)
    a = s.state[2 * n : 3 * n]
    enter(n, x, u, s)
    if integrator == SEMI_IMPLICIT_EULER:
        linearly_implicit_kernel(m, e, h, least, s.state, s.J, s.work, s.r, s.A)
        advance(n, h, h * h, h, x, a, x_next)
    elif integrator == EXTRAPOLATED_EULER:
        semi_implicit_step(m, e, h, least, s, s.base)
        semi_implicit_step(m, e, 0.5 * h, least, s, s.state)
        semi_implicit_step(m, e, 0.5 * h, least, s, x_next)
        for i in range(2 * n):
            store(x_next, i, fma(2.0, load(x_next, i), -load(s.base, i)))
    elif integrator == IMPLICIT_MIDPOINT:
        solve_midpoint(m, e, h, x, s)
        advance(n, h, 0.5 * h * h, h, x, a, x_next)
    else:
        if integrator == NEWMARK:
            solve_newmark(m, e, h, x, s)
        else:
            solve_sdirk(m, e, h, x, s)
        for i in range(2 * n):
            store(x_next, i, load(s.state, i))
