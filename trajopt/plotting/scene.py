"""What a solution looks like in space at any time, from what its system and its problem say of their picture.

Between knots states move along the geodesic from one to the next, and contact forces stay what they are at the knot
before.  An impact that takes no time has no picture of its own.
"""

from typing import Any, NamedTuple

import numpy as np

from trajopt.capabilities import CenterOfMass, ContactForces, ContactPoints, Scenery, Skeleton, Solids, capability
from trajopt.problem.problem import Problem
from trajopt.problem.scenery import Lines, Shape
from trajopt.results.solution import Solution

LEVEL = 0.02
"""Heights that differ by no more than this share of the robot's size are those of one plane."""
AXES = (1, 2, 0)
"""In the order in which a motion is asked whether it stays in the plane normal to one."""
SOLID = (0.62, 0.66, 0.72, 1.0)
"""Of surfaces without a colour of their own."""
LIGHT = np.array([0.35, -0.45, 0.82])
"""Where it comes from."""
ARROW = 0.3
"""Length that the largest contact force is not drawn shorter than by much, as a share of the robot's size."""


class Bodies(NamedTuple):
    """Surfaces on bodies that move; none of a system without shapes."""

    solids: tuple[Any, ...]  # as `trajopt.capabilities.Solids` has them
    turns: np.ndarray  # (K, B + 1, 3, 3), the identity last, for what never moves
    origins: np.ndarray  # (K, B + 1, 3)

    def corners(self) -> np.ndarray:
        """Points (K, P, 3) of boxes about all that there is on each body."""
        K, parts = len(self.turns), []
        for body in sorted({solid.body for solid in self.solids}):
            points = np.concatenate([solid.vertices for solid in self.solids if solid.body == body])
            ends = np.stack([points.min(axis=0), points.max(axis=0)])
            box = np.stack(np.meshgrid(*ends.T), axis=-1).reshape(-1, 3)
            parts.append(box @ self.turns[:, body].swapaxes(1, 2) + self.origins[:, body, None])
        return np.concatenate([np.empty((K, 0, 3)), *parts], axis=1)

    def triangles(self, frame: int) -> tuple[np.ndarray, np.ndarray]:
        """Corners (F, 3, 3) of all faces in the world at one time, and their colours (F, 4), darker away from light."""
        corners, colors = [np.empty((0, 3, 3))], [np.empty((0, 4))]
        for solid in self.solids:
            R, p = self.turns[frame, solid.body], self.origins[frame, solid.body]
            corners.append((solid.vertices @ R.T + p)[solid.faces])
            colors.append(np.tile(SOLID if solid.color is None else solid.color, (len(solid.faces), 1)))
        faces, rgba = np.concatenate(corners), np.concatenate(colors)
        normals = np.cross(faces[:, 1] - faces[:, 0], faces[:, 2] - faces[:, 0])
        towards = normals @ LIGHT / np.maximum(np.linalg.norm(normals, axis=1), 1e-300)
        rgba[:, :3] *= (0.66 + 0.34 * towards)[:, None]
        return faces, rgba


class Scene(NamedTuple):
    """Positions in metres, world axes, at K times."""

    times: np.ndarray  # (K,) s
    segments: np.ndarray  # (K, S, 2, 3) of the skeleton
    shapes: tuple[Shape, ...]  # that never move
    points: np.ndarray  # (K, F, 3) that are ever in contact
    forces: np.ndarray  # (K, F, 3) N
    center: np.ndarray  # (K, 3), or (K, 0) if the system does not say where its centre of mass is
    solids: Bodies

    @property
    def held(self) -> np.ndarray:
        """Which points (K, F) carry force."""
        return np.linalg.norm(self.forces, axis=-1) > 0.0

    @property
    def size(self) -> float:
        """Largest extent of the skeleton and its contact points at one time."""
        K = len(self.times)
        parts = np.concatenate([self.segments.reshape(K, -1, 3), self.points], axis=1)
        return max(float(np.ptp(parts, axis=1).max()), 1e-6) if parts.size else 1.0

    @property
    def scenery(self) -> np.ndarray:
        """Lines (L, 2, 3) of all that never moves."""
        return np.concatenate([np.empty((0, 2, 3)), *(shape.lines() for shape in self.shapes)])

    def moving(self) -> np.ndarray:
        """All points (K, P, 3) that move: corners of boxes about bodies, or the skeleton where these have no shapes,
        points in contact, the tips of the arrows, the centre of mass."""
        K = len(self.times)
        robot = self.solids.corners() if self.solids.solids else self.segments.reshape(K, -1, 3)
        parts = [robot, self.points, self.points + self.arrows()]
        if self.center.size:
            parts.append(self.center[:, None])
        moving = np.concatenate(parts, axis=1)
        return moving if moving.shape[1] else np.zeros((K, 1, 3))

    def drawn(self) -> np.ndarray:
        """All points (P, 3) of what moves and of what does not; those that are not finite are not drawn."""
        points = np.concatenate([self.moving().reshape(-1, 3), self.scenery.reshape(-1, 3)])
        return points[np.isfinite(points).all(axis=1)]

    @property
    def flat(self) -> int | None:
        """The axis along which nothing extends, if there is one and nothing is ever held."""
        points = np.concatenate([part.reshape(-1, 3) for part in (self.segments, self.points, self.scenery)])
        if not len(points) or self.held.any():
            return None
        spans = np.ptp(points, axis=0)
        return next((axis for axis in AXES if spans[axis] < 1e-9 * spans.max()), None)

    @property
    def ground(self) -> float | None:
        """Height of the horizontal plane that the system stands on, None if there is none.

        That of the points in contact while they are held, if they have one height; of a system without contacts, that
        of the lowest point that stays in its place, if nothing else goes lower, or at which all of it moves.
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
        """Vectors (K, F, 3), m, that stand for the forces."""
        return self.forces / self.newtons_per_metre


def rounded_up(least: float) -> float:
    """The first of 1, 2 or 5 times a power of ten that is not smaller."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(power * next(digit for digit in (1.0, 2.0, 5.0, 10.0) if digit * power >= (1.0 - 1e-9) * least))


