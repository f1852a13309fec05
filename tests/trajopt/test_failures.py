"""Every way to fail ends in a named status with a finite iterate, never in an exception or a NaN."""

import re
from dataclasses import replace

import numpy as np
import pytest

import problems
import trajopt
from tests.trajopt.cases import cartpole, linear, pendulum, tip
from tests.trajopt.constrained_cases import arrival
from tests.trajopt.systems import CirclePendulum, LinearSystem, Pendulum
from trajopt import (
    DDP,
    ILQR,
    CallableSystem,
    ControlBounds,
    ControlCost,
    Problem,
    ResidualCost,
    StateCost,
    Status,
    residual,
)
from trajopt.backward.regularization import Regularization
from trajopt.solvers.formulation import EXACT, Curvature, Direction, Formulation
from trajopt.solvers.line_search import TrialSteps, acceptable, own_merit, search
from trajopt.solvers.solver import HESSIANS
from trajopt.solvers.start import middle_controls, middle_states, still_controls


def assert_finite(solution):
    for name in ("xs", "us", "k", "K", "Vx", "Vxx"):
        assert np.isfinite(getattr(solution, name)).all(), name
    assert not any(np.isnan(value) for record in solution.log for value in record if not isinstance(value, str))
    assert solution.message == Status(solution.status).message and solution.message.endswith(".")


@pytest.mark.parametrize("solver", [ILQR(), DDP()])
def test_diverging_initial_rollout(solver):
    system = LinearSystem(1e30 * np.eye(2), np.eye(2))
    problem = Problem(system, [1.0, 0.0], 20, [ControlCost(1.0)], [StateCost(system, [0, 0], 1.0)])
    solution = solver.solve(problem)
    assert solution.status == "diverged" and not solution.converged
    assert solution.iterations == 0 and solution.log == () and solution.cost == np.inf
    np.testing.assert_array_equal(solution.xs, np.tile(problem.x0, (21, 1)))
    assert_finite(solution)


class Explosive(LinearSystem):
    """x+ = x + u, but large controls lead to infinity."""

    def __init__(self):
        super().__init__(np.eye(1), np.eye(1), dt=1.0)

    def step(self, x, u):
        return super().step(x, u) + np.where(np.abs(u) > 0.6, np.inf, 0.0)


def test_diverging_candidates_are_refused():
    system = Explosive()
    problem = Problem(system, [0.0], 3, [ControlCost(1e-3)], [StateCost(system, [2.9], 1.0)])
    solution = ILQR(max_iterations=30).solve(problem)
    assert_finite(solution)
    assert solution.log[0].alpha < 1.0 and solution.cost < 0.5 * solution.log[0].cost
    assert np.abs(solution.us).max() <= 0.6


def test_iteration_limit():
    for limit in (0, 3):
        solution = ILQR(max_iterations=limit).solve(tip())
        assert solution.status == "max_iterations" and solution.iterations == limit
        assert len(solution.log) == limit + 1
        assert_finite(solution)


def clipped_at_its_limit(N=30):
    """A pendulum whose torque is clipped where it starts, so that its derivatives there are those of neither side, with
    an angle that wraps in the cost."""

    def step(x, u):
        rate = x[1] + 0.05 * (15.0 * np.sin(x[0]) + 3.0 * np.clip(u[0], -2.0, 2.0))
        return x[0] + 0.05 * rate, rate

    system = CallableSystem(step, nx=2, nu=1, dt=0.05)
    wrapped = residual(lambda x: ((x[0] + np.pi) % (2.0 * np.pi) - np.pi, 0.3 * x[1]), 2, system)
    costs = [ResidualCost(wrapped, [2.0, 2.0]), ControlCost(0.002)]
    bounds = [ControlBounds(-2.0, 2.0)]
    return Problem(system, [np.pi, 0.0], N, costs, [], bounds, us_init=np.full((N, 1), 2.0))


