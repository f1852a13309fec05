"""First derivatives of contact dynamics: differences along the manifold, limits, redundant contacts, Pinocchio."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from dynamics import (
    RigidContact,
    contact_dynamics,
    contact_dynamics_derivatives,
    forward_dynamics_derivatives,
    integrate,
    inverse_dynamics_derivatives,
)
from problems.humanoid_model import FEET, walker
from tests.reference import contact_cases, pinocchio_peer
from tests.reference.contact_cases import GAINS, contacts_on, growing_sets
from tests.reference.random_robots import random_states, random_trees, settings
from tests.reference.rigid_body_models import load_reference
from tests.reference.tangent_differences import along_state
from tests.tolerances import relative_error

DIFFERENCES = 1e-8
ORACLE = 1e-9


def differences(model, q, v, tau, contacts, damping=0.0):
    """Those of a, f and moments, in the order of the results."""
    n, C = model.nv, len(contacts)

    def stacked(result):
        return np.hstack([result.a, result.f.reshape(-1, 3 * C), result.moment.reshape(-1, 3 * C)])

    def at_states(x):
        q, v = np.ascontiguousarray(x[:, : model.nq]), np.ascontiguousarray(x[:, model.nq :])
        return stacked(contact_dynamics(model, q, v, tau, contacts, damping))

    of_x = along_state(model, at_states, np.concatenate([q, v]), 2e-3)
    steps = np.vstack([tau + np.eye(n), tau - np.eye(n)])  # a and f are linear in tau
    up, down = np.split(stacked(contact_dynamics(model, q, v, steps, contacts, damping)), 2)
    z = of_x[:, :n], of_x[:, n:], 0.5 * (up - down).T
    f, moment = ([x[o : o + 3 * C].reshape(C, 3, n) for x in z] for o in (n, n + 3 * C))
    return [*(x[:n] for x in z), *f, *moment]


def check(model, q, v, tau, contacts, damping=0.0):
    derivatives = contact_dynamics_derivatives(model, q, v, tau, contacts, damping)
    expected = differences(model, q, v, tau, contacts, damping)
    for name, value, other in zip(derivatives._fields, derivatives, expected, strict=True):
        floor = max(np.abs(x).max() for x in (derivatives.da_dtau, derivatives.df_dtau, derivatives.dmoment_dtau))
        assert relative_error(value, other, floor) <= DIFFERENCES, name


@pytest.mark.parametrize("axes", ["local_world_aligned", "local"])
@pytest.mark.parametrize("gains", [(0.0, 0.0), GAINS])
@pytest.mark.parametrize("name", contact_cases.HELD)
def test_differences(name, gains, axes, rng):
    model, sets = contact_cases.held(name, rng, gains, axes)
    for contacts in sets:
        q, v, tau = (x[0] for x in random_states(model, 1, rng))
        check(model, q, v, tau, contacts)


def test_differences_with_damping(rng):
    model, frames = contact_cases.robot("hyq", rng)
    q, v, tau = (x[0] for x in random_states(model, 1, rng))
    check(model, q, v, tau, contacts_on(model, frames, rng, rigid=(1,)), damping=0.2)


@pytest.mark.parametrize("rigid, redundant", [((), 3), ((1, 3), 9)])
def test_differences_of_redundant_contacts(rigid, redundant, rng):
    """Rows left out are left out of the derivatives too."""
    model, frames = contact_cases.with_points(load_reference("hyq")[0], [0, 0, 0, 3], rng)
    contacts = contacts_on(model, frames, rng, rigid=rigid)
    q, v, tau = (x[0] for x in random_states(model, 1, rng))
    assert contact_dynamics(model, q, v, tau, contacts).redundant == redundant
    check(model, q, v, tau, contacts)


@settings
@given(
    tree=random_trees(),
    bodies=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    rigid=st.lists(st.integers(0, 3), max_size=2),
)
def test_balance_of_derivatives_on_random_trees(tree, bodies, rigid):
    """Whether contacts are redundant or not:  dID + M da = dtau + J'df, forces and moments being dead loads."""
    model, rng = tree.build()
    model, frames = contact_cases.with_points(model, [body % model.nb for body in bodies], rng)
    contacts = contacts_on(model, frames, rng, rigid=rigid)
    q, v, tau = (x[0] for x in random_states(model, 1, rng))
    a, f, moment, pivot, redundant = contact_dynamics(model, q, v, tau, contacts)
    assert (pivot < 1e-10) == (redundant > 0)
    loads = dict(zip(frames, np.hstack([f, moment]), strict=True))
    dtau_dq, dtau_dv, M = inverse_dynamics_derivatives(model, q, v, a, loads, "local_world_aligned")
    D = contact_dynamics_derivatives(model, q, v, tau, contacts)
    J = contact_cases.jacobian(model, q, contacts)
    feet = contact_cases.feet(contacts)
    of_rows = [np.concatenate([of_f, of_m[feet]]) for of_f, of_m in zip(D[3:6], D[6:], strict=True)]
    for of_id, of_a, of_f in zip((dtau_dq, dtau_dv, -np.eye(model.nv)), D[:3], of_rows, strict=True):
        terms = of_id, M @ of_a, -J.T @ of_f.reshape(len(J), -1)
        assert np.abs(sum(terms)).max() <= ORACLE * max(np.abs(x).max() for x in terms)


