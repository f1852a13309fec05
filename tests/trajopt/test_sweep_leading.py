"""The sweep for systems whose first rows have no semi-implicit form: robots with a floating base."""

import numpy as np
import pytest

from dynamics import HybridSystem, PointContact, RigidBodySystem
from problems.quadruped_model import FEET, quadruped, standing
from tests.reference.riccati import STEP, assert_agree, assert_agree_or_zero, expansion, random_limits, riccati
from tests.reference.rigid_body_models import load_reference
from tests.reference.robot_systems import make_system
from trajopt.backward.backward_pass import box_around, sweep
from trajopt.interfaces.system import semi_implicit_form
from trajopt.problem.derivative_check import check_derivatives

SIZES = [(36, 12, 6), (14, 7, 3), (24, 3, 6), (20, 2, 9), (4, 1, 1), (46, 10, 6)]


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_agrees_with_reference_and_reads_no_plain_rows(size, mu):
    ndx, nu, b = size
    arrays = expansion(ndx, nu, 12, STEP, b)
    expected = riccati(*arrays, mu)
    arrays[0][:, b : ndx // 2], arrays[1][:, b : ndx // 2] = np.nan, np.nan
    result = sweep(arrays, mu, STEP, leading=b)
    assert result.ok
    assert_agree(result, expected)
    np.testing.assert_array_equal(result.Vxx, result.Vxx.transpose(0, 2, 1))


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("size", SIZES[:3], ids=str)
def test_limits_and_gaps(size, mu, rng):
    ndx, nu, b = size
    arrays, gaps = expansion(ndx, nu, 12, STEP, b), rng.standard_normal((13, ndx))
    us, lower, upper = random_limits(rng, 12, nu)
    expected = riccati(*arrays, mu, gaps, (lower - us, upper - us))
    result = sweep(arrays, mu, STEP, gaps, box_around(us, lower, upper), leading=b)
    assert result.ok
    assert_agree_or_zero(result, expected)


@pytest.mark.parametrize("b", [-1, 6, 7])
def test_leading_rows_must_leave_others(b):
    with pytest.raises(ValueError, match="leading"):
        sweep(expansion(12, 2, 3), 0.0, STEP, leading=b)


@pytest.mark.parametrize("name, first", [("hyq", 6), ("joint_zoo", 16), ("spherical_tree", 15), ("ur5", 0)], ids=str)
def test_promise_of_robots(name, first, rng):
    """Rows of the configuration behind the last curved joint."""
    system, xs, us = make_system(name, 0.05, "semi_implicit_euler", rng)
    n, b = system.nv, first
    assert semi_implicit_form(system) == (0.05, first)
    fx, fu = system.linearize(xs, us)
    upper = np.eye(n, 2 * n) + 0.05 * fx[:, n:]
    size = np.abs(upper).max()
    np.testing.assert_allclose(fx[:, b:n], upper[:, b:], rtol=0, atol=1e-14 * size)
    np.testing.assert_allclose(fu[:, b:n], 0.05 * fu[:, n + b :], rtol=0, atol=1e-14 * np.abs(fu).max())
    assert b == 0 or np.abs(fx[:, :b] - upper[:, :b]).max() > 1e-6 * size


def test_other_integrators_promise_nothing():
    model = load_reference("hyq")[0]
    for integrator in ("explicit_euler", "rk4"):
        assert semi_implicit_form(RigidBodySystem(model, 0.01, integrator)) == (0.0, 0)


def test_promise_of_a_quadruped_in_contact_is_checked(rng):
    model = quadruped()
    feet = [PointContact(model, foot, gains=(0.0, 50.0)) for foot in FEET]
    system = RigidBodySystem(model, 0.01, contacts=feet, actuation="floating_base")
    x = system.integrate(system.state(standing()), 0.1 * rng.standard_normal(system.ndx))
    report = check_derivatives(system, x=x, u=rng.standard_normal(system.nu))
    assert report.ok and {"semi_implicit fx", "semi_implicit fu"} <= {block.name for block in report.blocks}
    assert report["semi_implicit fx"].error < 1e-14


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize("size", [(36, 12, 6), (14, 7, 0)], ids=str)
def test_knots_of_different_duration(size, mu):
    ndx, nu, b = size
    N, n = 12, ndx // 2
    steps = np.where(np.arange(N) % 5 == 3, 0.0, np.linspace(0.01, 0.3, N))
    arrays = expansion(ndx, nu, N, STEP)
    fx, fu = arrays[:2]
    fx[:, b:n] = np.eye(n, ndx)[b:] + steps[:, None, None] * fx[:, n + b :]
    fu[:, b:n] = steps[:, None, None] * fu[:, n + b :]
    expected = riccati(*arrays, mu)
    fx[:, b:n], fu[:, b:n] = np.nan, np.nan
    result = sweep(arrays, mu, steps, leading=b)
    assert result.ok
    assert_agree(result, expected)


def test_form_of_hybrid_systems(rng):
    model = quadruped()
    system = HybridSystem(model, 0.02, [("two", FEET[:2], 2), ("four", FEET, 2)])
    seconds, first = semi_implicit_form(system)
    assert first == 6 and np.array_equal(np.asarray(seconds), [0.02, 0.02, 0.0, 0.02, 0.02])
    x0 = system.integrate(system.state(standing()), 0.1 * rng.standard_normal(36))
    us = rng.standard_normal((5, 12))
    xs = system.rollout(x0, us)
    fx, fu = system.linearize(xs, us)
    h = seconds[:, None, None]
    np.testing.assert_allclose(fx[:, 6:18], np.eye(18, 36)[6:] + h * fx[:, 24:], atol=1e-13)
    np.testing.assert_allclose(fu[:, 6:18], h * fu[:, 24:], atol=1e-13)
    assert semi_implicit_form(HybridSystem(model, 0.02, [("air", [], 2)], integrator="explicit_euler")) == (0.0, 0)
