"""The sweep against the numpy reference, and the ways in which it reports that it cannot go on."""

import numpy as np
import pytest

from tests.reference.riccati import STEP, assert_agree, by_products, by_tensors, expansion, riccati
from tests.trajopt.cases import NONLINEAR, cartpole
from trajopt.backward.backward_pass import sweep
from trajopt.backward.expansions import Tensors, expand, tensors_of

SMALL = [(1, 1), (2, 1), (3, 1), (5, 4), (4, 1), (4, 6), (6, 3), (8, 1), (8, 8), (10, 2), (12, 6), (14, 7)]
SIZES = [*SMALL, (18, 9), (36, 12), (36, 18), (46, 23)]
CONSTANT = [(4, 6), (12, 6), (14, 7)]
FORMS = {"dense": 0.0, "structured": STEP}
CASES = [(size, form) for size in SIZES for form in FORMS if form == "dense" or size[0] % 2 == 0]


@pytest.mark.processor
@pytest.mark.parametrize("mu", [0.0, 0.5, 1e4])
@pytest.mark.parametrize(("size", "form"), CASES, ids=str)
def test_agrees_with_reference(size, form, mu):
    h = FORMS[form]
    arrays = expansion(*size, 25, h)
    result = sweep(arrays, mu, h, constant_sizes=False)
    assert result.ok and result.failed_knot == -1
    assert_agree(result, riccati(*arrays, mu))


@pytest.mark.parametrize("h", [0.0, STEP], ids=["dense", "structured"])
@pytest.mark.parametrize("size", CONSTANT, ids=str)
def test_constant_sizes_agree_with_reference(size, h):
    for mu in (0.0, 0.5):
        arrays = expansion(*size, 25, h)
        assert_agree(sweep(arrays, mu, h, constant_sizes=True), riccati(*arrays, mu))


@pytest.mark.parametrize("h", [0.0, STEP], ids=["dense", "structured"])
def test_structured_form_is_read_from_the_lower_halves_only(h):
    arrays = expansion(12, 6, 8, STEP)
    expected = sweep(arrays, 0.0, 0.0)
    if h > 0.0:
        arrays[0][:, :6], arrays[1][:, :6] = np.nan, np.nan
    assert_agree(sweep(arrays, 0.0, h), expected)


