"""Prepared feedback: the derivative of re-solved plans, in cycles, with limits, on manifolds, where there is none."""

from dataclasses import replace

import numpy as np
import pytest

import trajopt
from experiments.sensitivity.cases import CASES, hurrying_quadrotor
from experiments.sensitivity.references import polished_solution
from problems.quadrotor import GOAL_POSITION, GOAL_YAW
from tests.tolerances import IDENTITY, relative_error
from tests.trajopt.cases import cartpole, circle_pendulum, pendulum, tip
from tests.trajopt.constrained_cases import speed_limit
from tests.trajopt.systems import LinearSystem, Pendulum
from tests.trajopt.test_certificate import hanging_pendulum
from tests.trajopt.test_prepared import assert_same
from trajopt import DDP, ILQR, ControlBounds, ControlCost, Problem, StateCost
from trajopt.optimality.first_order import FirstOrder, change_with, default_steps, first_order, parameters_of
from trajopt.results.stationary import stationary_point


def of_a_circle(angle):
    return {"terminal StateCost": circle_pendulum().system.embed(np.array([angle, 0.0]))}


def of_a_limit(p):
    return {"state bounds": {"upper": p[:1], "lower": -p[:1]}, "terminal StateCost": p[1:]}


def of_a_quadrotor(place):
    goal = np.r_[place, 0.0, 0.0, np.sin(0.5 * GOAL_YAW), np.cos(0.5 * GOAL_YAW), np.zeros(6)]
    return {"StateCost": goal, "terminal StateCost": goal}


def quadrotor():
    return hurrying_quadrotor(CASES["quadrotor"].p)


def clamped():
    """A pendulum that begins with all the torque that it may have."""
    return replace(pendulum(), constraints=[ControlBounds(-6.0, 8.0)])


def of_a_torque(torque):
    return {"control bounds": {"lower": torque}}


PLANS = {
    "cartpole": (cartpole, None, {"terminal StateCost": [1.0, 0.5, 0.0, 0.0], "ControlCost": 0.0}, 1e-2),
    "circle": (circle_pendulum, of_a_circle, 3.0, 1e-2),
    "speed limit": (speed_limit, of_a_limit, np.array([2.5, 1.5, 0.0]), 1e-2),
    "clamped": (clamped, of_a_torque, -6.0, 1e-2),
    "quadrotor": (quadrotor, of_a_quadrotor, np.array(GOAL_POSITION), 1e-3),
}


@pytest.fixture(scope="module", params=PLANS)
def plan(request):
    """A prepared solver that converges, its feedback, p, and steps of x and p along which no limit changes."""
    make, function, p, size = PLANS[request.param]
    rng, prepared = np.random.default_rng(0), DDP().prepare(make(), function)
    start = prepared.prepare_step(prepared.problem.x0, p)
    found = prepared.prepare_step(prepared.problem.x0, p, polished_solution(start.solution.problem, start.solution))
    dx = size * rng.uniform(0.5, 1.0, prepared.problem.system.ndx)
    dp = size * rng.uniform(0.5, 1.0, len(found.parameters.vector))
    return request.param, prepared, found, dx, dp


def moved(prepared, found, dx, dp, h):
    """The state and the parameters that much further, and the polished solution there."""
    problem, parameters = found.solution.problem, found.parameters
    x, p = problem.system.integrate(problem.x0, h * dx), parameters.at(parameters.vector + h * dp)
    prepared.update(prepared._moves(p)[0])
    there = prepared.at(x)
    return x, p, polished_solution(there, DDP().solve(there, warm_start=found.solution))


