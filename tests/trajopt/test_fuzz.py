"""Random problems with bad weights, starts, limits and constraints: every solve ends with a name and finite numbers."""

from dataclasses import replace

import numpy as np
import pytest

from tests.reference.fuzz import ITERATIONS, SYSTEMS, complaints, fuzz_case, robot_pendulum, run
from tests.tolerances import IDENTITY, relative_error
from trajopt import DDP, ILQR, ControlBounds, ControlCost, Problem, StateCost

CASES = 150
GROUPS = 10


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_end_has_a_name(group):
    statuses = set()
    for seed in range(group, CASES, GROUPS):
        case = fuzz_case(seed)
        solution = run(case)
        assert complaints(case, solution) == [], (seed, case.problem.system, str(solution.status))
        statuses.add(str(solution.status))
    assert "converged" in statuses


@pytest.mark.parametrize(
    ("seed", "kind", "options"),
    [
        (618, DDP, {"hessian": "tensor"}), (738, ILQR, {}),
        (1093, DDP, {"cost_hessian": "gauss_newton", "soft_penalty": 2308.0500773595318}),
        (828, DDP, {"hessian": "tensor", "switch_threshold": 1e6, "tolerance": 4.127387273122164e-17}),
        (3528, DDP, {"cost_hessian": "gauss_newton"}),
    ],
)  # fmt: skip
def test_what_fuzzing_found(seed, kind, options):
    """Controls that ended off their limits by rounding; minima that only rounding spoils."""
    case = fuzz_case(seed)._replace(solver=kind(max_iterations=ITERATIONS, **options))
    solution = run(case)
    assert solution.converged and complaints(case, solution) == []


@pytest.mark.parametrize("seed", [240, 374])
def test_what_a_second_solve_returns_without_an_end_keeps_limits_of_controls(seed):
    """Though these are rows to it, which it has not met by then."""
    case = fuzz_case(seed)
    case = case._replace(solver=replace(case.solver, max_iterations=430))
    case.problem.objective.terms[0].cost.__dict__["left"] = 10**6
    solution = run(case)
    assert not solution.converged and complaints(case, solution) == []
    assert relative_error(case.problem.objective.value(solution.xs, solution.us), solution.cost) < IDENTITY


def test_solves_say_by_how_much_controls_exceed_limits_that_are_rows():
    """By inverse dynamics, and where asked for, before they have converged, in single iterations too, and where limits
    are soft; in no other."""
    system, bounds = robot_pendulum(formulation="inverse"), ControlBounds(-1.0, 1.0)
    terminal = [StateCost(system, [np.pi, 0.0], 100.0)]
    problem = Problem(system, [0.0, 0.0], 20, [ControlCost(0.01)], terminal, [bounds])
    told, us = DDP(max_iterations=3).solve(problem), np.zeros((20, 1))
    excess = np.abs(told.us).max() - 1.0
    assert excess > 0.0 and f"Its controls exceed their limits by up to {excess:.2g}." in told.message
    assert "exceed" not in DDP().solve(problem, us=us).message
    forward = replace(problem, system=robot_pendulum())
    assert "exceed" not in DDP(max_iterations=3).solve(forward).message
    rows = DDP(max_iterations=3, control_limits="augmented_lagrangian").solve(forward)
    assert ("exceed" in rows.message) == (np.abs(rows.us).max() > 1.0)
    for found in (
        DDP(soft_penalty=1.0).solve(problem, us=us),
        DDP(max_iterations=1).solve(problem, warm_start=told.shifted()),
    ):
        excess = np.abs(found.us).max() - 1.0
        assert excess > 0.0 and f"Its controls exceed their limits by up to {excess:.2g}." in found.message
    assert DDP(soft_penalty=1.0).solve(problem, us=us).converged


def test_the_cases_are_as_bad_as_they_should_be():
    """Every system, starts with and without states, control limits and others, more than ten decades of weights."""
    cases = [fuzz_case(seed) for seed in range(CASES)]
    weights = [float(case.problem.objective.terms[0].cost.weights) for case in cases]
    assert min(weights) < 1e-5 and max(weights) > 1e5
    assert {case.problem.horizon for case in cases} >= {1, 2, 29, 30}
    assert 20 < sum(case.xs is not None for case in cases) < 130
    assert 20 < sum(case.problem.control_limits is not None for case in cases) < 130
    assert sum(bool(case.problem.residual_constraints) for case in cases) > 30
    again = [case.problem.constraints[-1] for case in cases if case.problem.residual_constraints]
    again = [(each, each.residual.factor) for each in again if each.name == "again"]
    assert len(again) > 10 and min(f for _, f in again) < 1e-2 and max(f for _, f in again) > 1e2
    assert len({type(case.problem.system) for case in cases}) == len(SYSTEMS) - 1  # two robots of one type
