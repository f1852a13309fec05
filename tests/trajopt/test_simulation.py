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
from trajopt import (
    DDP,
    CallableSystem,
    ControlBounds,
    ControlCost,
    ControlRateSystem,
    JerkResidual,
    JerkSystem,
    Problem,
    ResidualCost,
    Solution,
    StateCost,
)


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
    by_policy = trajopt.simulate(reach, policy=reach.policy(hold=False), dt=5e-3)
    np.testing.assert_allclose(by_policy.xs, trajopt.simulate(reach, dt=5e-3).xs, atol=1e-12)


def asked_by(reach, **options):
    """When a policy was asked, and the motion."""
    asked, policy = [], reach.policy(hold=False)

    def law(t, x):
        asked.append(t)
        return policy(t, x)

    found = trajopt.simulate(reach, policy=law, **options)
    return np.array(asked), found


@pytest.mark.parametrize("period", [1e-3, 5e-3, 8e-3, 0.02, 0.05, 0.7e-3])
def test_a_policy_is_asked_once_in_a_period(reach, period):
    """And what it says is held to the next time; a period of the plan's steps is what happens at knots."""
    asked, found = asked_by(reach, dt=2e-3, period=period)
    np.testing.assert_allclose(asked, period * np.arange(len(asked)), atol=1e-9)
    assert len(asked) == int(np.ceil(1.0 / period - 1e-9)) and np.diff(found.times).max() <= 2e-3 + 1e-12
    changes = 1 + np.flatnonzero((np.diff(found.us, axis=0) != 0.0).any(axis=1))
    assert np.isin(np.round(found.times[changes] / period, 6), np.arange(len(asked))).all()
    if period == 0.02:
        np.testing.assert_allclose(found.xs, trajopt.simulate(reach, dt=2e-3).xs, atol=1e-12)


def test_periods_that_share_no_step_with_the_plan(reach):
    """The policy is asked at the next step, less than a tenth of the period late."""
    period = 0.02 / np.pi
    asked, found = asked_by(reach, dt=2e-3, period=period)
    late = asked - period * np.arange(len(asked))
    assert late.min() > -1e-8 and late.max() < 0.1 * period + 1e-9 and found.finite


def test_open_loops_and_gains_at_a_period(reach, loaded):
    opened = trajopt.simulate(reach, policy="open loop", dt=2e-3, period=0.01)
    np.testing.assert_allclose(opened.xs, trajopt.simulate(reach, policy="open loop", dt=2e-3).xs, atol=1e-12)
    by_name, by_policy = (
        trajopt.simulate(reach, loaded, policy=p, dt=2e-3, period=4e-3) for p in ("feedback", reach.policy())
    )
    np.testing.assert_array_equal(by_name.xs, by_policy.xs)
    assert by_name.largest_deviation[:6].max() < 0.5 * trajopt.simulate(
        reach, loaded, policy="open loop"
    ).largest_deviation[:6].max()  # fmt: skip


def test_systems_without_finer_steps_are_asked_at_theirs(rng):
    plan = DDP().solve(linear(rng))
    asked, policy = [], plan.policy()
    found = trajopt.simulate(plan, policy=lambda t, x: asked.append(t) or policy(t, x), period=0.03)
    np.testing.assert_allclose(asked, 0.1 * np.arange(15), atol=1e-12)
    np.testing.assert_allclose(found.xs, plan.xs, atol=1e-9)


def test_free_durations_are_executed_as_planned():
    """Their own policy does not set durations that were not planned; times are those of the plan, steps finer ones,
    and the system may have other masses."""
    inside = dynamics.RigidBodySystem(problems.make("arm").system.model, 0.02, "rk4")
    system = trajopt.FreeDurationSystem(inside, phases=[6, 9])
    us = np.zeros((17, 7))
    us[system.setting, -1] = [-0.3, 0.5]
    us[:, :6] = inside.quasi_static(inside.state(0.3 * np.ones(6)))
    x0 = system.state(inside.state(0.3 * np.ones(6), 0.2 * np.ones(6)))
    costs = [system.lift(ControlCost(1e-4)), trajopt.TimeCost(system)]
    plan = trajopt.ILQR(max_iterations=0).solve(Problem(system, x0, 17, costs, us_init=us))
    by_gains, by_policy = (trajopt.simulate(plan, dt=2e-3, policy=p) for p in ("feedback", plan.policy(hold=False)))
    assert by_gains.times[-1] == pytest.approx(0.02 * (6 * 0.7 + 9 * 1.5)) and len(by_gains.times) == 153
    for motion in (by_gains, by_policy):
        np.testing.assert_allclose(motion.times[motion.knots], plan.times, atol=1e-12)
        np.testing.assert_allclose(motion.xs[motion.knots, -1], plan.xs[:, -1], atol=1e-12)
        assert motion.largest_deviation.max() < 1e-4
    heavier = inside.model.with_body("load", "flange", mass=2.0)
    assert trajopt.simulate(plan, heavier).largest_deviation.max() > 1e-2


def test_velocities_before_are_those_of_the_plans_steps():
    """A plan with jerks is followed by its own robot, whatever the steps of the motion and the rate of its policy."""
    robot = problems.make("pendulum").system.model
    system = JerkSystem(dynamics.RigidBodySystem(robot, 0.05, "rk4"))
    costs = [system.lift(ControlCost(0.1)), ResidualCost(JerkResidual(system), 1e-4)]
    goal = StateCost(system, [np.pi, 0.0, 0.0], [1e2, 1e2, 0.0])
    plan = DDP().solve(Problem(system, system.state(np.zeros(2)), 40, costs, [goal]))
    for period in (None, 0.05, 0.01):
        motion = trajopt.simulate(plan, dt=5e-3, period=period)
        assert motion.largest_deviation.max() < 1e-3 * np.abs(plan.xs).max()
        at_knots = motion.xs[motion.knots]
        np.testing.assert_array_equal(at_knots[1:, 2], at_knots[:-1, 1])


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
    assert gone.cause.startswith("the motion is not finite from ") and "implicit" not in gone.cause


