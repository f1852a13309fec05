"""Both solvers on nonlinear problems: optimality by independent means, and the behaviour of the exact steps."""

from itertools import pairwise

import numpy as np
import pytest

from tests.reference import dense_kkt
from tests.trajopt.cases import NONLINEAR, cartpole, circle_pendulum, pendulum, tip
from trajopt import DDP, ILQR, Problem, total_cost
from trajopt.solvers.formulation import EXACT, GAUSS_NEWTON, Curvature, Formulation, sweep_of_kind
from trajopt.solvers.solver import HESSIANS

SOLVERS = {"ilqr": ILQR(), **{hessian: DDP(hessian=hessian) for hessian in HESSIANS}}


@pytest.fixture(scope="module")
def solutions():
    """Every solver on every problem, solved once."""
    return {name: {s: solver.solve(make()) for s, solver in SOLVERS.items()} for name, make in NONLINEAR.items()}


@pytest.mark.parametrize("name", NONLINEAR)
@pytest.mark.parametrize("solver", SOLVERS)
def test_kkt_conditions_of_the_whole_program(name, solver, solutions):
    solution = solutions[name][solver]
    assert solution.status == "converged"
    assert dense_kkt.kkt_residual(solution.problem, solution.xs, solution.us) < 1e-6
    if solver != "ilqr":  # whose convergence is linear: the residual falls no faster than the square root of the gap
        assert dense_kkt.kkt_residual(solution.problem, solution.xs, solution.us) < 1e-8


@pytest.mark.parametrize("name", NONLINEAR)
def test_dense_newton_finds_the_same_point(name, solutions):
    """From a perturbed solution, Newton's method on all unknowns at once returns to it."""
    solution = solutions[name]["parallel"]
    us = solution.us + 1e-4 * np.sin(np.arange(solution.us.size)).reshape(solution.us.shape)
    oracle = dense_kkt.solve(solution.problem, solution.xs, us)
    assert oracle.history[0] > 1e-7 and oracle.residual <= 1e-10
    np.testing.assert_allclose(solution.us, oracle.us, atol=1e-6)
    np.testing.assert_allclose(solution.xs, oracle.xs, atol=1e-6)
    assert solution.cost == pytest.approx(total_cost(solution.problem, oracle.xs, oracle.us), rel=1e-9)


@pytest.mark.parametrize("name", NONLINEAR)
def test_gradient_by_differences_vanishes(name, solutions, rng):
    """Along random directions the objective, rolled out anew, has no slope and does not fall."""
    solution, h = solutions[name]["parallel"], 1e-4
    problem = solution.problem

    def objective(us):
        return total_cost(problem, problem.system.rollout(problem.x0, us), us)

    for _ in range(10):
        d = rng.standard_normal(solution.us.shape)
        slope = (objective(solution.us + h * d) - objective(solution.us - h * d)) / (2 * h)
        assert abs(slope) < 1e-5 * max(1.0, solution.cost)
        assert objective(solution.us + h * d) > solution.cost


@pytest.mark.parametrize("name", NONLINEAR)
def test_all_hessian_modes_and_ilqr_reach_the_same_trajectory(name, solutions):
    best = solutions[name]["tensor"]
    for solver, solution in solutions[name].items():
        assert solution.cost == pytest.approx(best.cost, rel=1e-8), solver
        np.testing.assert_allclose(solution.us, best.us, atol=1e-4 * np.abs(best.us).max(), err_msg=solver)


def gradient_after_a_full_step(problem, us, hessian):
    """max |dJ/du| after one full step from the controls us: Gauss-Newton if hessian is None."""
    formulation = Formulation(problem, None, Curvature(hessian or "parallel"))
    model = formulation.expand(formulation.start(us, None))
    sweep = sweep_of_kind(formulation, model, GAUSS_NEWTON if hessian is None else EXACT, 0.0)
    assert sweep.ok
    full = next(formulation.candidates(model, sweep))
    assert full.alpha == 1.0
    return formulation.expand(formulation.start(full.us, None)).gradient_norm


@pytest.mark.parametrize("name", ["pendulum", "tip", "cartpole"])
@pytest.mark.parametrize("hessian", [None, *HESSIANS])
def test_order_of_convergence(name, hessian):
    """A full step from us* + h d leaves a gradient of order h^2 if it is exact, of order h if it is Gauss-Newton.

    The sizes h are small enough for terms of third order to have died out, and large enough for h^2 to stay above the
    gradient that is left at us*.
    """
    solution = DDP(tolerance=1e-17).solve(NONLINEAR[name]())
    d = np.sin(1.0 + np.arange(solution.us.size)).reshape(solution.us.shape)
    left = [
        gradient_after_a_full_step(solution.problem, solution.us + h * d, hessian) for h in 0.5 ** np.arange(11, 14)
    ]
    orders = np.log2(np.array(left[:-1]) / left[1:])
    np.testing.assert_allclose(orders, 1.0 if hessian is None else 2.0, atol=0.1)


@pytest.mark.parametrize("name", ["pendulum", "tip"])
def test_the_last_exact_steps_are_long_and_gain_digits(name, solutions):
    for solver, solution in solutions[name].items():
        gradients = solution.history("gradient_norm")[-3:]
        gains = gradients[:-1] / gradients[1:]
        if solver == "ilqr":
            assert (gains < 10).all()
        else:
            assert all(record.step == "exact" and record.alpha == 1.0 for record in solution.log[-3:-1])
            assert (gains > 100).all()


