"""Stiffness and damping of joints beside the gains of a plan: the gains that they make, by hand, wherever they go; what
a delay leaves of them; and the closed loop with a delay that laws are checked in."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

import problems
import trajopt
from dynamics import ModelBuilder, Prismatic, Revolute, RigidBodySystem, mass_matrix, random_configuration
from problems.gaits import DEFAULT, Gait
from problems.quadruped_model import FEET, quadruped, standing
from problems.walker import Walker
from tests.reference.rigid_body_models import load_reference
from tests.trajopt.systems import LinearSystem
from trajopt.results.joint_feedback import in_contact, least_stiffness
from trajopt.results.late_feedback import LateLoop
from trajopt.results.records import Hold

LEGS = slice(6, 18)
"""Degrees of freedom of the quadruped's joints; those before are its base's."""


@pytest.fixture(scope="module")
def trot():
    return trajopt.DDP(max_iterations=300).solve(problems.make("quadruped_trot"))


@pytest.fixture(scope="module")
def arm():
    return trajopt.DDP().solve(problems.make("arm"))


def by_hand(solution, kp, kd):
    """Gains of a quadruped whose controls are the torques of its joints, in their order."""
    K, lasting = solution.policy().K.copy(), np.diff(solution.times) > 0.0
    P = np.zeros(K.shape[1:])
    P[:, LEGS], P[:, 18:][:, LEGS] = np.diag(np.full(12, kp)), np.diag(np.full(12, kd))
    K[lasting] -= P
    return K


def joint_block(K, first=6):
    """Symmetric parts of - K by the joints' angles, or from another column on by their velocities."""
    block = -K[..., first : first + 12]
    return 0.5 * (block + block.swapaxes(-1, -2))


