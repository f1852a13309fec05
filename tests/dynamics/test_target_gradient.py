"""Derivatives of residuals by their targets, along the target's tangent: against residuals of other targets."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.spatial.transform import Rotation

import dynamics
import problems
from dynamics import rods
from dynamics.residuals.robot_residual import target_gradients
from tests.dynamics.test_mimics import hand_builder
from tests.reference.rod_robots import hybrid, manipulator
from tests.tolerances import relative_error
from trajopt.interfaces.system import neutral_state

FOURTH_ORDER = (1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (2.0, -1.0 / 12.0), (-2.0, 1.0 / 12.0)
STEP, DIFFERENCES = 1e-3, 1e-9
AXES = Rotation.from_rotvec([0.4, -0.7, 0.3]).as_matrix()
POINT = np.array([0.3, 0.1, 0.4])


def contact_force():
    problem = problems.make("quadruped_stand")
    return dynamics.ContactForce(problem.system, target=np.arange(12.0).reshape(4, 3)), problem.system


def of_arm(make):
    model = dynamics.load_urdf(problems.model_path("arm6"))
    return make(model, "tool"), dynamics.RigidBodySystem(model, 0.01)


def of_hand(make):
    model = hand_builder(np.random.default_rng(3)).build()
    return make(model, "tip"), dynamics.RigidBodySystem(model, 0.01)


def of_rod(make, robot=manipulator, link="arm"):
    robot = robot()
    return make(robot.model, link), dynamics.SoftRobotSystem(robot, 0.01)


RESIDUALS = {
    "translation": lambda: of_arm(lambda m, f: dynamics.FrameTranslation(m, f, POINT)),
    "velocity": lambda: of_arm(lambda m, f: dynamics.FrameVelocity(m, f, np.arange(6.0), "local")),
    "rotation": lambda: of_arm(lambda m, f: dynamics.FrameRotation(m, f, AXES)),
    "placement": lambda: of_arm(lambda m, f: dynamics.FramePlacement(m, f, (AXES, POINT))),
    "center of mass": lambda: of_hand(lambda m, f: dynamics.CenterOfMass(m, POINT)),
    "momentum": lambda: of_hand(lambda m, f: dynamics.CentroidalMomentum(m, np.arange(6.0))),
    "translation of a hand": lambda: of_hand(lambda m, f: dynamics.FrameTranslation(m, f, POINT)),
    "placement of a hand": lambda: of_hand(lambda m, f: dynamics.FramePlacement(m, f, (AXES, POINT))),
    "forces": contact_force,
    "link": lambda: of_rod(lambda m, f: rods.LinkTranslation(m, f, POINT)),
    "rotation of a link": lambda: of_rod(lambda m, f: rods.LinkRotation(m, f, AXES), hybrid, "tail"),
    "velocity of a link": lambda: of_rod(lambda m, f: rods.LinkVelocity(m, f, np.arange(6.0))),
    "strain": lambda: of_rod(lambda m, f: rods.RodStrain(m, f, 0.4, np.arange(6.0))),
    "elastic forces": lambda: of_rod(lambda m, f: rods.RodForces(m, f, 0.4, np.arange(6.0))),
}


def moved(target, d):
    """T exp(d), or T + d."""
    if isinstance(target, tuple):
        twist = np.zeros((4, 4))
        twist[:3, :3], twist[:3, 3] = np.cross(np.eye(3), d[3:]), d[:3]
        X = expm(twist)
        return target[0] @ X[:3, :3], target[1] + target[0] @ X[:3, 3]
    if target.shape == (3, 3) and d.shape == (3,):
        return target @ Rotation.from_rotvec(d).as_matrix()
    return target + d


@pytest.mark.parametrize("name", RESIDUALS)
def test_targets_that_move(name, rng):
    residual, system = RESIDUALS[name]()
    xs = system.integrate(np.tile(neutral_state(system), (5, 1)), 0.3 * rng.standard_normal((5, system.ndx)))
    us, du = rng.standard_normal((2, 5, system.nu)) if residual.nu is not None else (None, None)
    dx = rng.standard_normal((5, system.ndx))
    value, slope = rng.standard_normal((2, 5, residual.nr))
    found = residual.gradient_by("target", (xs, us, dx, du), value, slope)

    def total(d):
        other = residual.adjusted(target=moved(residual.target, d))
        r, rx, ru = other.evaluate_with_jacobians(xs, us)
        dr = np.einsum("tij,tj->ti", rx, dx) + (0.0 if ru is None else np.einsum("tij,tj->ti", ru, du))
        return float((value * r).sum() + (slope * dr).sum())

    expected = np.zeros(found.shape)
    for index in np.ndindex(*found.shape):
        for multiple, weight in FOURTH_ORDER:
            d = np.zeros(found.shape)
            d[index] = multiple * STEP
            expected[index] += weight / STEP * total(d)
    assert relative_error(found, expected) < DIFFERENCES
    assert residual.gradient_by("frame", (xs, us, dx, du), value, slope) is None


@pytest.mark.parametrize("angle", [0.0, 1e-8, 1e-3, 1.0, 3.0, 3.14])
def test_up_to_half_a_turn(angle, rng):
    """The inverse of the left Jacobian, against the logarithm of a product."""
    axis = rng.standard_normal(3)
    w, b, zero = angle * axis / np.linalg.norm(axis), rng.standard_normal((1, 3)), np.zeros((1, 3))
    r, h = Rotation.from_rotvec(w), 1e-5
    found = target_gradients(w[None], zero, b, zero)[0]

    def log(d):
        return (Rotation.from_rotvec(-d) * r).as_rotvec()

    slopes = np.stack([(log(h * e) - log(-h * e)) / (2.0 * h) for e in np.eye(3)], axis=1)
    assert relative_error(found, (b @ slopes)[0]) < 1e-8


class Doubled(dynamics.FrameTranslation):
    """What is derived from a residual says nothing of its target."""


def test_a_class_of_its_own_is_not_known():
    residual, _ = of_arm(lambda m, f: Doubled(m, f, POINT))
    nothing = np.zeros((1, 12)), None, np.zeros((1, 12)), None
    assert residual.gradient_by("target", nothing, np.ones((1, 3)), np.ones((1, 3))) is None
