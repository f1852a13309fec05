"""What `Solution.explain` must not say: nothing contradicts the numbers beside it."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from tests.trajopt.cases import tip
from tests.trajopt.systems import LinearSystem
from tests.trajopt.test_explanation import limited, text
from trajopt import DDP, ControlBounds, ControlCost, Problem, StateCost, Status
from trajopt.backward.expansions import adjoint, expand
from trajopt.results.explanation import lagrangian_gradient


def unstable(horizon, constraints=()):
    """Errors grow by a tenth every step of the open loop."""
    system = LinearSystem([[1.1, 0.1], [0.0, 1.05]], [[0.0], [0.1]], dt=0.1)
    costs = [ControlCost(1.0), StateCost(system, [1.0, -1.0], 1.0)], [StateCost(system, [1.0, -1.0], 10.0)]
    xs = np.tile([1.0, -0.9], (horizon + 1, 1))
    return Problem(system, xs[0], horizon, *costs, constraints, xs_init=xs)


def closed_loop_gradient(solution):
    """Of the cost in du of u = us + du + K (x - xs), knot by knot: lu + fu'p with p = lx + K'lu + (fx + fu K)'p'."""
    e, K = expand(solution.problem, solution.xs, solution.us), solution.K
    p, largest = e.lx[-1], 0.0
    for t in range(len(K) - 1, -1, -1):
        largest = max(largest, float(np.abs(e.lu[t] + e.fu[t].T @ p).max()))
        p = e.lx[t] + K[t].T @ e.lu[t] + (e.fx[t] + e.fu[t] @ K[t]).T @ p
    return largest


@pytest.mark.parametrize("horizon", [500, 1000])
@pytest.mark.parametrize("constraints", [(), (ControlBounds(-1.0, 1.0),)])
def test_what_instability_leaves_of_the_gradient_is_explained(horizon, constraints):
    """Rounding of 1e-16 grows to gradients beyond 1e3 over the horizon; in closed loop nothing is left of them."""
    solution = DDP().solve(unstable(horizon, constraints))
    closed = closed_loop_gradient(solution)
    assert solution.converged and solution.gradient_norm > 1e3 and closed < 1e-8
    assert f"Largest gradient entry: {solution.gradient_norm:.2g}, of control 0 at knot" in text(solution)
    pattern = r"In closed loop, u = us \+ K \(x - xs\), it is (\S+): the rest is what the instability"
    said = re.search(pattern, text(solution))
    assert said is not None and float(said[1]) == pytest.approx(closed, abs=1e-12)
    assert f"The full step changes no control by more than {np.abs(solution.k).max():.2g}." in text(solution)
    assert "closed loop" not in text(DDP().solve(tip()))


def test_multipliers_of_control_limits_are_no_amplified_rounding():
    """A limit that presses at the first knots of a long unstable horizon: the multipliers are those of a short one."""
    bounds = (ControlBounds(0.1, 0.6),)
    long, short = (DDP().solve(unstable(N, bounds)) for N in (600, 150))
    assert long.converged and short.converged and short.constraints[0].active.any()
    assert np.abs(adjoint(expand(long.problem, long.xs, long.us))[1]).max() > 1e3
    np.testing.assert_allclose(
        long.constraints[0].multipliers[:150], short.constraints[0].multipliers, rtol=1e-6, atol=1e-8
    )


LIMITED = {}


def fabricated(status, violation, gap, step, promised, mu):
    """A solution under constraints with these numbers, as no solve may have ended: controls off by `step`."""
    if not LIMITED:
        LIMITED["ended"] = DDP().solve(limited())
    end = LIMITED["ended"]
    bounds, states = end.constraints
    values = np.clip(states.values, states.lower, states.upper)
    values[7] = states.upper[7] + violation
    gaps = np.zeros_like(end.gaps)
    gaps[5, 1] = gap
    last = end.log[-1]._replace(predicted_decrease=promised * end.cost, mu=mu)
    constraints = bounds, states._replace(values=values)
    end = replace(end, status=Status(status), message=Status(status).message, constraints=constraints)
    return replace(end, gaps=gaps, us=end.us + step, log=(*end.log[:-1], last))


@pytest.mark.parametrize("status", [str(status) for status in Status])
@pytest.mark.parametrize("solver", [None, DDP(feasibility_tolerance=1e-2)])
def test_no_sentence_contradicts_the_numbers(status, solver):
    """Every end with violations, gaps, gradients, promises and mu, small and large."""
    table = itertools.product([0.0, 3.7e-3, 0.5], [0.0, 0.1], [0.0, 1e5], [1e-15, 0.1], [0.0, 1e3])
    allowed = 1e-6 if solver is None else solver.feasibility_tolerance
    for violation, gap, step, promised, mu in table:
        solution = fabricated(status, violation, gap, step, promised, mu)
        said = text(solution, solver)
        assert solution.violation == pytest.approx(violation, abs=1e-12) and solution.largest_gap == gap
        met, closed = violation <= allowed, gap == 0.0
        assert ("accept it" in said) <= (met and closed and promised < 1e-6 and mu == 0.0)
        assert ("a larger tolerance:" in said) <= (met and closed and promised < 1e-6 and mu == 0.0)
        for blame in ("which is violated at knot", "where it is violated by"):
            assert (blame in said) <= (not met)
        assert ("the constraints are met" in said) <= met
        assert ("feasibility_tolerance below" in said) == (status == "converged" and not met)
        assert ("States follow from the controls" in said) == closed and ("States do not follow" in said) != closed
        assert (f"largest violation {violation:.2g}" in said) or violation == 0.0
        assert ("raise max_iterations (it was" in said) <= (status == "max_iterations")
        largest = np.abs(lagrangian_gradient(solution)).max()
        assert f"Largest gradient entry: {largest:.2g}, of control 0" in said
        assert (step == 0.0) == (largest < 1e-3)  # both kinds are in the table
        if "In closed loop" in said:
            assert largest > 50.0 * np.abs(lagrangian_gradient(solution, closed_loop=True)).max()


def test_small_promises_do_not_contradict_the_tolerance():
    """What converges below the rounding of its cost says so; relative to nothing there is no part."""
    solver = DDP(tolerance=1e-13)
    solution = solver.solve(tip())
    for promised, said in ((1e-14, False), (5e-13, True)):
        last = solution.log[-1]._replace(predicted_decrease=promised * solution.cost)
        known = text(replace(solution, log=(*solution.log[:-1], last)), solver)
        assert ("but so little does not show in the cost" in known) == said
    assert "too small to show in the cost" in solution.message
    assert "of it" not in text(replace(solution, cost=0.0), solver)
