"""The report of a solve: what is in the page, that nothing gets out of its place, and what a browser makes of it."""

import base64
import dataclasses
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import dynamics
import problems
from tests.trajopt.browser import CHROMIUM, Browser
from tests.trajopt.cases import cartpole, pendulum, tip
from tests.trajopt.test_solids import arm, lumpy
from trajopt import DDP, ILQR, ControlBounds, ControlCost, Problem, StateBounds, compare
from trajopt.plotting.report import page as writer
from trajopt.plotting.report.page import between, knots_in_words, layers_of, number, player_scene, tag
from trajopt.plotting.scene import Bodies, Scene, Surface, frame_times, scene_of
from trajopt.results.conflict import conflict

VOID = {"meta", "img", "input"}
WICKED = "</script><script>alert(1)</script> <b>&\"'$x^{$"
SECONDS = 90.0
"""For a browser without a graphics card; it takes a few on an idle machine."""


class Page(HTMLParser):
    """A page that was written: elements must be closed in order, identifiers differ, and links lead somewhere."""

    def __init__(self, path):
        super().__init__()
        self.open, self.ids, self.links, self.texts, self.tags = [], [], [], {}, []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        assert not self.open and len(self.ids) == len(set(self.ids))
        assert {link for link in self.links if not link.startswith("data:image/png;base64,")} <= {
            f"#{name}" for name in self.ids
        }
        assert not re.search(r"https?:|@import|url\(|fetch\(|XMLHttpRequest|\bimport\b", self.source)

    def handle_starttag(self, name, attributes):
        self.tags.append(name)
        given = dict(attributes)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[key] for key in ("href", "src") if key in given]
        assert not any(key.startswith("on") for key in given)
        if name not in VOID:
            self.open.append((name, given.get("id")))

    def handle_endtag(self, name):
        assert self.open.pop()[0] == name

    def handle_data(self, data):
        for key in {*(place for place, _ in self.open), *(name for _, name in self.open)} - {None}:
            self.texts[key] = self.texts.get(key, "") + data


def written(results, folder, **options):
    return Page(results.report(folder / "new" / "report.html", **options))


@pytest.fixture
def sketched(monkeypatch):
    """Pictures that take no time."""
    monkeypatch.setattr("trajopt.plotting.report.page.picture", lambda figure, description: tag("p", description))


def limited():
    """The pendulum with limits that it reaches, named wickedly."""
    plain = pendulum()
    limits = [ControlBounds(-6.0, 6.0), StateBounds(plain.system, upper=[np.inf, 4.0], name=WICKED)]
    return dataclasses.replace(plain, constraints=limits, name=WICKED)


# ------------------------------------------------------------------------------------------------ the page
def test_limits_that_hold_an_infeasible_motion_back_are_not_called_inactive(tmp_path, sketched):
    """The table of constraints has what is in conflict in place of what is active."""
    plain = pendulum()
    far = StateBounds(plain.system, [9.0, -np.inf], at="terminal", name="far")
    solution = DDP().solve(dataclasses.replace(plain, constraints=[ControlBounds(-1.0, 1.0), far]))
    assert solution.status == "infeasible"
    text = written(solution, tmp_path).texts["constraints"]
    assert "in conflict" in text and "multiplier" not in text and "active" not in text
    held = int(np.count_nonzero(conflict(solution)[0]))
    assert held > 0 and f"{held} of 40" in text


def test_what_is_in_it(tmp_path, swing):
    solver = DDP()
    page = written(swing, tmp_path, solver=solver)
    assert page.ids == [
        "problem", "result", "view", "player", "motion", "convergence", "explanation", "timings", "scene",
    ]  # fmt: skip
    assert page.texts["h1"] == "pendulum" and page.tags.count("img") == 2
    sizes = "The system is a Pendulum: 2 numbers to a state, 1 control. It takes 40 steps of 0.05 s, 2 s in all."
    assert sizes in page.texts["problem"] and "There are no constraints." in page.texts["problem"]
    assert f"second order {str(swing.certificate()).lower()}" in page.texts["result"]
    told = re.sub(r"\s+", "", swing.explain(solver))
    assert re.sub(r"\s+", "", page.texts["explanation"]).endswith(told)
    assert f"{swing.cost:.9g}" in page.texts["result"] and "numpy" in page.texts["timings"]
    assert page.texts["convergence"].count("gauss-newton") == sum(r.step == "gauss_newton" for r in swing.log)


