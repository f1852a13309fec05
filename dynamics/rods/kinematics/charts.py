"""Charts of joints that rotate about any axis: two vectors of coordinates x = [w; u] for the same pose of the joint.

A rotation by |w| about w is one by |w| - 2 pi about w.  In dual numbers w + e u, and along a path, this one formula

    phi(w) = (1 - 2 pi / |w|) w

holds for w, u, velocities and accelerations, since T3(phi(w)) phi'(w) = T3(w).  A joint whose |w| exceeds LIMIT changes
to its other chart, with 2 pi - |w|, far from 2 pi, where coordinates are singular: rotations are not limited.

`turns` are the coordinates (J, 6) of such joints, from `turning_joints`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from dynamics.rods.kinematics import exponential as jets
from dynamics.simd import align_stack, fma, helper, kernel, load, select_less, splat, sqrt, store
from dynamics.simd.functions import all_less
from dynamics.spatial.spatial import scale6

LIMIT = 4.2
"""Limit of |w|, rad, between pi and 2 pi: the other chart begins with 2.1 rad, so that changes are rare, and a step may
rotate by as much."""
SQUARE = LIMIT**2
_TURN = 2.0 * np.pi


@helper
def _number(x, i, first):
    """Entry `first` + i of x, zero for i < 0."""
    return load(x, first + i) if i >= 0 else splat(x, 0.0)


@helper
def _twist(turns, k, x, first):
    """The six entries of joint k."""
    return (
        _number(x, turns[k, 0], first), _number(x, turns[k, 1], first), _number(x, turns[k, 2], first),
        _number(x, turns[k, 3], first), _number(x, turns[k, 4], first), _number(x, turns[k, 5], first),
    )  # fmt: skip


@helper
def _other_chart(q, v):
    """Coordinates and velocities in the other chart."""
    z = q[0] * 0.0
    w = jets.of_twists(q, v, (z, z, z, z, z, z))
    s = jets.dot(w, w)
    r = 1.0 / sqrt(s[0])
    r3 = r * r * r
    r5 = r3 * r * r
    g = scale6(jets.compose((r, -0.5 * r3, 0.75 * r5, -1.875 * r5 * r * r), s), -_TURN)
    g = (g[0] + 1.0, g[1], g[2], g[3], g[4], g[5])
    a, b, c = jets.times(g, w[0]), jets.times(g, w[1]), jets.times(g, w[2])
    return (a[0], b[0], c[0], a[3], b[3], c[3]), (a[1], b[1], c[1], a[4], b[4], c[4])


@helper
def _square(a, b, c):
    return fma(a, a, fma(b, b, c * c))


@helper
def _put(x, i, first, near, far, new):
    """Store `new` in entry `first` + i of x where near < far, nothing for i < 0."""
    if i >= 0:
        store(x, first + i, select_less(near, far, new, load(x, first + i)))


@kernel
def _move(turns, k, n, near, far, x):
    """Change joint k of x = (q, v) to its other chart where near < far."""
    q, v = _other_chart(_twist(turns, k, x, 0), _twist(turns, k, x, n))
    for r in range(6):
        _put(x, turns[k, r], 0, near, far, q[r])
        _put(x, turns[k, r], n, near, far, v[r])


@kernel
def change_charts(turns, n, x):
    """Change joints of x = (q, v) that have passed the limit to their other chart."""
    align_stack(x)
    for k in range(turns.shape[0]):
        q = _twist(turns, k, x, 0)
        s = _square(q[0], q[1], q[2])
        if not all_less(s, SQUARE):
            _move(turns, k, n, splat(x, SQUARE), s, x)


@kernel
def move_near(turns, n, reference, x):
    """Change joints of x = (q, v) to the chart in which their w is nearer to the reference, a row of plain numbers."""
    align_stack(x)
    for k in range(turns.shape[0]):
        q = _twist(turns, k, x, 0)
        i, j, l = turns[k, 0], turns[k, 1], turns[k, 2]
        a, b, c = reference[i] if i >= 0 else 0.0, reference[j] if j >= 0 else 0.0, reference[l] if l >= 0 else 0.0
        near = _square(q[0] - a, q[1] - b, q[2] - c)
        if not all_less(near, 0.25 * _TURN * _TURN):  # the two are 2 pi apart
            w, _ = _other_chart(q, q)
            _move(turns, k, n, _square(w[0] - a, w[1] - b, w[2] - c), near, x)


# --------------------------------------------------------------------------------------------
# Changes of the chart of joints that rotate about any axis, with derivatives; in numpy, for a batch.
#
# With n = w / |w| = grad |w| and N_k the k-th derivative of |w|, a form of k vectors, coordinates in the other chart
# are
#
#     w' = w - 2 pi n          w'' = wdot - 2 pi N_2 wdot
#     u' = u - 2 pi N_2 u      u'' = udot - 2 pi (N_3 u wdot + N_2 udot)
#
# and so on along time.  N_k(a, b, ...), |w| being a function h of s = w.w, is a sum over all ways to leave vectors
# single or to pair them,
#
#     N_k = sum h^(k - pairs)(s) prod (2 w.a over single ones) prod (2 a.b over pairs)

TURN = 2.0 * np.pi


# ------------------------------------------------------------------------------------------------ derivatives of |w|
@cache
def _pairings(items: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
    """All ways to leave items single or to pair them."""
    if not items:
        return [[]]
    first, rest = items[0], items[1:]
    found = [[(first,), *others] for others in _pairings(rest)]
    for k, partner in enumerate(rest):
        found += [[(first, partner), *others] for others in _pairings(rest[:k] + rest[k + 1 :])]
    return found


_LETTERS = "ij"


def norm_derivative(w: np.ndarray, vectors: Sequence[np.ndarray], free: int) -> np.ndarray:
    """Derivative of |w| along the vectors, w and each (K, 3), and along `free` further directions, which are the last
    axes: (K,), (K, 3) or (K, 3, 3)."""
    count = len(vectors) + free
    s, total = np.einsum("ki,ki->k", w, w), np.zeros((len(w),) + (3,) * free, w.dtype)
    for pairing in _pairings(tuple(range(count))):
        h, letters, parts = np.sqrt(s), [], []
        for k in range(len(pairing)):
            h = h * (0.5 - k) / s
        for group in pairing:
            given = [vectors[i] for i in group if i < len(vectors)]
            open_ = "".join(_LETTERS[i - len(vectors)] for i in group if i >= len(vectors))
            if len(group) == 1:
                given.append(w)
            if len(given) == 2:
                h = h * 2.0 * np.einsum("ki,ki->k", *given)
            elif len(given) == 1:
                letters.append("k" + open_)
                parts.append(2.0 * given[0])
            else:
                letters.append(open_)
                parts.append(2.0 * np.eye(3))
        total += np.einsum(",".join(["k", *letters]) + "->k" + _LETTERS[:free], h, *parts)
    return total


def _along(w: np.ndarray, turns: np.ndarray, *vectors: np.ndarray) -> np.ndarray:
    """- 2 pi N (K, 3) along vectors."""
    return -turns[:, None] * norm_derivative(w, vectors, 1)


# ------------------------------------------------------------------------------------------------ one joint
def changed(x: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """Coordinates of a joint with their time derivatives x (K, orders, 6), up to the third order, in the chart whose
    angle is smaller by `turns` (K,), rad, multiples of 2 pi."""
    w, u = x[:, 0, :3], x[:, 0, 3:]
    out = x.copy()
    out[:, 0, :3] += _along(w, turns)
    out[:, 0, 3:] += _along(w, turns, u)
    if x.shape[1] > 1:
        wv, uv = x[:, 1, :3], x[:, 1, 3:]
        out[:, 1, :3] += _along(w, turns, wv)
        out[:, 1, 3:] += _along(w, turns, u, wv) + _along(w, turns, uv)
    if x.shape[1] > 2:
        wa, ua = x[:, 2, :3], x[:, 2, 3:]
        out[:, 2, :3] += _along(w, turns, wv, wv) + _along(w, turns, wa)
        out[:, 2, 3:] += _along(w, turns, u, wv, wv) + _along(w, turns, u, wa)
        out[:, 2, 3:] += 2.0 * _along(w, turns, uv, wv) + _along(w, turns, ua)
    return out


def change_jacobian(x: np.ndarray) -> np.ndarray:
    """Derivative (K, 12, 12) of (w, u, wdot, udot) in the other chart by those in this one, x (K, 12)."""
    w, u, wv, uv = (x[:, i : i + 3] for i in range(0, 12, 3))
    J = np.tile(np.eye(12, dtype=x.dtype), (len(x), 1, 1))

    def add(row: int, column: int, *vectors: np.ndarray) -> None:
        J[:, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3] -= TURN * norm_derivative(w, vectors, 2)

    for k in range(4):
        add(k, k)
    add(1, 0, u)
    add(2, 0, wv)
    add(3, 0, u, wv)
    add(3, 0, uv)
    add(3, 1, wv)
    add(3, 2, u)
    return J


def change_hessian(x: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """Hessian (K, 12, 12) of mu'(w, u, wdot, udot) in the other chart, mu and x (K, 12)."""
    w, u, wv, uv = (x[:, i : i + 3] for i in range(0, 12, 3))
    a, b, c, d = (mu[:, i : i + 3] for i in range(0, 12, 3))
    H = np.zeros((len(x), 12, 12), x.dtype)

    def add(row: int, column: int, *vectors: np.ndarray) -> None:
        block = -TURN * norm_derivative(w, vectors, 2)
        H[:, 3 * row : 3 * row + 3, 3 * column : 3 * column + 3] += block
        if row != column:
            H[:, 3 * column : 3 * column + 3, 3 * row : 3 * row + 3] += block

    for vectors in ((a,), (b, u), (c, wv), (d, u, wv), (d, uv)):
        add(0, 0, *vectors)
    for column, vectors in ((1, (b,)), (1, (d, wv)), (2, (c,)), (2, (d, u)), (3, (d,))):
        add(0, column, *vectors)
    add(1, 2, d)
    return H


