"""A solution as a controller: the plan at any time, what the gains do around it, and files of policies."""

import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from functools import cache

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics.simd.kernel_cache import NotCompiledError
from problems import arm
from tests.trajopt.cases import circle_pendulum, linear, pendulum
from tests.trajopt.systems import LinearSystem
from trajopt import (
    DDP,
    ILQR,
    CallableSystem,
    ControlBounds,
    ControlCost,
    ControlRateCost,
    ControlRateSystem,
    FreeDurationSystem,
    JerkResidual,
    JerkSystem,
    Policy,
    Problem,
    Solution,
    StateCost,
    TimeCost,
)
from trajopt.results.dense_output import DenseOutput, dense_output


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


def test_beyond_the_horizon_the_end_is_held(rng):
    """By the last control and its gain, around the last state; before the start, by the first ones."""
    solution = DDP().solve(linear(rng))
    policy, x = solution.policy(), rng.standard_normal(4)
    np.testing.assert_array_equal(policy(10.0 * policy.horizon, x), policy(policy.horizon, x))
    np.testing.assert_allclose(policy(1e3, x), solution.us[-1] + solution.K[-1] @ (x - solution.xs[-1]), rtol=1e-14)
    np.testing.assert_array_equal(policy(-3.0, x), policy(0.0, x))


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
        u = policy(k * p.system.dt, x)
        np.testing.assert_allclose(u, np.clip(unclipped, lower[k], 0.5), rtol=1e-13, atol=1e-15)
        assert ((lower[k] <= u) & (u <= 0.5)).all()
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
        ((np.nan, policy.xs[0]), ValueError, "^t: got nan"),
        ((0.1,), TypeError, r"^x: got None, expected a state of shape \(4,\)"),
        ((0.1, np.zeros(3)), ValueError, r"^x: got shape \(3,\), expected \(4,\)"),
        ((0.1, np.zeros((1, 4))), ValueError, "^x: got shape"),
        ((0.1, np.full(4, np.inf)), ValueError, r"^x\[0\]: got inf"),
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


# ------------------------------------------------------------------------------------------------ between knots
def by_rk4(problem):
    return replace(problem, system=problem.system.refined(1))


def swing_by_function():
    """The swing-up of a user's pendulum that is not upright without feedback."""
    system = CallableSystem(xdot=lambda x, u: (x[1], u[0] - np.sin(x[0])), nx=2, nu=1, dt=0.05, integrator="rk4")
    return Problem(system, [0.0, 0.0], 60, [ControlCost(0.1)], [StateCost(system, [np.pi, 0.0], 1e2)])


def with_rates():
    inner = swing_by_function().system
    system = ControlRateSystem(inner)
    return Problem(
        system, np.zeros(3), 60, [ControlRateCost(system, 0.1), system.lift(ControlCost(0.1))],
        [StateCost(system, [np.pi, 0.0, 0.0], [1e2, 1e2, 0.0])],
    )  # fmt: skip


def with_jerks():
    robot = problems.make("pendulum").system.model
    system = JerkSystem(dynamics.RigidBodySystem(robot, 0.05, "rk4"))
    costs = [system.lift(ControlCost(0.1)), trajopt.ResidualCost(JerkResidual(system), 1e-4)]
    goal = StateCost(system, [np.pi, 0.0, 0.0], [1e2, 1e2, 0.0])
    return Problem(system, system.state(np.zeros(2)), 40, costs, [goal])


def in_free_time():
    """A mass is to be at rest one metre away soon, its phases of free durations."""
    inside = CallableSystem(xdot=lambda x, u: (x[1], u[0] - 0.2 * x[1] ** 2), nx=2, nu=1, dt=0.05, integrator="rk4")
    system = FreeDurationSystem(inside, phases=[8, 12])
    costs = [TimeCost(system, 3.0), system.lift(ControlCost(1.0))]
    goal = system.lift(StateCost(inside, [1.0, 0.0], 1e3))
    bounds = ControlBounds([-2.0, -np.inf], [2.0, np.inf])
    return Problem(system, system.state([0.0, 0.0]), 22, costs, [goal], [system.duration_bounds(), bounds])


