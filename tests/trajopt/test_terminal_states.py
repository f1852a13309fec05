"""States that meet the constraints of the last knot, and solves that reach them where a local search sees none."""

import numpy as np
import pytest

import dynamics
import problems
import trajopt.solvers.restoration as restoration
from trajopt import DDP, ControlCost, Problem, ResidualConstraint, StateBounds, StateCost, StateResidual
from trajopt.rows import pack
from trajopt.solvers.terminal_states import APART, MET, terminal_states

START = np.array([0.0, -1.2, 1.6, -1.9, -1.6, 0.0])


def reach(pose, knots=50):
    """A six-axis arm that must end in a pose of its tool, at rest, its joints within half a turn."""
    model = dynamics.load_urdf(problems.model_path("arm6"))
    system = dynamics.RigidBodySystem(model, 1.5 / knots)
    x0 = system.state(START)
    target = pose if isinstance(pose, dynamics.Placement) else dynamics.frame_placement(model, pose, "tool")
    joints = np.r_[np.full(6, np.pi), np.full(6, np.inf)]
    return Problem(
        system, x0, knots, [StateCost(system, x0, 1e-2), ControlCost(4e-3)], [],
        [
            ResidualConstraint(dynamics.FramePlacement(model, "tool", target), at="terminal", name="pose"),
            ResidualConstraint(StateResidual(system, x0, components=range(6, 12)), at="terminal", name="rest"),
            StateBounds(system, -joints, joints, name="joints"),
        ],
        us_init=np.tile(dynamics.gravity_forces(model, START), (knots, 1)),
    )  # fmt: skip


def found(problem):
    xs = np.repeat(problem.x0[None], problem.horizon + 1, axis=0)
    return terminal_states(problem, pack(problem, problem.residual_constraints).scaled_at(xs, problem.us_init), xs)


def test_states_meet_all_constraints_of_the_last_knot():
    """The pose by several postures, all at rest and within limits, those next to the start first."""
    problem = reach(np.array([-2.0, -0.7, 1.2, 0.5, 0.9, -1.0]))
    states = found(problem)
    assert len(states) >= 2
    far = [np.linalg.norm(x - problem.x0) for x in states]
    assert far == sorted(far)
    us = np.zeros((problem.horizon, 6))
    for i, x in enumerate(states):
        rows = pack(problem, problem.residual_constraints)
        c = rows.values(np.repeat(x[None], problem.horizon + 1, axis=0), us)
        last = slice(rows.first[-2], None)
        assert max((rows.lower - c)[last].max(), (c - rows.upper)[last].max()) < 10 * MET
        assert all(np.abs(x - other).max() > APART for other in states[:i])


def test_no_state_meets_a_pose_out_of_reach():
    assert found(reach(dynamics.Placement(np.eye(3), [3.0, 0.0, 0.0]))) == []


def test_without_constraints_of_the_last_knot_there_is_nothing_to_meet():
    problem = reach(START)
    path = tuple(c for c in problem.residual_constraints if c.at != "terminal")
    xs = np.repeat(problem.x0[None], problem.horizon + 1, axis=0)
    states = terminal_states(problem, pack(problem, path), xs)
    assert all(np.abs(x[:6]).max() <= np.pi + 1e-8 for x in states)  # limits of states hold at the last knot, too
    speed = ResidualConstraint(StateResidual(problem.system, problem.x0, components=range(6, 12)), -1.0, 1.0, at="path")
    assert terminal_states(problem, pack(problem, (speed,)), xs) == []


def test_an_interrupt_on_the_way_to_such_a_state_ends_the_solve(monkeypatch):
    """The solve that leads there is one of its own, and ends at an interrupt as any other; so must the one around."""
    reached, interrupted = restoration._reached, []

    def interrupting(formulation, first, end, budget, run):
        def key(*arguments):
            interrupted.append(end)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("trajopt.solvers.loop.violation_bound", key)
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
