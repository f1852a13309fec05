"""The experiment of the gallery: what it measures and draws, what it leaves alone, and how far off plans are."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import dynamics
import problems
import trajopt
from experiments.gallery import hero, plans
from experiments.gallery.__main__ import main
from experiments.gallery.pictures import EDGE, SIZE, Look, write_picture

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where it wrote a problem, and then another."""
    folder = tmp_path_factory.mktemp("gallery")
    (folder / "pendulum.webp").touch()  # drawn when it moved
    for name in ("pendulum_limits", "pendulum"):
        assert main(["--only", name, "--turns", "1", "--out", str(folder)]) == 0
    return folder


def test_what_is_known_of_others_stays(folder):
    found = json.loads((folder / "gallery.json").read_text())["problems"]
    assert list(found) == ["pendulum", "pendulum_limits"]
    assert sorted(path.name for path in folder.iterdir()) == ["gallery.json", "pendulum.png", "pendulum_limits.webp"]


def test_figures_are_those_of_the_solvers(folder):
    found = json.loads((folder / "gallery.json").read_text())["problems"]["pendulum_limits"]
    problem = problems.make("pendulum_limits")
    for key, solver in {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()}.items():
        solution, told = solver.solve(problem), found["solvers"][key]
        assert (told["iterations"], told["cost"]) == (solution.iterations, solution.cost)
    assert found["size"] == {"knots": 100, "nx": 2, "nu": 1} and found["duration"] == 4.0 and found["threads"] == 1


def dark(picture):
    """Where something is drawn."""
    return np.asarray(picture.convert("L")) < 200


def test_a_still_fills_its_picture(folder):
    seen = np.argwhere(dark(Image.open(folder / "pendulum.png")))
    margins = np.r_[seen.min(axis=0), np.array(SIZE[::-1]) - 1 - seen.max(axis=0)] / np.tile(SIZE[::-1], 2)
    assert margins.min() == pytest.approx(EDGE, abs=0.02)
    assert margins[:2] == pytest.approx(margins[2:], abs=0.02)  # in the middle


def test_what_moves_moves(folder):
    with Image.open(folder / "pendulum_limits.webp") as picture:
        frames = []
        for k in (0, picture.n_frames - 1):
            picture.seek(k)
            frames.append(dark(picture))
    down, up = frames
    half = SIZE[1] // 2
    assert down[half + 5 :].any() and not down[: half - 5].any() and up[: half - 5].any()


def test_more_poses_are_more_lines(folder, tmp_path):
    solution = trajopt.DDP().solve(problems.make("pendulum"))
    ink = []
    for poses in (2, 9):
        shown = write_picture(solution, tmp_path / "pendulum.png", Look(poses=poses))["shows"]
        ink.append(dark(Image.open(tmp_path / "pendulum.png")).sum())
    assert ink[1] > 1.5 * ink[0] and shown == ["tips", "center"]


def test_plans_of_problems_and_pages_are_executed(tmp_path, capsys):
    """A page's plan, one of a system that has no finer steps, and one without a picture."""
    assert plans.main(["--only", "docs/index.md", "car_parking", "--out", str(tmp_path)]) == 0
    page, parking = json.loads((tmp_path / "plans.json").read_text())["plans"]
    assert page["plan"] == "docs/index.md: solution" and page["integrator"] == "rk4"
    assert 0.0 < page["off"]["open loop"]["end"] <= page["off"]["open loop"]["largest"] < 1.0
    assert parking["off"] is None and "car_parking" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="2"):
        plans.main(["--only", "nowhere.py"])


def test_a_pendulum_is_off_by_its_angle():
    """The bob of 1 m by Euler's method: a chord of what the angle is off, by the controls alone and with the gains."""
    solution = trajopt.DDP().solve(problems.make("pendulum", horizon=100, dt=0.02, integrator="semi_implicit_euler"))
    fine = dynamics.RigidBodySystem(solution.problem.system.model, 1e-3, "rk4")
    for policy, gain in (("open loop", 0.0), ("feedback", 1.0)):
        xs = [solution.xs[0]]
        for x, u, K in zip(solution.xs, solution.us, solution.K, strict=False):
            u = u + gain * K @ (xs[-1] - x)
            xs.append(fine.rollout(xs[-1], np.tile(u, (20, 1)))[-1])
        chords = 2e3 * np.abs(np.sin(0.5 * (np.array(xs) - solution.xs)[:, 0]))
        np.testing.assert_allclose(plans.distances(solution, policy), chords, atol=1e-6)
        assert chords.max() > 10.0


def test_the_picture_of_the_first_page(tmp_path):
    """It has bodies, a shadow and forces, as many frames as asked for, and not too many bytes; so has the copy."""
    assert hero.main(["--frames", "2", "--out", str(tmp_path)]) == 0
    told = json.loads((tmp_path / "hero.json").read_text())
    assert told["status"] == "converged" and told["shows"] == ["contacts", "center"]
    shown = ROOT / "docs" / "_static" / "hero.webp"
    for path, count in ((tmp_path / "hero.webp", 2), (shown, 40)):
        assert path.stat().st_size <= hero.LOOK.largest
        with Image.open(path) as picture:
            assert picture.size == hero.LOOK.size and picture.n_frames == count
            pixels = np.asarray(picture.convert("RGB")).reshape(-1, 3)
        for color in ((73, 92, 117), (211, 206, 193)):  # the trunk in the light, and the shadow
            assert (np.abs(pixels.astype(int) - color).max(axis=1) < 20).mean() > 0.01
