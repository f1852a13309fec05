"""First derivatives of inverse and forward dynamics: the stored reference, the textbook arm by complex step,
differences on random trees, and one by the other."""

import numpy as np
import pytest
from hypothesis import given

from dynamics.algorithms.forward_dynamics import forward_dynamics
from dynamics.algorithms.inverse_dynamics import inverse_dynamics
from dynamics.algorithms.mass_matrix import inverse_mass_matrix, mass_matrix
from dynamics.derivatives.forward_dynamics import forward_dynamics_derivatives
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives
from tests.reference import textbook_double_pendulum as textbook
from tests.reference.random_robots import random_states, random_trees, settings, with_armature
from tests.reference.tangent_differences import along_state
from tests.tolerances import COMPLEX_STEP, IDENTITY, ORACLE, SIXTH_ORDER_DIFFERENCES, forward_tolerance, relative_error


@pytest.mark.processor
def test_inverse_dynamics_of_the_reference(reference):
    model, data = reference
    dtau_dq, dtau_dv, M = inverse_dynamics_derivatives(model, data["q"], data["v"], data["a"])
    for k in range(len(M)):
        assert relative_error(dtau_dq[k], data["dtau_dq"][k]) <= ORACLE
        assert relative_error(dtau_dv[k], data["dtau_dv"][k]) <= ORACLE
        assert relative_error(M[k], data["M"][k]) <= ORACLE


@pytest.mark.processor
def test_forward_dynamics_of_the_reference(reference):
    model, data = reference
    da_dq, da_dv, Minv = forward_dynamics_derivatives(model, data["q"], data["v"], data["tau"])
    for k in range(len(Minv)):
        tolerance = forward_tolerance(data["M"][k])
        assert relative_error(da_dq[k], data["ddq_dq"][k]) <= tolerance
        assert relative_error(da_dv[k], data["ddq_dv"][k]) <= tolerance
        assert relative_error(Minv[k], data["Minv"][k]) <= tolerance


@pytest.mark.parametrize(
    ("derivatives", "function"),
    [
        (inverse_dynamics_derivatives, textbook.inverse_dynamics),
        (forward_dynamics_derivatives, textbook.forward_dynamics),
    ],
)
def test_textbook_double_pendulum_by_complex_step(derivatives, function, rng):
    model = textbook.model()
    for point in rng.uniform(-3, 3, (10, 3, 2)):
        expected = textbook.complex_step(lambda x: function(*x.reshape(3, 2)), point.ravel())
        assert relative_error(np.hstack(derivatives(model, *point)), expected) <= COMPLEX_STEP


@settings
@given(tree=random_trees())
def test_random_trees_by_differences(tree):
    model, rng = tree.build()
    q, v, a = (x[0] for x in random_states(model, 1, rng))
    x, nq = np.concatenate([q, v]), model.nq

    def tau(xs):
        return inverse_dynamics(model, np.ascontiguousarray(xs[:, :nq]), np.ascontiguousarray(xs[:, nq:]), a)

    dtau_dq, dtau_dv, M = inverse_dynamics_derivatives(model, q, v, a)
    size = np.abs(dtau_dq).max() + np.abs(M).max()
    expected = along_state(model, tau, x)
    assert relative_error(np.hstack([dtau_dq, dtau_dv]), expected, floor=size) <= SIXTH_ORDER_DIFFERENCES
    assert relative_error(M, mass_matrix(model, q)) <= IDENTITY


def test_forward_from_inverse(reference, rng):
    """da = M^-1 (dtau - dID), rotor inertias included; deviations against M's size times the result's."""
    model, _ = reference
    model = with_armature(model, rng)
    q, v, tau = random_states(model, 4, rng)
    da_dq, da_dv, Minv = forward_dynamics_derivatives(model, q, v, tau)
    dtau_dq, dtau_dv, M = inverse_dynamics_derivatives(model, q, v, forward_dynamics(model, q, v, tau))
    for by, of_torque in ((da_dq, dtau_dq), (da_dv, dtau_dv)):
        assert relative_error(M @ by, -of_torque, floor=np.abs(M).max() * np.abs(by).max()) <= IDENTITY
    assert relative_error(Minv, inverse_mass_matrix(model, q)) <= IDENTITY
    assert relative_error(M, mass_matrix(model, q)) <= IDENTITY


def test_inverse_dynamics_is_linear_in_velocity_derivatives(reference, rng):
    """Euler's theorem for the quadratic Coriolis term: (dtau/dv) v = 2 (tau(v) - tau(0))."""
    model, _ = reference
    q, v, a = random_states(model, 4, rng)
    d = inverse_dynamics_derivatives(model, q, v, a)
    coriolis = inverse_dynamics(model, q, v, a) - inverse_dynamics(model, q, 0 * v, a)
    size = np.abs(d.dtau_dv).max()
    assert relative_error(np.einsum("kij,kj->ki", d.dtau_dv, v), 2 * coriolis, floor=size) <= IDENTITY
