"""Scene of a solution in space at any time, from the picture that its system and its problem describe.

Between knots states move along the geodesic, and contact forces are those of the knot before.  An impact that takes no
time is not drawn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trajopt.capabilities import Contacts, Pictures, capability
from trajopt.plotting.motion import as_motion, as_segments, shaped
from trajopt.problem.scenery import Shape

# --------------------------------------------------------------------------------------------
# Surfaces of a system in pictures, and their places; a surface that bends has vertices on several bodies.


SOLID = (0.62, 0.66, 0.72, 1.0)
"""Colour of surfaces without one of their own."""
LIGHT = np.array([0.35, -0.45, 0.82])
"""Direction towards the light."""
LARGEST_FACE = 0.3
"""Longest edge of triangles in pictures that are sorted by depth, as a fraction of the largest body."""


class Surface(NamedTuple):
    """One surface from `trajopt.capabilities.Pictures`."""

    body: Any  # index, or (V,) indices
    vertices: np.ndarray  # (V, 3)
    faces: np.ndarray  # (F, 3)
    color: tuple[float, float, float, float]
    label: str

    @classmethod
    def of(cls, solid: Any) -> Surface:
        """The surface of a solid."""
        color = SOLID if solid.color is None else tuple(solid.color)
        return cls(solid.body, solid.vertices, solid.faces, color, getattr(solid, "label", ""))

    @property
    def bends(self) -> bool:
        """True if its vertices are on several bodies."""
        return np.ndim(self.body) > 0


class Bodies(NamedTuple):
    """Surfaces on bodies that move; none for a system without shapes."""

    solids: tuple[Surface, ...]
    turns: np.ndarray  # (K, B + 1, 3, 3), the identity last, for fixed surfaces
    origins: np.ndarray  # (K, B + 1, 3)

    @property
    def bend(self) -> bool:
        """True if some surfaces bend."""
        return any(solid.bends for solid in self.solids)

    @property
    def bare(self) -> bool:
        """True if most bodies have no surface, so that lines from joint to joint are needed to see the system."""
        covered = {int(body) for solid in self.solids for body in np.unique(solid.body)} - {-1}
        return (not self.bend and 2 * len(covered) < self.turns.shape[1] - 1) or not self.solids

    def corners(self) -> np.ndarray:
        """Corners (K, P, 3) of boxes about all surfaces of each body."""
        K, parts = len(self.turns), []
        vertices = np.concatenate([np.empty((0, 3)), *(solid.vertices for solid in self.solids)])
        bodies = np.concatenate([np.empty(0, int), *(np.broadcast_to(x.body, len(x.vertices)) for x in self.solids)])
        order = np.argsort(bodies, kind="stable")
        numbers, counts = np.unique(bodies[order], return_counts=True)
        for body, stop, count in zip(numbers, np.cumsum(counts), counts, strict=True):
            points = vertices[order[stop - count : stop]]
            ends = np.stack([points.min(axis=0), points.max(axis=0)])
            box = np.stack(np.meshgrid(*ends.T), axis=-1).reshape(-1, 3)
            parts.append(box @ self.turns[:, body].swapaxes(1, 2) + self.origins[:, body, None])
        return np.concatenate([np.empty((K, 0, 3)), *parts], axis=1)

    def vertices(self, solid: Surface, frame: int) -> np.ndarray:
        """Vertices (V, 3) of a surface in the world at one time."""
        R, p = self.turns[frame, solid.body], self.origins[frame, solid.body]
        return (R @ solid.vertices[:, :, None])[:, :, 0] + p if solid.bends else solid.vertices @ R.T + p

    def triangles(self, frame: int, color: Any = None, end: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Corners (F, 3, 3) of all faces in the world at one time, and their colours (F, 4), darker away from the
        light.  A given colour replaces all but that of labelled surfaces, which are left out unless `end`."""
        corners, colors = [np.empty((0, 3, 3))], [np.empty((0, 4))]
        for solid in self.solids:
            if solid.label and not end:
                continue
            corners.append(self.vertices(solid, frame)[solid.faces])
            colors.append(np.tile(solid.color if color is None or solid.label else color, (len(solid.faces), 1)))
        faces, rgba = np.concatenate(corners), np.concatenate(colors)
        normals = np.cross(faces[:, 1] - faces[:, 0], faces[:, 2] - faces[:, 0])
        towards = normals @ LIGHT / np.maximum(np.linalg.norm(normals, axis=1), 1e-300)
        rgba[:, :3] *= (0.66 + 0.34 * towards)[:, None]
        return faces, rgba


