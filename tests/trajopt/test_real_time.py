"""Single iterations, as in predictive control: limits of states, soft and hard, plans that stay near the best ones."""

import itertools
import warnings

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from experiments.mpc_latency.renewed import SAID, SOLVERS, motion, start_of
from experiments.mpc_latency.ten import TEN
from trajopt import DDP, ILQR
from trajopt.solvers import constrained, real_time
from trajopt.solvers.cycle import cycle_of
from trajopt.solvers.iteration import ENDS, MAX_ITERATIONS


def mass():
    """A double integrator with a speed limit: a convex quadratic program, whose minimum costs 0.82088."""
    system = trajopt.CallableSystem(xdot=lambda x, u: (x[1], u[0]), nx=2, nu=1, dt=0.1)
    return slow(system, [trajopt.StateCost(system, [0.5, 0.0], [10.0, 1.0]), trajopt.ControlCost(0.1)])


def rod(formulation):
    """A rod with a motor, which turns within a speed limit."""

    def make():
        builder = dynamics.ModelBuilder()
        builder.add_body(
            "rod", "world", dynamics.Revolute("y"), mass=1.0, com=(0.0, 0.0, -0.3), inertia=0.05 * np.eye(3)
        )
        system = dynamics.RigidBodySystem(builder.build(), 0.1, formulation=formulation)
        return slow(system, [trajopt.StateCost(system, [0.5, 0.0], [10.0, 1.0]), trajopt.ControlCost(0.1)])

    return make


def slow(system, running):
    limits = [trajopt.StateBounds(system, [-1.0, -0.4], [1.0, 0.4]), trajopt.ControlBounds(-6.0, 6.0)]
    return trajopt.Problem(system, np.zeros(2), 20, running, constraints=limits)


SYSTEMS = {"users": mass, "robot": rod("forward"), "accelerations": rod("inverse")}
KINDS = [(solver, soft, most) for solver in (DDP, ILQR) for soft in (0.0, 1e3) for most in (1, 2)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda k: f"{k[0].__name__} {'soft' if k[1] else 'hard'} {k[2]}")
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_way_to_make_few_iterations(system, kind):
    """Cold and warm, from solves to convergence and from single iterations, of soft and of hard constraints, prepared
    and not, with gaps and without; from the best plan of the same problem they lead to the best one."""
    (solver, soft, most), problem = kind, SYSTEMS[system]()
    few, known = solver(soft_penalty=soft, max_iterations=most), {}
    for penalty in (0.0, 1e3):
        known[penalty] = (
            solver(soft_penalty=penalty).solve(problem),
            solver(soft_penalty=penalty, max_iterations=1).solve(problem),
        )
    best = known[soft][0].cost
    prepared, away = few.prepare(problem), np.array([0.02, 0.05])
    elsewhere = solver(soft_penalty=soft).solve(prepared.at(away)).cost
    assert np.isfinite(few.solve(problem).cost) and np.isfinite(prepared.solve().cost)
    for (penalty, plans), (x0, cost) in itertools.product(known.items(), ((problem.x0, best), (away, elsewhere))):
        for plan, exact in zip(plans, (True, False), strict=True):
            start = plan.shifted(0)
            found = few.solve(prepared.at(x0), warm_start=start), prepared.solve(x0, warm_start=start)
            assert found[0].xs.tobytes() == found[1].xs.tobytes()
            assert np.isfinite(found[0].cost)
            if exact and penalty == soft:
                assert found[0].cost == pytest.approx(cost, rel=2e-2)


def test_soft_limits_in_the_units_of_the_user():
    """Also from the plan of a problem with hard ones, whose rows are scaled: the least cost with that penalty."""
    problem = mass()
    for solver, first in itertools.product(
        (DDP, ILQR), (DDP(), ILQR(soft_penalty=1e3), DDP(soft_penalty=1e3, max_iterations=1))
    ):
        for most in (1, 2, 100):
            plan = solver(soft_penalty=1e3, max_iterations=most).solve(
                problem, warm_start=first.solve(problem).shifted()
            )
            assert plan.cost == pytest.approx(0.8208808546, rel=1e-9)


@pytest.mark.parametrize("kind", SOLVERS)
@pytest.mark.parametrize(
    "name", ["unicycle, pillars", "point mass", "free body, speed limits", "the same with a wheel", "cart-pole, rail"]
)
@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_plans_stay_near_the_best_ones(name, kind, noise):
    """No plan costs more than 1.3 of the costliest one of solves to convergence; a cycle without a step says so."""
    problem = TEN[name]()
    start = start_of(problem)
    best = motion(problem, DDP(), start, noise, 12, 0)
    found = motion(problem, SOLVERS[kind], start, noise, 12, 0)
    assert found.plans.max() <= 1.3 * best.plans.max()
    assert found.executed <= 1.02 * best.executed
    assert found.silent == 0


