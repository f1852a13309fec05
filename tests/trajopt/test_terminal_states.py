"""States that meet the constraints of the last knot, and solves that reach them where a local search sees none."""

import numpy as np
import pytest

import dynamics
import trajopt.solvers.restoration as restoration
from experiments.constraints.arm_pose import reach
from problems.arm import START
from trajopt import DDP, ResidualConstraint, StateResidual
from trajopt.rows import pack
from trajopt.solvers.restoration import terminal_states


def found(problem):
    xs = np.repeat(problem.x0[None], problem.horizon + 1, axis=0)
    return terminal_states(problem, pack(problem, problem.residual_constraints).scaled_at(xs, problem.us_init), xs)


def test_states_meet_all_constraints_of_the_last_knot():
    """The pose by several postures, all at rest and within limits, those next to the start first."""
    problem = reach(np.array([-2.0, -0.7, 1.2, 0.5, 0.9, -1.0]))
    states, beside, nearest = found(problem)
    assert len(states) >= 2 and beside == list(range(len(states))) and nearest is None
    far = [np.linalg.norm(x - problem.x0) for x in states]
    assert far == sorted(far)
    us = np.zeros((problem.horizon, 6))
    for i, x in enumerate(states):
        rows = pack(problem, problem.residual_constraints)
        c = rows.values(np.repeat(x[None], problem.horizon + 1, axis=0), us)
        last = slice(rows.first[-2], None)
        assert max((rows.lower - c)[last].max(), (c - rows.upper)[last].max()) < 1e-8
        assert all(np.abs(x - other).max() > 1e-2 for other in states[:i])


def test_no_state_meets_a_pose_out_of_reach():
    states, beside, nearest = found(reach(dynamics.Placement(np.eye(3), [3.0, 0.0, 0.0])))
    assert states == beside == [] and nearest is not None


def test_states_that_the_last_one_leads_to_are_not_beside():
    """From a posture that meets the pose others are elsewhere; of a state that is given there is one, and of limits a
    continuum."""
    posture = np.array([-2.0, -0.7, 1.2, 0.5, 0.9, -1.0])
    problem = reach(posture)
    at_end = np.repeat(problem.system.state(posture)[None], problem.horizon + 1, axis=0)
    rows = pack(problem, problem.residual_constraints).scaled_at(at_end, problem.us_init)
    states, beside, _ = terminal_states(problem, rows, at_end)
    (here,) = (i for i, x in enumerate(states) if np.abs(x - at_end[-1]).max() < 1e-2)
    assert len(states) >= 2 and sorted([*beside, here]) == list(range(len(states)))
    for limits in ((0.0, 0.0), (-0.1, 0.1)):
        whole = ResidualConstraint(StateResidual(problem.system, problem.x0), *limits, at="terminal")
        xs = np.repeat(problem.x0[None], problem.horizon + 1, axis=0)
        states, beside, _ = terminal_states(problem, pack(problem, (whole,)), xs)
        assert states and not beside


def test_without_constraints_of_the_last_knot_there_is_nothing_to_meet():
    problem = reach(START)
    path = tuple(c for c in problem.residual_constraints if c.at != "terminal")
    xs = np.repeat(problem.x0[None], problem.horizon + 1, axis=0)
    states = terminal_states(problem, pack(problem, path), xs).met
    assert all(np.abs(x[:6]).max() <= np.pi + 1e-8 for x in states)  # limits of states hold at the last knot, too
    speed = ResidualConstraint(StateResidual(problem.system, problem.x0, components=range(6, 12)), -1.0, 1.0, at="path")
    assert terminal_states(problem, pack(problem, (speed,)), xs) == ([], [], None)


def test_an_interrupt_on_the_way_to_such_a_state_ends_the_solve(monkeypatch):
    """The solve that leads there is one of its own, and ends at an interrupt as any other; so must the one around."""
    reached, interrupted = restoration._reached, []

    def interrupting(formulation, first, end, budget, run):
        def key(*arguments):
            interrupted.append(end)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("trajopt.solvers.constrained.AugmentedLagrangian.bound", key)
            return reached(formulation, first, end, budget, run)

    monkeypatch.setattr(restoration, "_reached", interrupting)
    for seed in range(6):
        solution = DDP().solve(reach(np.random.default_rng(seed).uniform(-3.0, 3.0, 6)))
        if interrupted:
            break
    assert interrupted and solution.status == "interrupted"


@pytest.mark.parametrize("seed", range(6))
def test_poses_that_an_arm_can_reach_are_not_called_infeasible(seed):
    """Local searches end at joint limits or at singular postures for every third of such poses."""
    problem = reach(np.random.default_rng(seed).uniform(-3.0, 3.0, 6))
    solution = DDP().solve(problem)
    assert solution.status != "infeasible"
    if solution.converged:
        assert solution.violation < 1e-7
