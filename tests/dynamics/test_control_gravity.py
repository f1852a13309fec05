"""Torques beyond gravity: against inverse dynamics and its derivatives at rest, with controls of any actuation."""

import numpy as np
import pytest

import dynamics
import trajopt
from dynamics import ControlGravity
from dynamics.simd import LANES
from tests.reference.random_robots import random_states
from tests.reference.rigid_body_models import load_reference
from tests.tolerances import relative_error
from tests.trajopt.cost_differences import assert_exact_hessians, assert_gradients, random_trajectory

ROBOTS = ("ur5", "panda", "hyq", "spherical_tree", "joint_zoo", "double_pendulum_continuous", "chain_n12_bf2")
CLOSE = 1e-12


@pytest.fixture(params=ROBOTS)
def robot(request, rng):
    """Model, states (K, nx), configurations (K, nq), zero velocities (K, nv)."""
    model, _ = load_reference(request.param)
    q, v = random_states(model, LANES + 3, rng, 1)
    return model, np.hstack([q, v]), q, np.zeros_like(v)


def test_values(robot, rng):
    model, xs, q, _ = robot
    us, g = rng.standard_normal((len(xs), model.nv)), dynamics.gravity_forces(model, q)
    residual = ControlGravity(model)
    assert relative_error(residual.evaluate(xs, us), us - g, floor=np.abs(g).max()) <= CLOSE
    assert relative_error(residual.evaluate(xs), -g) <= CLOSE


def test_jacobians(robot, rng):
    model, xs, q, rest = robot
    us, n = rng.standard_normal((len(xs), model.nv)), model.nv
    rx, ru = ControlGravity(model).jacobians(xs, us)
    assert relative_error(rx[:, :, :n], -dynamics.inverse_dynamics_derivatives(model, q, rest, rest).dtau_dq) <= CLOSE
    assert not rx[:, :, n:].any()
    assert np.array_equal(ru, np.tile(np.eye(n), (len(xs), 1, 1)))


def test_hessians(robot, rng):
    """All knots with multipliers of their own; dense ones, so that every path of the tree takes part."""
    model, xs, q, rest = robot
    n, mu = model.nv, rng.standard_normal((len(xs), model.nv))
    Hxx, Hux, Huu = ControlGravity(model).hessian_products(xs, np.zeros_like(mu), mu)
    lie = -dynamics.inverse_dynamics_hessian(model, q, rest, rest, mu).Hqq
    assert relative_error(Hxx[:, :n, :n], 0.5 * (lie + lie.swapaxes(1, 2))) <= CLOSE
    assert not Hxx[:, n:].any() and not Hxx[:, :, n:].any()
    assert Hux is None and Huu is None


def test_gravity_of_any_direction_and_none():
    builder = dynamics.ModelBuilder(gravity=(1.0, -2.0, 3.0))
    builder.add_body("ball", "world", dynamics.Spherical(), mass=2.0, com=(0.1, 0.2, 0.3), inertia=np.eye(3))
    model = builder.build()
    x = np.r_[dynamics.neutral(model), np.zeros(3)][None]
    expected = 2.0 * np.cross([0.1, 0.2, 0.3], [1.0, -2.0, 3.0])
    assert np.abs(ControlGravity(model).evaluate(x) - expected).max() <= 1e-15 * np.abs(expected).max()
    floating = dynamics.ModelBuilder(gravity=(0.0, 0.0, 0.0))
    floating.add_body("rod", "world", dynamics.Revolute("y"), mass=1.0, com=(0, 0, -0.5))
    weightless, us = ControlGravity(floating.build()), np.array([[3.0]])
    assert np.array_equal(weightless.evaluate(np.ones((1, 2)), us), us)
    assert not weightless.jacobians(np.ones((1, 2)))[0].any()


@pytest.mark.parametrize("columns", [1, 12, 25])
def test_any_actuation(columns, rng):
    """Rows that are not actuated are there all the same; more controls than degrees of freedom too."""
    model, data = load_reference("hyq")
    xs, g = np.hstack([data["q"], data["v"]]), dynamics.gravity_forces(model, data["q"])
    B = rng.standard_normal((model.nv, columns))
    residual, us = ControlGravity(model, B), rng.standard_normal((len(xs), columns))
    assert relative_error(residual.evaluate(xs, us), us @ B.T - g) <= CLOSE
    assert np.array_equal(residual.jacobians(xs, us)[1], np.tile(B, (len(xs), 1, 1)))
    B[:] = np.nan
    assert np.isfinite(residual.evaluate(xs, us)).all() and np.isfinite(residual.actuation).all()


def test_floating_base(rng):
    model, data = load_reference("hyq")
    xs, us = np.hstack([data["q"], data["v"]]), rng.standard_normal((3, 12))
    residual = ControlGravity(model, "floating_base")
    expected = np.hstack([np.zeros((3, 6)), us]) - dynamics.gravity_forces(model, data["q"])
    assert relative_error(residual.evaluate(xs, us), expected) <= CLOSE
    assert (residual.nr, residual.nu) == (18, 12)


def test_one_degree_of_freedom_with_two_motors():
    builder = dynamics.ModelBuilder()
    builder.add_body("rod", "world", dynamics.Revolute("y"), mass=1.0, com=(0, 0, -0.5))
    residual = ControlGravity(builder.build(), [[1.0, 2.0]])
    xs, us = np.zeros((2, 2)), np.array([[3.0, 4.0], [5.0, 6.0]])
    assert np.array_equal(residual.evaluate(xs, us), [[11.0], [17.0]])


def test_in_a_cost(rng):
    """Gradient and exact Hessian of 1/2 |u - g(q)|^2 across states and controls, at running and terminal knots."""
    model, data = load_reference("ur5")
    system = dynamics.RigidBodySystem(model, 0.05)
    cost = trajopt.ResidualCost(ControlGravity(model), 0.3)
    problem = trajopt.Problem(system, np.r_[data["q"][0], np.zeros(6)], 4, [cost], [cost])
    xs, us = random_trajectory(problem, rng)
    assert_gradients(problem, xs, us)
    assert_exact_hessians(problem, xs, us)
    xs, us = (
        np.tile(np.r_[data["q"][1], data["v"][1]], (5, 1)),
        np.tile(dynamics.gravity_forces(model, data["q"][1]), (4, 1)),
    )
    e = trajopt.expand(problem, xs, us)
    assert np.abs(e.lu).max() <= 1e-12 and np.abs(e.lx[:-1]).max() <= 1e-12 and np.abs(e.lx[-1]).max() > 1.0
