"""Closed-loop rollouts with gaps and control limits, eight candidates in lanes, against steps one after another."""

import numpy as np
import pytest

from dynamics.simd import PROGRESS
from dynamics.systems.expansion import drive_linearization
from dynamics.systems.rollouts import drive_closed_loops, drive_steps
from tests.reference.robot_systems import CASES, INTEGRATORS, ROBOTS, make_system
from trajopt.interfaces.stepwise import closed_loop_by_steps

ALPHAS = np.append(0.5 ** np.arange(7), -0.5)
KNOTS = 6


def policy(system, x, u, rng):
    """States and controls around one point, small gains, gaps of all their sizes, and limits that bind."""
    size = 1.0 / max(1.0, np.abs(system.linearize(x[None], u[None])[1]).max())
    xs = np.array([system.integrate(x, 0.01 * rng.standard_normal(system.ndx)) for _ in range(KNOTS + 1)])
    us = u + 0.1 * size * rng.standard_normal((KNOTS, system.nu))
    k = 0.1 * size * rng.standard_normal(us.shape)
    K = 0.1 * size * rng.standard_normal((KNOTS, system.nu, system.ndx)) / np.sqrt(system.ndx)
    gaps = 0.05 * rng.standard_normal((KNOTS + 1, system.ndx))
    lower, upper = us - 0.05 * size * rng.random(us.shape), us + 0.05 * size * rng.random(us.shape)
    lower[rng.random(us.shape) < 0.3], upper[rng.random(us.shape) < 0.3] = -np.inf, np.inf
    return xs, us, k, K, gaps, lower, upper


@pytest.mark.parametrize("what", ["feedback", "gaps", "limits", "both"])
@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize("robot", [*ROBOTS, *CASES])
def test_against_single_steps(robot, integrator, what, rng):
    system, points, controls = make_system(robot, 0.002 if robot in CASES else 0.005, integrator, rng)
    xs, us, k, K, gaps, lower, upper = policy(system, points[0], controls[0], rng)
    x0 = system.integrate(xs[0], 0.02 * rng.standard_normal(system.ndx))
    options = {}
    if what in ("gaps", "both"):
        options["gaps"] = gaps
    if what in ("limits", "both"):
        options |= {"lower": lower, "upper": upper}
    X, U = system.closed_loop_rollout(x0, xs, us, k, K, ALPHAS, **options)
    X_steps, U_steps = closed_loop_by_steps(system, x0, xs, us, k, K, ALPHAS, **options)
    assert np.isfinite(X_steps).all() and X.shape == X_steps.shape and U.shape == U_steps.shape
    np.testing.assert_allclose(X, X_steps, atol=1e-9 * max(1.0, np.abs(X_steps).max()))
    np.testing.assert_allclose(U, U_steps, atol=1e-9 * max(1.0, np.abs(U_steps).max()))
    if what in ("limits", "both"):
        assert (U >= lower).all() and (U <= upper).all()
        assert np.isin(U, [lower, upper]).any() and not np.isin(U, [lower, upper]).all()


@pytest.mark.parametrize("robot", ["ur5", "joint_zoo"])
def test_candidates_keep_their_share_of_the_gaps(robot, rng):
    """By `difference` and `step`: gaps (1 - alpha) gap_t between a candidate's states and its own dynamics."""
    system, points, controls = make_system(robot, 0.005, "semi_implicit_euler", rng)
    xs, us, k, K, gaps, _, _ = policy(system, points[0], controls[0], rng)
    X, U = system.closed_loop_rollout(xs[0], xs, us, k, K, ALPHAS, gaps)
    for alpha, states, torques in zip(ALPHAS, X, U, strict=True):
        np.testing.assert_allclose(system.difference(states[0], xs[0]), (1 - alpha) * gaps[0], atol=1e-12)
        for t in range(KNOTS):
            left = system.difference(states[t + 1], system.step(states[t], torques[t]))
            np.testing.assert_allclose(left, (1 - alpha) * gaps[t + 1], atol=1e-10)


def test_a_step_of_length_zero_stays_where_it_is(rng):
    """With the gaps that are there, xs and us themselves come back; and candidates may be more than the lanes."""
    system, points, controls = make_system("joint_zoo", 0.005, "semi_implicit_euler", rng)
    xs, us, k, K, _, _, _ = policy(system, points[0], controls[0], rng)
    x0 = system.integrate(xs[0], 0.3 * rng.standard_normal(system.ndx))
    reached = [x0, *(system.step(xs[t], us[t]) for t in range(KNOTS))]
    gaps = np.array([system.difference(x, y) for x, y in zip(xs, reached, strict=True)])
    assert np.abs(gaps).min() < 0.1 < np.abs(gaps).max()
    X, U = system.closed_loop_rollout(x0, xs, us, k, K, np.zeros(11), gaps)
    assert X.shape[0] == 11
    for states, torques in zip(X, U, strict=True):
        assert max(np.abs(system.difference(a, b)).max() for a, b in zip(xs, states, strict=True)) < 1e-9
        np.testing.assert_allclose(torques, us, atol=1e-9 * np.abs(us).max())