def test_no_contact_is_forward_dynamics(rng):
    model, _ = load_reference("spherical_tree")
    q, v, tau = random_states(model, 3, rng)
    derivatives = contact_dynamics_derivatives(model, q, v, tau, [])
    for value, expected in zip(derivatives[:3], forward_dynamics_derivatives(model, q, v, tau), strict=True):
        assert relative_error(value, expected) <= ORACLE
    assert all(x.shape == (3, 0, 3, model.nv) for x in derivatives[3:])


@pytest.mark.peer
@pytest.mark.parametrize("axes", ["local_world_aligned", "local"])
@pytest.mark.parametrize("name", ["ur5", "hyq", "spherical_tree"])
def test_pinocchio_with_feet(name, axes, rng):
    """A resting foot and a resting point, on a moving robot.

    Below spherical joints, with world-aligned axes, Pinocchio 4.0's ddq_dq is not that of its own ddq: tenths off its
    differences, from which ours is 1e-10 away."""
    pin = pytest.importorskip("pinocchio")
    model, frames = contact_cases.footed(name, rng)
    peer = pinocchio_peer.build(pin, model, load_reference(name)[1])
    contacts = contacts_on(model, frames, rng, (0.0, 8.0), axes, rigid=(0,))
    q, v, tau = (x[0] for x in random_states(model, 1, rng))
    J = contact_cases.jacobian(model, q, contacts)
    v = v - np.linalg.pinv(J) @ (J @ v)
    result = contact_dynamics(model, q, v, tau, contacts)
    derivatives = contact_dynamics_derivatives(model, q, v, tau, contacts)
    state, theirs, datas = pinocchio_peer.contacts(pin, peer, model, contacts)
    options = pin.ProximalSettings(1e-14, 0.0, 1)
    a = pin.constraintDynamics(peer, state, q, v, tau, theirs, datas, options)
    pin.computeConstraintDynamicsDerivatives(peer, state, theirs, datas, options)
    assert relative_error(result.a, a, floor=1.0) <= ORACLE
    for i, data in enumerate(datas):
        assert relative_error(result.f[i], data.contact_force.linear) <= ORACLE
    assert relative_error(result.moment[0], datas[0].contact_force.angular) <= ORACLE
    for which, of_a, of_f, of_m in zip(("dq", "dv", "dtau"), *(derivatives[i : i + 3] for i in (0, 3, 6)), strict=True):
        of_lambda = np.concatenate([of_f[0], of_m[0], *of_f[1:]])
        if (name, axes, which) == ("spherical_tree", "local_world_aligned", "dq"):
            continue
        assert relative_error(of_a, getattr(state, f"ddq_{which}"), floor=1e-3) <= ORACLE, which
        assert relative_error(of_lambda, getattr(state, f"dlambda_{which}")) <= ORACLE, which


