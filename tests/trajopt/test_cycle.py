"""Cycles of predictive control in one compiled call: the same bits as shifted plans and real-time iterations."""

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics.simd import by_address
from dynamics.simd.prepared_calls import PreparedCall, enter
from trajopt.rows import pack
from trajopt.solvers.augmented_lagrangian import Multipliers, weigh_active
from trajopt.solvers.cycle import cycle_of
from trajopt.solvers.iteration import ENDS, MAX_ITERATIONS
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


@pytest.mark.parametrize("soft", [0.0, 1e2], ids=["hard", "soft"])
@pytest.mark.parametrize("kind", [trajopt.ILQR, trajopt.DDP], ids=["iLQR", "DDP"])
@pytest.mark.parametrize("name", CASES)
def test_same_bits_as_real_time_iterations(name, kind, soft, rng):
    """Also where disturbances are so large that steps are short, or none is found."""
    problem, solver = CASES[name](), kind(max_iterations=1, soft_penalty=soft)
    system, x = problem.system, problem.x0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = trajopt.DDP(max_iterations=100, soft_penalty=soft).solve(problem)
    cycle, prepared, outcomes = cycle_of(solver, solver._curvature(), problem, plan), solver.prepare(problem), []
    for i in range(12):
        x = system.step(x, plan.us[0])
        x = system.integrate(x, (1e-3 if i % 4 else 1e-2) * rng.standard_normal(system.ndx))
        plan = prepared.solve(x, warm_start=plan.shifted())
        outcomes.append(cycle(x))
        if cycle.program.state["asked"][0] > 0:
            break  # where the solver holds the controls that limits clip
        for found, expected in ((cycle.xs, plan.xs), (cycle.us, plan.us), (cycle.K, plan.K), (cycle.costate, plan.Vx)):
            assert found.tobytes() == expected.tobytes(), (i, outcomes)
        assert ENDS[outcomes[-1]] == plan.status
    assert MAX_ITERATIONS in outcomes


@by_address
def counted(count, address):
    count[0] += 1
    enter(address)


def sweeps_at_steps_of(cycle):
    """Number of sweeps at steps of a cycle's model, which is written from now on, and what is to be kept for that."""
    count, search = np.zeros(1, np.int64), cycle.program._search
    place = next(i for i, x in enumerate(search.run.arguments) if x == search.parts[3].address)
    call = PreparedCall(counted, count, search.parts[3].address)
    search.run.set(place, call.address)
    return count, call


@pytest.mark.parametrize("solver", [trajopt.ILQR(max_iterations=1), trajopt.DDP(max_iterations=1)], ids=["iLQR", "DDP"])
def test_arm_stays_beside_the_ball_with_few_more_sweeps(solver, rng):
    """Ranges, speeds and distances within their limits but for what disturbances do, by a plan that costs no more than
    a hundredth above the best."""
    problem = problems.make("arm_obstacle")
    system, x, plan = problem.system, problem.x0, trajopt.DDP().solve(problem)
    cycle = cycle_of(solver, solver._curvature(), problem, plan)
    (count, _kept), xs, us, sweeps, u = sweeps_at_steps_of(cycle), [x], [], [], plan.us[0]
    for _ in range(60):
        us.append(u)
        x = system.integrate(system.step(x, u), 1e-4 * rng.standard_normal(system.ndx))
        xs.append(x)
        count[0] = 0
        assert cycle(x) == MAX_ITERATIONS
        sweeps.append(int(count[0]))
        u = cycle.us[0].copy()
    assert sweeps.count(0) > 30 and max(sweeps) <= 4
    X, U = np.array(xs), np.array(us)
    rows = pack(problem, problem.residual_constraints)
    for start in (0, 20):  # of as many knots as the plan has
        values = rows.values(X[start : start + 41], U[start : start + 40])
        assert np.abs(rows.violations(values)).max() < 1e-3
    best = trajopt.DDP().solve(solver.prepare(problem).at(x), cycle.us.copy())
    assert best.converged
    assert problem.objective.value(cycle.xs, cycle.us) == pytest.approx(best.cost, rel=1e-2)


def test_active_set_of_multipliers():
    """Terms as those of the same sides, given as such; rows that are far from being met are active without one."""
    lower = np.array([-1.0, -1.0, -np.inf, 0.5, -1.0, -1.0, -1.0])
    upper = np.array([1.0, 1.0, 2.0, 0.5, 1.0, 1.0, np.inf])
    lam = np.array([3.0, -2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    c = np.array([0.99, -1.0, 2.0001, 0.6, 1.5, 0.3, -1.5])
    p, w = np.empty((2, 7))
    weigh_active(c, lower, upper, lam, 10.0, p, w)

    rows: Any = SimpleNamespace(lower=lower, upper=upper)
    _, expected = Multipliers(lam, lam, 10.0).weights(rows, c, np.array([1, -1, 0, 1, 1, 0, -1]))
    np.testing.assert_allclose(p, expected.p, rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(w, expected.w)


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
