"""Loops of prepared calls of systems with longer states: what enters the system inside, and where its results go.

Points (z, w) around and (x, u) inside are as `ControlMap` has them: u[controls] are the first of w, u[parameters] are
`scale` times the first numbers of z behind x.  `rows` are the knots around at which the system inside moves.
"""

from typing import NamedTuple

import numpy as np

from dynamics.simd.compilation import by_address, driver, helper
from dynamics.simd.prepared_calls import PreparedCall
from trajopt.interfaces.stepwise import ClosedLoop
from trajopt.problem.control_map import ControlMap


@by_address
def _go_inside(rows, zs, us, controls, parameters, scale, x, u):
    n = x.shape[1]
    for k in range(rows.shape[0]):
        t = rows[k]
        for i in range(n):
            x[k, i] = zs[t, i]
        for i in range(controls.shape[0]):
            u[k, controls[i]] = us[t, i]
        for i in range(parameters.shape[0]):
            u[k, parameters[i]] = scale * zs[t, n + i]


def points_inside(
    by: ControlMap, rows: np.ndarray, zs: np.ndarray, us: np.ndarray
) -> tuple[np.ndarray, np.ndarray, PreparedCall]:
    """States (K, nx) and controls (K, nu) inside, and the call that writes them."""
    x, u = np.zeros((len(rows), by.nx)), np.zeros((len(rows), by.nu))
    return x, u, PreparedCall(_go_inside, rows, zs, us, by.controls, by.parameters, by.scale, x, u)


@by_address
def take_rows(rows, source, target):
    """target[k] = the first numbers of source[rows[k]]"""
    for k in range(rows.shape[0]):
        for i in range(target.shape[1]):
            target[k, i] = source[rows[k], i]


@by_address
def place_steps(rows, y, numbers, first, following):
    """Next states around, of the next states y (K, nx) inside and of the numbers appended, which are those of `numbers`
    from `first` on."""
    n = y.shape[1]
    for k in range(rows.shape[0]):
        t = rows[k]
        for i in range(n):
            following[t, i] = y[k, i]
        for i in range(following.shape[1] - n):
            following[t, n + i] = numbers[t, first + i]


@by_address
def place_matrix(rows, matrix, row, column, blocks):
    """blocks[t, row : row + n, column : column + m] = matrix (n, m) at the rows t."""
    for t in rows:
        for i in range(matrix.shape[0]):
            for j in range(matrix.shape[1]):
                blocks[t, row + i, column + j] = matrix[i, j]


@by_address
def _place_first(rows, controls, parameters, scale, f_x, f_u, f_z, f_w):
    """See `ControlMap.place_first`."""
    n = f_x.shape[2]
    for k in range(rows.shape[0]):
        t = rows[k]
        for i in range(f_x.shape[1]):
            for j in range(n):
                f_z[t, i, j] = f_x[k, i, j]
            for j in range(controls.shape[0]):
                f_w[t, i, j] = f_u[k, i, controls[j]]
            for j in range(parameters.shape[0]):
                f_z[t, i, n + j] = scale * f_u[k, i, parameters[j]]


@by_address
def _place_hessian(rows, controls, parameters, scale, Hxx, Hux, Huu, Hzz, Hwz, Hww):
    """See `ControlMap.place_hessian`."""
    n, m, p = Hxx.shape[1], controls.shape[0], parameters.shape[0]
    for k in range(rows.shape[0]):
        t = rows[k]
        for i in range(n):
            for j in range(n):
                Hzz[t, i, j] = Hxx[k, i, j]
        for i in range(m):
            for j in range(n):
                Hwz[t, i, j] = Hux[k, controls[i], j]
            for j in range(m):
                Hww[t, i, j] = Huu[k, controls[i], controls[j]]
            for j in range(p):
                Hwz[t, i, n + j] = scale * Huu[k, controls[i], parameters[j]]
        for i in range(p):
            for j in range(n):
                Hzz[t, n + i, j] = Hzz[t, j, n + i] = scale * Hux[k, parameters[i], j]
            for j in range(p):
                Hzz[t, n + i, n + j] = scale * scale * Huu[k, parameters[i], parameters[j]]


def first_placed(by: ControlMap, rows: np.ndarray, *blocks: np.ndarray) -> PreparedCall:
    """The call that writes derivatives fx, fu inside, the first two blocks, as those around, the last two."""
    return PreparedCall(_place_first, rows, by.controls, by.parameters, by.scale, *blocks)


