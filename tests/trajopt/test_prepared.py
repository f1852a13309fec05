"""A prepared solver gives the bits of the solver itself, checks nothing twice and hands out memory of its own."""

from dataclasses import fields, replace

import numpy as np
import pytest

import problems
import trajopt
from tests.trajopt.cases import NONLINEAR, cartpole, pendulum
from tests.trajopt.infeasible_cases import held
from tests.trajopt.systems import LinearSystem
from tests.trajopt.test_warm_starts import speed_limit
from trajopt import DDP, ILQR, ControlBounds, ControlCost, Problem, StateBounds, StateCost
from trajopt.backward.expansions import gaps_of
from trajopt.solvers.formulation import Formulation

ARRAYS = "xs", "us", "k", "K", "Vx", "Vxx", "gaps"


def assert_same(a, b):
    """Equal to the last bit, but for the times."""
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    for name in ("cost", "status", "iterations", "gradient_norm"):
        assert getattr(a, name) == getattr(b, name), name
    assert [r._replace(time=0.0) for r in a.log] == [r._replace(time=0.0) for r in b.log]
    for one, other in zip(a.constraints, b.constraints, strict=True):
        np.testing.assert_array_equal(one.multipliers, other.multipliers)
        np.testing.assert_array_equal(one.values, other.values)


def constrained():
    """The pendulum with limits of torque and speed."""
    p = pendulum()
    return replace(p, constraints=[ControlBounds(-8.0, 8.0), StateBounds(p.system, [-np.inf, -4.0], [np.inf, 4.0])])


CASES = {**NONLINEAR, "constrained": constrained}


def moved_states(problem, rng, count=3):
    """Initial states near the problem's."""
    return [problem.system.integrate(problem.x0, 0.05 * rng.standard_normal(problem.system.ndx)) for _ in range(count)]


@pytest.mark.parametrize("solver", [ILQR(), DDP(), DDP(max_iterations=1)])
@pytest.mark.parametrize("name", CASES)
def test_bits_of_the_solver(name, solver, rng):
    problem = CASES[name]()
    prepared = solver.prepare(problem)
    assert_same(prepared.solve(), solver.solve(problem))
    for x0 in moved_states(problem, rng):
        assert_same(prepared.solve(x0), solver.solve(replace(problem, x0=x0)))
    assert_same(prepared.solve(), solver.solve(problem))  # nothing is left of the solves between


@pytest.mark.parametrize("name", CASES)
def test_starts_and_callbacks_are_those_of_the_solver(name, rng):
    problem, solver = CASES[name](), DDP(max_iterations=3)
    (x0,) = moved_states(problem, rng, 1)
    prepared, moved, plan = solver.prepare(problem), replace(problem, x0=x0), DDP().solve(problem)
    us, seen, expected = plan.us + 0.1, [], []
    for arguments in ({"us": us}, {"us": us, "xs": plan.xs}, {"warm_start": plan.shifted(2)}, {"warm_start": plan}):
        a = prepared.solve(x0, **arguments, callback=seen.append)
        b = solver.solve(moved, **arguments, callback=expected.append)
        assert_same(a, b)
    assert [p.record.cost for p in seen] == [p.record.cost for p in expected] and seen


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("iterations", [0, 1])
def test_solutions_own_their_memory(name, iterations, rng):
    """The inputs, the solutions before and the solutions after share nothing that anybody could write to."""
    problem = CASES[name]()
    prepared, plan = DDP(max_iterations=iterations).prepare(problem), DDP().solve(problem)
    warm = prepared.shifted(plan)
    solutions, copies = [], []
    for x0 in moved_states(problem, rng, 4):
        solutions.append(prepared.solve(x0, warm_start=warm))
        copies.append([getattr(solutions[-1], n).copy() for n in ARRAYS])
    for i, solution in enumerate(solutions):
        for n, copy in zip(ARRAYS, copies[i], strict=True):
            np.testing.assert_array_equal(getattr(solution, n), copy)
            others = [warm.us, warm.xs, plan.us, plan.xs, problem.us_init]
            others += [getattr(other, m) for other in solutions[:i] for m in ARRAYS]
            assert not any(np.shares_memory(getattr(solution, n), other) for other in others), n


