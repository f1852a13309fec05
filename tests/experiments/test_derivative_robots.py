"""The table of robots beside Pinocchio: its files, and that it runs without the peers."""

import json
import sys
from itertools import product

import numpy as np
import pytest

import dynamics
from experiments.derivatives import robots_table
from experiments.derivatives.pinocchio_peer import ROBOTS
from tests.tolerances import ORACLE


def run(folder):
    """Rows of a quick run by robot and quantity."""
    threads = dynamics.num_threads()
    assert robots_table.main(["--quick", "--out", str(folder)]) == 0
    assert dynamics.num_threads() == threads
    stored = json.loads((folder / "robots_table.json").read_text(encoding="utf-8"))
    assert stored["machine"]["threads"] == 1
    assert (folder / "robots_table.png").stat().st_size > 10_000
    rows = {(row["robot"], row["quantity"]): row for row in stored["rows"]}
    for (name, quantity), row in rows.items():
        assert row["public"] > 0 and np.isfinite(row["public"]), name
        if quantity in (robots_table.DENSE, robots_table.CURVATURE):
            assert row["lanes"] is None
        else:
            assert row["lanes"] > 0 and np.isfinite(row["lanes"])
    return rows


def test_without_peers(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pinocchio", None)
    rows = run(tmp_path)
    assert set(rows) == set(product(robots_table.OWN, robots_table.QUANTITIES))
    assert all(row[key] is None for row in rows.values() for key in ("Pinocchio", "net", "public / Pinocchio", "error"))
    assert "time over Pinocchio" not in capsys.readouterr().out


@pytest.mark.peer
def test_beside_pinocchio(tmp_path):
    """All robots that it names, those with mimic joints, Baxter and Talos, with coordinates of all their joints."""
    pytest.importorskip("pinocchio")
    pytest.importorskip("example_robot_data")
    rows = run(tmp_path)
    assert {name for name, _ in rows} == {*ROBOTS, *robots_table.OWN}
    sizes = {"ur3": 6, "ur5": 6, "baxter": 19, "hyq": 18, "anymal": 18, "talos": 50}
    assert {name: rows[name, robots_table.FIRST]["nv"] for name in ROBOTS} == sizes
    for row in rows.values():
        assert row["error"] < ORACLE
        assert row["Pinocchio"] > 0 and row["call"] > 0
        assert row["net"] == pytest.approx(row["Pinocchio"] - row["call"])
        assert row["public / Pinocchio"] == pytest.approx(row["public"] / row["Pinocchio"])


def test_targets():
    times = {"public": 1.0, "lanes": 0.5, "Pinocchio": 8.0, "net": 4.0}
    row = {"robot": "ur5", "nv": 6, "quantity": robots_table.FIRST} | times
    row |= robots_table.ratios(row)
    (aim,) = robots_table.targets([row, row | {"robot": "baxter"}, row | {"robot": "hyq", "Pinocchio": None}])
    assert (aim["robot"], aim["aim"], aim["public / Pinocchio"], aim["lanes / net"]) == ("ur5", 0.12, 0.125, 0.125)
    assert not aim["reached, public"] and aim["reached, lanes"]


def test_own_models():
    assert [make().nv for make in robots_table.OWN.values()] == [6, 24, 50, 36]
