"""The regressor of inverse dynamics: linearity in the inertial parameters, its columns, its zeros, Pinocchio."""

import numpy as np
import pytest
from hypothesis import given

from dynamics.algorithms.inverse_dynamics import inverse_dynamics
from dynamics.derivatives.parameters import parameter_derivatives
from dynamics.derivatives.regressor import inertial_parameters, inverse_dynamics_regressor
from dynamics.model.builder import ModelBuilder
from dynamics.model.joints import Fixed, FreeFlyer, Planar, Revolute
from dynamics.simd import LANES
from tests.reference import pinocchio_peer
from tests.reference.random_robots import random_states, random_trees, settings, with_armature
from tests.tolerances import IDENTITY, ORACLE, relative_error


def test_inverse_dynamics_of_the_reference(reference, rng):
    model, data = reference
    model = with_armature(model, rng)
    q, v, a = random_states(model, 5, rng)
    Y, pi = inverse_dynamics_regressor(model, q, v, a), inertial_parameters(model).ravel()
    assert relative_error(Y @ pi + model.armature * a, inverse_dynamics(model, q, v, a)) <= IDENTITY
    Y = inverse_dynamics_regressor(model, data["q"], data["v"], data["a"])
    assert relative_error(Y @ pi, data["rnea"]) <= ORACLE


@settings
@given(tree=random_trees())
def test_random_trees(tree):
    model, rng = tree.build()
    q, v, a = random_states(model, 3, rng)
    tau = inverse_dynamics_regressor(model, q, v, a) @ inertial_parameters(model).ravel() + model.armature * a
    assert relative_error(tau, inverse_dynamics(model, q, v, a)) <= IDENTITY
    unit = np.eye(10 * model.nb).reshape(-1, model.nb, 10)
    columns = parameter_derivatives(model, q[0], v[0], a[0], inertial=unit).tau.T
    assert relative_error(inverse_dynamics_regressor(model, q[0], v[0], a[0]), columns) <= IDENTITY


def test_columns_are_derivatives_along_unit_parameters(reference, rng):
    model, _ = reference
    q, v, a = (x[0] for x in random_states(model, 1, rng))
    unit = np.eye(10 * model.nb).reshape(-1, model.nb, 10)
    columns = parameter_derivatives(model, q, v, a, inertial=unit).tau.T
    assert relative_error(inverse_dynamics_regressor(model, q, v, a), columns) <= IDENTITY


def test_zeros_off_the_paths(reference, rng):
    """A body moves no torque of a joint that does not carry it; twice, for workspaces are reused."""
    model, _ = reference
    parent, body = model.arrays.parent, model.arrays.dof_body
    carries = np.eye(model.nb, dtype=bool)  # [i, b]: b at or below i
    for b in range(model.nb):
        if parent[b] >= 0:
            carries[:, b] |= carries[:, parent[b]]
    for K in (3 * LANES, 1):
        Y = inverse_dynamics_regressor(model, *random_states(model, K, rng))
        blocks = Y.reshape(K, model.nv, model.nb, 10)
        assert np.array_equal(blocks.any(axis=(0, 3)), carries[body])


@pytest.mark.parametrize("joint", [Revolute("y"), FreeFlyer(), Planar((1.0, 2.0, -3.0))])
def test_parameters_of_a_compound_body(joint):
    """A rod with a ball fixed to its end, in the axes of the rod: parallel axes by hand."""
    builder = ModelBuilder()
    builder.add_body("rod", "world", joint, mass=2.0, com=(0.1, 0.2, 0.3), inertia=np.diag([0.3, 0.4, 0.5]))
    builder.add_body("ball", "rod", Fixed(), placement=(np.eye(3), (0.0, 0.0, -1.0)), mass=3.0, inertia=np.eye(3))
    expected = [
        5.0, 0.2, 0.4, 0.6 - 3.0,
        0.3 + 2.0 * (0.04 + 0.09) + 4.0, -2.0 * 0.02, 0.4 + 2.0 * (0.01 + 0.09) + 4.0,
        -2.0 * 0.03, -2.0 * 0.06, 0.5 + 2.0 * (0.01 + 0.04) + 1.0,
    ]  # fmt: skip
    assert relative_error(inertial_parameters(builder.build()), [expected]) <= IDENTITY


@pytest.mark.peer
def test_pinocchio(reference, rng):
    pin = pytest.importorskip("pinocchio")
    model, data = reference
    peer = pinocchio_peer.build(pin, model, data)
    q, v, a = random_states(model, 3, rng)
    Y = inverse_dynamics_regressor(model, q, v, a)
    for k in range(3):
        theirs = pinocchio_peer.configuration(data, q[k])
        expected = pin.computeJointTorqueRegressor(peer, peer.createData(), theirs, v[k], a[k])
        assert relative_error(Y[k], expected) <= ORACLE
    expected = np.array([inertia.toDynamicParameters() for inertia in peer.inertias.tolist()[1:]])
    assert relative_error(inertial_parameters(model), expected) <= ORACLE
