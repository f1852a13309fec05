"""Forward dynamics: the stored reference, the textbook arm, Pinocchio, inverse dynamics undone, batches, errors."""

import numpy as np
import pytest

from dynamics.algorithms.forward_dynamics import forward_dynamics
from dynamics.algorithms.frames import frame_jacobian
from dynamics.algorithms.inverse_dynamics import bias_forces, inverse_dynamics
from dynamics.algorithms.mass_matrix import inverse_mass_matrix, mass_matrix
from tests.reference import pinocchio_peer
from tests.reference import textbook_double_pendulum as textbook
from tests.reference.random_robots import random_states, with_armature
from tests.tolerances import IDENTITY, forward_tolerance, relative_error


@pytest.mark.processor
def test_reference(reference):
    model, data = reference
    a = forward_dynamics(model, data["q"], data["v"], data["tau"])
    for k in range(len(a)):
        assert relative_error(a[k], data["aba"][k]) <= forward_tolerance(data["M"][k])


def test_textbook_double_pendulum(rng):
    model = textbook.model()
    for q, v, tau in rng.uniform(-3, 3, (20, 3, 2)):
        assert relative_error(forward_dynamics(model, q, v, tau), textbook.forward_dynamics(q, v, tau)) <= IDENTITY


@pytest.mark.parametrize("rotors", [False, True])
def test_inverse_dynamics_is_undone(reference, rng, rotors):
    """Deviations are measured against the torques that cancel, |M| |a| + |bias|."""
    model, _ = reference
    model = with_armature(model, rng) if rotors else model
    q, v, tau = random_states(model, 5, rng)
    wrenches = rng.uniform(-5, 5, (5, model.nb, 6))
    for loads in (None, wrenches):
        a = forward_dynamics(model, q, v, tau, loads)
        size = np.einsum("kij,kj->k", np.abs(mass_matrix(model, q)), np.abs(a)).max()
        assert relative_error(inverse_dynamics(model, q, v, a, loads), tau, floor=size) <= IDENTITY
        back = forward_dynamics(model, q, v, inverse_dynamics(model, q, v, tau, loads), loads)
        assert relative_error(back, tau) <= forward_tolerance(mass_matrix(model, q))


def test_equations_of_motion(reference, rng):
    model, _ = reference
    model = with_armature(model, rng)
    q, v, tau = random_states(model, 5, rng)
    expected = np.linalg.solve(mass_matrix(model, q), (tau - bias_forces(model, q, v))[..., None])[..., 0]
    assert relative_error(forward_dynamics(model, q, v, tau), expected) <= IDENTITY * 10


def test_external_wrenches_act_through_the_jacobians_of_their_bodies(reference, rng):
    model, data = reference
    q, v, tau = data["q"], data["v"], data["tau"]
    wrenches = rng.uniform(-20, 20, (len(q), model.nb, 6))
    load = np.zeros_like(tau)
    for i, body in enumerate(model.body_names):
        load += np.einsum("kij,ki->kj", frame_jacobian(model, q, body, "local"), wrenches[:, i])
    a = forward_dynamics(model, q, v, tau, wrenches)
    assert relative_error(a, forward_dynamics(model, q, v, tau + load)) <= forward_tolerance(data["M"])
    expected = forward_dynamics(model, q, v, tau) + np.einsum("kij,kj->ki", inverse_mass_matrix(model, q), load)
    assert relative_error(a, expected) <= forward_tolerance(data["M"])


@pytest.mark.peer
def test_pinocchio_with_wrenches_and_armature(reference, rng):
    pin = pytest.importorskip("pinocchio")
    model, data = reference
    model = with_armature(model, rng)
    peer = pinocchio_peer.build(pin, model, data)
    q, v, tau = random_states(model, 3, rng)
    for k in range(3):
        w = rng.uniform(-20, 20, (model.nb, 6))
        theirs = pinocchio_peer.configuration(data, q[k])
        expected = pin.aba(peer, peer.createData(), theirs, v[k], tau[k], pinocchio_peer.forces(pin, w))
        a = forward_dynamics(model, q[k], v[k], tau[k], w)
        assert relative_error(a, expected) <= forward_tolerance(mass_matrix(model, q[k]))
