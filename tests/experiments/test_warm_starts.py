"""The experiment on warm starts at small size: what it writes, and that its counts are those of its rows."""

import json

import numpy as np
import pytest

from experiments.warm_starts.__main__ import QUICK_CASES, QUICK_PROBLEMS, main
from experiments.warm_starts.cases import cases, reach
from experiments.warm_starts.study import MOVES, NOISES, SOLVERS, moved, summary


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("warm_starts")
    assert main(["--quick", "--out", str(folder)]) == 0
    return json.loads((folder / "warm_starts.json").read_text())


def test_there_are_thirty_constrained_problems():
    assert len(cases()) >= 30
    for make in list(cases().values())[:3] + [lambda: reach(0.8)]:
        assert make().constraints


def test_optima_come_back_at_once(results):
    assert {one["problem"] for one in results["returned"]} == set(QUICK_CASES)
    assert len(results["returned"]) == 3 * len(QUICK_CASES)
    for one in results["returned"]:
        assert one["status"] == one["again_status"] == "converged" and one["same"] and one["again"] <= 1


def test_moved_states_take_no_more_iterations_than_cold(results):
    assert len(results["moved"]) == len(QUICK_PROBLEMS) * len(SOLVERS) * len(MOVES)
    for solver, found in results["summary"].items():
        rows = [one for one in results["moved"] if one["solver"] == solver]
        assert found["count"] == len(rows) and found["more"] == found["worse"] == 0
        assert found["median"] == pytest.approx(np.median([one["warm"] / one["cold"] for one in rows]))
    assert results["summary"]["DDP"]["median"] <= 1 / 3


def test_feet_that_stand_cannot_move():
    assert moved("quadruped_stand", "DDP") == []
    assert summary([])["median"] is None


def test_a_cycle_keeps_a_hard_pose(results):
    exact, *noisy = results["cycles"]
    assert [one["noise"] for one in results["cycles"]] == list(NOISES)
    assert exact["largest"] < 1e-6 and exact["cost"] == pytest.approx(exact["best"], rel=1e-6)
    for one in noisy:
        assert one["median"] < one["noise"]
