"""Solves that a time limit ends, by a clock of their own: the best iterate in time, and no more than an iteration."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from experiments.sensitivity.saddles import hanging_pendulum
from tests.trajopt.cases import cartpole, pendulum, tip
from tests.trajopt.constrained_cases import several, speed_limit
from tests.trajopt.systems import Pendulum
from tests.trajopt.test_explanation import impossible
from tests.trajopt.test_prepared import assert_same
from trajopt import DDP, ILQR, ControlCost, Problem, Solution, StateBounds, StateCost
from trajopt.solvers import formulation as timing
from trajopt.solvers import solve
from trajopt.solvers.solve import saddle

SOLVERS = {"ilqr": ILQR(), "ddp": DDP()}


class Clock:
    """Seconds that pass when they are told to."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def tick(self, *_):
        self.now += 1.0


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(timing, "time", found)
    return found


class Ticking(Pendulum):
    """A second passes with every expansion, and with every search; the call after the limit counts."""

    clock, limit, late = None, np.inf, 0

    def _pass(self):
        if self.clock is not None:
            self.late += self.clock.now >= self.limit
            self.clock.tick()

    def linearize(self, xs, us):
        self._pass()
        return super().linearize(xs, us)


def bounded(system, constraints=()):
    return Problem(
        system, [0.3, 0.0], 12, [ControlCost(1e-2)], [StateCost(system, [1.5, 0.0], [50.0, 5.0])], constraints
    )


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("make", [tip, cartpole])
def test_the_iterate_that_was_reached(make, solver, clock, tmp_path):
    """After two iterations of a second each: what a callback that stops there leaves, and where a solve can go on."""
    solver = SOLVERS[solver]
    found = solver.solve(make(), callback=clock.tick, time_limit=2.0)
    stopped = solver.solve(make(), callback=lambda progress: progress.record.iteration == 1)
    assert found.status == "time_limit" and "time limit" in found.message and not found.converged
    assert found.iterations == 2 and len(found.log) == 3 and found.log[-1].cost == found.cost
    for name in ("xs", "us", "cost"):
        np.testing.assert_array_equal(getattr(found, name), getattr(stopped, name))
    assert found.warm_start().predicted == found.log[1].predicted_decrease
    assert not found.k.any() and np.abs(found.K).max() > 0.0
    loaded = Solution.load(found.save(tmp_path / "solution.npz"))
    assert loaded.status == "time_limit" and "warm_start=solution" in found.explain()
    assert solver.solve(make(), warm_start=found).converged


def test_a_limit_that_is_not_reached_changes_nothing(clock):
    for make in (tip, several):
        for solver in SOLVERS.values():
            prepared = solver.prepare(make())
            assert_same(prepared.solve(time_limit=1.0), solver.solve(make()))


@pytest.mark.parametrize("make", [pendulum, speed_limit, several])
def test_the_start_where_there_is_no_time(make, clock):
    clock.perf_counter = lambda: clock.tick() or clock.now  # a second passes whenever somebody looks
    found, problem = DDP().solve(make(), time_limit=1e-9), make()
    assert found.status == "time_limit" and found.iterations == 0 and len(found.log) == 1
    np.testing.assert_array_equal(found.us, problem.us_init)
    np.testing.assert_array_equal(found.xs, problem.system.rollout(problem.x0, problem.us_init))
    assert not found.K.any() and np.isfinite(found.cost) and found.warm_start().predicted == np.inf
    assert len(found.constraints) == len(problem.constraints)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("limit", [0.5, 1.5, 2.5])
def test_no_more_than_an_iteration_after_it(limit, solver, clock):
    """Expansions that begin after the limit: at most that of the next iterate."""
    for constraints in (False, True):
        system = Ticking()
        bounds = [StateBounds(system, [-np.inf, -2.5], [np.inf, 2.5])] if constraints else []
        clock.now, problem = 0.0, bounded(system, bounds)
        system.clock, system.limit, system.late = clock, limit, 0
        found = SOLVERS[solver].solve(problem, time_limit=limit)
        assert found.status == "time_limit" and system.late <= 1


def test_searches_for_feasible_points_end_too(clock):
    """Nothing is said of contradictions then."""
    whole = DDP().solve(impossible())
    assert whole.status == "infeasible"
    system = Ticking()
    problem = bounded(system, [StateBounds(system, [1.0, -np.inf], [2.0, 3.0])])
    statuses = []
    for limit in (8.5, 16.5, 18.5, 20.5, 25.5, 1e4):
        clock.now, system.clock, system.limit, system.late = 0.0, clock, limit, 0
        statuses.append(DDP().solve(problem, time_limit=limit).status)
        assert system.late <= 1
    assert statuses == ["time_limit"] * 5 + ["infeasible"]


def test_constraints_before_costs(clock):
    """The start costs much and meets the constraint; iterates cost little and miss it, until the end."""
    costs = []
    for limit in range(1, 9):
        clock.now = 0.0
        found = DDP().solve(speed_limit(), callback=clock.tick, time_limit=float(limit))
        costs.append(found.cost)
        if found.status == "time_limit":
            assert found.violation <= DDP().feasibility_tolerance
    assert all(after <= before for before, after in pairwise(costs)) and costs[-1] < 0.1 * costs[0]
    clock.now, violations = 0.0, []
    for limit in range(1, 9):
        clock.now = 0.0
        violations.append(DDP().solve(several(), callback=clock.tick, time_limit=float(limit)).violation)
    assert all(after <= before for before, after in pairwise(violations))


def test_gaps_before_costs(clock):
    """States that cost nothing and that the dynamics do not connect, to a plan that costs something."""
    problem = pendulum()
    xs = np.linspace(problem.x0, [np.pi, 0.0], problem.horizon + 1)
    found = DDP().solve(problem, xs=xs, callback=clock.tick, time_limit=2.0)
    assert (
        found.status == "time_limit" and found.largest_gap < 1e-2 and found.cost > problem.objective.value(xs, found.us)
    )


def test_a_single_iteration_is_complete(clock):
    """Of predictive control: it ends as without a limit, and as the start if there is no time for it."""
    problem, solver = pendulum(), DDP(max_iterations=1)
    plan, prepared = DDP().solve(problem).shifted(), solver.prepare(problem)
    np.testing.assert_array_equal(
        prepared.solve([0.4, 0.1], warm_start=plan, time_limit=1.0).us, prepared.solve([0.4, 0.1], warm_start=plan).us
    )
    clock.perf_counter = lambda: clock.tick() or clock.now
    found = prepared.solve([0.4, 0.1], warm_start=plan, time_limit=1e-9)
    assert found.status == "time_limit" and found.iterations == 0
    np.testing.assert_array_equal(found.us, plan.us)


def test_time_that_ends_on_the_way_from_a_saddle(clock, monkeypatch):
    """What the saddle's curvature leads to breaks a limit, which the saddle keeps."""
    free = hanging_pendulum()
    limits = [StateBounds(free.system, [-np.inf, -0.5], [np.inf, 0.5])]
    problem, ways = replace(free, constraints=limits), []

    def found_late(*arguments):
        ways.append(saddle(*arguments))
        clock.now = 1.0
        return ways[-1]

    monkeypatch.setattr(solve, "saddle", found_late)
    found = DDP().solve(problem, time_limit=0.5)
    assert ways[0].escape is not None and np.abs(ways[0].escape.xs[:, 1]).max() > 0.6
    assert found.status == "time_limit" and found.violation <= DDP().feasibility_tolerance
    assert not found.us.any() and found.log[-1].cost == found.cost
