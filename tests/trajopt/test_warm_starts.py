"""Constrained solves from an earlier solution, from states with gaps, and constraints of unusual kinds."""

from dataclasses import replace

import numpy as np
import pytest

import dynamics
import problems
from tests.trajopt.cases import pendulum
from tests.trajopt.constrained_cases import CASES, arrival, speed_limit
from tests.trajopt.systems import CirclePendulum, Pendulum
from trajopt import (
    DDP,
    ILQR,
    CallableSystem,
    ControlBounds,
    ControlCost,
    ControlResidual,
    Problem,
    ResidualConstraint,
    StateBounds,
    StateCost,
    StateResidual,
    Status,
)
from trajopt.solvers.start import at_knots


def words(solution):
    """What is said of a solution, in one line."""
    return " ".join(solution.explain().split())


@pytest.fixture(scope="module")
def solutions():
    return {name: DDP().solve(make()) for name, make in CASES.items()}


# ------------------------------------------------------------------------------------------------ warm starts
@pytest.mark.parametrize("name", CASES)
def test_a_warm_start_at_the_solution_stays(name, solutions):
    """Multipliers and penalties come along: next to nothing is left to do, where a cold start has much."""
    expected = solutions[name]
    for start in (expected, expected.warm_start()):
        again = DDP().solve(expected.problem, warm_start=start)
        assert again.converged and again.iterations <= 2 < expected.iterations
        np.testing.assert_allclose(again.us, expected.us, atol=1e-6 * np.abs(expected.us).max())
        assert again.cost == pytest.approx(expected.cost, rel=1e-6)


@pytest.mark.parametrize("name", ["speed limit", "several"])
def test_a_warm_start_helps_nearby(name, solutions):
    expected = solutions[name]
    p = expected.problem
    moved = Problem(p.system, p.x0 + 1e-3, p.horizon, p.running_costs, p.terminal_costs, p.constraints)
    cold, warm = DDP().solve(moved), DDP().solve(moved, warm_start=expected)
    assert cold.converged and warm.converged and warm.iterations < cold.iterations
    assert warm.cost == pytest.approx(cold.cost, rel=1e-6)
    np.testing.assert_allclose(warm.us, cold.us, atol=1e-4 * np.abs(cold.us).max())


@pytest.mark.parametrize("wider", [0.731, 0.75, 1.0])
@pytest.mark.parametrize("solver", [DDP(), ILQR()], ids=["DDP", "iLQR"])
def test_an_optimum_of_a_tighter_limit_is_none_of_a_wider_one(solver, wider):
    def crossing(limit):
        system = CallableSystem(step=lambda x, u: (x[0] + 0.1 * x[1], x[1] + 0.1 * u[0]), nx=2, nu=1, dt=0.1)
        there = ResidualConstraint(StateResidual(system, [1.0, 0.0]), at="terminal", name="there")
        speed = StateBounds(system, [-np.inf, -np.inf], [np.inf, limit], name="speed")
        return Problem(system, [0.0, 0.0], 20, [ControlCost([1.0])], constraints=[there, speed])

    slow, scratch = solver.solve(crossing(0.7)), solver.solve(crossing(wider))
    found = solver.solve(crossing(wider), warm_start=slow)
    assert found.converged and scratch.cost < 0.99 * slow.cost
    np.testing.assert_allclose(found.cost, scratch.cost, rtol=1e-8)


def test_a_warm_start_serves_the_other_way_to_keep_control_limits(solutions):
    box = solutions["several"]
    smooth = DDP(control_limits="augmented_lagrangian").solve(box.problem, warm_start=box)
    assert smooth.converged and smooth.cost == pytest.approx(box.cost, rel=1e-5)
    back = DDP().solve(box.problem, warm_start=smooth)
    assert back.converged and back.cost == pytest.approx(box.cost, rel=1e-6)


def test_explicit_controls_come_before_the_warm_start(solutions):
    expected = solutions["speed limit"]
    start = DDP(max_iterations=0).solve(expected.problem, us=np.full((12, 1), 0.5), warm_start=expected)
    np.testing.assert_array_equal(start.us, 0.5)


