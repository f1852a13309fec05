"""Hessian of w_a'a + w_f'f + w_m'm: differences of the first derivatives on the manifold, limits, brackets, batches."""

import numpy as np
import pytest

from dynamics import contact_dynamics_derivatives, contact_dynamics_hessian, forward_dynamics_hessian
from tests.reference import contact_cases
from tests.reference.contact_cases import GAINS, contacts_on
from tests.reference.lie_brackets import structure_constants
from tests.reference.random_robots import random_states
from tests.reference.rigid_body_models import load_reference
from tests.reference.tangent_differences import along_state
from tests.tolerances import relative_error

DIFFERENCES = 1e-8
SAME = 1e-9


def multipliers(model, contacts, rng, K=1):
    w_a, w_f = rng.uniform(-2, 2, (K, model.nv)), rng.uniform(-2, 2, (K, len(contacts), 3))
    return (w_a[0], w_f[0]) if K == 1 else (w_a, w_f)


def gradients(derivatives, w_a, w_f, w_m=None):
    """Those of w_a'a + w_f'f + w_m'm with respect to q, v and tau."""
    w_m = np.zeros_like(w_f) if w_m is None else w_m
    of_z = zip(derivatives[:3], derivatives[3:6], derivatives[6:], strict=True)
    return [w_a @ a + np.einsum("cr,...crj->...j", w_f, f) + np.einsum("cr,...crj->...j", w_m, m) for a, f, m in of_z]


def check(model, q, v, tau, contacts, w_a, w_f, damping=0.0, w_m=None):
    n = model.nv

    def at_states(x):
        q, v = np.ascontiguousarray(x[:, : model.nq]), np.ascontiguousarray(x[:, model.nq :])
        return np.hstack(gradients(contact_dynamics_derivatives(model, q, v, tau, contacts, damping), w_a, w_f, w_m))

    of_x = along_state(model, at_states, np.concatenate([q, v]), 2e-3)
    H = contact_dynamics_hessian(model, q, v, tau, contacts, w_a, w_f, damping, w_m)
    expected = of_x[:n, :n], of_x[:n, n:], of_x[n : 2 * n, n:], of_x[2 * n :, :n].T
    floor = np.abs(expected[3]).max()
    for name, value, other in zip(H._fields, H, expected, strict=True):
        assert relative_error(value, other, floor) <= DIFFERENCES, name
    assert relative_error(H.Hqv, of_x[n : 2 * n, :n].T, floor) <= DIFFERENCES


@pytest.mark.parametrize("axes", ["local_world_aligned", "local"])
@pytest.mark.parametrize("gains", [(0.0, 0.0), GAINS])
@pytest.mark.parametrize("name", contact_cases.HELD)
def test_differences(name, gains, axes, rng):
    model, sets = contact_cases.held(name, rng, gains, axes)
    for contacts in sets:
        q, v, tau = (x[0] for x in random_states(model, 1, rng))
        w_m = rng.uniform(-2, 2, (len(contacts), 3))
        check(model, q, v, tau, contacts, *multipliers(model, contacts, rng), w_m=w_m)


@pytest.mark.parametrize("rigid", [(), (1, 3)])
@pytest.mark.parametrize("damping", [0.0, 0.2])
def test_differences_of_redundant_contacts(damping, rigid, rng):
    model, frames = contact_cases.with_points(load_reference("hyq")[0], [0, 0, 0, 3], rng)
    contacts = contacts_on(model, frames, rng, rigid=rigid)
    q, v, tau = (x[0] for x in random_states(model, 1, rng))
    check(model, q, v, tau, contacts, *multipliers(model, contacts, rng), damping, rng.uniform(-2, 2, (4, 3)))


def test_no_contact_is_forward_dynamics(rng):
    model, _ = load_reference("spherical_tree")
    q, v, tau, w = random_states(model, 3, rng, vectors=3)
    H = contact_dynamics_hessian(model, q, v, tau, [], w, np.empty((0, 3)))
    for value, expected in zip(H, forward_dynamics_hessian(model, q, v, tau, w), strict=True):
        assert relative_error(value, expected) <= SAME


def test_order_matters_by_the_bracket_inside_a_joint(rng):
    """Hqq[j, k] - Hqq[k, j] = sum_l gradient_l c[l, k, j]."""
    model, frames = contact_cases.robot("joint_zoo", rng)
    contacts = contacts_on(model, frames, rng, axes="local")
    q, v, tau = (x[0] for x in random_states(model, 1, rng))
    w = multipliers(model, contacts, rng)
    Hqq = contact_dynamics_hessian(model, q, v, tau, contacts, *w).Hqq
    gradient = gradients(contact_dynamics_derivatives(model, q, v, tau, contacts), *w)[0]
    expected = np.einsum("l,lkj->jk", gradient, structure_constants(model))
    assert relative_error(Hqq - Hqq.T, expected, floor=np.abs(Hqq).max()) <= SAME
