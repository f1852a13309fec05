"""Problems with control limits: optimality by an adjoint written out here, by scipy, by an augmented Lagrangian."""

import numpy as np
import pytest
from scipy.optimize import minimize

from tests.trajopt.cases import NONLINEAR, cartpole, linear, pendulum, tip
from trajopt import DDP, ILQR, ControlBounds, ControlCost, Problem, StateCost, cost_curvature, expand, total_cost
from trajopt.solvers.solver import HESSIANS

SOLVERS = {"ilqr": ILQR(), **{hessian: DDP(hessian=hessian) for hessian in HESSIANS}}
LIMITS = {"pendulum": 7.6, "circle": 7.6, "tip": 7.0, "cartpole": 1.9}


def limited(problem, lower, upper=None, **options):
    """The problem with limits of its controls."""
    bounds = ControlBounds(lower, upper) if upper is not None else ControlBounds(-np.abs(lower), np.abs(lower))
    return Problem(
        problem.system, problem.x0, problem.horizon, problem.running_costs, problem.terminal_costs,
        [bounds], us_init=options.get("us_init", problem.us_init), name=problem.name,
    )  # fmt: skip


def gradient(problem, us):
    """dJ/du (N, nu) by the adjoint recursion, from the expansion along the rollout of us."""
    e = expand(problem, problem.system.rollout(problem.x0, us), us)
    lam, g = e.lx[-1], np.empty_like(us)
    for t in reversed(range(len(us))):
        g[t], lam = e.lu[t] + e.fu[t].T @ lam, e.lx[t] + e.fx[t].T @ lam
    return g


def projected_gradient(problem, us):
    """What is left of the gradient where no limit holds it."""
    lower, upper = problem.control_limits
    g = gradient(problem, us)
    return np.where(((us == lower) & (g > 0)) | ((us == upper) & (g < 0)), 0.0, g)


@pytest.fixture(scope="module")
def solutions():
    """Every solver on every problem with limits, solved once."""
    return {
        name: {s: solver.solve(limited(make(), LIMITS[name])) for s, solver in SOLVERS.items()}
        for name, make in NONLINEAR.items()
    }


@pytest.mark.parametrize("name", NONLINEAR)
@pytest.mark.parametrize("solver", SOLVERS)
def test_first_order_conditions(name, solver, solutions):
    solution = solutions[name][solver]
    problem = solution.problem
    lower, upper = problem.control_limits
    assert solution.converged
    assert (solution.us >= lower).all() and (solution.us <= upper).all()
    held = (solution.us == lower) | (solution.us == upper)
    assert 3 <= held.sum() < held.size - 3
    free = gradient(problem, problem.us_init)
    left = projected_gradient(problem, solution.us)
    tolerance = 1e-5 if solver == "ilqr" else 1e-7
    assert np.abs(left).max() <= tolerance * np.abs(free).max()
    assert np.abs(gradient(problem, solution.us)).max() > 1e3 * np.abs(left).max()  # the limits matter
    np.testing.assert_allclose(solution.gradient_norm, np.abs(left).max(), atol=1e-9 * np.abs(free).max())


@pytest.mark.parametrize("name", NONLINEAR)
def test_all_solvers_find_the_same_controls(name, solutions):
    best = solutions[name]["tensor"]
    for solver, solution in solutions[name].items():
        assert solution.cost == pytest.approx(best.cost, rel=1e-8), solver
        np.testing.assert_allclose(solution.us, best.us, atol=1e-4 * np.abs(best.us).max(), err_msg=solver)


@pytest.mark.parametrize("name", NONLINEAR)
def test_the_augmented_lagrangian_agrees(name, solutions):
    """The same limits kept by another method, from the problem's own start or from nearby."""
    box = solutions[name]["parallel"]
    for solver in (ILQR(control_limits="augmented_lagrangian"), DDP(control_limits="augmented_lagrangian")):
        solution = solver.solve(box.problem, us=0.9 * box.us)
        assert solution.converged and solution.violation <= 1e-7
        assert solution.cost == pytest.approx(box.cost, rel=1e-6)
        np.testing.assert_allclose(solution.us, box.us, atol=1e-6 * max(1.0, np.abs(box.us).max()))
        (report,), (expected,) = solution.constraints, box.constraints
        np.testing.assert_allclose(
            report.multipliers, expected.multipliers, atol=1e-4 * np.abs(expected.multipliers).max()
        )