def as_drawable(solution: Solution) -> Any:
    """The system of a solution that can be drawn.

    Raises
    ------
    TypeError : what came is no solution, or its system has no `skeleton`.
    ValueError : the solution has no problem, or states or controls that are not finite.
    """
    if not isinstance(solution, Solution):
        raise TypeError(f"solution: got {type(solution).__name__}, expected a Solution")
    if solution.problem is None:
        raise ValueError("solution: got one without its problem, expected that of Solution.load(path, problem)")
    system: Any = solution.problem.system
    if capability(system, Skeleton) is None:
        raise TypeError(f"solution: its system is a {type(system).__name__} without skeleton(xs), expected one with it")
    for name, values in (("xs", solution.xs), ("us", solution.us)):
        bad = ~np.isfinite(values).all(axis=1)
        if bad.any():
            raise ValueError(f"solution: {name}[{int(bad.argmax())}] is not finite, expected finite numbers")
    return system


def frame_times(solution: Solution, frames_per_second: float) -> np.ndarray:
    """Times of pictures at this rate from the first knot to the last, which has its own whatever the rate."""
    end = float(solution.times[-1])
    times = np.arange(int(np.floor(end * frames_per_second * (1.0 + 1e-12))) + 1) / frames_per_second
    return times if end - times[-1] < 1e-9 * end else np.append(times, end)


def scene_of(solution: Solution, times: np.ndarray, fine: bool = False) -> Scene:
    """The scene at times (K,) from 0 to the last knot, bodies with all their triangles if `fine`.

    Errors as `as_drawable`, and ValueError for a wrong shape.
    """
    system, K = as_drawable(solution), len(times)
    xs, k = _states(solution, times)
    points, forces, center = np.empty((K, 0, 3)), np.empty((K, 0, 3)), np.empty((K, 0))
    if capability(system, ContactPoints) is not None:
        points = _shaped("contact_points", system.contact_points(xs), (K, None, 3))
        forces = np.zeros_like(points)
        if capability(system, ContactForces) is not None:
            at_knots = system.contact_forces(solution.xs, solution.us)
            forces = _shaped("contact_forces", at_knots, (len(solution.us), points.shape[1], 3))[k]
    if capability(system, CenterOfMass) is not None:
        center = _shaped("center_of_mass", system.center_of_mass(xs), (K, 3))
    segments = as_segments("skeleton", system.skeleton(xs), (K,))
    return Scene(times, segments, shapes_of(solution.problem), points, forces, center, bodies_at(system, xs, fine))


def bodies_at(system: Any, xs: np.ndarray, fine: bool) -> Bodies:
    """Surfaces of a system, and where its bodies are at states xs (K, nx)."""
    K = len(xs)
    seen = () if capability(system, Solids) is None else tuple(system.solids(fine))
    if not seen:
        return Bodies((), np.empty((K, 0, 3, 3)), np.empty((K, 0, 3)))
    R, p = system.body_placements(xs)
    still = np.broadcast_to(np.eye(3), (K, 1, 3, 3)), np.zeros((K, 1, 3))
    return Bodies(seen, np.concatenate([R, still[0]], axis=1), np.concatenate([p, still[1]], axis=1))


def shapes_of(problem: Problem) -> tuple[Shape, ...]:
    """What never moves: the lines that the system brings along, and the scenery of the problem."""
    own = capability(problem.system, Scenery)
    brought = () if own is None else (Lines(as_segments("scenery", own.scenery, ())),)
    for shape in problem.scenery:
        as_segments(f"lines of {type(shape).__name__}", shape.lines(), ())
    return (*brought, *problem.scenery)


def _states(solution: Solution, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States (K, nx) at the times, and the knots (K,) that they follow."""
    knots = solution.times
    lasting = np.flatnonzero(np.diff(knots) > 0.0)
    k = np.minimum(np.searchsorted(knots, times, side="right") - 1, lasting[-1])
    share = ((times - knots[k]) / (knots[k + 1] - knots[k]))[:, None]
    system, x = solution.problem.system, solution.xs[k]
    return system.integrate(x, share * system.difference(x, solution.xs[k + 1])), k


def as_segments(what: str, value: Any, leading: tuple[int, ...]) -> np.ndarray:
    """Segments (*leading, S, 2, 3) that a system gave."""
    return _shaped(what, value, (*leading, None, 2, 3), unknown="segments")


def _shaped(what: str, value: Any, shape: tuple[int | None, ...], unknown: str = "points") -> np.ndarray:
    """The value as an array of this shape, one of whose numbers is unknown."""
    array = np.asarray(value, dtype=float)
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        wanted = ", ".join(unknown if n is None else str(n) for n in shape)
        raise ValueError(f"{what}: got shape {array.shape}, wanted ({wanted})")
    return array
