"""Accelerations as the sweep's controls: the same optimum, gains and value function as with torques."""

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from tests.reference import dense_kkt
from trajopt import ControlBounds, Problem, StateBounds

SMALL = {
    "arm": {"horizon": 20, "dt": 0.05},
    "double_pendulum": {"horizon": 40, "dt": 0.05},
    "pendulum": {"horizon": 40, "dt": 0.05},
}
SOLVERS = {
    "ilqr": trajopt.ILQR(), "parallel": trajopt.DDP(), "tensor": trajopt.DDP(hessian="tensor"),
    "gauss_newton": trajopt.DDP(cost_hessian="gauss_newton"),
}  # fmt: skip


def both(name, constraints=(), actuation=None, integrator="semi_implicit_euler"):
    """The problem in torques and in accelerations; costs and start are the same, controls those of B."""
    p = problems.make(name, **SMALL[name])
    made = []
    for formulation in ("forward", "inverse"):
        system = dynamics.RigidBodySystem(p.system.model, p.system.dt, integrator, actuation, formulation=formulation)
        B = np.eye(system.nv) if actuation is None else actuation
        us = np.linalg.solve(B, p.us_init.T).T
        made.append(
            Problem(system, p.x0, p.horizon, p.running_costs, p.terminal_costs, list(constraints), us, name=name)
        )
    return made


def assert_same_solution(inverse, forward, tolerance=1e-6):
    """Trajectory, cost, gains and value function, each relative to its largest entry."""
    assert inverse.converged and forward.converged
    assert inverse.cost == pytest.approx(forward.cost, rel=1e-8)
    for name in ("us", "xs", "K", "Vxx", "Vx"):
        expected = getattr(forward, name)
        np.testing.assert_allclose(
            getattr(inverse, name), expected, rtol=0, atol=tolerance * np.abs(expected).max(), err_msg=name
        )


def nearby(us):
    """The controls, each changed by up to a ten-thousandth."""
    return us * (1.0 + 1e-4 * np.sin(np.arange(us.size))).reshape(us.shape)


@pytest.mark.parametrize("name", SMALL)
def test_same_optimum_gains_and_value_function(name):
    torques, accelerations = both(name)
    forward = trajopt.DDP(tolerance=1e-18, hessian="tensor").solve(torques)
    inverse = trajopt.DDP(tolerance=1e-18).solve(accelerations, us=nearby(forward.us))
    assert inverse.log[-1].step == "exact" and inverse.iterations > 0
    assert_same_solution(inverse, forward)
    assert np.abs(inverse.k).max() < 1e-5 * np.abs(forward.us).max()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", SMALL)
def test_kkt_conditions_in_torques(name, solver):
    """From the problem's own start, by the dynamics as the dense program has them."""
    torques, accelerations = both(name)
    solution = SOLVERS[solver].solve(accelerations)
    assert solution.converged and solution.consistent
    scale = dense_kkt.kkt_residual(torques, torques.system.rollout(torques.x0, torques.us_init), torques.us_init)
    assert dense_kkt.kkt_residual(torques, solution.xs, solution.us) < (1e-5 if solver == "ilqr" else 1e-7) * scale
    gradient = trajopt.backward.expansions.adjoint(trajopt.expand(torques, solution.xs, solution.us))[1]
    assert solution.gradient_norm == pytest.approx(np.abs(gradient).max(), rel=1e-6, abs=1e-12 * scale)
    assert trajopt.ILQR().solve(torques, us=solution.us).cost == pytest.approx(solution.cost, rel=1e-9)


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "explicit_euler"])
@pytest.mark.parametrize("name", ["double_pendulum", "arm"])
def test_with_a_matrix_between_controls_and_torques(name, integrator, rng):
    n = problems.make(name, **SMALL[name]).system.nv
    B = np.eye(n) + 0.3 * rng.standard_normal((n, n))
    torques, accelerations = both(name, actuation=B, integrator=integrator)
    forward = trajopt.DDP(tolerance=1e-18, hessian="tensor").solve(torques)
    inverse = trajopt.DDP(tolerance=1e-18).solve(accelerations, us=nearby(forward.us))
    assert inverse.log[-1].step == "exact"
    assert_same_solution(inverse, forward)


