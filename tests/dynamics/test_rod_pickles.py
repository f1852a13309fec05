"""Models and robots of rods survive pickling: equal by content, with the same numbers."""

import pickle

import numpy as np
import pytest

from dynamics.rods.loads.tendons import Tendon
from dynamics.rods.model.cross_section import Anisotropic, Circular
from dynamics.rods.model.strain_basis import LegendreBasis
from dynamics.rods.robot.builder import RodModelBuilder
from dynamics.rods.robot.soft_robot import SoftRobot
from dynamics.rods.statics.equilibrium import static_equilibrium
from problems.rods.fin_ray_finger import fin_ray_finger
from tests.reference.rod_robots import random_state


def curved(reference) -> SoftRobot:
    """A rod of given stiffness and shape at rest, with a tendon around it."""
    builder = RodModelBuilder()
    material = Anisotropic(np.diag([0.1, 0.2, 0.2, 400.0, 100.0, 100.0]), 1000.0)
    basis = LegendreBasis(bending_y=1, bending_z=1)
    builder.add_rod("rod", "world", 0.5, Circular(0.02), material, basis, points=4, reference=reference)
    return SoftRobot(builder.build(), [Tendon.helix("rod", 0.01, 2.0)])


BENT = np.outer(np.linspace(0.0, 1.0, 6), [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]) + [0.0, 0.0, 0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("make", [lambda: fin_ray_finger().robot, lambda: curved(BENT)])
def test_there_and_back(make, rng):
    robot = make()
    hash(robot)
    again = pickle.loads(pickle.dumps(robot))
    assert again == robot and hash(again) == hash(robot) and again.control_names == robot.control_names
    q, v, a, _, u = random_state(robot, rng)
    assert np.array_equal(again.residual(q, v, a, u), robot.residual(q, v, a, u))
    assert again.model == robot.model == pickle.loads(pickle.dumps(robot.model))
    for names in (again.model.rods, again.model.link_segments, again.model.joint_coordinates):
        with pytest.raises(TypeError):
            names["other"] = None  # pyright: ignore[reportIndexIssue]


def test_shapes_from_a_copy():
    robot = curved(BENT)
    copy = pickle.loads(pickle.dumps(robot))
    assert np.array_equal(static_equilibrium(copy, [1.0]).q, static_equilibrium(robot, [1.0]).q)


def test_a_function_that_cannot_be_pickled():
    with pytest.raises((AttributeError, pickle.PicklingError), match="lambda"):
        pickle.dumps(curved(lambda s: np.tile([0.0, 0.0, 0.0, 1.0, 0.0, 0.0], (len(s), 1))))
