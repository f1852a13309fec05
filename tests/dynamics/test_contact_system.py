"""RigidBodySystem with contacts: steps, rollouts in lanes, expansions, forces, errors, and a shift of weight.

Robots: HyQ on four feet and on two, the project's quadruped with gains, and an arm held at its tip, all moving.
"""

from dataclasses import replace

import numpy as np
import pytest

import dynamics
import trajopt
from dynamics import ContactSet, PointContact, RigidBodySystem
from problems.quadruped_model import FEET, quadruped, standing
from tests.reference import contact_cases
from tests.reference.contact_cases import contacts_on
from tests.reference.random_robots import random_states
from tests.reference.robot_systems import CASES, INTEGRATORS, make_contact_system, model_slopes, step
from tests.tolerances import IDENTITY, SLOPE, relative_error

EULER = INTEGRATORS[:2]


@pytest.fixture(params=EULER)
def integrator(request):
    return request.param


@pytest.fixture(params=CASES)
def case(request):
    return request.param


# ------------------------------------------------------------------------------------------------ motion


def test_rollout_repeats_steps(case, integrator, rng):
    system, xs, us = make_contact_system(case, 0.002, integrator, rng)
    us = np.tile(us, (2, 1))
    states = system.rollout(xs[0], us)
    for t, u in enumerate(us):
        assert relative_error(states[t + 1], system.step(states[t], u)) <= IDENTITY


@pytest.mark.parametrize("axes", ["local_world_aligned", "local"])
def test_contact_forces(case, axes, rng):
    """Those of contact dynamics in world axes, whatever axes the contacts ask for; states and expansions do not notice
    which."""
    system, xs, us = make_contact_system(case, 0.01, "semi_implicit_euler", rng, axes)
    q, v = xs[:, : system.nq], xs[:, system.nq :]
    expected = dynamics.contact_dynamics(system.model, q, v, us @ system.actuation.B.T, system.contacts)
    f, moment = expected.f, expected.moment
    placements = [dynamics.frame_placement(system.model, q, c.frame) for c in system.contacts.contacts]
    if axes == "local":
        R = np.stack([placement.R for placement in placements], axis=1)
        f, moment = (np.einsum("kcij,kcj->kci", R, x) for x in (f, moment))
    more = np.vstack([xs, xs[:1]])
    assert relative_error(system.contact_forces(more, us), f) <= IDENTITY
    assert relative_error(system.contact_moments(more, us), moment, floor=1e-9) <= IDENTITY
    assert np.array_equal(system.contact_points(xs), np.stack([p for _, p in placements], axis=1))
    assert np.array_equal(system.center_of_mass(xs), dynamics.center_of_mass(system.model, q))
    world = [type(c)(c.model, c.frame, c.gains, c.reference) for c in system.contacts.contacts]
    aligned = RigidBodySystem(system.model, 0.01, actuation=system.actuation.B, contacts=world)
    lam = rng.standard_normal((3, system.ndx))
    for one, other in zip(
        (system.step(xs, us), *system.linearize(xs, us), *system.hessian_products(xs, us, lam)),
        (aligned.step(xs, us), *aligned.linearize(xs, us), *aligned.hessian_products(xs, us, lam)),
        strict=True,
    ):
        assert relative_error(one, other, floor=1e-9) <= 10 * IDENTITY


# ------------------------------------------------------------------------------------------------ expansions
@pytest.mark.parametrize("feet", [FEET, FEET[::3]])
def test_slopes_of_the_quadruped(feet, integrator, rng):
    """Near its stance, moving at about a metre per second."""
    system, x, u = stance(feet, 0.02, integrator)
    x = system.integrate(np.tile(x, (3, 1)), 0.2 * rng.standard_normal((3, system.ndx)))
    assert model_slopes(system, x, np.tile(u, (3, 1)), rng) == pytest.approx((2.0, 3.0), abs=SLOPE)


@pytest.mark.parametrize("integrator", ["semi_implicit_euler", "rk4"])
def test_slopes_with_redundant_contacts(integrator, rng):
    """Three points on the trunk and a foot that yield a little: steps, expansions and forces know of it."""
    model, frames = contact_cases.with_points(contact_cases.robot("hyq", rng)[0], [0, 0, 0, 3], rng)
    contacts = contacts_on(model, frames, rng, rigid=(3,))
    q, v, tau = random_states(model, 3, rng, vectors=2)
    system = RigidBodySystem(model, 0.002, integrator, None, contacts, contact_damping=0.2)
    xs, us = np.hstack([q, v]), 10.0 * tau
    hard = RigidBodySystem(model, 0.002, integrator, None, contacts)
    assert dynamics.contact_dynamics(model, q, v, us, contacts).redundant.all()
    assert relative_error(hard.step(xs, us), system.step(xs, us)) > 1e-6
    for x, u, x_next in zip(xs, us, system.step(xs, us), strict=True):
        assert relative_error(x_next, step(system, x, u)) <= IDENTITY
    expected = dynamics.contact_dynamics(model, q, v, us, contacts, 0.2)
    assert relative_error(system.contact_forces(xs, us), expected.f) <= IDENTITY
    assert relative_error(system.contact_moments(xs, us), expected.moment) <= IDENTITY
    assert model_slopes(system, xs, us, rng) == pytest.approx((2.0, 3.0), abs=SLOPE)


@pytest.mark.parametrize("held", ["hyq on two feet, gains", "hyq on a foot and a point"])
def test_runge_kutta_in_contact(held, rng):
    system, xs, us = make_contact_system(held, 0.01, "rk4", rng)
    for x, u, x_next in zip(xs, us, system.step(xs, us), strict=True):
        assert relative_error(x_next, step(system, x, u)) <= IDENTITY
    assert model_slopes(system, xs, us, rng) == pytest.approx((2.0, 3.0), abs=SLOPE)