@pytest.mark.parametrize("solver", [ILQR(), DDP()])
def test_a_large_mu_says_nothing_of_rounding(solver):
    """Where rounding alone leads off a kink with mu of 1e8, the search begins anew from there; if it ends with a large
    mu all the same, the small promise that this makes is not taken for rounding."""
    solution = solver.solve(clipped_at_its_limit())
    assert solution.cost <= solution.log[0].cost and len(solution.log) == solution.iterations + 1
    mus = [record.mu for record in solution.log]
    large = [i for i, record in enumerate(solution.log) if record.alpha > 0.0 and record.mu >= 1e8]
    assert not large or 0.0 in mus[large[0] :]  # whether rounding leads off the kink depends on the processor
    here = solver.solve(solution.problem, us=solution.us).log[0]
    if here.mu == 0.0 and here.predicted_decrease > 1e-6 * here.cost:
        assert "larger tolerance" not in " ".join(solution.explain(solver).split())
    stuck = replace(solution, status=Status.LINE_SEARCH_FAILED, log=(solution.log[0]._replace(mu=1e7, alpha=0.0),))
    said = " ".join(stuck.explain(solver).split())
    assert "with mu = 1e+07, which makes it too short to tell how far the optimum is" in said
    assert "larger tolerance" not in said and "as it is" not in said and "smooth what has kinks" in said


class WrongDerivatives(Pendulum):
    """Claims that torque acts the other way round, so that every direction leads uphill."""

    def linearize(self, xs, us):
        fx, fu = super().linearize(xs, us)
        return fx, -fu


def test_wrong_derivatives_end_in_a_failed_line_search():
    system = WrongDerivatives()
    problem = Problem(system, [0.3, 0.0], 20, [ControlCost(1e-3)], [StateCost(system, [1.0, 0.0], 50.0)])
    for solver in (ILQR(), DDP()):
        solution = solver.solve(problem)
        assert solution.status == "line_search_failed"
        assert solution.cost <= solution.log[0].cost
        assert solution.log[-1].mu > 1e8
        assert_finite(solution)


def test_controls_without_cost_or_effect_get_regularized():
    """Quu has an exact zero row: mu rises to its first value and the rest of the problem is solved."""
    system = LinearSystem(np.eye(2), [[1.0, 0.0], [0.0, 0.0]])
    problem = Problem(system, [1.0, 1.0], 5, [ControlCost([1.0, 0.0])], [StateCost(system, [0, 0], 1.0)])
    solution = DDP().solve(problem)
    assert solution.converged and 0 < solution.log[-1].mu <= 1e-6 * (1 + 1e-9)
    np.testing.assert_allclose(solution.us[:, 0], -1.0 / 6.0, atol=1e-6)


def test_not_positive_definite_at_the_limit():
    system = LinearSystem(np.eye(1), np.zeros((1, 1)))
    problem = Problem(system, [1.0], 3, [], [StateCost(system, [0.0], 1.0)])
    solution = ILQR(max_regularization=0.0).solve(problem)
    assert solution.status == "not_positive_definite" and solution.iterations == 0
    assert_finite(solution)


class NaNDerivatives(Pendulum):
    def linearize(self, xs, us):
        fx, fu = super().linearize(xs, us)
        return fx + np.where(np.abs(us[5]) > 1e-3, np.nan, 0.0), fu


def test_derivatives_that_are_not_finite():
    system = NaNDerivatives()
    problem = Problem(system, [0.3, 0.0], 20, [ControlCost(1e-3)], [StateCost(system, [1.0, 0.0], 50.0)])
    solution = DDP().solve(problem)
    assert solution.status == "invalid_derivatives" and solution.iterations == 1
    assert solution.cost < solution.log[0].cost
    assert_finite(solution)


class BrokenHessian(Pendulum):
    def hessian_products(self, xs, us, lam):
        return tuple(H + self.bad for H in super().hessian_products(xs, us, lam))


@pytest.mark.parametrize("bad", [np.nan, -1e9])
def test_unusable_exact_hessians_leave_the_gauss_newton_step(bad):
    system = BrokenHessian()
    system.bad = bad
    p = pendulum()
    problem = Problem(system, p.x0, p.horizon, p.running_costs, p.terminal_costs)
    broken, ilqr = DDP().solve(problem), ILQR().solve(p)
    assert broken.converged
    assert {record.step for record in broken.log} == {"gauss_newton"}
    np.testing.assert_array_equal(broken.us, ilqr.us)