def satellite():
    """A body that turns without limit and a rod, before anything was optimized."""
    problem = problems.make("flexible_satellite")
    return replace(problem, horizon=20, us_init=np.zeros((20, problem.system.nu)))


PLANS = {
    "arm": lambda: DDP().solve(by_rk4(arm.make(50, 0.02))),
    "quadrotor": lambda: DDP().solve(by_rk4(problems.make("quadrotor"))),
    "gait": lambda: ILQR(max_iterations=2).solve(by_rk4(problems.make("quadruped_walk"))),
    "user's function": lambda: DDP().solve(swing_by_function()),
    "control rates": lambda: DDP().solve(with_rates()),
    "jerks": lambda: DDP().solve(with_jerks()),
    "free durations": lambda: DDP().solve(in_free_time()),
    "discrete": lambda: DDP().solve(linear(np.random.default_rng(3))),
    "circle": lambda: DDP().solve(circle_pendulum()),
    "satellite": lambda: ILQR(max_iterations=0).solve(satellite()),
}
MOVING = [name for name in PLANS if name not in ("discrete", "circle", "satellite")]
"""Those with finer steps than the plan's that cost little."""


@cache
def plan_of(name):
    return PLANS[name]()


def moments(solution, count=40):
    return np.random.default_rng(0).uniform(-0.02, 1.02 * solution.times[-1], count).tolist()


def test_a_plan_is_followed_at_any_rate():
    """By the model that it was made with, a thousand times a second, knots twenty milliseconds apart: no joint leaves
    it, and torques jump from knot to knot alone, as they were planned to."""
    robot = dynamics.load_robot(problems.model_path("arm6"))
    system, fine = (dynamics.RigidBodySystem(robot, dt, integrator="rk4") for dt in (0.02, 0.001))
    x0, rest = system.state([0.0, -1.2, 1.6, -1.9, -1.6, 0.0]), np.repeat([0.0, 10.0], 6)
    reach = dynamics.FrameTranslation(robot, "tool", target=[0.4, 0.5, 0.3])
    running = [StateCost(system, x0, 0.01 * rest), ControlCost(1e-4)]
    terminal = [trajopt.ResidualCost(reach, 1e3), StateCost(system, x0, rest)]
    limits = [ControlBounds.from_model(system)]
    plan = DDP().solve(Problem(system, x0, 50, running, terminal, limits, us_init="quasi_static"))
    policy, dense, x, us, off = plan.policy(), plan.resample(1e-3), x0, [], 0.0
    for i in range(1000):
        us.append(policy(i * 1e-3, x))
        x = fine.step(x[None], us[-1][None])[0]
        off = max(off, np.abs(x[:6] - dense.xs[i + 1, :6]).max())
    assert off <= 2e-5
    assert np.abs(np.diff(us, axis=0)).max() <= 23.0


@pytest.mark.parametrize("name", PLANS)
def test_on_the_planned_motion_nothing_is_fed_back(name):
    """At any time, whatever the system and its integrator: gaps of the integrator are put back in the reference."""
    solution = plan_of(name)
    policy, limits = solution.policy(hold=False), solution.problem.control_limits
    for t in moments(solution):
        u, k = policy(t, policy.reference(t)), policy.knot(t)
        planned = solution.us[k] if limits is None else np.clip(solution.us[k], limits[0][k], limits[1][k])
        assert np.abs(u - planned).max() < 1e-7 * (1.0 + np.abs(solution.us).max())


