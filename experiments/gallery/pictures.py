"""A picture of a motion without axes: poses from light to dark in one, or a moving one.

The stage is that of animations.  What it leaves to axes, titles and legends is given to the motion; paths of what ends
loosely, feet, tools and tips, are lines in blue.
"""

from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from mpl_toolkits.mplot3d import proj3d
from mpl_toolkits.mplot3d.art3d import Line3DCollection, Poly3DCollection
from PIL import Image

from trajopt.plotting.scene import Scene, scene_of, with_small_faces
from trajopt.plotting.stage import BODY, SEAM, SceneFigure, put_bodies
from trajopt.plotting.style import COLORS

SIZE = (400, 300)
"""Pixels."""
DPI = 87
LINGER, LEAST = 900, 0.05
"""How long the last frame stays, ms; and the least that one lasts, s: short motions are slowed."""
QUALITIES, LARGEST = (80, 65, 50, 40, 30), 95_000
"""Of lossy frames: the best with which a file has no more bytes, or the last."""
FACES = 0.08
"""Longest edge of triangles where these are fine, as a share of the robot's size."""
PALE = 0.8
"""How much of white is in the first of several poses."""
EDGE = 0.05
"""Share of the picture left on each side."""

LEGEND = {
    "target": "green, where to go",
    "surroundings": "grey, what stands in the way",
    "contacts": "orange, what is held and with which force",
    "tips": "light blue, the paths of loose ends",
    "middle": "light blue, the path of its middle",
    "center": "dark blue, the path of the centre of mass",
}


class Look(NamedTuple):
    """How a problem is drawn."""

    moving: bool = False
    frames: int = 30
    """Of what moves."""
    view: tuple[float, float] | None = None
    """(elevation, azimuth), degrees; None leaves it to the stage."""
    poses: int = 5
    """Of what stands still, at equal times, or at these shares of the duration."""
    shares: tuple[float, ...] | None = None
    path: str = "tips"
    """Of loose ends, "tips", or of the "middle" of all that moves, or "" of nothing."""
    size: tuple[int, int] = SIZE
    scale: float = 1.0
    """Of what has its own size, lines and points."""
    largest: int = LARGEST
    """Bytes of what moves."""
    fine: bool = False
    """Whether bodies have all their triangles, and these are small."""


def picture_name(name: str, look: Look) -> str:
    """The file of a problem's picture."""
    return f"{name}.webp" if look.moving else f"{name}.png"


def write_picture(solution: Any, path: Path, look: Look) -> dict[str, Any]:
    """Draw a solution, or another motion, into a file of the name that `picture_name` gives.

    Returns how many seconds pass in one, None where nothing moves, and what there is to be seen, as `LEGEND` has it.
    """
    return _write_moving(solution, path, look) if look.moving else _write_still(solution, path, look)


def _write_still(solution: Any, path: Path, look: Look) -> dict[str, Any]:
    end = solution.times[-1]
    shares = np.linspace(0.0, 1.0, look.poses) if look.shares is None else np.array(look.shares)
    times = np.unique(np.concatenate([np.linspace(0.0, end, 101), shares * end]))
    scene = scene_of(solution, times)
    stage = _stage(scene, look)
    frames = np.searchsorted(times, shares * end)
    _add_poses(stage, scene, frames[:-1])
    paths = _paths(scene, look)
    _add_paths(stage, paths)
    stage.show(int(frames[-1]), "")
    _pixels(stage, look).quantize(128, dither=Image.Dither.NONE).save(path, optimize=True)
    return {"pace": None, "shows": _shown(scene, paths, look)}


def _write_moving(solution: Any, path: Path, look: Look) -> dict[str, Any]:
    end = solution.times[-1]
    count = look.frames
    scene = scene_of(solution, np.linspace(0.0, end, count), look.fine)
    if look.fine:
        size = FACES * scene.size
        small = tuple(with_small_faces(solid, size) for solid in scene.solids.solids)
        scene = scene._replace(solids=scene.solids._replace(solids=small))
    tips = _paths(scene_of(solution, np.linspace(0.0, end, 4 * count - 3)), look)
    stage, pictures = _stage(scene, look), []
    for frame in range(count):
        paths = _add_paths(stage, tips[: 4 * frame + 1])
        stage.show(frame, "")
        pictures.append(_pixels(stage, look))
        if paths is not None:
            paths.remove()
    lasting = round(1e3 * max(end / (count - 1), LEAST))
    durations = [lasting] * (count - 1) + [LINGER]
    for quality in QUALITIES:
        file = BytesIO()
        rest = {"append_images": pictures[1:], "duration": durations, "loop": 0, "method": 4}
        pictures[0].save(file, format="webp", save_all=True, quality=quality, **rest)
        if file.tell() <= look.largest:
            break
    path.write_bytes(file.getvalue())
    pace = 1e3 * end / (lasting * (count - 1))
    return {"pace": round(float(pace), 2), "shows": _shown(scene, tips, look)}


