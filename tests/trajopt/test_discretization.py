"""Errors of integrators: predictions against rollouts in much finer steps, what is said of them, and who has none."""

from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics import rods
from experiments.soft_manipulator.truth import executed
from problems import arm, quadrotor
from tests.trajopt.cases import linear, pendulum
from tests.trajopt.systems import LinearSystem
from trajopt import DDP, CallableSystem, ControlCost, ControlRateSystem, JerkSystem, Problem, Solution, StateCost
from trajopt.results.discretization import in_short, in_words, remedy

TRUTH = 16


def true_errors(solution, feedback):
    """From the plan to its execution in steps of dt/16 by a system that is made anew, with the controls held."""
    system, xs, us, K = solution.problem.system, solution.xs, solution.us, solution.K
    fine = dynamics.RigidBodySystem(system.model, system.dt / TRUTH, "rk4", system.actuation.B)
    x, errors = xs[0], [np.zeros(system.ndx)]
    for t, planned in enumerate(us):
        u = planned + (K[t] @ system.difference(xs[t], x) if feedback else 0.0)
        x = fine.rollout(x, np.tile(u, (TRUTH, 1)))[-1]
        errors.append(system.difference(xs[t + 1], x))
    return np.array(errors)


def arm_under(integrator, dt):
    return DDP().solve(arm.make(round(1.0 / dt), dt, integrator))


@pytest.fixture(scope="module")
def plans():
    """The arm under each integrator in steps of 20 and 10 ms."""
    names = "explicit_euler", "semi_implicit_euler", "rk4"
    return {(name, dt): arm_under(name, dt) for name in names for dt in (0.02, 0.01)}


CASES = {
    ("explicit_euler", 0.02): (0.25, 0.1), ("explicit_euler", 0.01): (0.15, 0.06),
    ("semi_implicit_euler", 0.02): (0.2, 0.12), ("semi_implicit_euler", 0.01): (0.1, 0.06),
    ("rk4", 0.02): (0.005, 0.005), ("rk4", 0.01): (0.005, 0.005),
}  # fmt: skip
"""What a prediction may miss of the largest true error in open loop and with gains."""


@pytest.mark.parametrize("case", CASES, ids=str)
def test_predictions_of_an_arm(plans, case):
    solution = plans[case]
    error = solution.discretization_error()
    assert not error.beyond_linearization and error.order == (4 if case[0] == "rk4" else 1)
    for predicted, feedback, allowed in zip(
        (error.open_loop, error.closed_loop), (False, True), CASES[case], strict=True
    ):
        true = true_errors(solution, feedback)
        assert np.abs(predicted - true)[:, :6].max() <= allowed * np.abs(true)[:, :6].max()


def test_orders_of_an_arm(plans):
    """Half the step has half the error, or a sixteenth; feedback leaves less of it."""
    for name, ratio in (("explicit_euler", 2.0), ("semi_implicit_euler", 2.0), ("rk4", 16.0)):
        coarse, fine = (plans[name, dt].discretization_error() for dt in (0.02, 0.01))
        found = np.abs(coarse.open_loop[:, :6]).max() / np.abs(fine.open_loop[:, :6]).max()
        assert found == pytest.approx(ratio, rel=0.1)
        assert fine.relative_closed_loop < 0.5 * fine.relative


def test_more_substeps_say_the_same(plans):
    """Of RK4, whose truth is of no higher order, by Richardson's extrapolation."""
    for case, allowed in ((("rk4", 0.02), 2e-3), (("semi_implicit_euler", 0.02), 1e-4)):
        two, five = (plans[case].discretization_error(substeps=k) for k in (2, 5))
        np.testing.assert_allclose(two.local, five.local, atol=allowed * np.abs(five.local).max())


