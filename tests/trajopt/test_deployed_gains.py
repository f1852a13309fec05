"""The policy of a solve that converged under constraints: gains of a moderate penalty, about the same trajectory."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.fuzz import robot_pendulum
from tests.trajopt.constrained_cases import point_mass
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

GOAL = [1.0, 0.5, 0.0, 0.0]


def arrival(*limits):
    """A point mass in the plane that must come to rest, with limits of its controls or none."""
    s = point_mass(0.1)
    arrive = ResidualConstraint(StateResidual(s, GOAL), at="terminal", name="arrival")
    return Problem(s, np.zeros(4), 20, [ControlCost(0.1), StateCost(s, GOAL, 0.1)], [], [arrive, *limits])


def limited():
    """The same with a force that is not enough at some knots, and a speed limit that is reached."""
    s = point_mass(0.1)
    speed = StateBounds(s, [-np.inf, -np.inf, -0.8, -0.8], [np.inf, np.inf, 0.8, 0.8])
    return arrival(ControlBounds(-1.2, 1.2), speed)


def swing(formulation):
    """A pendulum of the robot library that must come to rest elsewhere."""
    s = robot_pendulum(0.02, formulation=formulation)
    arrive = ResidualConstraint(StateResidual(s, s.state([1.0])), at="terminal", name="arrival")
    return Problem(s, s.state([0.2]), 40, [ControlCost(1e-2)], [], [arrive])


CASES = {
    "arrival": arrival, "limited": limited, "forward": lambda: swing("forward"), "inverse": lambda: swing("inverse"),
}  # fmt: skip


def both(monkeypatch, problem, solver):
    """The solution, and the one whose policy is that of the last sweep."""
    solution = solver.solve(problem)
    with monkeypatch.context() as patch:
        patch.setattr("trajopt.solvers.solve.LARGEST_PENALTY", np.inf)
        return solution, solver.solve(problem)


@pytest.mark.parametrize("solver", [DDP(), ILQR()])
@pytest.mark.parametrize("name", CASES)
def test_gains_are_moderate_and_nothing_else_changes(monkeypatch, name, solver):
    soft, hard = both(monkeypatch, CASES[name](), solver)
    assert soft.converged and (soft.cost, soft.iterations) == (hard.cost, hard.iterations)
    np.testing.assert_array_equal(soft.xs, hard.xs)
    np.testing.assert_array_equal(soft.us, hard.us)
    for a, b in zip(soft.constraints, hard.constraints, strict=True):
        np.testing.assert_array_equal(a.multipliers, b.multipliers)
        assert a.penalty == b.penalty
    assert 2.0 * np.abs(soft.K[-5:]).max() < np.abs(hard.K[-5:]).max()
    assert np.abs(soft.k).max() < 1e-5 * np.abs(soft.us).max()
    if name == "arrival":  # what keeps the equality exactly: position and speed in two steps
        assert np.abs(hard.K).max() == pytest.approx(1.0 / soft.problem.system.dt**2, rel=1e-2)


def test_clamped_controls_have_no_feedback():
    solution = DDP().solve(limited())
    clamped = np.abs(solution.us) >= 1.2
    assert clamped.any() and not clamped.all()
    assert not solution.K[clamped].any() and solution.K[~clamped].any(axis=1).all()


@pytest.mark.parametrize("name", CASES)
def test_the_policy_takes_a_disturbed_start_to_the_equality(name, rng):
    """It leaves a part of the disturbance that is as small as the penalty is large, and holds against noise."""
    problem = CASES[name]()
    solution, system = DDP().solve(problem), problem.system
    policy, goal = solution.policy(), solution.xs[-1]
    for noise, left in ((0.0, 0.05), (1e-4, 1.0)):
        x = system.integrate(problem.x0, 1e-3 * rng.standard_normal(system.ndx))
        for t in range(problem.horizon):
            x = system.integrate(system.step(x, policy(t * system.dt, x)), noise * rng.standard_normal(system.ndx))
        assert np.abs(system.difference(goal, x)).max() < left * 1e-3


@pytest.mark.parametrize("name", ["arrival", "forward", "inverse"])
def test_gains_are_sensitivities_of_re_solved_problems(name):
    """du/dx0 at knot 0 by central differences; a penalty of 1e4 leaves about 1e-2 of the constraints' part."""
    problem, h = CASES[name](), 1e-4
    solver = DDP(feasibility_tolerance=1e-10)
    solution, columns = solver.solve(problem), []
    for dx in np.eye(problem.system.ndx):
        ends = [replace(problem, x0=problem.system.integrate(problem.x0, s * h * dx)) for s in (1.0, -1.0)]
        up, down = (solver.solve(end, us=solution.us) for end in ends)
        assert up.converged and down.converged
        columns.append((up.us[0] - down.us[0]) / (2.0 * h))
    expected = np.array(columns).T
    assert np.abs(solution.K[0] - expected).max() < 2e-2 * np.abs(expected).max()
    assert np.abs(solution.K[0] - expected).max() > 1e-8 * np.abs(expected).max()
