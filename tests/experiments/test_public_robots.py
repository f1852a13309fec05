"""Robots of other packages, as far as these are installed, against Pinocchio and MuJoCo."""

import json

import numpy as np
import pytest

from dynamics.model.edits import builder_of
from experiments.public_robots.__main__ import main
from experiments.public_robots.closed_chains import KINDS, compare_loop
from experiments.public_robots.pictures import main as pictures
from tests.reference.random_robots import random_rotation, random_tree
from tests.tolerances import ORACLE, ORACLE_SECOND_ORDER, SIXTH_ORDER_DIFFERENCES


@pytest.mark.peer
def test_robots_agree_with_their_packages(tmp_path):
    pytest.importorskip("pinocchio")
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    robots = json.loads((tmp_path / "public_robots.json").read_text())["robots"]
    for name, row in robots.items():
        for order in ("values", "values_mujoco", "first", "second"):
            assert row.get(order, 0.0) < ORACLE_SECOND_ORDER, (name, order)


def test_without_packages_it_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("experiments.public_robots.robots.installed", lambda *names: False)
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    assert "no robots" in capsys.readouterr().out


@pytest.mark.peer
@pytest.mark.parametrize("kind", KINDS)
def test_closed_chains_agree_with_pinocchio(kind, rng):
    pytest.importorskip("pinocchio")
    kinds = ["free flyer", "revolute", "spherical", "revolute", "revolute", "revolute", "revolute", "revolute"]
    builder = builder_of(random_tree(kinds, [-1, 0, 1, 2, 0, 4, 5, 6], rng))
    for name, body in (("left", "body 3"), ("right", "body 7")):
        builder.add_frame(name, body, (random_rotation(rng), 0.3 * rng.normal(size=3)))
    errors = compare_loop(builder.build(), "left", "right", kind, rng)
    assert errors["values"] < ORACLE and max(errors["first"], errors["second"]) < SIXTH_ORDER_DIFFERENCES


@pytest.mark.peer
def test_public_robots_in_pictures(tmp_path):
    pytest.importorskip("pinocchio")
    pytest.importorskip("example_robot_data")
    pytest.importorskip("trimesh")
    assert pictures(["--quick", "--out", str(tmp_path)]) == 0
    (robot,) = json.loads((tmp_path / "pictures.json").read_text())["robots"].values()
    assert robot["status"] == "converged" and robot["triangles"] > 10 * robot["in_pictures"] > 0
    assert np.all([(tmp_path / f"panda.{kind}").stat().st_size > 1e4 for kind in ("png", "gif")])
