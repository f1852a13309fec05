"""Expansions of one step: how fast the linear and the quadratic model's errors fall, tensors, structure."""

import numpy as np
import pytest

from dynamics import RigidBodySystem
from tests.reference.rigid_body_models import load_reference
from tests.reference.robot_systems import (
    CASES,
    DIRECTIONS,
    INTEGRATORS,
    ROBOTS,
    STEPS,
    both_orders_at_once,
    make_system,
    model_slopes,
    slope,
)
from tests.tolerances import CONTRACTED, SLOPE, relative_error


@pytest.fixture(params=INTEGRATORS)
def integrator(request):
    return request.param


@pytest.fixture(params=[*ROBOTS, *CASES])
def robot(request):
    return request.param


@pytest.mark.parametrize("dt", [0.02, 0.4])
def test_slopes_of_the_models(robot, integrator, dt, rng):
    """A small step, where the robot's curvature dominates, and a large one, where the group's shows."""
    dt = dt / 8.0 if robot in CASES else dt
    system, xs, us = make_system(robot, dt, integrator, rng)
    assert model_slopes(system, xs, us, rng) == pytest.approx((2.0, 3.0), abs=SLOPE)


def test_products_are_symmetric_and_linear(robot, integrator, rng):
    system, xs, us = make_system(robot, 0.2, integrator, rng)
    lam, mu = rng.standard_normal((2, 3, system.ndx))
    one, other = system.hessian_products(xs, us, lam), system.hessian_products(xs, us, mu)
    both = system.hessian_products(xs, us, 2.0 * lam - mu)
    size = np.abs(one[0]).max() + np.abs(other[0]).max()
    for x, y, z in zip(one, other, both, strict=True):
        assert relative_error(z, 2.0 * x - y, floor=size) <= CONTRACTED
    for X in (both[0], both[2]):
        assert relative_error(X, np.swapaxes(X, 1, 2), floor=size) <= CONTRACTED
    assert not any(X.any() for X in system.hessian_products(xs, us, 0.0 * lam))


def test_both_orders_at_once(robot, integrator, rng):
    """`write_expansion` gives what `linearize` and `hessian_products` give, to rounding."""
    system, xs, us = make_system(robot, 0.2, integrator, rng)
    lam = rng.standard_normal((3, system.ndx))
    apart = (*system.linearize(xs, us), *system.hessian_products(xs, us, lam))
    for one, other in zip(both_orders_at_once(system, xs, us, lam), apart, strict=True):
        assert relative_error(one, other, floor=1.0) <= CONTRACTED


def test_tensors_contract_to_the_products(robot, integrator, rng):
    system, xs, us = make_system(robot, 0.2, integrator, rng)
    lam = rng.standard_normal((3, system.ndx))
    tensors, products = system.hessians(xs, us), system.hessian_products(xs, us, lam)
    size = np.abs(products[0]).max()
    n, m = system.ndx, system.nu
    for T, H, shape in zip(tensors, products, ((n, n), (m, n), (m, m)), strict=True):
        assert T.shape == (3, n, *shape) and H.shape == (3, *shape)
        assert relative_error(H, np.einsum("ti,tijk->tjk", lam, T), floor=size) <= 10 * CONTRACTED


def test_the_last_state_of_a_trajectory_does_not_count(robot, integrator, rng):
    system, xs, us = make_system(robot, 0.05, integrator, rng)
    longer, lam = np.vstack([xs, np.full(system.nx, np.nan)]), rng.standard_normal((3, system.ndx))
    for found, expected in zip(
        (*system.linearize(longer, us), *system.hessian_products(longer, us, lam)),
        (*system.linearize(xs, us), *system.hessian_products(xs, us, lam)),
        strict=True,
    ):
        assert np.array_equal(found, expected)


@pytest.mark.parametrize("name", ["ur5", "panda", "double_pendulum_continuous", "chain_n12_bf2"])
def test_semi_implicit_structure(name, rng):
    """fx's upper half is [I 0] + dt times the lower one: exactly, but for the rounding of 1 + dt y on the diagonal."""
    model, data = load_reference(name)
    system = RigidBodySystem(model, 0.03)
    assert system.semi_implicit
    n, h = model.nv, system.dt
    xs, us = np.hstack([data["q"], data["v"]]), data["tau"]
    fx, fu = system.linearize(xs, us)
    assert np.array_equal(fu[:, :n], h * fu[:, n:])
    expected = h * fx[:, n:] + np.hstack([np.eye(n), np.zeros((n, n))])
    diagonal = np.hstack([np.eye(n, dtype=bool), np.zeros((n, n), dtype=bool)])
    assert np.array_equal(fx[:, :n][:, ~diagonal], expected[:, ~diagonal])
    assert np.abs(fx[:, :n] - expected).max() <= np.finfo(float).eps * np.abs(expected).max()


@pytest.mark.parametrize("name", ["hyq", "joint_zoo", "spherical_tree"])
def test_expansion_of_the_state_difference(name, rng):
    """r = difference(x_ref, x): linear model with slope 2, and that of mu'r with its Hessian 3."""
    system, xs, _ = make_system(name, 0.1, "semi_implicit_euler", rng)
    reference = system.integrate(xs, rng.uniform(-0.8, 0.8, xs[:, : system.ndx].shape))
    mu = rng.standard_normal((3, system.ndx))
    J, H = system.difference_expansion(reference, xs, mu)
    assert relative_error(H, np.swapaxes(H, 1, 2)) <= CONTRACTED
    dx = STEPS[:, None, None] * 5 * rng.standard_normal((DIRECTIONS, system.ndx))
    moved = system.integrate(xs[1], dx.reshape(-1, system.ndx))
    r = system.difference(reference[1], moved).reshape(dx.shape)
    linear = r - system.difference(reference[1], xs[1]) - dx @ J[1].T
    assert slope(STEPS, linear) == pytest.approx(2.0, abs=SLOPE)
    quadratic = linear @ mu[1] - 0.5 * np.einsum("sdi,ij,sdj->sd", dx, H[1], dx)
    assert slope(STEPS, quadratic) == pytest.approx(3.0, abs=SLOPE)
    one_reference = system.difference_expansion(reference[1], xs, mu)
    assert np.array_equal(one_reference[0][1], J[1]) and np.array_equal(one_reference[1][1], H[1])


def test_expansion_of_a_euclidean_difference(rng):
    system, xs, _ = make_system("ur5", 0.1, "semi_implicit_euler", rng)
    J, H = system.difference_expansion(xs[0], xs, rng.standard_normal((3, 12)))
    assert np.array_equal(J, np.tile(np.eye(12), (3, 1, 1))) and not H.any()
