"""The page in the browser: where its camera stands, what it is told to show, and what a browser makes of it."""

import http.client
import sys
import types
from threading import Event

import numpy as np
import pytest

import problems
from tests.trajopt.browser import CHROMIUM, Browser
from trajopt import view
from trajopt.plotting import viewer
from trajopt.plotting.motion import shapes_of
from trajopt.plotting.scene import FILL, Scene, bodies_at, fitted
from trajopt.plotting.viewer import Viewer, from_here, page_camera

KNOTS = 12
DARK, CHANGED = 120, 12
"""Levels of 255: what is darker belongs to the robot; a pixel that differs by more has changed."""
SECONDS = 90.0
"""For a browser without a graphics card; it takes a few on an idle machine."""
ASPECTS = (4 / 3, 16 / 9)
quiet = pytest.mark.filterwarnings("ignore:websockets:DeprecationWarning")


def scene_along(name):
    """The scene of a benchmark problem on a way to go, from its start; quadrupeds stand on their feet."""
    problem = problems.make(name)
    system, x0 = problem.system, problem.x0
    share, far = np.linspace(0.0, 1.0, KNOTS)[:, None], np.zeros(system.ndx)
    far[:2] = [1.1, -0.5] if name.startswith("arm") else 2.9
    if problem.xs_init is None:
        xs = system.integrate(np.tile(x0, (KNOTS, 1)), share * far)
    else:
        xs = problem.xs_init[:: problem.horizon // KNOTS][:KNOTS]
    points, center = np.empty((KNOTS, 0, 3)), np.empty((KNOTS, 0))
    if name.startswith("quadruped"):
        points, center = system.contact_points(xs), system.center_of_mass(xs)
    low = points[..., 2:] < points[..., 2].min(initial=0.0) + 1e-3
    bodies = bodies_at(system, xs, fine=False)
    forces = low * [0.0, 0.0, 50.0]
    return Scene(problem.times[:KNOTS], system.skeleton(xs), shapes_of(problem), points, forces, center, bodies)


@pytest.fixture(scope="module")
def scenes():
    return {name: scene_along(name) for name in ("arm_obstacle", "quadruped_trot", "pendulum", "unicycle_obstacles")}


# ------------------------------------------------------------------------------------------------ who may see it
@pytest.mark.parametrize(
    ("hosts", "origins", "served", "allowed"),
    [
        (["127.0.0.1:8080"], [], "127.0.0.1", True),
        (["127.0.0.1:8080"], ["http://127.0.0.1:8080"], "127.0.0.1", True),
        (["localhost:8080"], ["http://localhost:8080"], "127.0.0.1", True),
        (["[::1]:8080"], ["http://[::1]:8080"], "::1", True),
        (["10.0.0.7:8080"], ["http://10.0.0.7:8080"], "0.0.0.0", True),
        (["127.0.0.1:8080"], ["http://evil.example"], "127.0.0.1", False),
        (["127.0.0.1:8080"], ["http://127.0.0.1:9090"], "127.0.0.1", False),
        (["127.0.0.1:8080"], ["null"], "127.0.0.1", False),
        (["127.0.0.1:8080"], ["http://127.0.0.1:8080", "http://evil.example"], "127.0.0.1", False),
        (["evil.example:8080"], ["http://evil.example:8080"], "127.0.0.1", False),
        (["evil.example"], [], "0.0.0.0", False),
        (["127.0.0.1", "evil.example"], [], "127.0.0.1", False),
        (["["], [], "127.0.0.1", False),
        ([""], [], "127.0.0.1", False),
        ([], [], "127.0.0.1", False),
    ],
)
def test_only_the_page_itself_is_from_here(hosts, origins, served, allowed):
    assert from_here(hosts, origins, served) == allowed


@quiet
@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 200), ({"Host": "evil.example"}, 403), ({"Origin": "http://evil.example"}, 403)],
)
@pytest.mark.parametrize("socket", [False, True])
def test_pages_from_elsewhere_are_refused(scenes, headers, status, socket):
    viser = pytest.importorskip("viser")
    upgrade = {
        "Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": f"viser-v{viser.__version__}",
    }  # fmt: skip
    with Viewer(scenes["pendulum"], "swing", viser, 0) as page:
        connection = http.client.HTTPConnection("127.0.0.1", page.server.get_port(), timeout=SECONDS)
        connection.request("GET", "/", headers=headers | (upgrade if socket else {}))
        answer = connection.getresponse()
        assert answer.status == (101 if socket and status == 200 else status)
        connection.close()