@pytest.mark.parametrize("name", PLANS)
def test_at_knots_gains_act_around_their_states(name, rng):
    solution = plan_of(name)
    system, policy, limits = solution.problem.system, solution.policy(hold=False), solution.problem.control_limits
    for k in np.flatnonzero(np.diff(solution.times) > 0.0).tolist():
        t = float(solution.times[k])
        x = system.integrate(solution.xs[k], 0.1 * rng.standard_normal(system.ndx))
        u = solution.us[k] + solution.K[k] @ system.difference(solution.xs[k], x)
        u = u if limits is None else np.clip(u, limits[0][k], limits[1][k])
        assert policy.knot(t) == k
        np.testing.assert_allclose(policy(t, x), u, rtol=1e-12, atol=1e-12 * np.abs(u).max())
        np.testing.assert_array_equal(policy.reference(t), solution.xs[k])


@pytest.mark.parametrize("parts", [1, 4, 10])
@pytest.mark.parametrize("name", [name for name in MOVING if name != "free durations"])
def test_simulated_at_the_robots_rate_motions_stay_on_the_plan(name, parts):
    """By the plan's own system, asked so many times in a step: motions are those of the knots."""
    solution = plan_of(name)
    dt = solution.problem.system.dt
    law = solution.policy(hold=False)
    held, motion = (trajopt.simulate(solution, dt=dt / 20, period=p, policy=law) for p in (None, dt / parts))
    assert motion.finite and held.finite
    slack = 1e-4 if name == "gait" else 2e-6
    assert motion.largest_deviation.max() <= held.largest_deviation.max() + slack * (1.0 + np.abs(solution.xs).max())


@pytest.mark.parametrize("share", [0.3, 0.11])
@pytest.mark.parametrize("name", ["arm", "quadrotor", "user's function", "free durations"])
def test_at_rates_that_miss_knots_controls_are_late_and_no_more(name, share):
    """What leaves the plan is of the size of the controls' changes times the time by which they come late."""
    solution = plan_of(name)
    seconds = np.diff(solution.times)
    lasting = seconds > 0.0
    period = share * float(seconds[lasting].min())
    motion = trajopt.simulate(solution, dt=0.25 * solution.problem.system.dt, period=period)
    late = np.abs(np.diff(solution.us[lasting], axis=0)).max() * period
    assert motion.finite and motion.largest_deviation.max() <= 20.0 * late * (1.0 + np.abs(solution.xs).max())


@pytest.mark.parametrize("name", PLANS)
def test_resampled_plans_are_the_motion_that_policies_refer_to(name):
    solution = plan_of(name)
    policy, plan = solution.policy(hold=False), solution.resample(0.37 * solution.problem.system.dt)
    for t, x, u in zip(plan.times.tolist(), plan.xs, plan.us, strict=True):
        np.testing.assert_array_equal(policy.reference(t), x)
        np.testing.assert_array_equal(solution.policy(feedback=False)(t) if t in plan.times[:3] else u, u)


def test_the_reference_moves_without_jumps_but_at_impacts():
    solution = plan_of("gait")
    system, policy, impacts = solution.problem.system, solution.policy(), 0
    for k in range(1, len(solution.us)):
        t = float(solution.times[k])
        before, after = policy.reference(t - 2e-6 * system.dt), policy.reference(t)
        if solution.times[k + 1] == t:
            impacts += 1
            before = system.window(k, k + 1).step(before, solution.us[k])  # what strikes, changes its velocity
        elif solution.times[k - 1] == t:
            before = after
        assert np.abs(system.difference(before, after)).max() < 1e-4
    assert impacts > 0


