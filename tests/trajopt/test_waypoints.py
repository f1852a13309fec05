"""States and residuals to pass through at given times, softly and exactly."""

import numpy as np
import pytest

from tests.trajopt.systems import CirclePendulum, Pendulum, TipResidual
from trajopt import DDP, ILQR, ControlCost, Problem, ResidualConstraint, StateCost, StateResidual, total_cost, waypoints

N = 20
TIP = TipResidual()


def swing(dt=0.05, horizon=N, soft=(), hard=()):
    return Problem(Pendulum(dt), [0.0, 0.0], horizon, [ControlCost(1e-2), *soft], [], list(hard))


def test_costs_at_times_by_hand(rng):
    system = Pendulum()
    points = [(0.2, [0.3, 0.0]), (0.5, TIP, [1.0, 2.0, 0.0]), ("terminal", [0.6, 0.1], 7.0)]
    p = swing(soft=waypoints(points, system, weights=[4.0, 0.0]))
    assert [(type(c).__name__, c.name) for c in p.running_costs[1:]] == [
        ("StateCost", "waypoint at 0.2 s"), ("ResidualCost", "waypoint at 0.5 s")]  # fmt: skip
    assert [c.name for c in p.terminal_costs] == ["waypoint at the end"]
    xs, us = rng.standard_normal((N + 1, 2)), np.zeros((N, 1))
    tip = TIP.evaluate(xs[10:11], us[:1])[0]
    expected = 2.0 * (xs[4, 0] - 0.3) ** 2 + 0.5 * tip[0] ** 2 + tip[1] ** 2 + 3.5 * ((xs[-1] - [0.6, 0.1]) ** 2).sum()
    assert total_cost(p, xs, us) == pytest.approx(expected, rel=1e-13)


def test_whole_numbers_are_seconds_too():
    (cost,) = waypoints([(1, [0.0, 0.0])], Pendulum(), 1.0)
    assert cost.at == (1.0,) and isinstance(cost.at[0], float)
    assert swing(horizon=40, soft=[cost]).objective.terms[-1].knots.tolist() == [20]


@pytest.mark.parametrize("hard", [False, True])
def test_both_solvers_pass_through(hard):
    """The angle twice, then a state; speeds on the way are free."""
    points = [(0.25, [0.4, 9.0], [1e4, 0.0]), (0.5, [-0.3, 9.0], [1e4, 0.0]), (1.0, [0.2, 0.0], 1e4)]
    terms = waypoints(points, Pendulum(), hard=hard)
    assert all(isinstance(term, ResidualConstraint if hard else StateCost) for term in terms)
    p = swing(hard=terms) if hard else swing(soft=terms)
    solutions = [solver.solve(p) for solver in (DDP(), ILQR())]
    for solution in solutions:
        assert solution.converged
        tolerance = 1e-6 if hard else 5e-3
        np.testing.assert_allclose(solution.xs[[5, 10, 20], 0], [0.4, -0.3, 0.2], atol=tolerance)
        assert abs(solution.xs[-1, 1]) < tolerance and np.abs(solution.xs[[5, 10], 1]).min() > 0.1
    assert solutions[0].cost == pytest.approx(solutions[1].cost, rel=1e-6)


def test_softly_at_other_time_steps():
    """The same weights at half the time step lead to nearly the same motion."""
    at = [swing(dt, round(1.0 / dt), waypoints([(0.5, [0.5, 0.0]), (1.0, [0.0, 0.0])], Pendulum(), 10.0))
          for dt in (0.02, 0.01)]  # fmt: skip
    coarse, fine = (DDP().solve(p) for p in at)
    np.testing.assert_allclose(coarse.xs[:, 0], fine.xs[::2, 0], atol=0.02)
    assert coarse.cost == pytest.approx(fine.cost, rel=0.05)


def test_residuals_held_in_some_numbers():
    (held,) = waypoints([(0.5, TIP, [1.0, 0.0, 0.0])], hard=True)
    np.testing.assert_array_equal(held.upper, [0.0, np.inf, np.inf])
    solution = DDP().solve(swing(hard=[held]))
    assert solution.converged
    assert abs(TIP.evaluate(solution.xs[10:11], solution.us[:1])[0, 0]) < 1e-6

    part = StateResidual(Pendulum(), [0.0, 2.0], [1])
    for weights in (None, 3.0):
        (speed,) = waypoints([(0.5, part, weights)] if weights else [(0.5, part)], hard=True)
        np.testing.assert_array_equal(speed.residual.evaluate(np.array([[9.0, 2.5]]), None), [[0.5]])


def test_states_on_a_manifold():
    system = CirclePendulum()
    x = system.embed(np.array([0.4, 0.0]))
    for hard in (False, True):
        (term,) = waypoints([(0.5, x)], system, 1e4, hard=hard)
        parts = {"constraints": [term]} if hard else {}
        running = [ControlCost(1e-2), *([] if hard else [term])]
        solution = DDP().solve(Problem(system, system.embed(np.zeros(2)), N, running, **parts))
        assert solution.converged
        np.testing.assert_allclose(solution.xs[10], x, atol=1e-6 if hard else 5e-3)


STATE = [0.0, 0.0]


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: waypoints(3.0), TypeError, "points: got float, expected a list of"),
        (lambda: waypoints([3.0]), ValueError, r"points\[0\]: got 3.0, expected \(time, where\)"),
        (lambda: waypoints([(0.1, TIP, 1.0, 2.0)]), ValueError, r"points\[0\]: got .*, expected \(time, where\)"),
        (lambda: waypoints([(0.1, STATE)], weights=1.0), ValueError, r"system: got None, expected .* in points\[0\]"),
        (lambda: waypoints([(0.1, TIP)]), ValueError, r"weights: got none for points\[0\], expected"),
        (lambda: waypoints([("end", TIP)], weights=1.0), TypeError, r"points\[0\], time: got 'end', expected a number"),
        (lambda: waypoints([(np.zeros(2), TIP)], weights=1.0), ValueError, r"points\[0\], time: got shape \(2,\)"),
        (lambda: waypoints([(np.nan, TIP)], weights=1.0), ValueError, r"points\[0\], time: got nan"),
        (lambda: waypoints([(0.1, TIP)], weights=-1.0), ValueError, "weights: got -1.0, expected no negative weight"),
        (lambda: waypoints([(0.1, TIP)], weights=0.0, hard=True), ValueError, "weights: got 0.0 for waypoint at 0.1 s"),
        (lambda: waypoints([(0.1, TIP)], weights=1.0, hard=3), TypeError, "hard: got 3, expected True or False"),  # type: ignore
        (lambda: waypoints([(0.1, [0.0])], Pendulum(), 1.0), ValueError, r"reference: got shape \(1,\), expected \(2"),
        (lambda: swing(soft=waypoints([(1.2, TIP)], weights=1.0)), ValueError, "at: 'waypoint at 1.2 s' got the time"),
        (lambda: swing(hard=waypoints([(1.2, TIP)], hard=True)), ValueError, "at: waypoint at 1.2 s got the time 1.2"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(make, error, match):
    with pytest.raises(error, match=match):
        make()