@pytest.mark.parametrize("kind", SOLVERS)
def test_steps_prepared_before_the_sample(kind):
    """Plans that `prepare_step` makes ahead of states stay near the best ones, too."""
    problem, rng = TEN["free body, speed limits"](), np.random.default_rng(0)
    system, controller = problem.system, SOLVERS[kind].prepare(problem)
    feedback, x, costs = controller.prepare_step(problem.x0, warm_start=start_of(problem)), problem.x0, []
    for _ in range(12):
        u = feedback(x)
        expected, moved = system.step(x, u), feedback.plan(x, steps=1)
        feedback = controller.prepare_step(expected, warm_start=moved)
        costs.append(feedback.solution.cost)
        x = system.integrate(expected, 1e-4 * rng.standard_normal(system.ndx))
    assert max(costs) <= 1.3 * 3.3


@pytest.mark.parametrize("kind", SOLVERS)
def test_targets_that_move(kind):
    """A goal that jumps in a cycle, under limits of speed."""
    problem = TEN["point mass"]()
    system, few, whole = problem.system, SOLVERS[kind].prepare(problem), DDP().prepare(problem)
    plan, x, goal = start_of(problem), problem.x0, np.array([3.0, 0.3, 0.0, 0.0])
    for i in range(12):
        x, goal[1] = system.step(x, plan.us[0]), 0.3 - 0.05 * i
        for each in (few, whole):
            each.update({"terminal StateCost": goal})
        plan = few.solve(x, warm_start=few.shifted(plan))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            best = whole.solve(x, warm_start=plan)
        assert plan.cost <= 1.3 * best.cost + 1e-2
        assert plan.violation < 1e-2


@pytest.mark.parametrize("most", [0, 1, 3, None])
@pytest.mark.parametrize("soft", [0.0, 1e3])
@pytest.mark.parametrize("kind", [DDP, ILQR])
def test_a_cap_of_sweeps(kind, soft, most, monkeypatch):
    """No more sweeps than asked for follow the first one, by the loop in Python and the compiled cycle, whose bits are
    the same; a cycle that has no step then says so."""
    problem, rng = TEN["cart-pole, rail"](), np.random.default_rng(1)
    solver, system = kind(max_iterations=1, max_sweeps=most, soft_penalty=soft), problem.system
    start = DDP(soft_penalty=soft).solve(problem) if soft else start_of(problem)
    prepared, cycle, plan, x, taken = (
        solver.prepare(problem),
        cycle_of(solver, solver._curvature(), problem, start),
        start,
        problem.x0,
        [],
    )
    minimum = constrained.model_minimum

    def counted(*arguments):
        taken.append(minimum(*arguments))
        return taken[-1]

    monkeypatch.setattr(constrained, "model_minimum", counted)
    for _ in range(10):
        x = system.integrate(system.step(x, plan.us[0]), 0.03 * rng.standard_normal(system.ndx))
        taken.clear()
        plan, code = prepared.solve(x, warm_start=prepared.shifted(plan)), cycle(x)
        if most is not None:
            assert sum(each.sweeps for each in taken) + len(taken) - 1 <= most
        assert cycle.us.tobytes() == plan.us.tobytes()
        lost = not plan.converged and not plan.log[0].alpha > 0.0
        assert lost == (plan.status in SAID)
        assert (code > MAX_ITERATIONS) == lost


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *itertools.product(["last state", "a state", "controls", "gains"], [np.nan, np.inf, 1e200]),
        *itertools.product(["costate", "multipliers", "all"], [np.nan, np.inf]),
    ],
)
def test_a_plan_that_is_not_finite_begins_afresh(name, value):
    """Whatever a cycle begins with, what it leaves is finite; good states then lead back to the best plan."""
    problem = mass()
    solver, start = DDP(max_iterations=1), DDP().solve(problem)
    cycle, healthy = [cycle_of(solver, solver._curvature(), problem, start) for _ in range(2)]
    wrong = {"last state": cycle.xs[-1:], "a state": cycle.xs[3:4], "controls": cycle.us, "gains": cycle.K}
    wrong |= {"costate": cycle.costate, "multipliers": cycle.lam}
    for array in wrong.values() if name == "all" else [wrong[name]]:
        array[...] = value
    for i in range(12):
        code = cycle(problem.x0)
        healthy(problem.x0)
        for array in (cycle.xs, cycle.us, cycle.K, cycle.costate, cycle.lam):
            assert np.isfinite(array).all(), i
    assert code <= MAX_ITERATIONS
    assert problem.objective.value(cycle.xs, cycle.us) == pytest.approx(
        problem.objective.value(healthy.xs, healthy.us), rel=1e-2
    )


def gusts(rng, number, size):
    """Changes of the state of a cart with a pole, more than plans can follow."""
    return size * np.array([0.1, 0.3, 1.5, 3.0]) * rng.standard_normal((number, 4))