def test_runge_kutta_in_contact_is_of_order_four(rng):
    """The quadruped moves away from its stance for 0.1 s under constant torques; halving the step."""
    system, x0, u = stance(FEET, 0.01, gains=(100.0, 20.0))
    x0 = system.integrate(x0, 0.05 * rng.standard_normal(system.ndx))
    ends = []
    for steps in (8, 16, 32, 128):
        held = RigidBodySystem(system.model, 0.1 / steps, "rk4", "floating_base", system.contacts)
        x = x0
        for _ in range(steps):
            x = held.step(x, u)
        ends.append(x)
    errors = [np.abs(system.difference(ends[-1], x)).max() for x in ends[:-1]]
    assert np.log2(np.divide(errors[:-1], errors[1:])) == pytest.approx(4.0, abs=0.2)


# ------------------------------------------------------------------------------------------------ construction
def test_errors_of_the_constructor():
    model = quadruped()
    feet = [PointContact(model, foot) for foot in FEET]
    with pytest.raises(ValueError, match=r"contact_damping: got 0\.1, expected zero for a robot without contacts"):
        RigidBodySystem(model, 0.01, contact_damping=0.1)
    arm, tips = contact_cases.robot("ur5", np.random.default_rng(0))
    with pytest.raises(ValueError, match="formulation: got 'inverse', expected no contacts"):
        RigidBodySystem(arm, 0.01, contacts=[PointContact(arm, tips[0])], formulation="inverse")
    heavier = replace(model, arrays=model.arrays._replace(mass=2.0 * model.arrays.mass))
    with pytest.raises(ValueError, match="belongs to another model"):
        RigidBodySystem(heavier, 0.01, contacts=feet)
    assert RigidBodySystem(quadruped(), 0.01, contacts=feet).in_contact  # an equal robot is the same


def test_a_set_or_its_contacts(rng):
    model = quadruped()
    feet = [PointContact(model, foot) for foot in FEET]
    x, u = np.r_[standing(), 0.1 * rng.standard_normal(18)], rng.standard_normal(12)
    one = RigidBodySystem(model, 0.01, actuation="floating_base", contacts=feet)
    other = RigidBodySystem(model, 0.01, actuation="floating_base", contacts=ContactSet(model, feet))
    assert np.array_equal(one.step(x, u), other.step(x, u))
    free = RigidBodySystem(model, 0.01, actuation="floating_base")
    assert free.contact_forces(x[None], u[None]).shape == free.contact_points(x[None]).shape == (1, 0, 3)


# ------------------------------------------------------------------------------------------------ standing
def stance(feet, dt, integrator="semi_implicit_euler", gains=(600.0, 50.0)):
    """The quadruped held at its feet, its state at rest and the torques nearest to holding it there."""
    model = quadruped()
    q = standing()
    contacts = [PointContact(model, foot, gains, dynamics.frame_placement(model, q, foot).p) for foot in feet]
    system = RigidBodySystem(model, dt, integrator, "floating_base", contacts)
    J = contact_cases.jacobian(model, q, contacts)
    loads = np.linalg.lstsq(np.hstack([system.actuation.B, J.T]), dynamics.gravity_forces(model, q), rcond=None)[0]
    return system, system.state(q), loads[:12]


def shift_problem():
    """20 knots in which the centre of mass moves 3 cm, forwards, sideways and down."""
    system, x0, u0 = stance(FEET, 0.02)
    target = dynamics.center_of_mass(system.model, x0[:19]) + 0.03 * np.array([2.0, 2.0, -1.0]) / 3.0
    running = [
        trajopt.StateCost(system, x0, np.r_[np.full(18, 0.1), np.full(18, 0.1)]),
        trajopt.ControlCost(0.1, u0),
        trajopt.ResidualCost(dynamics.CenterOfMass(system.model, target), 100.0),
    ]
    terminal = [
        trajopt.ResidualCost(dynamics.CenterOfMass(system.model, target), 1e4),
        trajopt.StateCost(system, x0, np.r_[np.zeros(18), np.ones(18)]),
    ]
    return trajopt.Problem(system, x0, 20, running, terminal, us_init=np.tile(u0, (20, 1)), name="shift"), target


def test_a_robot_at_rest_stays():
    problem, _ = shift_problem()
    xs = problem.system.rollout(problem.x0, problem.us_init)
    assert np.abs(problem.system.difference(problem.x0, xs)).max() < 1e-10
    forces = problem.system.contact_forces(xs, problem.us_init)
    weight = problem.system.model.total_mass * 9.81
    assert forces[:, :, 2].sum(axis=1) == pytest.approx(np.full(20, weight), rel=1e-3)


def test_the_quadruped_shifts_its_weight():
    problem, target = shift_problem()
    model = problem.system.model
    solutions = {name: solver.solve(problem) for name, solver in (("ilqr", trajopt.ILQR()), ("ddp", trajopt.DDP()))}
    for solution in solutions.values():
        assert solution.converged
        q = solution.xs[:, :19]
        assert np.linalg.norm(dynamics.center_of_mass(model, q[-1]) - target) < 1e-3
        for contact in problem.system.contacts.contacts:
            drift = dynamics.frame_placement(model, q, contact.frame).p - contact.reference
            assert np.linalg.norm(drift, axis=1).max() < 1e-4
    ilqr, ddp = solutions["ilqr"], solutions["ddp"]
    assert ddp.cost == pytest.approx(ilqr.cost, rel=1e-6)
    assert ddp.iterations < ilqr.iterations
