"""Steps and rollouts of robots on legs, which eliminate the legs' joints: what contact dynamics gives, for every robot
that walks on points; which robots these are; legs stretched out; the same bits whatever shares a chunk or a thread."""

import numpy as np
import pytest

import dynamics
from dynamics import PointContact, RigidBodySystem, RigidContact
from dynamics.simd import LANES
from problems.quadruped_model import FEET, quadruped, standing
from tests.reference import contact_cases
from tests.reference.contact_cases import contacts_on
from tests.reference.random_robots import random_rotation, random_states, with_armature
from tests.tolerances import relative_error

TOLERANCE = 1e-10
K = LANES + 3
KNEES = (0.0, 1e-12, -1e-8, 1e-5, -1e-3, 0.01, 0.05, -0.5)
"""Angles from a straight leg to a bent one, with and without elimination."""


def hopper():
    """One leg of a revolute, a prismatic and a revolute joint, with rotor inertia, on a base that hangs askew."""
    rng = np.random.default_rng(8)
    builder = dynamics.ModelBuilder(gravity=(1.0, -2.0, -9.0))
    parents = ("world", "base", "hip", "shank")
    joints = dynamics.FreeFlyer(), dynamics.Revolute("x"), dynamics.Prismatic("z"), dynamics.Revolute((0.6, 0.8, 0.0))
    for name, parent, joint in zip(("base", "hip", "shank", "foot"), parents, joints, strict=True):
        builder.add_body(
            name, parent, joint, placement=(random_rotation(rng), rng.uniform(-0.3, 0.3, 3)), mass=rng.uniform(0.5, 2),
            com=rng.uniform(-0.1, 0.1, 3), inertia=0.05 * np.eye(3), armature=0.0 if parent == "world" else 0.02,
        )  # fmt: skip
    builder.add_frame("toe", "foot", (random_rotation(rng), np.array([0.1, -0.2, 0.15])))
    return builder.build()


def robot(name):
    """Model, and the frames that may touch."""
    if name == "quadruped":
        return quadruped(), FEET
    if name == "hopper":
        return hopper(), ("toe",)
    return contact_cases.robot(name, np.random.default_rng(0))


def make(model, contacts, dt=1.0):
    return RigidBodySystem(model, dt, contacts=contacts)


def accelerations(system, q, v, tau):
    """Those of a step of one second."""
    assert system.legs is not None and system.dt == 1.0
    return system.step(np.hstack([q, v]), tau)[:, system.nq :] - v


# ------------------------------------------------------------------------------------------------ contact dynamics
@pytest.mark.parametrize("axes", ["local_world_aligned", "local"])
@pytest.mark.parametrize("name", ["quadruped", "hyq", "solo12", "hopper"])
def test_accelerations_are_those_of_contact_dynamics(name, axes, rng):
    """Held one after another, in an order that is not that of the legs, the others in the air."""
    model, frames = robot(name)
    q, v, tau = random_states(model, K, rng)
    frames = rng.permutation(frames)
    for count in range(1, len(frames) + 1):
        for gains in ((30.0, 8.0), (0.0, 5.0)):
            system = make(model, contacts_on(model, frames[:count], rng, gains, axes))
            expected = dynamics.contact_dynamics(model, q, v, tau, system.contacts).a
            for a, b in zip(accelerations(system, q, v, tau), expected, strict=True):
                assert relative_error(a, b) < TOLERANCE


def test_steps_and_rollouts_are_the_same(rng):
    """A single rollout repeats single steps to the last bit; a walk of three, one, none, and four feet."""
    model, x = quadruped(), np.concatenate([standing(), np.zeros(18)])
    for feet in (FEET[:3], FEET[2:3], (), FEET):
        contacts = contacts_on(model, feet, rng, (0.0, 20.0))
        system = RigidBodySystem(model, 0.005, actuation="floating_base", contacts=contacts)
        us = 0.3 * rng.standard_normal((6, 12))
        states = system.rollout(x, us)
        for t, u in enumerate(us):
            assert np.array_equal(system.step(states[t], u), states[t + 1])
        x = states[-1]


