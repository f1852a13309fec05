"""The convergence experiment at small size: the files it writes and what they say."""

import json

import numpy as np
import pytest
from matplotlib.image import imread

from experiments.convergence.__main__ import QUICK_STARTS, main
from experiments.convergence.study import SOLVERS, STUDIED, studied_names, summary, tail_order


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where one quick run wrote its files."""
    folder = tmp_path_factory.mktemp("convergence")
    assert main(["--quick", "--out", str(folder), "--seed", "1"]) == 0
    return folder


@pytest.fixture(scope="module")
def results(folder):
    """The data it wrote."""
    return json.loads((folder / "convergence.json").read_text())


@pytest.mark.parametrize("name", ["gradients.png", "starts.png"])
def test_figures_are_drawn(folder, name):
    pixels = imread(folder / name)[..., :3]
    assert min(pixels.shape[:2]) > 500
    assert 0.02 < np.mean(pixels.min(axis=2) < 0.9) < 0.5


def test_every_problem_by_every_solver(results):
    assert results["seed"] == 1 and list(results["problems"]) == studied_names()
    for name, record in results["problems"].items():
        assert list(record) == list(SOLVERS)
        for solver, r in record.items():
            assert r["status"] == "converged" and r["same_minimum"], (name, solver)
            assert len(r["gradient_norm"]) == len(r["newton_decrement"]) == len(r["step"]) == r["iterations"] + 1
            assert r["trajectory_difference"] < (1e-4 if solver == "ilqr" else 1e-5), (name, solver)
            assert (r["tail_order"] < 1.3) == (solver == "ilqr")
            assert ("exact" in r["step"]) == (solver != "ilqr")


@pytest.mark.parametrize("name", STUDIED)
def test_perturbed_starts(results, name):
    record = results["starts"][name]
    whole = record["summary"]["all"]
    assert len(record["starts"]) == whole["starts"] == QUICK_STARTS
    assert whole["converged"] == {"ilqr": QUICK_STARTS, "ddp": QUICK_STARTS}
    assert whole["most_more"] <= 1 and whole["ratio_of_means"] < 0.7
    assert whole["same_minimum"] == QUICK_STARTS and whole["cost_difference"] <= 1e-8
    assert whole["starts"] == record["summary"]["mild"]["starts"] + record["summary"]["hard"]["starts"]


def test_tables_are_printed(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("experiments.convergence.__main__.studied_names", lambda: ["pendulum"])
    monkeypatch.setattr("experiments.convergence.__main__.STUDIED", ("double_pendulum",))
    assert main(["--quick", "--out", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("pendulum", "ddp tensor", "perturbed starts", "mild (3)", "hard (2)"))
    assert all(f"wrote {tmp_path / name}" in text for name in ("convergence.json", "gradients.png", "starts.png"))


def test_statistics_by_hand():
    def start(ilqr, ddp, cost):
        return {
            "ilqr": {"status": "converged", "iterations": ilqr, "cost": 1.0},
            "ddp": {"status": "max_iterations" if ddp == 9 else "converged", "iterations": ddp, "cost": cost},
            "same_minimum": cost != 3.0,
        }

    s = summary([start(4, 2, 1.0), start(6, 9, 3.0), start(5, 5, 1.0)])
    assert s["mean"] == {"ilqr": 5.0, "ddp": 16 / 3} and s["median"] == {"ilqr": 5.0, "ddp": 5.0}
    assert s["max"] == {"ilqr": 6, "ddp": 9} and s["converged"] == {"ilqr": 3, "ddp": 2}
    assert (s["fewer"], s["as_many"], s["most_more"], s["same_minimum"]) == (1, 1, 3, 2)
    assert s["cost_difference"] == 0.0


def test_order_of_a_known_sequence():
    assert tail_order(np.array([1.0, 1e-2, 1e-4, 1e-8])) == pytest.approx(2.0)
    assert tail_order(np.array([1e-2, 1e-3, 1e-4])) == pytest.approx(1.0)
