"""Files of robots in folders: which are found, what goes on where one is refused, and what becomes of each."""

import json

import numpy as np
import pytest

from experiments.public_robots import bulk

INERTIA = (
    '<inertial><mass value="{mass}"/>'
    '<inertia ixx="{ixx}" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>'
)
JOINT = (
    '<joint name="{name}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
    '<axis xyz="0 0 1"/>{limit}</joint>'
)
LIMIT = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'


def link(name, mass=1.0, ixx=0.01):
    return f'<link name="{name}">{INERTIA.format(mass=mass, ixx=ixx)}</link>' if mass else f'<link name="{name}"/>'


def turns(parent, child):
    return JOINT.format(name=f"turn_{child}", parent=parent, child=child, limit=LIMIT)


ROBOTS = {
    "arm": link("base") + link("upper") + turns("base", "upper"),
    "box": link("base"),
    "needle": link("base") + link("upper", ixx=0.1) + turns("base", "upper"),
    "hollow": link("base") + link("upper") + link("tip", mass=0.0) + turns("base", "upper") + turns("upper", "tip"),
    "hollow needle": link("base") + link("upper", ixx=0.1) + link("tip", mass=0.0) + turns("base", "upper")
    + turns("upper", "tip"),
    "sprung": link("base") + link("upper") + turns("base", "upper")
    + '<gazebo reference="turn_upper"><springStiffness>5</springStiffness></gazebo>',
}  # fmt: skip
WAYS = {
    "arm": {}, "box": {"floating_base": True}, "needle": {"inertias": "as_given"},
    "hollow": {"lock": {"turn_tip": 0.0}},
    "hollow needle": {"lock": {"turn_tip": 0.0}, "inertias": "as_given"}, "sprung": {},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "deeper").mkdir()
    for name, text in ROBOTS.items():
        (tmp_path / "deeper" / f"{name}.urdf").write_text(f'<robot name="r">{text}</robot>')
    (tmp_path / "rod.xml").write_text(
        '<mujoco><worldbody><body><joint axis="0 1 0"/><geom size="0.1"/></body></worldbody></mujoco>'
    )
    (tmp_path / "note.xml").write_text("<note/>")
    (tmp_path / "again.urdf").symlink_to(tmp_path / "deeper" / "arm.urdf")
    return tmp_path


def test_every_file_is_found_once(folder):
    found = list(bulk.files([folder, folder / "deeper"]))
    assert sorted(file.kind for file in found) == ["MJCF"] + ["URDF"] * len(ROBOTS)


@pytest.mark.parametrize("name", ROBOTS)
def test_errors_name_the_way_on(folder, name):
    model, warned, options, refusal = bulk.read_somehow(folder / "deeper" / f"{name}.urdf")
    assert model is not None and options == WAYS[name] and bool(refusal) == bool(options)
    assert bool(warned) == (name == "sprung" or "inertias" in options)


def test_what_nothing_helps_is_refused(tmp_path):
    path = tmp_path / "broken.urdf"
    path.write_text('<robot name="r"><link name="a"/><link name="a"/></robot>')
    model, _, options, refusal = bulk.read_somehow(path)
    assert model is None and options == {} and "two of this name" in refusal


@pytest.mark.peer
def test_outcomes(folder, monkeypatch, capsys):
    pytest.importorskip("pinocchio")
    pytest.importorskip("mujoco")
    assert bulk.main(["--folders", str(folder), "--out", str(folder / "out")]) == 0
    (found,) = [json.loads(path.read_text()) for path in (folder / "out").glob("*.json")]
    by_name = {each["file"].split("/")[-1].split(".")[0]: each for each in found["outcomes"]}
    way = "refused, with a way on"
    expected = {"arm": "equal", "box": way, "needle": way, "hollow": way, "hollow needle": way,
                "sprung": "equal, warned", "rod": "equal"}  # fmt: skip
    by_name["arm"] = by_name.get("arm") or by_name["again"]
    assert {name: by_name[name]["outcome"] for name in expected} == expected
    assert by_name["needle"]["error"] < bulk.EQUAL and by_name["needle"]["way"] == "inertias"
    assert "refused, with a way on" in capsys.readouterr().out
    monkeypatch.setattr(bulk, "error_of", lambda *given: 1e-3)
    rng = np.random.default_rng(0)
    kinds = [bulk.outcome(file, 1, rng)["outcome"] for file in bulk.files([folder / "deeper"])]
    assert kinds.count(bulk.SILENT) == 1 and kinds.count("different, warned") == 1


def test_without_files_it_says_so(tmp_path, capsys):
    assert bulk.main(["--folders", str(tmp_path), "--out", str(tmp_path / "out")]) == 0
    assert "no files" in capsys.readouterr().out
