"""Problems with constraints against sequential quadratic programming, and against the conditions of an optimum."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tests.trajopt.cases import linear, pendulum
from tests.trajopt.constrained_cases import CASES, Condensed, DistanceResidual, several, speed_limit
from tests.trajopt.systems import LinearSystem, Pendulum, TipResidual
from trajopt import (
    DDP,
    ILQR,
    ControlBounds,
    ControlResidual,
    Problem,
    ResidualConstraint,
    Solution,
    StateBounds,
    StateResidual,
    Status,
)
from trajopt.backward.expansions import Expansion
from trajopt.problem.objective import zero_blocks
from trajopt.rows import pack, with_terms
from trajopt.solvers.augmented_lagrangian import Multipliers
from trajopt.solvers.solver import HESSIANS

SOLVERS = {"ilqr": ILQR(), **{hessian: DDP(hessian=hessian) for hessian in HESSIANS}}


@pytest.fixture(scope="module")
def solutions():
    return {name: {s: solver.solve(make()) for s, solver in SOLVERS.items()} for name, make in CASES.items()}


@pytest.fixture(scope="module")
def oracles(solutions):
    """scipy's solutions, from a start that is not ours."""
    found = {}
    for name, of_solver in solutions.items():
        us = of_solver["parallel"].us
        moved = us + 0.05 * np.abs(us).max() * np.sin(np.arange(us.size)).reshape(us.shape)
        found[name] = Condensed(CASES[name]()).scipy(moved)
        assert found[name].status == 0, found[name].message
    return found


def stationarity(solution):
    """dL/du with the reported multipliers, and dJ/du."""
    condensed, u = Condensed(solution.problem), solution.us.ravel()
    g = condensed.gradient(u)
    total = g.copy()
    for report, constraint in zip(solution.constraints, solution.problem.constraints, strict=True):
        if isinstance(constraint, ControlBounds):
            total += report.multipliers.ravel()
        else:
            np.testing.assert_allclose(report.values.ravel(), condensed.values(constraint, u), atol=1e-12)
            total += condensed.jacobian(constraint, u).T @ report.multipliers.ravel()
    return total, g


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", CASES)
def test_same_optimum_as_scipy(name, solver, solutions, oracles):
    solution, oracle = solutions[name][solver], oracles[name]
    assert solution.converged
    assert solution.cost == pytest.approx(oracle.fun, rel=1e-5)
    np.testing.assert_allclose(solution.us.ravel(), oracle.x, atol=1e-4 * np.abs(oracle.x).max())


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("name", CASES)
def test_conditions_of_an_optimum(name, solver, solutions):
    """Feasible, complementary, stationary, and every multiplier on the side of its limit."""
    solution = solutions[name][solver]
    total, g = stationarity(solution)
    assert np.abs(total).max() <= 2e-6 * np.abs(g).max()
    assert solution.gradient_norm == pytest.approx(np.abs(total).max(), abs=1e-7 * np.abs(g).max())
    assert solution.violation <= 1e-7
    pressed = 0
    for report in solution.constraints:
        lam, r = report.multipliers, report.values
        assert report.violation <= 1e-7 and report.complementarity <= 1e-7
        np.testing.assert_allclose(r[lam > 0], report.upper[lam > 0], atol=1e-6)
        np.testing.assert_allclose(r[lam < 0], report.lower[lam < 0], atol=1e-6)
        pressed += int((np.abs(lam) > 1e-6).sum())
    assert pressed > 0


@pytest.mark.parametrize("name", CASES)
def test_the_constraints_matter(name, solutions):
    """Without them the cost would be lower: so it is, and some constraint is then violated."""
    p = solutions[name]["parallel"].problem
    free = DDP().solve(Problem(p.system, p.x0, p.horizon, p.running_costs, p.terminal_costs))
    assert free.cost < solutions[name]["parallel"].cost * (1 - 1e-4)