def bodies_at(system: Any, xs: np.ndarray, fine: bool) -> Bodies:
    """Surfaces of a system, and the places of its bodies at states xs (K, nx)."""
    K = len(xs)
    seen = tuple(Surface.of(solid) for solid in capability(system, Pictures).solids(fine))
    if not seen:
        return Bodies((), np.empty((K, 0, 3, 3)), np.empty((K, 0, 3)))
    R, p = system.body_placements(xs)
    if not fine:
        seen = tuple(_from_both_sides(solid) for solid in seen)
        extent = max((float(np.ptp(x.vertices, axis=0).max()) for x in seen if not x.bends), default=0.0)
        seen = tuple(with_small_faces(solid, LARGEST_FACE * extent) for solid in seen)
    still = np.broadcast_to(np.eye(3), (K, 1, 3, 3)), np.zeros((K, 1, 3))
    return Bodies(seen, np.concatenate([R, still[0]], axis=1), np.concatenate([p, still[1]], axis=1))


def _from_both_sides(solid: Surface) -> Surface:
    """The surface, with the back of its faces added if it encloses no volume; one that bends is unchanged."""
    corners = solid.vertices[solid.faces] - solid.vertices.mean(axis=0)
    extent = np.ptp(solid.vertices, axis=0).max()
    if solid.bends or np.linalg.det(corners).sum() > 1e-9 * extent**3:
        return solid
    return solid._replace(faces=np.concatenate([solid.faces, solid.faces[:, ::-1]]))


def with_small_faces(solid: Surface, longest: float) -> Surface:
    """The surface with triangles divided in four until no edge is longer than `longest`, so that sorting by their
    middles shows which is in front; one that bends is unchanged."""
    while not solid.bends:
        corners = solid.vertices[solid.faces]
        large = np.linalg.norm(corners - np.roll(corners, -1, axis=1), axis=-1).max(axis=1) > longest
        if not large.any():
            break
        middles = 0.5 * (corners[large] + np.roll(corners[large], -1, axis=1))  # of edges 01, 12, 20
        n, count = len(solid.vertices), 3 * int(large.sum())
        (a, b, c), (p, q, r) = solid.faces[large].T, (n + np.arange(count)).reshape(-1, 3).T
        quarters = np.concatenate([np.stack(part, axis=1) for part in ((a, p, r), (p, b, q), (r, q, c), (p, q, r))])
        faces = np.concatenate([solid.faces[~large], quarters])
        solid = solid._replace(vertices=np.concatenate([solid.vertices, middles.reshape(-1, 3)]), faces=faces)
    return solid


# --------------------------------------------------------------------------------------------
# The scene.


LEVEL = 0.02
"""Difference of heights, as a fraction of the robot's size, up to which they are those of one plane."""
AXES = (1, 2, 0)
"""Axes in the order in which a motion is tested to stay in the plane normal to one."""
ARROW = 0.3
"""Least length of the arrow of the largest contact force, as a fraction of the robot's size, up to rounding of the
scale."""


