"""The experiment on derivatives of forward dynamics runs at small size, and what it says about routes is right."""

import json
import math

import numpy as np
import pytest

import dynamics
from dynamics.simd import LANES, scratch, scratch_guard
from experiments.derivatives import forward
from experiments.derivatives.chains import chain, depths
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
        assert all(map(math.isfinite, [*row["us"].values(), row["us_copying"]]))  # differences of times
        assert row["regret"] == row["us"][row["automatic"]] / row["us"][row["best"]]
    assert set(stored["crossovers"]) == {"serial", "bf = 2", "bf = 5"}
    for of_tree in stored["crossovers"].values():
        assert set(of_tree) == {"AZA / DIRECT", "AZA / FACTOR"}
        assert all(N is None or 2 <= N <= 4 for N in of_tree.values())


@pytest.mark.parametrize("model", [chain(4, 2), forward.quadruped()], ids=lambda m: m.name)
def test_the_timed_products_are_the_derivatives(model):
    """What the timed driver leaves in the lanes, for every route and on reused scratch."""
    n = model.nv
    calls = forward.product_calls(model, 3 * LANES, seed=5)
    dq, v, tau = np.random.default_rng(5).uniform(-1.0, 1.0, (3, LANES, n))
    q = dynamics.integrate(model, dynamics.neutral(model), dq)
    expected = dynamics.forward_dynamics_derivatives(model, q, v, tau)
    work = scratch(forward.products_size(model) + scratch_guard.ROWS)  # what `launch` uses
    for name in forward.ROUTES:
        calls[name]()
        _, aq, av, Minv = work[0, : 4 * n * n].reshape(4, n, n, LANES)
        for value, reference in zip((aq, av, Minv), expected, strict=True):
            assert relative_error(np.moveaxis(value, -1, 0), reference) < IDENTITY


def test_copying_leaves_the_inputs():
    model = chain(4)
    work = scratch(forward.products_size(model) + scratch_guard.ROWS)  # what `launch` uses
    forward.product_calls(model, LANES, seed=2)["copy"]()
    dq, v, tau = np.random.default_rng(2).uniform(-1.0, 1.0, (3, LANES, 4))
    a = dynamics.forward_dynamics(model, dq, v, tau)
    dID_dq, dID_dv, M = dynamics.inverse_dynamics_derivatives(model, dq, v, a)
    for value, expected in zip(work[0, :48].reshape(3, 4, 4, LANES), (M, dID_dq, dID_dv), strict=True):
        assert relative_error(np.moveaxis(value, -1, 0), expected) < IDENTITY


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
