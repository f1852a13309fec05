"""The quadruped's experiments at small size: what is timed and measured is the right thing, and is written."""

import importlib.util
import json
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.image import imread

import problems
import trajopt
from dynamics.simd import num_threads
from experiments.quadruped.__main__ import main as study
from experiments.quadruped.gaits import SOLVERS, cone_excess, drift
from experiments.quadruped.iteration import main
from experiments.quadruped.parts import ITERATION, parts, shift_problem

KNOTS = 12


def test_the_problem_starts_at_rest_and_is_solved():
    problem = shift_problem(KNOTS)
    at_rest = problem.system.rollout(problem.x0, problem.us_init)
    np.testing.assert_allclose(at_rest, np.tile(problem.x0, (KNOTS + 1, 1)), atol=1e-12)
    solution = trajopt.DDP().solve(problem)
    assert solution.converged and solution.cost < 0.5 * problem.objective.value(at_rest, problem.us_init)


def test_parts_agree_with_each_other():
    calls = parts(shift_problem(KNOTS))
    dense, structured = calls["backward pass, dense"](), calls["backward pass"]()
    np.testing.assert_allclose(structured.K, dense.K, rtol=0, atol=1e-10 * np.abs(dense.K).max())
    gauss_newton, *exact = (calls[name]() for name in ITERATION)
    assert gauss_newton.alpha == 1.0 and all(step.alpha == 1.0 for step in exact)
    candidates = calls["rollout of 8 step lengths"]()
    np.testing.assert_array_equal(candidates[0].us, gauss_newton.candidate.us)


def test_table_and_data(tmp_path, capsys):
    before = num_threads()
    assert main(["--knots", str(KNOTS), "--repeats", "1", "--out", str(tmp_path)]) == 0
    assert num_threads() == before
    times = json.loads((tmp_path / "iteration.json").read_text())["microseconds_per_knot"]
    printed = capsys.readouterr().out
    for name, of_counts in times.items():
        assert set(of_counts) == {"1", "2"} and all(0.0 < t < np.inf for t in of_counts.values())
        assert name in printed
    assert set(ITERATION) < set(times)


def test_quick_study(tmp_path, capsys):
    assert study(["--quick", "--no-peers", "--out", str(tmp_path)]) == 0
    data = json.loads((tmp_path / "quadruped.json").read_text())
    rows = data["own"]["quadruped_stand"]
    assert set(rows) == set(SOLVERS) and not data["peers"] and not data["starts"]
    assert all(row["status"] == "converged" and row["drift"] < 1e-4 for row in rows.values())
    costs = np.array([row["cost"] for row in rows.values()])
    assert np.ptp(costs) < 1e-8 * costs.min()
    assert imread(tmp_path / "convergence.png").std() > 0.05
    assert (tmp_path / "quadruped_stand.gif").stat().st_size > 1e4
    assert "DDP tensor" in capsys.readouterr().out


def test_a_part_that_is_left_out_is_told_of(tmp_path, capsys):
    assert study(["--parts", "starts", "--quick", "--out", str(tmp_path)]) == 0
    assert "left out: random starts" in capsys.readouterr().out
    data = json.loads((tmp_path / "quadruped.json").read_text())
    assert not (data["own"] or data["starts"] or data["peers"]) and data["threads"] == num_threads()
    assert [file.name for file in tmp_path.iterdir()] == ["quadruped.json"]


def test_without_peers_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert study(["--parts", "peers", "--out", str(tmp_path)]) == 0
    assert "left out: the comparison with Crocoddyl, for crocoddyl" in capsys.readouterr().out


def test_drift_and_cones_of_a_sliding_robot():
    """The figures of feasibility see what is wrong."""
    problem = problems.make("quadruped_stand", horizon=12)
    torques = problem.us_init.copy()
    solution = trajopt.ILQR(max_iterations=0).solve(problem, us=torques)
    assert drift(problem.system, solution.xs) < 1e-9 and cone_excess(problem.system, solution) == 0.0
    pushed = replace(solution, us=solution.us + 0.8 * np.tile([1.0, 0.0, 0.0], 4))
    assert cone_excess(problem.system, pushed) > 0.05
    moved = problem.system.integrate(solution.xs, np.linspace(0, 1, 13)[:, None] * np.r_[0.01, np.zeros(35)])
    assert drift(problem.system, moved) == pytest.approx(0.01, rel=1e-6)