@pytest.mark.peer
def test_a_humanoid_on_both_soles_in_pinocchio_and_crocoddyl(rng):
    """Accelerations, wrenches and their derivatives, soles at rest on a moving robot."""
    pin, crocoddyl = pytest.importorskip("pinocchio"), pytest.importorskip("crocoddyl")
    robot = walker()
    model, n = robot.model, robot.model.nv
    peer = pinocchio_peer.of_model(pin, model)
    contacts = [RigidContact(model, foot, (0.0, 8.0), (np.eye(3), rng.uniform(-1, 1, 3)), "local") for foot in FEET]
    q = integrate(model, robot.standing, 0.3 * rng.standard_normal(n))
    J = contact_cases.jacobian(model, q, contacts)
    v = (np.eye(n) - np.linalg.pinv(J) @ J) @ rng.standard_normal(n)
    tau = np.r_[np.zeros(6), 50.0 * rng.standard_normal(n - 6)]
    ours = contact_dynamics(model, q, v, tau, contacts)
    wrenches = np.hstack([ours.f, ours.moment])
    derivatives = contact_dynamics_derivatives(model, q, v, tau, contacts)
    of_wrenches = [np.concatenate([*map(np.vstack, zip(*derivatives[i::3][1:], strict=True))]) for i in range(3)]

    state, theirs, datas = pinocchio_peer.contacts(pin, peer, model, contacts)
    options = pin.ProximalSettings(1e-14, 0.0, 1)
    assert relative_error(ours.a, pin.constraintDynamics(peer, state, q, v, tau, theirs, datas, options)) <= ORACLE
    assert relative_error(wrenches, np.array([data.contact_force.vector for data in datas])) <= ORACLE
    pin.computeConstraintDynamicsDerivatives(peer, state, theirs, datas, options)
    for i, which in enumerate(("dq", "dv", "dtau")):
        assert relative_error(derivatives[i], getattr(state, f"ddq_{which}")) <= ORACLE, which
        assert relative_error(of_wrenches[i], getattr(state, f"dlambda_{which}")) <= ORACLE, which

    peer.names[1], numbers = "root_joint", []  # the name by which Crocoddyl knows a floating base
    for frame in map(model.frame, FEET):
        place = pin.SE3(frame.R.copy(), frame.p.copy())
        numbers.append(peer.addFrame(pin.Frame(f"sole {frame.body}", frame.body + 1, 0, place, pin.FrameType.OP_FRAME)))
    space = crocoddyl.StateMultibody(peer)
    held, costs = crocoddyl.ContactModelMultiple(space, n - 6), crocoddyl.CostModelSum(space, n - 6)
    for number, contact in zip(numbers, contacts, strict=True):
        place, gains = pin.SE3(*(part.copy() for part in contact.pose)), np.array(contact.gains)
        foot = crocoddyl.ContactModel6D(space, number, place, pin.ReferenceFrame.LOCAL, n - 6, gains)
        held.addContact(contact.frame, foot)
    motors = crocoddyl.ActuationModelFloatingBase(space)
    action = crocoddyl.DifferentialActionModelContactFwdDynamics(space, motors, held, costs, 0.0, True)
    data, x = action.createData(), np.r_[q, v]
    action.calc(data, x, tau[6:])
    action.calcDiff(data, x, tau[6:])
    assert relative_error(ours.a, data.xout) <= ORACLE
    assert relative_error(np.hstack(derivatives[:2]), data.Fx) <= ORACLE
    assert relative_error(derivatives[2][:, 6:], data.Fu) <= ORACLE


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
        q, v, tau = random_states(model, 2, rng)
        ours = contact_dynamics_derivatives(model, q, v, tau, contacts)
        for k in range(2):
            settings = pin.ProximalSettings(1e-14, 0.0, 1)
            pin.constraintDynamics(peer, state, q[k], v[k], tau[k], theirs, datas, settings)
            pin.computeConstraintDynamicsDerivatives(peer, state, theirs, datas, settings)
            names = ("ddq_dq", "ddq_dv", "ddq_dtau", "dlambda_dq", "dlambda_dv", "dlambda_dtau")
            for value, which in zip(ours[:6], names, strict=True):
                expected = getattr(state, which)
                assert relative_error(value[k].reshape(expected.shape), expected) <= ORACLE, which
