"""Placement of a camera: a direction, and the position from which given points fill the picture."""

from typing import NamedTuple

import numpy as np

VIEW = (18.0, -60.0)
"""Elevation and azimuth, degrees, of a view from above and aside."""
ALONG = {1: (0.0, -90.0), 2: (90.0, -90.0), 0: (0.0, 0.0)}
"""Views along an axis, onto the plane of the other two."""
FIELD = 40.0
"""Vertical field of view in perspective, degrees."""
FILL = 0.86
"""Fraction of the picture's height and width that is used."""
NEAREST = 1e-3
"""Least distance, m, also used as the extent of a single point."""


class Camera(NamedTuple):
    """A camera in perspective, in world axes; `up` is that of the world."""

    position: np.ndarray  # (3,) m
    look_at: np.ndarray  # (3,) m, a point on the line of sight
    field_of_view: float  # rad, of the height

    def project(self, points: np.ndarray, aspect: float) -> np.ndarray:
        """Coordinates of points (..., 3) in a picture of width / height = aspect: right and up, -1 and 1 at the
        edges."""
        back = self.position - self.look_at
        right, up, back = _frame(back / np.linalg.norm(back))
        from_here = points - self.position
        half = np.tan(0.5 * self.field_of_view) * -(from_here @ back)
        return np.stack([from_here @ right / (half * aspect), from_here @ up / half], axis=-1)


def direction(flat: int | None) -> tuple[float, float]:
    """Elevation and azimuth of the view of a scene: along the axis in which it is flat, or from above and aside."""
    return VIEW if flat is None else ALONG[flat]


def fitted(points: np.ndarray, view: tuple[float, float], aspect: float) -> Camera:
    """The nearest camera whose picture contains all points (P, 3), with a margin.

    In axes right, up and back a point (a, b, e) is inside where |a - x| <= h (z - e) and |b - y| <= v (z - e), with the
    camera at (x, y, z): four planes, each determined by one point.  So x + h z >= max(a + h e) and
    -x + h z >= max(-a + h e), the same upwards, which gives the least z and the x and y in the middle.

    Parameters
    ----------
    view : (elevation, azimuth) of the camera as seen from the points, degrees
    aspect : width / height
    """
    elevation, azimuth = np.radians(view)
    flat = np.cos(elevation)
    axes = _frame(np.array([flat * np.cos(azimuth), flat * np.sin(azimuth), np.sin(elevation)]))
    seen = points.reshape(-1, 3) @ axes.T
    half = FILL * np.tan(0.5 * np.radians(FIELD))
    slopes = np.array([half * aspect, half])
    beyond = (seen[:, :2] + slopes * seen[:, 2:]).max(axis=0)
    before = (-seen[:, :2] + slopes * seen[:, 2:]).max(axis=0)
    nearest = max(float(((beyond + before) / (2.0 * slopes)).max()), seen[:, 2].max() + NEAREST)
    place = np.r_[0.5 * (beyond - before), nearest]
    middle = np.r_[place[:2], 0.5 * (seen[:, 2].min() + seen[:, 2].max())]
    return Camera(place @ axes, middle @ axes, float(np.radians(FIELD)))


def _frame(back: np.ndarray) -> np.ndarray:
    """Axes right, up and back (3, 3), as rows, of a camera in the direction `back` from its target; north is up in a
    map."""
    right = np.array([-back[1], back[0], 0.0])
    length = np.linalg.norm(right)
    right = right / length if length > 1e-9 else np.array([1.0, 0.0, 0.0])
    return np.stack([right, np.cross(back, right), back])
