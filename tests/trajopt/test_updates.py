"""A prepared solver whose targets moved gives the bits of one that was made with them, and the first problem stays."""

import numpy as np
import pytest

import dynamics
import problems
from dynamics import FramePlacement, FrameTranslation, FrameVelocity
from tests.trajopt.cases import pendulum
from tests.trajopt.systems import CirclePendulum, Pendulum
from tests.trajopt.test_prepared import assert_same
from trajopt import (
    DDP,
    ILQR,
    ControlBounds,
    ControlCost,
    Problem,
    ResidualConstraint,
    ResidualCost,
    StateBounds,
    StateCost,
)
from trajopt.costs.residuals import ControlResidual, SquaredNorm, StateResidual

SOLVER = DDP(max_iterations=6)


def make(
    target=(0.0, 0.0), effort=0.0, speed=4.0, torque=9.0, end=(0.2, 0.0), push=0.5, slow=-4.0, reach=20.0, close=4.0,
    weights=(1.0, 0.1), last=3.0, push_weight=1e-2, end_target=(0.0, 0.0)
):
    """The pendulum with numbers of all kinds."""
    s = Pendulum()
    running = [StateCost(s, target, weights), ControlCost(push_weight, effort)]
    held = ResidualConstraint(ControlResidual(s, push), -20.0, reach, name="push")
    goal = ResidualConstraint(SquaredNorm(StateResidual(s, end)), -np.inf, [close], at="terminal", name="goal")
    bounds = StateBounds(s, [-np.inf, slow], [np.inf, speed])
    terminal = [ResidualCost(StateResidual(s, [0.1, 0.0]), last, reference=np.array(end_target))]
    return Problem(s, [1.2, 0.0], 20, running, terminal, [ControlBounds(-9.0, torque), bounds, held, goal])


