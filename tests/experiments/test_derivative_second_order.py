"""The experiment on second derivatives: its files, its contestants' values, and that it runs without CasADi."""

import json

import numpy as np
import pytest

import dynamics
from experiments.derivatives import casadi_peer, second_order
from experiments.derivatives.chains import chain
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, ORACLE_SECOND_ORDER

TREES = [(b, N) for b in (1, 2) for N in (2, 4)]


def run(folder, *options):
    """Results of a quick run."""
    threads = dynamics.num_threads()
    assert second_order.main(["--quick", "--out", str(folder), *options]) == 0
    assert dynamics.num_threads() == threads
    stored = json.loads((folder / "second_order.json").read_text(encoding="utf-8"))
    assert stored["machine"]["threads"] == 1
    assert (folder / "second_order.png").stat().st_size > 10_000
    assert [(row["branching"], row["N"]) for row in stored["rows"]] == TREES
    return stored


def test_without_casadi(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(casadi_peer, "ca", None)
    stored = run(tmp_path)
    assert "complex step / packed" in capsys.readouterr().out
    assert stored["smallest_ratios"]["CasADi / packed"] is None
    for row in stored["rows"]:
        assert row["casadi"] == [] and row["casadi_by"] is None
        present = {name: t for name, t in row["us"].items() if not name.startswith("CasADi")}
        assert len(present) == len(row["us"]) - 2 == 7
        assert all(t > 0 and np.isfinite(t) for t in present.values())
        assert row["error"]["packed"] < IDENTITY
        assert row["error"]["complex step, arrays"] < ORACLE_SECOND_ORDER
        assert row["error"]["differences, arrays"] < CENTRAL_DIFFERENCES
    assert [growth["tree"] for growth in stored["exponents"]] == ["serial", "bf = 2"]


@pytest.mark.peer
@pytest.mark.parametrize("limit", [0, 300])
def test_with_casadi(tmp_path, limit):
    pytest.importorskip("casadi")
    folder = tmp_path / "compiled"
    stored = run(tmp_path, "--compile-limit", str(limit), "--casadi-folder", str(folder))
    compiled = bool(limit and casadi_peer.compiler())
    assert bool(list(folder.glob("*.so"))) == compiled
    for row in stored["rows"]:
        names = {candidate["name"] for candidate in row["casadi"]}
        assert ("rnea expanded, compiled" in names) == (compiled and row["N"] == 2)
        assert set(row["us_casadi"]) >= names and row["casadi_by"] in row["us_casadi"]
        assert all(row["error"][name] < ORACLE_SECOND_ORDER for name in names)
        assert row["us_casadi"][row["casadi_by"]] == min(row["us_casadi"].values()) > 0
    assert stored["smallest_ratios"]["CasADi / packed"] > 0


def test_knots_that_fit():
    assert second_order.knots_that_fit(1000, 64) == 64
    assert second_order.knots_that_fit(4 * 100**3, 64) == 8
    assert second_order.knots_that_fit(10**9, 64) == second_order.LANES
    assert second_order.knots(chain(2), quick=False) == [64, 512]
    assert second_order.knots(chain(24), quick=False) == [64]
