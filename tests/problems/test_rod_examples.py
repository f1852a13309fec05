"""The soft robots of problems.rods: sizes of the paper, and motions that symmetry or figures foretell."""

import numpy as np
import pytest

from dynamics.rods.kinematics.center_lines import link_placements
from dynamics.rods.stepping.simulation import simulate
from problems.rods.cable_manipulator import TIP, cable_manipulator
from problems.rods.manipulator_motion import HANGING, WALL, manipulator_in_cylinder, manipulator_motion
from problems.rods.serial_arm import serial_arm
from problems.rods.underwater_vehicle import underwater_vehicle

EXAMPLES = {
    "cable_manipulator": (manipulator_motion, 24, 5),
    "contact": (manipulator_in_cylinder, 24, 5),
    "serial_arm": (serial_arm, 27, 0),
    "underwater_vehicle": (underwater_vehicle, 80, 2),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_sizes(name):
    """Coordinates of table 3 of the paper, inputs that fit the robot."""
    make, n, nu = EXAMPLES[name]
    example = make()
    assert example.name == name and example.title
    assert example.robot.nq == n and example.robot.nu == nu
    assert np.shape(example.controls(0.7)) == (nu,)
    assert set(example.prescribed or ()) <= set(example.robot.model.joint_coordinates)


def test_swings_begin_at_rest_and_have_their_derivatives():
    prescribed = serial_arm().prescribed
    assert prescribed is not None and len(prescribed) == 7
    h, t = 1e-4, 0.83
    for swing in prescribed.values():
        assert swing(0.0)[:2] == (0.0, 0.0)
        before, here, after = (np.array(swing(x)) for x in (t - h, t, t + h))
        np.testing.assert_allclose((after - before)[:2] / (2.0 * h), here[1:], rtol=0.0, atol=1e-6)
        assert np.abs([swing(x)[0] for x in np.linspace(0.0, 10.0, 200)]).max() <= 0.25 * np.pi


def test_vehicle_swims_straight():
    """Flagella at thirds of a turn and opposite torques: the vehicle moves along its axis and does not turn aside."""
    example = underwater_vehicle()
    run = simulate(example.robot, 2.0, example.controls, method="newmark", dt=0.02)
    body = run.q[-1, example.robot.model.joint_coordinates["body"]]
    assert np.abs(body[[1, 2, 4, 5]]).max() < 1e-5
    assert abs(body[3]) > 0.05
    turned = [run.q[-1, example.robot.model.joint_coordinates[shaft]].item() for shaft in ("front", "rear")]
    assert turned[0] > 1.0 and turned[1] < -1.0


def test_manipulator_stays_in_the_cylinder():
    """Its nodes press into the wall by no more than the stiffness lets them; without the wall they would be outside."""
    contact = manipulator_in_cylinder()
    free = cable_manipulator(points=10, base=(HANGING, np.zeros(3)))
    reach = []
    for robot in (contact.robot, free):
        run = simulate(robot, 3.0, contact.controls)
        tips = link_placements(robot.model, run.q)[1][:, 0]
        reach.append(np.linalg.norm(tips[:, :2], axis=1).max() + TIP)
    assert WALL.radius < reach[0] < WALL.radius + 2e-3
    assert reach[1] > WALL.radius + 5e-2
