"""The mass matrix: the stored reference, its definition by inverse dynamics, positivity, and its rate."""

import numpy as np
import pytest

from dynamics.algorithms.energy import kinetic_energy
from dynamics.algorithms.inverse_dynamics import bias_forces, gravity_forces, inverse_dynamics
from dynamics.algorithms.mass_matrix import inverse_mass_matrix, mass_matrix
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives
from dynamics.derivatives.second_order import inverse_dynamics_second_derivatives
from tests.reference import textbook_double_pendulum as textbook
from tests.reference.lie_brackets import structure_constants
from tests.reference.random_robots import random_states, with_armature
from tests.reference.rigid_body_models import load_reference
from tests.tolerances import IDENTITY, ORACLE, forward_tolerance, relative_error


def test_reference(reference):
    model, data = reference
    M, Minv = mass_matrix(model, data["q"]), inverse_mass_matrix(model, data["q"])
    for k in range(len(M)):
        assert relative_error(M[k], data["M"][k]) <= ORACLE
        assert relative_error(Minv[k], data["Minv"][k]) <= forward_tolerance(data["M"][k])


def test_textbook_double_pendulum(rng):
    model = textbook.model()
    for q in rng.uniform(-3, 3, (20, 2)):
        assert relative_error(mass_matrix(model, q), textbook.mass_matrix(q)) <= IDENTITY


@pytest.mark.parametrize("rotors", [False, True])
def test_symmetric_positive_and_made_of_inverse_dynamics(reference, rng, rotors):
    model, _ = reference
    model = with_armature(model, rng) if rotors else model
    q, v = random_states(model, 4, rng, vectors=1)
    M = mass_matrix(model, q)
    assert np.array_equal(M, np.swapaxes(M, 1, 2))
    assert (np.linalg.eigvalsh(M) > 0.0).all()
    g = gravity_forces(model, q)
    columns = [inverse_dynamics(model, q, np.zeros(model.nv), e) - g for e in np.eye(model.nv)]
    assert relative_error(M, np.stack(columns, axis=2), floor=np.abs(g).max()) <= IDENTITY
    energy = 0.5 * np.einsum("ki,kij,kj->k", v, M, v)
    assert relative_error(kinetic_energy(model, q, v), energy) <= IDENTITY


def test_armature_adds_to_the_diagonal(reference, rng):
    model, data = reference
    heavier = with_armature(model, rng)
    expected = mass_matrix(model, data["q"]) + np.diag(heavier.armature)
    assert relative_error(mass_matrix(heavier, data["q"]), expected) <= IDENTITY


def test_inverse(reference, rng):
    model, _ = reference
    model = with_armature(model, rng)
    (q,) = random_states(model, 4, rng, vectors=0)
    M, Minv = mass_matrix(model, q), inverse_mass_matrix(model, q)
    assert relative_error(M @ Minv, np.tile(np.eye(model.nv), (4, 1, 1))) <= IDENTITY
    assert relative_error(Minv, np.swapaxes(Minv, 1, 2)) <= IDENTITY


def test_branches_do_not_couple():
    model, data = load_reference("hyq")
    M = mass_matrix(model, data["q"])
    for leg in range(4):
        own = 6 + 3 * leg + np.arange(3)
        others = np.setdiff1d(np.arange(6, 18), own)
        assert not M[:, own][:, :, others].any()


def test_rate_less_twice_the_coriolis_matrix_is_skew(reference):
    """C = (d bias/dv + M ad_v) / 2 is the torsion-free connection's matrix: C v = bias - gravity, Mdot = C + C'.

    For ordinary joints ad_v = 0 and C is the matrix of Christoffel symbols."""
    model, data = reference
    c = structure_constants(model)
    for q, v in zip(data["q"], data["v"], strict=True):
        zero = np.zeros(model.nv)
        _, dtau_dv, M = inverse_dynamics_derivatives(model, q, v, zero)
        C = 0.5 * (dtau_dv + M @ np.einsum("lkj,k->lj", c, v))
        Mdot = inverse_dynamics_second_derivatives(model, q, v, zero).dM_dq @ v
        size = np.abs(dtau_dv).max()
        assert relative_error(C @ v, bias_forces(model, q, v) - gravity_forces(model, q), floor=size) <= IDENTITY
        assert relative_error(C + C.T, Mdot, floor=size) <= IDENTITY