def test_names_cannot_get_out(tmp_path, sketched):
    solution = DDP().solve(limited())
    page, plain = written(solution, tmp_path), written(DDP().solve(pendulum()), tmp_path)
    assert page.texts["h1"] == WICKED and page.texts["title"] == f"{WICKED}: report"
    assert page.tags.count("script") == plain.tags.count("script") == 2 and "b" in plain.tags
    assert page.tags.count("b") == plain.tags.count("b")
    report = solution.constraints[1]
    assert report.name == WICKED and WICKED in page.texts["constraints"]
    row, column = np.unravel_index(np.abs(report.multipliers).argmax(), report.multipliers.shape)
    assert f"knot {report.knots[row]}" in page.texts["constraints"]
    assert number(report.multipliers[row, column], 3) in page.texts["constraints"]
    assert tag("p", WICKED, title=WICKED).count("<") == 2


def test_a_page_runs_its_own_script_alone(tmp_path, sketched, swing):
    page = written(swing, tmp_path)
    assert page.source.count("default-src 'none'; script-src 'sha256-") == 1
    assert json.loads(page.texts["scene"])["times"][-1] == pytest.approx(2.0)


def test_a_system_that_cannot_be_drawn(tmp_path, sketched):
    page = written(DDP().solve(cartpole()), tmp_path)
    assert "view" not in page.ids and "player" not in page.ids and page.texts["script"].strip() == ""
    assert {"motion", "convergence", "explanation"} <= set(page.ids)


def test_of_several_solvers(tmp_path, sketched):
    solvers = {"ilqr": ILQR(max_iterations=3), "ddp": DDP()}
    results = compare(tip(), solvers)
    page = written(results, tmp_path, solver=solvers)
    assert page.texts["header"].count("ilqr: max_iterations") == page.texts["header"].count("ddp: converged") == 1
    assert page.texts["view"].strip().startswith("Motion in space") and "That of ddp." in page.texts["view"]
    assert page.texts["explanation"].count("the tolerance is") == 2
    with pytest.raises(ValueError, match="solver: got 'sqp', expected names of 'ilqr', 'ddp'"):
        results.report(tmp_path / "x.html", {"sqp": DDP()})


@pytest.mark.parametrize("start", [0.0, 1e300])
def test_of_a_solve_that_failed(tmp_path, start):
    problem = dataclasses.replace(pendulum(), us_init=np.full((40, 1), start))
    solution = ILQR(max_iterations=1).solve(problem)
    page = written(solution, tmp_path)
    assert not solution.converged and solution.status in page.texts["header"] and "NaN" not in page.texts["result"]


