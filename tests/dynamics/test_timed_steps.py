"""Steps of any duration against systems of that time step; their derivatives against differences; accelerations as
controls."""

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics import JointAccelerationSystem, JointTorques, RigidBodySystem
from dynamics.systems.steps import TABLEAUS
from tests.reference.random_robots import random_states, random_tree
from tests.reference.robot_systems import both_orders_at_once
from tests.tolerances import IDENTITY

TREES = {
    "ordinary": (["revolute", "prismatic", "revolute"], [-1, 0, 1]),
    "groups": (["free flyer", "revolute", "spherical", "planar"], [-1, 0, 1, 2]),
}


def robot(kind, rng):
    """A model, and what its systems are made with besides."""
    if kind == "feet":
        problem = problems.make("quadruped_stand")
        system = problem.system.segments[0].system if hasattr(problem.system, "segments") else problem.system
        return system.model, {"actuation": "floating_base", "contacts": system.contacts}
    if kind == "following":
        builder = dynamics.ModelBuilder()
        rod = {"mass": 1.0, "com": (0.2, 0, 0), "inertia": 0.02 * np.eye(3)}
        for name, parent in (("a", "world"), ("b", "a"), ("c", "b")):
            builder.add_body(name, parent, dynamics.Revolute("y"), placement=(np.eye(3), (0.4, 0, 0)), **rod)
        builder.add_mimic("c_joint", "b_joint", -0.5, 0.2)
        return builder.build(), {}
    model = random_tree(*TREES[kind], rng)
    return model, {"actuation": rng.standard_normal((model.nv, 2)), "joint_friction": False}


@pytest.mark.parametrize("integrator", TABLEAUS)
@pytest.mark.parametrize("kind", [*TREES, "feet", "following"])
def test_steps_and_derivatives(kind, integrator, rng):
    model, options = robot(kind, rng)
    system = RigidBodySystem(model, 0.05, integrator, **options)
    timed = system.timed()
    assert timed.nu == system.nu + 1 and system.timed() is not system and not system.free_duration
    q, v = random_states(model, 3, rng, 1)
    xs = np.hstack([q, 0.3 * v])
    if kind == "feet":
        xs = system.integrate(np.tile(problems.make("quadruped_stand").x0, (3, 1)), 0.05 * rng.standard_normal((3, 36)))
    h = rng.uniform(0.02, 0.1, (3, 1)) * (0.1 if kind == "feet" else 1.0)
    us = np.hstack([rng.standard_normal((3, system.nu)), h])
    for x, u in zip(xs, us, strict=True):
        wanted = RigidBodySystem(model, u[-1], integrator, **options).step(x, u[:-1])
        np.testing.assert_allclose(timed.step(x, u), wanted, atol=1e-11 * (1.0 + np.abs(wanted).max()))
    report = trajopt.check_derivatives(timed, xs, us, step=2.0 ** (-13 if kind == "feet" else -9))
    assert report.ok, report
    fx, fu = timed.linearize(xs, us)
    lam = rng.standard_normal((3, system.ndx))
    H = timed.hessian_products(xs, us, lam)
    for got, wanted in zip(both_orders_at_once(timed, xs, us, lam), (fx, fu, *H), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-12 * (1.0 + np.abs(wanted).max()))
    plain = system.linearize(xs, us[:, :-1])
    same = timed.linearize(xs, np.hstack([us[:, :-1], np.full((3, 1), 0.05)]))
    np.testing.assert_allclose(same[0], plain[0], atol=1e-12 * (1.0 + np.abs(plain[0]).max()))
    np.testing.assert_allclose(same[1][:, :, :-1], plain[1], atol=1e-12 * (1.0 + np.abs(plain[1]).max()))


def test_impacts_take_no_time(rng):
    system = problems.make("quadruped_jump").system
    timed = system.timed()
    t = int(np.flatnonzero(system.durations == 0.0)[0])
    x = problems.make("quadruped_jump").x0
    u = rng.standard_normal((1, system.nu + 1))
    one, other = timed.window(t, t + 1), system.window(t, t + 1)
    np.testing.assert_array_equal(one.step(x, u[0]), other.step(x, u[0, :-1]))
    fx, fu = one.linearize(x[None], u)
    np.testing.assert_array_equal(fx, other.linearize(x[None], u[:, :-1])[0])
    assert not fu.any() and fu.shape == (1, system.ndx, system.nu + 1)


