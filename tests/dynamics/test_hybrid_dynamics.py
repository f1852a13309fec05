"""Hybrid dynamics: between inverse and forward dynamics, any entries prescribed, wrenches, ignored entries, errors."""

import numpy as np
import pytest
from hypothesis import given

import dynamics
from tests.reference.random_robots import random_states, random_trees, settings
from tests.reference.rigid_body_models import NAMES, load_reference
from tests.tolerances import IDENTITY, forward_tolerance, relative_error


@settings
@given(random_trees())
def test_consistent_with_inverse_and_forward_dynamics_on_random_trees(tree):
    model, rng = tree.build()
    q, v, a, tau = random_states(model, 5, rng, vectors=3)
    wrenches = rng.normal(size=(5, model.nb, 6))
    for reference in ("local", "local_world_aligned"):
        prescribed = rng.uniform(size=model.nv) < 0.5
        full = dynamics.hybrid_dynamics(model, q, v, a, tau, prescribed, wrenches, reference)
        assert np.array_equal(full.a[:, prescribed], a[:, prescribed])
        assert np.array_equal(full.tau[:, ~prescribed], tau[:, ~prescribed])
        torque = dynamics.inverse_dynamics(model, q, v, full.a, wrenches, reference)
        assert relative_error(full.tau, torque) <= IDENTITY
        # the same accelerations, from the torques found
        scale = np.abs(np.linalg.solve(dynamics.mass_matrix(model, q), np.abs(torque)[..., None])).max()
        back = dynamics.forward_dynamics(model, q, v, full.tau, wrenches, reference)
        assert relative_error(back, full.a, floor=scale) <= IDENTITY


@pytest.mark.parametrize("name", NAMES)
def test_extremes_are_inverse_and_forward_dynamics(name, rng):
    model, _ = load_reference(name)
    q, v, a = random_states(model, 3, rng)
    nothing, everything = np.zeros(model.nv, bool), np.ones(model.nv, bool)
    unknown = np.full(model.nv, np.nan)
    inverse = dynamics.hybrid_dynamics(model, q, v, a, unknown, everything)
    assert relative_error(inverse.tau, dynamics.inverse_dynamics(model, q, v, a)) <= IDENTITY
    forward = dynamics.hybrid_dynamics(model, q, v, unknown, a, nothing)
    expected, M = dynamics.forward_dynamics(model, q, v, a), dynamics.mass_matrix(model, q)
    assert relative_error(forward.a, expected) <= forward_tolerance(M)


@pytest.mark.parametrize("name", ["ur5", "hyq", "joint_zoo"])
def test_against_the_partitioned_mass_matrix(name, rng):
    model, _ = load_reference(name)
    q, v, a, tau = random_states(model, 4, rng, vectors=3)
    prescribed = np.arange(model.nv) % 3 == 0
    given_, free = np.flatnonzero(prescribed), np.flatnonzero(~prescribed)
    M, b = dynamics.mass_matrix(model, q), dynamics.bias_forces(model, q, v)
    right = tau[:, free] - b[:, free] - np.einsum("kij,kj->ki", M[:, free[:, None], given_], a[:, given_])
    expected = np.linalg.solve(M[:, free[:, None], free], right[..., None])[..., 0]
    result = dynamics.hybrid_dynamics(model, q, v, a, tau, prescribed)
    assert relative_error(result.a[:, free], expected) <= forward_tolerance(M)


def test_ignored_entries(rng):
    model, _ = load_reference("ur5")
    q, v, a, tau = random_states(model, 11, rng, vectors=3)
    prescribed = np.array([True, False, True, False, False, True])
    full = dynamics.hybrid_dynamics(model, q, v, a, tau, prescribed)
    partly = dynamics.hybrid_dynamics(
        model, q, v, np.where(prescribed, a, np.inf), np.where(prescribed, np.nan, tau), prescribed
    )
    assert np.array_equal(full.a, partly.a) and np.array_equal(full.tau, partly.tau)


def test_errors_name_the_argument(rng):
    model, _ = load_reference("ur5")
    q, v, a = random_states(model, 2, rng)
    with pytest.raises(ValueError, match=r"prescribed: got shape \(2,\), dtype bool, expected \(6,\) booleans"):
        dynamics.hybrid_dynamics(model, q, v, a, a, [True, False])
    with pytest.raises(ValueError, match=r"prescribed: got shape \(6,\), dtype int64"):
        dynamics.hybrid_dynamics(model, q, v, a, a, [1, 0, 0, 1, 0, 0])
