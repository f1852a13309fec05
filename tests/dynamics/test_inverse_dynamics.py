"""Inverse dynamics: the stored reference, the textbook arm, Pinocchio, wrenches by their Jacobians, batches, errors."""

import numpy as np
import pytest

from dynamics.algorithms.frames import frame_jacobian
from dynamics.algorithms.inverse_dynamics import bias_forces, gravity_forces, inverse_dynamics
from dynamics.simd import LANES
from tests.reference import pinocchio_peer
from tests.reference import textbook_double_pendulum as textbook
from tests.reference.random_robots import random_states, with_armature
from tests.reference.rigid_body_models import NAMES, load_reference
from tests.tolerances import IDENTITY, ORACLE, relative_error


@pytest.fixture(scope="module", params=NAMES)
def reference(request):
    return load_reference(request.param)


@pytest.fixture
def rng():
    return np.random.default_rng(101)


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


@pytest.mark.parametrize("name", ["ur5", "hyq", "joint_zoo"])
def test_batch_equals_single_points(name, rng):
    model, _ = load_reference(name)
    K = 2 * LANES + 3
    q, v, a = random_states(model, K, rng)
    wrenches = rng.uniform(-20, 20, (K, model.nb, 6))
    tau, loaded = inverse_dynamics(model, q, v, a), inverse_dynamics(model, q, v, a, wrenches)
    for k in range(K):
        assert np.array_equal(tau[k], inverse_dynamics(model, q[k], v[k], a[k]))
        assert np.array_equal(loaded[k], inverse_dynamics(model, q[k], v[k], a[k], wrenches[k]))
    assert np.array_equal(inverse_dynamics(model, q[0], v[0], a)[5], inverse_dynamics(model, q[0], v[0], a[5]))
    assert np.array_equal(inverse_dynamics(model, q, v[:1], a[1])[5], inverse_dynamics(model, q[5], v[0], a[1]))
    assert inverse_dynamics(model, q[0], v[0], a[0]).shape == (model.nv,)
    assert inverse_dynamics(model, q[:1], v[0], a[0]).shape == (1, model.nv)


def test_empty_batches(rng):
    model, _ = load_reference("hyq")
    q, v, a = (x[:0] for x in random_states(model, 1, rng))
    assert inverse_dynamics(model, q, v, a).shape == (0, model.nv)
    assert bias_forces(model, q, v).shape == (0, model.nv)
    assert gravity_forces(model, q).shape == (0, model.nv)


def test_arguments_are_left_alone_and_may_be_views(rng):
    model, _ = load_reference("hyq")
    q, v, a = random_states(model, 5, rng)
    copies = [x.copy() for x in (q, v, a)]
    tau = inverse_dynamics(model, q, v, a)
    assert all(np.array_equal(x, copy) for x, copy in zip((q, v, a), copies, strict=True))
    padded = np.hstack([np.full((5, 2), np.nan), v])
    assert np.array_equal(inverse_dynamics(model, np.asfortranarray(q), padded[:, 2:], a.tolist()), tau)
    for x in (q, v, a):
        x.flags.writeable = False
    assert np.array_equal(inverse_dynamics(model, q, v, a), tau)


def test_errors(rng):
    model, _ = load_reference("hyq")
    q, v, a = random_states(model, 3, rng)
    with pytest.raises(ValueError, match=r"q: got shape \(18,\), expected \(19,\) or \(K, 19\)"):
        inverse_dynamics(model, v[0], v[0], a[0])
    with pytest.raises(ValueError, match=r"a: got shape \(3, 19\), expected \(18,\) or \(K, 18\)"):
        inverse_dynamics(model, q, v, q)
    with pytest.raises(ValueError, match=r"different numbers of points \(q: 3, v: 2, a: 1\)"):
        inverse_dynamics(model, q, v[:2], a[0])
    bad = v.copy()
    bad[2, 4] = np.nan
    with pytest.raises(ValueError, match=r"v\[2, 4\] is nan, expected finite numbers"):
        inverse_dynamics(model, q, bad, a)
    with pytest.raises(ValueError, match="a: expected an array of real numbers"):
        inverse_dynamics(model, q, v, a + 1j)
    bad = q.copy()
    bad[1, 3:7] *= 1.1
    with pytest.raises(ValueError, match=r"q\[3:7\]\) in row 1 has norm 1\.1, expected a unit quaternion"):
        inverse_dynamics(model, bad, v, a)
    with pytest.raises(ValueError, match=r"has norm 0, expected a unit quaternion"):
        gravity_forces(model, np.zeros(19))
    with pytest.raises(ValueError, match=r"external_wrenches has shape \(3, 6\); expected \(13, 6\) or \(3, 13, 6\)"):
        inverse_dynamics(model, q, v, a, np.zeros((3, 6)))
    wrenches = np.zeros((13, 6))
    wrenches[2, 5] = np.inf
    with pytest.raises(ValueError, match=r"external_wrenches\[2, 5\] is inf"):
        inverse_dynamics(model, q, v, a, wrenches)