def test_several_kinds_are_active_at_once(solutions):
    reports = solutions["several"]["parallel"].constraints
    assert [r.name for r in reports] == ["control bounds", "obstacle", "arrival", "state bounds"]
    assert all(report.active.any() for report in reports)
    assert reports[0].penalty == 0.0 and all(report.penalty > 0 for report in reports[1:])


def test_multipliers_are_prices(solutions):
    """The cost changes by minus the multiplier times the limit's change [sensitivity theorem], to second order."""
    solution, changes = solutions["speed limit"]["tensor"], []
    p, lam = solution.problem, solution.constraints[0].multipliers.sum()
    for h in (1e-2, -1e-2):
        bounds = StateBounds(p.system, [-np.inf, -2.5], [np.inf, 2.5 + h])
        moved = Problem(p.system, p.x0, p.horizon, p.running_costs, p.terminal_costs, [bounds])
        changes.append(DDP().solve(moved).cost - solution.cost)
    assert lam > 0.0
    assert (changes[0] - changes[1]) / 2e-2 == pytest.approx(-lam, rel=1e-3)


def test_equality_multipliers_against_a_dense_kkt_solve(rng):
    """A linear-quadratic problem with linear equalities: one linear system gives controls and multipliers."""
    p = linear(rng, horizon=8)
    constraints = [
        ResidualConstraint(StateResidual(p.system, rng.standard_normal(4), [0, 2]), at="terminal", name="end"),
        ResidualConstraint(ControlResidual(p.system), [-np.inf, 0.2], [np.inf, 0.2], name="second control"),
    ]
    p = Problem(p.system, p.x0, 8, p.running_costs, p.terminal_costs, constraints)
    condensed, u = Condensed(p), np.zeros(16)
    g = condensed.gradient(u)
    H = np.column_stack([condensed.gradient(e) - g for e in np.eye(16)])
    end, second = p.constraints
    A = np.vstack([condensed.jacobian(end, u), condensed.jacobian(second, u)[1::2]])
    d = np.concatenate([condensed.values(end, u), condensed.values(second, u)[1::2] - 0.2])
    oracle = np.linalg.solve(np.block([[H, A.T], [A, np.zeros((10, 10))]]), -np.concatenate([g, d]))
    for solver in (ILQR(), DDP()):
        solution = solver.solve(p)
        assert solution.converged
        np.testing.assert_allclose(solution.us.ravel(), oracle[:16], atol=1e-6)
        lam = np.concatenate([solution.constraints[0].multipliers.ravel(), solution.constraints[1].multipliers[:, 1]])
        np.testing.assert_allclose(lam, oracle[16:], atol=1e-5 * np.abs(lam).max())
        assert not solution.constraints[1].multipliers[:, 0].any()


