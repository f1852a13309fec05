"""What contacts would have had to do for a simulated motion: pulling, leaving their cones, landing off the ground."""

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from problems.walker import FRICTION

FEET = ("lf_foot", "rf_foot", "lh_foot", "rh_foot")


@pytest.fixture(scope="module")
def plan():
    """A trot."""
    return trajopt.DDP(switch_threshold=0.1).solve(problems.make("quadruped_trot"))


@pytest.fixture(scope="module")
def heavier(plan):
    """The robot with a load on one side."""
    return plan.problem.system.model.with_body("load", "base", mass=0.6, com=(0.1, 0.08, 0.05))


def test_a_plan_that_is_followed_keeps_its_contacts(plan):
    motion = trajopt.simulate(plan, dt=plan.problem.system.dt)
    found = motion.contacts(1.001 * FRICTION)
    assert set(found.frames) == set(FEET) and found.holds
    assert np.abs(found.landings).max() < 5e-3 and (found.steepest <= 1.001 * FRICTION).all()
    assert "ContactReport" in repr(found) and len(repr(found)) < 400


def test_shares_and_ratios_are_those_of_the_forces(plan, heavier):
    motion = trajopt.simulate(plan, model=heavier, policy="open loop")
    found = motion.contacts(0.3)
    forces = motion.system.contact_forces(motion.xs, motion.us)
    for i, frame in enumerate(found.frames):
        f = forces[np.abs(forces[:, i]).max(axis=1) > 0.0, i]
        normal, along = f[:, 2], np.hypot(f[:, 0], f[:, 1])
        assert found.pulls[i] == pytest.approx((normal < 0.0).mean(), abs=1e-12), frame
        assert found.slips[i] == pytest.approx((along > 0.3 * normal).mean(), abs=1e-12)
        assert found.steepest[i] == pytest.approx((along / normal)[normal > 0.0].max(), rel=1e-12)
    assert not found.holds and (found.slips >= found.pulls).all()
    assert np.isnan(motion.contacts().slips).all()


def test_landings_are_heights_over_those_of_the_plan(plan, heavier):
    motion = trajopt.simulate(plan, model=heavier, policy="open loop")
    found, model, nq = motion.contacts(), plan.problem.system.model, plan.problem.system.model.nq
    impacts = np.flatnonzero(plan.problem.system.durations == 0.0)
    for t, feet in zip(impacts, (("lf_foot", "rh_foot"), ("rf_foot", "lh_foot")), strict=True):
        for foot in feet:
            there, planned = (
                dynamics.frame_placement(model, x[:nq], foot).p[2]
                for x in (motion.xs[motion.knots[t + 1]], plan.xs[t + 1])
            )
            assert found.landings[found.frames.index(foot)] == pytest.approx(there - planned, abs=1e-12)
    assert np.abs(found.landings).max() > 1e-4


def test_bad_input(plan):
    motion = trajopt.simulate(plan, dt=plan.problem.system.dt)
    with pytest.raises(ValueError, match="friction: got -1"):
        motion.contacts(-1.0)
    with pytest.raises(ValueError, match="normal: got zeros"):
        motion.contacts(0.6, np.zeros(3))
    with pytest.raises(ValueError, match="normal: "):
        motion.contacts(0.6, np.zeros(2))
    pendulum = trajopt.simulate(trajopt.DDP().solve(problems.make("pendulum")))
    with pytest.raises(TypeError, match=r"contacts: got a motion of a .*, expected a system with contacts"):
        pendulum.contacts()
