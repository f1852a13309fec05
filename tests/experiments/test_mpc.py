"""The predictive-control experiment and example at small size: what they write and what they say."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

import trajopt
from experiments.mpc.__main__ import QUICK_ARM_RUNS, QUICK_RUNS, main
from experiments.mpc.arm import PATHS, SAMPLES, aimed_at, cost_of, follow
from experiments.mpc.samples import CONVERGED, SCHEMES
from experiments.mpc.scene import CONTROLLERS, DURATION, FINE, LENGTH, gusts, simulate, swing_up, tip_error
from experiments.mpc.study import SOLVER, summary

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where one quick run wrote its files."""
    folder = tmp_path_factory.mktemp("mpc")
    with pytest.MonkeyPatch.context() as patch:
        for module in ("study", "__main__"):
            patch.setattr(f"experiments.mpc.{module}.LEVELS", (0.0, 2.0))
        assert main(["--quick", "--out", str(folder), "--seed", "0"]) == 0
    return folder


def test_gains_help_and_planning_anew_helps_more(folder):
    results = json.loads((folder / "mpc.json").read_text())
    assert results["plan"]["status"] == "converged" and list(results["levels"]) == ["0", "2"]
    for level, record in results["levels"].items():
        assert list(record) == list(CONTROLLERS)
        open_loop, gains, mpc = (record[name]["median_rms"] for name in CONTROLLERS)
        assert mpc < gains < 0.5 * open_loop, level
        assert record["MPC"]["runs"] == (QUICK_RUNS if float(level) else 1)
        assert record["open loop"]["held"] == 0
    assert results["levels"]["0"]["MPC"]["median_rms"] < 2e-3
    assert len(results["solve_time_percentiles"]) == 101 and min(results["solve_time_percentiles"]) > 0.0


def test_targets_that_are_sampled(folder):
    """What the derivatives by the target are worth, and the exact ones; every reference has converged."""
    samples = json.loads((folder / "mpc.json").read_text())["samples"]
    assert samples["samples"] == QUICK_ARM_RUNS * SAMPLES and list(samples["paths"]) == list(PATHS)
    for record in samples["paths"].values():
        assert list(record) == list(SCHEMES)
        assert record[CONVERGED]["median"] == 0.0 and not any(s["reference_missed"] for s in record.values())
        _, iterated, _, blind, gauss_newton, exact = (record[name] for name in SCHEMES)
        assert exact["median"] < 0.9 * gauss_newton["median"] < 0.1 * blind["median"]
        assert set(gauss_newton["kinds"]) == set(gauss_newton["steps"]) == {"gauss_newton"}
        assert min(exact["kinds"]["exact"], exact["steps"]["exact"]) > 0.9 * SAMPLES  # real-time iterations of DDP too
        assert gauss_newton["median"] == pytest.approx(iterated["median"], rel=0.3)
        assert blind["cost"] > 1.05 * record[CONVERGED]["cost"] > 1.04 * exact["cost"]
    assert samples["paths"]["random walk"][SCHEMES[-1]]["median"] <= 0.05
    assert all(us > 0.0 for times in samples["latency"].values() for us in times.values())


def test_cost_in_closed_loop_is_that_of_the_problem(rng):
    problem = follow()
    xs, us = rng.uniform(-1.0, 1.0, (41, 12)), rng.uniform(-1.0, 1.0, (40, 6))
    target = np.array([0.3, 0.2, 0.5])
    prepared = trajopt.DDP().prepare(problem)
    prepared.update(aimed_at(target))
    objective = prepared.problem.objective
    running = trajopt.Problem(problem.system, problem.x0, 40, prepared.problem.running_costs).objective.value(xs, us)
    assert running == pytest.approx(sum(cost_of(x, u, target) for x, u in zip(xs, us, strict=False)), rel=1e-12)
    assert objective.value(xs, us) > running


@pytest.mark.parametrize("name", ["mpc.png", "samples.png"])
def test_the_figure_is_drawn(folder, name):
    pixels = imread(folder / name)[..., :3]
    assert min(pixels.shape[:2]) > 400
    assert 0.02 < np.mean(pixels.min(axis=2) < 0.9) < 0.5


def test_the_example_prints_what_its_docstring_claims(capsys):
    off = runpy.run_path(str(ROOT / "examples" / "mpc.py"))["off"]
    for level in (0.0, 1.0, 2.0):
        assert off["MPC", level] < off["gains", level] < 0.5 * off["open loop", level]
    assert capsys.readouterr().out.count("m off in the last second") == 9


def test_without_errors_of_model_and_steps_the_plan_is_kept(monkeypatch):
    """A plant that is the model, step for step, follows the plan for as long as rounding lets it."""
    monkeypatch.setattr("experiments.mpc.scene.HEAVIER", 1.0)
    monkeypatch.setattr("experiments.mpc.scene.FINE", 1)
    plan = trajopt.DDP().solve(swing_up(DURATION))
    window = SOLVER.prepare(swing_up(50))
    for controller in ("open loop", "gains"):
        run = simulate(controller, plan, window, np.zeros((60, 2)))
        np.testing.assert_allclose(run.xs, plan.xs[:61], atol=1e-9)
        assert run.solve_times == []
    assert len(simulate("MPC", plan, window, np.zeros((10, 2))).solve_times) == 10


def test_gusts_are_held_and_depend_on_their_number_alone():
    forces = gusts(2.0, 3, 1)
    assert forces.shape == (DURATION * FINE, 2)
    changes = np.flatnonzero(np.diff(forces[:, 0]))
    np.testing.assert_array_equal(changes, np.arange(1, 40) * 50 - 1)
    np.testing.assert_array_equal(forces, gusts(2.0, 3, 1))
    np.testing.assert_allclose(gusts(4.0, 3, 1), 2.0 * forces)
    assert (forces != gusts(2.0, 4, 1)).all() and (forces != gusts(2.0, 3, 2)).all()
    many = np.concatenate([gusts(1.0, n, 0) for n in range(50)])
    np.testing.assert_allclose(many.std(axis=0), [1.0, 0.05], rtol=0.1)


def test_tip_error_by_hand():
    xs = np.array([[0.0, np.pi, 5.0, 5.0], [0.0, 0.0, 0.0, 0.0], [0.3, np.pi, 0.0, 0.0], [0.0, np.pi / 2, 0.0, 0.0]])
    np.testing.assert_allclose(tip_error(xs), [0.0, 2 * LENGTH, 0.3, LENGTH * np.sqrt(2.0)], atol=1e-15)


def test_statistics_by_hand():
    errors = np.array([np.r_[np.full(151, 9.0), np.full(50, 0.3)], np.r_[np.full(200, 0.1), 0.7]])
    s = summary(errors)
    assert s["runs"] == 2 and s["held"] == 1 and s["final"] == [0.3, 0.7]
    assert s["rms_last_second"] == [0.3, pytest.approx(np.sqrt((49 * 0.01 + 0.49) / 50), rel=1e-3)]
    assert s["quantiles"][1][0] == pytest.approx(4.55) and s["worst_rms"] == pytest.approx(0.3)
