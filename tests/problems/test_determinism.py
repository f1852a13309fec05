"""The same bits from every solve, whatever the number of threads."""

import numpy as np
import pytest

import dynamics
import problems
import trajopt
from tests.reference.rigid_body_models import load_reference


@pytest.fixture
def threads():
    before = dynamics.num_threads()
    yield dynamics.set_num_threads
    dynamics.set_num_threads(before)


def constrained(p, constraints=(), formulation="forward", actuation=None, us_init=None):
    """A robot's problem with constraints, another formulation or other motors."""
    system = dynamics.RigidBodySystem(p.system.model, p.system.dt, actuation=actuation, formulation=formulation)
    us = p.us_init if us_init is None else us_init
    return trajopt.Problem(system, p.x0, p.horizon, p.running_costs, p.terminal_costs, constraints, us)


def limited():
    p = problems.make("arm", horizon=40)
    limit = 0.3 * p.system.model.effort_limit
    return constrained(p, [trajopt.ControlBounds(-limit, limit)]), {}


def slowed():
    p = problems.make("arm", horizon=40)
    top = np.r_[np.full(6, np.inf), np.full(6, 3.0)]
    speed = trajopt.StateBounds(p.system, -top, top)
    return constrained(p, [speed]), {}


def with_gaps():
    p = problems.make("arm", horizon=40)
    xs = p.x0 + 0.05 * np.random.default_rng(3).standard_normal((41, 12))
    return constrained(p), {"xs": xs}


def accelerated():
    p = problems.make("arm", horizon=40)
    return constrained(p, formulation="inverse"), {}


def two_fingers():
    """Branches, and motors that move several joints each."""
    model, data = load_reference("panda")
    n = model.nv
    B = np.eye(n) + 0.3 * np.random.default_rng(n).standard_normal((n, n))
    system = dynamics.RigidBodySystem(model, 0.01, actuation=B, formulation="inverse")
    x0 = np.r_[data["q"][0], np.zeros(n)]
    goal = np.r_[data["q"][0] + 0.1, np.zeros(n)]
    hold = np.linalg.solve(B, dynamics.gravity_forces(model, data["q"][0]))
    costs = [trajopt.ControlCost(1e-3, hold), trajopt.StateCost(system, goal, 1.0)]
    end = [trajopt.StateCost(system, goal, 100.0)]
    return trajopt.Problem(system, x0, 30, costs, end, us_init=np.tile(hold, (30, 1))), {}


def solve_with(count, threads, make):
    threads(count)
    problem, start = make()
    return trajopt.DDP(max_iterations=60).solve(problem, **start)


def plain():
    return problems.make("arm"), {}


@pytest.mark.parametrize("make", [plain, limited, slowed, with_gaps, accelerated, two_fingers])
def test_threads_do_not_change_a_bit(make, threads, monkeypatch):
    monkeypatch.setattr("dynamics.simd.threads.MINIMUM_WORK", 1)  # so that even small calls are split
    first, *others = (solve_with(count, threads, make) for count in (1, 2, 2))
    assert (first.iterations > 2 and first.cost < first.log[0].cost) or make is slowed
    for other in others:
        for name in ("xs", "us", "K", "k", "Vx", "Vxx"):
            np.testing.assert_array_equal(getattr(first, name), getattr(other, name))
        assert other.cost == first.cost and other.iterations == first.iterations
        for a, b in zip(first.constraints, other.constraints, strict=True):
            np.testing.assert_array_equal(a.multipliers, b.multipliers)