@pytest.mark.parametrize("mu", [0.0, 0.3])
@pytest.mark.parametrize("size", [(12, 6), (18, 9)], ids=str)
def test_exactly_symmetric_and_repeatable(size, mu):
    arrays = expansion(*size, 40, STEP)
    first, second = sweep(arrays, mu, STEP), sweep([a.copy() for a in arrays], mu, STEP)
    np.testing.assert_array_equal(first.Vxx, first.Vxx.transpose(0, 2, 1))
    for a, b in zip(first, second, strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_one_knot():
    arrays = expansion(12, 6, 1, STEP)
    assert_agree(sweep(arrays, 0.1, STEP), riccati(*arrays, 0.1))


def broken(what, knot):
    arrays = expansion(12, 6, 10, STEP)
    lxx, luu = arrays[4], arrays[6]
    if what == "indefinite":
        luu[knot] -= 1e3 * np.eye(6)
    elif what == "nan":
        luu[knot, 2, 2] = np.nan
    elif what == "infinite":
        luu[knot, 5, 5] = np.inf
    elif what == "singular":  # two controls that do the same, at no cost
        arrays[1][knot], arrays[5][knot], luu[knot] = arrays[1][knot][:, :1], 0.0, 0.0
    else:
        lxx[knot + 1, 0, 0] = np.nan
    return arrays


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("what", ["indefinite", "nan", "infinite", "singular", "value nan"])
def test_failure_is_reported_and_finite(what, constant):
    result = sweep(broken(what, 4), 0.0, STEP, constant_sizes=constant)
    assert not result.ok and result.failed_knot == 4
    assert all(np.isfinite(a).all() for a in result[:6])


def test_nan_at_the_first_knot_is_noticed():
    arrays = expansion(12, 6, 10, STEP)
    arrays[4][0, 3, 7] = np.nan
    result = sweep(arrays, 0.0, STEP)
    assert not result.ok and result.failed_knot == 0
    assert not np.any(result.Vxx)


def test_regularization_rescues_an_indefinite_problem():
    arrays = broken("indefinite", 4)
    result = sweep(arrays, 2e3, STEP)
    assert result.ok
    assert_agree(result, riccati(*arrays, 2e3), 1e-10)


def test_wrong_shapes_and_layouts():
    arrays = expansion(12, 6, 5)
    expected = sweep(arrays, 0.0)
    fortran = [np.asfortranarray(a) for a in arrays]
    np.testing.assert_array_equal(sweep(fortran, 0.0).K, expected.K)
    with pytest.raises(ValueError, match="shapes"):
        sweep((*arrays[:6], arrays.luu[:-1]), 0.0)


def test_semi_implicit_structure_of_a_system_changes_nothing(rng):
    problem = cartpole(horizon=10)
    us = rng.standard_normal((10, 1))
    e = expand(problem, problem.system.rollout(problem.x0, us), us)
    assert_agree(sweep(e, 0.0, problem.system.dt), riccati(*e, 0.0))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("field", ["fx", "fu", "lx", "lu", "lxx", "lux", "luu"])
def test_numbers_that_are_not_finite_are_reported(field, bad):
    e = expansion(4, 2, 6)
    getattr(e, field)[3] = bad
    assert not sweep(e, 0.0).ok


# ------------------------------------------------------------------------------------------------ its own multiplier
@pytest.mark.parametrize("name", NONLINEAR)
def test_curvature_contracted_with_the_sweeps_own_multiplier(name, rng):
    """Against Hessian products of one knot after another and tensors contracted in numpy, with and without gaps and
    mu; the expansion stays as it is."""
    problem = NONLINEAR[name](horizon=8)
    system = problem.system
    us = 0.1 * rng.standard_normal((8, system.nu))
    xs = system.rollout(problem.x0, us)
    e = expand(problem, xs, us)
    e = e._replace(luu=e.luu + 10.0 * np.eye(system.nu))
    before, tensors = [a.copy() for a in e], tensors_of(system, xs, us)
    for mu, gaps in (0.0, None), (0.5, 1e-3 * rng.standard_normal((9, system.ndx))):
        result = sweep(e, mu, 0.0, gaps, tensors=tensors)
        assert result.ok and result.failed_knot == -1
        for curvature in by_products(system, xs, us), by_tensors(*system.hessians(xs, us)):
            assert_agree(result, riccati(*e, mu, gaps, curvature=curvature), 1e-10)
    for a, b in zip(e, before, strict=True):
        np.testing.assert_array_equal(a, b)


def test_indefinite_curvature_is_reported_at_its_knot():
    e = expansion(12, 6, 10, STEP)
    plain = sweep(e, 0.0, STEP)
    lam = plain.Vx[5]
    tensors = Tensors(np.zeros((10, 12, 12, 12)), np.zeros((10, 12, 6, 12)), np.zeros((10, 12, 6, 6)))
    straight = sweep(e, 0.0, STEP, tensors=tensors)
    for a, b in zip(straight, plain, strict=True):
        np.testing.assert_array_equal(a, b)
    tensors.fuu[4] = -1e3 * lam[:, None, None] / (lam @ lam) * np.eye(6)  # Huu = -1000 I
    result = sweep(e, 0.0, STEP, tensors=tensors)
    assert not result.ok and result.finite and result.failed_knot == 4
    tensors.fuu[4] = np.nan
    result = sweep(e, 0.0, STEP, tensors=tensors)
    assert not result.ok and not result.finite and result.failed_knot == 4
