"""Costs and constraints that are squares of a residual: summed by the residual itself or term by term, the same."""

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from dynamics.simd import LANES
from dynamics.simd.squares import CLIPPED, SQUARES
from tests.reference.rigid_body_models import load_reference
from trajopt.problem.objective import Objective, Term, gather_squares, zero_blocks

N = 12
NU = 6


class Hidden:
    """A residual that does not sum its squares."""

    def __init__(self, residual):
        self.residual, self.nr, self.name = residual, residual.nr, getattr(residual, "name", "hidden")

    def evaluate(self, xs, us):
        return self.residual.evaluate(xs, us)

    def jacobians(self, xs, us):
        return self.residual.jacobians(xs, us)

    def hessian_products(self, xs, us, mu):
        return self.residual.hessian_products(xs, us, mu)


@pytest.fixture(scope="module")
def system():
    return problems.make("arm", horizon=N).system


@pytest.fixture(scope="module")
def residuals(system):
    frame = list(system.model.frame_names)[-1]
    return (
        dynamics.FrameTranslation(system.model, frame, [0.3, 0.1, 0.5]),
        dynamics.ControlGravity(system.model),
        dynamics.CenterOfMass(system.model, [0.0, 0.2, 0.4]),
    )


def problem(system, residuals, **kwargs):
    tool, held, mass = residuals
    rng = np.random.default_rng(2)
    shared = trajopt.ResidualCost(held, 1e-2)
    running = [trajopt.ResidualCost(tool, rng.uniform(0, 2, (N, 3))), shared]
    running.append(trajopt.ResidualCost(mass, 0.4, activation=trajopt.SmoothAbs(0.1)))
    bounds = [
        trajopt.ResidualConstraint(tool, -0.2, [0.1, np.inf, 0.3], at="all"),
        trajopt.ResidualConstraint(mass, 0.1, np.inf, at="terminal"),
    ]
    return trajopt.Problem(
        system, np.zeros(system.nx), N, running_costs=running,
        terminal_costs=[trajopt.ResidualCost(tool, 7.0), shared], constraints=bounds, **kwargs,
    )  # fmt: skip


def objective(posed):
    """Its terms, and squares of what lies beyond the limits of its constraints."""
    rng, terms = np.random.default_rng(3), []
    for constraint in posed.residual_constraints:
        knots, barrier = constraint.knots(N, True), trajopt.QuadraticBarrier(constraint.lower, constraint.upper)
        for terminal in (False, True):
            at = knots[(knots == N) == terminal]
            if len(at):
                shift = rng.standard_normal((len(at), constraint.nr))
                cost = trajopt.ResidualCost(constraint.residual, 3.0, barrier, shift)
                terms.append(Term(cost, None if terminal else at, 1.0, terminal))
    return Objective([*posed.objective.terms, *terms])


def test_terms_of_a_residual_make_one_sum(system, residuals):
    plain, sums = gather_squares(objective(problem(system, residuals)).terms, N, NU)
    assert [term.cost.residual for term in plain] == [residuals[2]]  # its activation is not a square
    spans = [(part.residual, *part.span, part.weights.layout) for part in sums]
    tool, held, mass = residuals
    squares, clipped = [(tool, 0), (held, 0)], [(tool, 1), (mass, N)]
    expected = [(*each, N + 1, SQUARES) for each in squares] + [(*each, N + 1, CLIPPED) for each in clipped]
    assert spans == expected


def test_sums_equal_the_terms(system, residuals):
    rng = np.random.default_rng(1)
    xs, us = rng.uniform(-1, 1, (N + 1, system.nx)), rng.uniform(-5, 5, (N, system.nu))
    together = objective(problem(system, residuals))
    apart = objective(problem(system, [Hidden(residual) for residual in residuals]))
    assert not gather_squares(apart.terms, N, NU)[1]
    np.testing.assert_allclose(together.value(xs, us), apart.value(xs, us), rtol=1e-13)
    results = []
    for summed in (together, apart):
        target, curvature = (zero_blocks(N, system.ndx, system.nu) for _ in range(2))
        summed.accumulate(xs, us, target, curvature)
        results.append([*target, *curvature])
    for a, b in zip(*results, strict=True):
        assert np.abs(a - b).max() <= 1e-12 * (1.0 + np.abs(b).max())


