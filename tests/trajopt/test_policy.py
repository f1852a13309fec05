"""A solution as a controller: which knot a time belongs to, and what the gains do there."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from tests.trajopt.cases import circle_pendulum, linear, pendulum
from tests.trajopt.systems import LinearSystem
from trajopt import DDP, ILQR, ControlBounds, ControlCost, Problem, Solution, StateCost


def closed_loop(policy, x0, steps):
    """Controls and states when the policy acts at the knots."""
    system, xs, us = policy.system, [np.asarray(x0)], []
    for k in range(steps):
        us.append(policy(k * system.dt, xs[-1]))
        xs.append(system.step(xs[-1], us[-1]))
    return np.array(us), np.array(xs)


def test_gains_of_a_linear_problem_are_optimal_from_any_state(rng):
    problem = linear(rng)
    moved = replace(problem, x0=problem.x0 + rng.standard_normal(4))
    us, xs = closed_loop(DDP().solve(problem).policy(), moved.x0, problem.horizon)
    optimal = DDP().solve(moved)
    np.testing.assert_allclose(us, optimal.us, atol=1e-9)
    np.testing.assert_allclose(xs, optimal.xs, atol=1e-9)


def test_on_the_plan_the_policy_is_the_plan():
    solution = DDP().solve(pendulum())
    us, xs = closed_loop(solution.policy(), solution.xs[0], len(solution.us))
    np.testing.assert_array_equal(us, solution.us)
    np.testing.assert_array_equal(xs, solution.xs)


@pytest.mark.parametrize("dt", [0.1, 0.01, 1.0 / 3.0, 0.02, 7e-4])
def test_knots_of_times(dt):
    system = LinearSystem(np.eye(1), np.eye(1), dt)
    problem = Problem(system, [1.0], 200, [ControlCost(1.0)], [StateCost(system, [0.0], 1.0)])
    policy = ILQR(max_iterations=0).solve(problem).policy()
    summed = np.cumsum(np.full(200, dt)) - dt
    for k in range(200):
        assert policy.knot(k * dt) == policy.knot(summed[k]) == policy.knot(float(f"{k * dt:.12g}")) == k
        assert policy.knot((k + 0.999) * dt) == k
    assert policy.knot(-1.0) == 0 and policy.knot(1e300) == 199
    assert policy.horizon == pytest.approx(200 * dt)


def test_beyond_the_horizon_the_last_knot_acts(rng):
    solution = DDP().solve(linear(rng))
    policy, x = solution.policy(), rng.standard_normal(4)
    np.testing.assert_array_equal(policy(10.0 * policy.horizon, x), policy(policy.horizon - 0.05, x))
    np.testing.assert_allclose(policy(1e3, x), solution.us[-1] + solution.K[-1] @ (x - solution.xs[-2]), rtol=1e-14)


def test_feedback_on_a_manifold_takes_the_short_way_round():
    """A state just beyond the cut of the angle is near the plan, whichever numbers its chart has."""
    solution = DDP().solve(circle_pendulum())
    policy, k = solution.policy(), len(solution.us) - 1
    angle, rate = policy.system.chart(solution.xs[k])
    moved = policy.system.embed(np.array([angle + 0.4, rate - 0.1]))
    assert abs(angle + 0.4) > np.pi  # beyond the cut
    expected = solution.us[k] + solution.K[k] @ [0.4, -0.1]
    np.testing.assert_allclose(policy(k * policy.system.dt, moved), expected, rtol=1e-12)


def test_controls_are_clipped_to_their_limits_knot_by_knot(rng):
    p = linear(rng)
    lower = -np.linspace(0.1, 0.4, 2 * p.horizon).reshape(-1, 2)
    problem = replace(p, constraints=[ControlBounds(lower, 0.5)])
    solution = DDP().solve(problem)
    policy, free = solution.policy(), rng.standard_normal(4)
    for k in range(p.horizon):
        x = solution.xs[k] + 3.0 * free
        unclipped = solution.us[k] + solution.K[k] @ (x - solution.xs[k])
        np.testing.assert_array_equal(policy(k * p.system.dt, x), np.clip(unclipped, lower[k], 0.5))
    unlimited = DDP().solve(p).policy()
    assert unlimited.limits is None and np.abs(unlimited(0.0, p.x0 + 100.0)).max() > 1.0


def test_open_loop_needs_no_state_and_ignores_it(rng):
    solution = DDP().solve(linear(rng))
    policy = solution.policy(feedback=False)
    np.testing.assert_array_equal(policy(0.21), solution.us[2])
    np.testing.assert_array_equal(policy(0.21, rng.standard_normal(4)), solution.us[2])


def test_a_policy_keeps_its_plan(rng):
    solution = DDP().solve(linear(rng))
    policy, x = solution.policy(), rng.standard_normal(4)
    before = policy(0.3, x)
    before_again = before.copy()
    before[:] = 0.0  # what it returns is the caller's
    for array in (solution.us, solution.K, solution.xs):
        array[:] = np.nan
    np.testing.assert_array_equal(policy(0.3, x), before_again)
    with pytest.raises(FrozenInstanceError):
        policy.us = solution.us


def test_errors_name_the_argument(rng):
    solution = DDP().solve(linear(rng))
    policy = solution.policy()
    for args, error, message in [
        (("now", policy.xs[0]), TypeError, "^t: got 'now'"),
        (([0.1], policy.xs[0]), TypeError, "^t: got"),
        ((True, policy.xs[0]), TypeError, "^t: got True"),
        ((np.nan, policy.xs[0]), ValueError, "^t: got NaN"),
        ((0.1,), TypeError, r"^x: got None, wanted a state of shape \(4,\)"),
        ((0.1, np.zeros(3)), ValueError, r"^x: got shape \(3,\), wanted \(4,\)"),
        ((0.1, np.zeros((1, 4))), ValueError, "^x: got shape"),
        ((0.1, np.full(4, np.inf)), ValueError, "^x: got NaN or Inf"),
    ]:
        with pytest.raises(error, match=message):
            policy(*args)
    with pytest.raises(TypeError, match=r"^feedback: got 'no'"):
        solution.policy(feedback="no")


def test_what_has_no_trajectory_has_no_policy(rng, tmp_path):
    system = LinearSystem(1e30 * np.eye(2), np.eye(2))
    diverged = DDP().solve(Problem(system, [1.0, 0.0], 20, [ControlCost(1.0)]))
    with pytest.raises(ValueError, match="solution: got one that diverged"):
        diverged.policy()
    problem = linear(rng)
    path = DDP().solve(problem).save(tmp_path / "plan.npz")
    with pytest.raises(ValueError, match="solution: got one without its problem"):
        Solution.load(path).policy()
    np.testing.assert_array_equal(Solution.load(path, problem).policy()(0.0, problem.x0), Solution.load(path).us[0])