@pytest.mark.parametrize("name", NONLINEAR)
def test_multipliers_complete_the_gradient(name, solutions):
    """dJ/du + multiplier = 0, the multiplier positive where the upper limit presses."""
    solution = solutions[name]["parallel"]
    (report,) = solution.constraints
    g = gradient(solution.problem, solution.us)
    np.testing.assert_allclose(report.multipliers, -np.where(report.active, g, 0.0), atol=1e-8 * np.abs(g).max())
    np.testing.assert_allclose(g + report.multipliers, 0.0, atol=1e-6 * np.abs(g).max())
    assert (solution.us[report.multipliers > 0] == report.upper[report.multipliers > 0]).all()
    assert (solution.us[report.multipliers < 0] == report.lower[report.multipliers < 0]).all()
    assert report.violation == 0.0 and report.complementarity == 0.0 and report.name == "control bounds"


@pytest.mark.parametrize("make", [pendulum, tip, cartpole])
def test_against_scipy(make, rng):
    """A few knots, by bounded quasi-Newton on the controls with the adjoint gradient."""
    problem = make(horizon=10)
    low, high = -2.0 - rng.random((10, 1)), 0.3 + 2.0 * rng.random((10, 1))
    problem = limited(problem, low, high)
    oracle = minimize(
        lambda u: total_cost(problem, problem.system.rollout(problem.x0, u[:, None]), u[:, None]),
        np.clip(np.ones(10), low[:, 0], high[:, 0]),
        jac=lambda u: gradient(problem, u[:, None])[:, 0],
        bounds=np.column_stack([low, high]),
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    for solver in (ILQR(), DDP()):
        solution = solver.solve(problem, us=np.clip(np.ones((10, 1)), low, high))
        assert solution.converged
        assert solution.cost == pytest.approx(oracle.fun, rel=1e-7)
        np.testing.assert_allclose(solution.us[:, 0], oracle.x, atol=1e-5 * np.abs(oracle.x).max())


def test_a_linear_problem_is_a_box_qp(rng):
    """Several controls, limits that vary with time: the condensed QP by scipy."""
    problem = linear(rng, horizon=6)
    low, high = -rng.uniform(0.0, 0.5, (6, 2)), rng.uniform(0.0, 0.5, (6, 2))
    problem = limited(problem, low, high)
    oracle = minimize(
        lambda u: total_cost(problem, problem.system.rollout(problem.x0, u.reshape(6, 2)), u.reshape(6, 2)),
        np.zeros(12),
        jac=lambda u: gradient(problem, u.reshape(6, 2)).ravel(),
        bounds=np.column_stack([low.ravel(), high.ravel()]),
        method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-12, "maxiter": 2000},
    )
    solution = DDP().solve(problem)
    assert solution.converged and np.isin(solution.us, [low, high]).any()
    np.testing.assert_allclose(solution.us.ravel(), oracle.x, atol=1e-6)
    assert np.abs(projected_gradient(problem, solution.us)).max() < 1e-9


@pytest.mark.parametrize("name", NONLINEAR)
def test_infinite_limits_are_none(name):
    problem = NONLINEAR[name]()
    free, boxed = DDP().solve(problem), DDP().solve(limited(problem, -np.inf, np.inf))
    assert boxed.converged and boxed.cost == pytest.approx(free.cost, rel=1e-12)
    np.testing.assert_allclose(boxed.us, free.us, atol=1e-7 * np.abs(free.us).max())
    np.testing.assert_allclose(boxed.K, free.K, atol=1e-5 * np.abs(free.K).max())
    assert not boxed.constraints[0].multipliers.any()


