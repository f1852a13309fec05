"""Moving pictures: files, and what the frames show; a point on two feet stands for a robot."""

import dataclasses
import os
import pickle
import re
import sys
from base64 import b64decode
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.animation import FFMpegWriter
from PIL import Image

from tests.trajopt.systems import LinearSystem, Walker
from trajopt import ILQR, ControlCost, ControlRateSystem, Problem, Solution, StateCost, animate
from trajopt.plotting import MovingPicture, animation
from trajopt.plotting.scene import frame_times, scene_of
from trajopt.plotting.stage import SceneFigure
from trajopt.problem.scenery import Lines

SMALL = (240, 180)


def frames(path):
    """Frames (n, height, width, 3) of a GIF, and what each lasts, ms."""
    with Image.open(path) as picture:
        images, lasting = [], []
        for i in range(picture.n_frames):
            picture.seek(i)
            lasting.append(picture.info["duration"])
            images.append(np.asarray(picture.convert("RGB")))
    return np.array(images), lasting


# ------------------------------------------------------------------------------------------------ files
def test_frames_of_a_gif(walk, tmp_path):
    path = animate(walk, tmp_path / "new" / "walk.gif", fps=10, size=SMALL)
    assert path == tmp_path / "new" / "walk.gif" and [p.name for p in path.parent.iterdir()] == ["walk.gif"]
    images, lasting = frames(path)
    assert images.shape == (10, 180, 240, 3) and lasting == [100] * 10  # 0.9 s
    for one, next_one in pairwise(images):
        assert (one != next_one).any(axis=-1).sum() > 50
    for image in images:
        drawn = (image != image[0, 0]).any(axis=-1)
        assert tuple(image[0, 0]) == (255, 255, 255) and 500 < drawn.sum() < 0.5 * drawn.size
        assert not drawn[:2].any() and not drawn[-1:].any() and not drawn[:, :2].any() and not drawn[:, -2:].any()


@pytest.mark.parametrize(
    ("fps", "speed", "count", "lasting"), [(30, 2.0, 16, 30), (5, 0.5, 10, 200), (1000, 9.0, 6, 20)]
)
def test_rate_and_speed(walk, tmp_path, fps, speed, count, lasting):
    images, durations = frames(animate(walk, tmp_path / "walk.gif", fps=fps, speed=speed, size=(100, 100)))
    assert len(images) == count and set(durations) == {lasting}


def test_a_file_is_the_same_every_time(swing, tmp_path):
    one, two = (animate(swing, tmp_path / name, fps=2, size=SMALL).read_bytes() for name in ("one.gif", "two.gif"))
    assert one == two
    turned = animate(swing, tmp_path / "three.gif", fps=2, size=SMALL, view=(30.0, 20.0)).read_bytes()
    assert turned != one
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_nothing_half_written_is_left(swing, tmp_path, monkeypatch):
    def fail(self, frame, caption):
        if frame == 2:
            raise OSError("disk full")

    monkeypatch.setattr(animation.SceneFigure, "show", fail)
    (tmp_path / "swing.gif").write_text("before")
    with pytest.raises(OSError, match="disk full"):
        animate(swing, tmp_path / "swing.gif", size=SMALL)
    assert [p.name for p in tmp_path.iterdir()] == ["swing.gif"] and (tmp_path / "swing.gif").read_text() == "before"


# ------------------------------------------------------------------------------------------------ what is drawn
def test_the_scene_between_knots_and_across_an_impact(walk):
    knots = walk.problem.times
    np.testing.assert_allclose(knots, np.r_[np.arange(6), np.arange(5, 10)] / 10)
    times = np.array([0.0, 0.25, 0.5, 0.84, 0.9])
    scene = scene_of(walk, times)
    expected = np.array([walk.xs[0], walk.xs[2:4].mean(axis=0), walk.xs[6], walk.xs[9:].T @ [0.6, 0.4], walk.xs[10]])
    np.testing.assert_allclose(scene.center[:, :2], expected, atol=1e-12)
    np.testing.assert_array_equal(scene.held, [[True, False], [True, False], *[[False, True]] * 3])
    np.testing.assert_allclose(scene.points[:, 0] - scene.center, np.tile([0.3, 0.2, -1.0], (5, 1)), atol=1e-12)
    assert scene.ground == pytest.approx(0.0) and scene.newtons_per_metre == 100.0
    assert scene.size == pytest.approx(1.0)
    np.testing.assert_allclose(scene.arrows()[0, 0], [0.0, 0.03, 0.2])


