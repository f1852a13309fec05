"""Problems in other units: statuses and optima are the same in metres and earth radii, with costs large and small."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import trajopt
from experiments.constraints.catalogue import statement
from experiments.constraints.residuals import problem_of
from experiments.constraints.starts import controls
from experiments.constraints.statement import Squares
from trajopt import (
    DDP,
    ILQR,
    ControlBounds,
    ControlCost,
    Problem,
    ResidualConstraint,
    StateBounds,
    StateCost,
    StateResidual,
)
from trajopt.backward.regularization import Regularization, curvature_scale
from trajopt.rows import pack

EARTH, START, END = 3.986e14, 7e6, 8e6
"""Gravitational parameter, m^3/s^2; radii of two circular orbits, m."""
UNITS = {"m": (1.0, 1.0), "km": (1e3, 1.0), "mm": (1e-3, 1.0), "m and h": (1.0, 3600.0), "earth": (6.371e6, 806.8)}
"""Units of length [m] and time [s]."""
WEIGHTS = 1e-12, 1.0, 1e6
KNOTS, DURATION = 32, 3200.0
OPTIMA = {}


def orbit(length, time, weight, goal, limit):
    """A satellite goes from one orbit to the other in 3200 s: weight times the integral of half its squared thrust
    [m^2/s^3]; to a point and a velocity, to the orbit, or near these."""
    mu, r0, r1, dt = EARTH / length**3 * time**2, START / length, END / length, DURATION / KNOTS / time
    speed, x0 = np.sqrt(mu / r1), [r0, 0.0, 0.0, np.sqrt(mu / r0)]

    def xdot(x, u):
        r3 = (x[0] * x[0] + x[1] * x[1]) ** 1.5
        return x[2], x[3], u[0] - mu * x[0] / r3, u[1] - mu * x[1] / r3

    def off(x):
        r = (x[0] * x[0] + x[1] * x[1]) ** 0.5
        return r - r1, (x[0] * x[2] + x[1] * x[3]) / r, (x[0] * x[3] - x[1] * x[2]) / r - speed

    system = trajopt.CallableSystem(xdot=xdot, nx=4, nu=2, dt=dt, x_example=x0)
    c, s = np.cos(1.02 * np.pi), np.sin(1.02 * np.pi)
    point = [r1 * c, r1 * s, -speed * s, speed * c]
    costs, constraints = [], []
    if goal == "near":
        weights = weight * np.array([1e-6 * length**2] * 2 + [(length / time) ** 2] * 2)
        costs.append(StateCost(system, point, weights))
    else:
        residual = StateResidual(system, point) if goal == "point" else trajopt.residual(off, 3, system, x_example=x0)
        constraints.append(ResidualConstraint(residual, at="terminal", name="arrival"))
    if limit is not None:
        limit = limit * time**2 / length
        constraints.append(ControlBounds(-limit, limit))
    thrust = ControlCost(2.0 * weight * length**2 / time**3)
    return Problem(system, x0, KNOTS, [thrust], costs, constraints)


GOALS = [("point", None), ("point", 0.38), ("orbit", None), ("orbit", 0.28), ("near", 0.38)]


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(("goal", "limit"), GOALS)
def test_an_orbit_is_the_same_in_all_units(goal, limit, units):
    """As in earth radii, in which all numbers are near 1: converged, the cost the same to seven digits, the rows met to
    the tolerance or to a hundred times the rounding of metres that are counted in millions."""
    if (goal, limit) not in OPTIMA:
        known = DDP().solve(orbit(*UNITS["earth"], 1.0, goal, limit))
        assert known.converged
        OPTIMA[goal, limit] = known.cost
    length, _ = UNITS[units]
    for weight, solver in itertools.product(WEIGHTS, (ILQR(), DDP())):
        solution = solver.solve(orbit(*UNITS[units], weight, goal, limit))
        assert solution.status == "converged", (weight, solver)
        assert solution.cost / weight == pytest.approx(OPTIMA[goal, limit], rel=1e-7)
        assert solution.violation * length <= max(1e-7 * length, 1e-6)
        said = " ".join(solution.explain(solver).split())
        assert "feasibility_tolerance" not in said and "larger tolerance" not in said


def test_what_rounding_leaves_of_a_row_is_said():
    solution = DDP().solve(orbit(1e-3, 1.0, 1.0, "point", None))
    report = solution.constraints[0]
    assert solution.converged and report.excess <= 1e-7
    values = np.zeros_like(report.values)
    values[0, 0] = 0.5 * report.rounding[0]
    inside = replace(solution, constraints=(report._replace(values=values),))
    assert report.rounding[0] > 1e-7 and inside.constraints[0].excess == 0.0
    assert "rounding of numbers so large" in " ".join(inside.explain().split())
    values[0, 0] = 2.0 * report.rounding[0]
    outside = replace(solution, constraints=(report._replace(values=values),))
    assert outside.constraints[0].excess == outside.constraints[0].violation
    assert "rounding of numbers so large" not in " ".join(outside.explain().split())


def test_own_optima_return_in_other_units():
    """A warm start keeps the scaling of rows, and ends where it began."""
    for units in ("m", "mm", "m and h"):
        problem = orbit(*UNITS[units], 1.0, "orbit", 0.28)
        solution = DDP().solve(problem)
        again = DDP().solve(problem, warm_start=solution)
        assert again.converged and again.cost == pytest.approx(solution.cost, rel=1e-7)
        np.testing.assert_array_equal(again.constraints[0].factors, solution.constraints[0].factors)


@pytest.mark.parametrize("factor", [2.0**-10, 2.0**10, 2.0**20])
@pytest.mark.parametrize("name", ["bryson_denham", "obstacle_ahead", "crane", "cart_pole", "arm_tip", "hang_glider"])
def test_second_solves_where_costs_have_another_unit(name, factor):
    """From the solution with its multipliers, and from its controls alone; nothing stalls at the optimum."""
    of_one = statement(name)

    def times(cost):
        weights = {"weights": factor * np.asarray(cost.weights, dtype=float)} if isinstance(cost, Squares) else {}
        return replace(cost, **(weights or {"slope": factor * cost.slope}))

    running, terminal = (tuple(times(cost) for cost in costs) for costs in (of_one.running, of_one.terminal))
    problem = problem_of(replace(of_one, running=running, terminal=terminal))
    first = DDP().solve(problem, controls(of_one, 0, 0))
    again, rolled_out = DDP().solve(problem, warm_start=first), DDP().solve(problem, first.us)
    assert first.converged and again.converged and rolled_out.converged
    assert again.iterations == 0 and again.cost == first.cost
    assert rolled_out.cost == pytest.approx(first.cost, rel=1e-5) and rolled_out.violation < 1e-7 + first.violation


def swing(angle, time, weight):
    """A pendulum with angles in units of `angle` rad and time in units of `time` s."""

    def xdot(x, u):
        return x[1], time**2 / angle * (u[0] - 9.81 * np.sin(angle * x[0])) - 0.1 * time * x[1]

    system = trajopt.CallableSystem(xdot=xdot, nx=2, nu=1, dt=0.05 / time)
    weights = weight * np.array([100.0 * angle**2, 10.0 * (angle / time) ** 2])
    costs = [ControlCost(weight * time * 1e-3)], [StateCost(system, [np.pi / angle, 0.0], weights)]
    return Problem(system, [0.0, 0.0], 40, *costs)


@pytest.mark.parametrize("first", [0.0, 1e3])
@pytest.mark.parametrize("units", [(1.0, 1.0, 1e-12), (1.0, 1.0, 1e9), (1e-6, 1.0, 1.0), (1e3, 3600.0, 1e-9)], ids=str)
def test_a_pendulum_in_other_units(units, first):
    """Without constraints, also where the first steps are shortened: a mu counted in 1 would be 1e15 times costs of
    1e-12, and nothing next to those of 1e9."""
    solver = DDP(initial_regularization=first)
    plain, other = solver.solve(swing(1.0, 1.0, 1.0)), solver.solve(swing(*units))
    assert plain.converged and other.converged
    assert other.cost / units[2] == pytest.approx(plain.cost, rel=1e-9)
    assert other.iterations <= 3 * plain.iterations + 10


def test_mu_has_the_unit_of_the_costs():
    """1 for all ordinary costs, so that nothing depends on it there; their curvature for others, or 1 without any."""
    problem = orbit(1.0, 1.0, 1.0, "near", None)
    xs, us = np.tile(problem.x0, (KNOTS + 1, 1)), problem.us_init
    e = trajopt.expand(problem, xs, us)
    for factor, unit in ((1.0, 1.0), (1e-2, 1.0), (2.0**-40, None), (2.0**40, None)):
        scaled = e._replace(lxx=factor * e.lxx, luu=factor * e.luu)
        largest = (np.einsum("tii->ti", scaled.luu) + np.einsum("tji,tjk,tki->ti", e.fu, scaled.lxx[1:], e.fu)).max()
        got = curvature_scale(scaled)
        assert got == unit or (unit is None and 0.7 < got / largest < 1.5 and np.log2(got) % 1.0 == 0.0)
    assert curvature_scale(e._replace(lxx=0.0 * e.lxx, luu=0.0 * e.luu)) == 1.0
    r = Regularization(scale=2.0**-30).increased()
    assert r.shift == r.mu * 2.0**-30 and r.small and r.increased().shift == 10.0 * r.shift


def test_rows_are_scaled_by_their_slopes_or_by_what_they_are_made_of():
    for units, large in (("m", True), ("earth", False)):
        problem = orbit(*UNITS[units], 1.0, "point", None)
        xs = np.tile(problem.x0, (KNOTS + 1, 1))
        rows = pack(problem, problem.residual_constraints).scaled_at(xs, problem.us_init)
        c = rows.values(xs, problem.us_init)
        assert rows.large == large and (np.abs(c) <= (1.0 if large else 10.0)).all()
        assert (rows.D == 1.0).all() or large
        size = np.abs(c / rows.D) + np.abs(problem.x0)
        np.testing.assert_allclose(rows.rounding, 100.0 * 2.0**-52 * size, rtol=1e-12)
        measured = pack(problem, problem.residual_constraints).measured_at(xs, problem.us_init)
        assert (measured.D == 1.0).all() and measured.large == large
        np.testing.assert_array_equal(measured.rounding, rows.rounding)


@pytest.mark.parametrize("mass", [1e-6, 1.0, 3e3, 1e4, 1e6])
@pytest.mark.parametrize("constraint", [StateBounds, "box"])
def test_a_heavy_body_moves_like_a_light_one(mass, constraint):
    """1.5 m in 3 s from rest to rest with forces in newtons, which move it little: a linear system with a quadratic
    cost, whose solution has the least norm; to a point, or near it."""
    N, dt, goal = 30, 0.1, np.array([1.5, 0.0])
    A = np.array([[(N - 1 - t + 0.5) * dt * dt for t in range(N)], [dt] * N])
    least = A.T @ np.linalg.solve(A @ A.T, goal)
    system = trajopt.CallableSystem(xdot=lambda x, u: (x[1], u[0] / mass), nx=2, nu=1, dt=dt)
    margin = 0.0 if constraint is StateBounds else 0.2
    end = StateBounds(system, goal - margin, goal + margin, at="terminal")
    for weight, solver in itertools.product((1.0 / mass**2, 1.0), (ILQR(), DDP())):
        solution = solver.solve(Problem(system, [0.0, 0.0], N, [ControlCost(weight)], [], [end]))
        assert solution.converged and solution.violation <= 1e-7 and solution.iterations <= 30
        if margin == 0.0:
            assert solution.cost == pytest.approx(0.5 * dt * weight * mass**2 * least @ least, rel=1e-8)


@pytest.mark.parametrize("mass", [1.0, 1e5])
def test_a_heavy_body_that_cannot_get_there_is_infeasible(mass):
    """Whatever its mass, with the largest force that grows with it; and only then."""
    system = trajopt.CallableSystem(xdot=lambda x, u: (x[1], u[0] / mass), nx=2, nu=1, dt=0.1)
    end = ResidualConstraint(StateResidual(system, [1.5, 0.0]), at="terminal")
    for limit, status in ((0.5, "infeasible"), (0.7, "converged")):  # 2/3 m/s^2 are just enough
        bounds = ControlBounds(-limit * mass, limit * mass)
        problem = Problem(system, [0.0, 0.0], 30, [ControlCost(1.0 / mass**2)], [], [end, bounds])
        assert DDP().solve(problem).status == status