CHANGES = {
    "reference": ({"StateCost": [0.3, 0.1], "terminal ResidualCost": [0.3, 0.1]},
                  {"target": (0.3, 0.1), "end_target": (0.3, 0.1)}),
    "weights": (
        {"StateCost": {"weights": [2.0, 0.3], "reference": [0.3, 0.1]}, "ControlCost": {"weights": 0.02},
         "terminal ResidualCost": {"weights": [4.0, 4.0]}},
        {"target": (0.3, 0.1), "weights": (2.0, 0.3), "last": 4.0, "push_weight": 0.02},
    ),
    "control": ({"ControlCost": 0.4}, {"effort": 0.4}),
    "state limit": ({"state bounds": {"upper": [0.1], "lower": [-0.6]}}, {"speed": 0.1, "slow": -0.6}),
    "control limit": ({"control bounds": {"upper": 1.0}}, {"torque": 1.0}),
    "inside": (
        {"goal": {"reference": [0.4, 0.1], "upper": [0.05]}, "push": {"reference": 0.7, "upper": 0.4}},
        {"end": (0.4, 0.1), "close": 0.05, "push": 0.7, "reach": 0.4},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_bits_of_a_new_problem(name):
    by_name, arguments = CHANGES[name]
    problem, first = make(), SOLVER.solve(make())
    prepared = SOLVER.prepare(problem)
    before = prepared.solve()
    prepared.update(by_name)
    after = prepared.solve()
    assert_same(after, SOLVER.solve(make(**arguments)))
    assert_same(SOLVER.solve(problem), first)
    assert_same(SOLVER.solve(before.problem), before)
    assert (after.us != before.us).any()
    plan = after.shifted()
    assert_same(prepared.solve([0.5, 0.1], warm_start=plan), SOLVER.solve(prepared.at([0.5, 0.1]), warm_start=plan))


def test_a_manifold_and_a_reference_for_each_knot(rng):
    s = CirclePendulum()
    path = np.array([s.embed(np.array([a, 0.0])) for a in np.linspace(0.0, 1.0, 15)])

    def problem(rows, terminal):
        costs = [StateCost(s, rows, 1.0), ControlCost(0.1)]
        return Problem(s, s.embed(np.array([0.3, 0.0])), 15, costs, [StateCost(s, terminal, 5.0)])

    prepared = ILQR(max_iterations=3).prepare(problem(path, path[-1]))
    prepared.update({"StateCost": path[::-1], "terminal StateCost": path[3]})
    assert_same(prepared.solve(), ILQR(max_iterations=3).solve(problem(path[::-1], path[3])))


def test_targets_of_a_robot():
    """One target for the cost at every knot, at the last one and for the constraint."""
    model = dynamics.load_urdf(problems.model_path("arm6"))
    system, frame = dynamics.RigidBodySystem(model, 0.05), model.frame_names[-1]

    def problem(p):
        tip = FrameTranslation(model, frame, p)
        reached = ResidualConstraint(FrameTranslation(model, frame, p), -0.5, 0.5, at="terminal", name="reached")
        pose = FramePlacement(model, frame, (np.eye(3), np.array([0.3, 0.1, 0.5])))
        costs = [ControlCost(1e-3), ResidualCost(tip, 1.0), ResidualCost(FrameVelocity(model, frame), 0.1)]
        terminal = [ResidualCost(tip, 50.0), ResidualCost(pose, 1.0)]
        return Problem(system, system.state(np.full(6, 0.3)), 12, costs, terminal, [reached], name="arm")

    here, there, solver = np.array([0.3, 0.1, 0.5]), np.array([0.2, 0.3, 0.6]), DDP(max_iterations=3)
    prepared = solver.prepare(problem(here))
    with pytest.raises(ValueError, match=r"target of 'velocity of .*got shape \(3,\), expected \(6,\), for all of "):
        prepared.update(target=there)
    name = f"translation of {frame}"
    prepared.update({name: there, f"terminal {name}": there, "reached": there})
    assert_same(prepared.solve(), solver.solve(problem(there)))
    prepared.update({f"terminal placement of {frame}": (np.eye(3), here)})
    with pytest.raises(ValueError, match="target"):
        prepared.update({f"terminal placement of {frame}": (2.0 * np.eye(3), here)})


def test_one_value_for_all_terms_that_have_it():
    s = Pendulum()

    def problem(x):
        return Problem(s, [0.6, 0.0], 20, [StateCost(s, x, 1.0)], [StateCost(s, x, 9.0)])

    prepared = SOLVER.prepare(problem([0.0, 0.0]))
    prepared.update(reference=[0.3, 0.0])
    assert_same(prepared.solve(), SOLVER.solve(problem([0.3, 0.0])))
    assert not prepared.solve().problem.objective.terms[0].cost.reference[1]


@pytest.mark.parametrize(
    ("by_name", "everywhere", "error", "said"),
    [
        ({"StateCost": {"weights": [1.0, -1.0]}}, {}, ValueError, "weights: got -1.0, expected no negative weight"),
        ({"StateCost": {"weights": 1.0}}, {}, ValueError, r"weights of 'StateCost': got shape \(\), expected \(2,\)"),
        ({}, {"target": 1.0}, ValueError, r"no term has 'target'; known: 'StateCost' reference \(2,\), "),
        (
            {},
            {"reference": [0.0, 0.0]},
            ValueError,
            r"'ControlCost': got shape \(2,\), expected \(\), for all of 'State",
        ),
        ({"StateCots": 1.0}, {}, ValueError, "got the unknown term 'StateCots'.*did you mean 'StateCost'"),
        ({"StateCost": [1.0]}, {}, ValueError, r"reference of 'StateCost': got shape \(1,\), expected \(2,\)"),
        ({"StateCost": [1.0, np.nan]}, {}, ValueError, "got nan, expected finite numbers"),
        ({"StateCost": {"target": 1.0}}, {}, ValueError, "'StateCost' has no 'target', expected one of reference, w"),
        ({"StateCost": "far"}, {}, TypeError, "reference of 'StateCost': got 'far'"),
        ({"control bounds": 3.0}, {}, ValueError, "expected {'lower': ...} or {'upper': ...}"),
        ({"control bounds": {"upper": -10.0}}, {}, ValueError, "expected lower <= upper"),
        ({"state bounds": {"upper": [np.nan]}}, {}, ValueError, r"upper\[0\]: got nan"),
        ({"state bounds": {"upper": 2.0}}, {}, ValueError, r"got shape \(\), expected \(1,\)"),
        ([1.0], {}, TypeError, "update: got list"),
    ],
)
def test_nothing_changes_where_something_is_wrong(by_name, everywhere, error, said):
    prepared = SOLVER.prepare(make())
    problem = prepared.problem
    with pytest.raises(error, match=said):
        prepared.update({"ControlCost": 0.4, **by_name} if isinstance(by_name, dict) else by_name, **everywhere)
    assert prepared.problem is problem and problem.running_costs[1].reference == 0.0


def test_terms_of_one_name_are_not_told_apart_by_it():
    p, s = pendulum(), Pendulum()
    twice = Problem(s, p.x0, p.horizon, [StateCost(s, [0.0, 0.0], 1.0), StateCost(s, [1.0, 0.0], 1.0)])
    prepared = SOLVER.prepare(twice)
    with pytest.raises(ValueError, match="2 terms have the name 'StateCost'; known: 'StateCost 1' reference"):
        prepared.update({"StateCost": [0.5, 0.0]})
    prepared.update({"StateCost 2": [0.5, 0.0]})
    assert [cost.reference[0] for cost in prepared.problem.running_costs] == [0.0, 0.5]


def test_a_cost_in_several_places_changes_in_all_of_them():
    """Listed twice, or in lists of single knots; again after other values, and from another initial state."""
    s, p = Pendulum(), pendulum()

    def problem(x, by_knot):
        near, effort = StateCost(s, x, 1.0), ControlCost(0.1)
        lists = [[near, effort] if t % 2 else [effort] * (t > 4) + [near] for t in range(12)]
        return Problem(s, p.x0, 12, lists if by_knot else [near, effort, near], [StateCost(s, [0.1, 0.0], 5.0)])

    for by_knot in (False, True):
        prepared = SOLVER.prepare(problem([0.0, 0.0], by_knot))
        for x in ([0.3, 0.0], [0.2, 0.1]):
            prepared.update({"StateCost": x})
            assert_same(prepared.solve(), SOLVER.solve(problem(x, by_knot)))
            there = prepared.solve([0.4, 0.2])
            assert_same(there, SOLVER.solve(there.problem))
