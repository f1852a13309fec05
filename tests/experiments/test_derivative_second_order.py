"""The experiment on second derivatives: its files, its contestants' values, and that it runs without CasADi."""

import json

import numpy as np
import pytest

import dynamics
from experiments.derivatives import casadi_peer, second_order
from experiments.derivatives.chains import chain
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, ORACLE, ORACLE_SECOND_ORDER, relative_error

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
        assert len(present) == len(row["us"]) - 3 == 7
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
        assert (row["us"]["CasADi, compiled, C loop"] is None) == (not compiled or row["N"] > 2)
    assert stored["smallest_ratios"]["CasADi / packed"] <= stored["smallest_ratios"]["CasADi's map / packed"]


@pytest.mark.peer
@pytest.mark.skipif(casadi_peer.compiler() is None, reason="no C compiler")
def test_loop_in_c(tmp_path):
    """The bare loop computes what CasADi computes, at every point."""
    pytest.importorskip("casadi")
    q, v, a = np.random.default_rng(3).uniform(-1, 1, (3, 5, 3))
    fast = next(c for c in casadi_peer.second_order_candidates(chain(3, 2), tmp_path) if c.library)
    expected = casadi_peer.evaluator(fast.function, q, v, a)()
    values = casadi_peer.evaluator(fast.function, q, v, a, fast.library)()
    assert [x.shape for x in values] == [x.shape for x in expected]
    for value, other in zip(values, expected, strict=True):
        assert relative_error(value, other) < ORACLE
    assert not np.allclose(values[0][0], values[0][1])


def test_knots_that_fit():
    assert second_order.knots_that_fit(1000, 64) == 64
    assert second_order.knots_that_fit(4 * 100**3, 64) == 8
    assert second_order.knots_that_fit(10**9, 64) == second_order.LANES
    assert second_order.knots(chain(2), quick=False) == [64, 512]
    assert second_order.knots(chain(24), quick=False) == [64]
