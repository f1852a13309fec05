"""The fin-ray finger and the parallel robot: their counts, shapes at rest, and motions by two methods."""

import numpy as np
import pytest

from dynamics.rods.algorithms.closed_chains import closure_error
from dynamics.rods.kinematics.center_lines import link_placement
from dynamics.rods.statics.equilibrium import static_equilibrium
from dynamics.rods.stepping.simulation import simulate
from problems.rods.fin_ray_finger import fin_ray_finger
from problems.rods.parallel_robot import parallel_robot
from tests.tolerances import relative_error


@pytest.mark.parametrize(
    ("make", "coordinates", "rods", "constraints"),
    [(fin_ray_finger, 74, 17, [2] * 5 + [3]), (parallel_robot, 63, 3, [6, 6])],
)
def test_counts(make, coordinates, rods, constraints):
    example = make()
    model = example.robot.model
    assert example.name == make.__name__ and model.nq == coordinates and len(model.rods) == rods
    assert np.diff(model.closures.row_start).tolist() == constraints
    assert np.abs(closure_error(model, np.zeros(coordinates))).max() <= 1e-15


def test_the_finger_bends_away_from_the_wall_that_rises():
    """The other way for the opposite stroke, about as much; the slider needs the force that this takes."""
    robot = fin_ray_finger().robot
    tips, forces = [], []
    for stroke in (0.0, 0.005, -0.005):
        rest = static_equilibrium(robot, [], prescribed={"slider": stroke})
        assert rest.converged and np.abs(closure_error(robot.model, rest.q)).max() <= 1e-10
        tips.append(link_placement(robot.model, "left 6", rest.q)[1])
        forces.append(rest.prescribed_forces["slider"][0])
    assert abs(tips[0][0]) < 1e-3 and np.abs(np.array(tips)[:, 1]).max() <= 1e-12
    assert tips[1][0] < -0.01 and tips[2][0] > 0.01 and forces[1] > forces[0] > forces[2]


def test_the_plate_follows_its_wrench():
    """At rest it sinks upright between its pillars; it moves along forces and turns about moments."""
    robot = parallel_robot().robot
    rest = static_equilibrium(robot, [])
    assert rest.converged
    R, p = link_placement(robot.model, "plate", rest.q)
    assert np.allclose(R, np.eye(3), atol=1e-9) and 0.14 < p[2] < 0.15
    for axis in (0, 1):
        pushed = static_equilibrium(robot, [], rest.q, wrenches=0.5 * np.eye(6)[3 + axis][None])
        assert pushed.converged and link_placement(robot.model, "plate", pushed.q)[1][axis] - p[axis] > 1e-3
    turned = static_equilibrium(robot, [], rest.q, wrenches=0.05 * np.eye(6)[2][None])
    assert turned.converged and link_placement(robot.model, "plate", turned.q)[0][1, 0] > 1e-2


@pytest.mark.parametrize(("make", "duration", "dt"), [(fin_ray_finger, 0.02, 0.0002), (parallel_robot, 0.3, 0.005)])
def test_methods_agree(make, duration, dt):
    example = make()
    inputs = {"wrenches": example.wrenches, "prescribed": example.prescribed}
    stiff = simulate(example.robot, duration, example.controls, rtol=1e-4, atol=1e-6, **inputs)
    newmark = simulate(example.robot, duration, example.controls, method="newmark", dt=dt, **inputs)
    for run in (stiff, newmark):
        assert max(np.abs(closure_error(example.robot.model, q)).max() for q in run.q) < 1e-6
    assert relative_error(newmark.q[-1], stiff.q[-1]) < 2e-2
    assert relative_error(newmark.multipliers[-1], stiff.multipliers[-1]) < 5e-2
