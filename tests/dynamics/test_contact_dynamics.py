"""Contact dynamics: the KKT residual, limits, redundant contacts, Pinocchio."""

import numpy as np
import pytest

import dynamics
from dynamics import ContactSet, PointContact, contact_dynamics, forward_dynamics, mass_matrix
from dynamics.simd import LANES
from tests.reference import contact_cases, pinocchio_peer
from tests.reference.contact_cases import GAINS, balance, constraints, contacts_on, growing_sets, jacobian
from tests.reference.random_robots import random_states, with_armature
from tests.reference.rigid_body_models import load_reference
from tests.tolerances import IDENTITY, relative_error

ILL_CONDITIONED = 1e-10  # trees of light bodies, at random configurations
ORACLE = 1e-9


@pytest.mark.processor
@pytest.mark.parametrize("axes", ["local_world_aligned", "local"])
@pytest.mark.parametrize("gains", [(0.0, 0.0), GAINS])
@pytest.mark.parametrize("name", contact_cases.HELD)
def test_forces_balance_and_points_stay(name, gains, axes, rng):
    """Feet have moments, and do not turn."""
    model, sets = contact_cases.held(name, rng, gains, axes)
    for contacts in sets:
        q, v, tau = random_states(model, LANES + 2, rng)
        result, feet = contact_dynamics(model, q, v, tau, contacts), contact_cases.feet(contacts)
        points = [i for i in range(len(contacts)) if i not in feet]
        assert ContactSet(model, contacts).rows == 3 * len(contacts) + 3 * len(feet)
        assert result.f.shape == result.moment.shape == (LANES + 2, len(contacts), 3) and not result.redundant.any()
        assert (result.smallest_pivot > 0.0).all() and (result.smallest_pivot <= 1.0).all()
        assert result.moment[:, feet].all() and not result.moment[:, points].any()
        for k in range(0, LANES + 2, 3):
            found = result.a[k], result.f[k], result.moment[k]
            residual, size = balance(model, q[k], v[k], tau[k], contacts, *found)
            assert np.abs(residual).max() <= ILL_CONDITIONED * size
            residual, size = constraints(model, q[k], v[k], result.a[k], contacts)
            assert np.abs(residual).max() <= ILL_CONDITIONED * size


@pytest.mark.parametrize("axes", ["local_world_aligned", "local"])
def test_a_foot_holds_as_three_of_its_points_do(axes, rng):
    """At rest: the same accelerations, and the foot's wrench is that of the forces at the points."""
    hyq, _ = load_reference("hyq")
    model, frames = contact_cases.with_points(hyq, [0, 0, 0], rng)
    q, v, tau = (x[0] for x in random_states(model, 1, rng))
    v = np.zeros_like(v)
    a, f, moment, *_ = contact_dynamics(model, q, v, tau, contacts_on(model, frames[:1], rng, (0, 0), axes, rigid=(0,)))
    of_points = contact_dynamics(model, q, v, tau, contacts_on(model, frames, rng, (0, 0)))
    R, origin = dynamics.frame_placement(model, q, frames[0])
    turn = R if axes == "local" else np.eye(3)
    arms = [dynamics.frame_placement(model, q, frame).p - origin for frame in frames]
    assert relative_error(a, of_points.a) <= ORACLE
    assert relative_error(turn @ f[0], of_points.f.sum(axis=0)) <= ORACLE
    assert relative_error(turn @ moment[0], np.cross(arms, of_points.f).sum(axis=0)) <= ORACLE


def test_no_contact_is_forward_dynamics(rng):
    model, _ = load_reference("solo12")
    q, v, tau = random_states(model, 3, rng)
    a, f, moment, pivot, redundant = contact_dynamics(model, q, v, tau, [])
    assert relative_error(a, forward_dynamics(model, q, v, tau)) <= ORACLE
    assert f.shape == moment.shape == (3, 0, 3) and (pivot == 1.0).all() and not redundant.any()


def test_damping_gives_way(rng):
    """J M^-1 J' f + damping f is the same right side as J M^-1 J' f without damping."""
    model, frames = contact_cases.robot("hyq", rng)
    contacts = contacts_on(model, frames, rng)
    q, v, tau = (x[0] for x in random_states(model, 1, rng))
    hard, soft = (contact_dynamics(model, q, v, tau, contacts, damping).f.ravel() for damping in (0.0, 0.3))
    J = jacobian(model, q, contacts)
    S = J @ np.linalg.solve(mass_matrix(model, q), J.T)
    assert relative_error((S + 0.3 * np.eye(12)) @ soft, S @ hard) <= ILL_CONDITIONED


