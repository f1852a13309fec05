"""Actuators on frames: their forces by virtual work, expansions, MuJoCo's own, what becomes of them, bad input."""

import numpy as np
import pytest

import dynamics
import trajopt
from dynamics import HybridSystem, LinearActuator, ModelBuilder, PointContact, RigidBodySystem, Thruster
from dynamics.model.edits import builder_of
from dynamics.systems.frame_forces import force_map
from tests.reference.prepared import PreparedSystem
from tests.reference.random_robots import random_rotation, random_states, random_tree
from tests.reference.robot_systems import model_slopes
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, SLOPE, relative_error

TREE = ["free flyer", "revolute", "spherical", "revolute", "prismatic", "revolute"], [-1, 0, 1, 2, 1, -1]


def robot_builder(rng):
    """A floating tree with a ball inside, and a joint beside it: a motor, a propeller, cylinders and a cable."""
    builder = builder_of(random_tree(*TREE, rng))
    for i, body in enumerate(["body 3", "body 4", "body 5", "body 0", "world"]):
        builder.add_frame(f"f{i}", body, (random_rotation(rng), 0.3 * rng.normal(size=3)))
    builder.add_actuator("motor", {"body 3_joint": 2.0})
    builder.add_thruster("propeller", "f0", (1.0, 2.0, 3.0), 0.1)
    builder.add_linear_actuator("cylinder", "f0", "f1")
    builder.add_linear_actuator("cable", "f2", "f4", upper=0.0)
    builder.add_linear_actuator("other", "f3", "f0", ratio=2.0)
    return builder


@pytest.fixture(scope="module")
def robot():
    return robot_builder(np.random.default_rng(2)).build()


def length(model, q, one, other):
    ends = [dynamics.frame_placement(model, q, frame).p for frame in (one, other)]
    return np.linalg.norm(ends[0] - ends[1])


def test_forces_do_the_work_of_their_way(robot, rng):
    """Of lines, what their length changes by; of a propeller, its force and moment on the velocity of its frame."""
    q, v = (x[0] for x in random_states(robot, 1, rng, 1))
    power = force_map(robot, q[None])[0].T @ v
    assert power[0] == 0.0
    turn, along = dynamics.frame_placement(robot, q, "f0").R, np.array([1.0, 2.0, 3.0]) / np.sqrt(14.0)
    V = dynamics.frame_velocity(robot, q, v, "f0")
    assert power[1] == pytest.approx(turn @ along @ (V[:3] + 0.1 * V[3:]))
    h = 1e-6
    ahead, behind = (dynamics.integrate(robot, q, s * v) for s in (h, -h))
    for i, (one, other, ratio) in enumerate((("f0", "f1", 1.0), ("f2", "f4", 1.0), ("f3", "f0", 2.0)), 2):
        slope = ratio * (length(robot, ahead, one, other) - length(robot, behind, one, other)) / (2 * h)
        assert power[i] == pytest.approx(slope, rel=CENTRAL_DIFFERENCES)


@pytest.mark.parametrize("held", [False, True])
@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "explicit_euler", "rk4"])
def test_expansions_of_steps(robot, integrator, held, rng):
    contacts = [PointContact(robot, "f1")] if held else []
    system = RigidBodySystem(robot, 0.02, integrator, "model", contacts)
    xs, us = np.hstack(random_states(robot, 3, rng, 1)), rng.normal(size=(3, 5))
    assert model_slopes(system, xs, us, rng, 0.2) == pytest.approx((2.0, 3.0), abs=SLOPE)
    q, v = np.split(xs, [robot.nq], axis=1)
    tau = us @ system.actuation.B.T + (force_map(robot, q) @ us[:, :, None])[..., 0]
    found = dynamics.contact_dynamics(robot, q, v, tau, contacts)
    if integrator != "rk4":
        assert relative_error(system.step(xs, us)[:, robot.nq :], v + 0.02 * found.a) < 1e3 * IDENTITY
    if held:
        assert relative_error(system.contact_forces(xs, us), found.f) < 1e3 * IDENTITY
    rolled = system.rollout(xs[0], us)
    assert relative_error(rolled[3], system.step(rolled[2], us[2])) < 1e2 * IDENTITY
    PreparedSystem(system, rolled, us, rng, 1e-3).check()