def test_knots_of_no_time_do_not_act_and_the_end_is_behind_all_of_them():
    """Two of them in the middle, one at the end."""
    seconds = np.array([0.1, 0.0, 0.0, 0.2, 0.0])

    class Struck(LinearSystem):
        durations = seconds

    system = Struck(np.eye(1), np.eye(1), 0.1)
    xs = np.arange(6.0)[:, None]
    motion = dense_output(system, xs, np.arange(5.0)[:, None])
    assert [motion.locate(t) for t in (0.0, 0.05, 0.1, 0.2, 0.3, 9.0, -1.0)] == [
        (0, 0.0), (0, 0.5), (3, 0.0), (3, pytest.approx(0.5)), (3, 1.0), (3, 1.0), (0, 0.0)
    ]  # fmt: skip
    for t, x in ((0.05, 0.5), (0.1 - 1e-9, 3.0), (0.1, 3.0), (0.2, 3.5), (0.3, 5.0), (9.0, 5.0)):
        np.testing.assert_allclose(motion.state(*motion.locate(t)), [x], atol=1e-12)


def test_a_motion_that_is_not_finite_is_refused():
    system = CallableSystem(xdot=lambda x, u: (1e4 * x[0] ** 3 + u[0],), nx=1, nu=1, dt=0.1)
    xs, us = np.full((4, 1), 10.0), np.zeros((3, 1))
    with pytest.raises(ValueError, match="system: got a motion in finer steps that is not finite after knot 0"):
        dense_output(system, xs, us).state(1, 0.5)


# ------------------------------------------------------------------------------------------------ linear controls
@pytest.mark.parametrize("name", ["arm", "free durations", "gait"])
def test_linear_controls_do_not_jump(name):
    """They meet held ones in the middle of each step, and jump where a phase begins alone."""
    solution = plan_of(name)
    linear, lasting = solution.policy(feedback=False, control="linear"), np.diff(solution.times) > 0.0
    policy, phases = linear.motion, getattr(solution.problem.system, "phase_starts", [])
    for k in np.flatnonzero(lasting).tolist():
        np.testing.assert_array_equal(policy.control(k, 0.5), solution.us[k])
        if k + 1 < len(lasting) and lasting[k + 1] and k + 1 not in phases:
            np.testing.assert_allclose(policy.control(k, 1.0), policy.control(k + 1, 0.0), atol=1e-9)
        elif k + 1 < len(lasting):
            np.testing.assert_array_equal(policy.control(k, 1.0), solution.us[k])


def test_the_motion_of_linear_controls_is_theirs():
    """The reference is what they make of the plan: on it nothing is fed back, and executed it is followed as closely as
    their means are those of the steps."""
    solution = plan_of("user's function")
    system, policy = solution.problem.system, solution.policy(control="linear")
    for t in moments(solution):
        np.testing.assert_allclose(policy(t, policy.reference(t)), policy.motion.control(*policy.motion.locate(t)))
    middle, held = (p.reference(0.5 * system.dt) for p in (policy, solution.policy()))
    assert np.abs(middle - held).max() > 1e-5  # another motion inside the step, the same at the knots
    motion = trajopt.simulate(solution, dt=1e-3, policy=policy, period=1e-3)
    assert motion.largest_deviation.max() < 2e-3 * np.ptp(solution.xs, axis=0).max()
    with pytest.raises(ValueError, match="control: got 'cubic', expected one of 'held', 'linear'"):
        solution.policy(control="cubic")


# ------------------------------------------------------------------------------------------------ files
@pytest.mark.parametrize("control", ["held", "linear"])
@pytest.mark.parametrize("name", [name for name in PLANS if name != "circle"])
def test_saved_policies_act_the_same_elsewhere(name, control, rng, tmp_path):
    solution = plan_of(name)
    system, policy = solution.problem.system, solution.policy(control=control)
    path = policy.save(tmp_path / "new" / "policy")
    loaded = Policy.load(str(path))
    assert [path] == list(path.parent.iterdir()) and loaded.system is None
    assert loaded.horizon == policy.horizon and loaded.feedback
    for t in (*moments(solution), *solution.times[:5].tolist()):
        x = system.integrate(policy.reference(t), 0.3 * rng.standard_normal(system.ndx))
        np.testing.assert_array_equal(loaded(t, x), policy(t, x))
        np.testing.assert_array_equal(loaded.reference(t), policy.reference(t))
        assert loaded.knot(t) == policy.knot(t)
    again = Policy.load(loaded.save(tmp_path / "again"))
    np.testing.assert_array_equal(again(0.1, solution.xs[1]), policy(0.1, solution.xs[1]))


