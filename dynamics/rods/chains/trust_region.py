"""The minimum of a quadratic model within a radius, also where the model has directions of negative curvature."""

import numpy as np
from scipy.optimize import brentq

ROUNDING = 1e-12
"""Eigenvalue that counts as zero, relative to the largest."""
NUDGE = 1e-6
"""Least component of the gradient along a direction of negative curvature, relative to the force at the radius."""


def trust_region_step(g: np.ndarray, H: np.ndarray, radius: float) -> tuple[np.ndarray, float]:
    """The step p (n,) that minimizes g'p + p'Hp/2 within |p| <= radius, and that value, which is never positive.

    (H + mu 1) p = -g with mu >= max(0, - least eigenvalue of H), found from the eigenvalues of H [Nocedal, Wright
    2006, section 4.3]; where g has no component along a direction of negative curvature, a small one is added.
    """
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