@pytest.mark.parametrize("hessian", HESSIANS)
def test_the_log_names_the_knot_of_an_indefinite_exact_sweep(hessian):
    """Curvature far too negative everywhere: a sweep fails at the last knot with a control, whoever does it."""

    class Bent(Pendulum):
        def hessians(self, xs, us):
            fxx, fux, fuu = super().hessians(xs, us)
            return fxx, fux, fuu + 1e9 * np.array([0.0, self.sign])[:, None, None]

        def hessian_products(self, xs, us, lam):
            Hxx, Hux, Huu = super().hessian_products(xs, us, lam)
            return Hxx, Hux, 0.0 * Huu - 1e9

    p, system, found = pendulum(), Bent(), set()
    problem = Problem(system, p.x0, p.horizon, p.running_costs, p.terminal_costs)
    for system.sign in (1.0, -1.0):  # against one of which Vx' turns the tensors
        solution = DDP(hessian=hessian, max_iterations=6, switch_threshold=1e9).solve(problem)
        found |= {record.indefinite_knot for record in solution.log}
    assert p.horizon - 1 in found


def test_misleading_exact_hessians_do_not_prevent_convergence():
    """Curvature that is too small makes exact steps too long."""

    class TooFlat(Pendulum):
        def hessian_products(self, xs, us, lam):
            Hxx, Hux, Huu = super().hessian_products(xs, us, lam)
            return Hxx, Hux, Huu - 1e-4

    p = pendulum()
    problem = Problem(TooFlat(), p.x0, p.horizon, p.running_costs, p.terminal_costs)
    solution = DDP().solve(problem)
    assert solution.converged and solution.log[-1].step == "exact"
    assert solution.cost == pytest.approx(ILQR().solve(p).cost, rel=1e-8)


@pytest.mark.parametrize(
    ("stretch", "kind"), [(1.0, "exact"), (12.0, "exact"), (-1.0, "gauss_newton"), (1000.0, "gauss_newton")]
)
def test_an_exact_step_that_must_be_short_is_compared_with_the_gauss_newton_step(stretch, kind):
    """Stretched or turned round, the exact direction is good for a short step at best, and the cheaper end is kept."""
    problem = tip()
    near = ILQR(max_iterations=8).solve(problem)
    formulation = Formulation(problem, None, Curvature("tensor"))
    start = formulation.start(near.us, None)
    model = formulation.with_curvature(formulation.expand(start), None)
    gauss_newton, exact = formulation.sweep(model, 0.0), formulation.sweep(model, 0.0, EXACT)
    assert gauss_newton.ok and exact.ok
    bent = exact._replace(k=stretch * exact.k, d1=stretch * exact.d1, d2=stretch**2 * exact.d2)
    trials = TrialSteps(formulation, model, own_merit(formulation.cost), 0.0, 0.0)
    used, step, *_ = trials.best(Direction(EXACT, bent, gauss_newton, -1))
    along_exact, along_fallback = (
        search(own_merit(problem.objective.value), start.cost, (s.d1, s.d2), formulation.candidates(model, s))[0]
        for s in (bent, gauss_newton)
    )
    assert used.kind == kind
    if kind == "exact":
        np.testing.assert_array_equal(step.candidate.us, along_exact.candidate.us)
        assert step.alpha == 1.0 or (step.alpha < 0.25 and step.cost < along_fallback.cost)
    else:
        np.testing.assert_array_equal(step.candidate.us, along_fallback.candidate.us)
        assert along_exact is None or along_exact.cost > step.cost


