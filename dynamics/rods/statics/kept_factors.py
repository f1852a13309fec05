"""Factors of a Jacobian for many steps of Newton's method, improved by Broyden's updates, and when to give them up.

After full steps s_0 ... s_(k-1) with one Jacobian J, of which the last left the residual r, the next one is

    x <- - J^-1 r,    x <- x + s_(j+1) (s_j.x) / (s_j.s_j),  j = 0 ... k - 2,
    s_k = x / (1 - (s_(k-1).x) / (s_(k-1).s_(k-1)))

in the unknowns of the equilibrated matrix.                                                        [Kelley 1995, 7.3]
"""

from typing import NamedTuple

import numpy as np

from dynamics.simd import equilibrate, factorize_dense, kernel, solve_dense

UPDATES = 20
"""Most steps that updates are made of."""
ALONG = 0.5
"""Most of a step that the next may repeat for an update."""
RENEWAL = 8
"""Evaluations of the residual that a Jacobian and its factors cost."""


class Factors(NamedTuple):
    """Of a Jacobian (N, N)."""

    c: np.ndarray  # (3,) coefficients that it was made for; NaN if it is to be renewed
    J: np.ndarray  # (N, N) L and U of the equilibrated matrix
    d: np.ndarray  # (N,) its equilibration
    pivots: np.ndarray  # (N,)
    scale: np.ndarray  # (N,) of the residual
    record: np.ndarray  # (3,) evaluations in excess, fewest of a call with the factors before and with these


class Steps(NamedTuple):
    """Steps of a call."""

    full: np.ndarray  # (UPDATES, N) equilibrated, with the same Jacobian
    now: np.ndarray  # (N,) the last
    column: np.ndarray  # (N, 1)


def no_factors(N: int) -> Factors:
    """Places for them."""
    pivots, record = np.empty(N, np.int64), np.array([0.0, np.inf, np.inf])
    return Factors(np.full(3, np.nan), np.empty((N, N)), np.empty(N), pivots, np.empty(N), record)


@kernel
def factorize(k, c):
    """Factors of the matrix that lies in their place; whether it is regular."""
    equilibrate(k.J, k.d)
    regular = factorize_dense(k.J, k.pivots)
    for i in range(3):
        k.c[i] = c[i] if regular else np.nan
    return regular


@kernel
def keep_record(k, evaluations, jacobians):
    """Count what a call took.  Factors are given up when calls with them have taken RENEWAL evaluations more than the
    best of them would have, or the best with the factors before."""
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
    """The step x with updates; False if the last step is not fit for one."""
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
    """The step that ought to end the residual r (N,), from factors and the `count` full steps before; how many there
    are with it."""
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
