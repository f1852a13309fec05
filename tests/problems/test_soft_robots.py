"""Problems of soft robots at small size: first-order conditions under limits, and both solvers in one optimum."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import problems
import trajopt
from dynamics.rods.algorithms.closed_chains import closure_error
from dynamics.rods.kinematics.center_lines import link_placement
from experiments.soft_manipulator.truth import executed
from problems.parallel_rods import CORNERS
from problems.soft_manipulator_reach import GOAL, LARGEST_TENSION, resting_tip
from tests.reference.expansions import expand_exactly
from tests.reference.robot_systems import slope
from tests.tolerances import SLOPE
from trajopt.backward.expansions import adjoint, expand, total_cost

REACH = {"horizon": 16, "dt": 0.05}
SMALL = {
    "reach": ("soft_manipulator_reach", REACH),
    "reach by the midpoint rule": ("soft_manipulator_reach", {**REACH, "integrator": "implicit_midpoint"}),
    "reach by Newmark's method": ("soft_manipulator_reach", {**REACH, "integrator": "newmark"}),
    "track": ("soft_manipulator_track", {"horizon": 25, "dt": 0.04}),
    "hybrid arm": ("hybrid_arm_reach", {"horizon": 24, "dt": 0.05}),
    "throw": ("soft_manipulator_throw", {"horizon": 12, "dt": 0.04, "velocity": (0.0, 2.0, 2.0)}),
    "swimmer": ("soft_swimmer", {"horizon": 25, "dt": 0.04, "distance": 0.1}),
    "gripper": ("rod_gripper", {"horizon": 12, "dt": 0.04, "place": 0.25}),
    "parallel robot": ("parallel_rods", {"horizon": 10, "dt": 0.04}),
    "satellite": ("flexible_satellite", {"horizon": 64, "dt": 0.125}),
}


@pytest.fixture(scope="module", params=SMALL)
def solutions(request):
    """A small problem by both solvers."""
    name, options = SMALL[request.param]
    problem = problems.make(name, **options)
    return [solver(tolerance=1e-18).solve(problem) for solver in (trajopt.ILQR, trajopt.DDP)]


def test_first_order_conditions(solutions):
    """The gradient vanishes but where a limit holds, and there it points outwards."""
    for solution in solutions:
        problem, us = solution.problem, solution.us
        lower, upper = problem.control_limits
        assert solution.converged and (us >= lower).all() and (us <= upper).all()
        _, gradient = adjoint(expand(problem, problem.system.rollout(problem.x0, us), us))
        _, initial = adjoint(expand(problem, problem.system.rollout(problem.x0, problem.us_init), problem.us_init))
        held = ((us == lower) & (gradient > 0)) | ((us == upper) & (gradient < 0))
        assert held.any()
        assert np.abs(np.where(held, 0.0, gradient)).max() < 1e-6 * np.abs(initial).max()


def test_both_solvers_find_one_optimum(solutions):
    ilqr, ddp = solutions
    assert ddp.cost == pytest.approx(ilqr.cost, rel=1e-8)
    assert ddp.iterations <= ilqr.iterations


@pytest.mark.parametrize("name", [name for name in problems.names() if name.startswith(("soft_manipulator", "hybrid"))])
def test_it_starts_at_rest(name):
    problem = problems.make(name, horizon=4)
    xs = problem.system.rollout(problem.x0, problem.us_init)
    np.testing.assert_allclose(xs, np.tile(problem.x0, (5, 1)), atol=1e-8)


def test_the_fish_swims_as_planned():
    """Its head gets where the plan says, within two per cent of the way, when Radau's method executes it."""
    solution = trajopt.DDP().solve(problems.make("soft_swimmer", horizon=50, dt=0.02, distance=0.1))
    system, head = solution.problem.system, solution.problem.terminal_costs[0].residual
    ends = np.array([solution.xs[-1], executed(system, solution.xs[0], solution.us)])
    planned, true = head.evaluate(ends)
    assert solution.converged and np.linalg.norm(planned) < 1e-3 and np.linalg.norm(true - planned) < 2e-3