def test_frame_times_end_at_the_last_knot(walk):
    np.testing.assert_allclose(frame_times(walk, 2.0), [0.0, 0.5, 0.9])
    np.testing.assert_allclose(frame_times(walk, 10.0), np.arange(10) / 10)


def test_the_largest_arrow_is_a_good_share_of_the_robot(walk):
    scene = scene_of(walk, np.array([0.0, 0.9]))
    for factor in 10.0 ** np.linspace(-3, 5, 23):
        scaled = scene._replace(forces=factor * scene.forces)
        longest = np.linalg.norm(scaled.arrows(), axis=-1).max()
        assert 0.11 < longest <= 0.3 + 1e-9
        assert f"{scaled.newtons_per_metre:.0e}"[0] in "125"


def test_points_at_several_heights_stand_on_no_plane(walk):
    scene = scene_of(walk, np.array([0.0, 0.9]))
    assert scene._replace(points=scene.points + [[[0.0, 0.0, 0.0]], [[0.0, 0.0, 0.1]]]).ground is None
    assert scene._replace(forces=np.zeros_like(scene.forces)).ground is None


@pytest.mark.parametrize("follow", [False, True])
def test_nothing_leaves_the_picture(walk, follow):
    scene = scene_of(walk, frame_times(walk, 25.0))
    stage = SceneFigure(scene, None, follow, (3.0, 2.0))
    for box, points in zip(stage.boxes, scene.moving(), strict=True):
        assert box.holds(points).all()
    sides = np.array([box.high - box.low for box in stage.boxes])
    np.testing.assert_allclose(sides, sides[:1].repeat(len(sides), axis=0))
    assert (sides[0, 0] < 1.0) == follow and (sides[0, 0] > 3.0) == (not follow)
    axes = stage.figure.axes[0]
    for frame in (0, len(scene.times) - 1):
        stage.show(frame, "")
        corners = np.stack(np.meshgrid(*zip(*stage.boxes[frame], strict=True))).reshape(3, -1)
        x, y, _, w = axes.get_proj() @ np.vstack([corners, np.ones(8)])
        seen = axes.transData.transform(np.stack([x / w, y / w], axis=1)) / stage.figure.bbox.size
        assert seen.min() > 0.03 and seen.max() < 0.97
        limits = [getattr(axes, f"get_{name}lim")() for name in "xyz"]
        np.testing.assert_allclose(np.transpose(limits), stage.boxes[frame])


def points_of(line):
    return np.stack(line.get_data_3d(), axis=1)


def test_contacts_forces_and_the_path(walk):
    scene = scene_of(walk, np.array([0.0, 0.5, 0.9]))
    stage = SceneFigure(scene, None, False, (3.0, 2.0))
    axes = stage.figure.axes[0]
    stage.show(0, "now")
    trail, free, held, center = axes.lines
    assert np.array_equal(points_of(held), scene.points[0, :1]) and np.array_equal(points_of(free), scene.points[0, 1:])
    stage.show(2, "then")
    assert np.array_equal(points_of(held), scene.points[2, 1:]) and np.array_equal(points_of(free), scene.points[2, :1])
    assert held.get_markerfacecolor() != free.get_markerfacecolor() == "white"
    assert np.array_equal(points_of(trail), scene.center) and np.array_equal(points_of(center), scene.center[2:])
    quivers = [c for c in axes.collections if c.get_zorder() == 4]
    assert len(quivers) == 1  # that of the frame before is gone
    assert stage.figure.get_suptitle() == "then"
    assert [text.get_text() for text in stage.figure.legends[0].get_texts()] == [
        "contact", "no contact", "contact force, 100 N per m", "centre of mass",
    ]  # fmt: skip


def test_a_system_without_contacts(swing):
    scene = scene_of(swing, frame_times(swing, 10.0))
    assert scene.points.shape == (len(scene.times), 0, 3) and scene.center.shape[1] == 0 and scene.ground is None
    stage = SceneFigure(scene, None, False, (3.0, 2.0))
    assert not stage.figure.legends
    axes = stage.figure.axes[0]
    assert (axes.elev, axes.azim) == (0.0, -90.0)  # it stays in the x-z plane
    assert SceneFigure(scene, (10.0, 20.0), False, (3.0, 2.0)).figure.axes[0].elev == 10.0


