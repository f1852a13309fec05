"""Shapes under loads that grow from nothing, step by step, as they would if they grew slowly.

A step goes along the tangent dq/ds, [J -A'; A 0] [dq; dlambda] = -[dr/ds; de/ds] ds, and ends in Newton's method.  It
is halved where that fails or goes far from there; where shapes turn unstable they go downhill to others (`descent`).
"""

import numpy as np

from dynamics.rods.statics.descent import MESSAGES as OF_DESCENT
from dynamics.rods.statics.descent import REACHED, TOO_MANY, closed_shape, descend
from dynamics.rods.statics.load_path import LoadPath, negative_directions
from dynamics.rods.statics.newton import CONVERGED, MESSAGES, NewtonResult

FIRST_STEP, LEAST_STEP = 0.25, 1e-6
"""Of the loads."""
SNAP = 0.02
"""Step of the loads beyond which shapes do not snap: what they turn into is found where the loads just suffice."""
FARTHEST = 2.0
"""Change of a coordinate in a step, moderate ones being 1."""
FEW, MOST = 6, 20
"""Steps of Newton's method after which the next step of the loads is longer, and at which one has failed."""

Found = tuple[np.ndarray, NewtonResult, str, int]
"""A shape (n,), what Newton's method said there last, the message of what ended the search, and how many steps."""


def descended(path: LoadPath, s: float, q: np.ndarray, tolerance: float, max_iterations: int) -> Found:
    """Downhill from q (n,) to a shape at rest under the loads at s."""
    start = closed_shape(path, path.placed(q, s))
    if not np.isfinite(start).all():
        q, result = path.solve(q, s, None, tolerance, max_iterations)
        return q, result, "chains that cannot be closed", result.iterations
    q, tangent, status, count = descend(path, s, start, max_iterations)
    steps = max_iterations if status != TOO_MANY else 1
    found, result = path.solve(q, s, tangent.multipliers, tolerance, steps)
    if path.at_rest(result, tolerance) and status != TOO_MANY:
        return found, result, MESSAGES[CONVERGED], count + result.iterations
    if status == REACHED:
        return found, result, MESSAGES[result.status], count + result.iterations
    return q, result, OF_DESCENT[status], count


def _predicted(path: LoadPath, q: np.ndarray, s: float, ds: float) -> tuple[np.ndarray, np.ndarray, float]:
    """Shape and multipliers at s + ds by the tangent, and the largest change of a coordinate, moderate ones being 1."""
    t = path.tangent(q, s)
    F, G = len(t.r), len(t.e)
    K = np.block([[t.J, -t.A.T], [t.A, np.zeros((G, G))]])
    rates = np.linalg.lstsq(K, -np.concatenate([t.r_s, t.e_s]), rcond=1e-13)[0] if F + G else np.zeros(0)
    trial, free = path.placed(q, s + ds), path.held.free
    trial[free] += ds * rates[:F] * path.scales[free]
    return trial, t.multipliers + ds * rates[F:], float(np.abs((trial - q) / path.scales).max(initial=0.0))


def loaded(path: LoadPath, q: np.ndarray, tolerance: float, max_iterations: int) -> Found:
    """From q (n,) at s = 0, where it is let go, to s = 1; max_iterations: of each step."""
    q, result, message, count = descended(path, 0.0, q, tolerance, max_iterations)
    s, ds = 0.0, FIRST_STEP
    while s < 1.0 and message == MESSAGES[CONVERGED]:
        ds = min(ds, 1.0 - s)
        guess, multipliers, size = _predicted(path, q, s, ds)
        if size > FARTHEST and ds > LEAST_STEP:
            ds = max(0.9 * ds * FARTHEST / size, LEAST_STEP)
            continue
        target = 1.0 if s + ds >= 1.0 - LEAST_STEP else s + ds
        trial, result = path.solve(guess, target, multipliers, tolerance, MOST)
        count += result.iterations
        near = np.abs((trial - guess) / path.scales).max(initial=0.0) <= FARTHEST
        good = path.at_rest(result, tolerance) and bool(near)
        unstable = good and negative_directions(path.stiffness(trial, target, result.multipliers))[0] > 0
        if (unstable or not good) and ds > SNAP:
            ds *= 0.5
            continue
        if unstable or not good:
            arguments = (trial if good else q), tolerance, max_iterations
            trial, result, message, more = descended(path, target, *arguments)
            count += more
        q, s = trial, target
        ds = 2.0 * ds if result.iterations <= FEW and not unstable else ds
    return q, result, message, count
