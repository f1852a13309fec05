"""Plans executed in fine steps: on their own robot, on a heavier one, with the gains and without."""

from dataclasses import replace

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from problems import arm
from tests.trajopt.cases import linear
from tests.trajopt.systems import LinearSystem
from trajopt import DDP, CallableSystem, ControlBounds, ControlCost, ControlRateSystem, Problem, Solution, StateCost


@pytest.fixture(scope="module")
def reach():
    p = arm.make(50, 0.02)
    return DDP().solve(replace(p, system=dynamics.RigidBodySystem(p.system.model, 0.02, "rk4")))


@pytest.fixture(scope="module")
def loaded(reach):
    return reach.problem.system.model.with_body("load", "flange", mass=2.0)


def by_hand(solution, model, substeps, gains, limits=(-np.inf, np.inf)):
    """States at the knots of a robot that is made anew."""
    system, xs = solution.problem.system, [solution.xs[0]]
    fine = dynamics.RigidBodySystem(model, system.dt / substeps, "rk4")
    for t, u in enumerate(solution.us):
        u = u + gains * solution.K[t] @ system.difference(solution.xs[t], xs[-1])
        xs.append(fine.rollout(xs[-1], np.tile(np.clip(u, *limits), (substeps, 1)))[-1])
    return np.array(xs)


@pytest.mark.parametrize(("policy", "gains"), [("feedback", 1.0), ("open loop", 0.0)])
def test_a_payload(reach, loaded, policy, gains):
    held = trajopt.simulate(reach, model=loaded, dt=2e-3, policy=policy)
    wanted = by_hand(reach, loaded, 10, gains)
    np.testing.assert_allclose(held.xs[held.knots], wanted, atol=1e-9)
    np.testing.assert_allclose(held.deviation, wanted - reach.xs, atol=1e-9)
    np.testing.assert_array_equal(held.largest_deviation, np.abs(held.deviation).max(axis=0))
    assert held.finite and held.xs.shape == (501, 12) and held.us.shape == (500, 6)
    np.testing.assert_allclose(held.times, 2e-3 * np.arange(501), atol=1e-12)
    np.testing.assert_array_equal(held.knots, 10 * np.arange(51))
    assert (held.us.reshape(50, 10, 6) == held.us[::10, None]).all()


def test_gains_keep_a_loaded_arm_on_its_plan(reach, loaded):
    closed, opened = (trajopt.simulate(reach, loaded, policy=p).largest_deviation for p in ("feedback", "open loop"))
    assert closed[:6].max() < 0.5 * opened[:6].max()


def test_without_a_change_only_the_integrator_errs(reach):
    same = trajopt.simulate(reach)
    assert same.largest_deviation.max() < 1e-4 < 1e-3 < 1e-2
    assert same.deviation[0].max() == 0.0
    predicted = reach.discretization_error().closed_loop
    np.testing.assert_allclose(same.deviation, predicted, atol=0.05 * np.abs(predicted).max())


def test_limits_of_the_problem_hold(reach, loaded):
    tight = 1.05 * np.abs(reach.us).max()
    limited = replace(reach, problem=replace(reach.problem, constraints=[ControlBounds(-tight, tight)]))
    away = reach.xs[0] + 0.3
    found = trajopt.simulate(limited, loaded, x0=away)
    assert np.abs(found.us).max() == tight
    np.testing.assert_array_equal(found.xs[0], away)
    np.testing.assert_allclose(found.deviation[0], 0.3)


def test_policies_of_any_kind(reach):
    asked = []

    def still(t, x):
        asked.append(t)
        return np.zeros(6)

    found = trajopt.simulate(reach, policy=still, dt=5e-3)
    np.testing.assert_allclose(asked, 0.02 * np.arange(50), atol=1e-12)
    assert not found.us.any()
    by_policy = trajopt.simulate(reach, policy=reach.policy(), dt=5e-3)
    np.testing.assert_allclose(by_policy.xs, trajopt.simulate(reach, dt=5e-3).xs, atol=1e-12)


def test_impacts_and_payloads_of_a_gait():
    """Of a walking robot: its phases with a load on its back; impacts are knots of no time in the simulation, too."""
    solution = trajopt.ILQR(max_iterations=2).solve(problems.make("quadruped_walk"))
    system = solution.problem.system
    heavier = system.model.with_body("load", "base", mass=0.5)
    same, other = (trajopt.simulate(solution, model, dt=system.dt / 2) for model in (None, heavier))
    assert same.finite and other.largest_deviation[:18].max() > same.largest_deviation[:18].max() > 0.0
    durations = np.diff(same.times)
    assert (durations == 0.0).sum() == system.idle.sum() and other.system.model is heavier
    impact = int(np.flatnonzero(system.idle)[0])
    before, after = same.xs[same.knots[impact]], same.xs[same.knots[impact + 1]]
    np.testing.assert_array_equal(before[:19], after[:19])
    struck = system.window(impact, impact + 1).step(before, solution.us[impact])
    np.testing.assert_allclose(after, struck, atol=1e-9)