@pytest.mark.parametrize("kp, kd", [(7.0, 0.3), (np.linspace(1.0, 2.0, 12), np.linspace(0.1, 0.2, 12)), (0, 0.1)])
@pytest.mark.filterwarnings("ignore:joint_stiffness, joint_damping. got numbers with which:RuntimeWarning")
def test_policies_plans_and_simulations_have_the_gains_made_by_hand(trot, kp, kd, tmp_path):
    given = {"joint_stiffness": kp, "joint_damping": kd}
    policy, wanted = trot.policy(**given), by_hand(trot, kp, kd)
    np.testing.assert_allclose(policy.K, wanted, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(trajopt.Policy.load(policy.save(tmp_path / "a.npz")).K, policy.K)
    plan = trot.resample(0.003, hold=True, **given)
    np.testing.assert_array_equal(plan.K[:-1], policy.K[plan.knots[:-1]])
    np.testing.assert_array_equal(plan.K[-1], policy.hold.K)
    start = trot.problem.system.integrate(trot.xs[0], 1e-3 * np.ones(36))
    for period in (None, 1e-3):
        motions = [trajopt.simulate(trot, x0=start, period=period, dt=1e-3, **chosen)
                   for chosen in (given, {"policy": policy})]  # fmt: skip
        assert motions[0].finite
        np.testing.assert_allclose(motions[0].xs, motions[1].xs, rtol=0.0, atol=1e-9)


def test_nothing_is_added_where_nothing_is_asked_for(trot):
    for given in ({}, {"joint_stiffness": 0.0}, {"joint_stiffness": 0, "joint_damping": np.zeros(12)}):
        policy = trot.policy(**given)
        np.testing.assert_array_equal(policy.K, trot.policy().K)
        for k in (0, 30, 61):
            t, x = float(trot.times[k]), trot.problem.system.integrate(trot.xs[k], np.full(36, 1e-2))
            np.testing.assert_array_equal(policy(t, x), trot.policy()(t, x))


def test_a_policy_falls_off_with_the_state_as_its_gains_say(trot):
    """Differences along tangents, of the base's pose too."""
    policy, k, h = trot.policy(joint_stiffness=9.0, joint_damping=0.2), 20, 1e-6
    system, t = trot.problem.system, float(trot.times[20])
    along = [policy(t, system.integrate(trot.xs[k], s * h * e)) for e in np.eye(36) for s in (1.0, -1.0)]
    slopes = (np.array(along[::2]) - along[1::2]).T / (2.0 * h)
    wanted = by_hand(trot, 9.0, 0.2)[k]
    np.testing.assert_allclose(slopes, wanted, rtol=0.0, atol=1e-6 * np.abs(wanted).max())


def test_without_other_feedback_joints_alone_are_fed_back(trot):
    policy = trot.policy(feedback=False, joint_stiffness=4.0, joint_damping=0.1)
    gains = trot.policy().K * (np.diff(trot.times) > 0.0)[:, None, None]
    np.testing.assert_allclose(policy.K, by_hand(trot, 4.0, 0.1) - gains, rtol=0.0, atol=1e-9)
    motion = trajopt.simulate(trot, policy="open loop", joint_stiffness=4.0, joint_damping=0.1, period=1e-3)
    same = trajopt.simulate(trot, policy=policy, period=1e-3)
    np.testing.assert_array_equal(motion.xs, same.xs)


def own_inertias(solution):
    """Of a quadruped's joints at all knots, with nothing held and the others of the leg pushed along, by hand."""
    M = mass_matrix(solution.problem.system.model, solution.xs[:, :19])
    inverse = np.linalg.inv(M)[:, 6:, 6:]
    m = 1.0 / np.diagonal(inverse, 0, 1, 2)
    shared = np.abs(inverse) * np.sqrt(m[:, :, None] * m[:, None])
    return (m / shared.sum(axis=2)).min(axis=0)


@pytest.mark.parametrize("hold", [False, True])
def test_by_default_joints_are_stiff_in_every_direction_wherever_feet_are_held(trot, hold):
    """If controls act soon.  Without holding, the plan's last tenth does not count, the gains of which are those of its
    end."""
    given, held = trot.policy(hold=hold), in_contact(trot)
    counted = held if hold else held & (trot.times[:-1] < 0.9 * trot.times[-1])
    policy = trot.policy(joint_stiffness="auto", hold=hold, delay=1e-3)
    assert np.linalg.eigvalsh(joint_block(given.K[counted])).min() < -1.0
    assert np.linalg.eigvalsh(joint_block(policy.K[counted])).min() > 1.0
    if hold:
        assert np.linalg.eigvalsh(joint_block(policy.hold.K))[0] > 1.0
    damping = (given.K - policy.K)[0][:, 24:]
    np.testing.assert_array_equal(np.diag(damping) > 0.0, True)
    assert (np.diag(damping) * 1e-3 / own_inertias(trot) <= 0.48).all()


@pytest.mark.parametrize("delay", [None, 3e-3, 6e-3])
def test_each_joint_is_as_stiff_as_its_inertia_and_the_delay_allow(trot, delay):
    """By default 3 ms; the bound and the damping by hand."""
    given, m = trot.policy(), own_inertias(trot)
    with warnings.catch_warnings(record=True) as said:  # what the gains alone do with so much delay is not the question
        warnings.simplefilter("always")
        policy = trot.policy(joint_stiffness="auto", delay=delay)
    counted = np.concatenate([given.K[in_contact(trot)], given.hold.K[None]])
    wanted = -1.2 * np.linalg.eigvalsh(joint_block(counted)).min()
    P = (given.K - policy.K)[0]
    tau = 3e-3 if delay is None else delay
    shares = (0.0,) if said else (1.0, 0.7, 0.5, 0.35, 0.25)
    bound = np.array([np.minimum(wanted, share * 0.137 * m / tau**2) for share in shares])
    found = np.diag(P[:, LEGS])
    assert np.abs(bound - found).max(axis=1).min() < 1e-9 * wanted
    assert (found < wanted).any()
    np.testing.assert_allclose(P[:, LEGS], np.diag(found), atol=1e-9 * wanted)


def test_springs_of_all_joints_together_oscillate_no_faster_than_their_inertias_say(rng):
    """Legs and arms, whose joints are lighter together than alone; one joint alone has its own inertia."""
    for model in (load_reference("ur5")[0], problems.make("quadruped_stand").system.model):
        floating = model.nq != model.nv
        system = RigidBodySystem(model, 0.01, actuation="floating_base" if floating else None)
        driven = system.joint_feedback[0]
        xs = np.array([system.state(random_configuration(model, rng)) for _ in range(5)])
        for x, m in zip(xs, system.joint_inertias(xs), strict=True):
            springs = np.zeros((model.nv, model.nv))
            springs[driven, driven] = 900.0 * m
            squares = np.linalg.eigvals(np.linalg.solve(mass_matrix(model, x[: model.nq]), springs)).real
            assert 300.0 < squares.max() <= 900.0 * (1.0 + 1e-9)
    for system in (problems.make("pendulum").system, problems.make("cartpole").system):
        x = system.neutral_state
        alone = 1.0 / np.linalg.inv(mass_matrix(system.model, x[: system.nq]))[0, 0]
        np.testing.assert_allclose(system.joint_inertias(x[None])[0, 0], alone, rtol=1e-12)


@pytest.mark.parametrize("share, stable", [(0.97, True), (1.03, False)])
def test_a_joint_alone_bears_the_stiffness_that_the_equation_of_the_bound_says(share, stable):
    """kp = y^2 cos y m/tau^2 with kd = y sin y m/tau at tan y = 2/y, in steps that are short beside the delay."""
    model = ModelBuilder()
    model.add_body("slide", "world", Prismatic("x"), mass=0.7)
    system = RigidBodySystem(model.build(), 1e-3, "rk4")
    costs = [trajopt.StateCost(system, np.zeros(2), 1.0), trajopt.ControlCost(1.0)]
    solution = trajopt.ILQR().solve(trajopt.Problem(system, np.zeros(2), 4, costs, []))
    y, delay = scipy.optimize.brentq(lambda y: np.tan(y) - 2.0 / y, 0.5, 1.5), 0.06
    kp, kd = 0.7 * y**2 * np.cos(y) / delay**2, 0.7 * y * np.sin(y) / delay
    assert abs(4.0 * 0.137 - y**2 * np.cos(y)) < 2e-3
    assert abs(0.64 - 0.5 * np.sin(y) / np.sqrt(np.cos(y))) < 1e-2
    K = -np.array([[share * kp, kd]])
    end = Hold(np.zeros(2), np.zeros(1), K)
    loop = LateLoop(solution, end, delay - 0.5e-3, 1e-3)  # a control that is held is late by half a period on average
    found = loop.growth(np.repeat(K[None], 4, axis=0), K)
    assert (found.rest < 0.0) == stable


def test_growth_is_that_of_the_motion(rng):
    """Of random stable and unstable loops, with a delay of no period, of one and of three, along a plan that varies."""
    for late in (0, 1, 3):
        A, B = np.eye(3) + 0.1 * rng.standard_normal((3, 3)), rng.standard_normal((3, 2))
        system = LinearSystem(A, B, dt=0.1)
        solution = trajopt.ILQR().solve(trajopt.Problem(system, np.zeros(3), 25, [trajopt.ControlCost(1.0)], []))
        K, at_rest = 0.1 * rng.standard_normal((25, 2, 3)), 0.1 * rng.standard_normal((2, 3))
        loop = LateLoop(solution, Hold(np.zeros(3), np.zeros(2), at_rest), 0.1 * late, 0.1)
        found, moves = loop.growth(K, at_rest), []
        for gains in ([at_rest], K[15:]):
            columns = []
            for z in np.eye(3 + 2 * late):
                x, acting = z[:3], [*z[3:].reshape(late, 2)]
                for gain in gains:
                    acting = [gain @ x, *acting]
                    x = A @ x + B @ acting.pop()
                columns.append(np.concatenate([x, *acting]))
            moves.append(np.log(np.abs(np.linalg.eigvals(np.array(columns).T)).max()))
        np.testing.assert_allclose([found.rest, found.last], [moves[0] / 0.1, moves[1] / 1.0], rtol=1e-9)


def test_no_stiffness_is_added_where_it_would_upset_a_balance():
    """The gains that balance a pole push its cart away from its place first, which stiffness would take back."""
    solution = trajopt.DDP().solve(problems.make("cartpole"))
    with pytest.warns(RuntimeWarning, match=r"^joint_stiffness, joint_damping: got 'auto' for a plan that"):
        policy = solution.policy(joint_stiffness="auto")
    np.testing.assert_array_equal(policy.K, solution.policy().K)
    np.testing.assert_array_equal(policy.hold.K, solution.policy().hold.K)
    with pytest.warns(RuntimeWarning, match=r"^joint_stiffness, joint_damping: got numbers with which, with"):
        solution.policy(joint_stiffness=500.0)


@pytest.fixture(scope="module")
def feelers():
    """A quadruped's trot with two feelers, bodies of 5 g that turn, and a plan of it."""
    model, inertia = quadruped(), np.diag([4e-6, 4e-6, 1e-7])
    for side, x in (("front", 0.2), ("back", -0.2)):
        model = model.with_body(
            side, "base", Revolute("y"), placement=(np.eye(3), (x, 0.0, 0.05)), mass=0.005, com=(0.0, 0.0, 0.05),
            inertia=inertia, effort=1.0,
        )  # fmt: skip
    robot = Walker(model, np.append(standing(), [0.0, 0.0]), FEET)
    plan = [(1, ()), (4, ("lf", "rh")), (4, ("rf", "lh")), (3, ())]
    problem = Gait(robot, plan, (0.1, 0.0, 0.0), 0.04, 62, 0.01, DEFAULT).problem("feelers")
    return trajopt.DDP(max_iterations=300).solve(problem)


def test_light_joints_are_given_what_they_bear(feelers):
    """One stiffness for all joints shakes the feelers as soon as controls are late; by default they have their own, and
    the plan is followed with 5 ms of delay."""
    start = feelers.problem.system.integrate(feelers.xs[0], np.full(feelers.problem.system.ndx, 1e-3))
    policy = feelers.policy(joint_stiffness="auto")
    motion = trajopt.simulate(feelers, policy=policy, period=1e-3, delay=5e-3, x0=start)
    assert motion.finite and np.abs(motion.deviation[-1][:20]).max() < 0.01
    P = np.diag((feelers.policy().K - policy.K)[0][:, 6:20])
    assert 0.0 < P[12:].max() < 1.0 < P[:12].min()
    with pytest.warns(RuntimeWarning, match=r"got numbers with which, with controls 5 ms late, deviations grow"):
        shaking = trajopt.simulate(feelers, joint_stiffness=P[:12].min(), period=1e-3, delay=5e-3, x0=start)
    assert not shaking.finite or shaking.largest_deviation.max() > 100.0


def test_a_law_is_checked_with_the_delay_that_is_given(arm):
    with pytest.warns(RuntimeWarning, match=r"^delay: got 0.3 s, with which deviations grow .*-fold in a second"):
        arm.policy(delay=0.3)
    ways = (
        lambda delay: arm.policy(delay=delay),
        lambda delay: arm.policy(feedback=False, delay=delay),
        lambda delay: trajopt.simulate(arm, delay=delay),
        lambda delay: trajopt.simulate(arm, policy="open loop", delay=delay),
        lambda delay: trajopt.simulate(arm, policy=arm.policy(), period=1e-3, delay=delay),
        lambda delay: arm.resample(1e-2, joint_stiffness="auto", delay=delay),
    )
    for way in ways:
        with pytest.raises(ValueError, match=r"^delay: got 9 s, expected at most 1.28 s, 64 steps of the plan"):
            way(9)
    np.testing.assert_array_equal(arm.policy(delay=2e-3).K, arm.policy().K)
    steady = trajopt.simulate(arm, joint_stiffness="auto", period=1e-3, delay=5e-3)
    assert steady.largest_deviation.max() < 0.1


def test_the_least_stiffness_is_that_of_the_joint_block(trot):
    counted = in_contact(trot) & (trot.times[:-1] < 0.9 * trot.times[-1])
    wanted = np.linalg.eigvalsh(joint_block(trot.K[counted])).min()
    np.testing.assert_allclose(least_stiffness(trot), wanted, rtol=1e-12)


def test_an_explanation_says_how_far_gains_push_joints_away_in_contact(trot, arm):
    told = " ".join(trot.explain().split())
    assert f"they push joints away from the plan by up to {-least_stiffness(trot):.3g} N m/rad" in told
    assert "solution.policy(joint_stiffness='auto')" in told
    assert "Gains count on contacts" not in arm.explain()
    with pytest.warns(RuntimeWarning, match="got numbers with which"):
        stiff = replace(trot, K=trot.policy(joint_stiffness=1e4).K)
    assert "Gains count on contacts" not in stiff.explain()


def test_an_explanation_says_nothing_of_joints_that_nothing_drives():
    """Held by a foot, driven at its base alone."""
    robot = problems.make("quadruped_stand").system
    B = np.zeros((18, 6))
    B[:6] = np.eye(6)
    system = RigidBodySystem(robot.model, 0.01, actuation=B, contacts=robot.contacts)
    x0 = problems.make("quadruped_stand").x0
    costs = [trajopt.StateCost(system, x0, 1.0), trajopt.ControlCost(1e-3)]
    solution = trajopt.ILQR(max_iterations=1).solve(trajopt.Problem(system, x0, 5, costs, []))
    assert solution.K.any() and least_stiffness(solution) == 0.0
    assert "Gains count on contacts" not in solution.explain()


def test_gears_tendons_and_arms_get_torques_of_their_joints(rng):
    """Controls exert what was asked for on the joints, exactly where they can."""
    model, _ = load_reference("ur5")
    for B in (np.diag([2.0, -3.0, 1.0, 1.0, 5.0, 0.5]), rng.standard_normal((6, 8)), None):
        system = RigidBodySystem(model, 0.02, actuation=B)
        problem = trajopt.Problem(system, np.zeros(12), 5, [trajopt.ControlCost(1.0)], [])
        solution = trajopt.ILQR().solve(problem)
        policy = solution.policy(joint_stiffness=np.arange(1.0, 7.0), joint_damping=0.5)
        torques = system.actuation.B @ (policy.K - solution.K)
        wanted = np.hstack([-np.diag(np.arange(1.0, 7.0)), -0.5 * np.eye(6)])
        np.testing.assert_allclose(torques, np.broadcast_to(wanted, torques.shape), rtol=0.0, atol=1e-12)


def test_systems_around_a_robot_feed_back_its_joints(arm):
    inside = arm.problem.system
    for system, padded in ((trajopt.ControlRateSystem(inside), 0), (trajopt.FreeDurationSystem(inside, 10), 1)):
        positions, velocities, efforts = system.joint_feedback
        for got, wanted in zip((positions, velocities), inside.joint_feedback, strict=False):
            np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(efforts, np.pad(inside.joint_feedback[2], ((0, 0), (0, padded))))
        xs = system.integrate(system.neutral_state, np.zeros((3, system.ndx)))
        np.testing.assert_array_equal(system.joint_inertias(xs), inside.joint_inertias(xs[:, : inside.nx]))


@pytest.mark.parametrize("name", ["joint_stiffness", "joint_damping"])
@pytest.mark.parametrize(
    "value, error, message",
    [
        (-1.0, ValueError, "got -1.0, expected no negative number"),
        (np.ones(5), ValueError, "got 5 numbers, expected one or 6"),
        (np.ones((6, 6)), ValueError, r"got shape \(6, 6\)"),
        (np.nan, ValueError, "got nan"),
        ("large", ValueError, "got 'large', expected None, a number, one number a driven joint, or 'auto'"),
        (True, TypeError, "got True"),
    ],
)
def test_wrong_numbers_are_named(arm, name, value, error, message):
    for execute in (
        lambda **given: arm.policy(**given),
        lambda **given: arm.resample(0.01, **given),
        lambda **given: trajopt.simulate(arm, **given),
    ):
        with pytest.raises(error, match=f"^{name}: {message}"):
            execute(**{name: value})


def test_systems_without_driven_joints_are_named(arm):
    problem = trajopt.Problem(LinearSystem(np.eye(2), np.eye(2)), np.ones(2), 3, [trajopt.ControlCost(1.0)], [])
    with pytest.raises(TypeError, match=r"^joint_stiffness: got one for a LinearSystem, which has no joints that con"):
        trajopt.ILQR().solve(problem).policy(joint_stiffness=1.0)
    with pytest.raises(TypeError, match=r"^joint_damping: got one for a RigidBodySystem, which has no joints that con"):
        trajopt.ILQR(max_iterations=1).solve(problems.make("quadrotor")).policy(joint_damping=1.0)
    with pytest.raises(ValueError, match=r"^joint_stiffness: got one beside a policy of its own, expected None, or so"):
        trajopt.simulate(arm, policy=arm.policy(), joint_stiffness=1.0)
