"""Energies: the stored reference, the mass matrix, gravity forces, and power."""

import dataclasses

import numpy as np

from dynamics.algorithms.configuration import integrate
from dynamics.algorithms.energy import kinetic_energy, potential_energy
from dynamics.algorithms.forward_dynamics import forward_dynamics
from dynamics.algorithms.inverse_dynamics import gravity_forces
from dynamics.algorithms.mass_matrix import mass_matrix
from tests.reference.tangent_differences import along_configuration, in_time


def close(value, expected, tolerance=1e-12):
    scale = np.abs(expected).max()
    return np.shape(value) == np.shape(expected) and np.abs(value - expected).max() <= tolerance * scale


def with_armature(model, seed=3):
    armature = np.random.default_rng(seed).uniform(0.1, 1.0, model.nv)
    return dataclasses.replace(model, arrays=model.arrays._replace(armature=armature))


def test_reference(reference):
    model, data = reference
    assert close(kinetic_energy(model, data["q"], data["v"]), data["kinetic_energy"])
    assert close(potential_energy(model, data["q"]), data["potential_energy"])


def test_kinetic_energy_with_armature(reference):
    model, data = reference
    heavier = with_armature(model)
    expected = 0.5 * np.einsum("ki,kij,kj->k", data["v"], mass_matrix(heavier, data["q"]), data["v"])
    energy = kinetic_energy(heavier, data["q"], data["v"])
    assert close(energy, expected)
    rotors = 0.5 * (data["v"] ** 2) @ heavier.armature
    assert close(energy, data["kinetic_energy"] + rotors)


def test_gravity_forces_are_the_gradient_of_the_potential_energy(reference):
    model, data = reference
    gradient = along_configuration(model, lambda qs: potential_energy(model, qs), data["q"][1])
    assert close(gravity_forces(model, data["q"][1]), gradient, 1e-10)


def test_energy_changes_by_the_power_of_the_torques(reference):
    model, data = reference
    model = with_armature(model)
    q, v, tau = data["q"][2], data["v"][2], data["tau"][2]
    a = forward_dynamics(model, q, v, tau)

    def energy(t):
        qs, vs = integrate(model, q, t[:, None] * v), v + t[:, None] * a
        return kinetic_energy(model, qs, vs) + potential_energy(model, qs)

    assert abs(in_time(energy) - tau @ v) <= 1e-9 * max(abs(tau @ v), np.abs(tau * v).sum())
