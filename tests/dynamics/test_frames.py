"""Frames: the stored reference, Pinocchio, the defining derivatives, and a pendulum worked by hand."""

import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dynamics.algorithms.configuration import integrate
from dynamics.algorithms.frames import REFERENCES, frame_acceleration, frame_jacobian, frame_placement, frame_velocity
from dynamics.model import joints
from dynamics.model.builder import ModelBuilder
from dynamics.model.model import Frame
from tests.reference.tangent_differences import in_time


def close(value, expected, tolerance=1e-12):
    scale = max(np.abs(expected).max(initial=0.0), 1.0)
    return value.shape == expected.shape and np.abs(value - expected).max(initial=0.0) <= tolerance * scale


def random_placement(rng):
    return Rotation.from_quat(rng.standard_normal(4)).as_matrix(), rng.uniform(-1, 1, 3)


def with_random_frames(model, rng):
    """The model with a frame "tip <i>" at a random placement on every body."""
    tips = {f"tip {i}": Frame(i, *random_placement(rng)) for i in range(model.nb)}
    return dataclasses.replace(model, frames={**model.frames, **tips}), list(tips)


def pendulum(length=0.7):
    builder = ModelBuilder(gravity=(0, -9.81, 0))
    builder.add_body("rod", "world", joints.Revolute("z"), mass=1.0, com=(0.3, 0, 0), inertia=0.01 * np.eye(3))
    builder.add_frame("tip", "rod", (np.eye(3), (length, 0, 0)))
    builder.add_frame("marker", "world", (Rotation.from_euler("x", 0.4).as_matrix(), (1.0, 2.0, 3.0)))
    return builder.build()


def test_placements_and_velocities_of_the_reference(reference):
    model, data = reference
    for i, name in enumerate(model.body_names):
        R, p = frame_placement(model, data["q"], name)
        assert close(R, data["oMi_R"][:, i + 1]) and close(p, data["oMi_t"][:, i + 1])
        assert close(frame_velocity(model, data["q"], data["v"], name, "local"), data["v_local"][:, i + 1])
    for f, name in enumerate(data["frame_names"]):
        R, p = frame_placement(model, data["q"], str(name))
        assert close(R, data["oMf_R"][:, f]) and close(p, data["oMf_t"][:, f])


@pytest.mark.parametrize("which", REFERENCES)
def test_jacobian_times_velocity_is_the_velocity(reference, which, rng):
    model, data = reference
    model, tips = with_random_frames(model, rng)
    for tip in tips:
        J = frame_jacobian(model, data["q"], tip, which)
        assert close(np.einsum("kij,kj->ki", J, data["v"]), frame_velocity(model, data["q"], data["v"], tip, which))


@pytest.mark.parametrize("which", REFERENCES)
def test_acceleration_is_the_derivative_of_the_velocity(reference, which, rng):
    model, data = reference
    model, tips = with_random_frames(model, rng)
    q, v, a = data["q"][1], data["v"][1], data["a"][1]
    for tip in tips[-3:]:

        def velocity(t, tip=tip):
            t = t[:, None]
            return frame_velocity(model, integrate(model, q, t * v + 0.5 * t**2 * a), v + t * a, tip, which)

        assert close(frame_acceleration(model, q, v, a, tip, which), in_time(velocity), 1e-10)


def test_velocity_is_the_derivative_of_the_placement(reference, rng):
    model, data = reference
    model, tips = with_random_frames(model, rng)
    q, v = data["q"][2], data["v"][2]
    for tip in tips[-3:]:
        velocity = frame_velocity(model, q, v, tip)
        path = in_time(lambda t, tip=tip: frame_placement(model, integrate(model, q, t[:, None] * v), tip).p)
        turn = in_time(lambda t, tip=tip: frame_placement(model, integrate(model, q, t[:, None] * v), tip).R)
        spin = turn @ frame_placement(model, q, tip).R.T
        assert close(velocity[:3], path, 1e-10)
        assert close(velocity[3:], np.array([spin[2, 1], spin[0, 2], spin[1, 0]]), 1e-10)


def test_pendulum_by_hand():
    model = pendulum(length=0.7)
    q, v, a = np.array([np.pi / 2]), np.array([3.0]), np.array([-2.0])
    R, p = frame_placement(model, q, "tip")
    assert close(p, np.array([0.0, 0.7, 0.0])) and close(R, np.array([[0, -1.0, 0], [1, 0, 0], [0, 0, 1]]))
    assert close(frame_velocity(model, q, v, "tip"), np.array([-2.1, 0, 0, 0, 0, 3.0]))
    assert close(frame_velocity(model, q, v, "tip", "local"), np.array([0, 2.1, 0, 0, 0, 3.0]))
    assert close(frame_velocity(model, q, v, "tip", "world"), np.array([0, 0, 0, 0, 0, 3.0]))
    # classical: tangential 0.7 * 2 along +x, centripetal 0.7 * 9 towards the axis; gravity does not enter
    assert close(frame_acceleration(model, q, v, a, "tip"), np.array([1.4, -6.3, 0, 0, 0, -2.0]))
    assert close(frame_acceleration(model, q, v, a, "tip", "local"), np.array([0, -1.4, 0, 0, 0, -2.0]))
    assert close(frame_acceleration(model, q, v, a, "tip", "world"), np.array([0, 0, 0, 0, 0, -2.0]))


