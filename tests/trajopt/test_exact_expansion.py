"""Expansions with all curvature in place, and the multipliers that sweeps predict for them."""

from dataclasses import replace

import numpy as np
import pytest

import problems
from tests.reference import dense_kkt
from tests.reference.expansions import expand_exactly
from tests.tolerances import IDENTITY, relative_error
from tests.trajopt.cases import cartpole, linear, tip
from trajopt import DDP
from trajopt.backward.expansions import Expansion, adjoint, cost_curvature, expand
from trajopt.solvers.formulation import EXACT, GAUSS_NEWTON, Curvature, Formulation, predicted_gradient, sweep_of_kind

MANY = {
    "no single call": cartpole,
    "curved costs": tip,
    "a floating base": lambda: problems.make("quadrotor"),
    "impacts": lambda: problems.make("quadruped_trot"),
}


@pytest.mark.parametrize("name", MANY)
def test_curvature_in_place_is_the_sum_of_its_parts(name, rng):
    problem = MANY[name]()
    us = problem.us_init + 0.1 * rng.standard_normal(problem.us_init.shape)
    xs = problem.system.rollout(problem.x0, us) if problem.xs_init is None else problem.xs_init
    lam = rng.standard_normal((problem.horizon, problem.system.ndx))
    first, costs = expand(problem, xs, us), cost_curvature(problem, xs, us)
    dynamics = problem.system.hessian_products(xs, us, lam)
    for with_costs in (True, False):
        exact = expand_exactly(problem, xs, us, lam, cost_curvature=with_costs)
        for i in range(4):
            assert relative_error(exact[i], first[i], floor=1e-12) <= IDENTITY
        for H, gauss_newton, of_costs, of_dynamics in zip(exact[4:], first[4:], costs, dynamics, strict=True):
            total = gauss_newton + with_costs * of_costs
            total[: len(of_dynamics)] += of_dynamics
            assert relative_error(H, total, floor=1e-12) <= IDENTITY


@pytest.mark.parametrize("with_gaps", [False, True])
def test_predicted_multiplier_of_a_linear_quadratic_problem_is_exact(with_gaps, rng):
    """Its value function is quadratic: a sweep anywhere knows the gradient everywhere, above all where it leads to."""
    problem = linear(rng)
    us = rng.standard_normal((problem.horizon, 2))
    xs = rng.standard_normal((problem.horizon + 1, 4)) if with_gaps else None
    formulation = Formulation(problem, None, Curvature())
    model = formulation.expand(formulation.start(us, xs))
    assert (model.iterate.gaps is not None) is with_gaps
    sweep = formulation.sweep(model, 0.0)
    elsewhere = us + rng.standard_normal(us.shape)
    for controls in (next(iter(formulation.candidates(model, sweep))).us, elsewhere):
        moved = formulation.start(controls, None)
        multiplier = predicted_gradient(problem, model.iterate, sweep, moved.xs)[1:]
        oracle = formulation.sweep(formulation.expand(moved), 0.0).Vx[1:]
        assert relative_error(multiplier, oracle, floor=1.0) <= 1e-11


def test_predicted_multiplier_errs_by_the_square_of_the_step():
    """Against the Gauss-Newton sweep of where the full step leads, on the way to the optimum of a curved problem."""
    problem = tip()
    optimum = DDP().solve(problem).us
    formulation = Formulation(problem, None, Curvature())
    errors = []
    for size in (1e-2, 1e-3):
        us = optimum + size * np.sin(np.arange(optimum.size)).reshape(optimum.shape)
        model = formulation.expand(formulation.start(us, None))
        sweep = sweep_of_kind(formulation, model, EXACT, 0.0)
        moved = formulation.start(next(iter(formulation.candidates(model, sweep))).us, None)
        predicted = predicted_gradient(problem, model.iterate, sweep, moved.xs)[1:]
        errors.append(np.abs(predicted - dense_kkt_costate(problem, moved)).max())
    assert errors[1] < 0.03 * errors[0]


def dense_kkt_costate(problem, iterate):
    """The costate of a trajectory, which is the multiplier at an optimum."""
    return dense_kkt.costate(problem, iterate.xs, iterate.us)[1:]


@pytest.mark.parametrize("name", ["tip", "quadruped_trot"])
def test_full_steps_need_no_gauss_newton_sweep(name, monkeypatch):
    """After the first exact iteration of a solve that takes full steps there is one sweep an iteration."""
    problem = tip() if name == "tip" else replace(problems.make(name), constraints=())
    sweeps, original = {GAUSS_NEWTON: 0, EXACT: 0}, Formulation.sweep

    def counted(self, model, mu, kind=GAUSS_NEWTON):
        sweeps[kind] += 1
        return original(self, model, mu, kind)

    monkeypatch.setattr("trajopt.solvers.program.program_of", lambda *_: None)  # sweeps are made in Python
    monkeypatch.setattr(Formulation, "sweep", counted)
    solution = DDP().solve(problem)
    assert solution.converged
    exact = [record for record in solution.log if record.step == "exact"]
    before = [record for record in solution.log if record.step != "exact"]
    assert len(exact) >= 2 and all(record.alpha == 1.0 for record in exact[:-1])
    assert sweeps[EXACT] == len(exact)
    assert sweeps[GAUSS_NEWTON] <= len(before) + 1


def test_the_adjoint_of_a_closed_loop_is_that_of_its_first_order(rng):
    """u = us + du + K dx in place of u: fx + fu K and lx + K'lu."""
    N, n, m = 7, 5, 3
    shapes = (N, n, n), (N, n, m), (N + 1, n), (N, m), (N + 1, n, n), (N, m, n), (N, m, m)
    e, K = Expansion(*(rng.standard_normal(shape) for shape in shapes)), rng.standard_normal((N, m, n))
    lx = e.lx.copy()
    lx[:-1] += np.einsum("tij,ti->tj", K, e.lu)
    for mine, plain in zip(adjoint(e, K), adjoint(e._replace(fx=e.fx + e.fu @ K, lx=lx)), strict=True):
        assert relative_error(mine, plain) < IDENTITY
