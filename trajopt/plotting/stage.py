"""The stage of an animation: fixed and moving artists, and the camera."""

from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, NullLocator
from mpl_toolkits.mplot3d import proj3d
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection

from trajopt.plotting.scene import Scene, direction
from trajopt.plotting.style import COLORS, GREY, TARGET, literal

BODY, FORCE, CENTER = "0.15", COLORS[1], COLORS[0]
GROUND, SHADOW = "#e8e4da", "#d3cec1"
SEAM = 0.5
"""Width of the edges that cover seams between triangles, points."""
MARGIN = 1.06
FLATTEST = 0.12
"""Least side of the box, as a fraction of its longest."""


AROUND = np.array([[0.04, 0.12], [0.04, 0.11]])
"""Fractions of the figure left to title and legend: left and below, right and above."""
NUMBERS, LABELS, NEARER = (11.5, 8.0), (31.0, 21.0), 2.5
"""Distances of numbers and labels from the axes of a cube, points; matplotlib's part of these; largest factor by which
they grow."""
TICKS = 6
"""Largest number of ticks along the longest side of the box."""


class ViewBox(NamedTuple):
    """Corners of the box that the camera shows."""

    low: np.ndarray  # (3,)
    high: np.ndarray  # (3,)

    def holds(self, points: np.ndarray) -> np.ndarray:
        """True for points (..., 3) inside."""
        return np.asarray(((points >= self.low) & (points <= self.high)).all(axis=-1))


class SceneFigure:
    """A figure of a scene, one frame at a time.

    Attributes
    ----------
    figure : Figure, with a canvas of its own
    boxes : list of Box, the box shown at each frame
    """

    def __init__(
        self, scene: Scene, view: tuple[float, float] | None, follow: bool, inches: tuple[float, float]
    ) -> None:
        self.scene = scene
        self._arrows = scene.arrows()
        self.ground = scene.ground if scene.flat is None else None  # along an axis it is a line or fills the picture
        self.boxes = _boxes(scene, self.ground, follow)
        self.figure = Figure(figsize=inches)
        FigureCanvasAgg(self.figure)
        self._axes: Any = self.figure.add_axes(_square(inches), projection="3d", computed_zorder=False)
        _place_camera(self._axes, view, scene.flat)
        low, high = self.boxes[0]
        self._axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
        _fit(self._axes, self.boxes[0])
        for shape in scene.shapes:  # obstacles behind the robot, targets in front of it
            self._add_lines(shape.lines(), TARGET if shape.target else GREY, 1.2, 3.2 if shape.target else 1)
        self._add_artists()
        self._last_quiver: Any = None
        handles = self._handles()
        if handles:
            self.figure.legend(handles=handles, loc="lower center", ncols=len(handles), frameon=False, fontsize=9)

    def _add_artists(self) -> None:
        scene = self.scene
        self._ground = Poly3DCollection([], facecolor=GROUND, edgecolor=GREY, linewidth=0.6, zorder=0)
        if self.ground is not None:
            self._axes.add_collection3d(self._ground)
        (self._trail,) = self._axes.plot([], [], [], color=CENTER, linewidth=1.3, zorder=3.5)
        lines = scene.segments[0] if scene.solids.bare else np.empty((0, 2, 3))
        self._skeleton = self._add_lines(lines, BODY, 2.4, 2.9)
        self._shadow = Poly3DCollection([], facecolor=SHADOW, edgecolor=SHADOW, linewidths=SEAM, zorder=0.5)
        self._bodies = Poly3DCollection([], linewidths=SEAM, zorder=3)
        if scene.solids.solids:
            self._axes.add_collection3d(self._bodies)
            if self.ground is not None:
                self._axes.add_collection3d(self._shadow)
        style = {"linestyle": "", "marker": "o", "markersize": 6.5, "color": FORCE, "markeredgewidth": 1.3}
        (self._free,) = self._axes.plot([], [], [], markerfacecolor="white", zorder=5, **style)
        (self._held,) = self._axes.plot([], [], [], markerfacecolor=FORCE, zorder=5, **style)
        (self._center,) = self._axes.plot([], [], [], linestyle="", marker="o", markersize=5, color=CENTER, zorder=4)

    def _add_lines(self, lines: np.ndarray, color: str, width: float, zorder: float) -> Line3DCollection:
        collection = Line3DCollection(lines, colors=[color], linewidths=width, capstyle="round", zorder=zorder)
        if len(lines):
            self._axes.add_collection3d(collection)
        return collection

    def _handles(self) -> list[Line2D]:
        scene, handles = self.scene, []
        disc = {"linestyle": "", "marker": "o", "color": FORCE, "markersize": 6}
        if scene.held.any():
            handles.append(Line2D([], [], label="contact", **disc))
        if (~scene.held).any():
            handles.append(Line2D([], [], markerfacecolor="white", label="no contact", **disc))
        if scene.held.any():
            scale = f"contact force, {scene.newtons_per_metre:g} N per m"
            handles.append(Line2D([], [], color=FORCE, label=scale))
        if scene.center.size:
            handles.append(Line2D([], [], color=CENTER, marker="o", markersize=4, label="centre of mass"))
        named = {solid.label: solid.color for solid in scene.solids.solids if solid.label}
        handles += [Line2D([], [], color=color, linewidth=2.4, label=literal(label)) for label, color in named.items()]
        kinds = {("target", TARGET) if shape.target else ("surroundings", GREY) for shape in scene.shapes}
        handles += [Line2D([], [], color=color, linewidth=1.2, label=label) for label, color in sorted(kinds)]
        return handles

    def show(self, frame: int, caption: str) -> None:
        """Draw one frame of the scene, with this caption."""
        scene, box = self.scene, self.boxes[frame]
        self._frame_box(box)
        if scene.solids.solids:
            faces, colors = scene.solids.triangles(frame)
            put_bodies(self._bodies, self._axes, faces, colors)
            if self.ground is not None:  # shadows, for light straight from above
                fallen = faces.copy()
                fallen[:, :, 2] = self.ground
                self._shadow.set_verts(fallen)
        if scene.solids.bare:
            self._skeleton.set_segments(scene.segments[frame])
        if scene.center.size:
            path = scene.center[: frame + 1]
            self._trail.set_data_3d(*np.where(box.holds(path)[:, None], path, np.nan).T)
            self._center.set_data_3d(*path[-1:].T)
        held = scene.held[frame]
        self._free.set_data_3d(*scene.points[frame, ~held].T)
        self._held.set_data_3d(*scene.points[frame, held].T)
        if self._last_quiver is not None:
            self._last_quiver.remove()
            self._last_quiver = None
        if held.any():
            at, along = scene.points[frame, held], self._arrows[frame, held]
            self._last_quiver = self._axes.quiver(
                *at.T, *along.T, color=FORCE, linewidth=1.6, arrow_length_ratio=0.18, zorder=4
            )
        self.figure.suptitle(literal(caption), fontsize=11, y=0.97)

    def _frame_box(self, box: ViewBox) -> None:
        """Show a box, and the ground in it."""
        low, high = box
        self._axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), zlim=(low[2], high[2]))
        z = self.ground
        if z is not None:
            corners = [(low[0], low[1], z), (high[0], low[1], z), (high[0], high[1], z), (low[0], high[1], z)]
            self._ground.set_verts([corners])


