"""Costs linear in states and controls: their derivatives, linear programs, and what they refuse."""

import numpy as np
import pytest
from scipy.optimize import linprog

import trajopt
from tests.trajopt.cost_differences import assert_exact_hessians, assert_gradients, random_trajectory
from tests.trajopt.systems import CirclePendulum, Pendulum
from trajopt import ControlBounds, LinearCost, Problem, StateBounds


def point(nu, push):
    return trajopt.CallableSystem(xdot=lambda x, u: (x[1], push(u)), nx=2, nu=nu, dt=0.05)


@pytest.mark.parametrize("solver", [trajopt.ILQR(), trajopt.DDP()])
def test_least_fuel_is_a_linear_program(solver):
    """A metre from rest to rest in 3 s, |u| <= 1, at least int |u|, u = p - m; 3 - sqrt 5 for knots without end."""
    N, h = 60, 0.05
    system = point(2, lambda u: u[0] - u[1])
    there = StateBounds(system, [1.0, 0.0], [1.0, 0.0], at="terminal")
    limits = [ControlBounds(0.0, 1.0), there]
    solution = solver.solve(Problem(system, np.zeros(2), N, [LinearCost(controls=1.0)], [], limits))
    reach = h * np.vstack([3.0 - h * (np.arange(N) + 0.5), np.ones(N)])
    program = linprog(np.full(2 * N, h), A_eq=np.hstack([reach, -reach]), b_eq=[1.0, 0.0], bounds=(0.0, 1.0))
    assert solution.converged and solution.violation < 1e-6
    assert solution.cost == pytest.approx(program.fun, rel=1e-7) and abs(solution.cost - (3.0 - 5.0**0.5)) < 1e-3
    assert np.abs(solution.us.prod(axis=1)).max() < 1e-8  # never both at once


def test_greatest_height():
    """At the end of 1 s, with int u^2/2 for a cost: u = 1 - t at the middles of the knots but for rounding."""
    system, N = point(1, lambda u: u[0]), 20
    problem = Problem(system, [0.0, 0.0], N, [trajopt.ControlCost(1.0)], [LinearCost(states=[-1.0, 0.0])])
    solution = trajopt.DDP().solve(problem)
    np.testing.assert_allclose(solution.us[:, 0], 1.0 - 0.05 * (np.arange(N) + 0.5), atol=1e-10)


def test_derivatives_and_rows(rng):
    problem = Problem(Pendulum(), [0.1, 0.2], 5, [LinearCost([1.0, -2.0], 3.0)], [LinearCost([0.5, 0.0])])
    xs, us = random_trajectory(problem, rng)
    assert_gradients(problem, xs, us)
    assert_exact_hessians(problem, xs, us)
    rows = rng.standard_normal((5, 2))
    of_knots = LinearCost(rows, lambda t: t)
    cost = trajopt.total_cost(Problem(Pendulum(), [0.1, 0.2], 5, [of_knots]), xs, us)
    times = problem.times[:-1]
    assert cost == pytest.approx(problem.system.dt * (np.sum(rows * xs[:-1]) + times @ us[:, 0]))


def test_gradients_by_coefficients(rng):
    """Of a solution: dJ*/dc = x(N) by the envelope theorem."""
    problem = Problem(point(1, lambda u: u[0]), [0.0, 0.0], 20, [trajopt.ControlCost(1.0)], [LinearCost([-1.0, 0.3])])
    solution = trajopt.DDP().solve(problem)
    cost = problem.terminal_costs[0]
    for i, h in ((0, 1e-4), (1, 1e-4)):
        costs = []
        for sign in (1.0, -1.0):
            c = cost.states + sign * h * np.eye(2)[i]
            moved = Problem(problem.system, problem.x0, 20, problem.running_costs, [cost.adjusted(states=c)])
            costs.append(trajopt.DDP().solve(moved).cost)
        assert (costs[0] - costs[1]) / (2.0 * h) == pytest.approx(solution.xs[-1, i], abs=1e-6)


def of_pendulum(running, terminal=(), system=None):
    x0 = [0.0, 0.0] if system is None else [1.0, 0.0, 0.0]
    return Problem(Pendulum() if system is None else system, x0, 3, running, terminal)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: LinearCost(states="text"), "states: got"),
        (lambda: LinearCost(controls=[np.nan]), r"controls\[0\]: got"),
        (lambda: LinearCost(1.0, at="text"), "at"),
        (lambda: of_pendulum([LinearCost([1.0, 2.0, 3.0])]), "LinearCost states: got 3 numbers"),
        (lambda: of_pendulum([LinearCost(0.0, [1.0, 2.0])]), "LinearCost controls: got 2 numbers"),
        (lambda: of_pendulum([], [LinearCost(1.0, 1.0)]), "LinearCost of controls"),
        (lambda: of_pendulum([LinearCost(1.0)], system=CirclePendulum()), r"LinearCost states: .* manifold"),
    ],
)
def test_bad_input(make, match):
    with pytest.raises((TypeError, ValueError), match=match):
        make()
