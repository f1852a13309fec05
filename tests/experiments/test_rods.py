"""The study of soft robots at small size: what is measured is the right thing, and is written."""

import json

import numpy as np
import pytest
from matplotlib.image import imread

from dynamics import rods
from experiments.rods import knots, speedups, swing
from experiments.rods.__main__ import main
from experiments.rods.figures import plot_snapshots
from experiments.rods.measure import METHODS, jacobian_times, simulations
from experiments.rods.paper import TABLE
from experiments.rods.systems import NAMES, make, scenery, static_inputs
from problems.rods.example import RodExample
from trajopt.plotting.style import save


@pytest.mark.parametrize("name", NAMES)
def test_systems_have_the_names_of_the_table(name):
    example = make(name)
    assert example.name == name
    inputs = static_inputs(example, np.random.default_rng(0))
    assert (inputs is not None) == (TABLE[name].statics is not None)
    for curve in scenery(name):
        assert curve.ndim == 2 and curve.shape[1] == 3


def test_study(tmp_path, capsys):
    arguments = ["--systems", "cable_manipulator", "--duration", "0.1", "--repeats", "1", "--out", str(tmp_path)]
    assert main(arguments) == 0
    entry = json.loads((tmp_path / "rods.json").read_text())["systems"]["cable_manipulator"]
    assert entry["coordinates"] == 24 and set(entry["simulations"]) == set(METHODS)
    assert all(row["steps"] > 10 and row["error"] < 1e-3 for row in entry["simulations"].values())
    assert entry["simulations"]["newmark"]["steps"] == 50
    assert entry["statics"]["converged"] == 1.0 and entry["jacobian"]["exact"] > 0.0
    assert imread(tmp_path / "cable_manipulator.png").std() > 0.05
    printed = capsys.readouterr().out
    assert "bdf, exact" in printed and "newmark, 2 ms" in printed and "24.4" in printed


def test_what_takes_too_long_is_told(tmp_path):
    example = make("cable_manipulator")
    records, run = simulations(example, 0.1, ("newmark",), 2, 0.0)
    assert run is None and records["newmark"]["failed"].startswith("stopped after 0 s at t = 0")


def test_vehicle_is_drawn_where_it_is(tmp_path):
    """Links that nothing ties to the world, and a cylinder around."""
    example = make("underwater_vehicle")
    _, run = simulations(example, 0.05, ("exact",), 1, 60.0)
    assert run is not None
    save(plot_snapshots(example, run, scenery("contact")), tmp_path / "vehicle.png")
    assert imread(tmp_path / "vehicle.png").std() > 0.05
    assert jacobian_times(example, run)["differences"] > 0.0


def test_swing_beside_none(tmp_path, capsys, monkeypatch):
    """Where PyElastica is absent it is left out; ours are near the truth."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(swing, "RODS", {"silicone": swing.RODS["silicone"]})
    monkeypatch.setattr(swing, "RAMP", 0.1)
    assert swing.main(["--duration", "0.2", "--repeats", "1", "--out", str(tmp_path)]) == 0
    runs = json.loads((tmp_path / "swing.json").read_text())["rods"]["silicone"]["runs"]
    assert set(runs) == set(swing.OURS) and all(0.0 < run["error"] < 1e-3 for run in runs.values())
    assert [run["steps"] for run in runs.values()][:2] == [50, 200] and "silicone" in capsys.readouterr().out


@pytest.mark.peer
def test_swing_beside_pyelastica():
    """Its tip comes nearer with every element, by the inverse of their number: the mechanics are the same."""
    pytest.importorskip("elastica")
    truth = swing.our_tip("silicone", 4, 1.0, swing.OURS["Newmark, 1 ms, polynomials to order 4"][1])[0]
    tips = [swing.their_tip("silicone", elements, 1.0)[0] for elements in (20, 40)]
    off, half = (np.linalg.norm(tip - truth) for tip in tips)
    assert 0.48 < half / off < 0.52 and np.linalg.norm(2.0 * tips[1] - tips[0] - truth) < 0.03 * off


def test_times_per_knot(tmp_path, capsys):
    assert knots.main(["--repeats", "2", "--out", str(tmp_path)]) == 0
    times = json.loads((tmp_path / "knots.json").read_text())
    shortest = [min(level["residual"]) for level in times["microseconds"].values()]
    assert min(*shortest, *times["equilibrium"]) > 0.0
    assert "and the Hessian" in capsys.readouterr().out


def test_speedups(tmp_path, capsys):
    """All methods of statics solve the same equations."""
    assert speedups.main(["--quick", "--systems", "serial_arm", "--out", str(tmp_path)]) == 0
    entry = json.loads((tmp_path / "speedups.json").read_text())["systems"]["serial_arm"]
    rest = entry["rest"]
    assert all(rest[method]["solved"] == 1.0 for method in speedups.AT_REST)
    assert set(rest) == {*speedups.AT_REST, "DOP853"} and rest["DOP853"]["simulated"] > 0.0
    assert set(entry["motion"]) == {"bdf, exact", "bdf, differences", "DOP853"}
    assert "over newton" in capsys.readouterr().out


def test_explicit_steps_come_to_rest(tmp_path):
    """A stocky damped rod under its weight, which explicit steps follow until it rests where statics has it."""
    builder = rods.RodModelBuilder()
    material = rods.Elastic(1e5, 0.5, 1000.0, 2e3)
    builder.add_rod("rod", "world", 0.2, rods.Circular(0.02), material, rods.LegendreBasis(bending_y=1))
    example = RodExample("rod", rods.SoftRobot(builder.build()), lambda t: np.zeros(0), None, None, "rod")
    path = speedups.wait_for_rest(example, {"u": np.zeros(0)}, 60.0)
    rest = rods.static_equilibrium(example.robot, [])
    assert path.done and path.reached > 0.1 and np.abs(path.x[: example.robot.nq] - rest.q).max() < 0.05
