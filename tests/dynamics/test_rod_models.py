"""Models, sections, strain bases, tendons and robots of rods: what they compute from figures, and what they refuse."""

import math

import numpy as np
import pytest

from dynamics import Fixed, Revolute
from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.cross_section import Circular, Rectangular
from dynamics.rods.model.strain_basis import LegendreBasis, StrainBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from tests.reference.rod_robots import SOFT, hybrid, manipulator
from tests.tolerances import IDENTITY, relative_error

BENDING = LegendreBasis(bending_z=1)


def builder_with(**changes) -> RodModelBuilder:
    """A builder with a rod "rod", where arguments of `add_rod` may be changed."""
    arguments = {"length": 0.5, "section": Circular(0.02), "material": SOFT, "basis": BENDING, **changes}
    builder = RodModelBuilder()
    builder.add_rod("rod", "world", **arguments)
    return builder


def body_with(**changes):
    builder = builder_with()
    builder.add_body(**{"name": "body", "parent": "rod", "joint": Revolute("z"), **changes})


def rod_model():
    return builder_with().build()


def hinged(joint=None):
    builder = RodModelBuilder()
    rod = manipulator().model.rods["arm"]
    builder.add_rod("arm", "world", rod.length, rod.section, rod.material, rod.basis, joint=joint or Revolute("y"))
    return builder.build()


# ------------------------------------------------------------------------------------------------ figures
def test_uniform_rod():
    """Mass, stiffness and damping of a uniform rod, by the integrals of Legendre polynomials."""
    model = builder_with(section=Rectangular(height=0.02, width=0.03)).build()
    assert model.total_mass == pytest.approx(1000.0 * 0.02 * 0.03 * 0.5, rel=1e-13)
    bending = 0.02**3 * 0.03 / 12.0 * 0.5 * np.diag([1.0, 1.0 / 3.0])
    assert relative_error(model.stiffness, 1e6 * bending) < IDENTITY
    assert relative_error(model.damping, 3e4 * bending) < IDENTITY
    assert model.coordinate_names == ("rod bending_z 0", "rod bending_z 1")


def test_coordinates_of_a_hybrid_robot():
    robot = hybrid()
    model = robot.model
    assert model.nq == model.nv == len(model.coordinate_names) == robot.nq
    assert robot.control_names == ("inner", "tendon 1", "tendon 2", "weight", "shoulder") and robot.nu == 5
    own = model.joint_coordinates["shoulder"]
    assert model.stiffness[own, own] == 0.2 and model.damping[own, own] == 0.1
    assert relative_error(model.stiffness, model.stiffness.T) < IDENTITY
    B = robot.residual_derivatives(*np.zeros((3, robot.nq)), np.zeros(5)).B
    for column, name in ((3, "weight"), (4, "shoulder")):
        expected = np.zeros(robot.nq)
        expected[model.joint_coordinates[name]] = 1.0
        assert np.array_equal(B[:, column], expected)


# ------------------------------------------------------------------------------------------------ tendons
def test_straight_tendon_on_a_straight_rod():
    """A tendon at distance z pulls with a constant bending moment and no other one."""
    robot = SoftRobot(builder_with(basis=LegendreBasis(0, 0, 0, 0)).build(), [Tendon.straight("rod", 0.003, 0.01)])
    B = robot.residual_derivatives(*np.zeros((3, 4)), [2.0]).B
    assert relative_error(B[:, 0], [0.0, -0.5 * 0.01, 0.5 * 0.003, -0.5]) < IDENTITY


def test_slopes_of_routes():
    """By complex steps where the function takes complex numbers, by differences elsewhere, also behind abs()."""
    rod = rod_model().rods["rod"]
    exact = np.cos(3.0 * rod.nodes[1:-1])
    smooth = Tendon("rod", lambda X: 0.005 * np.sin(3.0 * X), 0.0).routing(rod)
    assert relative_error(smooth[1:-1, 2], 0.015 * exact) < IDENTITY
    for route in (lambda X: 0.005 * math.sin(3.0 * X), lambda X: 0.005 * np.sin(3.0 * abs(X))):
        assert relative_error(Tendon("rod", route, 0.0).routing(rod)[1:-1, 2], 0.015 * exact) < 1e-8
    given = Tendon("rod", 0.0, lambda X: 0.005 * np.sin(3.0 * X), dz=lambda X: 0.015 * np.cos(3.0 * X)).routing(rod)
    assert np.array_equal(given[1:-1, 3], 0.015 * exact)


def test_helix_has_the_slopes_of_its_route():
    rod = rod_model().rods["rod"]
    angle = lambda X: 2.0 * np.pi * 1.5 * X / 0.5 + 0.3  # noqa: E731
    by_hand = Tendon("rod", lambda X: 0.01 * np.cos(angle(X)), lambda X: 0.01 * np.sin(angle(X)))
    assert relative_error(Tendon.helix("rod", 0.01, 1.5, 0.3).routing(rod), by_hand.routing(rod)) < IDENTITY


# ------------------------------------------------------------------------------------------------ refusals
BAD = {
    # sections and material
    # bases
    "empty": (lambda: LegendreBasis(), ValueError, "functions: got none"),
    "infinite": (
        lambda: builder_with(basis=StrainBasis({"torsion": [lambda s: s / (s - s)]})), ValueError, "is not finite",
    ),
    # rods
    "length": (lambda: builder_with(length=0.0), ValueError, "rod 'rod': length: got 0.0"),
    "few points": (lambda: builder_with(points=1), ValueError, "cannot resolve the 2 functions of bending_z"),
    "dependent": (
        lambda: builder_with(basis=StrainBasis({"torsion": [np.sin, np.sin]})), ValueError, "without stiffness",
    ),
    # bodies
    "parent": (lambda: body_with(parent="red"), ValueError, "parent: got 'red', expected .*did you mean 'rod'"),
    "placement": (
        lambda: body_with(placement=(2.0 * np.eye(3), np.zeros(3))), ValueError, "placement: got a rotation",
    ),
    "no coordinates": (lambda: RodModelBuilder().build(), ValueError, "the model has no coordinates"),
    # tendons and robots
    "model": (lambda: SoftRobot(None), TypeError, "model: got NoneType"),  # pyright: ignore
    "tendon's rod": (
        lambda: SoftRobot(rod_model(), [Tendon("rot", 0.0, 0.0)]), ValueError, "rod of tendon 'tendon 0': got 'rot'",
    ),
    "tendon's name": (
        lambda: SoftRobot(rod_model(), 2 * [Tendon("rod", 0.0, 0.0, name="a")]), ValueError,
        r"tendons\[1\]: the name 'a' is taken",
    ),
    "outside": (
        lambda: SoftRobot(rod_model(), [Tendon("rod", 0.0, lambda X: 0.05 * X, name="a")]), ValueError,
        r"tendon 'a': at X = 0\.\d+ m of rod 'rod' it is at \(y, z\) = \(0, 0\.02\d+\) m, outside of the section Circ",
    ),
    "route": (
        lambda: SoftRobot(rod_model(), [Tendon("rod", 0.0, lambda X: float("nan"))]), ValueError, "tendon 0': z: at 0",
    ),
    "torque twice": (
        lambda: SoftRobot(hinged(), torques=["arm", "arm"]), ValueError, r"torques\[1\]: 'arm' is given",
    ),
    "torque of none": (
        lambda: SoftRobot(hinged(Fixed()), torques=["arm"]), ValueError,
        "joint of 'arm' has no degree of freedom, expected at least one",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_refusals(what):
    build, error, message = BAD[what]
    with np.errstate(all="ignore"), pytest.raises(error, match=message):
        build()
