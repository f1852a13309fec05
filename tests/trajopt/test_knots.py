"""Where costs and constraints count: knots, times, slices and words; references that are functions of time."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from tests.tolerances import IDENTITY, relative_error
from tests.trajopt.cost_differences import assert_exact_hessians, assert_gradients
from tests.trajopt.systems import CirclePendulum, Pendulum, TipResidual
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
    total_cost,
)
from trajopt.interfaces.knots import checked_at, knots_at

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
        (9, ValueError, "at: foot got knot 9, wanted at most 8, or -1 ... -9 from the end"),
        ([-10], ValueError, "at: foot got knot -10, wanted at most 8"),
        (0.9, ValueError, "at: foot got the time 0.9 s, wanted 0 to 0.8 s"),
        (-0.1, ValueError, "at: foot got the time -0.1 s, wanted 0 to 0.8 s"),
        (slice(0.1, 1.7), ValueError, "at: foot got the time 1.7 s, wanted 0 to 0.8 s"),
        (slice(5, 5), ValueError, r"at: foot got slice\(5, 5, None\), which holds none of the knots 0 ... 8"),
        ([7, -2], ValueError, r"at: foot of the knots that \[7, -2\] are got 7 behind 7, wanted growing"),
        ([0.31, 0.33], ValueError, r"at: foot of the knots that \[0.31, 0.33\] are got 3 behind 3, wanted growing"),
        ("end", ValueError, "at: got 'end', wanted one of 'path', 'terminal', 'all'"),
        ([], ValueError, r"at: got \[\], wanted one of 'path', 'terminal', 'all', knots, times in seconds, or a slice"),
        (True, ValueError, "at: got True, wanted"),
        ([3, 2], ValueError, "at: got 2 behind 3, wanted growing knots or times"),
        (np.nan, ValueError, "at: got nan, wanted finite times"),
        (slice("a", None), TypeError, r"at: got slice\('a', None, None\), wanted a slice of knots or times"),
        (slice(None, np.inf), ValueError, "at: got slice.* wanted a slice of finite times"),
        (slice(None, None, -1), ValueError, "at: got slice.* wanted a step of at least one knot"),
        (slice(None, None, 0.1), ValueError, "at: got slice.* wanted a step of at least one knot"),
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


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: problem([goal(at=9)]), "at: 'StateCost' got knot 9, wanted at most 8"),
        (lambda: problem([ControlCost(1.0, at="all")]), "terminal_costs: got a ControlCost, wanted costs of the state"),
        (lambda: problem([ControlCost(1.0, at=-1)]), "terminal_costs: got a ControlCost, wanted costs of the state"),
        (lambda: problem([ControlCost(1.0, at=slice(8, 9))]), "at: 'ControlCost' got slice.*, where no knot takes"),
        (lambda: problem([], [goal(at=3)]), "terminal_costs: 'StateCost' has at=.*, wanted it among the running_costs"),
        (lambda: problem([], [goal(at="all")]), "terminal_costs: 'StateCost' has at='all', wanted it among the"),
        (lambda: problem([[goal(at=3)]] * N), r"running_costs\[0\]: 'StateCost' has at=.*, wanted a plain list"),
        (lambda: goal(at="end"), "at: got 'end', wanted one of"),
        (lambda: ControlCost(1.0, at=[]), r"at: got \[\], wanted one of"),
        (lambda: ResidualCost(TipResidual(), 1.0, at=[2, 1]), "at: got 1 behind 2, wanted growing"),
        (lambda: ControlRateCost(ControlRateSystem(SYSTEM), 1.0, at=np.inf), "at: got inf, wanted finite times"),
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


# ------------------------------------------------------------------------------------------------ functions of time
def wave(t):
    return [np.sin(3.0 * t), 3.0 * np.cos(3.0 * t)]


def test_references_are_evaluated_at_the_times_of_the_knots(trajectory):
    rows = np.array([wave(t) for t in TIMES])
    pairs = [
        (StateCost(SYSTEM, wave, 2.0), StateCost(SYSTEM, rows[:-1], 2.0)),
        (StateCost(SYSTEM, wave, 2.0, at=slice(2, 5)), StateCost(SYSTEM, rows[2:5], 2.0, at=slice(2, 5))),
        (StateCost(SYSTEM, wave, 2.0, at=[1, -1]), StateCost(SYSTEM, rows[[1, 8]], 2.0, at=[1, -1])),
        (ControlCost(0.3, np.sin), ControlCost(0.3, np.sin(TIMES[:-1])[:, None])),
        (ControlCost(0.3, lambda t: [t]), ControlCost(0.3, TIMES[:-1, None])),
        (ResidualCost(TipResidual(), 0.3, reference=np.sin),
         ResidualCost(TipResidual(), 0.3, reference=np.tile(np.sin(TIMES[:-1])[:, None], 3))),
    ]  # fmt: skip
    lifted = ControlRateSystem(SYSTEM)
    zs = np.hstack([trajectory[0], np.zeros((N + 1, 1))])
    for of_time, of_rows in pairs:
        values = [total_cost(problem([cost]), *trajectory) for cost in (of_time, of_rows)]
        assert values[0] == pytest.approx(values[1], rel=1e-15)
        value = total_cost(problem([lifted.lift(of_time)], system=lifted), zs, trajectory[1])
        assert value == pytest.approx(values[1], rel=1e-14)
    last = total_cost(problem([], [StateCost(SYSTEM, wave, 2.0)]), *trajectory)
    assert last == pytest.approx(((trajectory[0][-1] - rows[-1]) ** 2).sum(), rel=1e-14)


def test_references_on_a_manifold(rng):
    system = CirclePendulum()
    xs = system.embed(rng.uniform(-1.0, 1.0, (5, 2)))
    cost = StateCost(system, lambda t: system.embed(np.array([t, 1.0])), 2.0)
    p = Problem(system, xs[0], 4, [cost], [cost])
    target = system.embed(np.stack([system.dt * np.arange(5), np.ones(5)], axis=1))
    weights = np.r_[np.full(4, system.dt), 1.0]
    expected = weights @ (system.difference(target, xs) ** 2).sum(axis=1)
    assert total_cost(p, xs, np.zeros((4, 1))) == pytest.approx(expected, rel=1e-13)
    assert_exact_hessians(p, xs, np.zeros((4, 1)))


def test_a_tracked_motion_is_followed():
    """What is tracked solves the dynamics, so both solvers return to it; then its reference is moved."""
    us = np.sin(3.0 * TIMES[:-1])[:, None]
    xs = SYSTEM.rollout([0.1, 0.0], us)
    known = {round(t, 9): x for t, x in zip(TIMES, xs, strict=True)}
    costs = [StateCost(SYSTEM, lambda t: known[round(t, 9)], 1.0), ControlCost(0.1, lambda t: np.sin(3.0 * t))]
    p = Problem(SYSTEM, [0.1, 0.0], N, costs, costs[:1])
    for solver in (DDP(), ILQR()):
        solution = solver.solve(p)
        assert solution.converged and relative_error(solution.us, us) < 1e-7
    prepared = DDP().prepare(p)
    prepared.update({"ControlCost": us + 1.0, "StateCost": xs[:-1] + 0.1})
    moved = Problem(SYSTEM, [0.1, 0.0], N, [StateCost(SYSTEM, xs[:-1] + 0.1, 1.0), ControlCost(0.1, us + 1.0)],
                    p.terminal_costs)  # fmt: skip
    np.testing.assert_allclose(prepared.solve().us, DDP().solve(moved).us, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: problem([StateCost(SYSTEM, lambda t: [t], 1.0)]), "reference, at 0 s: got 1 numbers, wanted one or 2"),
        (lambda: problem([ControlCost(1.0, lambda t: 1.0 / (0.3 - t) if t < 0.25 else np.nan)]),
         "reference, at 0.3 s: got NaN or Inf"),
        (lambda: problem([StateCost(SYSTEM, wave, np.ones((3, 2)))]), "8 rows of reference, 3 rows of weights"),
        (lambda: StateCost(SYSTEM, wave, 1.0).value(np.zeros((2, 2)), None),
         "StateCost: it has functions of time, which a trajopt.Problem evaluates"),
        (lambda: ControlCost(1.0, np.sin).value(np.zeros((2, 2)), np.zeros((2, 1))), "ControlCost: it has functions"),
        (lambda: ResidualCost(TipResidual(), 1.0, reference=wave).value(np.zeros((2, 2)), np.zeros((2, 1))),
         "ResidualCost: it has functions of"),
    ],
)  # fmt: skip
def test_functions_say_what_is_wrong(make, match):
    with pytest.raises(ValueError, match=match):
        make()


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
        with pytest.raises(ValueError, match="at: got 0 behind 0, wanted growing"):
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
    with pytest.raises(ValueError, match=r"at: tip got the time 0\.9 s, wanted 0 to 0\.8 s"):
        problem(constraints=[ResidualConstraint(TipResidual(), at=0.9, name="tip")])
    with pytest.raises(ValueError, match="at: tip got times, wanted the constraint of a problem"):
        ResidualConstraint(TipResidual(), at=0.3, name="tip").knots(N, True)
