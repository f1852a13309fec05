"""What the player of a report is told of a scene: surfaces, layers of capsules, and where its camera begins.

Everything but surfaces is a capsule, two ends with a radius each: tubes of the skeleton, heads of arrows with one
radius zero, points with both ends in one place, lines so thin that the player draws them some pixels wide.  A layer is
what one box shows and hides; its array has the eight numbers x y z r, x y z r of each capsule, of a layer that moves
frame by frame.
"""

from __future__ import annotations

import base64
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trajopt.plotting.bodies import Bodies, Surface
from trajopt.plotting.scene import Scene, rounded_up
from trajopt.plotting.viewer import (
    BODY,
    CELLS,
    CENTER,
    FORCE,
    FREE,
    HELD,
    LEAST_TUBE,
    OBSTACLE,
    TARGET,
    TUBE,
    page_camera,
    turns_as_quaternions,
)

ASPECT = 1.5
"""Width / height of the picture in a wide window."""
HEAD = 0.05
"""Length of an arrow's head, in sizes of the scene."""
THIN = 1e-6
"""Radius of a line, m: it is as thick as the pixels of its layer."""
PATH = (204, 121, 167)
IN_THE_DARK = {BODY: (150, 170, 212), FREE: (120, 120, 120), CELLS: (70, 74, 82), OBSTACLE: (160, 160, 160)}
"""Of what would hardly be seen, or seen too well, on a dark page."""
TIPS = 12
"""Of a system with more loose ends the paths of these would be but a tangle."""