def peak(problem):
    return np.abs(trajopt.DDP().solve(problem).us).max(axis=0)


@pytest.mark.parametrize("name", ["pendulum", "double_pendulum"])
def test_limits_of_torques(name):
    torques, _ = both(name)
    limit = 0.8 * peak(torques)
    torques, accelerations = both(name, [ControlBounds(-limit, limit)])
    forward = trajopt.DDP().solve(torques)
    inverse = trajopt.DDP(complementarity_tolerance=1e-9, feasibility_tolerance=1e-9).solve(
        accelerations, us=forward.us
    )
    assert forward.converged and inverse.converged
    assert forward.constraints[0].active.any()
    assert inverse.cost == pytest.approx(forward.cost, rel=1e-6)
    np.testing.assert_allclose(inverse.us, forward.us, atol=1e-6 * np.abs(forward.us).max())
    expected = forward.constraints[0].multipliers
    np.testing.assert_allclose(inverse.constraints[0].multipliers, expected, atol=1e-4 * np.abs(expected).max())


def test_limits_of_states():
    torques, _ = both("double_pendulum")
    free = trajopt.DDP().solve(torques)
    top = 0.8 * np.abs(free.xs[:, 2:]).max(axis=0)
    bounds = StateBounds(torques.system, [-np.inf, -np.inf, *-top], [np.inf, np.inf, *top])
    torques, accelerations = both("double_pendulum", [bounds])
    forward = trajopt.DDP().solve(torques, us=free.us)
    inverse = trajopt.DDP().solve(accelerations, us=forward.us)
    assert forward.converged and inverse.converged and forward.constraints[0].active.any()
    assert inverse.cost == pytest.approx(forward.cost, rel=1e-6)
    np.testing.assert_allclose(inverse.us, forward.us, atol=1e-4 * np.abs(forward.us).max())


@pytest.mark.parametrize("name", ["double_pendulum", "arm"])
def test_from_states_with_gaps(name, rng):
    torques, accelerations = both(name)
    expected = trajopt.DDP().solve(torques)
    xs = expected.xs + 0.05 * rng.standard_normal(expected.xs.shape)
    solution = trajopt.DDP().solve(accelerations, us=expected.us, xs=xs)
    assert solution.converged and solution.largest_gap == 0.0 and solution.log[0].gap > 0.01
    assert solution.cost == pytest.approx(expected.cost, rel=1e-8)
    rollout = torques.system.rollout(torques.x0, solution.us)
    np.testing.assert_allclose(solution.xs, rollout, atol=1e-7)


@pytest.mark.parametrize("iterations", [0, 1, 2])
def test_gaps_are_reported_truly(iterations, rng):
    _, accelerations = both("double_pendulum")
    system = accelerations.system
    xs = accelerations.x0 + rng.standard_normal((41, 4))
    solution = trajopt.ILQR(max_iterations=iterations).solve(accelerations, xs=xs)
    true = np.vstack([accelerations.x0 - solution.xs[0], system.step(solution.xs[:-1], solution.us) - solution.xs[1:]])
    np.testing.assert_allclose(solution.gaps, true, atol=1e-9 * np.abs(solution.xs).max())
    assert iterations > 0 or np.abs(true).max() > 0.1


def test_controls_that_diverge_end_with_a_name():
    _, accelerations = both("double_pendulum")
    solution = trajopt.DDP().solve(accelerations, us=np.full((40, 2), 1e200))
    assert solution.status == "diverged" and solution.cause
    assert np.isfinite(solution.xs).all()


def test_costs_without_controls_are_regularized():
    """No cost of torques: la = laa = 0, so that Quu comes from the states alone."""
    p, q = both("pendulum")
    only_states = [Problem(x.system, x.x0, 10, x.running_costs[:0], x.terminal_costs) for x in (p, q)]
    forward, inverse = (trajopt.DDP(max_iterations=50).solve(x) for x in only_states)
    assert inverse.status in ("converged", "max_iterations") and np.isfinite(inverse.us).all()
    assert inverse.cost <= 1e-6 + forward.cost
