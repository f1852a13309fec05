"""Shapes of least energy: steps in a trust region, downhill also where the stiffness is singular or indefinite.

Along shapes that keep the chains closed, with g = Z'r and H = Z'JZ in units of moderate coordinates, the step p solves

    min g'p + p'Hp/2,  |p| <= radius

(`trust_region_step`); where g has no part along a direction of negative curvature, as in a rod that is straight above
its buckling load, it is given a little.  What a step gains is the work of
r along it, so that energies need not be known; of loads that have none, as of followers, it is that of this step alone.
"""

import numpy as np

from dynamics.rods.chains.closed_chains import close_chains
from dynamics.rods.chains.trust_region import trust_region_step
from dynamics.rods.statics.load_path import LoadPath, Tangent

REACHED, TOO_MANY, STUCK = 0, 1, 2
MESSAGES = ("reached", "too many iterations", "no way downhill, and no rest")
CLOSE = 1e-4
"""A step by less, moderate changes being 1, leaves the rest to Newton's method."""
FIRST_RADIUS, LARGEST_RADIUS, LEAST_RADIUS = 1.0, 4.0, 1e-9
GAP = 1e-11
"""Of chains that count as closed."""
LEAST_GAIN = 1e-14
"""Of the energy of a moderate change of the stiffest coordinate: what is lost in rounding."""
POINTS, WEIGHTS = np.polynomial.legendre.leggauss(5)


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
    found = close_chains(path.robot.model, q, tuple(path.held.links), GAP)
    return found.q if found.error <= GAP else np.full(len(q), np.nan)


def descend(path: LoadPath, s: float, q: np.ndarray, max_iterations: int) -> tuple[np.ndarray, Tangent, int, int]:
    """From q (n,), chains closed, to where the energy is least nearby: the shape, the equations there, the status and
    the number of steps."""
    radius, tangent = FIRST_RADIUS, path.tangent(q, s)
    for count in range(max_iterations):
        if not np.isfinite(tangent.r).all():
            return q, tangent, STUCK, count
        Z = tangent.null_space()
        H, g = Z.T @ tangent.J @ Z, Z.T @ tangent.r
        if not len(g):
            return q, tangent, REACHED, count
        while True:
            p, promised = trust_region_step(g, H, radius)
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
