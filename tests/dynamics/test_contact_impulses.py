"""Impulses at contacts and their derivatives: balance, energy, differences, Pinocchio."""

import numpy as np
import pytest

from dynamics import contact_impulse, contact_impulse_derivatives, contact_impulse_hessian, kinetic_energy, mass_matrix
from dynamics.simd import LANES
from tests.reference import contact_cases, pinocchio_peer
from tests.reference.contact_cases import contacts_on, jacobian, world_rows
from tests.reference.random_robots import random_states
from tests.reference.rigid_body_models import load_reference
from tests.reference.tangent_differences import along_state
from tests.tolerances import relative_error

BALANCE = 1e-10
DIFFERENCES = 1e-8
ORACLE = 1e-9


@pytest.mark.parametrize("axes", ["local_world_aligned", "local"])
@pytest.mark.parametrize("restitution", [0.0, 0.6])
@pytest.mark.parametrize("name", contact_cases.HELD)
def test_impulses_balance_and_points_bounce(name, restitution, axes, rng):
    """Feet are stopped or thrown back, too."""
    model, (*_, contacts) = contact_cases.held(name, rng, axes=axes)
    q, v = random_states(model, LANES + 2, rng, vectors=1)
    after, f, moment, pivot, redundant = contact_impulse(model, q, v, contacts, restitution)
    points = [i for i in range(len(contacts)) if i not in contact_cases.feet(contacts)]
    assert not redundant.any() and (pivot > 0.0).all() and not moment[:, points].any()
    for k in range(0, LANES + 2, 3):
        J, M = jacobian(model, q[k], contacts), mass_matrix(model, q[k])
        kick = J.T @ world_rows(model, q[k], contacts, f[k], moment[k])
        assert np.abs(M @ (after[k] - v[k]) - kick).max() <= BALANCE * np.abs(kick).max()
        assert np.abs(J @ (after[k] + restitution * v[k])).max() <= BALANCE * np.abs(J @ v[k]).max()


def test_energy(rng):
    """Full restitution keeps it; stopping the points loses that of the velocity lost."""
    model, frames = contact_cases.robot("solo12", rng)
    contacts = contacts_on(model, frames, rng)
    q, v = random_states(model, 4, rng, vectors=1)
    energy = kinetic_energy(model, q, v)
    assert relative_error(kinetic_energy(model, q, contact_impulse(model, q, v, contacts, 1.0).v), energy) <= BALANCE
    after = contact_impulse(model, q, v, contacts).v
    assert relative_error(kinetic_energy(model, q, after) + kinetic_energy(model, q, v - after), energy) <= BALANCE


def check_derivatives(model, q, v, contacts, restitution, damping):
    n, C = model.nv, len(contacts)

    def at_states(x):
        q, v = np.ascontiguousarray(x[:, : model.nq]), np.ascontiguousarray(x[:, model.nq :])
        after, f, moment, *_ = contact_impulse(model, q, v, contacts, restitution, damping)
        return np.hstack([after, f.reshape(-1, 3 * C), moment.reshape(-1, 3 * C)])

    of_x = along_state(model, at_states, np.concatenate([q, v]), 5e-3)
    derivatives = contact_impulse_derivatives(model, q, v, contacts, restitution, damping)
    expected = [of_x[:n, :n], of_x[:n, n:]]
    for o in (n, n + 3 * C):
        expected += [of_x[o : o + 3 * C, at].reshape(C, 3, n) for at in (slice(n), slice(n, None))]
    for which, value, other in zip(derivatives._fields, derivatives, expected, strict=True):
        assert relative_error(value, other, floor=1e-2) <= DIFFERENCES, which


def check_hessian(model, q, v, contacts, restitution, damping, rng):
    n, w_v, (w_f, w_m) = model.nv, rng.uniform(-2, 2, model.nv), rng.uniform(-2, 2, (2, len(contacts), 3))

    def gradient(x):
        q, v = np.ascontiguousarray(x[:, : model.nq]), np.ascontiguousarray(x[:, model.nq :])
        of_z = contact_impulse_derivatives(model, q, v, contacts, restitution, damping)
        weighted = zip((w_v, w_f, w_m), ("i,kij->kj", "cr,kcrj->kj", "cr,kcrj->kj"), strict=True)
        parts = [[np.einsum(sums, w, of_z[2 * i + j]) for j in range(2)] for i, (w, sums) in enumerate(weighted)]
        return np.hstack([sum(part[j] for part in parts) for j in range(2)])

    of_x = along_state(model, gradient, np.concatenate([q, v]), 5e-3)
    H = contact_impulse_hessian(model, q, v, contacts, w_v, w_f, restitution, damping, w_m)
    assert relative_error(H.Hqq, of_x[:n, :n]) <= DIFFERENCES
    assert relative_error(H.Hqv, of_x[:n, n:]) <= DIFFERENCES
    assert relative_error(H.Hqv, of_x[n:, :n].T) <= DIFFERENCES


@pytest.mark.parametrize("axes", ["local_world_aligned", "local"])
@pytest.mark.parametrize("restitution, damping", [(0.0, 0.0), (0.6, 0.0), (0.3, 0.2)])
@pytest.mark.parametrize("name", contact_cases.HELD)
def test_differences(name, restitution, damping, axes, rng):
    model, (*_, contacts) = contact_cases.held(name, rng, axes=axes)
    q, v = (x[0] for x in random_states(model, 1, rng, vectors=1))
    check_derivatives(model, q, v, contacts, restitution, damping)
    check_hessian(model, q, v, contacts, restitution, damping, rng)


def test_redundant_contacts(rng):
    model, frames = contact_cases.with_points(load_reference("hyq")[0], [0, 0, 0], rng)
    contacts = contacts_on(model, frames, rng)
    q, v = random_states(model, 4, rng, vectors=1)
    after, f, _, pivot, redundant = contact_impulse(model, q, v, contacts)
    assert (redundant == 3).all() and (np.count_nonzero(f.reshape(4, -1), axis=1) == 6).all() and (pivot < 1e-10).all()
    assert np.abs(after[:, :6]).max() <= BALANCE * np.abs(v).max()


@pytest.mark.peer
@pytest.mark.parametrize("name", ["hyq", "spherical_tree"])
def test_pinocchio(name, rng):
    """Its impulse dynamics, as `pin.impulseDynamics` solves it for a given Jacobian."""
    pin = pytest.importorskip("pinocchio")
    model, frames = contact_cases.robot(name, rng)
    peer = pinocchio_peer.build(pin, model, load_reference(name)[1])
    contacts = contacts_on(model, frames, rng)
    q, v = (x[0] for x in random_states(model, 1, rng, vectors=1))
    state = peer.createData()
    ours = contact_impulse(model, q, v, contacts, 0.3)
    J = jacobian(model, q, contacts)
    assert relative_error(ours.v, pin.impulseDynamics(peer, state, q, v, J, 0.3, 0.0)) <= ORACLE
    assert relative_error(ours.f.ravel(), state.impulse_c) <= ORACLE
