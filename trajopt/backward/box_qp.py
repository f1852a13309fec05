"""The box-constrained quadratic program of one knot, by projected Newton steps [Bertsekas 1982; Tassa 2014].

    minimize  g'x + 1/2 x'H x   subject to  lower <= x <= upper

A component is clamped where it lies on a limit and the gradient r = g + H x pushes it outwards.  The free ones take the
Newton step H_ff d = -r_f, projected onto the box, if that lowers the objective enough; else they go along d to the
first limit and that component stays clamped, until the minimum over the free ones is reached and others may be
released.  The step from the right set of clamped components is exact, so the method ends after finitely many steps,
usually two or three.
"""

from typing import NamedTuple

import numpy as np

from dynamics.simd import helper, shared_kernel

HALF_PRECISION = 1e-8
"""Half of the digits of a number: what is smaller, relative to what it is compared with, counts as nothing."""
ROUNDING = 1e-14
"""Relative rounding error of a sum: of a pivot, which counts as positive beyond that fraction of the largest diagonal
entry; of costs, of which an increase within it does not count; and of a control, which counts as on its limit within
that fraction of it and of its change."""
OUTWARD = 1.0 + 4.0 * float(np.finfo(np.float64).eps)
"""Overshoot factor of a step to a limit, by a few units of rounding, so that clipping lands exactly on the limit."""
SUFFICIENT = 1e-4
"""Least part of a predicted decrease that a step has to gain, of costs, of models and of violations alike; small, as in
Armijo's rule [Bertsekas 1982]."""


class Box(NamedTuple):
    """Limits of the change of the controls, lower <= k <= upper (N, nu), for a sweep to keep.

    The sweep writes k (N, nu) and clamped (N, nu), True for controls on an active limit; H, L (nu, nu), g (nu,) and
    work (4, nu) are scratch.
    """

    lower: np.ndarray
    upper: np.ndarray
    k: np.ndarray
    clamped: np.ndarray
    H: np.ndarray
    g: np.ndarray
    L: np.ndarray
    work: np.ndarray


def box_around(us: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Box:
    """The box of changes of the controls us (N, nu) that keep them within lower and upper (N, nu)."""
    N, nu = us.shape
    scratch = np.empty((nu, nu)), np.empty(nu), np.empty((nu, nu)), np.empty((4, nu))
    limits = OUTWARD * (lower - us), OUTWARD * (upper - us)
    return Box(*limits, np.zeros((N, nu)), np.zeros((N, nu), dtype=np.bool_), *scratch)


NO_BOX = tuple(box_around(*np.empty((3, 0, 0))))
"""A box of size zero: no limits."""


@helper
def _solve_free(H, clamped, L, x):
    """x_f <- H_ff^-1 x_f by LDL' of the free rows of the symmetric H, x_c <- 0; False if a pivot is not positive."""
    m = x.shape[0]
    largest = 0.0
    for i in range(m):
        largest = max(largest, abs(H[i, i]))
        for j in range(m):
            L[i, j] = H[i, j]
    for c in range(m):
        if clamped[c]:
            x[c] = 0.0
            continue
        if not (L[c, c] > ROUNDING * largest and L[c, c] < np.inf):
            return False
        for i in range(c + 1, m):
            if not clamped[i]:
                f = L[i, c] / L[c, c]
                for j in range(c + 1, m):
                    L[i, j] -= f * L[c, j]
                x[i] -= f * x[c]
    for c in range(m - 1, -1, -1):
        if not clamped[c]:
            for i in range(c + 1, m):
                x[c] -= L[c, i] * x[i]
            x[c] /= L[c, c]
    return True


@helper
def _gradient(H, g, x, r):
    """r = g + H x; returns g'x + 1/2 x'H x."""
    value = 0.0
    for i in range(x.shape[0]):
        r[i] = g[i]
        for j in range(x.shape[0]):
            r[i] += H[i, j] * x[j]
        value += 0.5 * x[i] * (g[i] + r[i])
    return value


@helper
def _pressed(lower, upper, x, r, i):
    """True if x_i lies on a limit and the gradient pushes it outwards."""
    return (x[i] <= lower[i] and r[i] > 0.0) or (x[i] >= upper[i] and r[i] < 0.0)


@helper
def _hold_outward(lower, upper, x, d, clamped):
    """Clamp free components on a limit that d pushes outwards; True if there were any."""
    found = False
    for i in range(x.shape[0]):
        if not clamped[i] and ((x[i] <= lower[i] and d[i] < 0.0) or (x[i] >= upper[i] and d[i] > 0.0)):
            clamped[i] = True
            found = True
    return found


@helper
def _projected_step(H, g, lower, upper, x, r, d, value, trial, trial_r):
    """Write x + d, projected, to trial; returns its value, True if that is low enough, and True if nothing was
    projected."""
    descent, inside = 0.0, True
    for i in range(x.shape[0]):
        y = x[i] + d[i]
        trial[i] = min(max(y, lower[i]), upper[i])
        inside = inside and trial[i] == y
        descent += r[i] * (trial[i] - x[i])
    new_value = _gradient(H, g, trial, trial_r)
    return new_value, inside or new_value <= value + SUFFICIENT * descent, inside


@helper
def _blocked_step(lower, upper, x, d, clamped, trial):
    """Write trial = x + length d with the largest length that stays in the box; clamp the component that stops it."""
    length, block = np.inf, -1
    for i in range(x.shape[0]):
        if not clamped[i] and d[i] != 0.0:
            limit = ((lower[i] if d[i] < 0.0 else upper[i]) - x[i]) / d[i]
            if limit < length:
                length, block = limit, i
    for i in range(x.shape[0]):
        trial[i] = min(max(x[i] + length * d[i], lower[i]), upper[i])
    trial[block] = lower[block] if d[block] < 0.0 else upper[block]
    clamped[block] = True


@shared_kernel
def box_qp(H, g, lower, upper, x, clamped, L, work):
    """Solve the program; x contains a first guess and becomes the solution, clamped (m,) becomes True on active limits.

    H (m, m) symmetric, g, lower, upper, x (m,); scratch L (m, m), work (4, m).  Returns False if H_ff is not positive
    definite.
    """
    m = x.shape[0]
    r, d, trial, trial_r = work[0], work[1], work[2], work[3]
    for i in range(m):
        x[i] = min(max(x[i], lower[i]), upper[i])
    value = _gradient(H, g, x, r)
    release = True
    while True:
        released = release
        if released:
            for i in range(m):
                clamped[i] = _pressed(lower, upper, x, r, i)
        while True:
            for i in range(m):
                d[i] = -r[i]
            if not _solve_free(H, clamped, L, d):
                return False
            if not _hold_outward(lower, upper, x, d, clamped):
                break
        new_value, release, inside = _projected_step(H, g, lower, upper, x, r, d, value, trial, trial_r)
        if not release:
            _blocked_step(lower, upper, x, d, clamped, trial)
            new_value = _gradient(H, g, trial, trial_r)
        falls = new_value < value  # else the remaining decrease is below rounding
        if not falls and not release:
            return True
        value, done = new_value, inside
        for i in range(m):
            x[i], r[i] = trial[i], trial_r[i]
            done = done and (not clamped[i] or _pressed(lower, upper, x, r, i) or r[i] == 0.0)
        if done or (released and not falls):
            return True
