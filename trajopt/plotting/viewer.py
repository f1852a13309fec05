"""A page in the browser that plays a solution, served by viser."""

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from importlib import import_module
from ipaddress import ip_address
from threading import Event, Thread
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from scipy.spatial.transform import Rotation

from dynamics.distribution import how_to_install
from trajopt.plotting.motion import as_motion
from trajopt.plotting.scene import Camera, Scene, direction, fitted, frame_times, rounded_up, scene_of
from trajopt.problem.scenery import Cylinder, Sphere
from trajopt.validation import whole_number

FPS = 30.0
BODY, HELD, FREE, FORCE, CENTER, OBSTACLE, TARGET = (
    (38, 46, 66), (213, 94, 0), (230, 230, 230), (213, 94, 0), (0, 114, 178), (150, 150, 150), (0, 158, 115),
)  # fmt: skip
CELLS, SECTIONS = (222, 222, 222), (190, 190, 190)
TUBE, LEAST_TUBE = 0.012, 0.003
"""Radius of the tubes along the robot's lines: a fraction of the robot's size, and at least one of the whole scene."""
ASPECT = 4.0 / 3.0
"""Width / height of the first picture; each page then has its own."""
MAP = (60.0, -90.0)
"""View of a motion in a horizontal plane: not from right above, where a page cannot be turned by hand."""
LARGEST_PORT = 65535


def view(solution: Any, port: int = 8080, block: bool = True, host: str = "127.0.0.1") -> "Viewer":
    """Show a solution in the browser, at http://127.0.0.1:port, with a slider of time and a button that plays it.

    The scene is that of `trajopt.animate`, with all triangles of the bodies' meshes: shapes, or the skeleton, scenery
    of the problem, contact points coloured while they carry force, contact forces, the path of the centre of mass, the
    ground.  The camera starts where all of the motion fills the page.  Only this machine can see the page unless
    another `host` is given, and no page from elsewhere in the same browser can.

    Parameters
    ----------
    solution : as for `trajopt.animate`
    port : number of the port; the next free one if it is taken; 0 for any free one
    block : True to wait for a keyboard interrupt, and then to close the page; otherwise the caller closes it,
        by `Viewer.close` or a `with` statement, and it closes with the process
    host : address of this machine on which the page is served; "0.0.0.0" shows it to everybody on the network

    Returns
    -------
    Viewer, closed if `block`

    Raises
    ------
    ImportError : viser is not installed.
    TypeError, ValueError : as `trajopt.animate`, for the solution; a port or a host that cannot be served.
    """
    motion = as_motion(solution)
    _ = motion.drawable
    viser = check_page(port, host)
    viewer = Viewer(scene_of(motion, frame_times(motion, FPS), fine=True), motion.name, viser, port, host)
    if block:
        try:
            Event().wait()
        except KeyboardInterrupt:
            pass
        finally:
            viewer.close()
    return viewer


def check_page(port: int, host: str) -> Any:
    """The module that serves pages, if it can serve one at this address; errors as `view`."""
    try:
        viser = import_module("viser")
    except ImportError as error:
        raise ImportError(f"trajopt.view needs viser: {how_to_install('view')}") from error
    if whole_number("port", port, 0) > LARGEST_PORT:
        raise ValueError(f"port: got {port}, expected at most {LARGEST_PORT}")
    _check_host(host)
    return viser


def _check_host(host: Any) -> None:
    """Raise ValueError unless a port of this address can be bound: viser would wait for ever."""
    if not isinstance(host, str) or not host:
        raise ValueError(f"host: got {host!r}, expected an address of this machine, as '127.0.0.1' or '0.0.0.0'")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
    except OSError as error:
        raise ValueError(f"host: got {host!r}, which is no address of this machine ({error.strerror})") from error


@contextmanager
def _visitors_checked(host: str) -> Iterator[None]:
    """Context in which servers that start, by websockets as viser's do, reject visitors that are not `from_here`.

    Raises RuntimeError if none started like this: the page would be open to pages from elsewhere."""
    module: Any = import_module("websockets.asyncio.server")
    serve, checked = module.serve, []

    def serve_checked(handler: Any, *places: Any, process_request: Any = None, **options: Any) -> Any:
        def answer(connection: Any, request: Any) -> Any:
            if not from_here(request.headers.get_all("Host"), request.headers.get_all("Origin"), host):
                return connection.respond(HTTPStatus.FORBIDDEN, "This page is for this machine alone.\n")
            return None if process_request is None else process_request(connection, request)

        checked.append(places)
        return serve(handler, *places, process_request=answer, **options)

    module.serve = serve_checked
    try:
        yield
    finally:
        module.serve = serve
    if not checked:
        raise RuntimeError("trajopt.view: got a version of viser whose visitors cannot be checked, expected another")


