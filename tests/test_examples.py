"""The examples run, and README and site show them as they are."""

import ast
import importlib.util
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import trajopt
from experiments.gallery.plans import distances
from experiments.wheel import extra_of, lacking, scripts

ROOT = Path(__file__).parents[1]
OURS = {"trajopt", "dynamics", "problems"}
DEPENDENCIES = {"numpy", "scipy", "numba", "matplotlib", "rich"}


def run(name):
    """What an example leaves; the test is skipped where the extra that it says it needs is not installed."""
    if why := lacking(scripts()[name]):
        pytest.skip(why)
    return runpy.run_path(str(scripts()[name]))


def test_every_example_runs_in_a_test():
    """By its name: in this file, or beside the experiment that it belongs to."""
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    told = set(re.findall(r'\brun\("(\w+)"\)', source)) | set(re.findall(r'"examples" / "(\w+)\.py"', source))
    assert set(scripts()) <= told


@pytest.mark.parametrize("name", scripts())
def test_examples_say_which_extra_they_need(name):
    """Whatever else is imported; what an example has fetched for it is not seen here."""
    tree = ast.parse(scripts()[name].read_text(encoding="utf-8"))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    others = {module.split(".")[0] for module in imported} - OURS - DEPENDENCIES - set(sys.stdlib_module_names)
    assert others <= {extra_of(scripts()[name])}, "a library that no extra of this name brings"
    assert lacking(scripts()[name]) or all(importlib.util.find_spec(library) for library in others)


def test_what_an_example_lacks(tmp_path):
    script = tmp_path / "some.py"
    script.write_text('"""Does much; it needs the extra `test`."""\n')
    assert extra_of(script) == "test" and "pytest" not in lacking(script)
    script.write_text('"""Does more; it needs the extra `torch`."""\n')
    found = importlib.util.find_spec("torch") is not None
    assert lacking(script) == ("" if found else "some needs the extra torch, without which torch is missing")
    script.write_text('"""Does little."""\n')
    assert extra_of(script) is None and lacking(script) == ""


