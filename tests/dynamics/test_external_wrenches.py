"""Follower and dead loads: what they are, frames as names, and their part in first and second derivatives."""

import numpy as np
import pytest
from hypothesis import given

import dynamics
from dynamics.algorithms.frames import frame_jacobian, frame_placement
from tests.reference.random_robots import Tree, random_states, random_trees, settings
from tests.reference.tangent_differences import along_configuration
from tests.tolerances import CONTRACTED, IDENTITY, SIXTH_ORDER_DIFFERENCES, forward_tolerance, relative_error

REFERENCES = ("local", "local_world_aligned")
MIXED = Tree(
    ["free flyer", "revolute", "spherical", "prismatic", "planar", "revolute", "translation", "spherical"],
    [-1, 0, 1, 2, 1, 4, 0, 5],
    7,
)


@pytest.fixture(scope="module")
def robot():
    """Model, generator, wrenches on every body; every joint type inside the tree."""
    model, rng = MIXED.build()
    return model, rng, rng.normal(size=(model.nb, 6))


def turned(R, wrench):
    """[force; moment] in other axes; R (K, 3, 3), wrench (6,) or (K, 6)."""
    w = np.broadcast_to(wrench, (len(R), 6))
    return np.concatenate([np.einsum("kij,kj->ki", R, w[:, :3]), np.einsum("kij,kj->ki", R, w[:, 3:])], axis=1)


def test_a_dead_load_is_the_follower_load_turned_into_the_body(robot):
    model, rng, wrenches = robot
    q, v, a = random_states(model, 5, rng)
    local = np.stack(
        [
            turned(frame_placement(model, q, name)[0].transpose(0, 2, 1), wrenches[i])
            for i, name in enumerate(model.body_names)
        ],
        axis=1,
    )
    dead = dynamics.inverse_dynamics(model, q, v, a, wrenches, "local_world_aligned")
    assert relative_error(dead, dynamics.inverse_dynamics(model, q, v, a, local)) <= IDENTITY
    dead = dynamics.forward_dynamics(model, q, v, a, wrenches, "local_world_aligned")
    expected = dynamics.forward_dynamics(model, q, v, a, local)
    assert relative_error(dead, expected) <= forward_tolerance(dynamics.mass_matrix(model, q))


@pytest.mark.parametrize("reference", REFERENCES)
def test_wrenches_on_named_frames_act_through_their_jacobians(rng, reference):
    builder = dynamics.ModelBuilder()
    builder.add_body("upper", "world", dynamics.Spherical(), mass=1.0, com=(0.1, 0.2, 0.3), inertia=np.eye(3))
    builder.add_body("lower", "upper", dynamics.Revolute("y"), mass=2.0, com=(0.1, 0.0, 0.3), inertia=np.eye(3))
    tilt = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    builder.add_frame("tool", "lower", (tilt, (0.3, -0.2, 0.1)))
    builder.add_frame("anchor", "world", (tilt, (1.0, 0.0, 0.0)))
    model = builder.build()
    q, v, a = random_states(model, 4, rng)
    wrenches = {"tool": rng.normal(size=(4, 6)), "lower": rng.normal(size=6), "anchor": np.ones(6)}
    expected = dynamics.inverse_dynamics(model, q, v, a)
    for name in ("tool", "lower"):
        J = frame_jacobian(model, q, name, reference)
        expected -= np.einsum("kij,ki->kj", J, np.broadcast_to(wrenches[name], (4, 6)))
    assert relative_error(dynamics.inverse_dynamics(model, q, v, a, wrenches, reference), expected) <= IDENTITY
    alone = dynamics.inverse_dynamics(model, q, v, a, {"anchor": np.ones(6)}, reference)
    assert relative_error(alone, dynamics.inverse_dynamics(model, q, v, a)) <= IDENTITY