def test_scenery_is_in_the_box(swing):
    scene = scene_of(swing, np.array([0.0]))
    wall = np.array([[[2.0, 0.0, 0.0], [2.0, 0.0, 3.0]]])
    (box,) = SceneFigure(scene._replace(shapes=(Lines(wall),)), None, False, (3.0, 2.0)).boxes
    assert box.holds(wall).all()


def test_a_system_of_control_rates_shows_the_one_inside(walk):
    inner = Walker()
    system = ControlRateSystem(inner)
    zs, us = np.hstack([walk.xs, np.zeros((11, 2))]), walk.us
    np.testing.assert_array_equal(system.contact_points(zs), inner.contact_points(walk.xs))
    np.testing.assert_array_equal(system.contact_forces(zs, us), inner.contact_forces(walk.xs, us))
    np.testing.assert_array_equal(system.center_of_mass(zs), inner.center_of_mass(walk.xs))


# ------------------------------------------------------------------------------------------------ errors
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fps": 0}, "fps: got 0, expected a positive number"),
        ({"speed": np.nan}, "speed: got nan"),
        ({"fps": True}, "fps: got True"),
        ({"view": (1.0,)}, r"view: got \(1.0,\), expected \(elevation, azimuth\)"),
        ({"view": (np.inf, 0.0)}, "view"),
        ({"size": (720, 20)}, r"size: got \(720, 20\), expected .* at least 100 pixels"),
    ],
)
def test_options_out_of_range(swing, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        animate(swing, tmp_path / "a.gif", **options)


def test_what_cannot_be_animated(swing, walk, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"path: got 'a.avi', expected a name that ends in .gif or .mp4"):
        animate(swing, tmp_path / "a.avi")
    with pytest.raises(TypeError, match="solution: got dict, expected a Solution"):
        animate({}, tmp_path / "a.gif")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="solution: got one without its problem"):
        animate(Solution.load(swing.save(tmp_path / "swing.npz")), tmp_path / "a.gif")
    xs = swing.xs.copy()
    xs[3] = np.nan
    with pytest.raises(ValueError, match=r"solution: xs\[3, 0\]: got nan, expected finite"):
        animate(dataclasses.replace(swing, xs=xs), tmp_path / "a.gif")
    bare = LinearSystem(np.eye(2), np.eye(2))
    problem = Problem(bare, [0.0, 0.0], 2, [ControlCost(1.0)], [StateCost(bare, [1.0, 0.0], 1.0)])
    with pytest.raises(TypeError, match=r"its system is a LinearSystem without skeleton\(xs\)"):
        animate(ILQR().solve(problem), tmp_path / "a.gif")
    monkeypatch.setattr(walk.problem.system, "contact_points", lambda xs: np.zeros((len(xs), 2)), raising=False)
    with pytest.raises(ValueError, match=r"contact_points: got shape \(\d+, 2\), expected \(\d+, points, 3\)"):
        animate(walk, tmp_path / "a.gif")
    monkeypatch.setattr(FFMpegWriter, "isAvailable", classmethod(lambda cls: False))
    with pytest.raises(RuntimeError, match=r"path: got an .mp4, which needs the program ffmpeg"):
        animate(swing, tmp_path / "a.mp4")
    assert [p.name for p in tmp_path.iterdir()] == ["swing.npz"]


def test_the_path_of_a_picture_shows_it(swing, tmp_path):
    picture = animate(swing, str(tmp_path / "swing.gif"), fps=2, size=SMALL)
    assert isinstance(picture, Path) and picture == tmp_path / "swing.gif" and str(picture) == os.fspath(picture)
    assert pickle.loads(pickle.dumps(picture)) == picture and picture.parent == tmp_path
    data = re.fullmatch(r'<img src="data:image/gif;base64,(.*)" alt="swing.gif">', str(picture._repr_html_()))[1]
    assert b64decode(data) == picture.read_bytes()
    assert picture.parent._repr_html_() is None
    picture.unlink()
    assert picture._repr_html_() is None


def test_a_film_is_a_video(tmp_path):
    film = MovingPicture(tmp_path / "a.mp4")
    film.write_bytes(b"film")
    assert re.match(r'<video src="data:video/mp4;base64,ZmlsbQ==" title="a.mp4" controls', str(film._repr_html_()))