def test_errors_are_of_second_order(plan):
    """Of the control, and of states, controls and multipliers of the whole plan."""
    _, prepared, found, dx, dp = plan
    assert found.exact and found.kind == "exact"
    errors = []
    for h in (1.0, 0.5):
        x, p, best = moved(prepared, found, dx, dp, h)
        start, system = found.plan(x, p), best.problem.system
        np.testing.assert_allclose(found(x, p), start.us[0], rtol=1e-13)
        parts = [np.abs(start.us - best.us).max(), np.abs(system.difference(best.xs, start.xs)).max()]
        for mine, report in zip(start.constraints, best.constraints, strict=True):
            parts.append(np.abs(mine.multipliers - report.multipliers).max())
        errors.append(parts)
        np.testing.assert_allclose(start.xs[0], x, atol=1e-9)
    size = np.abs(best.us - found.solution.us).max()
    for large, small in zip(*errors, strict=True):
        assert large < 1e-7 or abs(np.log2(large / small) - 2.0) < 0.35, (large, small)
    assert errors[1][0] < 0.05 * size


def test_gains_are_those_of_sensitivities(plan):
    name, _, found, _, _ = plan
    problem, function = found.solution.problem, PLANS[name][1] or (lambda p: p)

    def make(p):
        again = DDP().prepare(problem)
        again.update(function(p))
        return again.problem

    other = trajopt.sensitivity(make, found.parameters.given, found.solution)
    assert relative_error(found.D, other.us[0]) < IDENTITY
    assert relative_error(found.K, found.solution.dx0()[1][0]) < IDENTITY
    if name == "clamped":
        assert not found.K.any() and abs(found.D[0, 0] - 1.0) < IDENTITY


def test_moved_up(plan):
    """As a solution is, for the next cycle."""
    _, _, found, dx, dp = plan
    x, p = found.solution.problem.system.integrate(found.solution.xs[0], dx), found.parameters.vector + dp
    p = found.parameters.at(p)
    here, there = found.plan(x, p), found.plan(x, p, steps=1)
    np.testing.assert_array_equal(there.us[:-1], here.us[1:])
    np.testing.assert_array_equal(there.xs[:-1], here.xs[1:])
    np.testing.assert_array_equal(found.plan(found.solution.xs[0], steps=1).us, found.solution.shifted().us)
    np.testing.assert_allclose(found(found.solution.xs[0]), found.solution.us[0], atol=1e-12)


@pytest.mark.parametrize("solver", [DDP(max_iterations=1), ILQR(max_iterations=1)])
def test_an_iteration_as_of_the_prepared_solver(solver):
    problem = cartpole()
    prepared, other, p = solver.prepare(problem, "reference"), solver.prepare(problem), np.array([0.8, 0.4, 0.0, 0.0])
    with pytest.raises(ValueError, match="for all of 'ControlCost' reference"):
        prepared.prepare_step(problem.x0, p)
    assert prepared.problem is problem
    targets = {"StateCost": p, "terminal StateCost": p}
    prepared, start = solver.prepare(problem), DDP().solve(problem).shifted()
    other.update(targets)
    found = prepared.prepare_step([0.1, 0.0, 0.0, 0.0], targets, start)
    assert_same(found.solution, other.solve([0.1, 0.0, 0.0, 0.0], warm_start=start))
    assert found.D.shape == (1, 8) and found.solution.iterations == 1


def test_one_attribute_of_all_terms():
    s = pendulum().system
    problem = Problem(s, [0.6, 0.0], 20, [StateCost(s, [0.0, 0.0], 1.0)], [StateCost(s, [0.0, 0.0], 9.0)])
    by_attribute = DDP().prepare(problem, "reference").prepare_step([0.5, 0.1], [0, 1])
    by_names = DDP().prepare(problem, lambda p: {"StateCost": p, "terminal StateCost": p})
    np.testing.assert_array_equal(by_attribute.D, by_names.prepare_step([0.5, 0.1], np.array([0.0, 1.0])).D)


