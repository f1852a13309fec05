"""Momentum and energy of a robot that stands, steps and strikes the ground: their balance closes as the steps shrink.

    m v+ - m v = sum dt (f + m g) + impulses          h+ - h = sum dt (p - c) x f + (p - c) x impulses
    E+ - E = sum dt u'v + what impacts take
"""

from itertools import pairwise

import numpy as np
import pytest

import dynamics
from problems.quadruped_model import FEET, quadruped, standing

MODEL = quadruped()
HELD = [FEET[0], FEET[1], FEET[2]]
SECONDS = 0.08


def motion(steps):
    """A stance of all feet, three of them, an impact and all again, pushed by smooth torques."""
    dt = SECONDS / steps
    phases = [("all", FEET, steps), ("three", HELD, steps), ("all again", FEET, steps)]
    system = dynamics.HybridSystem(MODEL, dt, phases)
    q0 = standing()
    rest = system.quasi_static(system.state(q0))[0]
    push = np.sin(np.arange(12.0))
    times = np.r_[0.0, np.cumsum(system.durations)][:-1]
    us = rest + 0.15 * np.sin(20.0 * times)[:, None] * push
    us[system.idle] = 0.0
    return system, system.rollout(system.state(q0), us), us


def energy(x):
    q, v = x[:19], x[19:]
    return dynamics.kinetic_energy(MODEL, q, v) + dynamics.potential_energy(MODEL, q)


def balances(steps):
    """What is missing from the balances of momentum (6,) and energy, and the size of their terms."""
    system, xs, us = motion(steps)
    forces, impulses, dt = system.contact_forces(xs, us), system.contact_impulses(xs), system.durations[:, None, None]
    pushes = dt * forces + impulses
    arms = system.contact_points(xs[:-1]) - system.center_of_mass(xs[:-1])[:, None]
    weight = np.array([0.0, 0.0, -9.81 * MODEL.total_mass * system.durations.sum()])
    given = np.r_[pushes.sum(axis=(0, 1)) + weight, np.cross(arms, pushes).sum(axis=(0, 1))]
    ends = dynamics.CentroidalMomentum(MODEL).evaluate(xs[[0, -1]])
    work = np.sum(system.durations[:, None] * us * xs[:-1, 19 + 6 :])
    (strike,) = np.flatnonzero(system.idle)
    taken = energy(xs[strike + 1]) - energy(xs[strike])
    assert np.abs(impulses[strike]).max() > 1e-3 and taken < -1e-5, "the foot strikes the ground"
    return ends[1] - ends[0] - given, energy(xs[-1]) - energy(xs[0]) - work - taken, np.abs(pushes).sum(), abs(work)


def test_balances_close_to_first_order():
    momentum, energies, size, work = zip(*(balances(steps) for steps in (20, 40, 80)), strict=True)
    errors = np.array([np.linalg.norm(m) for m in momentum])
    assert errors[-1] < 2e-3 * size[-1] and abs(energies[-1]) < 5e-2 * work[-1]
    for before, after in (*pairwise(errors), *pairwise(energies)):
        assert after == pytest.approx(0.5 * before, rel=0.25)
