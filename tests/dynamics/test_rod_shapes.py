"""Shapes of slender rods under dead loads, self-weight and tendons, against solutions that are not of this method."""

import numpy as np
import pytest

from dynamics.rods.kinematics.center_lines import center_lines, link_placements
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from problems.rods.cable_manipulator import BASE, ROD, SOFT, TIP, cable_manipulator
from problems.rods.cable_manipulator import LENGTH as ARM_LENGTH
from tests.reference.rod_robots import REFERENCE, cantilever

LENGTH, STEEL = 0.5, Elastic(young=2e11, poisson=0.3, density=7800.0)
SLENDER = Circular(1e-3)
EI = STEEL.young * np.pi / 4.0 * SLENDER.radius**4
ERROR = 1e-6 * LENGTH


def clamped(order: int, points: int) -> SoftRobot:
    """A rod along x that only bends in its plane, a wrench of the world's axes at its tip."""
    builder = RodModelBuilder(gravity=(0.0, 0.0, 0.0))
    builder.add_rod("rod", "world", LENGTH, SLENDER, STEEL, LegendreBasis(bending_z=order), points=points)
    builder.add_wrench("rod")
    return SoftRobot(builder.build())


def shape_under(robot: SoftRobot, wrench, start) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, and axes and place of the tip."""
    rest = static_equilibrium(robot, [], q0=start, wrenches=[wrench])
    assert rest.converged
    R, p = link_placements(robot.model, rest.q)
    return rest.q, R[0], p[0]


def test_elastica():
    """A dead force across the tip, from alpha = P L^2 / EI of 0.1 on."""
    robot = clamped(9, 40)
    q = np.zeros(robot.nq)
    for row in REFERENCE["elastica_tip_force"]["table"]:
        q, R, p = shape_under(robot, [0.0, 0.0, 0.0, 0.0, row["alpha"] * EI / LENGTH**2, 0.0], q)
        expected = LENGTH * np.array([row["x_tip_over_L"], row["y_tip_over_L"], 0.0])
        assert np.abs(p - expected).max() < ERROR, row
        assert np.arctan2(R[1, 0], R[0, 0]) == pytest.approx(row["theta_tip_rad"], abs=1e-5)


def test_tip_moment():
    """A moment bends the rod to an arc, which one coordinate holds exactly."""
    for robot, tolerance in ((clamped(0, 2), 1e-9), (clamped(4, 40), ERROR)):
        q = np.zeros(robot.nq)
        for row in REFERENCE["tip_moment"]["table"]:
            q, _, p = shape_under(robot, [0.0, 0.0, row["kL"] * EI / LENGTH, 0.0, 0.0, 0.0], q)
            expected = LENGTH * np.array([row["x_tip_over_L"], row["y_tip_over_L"], 0.0])
            assert np.abs(p - expected).max() < tolerance, row


def test_sag_along_the_rod():
    """Self-weight: the middle and the tip against the boundary value problem."""
    case = REFERENCE["static_gravity_rodA"]
    basis = LegendreBasis(bending_y=8, stretch=8, shear_z=8)
    robot = cantilever(REFERENCE["frequencies"]["cases"]["rodA"], 14, basis)
    rest = static_equilibrium(robot, [])
    line = center_lines(robot.model, rest.q, points=3)["rod"].points
    assert rest.converged
    assert np.abs(line[1] - case["mid"]).max() < 3e-6
    assert np.abs(line[2] - case["tip"]).max() < 3e-6


@pytest.mark.parametrize("case", REFERENCE["static_cdm"]["cases"], ids=lambda case: str(case["tensions_N"]))
def test_tendons_bend_the_manipulator(case):
    """Against another implementation, and against the boundary value problem, to which more coordinates converge."""
    tendons = cable_manipulator().tendons
    for (angular, linear, points), other, error in (((10, 5, 12), 1e-9, 5e-5), ((10, 10, 30), None, 1e-6)):
        builder, basis = RodModelBuilder(), LegendreBasis(*3 * [angular], *3 * [linear])
        builder.add_rod(ROD, "world", ARM_LENGTH, Circular(BASE, TIP), SOFT, basis, points=points)
        robot = SoftRobot(builder.build(), tendons)
        rest = static_equilibrium(robot, case["tensions_N"])
        R, p = link_placements(robot.model, rest.q)
        assert rest.converged and np.abs(p[0] - case["tip"]).max() < error
        assert np.abs(R[0] - case["R_tip"]).max() < 20.0 * error
        if other is not None:
            assert np.abs(p[0] - case["gvs_51dof_12gauss"]["tip"]).max() < other