def test_callback_sees_every_iteration_and_can_stop():
    seen = []

    def callback(progress):
        seen.append(progress)
        return len(seen) == 4

    solution = DDP().solve(cartpole(horizon=60), callback=callback)
    full = DDP().solve(cartpole(horizon=60))
    assert full.iterations >= 4
    assert solution.status == "stopped_by_callback" and solution.iterations == 4
    np.testing.assert_array_equal(seen[-1].us, solution.us)
    np.testing.assert_array_equal(seen[-1].xs, solution.xs)
    assert [progress.record.iteration for progress in seen] == [0, 1, 2, 3]
    assert [r.cost for r in solution.log] == [r.cost for r in full.log[:5]]
    assert_finite(solution)


@pytest.mark.parametrize("free", [None, True])
def test_a_callback_cannot_write_into_the_solve(free):
    """Nor does the solve write into what a callback keeps."""
    problem, kept, known = replace(cartpole(horizon=60), free_initial_state=free), [], []

    def callback(progress):
        for array in (progress.xs, progress.us):
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 0.0
        kept.append(progress)
        known.append((progress.xs.copy(), progress.us.copy()))

    solution, other = DDP().solve(problem, callback=callback), DDP().solve(problem)
    np.testing.assert_array_equal(solution.us, other.us)
    assert len(kept) == solution.iterations
    for progress, (xs, us) in zip(kept, known, strict=True):
        np.testing.assert_array_equal(progress.xs, xs)
        np.testing.assert_array_equal(progress.us, us)


def test_a_silent_callback_changes_nothing(rng):
    problem, seen = linear(rng), []
    with_callback = DDP().solve(problem, callback=seen.append)
    np.testing.assert_array_equal(with_callback.us, DDP().solve(problem).us)
    assert len(seen) == with_callback.iterations


def test_acceptance():
    """J = 1, slope -1, curvature 1: the model promises 1/2 for a full step and a ten-thousandth of it is enough."""
    assert acceptable(1.0, 1.0 - 0.5e-4, 1.0, -1.0, 1.0)
    assert not acceptable(1.0, 1.0 - 0.4e-4, 1.0, -1.0, 1.0)
    assert acceptable(1.0, 1.0 - 1.1e-8, 1.0, -1.0, 2.0)  # the model promises nothing: the slope counts, a little
    assert not acceptable(1.0, 1.0, 1.0, -1.0, 2.0)
    assert acceptable(1.0, 1.0 + 5e-15, 1.0, -1e-20, 1e-20)  # an increase within rounding is none
    assert not acceptable(1.0, np.nan, 1.0, -1.0, 1.0)
    assert not acceptable(1.0, np.inf, 1.0, -1.0, 1.0)


def test_regularization_schedule():
    r = Regularization()
    assert r.mu == 0.0 and r.small
    r = r.increased()
    assert r.mu == 1e-6 and r.small
    r = r.increased()
    assert r.mu == pytest.approx(1e-5) and not r.small
    assert r.after_step(0.25) == r
    assert r.after_step(0.5).mu == pytest.approx(1e-6)
    assert r.after_step(0.5).small
    assert r.after_step(1 / 64).mu == pytest.approx(1e-4)
    assert Regularization(5e-9).after_step(1.0).mu == 0.0
    assert Regularization(1e10).increased().exhausted and not Regularization(1e10).exhausted


def test_less_of_what_is_negative_is_taken_away_where_steps_gain_more_than_they_promise():
    r = Regularization()
    assert r.after_convexified(1.0, gain=1.0, promise=1.0) == r == r.with_larger_share()
    less = r.after_convexified(1.0, gain=2.0, promise=1.0)
    assert less.share == 0.25 and less.mu == 0.0
    assert less.after_convexified(0.5, gain=2.0, promise=1.0) == less, "of full steps alone"
    assert less.after_convexified(1.0, gain=0.1, promise=1.0) == less.after_convexified(1 / 8, 1.0, 1.0) == r
    for _ in range(40):
        less = less.after_convexified(1.0, gain=2.0, promise=1.0)
    assert less.share == 1e-8


