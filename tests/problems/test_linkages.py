"""Robots with closed chains: both solvers find one optimum, goals are reached, loops stay closed."""

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics.contacts.loop_constraint import loop_rows
from problems import delta, five_bar, four_bar

NAMES = ("four_bar", "five_bar", "delta")
GOALS = {"four_bar": "rod", "five_bar": "left_hand", "delta": "platform"}


@pytest.mark.parametrize("name", NAMES)
def test_both_solvers_reach_the_goal_with_closed_loops(name):
    problem = problems.make(name)
    system, model = problem.system, problem.system.model
    solutions = trajopt.compare(problem, {"ilqr": trajopt.ILQR(), "ddp": trajopt.DDP()})
    assert all(solution.converged for solution in solutions.values())
    assert solutions["ddp"].cost == pytest.approx(solutions["ilqr"].cost, rel=1e-8)
    xs = solutions["ddp"].xs
    q = xs[:, : model.nq]
    (target,) = problem.scenery
    assert np.linalg.norm(dynamics.frame_placement(model, q[-1], GOALS[name]).p - target.position) < 5e-3
    assert np.abs(xs[-1, model.nq :]).max() < 0.3
    for loop in system.contacts.contacts:
        assert np.abs(loop_rows(model, q, loop).error).max() < 1e-6


def test_they_move_in_as_many_ways_as_they_have_motors():
    """Degrees of freedom less independent rows of the loops."""
    for module, q in (
        (four_bar, four_bar.closed(four_bar.model(), 0.3)),
        (five_bar, five_bar.reaching(five_bar.model(), five_bar.START)),
        (delta, delta.holding(delta.model(), delta.GOAL)),
    ):
        system = module.make().system
        J = np.concatenate([loop_rows(system.model, q[None], loop).J[0] for loop in system.contacts.contacts])
        assert system.model.nv - np.linalg.matrix_rank(J, tol=1e-9) == system.nu


def test_the_platform_of_the_delta_robot_stays_level():
    """Its rods are parallel in pairs."""
    solution = trajopt.DDP().solve(problems.make("delta"))
    model = solution.problem.system.model
    for x in solution.xs[::5]:
        assert np.abs(dynamics.frame_placement(model, x[: model.nq], "platform").R - np.eye(3)).max() < 1e-6