def test_phases_and_mimic_joints(robot, rng):
    """In hybrid systems, and on robots with mimic joints."""
    system = HybridSystem(robot, 0.01, [("free", [], 1), ("held", ["f1"], 1)], actuation="model")
    xs, us = np.hstack(random_states(robot, 3, rng, 1)), rng.normal(size=(3, 5))
    assert system.horizon == 3 and system.nu == 5
    assert model_slopes(system.window(2, 3), xs, us, rng, 0.2) == pytest.approx((2.0, 3.0), abs=SLOPE)
    builder = robot_builder(np.random.default_rng(2))
    builder.add_mimic("body 4_joint", "body 1_joint", -0.5, 0.1)
    model = builder.build()
    system = RigidBodySystem(model, 0.01, "rk4", "model")
    xs = np.hstack(random_states(model, 3, rng, 1))
    assert model_slopes(system, xs, us, rng, 0.2) == pytest.approx((2.0, 3.0), abs=SLOPE)
    PreparedSystem(system, xs, us[:2], rng, 1e-3).check()
    one = RigidBodySystem(model, 0.01, "explicit_euler", "model")
    q, v = model.full_configuration(xs[:1, : model.nq]), xs[:, model.nq :]
    tau = model.mimic_map.leave("p", force_map(model.full, q) @ us[0])[0] + one.actuation.B @ us[0]
    a = dynamics.forward_dynamics(model, xs[0, : model.nq], v[0], tau)
    assert relative_error(one.step(xs[0], us[0])[model.nq :], v[0] + 0.01 * a) < 1e3 * IDENTITY


def test_no_length_is_no_failure(rng):
    builder = ModelBuilder()
    builder.add_body("a", "world", dynamics.Prismatic("x"), mass=1.0)
    builder.add_frame("hook", "world")
    builder.add_linear_actuator("cable", "a", "hook")
    system = RigidBodySystem(builder.build(), 0.01, actuation="model")
    np.testing.assert_array_equal(system.step([0.0, 1.0], [5.0]), [0.01, 1.0])
    np.testing.assert_allclose(system.step([0.1, 1.0], [5.0]), [0.1 + 0.01 * 1.05, 1.05])
    np.testing.assert_allclose(system.step([-0.1, 1.0], [5.0]), [-0.1 + 0.01 * 0.95, 0.95])


def quadrotor():
    builder = ModelBuilder(name="drone")
    builder.add_body("hull", "world", dynamics.FreeFlyer(), mass=0.8, inertia=np.diag([5e-3, 5e-3, 9e-3]))
    for i, (x, y) in enumerate(((0.2, 0.0), (0.0, 0.2), (-0.2, 0.0), (0.0, -0.2))):
        builder.add_frame(f"rotor {i}", "hull", (np.eye(3), (x, y, 0.0)))
        builder.add_thruster(f"thrust {i}", f"rotor {i}", moment_ratio=0.02 * (-1) ** i, lower=0.0, upper=5.0)
    return builder.build()


def test_a_quadrotor_reaches_a_point():
    model = quadrotor()
    system = RigidBodySystem(model, 0.02, "rk4", "model")
    assert system.control_names == ("thrust 0", "thrust 1", "thrust 2", "thrust 3")
    x0 = system.neutral_state
    np.testing.assert_allclose(system.quasi_static(x0), np.full(4, 0.8 * 9.81 / 4.0))
    goal = x0.copy()
    goal[:3] = [1.0, -0.5, 0.7]
    problem = trajopt.Problem(
        system, x0, 60, [trajopt.ControlCost(1e-2)], [trajopt.StateCost(system, goal, 1e3)],
        constraints=[trajopt.ControlBounds.from_model(system)], us_init="quasi_static",
    )  # fmt: skip
    ddp, ilqr = trajopt.DDP().solve(problem), trajopt.ILQR().solve(problem)
    assert ddp.converged and ilqr.converged and ddp.cost == pytest.approx(ilqr.cost, rel=1e-6)
    assert np.abs(ddp.xs[-1, :3] - goal[:3]).max() < 0.02
    assert (ddp.us >= 0.0).all() and (ddp.us <= 5.0).all() and ddp.iterations <= ilqr.iterations + 1


