"""The study of soft robots at small size."""

import json
from typing import Any

import numpy as np
from matplotlib.image import imread

from experiments.soft_manipulator.__main__ import main
from experiments.soft_manipulator.plain_steps import PLAIN, PlainSystem
from experiments.soft_manipulator.study import PROBLEMS, SOLVERS, random_targets
from experiments.soft_manipulator.truth import executed, holds
from problems.soft_manipulator_reach import make
from problems.soft_manipulator_throw import VELOCITY
from tests.tolerances import CENTRAL_DIFFERENCES, COMPLEX_STEP, relative_error


def test_study(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("experiments.soft_manipulator.__main__.PROBLEMS", PROBLEMS[1:3])
    assert main(["--targets", "2", "--out", str(tmp_path)]) == 0
    data = json.loads((tmp_path / "soft_manipulator.json").read_text())
    for name in PROBLEMS[1:3]:
        costs = [data["problems"][name][solver]["cost"] for solver in SOLVERS]
        assert np.ptp(costs) < 1e-8 * min(costs)
        assert data["problems"][name]["DDP"]["iterations"] < data["problems"][name]["iLQR"]["iterations"]
        assert imread(tmp_path / f"{name}_convergence.png").std() > 0.05
        assert imread(tmp_path / f"{name}_controls.png").std() > 0.05
    targets = data["targets"]
    assert targets["same_optimum"] == 1.0 and all(s["success"] == 1.0 for s in targets["summary"].values())
    np.testing.assert_array_equal([run["target"] for run in targets["runs"]], random_targets(2, 0))
    assert imread(tmp_path / "soft_manipulator_track_shapes.png").std() > 0.05
    printed = capsys.readouterr().out
    assert "2 targets, the same optimum in 100%" in printed and "hybrid_arm_reach" in printed


def test_plans_and_what_becomes_of_them(tmp_path, monkeypatch, capsys):
    """Steps of SDIRK2 end nearer to the truth than semi-implicit ones, within a millimetre; the table says so."""
    for name, value in (("PROBLEMS", PROBLEMS[:1]), ("INTEGRATORS", ("semi_implicit_euler", "sdirk2"))):
        monkeypatch.setattr(f"experiments.soft_manipulator.__main__.{name}", value)
    for name, value in (("RTOL", 1e-4), ("ATOL", 1e-6)):
        monkeypatch.setattr(f"experiments.soft_manipulator.truth.{name}", value)
    monkeypatch.setattr("experiments.soft_manipulator.__main__.REFINEMENTS", (1,))
    monkeypatch.setattr("experiments.soft_manipulator.__main__.SOLVERS", {"DDP": SOLVERS["DDP"]})
    assert main(["--truth", "--out", str(tmp_path)]) == 0
    rough, fine = json.loads((tmp_path / "soft_manipulator.json").read_text())["plans"]
    assert rough["status"] == fine["status"] == "converged" and fine["off"] < 1e-3 < rough["off"]
    assert "sdirk2" in capsys.readouterr().out


def test_plans_of_the_problems_hold(tmp_path, monkeypatch, capsys):
    """Those of both solvers, one optimum; another that ends elsewhere would not."""
    monkeypatch.setattr("experiments.soft_manipulator.__main__.PROBLEMS", ("soft_manipulator_throw",))
    for name, value in (("RTOL", 1e-4), ("ATOL", 1e-6)):
        monkeypatch.setattr(f"experiments.soft_manipulator.truth.{name}", value)
    assert main(["--plans", "--out", str(tmp_path)]) == 0
    ilqr, ddp = plans = json.loads((tmp_path / "soft_manipulator.json").read_text())["shipped"]
    assert abs(ddp["cost"] / ilqr["cost"] - 1.0) < 1e-8 and all(holds(plan) for plan in plans)
    assert ddp["part"] >= ddp["speed_off"] / np.linalg.norm(VELOCITY) > 0.0
    for wrong in ({"off": 6e-3}, {"part": 0.03}, {"status": "max_iterations"}):
        assert not holds({**ddp, **wrong})
    assert "half of iLQR's iterations" in capsys.readouterr().out


def test_what_integrators_keep(tmp_path, monkeypatch, capsys):
    """Orders are those stated, 2 of those in plain Python; the midpoint rule keeps energy best, plans by SDIRK2 are
    nearest to the truth."""
    small = {"SWING": 0.05, "REPEATS": 1, "RTOL": 1e-8, "PLANNED": ("soft_manipulator_throw", 10), "ITERATIONS": 4}
    monkeypatch.setattr("dynamics.simd.scratch_guard.ON", False)  # of thousands of calls for single knots
    for name, value in small.items():
        monkeypatch.setattr(f"experiments.soft_manipulator.integrators.{name}", value)
    assert main(["--integrators", "--out", str(tmp_path)]) == 0
    records = json.loads((tmp_path / "soft_manipulator.json").read_text())["integrators"]
    for record in records:
        plain = record["integrator"] in PLAIN
        order = 2 if plain else make(horizon=1, integrator=record["integrator"]).system.integrator_order
        assert abs(record["order"] - order) < 0.2 and 0.0 < record["momentum_drift"] < 0.5
    errors = {record["integrator"]: record["plan_error"] for record in records}
    assert min(errors, key=errors.__getitem__) == "sdirk2" and errors["generalized_alpha"] > 2.0 * errors["sdirk2"]
    drifts = {record["integrator"]: record["energy_drift"] for record in records}
    assert drifts["implicit_midpoint"] < drifts["sdirk2"] < drifts["semi_implicit_euler"]
    assert "extrapolated_euler" in capsys.readouterr().out


def test_steps_in_plain_python(rng):
    """Those of SDIRK2 are the library's; derivatives of the others against differences."""
    system: Any = make(horizon=1, integrator="sdirk2").system
    x, u = 0.1 * rng.normal(size=(2, system.nx)), rng.uniform(1.0, 5.0, (2, system.nu))
    own = PlainSystem(system, "sdirk2")
    assert relative_error(own.step(x, u), system.step(x, u)) < COMPLEX_STEP
    for found, expected in zip(own.linearize(x, u), system.linearize(x, u), strict=True):
        assert relative_error(found, expected) < 1e-8
    for name in PLAIN:
        other = PlainSystem(system, name)
        z = np.array([other.start(*point) for point in zip(1e-3 * x, u, strict=True)])
        dz, du, h = 1e-3 * rng.normal(size=z.shape), rng.normal(size=u.shape), 1e-3
        change = (other.step(z + h * dz, u + h * du) - other.step(z - h * dz, u - h * du)) / (2.0 * h)
        fx, fu = other.linearize(z, u)
        expected = np.einsum("tij,tj->ti", fx, dz) + np.einsum("tij,tj->ti", fu, du)
        assert relative_error(change, expected) < CENTRAL_DIFFERENCES
    wild = np.vstack([x[:1], 1e200 + x[:1]])
    assert np.isfinite(own.step(wild, u)[0]).all() and np.isnan(own.step(wild, u)[1]).any()


def test_execution_is_that_of_fine_steps():
    problem = make(horizon=4)
    system: Any = problem.system
    fine = make(horizon=400, dt=system.dt / 100, integrator="sdirk2").system
    us = np.full((4, problem.system.nu), 3.0)
    end = fine.rollout(problem.x0, np.repeat(us, 100, axis=0))[-1]
    assert np.abs(executed(system, problem.x0, us) - end).max() < 1e-3 * np.abs(end).max()