# ------------------------------------------------------------------------------------------------ the terms
RESIDUALS = {
    "tip": (Pendulum(), TipResidual(), 1),
    "distance": (LinearSystem(np.eye(4), np.eye(4, 2)), DistanceResidual([0.3, 5.0]), 2),
    "state": (Pendulum(), StateResidual(Pendulum(), [0.5, 0.5]), 1),
    "control": (Pendulum(), ControlResidual(Pendulum(), 0.1), 1),
}


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", RESIDUALS)
def test_gradient_and_hessian_of_the_terms(name, exact, rng):
    """Gradients, and with curvature Hessians, by differences; multipliers and limits such that each side presses."""
    system, residual, nu = RESIDUALS[name]
    at = "path" if name == "control" else "all"
    nr = residual.nr
    lower, upper = -0.2 * np.ones(nr), 0.3 * np.ones(nr)
    upper[0] = lower[0]
    problem = Problem(system, np.zeros(system.nx), 4, constraints=[ResidualConstraint(residual, lower, upper, at=at)])
    rows = pack(problem, problem.residual_constraints).scaled_at(rng.standard_normal((5, system.nx)), np.ones((4, nu)))
    multipliers = Multipliers(np.zeros(len(rows)), rng.standard_normal(len(rows)), 3.0)
    z = rng.standard_normal((5, system.nx + nu))

    def points(z):
        return z[:, : system.nx].copy(), z[:4, system.nx :].copy()

    def gradient(z):
        c, *C = rows.linearized(*points(z))
        _, weights = multipliers.weights(rows, c)
        n = system.ndx
        nothing = Expansion(np.zeros((4, n, n)), np.zeros((4, n, nu)), *zero_blocks(4, n, nu))
        blocks = with_terms(nothing, rows.first, C, weights)[2:]
        if exact:
            rows.add_curvature(*points(z), weights.p, blocks)
        return blocks

    def value(z):
        return multipliers.value(rows, rows.values(*points(z)))

    lx, lu, lxx, lux, luu = gradient(z)
    sizes = []
    for _ in range(6):
        d, h = rng.standard_normal(z.shape), 1e-6
        dx, du = d[:, : system.nx], d[:4, system.nx :]
        slope = (value(z + h * d) - value(z - h * d)) / (2 * h)
        assert (lx * dx).sum() + (lu * du).sum() == pytest.approx(slope, rel=1e-6, abs=1e-7)
        if exact:
            ahead, behind = gradient(z + h * d), gradient(z - h * d)
            Hx, Hu = (np.asarray(a - b) / (2 * h) for a, b in zip(ahead[:2], behind[:2], strict=True))
            expected = np.einsum("tij,tj->ti", lxx, dx)
            expected[:4] += np.einsum("tij,ti->tj", lux, du)
            np.testing.assert_allclose(expected, Hx, rtol=1e-5, atol=1e-6)
            expected = np.einsum("tij,tj->ti", lux, dx[:4]) + np.einsum("tij,tj->ti", luu, du)
            np.testing.assert_allclose(expected, Hu, rtol=1e-5, atol=1e-6)
            sizes.append(np.abs(Hx).max() + np.abs(Hu).max())
    assert not exact or max(sizes) > 0.1


def test_the_update_makes_the_lagrangian_stationary(rng):
    """Gradient of the augmented term = updated multiplier times the Jacobian."""
    system, tip = Pendulum(), TipResidual()
    problem = Problem(system, [0, 0], 4, constraints=[ResidualConstraint(tip, -0.2, 0.3)])
    rows = pack(problem, problem.residual_constraints)
    multipliers = Multipliers(np.zeros(len(rows)), rng.standard_normal(len(rows)), 7.0)
    xs, us = rng.standard_normal((5, 2)), rng.standard_normal((4, 1))
    c, *C = rows.linearized(xs, us)
    _, weights = multipliers.weights(rows, c)
    nothing = Expansion(np.zeros((4, 2, 2)), np.zeros((4, 2, 1)), *zero_blocks(4, 2, 1))
    blocks = with_terms(nothing, rows.first, C, weights)[2:]
    (lam,) = rows.unpacked(weights.p)
    rx, ru = tip.jacobians(xs[:4], us)
    np.testing.assert_allclose(blocks[0][:4], np.einsum("ti,tij->tj", lam, rx), atol=1e-12)
    np.testing.assert_allclose(blocks[1], np.einsum("ti,tij->tj", lam, ru), atol=1e-12)
    assert lam.any() and not blocks[0][4].any()
    r = tip.evaluate(xs[:4], us)
    assert (lam[r > 0.6] >= 0.0).all()


# ------------------------------------------------------------------------------------------------ ends
def impossible():
    """Name: problem whose constraints cannot all hold."""
    p, s = pendulum(horizon=15), Pendulum()

    def with_constraints(*constraints):
        return Problem(s, p.x0, 15, p.running_costs, p.terminal_costs, constraints)

    return {
        "too weak": with_constraints(
            ControlBounds(-0.1, 0.1), ResidualConstraint(StateResidual(s, [np.pi, 0.0]), at="terminal")
        ),
        "apart": with_constraints(
            StateBounds(s, [-np.inf, -9], [np.inf, 4]), StateBounds(s, [-np.inf, 6], [np.inf, 7])
        ),
        "jump": with_constraints(ResidualConstraint(StateResidual(s, [5.0, 0.0]))),
        "nowhere": with_constraints(ResidualConstraint(TipResidual(), [3.0, -np.inf, -np.inf], np.inf)),
    }


