"""Vibrations about shapes at rest, energies, momenta and centers of mass of soft robots, against closed forms."""

import numpy as np
import pytest

from dynamics import FreeFlyer, Prismatic, Revolute
from dynamics.rods.algorithms.inverse_dynamics import center_of_mass, energies, inverse_dynamics, mass_matrix, momentum
from dynamics.rods.kinematics.center_lines import link_placements
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.statics.vibrations import vibration_modes
from tests.reference.rod_robots import SOFT, hybrid, manipulator
from tests.tolerances import CENTRAL_DIFFERENCES, IDENTITY, relative_error

LENGTH, RADIUS, YOUNG, DENSITY = 1.0, 0.002, 1e9, 1000.0
AREA, SECOND_MOMENT = np.pi * RADIUS**2, np.pi / 4.0 * RADIUS**4
UNIT = np.sqrt(YOUNG * SECOND_MOMENT / (DENSITY * AREA)) / LENGTH**2 / (2.0 * np.pi)  # Hz, of beta L = 1
CANTILEVER = np.array([1.87510406871196, 4.69409113297417, 7.85475743823761])
STILL = (0.0, 0.0, 0.0)


def beam(pinned: bool, viscosity: float = 0.0, follower: bool = False) -> SoftRobot:
    """A slender beam along x that bends about y: clamped and free, or between a hinge and one on a slider."""
    builder, joint = RodModelBuilder(STILL), Revolute("y") if pinned else None
    material = Elastic(YOUNG, 0.3, DENSITY, viscosity)
    basis = LegendreBasis(bending_y=9)
    builder.add_rod("rod", "world", LENGTH, Circular(RADIUS), material, basis, joint=joint, points=30)
    if pinned:
        builder.add_body("slider", "world", Prismatic("x"), (np.eye(3), [LENGTH, 0.0, 0.0]), mass=1e-3)
        builder.add_closure("pin", "rod", "slider", Revolute("y"))
    builder.add_wrench("slider" if pinned else "rod", follower=follower)
    return SoftRobot(builder.build())


# ------------------------------------------------------------------------------------------------ vibrations
@pytest.mark.parametrize("pinned", [False, True])
def test_frequencies_of_slender_beams(pinned):
    """(beta L)^2 of Euler and Bernoulli; rotary inertia and the steps between points change 1e-4 of it."""
    robot = beam(pinned)
    modes = vibration_modes(robot, np.zeros(robot.nq), count=3)
    expected = UNIT * (np.pi * np.arange(1.0, 4.0) if pinned else CANTILEVER) ** 2
    assert modes.frequencies.shape == (3,) and modes.shapes.shape == (3, robot.nq)
    assert relative_error(modes.frequencies / expected, np.ones(3)) < 3e-4
    M = mass_matrix(robot.model, np.zeros(robot.nq))
    assert relative_error(modes.shapes @ M @ modes.shapes.T, np.eye(3)) < 1e-9


def test_a_column_slows_down_towards_buckling():
    """Squares of frequencies fall as 1 - P / P_k, and are negative beyond."""
    robot = beam(True)
    load = np.pi**2 * YOUNG * SECOND_MOMENT / LENGTH**2
    free = vibration_modes(robot, np.zeros(robot.nq), count=2).frequencies
    for ratio in (0.5, 0.99, 1.5):
        wrench = [[0.0, 0.0, 0.0, -ratio * load, 0.0, 0.0]]
        found = vibration_modes(robot, np.zeros(robot.nq), count=2, wrenches=wrench).frequencies
        assert np.abs(found * np.abs(found) / free**2 - (1.0 - ratio / np.array([1.0, 4.0]))).max() < 1e-3
        assert (found > 0.0).all() == static_equilibrium(robot, [], wrenches=wrench).stable


def test_decay():
    """Of a bending mode: viscosity 3 J in place of the stiffness E J, so 3 viscosity omega^2 / (2 E)."""
    robot = beam(False, viscosity=100.0)
    modes = vibration_modes(robot, np.zeros(robot.nq), count=3)
    assert relative_error(modes.decay_rates, 1.5 * 100.0 / YOUNG * (2.0 * np.pi * modes.frequencies) ** 2) < 1e-9


def pendulum(side: float) -> SoftRobot:
    builder = RodModelBuilder()
    builder.add_body("bob", "world", Revolute("y"), mass=2.0, com=(0.0, 0.0, -0.5 * side), inertia=0.1 * np.eye(3))
    builder.add_body("cart", "bob", Prismatic("x"), mass=1.0, stiffness=50.0)
    return SoftRobot(builder.build())


def test_pendulums_that_hang_and_that_stand():
    """With the cart held a pendulum of one degree of freedom."""
    omega = np.sqrt(2.0 * 9.81 * 0.5 / (0.1 + 2.0 * 0.25))
    for side in (1.0, -1.0):
        modes = vibration_modes(pendulum(side), np.zeros(2), prescribed=("cart",))
        assert relative_error(modes.frequencies, [side * omega / (2.0 * np.pi)]) < IDENTITY
        assert modes.shapes[0, 1] == 0.0


def test_modes_of_what_has_no_energy():
    robot = beam(False, follower=True)
    wrench = [[0.0, 0.0, 0.0, -0.01, 0.0, 0.0]]
    with pytest.raises(NotImplementedError, match="stiffness is not symmetric"):
        vibration_modes(robot, np.zeros(robot.nq), wrenches=wrench)


