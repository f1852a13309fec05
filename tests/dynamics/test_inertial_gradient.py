"""Gradients of steps by inertial parameters, against differences of the steps of robots with others."""

import numpy as np
import pytest
from hypothesis import given

import dynamics
import problems
from dynamics.derivatives.regressor import inverse_dynamics_regressor, regressor_product
from problems.quadruped_model import walker
from tests.reference.random_robots import random_states, random_trees, settings
from tests.tolerances import IDENTITY, relative_error

FOURTH_ORDER = ((1.0, 8 / 12), (-1.0, -8 / 12), (2.0, -1 / 12), (-2.0, 1 / 12))


def actuated(joint_names=("first", "second", "third"), **parameters):
    """Three hinges, damped and rubbing, with armature, motors with gears, a thruster and a spring."""
    builder = dynamics.ModelBuilder()
    parent, offset = "world", np.zeros(3)
    for i, name in enumerate(joint_names):
        builder.add_body(
            f"link {name}", parent, dynamics.Revolute("xyz"[i]), joint_name=name, placement=(np.eye(3), offset),
            mass=1.0 + 0.2 * i, com=(0.1, 0.05, -0.2), inertia=0.02 * np.eye(3), armature=0.05, damping=0.3,
            friction=0.02, **parameters,
        )  # fmt: skip
        parent, offset = f"link {name}", np.array([0.0, 0.1, -0.4])
    return builder


def arm(integrator="semi_implicit_euler"):
    builder = actuated()
    builder.add_actuator("motor", {"first": 5.0})
    builder.add_thruster("jet", "link third")
    builder.add_spring({"second": 1.0}, stiffness=3.0)
    return dynamics.RigidBodySystem(builder.build(), 0.02, integrator, actuation="model")


def with_mimic():
    builder = actuated()
    builder.add_mimic("third", "second", multiplier=-0.5, offset=0.1)
    return dynamics.RigidBodySystem(builder.build(), 0.02)


def standing():
    return walker().stance(0.01)


SYSTEMS = {
    "hinges": lambda: dynamics.RigidBodySystem(actuated().build(), 0.02),
    "explicit Euler": lambda: dynamics.RigidBodySystem(actuated().build(), 0.02, "explicit_euler"),
    "RK4": lambda: dynamics.RigidBodySystem(actuated().build(), 0.02, "rk4", friction_speed=0.1),
    "two of three driven": lambda: dynamics.RigidBodySystem(actuated().build(), 0.02, actuation=np.eye(3)[:, 1:]),
    "accelerations": lambda: dynamics.RigidBodySystem(actuated().build(), 0.02, formulation="inverse"),
    "motor, jet and spring": arm,
    "motor, jet and spring, RK4": lambda: arm("rk4"),
    "durations": lambda: dynamics.RigidBodySystem(actuated().build(), 0.02).timed(),
    "quadrotor": lambda: problems.make("quadrotor", integrator="semi_implicit_euler").system,
    "quadruped in stance": standing,
    "closed loop, RK4": lambda: problems.make("four_bar").system,
}


def points(system, rng, K=4):
    """States near the neutral one, controls; last a duration where that is free."""
    around = getattr(system, "standing", system.neutral_state)
    xs = np.array([system.integrate(around, 0.3 * rng.standard_normal(system.ndx)) for _ in range(K)])
    us = rng.standard_normal((K, system.nu))
    if getattr(system, "free_duration", False):
        us[:, -1] = rng.uniform(0.01, 0.03, K)
    return xs, us


def along(system, xs, us, lam, direction, h=1e-3):
    """d/dp of sum lam'f, p moving all parameters in a direction (nb, 10)."""
    pi, here, total = dynamics.inertial_parameters(system.model), system.step(xs, us), 0.0
    timed = getattr(system, "free_duration", False)
    for multiple, weight in FOURTH_ORDER:
        model = dynamics.with_inertial_parameters(system.model, pi + multiple * h * direction, physical=False)
        other = system.with_model(model)
        following = (other.timed() if timed else other).step(xs, us)
        total += weight / h * np.sum(lam * system.difference(here, following))
    return total


@pytest.mark.parametrize("name", SYSTEMS)
def test_steps_of_other_robots(name, rng):
    system = SYSTEMS[name]()
    xs, us = points(system, rng)
    lam, pi = rng.standard_normal((len(us), system.ndx)), dynamics.inertial_parameters(system.model)
    gradient = system.parameter_gradient(xs, us, lam)
    size = np.abs(pi).max(axis=1, keepdims=True)
    for _ in range(3):
        direction = 0.1 * np.where(pi == 0.0, 1e-3 * size, pi) * rng.standard_normal(pi.shape)
        assert (gradient * direction).sum() == pytest.approx(along(system, xs, us, lam, direction), rel=1e-8)


