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
from dynamics.simd import LANES
from tests.reference import textbook_double_pendulum as textbook
from tests.reference.random_robots import random_states, random_trees, settings, with_armature
from tests.reference.rigid_body_models import NAMES, load_reference
from tests.reference.tangent_differences import along_state
from tests.tolerances import COMPLEX_STEP, IDENTITY, ORACLE, SIXTH_ORDER_DIFFERENCES, forward_tolerance, relative_error


@pytest.fixture(scope="module", params=NAMES)
def reference(request):
    return load_reference(request.param)


@pytest.fixture
def rng():
    return np.random.default_rng(104)


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


@pytest.mark.parametrize("derivatives", [inverse_dynamics_derivatives, forward_dynamics_derivatives])
@pytest.mark.parametrize("name", ["ur5", "hyq", "joint_zoo"])
def test_batch_equals_single_points(derivatives, name, rng):
    model, _ = load_reference(name)
    K = LANES + 3
    q, v, a = random_states(model, K, rng)
    batch = derivatives(model, q, v, a)
    for k in range(K):
        for many, one in zip(batch, derivatives(model, q[k], v[k], a[k]), strict=True):
            assert np.array_equal(many[k], one)
    for many, one in zip(derivatives(model, q[2], v[2], a), derivatives(model, q[2], v[2], a[5]), strict=True):
        assert np.array_equal(many[5], one)
    assert derivatives(model, q[:0], v[:0], a[:0])[0].shape == (0, model.nv, model.nv)


def test_errors(rng):
    model, _ = load_reference("joint_zoo")
    q, v, a = random_states(model, 2, rng)
    with pytest.raises(ValueError, match=r"a: got shape \(2, 25\), expected \(23,\) or \(K, 23\)"):
        inverse_dynamics_derivatives(model, q, v, q)
    with pytest.raises(ValueError, match=r"tau: got shape \(22,\), expected \(23,\) or \(K, 23\)"):
        forward_dynamics_derivatives(model, q, v, a[0, :22])
    with pytest.raises(ValueError, match="expected a unit quaternion"):
        inverse_dynamics_derivatives(model, 1.01 * q, v, a)
    a[1, 3] = np.nan
    with pytest.raises(ValueError, match=r"tau\[1, 3\] is nan"):
        forward_dynamics_derivatives(model, q, v, a)