def test_a_joint_that_moves_no_mass():
    builder = RodModelBuilder()
    builder.add_body("light", "world", Revolute("x"), stiffness=1.0)
    with pytest.raises(ValueError, match="a joint moves no mass"):
        vibration_modes(SoftRobot(builder.build()), [0.0])


def test_modes_of_a_bent_manipulator():
    """Small motions as the linearized equation of motion has them."""
    robot, tensions = manipulator(), np.array([5.0, 1.0, 0.0, 2.0, 1.0])
    q = static_equilibrium(robot, tensions).q
    modes = vibration_modes(robot, q, tensions, count=4)
    parts = robot.residual_derivatives(q, 0.0 * q, 0.0 * q, tensions)
    for frequency, shape in zip(modes.frequencies, modes.shapes, strict=True):
        stiff = parts.dr_dq @ shape
        assert relative_error((2.0 * np.pi * frequency) ** 2 * parts.M @ shape, stiff) < 1e-6


# ------------------------------------------------------------------------------------------------ energies, momenta
def test_energies_of_a_hybrid_robot(rng):
    """Kinetic by the mass matrix; forces of weight and springs are gradients of the others."""
    model = hybrid().model
    q, v = rng.uniform(-0.5, 0.5, (2, 5, model.nq))
    found = energies(model, q, v)
    kinetic = [0.5 * x @ mass_matrix(model, p) @ x for p, x in zip(q, v, strict=True)]
    assert relative_error(found.kinetic, kinetic) < IDENTITY
    h = 1e-5 * np.eye(model.nq)
    still = np.zeros(model.nq)
    up, down = (energies(model, q[0] + sign * h, still) for sign in (1.0, -1.0))
    for which, force in (
        ("gravitational", inverse_dynamics(model, q[0], still, still)),
        ("elastic", model.stiffness @ q[0]),
    ):
        assert relative_error((getattr(up, which) - getattr(down, which)) / 2e-5, force) < CENTRAL_DIFFERENCES
    one = energies(model, q[0], v[0])
    assert np.shape(one.kinetic) == () and one == tuple(part[0] for part in found)


def test_linear_momentum_moves_the_center_of_mass(rng):
    model = hybrid().model
    q, v = rng.uniform(-0.5, 0.5, (2, 4, model.nq))
    h = 1e-5
    rate = (center_of_mass(model, q + h * v) - center_of_mass(model, q - h * v)) / (2.0 * h)
    found = momentum(model, q, v)
    assert relative_error(found.linear, model.total_mass * rate) < CENTRAL_DIFFERENCES
    about_origin = momentum(model, q, v, "world")
    lever = np.cross(center_of_mass(model, q), found.linear)
    assert relative_error(about_origin.angular, found.angular + lever) < IDENTITY
    assert np.array_equal(about_origin.linear, found.linear)


def test_momentum_of_rigid_bodies(rng):
    """By their placements, and rates of these, one body after another."""
    builder = RodModelBuilder()
    inertia = np.diag([0.02, 0.03, 0.04])
    builder.add_body("base", "world", FreeFlyer(), mass=1.5, com=(0.1, 0.0, 0.2), inertia=inertia)
    builder.add_body(
        "arm", "base", Revolute("y"), (np.eye(3), [0.3, 0.0, 0.0]), mass=0.5, com=(0.2, 0.0, 0.0), inertia=inertia
    )
    model, h = builder.build(), 1e-5
    q, v = rng.uniform(-0.5, 0.5, (2, model.nq))
    R, p = link_placements(model, q)
    later, sooner = link_placements(model, q + h * v), link_placements(model, q - h * v)
    angular = np.zeros(3)
    for k, (mass, com) in enumerate(((1.5, [0.1, 0.0, 0.2]), (0.5, [0.2, 0.0, 0.0]))):
        W = (later[0][k] - sooner[0][k]) / (2.0 * h) @ R[k].T
        w = np.array([W[2, 1], W[0, 2], W[1, 0]])
        c = p[k] + R[k] @ com
        speed = (later[1][k] - sooner[1][k]) / (2.0 * h) + np.cross(w, c - p[k])
        angular += R[k] @ inertia @ R[k].T @ w + mass * np.cross(c, speed)
    assert relative_error(momentum(model, q, v, about="world").angular, angular) < CENTRAL_DIFFERENCES


def test_where_a_uniform_rod_has_its_mass():
    builder = RodModelBuilder()
    builder.add_rod("rod", "world", 0.6, Circular(0.02), SOFT, LegendreBasis(bending_y=0))
    model = builder.build()
    assert relative_error(center_of_mass(model, [0.0]), [0.3, 0.0, 0.0]) < IDENTITY
    k = 2.0  # an arc: its center lies sin(a) / a and (1 - cos(a)) / a radii from its start, a its angle
    arc = np.array([np.sin(0.5 * 0.6 * k) ** 2 * 2.0 / k, 0.0, -(0.6 - np.sin(0.6 * k) / k)]) / (0.6 * k)
    assert relative_error(center_of_mass(model, [k]), arc) < 1e-6


def test_no_mass_no_center():
    builder = RodModelBuilder()
    builder.add_body("light", "world", Revolute("x"))
    with pytest.raises(ValueError, match="model: has no mass"):
        center_of_mass(builder.build(), [0.0])