def test_a_start_whose_rollout_leads_away():
    """The initial state is held instead, which is said; so the solve ends where it does from a start at rest."""
    problem = problems.make("arm", horizon=100, dt=0.01, integrator="semi_implicit_euler")
    us = problem.us_init + 200.0 * np.random.default_rng(0).standard_normal(problem.us_init.shape)
    solution, other = DDP().solve(problem, us=us), DDP().solve(problem)
    assert solution.start == "held" and "led away" in solution.explain()
    assert solution.converged and solution.consistent and solution.cost == pytest.approx(other.cost, rel=1e-9)
    assert other.start == "given" and "led away" not in other.explain()
    assert DDP().solve(problem, us=us, xs=other.xs).start == "given"


def unforced(x, u):
    """Levels of two tanks, x'_0 = u - sqrt(x_0)/2: without an inflow the first one empties, and then has no root."""
    return u[0] - 0.5 * x[0] ** 0.5, 0.5 * x[0] ** 0.5 - 0.5 * x[1] ** 0.5


@pytest.mark.parametrize("solver", [ILQR(), DDP()])
def test_a_rollout_that_is_not_finite_where_nothing_costs(solver):
    """The held initial state is tried whatever it costs, nothing here.  The optimum is that of IPOPT, 0.2220965."""
    system = CallableSystem(xdot=unforced, nx=2, nu=1, dt=0.1, x_example=[0.5, 0.5])
    levels = trajopt.residual(lambda x: (x[0], x[1]), 2, system)
    problem = Problem(
        system, [0.5, 0.5], 60, [ControlCost(1.0)], [],
        [
            ControlBounds(0.0, 2.0), trajopt.StateBounds(system, [0.01, 0.01], [2.0, 2.0]),
            trajopt.ResidualConstraint(levels, [0.05, 0.3], [0.05, 0.3], at="terminal"),
        ],
    )  # fmt: skip
    solution = solver.solve(problem)
    assert solution.start == "held" and solution.converged
    assert solution.cost == pytest.approx(0.2220965, rel=1e-6)


def saving(bounds, **options):
    """Most of the discounted logarithm of what is spent, of an income and of what is left at the start, which is zero
    at the end: spending nothing, as by default, is infinitely bad."""
    system = CallableSystem(
        xdot=lambda x, u: (0.02 * x[0] + 2.0 - u[0], -np.exp(-0.05 * x[2]) * np.log(u[0]), 1.0),
        nx=3, nu=1, dt=0.2, u_example=[1.5],
    )  # fmt: skip
    inf = np.inf
    spent = trajopt.StateBounds(system, [0.0, -inf, -inf], [0.0, inf, inf], at="terminal")
    costs = [trajopt.LinearCost(states=[0.0, 1.0, 0.0])]
    return Problem(system, [3.0, 0.0, 0.0], 40, [], costs, [ControlBounds(*bounds), spent], **options)


@pytest.mark.parametrize("bounds", [(0.0, 20.0), (0.0, np.inf)])
def test_controls_at_the_edge_of_a_domain_are_moved_into_the_middle_of_limits(bounds):
    """Zeros, the default; not what is passed to the solve, nor other controls of the problem."""
    problem = saving(bounds)
    solution, inside = DDP().solve(problem), DDP().solve(problem, us=np.full((40, 1), 1.5))
    assert inside.converged and inside.start == "given"
    assert solution.converged and solution.start == "middle"
    assert solution.cost == pytest.approx(inside.cost, rel=1e-8)
    assert "the solve began in the middle of limits" in " ".join(solution.explain().split())
    given = DDP().solve(problem, us=np.zeros((40, 1)))
    assert given.status == "diverged" and "other controls than zeros" in " ".join(given.explain().split())
    negative = replace(problem, us_init=np.full((40, 1), -1.0), constraints=problem.constraints[1:])
    assert DDP().solve(negative).status == "diverged"
    free = DDP().solve(replace(problem, constraints=problem.constraints[1:]))
    assert free.start == "example" and free.cost == pytest.approx(inside.cost, rel=1e-8)
    assert "the controls of an example" in " ".join(free.explain().split())
    batch = DDP().prepare(problem).solve_batch(np.tile(problem.x0, (2, 1)))
    assert (batch.cost == solution.cost).all()


