"""Hessians of w'ID and w'FD: the contracted tensors, the stored reference, random trees, linearity, batches."""

import numpy as np
import pytest
from hypothesis import given

from dynamics.algorithms.mass_matrix import inverse_mass_matrix, mass_matrix
from dynamics.derivatives.forward_dynamics import forward_dynamics_hessian, forward_dynamics_second_derivatives
from dynamics.derivatives.hessian import inverse_dynamics_expansion, inverse_dynamics_hessian
from dynamics.derivatives.inverse_dynamics import inverse_dynamics_derivatives
from dynamics.derivatives.second_order import inverse_dynamics_second_derivatives
from tests.reference.lie_brackets import structure_constants
from tests.reference.random_robots import random_states, random_trees, settings, with_armature
from tests.reference.rigid_body_models import load_reference
from tests.tolerances import CONTRACTED, IDENTITY, ORACLE_FORWARD_SECOND_ORDER, ORACLE_SECOND_ORDER, relative_error


def contract_inverse(w, dqdq, dqdv, dvdv, dM_dq):
    """Hqq, Hqv, Hvv, Hqa from tensors (nv, nv, nv)."""
    return [*(np.einsum("i,ijk->jk", w, T) for T in (dqdq, dqdv, dvdv)), np.einsum("i,iak->ka", w, dM_dq)]


def contract_forward(w, *tensors):
    return [np.einsum("i,ijk->jk", w, T) for T in tensors]


PAIRS = {
    "inverse": (inverse_dynamics_hessian, inverse_dynamics_second_derivatives, contract_inverse),
    "forward": (forward_dynamics_hessian, forward_dynamics_second_derivatives, contract_forward),
}


def size_of_sums(w, tensor):
    """What cancels in the contraction: the scale of rounding where the Hessian itself is small or zero."""
    return np.einsum("i,ijk->jk", np.abs(w), np.abs(tensor)).max()


def check(hessian, expected, tensors, w, tolerance, floor=0.0):
    for name, H, E, T in zip(hessian._fields, hessian, expected, tensors, strict=True):
        assert relative_error(H, E, floor=max(size_of_sums(w, T), floor)) <= tolerance, name


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("rotors", [False, True])
def test_contracted_tensors(reference, rng, rotors, pair):
    model, _ = reference
    hessian, second_derivatives, contract = PAIRS[pair]
    model = with_armature(model, rng) if rotors else model
    q, v, a, w = random_states(model, 4, rng, vectors=3)
    H, T = hessian(model, q, v, a, w), second_derivatives(model, q, v, a)
    for k in range(4):
        tensors = [x[k] for x in T]
        check(type(H)(*(x[k] for x in H)), contract(w[k], *tensors), tensors, w[k], CONTRACTED)


def test_inverse_dynamics_of_the_reference(reference, rng):
    model, data = reference
    for k in range(int(data["n_states"])):
        w = rng.uniform(-2, 2, model.nv)
        H = inverse_dynamics_hessian(model, data["q"][k], data["v"][k], data["a"][k], w)
        tensors = [data[key][k] for key in ("d2tau_dqdq", "d2tau_dqdv", "d2tau_dvdv", "dM_dq")]
        check(H, contract_inverse(w, *tensors), tensors, w, ORACLE_SECOND_ORDER)


@pytest.mark.parametrize("name", ["ur5", "hyq", "solo12", "spherical_tree"])
def test_forward_dynamics_of_the_reference(name, rng):
    model, data = load_reference(name)
    w = rng.uniform(-2, 2, model.nv)
    H = forward_dynamics_hessian(model, data["q"][0], data["v"][0], data["tau"][0], w)
    tensors = [data[f"d2ddq_{key}_closed"] for key in ("dqdq", "dqdv", "dvdv")]
    tensors.append(np.swapaxes(data["dMinv_dq_closed"], 1, 2))
    check(H, contract_forward(w, *tensors), tensors, w, ORACLE_FORWARD_SECOND_ORDER)


@settings
@given(tree=random_trees())
def test_random_trees(tree):
    """Where all curvature vanishes, rounding is measured against the mass matrix or its inverse."""
    model, rng = tree.build()
    q, v, a, w = (x[0] for x in random_states(model, 1, rng, vectors=3))
    T = inverse_dynamics_second_derivatives(model, q, v, a)
    floor = np.abs(mass_matrix(model, q)).max()
    check(inverse_dynamics_hessian(model, q, v, a, w), contract_inverse(w, *T), T, w, CONTRACTED, floor)
    T = forward_dynamics_second_derivatives(model, q, v, a)
    floor = np.abs(inverse_mass_matrix(model, q)).max()
    check(forward_dynamics_hessian(model, q, v, a, w), contract_forward(w, *T), T, w, CONTRACTED, floor)


def test_order_matters_by_the_bracket_inside_a_joint(reference, rng):
    """Hqq[j, k] - Hqq[k, j] = sum_l (w'dtau/dq)_l c[l, k, j]."""
    model, _ = reference
    q, v, a, w = random_states(model, 3, rng, vectors=3)
    Hqq = inverse_dynamics_hessian(model, q, v, a, w).Hqq
    gradient = np.einsum("ti,til->tl", w, inverse_dynamics_derivatives(model, q, v, a).dtau_dq)
    expected = np.einsum("tl,lkj->tjk", gradient, structure_constants(model))
    assert relative_error(Hqq - np.swapaxes(Hqq, 1, 2), expected, floor=np.abs(Hqq).max()) <= IDENTITY


@pytest.mark.parametrize("pair", PAIRS)
def test_linear_in_the_multiplier(reference, rng, pair):
    model, _ = reference
    hessian = PAIRS[pair][0]
    q, v, a, w = (x[0] for x in random_states(model, 1, rng, vectors=3))
    parts = hessian(model, q, v, a, np.diag(w))
    for whole, part in zip(hessian(model, q, v, a, w), parts, strict=True):
        size = np.abs(part).sum(axis=0).max()
        assert relative_error(whole, part.sum(axis=0), floor=size) <= CONTRACTED
    for zero in hessian(model, q, v, a, 0 * w):
        assert not zero.any()


def test_expansion_holds_the_first_order_too(reference, rng):
    model, _ = reference
    model = with_armature(model, rng)
    q, v, a, w = random_states(model, 3, rng, vectors=3)
    first, H = inverse_dynamics_expansion(model, q, v, a, w)
    for x, y in zip(first, inverse_dynamics_derivatives(model, q, v, a), strict=True):
        assert relative_error(x, y) <= IDENTITY
    for x, y in zip(H, inverse_dynamics_hessian(model, q, v, a, w), strict=True):
        assert np.array_equal(x, y)