def put_bodies(
    collection: Poly3DCollection, axes: Any, faces: np.ndarray, colors: np.ndarray, through: bool = True
) -> None:
    """Set the triangles (F, 3, 3) of a collection in colours (F, 4), without back faces of opaque surfaces, or unless
    `through` of all.

    Seams between opaque triangles are covered by their edges; seams between others are invisible.
    """
    x, y, _ = proj3d.proj_transform(*faces.reshape(-1, 3).T, axes.get_proj())
    (a, b), (c, d) = np.moveaxis(np.diff(np.stack([x, y]).reshape(2, -1, 3), axis=2), 2, 0)
    shown = (a * d - b * c > 0.0) | (colors[:, 3] < (1.0 if through else 0.0))
    edges = colors[shown] * np.where(colors[shown, 3:] < 1.0, [1.0, 1.0, 1.0, 0.0], 1.0)
    collection.set_verts(faces[shown])
    collection.set(facecolor=colors[shown], edgecolor=edges)


def _boxes(scene: Scene, ground: float | None, follow: bool) -> list[ViewBox]:
    """One box for all frames, or boxes of constant size about the middle of the skeleton at each."""
    moving = scene.moving()
    K = len(moving)
    low, high = moving.min(axis=(0, 1)), moving.max(axis=(0, 1))
    if not follow:
        still = scene.scenery.reshape(-1, 3)
        return [_widened(np.vstack([low, high, still]), ground)] * K
    middle = scene.segments.reshape(K, -1, 3).mean(axis=1) if scene.segments.size else moving.mean(axis=1)
    about = moving - middle[:, None]
    reach = np.abs(about).max(axis=(0, 1))
    corners = np.stack([middle - reach, middle + reach], axis=1)  # (K, 2, 3)
    if ground is not None:
        corners[:, 0, 2], corners[:, 1, 2] = low[2], high[2]
    return [_widened(pair, ground) for pair in corners]