@pytest.mark.parametrize("follower", [False, True])
def test_friction_comes_along(follower):
    """With another model, too, and smoothed over the speed that the plan was made with; where joints follow others."""
    builder, rod = dynamics.ModelBuilder(), {"mass": 1.0, "com": [0.0, 0.0, 0.3], "inertia": 0.01 * np.eye(3)}
    builder.add_body("rod", "world", dynamics.Revolute("y"), joint_name="a", damping=0.2, friction=0.5, **rod)
    builder.add_body("other", "world", dynamics.Revolute("y"), joint_name="b", friction=0.1, **rod)
    if follower:
        builder.add_mimic("b", "a", multiplier=-0.5)
    robot = builder.build()
    system = dynamics.RigidBodySystem(robot, 0.02)
    for other in (system.refined(4), system.with_model(robot.with_body("load", "rod", mass=1.0))):
        figures = other.plant_model.arrays.joint_friction
        np.testing.assert_allclose(figures, system.plant_model.arrays.joint_friction, rtol=1e-12)
        assert len(figures) == 2
    free = dynamics.RigidBodySystem(robot, 0.02, joint_friction=False)
    assert not len(free.refined(2).plant_model.arrays.joint_friction)
    x, u = system.state([0.3] * robot.nq, [0.5] * robot.nv), np.zeros((8, robot.nv))
    speeds = np.sqrt(system.plant_model.arrays.joint_friction[:, 2])
    euler = dynamics.RigidBodySystem(robot, 1e-4, friction_speed=speeds).rollout(x, np.zeros((400, robot.nv)))[-1]
    np.testing.assert_allclose(system.refined(4).rollout(x, u)[-1], euler, atol=2e-4)


def test_other_systems(rng):
    """A discrete system moves in its own steps; a differential equation in fine ones."""
    plan = DDP().solve(linear(rng))
    system = plan.problem.system
    np.testing.assert_allclose(trajopt.simulate(plan).xs, plan.xs, atol=1e-12)
    other = LinearSystem(system.A + 0.01, system.B, system.dt)
    found = trajopt.simulate(plan, system=other, policy="open loop")
    np.testing.assert_allclose(found.xs, other.rollout(plan.xs[0], plan.us), atol=1e-12)
    halves = LinearSystem(system.A, system.B, system.dt / 2)
    assert trajopt.simulate(plan, system=halves).xs.shape == (31, 4)
    rates = ControlRateSystem(CallableSystem(xdot=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=0.1))
    held = DDP().solve(Problem(rates, np.ones(3), 5, [ControlCost(1.0)], [StateCost(rates, np.zeros(3), 1.0)]))
    assert trajopt.simulate(held, dt=0.03).largest_deviation.max() < 1e-9


def test_what_runs_away_is_infinite():
    system = CallableSystem(xdot=lambda x, u: (x[0] ** 3 + u[0],), nx=1, nu=1, dt=0.1)
    plan = DDP().solve(Problem(system, [1.0], 20, [ControlCost(1e-3)], [StateCost(system, [0.0], 1.0)]))
    gone = trajopt.simulate(plan, x0=[30.0], policy="open loop")
    assert not gone.finite and np.isinf(gone.largest_deviation).all() and not np.isnan(gone.xs).any()
    assert np.isfinite(gone.xs[0]).all() and not np.isnan(gone.us).any()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dt": 0.0}, ValueError, "dt: got 0.0"),
        ({"dt": "fine"}, TypeError, "dt: got 'fine'"),
        ({"policy": "closed"}, ValueError, "policy: got 'closed', wanted one of 'feedback', 'open loop'"),
        ({"policy": 3}, ValueError, "policy: got 3"),
        ({"policy": lambda t, x: np.zeros(5)}, ValueError, r"policy: returned shape \(5,\), wanted \(6,\)"),
        ({"x0": np.zeros(3)}, ValueError, r"x0: got shape \(3,\)"),
        ({"x0": np.full(12, np.nan)}, ValueError, "x0: got NaN or Inf"),
        ({"model": "heavy"}, TypeError, "model: got str"),
        ({"model": problems.make("pendulum").system.model}, ValueError, "model: got 1 joints, expected the 6"),
        ({"system": "fast"}, TypeError, "system: str lacks nx"),
        ({"system": LinearSystem(np.eye(2), np.eye(2))}, ValueError, "system: got nx, ndx, nu = "),
    ],
)
def test_bad_input(reach, arguments, error, message):
    with pytest.raises(error, match=message):
        trajopt.simulate(reach, **arguments)


def test_more_bad_input(reach, loaded, rng, tmp_path):
    other = dynamics.RigidBodySystem(loaded, 0.013)
    for arguments, message in (
        ({"system": other}, "system: got dt = 0.013, wanted a whole part of 0.02, the plan's"),
        ({"system": other, "model": loaded}, "model, system: got both"),
    ):
        with pytest.raises(ValueError, match=message):
            trajopt.simulate(reach, **arguments)
    plan = DDP().solve(linear(rng))
    with pytest.raises(TypeError, match="model: got one for a LinearSystem, which takes none; wanted system="):
        trajopt.simulate(plan, model=loaded)
    with pytest.raises(ValueError, match="solution: got one without its problem"):
        trajopt.simulate(Solution.load(plan.save(tmp_path / "plan.npz")))