def test_shifted(solutions):
    solution = solutions["several"]
    start = solution.shifted(2)
    np.testing.assert_array_equal(start.us[:-2], solution.us[2:])
    system, (lower, upper) = solution.problem.system, solution.problem.control_limits
    for u, x in zip(start.us[-2:], start.xs[-3:], strict=False):
        fed_back = solution.us[-1] + solution.K[-1] @ system.difference(solution.xs[-2], x)
        np.testing.assert_allclose(u, np.clip(fed_back, lower[-1], upper[-1]), rtol=1e-9)
    onwards = system.rollout(solution.xs[-1], start.us[-2:])
    np.testing.assert_array_equal(start.xs, np.vstack([solution.xs[2:], onwards[1:]]))
    assert [r.name for r in start.constraints] == [r.name for r in solution.constraints]
    assert [r.penalty for r in start.constraints] == [r.penalty for r in solution.constraints]
    bounds, obstacle, arrived, speed = (r.multipliers for r in solution.constraints)
    later = [r.multipliers for r in start.constraints]
    np.testing.assert_array_equal(later[0], np.vstack([bounds[2:], np.tile(bounds[-1], (2, 1))]))
    np.testing.assert_array_equal(later[1], np.vstack([obstacle[2:], np.tile(obstacle[-1], (2, 1))]))
    np.testing.assert_array_equal(later[2], arrived)  # that of the last knot stays there
    path = speed[:-1]
    np.testing.assert_array_equal(later[3], np.vstack([path[2:], np.tile(path[-1], (2, 1)), speed[-1:]]))
    np.testing.assert_array_equal(solution.shifted(0).us, solution.us)
    assert solution.shifted(99).us.shape == solution.us.shape
    with pytest.raises(ValueError, match="steps: got -1"):
        solution.shifted(-1)


def test_receding_horizon(solutions):
    """Step on, shift, solve again: every solve converges, from the shifted start as from a cold one."""
    solution = solutions["speed limit"]
    for _ in range(3):
        p = solution.problem
        moved = Problem(p.system, solution.xs[1], p.horizon, p.running_costs, p.terminal_costs, p.constraints)
        cold, solution = DDP().solve(moved), DDP().solve(moved, warm_start=solution.shifted())
        assert solution.converged and solution.cost == pytest.approx(cold.cost, rel=1e-6)


def test_multipliers_go_by_name(solutions):
    """Constraints added, removed or listed otherwise: the others keep their multipliers, and what is left is told."""
    solution = solutions["several"]
    p = solution.problem
    far = StateBounds(p.system, -9.0, 9.0)
    assert far.name == "state bounds" == p.constraints[-1].name
    for what, constraints, told in (
        ("swapped", p.constraints[::-1], ()),
        ("one more", [*p.constraints, far], ("'state bounds 2' has no multipliers in it",)),
        ("one less", [*p.constraints[:1], *p.constraints[2:]], ("'obstacle' is no constraint here",)),
    ):
        again = DDP().solve(replace(p, constraints=constraints), warm_start=solution)
        assert again.converged and again.start == "warm" and again.not_taken_over == told, what
        assert "The solve began with the trajectory and the multipliers of a warm start" in words(again)
        assert all(one in words(again) for one in told)
        if what != "one less":
            assert again.iterations <= 1
            np.testing.assert_allclose(again.us, solution.us, atol=1e-6 * np.abs(solution.us).max())


def test_a_warm_start_of_another_width_is_told(solutions):
    solution = solutions["speed limit"]
    p = solution.problem
    other = replace(p, constraints=[StateBounds(p.system, -9.0, 9.0)])
    again = DDP().solve(other, warm_start=solution)
    assert again.converged and again.not_taken_over == ("'state bounds' has 1 rows in it and 2 here",)


@pytest.mark.parametrize("horizon", [9, 20])
def test_a_warm_start_over_another_horizon(horizon, solutions):
    """What lies beyond is left out, or the last control goes on: fewer iterations than from scratch, the same end."""
    solution = solutions["several"]
    p = solution.problem
    if horizon < p.horizon:
        p = replace(p, constraints=[p.constraints[1]], terminal_costs=[StateCost(p.system, np.zeros(4), 1.0)])
        solution = DDP().solve(replace(p, us_init=None))
    other = replace(p, horizon=horizon, us_init=None)
    cold, again = DDP().solve(other), DDP().solve(other, warm_start=solution)
    assert again.converged and again.cost <= cold.cost * (1 + 1e-6)
    (told,) = again.not_taken_over
    assert told == f"it has 14 knots, the problem {horizon}: " + (
        "the last control goes on" if horizon > 14 else "the rest is left out"
    )
    given = DDP(max_iterations=0).solve(other, warm_start=solution)
    n = min(horizon, 14)
    np.testing.assert_array_equal(given.us[:n], solution.us[:n])
    np.testing.assert_array_equal(given.us[n:], np.tile(solution.us[-1], (horizon - n, 1)))
    np.testing.assert_array_equal(given.xs[: n + 1], solution.xs[: n + 1])
    for report in solution.constraints:
        knots = np.append(np.arange(1, horizon), horizon)
        found = at_knots(report, 14, knots, horizon)
        path, last = report.knots < 14, report.knots == 14
        expected = np.zeros((horizon, report.multipliers.shape[1]))
        if path.any():
            expected[: n - 1] = report.multipliers[path][-13:][: n - 1]
            expected[n - 1 : horizon - 1] = report.multipliers[path][-1]
        expected[-1] = report.multipliers[last][0] if last.any() else 0.0
        np.testing.assert_array_equal(found, expected)


