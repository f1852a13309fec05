"""Snapshots of a system in space, from the line segments that it says it consists of."""

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.lines import Line2D
from mpl_toolkits.mplot3d.art3d import Line3DCollection

from trajopt.capabilities import Skeleton, capability
from trajopt.plotting.scene import AXES, as_segments, bodies_at, shapes_of
from trajopt.plotting.stage import add_bodies
from trajopt.plotting.style import GREY, TARGET, tidy
from trajopt.results.solution import Solution

SNAPSHOTS = 9
PLANES = {1: (0, 2), 2: (0, 1), 0: (1, 2)}
"""The axes to draw where the motion stays in the plane normal to an axis."""


def drawable(system: Any) -> bool:
    """True if the system says which segments it consists of."""
    return capability(system, Skeleton) is not None


def draw_snapshots(figure: Figure, where: SubplotSpec, solution: Solution, name: str) -> None:
    """Draw the system at a few knots, light at the start and dark at the end, its scenery and its path in grey; bodies
    that have shapes at the first, faintly, and at the last.

    The path is that of its middle, where nothing holds a point of it in place.  In the plane where all that is drawn
    lies in one that is normal to an axis, else in three dimensions.
    """
    system: Any = solution.problem.system
    motion = as_segments("skeleton", system.skeleton(solution.xs), (len(solution.xs),))
    knots = np.unique(np.linspace(0, solution.problem.horizon, SNAPSHOTS).round().astype(int))
    poses, path = motion[knots], _path(motion)
    shapes = [(shape.lines(), TARGET if shape.target else GREY) for shape in shapes_of(solution.problem)]
    bodies = bodies_at(system, solution.xs[knots[[0, -1]]], fine=False)
    drawn = (poses, path, *(s for s, _ in shapes))
    plane = _extent(np.concatenate([x.reshape(-1, 3) for x in drawn]))[2]
    if plane is None:
        drawn += (bodies.corners(),)
    low, high, _ = _extent(np.concatenate([x.reshape(-1, 3) for x in drawn]))
    axes = figure.add_subplot(where, projection="3d" if plane is None else None)
    shades = colormaps["viridis_r"](np.linspace(0.08, 1.0, len(knots)))
    for lines, color in shapes:
        _add_lines(axes, lines, color, 1.2, plane)
    _add_lines(axes, path, GREY, 0.8, plane)
    for shade, lines in zip(shades, poses, strict=True):
        _add_lines(axes, lines, shade, 2.2, plane)
    for frame, opacity in ((0, 0.15), (1, 0.4)) if plane is None and bodies.solids else ():
        add_bodies(axes, bodies, frame, 3).set(alpha=opacity, linewidth=0)
    _frame(axes, low, high, plane)
    times = solution.times[knots]
    handles = [Line2D([], [], color=s, lw=2.2, label=f"{t:.2f} s") for s, t in zip(shades, times, strict=True)]
    below = (0.5, 0.02 if plane is None else -0.1)
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=below, fontsize=9, frameon=False, ncols=5)
    axes.set_title("snapshots" + (f" ({name})" if name else ""), fontsize=11)


def _path(motion: np.ndarray) -> np.ndarray:
    """Segments (N, 2, 3) from knot to knot of the middle of all that moves; none where a point stays in place."""
    points = motion.reshape(len(motion), -1, 3)
    if not points.size or not np.ptp(points, axis=0).any(axis=1).all():
        return np.empty((0, 2, 3))
    middle = points.mean(axis=1)
    return np.stack([middle[:-1], middle[1:]], axis=1)


def _extent(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, int] | None]:
    """Corners (3,) of a cube around the points (P, 3), and the plane of PLANES that holds them all."""
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        points = np.zeros((1, 3))
    low, high = points.min(axis=0), points.max(axis=0)
    reach = max(0.5 * float((high - low).max()), 1e-6) * 1.08
    middle = 0.5 * (low + high)
    flat = [axis for axis in AXES if high[axis] - low[axis] < 1e-9 * reach]
    return middle - reach, middle + reach, PLANES[flat[0]] if flat else None


def _add_lines(axes: Any, lines: np.ndarray, color: Any, width: float, plane: tuple[int, int] | None) -> None:
    style = {"colors": [color], "linewidths": width, "capstyle": "round"}
    if plane is not None:
        axes.add_collection(LineCollection(list(lines[:, :, plane]), **style))
    elif len(lines):
        axes.add_collection3d(Line3DCollection(lines, **style))


def _frame(axes: Any, low: np.ndarray, high: np.ndarray, plane: tuple[int, int] | None) -> None:
    """Equal scales and labels."""
    labels = [f"{axis} [m]" for axis in "xyz"]
    if plane is None:
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
        axes.set_box_aspect((1, 1, 1), zoom=0.86)
        axes.set_xlabel(labels[0], labelpad=8)
        axes.set_ylabel(labels[1], labelpad=10)
        axes.set_zlabel(labels[2], labelpad=6)
        return
    i, j = plane
    axes.set(xlim=(low[i], high[i]), ylim=(low[j], high[j]))
    axes.set_aspect("equal")
    tidy(axes, labels[i], labels[j])