def test_phases_and_impacts(rng):
    system = problems.make("quadruped_trot").system
    assert any(segment.system.dt == 0.0 for segment in system.segments)
    x0 = problems.make("quadruped_trot").x0
    xs = np.array([system.integrate(x0, 0.1 * rng.standard_normal(system.ndx)) for _ in range(system.horizon)])
    us, lam = rng.standard_normal((system.horizon, system.nu)), rng.standard_normal((system.horizon, system.ndx))
    gradient, pi = system.parameter_gradient(xs, us, lam), dynamics.inertial_parameters(system.model)
    direction = 0.1 * pi * rng.standard_normal(pi.shape)
    assert (gradient * direction).sum() == pytest.approx(along(system, xs, us, lam, direction), rel=1e-8)


def test_mimic_joints(rng):
    """Of the bodies of all joints, in the coordinates of those that lead."""
    system = with_mimic()
    xs, us = points(system, rng)
    lam = rng.standard_normal((len(us), system.ndx))
    gradient, n, h = system.parameter_gradient(xs, us, lam), system.nv, system.dt
    q, v = xs[:, :n].copy(), xs[:, n:].copy()
    a = (system.step(xs, us)[:, n:] - v) / h
    Y = inverse_dynamics_regressor(system.model, q, v, a)
    fu = system.linearize(xs, us)[1]  # a torque on every joint that leads
    expected = -np.einsum("tij,ti,tjp->p", fu, lam, Y).reshape(gradient.shape)
    assert gradient.shape == (system.model.full.nb, 10)
    assert relative_error(gradient, expected) < IDENTITY


def test_accelerations_know_no_masses(rng):
    system = dynamics.JointAccelerationSystem(actuated().build(), 0.02)
    xs, us = points(system, rng)
    assert not system.parameter_gradient(xs, us, np.ones((len(us), system.ndx))).any()


def test_what_is_refused(rng):
    builder = dynamics.ModelBuilder()
    builder.add_body("body", "world", dynamics.FreeFlyer(), mass=1.0, inertia=np.eye(3))
    system = dynamics.RigidBodySystem(builder.build(), 0.02, "rk4")
    xs, us = points(system, rng)
    with pytest.raises(ValueError, match='got integrator="rk4" with joints of several degrees of freedom'):
        system.parameter_gradient(xs, us, np.ones((len(us), system.ndx)))
    with pytest.raises(ValueError, match="lam: got shape"):
        system.parameter_gradient(xs, us, np.ones((2, 3)))


# ------------------------------------------------------------------------------------------------ what it is made of
@settings
@given(tree=random_trees())
def test_products_with_the_regressor(tree):
    model, rng = tree.build()
    q, v, a = random_states(model, 5, rng)
    y = rng.standard_normal(v.shape)
    expected = np.einsum("ti,tip->tp", y, inverse_dynamics_regressor(model, q, v, a)).reshape(5, -1, 10)
    assert relative_error(regressor_product(model, q, v, a, y), expected) <= IDENTITY


@settings
@given(tree=random_trees())
def test_robots_with_other_parameters(tree):
    """Parameters come back, torques are linear in them, and what holds of the whole tree is kept."""
    model, rng = tree.build()
    pi = dynamics.inertial_parameters(model)
    other = dynamics.with_inertial_parameters(model, 2.0 * pi, physical=False)
    assert relative_error(dynamics.inertial_parameters(other), 2.0 * pi) <= IDENTITY
    assert other.total_mass == pytest.approx(2.0 * model.total_mass, rel=IDENTITY)
    q, v, a = random_states(model, 3, rng)
    still = dynamics.inverse_dynamics(model, q, v, a) - model.armature * a
    assert relative_error(dynamics.inverse_dynamics(other, q, v, a) - model.armature * a, 2.0 * still) <= IDENTITY
    assert relative_error(dynamics.center_of_mass(other, q), dynamics.center_of_mass(model, q)) <= IDENTITY


def test_parameters_of_no_body():
    model = actuated().build()
    pi = dynamics.inertial_parameters(model)
    assert dynamics.with_inertial_parameters(model, pi) == model
    lighter, flat = pi.copy(), pi.copy()
    lighter[1, 0], flat[2, 4:] = -1.0, [1e-3, 0.0, 1e-3, 0.0, 0.0, 1.0]
    with pytest.raises(ValueError, match="parameters of 'link second': got a mass of -1 kg"):
        dynamics.with_inertial_parameters(model, lighter)
    with pytest.raises(ValueError, match="parameters of 'link third': got principal moments"):
        dynamics.with_inertial_parameters(model, flat)
    assert dynamics.inertial_parameters(dynamics.with_inertial_parameters(model, lighter, physical=False))[1, 0] == -1.0
    with pytest.raises(ValueError, match="has mimic joints, expected independent joints"):
        dynamics.with_inertial_parameters(with_mimic().model, pi)