def test_what_terms_share_is_left_out():
    """Derivatives of the conditions are the same with the system's and without, whatever p moves."""
    for make, function, p, _ in PLANS.values():
        prepared = DDP().prepare(make(), function)
        found = prepared.prepare_step(prepared.problem.x0, p)
        problem, parameters = found.solution.problem, found.parameters
        point = stationary_point(problem, found.solution)

        def there(q, problem=problem, prepared=prepared):
            again = DDP().prepare(problem)
            again.update(prepared._moves(q)[0])
            return again.problem

        short = change_with(there, parameters, point, default_steps(parameters), frozen=True)
        for number, h in enumerate(default_steps(parameters)):
            sides = []
            for side in (-1.0, 1.0):
                vector = parameters.vector.copy()
                vector[number] += side * h
                sides.append(first_order(there(parameters.at(vector)), point))
            for name, a, b, derivative in zip(FirstOrder._fields, *sides, short, strict=True):
                scale = max(np.abs(derivative[..., number]).max(initial=0.0), 1.0)
                error = np.abs((b - a) / (2.0 * h) - derivative[..., number]).max(initial=0.0)
                assert error < 1e-5 * scale, name


# ------------------------------------------------------------------------------------------------ cycles
def follow():
    """A pendulum that is to be held aside."""
    system, target = Pendulum(), np.array([1.0, 0.0])
    costs = [StateCost(system, target, [10.0, 1.0]), ControlCost(1e-2, 9.81 * np.sin(1.0))]
    return Problem(system, [0.3, 0.0], 40, costs, [StateCost(system, target, 10.0)])


def cycles(solver, count=25):
    """Kinds of the iterations of prepared cycles with noise on the state, and how far the controls are off the best."""
    rng, problem = np.random.default_rng(0), follow()
    prepared, system, steps, errors = solver.prepare(problem), problem.system, [], []
    feedback = prepared.prepare_step(problem.x0, warm_start=DDP().solve(problem))
    for _ in range(count):
        x = system.integrate(feedback.solution.xs[0], 2e-2 * rng.standard_normal(system.ndx))
        u, best = feedback(x), DDP().solve(prepared.at(x), warm_start=feedback.plan(x))
        errors.append(np.abs(u - best.us[0]).max())
        feedback = prepared.prepare_step(system.step(x, u), warm_start=feedback.plan(x, steps=1))
        steps.append(feedback.solution.log[0].step)
    return steps, np.array(errors)


def test_real_time_iterations_of_ddp_are_exact():
    steps, errors = cycles(DDP(max_iterations=1))
    assert steps.count("exact") > 0.8 * len(steps) and cycles(ILQR(max_iterations=1))[0].count("exact") == 0
    assert np.median(errors) < 1e-3


@pytest.mark.parametrize("make, target", [(cartpole, [1.3, 0.5, 0.0, 0.0]), (tip, [2.9, 0.0])])
def test_an_exact_step_takes_the_costate_of_the_plan(make, target):
    """Where a target jumps, that along the old trajectory is farther from the optimum's, and so is the step."""
    prepared = DDP(max_iterations=1).prepare(make())
    plan = DDP().solve(prepared.problem)
    start = plan.warm_start()._replace(predicted=0.0, xs=plan.xs)
    prepared.update({"terminal StateCost": target})
    best, errors = DDP().solve(prepared.problem, warm_start=plan), []
    for costate in (start.costate, None):
        step = prepared.solve(warm_start=start._replace(costate=costate))
        assert step.log[0].step == "exact" and step.log[0].alpha == 1.0
        errors.append(np.abs(step.us - best.us).max())
    assert errors[0] < 0.2 * errors[1]
    with pytest.raises(ValueError, match=r"^warm_start: costate: got shape \(3,\)"):
        prepared.solve(warm_start=start._replace(costate=np.zeros(3)))


