"""What problems prepare consists of prepared calls alone, which give the bits of the plain functions."""

from functools import partial

import numpy as np
import pytest

import problems
from dynamics.simd.prepared_calls import calls_of, enter
from trajopt.problem.objective import zero_blocks

PIECES = (
    "acrobot", "arm", "arm_obstacle", "cartpole", "double_pendulum", "four_bar", "humanoid_stand", "pendulum_limits",
    "quadrotor", "quadruped_jump", "soft_manipulator_reach", "unicycle_obstacles",
)  # fmt: skip
"""Problems whose costs are made of prepared calls."""


def replay(function):
    """Make its calls by their addresses; returns the last one's result."""
    calls = calls_of(function)
    assert calls is not None
    for call in calls:
        assert enter(call.address) in (0, -2)
    return calls[-1].result()


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
