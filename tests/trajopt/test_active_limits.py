"""Which limits press: by what multipliers and slacks are known to, however small they are."""

from dataclasses import replace

import numpy as np
import pytest

import trajopt
from experiments.sensitivity.pressing import lifted
from tests.tolerances import IDENTITY, relative_error
from tests.trajopt.systems import LinearSystem, Pendulum
from trajopt.results.stationary import polished_point, polished_solution

UNIT = LinearSystem(np.eye(1), np.eye(1))
KINDS = ["control", "row"]


def pushed(p, kind, low=-np.inf, high=0.5):
    """x+ = x + u from 0 to p, cost (u^2 + (x - p)^2) / 2: u = p / 2, or on a limit, of u or of x+, with the multiplier
    p - 2 u."""
    limits = trajopt.ControlBounds(low, high)
    if kind == "row":
        limits = trajopt.StateBounds(UNIT, [low], [high], at="terminal")
    return trajopt.Problem(UNIT, [0.0], 1, [trajopt.ControlCost(1.0)], [trajopt.StateCost(UNIT, [p], 1.0)], [limits])


def derivatives(p, kind, **limits):
    def make(p):
        return pushed(p, kind, **limits)

    solution = trajopt.DDP().solve(make(p))
    return make, solution, trajopt.sensitivity(make, p, solution)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("multiplier", [1e-5, 1e-7, 1e-9, 1e-12])
def test_a_small_multiplier_presses(kind, multiplier):
    make, solution, found = derivatives(1.0 + multiplier, kind)
    assert not found.weak and relative_error(found.multipliers[0].ravel(), np.ones(1)) < IDENTITY
    assert abs(found.us[0, 0, 0]) < IDENTITY
    report = trajopt.check_sensitivity(make, 1.0 + multiplier, solution, trajopt.DDP())
    assert report.ok and report["us by p, from above"].ok


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slack", [1e-5, 1e-7, 1e-9, 1e-12])
def test_a_small_slack_is_one(kind, slack):
    make, solution, found = derivatives(1.0 - 2.0 * slack, kind)
    assert not found.weak and not found.multipliers[0].any()
    assert found.us[0, 0, 0] == pytest.approx(0.5, abs=IDENTITY)
    report = trajopt.check_sensitivity(make, 1.0 - 2.0 * slack, solution, trajopt.DDP())
    assert report.ok and report["us by p, from below"].ok


@pytest.mark.parametrize("kind", KINDS)
def test_neither_a_multiplier_nor_a_slack(kind):
    """Weak, and both one-sided derivatives are compared."""
    make, solution, found = derivatives(1.0, kind)
    assert len(found.weak) == 1 and found.weak[0].side == 1
    assert abs(found.directional(1.0).us[0, 0]) < IDENTITY
    assert found.directional(-1.0).us[0, 0] == pytest.approx(-0.5, abs=IDENTITY)
    report = trajopt.check_sensitivity(make, 1.0, solution, trajopt.DDP())
    assert report.ok and not report.notes
    assert report["us by p, from above"].ok and report["us by p, from below"].expected == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("reported", [-1e-7, -1e-9, 0.0, 1e-9, 1e-7])
@pytest.mark.parametrize(("p", "slope"), [(1.0 + 1e-8, 0.0), (1.0 - 1e-8, 0.5)])
def test_multipliers_of_another_size_and_sign(reported, p, slope):
    """What a solver leaves of a small one does not count: neither its size nor its sign."""
    _, solution, _ = derivatives(p, "row")
    (report,) = solution.constraints
    given = replace(solution, constraints=(report._replace(multipliers=np.full((1, 1), reported)),))
    found = trajopt.sensitivity(lambda p: pushed(p, "row"), p, given)
    assert not found.weak and found.us[0, 0, 0] == pytest.approx(slope, abs=IDENTITY)


def test_what_cannot_be_compared_is_in_the_headline():
    """Between limits that no step of differences fits between."""
    narrow = {"low": 0.5 - 1e-9, "high": 0.5 + 1e-9}
    make, solution, found = derivatives(1.0, "control", **narrow)
    assert found.us[0, 0, 0] == pytest.approx(0.5, abs=IDENTITY) and not found.weak
    report = trajopt.check_sensitivity(make, 1.0, solution, trajopt.DDP())
    assert not report.ok and not report.wrong and report.not_compared == ("p",)
    printed = " ".join(str(report).split())
    assert "agree with differences where they were compared; not compared: p (tolerance" in printed


@pytest.mark.parametrize("share", [1e-7, 1e-9])
def test_a_torque_that_barely_presses(share):
    """Of a pendulum whose largest torque is less than it would like by so little: a held one, beside others that are
    free; differences on the side where it presses more."""
    system = Pendulum()

    def free(goal, bounds=()):
        costs = [trajopt.ControlCost(1e-2)], [trajopt.StateCost(system, [goal, 0.0], [50.0, 5.0])]
        return trajopt.Problem(system, [0.3, 0.0], 10, *costs, list(bounds))

    problem = free(1.0)
    alone = polished_solution(problem, trajopt.DDP().solve(problem))
    largest = alone.us.max() - share

    def make(p):
        return free(p, [trajopt.ControlBounds(-np.inf, largest)])

    solution = polished_solution(make(1.0), trajopt.DDP().solve(make(1.0), us=np.minimum(alone.us, largest)))
    found = trajopt.sensitivity(make, 1.0, solution)
    pressing = int(np.argmax(alone.us))
    assert not found.weak and found.point.held.controls[pressing, 0] == 1 and found.us[pressing, 0, 0] == 0.0
    assert 0.0 < -found.point.gradient[pressing, 0] < 1e-6 * found.point.multiplier_scale
    assert trajopt.check_sensitivity(make, 1.0, solution, trajopt.DDP()).ok


# ------------------------------------------------------------------------------------------------ a robot's step
@pytest.mark.parametrize("p", [(1.0, 0.25, 0.06), (1.0, 0.27, 0.06), (0.9, 0.3, 0.05)])
def test_friction_that_barely_presses(p, rng):
    """At least one row's multiplier is below a millionth of the costs' derivatives, and holds."""
    solver, p = trajopt.DDP(switch_threshold=0.1), np.array(p)
    solution = polished_solution(lifted(p), solver.solve(lifted(p)))
    found = trajopt.sensitivity(lifted, p, solution)
    point, W = found.point, 0.05 * rng.standard_normal(solution.us.shape)
    rows = point.rows.lower < point.rows.upper
    small = rows & (point.held.rows != 0) & (np.abs(point.nu) < 1e-6 * point.multiplier_scale)
    assert small.any() and not found.weak

    def value(h):
        other = lifted(p + np.array([0.0, h, 0.0]))
        there = polished_point(other, solver.solve(other, warm_start=solution))
        assert (there.held.rows == point.held.rows).all()
        return (W * there.us).sum() + other.objective.value(there.xs, there.us)

    h = 1e-5
    got, expected = (W * found.us[..., 1]).sum() + found.cost[1], (value(h) - value(-h)) / (2.0 * h)
    assert relative_error(np.array([got]), np.array([expected])) < 1e-6
    raw = trajopt.sensitivity(lifted, p, solver.solve(lifted(p)))  # not polished
    assert relative_error((W * raw.us[..., 1]).sum() + raw.cost[1:2], np.array([expected])) < 1e-4
