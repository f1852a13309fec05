"""Scripts to start from: they run as they are, of robots of others too, and nothing is overwritten or hidden."""

import runpy
import sys

import numpy as np
import pytest

import dynamics
from trajopt.command_line.cli import main

LINK = """
  <link name="{name}"><inertial>
    <origin xyz="0.2 0 0"/><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/>
  </inertial></link>"""
JOINT = """
  <joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/><origin xyz="0.4 0 0"/>
    <axis xyz="0 1 0"/><limit lower="{low}" upper="{high}" effort="50" velocity="3"/></joint>"""


def urdf(kind="revolute"):
    """Two links, of which the second turns within limits without zero, and a hook that is fixed to it."""
    links = '<link name="base"/><link name="hook"/>' + "".join(LINK.format(name=name) for name in ("upper", "lower"))
    joints = [
        ("shoulder", kind, "base", "upper", -2.0, 2.0),
        ("elbow", kind, "upper", "lower", 0.5, 2.5),
        ("mount", "fixed", "lower", "hook", 0.0, 0.0),
    ]
    names = "name", "kind", "parent", "child", "low", "high"
    jointed = "".join(JOINT.format(**dict(zip(names, joint, strict=True))) for joint in joints)
    return f'<robot name="two">{links}{jointed}</robot>'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder, and pictures that take no time."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("trajopt.plotting.report.page.picture", lambda figure, description: type(description)(""))
    return tmp_path


def run(folder, name):
    """What the script that was written leaves, having converged."""
    left = runpy.run_path(str(folder / f"{name}.py"))
    assert left["solution"].converged and left["problem"].name == name
    assert {path.name for path in (folder / "results" / name).iterdir()} == {"report.html", "solution.npz"}
    return left


def test_a_robot_that_comes_along(folder, capsys):
    assert main(["new", "first_try"]) == 0 and capsys.readouterr().out == "wrote first_try.py\n"
    left = run(folder, "first_try")
    assert left["TOOL"] == "tool" and left["missed"] < 1e-3
    assert "first_try.py" in (folder / "first_try.py").read_text(encoding="utf-8").split('"""')[1]


@pytest.mark.peer
def test_a_robot_whose_joints_are_coupled(folder):
    """It begins, and ends, where its coupling holds."""
    pytest.importorskip("mujoco")
    body = (
        '<body name="{0} finger"><joint name="{0}" type="slide" axis="0 1 0" range="-1 1"/>'
        '<inertial pos="0 0 0" mass="1" diaginertia="1e-3 1e-3 1e-3"/></body>'
    ).format
    couple = '<equality><joint joint1="left" joint2="right" polycoef="0.02 1 0 0 0"/></equality>'
    fingers = body("left") + body("right")
    (folder / "gripper.xml").write_text(f"<mujoco><worldbody>{fingers}</worldbody>{couple}</mujoco>", encoding="utf-8")
    assert main(["new", "grip", "--robot", "gripper.xml"]) == 0
    left = run(folder, "grip")
    gaps = left["solution"].xs[:, 0] - left["solution"].xs[:, 1]
    assert np.abs(gaps - 0.02).max() < 1e-6 and left["missed"] < 2e-3


def test_dynamics_of_ones_own(folder):
    assert main(["new", "own", "--dynamics"]) == 0
    left = run(folder, "own")
    ball, xs = left["solution"].constraints[1], left["solution"].xs
    assert ball.active.any() and ball.violation < 1e-6 and (xs[:, 1] > -1e-3).all(), "it passes above, and no higher"
    np.testing.assert_allclose(left["solution"].xs[-1], left["GOAL"], atol=0.02)


@pytest.mark.parametrize("beside", [True, False])
def test_a_robot_of_ones_own(folder, tmp_path_factory, beside):
    place = folder if beside else tmp_path_factory.mktemp("elsewhere")
    (place / "it's a robot").mkdir()
    file = place / "it's a robot" / "two.urdf"
    file.write_text(urdf())
    assert main(["new", "mine", "--robot", str(file)]) == 0
    left = run(folder, "mine")
    robot = dynamics.load_robot(file)
    assert ("Path(__file__)" in (folder / "mine.py").read_text(encoding="utf-8")) == beside
    assert left["TOOL"] == "hook" and left["missed"] < 2e-3
    assert (left["START"] > robot.lower_position).all() and (left["START"] < robot.upper_position).all()


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["2nd"], "NAME: got '2nd', expected letters, digits and _, the first a letter, without .py"),
        (["a/b"], "NAME: got 'a/b'"),
        (["arm.py"], "NAME: got 'arm.py'"),
        (["$name"], "NAME: got '$name'"),
        (["numpy"], "NAME: got 'numpy', a module of Python's or of a package, which the script would hide"),
        (["trajopt"], "NAME: got 'trajopt', a module"),
        (["json"], "NAME: got 'json', a module"),
        (["taken"], "taken.py exists, and is not overwritten"),
        (["mine", "--robot", "no.urdf"], "--robot: there is no file no.urdf"),
        (["mine", "--robot", "."], "--robot: there is no file ."),
        (["mine", "--robot", "taken.py"], "taken.py"),
        (["mine", "--robot", "still.urdf"], "--robot: <robot name='two'>: got an empty model, expected"),
    ],
)
def test_what_is_refused(folder, capsys, arguments, told):
    (folder / "taken.py").write_text("mine\n")
    (folder / "still.urdf").write_text(urdf("fixed"))
    assert main(["new", *arguments]) == 2
    assert told in capsys.readouterr().err
    assert (folder / "taken.py").read_text() == "mine\n" and len(list(folder.iterdir())) == 2


def test_a_script_of_the_name_is_no_module_that_is_hidden(folder, monkeypatch):
    """``python -m trajopt`` has the current folder on the path."""
    monkeypatch.setattr(sys, "path", ["", str(folder), *sys.path])
    (folder / "taken.py").write_text("mine\n")
    assert main(["new", "taken"]) == 2 and main(["new", "free"]) == 0


def test_one_of_two(folder, capsys):
    assert main(["new", "mine", "--robot", "a.urdf", "--dynamics"]) == 2
    assert "not allowed with" in capsys.readouterr().err
    assert main(["--help"]) == 0 and "write a script to start from" in capsys.readouterr().out