def test_an_infinite_slope_at_the_first_controls():
    """The root of zero is zero, its derivative is not finite."""
    system = CallableSystem(lambda x, u: (x[0] + 0.1 * np.sqrt(u[0]),), nx=1, nu=1, dt=0.1, u_example=[1.0])
    goal, bounds = StateCost(system, [1.8], 10.0), ControlBounds(0.0, 4.0)
    problem = Problem(system, [0.0], 10, [ControlCost(0.1)], [goal], [bounds])
    solution, inside = DDP().solve(problem), DDP().solve(problem, us=np.ones((10, 1)))
    assert solution.start == "middle" and solution.converged and inside.converged
    assert solution.cost == pytest.approx(inside.cost, rel=1e-9)
    from_example = DDP().solve(replace(problem, constraints=[]))
    assert from_example.start == "example" and from_example.converged
    nowhere = CallableSystem(lambda x, u: (x[0] + 0.1 * np.sqrt(u[0]),), nx=1, nu=1, dt=0.1)
    free = replace(problem, system=nowhere, terminal_costs=[StateCost(nowhere, [1.8], 10.0)], constraints=[])
    assert DDP().solve(free).status == "invalid_derivatives"


def test_a_slope_that_grows_without_bound_is_named():
    """The optimum has controls of zero, whose root has no finite slope: entry and knot, however the solve ends."""
    system = CallableSystem(xdot=lambda x, u: (x[1], np.sqrt(u[0]) - x[0]), nx=2, nu=1, dt=0.05)
    costs = [ControlCost(1e-2)], [StateCost(system, [1.0, 0.0], 10.0)]
    problem = Problem(system, [0.0, 0.0], 20, *costs, [ControlBounds(0.0, 4.0)])
    solution = DDP().solve(problem)
    assert not solution.converged and solution.start == "middle"
    slope = r"fu\[[01], 0\] of the dynamics, the slope of component [01] by control 0, is .*at knot \d+"
    assert re.search(slope, " ".join(solution.explain().split()))
    at_edge = DDP().solve(problem, us=np.zeros((20, 1)))
    assert re.search(slope.replace(".*", "not finite "), at_edge.cause)


@pytest.mark.parametrize("solver", [ILQR(), DDP()])
def test_steps_onto_the_edge_of_a_domain_are_no_end(solver):
    """A step is clipped to controls of zero, whose root has no finite slope; the optimum is away from there."""
    system = CallableSystem(lambda x, u: (x[0] + 0.1 * np.sqrt(u[0]),), nx=1, nu=1, dt=0.1, u_example=[1.0])
    goal, bounds, us = StateCost(system, [0.7], 10.0), ControlBounds(0.0, 4.0), np.full((10, 1), 2.0)
    problem = Problem(system, [0.0], 10, [ControlCost(0.1)], [goal], [bounds], us_init=us)
    solution, near = solver.solve(problem), solver.solve(problem, us=np.full((10, 1), 0.5))
    assert near.converged and near.log[0].cost < 0.02
    assert solution.converged and solution.us.min() > 0.4 and solution.start == "given"
    assert solution.cost == pytest.approx(near.cost, rel=1e-9)
    batch = solver.prepare(problem).solve_batch(np.zeros((2, 1)))
    assert (batch.us == solution.us).all()
    first = replace(solver, max_iterations=1).solve(problem)
    assert first.us.min() == 0.0 and np.isfinite(first.cost)


