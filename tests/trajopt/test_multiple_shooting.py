"""Solves from states that do not follow from the controls: the same optimum, true reports of the gaps on the way."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference import dense_kkt
from tests.trajopt.cases import NONLINEAR, linear, pendulum, tip
from tests.trajopt.systems import Pendulum
from trajopt import DDP, ILQR, ControlBounds, ControlCost, Problem, StateCost, compare
from trajopt.backward.expansions import gaps_of
from trajopt.solvers.line_search import merit_weight
from trajopt.solvers.solver import HESSIANS

SOLVERS = {"ilqr": ILQR(), **{hessian: DDP(hessian=hessian) for hessian in HESSIANS}}


def recomputed_gaps(problem, xs, us):
    """One by one, by the system's own step and difference."""
    system = problem.system
    return np.array(
        [
            system.difference(xs[0], problem.x0),
            *(system.difference(xs[t + 1], system.step(xs[t], us[t])) for t in range(problem.horizon)),
        ]
    )


def straight_line(problem, noise=0.0, seed=0):
    """States between x0 and the terminal target at even distances, moved by noise along their tangents."""
    system, N = problem.system, problem.horizon
    target = next(cost.reference for cost in problem.terminal_costs if hasattr(cost, "reference"))
    way = system.difference(problem.x0, target)
    xs = np.array([system.integrate(problem.x0, s * way) for s in np.linspace(0.0, 1.0, N + 1)])
    moves = noise * np.random.default_rng(seed).standard_normal((N + 1, system.ndx))
    return np.array([system.integrate(x, dx) for x, dx in zip(xs, moves, strict=True)])


@pytest.fixture(scope="module")
def from_rollouts():
    return {name: DDP().solve(make()) for name, make in NONLINEAR.items()}


def moved(problem, solution, size, seed=0):
    """States and controls of a solution, each moved on its own."""
    rng, system = np.random.default_rng(seed), problem.system
    xs = [system.integrate(x, size * rng.standard_normal(system.ndx)) for x in solution.xs]
    return np.array(xs), solution.us + size * rng.standard_normal(solution.us.shape)


@pytest.mark.parametrize("name", NONLINEAR)
@pytest.mark.parametrize("solver", SOLVERS)
def test_same_optimum_as_from_a_rollout(name, solver, from_rollouts):
    expected = from_rollouts[name]
    problem = expected.problem
    xs, us = moved(problem, expected, 0.1)
    assert np.abs(recomputed_gaps(problem, xs, us)).max() > 0.1
    solution = SOLVERS[solver].solve(problem, us=us, xs=xs)
    assert solution.converged and solution.consistent and solution.largest_gap == 0.0
    assert solution.cost == pytest.approx(expected.cost, rel=1e-8)
    np.testing.assert_allclose(solution.us, expected.us, atol=1e-4 * np.abs(expected.us).max())


@pytest.mark.parametrize("noise", [0.0, 0.5])
@pytest.mark.parametrize("name", NONLINEAR)
@pytest.mark.parametrize("solver", SOLVERS)
def test_an_optimum_from_a_straight_line(name, solver, noise, from_rollouts):
    """Perhaps another one than the rollout's, but one: KKT conditions, and a solve from its controls stays there."""
    problem = from_rollouts[name].problem
    xs = straight_line(problem, noise)
    assert np.abs(recomputed_gaps(problem, xs, problem.us_init)).max() > 0.02
    solution = SOLVERS[solver].solve(problem, xs=xs)
    assert solution.converged and solution.largest_gap == 0.0
    rollout = problem.system.rollout(problem.x0, solution.us)
    np.testing.assert_allclose(solution.xs, rollout, atol=1e-9 * max(1.0, np.abs(rollout).max()))
    assert dense_kkt.kkt_residual(problem, solution.xs, solution.us) < (1e-5 if solver == "ilqr" else 1e-7)
    assert SOLVERS[solver].solve(problem, us=solution.us).cost == pytest.approx(solution.cost, rel=1e-10)