def test_shares_and_worst_places(plans):
    solution = plans["semi_implicit_euler", 0.01]
    error, moved = solution.discretization_error(), solution.xs - solution.xs[0]
    ranges = np.ptp(moved, axis=0)
    np.testing.assert_allclose(error.scale, np.repeat([ranges[:6].max(), ranges[6:].max()], 6))  # rad, rad/s
    assert error.units == ("rad",) * 6 + ("rad/s",) * 6 and error.components == solution.problem.system.tangent_names
    shares = np.abs(error.open_loop) / error.scale
    assert error.relative == shares.max() == shares[:, error.worst_component].max()
    local = np.abs(error.local) / error.scale
    assert local[error.worst_knot].max() == local.max() and error.local.shape == (100, 12)
    with pytest.raises(FrozenInstanceError):
        error.order = 2


def test_a_floating_base():
    """Attitude errors on the manifold, and thrusts at their limits."""
    for integrator, allowed in (("semi_implicit_euler", 0.1), ("rk4", 0.01)):
        solution = DDP().solve(quadrotor.make(75, 0.02, integrator))
        error, true = solution.discretization_error(), true_errors(solution, feedback=False)
        assert error.open_loop.shape == (76, 12) and not error.beyond_linearization
        assert np.abs(error.open_loop - true).max() <= allowed * np.abs(true).max()


def test_impacts_err_by_nothing():
    """A gait: the impacts' rows are zero, the others are those of single steps of the phases' own robots."""
    solution = trajopt.ILQR(max_iterations=2).solve(problems.make("quadruped_walk"))
    system = solution.problem.system
    error = solution.discretization_error()
    assert system.idle.any() and not error.local[system.idle].any() and np.abs(error.local).max() > 1e-6
    impact = int(np.flatnonzero(system.idle)[0])
    for t in (0, impact - 1, impact + 1, len(solution.us) - 1):
        flow = next(s.system for s in system.segments if s.start <= t < s.stop)
        x, u = solution.xs[t], solution.us[t]
        fine = flow.refined(8).rollout(x, np.tile(u, (8, 1)))[-1]
        wanted = system.difference(flow.step(x, u), fine)
        np.testing.assert_allclose(error.local[t], wanted, atol=1e-3 * np.abs(wanted).max())
    E = np.zeros_like(error.open_loop)
    fx = system.linearize(solution.xs, solution.us)[0]
    for t, e in enumerate(error.local):
        E[t + 1] = fx[t] @ E[t] + e
    if not error.beyond_linearization:
        np.testing.assert_allclose(error.open_loop, E, rtol=1e-12)


# ------------------------------------------------------------------------------------------------ other systems
def swing(x, u):
    return x[1], u[0] - 9.81 * np.sin(x[0])


def callable_plan(integrator, dt=0.05):
    system = CallableSystem(xdot=swing, nx=2, nu=1, dt=dt, integrator=integrator)
    return DDP().solve(Problem(system, [0.0, 0.0], 40, [ControlCost(1e-2)], [StateCost(system, [np.pi, 0.0], 50.0)]))


@pytest.mark.filterwarnings("ignore::trajopt.SlowDynamicsWarning")
@pytest.mark.parametrize(
    ("integrator", "order"),
    [("explicit_euler", 1), ("semi_implicit_euler", 1), ("rk2", 2), ("implicit_midpoint", 2), ("rk4", 4)],
)
def test_differential_equations_of_the_user(integrator, order):
    solution = callable_plan(integrator)
    error, system = solution.discretization_error(), solution.problem.system
    fine = CallableSystem(xdot=swing, nx=2, nu=1, dt=system.dt / 64, integrator="rk4")
    ends = [fine.rollout(x, np.tile(u, (64, 1)))[-1] for x, u in zip(solution.xs[:-1], solution.us, strict=True)]
    wanted = np.array(ends) - solution.xs[1:]
    assert error.order == order
    np.testing.assert_allclose(error.local, wanted, atol=0.02 * np.abs(wanted).max())