# ------------------------------------------------------------------------------------------------ redundant contacts
@pytest.mark.parametrize("points, rank", [(2, 5), (3, 6), (5, 6)])
def test_points_of_one_body_are_redundant(points, rank, rng):
    """Several points hold a body as two or three do: same accelerations, and the rows left out are counted."""
    hyq, _ = load_reference("hyq")
    model, frames = contact_cases.with_points(hyq, [0] * points, rng)
    contacts = contacts_on(model, frames, rng, (0.0, 0.0))
    q, v, tau = random_states(model, 4, rng)
    a, f, _, pivot, redundant = contact_dynamics(model, q, v, tau, contacts)
    assert (redundant == 3 * points - rank).all() and (pivot < 1e-10).all()
    assert (np.count_nonzero(f.reshape(4, -1), axis=1) == rank).all()
    for k in range(4):
        residual, size = balance(model, q[k], v[k], tau[k], contacts, a[k], f[k])
        assert np.abs(residual).max() <= ILL_CONDITIONED * size
    v[:, 3:6] = 0.0  # without rotation, no centripetal terms that would pull points apart
    a = contact_dynamics(model, q, v, tau, contacts).a
    for k in range(4):
        residual, size = constraints(model, q[k], v[k], a[k], contacts)
        assert np.abs(residual).max() <= 1e-8 * max(size, 1.0)


def test_feet_of_a_fixed_chain_are_redundant(rng):
    """Two feet on one arm of six joints: the first holds it."""
    model, frames = contact_cases.with_points(load_reference("ur5")[0], [5, 3], rng)
    contacts = contacts_on(model, frames, rng, (0.0, 0.0), rigid=(0, 1))
    q, v, tau = random_states(model, 4, rng)
    a, f, moment, pivot, redundant = contact_dynamics(model, q, 0.0 * v, tau, contacts)
    assert (redundant == 6).all() and (pivot < 1e-10).all()
    assert np.abs(a).max() <= ILL_CONDITIONED * np.abs(tau).max() * np.linalg.norm(np.linalg.inv(mass_matrix(model, q)))
    for k in range(4):
        residual, size = balance(model, q[k], 0.0 * v[k], tau[k], contacts, a[k], f[k], moment[k])
        assert np.abs(residual).max() <= ILL_CONDITIONED * size


def test_damping_makes_redundant_contacts_regular(rng):
    hyq, _ = load_reference("hyq")
    model, frames = contact_cases.with_points(hyq, [0, 0, 0], rng)
    q, v, tau = random_states(model, 4, rng)
    result = contact_dynamics(model, q, v, tau, contacts_on(model, frames, rng), damping=1e-3)
    assert not result.redundant.any() and (result.f != 0.0).all()


def test_a_point_that_no_joint_moves_carries_no_force():
    """The axis of a pendulum."""

    builder = dynamics.ModelBuilder()
    builder.add_body("rod", "world", dynamics.Revolute("y"), mass=1.0, com=(0, 0, -0.5), inertia=0.1 * np.eye(3))
    model = builder.build()
    a, f, _, pivot, redundant = contact_dynamics(model, [0.3], [1.0], [0.2], [PointContact(model, "rod")])
    assert relative_error(a, forward_dynamics(model, [0.3], [1.0], [0.2])) <= IDENTITY
    assert not f.any() and pivot == 0.0 and redundant == 3


def test_contacts_of_another_robot(rng):
    model, frames = contact_cases.robot("hyq", rng)
    contacts = contacts_on(model, frames, rng)
    q, v, tau = random_states(model, 2, rng)
    with pytest.raises(ValueError, match="contacts: the set belongs to another model"):
        contact_dynamics(with_armature(model, rng), q, v, tau, ContactSet(model, contacts))


# ------------------------------------------------------------------------------------------------ Pinocchio
@pytest.mark.peer
@pytest.mark.parametrize("gains", [(0.0, 0.0), GAINS])
@pytest.mark.parametrize("axes", ["local_world_aligned", "local"])
@pytest.mark.parametrize("name", ["ur5", "hyq", "solo12", "spherical_tree"])
def test_pinocchio(name, gains, axes, rng):
    pin = pytest.importorskip("pinocchio")
    model, frames = contact_cases.robot(name, rng)
    peer = pinocchio_peer.build(pin, model, load_reference(name)[1])
    for contacts in growing_sets(model, frames, rng, gains, axes):
        state, theirs, datas = pinocchio_peer.contacts(pin, peer, model, contacts)
        q, v, tau = random_states(model, 3, rng)
        a, f, *_ = contact_dynamics(model, q, v, tau, contacts)
        for k in range(3):
            settings = pin.ProximalSettings(1e-14, 0.0, 1)
            expected = pin.constraintDynamics(peer, state, q[k], v[k], tau[k], theirs, datas, settings)
            assert relative_error(a[k], expected) <= ORACLE
            forces = np.concatenate([data.contact_force.linear for data in datas])
            assert relative_error(f[k].ravel(), forces) <= ORACLE