@pytest.mark.parametrize("name", NONLINEAR)
@pytest.mark.parametrize("solver", ["ilqr", "parallel", "tensor"])
def test_with_control_limits(name, solver, from_rollouts):
    p = from_rollouts[name].problem
    limit = 0.8 * np.abs(from_rollouts[name].us).max()
    problem = Problem(p.system, p.x0, p.horizon, p.running_costs, p.terminal_costs, [ControlBounds(-limit, limit)])
    expected = DDP().solve(problem, us=from_rollouts[name].us)
    xs, us = moved(problem, expected, 0.1)
    assert (np.abs(us) > limit).any()
    solution = SOLVERS[solver].solve(problem, us=us, xs=xs)
    assert expected.constraints[0].active.any()
    assert solution.converged and solution.largest_gap == 0.0 and (np.abs(solution.us) <= limit).all()
    assert solution.cost == pytest.approx(expected.cost, rel=1e-7)
    np.testing.assert_allclose(solution.us, expected.us, atol=1e-4 * limit)


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("name", NONLINEAR)
def test_reported_gaps_are_true_and_shrink_as_the_steps_say(name, limited):
    """After every iteration: gaps by `step` and `difference` one by one, (1 - alpha) of those before."""
    p = NONLINEAR[name]()
    bounds = [ControlBounds(-3.0, 3.0)] if limited else []
    problem = Problem(p.system, p.x0, p.horizon, p.running_costs, p.terminal_costs, bounds)
    xs, us = straight_line(problem, 0.5), np.full((p.horizon, 1), 2.0)
    seen = [recomputed_gaps(problem, xs, us)]
    partial = 0

    def check(progress):
        nonlocal partial
        now = recomputed_gaps(problem, progress.xs, progress.us)
        alpha = progress.record.alpha
        np.testing.assert_allclose(now, (1.0 - alpha) * seen[-1], atol=1e-12 * max(1.0, np.abs(progress.xs).max()))
        assert progress.record.gap == pytest.approx(np.abs(seen[-1]).max(), rel=1e-9, abs=1e-11)
        partial += 0.0 < alpha < 1.0 and np.abs(seen[-1]).max() > 1e-6
        seen.append(now)

    solution = DDP(max_iterations=60).solve(problem, us=us, xs=xs, callback=check)
    assert len(seen) > 3
    np.testing.assert_allclose(solution.gaps, seen[-1], atol=1e-11)


def test_partial_steps_are_among_those_tested():
    """Far away, the first step is shorter than one, so that the test above sees a part of the gaps remain."""
    short = 0
    for name in NONLINEAR:
        problem = NONLINEAR[name]()
        solution = ILQR(max_iterations=1).solve(problem, xs=straight_line(problem, 2.0))
        alpha = solution.log[0].alpha
        gaps = recomputed_gaps(problem, straight_line(problem, 2.0), problem.us_init)
        np.testing.assert_allclose(solution.gaps, (1.0 - alpha) * gaps, atol=1e-11)
        short += 0.0 < alpha < 1.0
    assert short > 0


@pytest.mark.parametrize("iterations", [0, 1, 2])
@pytest.mark.parametrize("solver", ["ilqr", "parallel"])
def test_a_solve_that_ends_early_tells_its_gaps(solver, iterations):
    problem = tip()
    xs = straight_line(problem, 1.0)
    options = {"max_iterations": iterations, "tolerance": 0.0}
    solution = (ILQR if solver == "ilqr" else DDP)(**options).solve(problem, xs=xs)
    assert solution.status == "max_iterations"
    true = recomputed_gaps(problem, solution.xs, solution.us)
    np.testing.assert_allclose(solution.gaps, true, atol=1e-11)
    assert solution.largest_gap == pytest.approx(np.abs(true).max(), abs=1e-11)
    assert solution.consistent == (np.abs(true).max() <= 1e-9)
    np.testing.assert_allclose(gaps_of(problem, solution.xs, solution.us), true, atol=1e-12)
    if iterations == 0:
        np.testing.assert_array_equal(solution.xs, xs)
        assert not solution.consistent


def test_the_first_state_may_be_wrong_too(from_rollouts):
    expected = from_rollouts["pendulum"]
    xs = expected.xs.copy()
    xs[0] += [1.0, -2.0]
    solution = DDP().solve(expected.problem, us=expected.us, xs=xs)
    assert solution.converged and solution.log[0].gap >= 2.0
    np.testing.assert_array_equal(solution.xs[0], expected.problem.x0)
    assert solution.cost == pytest.approx(expected.cost, rel=1e-9)


def test_states_of_a_rollout_have_no_gaps():
    """Passing the rollout's states is the same as passing none, to the last bit."""
    problem, us = tip(), np.full((40, 1), 0.7)
    plain = DDP().solve(problem, us=us)
    given = DDP().solve(problem, us=us, xs=problem.system.rollout(problem.x0, us))
    np.testing.assert_array_equal(given.us, plain.us)
    assert [r._replace(time=0.0) for r in given.log] == [r._replace(time=0.0) for r in plain.log]


def test_a_linear_problem_takes_one_step_from_anywhere(rng):
    problem = linear(rng)
    xs, us = 10.0 * rng.standard_normal((16, 4)), 10.0 * rng.standard_normal((15, 2))
    solution = ILQR().solve(problem, us=us, xs=xs)
    expected = ILQR().solve(problem)
    assert solution.converged and solution.log[0].alpha == 1.0
    np.testing.assert_allclose(solution.us, expected.us, atol=1e-8)
    np.testing.assert_allclose(solution.K, expected.K, atol=1e-8)


@pytest.mark.parametrize("solver", ["ilqr", "parallel"])
def test_gaps_that_cost_nothing_are_closed_too(solver):
    """Without a cost of states nothing is gained by closing the gaps; still no end without it is "converged"."""
    problem = Problem(Pendulum(), [0.05, 0.0], 10, [ControlCost(1.0)], [])
    solution = SOLVERS[solver].solve(problem, xs=np.zeros((11, 2)))
    assert solution.status == "converged" and solution.consistent
    np.testing.assert_allclose(solution.xs, problem.system.rollout(problem.x0, np.zeros((10, 1))), atol=1e-12)