def test_costs_are_checked_once():
    class CountingCost(ControlCost):
        checks = 0

        def check(self, system, terminal):
            type(self).checks += 1
            super().check(system, terminal)

    p = pendulum()
    problem = Problem(p.system, p.x0, p.horizon, [CountingCost(1e-2)], p.terminal_costs)
    prepared, before = ILQR(max_iterations=1).prepare(problem), CountingCost.checks
    prepared.solve([0.2, 0.1])
    assert CountingCost.checks == before == 1
    replace(problem, x0=[0.2, 0.1])
    assert CountingCost.checks == 2


def test_the_problem_stays_as_it_is_and_solutions_know_theirs(rng):
    problem = cartpole()
    before = problem.x0.copy()
    prepared, x0 = ILQR(max_iterations=1).prepare(problem), rng.standard_normal(4)
    solution = prepared.solve(x0)
    np.testing.assert_array_equal(problem.x0, before)
    np.testing.assert_array_equal(solution.problem.x0, x0)
    np.testing.assert_array_equal(solution.xs[0], x0)
    same = [f.name for f in fields(Problem) if f.name != "x0"]
    assert all(getattr(solution.problem, name) is getattr(problem, name) for name in same)


@pytest.mark.parametrize("steps", [0, 1, 5, 39, 40, 90])
def test_shifted_states_leave_a_gap_at_the_first_knot_alone(steps, rng):
    problem = CASES["circle"]()
    prepared, plan = DDP().prepare(problem), DDP().solve(problem)
    start = prepared.shifted(plan, steps)
    for one, other in zip(start, plan.shifted(steps), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(start.xs[: max(0, 41 - steps)], plan.xs[steps:])
    np.testing.assert_array_equal(start.us[: max(0, 40 - steps)], plan.us[steps:])
    dx = 0.1 * rng.standard_normal(2)
    gaps = gaps_of(prepared.at(problem.system.integrate(start.xs[0], dx)), start.xs, start.us)
    np.testing.assert_allclose(gaps[0], dx, atol=1e-12)
    np.testing.assert_allclose(gaps[1:], 0.0, atol=1e-12)


@pytest.fixture
def counts(monkeypatch):
    """How often a solve sweeps, expands and searches."""
    found = {}

    def counting(name, method):
        def counted(*args, **named):
            found[name] = found.get(name, 0) + 1
            return method(*args, **named)

        return counted

    for name in ("sweep", "expand", "candidates", "with_curvature"):
        monkeypatch.setattr(Formulation, name, counting(name, getattr(Formulation, name)))
    return found


@pytest.mark.parametrize("name", ["cartpole", "circle", "speed limit"])
@pytest.mark.parametrize("solver", [ILQR(max_iterations=1), DDP(max_iterations=1)])
def test_one_sweep_a_cycle(name, solver, counts, rng):
    """And one search and one expansion; a sweep more where the first one is refused.  The gradient is that of where the
    step began, cost and values of constraints are new, the policy is that of the step."""
    problem = speed_limit() if name == "speed limit" else CASES[name]()
    prepared, plan = solver.prepare(problem), DDP().solve(problem)
    for cycle in range(3):
        start = prepared.shifted(plan)
        x0 = problem.system.integrate(start.xs[0], 1e-3 * rng.standard_normal(problem.system.ndx))
        counts.clear()
        plan = prepared.solve(x0, warm_start=start)
        tried = counts.pop("with_curvature", 0)
        refused = tried - (plan.log[0].step == "exact")  # an exact sweep that is not positive definite
        assert counts == {"sweep": 1 + refused, "expand": 1, "candidates": 1}
        assert tried == (cycle == 0 and isinstance(solver, DDP))
        assert plan.status == "max_iterations" and len(plan.log) == 2 and plan.log[0].alpha > 0.0
        assert plan.warm_start().predicted == plan.log[0].predicted_decrease
        assert plan.gradient_norm == plan.log[0].gradient_norm
        assert plan.log[0].alpha < 1.0 or not plan.k.any()
        for report, constraint in zip(plan.constraints, problem.constraints, strict=True):
            if isinstance(constraint, ControlBounds):
                np.testing.assert_array_equal(report.values, plan.us)
            else:
                r = constraint.residual.evaluate(plan.xs[report.knots], None)
                np.testing.assert_allclose(report.values, r, rtol=1e-12, atol=1e-14)
        assert plan.cost == problem.objective.value(plan.xs, plan.us)


def test_the_policy_of_a_cycle_is_that_of_its_sweep(rng):
    """Gains and value function of a full step from a state off the plan, about where it led: a second step from there
    along a linear system stays where it is."""
    system = LinearSystem([[1.1, 0.1], [0.0, 0.9]], [[0.0], [0.1]])
    problem = Problem(system, [1.0, 0.5], 15, [ControlCost(0.5), StateCost(system, [0.2, 0.0], [1.0, 0.3])])
    plan = ILQR().solve(problem)
    x0 = [0.7, 0.9]
    step = ILQR(max_iterations=1).prepare(problem).solve(x0, warm_start=plan.warm_start()._replace(xs=plan.xs))
    best = ILQR().solve(replace(problem, x0=x0))
    np.testing.assert_allclose(step.us, best.us, atol=1e-12)
    np.testing.assert_allclose(step.K, best.K, atol=1e-12)
    np.testing.assert_allclose(step.Vx, best.Vx, atol=1e-12)
    assert not step.k.any() and np.abs(step.Vx - plan.Vx).max() > 1e-3


def test_one_iteration_from_shifted_states_follows_an_unstable_plant(rng):
    """x+ = 3 x + u: old controls from a new state are off by 3^40 at the end, and the step from states is optimal."""
    system = LinearSystem([[3.0]], [[1.0]])
    problem = Problem(system, [1.0], 40, [ControlCost(1.0), StateCost(system, [0.0], 1.0)])
    prepared = ILQR(max_iterations=1).prepare(problem)
    solution = prepared.solve(xs=np.zeros((41, 1)))
    for _ in range(10):
        x = system.step(solution.xs[0], solution.us[0]) + 0.1 * rng.standard_normal(1)
        rolled_out = system.rollout(x, solution.shifted(1).us)
        assert np.abs(rolled_out).max() > 1e12
        solution = prepared.solve(x, warm_start=prepared.shifted(solution))
        stationary = 0.5 * (9 + np.sqrt(85))  # P = 1 + 9 P/(1 + P), the Riccati equation
        assert solution.consistent
        np.testing.assert_allclose(solution.us[0], -3.0 * stationary / (1.0 + stationary) * x, rtol=1e-8)


def test_errors_name_the_argument():
    problem = pendulum()
    with pytest.raises(TypeError, match=r"^problem: got str"):
        DDP().prepare("arm")
    prepared = DDP().prepare(problem)
    with pytest.raises(ValueError, match=r"^x0: got shape \(3,\), expected \(2,\)"):
        prepared.solve(np.zeros(3))
    with pytest.raises(ValueError, match=r"^x0\[0\]: got nan"):
        prepared.solve([np.nan, 0.0])
    with pytest.raises(ValueError, match=r"^us: got shape"):
        prepared.solve(us=np.zeros(3))
    with pytest.raises(ValueError, match=r"^steps: got -1"):
        prepared.shifted(prepared.solve(), -1)
    assert "DDP" in repr(prepared) and "pendulum" in repr(prepared)


def test_warming_up_changes_nothing():
    problem = problems.make("pendulum_limits")
    prepared, plain = (trajopt.DDP().prepare(problem) for _ in range(2))
    prepared.warm_up()
    prepared.warm_up(trajopt.ILQR().solve(problem))
    assert prepared.problem is problem
    assert_same(prepared.solve(), plain.solve())
    with pytest.raises(TypeError, match="warm_start: got int"):
        prepared.warm_up(3)


@pytest.mark.parametrize("solver", [ILQR, DDP])
def test_multipliers_of_a_limit_that_cannot_be_kept_do_not_grow_from_sample_to_sample(solver):
    """A pendulum whose motor is too weak to hold it within its limits: the plans miss them, sample after sample."""
    problem = held(5.0)
    prepared, plan, largest = solver(max_iterations=1).prepare(problem), None, []
    for _ in range(80):
        plan = prepared.solve(problem.x0, warm_start=plan)
        assert plan.violation > 0.1
        largest.append(max(np.abs(report.multipliers).max() for report in plan.constraints[1:]))
    assert max(largest[40:]) <= 2.0 * max(largest[:40])
