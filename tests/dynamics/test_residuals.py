"""Residuals of a robot's state: values against the kinematics, derivatives against differences and expansions."""

import dataclasses
import pickle

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

from dynamics import (
    CenterOfMass,
    CentroidalMomentum,
    ControlGravity,
    Distance,
    FramePlacement,
    FrameRotation,
    FrameTranslation,
    FrameVelocity,
)
from dynamics.algorithms.center_of_mass import center_of_mass, center_of_mass_jacobian
from dynamics.algorithms.forward_dynamics import forward_dynamics
from dynamics.algorithms.frames import frame_jacobian, frame_placement, frame_velocity
from dynamics.geometry.geometry import Geometry
from dynamics.geometry.shapes import HalfSpace, Sphere
from dynamics.model.model import Frame
from tests.reference import pinocchio_peer
from tests.reference.random_robots import random_rotation
from tests.reference.rigid_body_models import load_reference
from tests.reference.tangent_differences import along_state, state_step

MODELS = ("ur5", "hyq", "spherical_tree", "joint_zoo")
OF_FRAMES = ("translation", "rotation", "placement", "velocity", "local velocity")
KINDS = (*OF_FRAMES, "centre of mass", "momentum", "gravity", "distance")


def with_frames(name, rng):
    """A reference model with frames "tip", on a body with the longest path, and "marker", on the world; states."""
    model, data = load_reference(name)
    depth = np.zeros(model.nb, dtype=int)
    for i, parent in enumerate(model.arrays.parent):
        depth[i] = model.joint_nv[i] + (depth[parent] if parent >= 0 else 0)
    tip = Frame(int(np.argmax(depth)), random_rotation(rng), rng.uniform(-1, 1, 3))
    marker = Frame(-1, random_rotation(rng), rng.uniform(-1, 1, 3))
    model = dataclasses.replace(model, frames={**model.frames, "tip": tip, "marker": marker})
    return model, np.hstack([data["q"], 2.0 * data["v"]])


def target_near(model, x, rng):
    """A pose about one radian and half a metre from that of the tip."""
    R, p = frame_placement(model, x[: model.nq], "tip")
    turn = rng.standard_normal(3)
    return R @ Rotation.from_rotvec(turn / np.linalg.norm(turn)).as_matrix(), p + rng.uniform(-0.5, 0.5, 3)


def make(kind, model, x, rng, frame="tip"):
    match kind:
        case "translation":
            return FrameTranslation(model, frame, rng.uniform(-1, 1, 3))
        case "rotation":
            return FrameRotation(model, frame, target_near(model, x, rng)[0])
        case "placement":
            return FramePlacement(model, frame, target_near(model, x, rng))
        case "velocity":
            return FrameVelocity(model, frame, rng.uniform(-1, 1, 6))
        case "local velocity":
            return FrameVelocity(model, frame, rng.uniform(-1, 1, 6), reference="local")
        case "momentum":
            return CentroidalMomentum(model, rng.uniform(-1, 1, 6))
        case "gravity":
            return ControlGravity(model)
        case "distance":
            kinds = (Sphere(0.1), model.frame(frame).body), (Sphere(0.2), 0), (HalfSpace(), -1)  # without corners
            tool, *others = (
                Geometry(str(k), "link", body, shape, (random_rotation(rng), rng.uniform(-1, 1, 3)))
                for k, (shape, body) in enumerate(kinds)
            )
            return Distance(model, [(tool, other) for other in others], margin=0.01)
        case _:
            return CenterOfMass(model, rng.uniform(-1, 1, 3))


@pytest.fixture(params=MODELS)
def robot(request):
    rng = np.random.default_rng(77)
    return (*with_frames(request.param, rng), rng)


def close(value, expected, tolerance):
    scale = np.abs(expected).max()
    return value.shape == expected.shape and np.abs(value - expected).max() <= tolerance * scale


def exponential(r):
    """4x4 matrix of exp(r), r = [linear; angular]."""
    x, y, z = r[3:]
    return expm(np.block([[np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]]), r[:3, None]], [np.zeros((1, 4))]]))


def homogeneous(R, p):
    return np.block([[R, np.reshape(p, (3, 1))], [np.zeros((1, 3)), np.ones((1, 1))]])