def test_exact_derivatives_are_what_makes_it_so():
    """Those of Gauss-Newton Hessians are off in first order."""
    p = {"ControlCost": 0.0}
    prepared = DDP().prepare(tip())
    problem, dx = prepared.problem, np.array([1e-3, 2e-3])
    best = polished_solution(prepared.at(problem.x0 + dx), DDP().solve(prepared.at(problem.x0 + dx)))
    exact = prepared.prepare_step(problem.x0, p)
    other = prepared.prepare_step(problem.x0, p, exact=False)
    assert (exact.kind, other.kind) == ("exact", "gauss_newton")
    errors = [np.abs(f(problem.x0 + dx) - best.us[0]).max() for f in (exact, other)]
    assert errors[0] < 0.05 * errors[1]


# ------------------------------------------------------------------------------------------------ without a minimum
def test_gauss_newton_where_the_exact_hessian_is_indefinite():
    prepared = ILQR().prepare(hanging_pendulum())
    found = prepared.prepare_step(np.zeros(2), {"ControlCost": 0.0})
    assert found.kind == "gauss_newton" and not found.exact
    assert relative_error(found.K, found.solution.K[0]) < IDENTITY
    assert np.isfinite(found(np.array([0.1, 0.0]), {"ControlCost": 1.0})).all()


def test_luu_is_raised_where_nothing_is_definite():
    system = LinearSystem(np.eye(1), [[1.0, 0.0]])
    problem = Problem(system, [1.0], 3, [ControlCost([1.0, 0.0])], [StateCost(system, [0.0], 1.0)])
    found = ILQR().prepare(problem).prepare_step([1.0])
    assert found.kind == "gauss_newton" and found.K[0, 0] < 0.0 and found.K[1, 0] == 0.0


def test_a_plan_that_diverges_stays_as_it_is():
    system = LinearSystem(1e30 * np.eye(2), np.eye(2))
    problem = Problem(system, [1.0, 0.0], 20, [ControlCost(1.0)], [StateCost(system, [0, 0], 1.0)])
    found = DDP().prepare(problem).prepare_step([1.0, 0.0], {"ControlCost": 0.0})
    assert found.kind == "none" and found.solution.status == "diverged"
    np.testing.assert_array_equal(found([5.0, 5.0], {"ControlCost": 1.0}), found.solution.us[0])


def test_limits_that_are_rows_of_the_solver():
    """As if a box kept them."""
    boxed = DDP().prepare(clamped(), of_a_torque).prepare_step([0.3, 0.0], -6.0)
    rows = DDP(control_limits="augmented_lagrangian").prepare(clamped(), of_a_torque).prepare_step([0.3, 0.0], -6.0)
    assert boxed.exact and rows.exact
    scale = np.abs(boxed.derivatives.us).max()
    np.testing.assert_allclose(rows.derivatives.us, boxed.derivatives.us, atol=1e-4 * scale)
    assert not rows.K.any() and not boxed.K.any()


# ------------------------------------------------------------------------------------------------ bad input
def test_errors_name_the_argument():
    prepared = DDP().prepare(pendulum())
    with pytest.raises(TypeError, match=r"^parameters: got int, expected the name of an attribute or a function"):
        DDP().prepare(pendulum(), 3)
    for p, error, said in (
        (1.0, TypeError, r"^p: got float, expected a mapping of terms' names .*parameters"),
        (
            {"terminal StateCost": {"reference": [0, 0]}},
            ValueError,
            "^p: got a dict for 'terminal StateCost', expected",
        ),
        ({"terminal StateCost": [np.nan, 0.0]}, ValueError, r"^p\['terminal StateCost'\]\[0\]: got nan"),
        ({"terminal StateCots": [0.0, 0.0]}, ValueError, "did you mean 'terminal StateCost'"),
    ):
        with pytest.raises(error, match=said):
            prepared.prepare_step([0.3, 0.0], p)
    with pytest.raises(ValueError, match=r"^x_predicted: got shape \(3,\), expected \(2,\)"):
        prepared.prepare_step(np.zeros(3))
    plain = prepared.prepare_step([0.3, 0.0])
    with pytest.raises(TypeError, match=r"^p: got dict, expected none"):
        plain([0.3, 0.0], {})
    found = prepared.prepare_step([0.3, 0.0], {"terminal StateCost": [np.pi, 0.0]})
    with pytest.raises(ValueError, match=r"^p: got a dict without 'terminal StateCost'"):
        found([0.3, 0.0], {"StateCost": [0.0, 0.0]})
    with pytest.raises(ValueError, match=r"^p\['terminal StateCost'\]: got shape \(\), expected \(2,\)"):
        found([0.3, 0.0], {"terminal StateCost": 0.0})
    with pytest.raises(ValueError, match=r"^steps: got -1"):
        found.plan([0.3, 0.0], steps=-1)
    for call in (found, found.plan):
        for x, error in (([0.0], ValueError), ("x", TypeError), (np.array([np.inf, 0.0]), ValueError)):
            with pytest.raises(error, match=r"^x(\[0\])?: got"):
                call(x)
    number = DDP().prepare(pendulum(), lambda p: {"ControlCost": p[0]}).prepare_step([0.3, 0.0], np.zeros(1))
    with pytest.raises(ValueError, match=r"^p\[0\]: got nan"):
        number(np.array([0.3, 0.0]), np.array([np.nan]))
    assert parameters_of(np.zeros(1)).numbers([2.0]).tolist() == [2.0]


