"""Friction cones in problems: the quadruped pushes its centre of mass aside on slippery ground and must not slide."""

import functools

import numpy as np
import pytest

import dynamics
import trajopt
from problems.quadruped_model import FEET
from tests.dynamics.test_contact_system import stance
from tests.trajopt.cost_differences import assert_gradients
from tests.trajopt.test_squares import Hidden
from trajopt.problem.objective import gather_squares, zero_blocks
from trajopt.results.explanation import lagrangian_gradient

N, MU = 12, 0.1


@functools.cache
def robot():
    return stance(FEET, 0.02)


def problem(constraints=(), costs=(), horizon=N):
    """Two centimetres forwards and one to the left within a quarter of a second."""
    system, x0, u0 = robot()
    target = dynamics.center_of_mass(system.model, x0[:19]) + [0.02, 0.01, 0.0]
    running = [trajopt.StateCost(system, x0, 0.1), trajopt.ControlCost(0.1, u0), *costs]
    terminal = [
        trajopt.ResidualCost(dynamics.CenterOfMass(system.model, target), 1e4),
        trajopt.StateCost(system, x0, np.r_[np.zeros(18), np.ones(18)]),
    ]
    return trajopt.Problem(
        system, x0, horizon, running, terminal, constraints=constraints, us_init=np.tile(u0, (horizon, 1))
    )


def held(cone, at="path"):
    return trajopt.ResidualConstraint(cone, cone.lower, cone.upper, at=at)


def cone_of(facets, mu=MU, inner=False):
    return dynamics.FrictionCone(robot()[0], mu, facets=facets, min_normal_force=0.5, inner=inner)


@functools.cache
def solution(facets, inner=False):
    return trajopt.DDP(tolerance=1e-17).solve(problem([held(cone_of(facets, inner=inner))]))


def slips(found, cone):
    """Largest violation of the cone along a solution."""
    return float((cone.lower - cone.evaluate(found.xs[:-1], found.us)).max())


def test_without_constraints_the_feet_would_slide():
    free = trajopt.DDP().solve(problem())
    assert free.converged and slips(free, cone_of(None)) > 0.5


@pytest.mark.parametrize(("facets", "inner"), [(4, False), (4, True), (None, False)])
def test_cones_hold_and_the_end_is_a_minimum(facets, inner):
    """Feasible, with a stationary Lagrangian, multipliers of one sign that vanish where the cone is not reached."""
    found, cone = solution(facets, inner), cone_of(facets, inner=inner)
    assert found.converged and slips(found, cone) < 1e-6
    (report,) = found.constraints
    assert np.array_equal(report.knots, np.arange(N))
    lam, slack = report.multipliers, report.values - report.lower
    assert lam.min() < -1e-4 and lam.max() <= 0.0
    assert np.abs(lam * slack).max() < 1e-7
    assert np.abs(lagrangian_gradient(found)).max() < 1e-7


def test_the_cones_lie_in_each_other():
    inner, cone, outer = solution(4, True), solution(None), solution(4)
    assert slips(inner, cone_of(None)) < 1e-3 and slips(cone, cone_of(4)) < 1e-6 < slips(outer, cone_of(None))
    assert outer.cost < cone.cost < inner.cost


@pytest.mark.parametrize("facets", [4, None])
def test_multipliers_are_the_price_of_friction(facets):
    """Envelope theorem: d cost/d mu = sum lam n.f, n.f the last of the rows of each foot."""
    h, (report,) = 1e-3, solution(facets).constraints
    costs = [trajopt.DDP().solve(problem([held(cone_of(facets, MU + s * h))])).cost for s in (1, -1)]
    rows = (1 if facets is None else facets) + 1
    lam, r = (array.reshape(N, 4, rows) for array in (report.multipliers, report.values))
    price = (lam[:, :, :-1].sum(axis=2) * r[:, :, -1]).sum()
    assert price < 0.0
    assert (costs[0] - costs[1]) / (2 * h) == pytest.approx(price, rel=1e-2)


def test_one_phase_of_the_motion():
    """Held to the cone for the first knots alone, the feet slide later."""
    cone, phase = cone_of(4), np.arange(5)
    found = trajopt.DDP().solve(problem([held(cone, phase)]))
    slack = cone.evaluate(found.xs[:-1], found.us) - cone.lower
    assert found.converged and slack[:5].min() > -1e-6 and slack[5:].min() < -0.1
    assert np.abs(lagrangian_gradient(found)).max() < 1e-7
    again = trajopt.DDP().solve(found.problem, warm_start=found.warm_start())
    assert again.converged and again.iterations < found.iterations


def barrier(residual, cone, weight):
    return trajopt.ResidualCost(residual, weight, trajopt.QuadraticBarrier(cone.lower, cone.upper))


@pytest.mark.parametrize("facets", [4, None])
def test_barriers_in_the_lanes_are_barriers(facets, rng):
    """Expansion of the cost by the lanes and by the methods of the residual; gradients by differences."""
    cone, expansions = cone_of(facets), []
    system, x0, u0 = robot()
    xs = system.integrate(np.tile(x0, (4, 1)), 0.05 * rng.standard_normal((4, system.ndx)))
    us = u0 + 0.3 * rng.standard_normal((3, system.nu))
    for residual in (cone, Hidden(cone)):
        posed = problem(costs=[barrier(residual, cone, 2.0)], horizon=3)
        asked_one_by_one, _ = gather_squares(posed.objective.terms, 3, 12)
        assert len(asked_one_by_one) == (0 if residual is cone else 1)
        blocks, curvature = (zero_blocks(3, system.ndx, system.nu) for _ in range(2))
        posed.objective.accumulate(xs, us, blocks, curvature)
        expansions.append([np.array(posed.objective.value(xs, us)), *blocks, *curvature])
    assert expansions[0][-2].any()
    for a, b in zip(*expansions, strict=True):
        assert np.abs(a - b).max() <= 1e-10 * (1.0 + np.abs(b).max())
    assert_gradients(trajopt.Problem(system, x0, 3, [barrier(cone, cone, 2.0)]), xs, us)


def test_a_steep_barrier_comes_near_the_constraint():
    cone, errors = cone_of(4), []
    for weight in (1e2, 1e4):
        soft = trajopt.DDP().solve(problem(costs=[barrier(cone, cone, weight)]))
        assert soft.converged and soft.gradient_norm < 1e-6
        errors.append((slips(soft, cone), np.abs(soft.us - solution(4).us).max()))
    assert errors[0][0] > 10 * errors[1][0] > 0.0
    assert errors[1][0] < 1e-3 and errors[1][1] < 1e-2 < errors[0][1]


def test_forces_that_are_asked_for():
    """A foot relieved of its load by a cost of its force."""
    system, x0, u0 = robot()
    lifted = trajopt.ResidualCost(dynamics.ContactForce(system, "lf_foot"), 1e3)
    running = [trajopt.StateCost(system, x0, 0.1), trajopt.ControlCost(1e-3, u0)]
    posed = trajopt.Problem(system, x0, N, [*running, lifted], us_init=np.tile(u0, (N, 1)))
    found = trajopt.DDP().solve(posed)
    assert found.converged
    before, after = (np.abs(system.contact_forces(found.xs, us)[0, 0]).max() for us in (posed.us_init, found.us))
    assert after < 0.01 * before