# ------------------------------------------------------------------------------------------------ values
def test_values(robot):
    model, xs, rng = robot
    q, v = np.ascontiguousarray(xs[:, : model.nq]), np.ascontiguousarray(xs[:, model.nq :])
    target, motion = rng.uniform(-1, 1, 3), rng.uniform(-1, 1, 6)
    R, p = frame_placement(model, q, "tip")
    assert close(FrameTranslation(model, "tip", target).evaluate(xs, None), p - target, 1e-13)
    assert close(CenterOfMass(model, target).evaluate(xs), center_of_mass(model, q) - target, 1e-13)
    for reference in ("local_world_aligned", "local"):
        expected = frame_velocity(model, q, v, "tip", reference) - motion
        assert close(FrameVelocity(model, "tip", motion, reference).evaluate(xs), expected, 1e-13)
    assert close(FrameVelocity(model, "tip").evaluate(xs), frame_velocity(model, q, v, "tip"), 1e-13)
    target = random_rotation(rng), rng.uniform(-1, 1, 3)
    for k, r in enumerate(FramePlacement(model, "tip", target).evaluate(xs)):
        assert close(homogeneous(*target) @ exponential(r), homogeneous(R[k], p[k]), 1e-12)
        assert np.linalg.norm(r[3:]) <= np.pi
    expected = FramePlacement(model, "tip", target).evaluate(xs)[:, 3:]
    assert close(FrameRotation(model, "tip", target[0]).evaluate(xs), expected, 1e-14)
    momentum, mass = CentroidalMomentum(model).evaluate(xs), model.total_mass
    assert close(momentum[:, :3], mass * np.einsum("kij,kj->ki", center_of_mass_jacobian(model, q), v), 1e-13)
    assert close(CentroidalMomentum(model, motion).evaluate(xs), momentum - motion, 1e-14)


@pytest.mark.peer
def test_momentum_and_its_jacobians_are_those_of_pinocchio(robot, request):
    pin = pytest.importorskip("pinocchio")
    model, xs, _ = robot
    data = load_reference(request.node.callspec.params["robot"])[1]
    peer = pinocchio_peer.build(pin, model, data)
    residual = CentroidalMomentum(model)
    for x, r, J in zip(xs, residual.evaluate(xs), residual.jacobians(xs)[0], strict=True):
        q, v = pinocchio_peer.configuration(data, x[: model.nq]), x[model.nq :]
        state = peer.createData()
        dh_dq, _, _, dh_dv = pin.computeCentroidalDynamicsDerivatives(peer, state, q, v, np.zeros(model.nv))
        assert close(J, np.hstack([dh_dq, dh_dv]), 1e-12)
        assert close(r, pin.computeCentroidalMomentum(peer, state, q, v).vector, 1e-12)


def test_gravity_alone_changes_the_momentum_of_a_free_robot():
    rng = np.random.default_rng(12)
    model, xs = with_frames("hyq", rng)
    q, v = np.ascontiguousarray(xs[:, : model.nq]), np.ascontiguousarray(xs[:, model.nq :])
    tau = rng.uniform(-10, 10, v.shape)
    tau[:, :6] = 0.0
    along = np.hstack([v, forward_dynamics(model, q, v, tau)])
    rates = np.einsum("kij,kj->ki", CentroidalMomentum(model).jacobians(xs)[0], along)
    size = np.abs(along).max()
    assert np.abs(rates - [*(model.total_mass * model.gravity), 0.0, 0.0, 0.0]).max() <= 1e-12 * size


@pytest.mark.parametrize("angle", [0.0, 1e-12, 1e-5, 0.3, 2.0, 3.0, 3.14, 3.1415926])
def test_placement_logarithm_for_any_rotation(angle):
    """A frame of the world, seen from the origin: r is the logarithm of its own placement."""
    model, xs = with_frames("ur5", np.random.default_rng(0))
    target = np.eye(3), np.zeros(3)
    axes = np.vstack([np.eye(3), -np.eye(3), np.random.default_rng(1).standard_normal((6, 3))])
    for axis in axes / np.linalg.norm(axes, axis=1, keepdims=True):
        frame = Frame(-1, Rotation.from_rotvec(angle * axis).as_matrix(), np.array([0.3, -0.2, 0.5]))
        moved = dataclasses.replace(model, frames={"tip": frame})
        r = FramePlacement(moved, "tip", target).evaluate(xs)[0]
        assert np.abs(r[3:] - angle * axis).max() <= 1e-14 * max(1.0, 1.0 / (np.pi - angle))
        assert close(exponential(r), homogeneous(frame.R, frame.p), 1e-12)


# ------------------------------------------------------------------------------------------------ derivatives
@pytest.mark.parametrize("kind", KINDS)
def test_jacobians_are_derivatives(robot, kind):
    model, xs, rng = robot
    residual = make(kind, model, xs[1], rng)
    rx, ru = residual.jacobians(xs, None)
    assert ru is None and rx.shape == (3, residual.nr, 2 * model.nv)
    assert close(rx[1], along_state(model, residual.evaluate, xs[1]), 1e-11)
    r, again, ru = residual.evaluate_with_jacobians(xs, None)
    assert ru is None and np.array_equal(r, residual.evaluate(xs, None)) and np.array_equal(again, rx)


