"""The tensors of second derivatives: the stored reference, the Lie order inside joints, differences of first ones."""

import numpy as np
import pytest
from hypothesis import given

from dynamics.algorithms.forward_dynamics import forward_dynamics
from dynamics.derivatives.forward_dynamics import forward_dynamics_derivatives, forward_dynamics_second_derivatives
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives
from dynamics.derivatives.second_order import inverse_dynamics_second_derivatives
from tests.reference.lie_brackets import structure_constants
from tests.reference.random_robots import random_states, random_trees, settings, with_armature
from tests.reference.rigid_body_models import load_reference
from tests.reference.tangent_differences import along_state
from tests.tolerances import (
    IDENTITY,
    ORACLE_FORWARD_SECOND_ORDER,
    ORACLE_SECOND_ORDER,
    SIXTH_ORDER_DIFFERENCES,
    relative_error,
)


def tensors_by_differences(model, first_order, q, v, a, h=1e-2):
    """The four tensors from differences of `first_order(model, qs, vs, a)`, in the order of the named tuples.

    The last is d(third derivative)/dq: of M, or of M^-1."""
    n, nq = model.nv, model.nq

    def stacked(xs):
        return np.stack(first_order(model, xs[:, :nq].copy(), xs[:, nq:].copy(), np.tile(a, (len(xs), 1))), axis=1)

    by_q, by_v, by_last = along_state(model, stacked, np.concatenate([q, v]), h)
    return by_q[..., :n], by_q[..., n:], by_v[..., n:], by_last[..., :n]


# ------------------------------------------------------------------------------------------------ inverse dynamics
def test_inverse_dynamics_of_the_reference(reference):
    model, data = reference
    T = inverse_dynamics_second_derivatives(model, data["q"], data["v"], data["a"])
    for name, tensor in T._asdict().items():
        for k in range(len(tensor)):
            assert relative_error(tensor[k], data[name][k]) <= ORACLE_SECOND_ORDER, name


@pytest.mark.parametrize(
    ("first_order", "second_order", "tolerance"),
    [
        (inverse_dynamics_derivatives, inverse_dynamics_second_derivatives, IDENTITY),
        (forward_dynamics_derivatives, forward_dynamics_second_derivatives, ORACLE_FORWARD_SECOND_ORDER),
    ],
)
def test_order_matters_by_the_bracket_inside_a_joint(reference, rng, first_order, second_order, tolerance):
    """T[i, j, k] - T[i, k, j] = sum_l dtau_i/dq_l c[l, k, j]; symmetric in j, k where c = 0."""
    model, _ = reference
    point = random_states(model, 3, rng)
    T, by_q = second_order(model, *point)[0], first_order(model, *point)[0]
    expected = np.einsum("til,lkj->tijk", by_q, structure_constants(model))
    assert relative_error(T - np.swapaxes(T, 2, 3), expected, floor=np.abs(T).max()) <= tolerance


def test_symmetries_and_homogeneity(reference, rng):
    model, _ = reference
    q, v, a = random_states(model, 3, rng)
    T = inverse_dynamics_second_derivatives(model, q, v, a)
    size = np.abs(T.d2tau_dvdv).max()
    assert relative_error(np.swapaxes(T.d2tau_dvdv, 2, 3), T.d2tau_dvdv) <= IDENTITY
    assert relative_error(np.swapaxes(T.dM_dq, 1, 2), T.dM_dq) <= IDENTITY
    dtau_dv = inverse_dynamics_derivatives(model, q, v, a).dtau_dv
    assert relative_error(np.einsum("tijk,tk->tij", T.d2tau_dvdv, v), dtau_dv, floor=size) <= IDENTITY
    dtau_dq, at_rest = (inverse_dynamics_derivatives(model, q, x, a).dtau_dq for x in (v, 0 * v))
    coriolis = np.einsum("tijk,tk->tij", T.d2tau_dqdv, v)
    assert relative_error(coriolis, 2 * (dtau_dq - at_rest), floor=np.abs(dtau_dq).max()) <= IDENTITY


