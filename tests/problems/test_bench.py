"""`trajopt bench` runs and reports every quantity; no figure of it is asserted."""

import json
from importlib.util import find_spec

import numpy as np
import pytest

import problems
from experiments import bench as experiment
from problems import bench


@pytest.mark.parametrize("main", [bench.main, experiment.main])
def test_quick_bench(main, tmp_path, capsys):
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    assert "One iteration on the arm" in capsys.readouterr().out
    result = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    ratios = {"DDP / iLQR iteration", "DDP iteration, inverse / forward", "8 step lengths / 1"}
    assert ratios == set(result["ratios"])
    assert all(row["microseconds"] > 0 for row in result["derivatives"] + result["iteration"])


def test_scalar_rollout_equals_the_lanes():
    problem = problems.make("arm", horizon=100, dt=0.01, integrator="semi_implicit_euler")
    system, us = problem.system, problem.us_init
    rng = np.random.default_rng(0)
    xs = system.rollout(problem.x0, us)
    k, K = 0.1 * rng.standard_normal(us.shape), 0.1 * rng.standard_normal((*us.shape, system.ndx))
    scalar = bench.scalar_rollout(system, problem.x0, xs, us, k, K)
    X, U = scalar()
    lanes, controls = system.closed_loop_rollout(problem.x0, xs, us, k, K, np.ones(1))
    np.testing.assert_allclose(X, lanes[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(U, controls[0], rtol=1e-9, atol=1e-9)


def test_experiments_exist():
    for name in problems.experiments():
        assert find_spec(f"experiments.{name}") is not None