@pytest.mark.parametrize("solver", ["ilqr", "parallel"])
@pytest.mark.parametrize("name", ["too weak", "apart", "jump", "nowhere"])
def test_constraints_that_cannot_hold(name, solver):
    solution = SOLVERS[solver].solve(impossible()[name])
    assert solution.status in (Status.INFEASIBLE, Status.MAX_ITERATIONS)
    assert not solution.converged and solution.violation > 0.1
    for array in (solution.xs, solution.us, solution.K, solution.cost):
        assert np.isfinite(array).all()
    worst = max(solution.constraints, key=lambda report: report.violation)
    row = int(np.flatnonzero(worst.knots == worst.worst_knot)[0])
    assert worst.violations[row].max() == worst.violation == solution.violation


def test_infeasible_has_its_name():
    solution = DDP().solve(impossible()["apart"])
    assert solution.status == "infeasible" and "constraints" in solution.message


@pytest.mark.parametrize("limit", [0, 1, 7])
def test_the_iteration_limit_counts_all_rounds(limit):
    solution = DDP(max_iterations=limit).solve(several())
    assert solution.status == "max_iterations" and solution.iterations == limit
    assert len(solution.constraints) == 4 and np.isfinite(solution.xs).all()


@pytest.mark.parametrize("limit", [15, 17, 23, 40, 1000])
@pytest.mark.parametrize("name", ["too weak", "jump", "nowhere"])
def test_searches_for_feasibility_are_iterations(name, limit, tmp_path):
    """One count and one log: whatever a step is tried for, it has a record, and there are no more than were allowed."""
    solver = DDP(max_iterations=limit)
    solution = solver.solve(impossible()[name])
    kinds = solution.history("step").tolist()
    assert solution.iterations <= limit and len(solution.log) == solution.iterations + 1
    assert solution.history("iteration").tolist() == list(range(len(solution.log)))
    assert solution.log[-1].cost == solution.cost and solution.log[-1].alpha == 0.0
    assert (solution.status == "max_iterations") == (solution.iterations == limit)
    assert ("feasibility" in kinds) == (limit > 15) and kinds[-1] != "feasibility"
    searching = [r for r in solution.log if r.step == "feasibility"]
    assert all(r.actual_decrease > 0.0 for r in searching if r.alpha > 0.0)
    said = " ".join(solution.explain(solver).split())
    assert (f"raise max_iterations (it was {limit})" in said) == (solution.status == "max_iterations")
    assert f"of {solution.iterations} tried" in said and "if it was" not in said
    taken = sum(r.alpha > 0.0 for r in searching)
    assert (f"{taken} in search of feasibility" in said) == (taken > 0)
    again = Solution.load(solution.save(tmp_path / "limit.npz"))
    assert again.log == solution.log and " ".join(again.explain(solver).split()).startswith(solution.status)


def test_a_callback_stops_between_rounds():
    seen = []
    full = DDP().solve(several())
    for stop in range(1, full.iterations, 4):
        seen.clear()
        solution = DDP().solve(several(), callback=lambda p, s=stop: seen.append(p) or len(seen) == s)
        assert solution.status == "stopped_by_callback" and len(seen) == stop
        np.testing.assert_array_equal(seen[-1].us, solution.us)


def test_the_log_tells_cost_and_violation(solutions):
    for of_solver in solutions.values():
        for solution in of_solver.values():
            last = solution.log[-1]
            assert last.cost == pytest.approx(solution.cost, rel=1e-13)
            assert last.violation == pytest.approx(
                max(r.violation for r in solution.constraints if r.name != "control bounds"), abs=1e-15
            )
            assert sum(record.alpha > 0 for record in solution.log) <= solution.iterations
            assert solution.history("iteration").tolist() == list(range(len(solution.log)))