def hessian_placed(by: ControlMap, rows: np.ndarray, *blocks: np.ndarray) -> PreparedCall:
    """The call that writes Hessians inside, the first three blocks, as those around, the last three."""
    return PreparedCall(_place_hessian, rows, by.controls, by.parameters, by.scale, *blocks)


@by_address
def place_choices(rows, A, B, base, zs, us, following):
    """States after knots that choose, as of `Choices`, of vectors or where A has no rows; base is NaN for numbers that
    choices go on from."""
    m = B.shape[0]
    n = zs.shape[1] - m
    for t in rows:
        for i in range(n + m):
            following[t, i] = zs[t, i]
        for i in range(A.shape[0]):
            for j in range(A.shape[1]):
                following[t, i] += A[i, j] * us[t, j]
        for i in range(m):
            if base[i] == base[i]:
                following[t, n + i] = base[i]
            for j in range(B.shape[1]):
                following[t, n + i] += B[i, j] * us[t, j]


# --------------------------------------------------------------------------------------------
# Closed loops of systems that remember what was at the knot before: feedback to that is one to the knot before.
#
# With r_t what the knot before xs_t, us_t gives to remember, p_t what xs_t remembers and g_t the gap there, what a
# candidate remembers is off by what its knot before was, and by r_t - p_t - (1 - alpha) g_t.


class Candidates(NamedTuple):
    """Candidates (A, N, n), perhaps a view: all numbers in memory from the first to the last, and strides in these."""

    numbers: np.ndarray
    strides: tuple[int, ...]