def test_controls_before_err_by_nothing():
    plain = callable_plan("semi_implicit_euler")
    system = ControlRateSystem(plain.problem.system)
    lifted = Problem(
        system, np.zeros(3), 40, [ControlCost(1e-2)], [StateCost(system, [np.pi, 0.0, 0.0], [50.0, 50.0, 0.0])]
    )
    error = DDP(max_iterations=0).solve(lifted, us=plain.us).discretization_error()
    assert not error.local[:, 2:].any() and not error.open_loop[:, 2:].any()
    np.testing.assert_allclose(error.local[:, :2], plain.discretization_error().local, rtol=0, atol=1e-14)


def lifted_pendulum(integrator="semi_implicit_euler", iterations=300):
    """The plan of `callable_plan` with the velocities before in its states."""
    plain = callable_plan(integrator)
    inner = plain.problem.system
    system = JerkSystem(inner)
    costs = [ControlCost(1e-2)], [system.lift(StateCost(inner, [np.pi, 0.0], 50.0))]
    return plain, DDP(max_iterations=iterations).solve(Problem(system, np.zeros(3), 40, *costs), us=plain.us)


def test_velocities_before_are_those_of_knots():
    """Finer steps of a differential equation no longer say which numbers are velocities, and remember their knot, not
    the step before: what is remembered errs by nothing of its own."""
    plain, lifted = lifted_pendulum(iterations=0)
    error, wanted = lifted.discretization_error(), plain.discretization_error()
    np.testing.assert_allclose(error.local[:, :2], wanted.local, rtol=0, atol=1e-14)
    assert not error.local[:, 2:].any() and lifted.explain()
    np.testing.assert_allclose(error.open_loop[1:, 2], error.open_loop[:-1, 1], atol=1e-12)
    motion = trajopt.simulate(lifted, dt=0.01, policy="open loop")
    np.testing.assert_array_equal(motion.xs[motion.knots[1:], 2], motion.xs[motion.knots[:-1], 1])
    fine = lifted.resample(0.01).xs
    evenly = np.linspace(*lifted.xs[2:4, 2], 6)  # from knot 2 to knot 3
    np.testing.assert_allclose(fine[10:16, 2], evenly, atol=1e-12)
    with_gains = np.abs(trajopt.simulate(lifted, dt=0.01).deviation).max(axis=0)
    np.testing.assert_allclose(with_gains[2], with_gains[1], rtol=1e-9)


def test_a_soft_robot_as_radau_executes_it():
    """Errors are from where Radau's method takes the plan, alone and with its gains; what a linearisation predicts from
    finer steps by SDIRK2 is near."""
    solution = trajopt.DDP().solve(problems.make("soft_manipulator_reach", horizon=12))
    error, fine = solution.discretization_error(), solution.discretization_error(substeps=8)
    system, tight = solution.problem.system, {"method": "radau", "rtol": 1e-7, "atol": 1e-9}
    assert (error.order, error.substeps, fine.substeps) == (2, 0, 8) and not fine.beyond_linearization
    missed = executed(system, solution.xs[0], solution.us) - solution.xs[-1]
    assert np.abs(error.open_loop[-1] - missed).max() < 1e-4 * np.abs(missed).max()
    assert np.abs(fine.open_loop[-1] - missed).max() < 0.2 * np.abs(missed).max()
    np.testing.assert_array_equal(error.local, fine.local)
    policy, (q, v) = replace(solution.policy(), limits=None), np.split(solution.xs[0], 2)
    run = rods.simulate(system.robot, policy.horizon, q0=q, v0=v, policy=policy, period=system.dt, **tight)
    held = np.concatenate([run.q[-1], run.v[-1]]) - solution.xs[-1]
    assert np.abs(error.closed_loop[-1] - held).max() < 1e-4 * np.abs(held).max()