@pytest.mark.parametrize("name", NONLINEAR)
def test_late_switch(name, solutions):
    """The first step is Gauss-Newton; exact ones come only after a small predicted decrease; iLQR has none."""
    for solver, solution in solutions[name].items():
        log = solution.log
        assert log[0].step == "gauss_newton"
        for before, record in pairwise(log):
            if record.step == "exact":
                assert solver != "ilqr"
                cost_then = before.cost if before.alpha == 0 else record.cost
                assert before.predicted_decrease < 1e-2 * cost_then
        if solver != "ilqr":
            assert log[-1].step == "exact"


def test_switch_threshold_zero_is_ilqr():
    a, b = DDP(switch_threshold=0.0).solve(pendulum()), ILQR().solve(pendulum())
    np.testing.assert_array_equal(a.us, b.us)
    assert a.iterations == b.iterations


def test_a_large_threshold_switches_early():
    early = DDP(switch_threshold=1e6).solve(tip())
    assert early.converged
    assert sum(r.step == "exact" for r in early.log) > sum(r.step == "exact" for r in DDP().solve(tip()).log) - 1
    assert early.log[1].step == "exact" or early.log[2].step == "exact"


def test_gauss_newton_cost_hessian_is_an_option():
    """Where the costs have no curvature it makes no difference; where they have some, the steps differ, not the end."""
    a, b = (DDP(cost_hessian=c).solve(cartpole()) for c in ("exact", "gauss_newton"))
    np.testing.assert_array_equal(a.us, b.us)
    a, b = (DDP(cost_hessian=c).solve(tip()) for c in ("exact", "gauss_newton"))
    assert not np.array_equal(a.us, b.us)
    assert a.cost == pytest.approx(b.cost, rel=1e-8)


def test_a_circle_is_as_good_as_a_line():
    """The same pendulum in other coordinates: same controls, same gains, same iterates."""
    line, circle = (DDP().solve(make()) for make in (pendulum, circle_pendulum))
    assert line.iterations == circle.iterations
    np.testing.assert_allclose(circle.us, line.us, atol=1e-8)
    np.testing.assert_allclose(circle.K, line.K, atol=1e-6)
    np.testing.assert_allclose(circle.problem.system.chart(circle.xs)[:, 1], line.xs[:, 1], atol=1e-8)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_second_solve_gives_the_same_bits(solver):
    first = SOLVERS[solver].solve(tip())
    DDP().solve(cartpole())  # whatever ran in between
    second = SOLVERS[solver].solve(tip())
    for name in ("xs", "us", "k", "K", "Vx", "Vxx"):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    assert [r._replace(time=0.0) for r in first.log] == [r._replace(time=0.0) for r in second.log]


def test_warm_start_at_the_optimum_takes_no_step(solutions):
    solution = solutions["tip"]["parallel"]
    again = DDP().solve(solution.problem, us=solution.us)
    assert again.converged and again.iterations == 0
    np.testing.assert_array_equal(again.us, solution.us)


def test_initial_controls_of_the_problem_and_of_the_call(rng):
    us = rng.standard_normal((40, 1))
    np.testing.assert_array_equal(ILQR().solve(pendulum(us_init=us)).us, ILQR().solve(pendulum(), us=us).us)


def test_policy_and_value_function_near_the_optimum(solutions):
    """Started off the optimal trajectory, the optimal cost is what V predicts, to third order."""
    solution = solutions["cartpole"]["tensor"]
    p = solution.problem
    errors = []
    for h in (4e-2, 2e-2):
        dx = h * np.array([1.0, -0.5, 0.3, 0.7])
        moved = Problem(p.system, p.x0 + dx, p.horizon, p.running_costs, p.terminal_costs)
        V = solution.cost + solution.Vx[0] @ dx + 0.5 * dx @ solution.Vxx[0] @ dx
        errors.append(abs(DDP().solve(moved, us=solution.us).cost - V))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(3.0, abs=0.4)


def test_log_tells_the_story(solutions):
    for solution in solutions["tip"].values():
        log, cost = solution.log, solution.history("cost")
        assert len(log) == solution.iterations + 1
        np.testing.assert_array_equal(solution.history("iteration"), np.arange(len(log)))
        np.testing.assert_allclose(-np.diff(cost), solution.history("actual_decrease")[:-1], atol=1e-12)
        assert (np.diff(cost) <= 1e-13 * cost[1:]).all()
        assert (np.diff(solution.history("time")) > 0).all()
        assert set(solution.history("alpha")[:-1]) <= {0.0, *(0.5 ** np.arange(8))}
        assert (log[-1].cost, log[-1].gradient_norm) == (solution.cost, solution.gradient_norm)
        assert log[-1].alpha == 0.0 and log[-1].predicted_decrease <= 1e-12 * solution.cost
    with pytest.raises(ValueError, match="name: got 'costs'"):
        solution.history("costs")


def test_timings_add_up(solutions):
    timings = solutions["tip"]["parallel"].timings
    assert set(timings) == {"total", "derivatives", "backward_pass", "rollouts", "other"}
    assert all(seconds > 0 for seconds in timings.values())
    assert sum(timings.values()) == pytest.approx(2 * timings["total"])