def test_armature_has_no_curvature(reference, rng):
    model, data = reference
    heavier = with_armature(model, rng)
    arguments = data["q"], data["v"], data["a"]
    for one, other in zip(
        inverse_dynamics_second_derivatives(model, *arguments),
        inverse_dynamics_second_derivatives(heavier, *arguments),
        strict=True,
    ):
        assert np.array_equal(one, other)


@settings
@given(tree=random_trees())
def test_inverse_dynamics_of_random_trees_by_differences(tree):
    model, rng = tree.build()
    q, v, a = (x[0] for x in random_states(model, 1, rng))
    first = inverse_dynamics_derivatives(model, q, v, a)
    size = max(np.abs(x).max() for x in first)
    expected = tensors_by_differences(model, inverse_dynamics_derivatives, q, v, a)
    T = inverse_dynamics_second_derivatives(model, q, v, a)
    for name, tensor, difference in zip(T._fields, T, expected, strict=True):
        assert relative_error(tensor, difference, floor=size) <= SIXTH_ORDER_DIFFERENCES, name


# ------------------------------------------------------------------------------------------------ forward dynamics
@pytest.mark.parametrize("name", ["ur5", "hyq", "solo12", "spherical_tree"])
def test_forward_dynamics_of_the_reference(name):
    model, data = load_reference(name)
    T = forward_dynamics_second_derivatives(model, data["q"][0], data["v"][0], data["tau"][0])
    expected = {
        "d2a_dqdq": data["d2ddq_dqdq_closed"],
        "d2a_dqdv": data["d2ddq_dqdv_closed"],
        "d2a_dvdv": data["d2ddq_dvdv_closed"],
        "d2a_dqdtau": np.swapaxes(data["dMinv_dq_closed"], 1, 2),
    }
    for key, value in expected.items():
        assert relative_error(getattr(T, key), value) <= ORACLE_FORWARD_SECOND_ORDER, key
    # the torque tensor once more, by the difference quotients that carry their own error estimate
    error, estimate = np.abs(T.d2a_dqdtau - data["d2ddq_dqdtau"]), data["d2ddq_dqdtau_err"]
    assert (error <= 10 * estimate + 1e-9 * np.abs(data["d2ddq_dqdtau"]).max()).all()


@pytest.mark.parametrize("name", ["panda", "joint_zoo", "spherical_tree"])
def test_forward_dynamics_by_differences(name):
    model, data = load_reference(name)
    q, v, tau = data["q"][1], data["v"][1], data["tau"][1]
    T = forward_dynamics_second_derivatives(model, q, v, tau)
    *expected, dMinv_dq = tensors_by_differences(model, forward_dynamics_derivatives, q, v, tau, h=2e-3)
    for key, tensor, difference in zip(T._fields, T, [*expected, np.swapaxes(dMinv_dq, 1, 2)], strict=True):
        assert relative_error(tensor, difference) <= SIXTH_ORDER_DIFFERENCES, key


def test_forward_from_inverse(reference, rng):
    """M d2a + d2ID + (mixed terms) = 0 along random directions, with rotor inertias."""
    model, _ = reference
    model = with_armature(model, rng)
    q, v, tau = (x[0] for x in random_states(model, 1, rng))
    a = forward_dynamics(model, q, v, tau)
    S = forward_dynamics_second_derivatives(model, q, v, tau)
    T = inverse_dynamics_second_derivatives(model, q, v, a)
    M = inverse_dynamics_derivatives(model, q, v, a).M
    A, B, Minv = forward_dynamics_derivatives(model, q, v, tau)
    qq = T.d2tau_dqdq + np.einsum("ilj,lk->ijk", T.dM_dq, A) + np.einsum("ilk,lj->ijk", T.dM_dq, A)
    qv = T.d2tau_dqdv + np.einsum("ilj,lk->ijk", T.dM_dq, B)
    qtau = np.einsum("ilj,lk->ijk", T.dM_dq, Minv)
    for tensor, rest in zip(S, (qq, qv, T.d2tau_dvdv, qtau), strict=True):
        moved = np.einsum("il,ljk->ijk", M, tensor)
        assert relative_error(moved, -rest, floor=np.abs(M).max() * np.abs(tensor).max()) <= IDENTITY


# ------------------------------------------------------------------------------------------------ use
