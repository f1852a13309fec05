"""Centre of mass: the stored reference, differences along the tangent, and momentum."""

import dataclasses

import numpy as np
import pytest

from dynamics.algorithms.center_of_mass import center_of_mass, center_of_mass_jacobian
from tests.reference.rigid_body_models import load_reference
from tests.reference.tangent_differences import along_configuration


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


def test_no_mass_has_no_centre():
    model, data = load_reference("ur5")
    massless = dataclasses.replace(model, arrays=model.arrays._replace(mass=np.zeros(model.nb)))
    with pytest.raises(ValueError, match="total mass 0 kg and no centre of mass"):
        center_of_mass(massless, data["q"])