def test_a_solve_without_an_end_is_made_again_from_controls_that_hold_the_initial_state():
    """Speed over distance is singular where a cart stops, as it does without a force."""
    def cart(x, u):
        return (u[0] - 60.0 - 0.5 * x[0] ** 2) / (400.0 * x[0]), 1.0 / x[0]

    system = CallableSystem(xdot=cart, nx=2, nu=1, dt=5.0, x_example=[5.0, 0.0])
    arrival = trajopt.StateBounds(system, [-np.inf, 80.0], [np.inf, 80.0], at="terminal")
    bounds = [ControlBounds(-2000.0, 2000.0), trajopt.StateBounds(system, [0.4, -np.inf], [20.0, np.inf]), arrival]
    problem = Problem(system, [5.0, 0.0], 80, [ControlCost(1e-6)], [], bounds)
    solution, good = DDP().solve(problem), DDP().solve(problem, us=np.full((80, 1), 75.0))
    assert still_controls(problem) == pytest.approx(np.full((80, 1), 72.5), rel=0.01)
    assert good.converged and solution.converged and solution.start == "quasi_static"
    assert solution.cost == pytest.approx(good.cost, rel=1e-7)
    assert "this one began with controls that hold the initial state" in " ".join(solution.explain().split())
    assert not DDP(max_iterations=260).solve(problem, us=problem.us_init).converged


def test_controls_that_hold_the_initial_state():
    """As the system has them, else by what they reach of it, within their limits."""
    robot = problems.make("arm")
    assert (still_controls(robot) == robot.system.quasi_static(robot.x0)).all()
    pendulum = Pendulum()
    problem = Problem(pendulum, [0.4, 0.0], 3, [ControlCost(1.0)])
    held = still_controls(problem)
    assert pendulum.step(problem.x0, held[0]) == pytest.approx(problem.x0, abs=1e-12)
    limited = replace(problem, constraints=[ControlBounds(-1.0, 1.0)])
    assert (still_controls(limited) == np.clip(held, -1.0, 1.0)).all()
    system = CallableSystem(lambda x, u: (x[0] + np.sqrt(u[0]),), nx=1, nu=1, dt=0.1, u_example=[1.0])
    assert still_controls(Problem(system, [0.0], 3, [ControlCost(1.0)])) is None


def test_the_middle_of_limits():
    """Of both limits where they are finite, beside one that is touched, and as it is elsewhere; of states along the
    path alone."""
    system = Pendulum()
    bounds = [
        ControlBounds([[0.0], [0.0], [-np.inf], [1.0], [-np.inf]], [[3.0], [np.inf], [0.0], [1.0], [np.inf]]),
        trajopt.StateBounds(system, [-np.inf, 1.0], [np.inf, 3.0]),
        trajopt.StateBounds(system, [2.0, 0.0], [2.5, 0.0], at="terminal"),
    ]
    problem = Problem(system, [0.5, 0.0], 5, [ControlCost(1.0)], [], bounds)
    assert middle_controls(problem).ravel().tolist() == [1.5, 1.0, -1.0, 1.0, 0.0]
    assert middle_states(problem).tolist() == [[0.5, 0.0], *[[0.5, 2.0]] * 5]
    assert middle_states(replace(problem, constraints=bounds[:1])) is None
    circle = CirclePendulum()
    limited = trajopt.StateBounds(circle, [-0.2, -np.inf], [0.6, np.inf])
    problem = Problem(circle, circle.embed(np.array([0.5, 0.3])), 3, [ControlCost(1.0)], [], [limited])
    wanted = np.tile(circle.embed(np.array([0.2, 0.3])), (3, 1))
    np.testing.assert_allclose(middle_states(problem)[1:], wanted, atol=1e-15)


def test_controls_that_keep_constraints_are_used_whatever_they_cost():
    """Standing still costs less than half, and breaks the constraint."""
    problem = arrival()
    us = DDP().solve(problem).us
    moving = replace(problem, running_costs=[*problem.running_costs, StateCost(problem.system, problem.x0, 1e3)])
    assert DDP(max_iterations=0).solve(moving, us=us).start == "given"
    free = replace(moving, constraints=[])
    assert DDP(max_iterations=0).solve(free, us=us).start == "held"


def test_held_controls_that_promise_nothing():
    """Directions that hold clipped controls and gain less than rounding are no steps: mu rises instead."""
    problem = problems.make("soft_manipulator_reach", dt=0.01, horizon=100, integrator="semi_implicit_euler")
    for solver in (ILQR(), DDP()):
        solution = solver.solve(problem)
        assert solution.converged and solution.iterations < 60 and solution.cost < 0.0714
