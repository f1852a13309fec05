"""Checks of derivatives of solutions: what agrees, what is wrong, kinks, and limits next to which nothing compares."""

import numpy as np
import pytest

import trajopt
from experiments.sensitivity.cases import CASES
from trajopt.optimality import first_order

PENDULUM = CASES["pendulum"]


def solved(make, p):
    return trajopt.DDP().solve(make(p))


def test_of_a_vehicle_past_discs():
    """Clamped controls, inequalities and equalities with multipliers."""
    case = CASES["unicycle"]
    report = trajopt.check_sensitivity(case.make, case.p, solved(case.make, case.p), trajopt.DDP(), wrt=["limit"])
    assert report.ok and not report.notes
    names = ["xs by limit", "us by limit", "cost by limit", "multipliers by limit", "us by limit, h/4"]
    assert [block.name for block in report.blocks] == [*names, "cost by limit, h/4"]
    assert report["multipliers by limit"].got == pytest.approx(report["multipliers by limit"].expected, rel=1e-6)
    assert "Derivatives of a solution agree with differences (tolerance 1e-06, 1 parameters)" in str(report)
    assert f"row {report['us by limit'].point}" in str(report)


def test_wrong_derivatives(monkeypatch):
    """Of a quadrotor without the Jacobian that carries its dynamics back, as before in `test_sensitivity`."""
    case = CASES["quadrotor"]
    solution = solved(case.make, case.p)
    polished = trajopt.check_sensitivity(case.make, case.p, solution, trajopt.DDP(), wrt=["mass"])
    assert polished.ok
    monkeypatch.setattr(first_order, "as_manifold", lambda system: None)
    report = trajopt.check_sensitivity(case.make, case.p, solution, trajopt.DDP(), wrt=["mass"])
    assert not report.ok and report["us by mass"].error > 1e-2 and "WRONG" in str(report)


def test_a_kink():
    """A clipped number within a step."""

    def make(p):
        return PENDULUM.make({**PENDULUM.p, "mass": 1.0 + max(float(p), 0.0)})

    report = trajopt.check_sensitivity(make, 3e-4, solved(make, 3e-4), trajopt.DDP(), steps=1e-3)
    assert not report["us by p"].ok and not report["us by p, h/4"].ok
    assert trajopt.check_sensitivity(make, 3e-4, solved(make, 3e-4), trajopt.DDP(), steps=1e-4).ok


def test_next_to_other_limits():
    """A torque that just touches its limit, to what a solve is known to: compared on the side where others follow."""
    largest = solved(PENDULUM.make, PENDULUM.p).us.max()

    def make(p):
        one = PENDULUM.make({**PENDULUM.p, "target": float(p)})
        bounds = [trajopt.ControlBounds(-np.inf, largest)]
        return trajopt.Problem(
            one.system, one.x0, one.horizon, one.running_costs, one.terminal_costs, bounds, us_init=one.us_init
        )

    report = trajopt.check_sensitivity(make, 0.0, solved(make, 0.0), trajopt.DDP())
    assert report.ok and not report.notes
    assert any(f"us by p, {side}" in [block.name for block in report.blocks] for side in ("from above", "from below"))


def test_bad_input():
    solution = solved(PENDULUM.make, PENDULUM.p)
    with pytest.raises(ValueError, match=r"tolerance: got 0\.0, expected a positive number"):
        trajopt.check_sensitivity(PENDULUM.make, PENDULUM.p, solution, trajopt.DDP(), tolerance=0.0)
    with pytest.raises(TypeError, match="solver: got int, expected one with a method solve"):
        trajopt.check_sensitivity(PENDULUM.make, PENDULUM.p, solution, 3)
    with pytest.raises(ValueError, match=r"differ by .* from the dynamics of make_problem"):
        trajopt.check_sensitivity(PENDULUM.make, {**PENDULUM.p, "mass": 2.0}, solution, trajopt.DDP())