def _widened(points: np.ndarray, ground: float | None) -> ViewBox:
    """The points' box with a margin, of a least thickness, standing on the ground if there is one."""
    low, high = points.min(axis=0), points.max(axis=0)
    longest = max(float((high - low).max()), 1e-6)
    half = np.maximum(0.5 * (high - low), 0.5 * FLATTEST * longest) + 0.5 * (MARGIN - 1.0) * longest
    middle = 0.5 * (low + high)
    box = ViewBox(middle - half, middle + half)
    if ground is not None:
        box.low[2] = min(points[:, 2].min(), ground) - 0.01 * longest
    return box


def _place_camera(axes: Any, view: tuple[float, float] | None, flat: int | None) -> None:
    """Set the view that is asked for, or along the flat axis, or from aside; axes in metres, their planes white."""
    names = "xyz"
    for i, axis in enumerate((axes.xaxis, axes.yaxis, axes.zaxis)):
        axis.set_pane_color((1.0, 1.0, 1.0, 0.0))
        axis._axinfo["grid"].update(color="0.9", linewidth=0.6)
        axis.set_tick_params(labelsize=8)
        if view is None and i == flat:
            axis.set_major_locator(NullLocator())
        else:
            getattr(axes, f"set_{names[i]}label")(f"{names[i]} [m]", fontsize=9)
    if view is None and flat is not None:
        axes.set_proj_type("ortho")
    axes.view_init(*(direction(flat) if view is None else view))


def _square(inches: tuple[float, float]) -> tuple[float, float, float, float]:
    """A square about the figure, in its coordinates: axes in space are square, and clip all beyond them."""
    width, height = max(inches) / inches[0], max(inches) / inches[1]
    return (0.5 * (1.0 - width), 0.5 * (1.0 - height), width, height)


def _fit(axes: Any, box: ViewBox) -> None:
    """Set equal scales, as large as the room for the box and its labels in the figure allows."""
    spans, zoom, room = box.high - box.low, 0.5, 1.0 - AROUND.sum(axis=0)
    share_ticks(axes, spans)
    for _ in range(4):  # labels keep their size, and in perspective the box is not proportional to zoom
        low, high = _seen(axes, spans, zoom)
        zoom *= float((room / (high - low)).min())
    low, high = _seen(axes, spans, zoom)
    shift = AROUND[0] + 0.5 * (room - low - high)
    x, y, width, height = axes.get_position(original=True).bounds
    axes.set_position((x + shift[0], y + shift[1], width, height))


def share_ticks(axes: Any, spans: np.ndarray, most: int = TICKS) -> None:
    """Set ticks on each axis that has some, at most `most`, fewer where the box (3,) is shorter; numbers and labels at
    the same distance as for cubes, since matplotlib moves them along the other two axes in proportion to these."""
    for k, axis in enumerate((axes.xaxis, axes.yaxis, axes.zaxis)):
        nearer = min(float(spans.max() / np.delete(spans, k).mean()), NEARER)
        axis.set_tick_params(pad=NUMBERS[0] * nearer - NUMBERS[1])
        axis.labelpad = LABELS[0] * nearer - LABELS[1]
        if not isinstance(axis.get_major_locator(), NullLocator):
            ticks = max(2, round(most * float(spans[k] / spans.max())))
            axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))


def _seen(axes: Any, spans: np.ndarray, zoom: float) -> tuple[np.ndarray, np.ndarray]:
    """Corners (2,) of the region that the box and its labels take up, as fractions of the figure."""
    figure = axes.figure
    axes.set_box_aspect(spans, zoom=zoom)
    figure.draw_without_rendering()
    renderer = figure.canvas.get_renderer()
    extents = [axis.get_tightbbox(renderer).get_points() for axis in (axes.xaxis, axes.yaxis, axes.zaxis)]
    limits = axes.get_xlim(), axes.get_ylim(), axes.get_zlim()
    corners = np.stack(np.meshgrid(*limits)).reshape(3, -1)
    flat = np.transpose(proj3d.proj_transform(*corners, axes.get_proj())[:2])
    points = np.vstack([*extents, axes.transData.transform(flat)]) / figure.bbox.size
    return points.min(axis=0), points.max(axis=0)