@pytest.mark.parametrize("number, name", [(0, "quick_start"), (1, "custom_dynamics")])
def test_readme_shows_the_scripts(number, name):
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
    script = (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8")
    assert code[number].strip() == script.split("\n\n", 1)[1].strip()


def test_readme_is_short_and_names_pages_that_exist():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 250
    pages = re.findall(r"`(docs/[\w/]+\.md)`", text)
    assert len(pages) > 20
    for page in pages:
        assert (ROOT / page).is_file(), page


def test_the_site_shows_every_example():
    """Each script once, included from its file, with its name in the table."""
    folder = ROOT / "docs" / "examples"
    pages = {path: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    blocks = r"```{literalinclude} ../../examples/(\w+)\.py\n:language: python\n```"
    included = re.findall(blocks, "".join(pages.values()))
    assert sorted(included) == sorted(scripts())
    table = pages[folder / "index.md"]
    assert all(f"`{name}`" in table for name in scripts())


@pytest.mark.parametrize(
    "name, lines",
    [
        ("quick_start", 40),
        ("custom_dynamics", 65),
        ("derivatives", 40),
        ("quadruped", 50),
        ("humanoid", 20),
        ("two_arms", 50),
        ("gripper", 65),
        ("soft_arm", 45),
        ("buckling", 35),
        ("chambers", 45),
        ("waypoints", 50),
        ("execution", 40),
        ("sensitivity", 55),
        ("continuation", 35),
        ("panda_job", 75),
        ("feedback", 45),
    ],
)
def test_examples_are_short(name, lines):
    assert len((ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8").splitlines()) < lines


def test_quick_start_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = run("quick_start")
    assert result["solutions"].converged
    assert all(distances(solution, "open loop").max() < 1.0 for solution in result["solutions"].values())
    assert "ddp" in capsys.readouterr().out
    assert {p.name for p in (tmp_path / "results" / "quick_start").iterdir()} == {"convergence.png", "motion.png"}


def test_derivatives_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = run("derivatives")
    assert abs(result["missing"][0] - 0.3) < 1e-9 and "0.300 kg" in capsys.readouterr().out
    assert result["tensors"].nbytes < 2e5 and result["Hqq"].shape == (64, 6, 6)
    given = result["arm_given"]
    assert np.array_equal(result["accelerations"][:, given], result["a"][:, given])
    assert not result["torques"][:, ~given].any()


def test_custom_dynamics_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = run("custom_dynamics")
    solution, again = result["solution"], result["again"]
    assert solution.converged and again.converged and again.iterations < solution.iterations
    clearance = result["pillar"].evaluate(solution.xs[1:], None)
    assert -1e-6 < clearance.min() < 1e-6, "the shortest way touches the pillar"
    assert np.abs(again.us - solution.us).max() < 1e-5
    printed = capsys.readouterr().out
    assert "agree with differences" in printed and "Constraint 'pillar'" in printed


def test_quadruped_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = run("quadruped")
    solutions, system = result["solutions"], result["system"]
    assert solutions.converged and solutions["ddp"].iterations <= solutions["ilqr"].iterations
    assert solutions["ddp"].cost == pytest.approx(solutions["ilqr"].cost, rel=1e-8)
    foot = system.contact_points(solutions["ddp"].xs)[:, system.contact_frames.index("rf_foot")]
    assert np.abs(foot[-1] - result["foothold"]).max() < 1e-3 and foot[:, 2].max() > 0.02
    assert (result["forces"][..., 2] > -1e-6).all() and "N weight" in capsys.readouterr().out
    assert (tmp_path / "results" / "quadruped" / "step.gif").stat().st_size > 1e4


def test_feedback_runs(capsys):
    result = run("feedback")
    assert result["feedback"].exact and max(result["off"]) < 0.1 and len(result["off"]) == 60
    assert "us from sample to torques" in capsys.readouterr().out


def test_humanoid_runs(capsys):
    """The pressure reaches the limits of the smaller soles, and stays within by what drifting soles turn."""
    result = run("humanoid")
    solutions = result["solutions"]
    assert solutions.converged and solutions["ddp"].iterations < solutions["ilqr"].iterations
    assert solutions["ddp"].cost == pytest.approx(solutions["ilqr"].cost, rel=1e-8)
    assert "ddp    converged" in capsys.readouterr().out
    xs, us, system = solutions["ddp"].xs, solutions["ddp"].us, result["problem"].system
    f, m = system.contact_forces(xs, us), system.contact_moments(xs, us)
    pressed = f[..., 2] > 0.0
    places = np.abs(m[pressed][:, [1, 0]] / f[pressed][:, 2:])
    assert ([0.1, 0.06] - places).min() == pytest.approx(0.02, abs=1e-4)


def test_soft_arm_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = run("soft_arm")
    solutions = result["solutions"]
    assert result["rest"].converged and solutions.converged and result["missed"] < 1e-3
    assert solutions["ddp"].cost == pytest.approx(solutions["ilqr"].cost, rel=1e-8)
    assert solutions["ddp"].iterations < solutions["ilqr"].iterations
    assert "converged: tip at rest" in capsys.readouterr().out
    assert (solutions["ddp"].us[:, :3] >= 0.0).all()
    assert all((tmp_path / "results" / "soft_arm" / f"{name}.gif").stat().st_size > 1e4 for name in ("reach", "motion"))


def test_a_strip_buckles(capsys):
    result = run("buckling")
    assert result["straight"].critical_kinds[0] == "bifurcation"
    assert result["buckling"] == pytest.approx(result["euler"], rel=1e-3) and result["rest"].stable
    assert "0.9 of it: hinges 0.5000 m apart, first mode 2.90 Hz" in capsys.readouterr().out


def test_chambers_reach(capsys):
    result = run("chambers")
    assert result["rest"].converged and result["bent"].converged and result["pushed"].converged
    assert result["solution"].converged and result["missed"] < 1e-3 and (result["solution"].us >= 0.0).all()
    assert "tip at rest, under pressure, pushed in the middle" in capsys.readouterr().out


def test_a_magnet_bends_a_catheter_around_a_ball(capsys):
    result = run("magnetic_catheter")
    assert result["rest"].converged and result["solution"].converged and result["missed"] < 1e-3
    assert result["robot"].control_names == ("Bx", "By", "Bz") and result["touch"].depths.max() > 1e-3
    assert "the ball is pressed with" in capsys.readouterr().out


def test_two_arms_lift_a_bar(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = run("two_arms")
    assert result["solution"].converged
    assert "largest force on the bar" in capsys.readouterr().out
    assert (tmp_path / "results" / "two_arms" / "lift.gif").stat().st_size > 0


def test_a_gripper_opens(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = run("gripper")
    assert result["solution"].converged and result["robot"].nv == 7
    assert distances(result["solution"], "open loop").max() < 1.0
    assert "8 joints, 7 coordinates" in (printed := capsys.readouterr().out) and "170.0 mm apart" in printed
    assert (tmp_path / "results" / "gripper" / "reach.gif").stat().st_size > 0


def test_derivatives_of_a_solution(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = run("sensitivity")
    assert result["off"] < 0.1 * result["before"] and result["longer"].iterations < result["solution"].iterations
    make, p, slopes, h = result["make_problem"], result["p"], result["slopes"], 1e-4
    for name in p:
        us = [trajopt.DDP().solve(make({**p, name: p[name] + d}), result["solution"].us).us for d in (h, -h)]
        high, low = (np.sum(each**8) ** (1 / 8) for each in us)
        assert slopes[name] == pytest.approx((high - low) / (2.0 * h), rel=1e-3)
    assert "A strict local minimum" in capsys.readouterr().out
    assert (tmp_path / "results" / "sensitivity" / "bands.png").stat().st_size > 1e4


def test_waypoints_and_limits(capsys):
    result = run("waypoints")
    solution, start = result["solution"], result["start"]
    assert solution.converged and "Constraint 'waypoint at the end'" in capsys.readouterr().out
    q = solution.xs[[16, 36, 48], :6].copy()
    moved = result["dynamics"].frame_placement(result["robot"], q, "tool").p - start
    assert np.abs(moved - [[0.0, 0.2, 0.2], [0.0, 0.6, 0.2], [0.0, 0.6, 0.0]]).max() < 1e-3
    accelerations = np.diff(solution.xs[:, 6:], axis=0) / 0.025
    assert np.abs(accelerations).max() == pytest.approx(10.0, abs=1e-6)
    assert solution.xs[12:28, 6].min() == pytest.approx(-0.9, abs=1e-6)
    assert distances(solution, "open loop").max() < 1.0


def test_a_plan_holds(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = run("execution")
    printed = capsys.readouterr().out
    assert "semi_implicit_euler: off by 0.1 rad" in printed and "rk4: off by 1.7e-06 rad" in printed
    assert result["motion"].largest_deviation[:6].max() < 0.1 and len(result["message"]["points"]) == 251
    x, loaded = result["solution"].xs[0], trajopt.Policy.load(tmp_path / "results" / "execution" / "policy.npz")
    np.testing.assert_array_equal(loaded(0.0123, x), result["controller"](0.0123, x))
    lines = (tmp_path / result["path"]).read_text().splitlines()
    assert len(lines) == 1 + len(result["plan"].times) == 1002 and lines[0].startswith("time,shoulder_pan,")


def test_a_pendulum_with_ever_weaker_motors(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = run("continuation")
    found = result["found"]
    assert found.status == "lost" and 7.2 < found.parameters[-1] < 7.4 and found.pressing[-1] > 90
    cold = sum(s.iterations for s in found.cold[1:])
    assert found.iterations[1:].sum() < 0.5 * cold and sum(s.iterations for s in found.warm[1:]) < 0.5 * cold
    assert all(s.cost == pytest.approx(cost, rel=1e-9) for s, cost in zip(found.warm, found.costs, strict=True))
    assert "one swing down to 7." in capsys.readouterr().out
    assert (tmp_path / "results" / "continuation" / "torque.png").stat().st_size > 1e4


def test_a_leg_is_designed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    result = run("leg_design")
    best, make, first = result["best"], result["make"], result["first"]
    assert best.success and np.abs(best.jac).max() < 1e-5 and best.fun < 0.6 * first.cost
    np.testing.assert_allclose(best.x, [10.357, 21.046], atol=0.02)
    derivatives, peaks, h = result["derivatives"], [], 1e-3
    for along in (h, -h):
        moved = np.array([along, 0.0])
        jump = trajopt.DDP().solve(make(result["lengths"] + moved), warm_start=derivatives.predict(moved))
        peaks.append(np.linalg.norm(jump.us[:, 1], 16))
    assert result["by_lengths"][0] == pytest.approx((peaks[0] - peaks[1]) / (2.0 * h), rel=1e-4)
    assert result["error"].relative < 2e-3 and "A strict local minimum" in capsys.readouterr().out
    written = {path.name for path in (tmp_path / "results" / "leg_design").iterdir()}
    assert written == {"motion.png", "design.png"}


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore:URDF 'panda'")  # stiffness and friction that this file names in its own way
def test_a_whole_job(tmp_path, monkeypatch, capsys):
    """With the description that comes with Pinocchio's example robots, in place of the one that the extra fetches."""
    shared = pytest.importorskip("example_robot_data.robots_loader").getModelPath("panda_description/urdf/panda.urdf")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["panda_job", str(Path(shared) / "panda_description" / "urdf" / "panda.urdf")])
    result = runpy.run_path(str(ROOT / "examples" / "panda_job.py"))
    printed = capsys.readouterr().out
    assert printed.startswith("converged: 0.61") and result["clearance"] > 0.0199
    figures = [float(line.split()[-3]) for line in printed.splitlines()[1:]]
    assert figures[0] < 1.0 and figures[1] > 100.0 and figures[2] < 15.0
    plan, robot = result["plan"], result["robot"]
    xs, us = result["xs"], plan.us[:, :7]
    R, p = result["dynamics"].frame_placement(robot, xs[-1, :7].copy(), "panda_hand")
    np.testing.assert_allclose(R, result["pose"].R, atol=1e-6)
    np.testing.assert_allclose(p, result["pose"].p, atol=1e-6)
    assert (np.abs(xs[:, 7:]) <= robot.velocity_limit + 1e-6).all() and np.abs(xs[-1, 7:]).max() < 1e-6
    assert (np.abs(us) <= result["most"] + 1e-9).all()
    assert np.abs(result["torques"].evaluate(xs[:-1], us)).max() < 1.0 + 1e-6
    rows = (tmp_path / "results" / "panda_job" / "plan.csv").read_text().splitlines()
    times = np.array([float(row.split(",")[0]) for row in rows[1:]])
    np.testing.assert_allclose(np.diff(times)[:-1], 1e-3, atol=1e-12)


def test_a_network_imitates(tmp_path, monkeypatch, capsys):
    """A few steps of training halve the loss in situations that are new."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["imitation", "8"])
    result = run("imitation")
    assert result["last"] < 0.5 * result["first"] and not result["plan"].failed.any()
    assert "situations never seen" in capsys.readouterr().out
    assert (tmp_path / "results" / "imitation" / "motion.png").stat().st_size > 1e4


def test_identification(tmp_path, monkeypatch, capsys):
    """Truths lie within what the covariances say, which are those of many draws of noise, and residuals are noise."""
    monkeypatch.chdir(tmp_path)
    result = run("identification")
    columns, fit, rank = result["columns"], result["fit"], result["rank"]
    assert rank == 36 and np.abs(result["off"]).max() < 4.0 and 0.6 < result["off"].std() < 1.4
    draws = np.linalg.lstsq(columns, np.random.default_rng(1).standard_normal((1800, 200)), rcond=None)[0]
    np.testing.assert_allclose(draws.std(axis=1), result["deviation"], rtol=0.2)
    assert result["sums"].shape == (36, 60)
    assert (np.abs(fit.x - np.log(result["wanted"])) < 3.5 * result["spread"]).all()
    assert 2.0 * fit.cost / 1e-4 == pytest.approx(len(fit.fun) - 3, abs=4.0 * np.sqrt(2.0 * len(fit.fun)))
    assert fit.success and fit.nfev < 12 and "36 sums of 60 parameters" in capsys.readouterr().out
    assert (tmp_path / "results" / "identification" / "estimates.png").stat().st_size > 1e4
