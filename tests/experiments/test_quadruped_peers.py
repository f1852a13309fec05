"""Quadrupeds in Crocoddyl and here: the statements agree, and so do the optima."""

import numpy as np
import pytest

import trajopt

pytestmark = pytest.mark.peer
pytest.importorskip("pinocchio")
crocoddyl = pytest.importorskip("crocoddyl")
pytest.importorskip("example_robot_data")

from experiments.peers.contestants import controls_for  # noqa: E402
from experiments.quadruped import anymal, jumps, standing, starts  # noqa: E402
from experiments.quadruped.translation import is_impulse  # noqa: E402

EQUAL = 1e-10
FDDP_ITERATIONS = 100


@pytest.fixture(scope="module")
def pairs():
    """Standing robots and gaits by name."""
    return {pair.name: pair for pair in (*standing.pairs(), *anymal.pairs())}


STANDING = [f"standing {name}" for name in standing.FEET]
GAITS = [f"ANYmal {name}" for name in anymal.PUBLISHED]


@pytest.mark.parametrize("name", [*STANDING, *GAITS])
def test_costs_steps_and_gradients_agree(pairs, name):
    pair = pairs[name]
    problem, system, rng = pair.ours, pair.ours.system, np.random.default_rng(3)
    xs = system.integrate(starts.held(pair).ours, 0.02 * rng.standard_normal((problem.horizon + 1, system.ndx)))
    idle = getattr(system, "idle", np.zeros(problem.horizon, bool))
    us = problem.us_init + 0.5 * rng.standard_normal(problem.us_init.shape) * ~idle[:, None]
    theirs = list(xs), controls_for(pair.theirs, us)
    cost = pair.theirs.calc(*theirs)
    pair.theirs.calcDiff(*theirs)
    assert trajopt.total_cost(problem, xs, us) == pytest.approx(cost, rel=EQUAL)
    ends = np.array([data.xnext for data in pair.theirs.runningDatas])
    assert np.abs(system.step(xs[:-1], us) - ends).max() <= EQUAL * np.abs(ends).max()
    expansion = trajopt.expand(problem, xs, us)
    for t, data in enumerate(pair.theirs.runningDatas):
        assert np.abs(expansion.lx[t] - data.Lx).max() <= EQUAL * np.abs(data.Lx).max()
        assert np.abs(expansion.fx[t] - data.Fx).max() <= EQUAL * np.abs(data.Fx).max()
    assert [is_impulse(model) for model in pair.theirs.runningModels] == idle.tolist()


@pytest.mark.parametrize("name", [*STANDING, *GAITS])
def test_optima_agree(pairs, name):
    pair = pairs[name]
    start = starts.held(pair)
    fddp = crocoddyl.SolverFDDP(pair.theirs)
    fddp.th_stop = 1e-12
    fddp.solve(list(start.theirs), controls_for(pair.theirs, start.us), FDDP_ITERATIONS, False, 0.1)
    for solver in (trajopt.ILQR(), trajopt.DDP()):
        solution = solver.solve(pair.ours, us=start.us, xs=start.ours)
        assert solution.converged and solution.largest_gap < 1e-9
        assert solution.cost == pytest.approx(fddp.cost, rel=1e-9)
    if pair.published is not None:
        assert fddp.cost == pytest.approx(pair.published, rel=1e-3)


def test_starts(pairs):
    pair = pairs[GAITS[0]]
    held, rollout = starts.held(pair), starts.rollout(pair)
    assert not held.feasible and np.array_equal(held.ours, np.tile(pair.ours.x0, (pair.ours.horizon + 1, 1)))
    gaps = pair.ours.system.difference(pair.ours.system.step(rollout.ours[:-1], rollout.us), rollout.ours[1:])
    assert rollout.feasible and np.abs(gaps).max() < 1e-9 and np.array_equal(held.us, rollout.us)


def test_the_jump_is_found_from_controls_that_lead_away(pairs):
    """Legs wind up in flight under the torques that hold the robot on its feet."""
    pair = pairs["ANYmal jump"]
    solution = trajopt.DDP().solve(pair.ours, us=starts.rollout(pair).us)
    assert solution.converged and solution.start == "held"
    assert solution.cost == pytest.approx(anymal.PUBLISHED["jump"], rel=1e-3)


def test_a_jump_under_limits_of_torque_that_are_barely_reached():
    """The tighter, the dearer, and all of them hold."""
    found = jumps.records()
    assert [each["share"] for each in found] == [None, *jumps.SHARES]
    assert all(each["status"] == "converged" and each["violation"] < 1e-6 for each in found)
    costs = np.array([each["cost"] for each in found])
    assert (np.diff(costs) > 0.0).all() and costs[-1] < 1.01 * costs[0]