def test_without_feedback_a_saved_policy_needs_no_state(rng, tmp_path):
    solution = DDP().solve(linear(rng))
    loaded = Policy.load(solution.policy(feedback=False).save(tmp_path / "a.npz"))
    np.testing.assert_array_equal(loaded(0.21), solution.us[2])
    with open(tmp_path / "a.npz", "rb") as stream:
        np.testing.assert_array_equal(Policy.load(stream)(0.21), solution.us[2])


def test_a_loaded_policy_compiles_nothing_and_knows_no_robot(tmp_path):
    path = plan_of("arm").policy().save(tmp_path / "arm.npz")
    script = (
        "import sys, trajopt\n"
        f"policy = trajopt.Policy.load({str(path)!r})\n"
        "print(policy(0.0137, policy.reference(0.0137) + 1e-3).shape)\n"
        "from dynamics.simd import PROGRESS\n"
        "assert PROGRESS.compiled == 0\n"
        "assert not {'dynamics.model.model', 'problems'} & set(sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0 and run.stdout == "(6,)\n", run.stderr


def test_states_of_a_users_manifold_cannot_be_saved(tmp_path):
    with pytest.raises(TypeError, match="system: CirclePendulum has a manifold of states of its own, which no file"):
        plan_of("circle").policy().save(tmp_path / "a.npz")
    assert not list(tmp_path.iterdir())


def test_a_users_manifold_of_known_groups_can_be_saved(tmp_path, rng):
    """A system that says what its states are, here vectors under another name."""

    class Described(LinearSystem):
        state_space = (("euclidean", 1), ("euclidean", 3))

    problem = linear(rng)
    system = Described(problem.system.A, problem.system.B, problem.system.dt)
    policy = DDP().solve(replace(problem, system=system)).policy()
    assert policy.space.factors == (("euclidean", 4),)
    assert policy.save(tmp_path / "a.npz").exists()


def test_loaded_policies_check_their_states(tmp_path):
    loaded = Policy.load(plan_of("quadrotor").policy().save(tmp_path / "a.npz"))
    x = loaded.xs[0].copy()
    x[3:7] = [0.0, 0.0, 0.1, 1.0]
    for bad, error, message in [
        (None, TypeError, r"^x: got None, expected a state of shape \(13,\)"),
        (np.zeros(3), ValueError, r"^x: got shape \(3,\), expected \(13,\)"),
        (np.full(13, np.nan), ValueError, r"^x\[0\]: got nan"),
        (x, ValueError, r"^x: the quaternion x\[3:7\] has norm 1\.0049.*, expected a unit quaternion"),
    ]:
        with pytest.raises(error, match=message):
            loaded(0.1, bad)
    x.flags.writeable, x[3:7] = True, loaded.xs[0, 3:7]
    frozen, strided = x.copy(), np.repeat(x, 2)[::2]
    frozen.flags.writeable = False
    for other in (frozen, strided, x.tolist()):
        np.testing.assert_array_equal(loaded(0.1, other), loaded(0.1, x))


def test_a_file_that_fails_leaves_the_old_one(rng, tmp_path, monkeypatch):
    policy = DDP().solve(linear(rng)).policy()
    path = policy.save(tmp_path / "a.npz")
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        policy.save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_other_files_are_refused(rng, tmp_path):
    solution, path = DDP().solve(linear(rng)), tmp_path / "a.npz"
    with pytest.raises(FileNotFoundError):
        Policy.load(path)
    content = solution.policy().save(path).read_bytes()
    for damaged in (b"", content[:100], content[: len(content) // 2], content[:500] + bytes(99) + content[599:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"a\.npz: got a file that is cut short or not a policy file"):
            Policy.load(path)
    with pytest.raises(ValueError, match=r"without the mark 'trajopt\.Policy'"):
        Policy.load(solution.save(path))
    solution.policy().save(path)
    with pytest.raises(ValueError, match=r"without the mark 'trajopt\.Solution'"):
        Solution.load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format_version": np.array(3)}, "format 3 of a newer trajopt, expected at most 2"),
        ({"format_version": np.array("new")}, "without its format_version"),
        ({"format_version": None}, "without its format_version"),
        ({"table": np.array([object()])}, "not a policy file"),
        ({"K": None}, r"damaged \('K"),
        ({"space": None}, "damaged"),
        ({"space": np.array("[[")}, "damaged"),
        ({"space": np.array('[["so4"]]')}, "damaged .*so4"),
        ({"space": np.array('[["euclidean", 5]]')}, r"damaged \(xs: got shape \(16, 4\), expected \(16, 5\)"),
        ({"space": np.array('{"a": 1}')}, "damaged"),
        ({"us": np.zeros(3)}, "damaged"),
        ({"us": np.zeros((0, 2))}, "damaged"),
        ({"xs": np.full((16, 4), np.nan)}, r"damaged \(xs\[0, 0\]: got nan"),
        ({"K": np.zeros((15, 2, 3))}, r"damaged \(K: got shape"),
        ({"table": np.zeros((15, 1, 4))}, "damaged"),
        ({"table": np.zeros(3)}, "damaged"),
        ({"slopes": np.zeros((3, 2, 2))}, r"damaged \(slopes"),
        ({"times": -np.arange(16.0)}, r"damaged \(times"),
        ({"times": np.zeros(16)}, r"damaged \(times"),
        ({"lower": np.zeros((15, 2))}, "damaged"),
        ({"lower": np.zeros((15, 2)), "upper": np.full((15, 2), np.nan)}, r"damaged \(upper\[0, 0\]"),
        ({"early": np.array("soon")}, r"damaged \(early"),
        ({"feedback": np.zeros(2)}, "damaged"),
        ({"xs": np.array([["a"] * 4] * 16)}, r"damaged \(xs"),
    ],
)
def test_damaged_files_are_refused(changes, message, rng, tmp_path):
    path = DDP().solve(linear(rng)).policy().save(tmp_path / "a.npz")
    with np.load(path) as data:
        arrays = dict(data) | changes
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    with pytest.raises(ValueError, match=rf"a\.npz: got .*{message}"):
        Policy.load(path)


# ------------------------------------------------------------------------------------------------ the first call
@pytest.mark.parametrize("name", ["arm", "gait"])
def test_calls_find_the_motion_computed(name, monkeypatch):
    """So that the first one takes no longer than others."""
    solution = plan_of(name)
    policy = solution.policy()
    policy.warm_up()  # in case that something was not compiled yet
    again = solution.policy()
    for each in (policy, again):
        monkeypatch.setattr(each.motion, "_make", None)  # whoever computes rows of the table now, fails
        for t in np.linspace(-0.1, policy.horizon + 0.1, 50).tolist():
            assert np.isfinite(each(t, solution.xs[0])).all()


def test_a_policy_is_made_where_functions_of_its_motion_are_not_compiled(monkeypatch, rng):
    """They are left to the calls, or to `warm_up`."""

    def not_compiled(*args):
        raise NotCompiledError("not compiled")

    solution = DDP().solve(linear(rng))
    with monkeypatch.context() as changed:
        changed.setattr(DenseOutput, "_make", not_compiled)
        policy = solution.policy()
        with pytest.raises(NotCompiledError):
            policy.warm_up()
    policy.warm_up()
    np.testing.assert_array_equal(policy(0.25, solution.xs[2]), solution.policy()(0.25, solution.xs[2]))