def test_wide_limits_are_not_felt():
    free, boxed = DDP().solve(pendulum()), DDP().solve(limited(pendulum(), 1e3))
    assert np.abs(free.us).max() < 1e3
    np.testing.assert_allclose(boxed.us, free.us, atol=1e-7 * np.abs(free.us).max())


def test_initial_controls_beyond_the_limits_are_clipped():
    problem = limited(pendulum(), 5.0)
    far = DDP().solve(problem, us=np.full((40, 1), 80.0))
    start = DDP(max_iterations=0).solve(problem, us=np.full((40, 1), 80.0))
    np.testing.assert_array_equal(start.us, 5.0)
    assert far.converged and (np.abs(far.us) <= 5.0).all()


def test_equal_limits_leave_nothing_to_choose(rng):
    problem = pendulum()
    forced = rng.standard_normal((40, 1))
    solution = DDP().solve(limited(problem, forced, forced))
    assert solution.converged
    np.testing.assert_array_equal(solution.us, forced)
    assert not solution.K.any() and not solution.k.any() and solution.gradient_norm == 0.0


def test_some_controls_fixed_and_some_free(rng):
    """The rest of the controls is optimal, as if the fixed ones were part of the dynamics."""
    problem = linear(rng)
    lower, upper = np.full((15, 2), -np.inf), np.full((15, 2), np.inf)
    lower[:, 1] = upper[:, 1] = 0.1 * rng.standard_normal(15)
    solution = DDP().solve(limited(problem, lower, upper))
    assert solution.converged
    np.testing.assert_array_equal(solution.us[:, 1], lower[:, 1])
    assert np.abs(gradient(problem, solution.us)[:, 0]).max() < 1e-9


def test_two_bounds_mean_both():
    p = pendulum()
    bounds = [ControlBounds(-6.0, np.inf), ControlBounds(-np.inf, 4.0), ControlBounds(-8.0, 8.0)]
    both = Problem(p.system, p.x0, p.horizon, p.running_costs, p.terminal_costs, bounds)
    solution, expected = DDP().solve(both), DDP().solve(limited(p, [-6.0], [4.0]))
    np.testing.assert_array_equal(solution.us, expected.us)
    assert len(solution.constraints) == 3
    g = gradient(both, solution.us)
    np.testing.assert_allclose(sum(r.multipliers for r in solution.constraints) + g, 0.0, atol=1e-6 * np.abs(g).max())


def test_gains_vanish_where_a_limit_holds(solutions):
    solution = solutions["pendulum"]["parallel"]
    held = solution.constraints[0].active
    assert held.any() and not solution.K[held].any()
    assert np.abs(solution.K[~held]).min() > 0.0


def test_the_value_function_knows_the_limits(solutions):
    """Started off the optimal trajectory with as many limits active, the cost is what V says, to third order."""
    solution = solutions["tip"]["tensor"]
    p, errors = solution.problem, []
    for h in (2e-2, 1e-2):
        dx = h * np.array([1.0, -0.5])
        moved = Problem(p.system, p.x0 + dx, p.horizon, p.running_costs, p.terminal_costs, p.constraints)
        again = DDP(tolerance=1e-16).solve(moved, us=solution.us)
        np.testing.assert_array_equal(again.constraints[0].active, solution.constraints[0].active)
        errors.append(abs(again.cost - solution.cost - solution.Vx[0] @ dx - 0.5 * dx @ solution.Vxx[0] @ dx))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(3.0, abs=0.5)


def test_curvature_counts(solutions):
    """Second-order sufficiency on the free controls: the reduced Hessian by differences of the gradient is positive."""
    solution = solutions["tip"]["parallel"]
    free = np.flatnonzero(~solution.constraints[0].active.ravel())
    H = np.empty((len(free), len(free)))
    for column, j in enumerate(free):
        e = np.zeros(solution.us.size)
        e[j] = 1e-5
        e = e.reshape(solution.us.shape)
        ahead, behind = (gradient(solution.problem, solution.us + s * e).ravel() for s in (1.0, -1.0))
        H[:, column] = (ahead - behind)[free] / 2e-5
    assert np.linalg.eigvalsh(0.5 * (H + H.T)).min() > 0.0
    assert np.abs(cost_curvature(solution.problem, solution.xs, solution.us)[0]).max() > 0.0