@pytest.mark.parametrize("which", REFERENCES)
def test_frame_of_the_world_stands_still(which):
    model = pendulum()
    q, v, a = np.full((3, 1), 0.3), np.ones((3, 1)), np.ones((3, 1))
    R, p = frame_placement(model, q, "marker")
    assert close(R, np.tile(Rotation.from_euler("x", 0.4).as_matrix(), (3, 1, 1)))
    assert close(p, np.tile([1.0, 2.0, 3.0], (3, 1)))
    assert np.array_equal(frame_jacobian(model, q, "marker", which), np.zeros((3, 6, 1)))
    assert np.array_equal(frame_velocity(model, q, v, "marker", which), np.zeros((3, 6)))
    assert np.array_equal(frame_acceleration(model, q, v, a, "marker", which), np.zeros((3, 6)))


# ------------------------------------------------------------------------------------------------ Pinocchio
def pinocchio_model(pin, model):
    """The same tree of joints, and the model's frames "tip <i>"."""
    peer = pin.Model()
    m = model.arrays
    for i, joint in enumerate(model.joints):
        axis = m.dof_axis[m.v_index[i]]
        kinds = {
            joints.REVOLUTE: lambda axis=axis: pin.JointModelRevoluteUnaligned(axis),
            joints.PRISMATIC: lambda axis=axis: pin.JointModelPrismaticUnaligned(axis),
            joints.SPHERICAL: pin.JointModelSpherical,
            joints.FREE_FLYER: pin.JointModelFreeFlyer,
            joints.PLANAR: pin.JointModelPlanar,
            joints.TRANSLATION: pin.JointModelTranslation,
        }
        blocks = m.rotation[i].reshape(3, 3, 3)  # at zero angle
        R = blocks[0] + blocks[1] if joint.code == joints.REVOLUTE else blocks[0]
        placement = pin.SE3(np.ascontiguousarray(R), m.translation[i].copy())
        peer.addJoint(int(m.parent[i]) + 1, kinds[joint.code](), placement, model.joint_names[i])
    for name, frame in model.frames.items():
        if name.startswith("tip "):
            placement = pin.SE3(np.array(frame.R), np.array(frame.p))
            peer.addFrame(pin.Frame(name, frame.body + 1, 0, placement, pin.FrameType.OP_FRAME))
    return peer


def pinocchio_configuration(model, q):
    """Planar angles become cos and sin."""
    parts = []
    for i, joint in enumerate(model.joints):
        x = q[model.q_index[i] : model.q_index[i] + joint.nq]
        parts.append([x[0], x[1], np.cos(x[2]), np.sin(x[2])] if joint.code == joints.PLANAR else x)
    return np.concatenate(parts)


@pytest.mark.peer
def test_against_pinocchio(reference, rng):
    pin = pytest.importorskip("pinocchio")
    model, data = reference
    model, tips = with_random_frames(model, rng)
    peer = pinocchio_model(pin, model)
    state = peer.createData()
    q, v, a = data["q"][0], data["v"][0], data["a"][0]
    theirs = pinocchio_configuration(model, q)
    pin.forwardKinematics(peer, state, theirs, v, a)
    pin.computeJointJacobians(peer, state, theirs)
    pin.updateFramePlacements(peer, state)
    references = {
        "local_world_aligned": pin.ReferenceFrame.LOCAL_WORLD_ALIGNED,
        "local": pin.ReferenceFrame.LOCAL,
        "world": pin.ReferenceFrame.WORLD,
    }
    for tip in tips:
        f = peer.getFrameId(tip)
        assert close(frame_placement(model, q, tip).p, state.oMf[f].translation)
        for which, code in references.items():
            assert close(frame_jacobian(model, q, tip, which), pin.getFrameJacobian(peer, state, f, code))
            assert close(frame_velocity(model, q, v, tip, which), pin.getFrameVelocity(peer, state, f, code).vector)
            classical = which == "local_world_aligned"
            get = pin.getFrameClassicalAcceleration if classical else pin.getFrameAcceleration
            assert close(frame_acceleration(model, q, v, a, tip, which), get(peer, state, f, code).vector)
