"""Damped least squares for the placements of frames, from several starts at once, one in each lane.

With e(y) the errors of frames from their targets, J their Jacobian and y the coordinates that may move, a lane
minimizes

    |e|^2 + eps^2 |y - y_0|^2      lower <= y <= upper

by steps dy of  (J'J + (eps^2 + mu) 1) dy = -(J'e + eps^2 (y - y_0)), without the coordinates that are at a limit and
would be pushed beyond it; coordinates are moved into their limits after a step.          [Levenberg 1944; Wampler 1986]
mu falls after a step that lowers the sum of squares, and rises after another, which is not taken.

There are three searches, each from the end of the one before.  With a large eps_0 a lane moves along the solutions in
long steps towards the start y_0, to which it is bound less closely with eps_1; where |e| is small then, the last
search, with eps_2 about its own start, removes the error that eps_1 causes.
"""

from __future__ import annotations

import numpy as np

from dynamics.algorithms.frames import FRAME, frame_pose, last_dof
from dynamics.algorithms.kinematics import BODY, COLUMN, DOF, place_bodies
from dynamics.model.knot_driver import knot_driver, nb, nv
from dynamics.model.model import RigidBodyModel
from dynamics.residuals.frame_placement import quaternion_of
from dynamics.simd import LANES, absolute, align_stack, fma, helper, kernel, lane, load, select_less, splat, store
from dynamics.simd.lane_algebra import factorize_lanes, solve_lanes
from dynamics.simd.sizes import Size
from dynamics.spatial import so3
from dynamics.spatial.spatial import add_cross, dot3, load3, load6, multiply, rotate, rotate_back, store3

POSITION, ROTATION = 1, 2
"""Parts of a target, of which `Targets.parts` has sums."""
STEPS = 120
"""Most steps of all searches together."""
LONGEST = 1.0
"""Largest motion of a coordinate in a step, rad or m, beyond which an elbow may flip."""
DAMPING, LEAST, MOST = 1e-2, 1e-6, 1e5
"""First mu; the one below which it is zero, and the one above which a search has come to its end."""
FALL, RISE = 0.3, 4.0
"""Factors of mu after a step that is taken, and after another."""
NEAR = 1e-3
"""eps_0^2."""
ROUGH, FLAT, STILL = 1e-2, 1e-4, 1e-10
"""Relative decrease in a step of the first and of the second search, and size of a step, rad or m, below which a search
has come to its end."""
SEARCHES = 3.0
"""Number of searches, after which a lane rests."""

rows = Size("rows", "errors.shape[1]")
n = Size("n", "moving_v.shape[0]")


@helper
def _numbers(table, at):
    """Twelve numbers of a table, a placement."""
    return (
        table[at], table[at + 1], table[at + 2], table[at + 3], table[at + 4], table[at + 5],
        table[at + 6], table[at + 7], table[at + 8], table[at + 9], table[at + 10], table[at + 11],
    )  # fmt: skip


@helper
def _errors(m, frames, parts, places, wanted, q, body, dof, e, J):
    """Errors e (rows) of all targets and their Jacobian J (rows nv) at configurations q."""
    place_bodies(m, q, body, dof)
    J[:] = 0.0
    size, row = m.dof_body.size, 0
    for f in range(frames.size):
        R, p = frame_pose(frames[f], _numbers(places, f * FRAME), body)
        target = _numbers(wanted, f * FRAME)
        if parts[f] != ROTATION:
            store3(e, row, (p[0] - target[9], p[1] - target[10], p[2] - target[11]))
            k = last_dof(m, frames[f])
            while k >= 0:
                s = load6(dof, k * DOF + COLUMN)
                column = add_cross((s[3], s[4], s[5]), (s[0], s[1], s[2]), p)
                for i in range(3):
                    store(J, (row + i) * size + k, column[i])
                k = m.dof_parent[k]
            row += 3
        if parts[f] != POSITION:
            T = (target[0], target[3], target[6], target[1], target[4], target[7], target[2], target[5], target[8])
            phi = so3.log(quaternion_of(multiply(T, R)))
            store3(e, row, phi)
            Ji = so3.jacobian_inverse(phi, so3.stumpff(dot3(phi, phi)))
            k = last_dof(m, frames[f])
            while k >= 0:
                column = rotate(Ji, rotate_back(R, load3(dof, k * DOF + COLUMN)))
                for i in range(3):
                    store(J, (row + i) * size + k, column[i])
                k = m.dof_parent[k]
            row += 3