# ------------------------------------------------------------------------------------------------ options
@pytest.mark.parametrize(
    "options", [{"control_limits": "augmented_lagrangian"}, {"cost_hessian": "gauss_newton"}], ids=str
)
@pytest.mark.parametrize("name", ["speed limit", "arrival", "several"])
def test_options_do_not_move_the_optimum(name, options, solutions):
    solution, expected = DDP(**options).solve(CASES[name]()), solutions[name]["parallel"]
    assert solution.converged
    assert solution.cost == pytest.approx(expected.cost, rel=1e-5)
    np.testing.assert_allclose(solution.us, expected.us, atol=1e-4 * np.abs(expected.us).max())


def test_tolerances_are_kept():
    loose = DDP(feasibility_tolerance=1e-2, complementarity_tolerance=1e-2).solve(speed_limit())
    tight = DDP(feasibility_tolerance=1e-11, complementarity_tolerance=1e-11).solve(speed_limit())
    assert loose.converged and tight.converged
    assert tight.violation <= 1e-11 and tight.constraints[0].complementarity <= 1e-11
    assert tight.violation < loose.violation <= 1e-2


# ------------------------------------------------------------------------------------------------ foreseen limits
@pytest.mark.parametrize("name", RESIDUALS)
def test_weights_of_the_limits_that_press_elsewhere(name, rng):
    """They are those of a constraint with these limits as equalities, and no others."""
    system, residual, nu = RESIDUALS[name]
    xs, us = rng.standard_normal((6, system.nx)), rng.standard_normal((5, nu))
    other = xs + rng.standard_normal(xs.shape), us + rng.standard_normal(us.shape)
    problem = Problem(system, xs[0], 5, [], us_init=us)
    limits = np.quantile(residual.evaluate(xs[1:5], us[1:]), [0.3, 0.6], axis=0)
    rows = pack(problem, (ResidualConstraint(residual, *limits, at="path"),))
    multipliers, c = Multipliers(np.zeros(len(rows)), 0.1 * rng.standard_normal(len(rows)), 3.0), rows.values(xs, us)
    then = multipliers.sides(rows, rows.values(*other))
    limit = np.where(then > 0, rows.upper, rows.lower)
    held = replace(rows, lower=np.where(then == 0, -np.inf, limit), upper=np.where(then == 0, np.inf, limit))
    assert (then != multipliers.sides(rows, c)).any()
    for got, wanted in zip(multipliers.weights(rows, c, then)[1], multipliers.weights(held, c)[1], strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-12)
    same = multipliers.weights(rows, c, multipliers.sides(rows, c))[1]
    np.testing.assert_allclose(np.array(same), np.array(multipliers.weights(rows, c)[1]), atol=1e-12)


@pytest.mark.parametrize("solver", [ILQR(), DDP()])
def test_a_row_that_becomes_active_along_the_step_costs_no_refused_steps(solver, rng):
    """A stiff limit that the first full step runs into: linear-quadratic, so that the right set needs one sweep."""
    p = linear(rng, horizon=8)
    start, free = p.system.rollout(p.x0, p.us_init)[-1], DDP().solve(p).xs[-1]
    half, end = 0.5 * (start + free), StateResidual(p.system, np.zeros(4))
    bounds = np.where(free < start, half, -np.inf), np.where(free > start, half, np.inf)
    walls = ResidualConstraint(end, *bounds, at="terminal")
    walled = Problem(p.system, p.x0, 8, p.running_costs, p.terminal_costs, [walls])
    solution = solver.solve(walled)
    assert solution.converged and solution.constraints[0].active.any()
    assert all(record.mu == 0.0 for record in solution.log)