def test_an_infeasible_end_of_a_warm_start_is_no_last_word(solutions):
    solution = solutions["speed limit"]
    stuck = replace(solution, status=Status.INFEASIBLE, start="warm")
    values = stuck.constraints[0].values + 9.0
    stuck = replace(stuck, constraints=(stuck.constraints[0]._replace(values=values),))
    assert "solve without warm_start=" in words(stuck)
    assert "solve without warm_start=" not in words(replace(stuck, start="given"))


def test_no_two_constraints_have_one_name(solutions):
    p = solutions["speed limit"].problem
    three = [StateBounds(p.system, -9.0, 9.0) for _ in range(3)]
    named = StateBounds(p.system, -9.0, 9.0, name="state bounds 2")
    problem = replace(p, constraints=[*three, named, ControlBounds(-9.0, 9.0), ControlBounds(-8.0, 8.0)])
    names = [c.name for c in problem.constraints]
    assert names == [
        "state bounds", "state bounds 3", "state bounds 4", "state bounds 2", "control bounds", "control bounds 2",
    ]  # fmt: skip
    assert [r.name for r in DDP(max_iterations=0).solve(problem).constraints] == names
    assert [c.name for c in three] == ["state bounds"] * 3, "what was passed stays as it is"
    assert [c.name for c in replace(problem, constraints=problem.constraints[1:]).constraints] == names[1:]


# ------------------------------------------------------------------------------------------------ what is never held
def moved_goal(turn=1.0):
    """Two links whose tip is to be somewhere, exactly: standing still costs nothing."""
    robot = dynamics.load_urdf(problems.model_path("arm6"))
    system = dynamics.RigidBodySystem(robot, dt=0.05)
    x0 = system.state([0.0, -1.2, 1.6, -1.9, -1.6, 0.0])
    goal = dynamics.frame_placement(robot, x0[:6] + [turn, 0.5, -0.5, 0.5, 0.5, 0.5], "tool")
    costs = [StateCost(system, x0, np.repeat([0.0, 0.2], 6)), ControlCost(2e-4, dynamics.gravity_forces(robot, x0[:6]))]
    pose = ResidualConstraint(dynamics.FramePlacement(robot, "tool", goal), at="terminal", name="pose")
    return Problem(system, x0, 20, costs, [], [ControlBounds.from_model(system), pose], us_init="quasi_static")


def test_a_plan_with_a_hard_goal_is_kept():
    problem = moved_goal()
    first = DDP().solve(problem)
    assert first.converged
    for solver in (DDP(), ILQR()):
        again = solver.solve(problem, warm_start=first)
        assert again.start == "warm" and again.converged and again.iterations <= 1
        assert again.cost == pytest.approx(first.cost, rel=1e-6)
    again = DDP().solve(problem, us=first.us)
    assert again.start == "given" and again.converged and again.cost == pytest.approx(first.cost, rel=1e-6)
    one = DDP(max_iterations=1).solve(problem, warm_start=first)
    assert one.violation < 1e-6 and one.cost == pytest.approx(first.cost, rel=1e-4)


@pytest.mark.parametrize("name", ["cartpole", "acrobot", "pendulum"])
def test_a_moved_initial_state_is_a_gap(name):
    """A rollout of the old controls would run away from the plan; its states with a gap lead to the same minimum."""
    problem = problems.make(name)
    solution = DDP().solve(problem)
    moved = replace(problem, x0=problem.x0 + 0.01)
    cold, warm = DDP().solve(moved), DDP().solve(moved, warm_start=solution)
    assert warm.converged and warm.consistent and warm.iterations <= cold.iterations // 3
    assert warm.cost <= cold.cost * (1 + 1e-6)


def test_a_warm_start_of_anything_else_is_refused():
    with pytest.raises(TypeError, match="warm_start: got int"):
        DDP().solve(speed_limit(), warm_start=3)


# ------------------------------------------------------------------------------------------------ from states
@pytest.mark.parametrize("name", ["speed limit", "arrival", "several", "circle"])
def test_constraints_from_states_with_gaps(name, solutions, rng):
    expected = solutions[name]
    system = expected.problem.system
    xs = np.array([system.integrate(x, 0.1 * rng.standard_normal(system.ndx)) for x in expected.xs])
    solution = DDP().solve(expected.problem, us=0.9 * expected.us, xs=xs)
    assert solution.converged and solution.largest_gap == 0.0
    assert solution.cost == pytest.approx(expected.cost, rel=1e-5)
    np.testing.assert_allclose(solution.us, expected.us, atol=1e-4 * np.abs(expected.us).max())