class Scene(NamedTuple):
    """Positions in metres, world axes, at K times."""

    times: np.ndarray  # (K,) s
    segments: np.ndarray  # (K, S, 2, 3) of the skeleton
    shapes: tuple[Shape, ...]  # fixed ones
    points: np.ndarray  # (K, F, 3) those that are ever in contact
    forces: np.ndarray  # (K, F, 3) N
    center: np.ndarray  # (K, 3), or (K, 0) if the system has no centre of mass
    solids: Bodies

    @property
    def held(self) -> np.ndarray:
        """True for points (K, F) that carry force."""
        return np.linalg.norm(self.forces, axis=-1) > 0.0

    @property
    def size(self) -> float:
        """Largest extent of the skeleton and its contact points at one time."""
        K = len(self.times)
        parts = np.concatenate([self.segments.reshape(K, -1, 3), self.points], axis=1)
        return max(float(np.ptp(parts, axis=1).max()), 1e-6) if parts.size else 1.0

    @property
    def scenery(self) -> np.ndarray:
        """Lines (L, 2, 3) of all fixed shapes."""
        return np.concatenate([np.empty((0, 2, 3)), *(shape.lines() for shape in self.shapes)])

    def tips(self) -> np.ndarray:
        """Free ends (K, T, 3) of the skeleton that move: tools, hands, feet."""
        ends = self.segments.reshape(len(self.times), -1, 3)
        near = np.linalg.norm(ends[0, :, None] - ends[0], axis=-1) < 1e-6 * self.size
        joints = near.argmax(axis=1).reshape(-1, 2) if near.size else np.empty((0, 2), int)  # the first at each place
        links = np.unique(np.sort(joints[joints[:, 0] != joints[:, 1]], axis=1), axis=0)
        loose = np.flatnonzero(np.bincount(links.ravel()) == 1)
        return ends[:, loose[(np.ptp(ends[:, loose], axis=0) > 1e-9 * self.size).any(axis=1)]]

    def moving(self) -> np.ndarray:
        """All points (K, P, 3) that move: corners of boxes about bodies, the skeleton where most have no shapes, points
        in contact, the tips of the arrows, the centre of mass."""
        K = len(self.times)
        lines = self.segments if self.solids.bare else self.segments[:, :0]
        robot = self.solids.corners() if self.solids.solids else np.empty((K, 0, 3))
        parts = [robot, lines.reshape(K, -1, 3), self.points, self.points + self.arrows()]
        if self.center.size:
            parts.append(self.center[:, None])
        moving = np.concatenate(parts, axis=1)
        return moving if moving.shape[1] else np.zeros((K, 1, 3))

    def drawn(self) -> np.ndarray:
        """All points (P, 3), moving and fixed; those that are not finite are not drawn."""
        points = np.concatenate([self.moving().reshape(-1, 3), self.scenery.reshape(-1, 3)])
        return points[np.isfinite(points).all(axis=1)]

    @property
    def flat(self) -> int | None:
        """The axis along which nothing extends, if there is one and no contact is ever held."""
        points = np.concatenate([part.reshape(-1, 3) for part in (self.segments, self.points, self.scenery)])
        if not len(points) or self.held.any():
            return None
        spans = np.ptp(points, axis=0)
        return next((axis for axis in AXES if spans[axis] < 1e-9 * spans.max()), None)

    @property
    def ground(self) -> float | None:
        """Height of the horizontal plane that the system stands on, None if there is none.

        It is the height of the points in contact while they are held, if they have one height; for a system without
        contacts the height of its lowest fixed point, if nothing else is lower, or the height at which all of it moves.
        """
        heights, near = self.points[self.held][:, 2], LEVEL * self.size
        if len(heights):
            return None if np.ptp(heights) > near else float(heights.min())
        parts = self.segments.reshape(len(self.times), -1, 3)
        if not parts.size:
            return None
        fixed = parts[0, (np.ptp(parts, axis=0) < 1e-9 * self.size).all(axis=1), 2]
        lowest = parts[..., 2].min()
        if np.ptp(parts[..., 2]) < 1e-9 * self.size or (len(fixed) and lowest > fixed.min() - near):
            return float(lowest)
        return None

    @property
    def newtons_per_metre(self) -> float:
        """Scale of the force arrows: 1, 2 or 5 times a power of ten."""
        largest = np.linalg.norm(self.forces, axis=-1).max(initial=0.0)
        return rounded_up(max(largest, 1e-12) / (ARROW * self.size))

    def arrows(self) -> np.ndarray:
        """Vectors (K, F, 3), m, of the force arrows."""
        return self.forces / self.newtons_per_metre


def rounded_up(least: float) -> float:
    """The smallest of 1, 2 or 5 times a power of ten that is not smaller than `least`."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(power * next(digit for digit in (1.0, 2.0, 5.0, 10.0) if digit * power >= (1.0 - 1e-9) * least))


def frame_times(solution: Any, frames_per_second: float) -> np.ndarray:
    """Times of pictures at this rate from the first knot to the last, which always has one."""
    end = float(solution.times[-1])
    times = np.arange(int(np.floor(end * frames_per_second * (1.0 + 1e-12))) + 1) / frames_per_second
    return times if end - times[-1] < 1e-9 * end else np.append(times, end)


def scene_of(solution: Any, times: np.ndarray, fine: bool = False) -> Scene:
    """The scene of a solution or another motion at times (K,) from 0 to the last knot, with all triangles of bodies if
    `fine`.

    Errors as `as_motion`, and ValueError for a wrong shape.
    """
    motion = as_motion(solution)
    system, K = motion.drawable, len(times)
    xs, k = motion.states(times)
    points, forces, center = np.empty((K, 0, 3)), np.empty((K, 0, 3)), np.empty((K, 0))
    known, center_of_mass = capability(system, Contacts), capability(system, Pictures).center_of_mass
    if known.contact_points is not None:
        points = shaped("contact_points", known.contact_points(xs), (K, None, 3))
        forces = np.zeros_like(points)
        if known.contact_forces is not None:
            at_knots = known.contact_forces(motion.xs, motion.us)
            forces = shaped("contact_forces", at_knots, (len(motion.us), points.shape[1], 3))[k]
    if center_of_mass is not None:
        center = shaped("center_of_mass", center_of_mass(xs), (K, 3))
    segments = as_segments("skeleton", system.skeleton(xs), (K,))
    return Scene(times, segments, motion.shapes, points, forces, center, bodies_at(system, xs, fine))


# --------------------------------------------------------------------------------------------
# Placement of a camera: a direction, and the position from which given points fill the picture.


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