def from_here(hosts: Sequence[str], origins: Sequence[str], served: str) -> bool:
    """True if the headers Host and Origin are those of the page itself, served at this address.

    A page from elsewhere has another origin, whatever it requests; one whose name was made to resolve to this machine
    (DNS rebinding) has a host of that name, where the page has an address, "localhost", or the name of this machine.
    """
    if len(hosts) != 1 or len(origins) > 1:
        return False
    try:
        name = urlsplit(f"//{hosts[0]}").hostname or ""
        ours = name in {"localhost", served.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
        if not ours:
            ip_address(name)
        return all(urlsplit(origin).netloc.lower() == hosts[0].lower() for origin in origins)
    except ValueError:  # not an address
        return False


class Viewer:
    """The page of a solution while it is served; `with` closes it.

    Attributes
    ----------
    server : viser.ViserServer
    slider, playing : viser's handles of the time [s] and of the switch that plays
    skeleton, scenery, ground : viser's handles of the robot's lines (tubes and balls), of the problem's shapes and of
        the ground (none or one), each in a tuple
    bodies : mapping of indices of bodies that have shapes to the handles of their frames
    bent : list of surfaces that bend, with their handles
    lines : handle of the switch that shows the skeleton, initially on only where there are no shapes
    """

    def __init__(self, scene: Scene, name: str, viser: Any, port: int, host: str = "127.0.0.1") -> None:
        self.scene, self.host = scene, host
        self._arrows = np.stack([scene.points, scene.points + scene.arrows()], axis=2)  # (K, F, 2, 3)
        self._tube = max(TUBE * scene.size, LEAST_TUBE * float(np.ptp(scene.drawn(), axis=0).max()))
        with _visitors_checked(host):
            self.server = viser.ViserServer(host=host, port=port, label=name, verbose=False)
        self.server.gui.configure_theme(show_logo=False, show_share_button=False)  # sharing would publish the page
        self.server.gui.main_panel.dock_right()
        end = float(scene.times[-1])
        self.slider = self.server.gui.add_slider("time [s]", 0.0, end, step=1e-3, initial_value=0.0)
        self.playing = self.server.gui.add_checkbox("play", False)
        self.speed = self.server.gui.add_slider("speed", 0.1, 2.0, step=0.1, initial_value=1.0)
        if scene.held.any():
            self.server.gui.add_markdown(f"contact forces: {scene.newtons_per_metre:g} N per m")
        solid = bool(scene.solids.solids)
        self.lines = self.server.gui.add_checkbox("skeleton", scene.solids.bare, visible=solid)
        self._add_what_stands_still()
        self._add_what_moves()
        self._add_bodies()
        self.show(0.0)
        _place(self.server.initial_camera, page_camera(scene, ASPECT))
        self.server.on_client_connect(self._fit)
        self.slider.on_update(lambda _: self.show(self.slider.value))
        self.lines.on_update(lambda _: self._show_lines())
        self._closing = Event()
        self._player = Thread(target=self._play, daemon=True)
        self._player.start()

    def __enter__(self) -> "Viewer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Address of the page, as seen from this machine."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.server.get_port()}"

    def _fit(self, client: Any) -> None:
        """Set the camera of a page that opens, and again whenever its width / height changes."""
        fitted_to = 0.0

        def fit(camera: Any) -> None:
            nonlocal fitted_to
            if camera.aspect != fitted_to:
                fitted_to = camera.aspect
                _place(camera, page_camera(self.scene, fitted_to))

        fit(client.camera)
        client.camera.on_update(fit)

    def _add_what_stands_still(self) -> None:
        scene, world = self.scene, self.server.scene
        self.scenery = []
        for i, shape in enumerate(scene.shapes):
            name, color, surface = f"/scenery {i}", TARGET if shape.target else OBSTACLE, shape.surface()
            if surface is None:
                width = {"thickness": 4.0 if shape.target else 2.0, "thickness_units": "screen"}
                self.scenery.append(world.add_line_segments(name, shape.lines(), color, **width))
            else:
                self.scenery.append(world.add_mesh_simple(name, *surface, color=color, side="double"))
        if scene.center.size and len(scene.times) > 1:
            path = np.stack([scene.center[:-1], scene.center[1:]], axis=1)
            world.add_line_segments("/centre of mass", path, CENTER, thickness=2.0, thickness_units="screen")
        self.ground = []
        if scene.ground is not None:
            low, high = scene.drawn().min(axis=0), scene.drawn().max(axis=0)
            extent, middle = max(float((high - low).max()), 1e-6), 0.5 * (low + high)
            cell = rounded_up(0.1 * extent)
            side = 2.0 * np.ceil(1.5 * extent / cell) * cell
            self.ground.append(
                world.add_grid(
                    "/ground", side, side, cell_size=cell, section_size=5.0 * cell, cell_color=CELLS,
                    section_color=SECTIONS, position=(*middle[:2], scene.ground - self._tube),
                )
            )  # fmt: skip

    def _add_what_moves(self) -> None:
        scene, world, size = self.scene, self.server.scene, self.scene.size
        count = scene.segments.shape[1]
        wxyzs = np.tile([1.0, 0.0, 0.0, 0.0], (2 * count, 1))
        tube, ball = Cylinder(np.zeros(3), 1.0, 1.0).surface(), Sphere(np.zeros(3), self._tube).surface()
        self.skeleton = (
            world.add_batched_meshes_simple(
                "/tubes", *tube, wxyzs[:count], np.zeros((count, 3)), batched_scales=np.ones((count, 3)),
                batched_colors=BODY, lod="off",
            ),
            world.add_batched_meshes_simple(
                "/joints", *ball, wxyzs, np.zeros((2 * count, 3)), batched_colors=BODY, lod="off"
            ),
        )  # fmt: skip
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

    def _add_bodies(self) -> None:
        """Add surfaces on a frame for each body, which moves them; surfaces that bend get new vertices instead."""
        world, bodies = self.server.scene, self.scene.solids
        numbers = {solid.body for solid in bodies.solids if not solid.bends}
        self.bodies = {body: world.add_frame(f"/body {body}", show_axes=False) for body in sorted(numbers)}
        self.bent = []
        for i, solid in enumerate(bodies.solids):
            r, g, b, opacity = solid.color
            corners = bodies.vertices(solid, 0) if solid.bends else solid.vertices
            mesh = world.add_mesh_simple(
                f"/bent/{i}" if solid.bends else f"/body {solid.body}/{i}", corners.astype(np.float32),
                solid.faces.astype(np.uint32), color=(r, g, b), opacity=None if opacity == 1.0 else opacity,
                side="double",
            )  # fmt: skip
            if solid.bends:
                self.bent.append((solid, mesh))
        self._wxyzs = turns_as_quaternions(bodies.turns)
        self._show_lines()

    def _show_lines(self) -> None:
        for part in self.skeleton:
            part.visible = self.lines.value

    def show(self, seconds: float) -> None:
        """Show the frame that is nearest to this time."""
        frame = int(np.abs(self.scene.times - seconds).argmin())
        with self.server.atomic():
            self._show_skeleton(self.scene.segments[frame])
            for body, handle in self.bodies.items():
                handle.wxyz, handle.position = self._wxyzs[frame, body], self.scene.solids.origins[frame, body]
            for solid, mesh in self.bent:
                mesh.vertices = self.scene.solids.vertices(solid, frame).astype(np.float32)
            if self.center is not None:
                self.center.position = self.scene.center[frame]
            held = self.scene.held[frame]
            for i, (point, force) in enumerate(zip(self.points, self.forces, strict=True)):
                point.position, point.color = self.scene.points[frame, i], HELD if held[i] else FREE
                force.points, force.visible = self._arrows[frame, i : i + 1].astype(np.float32), bool(held[i])

    def _show_skeleton(self, segments: np.ndarray) -> None:
        """Put tubes along segments (S, 2, 3), and balls at their ends."""
        tubes, joints = self.skeleton
        along = segments[:, 1] - segments[:, 0]
        lengths = np.linalg.norm(along, axis=1)
        tubes.batched_positions = segments.mean(axis=1).astype(np.float32)
        tubes.batched_wxyzs = _turns_from_z(along).astype(np.float32)
        tubes.batched_scales = np.stack([0.0 * lengths + self._tube] * 2 + [lengths], axis=1).astype(np.float32)
        joints.batched_positions = segments.reshape(-1, 3).astype(np.float32)

    def _play(self) -> None:
        """Move the slider with the clock, repeatedly."""
        before = time.monotonic()
        while not self._closing.wait(1.0 / FPS):
            now = time.monotonic()
            if self.playing.value:
                ahead = self.slider.value + self.speed.value * (now - before)
                self.slider.value = ahead if ahead <= self.scene.times[-1] else 0.0
            before = now

    def close(self) -> None:
        """Stop serving the page; no effect if that is done."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._player.join()
        self.server.stop()


def page_camera(scene: Scene, aspect: float) -> Camera:
    """The camera that shows all of a motion and its scenery in a page of this width / height."""
    return fitted(scene.drawn(), MAP if scene.flat == 2 else direction(scene.flat), aspect)


def _place(handle: Any, camera: Camera) -> None:
    """Set one of viser's cameras; its near and far planes scale with its distance."""
    distance = float(np.linalg.norm(camera.position - camera.look_at))
    handle.near, handle.far = 1e-2 * distance, 1e2 * distance
    handle.fov, handle.position, handle.look_at = camera.field_of_view, camera.position, camera.look_at


def turns_as_quaternions(R: np.ndarray) -> np.ndarray:
    """Quaternions w x y z (K, B, 4) of rotations (K, B, 3, 3), also for B = 0."""
    found = Rotation.from_matrix(R.reshape(-1, 3, 3)).as_quat(scalar_first=True) if R.size else np.empty((0, 4))
    return found.reshape(*R.shape[:2], 4)


def _turns_from_z(along: np.ndarray) -> np.ndarray:
    """Quaternions w x y z (S, 4) of rotations that take the z axis to the directions of vectors (S, 3).

    For a unit vector d, (1 + d_z, -d_y, d_x, 0) normalized; a half turn about x where d is -z.
    """
    d = along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-300)
    turns = np.stack([1.0 + d[:, 2], -d[:, 1], d[:, 0], np.zeros(len(d))], axis=1)
    lengths = np.linalg.norm(turns, axis=1, keepdims=True)
    return np.where(lengths > 1e-7, turns / np.maximum(lengths, 1e-7), [0.0, 1.0, 0.0, 0.0])
