"""What problems prepare consists of prepared calls alone, which give the bits of the plain functions."""

from functools import partial

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics.simd import num_threads, set_num_threads
from dynamics.simd.prepared_calls import calls_of, enter
from trajopt.costs.cost_of_residual import add_curvature
from trajopt.problem.knot_rows import add_rows_at, place_of, rows_at
from trajopt.problem.objective import zero_blocks
from trajopt.rows import pack

PIECES = (
    "acrobot", "arm", "arm_obstacle", "cartpole", "double_pendulum", "four_bar", "humanoid_stand", "pendulum_limits",
    "quadrotor", "quadruped_jump", "soft_manipulator_reach", "unicycle_obstacles",
)  # fmt: skip
"""Problems whose costs are made of prepared calls."""


def replay(function):
    """Make its calls by their addresses, as for one thread; returns the last one's result."""
    count = num_threads()
    set_num_threads(1)
    try:
        calls = calls_of(function)
        assert calls is not None
        for call in calls:
            call.check(enter(call.address))
        return calls[-1].result()
    finally:
        set_num_threads(count)


def trajectory(problem, rng):
    """One that is no solution of the dynamics."""
    us = problem.us_init + 0.1 * rng.standard_normal(problem.us_init.shape)
    start = np.repeat(problem.x0[None], len(us) + 1, axis=0)
    return problem.system.integrate(start, 0.1 * rng.standard_normal((len(start), problem.system.ndx))), us


def bits(blocks):
    return [np.ascontiguousarray(block).tobytes() for block in blocks]


@pytest.mark.parametrize("name", PIECES)
def test_costs(name, rng):
    problem = problems.make(name)
    (xs, us), objective = trajectory(problem, rng), problem.objective
    cost = objective.prepared_value(xs, us)
    sizes = problem.horizon, problem.system.ndx, us.shape[1]
    first, second = zero_blocks(*sizes), zero_blocks(*sizes)
    expansions = [
        ((first, first), objective.prepared_expansion(xs, us, first, first)),
        ((None, second), objective.prepared_expansion(xs, us, None, second)),
    ]
    for _ in range(2):
        value = objective.value(xs, us)
        assert np.isfinite(value) and value == cost() == replay(cost)
        for into, expand in expansions:
            found = []
            for add in (partial(objective.accumulate, xs, us, *into), expand, partial(replay, expand)):
                for block in (*first, *second):
                    block.fill(0.0)
                add()
                found.append(bits((*first, *second)))
            assert found[0] == found[1] == found[2]
        xs[...], us[...] = trajectory(problem, rng)
    xs[-1, 0] = np.nan
    assert cost() == replay(cost) == np.inf


def rows_of(problem):
    """Rows of its constraints, with factors that are not 1."""
    rows = pack(problem, problem.residual_constraints)
    return rows.with_factors([1.0 + np.arange(one.nr) / 3.0 for one in rows.constraints])


def plain_rows(rows, xs, us, lam):
    """c, Cx, Cu, and the Hessians of lam'c, by the methods of residuals."""
    _, ndx, nu = rows.sizes
    c, Cx, Cu = np.empty(len(rows)), np.zeros((len(rows), ndx)), np.zeros((len(rows), nu))
    blocks = zero_blocks(len(us), ndx, nu)
    for block in rows.blocks:
        points, D, place = block.points(xs, us), rows.D[block.rows], place_of(block.knots)
        rx, ru = block.residual.jacobians(*points)
        c[block.rows], Cx[block.rows] = block.residual.evaluate(*points) * D, rx * D[:, :, None]
        if ru is not None and not block.of_states:
            Cu[block.rows] = ru * D[:, :, None]
        if not block.single:
            into = rows_at(blocks, place, block.of_states)
            add_curvature(block.residual, *points, lam[block.rows] * D, into)
            add_rows_at(blocks, place, into)
    return bits((c, Cx, Cu)), bits(blocks[2:])


def check_rows(problem, rng):
    rows, (xs, us), n, nu = rows_of(problem), trajectory(problem, rng), problem.system.ndx, problem.system.nu
    lam, blocks = rng.standard_normal(len(rows)), zero_blocks(problem.horizon, n, nu)
    c, Cx, Cu = np.empty(len(rows)), np.empty((len(rows), n)), np.empty((len(rows), nu))
    values, linearization = rows.prepared_values(xs, us, c), rows.prepared_linearization(xs, us, c, Cx, Cu)
    curvature = rows.prepared_curvature(xs, us, lam, blocks)
    for _ in range(2):
        expected, curved = plain_rows(rows, xs, us, lam)
        assert bits([rows.values(xs, us)]) == expected[:1] and bits(rows.linearized(xs, us)) == expected
        into = zero_blocks(problem.horizon, n, nu)
        rows.add_curvature(xs, us, lam, into)
        assert bits(into[2:]) == curved
        for make in values, partial(replay, values):
            c.fill(np.nan)
            make()
            assert bits([c]) == expected[:1]
        for make in linearization, partial(replay, linearization):
            c.fill(np.nan)
            make()
            assert bits((c, Cx, Cu)) == expected
        for make in curvature, partial(replay, curvature):
            for block in blocks:
                block.fill(0.0)
            make()
            assert bits(blocks[2:]) == curved
        xs[...], us[...] = trajectory(problem, rng)
        lam[...], rows.D[...] = rng.standard_normal(len(rows)), rng.uniform(0.5, 2.0, len(rows))


@pytest.mark.parametrize(
    "name",
    ["arm_obstacle", "humanoid_stand", "quadruped_jump", "soft_manipulator_obstacle", "unicycle_obstacles"],
)
def test_rows(name, rng):
    check_rows(problems.make(name), rng)


def test_rows_at_some_knots(rng):
    arm = problems.make("arm")
    system, model = arm.system, arm.system.model
    targets = rng.uniform(0.1, 0.5, (arm.horizon + 1, 3))
    tool = dynamics.FrameTranslation(model, "tool", targets)
    held = [
        trajopt.ResidualConstraint(tool, -0.1, 0.1, at=(1, 4, 7, arm.horizon)),
        trajopt.ResidualConstraint(trajopt.SquaredNorm(tool), 0.01, np.inf, at=(2, 3, 9)),
        trajopt.ResidualConstraint(dynamics.ControlGravity(model), -1.0, 1.0, at=(0, 5, 6)),
        trajopt.ResidualConstraint(trajopt.SquaredNorm(trajopt.StateResidual(system, components=[1, 4])), 0.0, 2.0),
        trajopt.StateBounds(system, -1.0, 1.0),
    ]
    check_rows(trajopt.Problem(system, arm.x0, arm.horizon, [trajopt.ControlCost(1.0)], [], constraints=held), rng)