# ------------------------------------------------------------------------------------------------ the camera
@pytest.mark.parametrize("aspect", [0.6, 1.0, 2.5])
def test_the_camera_is_as_near_as_it_can_be(rng, aspect):
    for points in (rng.normal(size=(40, 3)) * [3.0, 0.2, 1.0] + 5.0, rng.normal(size=(1, 3)), np.zeros((2, 3))):
        view_from = rng.uniform(-90.0, 90.0), rng.uniform(-180.0, 180.0)
        camera = fitted(points, view_from, aspect)
        seen = np.abs(camera.project(points, aspect))
        assert seen.max() <= FILL + 1e-9
        if len(points) > 2:
            assert seen.max() == pytest.approx(FILL)
        elevation, azimuth = np.radians(view_from)
        back = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
        away = camera.position - camera.look_at
        np.testing.assert_allclose(away / np.linalg.norm(away), back, atol=1e-9)


@pytest.mark.parametrize("name", ["arm_obstacle", "quadruped_trot", "pendulum"])
@pytest.mark.parametrize("aspect", ASPECTS)
def test_the_motion_fills_the_picture(scenes, name, aspect):
    scene = scenes[name]
    camera = page_camera(scene, aspect)
    assert np.abs(camera.project(scene.drawn(), aspect)).max() == pytest.approx(FILL)
    robot = camera.project(scene.segments.reshape(-1, 3), aspect)
    assert np.ptp(robot[:, 1]) / 2.0 > 1 / 3


@pytest.mark.parametrize(
    ("name", "height"),
    [("arm_obstacle", 0.0), ("quadruped_trot", 0.0), ("unicycle_obstacles", 0.0), ("pendulum", None)],
)
def test_the_ground_is_what_the_system_stands_on(scenes, name, height):
    scene = scenes[name]
    assert scene.ground == (height if height is None else pytest.approx(height, abs=1e-3))
    if name == "arm_obstacle":  # reaching under its base, it cannot stand on a plane
        assert scene._replace(segments=scene.segments * [1.0, 1.0, -1.0]).ground is None
    assert scene.flat == {"pendulum": 1, "unicycle_obstacles": 2}.get(name)


# ------------------------------------------------------------------------------------------------ the page
def test_the_page_needs_viser(swing, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(ImportError, match=r"trajopt.view needs viser: pip install '"):
        view(swing)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": 70000}, "port: got 70000, expected at most 65535"),
        ({"port": -1}, "port: got -1, expected an integer >= 0"),
        ({"host": ""}, "host: got '', expected an address of this machine"),
        ({"host": "192.0.2.1"}, "host: got '192.0.2.1', which is no address of this machine"),
    ],
)
def test_where_no_page_can_be(swing, monkeypatch, options, message):
    monkeypatch.setitem(sys.modules, "viser", types.ModuleType("viser"))
    with pytest.raises(ValueError, match=message):
        view(swing, **options)


def ends_of(page):
    """Ends (S, 2, 3) of the tubes of a page."""
    tubes = page.skeleton[0]
    w, x, y, z = np.transpose(tubes.batched_wxyzs)
    np.testing.assert_allclose(w**2 + x**2 + y**2 + z**2, 1.0, rtol=1e-6)
    axis = np.stack([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x**2 + y**2)], axis=1)
    half = 0.5 * tubes.batched_scales[:, 2:] * axis
    return np.stack([tubes.batched_positions - half, tubes.batched_positions + half], axis=1)


