"""Costs against numpy formulas and central differences."""

import numpy as np
import pytest

from tests.trajopt.cases import NONLINEAR, tip
from tests.trajopt.cost_differences import assert_exact_hessians, assert_gradients, random_trajectory
from tests.trajopt.systems import CirclePendulum, NumpySystem, Pendulum, TipResidual
from trajopt import ControlCost, Problem, ResidualCost, StateCost, expand, total_cost
from trajopt.backward.expansions import adjoint
from trajopt.costs import Quadratic
from trajopt.costs.activations import add_gauss_newton
from trajopt.problem.objective import zero_blocks


class StretchedSystem(NumpySystem):
    """A state whose difference phi(x1) - phi(x0), phi = x + 0.1 x^3, has a curved expansion."""

    nx = ndx = 2
    nu = 1
    euclidean = False

    def __init__(self):
        super().__init__(0.1)

    @staticmethod
    def phi(x):
        return x + 0.1 * x**3

    def difference(self, x0, x1):
        return self.phi(np.asarray(x1)) - self.phi(np.asarray(x0))

    def step(self, x, u):
        return x + self.dt * u

    def linearize(self, xs, us):
        return np.tile(np.eye(2), (len(us), 1, 1)), np.full((len(us), 2, 1), self.dt)

    def hessians(self, xs, us):
        return self.zero_hessians(len(us))

    def difference_expansion(self, x_ref, xs, mu):
        J, H = np.zeros((len(xs), 2, 2)), np.zeros((len(xs), 2, 2))
        for i in range(2):
            J[:, i, i] = 1 + 0.3 * xs[:, i] ** 2
            H[:, i, i] = mu[:, i] * 0.6 * xs[:, i]
        return J, H


def stretched(horizon=5):
    system = StretchedSystem()
    cost = StateCost(system, [0.5, -0.3], [2.0, 0.7])
    return Problem(system, [0.1, 0.2], horizon, [cost, ControlCost(0.1)], [cost])


CASES = {**NONLINEAR, "stretched": stretched}


@pytest.mark.parametrize("name", CASES)
def test_gradients_against_differences(name, rng):
    problem = CASES[name](horizon=4)
    assert_gradients(problem, *random_trajectory(problem, rng))


@pytest.mark.parametrize("name", CASES)
def test_exact_hessians_against_differences_of_gradients(name, rng):
    problem = CASES[name](horizon=4)
    assert_exact_hessians(problem, *random_trajectory(problem, rng))