def candidates_in_memory(view: np.ndarray) -> Candidates:
    """A view as compiled code takes it."""
    strides = tuple(stride // view.itemsize for stride in view.strides)
    count = 1 + sum((size - 1) * stride for size, stride in zip(view.shape, strides, strict=True))
    return Candidates(np.lib.stride_tricks.as_strided(view, (count,), (view.itemsize,)), strides)


@helper
def _number_of(candidates, a, t, i):
    by = candidates.strides
    return candidates.numbers[a * by[0] + t * by[1] + i * by[2]]


class RememberingLoop(NamedTuple):
    """What closed loops of the system inside follow, and scratch: the controls' changes by what is remembered."""

    x0: np.ndarray  # (nx,)
    xs: np.ndarray  # (N+1, nx)
    us: np.ndarray  # (N, nu)
    k: np.ndarray  # (N, nu)
    K: np.ndarray  # (N, nu, ndx)
    gaps: np.ndarray  # (N+1, ndx)
    before: np.ndarray  # (N, nu, m) or (N, nu, m + nu)
    offsets: np.ndarray  # (N, nu)


@driver
def follow_inside(of_states, z0, zs, us, k, K, gaps, before, loop):
    """Write the `RememberingLoop` of a closed loop around, which remembers the last numbers of states or controls; gaps
    and `before` (N, nu, nu) have no rows where there are none."""
    (N, nu), nx, n, m = us.shape, loop.x0.shape[0], loop.K.shape[2], zs.shape[1] - loop.x0.shape[0]
    gapped, width, moved = gaps.shape[0] > 0, loop.before.shape[2], False
    for i in range(nx):
        loop.x0[i] = z0[i]
    for t in range(N + 1):
        for i in range(nx):
            loop.xs[t, i] = zs[t, i]
        if gapped:
            for i in range(n):
                loop.gaps[t, i] = gaps[t, i]
    for t in range(N):
        for i in range(nu):
            change, step = 0.0, k[t, i]
            for j in range(m):
                gain, known = K[t, i, n + j], z0[nx + j]
                if t > 0:
                    known = zs[t - 1, nx - m + j] if of_states else us[t - 1, j]
                off = known - zs[t, nx + j]
                if gapped:
                    off -= gaps[t, n + j]
                    step += gain * gaps[t, n + j]
                change += gain * off
                loop.before[t, i, j] = gain
            for j in range(m, width):
                loop.before[t, i, j] = 0.0
            if before.shape[0] > 0:
                for j in range(nu):
                    loop.before[t, i, width - nu + j] += before[t, i, j]
            for j in range(n):
                loop.K[t, i, j] = K[t, i, j]
            loop.k[t, i], loop.offsets[t, i] = step, change
            moved = moved or change != 0.0
    for t in range(N):
        for i in range(nu):
            if moved and t > 0:  # changes of controls are fed back at the next knot, too
                for j in range(nu):
                    loop.offsets[t, i] += loop.before[t, i, width - nu + j] * loop.offsets[t - 1, j]
            loop.us[t, i] = us[t, i] + loop.offsets[t, i]


@driver
def remember(of_states, nx, n, z0, alphas, gaps, X, U, Z):
    """States Z (A, N+1, nz) around of the `Candidates` X and U inside, with states of nx numbers and tangents of n."""
    m = Z.shape[2] - nx
    for a in range(Z.shape[0]):
        left = 1.0 - alphas[a]
        for t in range(Z.shape[1]):
            for i in range(nx):
                Z[a, t, i] = _number_of(X, a, t, i)
            for j in range(m):
                known = z0[nx + j]
                if t > 0:
                    known = _number_of(X, a, t - 1, nx - m + j) if of_states else _number_of(U, a, t - 1, j)
                if gaps.shape[0] > 0:
                    known -= left * gaps[t, n + j]
                Z[a, t, nx + j] = known


# --------------------------------------------------------------------------------------------
# Closed loops with numbers p that stay what they are, of a candidate sigma off those p_0 of the plan at its first knot.
#
# Where the plan's numbers change on the way, by gaps, a candidate's are off by p_0 - p_t more, or alpha times that
# where the gaps are closed.  G times what they are off is their feedback, and the controls that they are.


class KeepingLoop(NamedTuple):
    """What closed loops of the system inside follow, where sigma of all candidates is `shift` times one direction."""

    x0: np.ndarray  # (A, nx)
    xs: np.ndarray  # (N+1, nx)
    us: np.ndarray  # (N, nu)
    k: np.ndarray  # (N, nu)
    K: np.ndarray  # (N, nu, ndx)
    gaps: np.ndarray  # (N+1, ndx)
    lower: np.ndarray  # (N, nu)
    upper: np.ndarray  # (N, nu)
    shift: np.ndarray  # (A,)
    pull: np.ndarray  # (N, nu), G times the direction

    def followed(self, alphas: np.ndarray, gapped: bool, limited: bool) -> ClosedLoop:
        """What the system inside is given, with gaps and limits or without."""
        limits = (self.lower, self.upper) if limited else (None, None)
        return ClosedLoop(*self[:5], alphas, self.gaps if gapped else None, *limits, self.shift, self.pull)


def keeping_loop(by: ControlMap, A: int, N: int) -> KeepingLoop:
    """Arrays for what A candidates follow over N knots."""
    nx, n, nu = by.nx, by.ndx, by.nu
    shapes = (A, nx), (N + 1, nx), (N, nu), (N, nu), (N, nu, n), (N + 1, n), (N, nu), (N, nu), (A,), (N, nu)
    return KeepingLoop(*map(np.zeros, shapes))


@helper
def _changes(zs, nx):
    """True if the numbers behind x change along a plan."""
    changes = False
    for t in range(zs.shape[0]):
        for j in range(nx, zs.shape[1]):
            changes = changes or zs[0, j] - zs[t, j] != 0.0
    return changes


@driver
def follow_kept(controls, parameters, scale, starts, zs, us, k, K, gaps, lower, upper, direction, loop):
    """Write the `KeepingLoop` of a closed loop around from states starts (A, nz), but for `shift`; gaps and limits have
    no rows where there are none."""
    N, nx, n, m = us.shape[0], loop.xs.shape[1], loop.K.shape[2], zs.shape[1] - loop.xs.shape[1]
    gapped, limited, changes = gaps.shape[0] > 0, lower.shape[0] > 0, _changes(zs, nx)
    for a in range(starts.shape[0]):
        for i in range(nx):
            loop.x0[a, i] = starts[a, i]
    for t in range(N + 1):
        for i in range(nx):
            loop.xs[t, i] = zs[t, i]
        for i in range(n):
            loop.gaps[t, i] = gaps[t, i] if gapped and t > 0 else 0.0
    for t in range(N):
        for i in range(loop.us.shape[1]):
            loop.us[t, i] = loop.k[t, i] = loop.pull[t, i] = 0.0
            loop.lower[t, i], loop.upper[t, i] = -np.inf, np.inf
            for j in range(n):
                loop.K[t, i, j] = 0.0
        for i in range(controls.shape[0]):
            c = controls[i]
            loop.us[t, c], loop.k[t, c] = us[t, i], k[t, i]
            if limited:
                loop.lower[t, c], loop.upper[t, c] = lower[t, i], upper[t, i]
            for j in range(n):
                loop.K[t, c, j] = K[t, i, j]
            for j in range(m):
                loop.pull[t, c] += K[t, i, n + j] * direction[j]
                if changes and gapped:
                    loop.k[t, c] += K[t, i, n + j] * (zs[0, nx + j] - zs[t, nx + j])
                elif changes:
                    loop.us[t, c] += K[t, i, n + j] * (zs[0, nx + j] - zs[t, nx + j])
        for j in range(parameters.shape[0]):
            p = parameters[j]
            loop.us[t, p], loop.pull[t, p] = scale * zs[t, nx + j], scale * direction[j]
            if changes and gapped:
                loop.k[t, p] += scale * (zs[0, nx + j] - zs[t, nx + j])
            elif changes:
                loop.us[t, p] += scale * (zs[0, nx + j] - zs[t, nx + j])


@driver
def keep(controls, nx, alphas, gapped, starts, zs, X, U, first, Z, W):
    """States Z (A, N+1, nz) and controls W (A, N, nw) around from knot `first` on, of the `Candidates` X and U inside
    along the part zs of a plan."""
    changes = _changes(zs, nx)
    for a in range(Z.shape[0]):
        left = 1.0 - alphas[a] if gapped else 0.0
        for t in range(zs.shape[0]):
            for i in range(nx):
                Z[a, first + t, i] = _number_of(X, a, t, i)
            for j in range(nx, zs.shape[1]):
                Z[a, first + t, j] = starts[a, j]
                if changes:
                    Z[a, first + t, j] -= left * (zs[0, j] - zs[t, j])
        for t in range(zs.shape[0] - 1):
            for i in range(controls.shape[0]):
                W[a, first + t, i] = _number_of(U, a, t, controls[i])


@driver
def control_candidates(start, alphas, us, k, K, dz, lower, upper, first, W):
    """Controls W (A, ., nw) from number `start` on, at the knots of us from knot `first` of W on,

        us + alpha k + K dz,    within limits if these have rows,

    with differences dz (A N, ndx) from the plan; without gains these need not be finite."""
    N, nw, fed = us.shape[0], us.shape[1], False
    for t in range(N):
        for i in range(start, nw):
            for j in range(K.shape[2]):
                fed = fed or K[t, i, j] != 0.0
    for a in range(W.shape[0]):
        for t in range(N):
            for i in range(start, nw):
                value = us[t, i] + alphas[a] * k[t, i]
                if fed:
                    for j in range(K.shape[2]):
                        value += K[t, i, j] * dz[a * N + t, j]
                if lower.shape[0] > 0:  # by comparison, so that NaN stays NaN
                    if value < lower[t, i]:
                        value = lower[t, i]
                    elif value > upper[t, i]:
                        value = upper[t, i]
                W[a, first + t, i] = value


@driver
def subtract_gaps(alphas, gap, states):
    """states -= (1 - alpha) gap, of candidates (A, n) that are vectors."""
    for a in range(states.shape[0]):
        for i in range(gap.shape[0]):
            states[a, i] -= (1.0 - alphas[a]) * gap[i]


@by_address
def gaps_left(alphas, gap, dx):
    """dx = -(1 - alpha) gap, of candidates (A, n)."""
    for a in range(dx.shape[0]):
        for i in range(dx.shape[1]):
            dx[a, i] = -(1.0 - alphas[a]) * gap[i]


@by_address
def stay_without(gap, states, moved):
    """States are not moved, to the last bit, along a gap of zeros."""
    for i in range(gap.shape[0]):
        if gap[i] != 0.0:
            return
    for a in range(states.shape[0]):
        for i in range(states.shape[1]):
            moved[a, i] = states[a, i]


@by_address
def shifts_of(starts, zs, nx, shift):
    """How far the one number behind x is off that of the plan."""
    for a in range(shift.shape[0]):
        shift[a] = starts[a, nx] - zs[0, nx]


@by_address
def take_points(Z, first, points):
    """points (A N, nz) = Z[:, first : first + N]"""
    N = points.shape[0] // Z.shape[0]
    for a in range(Z.shape[0]):
        for t in range(N):
            for i in range(Z.shape[2]):
                points[a * N + t, i] = Z[a, first + t, i]


@by_address
def tile_plan(zs, plan):
    """plan (A N, nz) = the first N states of zs, once for each candidate, N one less than it has."""
    N = max(1, zs.shape[0] - 1)
    for row in range(plan.shape[0]):
        for i in range(plan.shape[1]):
            plan[row, i] = zs[row % N, i]


@by_address
def place_candidates(following, at, u, t, Z):
    """Z[:, t] = following (A, nz), but NaN after states `at` or controls u (A, nw) that are not finite."""
    for a in range(following.shape[0]):
        good = True
        for i in range(at.shape[1]):
            good = good and abs(at[a, i]) < np.inf
        for i in range(u.shape[1]):
            good = good and abs(u[a, i]) < np.inf
        for i in range(following.shape[1]):
            Z[a, t, i] = following[a, i] if good else np.nan