def test_what_a_system_knows_of_continuous_time():
    """Its own and that of one around it."""
    system = problems.make("soft_manipulator_reach", horizon=2).system
    exact, n = system.resimulated(), system.nv
    x, u = np.concatenate([np.linspace(0.0, 0.2, n), np.zeros(n)]), np.full(system.nu, 3.0)
    end = system.refined(64).rollout(x, np.tile(u, (64, 1)))[-1]
    assert np.abs(exact.step(x, u) - end).max() < 1e-3 * np.abs(end).max()
    around = ControlRateSystem(system).resimulated().rollout(np.append(x, 0.0 * u), np.tile(u, (2, 1)))
    np.testing.assert_array_equal(around[:, : 2 * n], exact.rollout(x, np.tile(u, (2, 1))))
    assert np.isnan(exact.step(1e200 * x, u)).all()
    with pytest.raises(ValueError, match="x: got 2 points, expected 3 as of u"):
        exact.step(np.tile(x, (2, 1)), np.tile(u, (3, 1)))


def test_what_cannot_be_predicted_is_rolled_out():
    """Explicit Euler in long steps: the pendulum does something else, and the error is what a rollout says."""
    solution = callable_plan("explicit_euler", dt=0.1)
    error, system = solution.discretization_error(substeps=4), solution.problem.system
    assert error.beyond_linearization
    fine = CallableSystem(xdot=swing, nx=2, nu=1, dt=system.dt / 4)
    states = fine.rollout(solution.xs[0], np.repeat(solution.us, 4, axis=0))[::4]
    np.testing.assert_allclose(error.open_loop, states - solution.xs, atol=1e-9)
    assert np.isfinite(error.closed_loop).all()


def test_a_motion_that_runs_away_is_infinite():
    """xdot = x^2 from 0.9 blows up after 1.11 s; Euler's rule does not know."""
    system = CallableSystem(xdot=lambda x, u: (x[0] ** 2 + u[0],), nx=1, nu=1, dt=0.25, integrator="explicit_euler")
    solution = DDP(max_iterations=0).solve(Problem(system, [0.9], 5, [ControlCost(1.0)], us_init=np.zeros((5, 1))))
    error = solution.discretization_error(64)
    assert error.beyond_linearization and np.isinf(error.open_loop[-1]) and np.isfinite(error.open_loop[:-1]).all()
    assert not np.isnan(error.closed_loop).any() and error.relative == np.inf
    assert "executed without feedback the plan runs away; with its gains it" in in_words(solution, error)
    assert in_short(error) == "without feedback the plan runs away, by its integration error"
    longer = replace(solution.problem, horizon=6, us_init=np.zeros((6, 1)))
    with pytest.raises(ValueError, match="system: got a motion in finer steps that is not finite after knot 5"):
        DDP(max_iterations=0).solve(longer).discretization_error(64)


# ------------------------------------------------------------------------------------------------ words
def test_what_is_said_of_it(plans, tmp_path):
    euler, exact = plans["semi_implicit_euler", 0.01], plans["rk4", 0.01]
    told = " ".join(euler.explain().split())
    share = euler.discretization_error().relative
    assert "Integration error: executed without feedback the plan is off by 0.47 rad/s ('wrist_2 velocity' at" in told
    assert f"at knot 100), {100 * share:.0f} % of the largest motion in rad/s, 4; with its gains it is off by" in told
    assert 'use integrator="rk4", or a smaller dt: dt = 0.005 would halve it' in told
    for solution in (exact, Solution.load(euler.save(tmp_path / "plan.npz")), DDP().solve(pendulum())):
        assert "Integration error" not in solution.explain()
    comparison = trajopt.compare(euler.problem, {"ddp": DDP()})
    said = " ".join(str(comparison).split())
    assert "ddp: integration error of 0.47 rad/s without feedback, 12 % of its motion, see explain()" in said
    assert "integration error" not in str(trajopt.compare(exact.problem, {"ddp": DDP()}))


def test_the_remedy_is_one_that_the_system_has():
    assert "rk4" in callable_plan("explicit_euler").explain()
    p = arm.make(50, 0.02)
    inverse = dynamics.RigidBodySystem(p.system.model, 0.02, formulation="inverse")
    told = " ".join(DDP().solve(replace(p, system=inverse)).explain().split())
    assert "dt = 0.01 would halve it" in told and "rk4" not in told