def test_what_becomes_of_them(robot):
    """Under prefixes and locks: a line within one body is gone."""
    pair = dynamics.combine({"l": robot, "r": robot})
    assert pair.actuators[6] == Thruster("r/propeller", "r/f0", robot.actuators[1].wrench)
    assert pair.actuators[8].frames == ("r/f2", "r/f4")
    held = robot.locked({"body 3_joint": 0.1, "body 2_joint": [0, 0, 0, 1], "body 4_joint": 0.2})
    assert [each.name for each in held.actuators] == ["propeller", "cable", "other"]
    assert [each.name for each in robot.locked({"body 5_joint": 0.0}).actuators] == [
        "motor", "propeller", "cylinder", "other"
    ]  # fmt: skip
    lower, upper = RigidBodySystem(robot, 0.01, actuation="model").control_limits()
    assert upper[3] == 0.0 and np.isinf(upper[[0, 1, 2, 4]]).all() and np.isinf(lower).all()
    plain = RigidBodySystem(robot, 0.01)
    assert plain.frame_actuators is None and plain.nu == robot.nv


@pytest.mark.peer
def test_sites_and_lines_pull_as_in_mujoco(rng):
    mujoco = pytest.importorskip("mujoco")
    compiled = mujoco.MjModel.from_xml_string("""<mujoco>
      <worldbody><site name="hook" pos="0.1 0.2 1"/>
        <body name="a" pos="0 0 0.5" euler="10 20 30"><joint name="j" axis="1 2 0"/><geom size="0.1" pos="0.1 0 0"/>
          <site name="jet" pos="0.3 0.1 0" euler="40 10 0"/>
          <body name="b" pos="0.4 0 0"><joint name="k" axis="0 1 0"/><geom size="0.05" pos="0 0 0.2"/>
            <site name="tip" pos="0 0.1 0.2"/></body></body></worldbody>
      <tendon><spatial name="line"><site site="hook"/><site site="tip"/></spatial>
        <spatial name="bent"><site site="hook"/><site site="jet"/><site site="tip"/></spatial></tendon>
      <actuator><motor name="thrust" site="jet" gear="1 2 -1 0.1 0.3 0.2" ctrlrange="-1 2" ctrllimited="true"/>
        <motor name="muscle" tendon="line" gear="-3"/><motor name="rope" tendon="bent"/></actuator></mujoco>""")
    with pytest.warns(UserWarning, match="lines of sites, not read: rope"):
        model = dynamics.from_mujoco(compiled)
    assert [type(each) for each in model.actuators] == [Thruster, LinearActuator]
    assert (model.actuators[0].lower, model.actuators[0].upper) == (-1.0, 2.0)
    data = mujoco.MjData(compiled)
    for _ in range(3):
        q, u = rng.normal(size=2), rng.uniform(-1.0, 1.0, 3)
        data.qpos[:], data.ctrl[:] = q, [*u[:2], 0.0]
        mujoco.mj_forward(compiled, data)
        assert relative_error(force_map(model, q[None])[0] @ u[:2], data.qfrc_actuator) < 1e3 * IDENTITY


