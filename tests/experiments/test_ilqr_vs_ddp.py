"""The comparison of iLQR and DDP from random starts at tiny size: what it measures, writes and draws."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.image import imread

import problems
import trajopt
from experiments.convergence.starts import KINDS, PIECES, kind_of
from experiments.ilqr_vs_ddp import starts
from experiments.ilqr_vs_ddp.__main__ import main
from experiments.ilqr_vs_ddp.figures import plot_profiles, plot_success
from experiments.ilqr_vs_ddp.study import pairs, problem_record, run_record, settled
from experiments.ilqr_vs_ddp.tables import pairs_table, solvers_table
from problems import pendulum_limits
from trajopt.batch.outcomes import Outcome
from trajopt.plotting.style import save

NAMES = ["pendulum", "pendulum_limits"]
STARTS, SEED = 3, 4


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Where one run wrote its files, and where it kept its solutions."""
    out, kept = tmp_path_factory.mktemp("out"), tmp_path_factory.mktemp("kept")
    assert main(arguments(out, kept)) == 0
    return out, kept


@pytest.fixture(scope="module")
def results(folders):
    """The data it wrote."""
    return json.loads((folders[0] / "ilqr_vs_ddp.json").read_text())


def arguments(out, kept):
    counts = ["--starts", str(STARTS), "--workers", "1", "--seed", str(SEED)]
    return ["--problems", *NAMES, "--out", str(out), "--folder", str(kept), *counts]


@pytest.mark.parametrize("name", ["iterations.png", "times.png", "success.png"])
def test_figures_are_drawn(folders, name):
    pixels = imread(folders[0] / name)[..., :3]
    assert min(pixels.shape[:2]) > 250
    assert 0.01 < np.mean(pixels.min(axis=2) < 0.9) < 0.5


def test_runs_are_those_of_the_solvers(results):
    assert results["seed"] == SEED and list(results["problems"]) == NAMES
    for name in NAMES:
        for solver, method in starts.SOLVERS.items():
            entry = results["problems"][name]["solvers"][solver]
            assert [run["number"] for run in entry["runs"]] == list(range(STARTS))
            solution = method.solve(starts.make_start((name, 1, SEED, solver, 1.0)))
            run = entry["runs"][1]
            assert (run["cost"], run["status"]) == (solution.cost, str(solution.status))
            assert run["iterations"] == len(solution.log) - 1 and run["violation"] == solution.violation
            assert 0 < run["iterations_to"] <= run["iterations"] and 0 < run["seconds_to"] <= run["seconds"]


def test_pendulum_always_succeeds(results):
    record = results["problems"]["pendulum"]
    assert all(entry["summary"]["best"] == 1.0 for entry in record["solvers"].values())
    assert record["pairs"]["count"] == STARTS and record["pairs"]["ddp_more"] == 0


def test_kept_solutions_are_not_solved_again(folders, results, tmp_path, capsys):
    files = {path: path.stat().st_mtime_ns for path in folders[1].glob("*/*.npz")}
    assert len(files) == len(NAMES) * len(starts.SOLVERS) * STARTS
    assert main(arguments(tmp_path, folders[1])) == 0
    assert json.loads((tmp_path / "ilqr_vs_ddp.json").read_text()) == results  # seconds included
    assert files == {path: path.stat().st_mtime_ns for path in files}
    text = capsys.readouterr().out
    assert all(word in text for word in (*NAMES, "ilqr", "100%", f"wrote {tmp_path / 'success.png'}"))


@pytest.mark.parametrize("name", problems.names())
def test_starts_differ_in_controls_alone(name):
    problem = problems.make(name)
    first, again, other = (starts.controls(name, problem, number, 0) for number in (0, 0, 1))
    assert first.shape == (problem.horizon, problem.system.nu) and np.isfinite(first).all()
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and (first != starts.controls(name, problem, 0, 1)).any()


def test_start_keeps_the_initial_state(monkeypatch):
    monkeypatch.setattr(starts, "warm_up", lambda name: None)
    start, problem = starts.make_start(("double_pendulum", 3, 0, "ddp", 1.0)), problems.make("double_pendulum")
    np.testing.assert_array_equal(start.x0, problem.x0)
    assert (start.us_init != problem.us_init).any()


def test_own_perturbed_start_is_taken():
    us = starts.controls("pendulum_limits", problems.make("pendulum_limits"), 2, 5)
    np.testing.assert_array_equal(us, pendulum_limits.perturbed_start(np.random.default_rng([5, 2])))


