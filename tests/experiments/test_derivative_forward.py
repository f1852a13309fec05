"""The experiment on derivatives of forward dynamics runs at small size, and what it says about routes is right."""

import json
import math

import numpy as np
import pytest

import dynamics
from experiments.derivatives import forward
from experiments.derivatives.chains import chain, depths
from experiments.derivatives.main_kernels import states
from tests.tolerances import IDENTITY, ORACLE, relative_error


def test_quick_run(tmp_path, capsys):
    threads = dynamics.num_threads()
    assert forward.main(["--quick", "--out", str(tmp_path)]) == 0
    assert dynamics.num_threads() == threads
    printed = capsys.readouterr().out
    assert "ABACR / FDSVA" in printed and "N above which AZA is faster" in printed
    stored = json.loads((tmp_path / "forward.json").read_text(encoding="utf-8"))
    assert stored["machine"]["threads"] == 1
    assert (tmp_path / "forward.png").stat().st_size > 10_000

    assert [(r["branching"], r["N"]) for r in stored["rows"]] == [(b, N) for b in (1, 2, 5) for N in (2, 4)]
    for row in stored["rows"]:
        assert set(row["us"]) == {"FDSVA", "FDCR", "ABACR"}
        assert set(row["us_arrays"]) - {"Pinocchio"} == set(row["us"])
        assert all(0 < t < math.inf for t in [*row["us"].values(), *row["us_arrays"].values()])
        assert all(row["error"][name] < (ORACLE if name == "Pinocchio" else IDENTITY) for name in row["us_arrays"])

    sizes = [(r["tree"], r["N"]) for r in stored["products"]]
    chains = [(tree, N) for tree in ("serial", "bf = 2", "bf = 5") for N in (2, 4)]
    assert sizes == [*chains, ("quadruped", 18), ("humanoid", 50)]
    for row in stored["products"]:
        assert set(row["us"]) == {"FACTOR", "DIRECT", "AZA"} and row["us"][row["best"]] == min(row["us"].values())
        assert all(map(math.isfinite, row["us"].values()))  # differences of times
        assert 0 < row["us_before"] < math.inf and 0 < row["us_IDSVA"] < math.inf
        assert row["regret"] == row["us"][row["automatic"]] / row["us"][row["best"]]
    assert set(stored["crossovers"]) == {"serial", "bf = 2", "bf = 5"}
    for of_tree in stored["crossovers"].values():
        assert set(of_tree) == {"AZA / DIRECT", "AZA / FACTOR"}
        assert all(N is None or 2 <= N <= 4 for N in of_tree.values())


@pytest.mark.parametrize("model", [chain(4, 2), forward.quadruped()], ids=lambda m: m.name)
def test_what_comes_before_the_products(model):
    """The matrices that each route is handed are those of inverse dynamics at the acceleration."""
    q, v, tau, _ = states(model, 3, seed=5)
    a = dynamics.forward_dynamics(model, q, v, tau)
    matrices = dynamics.inverse_dynamics_derivatives(model, q, v, a)
    for value, expected in zip(forward.BEFORE(model, q, v, tau), matrices, strict=True):
        assert relative_error(value, expected) < IDENTITY


def test_crossover():
    N = [2, 4, 8, 16, 32]
    assert forward.crossover(N, [8 / n for n in N]) == pytest.approx(8)
    assert forward.crossover(N, [(10 / n) ** 2 for n in N]) == pytest.approx(10)
    assert forward.crossover(N, [2, 0.5, 2, 0.5, 0.25]) == pytest.approx(8 * 2**0.5), "the last one counts"
    assert forward.crossover(N, [1.5, 1.4, 1.3, 1.2, 1.1]) is None, "never"
    assert forward.crossover(N, [0.9, 0.8, 0.7, 0.6, 0.5]) is None, "from the first on"
    assert forward.crossover(N, [1.5, 1.4, -0.1, 0.6, 0.5]) is None, "noise"


def test_mean_depth_of_a_floating_base():
    # trunk 1 ... 6, and in each leg 7, 8, 9
    assert np.mean(depths(forward.quadruped())) == pytest.approx((21 + 4 * 24) / 18)
    assert np.mean(depths(chain(5))) == pytest.approx(3)


def test_no_pinocchio(monkeypatch):
    def missing(model):
        raise ImportError

    monkeypatch.setattr(forward.pinocchio_peer, "build", missing)
    assert forward.pinocchio(chain(2), *np.zeros((3, 1, 2))) is None
