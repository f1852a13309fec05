"""Robots are equal if their content is: arrays, names, frames and limits, but not what they are called."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from dynamics import ModelBuilder, Revolute, Spherical, rods
from dynamics.content import digest
from dynamics.model.model import Frame

COM = (0.1, 0.0, 0.2)
SOFT = rods.Elastic(young=1e6, poisson=0.5, density=1000.0)


def arm(name="arm", mass=1.0, lower=-1.0, joint="elbow"):
    builder = ModelBuilder(name=name)
    builder.add_body("upper", "world", Spherical(), mass=1.0, inertia=np.eye(3))
    builder.add_body("lower", "upper", Revolute("y"), joint_name=joint, mass=mass, com=COM, lower=lower, upper=2.0)
    builder.add_frame("tool", "lower", (np.eye(3), [0.0, 0.0, 0.3]))
    return builder.build()


def rod(name="soft", order=2, length=0.4, damping=0.1):
    builder = rods.RodModelBuilder(name=name)
    builder.add_body("table", "world", Revolute("z"), mass=1.0, damping=damping)
    builder.add_rod("rod", "table", length, rods.Circular(0.02), SOFT, rods.LegendreBasis(bending_y=order))
    return builder.build()


def soft(y=0.01):
    return rods.SoftRobot(rod(), [rods.Tendon.straight("rod", y, 0.0)], torques=["table"])


def turned(model):
    return replace(model, frames={**model.frames, "tool": Frame(1, np.eye(3), np.zeros(3))})


@pytest.mark.parametrize("make", [arm, rod, soft])
def test_what_is_made_alike_is_equal(make):
    one, other = make(), make()
    assert one is not other and one == other and hash(one) == hash(other) and one.differences(other) == []
    assert {one: "here"}[other] == "here"
    assert one != 3 and arm() != rod() and rod() != soft()


def test_a_robot_is_itself_after_its_journey():
    model = arm()
    again = pickle.loads(pickle.dumps(model))
    assert again == model and hash(again) == hash(model)


def test_a_name_is_no_content():
    assert arm("one") == arm("another") and rod("one") == rod("another")


@pytest.mark.parametrize(
    ("one", "other", "parts"),
    [
        (arm(), arm(mass=2.0), "mass, first moment, rotational inertia, subtree mass"),
        (arm(), arm(lower=-2.0), "lower position"),
        (arm(), arm(joint="knee"), "joint names, frames"),
        (arm(), turned(arm()), "frames"),
        (arm(), replace(arm(), damping=np.full(4, 0.2)), "damping"),
        (rod(), rod(damping=0.2), "damping"),
        (rod(), rod(length=0.5), "rods, stiffness, total mass, arrays"),
        (soft(), soft(0.005), "arrays"),
    ],
)
def test_a_difference_is_named(one, other, parts):
    assert one != other and other != one
    assert ", ".join(one.differences(other)) == parts


def test_digests_of_values():
    assert digest((1, np.float64(2.0), "a")) == digest((1.0, 2, "a"))
    assert digest(np.array([0.0])) == digest(np.array([-0.0]))
    different = [None, True, 1, "1", (), (1, 2), (12,), np.zeros(4), np.zeros((2, 2)), np.zeros(4, int), slice(4)]
    assert len({digest(value) for value in different}) == len(different)
    with pytest.raises(TypeError, match="function, which cannot be compared by content"):
        digest(lambda: 0)