@pytest.mark.parametrize("kind", SOLVERS)
def test_same_bits_where_no_step_closes_a_gap(kind, monkeypatch):
    """A cart with a pole that gusts push far off its plan: the loop in Python and the compiled cycle."""
    problem = problems.make("cartpole")
    system, solver, plan, x, rollouts = problem.system, SOLVERS[kind], DDP().solve(problem), problem.x0, []
    prepared, cycle = solver.prepare(problem), cycle_of(solver, solver._curvature(), problem, plan)
    rolled_out = real_time.rolled_out
    monkeypatch.setattr(real_time, "rolled_out", lambda *given: rollouts.append(rolled_out(*given)) or rollouts[-1])
    for gust in gusts(np.random.default_rng(5), 60, 1.0):
        x = system.integrate(system.step(x, plan.us[0]), gust)
        plan, code = prepared.solve(x, warm_start=prepared.shifted(plan)), cycle(x)
        assert cycle.us.tobytes() == plan.us.tobytes() and cycle.xs.tobytes() == plan.xs.tobytes()
        assert ENDS[code] == plan.status
    assert rollouts


@pytest.mark.parametrize("kind", SOLVERS)
def test_plans_keep_to_the_state_where_no_step_closes_a_gap(kind, rng):
    """The same within limits of the force, so that no rollout diverges: a plan whose gap no step closes is given up for
    one that begins where the cart is, whatever that costs."""
    problem = problems.make("cartpole")
    problem = trajopt.Problem(
        problem.system, problem.x0, 50, problem.running_costs, problem.terminal_costs,
        constraints=[trajopt.ControlBounds(-20.0, 20.0)],
    )  # fmt: skip
    system, plan, x = problem.system, start_of(problem), problem.x0
    prepared = SOLVERS[kind].prepare(problem)
    for gust in gusts(rng, 60, 0.5):
        x = system.integrate(system.step(x, plan.us[0]), gust)
        plan = prepared.solve(x, warm_start=prepared.shifted(plan))
        assert plan.consistent or plan.status not in SAID
        if plan.consistent:
            np.testing.assert_array_equal(plan.xs[0], x)


def test_advice_after_a_sample():
    """It speaks of the next one, not of more iterations; after a solve from the cold, of these."""
    problem, solver = mass(), ILQR(max_iterations=1)
    cold = solver.solve(problem)
    assert "raise max_iterations" in cold.explain(solver)
    plan = solver.solve(problem, warm_start=cold.shifted())
    for text in plan.explain(solver), plan.explain():
        assert "raise max_iterations" not in text and "go on with the next sample" in " ".join(text.split())


@pytest.mark.parametrize("kind", [DDP, ILQR])
def test_a_bound_of_sweeps_makes_no_plan_optimal(kind):
    """Where sweeps end before it is known which constraints are active, a small predicted decrease is no optimum: a
    cycle that says so is one, and others without a step say that they are lost."""
    system = trajopt.CallableSystem(
        xdot=lambda x, u: (x[3] * np.cos(x[2]), x[3] * np.sin(x[2]), x[3] * np.tan(u[1]) / 0.3, u[0]),
        nx=4, nu=2, dt=0.05,
    )  # fmt: skip
    apart = trajopt.residual(lambda x: ((x[0] - 1.5) ** 2 + (x[1] - 0.05) ** 2 - 0.16,), 1, system)
    free, goal = np.inf, [3.0, 0.0, 0.0, 0.0]
    problem = trajopt.Problem(
        system, np.zeros(4), 40, [trajopt.StateCost(system, goal, [1.0, 1.0, 0.1, 0.05]), trajopt.ControlCost(0.05)],
        [trajopt.StateCost(system, goal, [20.0, 20.0, 2.0, 5.0])],
        [
            trajopt.ControlBounds([-2.0, -0.5], [2.0, 0.5]),
            trajopt.ResidualConstraint(apart, 0.0, free, at="all", name="disc"),
            trajopt.StateBounds(system, [-free, -free, -free, -0.2], [free, free, free, 1.2]),
        ],
        us_init=np.tile([0.5, 0.05], (40, 1)),
    )  # fmt: skip
    few, rng, x, lost = kind(max_iterations=1, max_sweeps=1), np.random.default_rng(3), problem.x0, 0
    prepared, plan = few.prepare(problem), DDP().solve(problem)
    cycle = cycle_of(few, few._curvature(), problem, plan)
    for _ in range(45):
        plan, code = prepared.solve(x, warm_start=prepared.shifted(plan)), cycle(x)
        lost += plan.status in SAID
        assert ENDS[code] == plan.status
        if cycle.program.state["asked"][0] == 0:
            assert cycle.us.tobytes() == plan.us.tobytes()
        if plan.converged:
            assert plan.cost <= 1.001 * DDP().solve(prepared.at(x), us=plan.us, xs=plan.xs).cost
        x = system.integrate(system.step(x, plan.us[0]), 1e-3 * rng.standard_normal(4))
    assert lost > 0
