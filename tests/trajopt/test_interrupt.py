"""An interrupted solve returns the best iterate so far, whatever it was doing."""

from dataclasses import replace

import numpy as np
import pytest

import trajopt
from tests.trajopt.cases import cartpole, tip
from tests.trajopt.constrained_cases import several, speed_limit
from tests.trajopt.systems import Pendulum
from trajopt import DDP, ILQR, ControlCost, Problem, StateBounds, StateCost, Status

SOLVERS = {"ilqr": ILQR(), "ddp": DDP(), "tensor": DDP(hessian="tensor")}


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("make", [tip, cartpole])
def test_a_callback_that_interrupts(make, solver):
    """At the third iteration: the solution is the iterate that an ordinary stop there would give."""
    seen = []

    def interrupt(progress):
        seen.append(progress)
        if len(seen) == 3:
            raise KeyboardInterrupt

    solution = SOLVERS[solver].solve(make(), callback=interrupt)
    stopped = SOLVERS[solver].solve(make(), callback=lambda progress: progress.record.iteration == 2)
    assert solution.status == "interrupted" and "interrupted" in solution.message and not solution.converged
    assert solution.iterations == 3 and len(solution.log) == 4
    for name in ("xs", "us", "cost"):
        np.testing.assert_array_equal(getattr(solution, name), getattr(stopped, name))
    np.testing.assert_array_equal(solution.us, seen[-1].us)
    assert solution.cost == solution.log[-1].cost
    assert_good(solution)


def assert_good(solution):
    p = solution.problem
    for name in ("xs", "us", "k", "K", "Vx", "Vxx", "cost", "gaps", "gradient_norm"):
        assert np.isfinite(getattr(solution, name)).all(), name
    assert solution.cost == pytest.approx(p.objective.value(solution.xs, solution.us), rel=1e-12)
    assert solution.cost <= solution.log[0].cost or p.constraints
    assert len(solution.constraints) == len(p.constraints)
    np.testing.assert_allclose(solution.xs, p.system.rollout(p.x0, solution.us), atol=1e-9)


class Interrupting:
    """Raises KeyboardInterrupt once, in the n-th call of any of its methods."""

    left: float = np.inf

    def count(self):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


class InterruptingCost(Interrupting, ControlCost):
    def value(self, xs, us):
        self.count()
        return super().value(xs, us)

    def accumulate(self, xs, us, scale, target):
        self.count()
        super().accumulate(xs, us, scale, target)

    def accumulate_curvature(self, xs, us, scale, target):
        self.count()
        super().accumulate_curvature(xs, us, scale, target)


class InterruptingSystem(Interrupting, Pendulum):
    def linearize(self, xs, us):
        self.count()
        return super().linearize(xs, us)

    def closed_loop_rollout(self, x0, xs, us, k, K, alphas):
        self.count()
        return super().closed_loop_rollout(x0, xs, us, k, K, alphas)

    def hessian_products(self, xs, us, lam):
        self.count()
        return super().hessian_products(xs, us, lam)


def problem_of(system, cost, constraints=()):
    target = [StateCost(system, [1.5, 0.0], [50.0, 5.0])]
    return Problem(system, [0.3, 0.0], 12, [cost], target, constraints)


@pytest.mark.parametrize("solver", ["ilqr", "ddp"])
@pytest.mark.parametrize("where", ["cost", "system"])
@pytest.mark.parametrize("constrained", [False, True])
def test_whenever_it_comes(where, solver, constrained):
    """In every call, one after another: evaluation, expansion, sweep, line search, and between rounds.

    Only until the first iterate is expanded there is nothing to return, and the last call is that of the report.
    """
    if where == "cost":
        system, source = Pendulum(), InterruptingCost(1e-2)
        cost = source
    else:
        system = source = InterruptingSystem()
        cost = ControlCost(1e-2)
    bounds = [StateBounds(system, [-np.inf, -2.5], [np.inf, 2.5])] if constrained else []
    problem = problem_of(system, cost, bounds)
    whole = SOLVERS[solver].solve(problem)
    statuses, escaped = [], []
    first = 2 if where == "cost" else 1
    for call in range(first + 1, 400):
        source.left = call
        try:
            solution = SOLVERS[solver].solve(problem)
        except KeyboardInterrupt:
            escaped.append(call)
            continue
        finally:
            interrupted, source.left = source.left <= 0, np.inf
        if not interrupted:
            assert solution.converged
            np.testing.assert_array_equal(solution.us, whole.us)
            break
        statuses.append(solution.status)
        assert_good(solution)
    assert [c for c in escaped if c < call - 1] == [] and len(statuses) > 5
    assert set(statuses[:-3]) == {"interrupted"}


@pytest.mark.parametrize("make", [speed_limit, several])
def test_under_constraints(make):
    """The cost reported is the problem's own, not the augmented one, and every constraint has a report."""
    calls = []
    DDP().solve(make(), callback=calls.append)
    for stop in range(1, len(calls), 3):
        seen = []

        def interrupt(progress, seen=seen, stop=stop):
            seen.append(progress)
            if len(seen) == stop:
                raise KeyboardInterrupt

        solution = DDP().solve(make(), callback=interrupt)
        assert solution.status == "interrupted" and solution.iterations == stop
        np.testing.assert_array_equal(solution.us, seen[-1].us)
        assert_good(solution)


def test_other_exceptions_pass():
    def fail(progress):
        raise RuntimeError("of the callback")

    with pytest.raises(RuntimeError, match="of the callback"):
        DDP().solve(tip(), callback=fail)


def test_a_comparison_ends_at_an_interrupt():
    """Of the first of two solves, too, which warms up."""

    class Interrupted:
        solved = 0

        def solve(self, problem, us=None):
            self.solved += 1
            return replace(ILQR(max_iterations=2).solve(problem), status=Status.INTERRUPTED)

    solver = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        trajopt.compare(tip(), {"first": solver, "second": ILQR()})
    assert solver.solved == 1
