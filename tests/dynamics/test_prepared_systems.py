"""Prepared functions of robots' systems: the results of methods, to the last bit, by nothing but prepared calls."""

from itertools import product

import numpy as np
import pytest

from dynamics import HybridSystem
from problems.quadruped_model import FEET, quadruped, standing
from tests.reference.prepared import PreparedSystem, replay
from tests.reference.robot_systems import CASES, INTEGRATORS, ROBOTS, control_scale, make_system

KNOTS = 11


@pytest.mark.parametrize("integrator", INTEGRATORS)
@pytest.mark.parametrize(("robot", "timed"), [*((robot, False) for robot in CASES), *product(ROBOTS, (False, True))])
def test_robots(robot, integrator, timed, rng):
    system, points, controls = make_system(robot, 0.002 if robot in CASES else 0.005, integrator, rng)
    size = 0.1 * control_scale(system, points, controls)
    xs = np.array([system.integrate(points[0], 0.01 * rng.standard_normal(system.ndx)) for _ in range(KNOTS + 1)])
    us = controls[0] + size * rng.standard_normal((KNOTS, system.nu))
    if timed:
        system, us = system.timed(), np.hstack([us, np.full((KNOTS, 1), system.dt)])
    PreparedSystem(system, xs, us, rng, 0.1 * size).check()


def test_more_step_lengths_than_lanes(rng):
    """Their candidates lie in several blocks of lanes, and are placed in arrays of their own."""
    system, points, controls = make_system("ur5", 0.005, "rk4", rng)
    xs, us = np.repeat(points[:1], 4, axis=0), np.repeat(controls[:1], 3, axis=0)
    k, K = 0.1 * rng.standard_normal(us.shape), 0.01 * rng.standard_normal((3, system.nu, system.ndx))
    given = xs[0].copy(), xs, us, k, K, np.linspace(1.0, 0.0, 19)
    roll = system.prepared_rollouts(*given)
    found = roll()
    us += 0.1
    assert replay(roll)
    for got, wanted in zip(found, system.closed_loop_rollout(*given), strict=True):
        assert got.flags.c_contiguous and np.array_equal(got, wanted)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("actuation", ["floating_base", None])
def test_phases_and_impacts(actuation, timed, rng):
    """Impacts on the same contacts are found at once by methods that are not prepared."""
    pair = [FEET[0], FEET[3]]
    phases = [("trot", pair, 2), ("stance", list(FEET), 9), ("flight", [], 1), ("landing", list(FEET), 1)]
    system = HybridSystem(quadruped(), 0.02, phases, actuation=actuation, restitution=0.2)
    x0 = np.r_[standing(), 0.3 * rng.standard_normal(system.nv)]
    us = system.quasi_static(x0) + 0.1 * rng.standard_normal((system.horizon, system.nu))
    xs = system.rollout(x0, us)
    if timed:
        system, us = system.timed(), np.hstack([us, np.full((system.horizon, 1), system.dt)])
    PreparedSystem(system, xs, us, rng, 1e-3).check()