@helper
def _normal_equations(rows, size, moving, e, J, N, g):
    """N = J'J and g = J'e of the coordinates that may move; returns |e|^2."""
    n = moving.size
    for i in range(n):
        x = splat(g, 0.0)
        for r in range(rows):
            x = fma(load(J, r * size + moving[i]), load(e, r), x)
        store(g, i, x)
        for j in range(i + 1):
            x = splat(g, 0.0)
            for r in range(rows):
                x = fma(load(J, r * size + moving[i]), load(J, r * size + moving[j]), x)
            store(N, i * n + j, x)
            store(N, j * n + i, x)
    x = splat(g, 0.0)
    for r in range(rows):
        x = fma(load(e, r), load(e, r), x)
    return x


@helper
def _distance(moving, q, about):
    """|y - y_0|^2"""
    x = splat(q, 0.0)
    for i in range(moving.size):
        d = load(q, moving[i]) - load(about, i)
        x = fma(d, d, x)
    return x


@helper
def _step(moving, lower, upper, q, about, near, mu, N, g, A, d):
    """Step d (n) of damped least squares, and the largest of its entries; A (n n) is scratch."""
    n = moving.size
    for i in range(n):
        y = load(q, moving[i])
        store(d, i, fma(near, y - load(about, i), load(g, i)))
        # a coordinate at its limit, whose gradient pushes it beyond, is left out
        low = select_less(lower[i], y, 1.0, select_less(load(d, i), 0.0, 1.0, 0.0))
        high = select_less(y, upper[i], 1.0, select_less(0.0, load(d, i), 1.0, 0.0))
        store(A, n * n + i, low * high)
    for i in range(n):
        free = load(A, n * n + i)
        store(d, i, -free * load(d, i))
        for j in range(n):
            x = free * load(A, n * n + j) * load(N, i * n + j)
            if i == j:
                x = x + near + mu
            store(A, i * n + j, x)
    factorize_lanes(n, A)
    solve_lanes(n, A, d, 1)
    largest = splat(q, 0.0)
    for i in range(n):
        x = absolute(load(d, i))
        largest = select_less(largest, x, x, largest)
    return largest


