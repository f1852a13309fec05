"""Constraints that cannot be met: soon told, with a certificate; and what rows of one knot alone show."""

import numpy as np
import pytest

from experiments.holdout.study import problem_of
from tests.trajopt.infeasible_cases import PAIRS, bent, cart, slalom
from tests.trajopt.systems import LinearSystem
from trajopt import (
    DDP,
    ILQR,
    CallableSystem,
    ControlBounds,
    ControlCost,
    Problem,
    ResidualConstraint,
    StateBounds,
    residual,
)
from trajopt.rows import pack
from trajopt.solvers import restoration
from trajopt.solvers.restoration import terminal_states


@pytest.mark.parametrize("name", PAIRS)
def test_the_verdict_takes_at_most_three_times_the_steps_of_a_success(name):
    impossible, possible = (DDP().solve(make()) for make in PAIRS[name])
    assert impossible.status == "infeasible" and possible.converged
    assert impossible.iterations <= 3 * possible.iterations


@pytest.mark.parametrize("make", [lambda: slalom(0.82, (1.9, -0.1, 0.0)), lambda: bent(3.0)])
def test_a_goal_that_other_rows_of_the_last_knot_exclude_needs_no_search_from_elsewhere(make):
    """Solves to other states, and searches from perturbed controls, could only be in vain."""
    solution = DDP().solve(make())
    assert solution.status == "infeasible"
    kinds = solution.history("step").tolist()
    began = kinds.index("feasibility")
    assert set(kinds[began:-1]) == {"feasibility"}
    at_fault = [report for report in solution.constraints if report.weights is not None and report.weights[-1].any()]
    assert len(at_fault) == 2


@pytest.mark.parametrize("name", ["goal inside a pillar", "pose out of reach", "goal beyond a joint limit"])
def test_a_state_of_least_violation_is_stationary(name):
    """Where no state meets the last knot's rows: all differences of |v|^2 around it are positive."""
    problem = PAIRS[name][0]()
    xs, rng = np.repeat(problem.x0[None], problem.horizon + 1, axis=0), np.random.default_rng(3)
    rows = pack(problem, problem.residual_constraints).scaled_at(xs, problem.us_init)
    met, beside, nearest = terminal_states(problem, rows, xs)
    assert not met and not beside and nearest is not None

    def squared(x):
        c = rows.values(np.append(xs[:-1], x[None], axis=0), problem.us_init)[rows.first[-2] :]
        lower, upper = rows.lower[rows.first[-2] :], rows.upper[rows.first[-2] :]
        return float(np.square(c - np.clip(c, lower, upper)).sum())

    least = squared(nearest)
    assert least > 1e-4
    for size in (1e-2, 1e-3):
        for direction in rng.standard_normal((20, problem.system.ndx)):
            x = problem.system.integrate(nearest[None], size * direction[None])[0]
            assert squared(x) >= least * (1.0 - 1e-9)


def test_a_row_of_the_given_initial_state_ends_the_search():
    """At knot 0 the state is given: a row that reads no control there stays violated whatever the controls."""
    system = LinearSystem([[1.0, 0.1], [0.0, 1.0]], [[0.0], [0.1]])
    both = residual(lambda x, u: (x[0], u[0]), 2, system)
    rows = ResidualConstraint(both, [0.5, -1.0], [2.0, 1.0], at="path", name="both")
    problem = Problem(system, [0.0, 1.0], 20, [ControlCost(0.1)], (), [rows])
    solution = DDP().solve(problem)
    assert solution.status == "infeasible" and solution.constraints[0].worst_knot == 0
    searching = solution.history("step").tolist().count("feasibility")
    assert searching <= 10 and solution.iterations <= 15 + 15 + searching
    free = ResidualConstraint(both, [-np.inf, -1.0], [2.0, 1.0], at="path", name="both")
    assert DDP().solve(Problem(system, [0.0, 1.0], 20, [ControlCost(0.1)], (), [free])).converged


@pytest.mark.parametrize("power", [2, 4])
def test_rows_that_are_met_where_their_derivatives_vanish_are_not_called_contradictory(power):
    """(x - 2)^p = 0 at the end: random states come near, and slowly; what is left is within the tolerance."""
    system = LinearSystem([[1.0]], [[0.1]])
    flat = ResidualConstraint(residual(lambda x: ((x[0] - 2.0) ** power,), 1, system), at="terminal")
    problem = Problem(system, [0.0], 20, [ControlCost(0.1)], (), [flat])
    xs = np.zeros((21, 1))
    found = terminal_states(problem, pack(problem, (flat,)).scaled_at(xs, problem.us_init), xs)
    assert found.nearest is None or abs(found.nearest[0] - 2.0) ** power < 1e-7
    assert DDP().solve(problem).status != "infeasible"


