"""States of a robot moved and compared in bulk: what comes in, what goes out, and what does not raise."""

import hypothesis
import numpy as np
import pytest

import dynamics
from dynamics import RigidBodySystem, difference, integrate
from dynamics.simd import LANES
from dynamics.simd.squares import CLIPPED, KnotSum, ResidualWeights
from tests.reference.random_robots import random_states, random_trees, settings
from tests.reference.rigid_body_models import load_reference
from tests.reference.tangent_differences import along_state
from tests.tolerances import IDENTITY, SIXTH_ORDER_DIFFERENCES, relative_error

ROBOTS = ("ur5", "hyq", "spherical_tree", "joint_zoo")


@pytest.fixture(params=ROBOTS)
def robot(request, rng):
    """System, more states than lanes (K, nx), and tangent vectors (K, ndx)."""
    model, _ = load_reference(request.param)
    q, v = random_states(model, LANES + 3, rng, 1)
    return RigidBodySystem(model, 0.1), np.hstack([q, v]), rng.uniform(-1, 1, (LANES + 3, 2 * model.nv))


def test_parts_are_those_of_configurations_and_velocities(robot):
    system, xs, dx = robot
    nq, n, model = system.nq, system.nv, system.model
    moved = system.integrate(xs, dx)
    assert relative_error(moved[:, :nq], integrate(model, xs[:, :nq], dx[:, :n])) <= IDENTITY
    assert np.array_equal(moved[:, nq:], xs[:, nq:] + dx[:, n:])
    d = system.difference(xs, moved)
    assert relative_error(d[:, :n], difference(model, xs[:, :nq], moved[:, :nq])) <= IDENTITY
    assert np.array_equal(d[:, n:], moved[:, nq:] - xs[:, nq:])


def test_difference_with_its_jacobian(robot):
    system, xs, dx = robot
    for reference in (xs[3], xs[::-1]):
        r, J = system.difference_with_jacobian(reference, xs)
        assert relative_error(r, system.difference(reference, xs)) <= IDENTITY
        assert relative_error(J, system.difference_expansion(reference, xs, dx)[0]) <= IDENTITY


def test_squares_of_what_exceeds_limits(robot, rng):
    system, xs, _ = robot
    w, shift, lower = rng.uniform(0.1, 1.0, (3, len(xs), system.ndx))
    y = system.difference(xs[2], xs) + shift
    expected = 0.5 * np.sum(w * (y - np.clip(y, lower, lower + 0.2)) ** 2)
    weights = ResidualWeights(np.hstack([w, shift, lower, lower + 0.2]), CLIPPED)
    add = system.difference_residual(xs[2]).add_expansion
    us = np.zeros((len(xs) - 1, system.nu))
    assert add(KnotSum((0, len(xs)), xs, us, weights)) == pytest.approx(expected, rel=1e-12)


@settings
@hypothesis.given(random_trees())
def test_numbers_of_states_along_tangents(tree):
    """Of all kinds of joints: against differences of `integrate`."""
    model, rng = tree.build()
    xs = np.hstack(random_states(model, 3, rng, 1))
    for x, J in zip(xs, RigidBodySystem(model, 0.1).integrate_jacobian(xs), strict=True):
        assert relative_error(J, along_state(model, lambda moved: moved, x)) <= SIXTH_ORDER_DIFFERENCES


def test_numbers_of_states_of_robots_with_joints_that_follow(rng):
    builder = dynamics.ModelBuilder()
    builder.add_body("a", "world", dynamics.Revolute("y"), joint_name="lead", mass=1.0, armature=1.0)
    builder.add_body("b", "a", dynamics.Revolute("y"), joint_name="follower", mass=1.0, armature=1.0)
    builder.add_mimic("follower", "lead", 2.0, 0.1)
    system = RigidBodySystem(builder.build(), 0.1)
    J = system.integrate_jacobian(rng.standard_normal((2, system.nx)))
    assert np.array_equal(J, np.tile(np.eye(2), (2, 1, 1)))
    with pytest.raises(ValueError, match="xs"):
        system.integrate_jacobian(np.zeros(3))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_diverged_states_stay_in_their_row(robot, bad):
    """One entry at a time: that row is not finite, all others are as they were; nothing is raised."""
    system, xs, dx = robot
    moved, r, J = system.integrate(xs, dx), *system.difference_with_jacobian(xs[2], xs)
    others = np.arange(len(xs)) != 4
    for i in range(system.nx):
        diverged = xs.copy()
        diverged[4, i] = bad
        after, d = system.integrate(diverged, dx), system.difference(xs[2], diverged)
        assert np.array_equal(after[others], moved[others]) and not np.isfinite(after[4]).all()
        assert np.array_equal(d[others], r[others]) and not np.isfinite(d[4]).all()
        assert not np.isfinite(system.difference(diverged, diverged)[4]).all()
        assert np.array_equal(system.difference_with_jacobian(xs[2], diverged)[1][others], J[others])
    for i in range(system.ndx):
        away = dx.copy()
        away[4, i] = bad
        after = system.integrate(xs, away)
        assert np.array_equal(after[others], moved[others]) and not np.isfinite(after[4]).all()
