"""Solutions of robot problems against the KKT conditions of the whole nonlinear program, by dense linear algebra."""

from dataclasses import replace

import numpy as np
import pytest

import problems
import trajopt
from tests.reference import dense_kkt

SMALL = {
    "arm": {"horizon": 20, "dt": 0.05},
    "cartpole": {"horizon": 20, "dt": 0.05},
    "double_pendulum": {"horizon": 20, "dt": 0.05},
    "pendulum": {"horizon": 20, "dt": 0.05},
}


@pytest.fixture(scope="module", params=SMALL)
def solution(request):
    """A small problem solved by DDP to the rounding of its gradient; the default tolerance is one of the cost alone."""
    return trajopt.DDP(tolerance=1e-20).solve(problems.make(request.param, **SMALL[request.param]))


def test_kkt_conditions_hold(solution):
    assert solution.converged
    assert dense_kkt.kkt_residual(solution.problem, solution.xs, solution.us) < 1e-8
    initial = solution.problem.system.rollout(solution.problem.x0, solution.problem.us_init)
    assert dense_kkt.kkt_residual(solution.problem, initial, solution.problem.us_init) > 1e-2


def test_dense_newton_stays_there(solution):
    """Two Newton steps on all unknowns at once, taken whether needed or not, move nothing."""
    oracle = dense_kkt.solve(solution.problem, solution.xs, solution.us, tolerance=0.0, steps=2)
    assert len(oracle.history) == 3 and max(oracle.history) < 1e-8
    np.testing.assert_allclose(oracle.us, solution.us, atol=1e-7 * np.abs(solution.us).max())
    np.testing.assert_allclose(oracle.xs, solution.xs, atol=1e-7 * np.abs(solution.xs).max())


def test_dense_newton_returns_there(solution, rng):
    """From states and controls moved apart, so that the dynamics do not hold between them."""
    us = solution.us + 1e-4 * np.abs(solution.us).max() * rng.standard_normal(solution.us.shape)
    xs = solution.xs + 1e-4 * rng.standard_normal(solution.xs.shape)
    xs[0] = solution.xs[0]
    oracle = dense_kkt.solve(solution.problem, xs, us, tolerance=1e-10, steps=8)
    assert oracle.history[0] > 1e-4 and oracle.residual <= 1e-9
    np.testing.assert_allclose(oracle.us, solution.us, atol=1e-6 * np.abs(solution.us).max())
    np.testing.assert_allclose(oracle.xs, solution.xs, atol=1e-6 * np.abs(solution.xs).max())


def test_the_minimum_is_strict(solution):
    """The Hessian of the Lagrangian is positive definite on the null space of the linearized dynamics."""
    lam = dense_kkt.costate(solution.problem, solution.xs, solution.us)
    matrix, _ = dense_kkt.assemble(solution.problem, solution.xs, solution.us, lam)
    N, system = solution.problem.horizon, solution.problem.system
    states, unknowns = N * system.ndx, N * (system.ndx + system.nu)
    H, A = matrix[:unknowns, :unknowns], matrix[unknowns:, :unknowns]
    Z = np.vstack([-np.linalg.solve(A[:, :states], A[:, states:]), np.eye(N * system.nu)])
    assert np.linalg.eigvalsh(Z.T @ H @ Z).min() > 0.0


@pytest.mark.parametrize("name", ["pendulum_limits", "unicycle_obstacles"])
@pytest.mark.parametrize("solver", ["ilqr", "parallel"])
def test_the_minimum_under_constraints_is_strict(name, solver, solved):
    """The two solvers may end in minima side by side, as there are several ways past the obstacles."""
    solution = solved(name, solver)
    assert solution.violation < 1e-7 and max(report.complementarity for report in solution.constraints) < 1e-7
    end = dense_kkt.stationarity(solution)
    assert end.gradient < 1e-6 and end.curvature > 1e-5
    unpressed = [report._replace(multipliers=0.5 * report.multipliers) for report in solution.constraints]
    assert dense_kkt.stationarity(replace(solution, constraints=tuple(unpressed))).gradient > 1e-3
