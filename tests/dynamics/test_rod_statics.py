"""Shapes, equilibria and frequencies of rods against stored solutions that do not come from this discretisation."""

import numpy as np
import pytest
from scipy.linalg import eigh

from dynamics import Prismatic
from dynamics.rods.model.cross_section import Circular, Elastic
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from tests.reference.rod_robots import REFERENCE, cantilever, manipulator, tip
from tests.tolerances import IDENTITY, SLOPE, relative_error

FREQUENCIES = REFERENCE["frequencies"]["cases"]


@pytest.mark.parametrize("case", REFERENCE["helix"]["cases"])
def test_helix(case):
    """A rod of constant strains."""
    builder = RodModelBuilder()
    builder.add_rod(
        "rod", "world", case["L"], Circular(0.01), Elastic(1e6, 0.5, 1e3), LegendreBasis(0, 0, 0, 0, 0, 0), points=4
    )
    robot = SoftRobot(builder.build())
    strains = np.array(case["xi"]) - [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]
    assert relative_error(tip(robot, "rod", strains), np.array(case["g_tip"])) < IDENTITY


@pytest.mark.parametrize("case", REFERENCE["static_cdm"]["cases"], ids=lambda case: str(case["tensions_N"]))
def test_manipulator_under_tensions(case):
    robot, tensions = manipulator(), np.array(case["tensions_N"], float)
    rest = static_equilibrium(robot, tensions)
    expected = case["gvs_24dof_5gauss"]
    assert rest.converged
    assert np.abs(rest.q - expected["q"]).max() < 1e-9
    assert np.abs(tip(robot, "arm", rest.q)[:3, 3] - expected["tip"]).max() < 1e-9
    assert np.linalg.norm(tip(robot, "arm", rest.q)[:3, 3] - case["tip"]) < 3e-3  # what 24 coordinates leave
    assert rest.residual < 1e-12
    again = static_equilibrium(robot, tensions, q0=rest.q)
    assert again.converged and again.iterations == 1


def test_gravity_on_a_slender_rod():
    """Against the boundary value problem of a Cosserat rod, and closer to it with more coordinates."""
    expected = np.array(REFERENCE["static_gravity_rodA"]["tip"])
    errors = []
    for order, points in ((3, 6), (8, 14)):
        basis = LegendreBasis(bending_y=order, bending_z=order, stretch=order, shear_z=order)
        robot = cantilever(FREQUENCIES["rodA"], points, basis)
        rest = static_equilibrium(robot, [])
        assert rest.converged
        errors.append(np.abs(tip(robot, "rod", rest.q)[:3, 3] - expected).max())
    assert errors[1] < 3e-6 < errors[0] < 1e-3


@pytest.mark.parametrize("name", FREQUENCIES)
def test_frequencies_of_a_cantilever(name):
    """Against Timoshenko's beam; the error is that of the kinematics between points, of fourth order."""
    case, errors = FREQUENCIES[name], []
    for points in (20, 40):
        robot = cantilever(case, points, LegendreBasis(bending_z=9, shear_y=9), gravity=(0.0, 0.0, 0.0))
        zero = np.zeros(robot.nq)
        M = robot.residual_derivatives(zero, zero, zero, []).M
        values = np.sqrt(eigh(robot.model.stiffness, M, eigvals_only=True)[:3]) / (2.0 * np.pi)
        errors.append(np.abs(values / case["Timoshenko_kappa1_Hz"][:3] - 1.0))
    assert errors[0][0] < 1e-6
    order = np.log2(errors[0] / errors[1])
    assert (np.abs(order - 4.0) < 2.0 * SLOPE).all(), order


def test_tensions_pull(rng):
    """A tendon below the axis bends the rod down, and the work of tensions is that of their generalised forces."""
    robot = manipulator(gravity=(0.0, 0.0, 0.0))
    tensions = np.array([0.0, 1.0, 1.0, 0.0, 0.0])
    rest = static_equilibrium(robot, tensions)
    place = tip(robot, "arm", rest.q)
    assert place[2, 3] < -1e-3 and abs(place[1, 3]) < 1e-9
    assert rest.q[15] < 0.0  # compressed


def test_random_tensions_converge(rng):
    """Tensions of up to 100 N, as Mathew et al. take them, from the straight shape."""
    robot = manipulator()
    still = np.zeros(robot.nq)
    for tensions in rng.uniform(0.0, 100.0, (20, 5)):
        rest = static_equilibrium(robot, tensions)
        r = robot.residual(rest.q, still, still, tensions)
        assert rest.converged and np.abs(r).max() < 1e-9


def test_without_an_equilibrium():
    """A body that falls along a rail: the method says so and returns finite numbers."""
    builder = RodModelBuilder()
    builder.add_body("cart", "world", Prismatic("z"), mass=1.0)
    robot = SoftRobot(builder.build())
    rest = static_equilibrium(robot, [], method="newton")
    assert not rest.converged and np.isfinite(rest.q).all() and rest.residual == pytest.approx(9.81)
    assert rest.status == "a singular Jacobian"
    every = static_equilibrium(robot, [], max_iterations=20)
    assert not every.converged and np.array_equal(every.q, rest.q) and every.iterations > rest.iterations
    methods = ("Newton's method: a singular Jacobian", "descent: too many iterations", "loading: too many iterations")
    assert every.status == "; ".join(methods)


def test_few_iterations():
    limited = static_equilibrium(manipulator(), np.full(5, 20.0), max_iterations=1, method="newton")
    assert not limited.converged and limited.iterations == 1