def test_a_reference_is_the_target_of_the_residual(system, residuals):
    rng = np.random.default_rng(4)
    xs, us = rng.uniform(-1, 1, (N + 1, system.nx)), rng.uniform(-5, 5, (N, system.nu))
    tool, path = residuals[0], rng.uniform(-1, 1, (N, 3))
    at_origin = dynamics.FrameTranslation(system.model, tool.frame, np.zeros(3))
    tracked = [[trajopt.ResidualCost(dynamics.FrameTranslation(system.model, tool.frame, p), 2.0)] for p in path]
    results = []
    for costs in ([trajopt.ResidualCost(at_origin, 2.0, reference=path)], tracked):
        posed = trajopt.Problem(system, np.zeros(system.nx), N, running_costs=costs).objective
        blocks = zero_blocks(N, system.ndx, system.nu)
        posed.accumulate(xs, us, blocks, blocks)
        results.append([np.array(posed.value(xs, us)), *blocks])
    for a, b in zip(*results, strict=True):
        assert np.abs(a - b).max() <= 1e-12 * (1.0 + np.abs(b).max())


def test_costs_at_overlapping_or_distant_knots_are_kept_apart(system, residuals):
    """A sum goes on over a few knots without a term, at which its weights are zero, but not over many."""
    tool = residuals[0]
    twice = trajopt.Problem(
        system, np.zeros(system.nx), N, running_costs=[trajopt.ResidualCost(tool, 1.0), trajopt.ResidualCost(tool, 2.0)]
    )
    assert [len(part) for part in gather_squares(twice.objective.terms, N, NU)] == [0, 2]
    rare, none = trajopt.ResidualCost(tool, 1.0), []
    far = LANES + 1
    ends = trajopt.Problem(system, np.zeros(system.nx), far + 2, running_costs=[[rare], *[none] * far, [rare]])
    plain, sums = gather_squares(ends.objective.terms, far + 2, NU)
    assert not plain and [part.span for part in sums] == [(0, 1), (far + 1, far + 2)]
    near = trajopt.Problem(system, np.zeros(system.nx), N, running_costs=[[rare], none, [rare], *[none] * (N - 3)])
    (part,) = gather_squares(near.objective.terms, N, NU)[1]
    assert part.span == (0, 3) and not part.weights.rows[1].any()


@pytest.mark.parametrize("hidden", [False, True])
def test_a_cost_twice_in_the_list_of_a_knot_counts_twice_there(system, residuals, hidden):
    """Value and derivatives are those of two equal costs, also where as many are listed as there are knots."""
    tool = Hidden(residuals[0]) if hidden else residuals[0]
    rng = np.random.default_rng(5)
    xs, us = rng.uniform(-1, 1, (N + 1, system.nx)), rng.uniform(-5, 5, (N, system.nu))
    one, other = trajopt.ResidualCost(tool, 2.0), trajopt.ResidualCost(tool, 2.0)
    counts = [2, 0, 1, 1, 3, 0, 0, *[1] * (N - 7)]
    results = []
    for second in (one, other):
        lists = [[one, second, one][:count] for count in counts]
        objective = trajopt.Problem(system, np.zeros(system.nx), N, running_costs=lists).objective
        target, curvature = (zero_blocks(N, system.ndx, system.nu) for _ in range(2))
        objective.accumulate(xs, us, target, curvature)
        results.append([np.array(objective.value(xs, us)), *target, *curvature])
    each = trajopt.Problem(system, np.zeros(system.nx), N, running_costs=[one]).objective
    weighed = np.zeros((N + 1, system.ndx))
    once = zero_blocks(N, system.ndx, system.nu)
    each.accumulate(xs, us, once, None)
    weighed[:N] = np.array(counts)[:, None] * once[0][:N]
    for found in results:
        np.testing.assert_allclose(found[1], weighed, rtol=1e-12, atol=1e-12 * np.abs(weighed).max())
    for a, b in zip(*results, strict=True):
        assert np.abs(a - b).max() <= 1e-12 * (1.0 + np.abs(b).max())