# ------------------------------------------------------------------------------------------------ smoothed inequalities
def limited(lower, upper, rows=5):
    """Rows of single states within limits, one at each knot."""
    system = LinearSystem(np.eye(1), np.ones((1, 1)))
    bounds = StateBounds(system, [lower], [upper])
    return pack(Problem(system, [0.0], rows, constraints=[bounds]), (bounds,))


@pytest.mark.parametrize("lower, upper", [(-np.inf, 0.3), (-0.2, np.inf), (-0.2, 0.3)])
def test_a_smoothed_term_is_the_least_one_over_its_slacks(lower, upper, rng):
    """Of each limit, min over t > 0 of rho/2 (v + t)^2 - mu log t, by a search over t."""
    rows, rho, mu = limited(lower, upper), 3.0, 0.05
    centre, c = rng.standard_normal(len(rows)), rng.standard_normal(len(rows))
    multipliers = Multipliers(np.zeros(len(rows)), centre, rho, barrier=mu)
    expected = 0.0
    for sign, limit in ((1.0, upper), (-1.0, lower)):
        for value, lam in zip(c, centre, strict=True):
            v = sign * (value - limit) + max(sign * lam, 0.0) / rho
            if np.isfinite(limit):
                expected += minimize_scalar(
                    lambda s, v=v: 0.5 * rho * (v + np.exp(s)) ** 2 - mu * s, bounds=(-30.0, 5.0), method="bounded",
                    options={"xatol": 1e-10},
                ).fun  # fmt: skip
    assert multipliers.value(rows, c) == pytest.approx(expected, rel=1e-9)
    assert multipliers.weights(rows, c)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_derivatives_of_a_smoothed_term(sign, rng):
    """p is the derivative of the value; w, with p as the dual iterate, that of p, far inside, near and beyond the
    limit."""
    rows = limited(-np.inf, 0.3) if sign > 0.0 else limited(-0.3, np.inf)
    c, h = sign * np.array([-5.0, 0.0, 0.29, 0.4, 3.0]), 1e-6
    multipliers = Multipliers(np.zeros(len(rows)), sign * rng.uniform(0.0, 1.0, len(rows)), 3.0, barrier=0.05)

    def at(c, dual):
        return multipliers._replace(dual=dual).weights(rows, c)

    for i in range(len(rows)):
        step = h * np.eye(len(rows))[i]
        (ahead, (p_ahead, _)), (behind, (p_behind, _)) = at(c + step, multipliers.dual), at(c - step, multipliers.dual)
        p = at(c, multipliers.dual)[1].p
        assert p[i] == pytest.approx((ahead - behind) / (2 * h), rel=1e-6)
        assert at(c, p)[1].w[i] == pytest.approx((p_ahead[i] - p_behind[i]) / (2 * h), rel=1e-5)
        assert np.sign(p[i]) == sign


def test_without_a_barrier_a_smoothed_term_is_the_kinked_one(rng):
    rows = limited(-np.inf, 0.3)
    c, centre = rng.standard_normal(len(rows)), rng.uniform(0.0, 1.0, len(rows))
    kinked = Multipliers(np.zeros(len(rows)), centre, 3.0)
    total, (p, _) = kinked.weights(rows, c)
    for barrier in (1e-6, 1e-9):
        near, (q, w) = kinked._replace(barrier=barrier).weights(rows, c)
        assert near == pytest.approx(total, abs=100 * barrier)
        np.testing.assert_allclose(q, p, atol=10 * np.sqrt(barrier))
        assert (w > 0.0).all() and (w <= 3.0).all()


def test_equalities_have_no_barrier(rng):
    rows = limited(0.3, 0.3)
    c, plain = rng.standard_normal(len(rows)), Multipliers(np.zeros(len(rows)), np.ones(len(rows)), 3.0)
    for got, expected in zip(plain._replace(barrier=0.1).weights(rows, c)[1], plain.weights(rows, c)[1], strict=True):
        np.testing.assert_array_equal(got, expected)
