"""Smallest capsules around shapes.

A capsule with the axis z through the origin and radius R >= max rho_i, which is to contain points (z_i, rho_i), rho_i
their distance from the axis, needs the segment

    from  min_i z_i + sqrt(R^2 - rho_i^2)   to   max_i z_i - sqrt(R^2 - rho_i^2),   a point between them if these cross,

so that its volume V(R) = pi R^2 length + 4/3 pi R^3 is a function of R alone.  For boxes and cylinders the axis is
known; for a mesh the method of Nelder and Mead finds it, starting from the principal axes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from dynamics.geometry.shapes import Box, Capsule, Cylinder, Ellipsoid
from dynamics.geometry.triangles import axes_along
from dynamics.validation import as_array

FITTED = 400
"""Most corners of a hull used in a fit; the final radius is that of all corners."""
RADII = 12
"""Number of values of R that are evaluated at once."""
AGAIN = (0.05, 0.02, 0.005, 0.001)
"""Sizes of the simplices with which the search restarts at its last point, since a simplex may shrink on an edge of
the volume, where two points touch the capsule."""
SAFETY = 1.0 + 1e-12


def capsule_around(shape: Box | Cylinder | Ellipsoid) -> Capsule:
    """The smallest capsule along the longest axis that contains a box, a cylinder or an ellipsoid.

    A cylinder of radius r and length L, or a box whose corners are at r from an axis of length L, needs a segment of
    half length s = L/2 - sqrt(R^2 - r^2), R >= r;  an ellipsoid with semi-axes a >= b >= c has R = b and s = a - b.
    """
    if isinstance(shape, Cylinder):
        axis, r, half = 2, shape.radius, 0.5 * shape.length
    elif isinstance(shape, Box):
        extents = np.asarray(shape.half_extents)
        axis = int(extents.argmax())
        r, half = float(np.linalg.norm(np.delete(extents, axis))), float(extents[axis])
    else:
        axes = np.asarray(shape.semi_axes)
        axis, (_, b, a) = int(axes.argmax()), np.sort(axes)
        return Capsule(b, (b - a) * np.eye(3)[axis], (a - b) * np.eye(3)[axis])
    largest = float(np.hypot(r, half))  # a ball
    R = largest
    if half > 0.0 and r > 0.0:
        from scipy.optimize import minimize_scalar  # which is slow to import

        span = lambda R: half - np.sqrt(max(R * R - r * r, 0.0))  # noqa: E731
        held = minimize_scalar(lambda R: volume(R, 2.0 * span(R)), bounds=(r, largest), options={"xatol": 1e-10 * r})
        R = min((r, float(held.x), largest), key=lambda R: volume(R, 2.0 * max(span(R), 0.0)))
    elif r == 0.0:
        R = 0.0
    s = max(half - np.sqrt(max(R * R - r * r, 0.0)), 0.0)
    return Capsule(SAFETY * R, -s * np.eye(3)[axis], s * np.eye(3)[axis])


def volume(radius: float, length: float) -> float:
    """Volume of a capsule, m^3, with a segment of this length, m."""
    return float(np.pi * radius**2 * (length + 4.0 / 3.0 * radius))


def minimal_capsule(vertices: ArrayLike) -> Capsule:
    """A capsule of nearly the least volume that contains all points, and so every triangle between them.

    Parameters
    ----------
    vertices : (V, 3) at least one point, m

    Returns
    -------
    Capsule
        No vertex is outside.  The minimum over axes is local, the best from three starts.

    Raises
    ------
    ValueError
        If `vertices` has another shape, is empty, or not finite.
    """
    points = as_array("vertices", vertices, (None, 3))
    if not len(points):
        raise ValueError("vertices: got none, expected at least one point")
    points = hull(points)
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    size = float(np.ptp(points, axis=0).max())
    if size == 0.0:
        return Capsule(0.0, points[0], points[0])
    unit = (points - middle) / size
    few = outermost(unit)
    axes = np.linalg.svd(unit - unit.mean(axis=0), full_matrices=True)[2]
    found = min((_axis_near(few, axes_along(axis), 0.15) for axis in axes), key=lambda found: found[0])
    for step in AGAIN:
        found = min(found, _axis_near(few, axes_along(found[1]), step, found[2]), key=lambda found: found[0])
    _, direction, offset = found
    _, low, high = _fit(unit, direction, offset)
    start, end = offset + low * direction, offset + high * direction
    radius = SAFETY * float(np.sqrt(_squared_distances(unit, start, end).max()))
    return Capsule(size * radius, middle + size * start, middle + size * end)


def hull(points: np.ndarray) -> np.ndarray:
    """Corners of the convex hull of points (V, 3); all distinct points if they lie in a plane."""
    from scipy.spatial import ConvexHull, QhullError  # which is slow to import

    try:
        return points[ConvexHull(points).vertices]
    except (QhullError, ValueError):
        return np.unique(points, axis=0)


def outermost(points: np.ndarray, count: int = FITTED) -> np.ndarray:
    """The outermost points along `count` directions, spread evenly over the sphere; all points if there are no more."""
    if len(points) <= count:
        return points
    i = np.arange(count) + 0.5
    z, turn = 1.0 - 2.0 * i / count, np.pi * (1.0 + np.sqrt(5.0)) * i
    directions = np.stack([np.sqrt(1.0 - z * z) * np.cos(turn), np.sqrt(1.0 - z * z) * np.sin(turn), z])
    return points[np.unique((points @ directions).argmax(axis=0))]


def _axis_near(
    points: np.ndarray, axes: np.ndarray, step: float, through: np.ndarray | float = 0.0
) -> tuple[float, np.ndarray, np.ndarray]:
    """Volume of the best capsule found from the last of three axes, and its axis: a direction and a point."""
    from scipy.optimize import minimize  # which is slow to import

    def line(tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        direction = axes[2] + tilt[0] * axes[0] + tilt[1] * axes[1]
        return direction / np.linalg.norm(direction), through + tilt[2] * axes[0] + tilt[3] * axes[1]

    simplex = np.vstack([np.zeros(4), step * np.eye(4)])
    found = minimize(
        lambda tilt: _fit(points, *line(tilt))[0], np.zeros(4), method="Nelder-Mead",
        options={"initial_simplex": simplex, "xatol": 1e-5, "fatol": 1e-7, "maxfev": 300},
    )  # fmt: skip
    return float(found.fun), *line(found.x)


def _fit(points: np.ndarray, direction: np.ndarray, offset: np.ndarray) -> tuple[float, float, float]:
    """Least volume of a capsule about an axis, and the start and end of its segment on it."""
    away = points - offset
    z = away @ direction
    rho = np.maximum(np.einsum("ij,ij->i", away, away) - z * z, 0.0)
    least, best = float(np.sqrt(rho.max())), (np.inf, 0.0, 0.0)
    low, high = least, float(np.sqrt((rho + (z - 0.5 * (z.min() + z.max())) ** 2).max()))
    for _ in range(3):
        R = np.linspace(low, high, RADII)
        half = np.sqrt(np.maximum(R[:, None] ** 2 - rho, 0.0))
        first, last = (z + half).min(axis=1), (z - half).max(axis=1)
        volumes = np.pi * R * R * (np.maximum(last - first, 0.0) + 4.0 / 3.0 * R)
        k = int(volumes.argmin())
        if volumes[k] < best[0]:
            start, end = float(first[k]), float(last[k])
            best = (float(volumes[k]), min(start, 0.5 * (start + end)), max(end, 0.5 * (start + end)))
        low, high = R[max(k - 1, 0)], R[min(k + 1, RADII - 1)]
    return best


def _squared_distances(points: np.ndarray, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Squared distances of points (P, 3) from a segment."""
    along = end - start
    share = np.clip((points - start) @ along / max(float(along @ along), 1e-300), 0.0, 1.0)
    return ((points - start - share[:, None] * along) ** 2).sum(axis=1)
