"""Where costs and constraints count: knots, times, slices and words; references that are functions of time."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import dynamics
from problems.quadruped_model import FEET, quadruped, standing
from tests.tolerances import IDENTITY
from tests.trajopt.cost_differences import assert_exact_hessians, assert_gradients
from tests.trajopt.systems import Pendulum, TipResidual
from trajopt import (
    DDP,
    ILQR,
    ControlCost,
    ControlRateCost,
    ControlRateSystem,
    ControlResidual,
    Problem,
    ResidualConstraint,
    ResidualCost,
    StateBounds,
    StateCost,
    StateResidual,
    expand,
    total_cost,
)
from trajopt.interfaces.terms import checked_at, knots_at

N = 8
SYSTEM = Pendulum(dt=0.1)
TIMES = 0.1 * np.arange(N + 1)
CLOCK = np.array([0.0, 0.1, 0.2, 0.2, 0.5, 0.6])
"""An impact at 0.2 s, and a longer knot behind it."""


class Uneven(Pendulum):
    """Knots that do not all take dt."""

    durations = np.diff(CLOCK)


@pytest.fixture
def trajectory(rng):
    return rng.standard_normal((N + 1, 2)), rng.standard_normal((N, 1))


def problem(running=(), terminal=(), constraints=(), system=SYSTEM, horizon=N):
    return Problem(system, np.zeros(system.nx), horizon, list(running), list(terminal), list(constraints))


def goal(**where):
    return StateCost(SYSTEM, [0.3, -0.2], [2.0, 0.5], **where)


def each_knot(xs):
    """What the goal costs at states."""
    return (xs[:, 0] - 0.3) ** 2 + 0.25 * (xs[:, 1] + 0.2) ** 2


# ------------------------------------------------------------------------------------------------ knots
@pytest.mark.parametrize(
    ("at", "knots"),
    [
        ("path", range(8)),
        ("terminal", [8]),
        ("all", range(9)),
        (3, [3]),
        (-1, [8]),
        (np.int64(-9), [0]),
        ([1, 4, -1], [1, 4, 8]),
        (range(2, 5), [2, 3, 4]),
        (0.0, [0]),
        (0.34, [3]),
        (np.float64(0.8), [8]),
        (0.8 + 1e-12, [8]),
        ([0.1, 0.26, 0.7], [1, 3, 7]),
        (slice(2, 5), [2, 3, 4]),
        (slice(-2, None), [7, 8]),
        (slice(None, 6, 2), [0, 2, 4]),
        (slice(0.2, 0.41), [2, 3]),
        (slice(0.6, None), [6, 7, 8]),
        (slice(None, 0.2), [0, 1]),
    ],
)
def test_knots_that_are_meant(at, knots):
    np.testing.assert_array_equal(knots_at(checked_at(at), TIMES), list(knots))


@pytest.mark.parametrize(
    ("at", "knots"), [(0.2, [2]), (0.34, [2]), (0.36, [4]), ([0.1, 0.6], [1, 5]), (slice(0.2, 0.6), [2, 3, 4])]
)
def test_times_are_those_that_the_knots_take(at, knots):
    """Of two knots at one time the first, before the impact, is meant."""
    np.testing.assert_array_equal(knots_at(checked_at(at), CLOCK), knots)


@pytest.mark.parametrize(
    ("at", "error", "match"),
    [
        (9, ValueError, "at: foot got knot 9, expected at most 8, or -1 ... -9 from the end"),
        ([-10], ValueError, "at: foot got knot -10, expected at most 8"),
        (0.9, ValueError, "at: foot got the time 0.9 s, expected 0 to 0.8 s"),
        (-0.1, ValueError, "at: foot got the time -0.1 s, expected 0 to 0.8 s"),
        (slice(0.1, 1.7), ValueError, "at: foot got the time 1.7 s, expected 0 to 0.8 s"),
        (slice(5, 5), ValueError, r"at: foot got slice\(5, 5, None\), which holds none of the knots 0 ... 8"),
        ([7, -2], ValueError, r"at: foot of the knots that \[7, -2\] are got 7 behind 7, expected growing"),
        ([0.31, 0.33], ValueError, r"at: foot of the knots that \[0.31, 0.33\] are got 3 behind 3, expected growing"),
        ("end", ValueError, "at: got 'end', expected one of 'path', 'terminal', 'all'"),
        (
            [],
            ValueError,
            r"at: got \[\], expected one of 'path', 'terminal', 'all', knots, times in seconds, or a slice",
        ),
        (True, ValueError, "at: got True, expected"),
        ([3, 2], ValueError, "at: got 2 behind 3, expected growing knots or times"),
        (np.nan, ValueError, "at: got nan, expected finite times"),
        (slice("a", None), TypeError, r"at: got slice\('a', None, None\), expected a slice of knots or times"),
        (slice(None, np.inf), ValueError, "at: got slice.* expected a slice of finite times"),
        (slice(None, None, -1), ValueError, "at: got slice.* expected a step of at least one knot"),
        (slice(None, None, 0.1), ValueError, "at: got slice.* expected a step of at least one knot"),
    ],
)
def test_others_are_refused(at, error, match):
    with pytest.raises(error, match=match):
        knots_at(checked_at(at), TIMES, "foot")


# ------------------------------------------------------------------------------------------------ costs
@pytest.mark.parametrize(
    ("at", "factors"),
    [
        (None, 0.1 * np.r_[np.ones(8), 0.0]),
        ("path", 0.1 * np.r_[np.ones(8), 0.0]),
        ("terminal", np.eye(9)[8]),
        ("all", np.r_[0.1 * np.ones(8), 1.0]),
        (-1, np.eye(9)[8]),
        (0.3, np.eye(9)[3]),
        ([0, 3, -1], np.eye(9)[[0, 3, 8]].sum(axis=0)),
        (slice(2, 4), 0.1 * np.eye(9)[[2, 3]].sum(axis=0)),
        (slice(0.6, None), 0.1 * np.eye(9)[[6, 7]].sum(axis=0)),
    ],
)
def test_instants_count_as_they_are_and_spans_are_integrated(at, factors, trajectory):
    p = problem([goal(at=at), ControlCost(0.3)])
    expected = factors @ each_knot(trajectory[0]) + 0.1 * 0.15 * (trajectory[1] ** 2).sum()
    assert total_cost(p, *trajectory) == pytest.approx(expected, rel=IDENTITY)
    assert_gradients(p, *trajectory)
    assert_exact_hessians(p, *trajectory)


def test_a_cost_at_a_time_is_the_same_at_any_time_step(rng):
    x = rng.standard_normal(2)
    values = []
    for dt in (0.2, 0.1, 0.01):
        n = round(0.8 / dt)
        p = Problem(Pendulum(dt), [0.0, 0.0], n, [goal(at=0.4)])
        xs = rng.standard_normal((n + 1, 2))
        xs[n // 2] = x
        values.append(total_cost(p, xs, np.zeros((n, 1))))
    np.testing.assert_allclose(values, each_knot(x[None])[0], rtol=1e-14)


def test_every_kind_of_cost(rng):
    inner, knots = SYSTEM, [1, 4]
    system = ControlRateSystem(inner)
    zs, us = rng.standard_normal((N + 1, 3)), rng.standard_normal((N, 1))
    xs, before = zs[:, :2], zs[:-1, 2:]
    tip = TipResidual().evaluate(xs[:-1], us)
    for cost, rows in (
        (StateCost(system, np.zeros(3), 2.0, at=knots), (zs**2).sum(axis=1)),
        (ControlCost(3.0, 0.1, at=knots), 1.5 * ((us - 0.1) ** 2)[:, 0]),
        (ControlRateCost(system, 0.2, at=knots), 0.1 * (((us - before) / 0.1) ** 2)[:, 0]),
        (system.lift(goal(at=knots)), each_knot(xs)),
        (system.lift(ResidualCost(TipResidual(), 4.0, at=knots)), 2.0 * (tip**2).sum(axis=1)),
        (ResidualCost(system.lift(TipResidual()), 4.0, at=knots), 2.0 * (tip**2).sum(axis=1)),
    ):
        found = total_cost(problem([cost], system=system), zs, us)
        assert found == pytest.approx(rows[knots].sum(), rel=1e-12), cost


def test_rows_are_those_of_the_knots(trajectory, rng):
    """Also where one of them is the last knot, whose row becomes a terminal cost."""
    xs, us = trajectory
    references, weights = rng.standard_normal((3, 2)), rng.uniform(0.1, 1.0, (3, 2))
    knots = [2, 5, 8]
    expected = 0.5 * (weights * (xs[knots] - references) ** 2).sum()
    for cost in (
        StateCost(SYSTEM, references, weights, at=knots),
        ResidualCost(StateResidual(SYSTEM), weights, reference=references, at=knots),
    ):
        p = problem([cost])
        assert total_cost(p, xs, us) == pytest.approx(expected, rel=1e-14)
        assert (len(p.running_costs), len(p.terminal_costs)) == (1, 1) and cost.at == (2, 5, 8)
        for again in (replace(p), pickle.loads(pickle.dumps(p))):
            assert total_cost(again, xs, us) == pytest.approx(expected, rel=1e-14)
        with pytest.raises(ValueError, match="Cost: made for 3 knots, got 4"):
            problem([type(cost)(*_arguments(cost), at=[1, 2, 3, 8])])
    rate = ControlRateSystem(SYSTEM)
    zs = rng.standard_normal((N + 1, 3))
    cost = ControlRateCost(rate, weights[:, :1], at=[1, 4, 6])
    rates = (us - zs[:-1, 2:])[[1, 4, 6]] / 0.1
    found = total_cost(problem([cost], system=rate), zs, us)
    assert found == pytest.approx(0.5 * (weights[:, :1] * rates**2).sum(), rel=1e-12)


def _arguments(cost):
    weights = cost.weights
    return (SYSTEM, cost.reference, weights) if isinstance(cost, StateCost) else (cost.residual, weights)


def test_knots_of_other_durations(rng):
    """A plain list does not count at the impact; one term has a factor for every knot."""
    xs, us = rng.standard_normal((6, 2)), rng.standard_normal((5, 1))
    d, timed, system = Uneven.durations, [0, 1, 3, 4], Uneven()
    rows = rng.standard_normal((4, 1))
    plain, tip = each_knot(xs[:-1]), TipResidual().evaluate(xs[:-1], us)
    for cost, expected in (
        (goal(), d @ plain),
        (goal(at=slice(0.1, 0.6)), d[1:] @ plain[1:]),
        (goal(at=[2, 3]), plain[2] + plain[3]),
        (ControlCost(2.0, rows), d[timed] @ (us[timed] - rows)[:, 0] ** 2),
        (ControlCost(2.0, np.cos), d @ (us[:, 0] - np.cos(CLOCK[:-1])) ** 2),
        (ResidualCost(TipResidual(), 2.0, at=slice(1, 4)), d[1:4] @ (tip[1:4] ** 2).sum(axis=1)),
    ):
        p = problem([cost, goal(at=0.5)], [goal()], system=system, horizon=5)
        expected = expected + plain[4] + each_knot(xs)[-1]
        assert total_cost(p, xs, us) == pytest.approx(expected, rel=1e-13)
        assert len(p.objective.terms) == 3
        assert_gradients(p, xs, us)
        assert_exact_hessians(p, xs, us)
    lists = [[goal_of_all] for goal_of_all in [goal()] * 5]
    assert total_cost(problem(lists, system=system, horizon=5), xs, us) == pytest.approx(
        np.where(d > 0.0, d, 1.0) @ plain, rel=1e-13
    )


def test_a_waypoint_at_an_impact_is_the_state_before_it(rng):
    """A plain list with at= costs what lists for each knot do."""
    robot = quadruped()
    system = dynamics.HybridSystem(robot, 0.01, [("step", FEET[:3], 3), ("stance", FEET, 3)])
    x0, n = system.state(standing()), system.horizon
    place = dynamics.FrameTranslation(robot, FEET[3], dynamics.frame_placement(robot, standing(), FEET[3]).p + 0.1)
    posture, lists = StateCost(system, x0, 1.0), [[] for _ in range(n)]
    for t in range(n):
        lists[t].append(ResidualCost(place, 50.0) if t == 3 else posture)
    plain, by_knots = (
        Problem(system, x0, n, running, us_init="quasi_static")
        for running in ([posture, ResidualCost(place, 50.0, at=0.03)], lists)
    )
    dx = 0.1 * rng.standard_normal((n + 1, system.ndx))
    xs, us = system.integrate(np.tile(x0, (n + 1, 1)), dx), rng.standard_normal((n, system.nu))
    assert total_cost(plain, xs, us) == pytest.approx(total_cost(by_knots, xs, us), rel=1e-13)
    for a, b in zip(expand(plain, xs, us)[2:7], expand(by_knots, xs, us)[2:7], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: problem([goal(at=9)]), "at: 'StateCost' got knot 9, expected at most 8"),
        (
            lambda: problem([ControlCost(1.0, at="all")]),
            "terminal_costs: got a ControlCost, expected costs of the state",
        ),
        (lambda: problem([ControlCost(1.0, at=-1)]), "terminal_costs: got a ControlCost, expected costs of the state"),
        (lambda: problem([ControlCost(1.0, at=slice(8, 9))]), "at: 'ControlCost' got slice.*, where no knot takes"),
        (
            lambda: problem([], [goal(at=3)]),
            "terminal_costs: 'StateCost' has at=.*, expected it among the running_costs",
        ),
        (lambda: problem([], [goal(at="all")]), "terminal_costs: 'StateCost' has at='all', expected it among the"),
        (lambda: problem([[goal(at=3)]] * N), r"running_costs\[0\]: 'StateCost' has at=.*, expected a plain list"),
        (lambda: goal(at="end"), "at: got 'end', expected one of"),
        (lambda: ControlCost(1.0, at=[]), r"at: got \[\], expected one of"),
        (lambda: ResidualCost(TipResidual(), 1.0, at=[2, 1]), "at: got 1 behind 2, expected growing"),
        (lambda: ControlRateCost(ControlRateSystem(SYSTEM), 1.0, at=np.inf), "at: got inf, expected finite times"),
    ],
)
def test_costs_say_what_is_wrong(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_a_cost_for_the_last_knot_is_a_terminal_one(trajectory):
    for at in ("terminal", -1, N, 0.8):
        p = problem([ControlCost(1.0), goal(at=at)])
        assert len(p.running_costs) == 1 and p.objective.terms[-1].terminal
        assert total_cost(problem([], [goal(at=at)]), *trajectory) == pytest.approx(each_knot(trajectory[0])[-1])


# ------------------------------------------------------------------------------------------------ constraints
@pytest.mark.parametrize(
    ("at", "of_states", "of_controls"),
    [
        (3, [3], [3]),
        (-1, [8], [8]),
        ([0, 0], None, None),
        ([0.1, 0.5], [1, 5], [1, 5]),
        (slice(None), range(1, 9), range(8)),
        (slice(0.5, None), [5, 6, 7, 8], [5, 6, 7]),
        ("all", range(1, 9), range(9)),
    ],
)
def test_constraints_at_the_knots_that_are_meant(at, of_states, of_controls):
    if of_states is None:
        with pytest.raises(ValueError, match="at: got 0 behind 0, expected growing"):
            ResidualConstraint(TipResidual(), at=at)
        return
    p = problem([ControlCost(1.0)], constraints=[StateBounds(SYSTEM, -1.0, 1.0, at=at)])
    np.testing.assert_array_equal(p.constraints[0].knots(N, True), list(of_states))
    held = ResidualConstraint(ControlResidual(SYSTEM), -1.0, 1.0, at=at)
    np.testing.assert_array_equal(problem([], [], [held]).constraints[0].knots(N, False), list(of_controls))
    assert replace(p).constraints[0].at == p.constraints[0].at


def test_constraints_hold_where_they_are_asked_to():
    """Limits with a row for each knot, at times; both solvers end at the same minimum."""
    limits = np.array([[0.05], [0.1]])
    speed = StateResidual(SYSTEM, components=[1])
    held = ResidualConstraint(speed, -limits, limits, at=[0.3, 0.8], name="slow")
    p = Problem(SYSTEM, [0.0, 0.0], N, [ControlCost(1.0, 5.0)], constraints=[held])
    solutions = [solver.solve(p) for solver in (DDP(), ILQR())]
    for solution in solutions:
        assert solution.converged
        np.testing.assert_array_equal(solution.constraints[0].knots, [3, 8])
        np.testing.assert_allclose(solution.xs[[3, 8], 1], limits[:, 0], atol=1e-6)
        assert np.abs(solution.xs[5, 1]) > 0.2
    assert solutions[0].cost == pytest.approx(solutions[1].cost, rel=1e-6)


def test_constraints_beyond_the_horizon_are_refused():
    with pytest.raises(ValueError, match=r"at: tip got the time 0\.9 s, expected 0 to 0\.8 s"):
        problem(constraints=[ResidualConstraint(TipResidual(), at=0.9, name="tip")])
    with pytest.raises(ValueError, match="at: tip got times, expected the constraint of a problem"):
        ResidualConstraint(TipResidual(), at=0.3, name="tip").knots(N, True)
