"""HybridSystem with rigid feet, contacts that yield and RK4, against single steps, contact dynamics and impulses.

The project's quadruped holds two points, then one of them as a rigid foot.
"""

import numpy as np
import pytest

import dynamics
from dynamics import HybridSystem, RigidBodySystem, RigidContact
from problems.quadruped_model import FEET, standing
from tests.dynamics.test_hybrid_system import DT, IMPACT, MODEL, PAIR, around, motion
from tests.reference.robot_systems import model_slopes
from tests.tolerances import IDENTITY, SLOPE, relative_error

FOOT = RigidContact(MODEL, FEET[0], (0.0, 50.0))
LANDING = [("tiptoe", PAIR, 2), ("flat", [FOOT, FEET[3]], 2)]


def test_a_foot_that_stops_turning_makes_an_impact():
    system = HybridSystem(MODEL, DT, [*LANDING, ("tiptoe", PAIR, 1), ("other", [FEET[0], FEET[3]], 1)])
    assert [s.name for s in system.segments] == ["tiptoe", "impact of flat", "flat", "tiptoe", "other"]


def test_runge_kutta_with_a_rigid_foot_that_yields(rng):
    """Single knots; forces, moments and impulses of what is held, all of them damped."""
    system = HybridSystem(MODEL, DT, LANDING, integrator="rk4", restitution=0.3, contact_damping=0.1)
    xs, us = motion(system, rng)
    for t in range(system.horizon):
        assert relative_error(system.window(t, t + 1).step(xs[t], us[t]), xs[t + 1]) <= IDENTITY
    tau = us @ system.actuation.B.T
    held, points = (system.segments[i].system.contacts for i in (2, 0))
    on_points = dynamics.contact_dynamics(MODEL, xs[:2, :19], xs[:2, 19:], tau[:2], points, 0.1)
    flat = dynamics.contact_dynamics(MODEL, xs[3:5, :19], xs[3:5, 19:], tau[3:5], held, 0.1)
    struck = dynamics.contact_impulse(MODEL, xs[2, :19], xs[2, 19:], held, 0.3, 0.1)
    assert np.array_equal(system.contact_forces(xs, us), [*on_points.f, np.zeros((2, 3)), *flat.f])
    assert np.array_equal(system.contact_moments(xs, us), [*np.zeros((3, 2, 3)), *flat.moment])
    assert flat.moment[:, 0].all() and not flat.moment[:, 1].any()
    assert relative_error(xs[3], np.r_[xs[2, :19], struck.v]) <= IDENTITY
    assert np.array_equal(system.contact_impulses(xs)[2], struck.f)
    hard = HybridSystem(MODEL, DT, LANDING, restitution=0.3)
    assert relative_error(hard.contact_impulses(xs)[2], struck.f) > 1e-3


def test_slopes_of_the_impact_of_a_rigid_foot(rng):
    knot = HybridSystem(MODEL, DT, LANDING, restitution=0.2, contact_damping=0.1).window(IMPACT, IMPACT + 1)
    xs = around(knot, np.r_[standing(), 0.5 * rng.standard_normal(18)], rng)
    assert model_slopes(knot, xs, rng.standard_normal((3, 12)), rng) == pytest.approx((2.0, 3.0), abs=SLOPE)


def test_quasi_static_on_a_rigid_foot(rng):
    """One foot alone carries the robot."""
    q = dynamics.integrate(MODEL, standing(), 0.1 * rng.standard_normal(18))
    stance = HybridSystem(MODEL, DT, [("flat", [FOOT], 1)]).segments[0].system
    u = stance.quasi_static(stance.state(q))
    still = dynamics.contact_dynamics(MODEL, q, np.zeros(18), np.r_[np.zeros(6), u], stance.contacts)
    assert np.abs(still.a).max() < 1e-9


def test_where_a_rigid_foot_starts():
    x0 = np.r_[standing(), np.zeros(18)]
    R, p = dynamics.frame_placement(MODEL, x0[:19], FEET[0])
    for angle in (5e-4, 0.01):
        c, s = np.cos(angle), np.sin(angle)
        turned = R @ np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        foot = RigidContact(MODEL, FEET[0], (600.0, 50.0), (turned, p))
        system = RigidBodySystem(MODEL, DT, actuation="floating_base", contacts=[foot])
        if angle < 1e-3:
            system.check_start(x0)
            continue
        with pytest.raises(ValueError, match=r"x0: frame 'lf_foot' is turned by 0\.01 rad from the reference"):
            system.check_start(x0)