def test_bad_input(robot, rng):
    builder = robot_builder(rng)
    builder.add_body("plate", "f0", dynamics.Fixed(), mass=0.1)
    cases = (
        (lambda: builder.add_thruster("motor", "f0"), "name: there already is a actuator 'motor'"),
        (lambda: builder.add_thruster("t", "nowhere"), "frame: got 'nowhere'"),
        (lambda: builder.add_thruster("t", "f0", (0, 0, 0)), r"actuator 't': direction: got \[0.0, 0.0, 0.0\]"),
        (lambda: builder.add_thruster("t", "f0", lower=1.0, upper=0.0), "actuator 't': lower: got 1.0"),
        (lambda: builder.add_thruster("t", "f0", wrench=np.zeros(6)), "actuator 't': wrench: got zeros"),
        (lambda: builder.add_linear_actuator("t", "f0", "nowhere"), "frame: got 'nowhere'"),
        (lambda: builder.add_thruster("t", "f4"), "actuator 't': frame: 'f4' is fixed in the world"),
        (lambda: builder.add_linear_actuator("t", "body 3_joint", "plate"), "'plate' are on one body"),
        (lambda: builder.add_linear_actuator("t", "f0", "body 3"), "frame2: 'f0' and 'body 3' are on one body"),
        (lambda: builder.add_linear_actuator("t", "f0", "f1", ratio=0.0), "actuator 't': ratio: got 0"),
        (lambda: builder.add_linear_actuator("t", "f0", "f1", np.nan), "actuator 't': lower"),
    )
    for call, text in cases:
        with pytest.raises(ValueError, match=text):
            call()
    assert len(builder.build().actuators) == 5
    with pytest.raises(ValueError, match="actuators on frames, which residuals of contact forces do not take"):
        dynamics.ContactForce(RigidBodySystem(robot, 0.01, actuation="model", contacts=[PointContact(robot, "f1")]))
    with pytest.raises(ValueError, match="actuation: the model has actuators on frames"):
        dynamics.ControlGravity(robot, "model")
    arm = builder_of(random_tree(["revolute", "revolute"], [-1, 0], rng))
    arm.add_actuator("motor", {"body 0_joint": 1.0})
    arm.add_frame("hook", "world")
    arm.add_linear_actuator("cylinder", "body 1", "hook")
    with pytest.raises(ValueError, match="actuators on joints alone"):
        RigidBodySystem(arm.build(), 0.01, actuation="model", formulation="inverse")


def test_what_hangs_on_cylinders_and_thrust_is_held():
    """In phases without contacts, too, but not what falls all the same."""
    model = quadrotor()
    hover = np.full(4, 0.8 * 9.81 / 4.0)
    system = HybridSystem(model, 0.01, [("fly", [], 2)], actuation="model")
    np.testing.assert_allclose(system.quasi_static(system.neutral_state), np.tile(hover, (2, 1)))
    tilted = system.neutral_state
    tilted[3:7] = np.sin(0.2), 0.0, 0.0, np.cos(0.2)
    assert not system.quasi_static(tilted).any(), "no thrust holds it there"
    builder = ModelBuilder()
    builder.add_body("a", "world", dynamics.Revolute("y"), "hinge", mass=1.0, com=(0.1, 0.0, 0.0))
    builder.add_frame("tip", "a", (np.eye(3), (0.3, 0.0, 0.1)))
    builder.add_body("post", "world", dynamics.Fixed(), placement=(np.eye(3), (0.0, 0.0, 1.0)))
    builder.add_linear_actuator("cylinder", "tip", "post")
    arm = builder.build()
    system = HybridSystem(arm, 0.01, [("p", [], 1)], actuation="model")
    (u,) = system.quasi_static([0.2, 0.0])
    np.testing.assert_allclose(system.step([0.2, 0.0], u), [0.2, 0.0], atol=1e-12)
    assert np.abs(u).max() > 0.1


def test_a_matrix_means_torques(robot):
    """Also one that has zeros where the model has actuators on frames; and on robots with mimic joints."""
    model = quadrotor()
    system = RigidBodySystem(model, 0.01, actuation=np.zeros((6, 4)))
    assert system.frame_actuators is None and system.control_names[0] == "control 0"
    assert system.step(system.neutral_state, np.full(4, 9.0))[9] == pytest.approx(-0.0981)
    builder = robot_builder(np.random.default_rng(2))
    builder.add_mimic("body 4_joint", "body 1_joint", -0.5, 0.1)
    model = builder.build()
    B = np.eye(model.nv)[:, 6:]
    np.testing.assert_array_equal(RigidBodySystem(model, 0.01, actuation=B).actuation.B, B)
