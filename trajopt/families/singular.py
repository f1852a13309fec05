"""Where a branch of solutions becomes singular, told from the points before.

Near a fold at s* the solutions move as the square root of s* - s: the smallest eigenvalue of the reduced Hessian as
well, so that its square falls linearly, and so does one over the square of the tangent's length.  At a bifurcation the
eigenvalue falls linearly and the tangent stays finite.  Either way s is a smooth function near zero of what falls, e,
the eigenvalue or one over the length,

    s = s* + a e + b e^2 + ...        a = 0 at a fold

whose value at e = 0 the last three points tell, by interpolation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def remaining(positions: Sequence[float], falling: Sequence[float]) -> float:
    """How far beyond the last position the square of what falls, continued as a line, is zero; inf if it grows."""
    if len(positions) < 2 or not falling[-1] < falling[-2] < np.inf:
        return np.inf
    before, last = (e * e for e in falling[-2:])
    return last * (positions[-1] - positions[-2]) / (before - last)


def singular_position(positions: Sequence[float], falling: Sequence[float]) -> float:
    """s at e = 0 through the last points, three at most, of s as a polynomial in e; through two, in e^2."""
    s, e = (np.array(values[-3:]) for values in (positions, falling))
    if not (len(s) == 3 and np.inf > e[0] > e[1] > e[2]):
        return float(positions[-1] + remaining(positions, falling))
    weights = [np.prod([e[j] / (e[j] - e[i]) for j in range(3) if j != i]) for i in range(3)]
    return float(np.dot(weights, s))
