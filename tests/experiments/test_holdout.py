"""The problems held out: their starts, and two of them through the command."""

import json

import numpy as np
import pytest

import dynamics
from experiments.holdout.__main__ import STARTS, main, printed
from experiments.holdout.robots import BENT, random_posture, seven_axes
from experiments.holdout.study import PROBLEMS, problem_of, summary

ONLY = ("orbit_transfer", "keep_out_slew")


@pytest.mark.parametrize("name", PROBLEMS)
def test_starts_are_functions_of_seed_and_number(name):
    first, again, other = (problem_of(name, number, 0) for number in (1, 1, 2))
    assert first.name == name and len(PROBLEMS) == 10

    def numbers(problem):
        return np.r_[problem.x0, np.ravel(problem.us_init)]

    assert np.array_equal(numbers(first), numbers(again))
    if name not in ("seven_axis_pose", "loaded_trot"):  # whose starts are other poses and loads
        assert not np.array_equal(numbers(first), numbers(other))


def test_poses_can_be_reached():
    model, t, T = seven_axes(), np.linspace(0.0, 1.0, 101)[:, None], 60 * 0.04
    for number in range(STARTS):
        way = random_posture(model, np.random.default_rng([0, number])) - BENT
        q = BENT + (10 * t**3 - 15 * t**4 + 6 * t**5) * way
        v, a = 30 * t**2 * (1 - t) ** 2 * way / T, 60 * t * (1 - t) * (1 - 2 * t) * way / T**2
        assert (q >= model.lower_position).all() and (q <= model.upper_position).all()
        assert (np.abs(v) < model.velocity_limit).all()
        assert (np.abs(dynamics.inverse_dynamics(model, q, v, a)) < model.effort_limit).all()


def test_the_command(tmp_path, capsys):
    assert main(["--only", *ONLY, "--starts", "1", "--out", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "holdout.json").read_text())
    assert tuple(results["problems"]) == ONLY and results["solver"] == "ddp"
    runs = [run for record in results["problems"].values() for run in record["runs"]]
    assert len(runs) == 2 and all(run["status"] == "converged" and run["violation"] < 2e-7 for run in runs)
    assert capsys.readouterr().out.count("2 of 2 starts converge (100%)") == 1


def test_medians_are_those_of_what_converges():
    ends = [("converged", 3, 1.0), ("infeasible", 90, 0.1), ("converged", 5, 0.5), ("time_limit", 400, 0.0)]
    runs = [
        {"status": status, "iterations": steps, "seconds": 0.1 * steps, "cost": cost} for status, steps, cost in ends
    ]
    found = summary(runs)
    assert (found["converged"], found["infeasible"], found["others"]) == (2, 1, {"time_limit": 1})
    assert found["iterations"] == 4.0 and found["seconds"] == pytest.approx(0.4) and found["cost"] == 0.5
    nothing = {"solver": "ddp", "problems": {"all lost": {"summary": summary(runs[1:2])}}}
    assert printed(nothing)[1] == "0 of 1 starts converge (0%)"
