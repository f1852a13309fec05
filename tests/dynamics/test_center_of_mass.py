"""Centre of mass: the stored reference, differences along the tangent, and momentum."""

import dataclasses

import numpy as np
import pytest

from dynamics.algorithms.center_of_mass import center_of_mass, center_of_mass_jacobian
from dynamics.algorithms.configuration import random_configuration
from tests.reference.rigid_body_models import NAMES, load_reference
from tests.reference.tangent_differences import along_configuration


@pytest.fixture(scope="module", params=NAMES)
def reference(request):
    return load_reference(request.param)


def close(value, expected, tolerance=1e-12):
    scale = np.abs(expected).max()
    return value.shape == expected.shape and np.abs(value - expected).max() <= tolerance * scale


def test_reference(reference):
    model, data = reference
    assert close(center_of_mass(model, data["q"]), data["com"])
    assert close(center_of_mass_jacobian(model, data["q"]), data["Jcom"])


def test_jacobian_gives_the_linear_momentum(reference):
    model, data = reference
    J = center_of_mass_jacobian(model, data["q"])
    assert close(model.total_mass * np.einsum("kij,kj->ki", J, data["v"]), data["hg"][:, :3])


def test_jacobian_is_the_derivative(reference):
    model, data = reference
    difference = along_configuration(model, lambda qs: center_of_mass(model, qs), data["q"][1])
    assert close(center_of_mass_jacobian(model, data["q"][1]), difference, 1e-10)


def test_batch_equals_single_points():
    rng = np.random.default_rng(4)
    model, _ = load_reference("spherical_tree")
    q = np.array([random_configuration(model, rng) for _ in range(11)])
    c, J = center_of_mass(model, q), center_of_mass_jacobian(model, q)
    for k in range(len(q)):
        assert np.array_equal(c[k], center_of_mass(model, q[k]))
        assert np.array_equal(J[k], center_of_mass_jacobian(model, q[k]))


def test_errors():
    model, data = load_reference("ur5")
    with pytest.raises(ValueError, match=r"q: got shape \(5,\), expected \(6,\) or \(K, 6\)"):
        center_of_mass(model, np.zeros(5))
    with pytest.raises(ValueError, match=r"q\[2\] is inf"):
        center_of_mass_jacobian(model, [0, 0, np.inf, 0, 0, 0])
    massless = dataclasses.replace(model, arrays=model.arrays._replace(mass=np.zeros(model.nb)))
    with pytest.raises(ValueError, match="total mass 0 kg and no centre of mass"):
        center_of_mass(massless, data["q"])