def test_the_satellite_turns_and_stops():
    """Two turns in two charts; then hub and boom rest where they ought to, within 5 mm of the tip where Radau's method
    executes the controls."""
    solution = trajopt.DDP().solve(problems.make("flexible_satellite"))
    system, xs = solution.problem.system, solution.xs
    n, changes = system.nv, np.linalg.norm(np.diff(xs[:, :3], axis=0), axis=1) > 1.0
    R, _ = link_placement(system.model, "hub", xs[:, :n])
    turned = Rotation.from_matrix(R[:-1].swapaxes(1, 2) @ R[1:]).magnitude().sum() / (2.0 * np.pi)
    assert solution.converged and changes.sum() >= 2 and turned > 1.5
    rotation, velocity = (cost.residual for cost in solution.problem.terminal_costs[:2])
    assert np.abs(rotation.evaluate(xs[-1:])).max() < 2e-3 and np.abs(velocity.evaluate(xs[-1:])[:, 3:]).max() < 2e-3
    ends = np.array([xs[-1], executed(system, xs[0], solution.us)])
    tips = link_placement(system.model, "boom", ends[:, :n])[1]
    assert np.linalg.norm(tips[1] - tips[0]) < 5e-3


def test_the_cost_of_a_satellite_that_turns(rng):
    """The expansion along a motion that changes its chart is that of the cost of the controls, to third order."""
    problem = problems.make("flexible_satellite", horizon=40, dt=0.1)
    system, us, du = problem.system, 0.3 * rng.normal(size=(40, 3)), rng.normal(size=(40, 3))
    xs = system.rollout(problem.x0, us)
    assert (np.linalg.norm(np.diff(xs[:, :3], axis=0), axis=1) > 1.0).any()
    costate, gradient = adjoint(expand(problem, xs, us))
    exact, dx = expand_exactly(problem, xs, us, costate[1:]), np.zeros(xs.shape)
    for t in range(40):
        dx[t + 1] = exact.fx[t] @ dx[t] + exact.fu[t] @ du[t]
    second = np.einsum("ti,tij,tj->", dx, exact.lxx, dx) + np.einsum("ti,tij,tj->", du, exact.luu, du)
    second += 2.0 * np.einsum("ti,tij,tj->", du, exact.lux, dx[:-1])
    steps, cost = 2.0 ** -np.arange(4.0, 9.0), total_cost(problem, xs, us)
    errors = [
        total_cost(problem, system.rollout(problem.x0, us + h * du), us + h * du)
        - (cost + h * (gradient * du).sum() + 0.5 * h * h * second)
        for h in steps
    ]
    assert slope(steps, np.array(errors)) == pytest.approx(3.0, abs=SLOPE)


def test_the_manipulator_arrives_and_stays_there():
    """The tip is on the target within a millimetre, which is where the goal's tensions hold it."""
    solution = trajopt.DDP().solve(problems.make("soft_manipulator_reach"))
    system, tip = solution.problem.system, solution.problem.terminal_costs[0].residual
    np.testing.assert_array_equal(tip.target, resting_tip(system.robot, GOAL))
    assert np.linalg.norm(tip.evaluate(solution.xs[-1:])) < 1e-3
    assert (solution.us >= 0.0).all() and (solution.us <= LARGEST_TENSION).all()
    speed = tip.jacobians(solution.xs[-1:])[0][0, :, : system.nv] @ solution.xs[-1, system.nv :]
    assert np.linalg.norm(speed) < 0.01


@pytest.mark.parametrize(("name", "links"), [("rod_gripper", ("body",)), ("parallel_rods", CORNERS)])
def test_closed_chains_end_where_the_plan_says(name, links):
    """They arrive, chains closed; in exact time the same controls end less than a millimetre from the plan's end."""
    solution = trajopt.DDP().solve(problems.make(name))
    system, end = solution.problem.system, solution.xs[-1]
    n, model = system.nv, system.model
    q = executed(system, solution.xs[0], solution.us)[:n]
    assert solution.converged and max(np.abs(closure_error(model, x[:n])).max() for x in solution.xs) < 1e-4
    for link, cost in zip(links, solution.problem.terminal_costs, strict=False):
        planned, true = (link_placement(model, link, x)[1] for x in (end[:n], q))
        assert np.linalg.norm(planned - cost.residual.target) < 3e-3
        assert np.linalg.norm(planned - true) < 1e-3