class Layer(NamedTuple):
    """Capsules of one colour; those of one name share a box."""

    name: str
    label: str
    color: tuple[int, int, int]
    capsules: np.ndarray  # (C, 8), or (K, C, 8) of what moves
    pixels: float = 0.0  # least width
    plain: bool = False  # not lit
    shown: bool = True

    @property
    def colors(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        """On a light page, and on a dark one."""
        return self.color, IN_THE_DARK.get(self.color, self.color)

    def told(self) -> dict[str, Any]:
        """In JSON."""
        return {
            "name": self.name, "color": [[part / 255.0 for part in color] for color in self.colors],
            "pixels": self.pixels, "plain": self.plain, "shown": self.shown, "moves": self.capsules.ndim == 3,
            "count": self.capsules.shape[-2], "data": encoded(self.capsules, "<f4"),
        }  # fmt: skip


def player_scene(scene: Scene) -> dict[str, Any]:
    """The scene in JSON, as `player.js` takes it."""
    camera = page_camera(scene, ASPECT)
    return {
        "times": [float(time) for time in scene.times],
        "camera": {
            "position": camera.position.tolist(), "look_at": camera.look_at.tolist(),
            "field_of_view": camera.field_of_view, "aspect": ASPECT,
        },
        "layers": [layer.told() for layer in layers_of(scene)],
        "mesh": _mesh(scene),
    }  # fmt: skip


def encoded(values: ArrayLike, kind: str) -> str:
    """An array's numbers in base 64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype=kind).tobytes()).decode("ascii")


# ------------------------------------------------------------------------------------------------ layers
def layers_of(scene: Scene) -> list[Layer]:
    """All that is drawn by capsules; layers without any are left out."""
    size, held = scene.size, scene.held
    tube = max(TUBE * size, LEAST_TUBE * float(np.ptp(scene.drawn(), axis=0).max()))
    arrow, (tips, whose) = scene.arrows(), _followed(scene)
    length = np.linalg.norm(arrow, axis=-1)
    head = np.minimum(HEAD * size / np.maximum(length, 1e-12), 1.0)  # its share: a short arrow is but a small head
    ends, neck, wide = scene.points + arrow, scene.points + (1.0 - head)[..., None] * arrow, 0.4 * head * length
    center = scene.center.reshape(len(scene.times), -1, 3)
    still, arrived = (_lines(scene, target) for target in (False, True))
    arrows = [(scene.points, neck, 0.4 * wide, 0.4 * wide), (neck, ends, wide, 0.0 * wide)]
    found = [
        Layer("ground", "ground", CELLS, _grid(scene, tube), 1.0, True),
        Layer("surroundings", "surroundings", OBSTACLE, still, 2.0, True),
        Layer("targets", "targets", TARGET, arrived, 3.0, True),
        Layer("paths", whose, PATH, _along(tips), 1.5, True),
        Layer("center", "centre of mass", CENTER, _along(center), 2.0, True),
        Layer("skeleton", "skeleton", BODY, _capsules(scene.segments[:, :, 0], scene.segments[:, :, 1], tube, tube),
              1.5, shown=scene.solids.bare),
        Layer("free", "no contact", FREE, _balls(scene.points, np.where(held, 0.0, 0.025 * size))),
        Layer("held", "contact", HELD, _balls(scene.points, np.where(held, 0.025 * size, 0.0))),
        Layer("forces", f"contact forces, {scene.newtons_per_metre:g} N per m", FORCE,
              np.concatenate([_capsules(a, b, held * r, held * s) for a, b, r, s in arrows], axis=1)),
        Layer("center", "centre of mass", CENTER, _balls(center, 0.02 * size)),
    ]  # fmt: skip
    return [layer for layer in found if layer.capsules.size and (layer.capsules[..., 3] > 0.0).any()]


def _followed(scene: Scene) -> tuple[np.ndarray, str]:
    """Points (K, P, 3) whose ways are drawn, of tips, or of the middle of a skeleton without, and a label."""
    tips = scene.tips()
    if 0 < tips.shape[1] <= TIPS:
        return tips, "paths of tips"
    ends = scene.segments.reshape(len(scene.times), -1, 3)
    middles = ends.mean(axis=1, keepdims=True) if ends.size and not scene.center.size else ends[:, :0]
    return middles, "path of the middle"


def _capsules(a: np.ndarray, b: np.ndarray, r: ArrayLike, s: ArrayLike) -> np.ndarray:
    """Numbers (..., 8) of capsules from a (..., 3) with radius r to b with radius s."""
    radii = (np.broadcast_to(radius, a.shape[:-1])[..., None] for radius in (r, s))
    first, second = radii
    return np.concatenate([a, first, b, second], axis=-1)


def _balls(points: np.ndarray, radius: ArrayLike) -> np.ndarray:
    return _capsules(points, points, radius, radius)


def _along(points: np.ndarray) -> np.ndarray:
    """Lines along the ways of points (K, P, 3), from frame to frame."""
    return _capsules(points[:-1], points[1:], THIN, THIN).reshape(-1, 8)


def _lines(scene: Scene, target: bool) -> np.ndarray:
    """Those of all shapes of a kind that have no surface."""
    lines = [shape.lines() for shape in scene.shapes if shape.target == target and shape.surface() is None]
    ends = np.concatenate([np.empty((0, 2, 3)), *lines])
    return _capsules(ends[:, 0], ends[:, 1], THIN, THIN)


def _grid(scene: Scene, below: float) -> np.ndarray:
    """Lines of the ground, beneath all that is drawn; none if there is none."""
    if scene.ground is None:
        return np.empty((0, 8))
    low, high = scene.drawn().min(axis=0), scene.drawn().max(axis=0)
    extent, middle = max(float((high - low).max()), 1e-6), 0.5 * (low + high)
    cell = rounded_up(0.1 * extent)
    count = int(np.ceil(1.2 * extent / cell))
    at = cell * np.arange(-count, count + 1)
    x, y = (np.round(middle[k] / cell) * cell for k in (0, 1))
    height, edge = np.full(len(at), scene.ground - below), np.full(len(at), at[-1])
    across = [np.stack([x + sign * edge, y + at, height], axis=1) for sign in (-1.0, 1.0)]
    along = [np.stack([x + at, y + sign * edge, height], axis=1) for sign in (-1.0, 1.0)]
    return np.concatenate([_capsules(a, b, THIN, THIN) for a, b in (across, along)])


# ------------------------------------------------------------------------------------------------ surfaces
def _mesh(scene: Scene) -> dict[str, Any] | None:
    """Surfaces of bodies, and of shapes on the body that never moves; None if there are none."""
    bodies = scene.solids
    count = bodies.turns.shape[1] or 1
    surfaces = [*bodies.solids]
    for shape in scene.shapes:
        color = TARGET if shape.target else OBSTACLE
        if (surface := shape.surface()) is not None:
            surfaces.append(Surface(-1, *surface, (color[0] / 255.0, color[1] / 255.0, color[2] / 255.0, 1.0), ""))
    if not surfaces:
        return None
    solids, start, corner, faces = [], 0, 0, []
    for surface in surfaces:
        faces.append(np.asarray(surface.faces) + corner)
        solids.append({"start": start, "stop": start + len(surface.faces), "color": [*map(float, surface.color)]})
        start, corner = start + len(surface.faces), corner + len(surface.vertices)
    owners = [np.broadcast_to(surface.body, len(surface.vertices)) % count for surface in surfaces]
    return {
        "count": count, "solids": solids, "faces": encoded(np.concatenate(faces), "<u4"),
        "vertices": encoded(np.concatenate([surface.vertices for surface in surfaces]), "<f4"),
        "owners": encoded(np.concatenate(owners), "<u2"),
        "placements": encoded(_placements(bodies, len(scene.times)), "<f4"),
    }  # fmt: skip


def _placements(bodies: Bodies, frames: int) -> np.ndarray:
    """Of each body at each frame, the one that never moves last, w x y z of a quaternion and a position (K, B, 7);
    from frame to frame quaternions go the shorter way."""
    if not bodies.solids:
        return np.tile([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], (frames, 1, 1))
    q = turns_as_quaternions(bodies.turns)
    back = (q[1:] * q[:-1]).sum(axis=-1, keepdims=True) < 0.0
    q[1:] *= np.where(np.cumsum(back, axis=0) % 2, -1.0, 1.0)
    return np.concatenate([q, bodies.origins], axis=-1)