@pytest.mark.parametrize("number", [0, 3])
def test_torques_move_a_robot_with_the_accelerations_of_noise(number):
    """Speeds along the rollout change by dt a, a constant for a tenth of the horizon, larger in a hard start."""
    problem = problems.make("arm", horizon=100, dt=0.01, integrator="semi_implicit_euler")
    system, N = problem.system, problem.horizon
    us = starts.controls("arm", problem, number, 0)
    v = system.rollout(problem.x0, us)[:, system.nq :]
    noise = KINDS[kind_of(number)].acceleration * np.random.default_rng([0, number]).standard_normal(
        (PIECES, system.nv)
    )
    np.testing.assert_allclose(np.diff(v, axis=0) / system.dt, np.repeat(noise, N // PIECES, axis=0), atol=1e-6)


def test_noise_follows_the_limits():
    limited = trajopt.ControlBounds([-4.0, 0.0, -np.inf], [4.0, 1.0, 1.0])
    problem = SimpleNamespace(system=SimpleNamespace(nu=3), control_limits=limited.limits(5, 3))
    np.testing.assert_allclose(starts.noise(problem), np.tile([0.4, 0.05, 1.0], (5, 1)))
    problem.control_limits = None
    np.testing.assert_array_equal(starts.noise(problem), np.ones((1, 3)))


def solution_of(costs, violations):
    """What `settled` reads of a solution."""
    log = [SimpleNamespace(iteration=i, time=0.1 * i) for i in range(len(costs))]
    columns = {"cost": np.array(costs), "violation": np.array(violations)}
    return SimpleNamespace(cost=costs[-1], log=log, history=columns.__getitem__)


@pytest.mark.parametrize(
    "costs, violations, expected",
    [
        ([9.0, 3.0, 2.0 + 1e-9, 2.0], [0.0] * 4, 2),
        ([2.0, 3.0, 2.0 + 1e-6, 2.0], [0.0] * 4, 3),
        ([2.0, 2.0, 2.0, 2.0], [0.0] * 4, 0),
        ([2.0, 2.0, 2.0, 2.0], [1.0, 1e-3, 1e-7, 0.0], 2),
        ([2.0], [1.0], 0),
    ],
)
def test_settled(costs, violations, expected):
    record = settled(solution_of(costs, violations))
    assert record.iteration == expected and record.time == pytest.approx(0.1 * expected)


def run(number, status="converged", cost=1.0, steps=4, seconds=0.1):
    """One run by hand."""
    measures = {"iterations_to": steps, "iterations": steps + 1, "seconds_to": seconds, "seconds": 2 * seconds}
    return {"number": number, "status": status, "cost": cost, "violation": 0.0, "error": None, **measures}


def by_hand():
    """Four starts: the best minimum is 1; DDP finds it twice, once in more steps, fails once, and once ends in 2."""
    ilqr = [run(0, steps=10), run(1, steps=2), run(2, cost=2.0), run(3, "max_iterations", 0.5)]
    ddp = [
        run(0, steps=5, seconds=0.2),
        run(1, cost=1.0 + 5e-7, steps=6, seconds=0.3),
        run(2, "diverged"),
        run(3, cost=2.0),
    ]
    return problem_record({"ilqr": ilqr, "ddp": ddp})


def test_statistics_by_hand():
    record = by_hand()
    assert record["best_cost"] == 1.0
    ilqr, ddp = (record["solvers"][solver]["summary"] for solver in ("ilqr", "ddp"))
    assert (ilqr["converged"], ilqr["best"], ddp["converged"], ddp["best"]) == (0.75, 0.5, 0.75, 0.5)
    assert ilqr["statuses"] == {"converged": 3, "max_iterations": 1}
    assert ilqr["quartiles"]["iterations_to"] == [3.0, 4.0, 7.0]
    assert record["pairs"] == {
        "count": 2,
        "ratio": {"iterations_to": 1.75, "seconds_to": pytest.approx(2.5)},
        "ddp_fewer": 1,
        "ddp_more": 1,
        "ddp_twice": [1],
    }


def test_nothing_converges(tmp_path):
    runs = [run_record(0, Outcome(None, None, "ValueError: no", "", 0.1)), run(1, "infeasible")]
    record = {"hopeless": problem_record({"ilqr": runs, "ddp": runs}), "other": by_hand()}
    hopeless = record["hopeless"]
    assert hopeless["best_cost"] is None and hopeless["pairs"]["count"] == 0
    assert hopeless["solvers"]["ddp"]["summary"]["statuses"] == {"ValueError": 1, "infeasible": 1}
    assert hopeless["solvers"]["ddp"]["summary"]["best"] == 0.0
    assert solvers_table(record).row_count == 4 and pairs_table(record).row_count == 2
    save(plot_profiles(record, "seconds_to", 1e3, "ms"), tmp_path / "times.png")
    save(plot_success(record), tmp_path / "success.png")
    assert (tmp_path / "times.png").stat().st_size > 0 and (tmp_path / "success.png").stat().st_size > 0


def test_pairs_need_the_same_minimum():
    assert pairs([run(0, cost=1.0)], [run(0, cost=1.1)])["count"] == 0
    assert pairs([run(0, cost=1.0)], [run(0, cost=1.0 + 9e-7)])["count"] == 1


def test_a_start_that_diverges_has_no_iterations():
    problem = problems.make("pendulum", horizon=8)
    solution = trajopt.ILQR().solve(problem, us=np.full((8, 1), 1e200))
    assert solution.status == "diverged" and not solution.log
    found = run_record(3, Outcome(None, solution, None, None, 0.1))
    assert (found["status"], found["iterations"], found["number"]) == ("diverged", 0, 3)