def test_bad_results(tmp_path, sketched, swing):
    with pytest.raises(ValueError, match="solution: got one without its problem"):
        dataclasses.replace(swing, problem=None).report(tmp_path / "x.html")
    with pytest.raises(TypeError, match="solver: got int"):
        swing.report(tmp_path / "x.html", 3)
    other = compare(tip(), {"ddp": DDP(max_iterations=2)})
    with pytest.raises(ValueError, match="results: got 'a' of another problem"):
        dataclasses.replace(other, solutions={**other.solutions, "a": swing}).report(tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


def test_that_of_the_arm_is_small(tmp_path):
    path = DDP().solve(problems.make("arm")).report(tmp_path / "arm.html")
    assert path.stat().st_size < 3e6


def test_large_systems_make_no_large_files(monkeypatch, walk, rng):
    system = dynamics.RigidBodySystem(arm({"shape": lumpy(rng)}), dt=0.05)
    mesh = ILQR(max_iterations=1).solve(Problem(system, np.zeros(4), 4, [ControlCost(1.0)]))

    def sizes(solution):
        scene = writer._scene(solution)
        return sum(len(solid.faces) for solid in scene.solids.solids), len(scene.times), scene.times[-1]

    (fine, K, _), (_, frames, end) = sizes(mesh), sizes(walk)
    monkeypatch.setattr(writer, "FINE", fine - 1)
    assert sizes(mesh)[0] < fine and sizes(mesh)[1] == K
    monkeypatch.setattr(writer, "NUMBERS", 100)
    assert 2 <= sizes(walk)[1] < frames and sizes(walk)[2] == pytest.approx(end)


def test_numbers_and_knots_in_words():
    minus = "\N{MINUS SIGN}"
    told = [number(x) for x in (-0.0, 1000.0, -2.5e-7, np.inf, 1234567.0)]
    assert told == ["0", "1000", f"{minus}2.5e{minus}07", "∞", "1.23457e+06"]
    assert between([1.0, 1.0]) == "1" and between([-np.inf, 2.0]) == f"{minus}∞ … 2"
    words = [knots_in_words(np.array(knots), 9) for knots in ([9], [3], [3, 4, 5], [3, 7], [])]
    assert words == ["at the end", "knot 3", "knots 3 to 5", "2 of knots 3 to 7", "nowhere"]


# ------------------------------------------------------------------------------------------------ the player's numbers
def decoded(text, kind):
    return np.frombuffer(base64.b64decode(text), kind)


def scene_with(segments, bodies):
    """A scene of these alone, a frame each second."""
    K = len(segments)
    nothing = np.empty((K, 0, 3)), np.empty((K, 0, 3)), np.empty((K, 0))
    return Scene(np.arange(float(K)), segments, (), *nothing, bodies)


def test_layers_hold_what_is_seen(walk):
    scene = scene_of(walk, frame_times(walk, 30.0))
    layers = {layer["name"]: layer for layer in player_scene(scene)["layers"]}
    K = len(scene.times)

    def capsules(name):
        return decoded(layers[name]["data"], "<f4").reshape(K, -1, 8)

    ends = capsules("skeleton").reshape(K, -1, 2, 4)[..., :3]
    np.testing.assert_allclose(ends, scene.segments, atol=1e-6)
    np.testing.assert_allclose(capsules("held")[..., :3], scene.points, atol=1e-6)
    assert np.array_equal(capsules("held")[..., 3] > 0.0, scene.held)
    assert np.array_equal(capsules("free")[..., 3] > 0.0, ~scene.held)
    tips = capsules("forces")[:, scene.points.shape[1] :, 4:7]
    np.testing.assert_allclose(tips[scene.held], (scene.points + scene.arrows())[scene.held], atol=1e-6)
    assert {layer.name for layer in layers_of(scene)} == set(layers) and not layers["ground"]["moves"]


def test_arrows_begin_at_their_points(walk):
    """Also those that are shorter than the head of a long one."""
    scene = scene_of(walk, frame_times(walk, 30.0))
    scene = scene._replace(forces=scene.forces * np.linspace(1e-3, 1.0, len(scene.times))[:, None, None])
    (layer,) = (layer for layer in layers_of(scene) if layer.name == "forces")
    arrows, count = scene.arrows()[scene.held], scene.points.shape[1]
    length = np.linalg.norm(arrows, axis=-1)
    shaft, head = (part[scene.held] for part in (layer.capsules[:, :count], layer.capsules[:, count:]))
    np.testing.assert_allclose(shaft[:, :3], scene.points[scene.held])
    along = ((head[:, :3] - shaft[:, :3]) * arrows).sum(axis=-1)
    assert (length < 0.05 * scene.size).any() and (along >= -1e-12 * length).all() and (along <= length**2).all()


def test_bodies_are_where_the_scene_has_them(rng):
    """By the quaternions and positions that the shader takes, halfway between frames too where they hardly turn."""
    K, B = 5, 3
    turns, _ = np.linalg.qr(rng.normal(size=(K, B, 3, 3)))
    turns *= np.sign(np.linalg.det(turns))[..., None, None]
    turns[:, -1], origins = np.eye(3), rng.normal(size=(K, B, 3))
    origins[:, -1] = 0.0
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    color, bodies = (0.1, 0.2, 0.3, 1.0), (1, np.array([0, 1, 2, 0]))
    rigid, bent = (Surface(body, rng.normal(size=(4, 3)), faces, color, "") for body in bodies)
    scene = scene_with(np.zeros((K, 1, 2, 3)), Bodies((rigid, bent), turns, origins))
    mesh = player_scene(scene)["mesh"]
    corners, owners = decoded(mesh["vertices"], "<f4").reshape(-1, 3), decoded(mesh["owners"], "<u2")
    placements = decoded(mesh["placements"], "<f4").reshape(K, mesh["count"], 7)
    assert np.array_equal(decoded(mesh["faces"], "<u4").reshape(-1, 3), np.concatenate([faces, faces + 4]))
    assert [(solid["start"], solid["stop"]) for solid in mesh["solids"]] == [(0, 2), (2, 4)]
    for frame in range(K):
        q, p = placements[frame, owners, :4], placements[frame, owners, 4:]
        world = corners + 2.0 * np.cross(q[:, 1:], np.cross(q[:, 1:], corners) + q[:, :1] * corners) + p
        wanted = [scene.solids.vertices(surface, frame) for surface in (rigid, bent)]
        np.testing.assert_allclose(world, np.concatenate(wanted), atol=1e-5)
    assert ((placements[1:, :, :4] * placements[:-1, :, :4]).sum(axis=-1) >= 0.0).all()


def test_tips_are_the_loose_ends_that_move():
    """A fork on a fixed base, one of whose prongs is there twice; a prong that stays where it is is no tip."""
    a, b, c, d, e = (np.array(p, float) for p in ((0, 0, 0), (0, 0, 1), (1, 0, 1), (0, 1, 1), (0, 0, 2)))
    first = np.array([[a, b], [b, c], [b, c], [d, b], [b, e]])
    later = first.copy()
    later[[1, 2], 1] += 0.1
    later[3, 0] += 0.2
    scene = scene_with(np.stack([first, later]), Bodies((), np.empty((2, 0, 3, 3)), np.empty((2, 0, 3))))
    np.testing.assert_allclose(scene.tips()[1], [later[1, 1], later[3, 0]])
    assert scene._replace(segments=np.empty((2, 0, 2, 3))).tips().shape == (2, 0, 3)


# ------------------------------------------------------------------------------------------------ a browser
PART = "const part = (name) => document.querySelector(`[data-part=${name}]`);"
BOX = "const box = part('canvas').getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]"


class Player:
    """What is done on a page that is open, and seen."""

    def __init__(self, browser):
        self.browser = browser

    def do(self, code):
        return self.browser.evaluate(f"(() => {{ {PART} {code} }})()")

    def seen(self, before=None):
        """The picture in space once it is not uniform, or unlike the one before."""
        self.do("part('canvas').scrollIntoView()")
        left, top, right, bottom = (round(edge) for edge in self.do(BOX))
        inside = slice(max(top, 0) + 3, bottom - 3), slice(left + 3, right - 3)

        def differs(image):
            other = image[inside][0, 0] if before is None else before
            return (np.abs(image[inside] - other).max(axis=-1) > 30).sum() > 60

        return self.browser.photograph_when(differs)[inside]


@pytest.mark.skipif(CHROMIUM is None, reason="needs the program chromium")
def test_a_browser_plays_the_motion(tmp_path, sketched, walk):
    path = walk.report(tmp_path / "walk.html")
    with Browser(tmp_path, (1000, 800), SECONDS) as browser:
        page = Player(browser)
        browser.open(path.as_uri())
        browser.show_as(1000, 800)
        first = page.seen()
        page.do("part('time').value = 0.5 * part('time').max; part('time').dispatchEvent(new Event('input'))")
        halfway = page.seen(first)
        page.do("document.querySelector('[data-layers=skeleton]').click()")
        page.seen(halfway)
        clock = page.do("part('play').click(); return part('clock').textContent")
        while page.do("return part('clock').textContent") == clock:
            pass
        page.do("part('play').click(); part('home').click()")
        assert browser.complaints == []
        browser.show_as(360, 700, "dark")
        assert page.do("return document.documentElement.scrollWidth") <= 360
        assert page.seen()[0, 0].max() < 60
        page.do("complain(player, 'reason')")
        assert page.do("return getComputedStyle(part('canvas')).display") == "none"
        page.do("const s = document.createElement('script'); s.textContent = 'inside = 1'; document.body.append(s)")
        assert page.do("return window.inside") is None and "Content Security Policy" in browser.complaints[-1]