@kernel
def _search(m, frames, parts, places, wanted, moving_q, moving_v, lower, upper, near_1, near_2, small, start, q, errors,
            body, dof, e, J, N, g, N_trial, g_trial, A, d, about, trial):  # fmt: skip
    """Search from q (nq) for the targets, first near start (nq); errors (rows) is what is left.

    near_1, near_2: eps_1^2 and eps_2^2; small: |e|^2 at the end of the second search, below which there is a third."""
    align_stack(body)
    n, rows, size = moving_q.size, e.shape[0], m.dof_body.size
    for i in range(n):
        store(about, i, load(start, moving_q[i]))
    _errors(m, frames, parts, places, wanted, q, body, dof, e, J)
    square = _normal_equations(rows, size, moving_v, e, J, N, g)
    near, mu, search = splat(q, NEAR), splat(q, DAMPING), splat(q, 0.0)
    for i in range(trial.shape[0]):
        store(trial, i, load(q, i))
    for _ in range(STEPS):
        largest = _step(moving_q, lower, upper, q, about, near, mu, N, g, A, d)
        short = select_less(largest, LONGEST, 1.0, LONGEST / (largest + 1e-300))
        for i in range(n):
            y = fma(short, load(d, i), load(q, moving_q[i]))
            y = select_less(y, lower[i], lower[i], y)
            store(trial, moving_q[i], select_less(upper[i], y, upper[i], y))
        _errors(m, frames, parts, places, wanted, trial, body, dof, e, J)
        square_trial = _normal_equations(rows, size, moving_v, e, J, N_trial, g_trial)
        before = fma(near, _distance(moving_q, q, about), square)
        after = fma(near, _distance(moving_q, trial, about), square_trial)
        active = select_less(search, SEARCHES, 1.0, 0.0)
        taken = active * select_less(after, before, 1.0, 0.0)
        for i in range(n):
            k = moving_q[i]
            store(q, k, select_less(0.5, taken, load(trial, k), load(q, k)))
            store(g, i, select_less(0.5, taken, load(g_trial, i), load(g, i)))
        for i in range(n * n):
            store(N, i, select_less(0.5, taken, load(N_trial, i), load(N, i)))
        square = select_less(0.5, taken, square_trial, square)
        lowered = FALL * mu
        raised = fma(RISE, mu, FALL * DAMPING)  # above zero
        mu = select_less(0.5, taken, select_less(lowered, LEAST, 0.0, lowered), raised)
        # at its end is a search that gains nothing more, moves no more, or finds no step
        flat = select_less(search, 0.5, ROUGH, select_less(search, 1.5, FLAT, 0.0))
        end = taken * select_less(before - after, flat * before, 1.0, 0.0)
        end = end + select_less(largest, STILL, 1.0, 0.0) + select_less(mu, MOST, 0.0, 1.0)
        ended = active * select_less(0.5, end, 1.0, 0.0)
        last = ended * select_less(search, 0.5, 0.0, 1.0)
        exact = last * select_less(search, 1.5, 1.0, 0.0) * select_less(square, small, 1.0, 0.0)
        search = search + ended + (last - exact) * SEARCHES
        near = select_less(0.5, ended, near_1, near)
        near = select_less(0.5, exact, near_2, near)
        mu = select_less(0.5, ended, 0.0, mu)
        for i in range(n):
            store(about, i, select_less(0.5, exact, load(q, moving_q[i]), load(about, i)))
        if _rest(search):
            break
    _errors(m, frames, parts, places, wanted, q, body, dof, errors, J)


@helper
def _rest(search):
    """True if all lanes have come to their ends."""
    for k in range(LANES):
        if lane(search, k) < SEARCHES:
            return False
    return True


_drive = knot_driver(
    _search,
    inputs="q start",
    scratch={
        "body": nb * BODY, "dof": nv * DOF, "e": rows, "J": rows * nv, "N": n * n, "g": n,
        "N_trial": n * n, "g_trial": n, "A": n * n + n, "d": n, "about": n, "trial": Size("nq", "q.shape[1]"),
    },
    outputs={"q": Size("nq", "q.shape[1]"), "errors": rows},
)  # fmt: skip


def search(
    model: RigidBodyModel,
    targets: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    moving: tuple[np.ndarray, np.ndarray],
    limits: tuple[np.ndarray, np.ndarray],
    weights: tuple[float, float],
    small: float,
    start: np.ndarray,
    starts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Search from `starts` (K, nq) for configurations at which frames are at their targets, near `start` (nq,).

    Parameters
    ----------
    targets : bodies (F,) of the frames; parts (F,), `POSITION`, `ROTATION` or the sum; placements (F, 12) of the
        frames in their bodies, and in the world
    moving : the entries of q and of v that may move, (n,) each, which change as each other
    limits : lower and upper (n,) of these
    weights : eps_1 and eps_2
    small : |e| at the end of the second search below which there is a third

    Returns
    -------
    q (K, nq), |e| (K,)
    """
    frames, parts, places, wanted = targets
    found = np.array(starts, order="C")
    errors = np.empty((len(found), 3 * int(((parts & POSITION) + (parts & ROTATION) // 2).sum())))
    _drive(model, frames, parts, places.ravel(), wanted.ravel(), *moving, *limits, weights[0] ** 2, weights[1] ** 2,
           small**2, start[None], found, errors)  # fmt: skip
    return found, np.linalg.norm(errors, axis=1)