def test_an_implicit_step_without_a_solution_is_told():
    class Implicit(LinearSystem):
        implicit_step = "midpoint, dt = 0.1 s"

        def step(self, x, u):
            following = super().step(x, u)
            return np.where(following > 5.0, np.nan, following)

    system = Implicit(1.1 * np.eye(1), np.eye(1))
    plan = DDP().solve(Problem(system, [1.0], 10, [ControlCost(1.0)], [StateCost(system, [0.0], 1.0)]))
    assert trajopt.simulate(plan).cause == ""
    with pytest.warns(RuntimeWarning, match="simulate: the motion is not finite from .* implicit step .midpoint"):
        lost = trajopt.simulate(plan, x0=[4.9], policy="open loop")
    assert not lost.finite and "(midpoint, dt = 0.1 s) has found no solution" in lost.cause


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"dt": 0.0}, ValueError, "dt: got 0.0"),
        ({"dt": "fine"}, TypeError, "dt: got 'fine'"),
        ({"period": 0.0}, ValueError, "period: got 0.0"),
        ({"period": "often"}, TypeError, "period: got 'often'"),
        ({"period": np.nan}, ValueError, "period: got nan"),
        (
            {"period": 0.01, "policy": "closed"},
            ValueError,
            "policy: got 'closed', expected one of 'feedback', 'open loop'",
        ),
        ({"period": 0.01, "policy": lambda t, x: np.zeros(5)}, ValueError, r"policy: got shape \(5,\), expected"),
        ({"policy": "closed"}, ValueError, "policy: got 'closed', expected one of 'feedback', 'open loop'"),
        ({"policy": 3}, ValueError, "policy: got 3"),
        ({"policy": lambda t, x: np.zeros(5)}, ValueError, r"policy: got shape \(5,\), expected \(6,\)"),
        ({"x0": np.zeros(3)}, ValueError, r"x0: got shape \(3,\)"),
        ({"x0": np.full(12, np.nan)}, ValueError, r"x0\[0\]: got nan"),
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
        ({"system": other}, "system: got dt = 0.013, expected a whole part of 0.02, the plan's"),
        ({"system": other, "model": loaded}, "model, system: got both"),
    ):
        with pytest.raises(ValueError, match=message):
            trajopt.simulate(reach, **arguments)
    plan = DDP().solve(linear(rng))
    with pytest.raises(TypeError, match="model: got one for a LinearSystem, which takes none; expected system="):
        trajopt.simulate(plan, model=loaded)
    with pytest.raises(ValueError, match="solution: got one without its problem"):
        trajopt.simulate(Solution.load(plan.save(tmp_path / "plan.npz")))


# ------------------------------------------------------------------------------------------ late, mistaken, loaded
@pytest.mark.parametrize("late", [4, 13])
def test_controls_act_late(reach, late):
    """By hand: made at the knots, acting so many steps of 2 ms later; the first planned control acts until then."""
    start = reach.xs[0] + 1e-3
    found = trajopt.simulate(reach, dt=2e-3, delay=2e-3 * late, x0=start)
    fine, x, made = dynamics.RigidBodySystem(reach.problem.system.model, 2e-3, "rk4"), start, [reach.us[0]] * late
    xs = [x]
    for row in range(500):
        if row % 10 == 0:
            u = reach.us[row // 10] + reach.K[row // 10] @ (x - reach.xs[row // 10])
        made.append(u)
        x = fine.step(x, made.pop(0))
        xs.append(x)
    np.testing.assert_allclose(found.xs, xs, rtol=0.0, atol=1e-8)


def test_states_are_measured_with_errors(reach):
    """The policy alone sees them; anew at every call, the same for the same seed."""
    seen, errors = [], np.r_[np.full(6, 1e-2), np.zeros(6)]

    def law(t, x):
        seen.append(x)
        return np.zeros(6)

    found = trajopt.simulate(reach, policy=law, noise=errors)
    clean = trajopt.simulate(reach, policy=lambda t, x: 0.0 * x[:6])
    np.testing.assert_array_equal(found.xs, clean.xs)
    off = np.array(seen) - found.xs[found.knots[:-1]]
    np.testing.assert_allclose(off[:, 6:], 0.0, atol=1e-15)
    assert 5e-3 < off[:, :6].std() < 2e-2
    runs = [trajopt.simulate(reach, noise=1e-3, seed=seed, dt=5e-3).xs for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert np.abs(runs[0] - runs[2]).max() > 1e-4


def test_a_payload_is_a_body_more(reach, loaded):
    given = trajopt.simulate(reach, payload=("flange", 2.0), dt=2e-3)
    np.testing.assert_array_equal(given.xs, trajopt.simulate(reach, model=loaded, dt=2e-3).xs)
    with pytest.raises(ValueError, match=r"^payload: got one beside a system"):
        trajopt.simulate(reach, payload=("flange", 2.0), system=reach.problem.system)
    with pytest.raises(TypeError, match=r"^payload: got one for a LinearSystem, expected None, or a robot"):
        trajopt.simulate(DDP().solve(linear(np.random.default_rng(0))), payload=("flange", 2.0))
