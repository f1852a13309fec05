"""Shapes of least energy: steps in a trust region, downhill also where the stiffness is singular or indefinite.

Along shapes that keep the chains closed, with g = Z'r and H = Z'JZ in units of moderate coordinates, the step p solves

    min g'p + p'Hp/2,  |p| <= radius:    (H + mu 1) p = -g,  mu >= max(0, - least eigenvalue of H)

found from the eigenvalues of H [Nocedal, Wright 2006, section 4.3]; where g has no part along a direction of negative
curvature, as in a rod that is straight above its buckling load, it is given a little.  What a step gains is the work of
r along it, so that energies need not be known; of loads that have none, as of followers, it is that of this step alone.
"""

import numpy as np
from scipy.optimize import brentq

from dynamics.rods.chains.closed_chains import assemble
from dynamics.rods.statics.load_path import ROUNDING, LoadPath, Tangent

REACHED, TOO_MANY, STUCK = 0, 1, 2
MESSAGES = ("reached", "too many iterations", "no way downhill, and no rest")
CLOSE = 1e-4
"""A step by less, moderate changes being 1, leaves the rest to Newton's method."""
FIRST_RADIUS, LARGEST_RADIUS, LEAST_RADIUS = 1.0, 4.0, 1e-9
NUDGE = 1e-6
"""Of the force that a direction of negative curvature takes at the radius: what it is given at least."""
GAP = 1e-11
"""Of chains that count as closed."""
LEAST_GAIN = 1e-14
"""Of the energy of a moderate change of the stiffest coordinate: what is lost in rounding."""
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(5)


def _trust_region_step(g: np.ndarray, H: np.ndarray, radius: float) -> tuple[np.ndarray, float]:
    """p, and g'p + p'Hp/2."""
    w, V = np.linalg.eigh(0.5 * (H + H.T))
    least = w[0]
    given = V.T @ g
    if least < -ROUNDING * np.abs(w).max():
        along = np.sign(V[np.argmax(np.abs(V[:, 0])), 0])
        least_force = NUDGE * -least * radius
        if abs(given[0]) < least_force:
            given[0] = -along * least_force
    elif (p := -given / np.maximum(w, ROUNDING * max(np.abs(w).max(), np.abs(given).max()) or 1.0)) @ p <= radius**2:
        return V @ p, float(given @ p + 0.5 * p @ (w * p))

    def excess(shift: float) -> float:
        return float(np.linalg.norm(given / (w - least + shift))) - radius

    low = max(abs(given[0]) / (2.0 * radius), least, np.finfo(float).tiny)
    high = float(np.linalg.norm(given)) / radius + max(least, 0.0)
    shift = brentq(excess, low, high, rtol=1e-10) if excess(low) > 0.0 > excess(high) else high
    p = -given / (w - least + shift)
    return V @ p, float(given @ p + 0.5 * p @ (w * p))


def _work(path: LoadPath, s: float, q: np.ndarray, trial: np.ndarray) -> float:
    """Of r along the straight line from q to trial; NaN where r is not finite there."""
    step = ((trial - q) / path.scales)[path.held.free]
    places = q + (0.5 + 0.5 * POINTS)[:, None] * (trial - q)
    forces = path.forces(np.vstack([places, trial]), s)
    return 0.5 * float(WEIGHTS @ (forces[:-1] @ step)) if np.isfinite(forces[-1]).all() else np.nan


def _moved(path: LoadPath, q: np.ndarray, x: np.ndarray) -> np.ndarray:
    """q (n,) moved by x (F,) in units of scales, chains closed again; NaN where that cannot be."""
    trial = q.copy()
    trial[path.held.free] += path.scales[path.held.free] * x
    return closed_shape(path, trial)


def closed_shape(path: LoadPath, q: np.ndarray) -> np.ndarray:
    """Coordinates near q (n,) that close the chains, prescribed ones kept; NaN where there are none."""
    if not path.robot.model.constraint_count:
        return q
    found = assemble(path.robot.model, q, tuple(path.held.links), tolerance=GAP)
    return found.q if found.error <= GAP else np.full(len(q), np.nan)


def descend(path: LoadPath, s: float, q: np.ndarray, max_iterations: int) -> tuple[np.ndarray, Tangent, int, int]:
    """From q (n,), chains closed, to where the energy is least nearby: the shape, the equations there, the status and
    the number of steps."""
    radius, tangent = FIRST_RADIUS, path.tangent(q, s)
    for count in range(max_iterations):
        Z = tangent.null_space()
        H, g = Z.T @ tangent.J @ Z, Z.T @ tangent.r
        if not len(g):
            return q, tangent, REACHED, count
        while True:
            p, promised = _trust_region_step(g, H, radius)
            size = float(np.linalg.norm(p))
            if (size <= CLOSE and size < 0.99 * radius) or -promised <= LEAST_GAIN * path.largest:
                return q, tangent, REACHED, count
            trial = _moved(path, q, Z @ p)
            gain = -_work(path, s, q, trial) if np.isfinite(trial).all() else -np.inf
            ratio = gain / -promised if np.isfinite(gain) and promised < 0.0 else -1.0
            if ratio > 0.75:
                radius = min(max(radius, 2.0 * size), LARGEST_RADIUS)
            elif ratio < 0.25:
                radius = 0.25 * size
            if ratio > 1e-3:
                break
            if radius < LEAST_RADIUS:
                return q, tangent, STUCK, count
        q, tangent = trial, path.tangent(trial, s)
    return q, tangent, TOO_MANY, max_iterations