@pytest.mark.parametrize(
    ("nr", "ndx", "nu", "zeros"), [(1, 1, 1, 0), (3, 2, 1, 1), (6, 12, 6, 6), (4, 14, 7, 3), (12, 17, 5, 0)]
)
@pytest.mark.parametrize("rows", ["one row", "every knot", "full matrix", "full matrices"])
def test_sums_of_products_over_sizes(nr, ndx, nu, zeros, rows, rng):
    K = 3
    Jx, Ju, r = (rng.standard_normal((K, nr, n)) for n in (ndx, nu, 1))
    Jx[:, :, ndx - zeros :] = 0.0
    r, w = r[:, :, 0], rng.uniform(0.1, 1.0, (1 if rows == "one row" else K, nr))
    h = w
    if rows.startswith("full"):
        h = rng.standard_normal((1 if rows == "full matrix" else K, nr, nr))
        h += h.swapaxes(1, 2)
    W = np.broadcast_to(h if h.ndim == 3 else h[:, :, None] * np.eye(nr), (K, nr, nr))
    shapes = (K, ndx), (K, nu), (K, ndx, ndx), (K, nu, ndx), (K, nu, nu)
    lx, lu, lxx, lux, luu = (rng.standard_normal(shape) for shape in shapes)
    start = Quadratic(lx, lu, lxx + lxx.swapaxes(1, 2), lux, luu + luu.swapaxes(1, 2))
    Jx_, Ju_ = Jx.swapaxes(1, 2), Ju.swapaxes(1, 2)
    gradients = np.einsum("tim,tm->ti", Jx_, w * r), np.einsum("tim,tm->ti", Ju_, w * r)
    added = *gradients, Jx_ @ W @ Jx, Ju_ @ W @ Jx, Ju_ @ W @ Ju
    for of_x, of_u in (Jx, Ju), (Jx, None), (None, Ju):
        target = Quadratic(*(block.copy() for block in start))
        add_gauss_newton(w * r, h, 0.3, of_x, of_u, target)
        x, u = of_x is not None, of_u is not None
        for got, before, more, there in zip(target, start, added, (x, u, x, x and u, u), strict=True):
            np.testing.assert_allclose(got, before + 0.3 * there * more, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(target.lxx, target.lxx.swapaxes(1, 2))
    of_states = Quadratic(start.lx.copy(), None, start.lxx.copy(), None, None)
    add_gauss_newton(w * r, h, 0.3, Jx, Ju, of_states)
    np.testing.assert_allclose(of_states.lxx, start.lxx + 0.3 * added[2], rtol=1e-12, atol=1e-12)


def test_gauss_newton_hessian_is_the_product_of_jacobians(rng):
    problem = tip(horizon=3)
    xs, us = random_trajectory(problem, rng)
    J, ru = TipResidual().jacobians(xs[:-1], us)
    w, dt = np.array([0.1, 0.1, 0.01]), problem.system.dt
    e = expand(problem, xs, us)
    np.testing.assert_allclose(e.lxx[:-1], dt * np.einsum("tmi,m,tmj->tij", J, w, J), atol=1e-15)
    np.testing.assert_allclose(e.lux, dt * np.einsum("tmi,m,tmj->tij", ru, w, J), atol=1e-15)
    np.testing.assert_allclose(e.luu, dt * (np.einsum("tmi,m,tmj->tij", ru, w, ru) + 0.1), atol=1e-15)


class Doubled(ResidualCost):
    """A cost with the gradients and Gauss-Newton Hessians of twice another one."""

    def accumulate(self, xs, us, scale, target):
        super().accumulate(xs, us, 2.0 * scale, target)


def test_methods_of_a_derived_class_count_in_every_expansion(rng):
    """Also where both orders go to the same arrays, which costs of the library expand in one pass."""
    system = Pendulum(dt=0.1)
    xs, us = rng.standard_normal((4, 2)), rng.standard_normal((3, 1))
    first, both = [], []
    for cost in ResidualCost(TipResidual(), 1.0), Doubled(TipResidual(), 1.0):
        objective = Problem(system, np.zeros(2), 3, [cost]).objective
        apart, rest, together = (zero_blocks(3, 2, 1) for _ in range(3))
        objective.accumulate(xs, us, apart, rest)
        objective.accumulate(xs, us, together, together)
        first.append(apart)
        both.append(together)
        for a, b, c in zip(apart, rest, together, strict=True):
            np.testing.assert_allclose(a + b, c, rtol=0, atol=1e-12)
    for once, twice in zip(*first, strict=True):
        np.testing.assert_allclose(2.0 * once, twice, rtol=0, atol=1e-12)


def test_total_cost_is_the_sum_of_its_parts(rng):
    system = Pendulum(dt=0.1)
    problem = Problem(
        system, [0, 0], 3, [StateCost(system, [1, 2], [3, 4]), ControlCost(5, 6)], [StateCost(system, [7, 8], 9)]
    )
    xs, us = random_trajectory(problem, rng)
    running = 0.05 * (3 * (xs[:-1, 0] - 1) ** 2 + 4 * (xs[:-1, 1] - 2) ** 2 + 5 * (us[:, 0] - 6) ** 2)
    expected = running.sum() + 4.5 * ((xs[-1] - [7, 8]) ** 2).sum()
    assert total_cost(problem, xs, us) == pytest.approx(expected, rel=1e-14)


def test_total_cost_of_what_is_not_finite_is_inf(rng):
    problem = NONLINEAR["tip"](horizon=3)
    xs, us = random_trajectory(problem, rng)
    for bad in (np.nan, np.inf, -np.inf, 1e200):
        broken = xs.copy()
        broken[1, 1] = bad
        assert total_cost(problem, broken, us * 1e200 if bad == 1e200 else us) == np.inf


@pytest.mark.parametrize("name", NONLINEAR)
def test_adjoint_gradient_against_differences_of_the_objective(name, rng):
    problem, h = NONLINEAR[name](horizon=6), 1e-6
    xs, us = random_trajectory(problem, rng)
    _, gradient = adjoint(expand(problem, xs, us))
    numeric = np.zeros_like(us)
    for t in range(problem.horizon):
        for j in range(problem.system.nu):
            d = np.zeros_like(us)
            d[t, j] = h
            ahead, behind = (
                total_cost(problem, problem.system.rollout(problem.x0, us + s * d), us + s * d) for s in (1, -1)
            )
            numeric[t, j] = (ahead - behind) / (2 * h)
    np.testing.assert_allclose(gradient, numeric, atol=1e-6 * max(1.0, np.abs(gradient).max()))


def test_residual_of_the_wrong_shape_is_refused(rng):
    class Short(TipResidual):
        def evaluate(self, xs, us):
            return super().evaluate(xs, us)[:, :2]

    problem = Problem(Pendulum(), [0, 0], 3, [ResidualCost(Short(), 1.0)])
    with pytest.raises(ValueError, match=r"residual.evaluate: got shape \(3, 2\), expected \(3, 3\)"):
        total_cost(problem, *random_trajectory(problem, rng))


def test_a_control_cost_of_numbers_serves_systems_of_any_size(rng):
    cost = ControlCost(2.0, 0.5)
    for nu in (1, 3):
        us = rng.standard_normal((4, nu))
        np.testing.assert_allclose(cost.value(np.zeros((4, 2)), us), ((us - 0.5) ** 2).sum(axis=1), rtol=1e-14)


def test_exact_in_one_pass_is_both_passes(rng):
    problem = tip()
    xs, us = random_trajectory(problem, rng)
    size = (problem.horizon, problem.system.ndx, problem.system.nu)
    together, apart = zero_blocks(*size), zero_blocks(*size)
    problem.objective.accumulate(xs, us, together, together)
    problem.objective.accumulate(xs, us, apart)
    assert max(np.abs(a - b).max() for a, b in zip(together, apart, strict=True)) > 1e-3
    problem.objective.accumulate(xs, us, None, apart)
    for a, b in zip(together, apart, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_number_is_a_reference_of_all_components():
    system = Pendulum()
    x = np.array([[0.3, -0.4], [1.0, 2.0]])
    for reference in (0.0, 0.5, lambda t: 0.5):
        vector = np.full(2, 0.0 if reference == 0.0 else 0.5)
        one, all_of_it = (StateCost(system, r, [1.0, 3.0]) for r in (reference, vector))
        if not callable(reference):
            assert np.array_equal(one.value(x, None), all_of_it.value(x, None))
            assert one.adjusted(reference=1.0).reference.tolist() == [1.0, 1.0]
        solved = [total_cost(Problem(system, x[0], 1, [], [cost]), x, np.zeros((1, 1))) for cost in (one, all_of_it)]
        assert solved[0] == solved[1]
    with pytest.raises(ValueError, match="reference"):
        StateCost(CirclePendulum(), 0.0, 1.0)