def test_a_row_without_derivative_at_the_start_is_met():
    """x^2 = 1 at the end, from rest at 0: there the violation has no gradient, and two states meet the row."""
    system = LinearSystem([[1.0, 0.1], [0.0, 1.0]], [[0.0], [0.1]])
    either = residual(lambda x: (x[0] ** 2 - 1.0,), 1, system)
    rows = [ResidualConstraint(either, at="terminal"), ControlBounds(-2.0, 2.0)]
    solution = DDP().solve(Problem(system, [0.0, 0.0], 30, [ControlCost(0.1)], (), rows))
    assert solution.converged and np.isclose(abs(solution.xs[-1, 0]), 1.0)


@pytest.mark.parametrize("end", ["given up", "lower"])
def test_a_search_that_does_not_end_at_the_same_minimum_refutes_it(monkeypatch, end):
    """Of the searches from elsewhere one is given up, or ends lower: they prove nothing of the first minimum."""
    search = restoration.least_violation

    def least(formulation, start, budget, enough, known=0.0):
        found = search(formulation, start, budget, enough, known)
        if known == 0.0:
            return found
        return found._replace(minimum=False) if end == "given up" else found._replace(value=0.9 * known)

    assert DDP(max_iterations=60).solve(cart(1.5)).status == "infeasible"
    monkeypatch.setattr(restoration, "least_violation", least)
    assert DDP(max_iterations=60).solve(cart(1.5)).status == "max_iterations"


@pytest.mark.parametrize(("name", "number", "seed"), [("quadrotor_window", 6, 1), ("trailer_parking", 9, 2)])
def test_a_local_minimum_of_the_violation_is_no_contradiction(name, number, seed):
    """A wall with a window, and a place to park backwards: both have several minima of the violation."""
    assert DDP().solve(problem_of(name, number, seed)).status != "infeasible"


@pytest.mark.parametrize("solver", [ILQR, DDP])
@pytest.mark.parametrize("limit", [2.0, 2.3, 3.0])
@pytest.mark.parametrize("place", [0.6, 1.5, 2.4])
def test_a_disc_in_the_middle_of_the_way_is_no_contradiction(place, limit, solver):
    """From zero controls the way and its violation are symmetric, so that no step leaves the middle; noise does."""
    system = CallableSystem(xdot=lambda x, u: (x[2], x[3], u[0], u[1]), nx=4, nu=2, dt=0.1)
    disc = residual(lambda x: ((x[0] - place) ** 2 + x[1] ** 2 - 0.25,), 1, system)
    goal = np.array([3.0, 0.0, 0.0, 0.0])
    constraints = [
        ControlBounds(-limit, limit), ResidualConstraint(disc, 0.0, np.inf, at="all"),
        StateBounds(system, goal, goal, at="terminal"),
    ]  # fmt: skip
    problem = Problem(system, np.zeros(4), 30, [ControlCost(1.0)], [], constraints)
    solution = solver().solve(problem)
    assert solution.status != "infeasible"
    assert solution.converged and solution.cost < 4.0


def test_a_search_from_states_goes_back_to_the_first_controls():
    """A straight line through discs is a bad start; the controls that come with it are a good one."""
    rng = np.random.default_rng(19)
    discs: list[tuple[float, float, float]] = []
    while len(discs) < 6:
        x, y, r = rng.uniform(0.4, 3.6), rng.uniform(-1.2, 1.2), rng.uniform(0.2, 0.6)
        if np.hypot(x, y) > r + 0.1 and np.hypot(x - 4.0, y) > r + 0.1:
            discs.append((x, y, r))

    def drag(x, u):
        v = (x[2] ** 2 + x[3] ** 2 + 1e-6) ** 0.5
        return x[2], x[3], u[0] - 0.2 * v * x[2], u[1] - 0.2 * v * x[3]

    system = CallableSystem(xdot=drag, nx=4, nu=2, dt=0.1)
    clear = residual(lambda x: [(x[0] - a) ** 2 + (x[1] - b) ** 2 - r * r for a, b, r in discs], 6, system)
    goal = np.array([4.0, 0.0, 0.0, 0.0])
    constraints = [
        ControlBounds(-3.0, 3.0), ResidualConstraint(clear, 0.0, np.inf, at="all"),
        StateBounds(system, goal, goal, at="terminal"),
    ]  # fmt: skip
    problem = Problem(system, np.zeros(4), 40, [ControlCost(1.0)], [], constraints)
    solution = DDP().solve(problem, xs=np.linspace(0.0, 1.0, 41)[:, None] * goal)
    assert solution.status != "infeasible"
