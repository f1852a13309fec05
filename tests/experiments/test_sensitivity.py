"""The experiment on derivatives of solutions at small size: what it measures, writes and draws."""

import json

import numpy as np
import pytest
from matplotlib.image import imread

import trajopt
from experiments.sensitivity import tables
from experiments.sensitivity.__main__ import QUICK_CASES, QUICK_COUNT, QUICK_PROBLEMS, main
from experiments.sensitivity.cases import CASES
from experiments.sensitivity.gauss_newton import by_gains, gauss_newton
from experiments.sensitivity.many_parameters import QUICK
from experiments.sensitivity.saddles import SADDLES
from experiments.sensitivity.study import NAMES, relative, slope
from tests.tolerances import relative_error


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where one quick run wrote its files."""
    folder = tmp_path_factory.mktemp("sensitivity")
    assert main(["--quick", "--escape", "--starts", "1", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def results(folder):
    """The data it wrote."""
    return json.loads((folder / "sensitivity.json").read_text())


def test_exact_derivatives_are_exact_and_others_are_not(results):
    assert list(results["problems"]) == list(QUICK_CASES)
    for record in results["problems"].values():
        errors = {kind: np.array(values) for kind, values in record["errors"].items()}
        assert errors["exact"].shape == (QUICK_COUNT, len(NAMES)) and errors["exact"].max() < 1e-7
        assert errors["gauss_newton"][:, NAMES.index("us")].min() > 1e-2
        assert errors["gauss_newton"][:, NAMES.index("cost")].max() < 1e-7, "the envelope theorem needs no Hessian"
        assert (errors["differences"][:, 1] > errors["exact"][:, 1]).all()
        assert record["gains"]["ilqr"] > 1e-2 and min(record["times"].values()) > 0.0
    assert results["problems"]["pendulum"]["gains"]["ddp"] < 1e-6


def test_predictions_fall_with_the_square(results):
    for record in results["predictions"].values():
        assert abs(record["slopes"]["exact"] - 2.0) < 0.1
        assert all(abs(record["slopes"][kind] - 1.0) < 0.1 for kind in ("gauss_newton", "none"))


def test_certificates_and_saddles(results):
    assert all(r["difference"] < 1e-6 and r["negative"] == [0, 0] for r in results["minima"])
    assert [r["problem"] for r in results["saddles"]] == list(SADDLES)
    for r in results["saddles"]:
        assert r["difference"] < 1e-6 and r["negative"] == [1, 1] and r["minimum"] is True
        assert r["cost"] < 0.99 * min(r["stuck"].values())


def test_many_parameters(results):
    assert [r["parameters"] for r in results["many"]] == list(QUICK)
    for r in results["many"]:
        assert r["error"] < 1e-8 and min(r["milliseconds"].values()) > 0.0


def test_escapes(results):
    """From neither start of these problems is there a saddle, and nothing changes."""
    assert [record["problem"] for record in results["escapes"]] == QUICK_PROBLEMS
    for record in results["escapes"]:
        assert len(record["runs"]) == 2
        for run in record["runs"]:
            assert run["iterations"][0] == run["iterations"][1] and run["costs"][0] == run["costs"][1]


@pytest.mark.parametrize("name", ["errors.png", "predictions.png"])
def test_figures_are_drawn(folder, name):
    pixels = imread(folder / name)[..., :3]
    assert min(pixels.shape[:2]) > 250
    assert 0.01 < np.mean(pixels.min(axis=2) < 0.9) < 0.5


def test_without_curvature_gauss_newton_is_exact():
    """Linear dynamics, costs that are squares: nothing is left out, and gains are derivatives."""
    system = trajopt.CallableSystem(lambda x, u: [x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]], nx=2, nu=1, dt=0.1)

    def make(p):
        terminal = [trajopt.StateCost(system, [p, 0.0], 10.0)]
        return trajopt.Problem(system, [0.0, 1.0], 20, [trajopt.ControlCost(0.1)], terminal)

    solution = trajopt.DDP().solve(make(1.0))
    found = trajopt.sensitivity(make, 1.0, solution)
    assert relative_error(gauss_newton(found).us, found.us) < 1e-12
    assert relative_error(by_gains(solution), solution.dx0()[1]) < 1e-12


def test_gauss_newton_holds_what_is_held():
    case = CASES["quadrotor"]
    found = trajopt.sensitivity(case.make, case.p, trajopt.DDP().solve(case.make(case.p)), wrt=["limit"])
    without, held = gauss_newton(found), found.point.held.controls != 0
    assert held.any() and np.array_equal(without.us[held], found.us[held])
    assert relative_error(without.cost, found.cost) < 1e-12 < 1e-2 < relative_error(without.us, found.us)


def test_figures_by_hand():
    assert relative([1.0, 2.5], [1.0, 2.0]) == 0.25 and relative([], []) == 0.0
    changes = np.logspace(-3, -1, 5)
    assert slope(changes, list(3.0 * changes**2)) == pytest.approx(2.0)


def test_inertial_table():
    times = {"exact iteration": 1.0, "gradient": 3.0}
    errors = {"generic": 1e-9, "solved again": 1e-10}
    row = {"links": 10, "parameters": 100, "milliseconds": times, "iterations": 3.0, "errors": errors}
    assert tables.inertial_table({"inertial": row}).row_count == 1