def test_costates_that_overflow():
    """No derivatives, and a plan from which a solve can begin all the same."""
    system = LinearSystem(np.array([[1e200]]), np.eye(1))
    problem = Problem(system, [0.0], 4, [ControlCost(1.0)], [StateCost(system, [1.0], 1.0)])
    prepared = DDP(max_iterations=1).prepare(problem)
    found = prepared.prepare_step([0.0])
    plan = found.plan([0.0], steps=1)
    assert found.kind == "none" and np.isfinite(found.costate).all()
    assert prepared.solve([0.0], warm_start=plan).status == "invalid_derivatives"


@pytest.mark.parametrize("p", [0.4, 0.8])
def test_limits_that_move(p):
    """x+ = x + u to 1: u is 0.5, or the limit p; prepared for limits that let it be, and for one that holds it."""
    system = LinearSystem(np.eye(1), np.eye(1))

    def make(p):
        bounds = [ControlBounds(-1.0, p)]
        return Problem(system, [0.0], 1, [ControlCost(1.0)], [StateCost(system, [1.0], 1.0)], bounds)

    for known, wanted in ((0.6, min(p, 0.5)), (0.45, p)):  # to first order: held stays held
        prepared = DDP().prepare(make(known), lambda p: {"control bounds": {"upper": p}})
        found = prepared.prepare_step([0.0], np.array(known))
        solved = trajopt.sensitivity(make, known, found.solution)
        starts = found.plan([0.0], p), solved.predict(p - known)
        assert [found([0.0], p)[0], *(one.us[0, 0] for one in starts)] == pytest.approx([wanted] * 3, abs=1e-9)


def test_soft_constraints(rng):
    """They yield: derivatives against differences of solves, by the state, a target and the limit that is violated."""
    problem = speed_limit()
    prepared = DDP(soft_penalty=10.0).prepare(problem, of_a_limit)
    x, p = problem.x0, np.array([1.5, 1.5, 0.0])
    found, h = prepared.prepare_step(x, p, DDP().solve(problem)), 1e-4
    assert found.exact and found.solution.violation > 1e-2
    for dx, dp in ((rng.standard_normal(2), 0.0 * p), (0.0 * x, rng.standard_normal(3))):
        us = []
        for sign in (h, -h):
            prepared.update(of_a_limit(p + sign * dp))
            us.append(prepared.solve(x + sign * dx, warm_start=found.solution).us[0])
        expected = (us[0] - us[1]) / (2.0 * h)
        assert relative_error(found.K @ dx + found.D @ dp, expected) < 1e-5
    with pytest.raises(ValueError, match="got one of soft constraints"):
        found.solution.dx0()