# ------------------------------------------------------------------------------------------------ stretched legs
def stretched(rng):
    """The quadruped on three feet with a knee of each of KNEES, the first in a leg that is held, and others that are
    stretched in turns; as many regular points; the system."""
    model = quadruped()
    q = dynamics.integrate(model, np.tile(standing(), (2 * len(KNEES), 1)), 0.2 * rng.normal(size=(16, 18)))
    for i, knee in enumerate(KNEES):
        q[2 * i, [9, 12 + 3 * (i % 3)]] = knee
    system = make(model, contacts_on(model, (FEET[0], FEET[1], FEET[3]), rng, (30.0, 8.0)))
    return system, q, *rng.normal(size=(2, len(q), model.nv))


def test_stretched_legs_move_as_contact_dynamics_says(rng):
    system, q, v, tau = stretched(rng)
    a = accelerations(system, q, v, tau)
    expected = dynamics.contact_dynamics(system.model, q, v, tau, system.contacts).a
    assert np.isfinite(a).all()
    assert max(map(relative_error, a, expected)) < TOLERANCE


def test_foot_on_a_joint_axis_moves_as_contact_dynamics_says(rng):
    """Columns of the leg's Jacobian are exactly zero."""
    builder = dynamics.ModelBuilder()
    builder.add_body("base", "world", dynamics.FreeFlyer(), mass=2.0, inertia=0.1 * np.eye(3))
    for name, parent, joint in (("hip", "base", "x"), ("thigh", "hip", "y"), ("shin", "thigh", "z")):
        builder.add_body(name, parent, dynamics.Revolute(joint), mass=1.0, com=(0.1, 0.2, 0.1), inertia=0.1 * np.eye(3))
    builder.add_frame("heel", "shin", (np.eye(3), np.zeros(3)))
    model = builder.build()
    q, v, tau = random_states(model, K, rng)
    q[:, :3], q[:, 3:7] = 0.0, (0.0, 0.0, 0.0, 1.0)
    system = make(model, [PointContact(model, "heel")])
    expected = dynamics.contact_dynamics(model, q, v, tau, system.contacts)
    a = accelerations(system, q, v, tau)
    assert np.isfinite(a).all() and max(map(relative_error, a, expected.a)) < TOLERANCE


# ------------------------------------------------------------------------------------------------ which robots
def with_tail():
    """The quadruped's kind with a fourth joint in its leg."""
    builder = dynamics.ModelBuilder()
    builder.add_body("base", "world", dynamics.FreeFlyer(), mass=1.0, inertia=np.eye(3))
    for name, parent in (("a", "base"), ("b", "a"), ("c", "b"), ("d", "c")):
        builder.add_body(name, parent, dynamics.Revolute("y"), mass=1.0, inertia=np.eye(3))
    return builder.build()


def others():
    """Systems in contact that do not walk on three joints a leg, or not on points of their feet."""
    model = quadruped()
    arm, _ = contact_cases.robot("ur5", np.random.default_rng(0))
    heavy = with_armature(model, np.random.default_rng(0))
    tail = with_tail()
    feet = [PointContact(model, foot) for foot in FEET]
    return {
        "an arm": make(arm, [PointContact(arm, arm.frame_names[-1])]),
        "a rigid foot": make(model, [*feet[:2], RigidContact(model, FEET[2])]),
        "a held thigh": make(model, [*feet[:2], PointContact(model, "rh_upper_leg")]),
        "a held base": make(model, [PointContact(model, "base")]),
        "two points of a foot": make(model, [*feet, PointContact(model, "lf_lower_leg")]),
        "contacts that yield": RigidBodySystem(model, 0.01, contacts=feet, contact_damping=1e-3),
        "a base with armature": make(heavy, [PointContact(heavy, FEET[0])]),
        "a leg of four joints": make(tail, [PointContact(tail, "c")]),
        "the end of four joints": make(tail, [PointContact(tail, "d")]),
    }


def test_other_robots_keep_contact_dynamics():
    for name, system in others().items():
        assert system.legs is None, name
        assert system.motion_plant[1].contacts is system.plant[1].contacts is system.contact_arrays, name


def test_flight_keeps_the_articulated_body_algorithm():
    system = make(quadruped(), ())
    assert system.legs is None and system.motion_plant[1].contacts is None


def test_legs_know_their_contacts():
    model = quadruped()
    legs = make(model, [PointContact(model, FEET[i]) for i in (3, 0, 1)]).legs
    assert legs is not None
    np.testing.assert_array_equal(legs.foot, [3, 6, 9, 12])
    np.testing.assert_array_equal(legs.contact, [1, 2, -1, 0])
