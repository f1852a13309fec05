"""The breakdown of an iteration on the quadruped, at small size: what is timed is the right thing, and is written."""

import json

import numpy as np
import pytest

import trajopt
from dynamics.simd import num_threads
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


def test_numbers_must_be_positive(capsys):
    for name in ("knots", "repeats"):
        with pytest.raises(SystemExit):
            main([f"--{name}", "0"])
        assert f"--{name}: got 0" in capsys.readouterr().err
