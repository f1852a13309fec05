"""The experiment on the latency of predictive control at small size, and what must hold of its closed loops."""

import gc
import json
import tracemalloc

import numpy as np
import pytest

import dynamics
import trajopt
from experiments.mpc_latency import balance
from experiments.mpc_latency.__main__ import main
from experiments.mpc_latency.scene import CENTRE, RADIUS, TARGET, follow, target
from experiments.mpc_latency.study import SOLVERS, Loop
from experiments.mpc_latency.ten import TEN


def test_what_it_writes(tmp_path, monkeypatch):
    for name, value in (("QUICK_CYCLES", 5), ("QUICK_LONG", 5), ("QUICK_RENEWALS", 2)):
        monkeypatch.setattr(f"experiments.mpc_latency.__main__.{name}", value)
    for name, value in (("WARM_UP", 2), ("PROFILED", 3)):
        monkeypatch.setattr(f"experiments.mpc_latency.study.{name}", value)
    monkeypatch.setattr("experiments.mpc_latency.__main__.compare", lambda runs, seed: {})
    monkeypatch.setattr("experiments.mpc_latency.renewed.NOISES", (1e-5,))
    assert main(["--quick", "--out", str(tmp_path), "--seed", "0"]) == 0
    results = json.loads((tmp_path / "mpc_latency.json").read_text())
    assert len(results["latency"]) == 4 and results["memory"]["cycles"] == 5
    for entry in results["latency"].values():
        assert 0.0 < entry["kernels_ms"] < entry["p99_ms"] and entry["median_ms"] <= entry["p99_ms"]
        assert entry["python_calls"] > 100
    assert {row["problem"] for row in results["renewals"]} == set(TEN)
    assert all(row["silent"] == 0 and row["ratio"] <= 1.3 for row in results["renewals"])


@pytest.mark.parametrize("name", SOLVERS)
def test_the_tool_follows_the_point_past_the_ball(name):
    loop = Loop(SOLVERS[name], constrained=True, seed=0)
    model, off = loop.problem.system.model, []
    for _ in range(120):
        loop.cycle()
        place = dynamics.frame_placement(model, loop.x[:7], "tool").p
        assert np.linalg.norm(place - CENTRE) > RADIUS - 2e-3
        off.append(np.linalg.norm(place - target(loop.time)))
        assert loop.plan.violation < 5e-3
    assert np.median(off[40:]) < 0.05
    assert (np.abs(loop.plan.us) <= model.effort_limit + 1e-12).all()


@pytest.mark.parametrize("kind", [trajopt.ILQR, trajopt.DDP])
@pytest.mark.parametrize("noise", [0.0, balance.NOISE])
def test_one_iteration_a_cycle_loses_less_than_a_hundredth(kind, noise):
    whole = balance.closed_loop(kind(), noise, seed=0)
    one = balance.closed_loop(kind(max_iterations=1), noise, seed=0)
    assert abs(one["cost"] - whole["cost"]) < 0.01 * whole["cost"]
    assert one["iterations"] == 1.0 < whole["iterations"]
    assert max(one["largest_speed"], whole["largest_speed"]) < balance.SPEED + 1e-3


def test_memory_does_not_grow():
    """Nothing is held from cycle to cycle: 200 more hold no more memory than the solution's own size, once caches are
    full, which fill in the first blocks; what leaks would grow in all of them."""
    loop = Loop(SOLVERS["iLQR"], constrained=True, seed=0)
    held = []
    for count in (40, 200, 200, 200):
        for i in range(count):
            if i == 0 and not held:
                tracemalloc.start()
            loop.cycle()
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert min(held[2] - held[1], held[3] - held[2]) < 20_000


def test_an_update_costs_no_check_of_the_problem(monkeypatch):
    problem = follow(True)
    prepared = SOLVERS["iLQR"].prepare(problem)

    def refuse(self):
        raise AssertionError("the problem is checked again")

    monkeypatch.setattr(trajopt.Problem, "__post_init__", refuse)
    prepared.update({TARGET: target(1.0)})
    assert prepared.problem is not problem
