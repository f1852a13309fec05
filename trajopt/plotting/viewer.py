"""A page in the browser that plays a solution, by way of viser."""

import time
from importlib import import_module
from threading import Event, Thread
from typing import Any

import numpy as np

from dynamics.distribution import how_to_install
from trajopt.plotting.scene import Scene, as_drawable, frame_times, scene_of
from trajopt.solution import Solution

FPS = 30.0
BODY, HELD, FREE, FORCE, CENTER, SCENERY = (
    (40, 40, 40), (213, 94, 0), (230, 230, 230), (213, 94, 0), (0, 114, 178), (140, 140, 140),
)  # fmt: skip


def view(solution: Solution, port: int = 8080, block: bool = True) -> "Viewer":
    """Show a solution in the browser, at http://127.0.0.1:port, with a slider of time and a button that plays it.

    What is drawn is that of `trajopt.animate`: skeleton, scenery, contact points coloured while they carry force,
    contact forces, the path of the centre of mass, the ground.  The page is for this machine only.

    Parameters
    ----------
    solution : Solution
    port : number of the port; a free one nearby if it is taken
    block : whether to wait until the keyboard interrupts, and then to close the page; otherwise the caller closes it

    Returns
    -------
    Viewer, closed if `block`

    Raises
    ------
    ImportError : viser is not installed.
    TypeError, ValueError : as `trajopt.animate`, for the solution.
    """
    as_drawable(solution)
    viewer = Viewer(scene_of(solution, frame_times(solution, FPS)), solution.problem.name, _load_viser(), port)
    if block:
        try:
            Event().wait()
        except KeyboardInterrupt:
            pass
        finally:
            viewer.close()
    return viewer


def _load_viser() -> Any:
    try:
        return import_module("viser")
    except ImportError as error:
        raise ImportError(f"trajopt.view needs viser: {how_to_install('view')}") from error


class Viewer:
    """The page of a solution while it is served; `with` closes it.

    Attributes
    ----------
    server : viser.ViserServer
    slider, playing : its handles of the time [s] and of whether time runs
    """

    def __init__(self, scene: Scene, name: str, viser: Any, port: int) -> None:
        self.scene = scene
        self._arrows = np.stack([scene.points, scene.points + scene.arrows()], axis=2)  # (K, F, 2, 3)
        self.server = viser.ViserServer(host="127.0.0.1", port=port, label=name, verbose=False)
        end = float(scene.times[-1])
        self.slider = self.server.gui.add_slider("time [s]", 0.0, end, step=1e-3, initial_value=0.0)
        self.playing = self.server.gui.add_checkbox("play", False)
        self.speed = self.server.gui.add_slider("speed", 0.1, 2.0, step=0.1, initial_value=1.0)
        if scene.held.any():
            self.server.gui.add_markdown(f"contact forces: {scene.newtons_per_metre:g} N per m")
        self._add_what_stands_still()
        self._add_what_moves()
        self.show(0.0)
        self.slider.on_update(lambda _: self.show(self.slider.value))
        self._closing = Event()
        self._player = Thread(target=self._play, daemon=True)
        self._player.start()

    def __enter__(self) -> "Viewer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server.get_port()}"

    def _add_what_stands_still(self) -> None:
        scene, world = self.scene, self.server.scene
        if len(scene.scenery):
            world.add_line_segments("/scenery", scene.scenery, SCENERY, thickness=2.0, thickness_units="screen")
        if scene.center.size and len(scene.times) > 1:
            path = np.stack([scene.center[:-1], scene.center[1:]], axis=1)
            world.add_line_segments("/centre of mass", path, CENTER, thickness=2.0, thickness_units="screen")
        if scene.ground is not None:
            side, middle = 4.0 * scene.size, scene.points[scene.held].mean(axis=0)
            span = side + np.ptp(scene.points.reshape(-1, 3), axis=0)
            at = (middle[0], middle[1], scene.ground)
            world.add_grid("/ground", span[0], span[1], cell_size=0.25 * scene.size, position=at)

    def _add_what_moves(self) -> None:
        scene, world, size = self.scene, self.server.scene, self.scene.size
        self.skeleton = world.add_line_segments(
            "/skeleton", scene.segments[0], BODY, thickness=5.0, thickness_units="screen"
        )
        self.points = [
            world.add_icosphere(f"/contact {i}", 0.025 * size, FREE, subdivisions=2)
            for i in range(scene.points.shape[1])
        ]
        self.center = world.add_icosphere("/centre", 0.02 * size, CENTER) if scene.center.size else None
        self.forces = [
            world.add_arrows(
                f"/force {i}", self._arrows[0, i : i + 1], FORCE, shaft_radius=0.008 * size, head_radius=0.02 * size,
                head_length=0.05 * size,
            )
            for i in range(scene.points.shape[1])
        ]  # fmt: skip

    def show(self, seconds: float) -> None:
        """Show the frame that is nearest to this time."""
        frame = int(np.abs(self.scene.times - seconds).argmin())
        with self.server.atomic():
            self.skeleton.points = self.scene.segments[frame].astype(np.float32)
            if self.center is not None:
                self.center.position = self.scene.center[frame]
            held = self.scene.held[frame]
            for i, (point, force) in enumerate(zip(self.points, self.forces, strict=True)):
                point.position, point.color = self.scene.points[frame, i], HELD if held[i] else FREE
                force.points, force.visible = self._arrows[frame, i : i + 1].astype(np.float32), bool(held[i])

    def _play(self) -> None:
        """Move the slider with the clock, over and over."""
        before = time.monotonic()
        while not self._closing.wait(1.0 / FPS):
            now = time.monotonic()
            if self.playing.value:
                ahead = self.slider.value + self.speed.value * (now - before)
                self.slider.value = ahead if ahead <= self.scene.times[-1] else 0.0
            before = now

    def close(self) -> None:
        """Stop serving the page."""
        self._closing.set()
        self._player.join()
        self.server.stop()
