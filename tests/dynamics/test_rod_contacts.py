"""Contacts of rods and bodies: derivatives against complex steps, energies, laws and equilibria in closed form."""

import numpy as np
import pytest

from dynamics.rods.loads.contacts import CapsuleContact, CylinderContact, PlaneContact, RodContact, SphereContact
from dynamics.rods.model.arrays import FIRST, FORCES
from dynamics.rods.robot.soft_robot import SoftRobot
from tests.reference.rod_robots import complex_steps, hybrid_builder
from tests.tolerances import COMPLEX_STEP, IDENTITY, relative_error

SMOOTH = {"smoothing": 0.02}


def touching(what: str):
    """The robot of all kinds of joints, whose links touch something deep enough for forces of all kinds."""
    builder = hybrid_builder()
    if what in ("plane", "all"):
        builder.add_contact("trunk", PlaneContact(1e3, [0.2, 0.3, 1.0], [0.0, 0.0, 0.0], **SMOOTH))
        builder.add_contact("flap", PlaneContact(1e2, [-1.0, 0.0, 0.0], [0.5, 0.0, 0.0], exponent=2.0), radius=0.3)
    if what in ("sphere", "all"):
        builder.add_contact("tail", SphereContact(0.3, 1e3, [0.4, 0.2, 0.1], smoothing=0.1))
        builder.add_contact("plate", SphereContact(0.4, 1e3, inside=True), radius=0.1, point=[0.1, 0.2, -0.1])
    if what in ("capsule", "all"):
        builder.add_contact("trunk", CapsuleContact(0.2, 1e3, [0.1, 0.0, 0.0], [0.5, 0.1, 0.0], **SMOOTH), spacing=0.06)
        builder.add_contact("weight", CylinderContact(0.5, 1e3, axis="y", inside=False, **SMOOTH), radius=0.1)
    rates = {"damping": 0.7, "friction": 0.8, "slip": 0.2, **SMOOTH}
    if what in ("rods", "all"):
        builder.add_contact("trunk", RodContact("tail", 1e3, **SMOOTH), radius=0.1)
        builder.add_contact("flap", RodContact("tail", 1e3, radius=0.1, **rates), radius=0.3)
        builder.add_contact("trunk", RodContact("trunk", 1e3, apart=0.1, radius=0.1, **SMOOTH), radius=0.1)
    if what in ("rates", "all"):
        builder.add_contact("trunk", PlaneContact(1e3, [0.2, 0.3, 1.0], **rates))
        builder.add_contact("weight", SphereContact(0.4, 1e2, [0.1, 0.0, 0.1], link="tail", **rates), radius=0.3)
    return SoftRobot(builder.build())


@pytest.mark.parametrize("what", ["plane", "sphere", "capsule", "rods", "rates"])
def test_derivatives_against_complex_steps(what, rng):
    robot = touching(what)
    check(robot, 0.4 * rng.standard_normal((4, robot.nq)))


def check(robot, states):
    """First derivatives of r and the Hessian of w'r, and that contacts have a share in them."""
    n, (q, v, a, w), u = robot.nq, states, np.zeros(robot.nu)
    x = np.concatenate([states.ravel(), u, np.zeros(int(robot.arrays.numbers[1]))])
    J, _ = complex_steps(robot, FORCES, x)
    first = robot.residual_derivatives(q, v, a, u)
    for found, expected in zip(first, (J[:, :n], J[:, n : 2 * n], J[:, 2 * n : 3 * n]), strict=False):
        assert relative_error(found, expected) <= COMPLEX_STEP
    _, T = complex_steps(robot, FIRST, x)
    T = np.einsum("i,kijl->kjl", w, T[: 2 * n * n].reshape(2, n, n, -1))
    H = robot.residual_hessian(q, v, a, u, w)
    expected = T[0, :, :n], T[0, :, n : 2 * n], T[1, :, n : 2 * n], T[0, :, 2 * n : 3 * n]
    for name, found, block in zip(H._fields, H, expected, strict=False):
        assert relative_error(found, block) <= COMPLEX_STEP, name
    assert relative_error(expected[0], expected[0].T) <= IDENTITY