@pytest.mark.parametrize("rows", [1, N])
def test_quadratic_barriers_are_squares(system, residuals, rows):
    """Summed like other squares, with the bounds of the barrier; residuals that cannot sum are asked one by one."""
    rng, tool = np.random.default_rng(7), residuals[0]
    barrier = trajopt.QuadraticBarrier(-0.1, [0.05, np.inf, 0.2])
    w = rng.uniform(0.5, 2.0, (N, 3) if rows == N else 3)
    xs, us = rng.uniform(-1, 1, (N + 1, system.nx)), np.zeros((N, system.nu))
    results = []
    for residual in (tool, Hidden(tool)):
        costs = [trajopt.ResidualCost(residual, w, barrier)]
        objective = trajopt.Problem(system, np.zeros(system.nx), N, costs).objective
        plain, sums = gather_squares(objective.terms, N, NU)
        assert (len(plain), len(sums)) == ((0, 1) if residual is tool else (1, 0))
        target, curvature = (zero_blocks(N, system.ndx, system.nu) for _ in range(2))
        objective.accumulate(xs, us, target, curvature)
        results.append([np.array(objective.value(xs, us)), *target, *curvature])
    assert results[0][0] > 0.0 and results[0][-3].any()
    for a, b in zip(*results, strict=True):
        assert np.abs(a - b).max() <= 1e-12 * (1.0 + np.abs(b).max())
    derived = type("Twice", (trajopt.QuadraticBarrier,), {})(-1.0, 1.0)
    assert trajopt.ResidualCost(tool, 1.0, derived).squares(NU) is None


@pytest.mark.parametrize("manifold", [False, True])
def test_state_and_control_costs_equal_those_of_a_diagonal_activation(system, manifold):
    if manifold:
        model, _ = load_reference("joint_zoo")
        system = dynamics.RigidBodySystem(model, 0.05)
    rng = np.random.default_rng(4)
    x_ref = system.integrate(start(system), 0.3 * rng.standard_normal(system.ndx))
    w, w_end, w_u = (
        rng.uniform(0.5, 2, system.ndx),
        rng.uniform(0.5, 2, system.ndx),
        rng.uniform(0.5, 2, system.nu),
    )
    posed = [
        trajopt.Problem(system, start(system), N, [state(w), trajopt.ControlCost(*control)], [state(w_end)]).objective
        for state, control in (
            (lambda w: trajopt.StateCost(system, x_ref, w), (w_u, 0.3)),
            (
                lambda w: trajopt.StateCost(system, x_ref, 1.0, trajopt.WeightedQuadratic(np.diag(w))),
                (1.0, 0.3, trajopt.WeightedQuadratic(np.diag(w_u))),
            ),
        )
    ]
    sizes = [[len(part) for part in gather_squares(objective.terms, N, system.nu)] for objective in posed]
    assert sizes == [[0, 2], [3, 0]]
    xs = system.integrate(np.tile(x_ref, (N + 1, 1)), 0.5 * rng.standard_normal((N + 1, system.ndx)))
    us = rng.standard_normal((N, system.nu))
    np.testing.assert_allclose(posed[0].value(xs, us), posed[1].value(xs, us), rtol=1e-13)
    results = []
    for objective in posed:
        target, curvature = (zero_blocks(N, system.ndx, system.nu) for _ in range(2))
        objective.accumulate(xs, us, target, curvature)
        results.append([*target, *curvature])
    assert results[0][-3].any() == manifold
    for a, b in zip(*results, strict=True):
        assert np.abs(a - b).max() <= 1e-12 * (1.0 + np.abs(b).max())


def start(system):
    return system.state(dynamics.neutral(system.model))


def test_states_that_are_not_finite_cost_infinity(system, residuals):
    posed = problem(system, residuals)
    xs, us = np.zeros((N + 1, system.nx)), np.zeros((N, system.nu))
    xs[3, 1] = np.nan
    assert posed.objective.value(xs, us) == np.inf