def test_regularization_does_not_move_the_solution(solutions):
    expected = solutions["cartpole"]["parallel"]
    solution = DDP(initial_regularization=10.0).solve(expected.problem)
    assert solution.converged and solution.log[0].mu == 10.0
    np.testing.assert_allclose(solution.us, expected.us, atol=1e-5 * np.abs(expected.us).max())


@pytest.mark.parametrize(
    ("lower", "upper", "error", "match"),
    [
        (1.0, -1.0, ValueError, r"ControlBounds: got lower 1.0 and upper -1.0, expected lower <= upper"),
        ([0, 2.0], [1.0, 1.0], ValueError, r"got lower 2.0 and upper 1.0 at \(1,\)"),
        (np.nan, 1.0, ValueError, "lower: got nan"),
        (0.0, [1.0, np.nan], ValueError, r"upper\[1\]: got nan"),
        (np.inf, np.inf, ValueError, "expected lower <= upper"),
        (-np.inf, -np.inf, ValueError, "expected lower <= upper"),
        ("low", 1.0, TypeError, "lower: got 'low', expected an array of real numbers"),
        (np.zeros((1, 1, 1)), 1.0, ValueError, r"lower: got shape \(1, 1, 1\)"),
        ([0.0, 0.0], [1.0, 1.0, 1.0], ValueError, r"lower has shape \(2,\) and upper \(3,\), which do not fit"),
    ],
)
def test_bounds_say_what_is_wrong(lower, upper, error, match):
    with pytest.raises(error, match=match):
        ControlBounds(lower, upper)


def test_problems_say_which_bounds_do_not_fit():
    p = pendulum(horizon=5)
    for bounds, match in (
        (ControlBounds([0, 0], [1, 1]), "ControlBounds lower: got 2 numbers, expected 1"),
        (ControlBounds(-np.ones((4, 1)), 1.0), "ControlBounds lower: got 4 rows, expected one per knot it holds at, 5"),
        (ControlBounds(-1.0, np.ones((6, 1))), "ControlBounds upper: got 6 rows"),
    ):
        with pytest.raises(ValueError, match=match):
            Problem(p.system, p.x0, 5, p.running_costs, p.terminal_costs, [bounds])
    with pytest.raises(ValueError, match="no control in common"):
        Problem(p.system, p.x0, 5, constraints=[ControlBounds(-2.0, -1.0), ControlBounds(1.0, 2.0)])
    with pytest.raises(TypeError, match=r"constraints\[1\]: got int, expected ControlBounds"):
        Problem(p.system, p.x0, 5, constraints=[ControlBounds(-1.0, 1.0), 3])
    with pytest.raises(TypeError, match="constraints: got ControlBounds, expected a list"):
        Problem(p.system, p.x0, 5, constraints=ControlBounds(-1.0, 1.0))


def test_options_say_what_is_wrong():
    with pytest.raises(ValueError, match=r"control_limits: got 'boxes', expected one of 'box'.*did you mean 'box'"):
        ILQR(control_limits="boxes")
    with pytest.raises(ValueError, match=r"soft_penalty: got -1\.0, expected a number >= 0"):
        DDP(soft_penalty=-1.0)
    with pytest.raises(ValueError, match="feasibility_tolerance: got -1"):
        DDP(feasibility_tolerance=-1)


def test_limits_with_costs_without_controls():
    """No control cost at all: bang-bang, which the box alone makes solvable."""
    p = pendulum(horizon=15)
    problem = Problem(
        p.system, p.x0, 15, [ControlCost(1e-9)], [StateCost(p.system, [np.pi, 0.0], [50.0, 5.0])],
        [ControlBounds(-3.0, 3.0)],
    )  # fmt: skip
    solution = DDP().solve(problem)
    assert solution.converged
    at_zero = np.abs(gradient(problem, 0 * solution.us)).max()
    assert np.abs(projected_gradient(problem, solution.us)).max() < 1e-7 * at_zero
    assert (np.abs(solution.us) == 3.0).sum() >= 13
