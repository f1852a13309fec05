"""Linear dynamics and quadratic costs: one step is exact, and textbooks say where it leads."""

import numpy as np
import pytest
import scipy.linalg

from tests.reference import dense_kkt
from tests.trajopt.cases import linear
from tests.trajopt.systems import LinearSystem
from trajopt import DDP, ILQR, ControlCost, Problem, StateCost


@pytest.mark.processor
@pytest.mark.parametrize("solver", [ILQR(), DDP(), DDP(hessian="tensor")])
def test_one_step_solves_the_whole_kkt_system(solver, rng):
    problem = linear(rng)
    solution = solver.solve(problem, us=rng.standard_normal((problem.horizon, 2)))
    oracle = dense_kkt.solve(problem, np.tile(problem.x0, (problem.horizon + 1, 1)), np.zeros_like(solution.us))
    assert solution.converged and solution.iterations == 1
    np.testing.assert_allclose(solution.us, oracle.us, atol=1e-9)
    np.testing.assert_allclose(solution.xs, oracle.xs, atol=1e-9)
    np.testing.assert_allclose(solution.Vx[1:], oracle.lam[1:], atol=1e-8)


def test_value_function_tells_the_cost_from_any_start(rng):
    """V(x0 + dx) = J + Vx'dx + dx'Vxx dx / 2 is exact here: solve again from elsewhere."""
    problem = linear(rng)
    solution = ILQR().solve(problem)
    dx = rng.standard_normal(4)
    moved = Problem(problem.system, problem.x0 + dx, problem.horizon, problem.running_costs, problem.terminal_costs)
    predicted = solution.cost + solution.Vx[0] @ dx + 0.5 * dx @ solution.Vxx[0] @ dx
    assert ILQR().solve(moved).cost == pytest.approx(predicted, rel=1e-10)


def test_long_horizon_approaches_the_algebraic_riccati_equation(rng):
    A, B = np.eye(4) + 0.3 * rng.standard_normal((4, 4)), rng.standard_normal((4, 2))
    q, r = rng.uniform(0.5, 2.0, 4), rng.uniform(0.5, 2.0, 2)
    system = LinearSystem(A, B, dt=1.0)
    solution = ILQR().solve(Problem(system, np.ones(4), 200, [StateCost(system, np.zeros(4), q), ControlCost(r)]))
    P = scipy.linalg.solve_discrete_are(A, B, np.diag(q), np.diag(r))
    np.testing.assert_allclose(solution.Vxx[0], P, rtol=1e-9, atol=1e-9 * np.abs(P).max())
    np.testing.assert_allclose(solution.K[0], -np.linalg.solve(np.diag(r) + B.T @ P @ B, B.T @ P @ A), atol=1e-9)
    assert solution.cost == pytest.approx(0.5 * np.ones(4) @ P @ np.ones(4), rel=1e-9)


def test_an_optimum_of_zero_cost_converges():
    """Nothing to do, and a cost of exactly zero to be relative to."""
    system = LinearSystem([[1.0, 0.1], [0.0, 1.0]], [[0.0], [0.1]], dt=0.1)
    problem = Problem(system, [0, 0], 10, [ControlCost(1.0)], [StateCost(system, [0, 0], 1.0)])
    for us in (None, np.ones((10, 1))):
        solution = DDP().solve(problem, us)
        assert solution.converged
        assert solution.cost <= 1e-24
        np.testing.assert_allclose(solution.us, 0.0, atol=1e-12)