# ------------------------------------------------------------------------------------------------ states
def _numbers(joint: np.ndarray, n: int, rows: np.ndarray) -> np.ndarray:
    """Rows (K, orders n) reduced to a joint, (K, orders, 6), zero for components that it does not have."""
    parts = rows.reshape(len(rows), -1, n)
    return np.where(joint >= 0, parts[:, :, joint], 0.0)


def beyond(turns: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """True for the joints (K, J) that have passed the limit at xs (K, n) or (K, 2 n)."""
    found = np.empty((len(xs), len(turns)), bool)
    for k, joint in enumerate(turns[:, :3]):
        w = xs[:, joint[joint >= 0]]
        with np.errstate(over="ignore", invalid="ignore"):
            found[:, k] = np.einsum("ki,ki->k", w, w) > SQUARE
    return found


def farther(turns: np.ndarray, reference: np.ndarray, xs: np.ndarray) -> np.ndarray:
    """True for the joints (K, J) whose other chart is nearer to the reference (2 n,) or (K, 2 n), at xs (K, 2 n)."""
    found = np.zeros((len(xs), len(turns)), bool)
    for k, joint in enumerate(turns[:, :3]):
        w, r = xs[:, joint[joint >= 0]], np.atleast_2d(reference)[:, joint[joint >= 0]]
        with np.errstate(over="ignore", invalid="ignore"):
            near = np.einsum("ki,ki->k", w - r, w - r)
        far = near > 0.25 * TURN**2
        if far.any():
            w, r = w[far], np.broadcast_to(r, w.shape)[far]
            other = w * (1.0 - TURN / np.linalg.norm(w, axis=1))[:, None]
            found[far, k] = ((other - r) ** 2).sum(axis=1) < near[far]
    return found


def change(turns: np.ndarray, n: int, xs: np.ndarray, which: np.ndarray) -> np.ndarray:
    """xs (K, orders n), with the joints (K, J) for which `which` is true in their other chart."""
    out = xs.copy()
    for k, joint in enumerate(turns):
        if which[:, k].any():
            _change(joint, n, out, np.flatnonzero(which[:, k]), np.full(which[:, k].sum(), TURN))
    return out


def _change(joint: np.ndarray, n: int, xs: np.ndarray, rows: np.ndarray, turns: np.ndarray) -> None:
    parts, has = xs.reshape(len(xs), -1, n), joint >= 0
    moved = changed(_numbers(joint, n, xs[rows]), turns)
    for component in np.flatnonzero(has):
        parts[rows, :, joint[component]] = moved[:, :, component]


def within_limit(turns: np.ndarray, n: int, x: np.ndarray) -> np.ndarray:
    """x (orders, n) with the joints that have passed the limit in a chart with an angle of at most pi; the same array
    if there are none."""
    out = x
    for joint in turns:
        w = np.where(joint[:3] >= 0, x[0, joint[:3]], 0.0)
        if (s := w @ w) > SQUARE:
            whole = TURN * np.round(np.sqrt(s) / TURN)
            out = out.copy() if out is x else out
            _change(joint, n, out.reshape(1, -1), np.zeros(1, np.int64), np.array([whole]))
    return out


def change_derivatives(
    turns: np.ndarray, n: int, xs: np.ndarray, which: np.ndarray, mu: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Derivative (K, 2 n, 2 n) of `change` at xs (K, 2 n), and the Hessian of mu'change for mu (K, 2 n)."""
    J = np.tile(np.eye(2 * n), (len(xs), 1, 1))
    H = None if mu is None else np.zeros((len(xs), 2 * n, 2 * n))
    for k, joint in enumerate(turns):
        rows = np.flatnonzero(which[:, k])
        if len(rows):
            has = joint >= 0
            places, own = np.concatenate([joint[has], joint[has] + n]), np.flatnonzero(np.tile(has, 2))
            x = _numbers(joint, n, xs[rows]).reshape(-1, 12)
            J[np.ix_(rows, places, places)] = change_jacobian(x)[:, own[:, None], own]
            if mu is not None and H is not None:
                weights = _numbers(joint, n, mu[rows]).reshape(-1, 12)
                H[np.ix_(rows, places, places)] = change_hessian(x, weights)[:, own[:, None], own]
    return J, H