def test_without_gaps_and_limits_nothing_changes(rng):
    """Zero gaps and infinite limits are none."""
    system, points, controls = make_system("ur5", 0.005, "semi_implicit_euler", rng)
    xs, us, k, K, gaps, lower, _ = policy(system, points[0], controls[0], rng)
    X, U = system.closed_loop_rollout(xs[0], xs, us, k, K, ALPHAS)
    everything = np.full_like(lower, np.inf)
    X_wide, U_wide = system.closed_loop_rollout(xs[0], xs, us, k, K, ALPHAS, None, -everything, everything)
    np.testing.assert_allclose(X_wide, X, atol=1e-12)
    np.testing.assert_allclose(U_wide, U, atol=1e-12 * np.abs(U).max())
    X_closed, _ = system.closed_loop_rollout(xs[0], xs, us, k, K, ALPHAS, 0.0 * gaps)
    np.testing.assert_allclose(X_closed, X, atol=1e-12)


def test_a_diverging_candidate_leaves_the_others_alone(rng):
    system, points, controls = make_system("ur5", 0.005, "semi_implicit_euler", rng)
    xs, us, k, K, gaps, _, _ = policy(system, points[0], controls[0], rng)
    alphas = np.array([1.0, 1e200, 0.5])
    with np.errstate(all="ignore"):
        X, _ = system.closed_loop_rollout(xs[0], xs, us, k, K, alphas, gaps)
    expected, _ = system.closed_loop_rollout(xs[0], xs, us, k, K, alphas[[0, 2]], gaps)
    assert not np.isfinite(X[1]).all()
    np.testing.assert_array_equal(X[[0, 2]], expected)


def test_read_only_arrays_compile_nothing_more(rng):
    """Initial states of problems are read-only: steps, rollouts and expansions of these run what is compiled."""
    system, points, controls = make_system(next(iter(ROBOTS)), 0.005, next(iter(INTEGRATORS)), rng)
    xs, us, k, K, gaps, lower, upper = policy(system, points[0], controls[0], rng)

    def results():
        return (
            system.step(xs[:-1], us), system.step(xs[0], us), system.rollout(xs[0], us), *system.linearize(xs, us),
            *system.closed_loop_rollout(xs[0], xs, us, k, K, ALPHAS, gaps, lower, upper),
        )  # fmt: skip

    first = results()
    before = PROGRESS.compiled, [len(x.overloads) for x in (drive_steps, drive_closed_loops, drive_linearization)]
    for array in (xs, us, k, K):
        array.flags.writeable = False
    for given, again in zip(first, results(), strict=True):
        np.testing.assert_array_equal(again, given)
    after = PROGRESS.compiled, [len(x.overloads) for x in (drive_steps, drive_closed_loops, drive_linearization)]
    assert after == before


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_closed_loops_are_compiled_once(integrator, rng):
    """Whatever there is to follow; and steps and rollouts are those of every integrator."""
    system, points, controls = make_system(next(iter(ROBOTS)), 0.005, integrator, rng)
    xs, us, k, K, gaps, lower, upper = policy(system, points[0], controls[0], rng)
    other, _, _ = make_system(next(iter(ROBOTS)), 0.005, next(x for x in INTEGRATORS if x != integrator), rng)
    other.rollout(xs[0], us), other.step(xs[0], us)
    before = PROGRESS.compiled, len(drive_closed_loops.overloads), len(drive_steps.overloads)
    starts, pull = np.tile(xs[0], (len(ALPHAS), 1)), rng.standard_normal(us.shape)
    remembered = rng.standard_normal((KNOTS, system.nu, system.nu + 1))
    full, _ = system.closed_loop_rollout(xs[0], xs, us, k, K, ALPHAS)
    of_zeros = {"shift": 0.0 * ALPHAS, "pull": pull}, {"before": 0.0 * remembered}, {"gaps": 0.0 * gaps}
    for x0 in (xs[0], starts):
        for options in of_zeros:
            found, _ = system.closed_loop_rollout(x0, xs, us, k, K, ALPHAS, **options)
            np.testing.assert_allclose(found, full, rtol=1e-13, atol=1e-13)
        for options in ({"gaps": gaps}, {"lower": lower, "upper": upper}):
            found, _ = system.closed_loop_rollout(x0, xs, us, k, K, ALPHAS, **options)
            assert np.abs(found - full).max() > 0.0
    assert (PROGRESS.compiled, len(drive_closed_loops.overloads), len(drive_steps.overloads)) == before
