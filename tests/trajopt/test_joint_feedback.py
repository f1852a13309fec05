"""Stiffness and damping of joints beside the gains of a plan: the gains that they make, by hand, wherever they go."""

from dataclasses import replace

import numpy as np
import pytest

import problems
import trajopt
from dynamics import RigidBodySystem, mass_matrix
from tests.reference.rigid_body_models import load_reference
from tests.trajopt.systems import LinearSystem
from trajopt.results.joint_feedback import in_contact, least_stiffness

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
    K, lasting = solution.K.copy(), np.diff(solution.times) > 0.0
    P = np.zeros(K.shape[1:])
    P[:, LEGS], P[:, 18:][:, LEGS] = np.diag(np.full(12, kp)), np.diag(np.full(12, kd))
    K[lasting] -= P
    return K


def joint_block(K, first=6):
    """Symmetric parts of - K by the joints' angles, or from another column on by their velocities."""
    block = -K[..., first : first + 12]
    return 0.5 * (block + block.swapaxes(-1, -2))


@pytest.mark.parametrize("kp, kd", [(7.0, 0.3), (np.linspace(1.0, 2.0, 12), np.linspace(0.1, 0.2, 12)), (5, 0)])
def test_policies_plans_and_simulations_have_the_gains_made_by_hand(trot, kp, kd, tmp_path):
    given = {"joint_stiffness": kp, "joint_damping": kd}
    policy, wanted = trot.policy(**given), by_hand(trot, kp, kd)
    np.testing.assert_allclose(policy.K, wanted, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(trajopt.Policy.load(policy.save(tmp_path / "a.npz")).K, policy.K)
    plan = trot.resample(0.003, **given)
    np.testing.assert_array_equal(plan.K, policy.K[plan.knots])
    start = trot.problem.system.integrate(trot.xs[0], 1e-3 * np.ones(36))
    for period in (None, 1e-3):
        motions = [trajopt.simulate(trot, x0=start, period=period, dt=1e-3, **chosen)
                   for chosen in (given, {"policy": policy})]  # fmt: skip
        assert motions[0].finite
        np.testing.assert_allclose(motions[0].xs, motions[1].xs, rtol=0.0, atol=1e-9)


def test_nothing_is_added_where_nothing_is_asked_for(trot):
    for given in ({}, {"joint_stiffness": 0.0}, {"joint_stiffness": 0, "joint_damping": np.zeros(12)}):
        policy = trot.policy(**given)
        np.testing.assert_array_equal(policy.K, trot.K)
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
    np.testing.assert_allclose(policy.K, by_hand(trot, 4.0, 0.1) - trot.K * (np.diff(trot.times) > 0.0)[:, None, None],
                               rtol=0.0, atol=1e-9)  # fmt: skip
    motion = trajopt.simulate(trot, policy="open loop", joint_stiffness=4.0, joint_damping=0.1, period=1e-3)
    same = trajopt.simulate(trot, policy=policy, period=1e-3)
    np.testing.assert_array_equal(motion.xs, same.xs)


@pytest.mark.parametrize("hold", [False, True])
def test_by_default_joints_are_stiff_in_every_direction_wherever_feet_are_held(trot, hold):
    """Without holding, the plan's last tenth does not count, the gains of which are those of its end."""
    given, held = trot.policy(hold=hold), in_contact(trot)
    counted = held if hold else held & (trot.times[:-1] < 0.9 * trot.times[-1])
    policy = trot.policy(joint_stiffness="auto", hold=hold)
    assert np.linalg.eigvalsh(joint_block(given.K[counted])).min() < -1.0
    assert np.linalg.eigvalsh(joint_block(policy.K[counted])).min() > 1.0
    if hold:
        assert np.linalg.eigvalsh(joint_block(policy.hold.K))[0] > 1.0
    damping = (given.K - policy.K)[0][:, 24:]
    inertia = 1.0 / np.diagonal(np.linalg.inv(mass_matrix(trot.problem.system.model, trot.xs[:, :19])), 0, 1, 2)[:, 6:]
    assert (np.diag(damping) > 0.0).all() and (np.diag(damping) * 1e-3 / inertia.min(axis=0) <= 0.5 + 1e-9).all()


def test_default_stiffness_at_the_knots_is_warned_of(arm):
    with pytest.warns(RuntimeWarning, match=r"^joint_stiffness, joint_damping: 'auto' is made for decisions e"):
        shaking = trajopt.simulate(arm, joint_stiffness="auto")
    steady = trajopt.simulate(arm, joint_stiffness="auto", period=1e-3)
    assert steady.largest_deviation.max() < 1e-3 < shaking.largest_deviation.max()


def test_the_least_stiffness_is_that_of_the_joint_block(trot):
    counted = in_contact(trot) & (trot.times[:-1] < 0.9 * trot.times[-1])
    wanted = np.linalg.eigvalsh(joint_block(trot.K[counted])).min()
    np.testing.assert_allclose(least_stiffness(trot), wanted, rtol=1e-12)


def test_an_explanation_says_how_far_gains_push_joints_away_in_contact(trot, arm):
    told = " ".join(trot.explain().split())
    assert f"they push joints away from the plan by up to {-least_stiffness(trot):.3g} N m/rad" in told
    assert "solution.policy(joint_stiffness='auto', hold=True)" in told
    assert "Gains count on contacts" not in arm.explain()
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
