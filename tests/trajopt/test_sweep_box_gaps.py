"""The sweep with control limits and gaps, against the numpy reference and a dense KKT solve."""

import numpy as np
import pytest

from tests.reference import dense_kkt
from tests.reference.riccati import STEP, assert_agree, assert_agree_or_zero, expansion, random_limits, riccati
from tests.trajopt.cases import linear
from trajopt.backward.backward_pass import box_around, sweep
from trajopt.solvers.formulation import Curvature, Formulation

SIZES = [(4, 1), (12, 6), (14, 7), (6, 9)]
KNOTS = 12


@pytest.mark.parametrize("what", ["box", "gaps", "box and gaps"])
@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("h", [0.0, STEP], ids=["dense", "structured"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_against_the_formulas(size, h, mu, what, rng):
    ndx, nu = size
    arrays = expansion(ndx, nu, KNOTS, h)
    gaps = rng.standard_normal((KNOTS + 1, ndx)) if "gaps" in what else None
    us, lower, upper = random_limits(rng, KNOTS, nu)
    limits = (lower - us, upper - us) if "box" in what else None
    expected = riccati(*arrays, mu, gaps, limits)
    box = box_around(us, lower, upper) if limits is not None else None
    result = sweep(arrays, mu, h, gaps, box)
    assert result.ok
    assert_agree_or_zero(result, expected)
    if limits is not None:
        clamped = expected.clamped
        assert 0 < clamped.sum() < clamped.size
        np.testing.assert_array_equal(box.clamped, clamped)
        assert not result.K[clamped].any()
        assert (result.k >= box.lower).all() and (result.k <= box.upper).all()
        moved = np.clip(us + result.k, lower, upper)
        assert ((moved == lower) | (moved == upper))[clamped].all()  # to the last bit


@pytest.mark.parametrize("size", [(12, 6), (6, 9)], ids=str)
def test_infinite_limits_and_zero_gaps_change_nothing(size):
    arrays = expansion(*size, KNOTS, STEP)
    us, everything = np.zeros((KNOTS, size[1])), np.full((KNOTS, size[1]), np.inf)
    box, gaps = box_around(us, -everything, everything), np.zeros((KNOTS + 1, size[0]))
    assert_agree(sweep(arrays, 0.1, STEP, gaps, box), sweep(arrays, 0.1, STEP))
    assert not box.clamped.any()


def test_indefinite_free_block_is_reported(rng):
    arrays = expansion(12, 6, KNOTS, STEP)
    arrays.luu[5] -= 1e3 * np.eye(6)
    us, lower, upper = random_limits(rng, KNOTS, 6)
    lower, upper = np.full_like(lower, -np.inf), np.full_like(upper, np.inf)
    assert not sweep(arrays, 0.0, STEP, None, box_around(us, lower, upper)).ok
    assert sweep(arrays, 1e4, STEP, None, box_around(us, lower, upper)).ok


def full_step(problem, xs, us):
    """The first iterate and the full step from it."""
    formulation = Formulation(problem, None, Curvature())
    model = formulation.expand(formulation.start(us, xs))
    sweep = formulation.sweep(model, 0.0)
    return model.iterate, sweep, next(formulation.candidates(model, sweep))


def test_a_full_step_of_a_linear_problem_is_its_solution(rng):
    """From any states and controls whatsoever, x_0 among them; and the predicted change is the actual one."""
    problem = linear(rng)
    system, N = problem.system, problem.horizon
    xs, us = rng.standard_normal((N + 1, system.nx)), rng.standard_normal((N, system.nu))
    iterate, sweep, step = full_step(problem, xs, us)
    oracle = dense_kkt.solve(problem, np.vstack([problem.x0, xs[1:]]), us, steps=2)
    assert oracle.history[0] > 1.0 and step.alpha == 1.0
    np.testing.assert_allclose(step.us, oracle.us, atol=1e-9)
    np.testing.assert_allclose(step.xs, oracle.xs, atol=1e-9)
    # Vx belongs to the end of the gap; from there the solution is another xs + gap + dx away
    beyond = step.xs - xs - iterate.gaps
    costate = sweep.Vx + np.einsum("tij,tj->ti", sweep.Vxx, beyond)
    np.testing.assert_allclose(costate[1:], oracle.lam[1:], atol=1e-8)
    change = problem.objective.value(step.xs, step.us) - iterate.cost
    assert sweep.d1 + 0.5 * sweep.d2 == pytest.approx(change, rel=1e-10)


def test_a_partial_step_is_the_interpolation(rng):
    """On a linear problem a step alpha leads to (1 - alpha) of the way's start and alpha of its end."""
    problem = linear(rng)
    xs, us = rng.standard_normal((16, 4)), rng.standard_normal((15, 2))
    formulation = Formulation(problem, None, Curvature())
    model = formulation.expand(formulation.start(us, xs))
    sweep = formulation.sweep(model, 0.0)
    full, *others = formulation.candidates(model, sweep)
    assert len(others) == 7
    for candidate in others:
        alpha = candidate.alpha
        np.testing.assert_allclose(candidate.xs, (1 - alpha) * xs + alpha * full.xs, atol=1e-9)
        np.testing.assert_allclose(candidate.us, (1 - alpha) * us + alpha * full.us, atol=1e-9)
        change = problem.objective.value(candidate.xs, candidate.us) - model.iterate.cost
        assert alpha * sweep.d1 + 0.5 * alpha**2 * sweep.d2 == pytest.approx(change, rel=1e-9)
