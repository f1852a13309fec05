"""Cycles of predictive control in one compiled call: the same bits as shifted plans and real-time iterations."""

import warnings

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from trajopt.solvers.cycle import cycle_of
from trajopt.solvers.iteration import LINE_SEARCH_FAILED, MAX_ITERATIONS
from trajopt.solvers.program import NoPieces


def arm(constrained):
    """An arm with limits of its torques; past a ball, and slowly, if constrained."""
    problem = problems.make("arm", horizon=12, dt=0.05)
    limits = [trajopt.ControlBounds.from_model(problem.system)]
    if not constrained:
        return with_constraints(problem, limits)
    away = trajopt.SquaredNorm(dynamics.FrameTranslation(problem.system.model, "tool", [0.9, 0.4, 0.2]))
    slow = trajopt.StateResidual(problem.system, components=range(6, 12))
    return with_constraints(
        problem,
        [
            *limits,
            trajopt.ResidualConstraint(away, lower=0.04, name="ball"),
            trajopt.ResidualConstraint(slow, -2.0, 2.0, name="speeds"),
        ],
    )


def with_constraints(problem, constraints):
    return trajopt.Problem(
        problem.system, problem.x0, problem.horizon, problem.running_costs, problem.terminal_costs,
        constraints=constraints, us_init=problem.us_init,
    )  # fmt: skip


def user_step(x, u):
    return np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * (u[0] - np.sin(x[0]))])


def users():
    system = trajopt.CallableSystem(user_step, nx=2, nu=1, dt=0.1)
    running = [trajopt.StateCost(system, np.array([3.0, 0.0]), np.ones(2)), trajopt.ControlCost(np.ones(1))]
    return trajopt.Problem(system, np.zeros(2), 20, running_costs=running)


CASES = {
    "arm": lambda: arm(False),
    "arm past a ball": lambda: arm(True),
    "quadrotor": lambda: problems.make("quadrotor"),
    "pendulum_limits": lambda: problems.make("pendulum_limits"),
    "user": users,
}


@pytest.mark.parametrize("solver", [trajopt.ILQR(max_iterations=1), trajopt.DDP(max_iterations=1)], ids=["iLQR", "DDP"])
@pytest.mark.parametrize("name", CASES)
def test_same_bits_as_real_time_iterations(name, solver, rng):
    """Also where disturbances are so large that steps are short, or none is found."""
    problem = CASES[name]()
    system, x = problem.system, problem.x0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = trajopt.DDP(max_iterations=100).solve(problem)
    cycle, prepared, outcomes = cycle_of(solver, solver._curvature(), problem, plan), solver.prepare(problem), []
    for i in range(12):
        x = system.step(x, plan.us[0])
        x = system.integrate(x, (1e-3 if i % 4 else 1e-2) * rng.standard_normal(system.ndx))
        plan = prepared.solve(x, warm_start=plan.shifted())
        if problem.control_limits is not None and 0.0 < plan.log[0].alpha < 0.25:
            break  # where the solver holds the controls that limits clip
        outcomes.append(cycle(x))
        for found, expected in ((cycle.xs, plan.xs), (cycle.us, plan.us), (cycle.K, plan.K), (cycle.costate, plan.Vx)):
            assert found.tobytes() == expected.tobytes(), (i, outcomes)
        assert (outcomes[-1] == MAX_ITERATIONS) == (plan.log[0].alpha > 0.0) and outcomes[-1] in (MAX_ITERATIONS, LINE_SEARCH_FAILED)
    assert MAX_ITERATIONS in outcomes


def test_python_inside_is_refused():
    """A cost that nobody can trace."""

    class Cost(trajopt.StateCost):
        def value(self, xs, us):
            return super().value(xs, us)

    problem = problems.make("pendulum")
    running = [Cost(problem.system, np.zeros(2), np.ones(2)), *problem.running_costs]
    other = trajopt.Problem(problem.system, problem.x0, problem.horizon, running_costs=running)
    solver = trajopt.ILQR(max_iterations=1)
    with pytest.raises(NoPieces):
        cycle_of(solver, solver._curvature(), other, solver.solve(other))