def two_joints():
    """A shoulder and an elbow that swing in a vertical plane."""
    builder = dynamics.ModelBuilder()
    for name, parent, p in (("upper", "world", [0.0, 0.0, 0.0]), ("lower", "upper", [0.0, 0.0, -0.5])):
        builder.add_body(
            name, parent, dynamics.Revolute("y"), joint_name={"upper": "shoulder", "lower": "elbow"}[name],
            placement=(np.eye(3), p), mass=1.0, com=[0.0, 0.0, -0.25], inertia=0.02 * np.eye(3),
        )  # fmt: skip
    return builder.build()


def test_a_joint_that_hardly_moves_is_compared_with_those_that_do():
    """The elbow is held straight while the shoulder swings: its error is no large part of the motion because its own
    range is small."""
    system = dynamics.RigidBodySystem(two_joints(), 0.02)
    stiff = [ControlCost(1e-3), StateCost(system, np.zeros(4), [0.0, 1e5, 0.0, 1e3])]
    goal = StateCost(system, [1.2, 0.0, 0.0, 0.0], [1e3, 1e3, 10.0, 10.0])
    solution = DDP().solve(Problem(system, np.zeros(4), 60, stiff, [goal], us_init="quasi_static"))
    error, (shoulder, elbow) = solution.discretization_error(), np.ptp(solution.xs[:, :2], axis=0)
    off = np.abs(error.open_loop[:, 1]).max()
    assert elbow < 0.01 * shoulder and off > elbow  # by its own range, more than 100 %
    np.testing.assert_allclose(error.scale[:2], shoulder)
    assert error.relative == pytest.approx((np.abs(error.open_loop) / error.scale).max())
    larger = replace(error, open_loop=np.where(np.arange(4) == 1, 0.18, 0.0) + 0.0 * error.open_loop)
    said = larger.in_words(feedback=False)
    assert said.startswith(
        f"is off by 0.18 rad ('elbow' at knot 0), {18 / shoulder:.0f} % of the largest motion in rad, "
    )


def test_units_are_not_mixed():
    """Metres of a base are compared with metres, its turns with turns, also where only names say what is which."""
    p = quadrotor.make()
    solution = DDP(max_iterations=3).solve(p)
    error, moved = solution.discretization_error(), p.system.difference(solution.xs[:1], solution.xs)
    ranges = np.ptp(moved, axis=0).reshape(4, 3).max(axis=1)
    np.testing.assert_allclose(error.scale, np.repeat(ranges, 3))
    assert error.units == ("m",) * 3 + ("rad",) * 3 + ("m/s",) * 3 + ("rad/s",) * 3

    def car(x, u):
        return x[3] * np.cos(x[2]), x[3] * np.sin(x[2]), x[3] * u[1], u[0]

    names = ["x [m]", "y [m]", "heading [rad]", "speed [m/s]"]
    for named in (names, None):
        system = CallableSystem(xdot=car, nx=4, nu=2, dt=0.1, integrator="explicit_euler", state_names=named)
        drive = Problem(
            system, [0.0, 0.0, 0.0, 1.0], 20, [ControlCost(1.0)], [StateCost(system, [3.0, 0.2, 0, 1], 1e2)]
        )
        solution = DDP().solve(drive)
        ranges, error = np.ptp(solution.xs, axis=0), solution.discretization_error()
        x, y, heading, speed = ranges
        wanted = [max(x, y)] * 2 + [heading, speed] if named else ranges
        np.testing.assert_allclose(error.scale, wanted)


def test_percentages_end_at_all_of_the_motion(plans):
    """Beyond it numbers say more; what is beyond a hundred times it has run away; nobody reads 120 digits."""
    error = plans["semi_implicit_euler", 0.01].discretization_error()
    for off, said in ((0.5, "is off by 2"), (4.41, "is off by 18 rad/s"), (1e118, "runs away"), (np.inf, "runs away")):
        open_loop = np.zeros_like(error.open_loop)
        open_loop[-1, 9] = off * error.scale[9]
        larger = replace(error, open_loop=open_loop)
        told = larger.in_words(feedback=False)
        assert told.startswith(said) and ("%" in told) == (off < 1.0) and len(told) < 110
        assert ("more than the largest motion in rad/s" in told) == (off == 4.41)
        assert len(in_short(larger)) < 80