def test_guessed_states_help_where_a_rollout_runs_away():
    """An inverted pendulum whose rollout multiplies errors by e^17; states on the target know nothing of that."""
    system = Pendulum(dt=0.1, gravity=-30.0, damping=0.0)
    problem = Problem(
        system, [0.05, 0.0], 30, [ControlCost(1e-3), StateCost(system, [0, 0], 1.0)], [StateCost(system, [0, 0], 1.0)]
    )  # fmt: skip
    solution = DDP().solve(problem, xs=np.zeros((31, 2)))
    assert solution.converged and solution.largest_gap == 0.0
    assert np.abs(recomputed_gaps(problem, solution.xs, solution.us)).max() < 1e-12
    assert np.abs(solution.xs).max() < 0.2
    assert np.abs(problem.system.rollout(problem.x0, problem.us_init)).max() > 1.0


def test_the_merit_goes_down(from_rollouts):
    """At the weight in use the merit of the accepted steps never rises, though the cost itself may."""
    for name, expected in from_rollouts.items():
        problem = expected.problem
        solution = DDP().solve(problem, xs=straight_line(problem, 0.3))
        log = solution.log
        closed = next(i for i, record in enumerate(log) if record.gap == 0.0)
        assert 0 < closed < len(log) - 1
        costs = solution.history("cost")[closed:]
        assert (np.diff(costs) <= 1e-13 * np.abs(costs[1:])).all(), name


@pytest.mark.parametrize(("weight", "change", "gap"), [(0.0, 3.0, 2.0), (1.0, -5.0, 2.0), (10.0, 1.0, 0.5)])
def test_the_weight_makes_the_full_step_a_descent(weight, change, gap):
    """change - weight gap, the model's change of the merit, is negative by half of what the gaps weigh."""
    new = merit_weight(weight, change, gap, 4.0)
    assert new >= weight and new > 0.0
    assert change - new * gap <= -0.5 * new * gap + 1e-12
    assert merit_weight(weight, change, 0.0, 4.0) == weight


def test_gaps_weigh_something_even_if_closing_them_lowers_the_cost():
    assert merit_weight(0.0, -1.0, 2.0, 4.0) * 2.0 == pytest.approx(1e-3 * 4.0)
    assert merit_weight(0.0, 0.0, 2.0, 0.0) * 2.0 == pytest.approx(1e-3)
    assert merit_weight(1e-9, -1.0, 2.0, 4.0) == 1e-9


@pytest.mark.parametrize(
    ("xs", "error", "match"),
    [
        (np.zeros((40, 2)), ValueError, r"xs: got shape \(40, 2\), expected \(41, 2\)"),
        (np.zeros((41, 3)), ValueError, r"xs: got shape \(41, 3\), expected \(41, 2\)"),
        (np.full((41, 2), np.nan), ValueError, r"xs\[0, 0\]: got nan"),
        ("states", TypeError, "xs: got 'states', expected an array of real numbers"),
    ],
)
def test_bad_states_are_refused(xs, error, match):
    for solver in (ILQR(), DDP()):
        with pytest.raises(error, match=match):
            solver.solve(pendulum(), xs=xs)


def test_states_that_are_no_states_are_refused():
    class Strict(Pendulum):
        def check_state(self, xs):
            if (np.abs(xs[:, 0]) > 10).any():
                raise ValueError("angle beyond 10")

    p = pendulum()
    problem = Problem(Strict(), p.x0, p.horizon, p.running_costs, p.terminal_costs)
    xs = np.zeros((41, 2))
    xs[7, 0] = 11.0
    with pytest.raises(ValueError, match=r"xs\[7\]: angle beyond 10"):
        DDP().solve(problem, xs=xs)


def test_the_arguments_stay_as_they_were():
    problem = pendulum()
    xs, us = straight_line(problem, 0.3), np.full((40, 1), 0.5)
    before = xs.copy(), us.copy()
    DDP().solve(problem, us=us, xs=xs)
    np.testing.assert_array_equal(xs, before[0])
    np.testing.assert_array_equal(us, before[1])


def test_a_problem_says_which_states_to_start_from():
    """The same as passing them; what is passed, and a warm start, come first."""
    problem = pendulum()
    xs = straight_line(problem)
    begun = replace(problem, xs_init=xs)
    assert begun.xs_init is not xs and np.array_equal(begun.xs_init, xs)
    passed, stated = DDP().solve(problem, xs=xs), DDP().solve(begun)
    assert stated.log[0].gap == passed.log[0].gap > 0.0 and np.array_equal(stated.us, passed.us)
    assert DDP().solve(begun, xs=stated.xs, us=stated.us).log[0].gap < 1e-12
    assert DDP().solve(begun, warm_start=stated).log[0].gap < 1e-12
    assert compare(begun, {"ddp": DDP()})["ddp"].log[0].gap > 0.0
    with pytest.raises(ValueError, match=r"xs_init: got shape \(3, 2\), expected"):
        replace(problem, xs_init=xs[:3])