class Patient(ControlCost):
    """A cost that refuses to be evaluated for ever."""

    left = 2000

    def value(self, xs, us):
        self.left -= 1
        assert self.left > 0, "the solve does not end"
        return super().value(xs, us)


def test_gaps_are_closed_where_neither_cost_nor_constraint_asks_for_it():
    """Neither a cost of states nor an active constraint: the solve still ends, without gaps."""
    s = Pendulum()
    problem = Problem(s, [0.05, 0.0], 10, [Patient(1.0)], [], [StateBounds(s, -4.0, 4.0)])
    solution = DDP().solve(problem, xs=np.zeros((11, 2)))
    assert solution.converged and solution.largest_gap == 0.0


# ------------------------------------------------------------------------------------------------ corner cases
def test_a_constraint_without_knots_holds():
    """Limits of the state on the way, and no knot on the way but the given one."""
    s = Pendulum()
    for more in ([], [ControlBounds(-1.0, 1.0)]):
        problem = Problem(
            s, [0.3, 0.0], 1, [ControlCost(1.0)], [StateCost(s, [1.0, 0.0], 1.0)],
            [*more, StateBounds(s, -9.0, 9.0, at="path")],
        )  # fmt: skip
        solution = DDP().solve(problem)
        assert solution.converged and len(solution.constraints) == len(problem.constraints)


def test_the_same_constraint_twice():
    p = speed_limit()
    twice = Problem(p.system, p.x0, 12, p.running_costs, p.terminal_costs, [*p.constraints, *p.constraints])
    solution, expected = DDP().solve(twice), DDP().solve(p)
    assert solution.converged and len(solution.constraints) == 2
    np.testing.assert_allclose(solution.us, expected.us, atol=1e-5 * np.abs(expected.us).max())


def test_a_constraint_may_be_called_control_bounds():
    p = speed_limit()
    named = StateBounds(p.system, [-np.inf, -2.5], [np.inf, 2.5], name="control bounds")
    problem = Problem(p.system, p.x0, 12, p.running_costs, p.terminal_costs, [ControlBounds(-50.0, 50.0), named])
    solution = DDP().solve(problem)
    assert DDP().solve(problem, warm_start=solution).iterations <= 2


def test_a_constraint_that_cannot_be_evaluated_at_the_last_knot_is_refused():
    s = Pendulum()
    constraint = ResidualConstraint(ControlResidual(s), -1.0, 1.0, at="all")
    with pytest.raises(ValueError, match="the terminal knot has no control"):
        DDP().solve(Problem(s, [0, 0], 5, [ControlCost(1.0)], constraints=[constraint]))


def test_infinite_limits_are_none():
    p = speed_limit()
    free = Problem(p.system, p.x0, 12, p.running_costs, p.terminal_costs)
    constraint = ResidualConstraint(StateResidual(p.system, [9.0, 9.0]), -np.inf, np.inf)
    same = Problem(p.system, p.x0, 12, p.running_costs, p.terminal_costs, [constraint])
    a, b = DDP().solve(free), DDP().solve(same)
    np.testing.assert_allclose(a.us, b.us, atol=1e-7 * np.abs(a.us).max())
    assert b.converged and not b.constraints[0].active.any() and b.violation == 0.0


def test_a_manifold_state_may_be_fixed_at_the_end():
    s = CirclePendulum()
    goal = s.embed(np.array([1.2, 0.0]))
    end = ResidualConstraint(StateResidual(s, goal), at="terminal")
    circle = Problem(s, s.embed(np.array([0.3, 0.0])), 12, [ControlCost(1.0)], [], [end])
    line, round_ = DDP().solve(arrival()), DDP().solve(circle)
    assert round_.converged
    np.testing.assert_allclose(round_.us, line.us, atol=1e-5 * np.abs(line.us).max())
    np.testing.assert_allclose(round_.constraints[0].multipliers, line.constraints[0].multipliers, rtol=1e-4)


def test_a_warm_start_carries_what_was_promised():
    """So that one iteration after a nearly converged solve is an exact one, and one from scratch is not."""
    problem = pendulum()
    near = DDP(max_iterations=12).solve(problem)
    assert near.log[-1].predicted_decrease < 1e-2 * near.cost
    one = DDP(max_iterations=1)
    assert one.solve(problem, warm_start=near).log[0].step == "exact"
    assert one.solve(problem, us=near.us).log[0].step == "gauss_newton"
