"""The constrained solver: units of rows, the minimum of a model, penalties without tuning, infeasibility."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import dynamics
import problems
from experiments.constraints.catalogue import statement
from experiments.constraints.residuals import problem_of
from experiments.constraints.starts import controls
from experiments.holdout.study import problem_of as holdout_problem
from tests.trajopt.constrained_cases import CASES
from tests.trajopt.systems import LinearSystem, Pendulum, TipResidual
from tests.trajopt.test_augmented_lagrangian import impossible
from trajopt import (
    DDP,
    ILQR,
    CallableSystem,
    ControlBounds,
    ControlCost,
    Problem,
    ResidualConstraint,
    ResidualCost,
    StateBounds,
    StateCost,
    StateResidual,
    residual,
)
from trajopt.backward.expansions import Expansion, adjoint, blended, convexified, expand
from trajopt.backward.regularization import Regularization
from trajopt.rows import pack
from trajopt.solvers.active_set import model_minimum
from trajopt.solvers.augmented_lagrangian import Multipliers, weighted
from trajopt.solvers.constrained import AugmentedLagrangian, ViolationBound
from trajopt.solvers.formulation import EXACT, GAUSS_NEWTON, Candidate, Curvature, Direction, Formulation
from trajopt.solvers.iteration import Stall, State
from trajopt.solvers.line_search import Step, search
from trajopt.solvers.solve import TURN


class Linear:
    """The activation A(r) = sum_i s r_i."""

    def __init__(self, slope):
        self.slope = slope

    def check(self, n):
        """Any number of residuals will do."""

    def value(self, r, w):
        return self.slope * r.sum(axis=1)

    def derivatives(self, r, w):
        return np.full_like(r, self.slope), np.zeros_like(r)


class InOtherUnits:
    """Another residual times a factor."""

    def __init__(self, residual, factor):
        self.residual, self.factor, self.nr = residual, factor, residual.nr

    def evaluate(self, xs, us):
        return self.factor * self.residual.evaluate(xs, us)

    def jacobians(self, xs, us):
        return tuple(None if J is None else self.factor * J for J in self.residual.jacobians(xs, us))

    def hessian_products(self, xs, us, mu):
        return self.residual.hessian_products(xs, us, self.factor * mu)


def in_other_units(problem, factor):
    constraints = [
        ResidualConstraint(InOtherUnits(c.residual, factor), factor * c.lower, factor * c.upper, c.at, c.name)
        if isinstance(c, ResidualConstraint)
        else c
        for c in problem.constraints
    ]
    return replace(problem, constraints=constraints)


@pytest.mark.parametrize("factor", [2.0**10, 2.0**-10, 1e3, 1e-3])
@pytest.mark.parametrize("name", CASES)
def test_units_of_constraints_do_not_matter(name, factor):
    """The same iterations, and with powers of two the same bits."""
    problem = CASES[name]()
    solver = DDP(feasibility_tolerance=1e-30, complementarity_tolerance=1e-30, max_iterations=8)  # ends that compare
    plain, other = (solver.solve(p) for p in (problem, in_other_units(problem, factor)))
    assert [r.step for r in plain.log] == [r.step for r in other.log]
    np.testing.assert_array_equal(plain.history("alpha"), other.history("alpha"))
    if np.log2(factor).is_integer():
        np.testing.assert_array_equal(plain.us, other.us)
    else:
        np.testing.assert_allclose(plain.us, other.us, rtol=1e-6, atol=1e-6 * np.abs(plain.us).max())


# ------------------------------------------------------------------------------------------------ the model's minimum
def changing(rng, limits):
    """A linear-quadratic problem at rest, its formulation and model, and a stiff augmented Lagrangian of two rows."""
    system = LinearSystem(np.array([[1.0, 0.1], [0.0, 1.0]]), np.array([[0.005, 0.0], [0.1, 0.02]]))
    bounds = StateBounds(system, [-0.3, -0.6], [0.2, 0.5])
    costs = [StateCost(system, [1.0, -0.5], [1.0, 0.1]), ControlCost(0.05)]
    problem = Problem(system, [0.0, 0.0], 12, costs, [], [bounds], rng.standard_normal((12, 2)))
    rows = pack(problem, problem.residual_constraints)
    box = None if limits is None else (np.full((12, 2), -limits), np.full((12, 2), limits))
    formulation = Formulation(problem, box, Curvature())
    formulation.rows = rows
    multipliers = Multipliers(np.zeros(len(rows)), 0.1 * rng.standard_normal(len(rows)), 30.0)
    model = formulation.expand(formulation.start(problem.us_init, None), dual=np.zeros(len(rows)))
    return problem, rows, formulation, weighted(rows, model, multipliers), multipliers


@pytest.mark.parametrize("limits", [None, 2.0, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_the_minimum_of_a_model_with_kinks(seed, limits):
    """Against L-BFGS-B on the same piecewise quadratic function of the controls; where limits of controls matter it is
    approached until a sweep gains little."""
    rng = np.random.default_rng(seed)
    problem, rows, formulation, model, multipliers = changing(rng, limits)
    sweep = formulation.sweep(model, 0.0)
    found = model_minimum(formulation, model, multipliers, Direction(GAUSS_NEWTON, sweep, None, -1), 0.0)
    us = model.iterate.us

    def value(flat):
        u = flat.reshape(us.shape)
        xs = problem.system.rollout(problem.x0, u)
        return problem.objective.value(xs, u) + multipliers.value(rows, rows.values(xs, u))

    low, high = (-np.inf, np.inf) if limits is None else (-limits, limits)
    options = {"maxiter": 20000, "maxfun": 10**7, "ftol": 1e-15, "gtol": 1e-10}
    oracle = minimize(value, us.ravel(), method="L-BFGS-B", bounds=[(low, high)] * us.size, options=options)
    reached = value((us + found.du).ravel())
    assert reached <= oracle.fun + (1e-8 if limits is None else 1e-2) * found.promise
    assert found.promise == pytest.approx(value(us.ravel()) - reached, rel=1e-9)
    moved = problem.system.rollout(problem.x0, us + found.du) - model.iterate.xs
    np.testing.assert_allclose(found.dx, moved, atol=1e-12)
    np.testing.assert_allclose(found.rows, rows.values(model.iterate.xs + moved, us) - model.rows.c, atol=1e-12)


def test_convexified_hessians():
    """Positive definite, the same where the Hessian was, and no direction loses curvature."""
    rng = np.random.default_rng(3)
    N, ndx, nu = 6, 3, 2
    blocks = rng.standard_normal((N + 1, ndx + nu, ndx + nu))
    whole = blocks + blocks.swapaxes(1, 2)
    whole[:2] = blocks[:2] @ blocks[:2].swapaxes(1, 2) + np.eye(ndx + nu)
    lxx, lux, luu = whole[:, :ndx, :ndx].copy(), whole[:N, ndx:, :ndx].copy(), whole[:N, ndx:, ndx:].copy()
    zeros = np.zeros((N, ndx, ndx)), np.zeros((N, ndx, nu)), np.zeros((N + 1, ndx)), np.zeros((N, nu))
    e = Expansion(*zeros, lxx, lux, luu)
    convex = convexified(e)
    for t in range(N):
        H = np.block([[convex.lxx[t], convex.lux[t].T], [convex.lux[t], convex.luu[t]]])
        assert np.linalg.eigvalsh(H).min() > 0.0
        assert np.linalg.eigvalsh(H - whole[t]).min() > -1e-12
        if t < 2:
            assert np.abs(H - whole[t]).max() < 1e-12
    half = blended(e, convex, 0.5)
    assert np.abs(half.luu - 0.5 * (luu + convex.luu)).max() < 1e-15 and blended(e, convex, 1.0) is convex


# ------------------------------------------------------------------------------------------------ no tuning
@pytest.mark.parametrize("weight", [4e-4, 4e-3])
def test_an_arm_reaches_a_pose_and_rests_there(weight):
    """Terminal pose and terminal rest as equalities, the one nearly met at the start: defaults do, whatever the weight
    of the controls."""
    arm = problems.make("arm")
    system, (model, nv) = arm.system, (arm.system.model, arm.system.nu)
    posture = np.array([0.6, -1.1, 1.3, -0.5, 0.7, 0.2])
    frame = model.frame_names[-1]
    target = dynamics.FrameTranslation(model, frame, np.zeros(3)).evaluate(np.r_[posture, np.zeros(nv)][None], None)[0]
    constraints = [
        ResidualConstraint(dynamics.FrameTranslation(model, frame, target), at="terminal", name="pose"),
        ResidualConstraint(StateResidual(system, components=range(nv, 2 * nv)), at="terminal", name="rest"),
    ]
    costs = [ControlCost(weight), StateCost(system, np.zeros(2 * nv), np.r_[np.full(nv, 1e-2), np.full(nv, 1e-1)])]
    problem = Problem(system, np.zeros(2 * nv), 50, costs, [], constraints, "quasi_static")
    solution = DDP().solve(problem)
    assert solution.converged and solution.violation <= 1e-7
    gradient = adjoint(expand(problem, solution.xs, solution.us))[1]
    assert solution.gradient_norm <= 1e-5 * np.abs(gradient).max()
    assert all(report.active.any() for report in solution.constraints)


# ------------------------------------------------------------------------------------------------ infeasible
@pytest.mark.parametrize("solver", [ILQR(), DDP()])
@pytest.mark.parametrize("name", ["too weak", "apart", "jump", "nowhere"])
def test_a_certificate_shows_that_constraints_are_locally_infeasible(name, solver):
    """No small change of the controls lowers sum nu_i r_i: its gradient vanishes, but for what limits hold back."""
    solution = solver.solve(impossible()[name])
    assert solution.status == "infeasible" and solution.violation > 0.1
    problem, xs, us = solution.problem, solution.xs, solution.us
    expansion = expand(problem, xs, us)
    lx, lu, largest = np.zeros_like(expansion.lx), np.zeros_like(expansion.lu), 0.0
    for constraint, report in zip(problem.constraints, solution.constraints, strict=True):
        if isinstance(constraint, ControlBounds):
            assert report.weights is None
            continue
        beyond = report.values - np.clip(report.values, report.lower, report.upper)
        np.testing.assert_allclose(report.weights, beyond * report.factors**2, rtol=1e-9, atol=1e-12)
        largest = max(largest, np.abs(report.weights).max())
        for terminal in (False, True):
            at = (report.knots == problem.horizon) == terminal
            if at.any():
                t, nu = report.knots[at], report.weights[at]
                rx, ru = constraint.residual.jacobians(xs[t], None if terminal else us[t])
                lx[t] += np.einsum("ki,kij->kj", nu, rx)
                if ru is not None:
                    lu[t] += np.einsum("ki,kij->kj", nu, ru)
    gradient = adjoint(expansion._replace(lx=lx, lu=lu))[1]
    if problem.control_limits is not None:
        lower, upper = problem.control_limits
        outward = ((us <= lower) & (gradient > 0.0)) | ((us >= upper) & (gradient < 0.0))
        gradient = np.where(outward, 0.0, gradient)
    assert largest > 0.0 and np.abs(gradient).max() <= 1e-2 * largest
    said = solution.explain()
    assert "Most at fault here: " in said and "locally infeasible: near this trajectory" in " ".join(said.split())


@pytest.mark.parametrize("start", [0.0, 1e-9, 1e-6, 1e-3])
def test_a_violation_without_gradient_is_no_infeasibility(start):
    """No thrust where some is wanted: |u|^2 >= 1e-4 has no gradient at u = 0, where the violation is largest."""
    system = CallableSystem(lambda x, u: (x[0] + 0.1 * x[1], x[1] + 0.1 * u[0], 0.9 * x[2] + u[1]), nx=3, nu=2, dt=0.1)
    thrust = ResidualConstraint(residual(lambda x, u: (u[0] ** 2 + u[1] ** 2,), 1, system), 1e-4, np.inf)
    problem = Problem(system, [0.0] * 3, 20, [ControlCost(0.01)], [], [thrust])
    solution = DDP().solve(problem, us=np.full((20, 2), start))
    assert solution.converged
    np.testing.assert_allclose(solution.cost, 0.5 * 20 * 0.1 * 0.01 * 1e-4, rtol=1e-3)


@pytest.mark.parametrize(("factor", "power"), [(1.0, 4), (1.0, 6), (1e4, 6), (100.0, 8)])
def test_a_solve_that_runs_away_begins_again_with_a_larger_penalty(factor, power):
    """-c x^p has no minimum but for the equality x = 1/2, and none with a quadratic penalty."""
    system = LinearSystem([[1.0]], [[1.0]])
    gain = residual(lambda x: (-factor * x[0] ** power,), 1, system)
    goal = ResidualConstraint(StateResidual(system, [0.5]), at="terminal")
    price = ResidualCost(gain, 1.0, activation=Linear(1.0))
    solution = DDP().solve(Problem(system, [0.1], 5, [ControlCost(1e-3)], [price], [goal]))
    assert solution.converged and solution.violation <= 1e-7
    np.testing.assert_allclose(solution.cost, -factor * 0.5**power + 0.5e-3 * 5 * 0.08**2, rtol=1e-6)


def test_soft_constraints_cost_what_their_violation_costs():
    """A fixed penalty instead: the optimum of the cost with squares of what lies beyond the limits."""
    system = Pendulum()
    problem = Problem(system, [0.0, 0.0], 20, [ControlCost(0.1)], [], [ResidualConstraint(TipResidual(), -0.2, 0.3)])
    hard, soft = DDP().solve(problem), DDP(soft_penalty=5.0).solve(problem)
    (report,) = soft.constraints
    assert soft.converged and soft.violation > 1e-3
    beyond = report.values - np.clip(report.values, report.lower, report.upper)
    np.testing.assert_allclose(report.multipliers, 5.0 * beyond, atol=1e-9)
    assert report.penalty == 5.0 and (report.factors == 1.0).all()
    assert hard.converged == (hard.violation <= 1e-7)


def promising_nothing(monkeypatch, least):
    """The results of all searches in a solve for the minimum of a model that start from an exact direction alone, where
    such directions lead nowhere and Gauss-Newton sweeps are positive definite with a mu of at least this alone; each
    with True if the sweep itself promised something."""
    minimum, sweep, found = AugmentedLagrangian._minimum, Formulation.sweep, []
    towards = AugmentedLagrangian._towards_minimum

    def promises_nothing(constrained, model, m, direction, regularization):
        reached = minimum(constrained, model, m, direction, regularization)
        return reached._replace(promise=0.0) if direction.kind == EXACT else reached

    def watched(constrained, state, chosen, enough):
        exact_alone = chosen.direction.kind == EXACT and GAUSS_NEWTON not in chosen.model.expansions

        def fails(formulation, model, mu, kind=GAUSS_NEWTON):
            result = sweep(formulation, model, mu, kind)
            return result._replace(ok=result.ok and (kind != GAUSS_NEWTON or mu >= least))

        with monkeypatch.context() as patch:
            if exact_alone:
                patch.setattr(AugmentedLagrangian, "_minimum", promises_nothing)
                patch.setattr(Formulation, "sweep", fails)
            result = towards(constrained, state, chosen, enough)
        if exact_alone:
            found.append((result[0], -chosen.direction.change > enough))
        return result

    monkeypatch.setattr("trajopt.solvers.program.program_of", lambda *_: None)  # iterations are made in Python
    monkeypatch.setattr(AugmentedLagrangian, "_towards_minimum", watched)
    DDP(max_iterations=60).solve(problems.make("arm_obstacle"))
    assert found
    return found


def test_a_failed_gauss_newton_sweep_leaves_the_exact_direction_its_model(monkeypatch):
    """Where an exact direction leads nowhere in the piecewise model and all Gauss-Newton sweeps instead of it fail, the
    direction stays, and so must the model that it is from."""
    for result, _ in promising_nothing(monkeypatch, np.inf):
        assert result.direction.kind == EXACT
        assert EXACT in result.model.expansions


def test_a_direction_that_leads_nowhere_is_no_minimum_where_gauss_newton_sweeps_need_mu(monkeypatch):
    """Where an exact direction leads nowhere in the piecewise model, mu is raised until there is a Gauss-Newton sweep
    instead of it; as the solve converges only with a small mu, that iterate is not taken for a minimum."""
    results = [result for result, promising in promising_nothing(monkeypatch, 1e-3) if promising]
    assert results
    for result in results:
        assert result.direction.kind == GAUSS_NEWTON
        assert result.regularization.mu >= 1e-3 and not result.regularization.small


def searches_of_landers(monkeypatch, *starts):
    """Of each solve, from these starts, of a lander whose thrust lies on its limits most of the time: its status, and
    of every search for the minimum of a model what it began with, its result, the least promise that counts, and the
    minimum that its first sweep leads to."""
    searches, towards = [], AugmentedLagrangian._towards_minimum

    def watched(constrained, state, found, enough):
        model, m, regularization = found.model, found.multipliers, found.regularization
        minimum = constrained._minimum(model, m, found.direction, regularization)
        result = towards(constrained, state, found, enough)
        searches.append((found, result[0], enough, minimum))
        return result

    monkeypatch.setattr("trajopt.solvers.program.program_of", lambda *_: None)  # iterations are made in Python
    monkeypatch.setattr(AugmentedLagrangian, "_towards_minimum", watched)
    lander = statement("moon_lander")
    for start in starts:
        searches.clear()
        yield DDP().solve(problem_of(lander), us=controls(lander, start, 0)).status, tuple(searches)


def leads_nowhere(found, enough, minimum):
    """True if a sweep promises something, and the piecewise model is not lower along its step."""
    return -found.direction.change > enough and minimum.promise <= enough


def test_a_direction_that_leads_nowhere_is_no_minimum(monkeypatch):
    """Where a solve converges, its last sweep promises no more than the tolerance, or a lower model was found."""
    ends = [searches[-1] for status, searches in searches_of_landers(monkeypatch, 0, 2, 4) if status == "converged"]
    assert ends
    for found, result, enough, minimum in ends:
        nothing = result.regularization.small and -result.direction.change <= enough
        assert not (nothing and leads_nowhere(found, enough, minimum))


# ------------------------------------------------------------------------------------------------ steps and multipliers
def drive(force):
    """A car that must cover 1000 m in 90 s, its state speed and time, its steps in distance: d(time)/ds = 1/v has a
    pole beyond the limit of speed."""
    mass, N = 1000.0, 100
    car = CallableSystem(
        xdot=lambda x, u: ((u[0] - 150.0 - 0.4 * x[0] ** 2) / (mass * x[0]), 1.0 / x[0]),
        nx=2, nu=1, dt=10.0, x_example=[10.0, 0.0],
    )  # fmt: skip
    arrival = ResidualConstraint(residual(lambda x: (x[1],), 1, car), 90.0, 90.0, at="terminal", name="arrival")
    speed = StateBounds(car, [0.5, -np.inf], [25.0, np.inf])
    constraints = [ControlBounds(-3000.0, 3000.0), speed, arrival]
    return Problem(car, [10.0, 0.0], N, [ControlCost(1e-6)], [], constraints, us_init=np.full((N, 1), force))


@pytest.mark.parametrize("force", [100.0, 250.0, 300.0, 400.0, 500.0, 600.0])
def test_no_step_leads_beyond_a_pole(force):
    """Least cost 20.0025, as IPOPT finds it: from large forces, full steps violate the limit of speed so badly that
    they cross the pole, where the cost falls without bound."""
    solution = DDP().solve(drive(force))
    assert solution.converged
    assert solution.cost == pytest.approx(20.0024918, rel=1e-6)
    assert solution.xs[:, 0].min() > 0.5


def test_a_step_may_not_multiply_the_violation():
    """Of two candidates that gain the same, one is beyond the bound."""
    rows = pack(drive(100.0), drive(100.0).residual_constraints)
    c = np.zeros(len(rows))
    c[-1] = 91.0
    bound = ViolationBound(rows, 2.0)
    assert bound(np.where(c == 91.0, 92.0, 10.0)) and not bound(np.where(c == 91.0, 93.0, 10.0))
    candidates = [Candidate(alpha, *(np.full((1, 1), x) for x in (alpha, alpha, alpha))) for alpha in (1.0, 0.5)]

    def merit(xs, us):
        return 0.0, 0.0, np.where(c == 91.0, 90.0 + 4.0 * xs[0, 0], 10.0)

    step, _ = search(merit, 1.0, (-1.0, 0.0), candidates)
    assert step is not None and step.alpha == 1.0
    step, rejected = search(merit, 1.0, (-1.0, 0.0), candidates, bound=bound)
    assert step is not None and step.alpha == 0.5 and rejected.misled


def test_a_short_step_leaves_the_multipliers():
    problem = problems.make("arm_obstacle")
    rows = pack(problem, problem.residual_constraints)
    formulation = Formulation(problem, problem.control_limits, Curvature())
    formulation.rows = rows
    nothing = np.zeros(len(rows))
    m = Multipliers(nothing, nothing, 10.0)
    model = formulation.expand(formulation.start(problem.us_init, None), dual=nothing)
    model = weighted(rows, model, m)
    direction = Direction(GAUSS_NEWTON, formulation.sweep(model, 0.0), None, -1)
    state = State(model, Regularization(), 1.0, (), Stall(), m)
    constraints = AugmentedLagrangian(formulation, DDP())
    short, long = (Step(Candidate(a, *model.iterate[:3]), 0.0, 0.0, None) for a in (0.125, 1.0))
    after = constraints.after_step(state, direction, short)
    assert after.dual is m.dual and after.centre is m.centre and after.penalty == m.penalty
    assert constraints.after_step(state, direction, long).dual.any()


def test_a_solve_that_has_not_converged_takes_turns_with_a_second_one():
    """The log has the steps of both, the second one begins where the first one did; what is better is returned."""
    problem = drive(300.0)
    alone = DDP(max_iterations=TURN).solve(problem)
    assert not alone.converged and alone.iterations == TURN
    solution = DDP().solve(problem)
    assert solution.converged and TURN < solution.iterations < 3 * TURN
    assert any(record.cost == alone.log[0].cost for record in solution.log[TURN:])
    assert [record.iteration for record in solution.log] == list(range(len(solution.log)))
    assert len(solution.constraints) == 3 and solution.constraints[0].values.shape == (100, 1)
    both = DDP(max_iterations=TURN + 3).solve(problem)
    assert str(both.status) == "max_iterations" and both.iterations == TURN + 3
    assert both.log[-1].cost == both.cost and both.log[-1].iteration == TURN + 3


def test_the_second_solve_goes_on_with_the_first_one_where_it_does_not_converge(monkeypatch):
    """With turns of a few steps, two solves that would converge alone: the first one goes on where it was, and the
    callback sees all steps, and may stop either."""
    problem, seen = problems.make("arm_obstacle"), []
    alone = DDP().solve(problem)
    monkeypatch.setattr("trajopt.solvers.solve.TURN", 3)
    solution = DDP().solve(problem, callback=lambda progress: seen.append(progress.record.iteration))
    assert solution.converged and solution.cost == pytest.approx(alone.cost, rel=1e-9)
    assert solution.iterations == alone.iterations + 3 and seen == list(range(solution.iterations))
    np.testing.assert_array_equal(solution.xs, alone.xs)
    stopped = DDP().solve(problem, callback=lambda progress: progress.record.iteration == 4)
    assert str(stopped.status) == "stopped_by_callback" and stopped.iterations == 5
    assert stopped.log[-1].cost == stopped.cost


@pytest.mark.parametrize(("number", "seed"), [(3, 1), (1, 2), (3, 2), (9, 2)])
def test_a_state_of_large_numbers_is_reached(number, seed):
    """Near 7e6 m the merit rounds off more than the last steps towards the target gain, which must not be refused."""
    solution = DDP().solve(holdout_problem("orbit_transfer", number, seed))
    assert solution.converged
    assert solution.violation <= 100.0 * np.finfo(float).eps * np.abs(solution.xs).max()


@pytest.mark.parametrize(("short", "bounded"), [(5e-4, False), (5e-3, True)])
def test_no_bound_of_the_violation_where_all_rows_are_nearly_met(short, bounded):
    """However many they are: the penalty falls there, and a bound of their sum would refuse what it allows."""
    system = LinearSystem([[1.0]], [[0.1]])
    limits = StateBounds(system, [short], [1.0])
    problem = Problem(system, [0.0], 40, [ControlCost(0.1)], (), [limits])
    formulation = Formulation(problem, None, Curvature())
    formulation.rows = pack(problem, problem.residual_constraints)
    start = formulation.start(problem.us_init, None)
    model = formulation.expand(start, dual=np.zeros(len(formulation.rows)))
    assert (AugmentedLagrangian(formulation, DDP()).bound(model) is not None) == bounded