@quiet
def test_a_page_shows_what_the_slider_says(walk):
    pytest.importorskip("viser")
    with view(walk, port=0, block=False) as page:
        assert page.url == f"http://127.0.0.1:{page.server.get_port()}" and not page.playing.value
        scene = page.scene
        for seconds in (0.0, 0.7):
            page.slider.value = seconds
            frame = int(np.abs(scene.times - seconds).argmin())
            np.testing.assert_allclose(ends_of(page), scene.segments[frame], atol=1e-6)
            np.testing.assert_allclose(page.skeleton[1].batched_positions, scene.segments[frame].reshape(-1, 3))
            np.testing.assert_allclose([p.position for p in page.points], scene.points[frame], atol=1e-6)
            assert [force.visible for force in page.forces] == scene.held[frame].tolist()
            colors = {bool(h): tuple(p.color) for p, h in zip(page.points, scene.held[frame], strict=True)}
            assert len(set(colors.values())) == 2
        before, moved = page.slider.value, Event()
        page.slider.on_update(lambda _: moved.set())
        page.playing.value = True
        assert moved.wait(20.0) and page.slider.value != before
    page.close()  # a second time, to no effect


@quiet
def test_a_page_of_a_system_without_contacts(swing):
    pytest.importorskip("viser")
    with view(swing, port=0, block=False) as page:
        assert page.points == [] and page.center is None and page.ground == []
        for seconds in swing.problem.times:
            page.show(seconds)
            assert np.isfinite(page.skeleton[0].batched_wxyzs).all()


@quiet
def test_an_interrupt_ends_the_page_quietly(swing, monkeypatch):
    viser = pytest.importorskip("viser")
    stopped = []
    stop = viser.ViserServer.stop
    monkeypatch.setattr(viser.ViserServer, "stop", lambda server: stopped.append(stop(server)))

    class Interrupted(Event().__class__):
        def wait(self, timeout=None):
            if timeout is None:
                raise KeyboardInterrupt
            return super().wait(timeout)

    monkeypatch.setattr(viewer, "Event", Interrupted)
    view(swing, port=0)
    assert len(stopped) == 1


@quiet
@pytest.mark.skipif(CHROMIUM is None, reason="needs the program chromium")
def test_a_browser_shows_robot_obstacle_and_ground(scenes, tmp_path):
    viser = pytest.importorskip("viser")
    scene = scenes["arm_obstacle"]
    ball = scene.shapes[0].center
    with Viewer(scene, "arm", viser, 0) as page, Browser(tmp_path, (800, 500), seconds=SECONDS) as browser:
        browser.open(page.url)

        def hide(before, handles, least):
            """The page once these are hidden, and which pixels that changes, at least so many."""
            for handle in handles:
                handle.visible = False
            changed = lambda image: (np.abs(image - before) > CHANGED).any(axis=2)  # noqa: E731
            now = browser.photograph_when(lambda image: changed(image).sum() > least)
            return now, changed(now)

        dark = lambda image: image.max(axis=2) < DARK  # noqa: E731
        full = browser.photograph_when(lambda image: dark(image[len(image) // 2 :]).sum() > 300)  # no text down there
        (client,) = page.server.get_clients().values()
        camera = page_camera(scene, client.camera.aspect)
        np.testing.assert_allclose(client.camera.position, camera.position, atol=1e-3)
        bare, changed = hide(full, page.skeleton, least=600)
        robot = changed & dark(full)  # not its shadow
        rows = np.flatnonzero(robot.sum(axis=1) > 1)
        assert np.ptp(rows) > 0.2 * len(full)
        without_ball, changed = hide(bare, page.scenery[:1], least=300)
        right, up = camera.project(ball, client.camera.aspect)
        height, width = client.camera.image_height, client.camera.image_width
        scale = len(full) / height
        at = scale * np.array([0.5 * height * (1.0 - up), 0.5 * width * (1.0 + right)])
        assert changed[tuple(np.rint(at).astype(int))]  # its middle
        _, changed = hide(without_ball, page.ground, least=300)
        assert np.ptp(np.flatnonzero(changed.any(axis=0))) > 0.5 * width * scale