@pytest.mark.parametrize("kind", KINDS)
def test_hessians_are_symmetrised_derivatives(robot, kind):
    model, xs, rng = robot
    residual = make(kind, model, xs[1], rng)
    mu = rng.uniform(-1, 1, (3, residual.nr))
    Hxx, Hux, Huu = residual.hessian_products(xs, None, mu)
    assert Hux is None and Huu is None
    assert np.array_equal(Hxx, np.swapaxes(Hxx, 1, 2))
    lie = along_state(model, lambda x: np.einsum("i,kij->kj", mu[1], residual.jacobians(x)[0]), xs[1])
    assert close(Hxx[1], 0.5 * (lie + lie.T), 1e-11)


@pytest.mark.parametrize("kind", KINDS)
def test_second_order_expansion_has_third_order_error(robot, kind):
    model, xs, rng = robot
    x = xs[1]
    residual = make(kind, model, x, rng)
    mu = rng.uniform(-1, 1, residual.nr)
    gradient = mu @ residual.jacobians(x[None])[0][0]
    H = residual.hessian_products(x[None], None, mu[None])[0][0]
    steps = 0.02 * 0.5 ** np.arange(5)
    errors = []
    for d in rng.standard_normal((16, 2 * model.nv)):
        values = residual.evaluate(state_step(model, x, steps[:, None] * d)) @ mu
        expansion = mu @ residual.evaluate(x[None])[0] + steps * (gradient @ d) + 0.5 * steps**2 * (d @ H @ d)
        errors.append(values - expansion)
    size = np.sqrt(np.mean(np.square(errors), axis=0))  # along a single direction the cubic term may vanish
    assert np.polyfit(np.log(steps), np.log(size), 1)[0] == pytest.approx(3.0, abs=0.1)


def test_jacobians_of_the_kinematics(robot):
    model, xs, _ = robot
    q, n = np.ascontiguousarray(xs[:, : model.nq]), model.nv
    J = frame_jacobian(model, q, "tip")
    translation = FrameTranslation(model, "tip", np.zeros(3)).jacobians(xs)[0]
    assert close(translation[:, :, :n], J[:, :3], 1e-13) and not translation[:, :, n:].any()
    assert close(FrameVelocity(model, "tip").jacobians(xs)[0][:, :, n:], J, 1e-13)
    at_rest = FramePlacement(model, "tip", tuple(x[0] for x in frame_placement(model, q, "tip")))
    assert np.abs(at_rest.evaluate(xs)[0]).max() <= 1e-14
    assert close(at_rest.jacobians(xs)[0][0, :, :n], frame_jacobian(model, q[0], "tip", "local"), 1e-13)
    com = CenterOfMass(model, np.zeros(3)).jacobians(xs)[0]
    assert close(com[:, :, :n], center_of_mass_jacobian(model, q), 1e-13) and not com[:, :, n:].any()


@pytest.mark.parametrize("kind", OF_FRAMES)
def test_frame_of_the_world_has_no_derivatives(kind):
    rng = np.random.default_rng(5)
    model, xs = with_frames("hyq", rng)
    residual = make(kind, model, xs[1], rng, frame="marker")
    r = residual.evaluate(xs)
    assert np.isfinite(r).all() and np.array_equal(r[0], r[2])
    assert not residual.jacobians(xs)[0].any()
    assert not residual.hessian_products(xs, None, np.ones_like(r))[0].any()


# ------------------------------------------------------------------------------------------------ use


@pytest.mark.parametrize("kind", KINDS)
def test_residuals_are_immutable_and_may_be_pickled(kind):
    rng = np.random.default_rng(10)
    model, xs = with_frames("ur5", rng)
    residual = make(kind, model, xs[1], rng)
    assert (residual.nx, residual.ndx) == (12, 12) and isinstance(residual.name, str)
    assert np.array_equal(pickle.loads(pickle.dumps(residual)).evaluate(xs), residual.evaluate(xs))
    with pytest.raises(AttributeError, match="immutable"):
        residual.name = "another"
    given = getattr(residual, {"gravity": "actuation", "distance": "lower"}.get(kind, "target"))
    for array in given if kind == "placement" else (given,):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


def test_the_callers_target_is_copied():
    model, xs = with_frames("ur5", np.random.default_rng(11))
    target = np.zeros(3)
    residual = FrameTranslation(model, "tip", target)
    before = residual.evaluate(xs)
    target[:] = 1.0
    assert np.array_equal(residual.evaluate(xs), before)
