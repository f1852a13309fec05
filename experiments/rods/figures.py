"""Snapshots of soft robots in motion: rods as thick as they are, in one picture, the paths of their tips in grey."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d.art3d import Line3DCollection

from dynamics.rods.kinematics.center_lines import CenterLine, center_lines, skeleton
from dynamics.rods.stepping.simulation import Simulation
from experiments.harness.pictures import line, title
from problems.rods.example import RodExample
from trajopt.plotting.style import GREY, new_figure

SNAPSHOTS, POINTS, PATH = 6, 30, 400
THINNEST, EDGE = 1.5, 1.5
"""Of lines, points: bodies, and rods that would be thinner; and the white edge that tells one snapshot from another."""
VIEW, TICKS, ZOOM = (20.0, -60.0), 5, 0.85
CORNER = 0.08
"""Share of an axis at each end without ticks, whose labels would touch those of the next axis."""


def plot_snapshots(example: RodExample, run: Simulation, scenery: Sequence[np.ndarray]) -> Figure:
    """Draw the robot at equal times, light at the start and dark at the end, among curves (P, 3)."""
    model = example.robot.model
    times = np.linspace(0.0, run.t[-1], SNAPSHOTS)
    shapes = _at(run, times)
    lines, segments = center_lines(model, shapes, POINTS), skeleton(model, shapes, POINTS)
    along = center_lines(model, _at(run, np.linspace(0.0, run.t[-1], PATH)), 2)
    figure = new_figure(7.2, 6.0)
    axes: Any = figure.add_subplot(projection="3d", proj_type="ortho", computed_zorder=False)
    axes.view_init(*VIEW)
    _frame(axes, np.concatenate([segments.reshape(-1, 3), *scenery]))
    figure.draw_without_rendering()
    scale = _points_per_metre(axes)
    for curve in scenery:
        axes.plot(*curve.T, color=GREY, linewidth=0.6, linestyle=":")
    for name in model.rods:
        axes.plot(*along[name].points[:, -1].T, color=GREY, linewidth=0.8)
    shades = colormaps["viridis_r"](np.linspace(0.08, 1.0, SNAPSHOTS))
    for k, shade in enumerate(shades):
        axes.add_collection3d(Line3DCollection(segments[k], colors=[shade], linewidths=THINNEST, zorder=2 + k))
        for color, edge in (("white", EDGE), (shade, 0.0)):
            for name in model.rods:
                _add_rod(axes, lines[name], k, color, scale, edge)
    handles = [line(f"{t:.1f} s", color=shade, lw=3.0) for shade, t in zip(shades, times, strict=True)]
    handles.append(line("paths of tips", color=GREY, lw=0.8))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9, frameon=False)
    title(axes, f"{example.title}, {len(run.q[0])} coordinates")
    return figure


def _at(run: Simulation, times: np.ndarray) -> np.ndarray:
    """Coordinates (K, n) at these times, linear between those of the simulation."""
    return np.stack([np.interp(times, run.t, x) for x in run.q.T], axis=1)


def _frame(axes: Any, points: np.ndarray) -> None:
    """Equal scales, labels in metres."""
    low, high = points.min(axis=0), points.max(axis=0)
    longest = (high - low).max()
    middle, half = 0.5 * (low + high), np.maximum(0.5 * (high - low), 0.2 * longest) + 0.05 * longest
    low, high = middle - half, middle + half
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
    axes.set_box_aspect(high - low, zoom=ZOOM)
    for name, first, last in zip("xyz", low, high, strict=True):
        getattr(axes, f"set_{name}label")(f"{name} [m]", labelpad=13 if name == "z" else 9)
        corner = CORNER * (last - first)
        locator = MaxNLocator(max(4, int(TICKS * (last - first) / (high - low).max())), steps=[1, 2, 2.5, 5, 10])
        ticks = locator.tick_values(first + corner, last - corner)
        getattr(axes, f"set_{name}ticks")([x for x in ticks if first + corner <= x <= last - corner])


def _points_per_metre(axes: Any) -> float:
    """Of the orthographic projection, whose scale is the same across the view wherever a line is."""
    low = np.array([axes.get_xlim()[0], axes.get_ylim()[0], axes.get_zlim()[0]])
    corners = np.column_stack([np.vstack([low, low + np.eye(3)]), np.ones(4)])
    projected = corners @ axes.get_proj().T
    pixels = axes.transData.transform(projected[:, :2] / projected[:, 3:])
    return float(np.linalg.norm(pixels[1:] - pixels[0]) / np.sqrt(2.0)) * 72.0 / axes.figure.dpi


def _add_rod(axes: Any, line: CenterLine, k: int, color: Any, scale: float, edge: float) -> None:
    """Snapshot k of a rod, later ones in front."""
    points = line.points[k]
    widths = np.maximum(scale * (line.radii[:-1] + line.radii[1:]), THINNEST) + edge
    pieces = np.stack([points[:-1], points[1:]], axis=1)
    style = {"colors": [color], "linewidths": widths, "capstyle": "round", "zorder": 2 + k}
    axes.add_collection3d(Line3DCollection(pieces, **style))
