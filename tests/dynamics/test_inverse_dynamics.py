"""Inverse dynamics: the stored reference, the textbook arm, Pinocchio, wrenches by their Jacobians, batches, errors."""

import numpy as np
import pytest

from dynamics.algorithms.frames import frame_jacobian
from dynamics.algorithms.inverse_dynamics import bias_forces, gravity_forces, inverse_dynamics
from tests.reference import pinocchio_peer
from tests.reference import textbook_double_pendulum as textbook
from tests.reference.random_robots import random_states, with_armature
from tests.tolerances import IDENTITY, ORACLE, relative_error


def test_reference(reference):
    model, data = reference
    q, v, a = data["q"], data["v"], data["a"]
    for k in range(len(q)):
        assert relative_error(inverse_dynamics(model, q, v, a)[k], data["rnea"][k]) <= ORACLE
        assert relative_error(bias_forces(model, q, v)[k], data["nle"][k]) <= ORACLE
        assert relative_error(gravity_forces(model, q)[k], data["gravity_torque"][k]) <= ORACLE


def test_textbook_double_pendulum(rng):
    model = textbook.model()
    for q, v, a in rng.uniform(-3, 3, (20, 3, 2)):
        assert relative_error(inverse_dynamics(model, q, v, a), textbook.inverse_dynamics(q, v, a)) <= IDENTITY


def test_torques_are_affine_in_the_acceleration_and_quadratic_in_the_velocity(reference, rng):
    model, _ = reference
    q, v, a, b = random_states(model, 4, rng, vectors=3)
    tau = inverse_dynamics(model, q, v, a)
    mean = 0.5 * (tau + inverse_dynamics(model, q, v, b))
    assert relative_error(inverse_dynamics(model, q, v, 0.5 * (a + b)), mean) <= IDENTITY
    g = gravity_forces(model, q)
    coriolis = bias_forces(model, q, v) - g
    assert relative_error(bias_forces(model, q, -3.0 * v) - g, 9.0 * coriolis) <= IDENTITY


def test_armature_adds_its_own_torque(reference, rng):
    model, data = reference
    heavier = with_armature(model, rng)
    q, v, a = data["q"], data["v"], data["a"]
    expected = inverse_dynamics(model, q, v, a) + heavier.armature * a
    assert relative_error(inverse_dynamics(heavier, q, v, a), expected) <= IDENTITY
    assert np.array_equal(bias_forces(heavier, q, v), bias_forces(model, q, v))


def test_external_wrenches_act_through_the_jacobians_of_their_bodies(reference, rng):
    model, data = reference
    q, v, a = data["q"], data["v"], data["a"]
    wrenches = rng.uniform(-20, 20, (len(q), model.nb, 6))
    expected = inverse_dynamics(model, q, v, a)
    for i, body in enumerate(model.body_names):
        expected -= np.einsum("kij,ki->kj", frame_jacobian(model, q, body, "local"), wrenches[:, i])
    assert relative_error(inverse_dynamics(model, q, v, a, wrenches), expected) <= IDENTITY
    same = np.broadcast_to(wrenches[0], wrenches.shape)
    assert np.array_equal(
        inverse_dynamics(model, q, v, a, wrenches[0]), inverse_dynamics(model, q, v, a, external_wrenches=same)
    )


@pytest.mark.peer
def test_pinocchio_with_wrenches_and_armature(reference, rng):
    pin = pytest.importorskip("pinocchio")
    model, data = reference
    model = with_armature(model, rng)
    peer = pinocchio_peer.build(pin, model, data)
    q, v, a = random_states(model, 3, rng)
    for k in range(3):
        w = rng.uniform(-20, 20, (model.nb, 6))
        theirs = pinocchio_peer.configuration(data, q[k])
        expected = pin.rnea(peer, peer.createData(), theirs, v[k], a[k], pinocchio_peer.forces(pin, w))
        assert relative_error(inverse_dynamics(model, q[k], v[k], a[k], w), expected) <= ORACLE
