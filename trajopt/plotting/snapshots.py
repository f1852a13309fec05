"""Snapshots of a system in space, from its line segments and surfaces."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.gridspec import SubplotSpec
from matplotlib.lines import Line2D
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

from trajopt.capabilities import Pictures, capability
from trajopt.plotting.motion import Motion, as_segments
from trajopt.plotting.scene import AXES, bodies_at
from trajopt.plotting.stage import SEAM, put_bodies, share_ticks
from trajopt.plotting.style import GREY, TARGET, literal, new_figure, save, tidy
from trajopt.problem.scenery import Shape

SNAPSHOTS = 9
CLEAR, LAST = 0.4, 0.5
"""Opacity of surfaces that bend, and of them at the end, where their tendons are visible inside."""
SHADES = 1.0, 0.8
"""Shades of lines and of surfaces at the end, in the colour map from light to dark."""
TICKS = 4
"""Number of ticks along the longest side of the box in space."""
FLATTEST = 0.3
"""Least side of the box in space, as a fraction of its longest."""
PLANES = {1: (0, 2), 2: (0, 1), 0: (1, 2)}
"""Axes to draw where the motion stays in the plane normal to an axis."""


def drawable(system: Any) -> bool:
    """True if the system describes its segments."""
    return capability(system, Pictures).skeleton is not None


def draw_snapshots(figure: Figure, where: SubplotSpec, motion: Motion, name: str) -> None:
    """Draw the system at a few times, light at the start and dark at the end, its scenery and its path in grey; bodies
    with shapes at the first time, faintly, and at the last, surfaces that bend at all times.

    The path is that of the system's middle, unless a point of it is fixed.  The picture is plane where all of it lies
    in one plane normal to an axis, else in three dimensions.
    """
    system: Any = motion.system
    lines = as_segments("skeleton", system.skeleton(motion.xs), (len(motion.xs),))
    times, xs = _snapshots(motion)
    poses, path = as_segments("skeleton", system.skeleton(xs), (len(xs),)), _path(lines)
    shapes = [(shape.lines(), TARGET if shape.target else GREY) for shape in motion.shapes]
    bodies = bodies_at(system, xs, fine=False)
    drawn = (poses, path, *(s for s, _ in shapes))
    plane = _extent(np.concatenate([x.reshape(-1, 3) for x in drawn]))[2]
    drawn += (bodies.corners() if bodies.bend else bodies.corners()[[0, -1]],) if plane is None or bodies.bend else ()
    low, high, _ = _extent(np.concatenate([x.reshape(-1, 3) for x in drawn]))
    flat = {} if plane is not None else {"projection": "3d", "computed_zorder": False}
    axes = figure.add_subplot(where, **flat)
    low, high = _frame(axes, low, high, np.concatenate([x.reshape(-1, 3) for x in drawn]), plane)
    shades = colormaps["viridis_r"](np.linspace(0.08, SHADES[bodies.bend], len(times)))
    for segments, color in shapes:
        _add_lines(axes, segments, color, 1.2, plane, 20.0 if color == TARGET else 1.0)
    _add_lines(axes, path, GREY, 0.8, plane, 1.0)
    for k, (shade, segments) in enumerate(zip(shades, poses, strict=True)):
        if bodies.bend:
            last = k == len(times) - 1
            faces, colors = bodies.triangles(k, (*shade[:3], LAST if last else CLEAR), last)
            _add_faces(axes, faces, colors, plane, 2.0 + k)
        else:
            _add_lines(axes, segments, shade, 2.2, plane, 2.0)
    for frame, opacity in ((0, 0.15), (-1, 0.4)) if plane is None and not bodies.bend and bodies.solids else ():
        faces, colors = bodies.triangles(frame)
        _add_faces(axes, faces, colors * [1.0, 1.0, 1.0, opacity], None, 2.5)
    handles = [Line2D([], [], color=s, lw=2.2, label=f"{t:.2f} s") for s, t in zip(shades, times, strict=True)]
    below = (0.5, -0.05 if plane is None else -0.1)
    axes.legend(handles=handles, loc="upper center", bbox_to_anchor=below, fontsize=9, frameon=False, ncols=5)
    axes.set_title("snapshots" + (f" ({literal(name)})" if name else ""), fontsize=11)


def plot_poses(
    poses: Mapping[str, np.ndarray], around: Sequence[Shape], title: str, path: str | Path | None = None
) -> Figure:
    """Draw poses of a system among fixed shapes: the first dashed and grey, the last dark.

    The picture is plane where all of it lies in one plane normal to an axis, else in three dimensions.

    Parameters
    ----------
    poses : mapping of labels in the legend to line segments (S, 2, 3), m, world axes
    around : shapes, such as those of a problem's scenery
    title : text above
    path : file to write, optional
    """
    segments = [as_segments(name, each, ()) for name, each in poses.items()]
    shapes = [(shape.lines(), TARGET if shape.target else GREY) for shape in around]
    points = np.concatenate([each.reshape(-1, 3) for each in (*segments, *(lines for lines, _ in shapes))])
    low, high, plane = _extent(points)
    figure = new_figure(7.0, 5.6)
    axes: Any = figure.add_subplot(**({} if plane is not None else {"projection": "3d", "computed_zorder": False}))
    _frame(axes, low, high, points, plane)
    for lines, color in shapes:
        _add_lines(axes, lines, color, 1.0, plane, 1.0)
    handles, shades = [], [GREY, *colormaps["viridis_r"](np.linspace(1.0, 0.5, max(len(segments) - 1, 1))[::-1])]
    for k, (name, each) in enumerate(zip(poses, segments, strict=True)):
        stroke = {"color": shades[k], "linewidth": 2.2, "linestyle": "--" if k == 0 else "-"}
        collection = _add_lines(axes, each, shades[k], 2.2, plane, 2.0 + k)
        collection.set_linestyle(stroke["linestyle"])
        handles.append(Line2D([], [], label=literal(name), **stroke))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=10)
    figure.suptitle(literal(title), fontsize=12)
    return save(figure, path)


def _snapshots(motion: Motion) -> tuple[np.ndarray, np.ndarray]:
    """Times (K,) and states (K, nx) of the snapshots: at knots of a plan, else at equal times."""
    if len(motion.us) < len(motion.xs):
        knots = np.unique(np.linspace(0, len(motion.us), SNAPSHOTS).round().astype(int))
        return motion.times[knots], motion.xs[knots]
    times = np.linspace(motion.times[0], motion.times[-1], SNAPSHOTS)
    return times, motion.states(times)[0]


def _path(motion: np.ndarray) -> np.ndarray:
    """Segments (N, 2, 3) of the path of the middle of all that moves, from knot to knot; none where a point is
    fixed."""
    points = motion.reshape(len(motion), -1, 3)
    if not points.size or not np.ptp(points, axis=0).any(axis=1).all():
        return np.empty((0, 2, 3))
    middle = points.mean(axis=1)
    return np.stack([middle[:-1], middle[1:]], axis=1)


def _extent(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[int, int] | None]:
    """Corners (3,) of a cube around the points (P, 3), and the plane of PLANES that contains them all, None without
    one."""
    points = points[np.isfinite(points).all(axis=1)]
    if not len(points):
        points = np.zeros((1, 3))
    low, high = points.min(axis=0), points.max(axis=0)
    reach = max(0.5 * float((high - low).max()), 1e-6) * 1.08
    middle = 0.5 * (low + high)
    flat = [axis for axis in AXES if high[axis] - low[axis] < 1e-9 * reach]
    return middle - reach, middle + reach, PLANES[flat[0]] if flat else None


def _add_lines(
    axes: Any, lines: np.ndarray, color: Any, width: float, plane: tuple[int, int] | None, zorder: float
) -> Any:
    """Add segments (S, 2, 3); returns their collection."""
    style = {"colors": [color], "linewidths": width, "capstyle": "round", "zorder": zorder}
    if plane is not None:
        return axes.add_collection(LineCollection(list(lines[:, :, plane]), **style))
    collection = Line3DCollection(lines, **style)
    if len(lines):
        axes.add_collection3d(collection)
    return collection


def _add_faces(axes: Any, faces: np.ndarray, colors: np.ndarray, plane: tuple[int, int] | None, zorder: float) -> None:
    """Add triangles (F, 3, 3) that face the viewer; in a plane, those in front last."""
    if plane is None:
        collection = Poly3DCollection([], linewidths=SEAM, zorder=zorder)
        axes.add_collection3d(collection)
        put_bodies(collection, axes, faces, colors, through=False)
        return
    normal = 3 - sum(plane)
    side = -1.0 if normal == 1 else 1.0  # the x-z plane is seen from -y
    order = np.argsort(side * faces[:, :, normal].mean(axis=1))
    (a, b), (c, d) = np.moveaxis(np.diff(faces[order][:, :, plane], axis=1), (1, 2), (0, 1))
    shown = order[a * d - b * c > 0.0]
    style = {"facecolors": colors[shown], "edgecolors": colors[shown], "linewidths": 0.0, "zorder": zorder}
    axes.add_collection(PolyCollection(list(faces[shown][:, :, plane]), **style))


def _frame(
    axes: Any, low: np.ndarray, high: np.ndarray, points: np.ndarray, plane: tuple[int, int] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Set equal scales and labels, in a cube, or in three dimensions in the part of it that the points (P, 3) take
    up."""
    labels = [f"{axis} [m]" for axis in "xyz"]
    if plane is None:
        points = points[np.isfinite(points).all(axis=1)]
        half = 0.54 * np.maximum(np.ptp(points, axis=0), FLATTEST * (high - low).max())
        middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
        low, high = middle - half, middle + half
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
        axes.set_box_aspect(half, zoom=0.65 * (np.linalg.norm(half) / half.max()) ** 0.5)
        axes.set(xlabel=labels[0], ylabel=labels[1], zlabel=labels[2])
        axes.tick_params(labelsize=8)
        share_ticks(axes, half, TICKS)
        return low, high
    i, j = plane
    axes.set(xlim=(low[i], high[i]), ylim=(low[j], high[j]))
    axes.set_aspect("equal")
    tidy(axes, labels[i], labels[j])
    return low, high
