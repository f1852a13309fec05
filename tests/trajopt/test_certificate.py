"""Minima and saddles: inertia and smallest eigenvalues against dense reduced Hessians, saddles that DDP leaves."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.linalg

import problems
import trajopt
from experiments.sensitivity.dense import DENSE, dense_hessian
from experiments.sensitivity.references import polished_solution
from experiments.sensitivity.saddles import SADDLES, hanging_pendulum
from tests.tolerances import relative_error
from trajopt.results.stationary import stationary_point


@pytest.fixture(scope="module", params=DENSE)
def minimum(request):
    """A problem and its solution."""
    problem = problems.make(request.param)
    return problem, polished_solution(problem, trajopt.DDP().solve(problem))


def test_dense_reduced_hessian(minimum):
    problem, solution = minimum
    H, M = dense_hessian(stationary_point(problem, solution))
    found = solution.certificate()
    least = scipy.linalg.eigh(H, M, eigvals_only=True, subset_by_index=[0, 0])[0]
    assert found.minimum is True and found.negative == 0 and found.direction is None
    tolerance = 1e-6 if not solution.violation and not problem.residual_constraints else 1e-3
    assert abs(found.smallest_eigenvalue / least - 1.0) < tolerance


def test_unstable_motions():
    """A humanoid falls within the plan's time: costates of the open loop would be off by more than their size."""
    problem = problems.make("humanoid_stand")
    solution = trajopt.DDP().solve(problem)
    point = stationary_point(problem, solution)
    assert relative_error(point.costate, solution.Vx) < 1e-6
    assert np.abs(point.gradient[point.held.controls == 0]).max() < 1e-6 < 1e-2 < solution.gradient_norm
    assert solution.certificate().minimum is True


def test_laplace(minimum):
    """Marginals and log determinant against the dense Hessian."""
    problem, solution = minimum
    if problem.residual_constraints:
        return
    point = stationary_point(problem, solution)
    H, _ = dense_hessian(point)
    free = point.held.controls == 0
    laplace = solution.laplace(temperature=2.0)
    variances = np.zeros(free.shape)
    variances[free] = 2.0 * np.diag(np.linalg.inv(H))
    assert relative_error(laplace.control_deviations**2, variances) < 1e-8
    assert abs(laplace.log_determinant - np.linalg.slogdet(H)[1]) < 1e-9 * free.sum()


def test_limits_that_hold_all_controls():
    """Nothing is left that could be lower."""
    problem = replace(problems.make("pendulum"), constraints=[trajopt.ControlBounds(0.5, 0.5)])
    found = trajopt.DDP().solve(problem).certificate()
    assert found.minimum is True and found.smallest_eigenvalue == np.inf and "hold all controls" in found.text


# ------------------------------------------------------------------------------------------------ saddles
@pytest.mark.parametrize("name", SADDLES)
def test_saddles_are_left(name):
    problem = SADDLES[name]()
    for solver in (trajopt.ILQR(), trajopt.DDP(escape=False)):
        stuck = solver.solve(problem)
        assert stuck.converged
        found = stuck.certificate()
        H, M = dense_hessian(stationary_point(problem, stuck))
        eigenvalues = scipy.linalg.eigh(H, M, eigvals_only=True)
        assert found.minimum is False and found.negative == (eigenvalues < 0.0).sum() > 0
        assert abs(found.smallest_eigenvalue / eigenvalues[0] - 1.0) < 1e-5
        du = found.direction.ravel()
        assert abs(du @ H @ du / (du @ M @ du) / eigenvalues[0] - 1.0) < 1e-3
        assert "saddle" in str(found).lower()
        with pytest.raises(ValueError, match=r"no strict minimum of second order .* certificate"):
            stuck.dx0()
    free = trajopt.DDP().solve(problem)
    assert free.converged and free.cost < 0.99 * stuck.cost and free.certificate().minimum
    assert free.gradient_norm < 1e-6
    assert len(free.log) == free.iterations + 1 and free.history("iteration").tolist() == list(range(len(free.log)))
    away = [record for record in free.log if record.step == "escape"]
    assert away and all(record.actual_decrease > 0.0 for record in away) and "off a saddle" in free.explain()


def test_saddles_that_cannot_be_left_are_named():
    """Without iterations left."""
    ended = trajopt.DDP(max_iterations=0).solve(hanging_pendulum())
    assert ended.converged and "A saddle: 1 negative eigenvalue" in ended.message


def test_no_more_iterations_than_allowed_on_the_way_from_a_saddle():
    problem = hanging_pendulum()
    whole = trajopt.DDP().solve(problem)
    for limit in (1, 2, whole.iterations - 1, whole.iterations):
        solution = trajopt.DDP(max_iterations=limit).solve(problem)
        assert solution.iterations <= limit and len(solution.log) == solution.iterations + 1
        assert solution.log[-1].cost == solution.cost


# ------------------------------------------------------------------------------------------------ noise
def test_expected_cost_and_covariance(rng):
    """Against rollouts with noise, gains executed."""
    problem = problems.make("cartpole")
    solution = trajopt.DDP().solve(problem)
    system, N, n = problem.system, problem.horizon, problem.system.ndx
    deviation = 1e-2 * np.sqrt(system.dt)
    found = solution.covariance(deviation**2 * np.eye(n))
    count = 4000
    xs = np.tile(problem.x0, (count, 1))
    costs = np.zeros(count)
    for t in range(N):
        us = solution.us[t] + (xs - solution.xs[t]) @ solution.K[t].T
        for term in problem.running_costs:
            costs += system.dt * term.value(xs, us)
        xs = system.step(xs, us) + deviation * rng.standard_normal((count, n))
    costs += problem.terminal_costs[0].value(xs, None)
    standard_error = costs.std() / np.sqrt(count)
    assert abs(costs.mean() - solution.cost - found.cost_increase) < 4.0 * standard_error + 0.05 * found.cost_increase
    sampled = np.cov((xs - solution.xs[-1]).T)
    assert relative_error(found.xs[-1], sampled) < 0.1


def test_samples_of_the_laplace_approximation(rng):
    solution = trajopt.DDP().solve(problems.make("cartpole"))
    laplace = solution.laplace(temperature=1e-3)
    dx, du = laplace.sample(rng, 4000)
    assert relative_error(np.einsum("ktij->kti", du[..., None]).var(axis=0), laplace.control_deviations**2) < 0.15
    assert relative_error(dx.var(axis=0), laplace.state_deviations**2) < 0.15


def test_bad_input():
    solution = trajopt.DDP().solve(problems.make("pendulum"))
    with pytest.raises(ValueError, match="process_noise: got a matrix with a negative eigenvalue"):
        solution.covariance(-np.eye(2))
    with pytest.raises(ValueError, match="process_noise: got a matrix that is not symmetric"):
        solution.covariance(np.array([[1.0, 0.0], [0.5, 1.0]]))
    with pytest.raises(ValueError, match="initial: got shape"):
        solution.covariance(np.eye(2), np.eye(3))
    with pytest.raises(ValueError, match="temperature: got 0"):
        solution.laplace(0.0)
    with pytest.raises(ValueError, match="got one without its problem"):
        replace(solution, problem=None).certificate()
    with pytest.raises(ValueError, match="got one without its problem"):
        replace(solution, problem=None).covariance(np.eye(2))