# ------------------------------------------------------------------------------------------------ accelerations
@pytest.fixture(scope="module")
def arm():
    return dynamics.load_urdf(problems.model_path("arm6"))


def test_held_accelerations_are_integrated_exactly(arm, rng):
    """Two half steps are one; a constant acceleration gives a parabola."""
    whole, half = JointAccelerationSystem(arm, 0.2), JointAccelerationSystem(arm, 0.1)
    x, a = rng.standard_normal(12), rng.standard_normal(6)
    np.testing.assert_allclose(half.step(half.step(x, a), a), whole.step(x, a), atol=10 * IDENTITY)
    xs = half.rollout(x, np.tile(a, (10, 1)))
    np.testing.assert_allclose(xs[-1, :6], x[:6] + x[6:] + 0.5 * a, atol=100 * IDENTITY)
    for system, us in ((half, rng.standard_normal((3, 6))), (half.timed(), rng.uniform(0.1, 1.0, (3, 7)))):
        report = trajopt.check_derivatives(system, rng.standard_normal((3, 12)), us)
        assert report.ok, report


def test_closed_loops_of_accelerations(arm, rng):
    from trajopt.interfaces.stepwise import closed_loop_by_steps

    system, N = JointAccelerationSystem(arm, 0.05), 6
    xs, us = rng.standard_normal((N + 1, 12)), rng.standard_normal((N, 6))
    k, K, gaps = rng.standard_normal((N, 6)), rng.standard_normal((N, 6, 12)), 0.1 * rng.standard_normal((N + 1, 12))
    given = xs[0], xs, us, k, K, 0.5 ** np.arange(11), gaps, us - 1.0, us + 1.0
    for got, wanted in zip(system.closed_loop_rollout(*given), closed_loop_by_steps(system, *given), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e3 * IDENTITY * np.abs(wanted).max())


def test_torques_of_accelerations(arm, rng):
    """They give the accelerations back, in the robot's own system; derivatives against differences."""
    from dataclasses import replace

    robot = replace(arm, damping=rng.uniform(0.1, 1.0, 6), friction=rng.uniform(0.1, 1.0, 6))
    system = JointAccelerationSystem(robot, 0.05)
    scale = rng.uniform(0.1, 2.0, 6)
    torques = JointTorques(system, scale=scale)
    xs, us = rng.standard_normal((4, 12)), rng.standard_normal((4, 6))
    tau = torques.evaluate(xs, us) / scale
    plant = RigidBodySystem(robot, 1e-3, "explicit_euler", friction_speed=0.01)
    damped = (plant.step(xs, tau)[:, 6:] - xs[:, 6:]) / 1e-3  # which takes damping implicitly
    forced = dynamics.inverse_dynamics(robot, xs[:, :6], xs[:, 6:], damped) + 1e-3 * robot.damping * damped
    own = dynamics.inverse_dynamics(robot, xs[:, :6], xs[:, 6:], us)
    np.testing.assert_allclose(forced, own, atol=1e-9 * np.abs(own).max())
    report = trajopt.check_derivatives(torques, xs, us, system=system)
    assert report.ok, report
    np.testing.assert_allclose(torques.upper, robot.effort_limit * scale)
    bare = JointTorques(system, joint_friction=False).evaluate(xs, us)
    np.testing.assert_allclose(bare, own, atol=1e-12 * np.abs(own).max())


def test_bad_input(arm):
    floating = problems.make("quadrotor").system.model
    follows = robot("following", np.random.default_rng(0))[0]
    for make, error, text in (
        (lambda: JointAccelerationSystem(floating, 0.1), ValueError, "model: got a joint of several degrees"),
        (lambda: JointAccelerationSystem(arm, 0.0), ValueError, "dt"),
        (lambda: JointTorques(RigidBodySystem(arm, 0.1)), TypeError, "system: got RigidBodySystem"),
        (lambda: JointTorques(JointAccelerationSystem(arm, 0.1), scale=[1.0, 2.0]), ValueError, r"scale: got \[1"),
        (lambda: JointTorques(JointAccelerationSystem(arm, 0.1), scale=0.0), ValueError, "scale: got 0"),
        (lambda: JointTorques(JointAccelerationSystem(follows, 0.1)), ValueError, "mimic joints"),
    ):
        with pytest.raises(error, match=text):
            make()