@pytest.mark.parametrize("reference", REFERENCES)
def test_derivatives_and_hessian_against_differences(robot, reference):
    model, rng, wrenches = robot
    (q,), (v,), (a,), (w,) = random_states(model, 1, rng, vectors=3)
    loads = wrenches, reference

    def torque(x):
        return dynamics.inverse_dynamics(model, x, v, a, *loads)

    def gradient(x):
        return np.einsum("i,kij->kj", w, dynamics.inverse_dynamics_derivatives(model, x, v, a, *loads).dtau_dq)

    first = dynamics.inverse_dynamics_derivatives(model, q, v, a, *loads)
    second = dynamics.inverse_dynamics_hessian(model, q, v, a, w, *loads)
    assert relative_error(first.dtau_dq, along_configuration(model, torque, q)) <= SIXTH_ORDER_DIFFERENCES
    assert relative_error(second.Hqq, along_configuration(model, gradient, q)) <= SIXTH_ORDER_DIFFERENCES
    bare = dynamics.inverse_dynamics_derivatives(model, q, v, a)
    assert relative_error(first.dtau_dq, bare.dtau_dq) > 1e-3  # the loads matter
    assert relative_error(first.dtau_dv, bare.dtau_dv) <= IDENTITY


@settings
@given(random_trees())
def test_tensors_equal_the_hessian_on_random_trees(tree):
    model, rng = tree.build()
    q, v, a, w = random_states(model, 2, rng, vectors=3)
    wrenches = rng.normal(size=(2, model.nb, 6))
    for reference in REFERENCES:
        T = dynamics.inverse_dynamics_second_derivatives(model, q, v, a, wrenches, reference)
        H = dynamics.inverse_dynamics_hessian(model, q, v, a, w, wrenches, reference)
        size = np.einsum("ki,kijl->kjl", np.abs(w), np.abs(T.d2tau_dqdq)).max()
        assert relative_error(H.Hqq, np.einsum("ki,kijl->kjl", w, T.d2tau_dqdq), floor=size) <= CONTRACTED


@pytest.mark.parametrize("reference", REFERENCES)
def test_forward_dynamics_derivatives_against_differences(robot, reference):
    model, rng, wrenches = robot
    (q,), (v,), (tau,), (w,) = random_states(model, 1, rng, vectors=3)
    loads = wrenches, reference

    def acceleration(x):
        return dynamics.forward_dynamics(model, x, v, tau, *loads)

    def gradient(x):
        return np.einsum("i,kij->kj", w, dynamics.forward_dynamics_derivatives(model, x, v, tau, *loads).da_dq)

    first = dynamics.forward_dynamics_derivatives(model, q, v, tau, *loads)
    second = dynamics.forward_dynamics_hessian(model, q, v, tau, w, *loads)
    tensors = dynamics.forward_dynamics_second_derivatives(model, q, v, tau, *loads)
    assert relative_error(first.da_dq, along_configuration(model, acceleration, q)) <= SIXTH_ORDER_DIFFERENCES
    assert relative_error(second.Hqq, along_configuration(model, gradient, q)) <= SIXTH_ORDER_DIFFERENCES
    assert relative_error(np.einsum("i,ijk->jk", w, tensors.d2a_dqdq), second.Hqq) <= 1e2 * CONTRACTED


def test_errors_name_the_argument(robot):
    model, rng, wrenches = robot
    q, v, a = random_states(model, 3, rng)
    with pytest.raises(ValueError, match="wrench_reference: got 'world', expected one of 'local', "):
        dynamics.inverse_dynamics(model, q, v, a, wrenches, "world")
    with pytest.raises(ValueError, match=r"frame: got 'bdy 1', expected .*; did you mean 'body 1'"):
        dynamics.forward_dynamics(model, q, v, a, {"bdy 1": np.zeros(6)})
    with pytest.raises(ValueError, match=r"external_wrenches\['body 1'\]: got shape \(2, 6\), expected \(6,\) or"):
        dynamics.inverse_dynamics_derivatives(model, q, v, a, {"body 1": np.zeros((2, 6))})
    with pytest.raises(ValueError, match=r"external_wrenches\['body 1'\]\[2\]: got nan"):
        dynamics.inverse_dynamics_hessian(model, q, v, a, a, {"body 1": [0, 0, np.nan, 0, 0, 0]})
