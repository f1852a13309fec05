"""Scene of a solution in space at any time, from the picture that its system and its problem describe.

Between knots states move along the geodesic, and contact forces are those of the knot before.  An impact that takes no
time is not drawn.
"""

from typing import Any, NamedTuple

import numpy as np

from dynamics.validation import as_array
from trajopt.capabilities import Contacts, Pictures, capability
from trajopt.plotting.bodies import Bodies, bodies_at
from trajopt.plotting.motion import as_motion
from trajopt.plotting.surroundings import as_segments
from trajopt.problem.scenery import Shape

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
        points = as_array("contact_points", known.contact_points(xs), (K, None, 3), finite=False)
        forces = np.zeros_like(points)
        if known.contact_forces is not None:
            at_knots = known.contact_forces(motion.xs, motion.us)
            forces = as_array("contact_forces", at_knots, (len(motion.us), points.shape[1], 3), finite=False)[k]
    if center_of_mass is not None:
        center = as_array("center_of_mass", center_of_mass(xs), (K, 3), finite=False)
    segments = as_segments("skeleton", system.skeleton(xs), (K,))
    return Scene(times, segments, motion.shapes, points, forces, center, bodies_at(system, xs, fine))