def _shown(scene: Scene, paths: np.ndarray, look: Look) -> list[str]:
    """Which entries of the legend there are."""
    there = {
        "target": any(shape.target for shape in scene.shapes),
        "surroundings": any(not shape.target for shape in scene.shapes),
        "contacts": scene.points.shape[1] > 0,
        look.path: paths.shape[1] > 0,
        "center": scene.center.size > 0,
    }
    return [key for key in LEGEND if there.get(key)]


def _stage(scene: Scene, look: Look) -> SceneFigure:
    """The stage of a scene, which fills the picture."""
    width, height = (pixels / (DPI * look.scale) + 1e-6 for pixels in look.size)
    stage = SceneFigure(scene, look.view, False, (width, height))
    stage.figure.legends.clear()
    axes: Any = stage.figure.axes[0]
    axes.set_axis_off()
    points = scene.drawn()
    if stage.ground is not None:
        low, high = stage.boxes[0]
        ends = np.stack([low, high])
        ground = np.stack(np.meshgrid(*ends[:, :2].T), axis=-1).reshape(-1, 2)
        points = np.concatenate([points, np.c_[ground, np.full(4, stage.ground)]])
    _fill(axes, points, stage.boxes[0].high - stage.boxes[0].low)
    return stage


def _fill(axes: Any, points: np.ndarray, spans: np.ndarray) -> None:
    """Equal scales, as large as lets the points (P, 3) fill the picture, in its middle."""
    zoom = 1.0
    for _ in range(4):
        axes.set_box_aspect(spans, zoom=zoom)
        axes.apply_aspect()
        flat = np.transpose(proj3d.proj_transform(*points.T, axes.get_proj())[:2])
        seen = axes.transData.transform(flat) / axes.figure.bbox.size
        extent = seen.max(axis=0) - seen.min(axis=0)
        zoom *= float(((1.0 - 2.0 * EDGE) / extent).min())
    shift = 0.5 - 0.5 * (seen.max(axis=0) + seen.min(axis=0))
    x, y, width, height = axes.get_position(original=True).bounds
    axes.set_position((x + shift[0], y + shift[1], width, height))


def _add_poses(stage: SceneFigure, scene: Scene, frames: np.ndarray) -> None:
    """Earlier poses, the paler the earlier, behind the last."""
    axes: Any = stage.figure.axes[0]
    count = max(len(frames), 1)
    for k, frame in enumerate(frames):
        white, order = PALE * (1.0 - 0.75 * k / count), 2.0 + 0.5 * k / count
        if scene.solids.solids:
            faces, colors = scene.solids.triangles(frame)
            colors[:, :3] = white + (1.0 - white) * colors[:, :3]
            pose = Poly3DCollection([], linewidths=SEAM, zorder=order)
            axes.add_collection3d(pose)
            put_bodies(pose, axes, faces, colors)
        if scene.solids.bare:
            grey = white + (1.0 - white) * float(BODY)
            style = {"colors": [str(grey)], "linewidths": 2.2, "capstyle": "round", "zorder": order}
            axes.add_collection3d(Line3DCollection(scene.segments[frame], **style))


def _paths(scene: Scene, look: Look) -> np.ndarray:
    """Points (K, T, 3) whose paths are drawn."""
    if look.path == "tips":
        return scene.tips()
    if not look.path:
        return np.empty((len(scene.times), 0, 3))
    return scene.segments.reshape(len(scene.times), -1, 3).mean(axis=1)[:, None]


def _add_paths(stage: SceneFigure, tips: np.ndarray) -> Line3DCollection | None:
    """Paths of tips (K, T, 3)."""
    if not tips.shape[1]:
        return None
    lines = np.swapaxes(tips, 0, 1)
    paths = Line3DCollection(list(lines), colors=[COLORS[5]], linewidths=1.3, zorder=2.9)
    stage.figure.axes[0].add_collection3d(paths)  # pyright: ignore[reportAttributeAccessIssue]
    return paths


def _pixels(stage: SceneFigure, look: Look) -> Image.Image:
    buffer = BytesIO()
    stage.figure.savefig(buffer, format="png", dpi=DPI * look.scale)
    return Image.open(buffer).convert("RGB")