def test_nothing_moves_and_nothing_is_divided_by_it():
    system = dynamics.RigidBodySystem(two_joints(), 0.02)
    still = Problem(system, np.zeros(4), 10, [ControlCost(1.0)])
    error = DDP().solve(still).discretization_error()
    assert (error.scale == 1e-3).all() and error.relative == 0.0
    off = replace(error, open_loop=np.full_like(error.open_loop, 0.18))
    assert off.in_words(feedback=False) == "is off by 0.18 rad ('shoulder' at knot 0)"


def test_robots_in_contact_are_not_sent_to_rk4():
    """Euler's steps with feedback are what contacts are held by."""
    walk = trajopt.ILQR(max_iterations=1).solve(problems.make("quadruped_walk"))
    assert "rk4" not in remedy(walk, walk.discretization_error())
    assert "dt = 0.005 would halve it" in remedy(walk, walk.discretization_error())
    p = arm.make(integrator="semi_implicit_euler")
    free = DDP(max_iterations=1).solve(replace(p, horizon=5, us_init=p.us_init[:5]))
    assert 'use integrator="rk4"' in remedy(free, free.discretization_error())


def test_stiff_joints_need_more_substeps():
    builder = dynamics.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_body(
        "rod", "world", dynamics.Revolute("y"), joint_name="hinge", mass=1.0, com=[0.0, 0.0, 0.1],
        inertia=0.01 * np.eye(3), damping=10.0,
    )  # fmt: skip
    system = dynamics.RigidBodySystem(builder.build(), 0.02)
    solution = DDP().solve(Problem(system, [0.0, 0.0], 20, [ControlCost(1.0)], [StateCost(system, [1.0, 0.0], 1e3)]))
    with pytest.raises(ValueError, match="substeps: got 2, expected at least 4: the damping of 'hinge' is too stiff"):
        solution.discretization_error()
    assert np.isfinite(solution.discretization_error(4).relative)
    assert solution.explain()


# ------------------------------------------------------------------------------------------------ bad input
def test_who_has_none(rng, tmp_path):
    discrete = DDP().solve(linear(rng))
    with pytest.raises(TypeError, match="system: LinearSystem has no finer steps, expected one that integrates"):
        discrete.discretization_error()
    step = CallableSystem(lambda x, u: (x[0] + u[0],), nx=1, nu=1, dt=0.1)
    with pytest.raises(TypeError, match="system: CallableSystem has no finer steps"):
        DDP().solve(Problem(step, [1.0], 3, [ControlCost(1.0)])).discretization_error()
    with pytest.raises(ValueError, match="solution: got one without its problem"):
        Solution.load(discrete.save(tmp_path / "plan.npz")).discretization_error()
    diverged = DDP().solve(Problem(LinearSystem(1e30 * np.eye(1), np.eye(1)), [1.0], 20, [ControlCost(1.0)]))
    with pytest.raises(ValueError, match="solution: got one that diverged"):
        diverged.discretization_error()


@pytest.mark.parametrize(
    ("substeps", "error", "message"),
    [
        (1, ValueError, "substeps: got 1, expected an integer >= 2"),
        (2.0, TypeError, "substeps: got 2.0"),
        (True, TypeError, "substeps: got True"),
        ("2", TypeError, "substeps: got '2'"),
    ],
)
def test_bad_substeps(substeps, error, message):
    with pytest.raises(error, match=message):
        callable_plan("rk4").discretization_error(substeps)
    system = dynamics.RigidBodySystem(arm.make().system.model, 0.01)
    for value in (0, 1.5, True, "2"):
        with pytest.raises(ValueError, match="substeps: got"):
            system.refined(value)
